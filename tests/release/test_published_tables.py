"""A published table is one release: one type, one guarantee, one ε wherever it goes."""

import contextlib
import dataclasses
import json
import os
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.explanation import TableExplanation
from streamsketch.explanation.alone import one_release
from streamsketch.local import MeanAggregator
from streamsketch.privacy import Neighbours
from streamsketch.privacy.neighbours import MOST_KEYS
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.release import AdditiveNoise
from tests.cli.running import Forks
from tests.tampering import tampered

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
SALE = ss.L1(1, unit="sale")
MECHANISM = ss.signs.DPSignLogistic(epsilon=1.0, neighbours=SALE)
KEYS = ["b", "a", "c"]


def secret(projection: ss.projections.Projection = PROJECTION, keys: list[str] = KEYS) -> ss.SketchTable:
    table = projection.table()
    table.update(keys, [1, 2, 3][: len(keys)], [500, 700, 900][: len(keys)])
    return table


def released(**changes: Any) -> ss.PrivateTable:
    options: dict[str, Any] = {"epsilon": 1.0, "neighbours": SALE, "keys_are_public": True} | changes
    return secret().release(**options)


def alone(epsilon: float = 1.0) -> ss.PrivateSketch:
    return PROJECTION.sketch().release(epsilon=epsilon, neighbours=SALE)


# --- the type -------------------------------------------------------------------------------------------------


def test_a_table_is_an_immutable_mapping_in_order_of_its_keys(tmp_path: Path) -> None:
    table = released()
    assert list(table) == list(table.keys()) == ["a", "b", "c"]
    assert len(table) == 3
    assert "a" in table
    assert table["a"] in table.values()
    assert table == dict(reversed(list(table.items())))
    assert (table.projection, table.guarantee) == (PROJECTION, table["a"].guarantee)
    assert set(table.data_ids) == {one for row in table.values() for one in row.data_ids}
    with pytest.raises(TypeError):
        table["a"] = table["b"]  # type: ignore[index]
    table.save(tmp_path / "all.parquet")
    for again in (ss.load(tmp_path / "all.parquet", expect=PROJECTION), pickle.loads(pickle.dumps(table))):  # noqa: S301
        assert type(again) is ss.PrivateTable
        assert again == table
        assert hash(again) == hash(table)
        assert again.to_bytes() == table.to_bytes() == (tmp_path / "all.parquet").read_bytes()
    assert pq.read_table(tmp_path / "all.parquet").equals(table.to_arrow())
    assert repr(table).startswith("<PrivateTable of 3 keys, SJLT(")


def test_one_table_has_one_guarantee(tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match=r"one release with one guarantee, got ε = 1, .* and ε = 2, "):
        ss.PrivateTable({"a": alone(), "b": alone(2.0)})
    mixed = pa.table({"key": ["a", "b"], "sketch": [alone().to_bytes(), alone(2.0).to_bytes()]})
    pq.write_table(mixed, tmp_path / "mixed.parquet")
    with pytest.raises(ss.errors.WireFormatError, match="row 1, guarantee is not that of the rows before"):
        ss.load(tmp_path / "mixed.parquet")


def test_one_guarantee_covers_the_same_data_in_max_keys_rows_and_no_more() -> None:
    for most, refused in ((1, True), (2, False)):
        sketch, near = secret()["a"], ss.L1(1, max_keys=most)
        rows = {key: sketch.release(epsilon=1.0, neighbours=near) for key in ("a", "again")}
        if refused:
            with pytest.raises(ss.InvalidInputError, match=r"that one unit may be in 2 of them"):
                ss.PrivateTable(rows)
        else:
            assert len(ss.PrivateTable(rows)) == 2
    one = alone()
    assert len(ss.PrivateTable({"a": one, "again": one})) == 2, "published twice, not released twice"


def test_two_releases_of_a_table_are_not_one_table_of_other_keys() -> None:
    """A unit in two of the sketches is in four of the releases, which spends twice what one table states."""
    near, data = ss.L1(1, max_keys=2), secret()
    first, second = (data.release(epsilon=1.0, neighbours=near, public_keys=list(data)) for _ in range(2))
    again = {f"{key} again": release for key, release in second.items()}
    for rows, count in (({**first, **again}, 4), ({**first, "a again": second["a"]}, 3)):
        with pytest.raises(ss.InvalidInputError, match=rf"that one unit may be in {count} of them"):
            ss.PrivateTable(rows)
    total = PROJECTION.sketch()
    total.merge(data["a"])
    assert ss.PrivateTable({**first, "all": total.release(epsilon=1.0, neighbours=near)}), "a sketch of its own"


@pytest.mark.parametrize("max_keys", [1, 3, MOST_KEYS])
def test_a_bound_on_all_sketches_together_is_for_one_release_of_each(max_keys: int) -> None:
    near = ss.SketchL2(4, unit="sale", max_keys=max_keys)
    noise = AdditiveNoise(epsilon=1.0, delta=1e-6, neighbours=near)
    data = secret()
    first = data.release(epsilon=1.0, delta=1e-6, neighbours=near, public_keys=list(data))
    assert ss.PrivateTable(first) == first
    apart = {key: noise.release(data[key]) for key in data}
    assert len(ss.PrivateTable(apart)) == 3, "noise of different cells is drawn apart anyway"
    total = PROJECTION.sketch()
    total.merge(data["a"])
    for more in (noise.release(data["a"]), noise.release(total)):
        with pytest.raises(ss.InvalidInputError, match="is for one release of each sketch"):
            ss.PrivateTable({**first, "again": more})


def bounded(neighbours: Neighbours, projection: ss.projections.Projection, keys: list[str]) -> ss.SketchTable:
    """Return the sketches of keys that Ann is in, bounded."""
    agreed = ss.Agreement(projection, key="shop", index={"item": "integer"}, unit="customer", neighbours=neighbours)
    table = ss.bound(pa.table({"shop": keys, "item": [1] * len(keys), "customer": ["Ann"] * len(keys)}), agreed)
    assert isinstance(table, ss.SketchTable)
    return table


BOUNDED = {
    "L1": (ss.L1(3, unit="customer"), PROJECTION, {}),
    "L1, two keys": (ss.L1(3, unit="customer", max_keys=2), PROJECTION, {}),
    "L2": (ss.L2(3, unit="customer"), PROJECTION, {"delta": 1e-6}),
    "SketchL2": (ss.SketchL2(3, unit="customer"), PROJECTION.replace(resolution="1/8192"), {"delta": 1e-6}),
    "signs": (ss.L1(3, unit="customer"), PROJECTION, None),
}


@pytest.mark.parametrize("kind", BOUNDED)
def test_a_table_of_several_data_sets_says_under_which_condition_it_is_one_release(kind: str, tmp_path: Path) -> None:
    """A unit in two of them is bounded in each, so that together it moves their rows by more than one bound."""
    neighbours, projection, budget = BOUNDED[kind]
    kind_of: Any = ss.signs.DPSignLogistic if budget is None else AdditiveNoise
    publish = kind_of(epsilon=1.0, neighbours=neighbours, **budget or {})
    north, south = (bounded(neighbours, projection, ["a", "b"]) for _ in range(2))
    of_one = publish.release_table(north, public_keys=["a", "b"])
    make = type(of_one)
    for table in (of_one, make(of_one), of_one.with_agreement(of_one.agreement)):
        assert (table, table.guarantee.conditions) == (of_one, ())
    x, y = (publish.release(one.sketch_of("a")) for one in (north, south))
    assert make({"x": x}).guarantee == make({"x": x, "again": x}).guarantee == x.guarantee
    both = make({"x": x, "y": y})
    both.save(tmp_path / "both.parquet")
    for table in (both, ss.load(tmp_path / "both.parquet"), make(both), pickle.loads(pickle.dumps(both))):  # noqa: S301
        assert table == both
        assert table.guarantee.basis == "enforced"
        said = ("no customer is in two of the data sets whose releases are in the table",)
        assert table.guarantee.conditions == table["x"].guarantee.conditions == said
        assert ss.compose([table], populations="overlapping").conditions == said
        assert said[0] in " ".join(str(ss.explain(table, delta=1e-6)).split())
        assert table.to_arrow()["conditions"].to_pylist() == [list(said)] * 2
        # the rows by themselves add up, or the table is one of them and its condition holds
        together = ss.compose([x, y, table], populations="overlapping")
        assert together.epsilon == 2 or together.conditions == said
    assert ss.compose([x, y], populations="overlapping").epsilon == 2
    assert make({"x": x.with_agreement(None), "y": y.with_agreement(None)}).guarantee.conditions == said


def test_a_table_of_asserted_bounds_asserts_them_of_the_table() -> None:
    assert ss.PrivateTable({"a": alone(), "b": alone()}).guarantee.conditions == ()


# --- releasing ------------------------------------------------------------------------------------------------


def test_noise_covers_all_keys_that_one_unit_may_be_in() -> None:
    for most in (1, 3):
        near = ss.L1(1, unit="sale", max_keys=most)
        table = released(neighbours=near)
        alone = AdditiveNoise(epsilon=1.0, neighbours=near).guarantee(PROJECTION).on("asserted")
        assert table.guarantee == dataclasses.replace(alone, conditions=["the keys are public"])
        assert str(table.guarantee.mechanism) == f"discrete Laplace, scale {4 * most}"
        assert table.explain().check.verdict == "enough"


def test_keys_are_named_or_said_to_be_public() -> None:
    for options in ({"keys_are_public": False}, {"public_keys": ["a"]}):
        with pytest.raises(ss.InvalidInputError, match="which keys have data is private"):
            released(**options)
    table = released(keys_are_public=False, public_keys=["z", "a", "z"])
    assert list(table) == ["a", "z"]
    assert len(table["z"].data_ids) == len(table["a"].data_ids)
    for keys, message in (([], "no key to release"), (["a", 1], "must hold one type")):
        with pytest.raises(ss.InvalidInputError, match=message):
            released(keys_are_public=False, public_keys=keys)


def test_keys_of_a_release_keep_the_ids_of_their_data() -> None:
    table = secret()
    first, second = (table.release(epsilon=1.0, neighbours=SALE, keys_are_public=True) for _ in range(2))
    assert first["a"].data_ids == second["a"].data_ids == table["a"].data_ids.published()
    with pytest.raises(ss.InvalidInputError, match="are of the same data"):
        ss.compose([first, second], populations="disjoint")


def test_signs_of_a_table_are_one_release(tmp_path: Path) -> None:
    signs = MECHANISM.release_table(secret(), public_keys=["z", "a"])
    assert (list(signs), signs.guarantee) == (["a", "z"], MECHANISM.guarantee(PROJECTION).on("asserted"))
    signs.save(tmp_path / "signs.parquet")
    again = ss.load(tmp_path / "signs.parquet")
    assert type(again) is ss.signs.SignTable
    assert again == signs
    assert ss.explain(signs, signs["a"]).guarantee.epsilon == 1.0
    conditional = ss.signs.DPSignRPRR(epsilon=8, delta=1e-6, neighbours=ss.OneCoordinate(1), norm_bound=30)
    gaussian = ss.projections.GaussianProjection(dim=1000, sketch_dim=64, seed=1, independence=1000)
    with pytest.raises(ss.InvalidInputError, match="has no guarantee for public keys without data"):
        conditional.release_table(secret(gaussian), public_keys=["a"])
    sink = ss.streams.FileSink(tmp_path)
    with pytest.raises(ss.InvalidInputError, match="has no guarantee for public keys without data"):
        ss.streams.ReleaseOnce(conditional.calibrated(gaussian), bytes(32), sink, "sales", public_keys=["a"])
    with pytest.raises(TypeError, match="only a SketchTable"):
        MECHANISM.release_table(PROJECTION.sketch(), keys_are_public=True)  # type: ignore[arg-type]


def test_tables_combine_key_by_key() -> None:
    one, other = released(), released()
    total = one.combine(other, populations="disjoint")
    assert total.guarantee.epsilon == 1.0
    assert one.combine(other, populations="overlapping").guarantee.epsilon == 2.0
    for key in total:
        assert (total[key].values == one[key].values + other[key].values).all()
    with pytest.raises(ss.InvalidInputError, match="the same keys, but 1 keys are in only one"):
        one.combine(released(keys_are_public=False, public_keys=["a", "b"]), populations="disjoint")
    with pytest.raises(TypeError, match="combines with a PrivateTable, got a PrivateSketch"):
        one.combine(one["a"], populations="disjoint")  # type: ignore[arg-type]
    with pytest.raises(ss.errors.DependentNoiseError):
        one.combine(one, populations="overlapping")


# --- one ε everywhere -----------------------------------------------------------------------------------------


def cases() -> dict[str, tuple[list[Any], float]]:
    """Return what is published together, and the ε of all of it for overlapping populations."""
    rows = {key: alone() for key in "abcde"}
    one = ss.PrivateTable({key: rows[key] for key in "abcd"})
    overlapping = ss.PrivateTable({key: rows[key] for key in "bcde"})
    chain = [ss.PrivateTable({key: rows[key] for key in pair}) for pair in ("ab", "bc", "cd")]
    mine, theirs = released(), released()
    merged = mine.combine(theirs, populations="disjoint")
    return {
        "one table": ([one], 1.0),
        "a table twice": ([one, one], 1.0),
        "overlapping tables": ([one, overlapping], 2.0),
        "a table inside two others": (chain, 2.0),
        "a table beside a row": ([rows["a"], one], 1.0),
        "a table beside another release": ([one, rows["e"]], 2.0),
        "a merge of tables beside both": ([mine, theirs, merged], 2.0),
        "a merge of tables": ([merged], 1.0),
        "a sum beside a row of a part": ([merged, mine["a"]], 2.0),
    }


@pytest.mark.parametrize("name", cases())
def test_python_and_the_command_say_one_epsilon(name: str, tmp_path: Path, forks: Forks) -> None:
    together, epsilon = cases()[name]
    paths = []
    for number, one in enumerate(together):
        suffix = "parquet" if isinstance(one, ss.PrivateTable) else "sketch"
        paths.append(tmp_path / f"{number}.{suffix}")
        one.save(paths[-1])
    assert ss.compose(together, populations="overlapping").epsilon == epsilon
    assert ss.explain(*together, delta=1e-9).guarantee.epsilon == epsilon
    told = json.loads(forks.run("explain", *paths, "--delta", "1e-9", "--json", cwd=tmp_path).stdout)
    assert told["together"]["guarantee"]["epsilon"] == epsilon
    if len(together) > 1:
        assert ss.explain(*together).guarantee == ss.compose(together, populations="overlapping")


def test_the_report_counts_a_table_once(tmp_path: Path, forks: Forks) -> None:
    released().save(tmp_path / "all.parquet")
    alone().save(tmp_path / "north.sketch")
    for given, told in (
        (["all.parquet"], "Together: ε = 1, δ = 0."),
        (["all.parquet", "north.sketch"], "ε = 2, δ = 0"),
    ):
        done = forks.run("report", *given, "-o", f"{len(given)}.html", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        page = " ".join((tmp_path / f"{len(given)}.html").read_text(encoding="utf-8").replace("\u00a0", " ").split())
        assert told in page.replace("&nbsp;", " ")
        assert one_release(SALE) in page


@pytest.mark.parametrize(("neighbours", "keys"), [
    (ss.L1(1, unit="sale", max_keys=3), "no unit is in more keys than the guarantee allows (one, if it gives no"),
    (ss.SketchL2(1, unit="sale", max_keys=3), "no unit is in more keys than the guarantee allows."),
    (ss.SketchL2(1, unit="sale"), "however many of them a unit is in."),
])  # fmt: skip
def test_a_table_says_in_how_many_keys_a_unit_may_be(neighbours: Neighbours, keys: str) -> None:
    told = " ".join(str(released(neighbours=neighbours, delta=1e-6).explain()).split())
    assert keys in told


def test_a_table_explains_itself_as_one_release() -> None:
    table = released()
    told = table.explain()
    assert isinstance(told, TableExplanation)
    assert told == ss.explain(table)
    assert [keys for _, keys in told.groups] == [("a", "b", "c")]
    assert str(told).startswith("3 keys (a, b, c)\n\nGuarantee  ε = 1, δ = 0 for one sale")
    assert max(map(len, str(told).splitlines())) <= 80
    json.dumps(told.to_dict())
    thin = ss.PrivateTable({"a": alone(), "b": tampered(alone(), noise=NoiseMoments(0.5, 0.1))}).explain()
    assert (thin.check.verdict, len(thin.groups)) == ("too little", 2)
    assert ss.explain(alone(), ss.PrivateTable({"a": alone()})).verdicts["enough"] == 2


# --- reading --------------------------------------------------------------------------------------------------


def test_load_reads_all_that_is_published_by_its_first_bytes(tmp_path: Path) -> None:
    oporp = ss.projections.OPORP(dim=64, sketch_dim=16, seed=3).sketch()
    individual = ss.signs.IDPSignOPORP(epsilon=2, neighbours=ss.OneCoordinate(1)).release(oporp)
    signs = MECHANISM.release_table(secret(), keys_are_public=True)
    for number, one in enumerate([alone(), released(), signs["a"], signs, individual]):
        path = tmp_path / f"{number}.bin"
        one.save(path)
        assert ss.load(path, expect=one.projection) == one
        with pytest.raises(ss.errors.WireFormatError, match="over the limit of 10"):
            ss.load(path, max_bytes=10)


def test_load_names_the_doors_for_what_is_not_published(tmp_path: Path) -> None:
    path = tmp_path / "file"
    mechanism = ss.local.PrivUnitG(dim=2, epsilon=1.0)
    report = mechanism.randomize([1, 0])
    server = MeanAggregator(mechanism)
    server.add(report)
    for data, message in (
        (report.to_bytes(), r"are those of a report: read it with streamsketch\.local\.Report\.from_bytes"),
        (server.to_bytes(), r"a sum of reports: read it with streamsketch\.local\.MeanAggregator\.from_bytes"),
        (b"no sketch", "are not those of any release"),
        (b"", "are not there: it was cut off"),
    ):
        path.write_bytes(data)
        with pytest.raises(ss.errors.WireFormatError, match=message) as caught:
            ss.load(path)
        assert str(caught.value).startswith(f"{path}: bytes 0-7")
        assert (caught.value.file, caught.value.where) == (str(path), "bytes 0-7")
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - our own
    ss.storage.save_raw(secret(), tmp_path / "raw")
    with pytest.raises(
        ss.errors.WireFormatError, match=r"a raw sketch, which is secret: read it with .*storage\.load_raw"
    ):
        ss.load(tmp_path / "raw")


# --- raw files ------------------------------------------------------------------------------------------------


def test_a_raw_file_remembers_what_was_released_from_it(tmp_path: Path) -> None:
    for state, keys in ((secret()["a"], {}), (secret(), {"keys_are_public": True})):
        path = tmp_path / f"{type(state).__name__}.raw-sketch"
        ss.storage.save_raw(state, path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert ss.storage.load_raw(path).state == state
        release = ss.storage.release_raw(path, epsilon=1.0, neighbours=SALE, **keys)
        assert [str(past.guarantee) for past in ss.storage.load_raw(path).releases] == [str(release.guarantee)]
        with pytest.raises(ss.InvalidInputError, match=r"was released before: ε = 1, .* or pass again=True"):
            ss.storage.release_raw(path, epsilon=1.0, neighbours=SALE, **keys)
        ss.storage.release_raw(path, epsilon=1.0, neighbours=SALE, again=True, **keys)
        ss.storage.save_raw(state, path)
        assert len(ss.storage.load_raw(path).releases) == 2, "writing the state again forgets none"
    with pytest.raises(ss.InvalidInputError, match="holds a single stream"):
        ss.storage.release_raw(
            tmp_path / "Sketch.raw-sketch", epsilon=1.0, neighbours=SALE, again=True, keys_are_public=True
        )
    assert len(ss.storage.load_raw(tmp_path / "Sketch.raw-sketch").releases) == 2


def test_a_pipe_may_give_a_release_byte_by_byte(tmp_path: Path) -> None:
    one, pipe = alone(), tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            file.write(one.to_bytes()[:3])
            time.sleep(0.1)
            with contextlib.suppress(BrokenPipeError):
                file.write(one.to_bytes()[3:])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert ss.load(pipe) == one
    finally:
        writer.join()
