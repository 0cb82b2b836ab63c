"""Arguments by which a caller asserts what nobody checks: each is a condition wherever the guarantee is stated."""

import dataclasses
import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch import continual
from streamsketch.privacy.assertions import apart_in_streams
from streamsketch.privacy.bounds import Bounds
from streamsketch.release import AdditiveNoise
from streamsketch.schedules.releaser import Releaser
from streamsketch.schedules.tree import Tree
from streamsketch.storage import save_raw
from streamsketch.streams import FileSink, ReleaseOnce
from tests.cli.running import Forks

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
NEAR = ss.L1(3, unit="customer", max_keys=1)
AGREEMENT = ss.Agreement(PROJECTION, index="item", key="shop", unit="customer", neighbours=NEAR)
ROWS = pa.table({"shop": ["a", "b"], "item": ["x", "y"], "customer": ["Ann", "Bob"]})
APART, KEYS = "no customer is in two of the streams", "the keys are public"
MERGED = "no customer is in two of the parts that were merged"

ASSERTING = {"populations", "disjoint_units", "keys_are_public"}
"""Arguments that assert something of the data, besides ``assert_bounds``, which the basis of a guarantee states."""


def _table() -> ss.SketchTable:
    found = ss.bound(ROWS, AGREEMENT)
    assert isinstance(found, ss.SketchTable)
    return found


def _one(**_: Any) -> ss.PrivateSketch:
    return _table()["a"].release(epsilon=1.0, neighbours=NEAR)


def _keyed() -> ss.PrivateTable:
    return _table().release(epsilon=1.0, neighbours=NEAR, public_keys=["a", "b"])


def _merged(kind: str) -> Any:
    mine, other = _table(), _table()
    if kind == "table":
        mine.merge(other, disjoint_units=True)
        return mine.release(epsilon=1.0, neighbours=NEAR, public_keys=["a"])
    one = mine.sketch_of("a")
    one.merge(other.sketch_of("a"), disjoint_units=True)
    return one.release(epsilon=1.0, neighbours=NEAR)


def _row(table: ss.SketchTable) -> Any:
    noise = AdditiveNoise(epsilon=1.0, neighbours=NEAR, schedule=Tree(horizon=4))
    releaser = Releaser(noise, PROJECTION)
    releaser.add(table, keys_are_public=True)
    return releaser.add(_table())


def _drawn(table: ss.SketchTable) -> Any:
    calibrated = AdditiveNoise(epsilon=1.0, neighbours=NEAR).calibrated(PROJECTION)
    return calibrated.for_data(table, keys_are_public=True)["a"].draw()


# what asserts → what is then released, or a guarantee, and its condition
RELEASED: dict[str, tuple[Callable[[], Any], str]] = {
    "release.composition.compose": (lambda: ss.compose([_one(), _one()], populations="disjoint"), APART),
    "release.private_sketch.PrivateSketch.combine": (lambda: _one().combine(_one(), populations="disjoint"), APART),
    "release.private_sketch.PrivateSketch.subtract": (lambda: _one().subtract(_one(), populations="disjoint"), APART),
    "release.private_table.PrivateTable.combine": (lambda: _keyed().combine(_keyed(), populations="disjoint"), APART),
    "explanation.joint.explain": (lambda: ss.explain(_one(), _one(), populations="disjoint"), APART),
    "sketching.sketch.Sketch.merge": (lambda: _merged("sketch"), MERGED),
    "sketching.table.SketchTable.merge": (lambda: _merged("table"), MERGED),
    "sketching.table.SketchTable.release": (
        lambda: _table().release(epsilon=1.0, neighbours=NEAR, keys_are_public=True),
        KEYS,
    ),
    "release.publishers.Publisher.release_table": (
        lambda: AdditiveNoise(epsilon=1.0, neighbours=NEAR).release_table(_table(), keys_are_public=True),
        KEYS,
    ),
    "release.ready.Calibrated.for_data": (
        lambda: _drawn(_table()),
        KEYS,
    ),
    "signs.publishers.SignMechanism.release_table": (
        lambda: ss.signs.DPSignLogistic(epsilon=1.0, neighbours=NEAR).release_table(_table(), keys_are_public=True),
        KEYS,
    ),
    "continual.batch.release": (
        lambda: continual.release(
            [_table()], AdditiveNoise(epsilon=1.0, neighbours=NEAR, schedule=Tree(horizon=4)), keys_are_public=True
        )[0],
        KEYS,
    ),
    "schedules.releaser.Releaser.add": (lambda: _row(_table()), KEYS),
}
# the same assertion by another way, or no release: tested where they are, or checked by who calls them
ELSEWHERE = {
    "privacy.assertions.conditions_of_keys": "returns the condition",
    "privacy.bounds.Bounds.merged": "test_bounds_under_an_assertion_say_so",
    "explanation.joint.explain_jointly": "of explain",
    "schedules.releaser.Releaser.exact": "publishes nothing",
    "schedules.releaser.Releaser.ready": "by Releaser.add",
    "release.keys_to_release.sketches_to_release": "returns exact sketches",
    "release.keys_to_release.keys_to_release": "returns which keys are released",
    "release.terms_kept.keys_for": "returns which keys are released",
    "explanation.joint.JointExplanation": "what explain returns",
    "storage.releases.release_raw": "as above",
    "storage.releases.release_loaded": "as above",
    "beam.release.release.ReleasePerKey": "tests/beam/release/test_assertions.py",
    "spark.releases.release": "by SketchTable.release",
    "sketching.encoding.check_disjoint": "checks ids",
}


def _asserting() -> Iterator[str]:
    """Yield the public functions and methods of the library that take such an argument."""
    for module in pkgutil.walk_packages(ss.__path__, "streamsketch."):
        if any(part.startswith("_") for part in module.name.split(".")) or ".cli" in module.name:
            continue
        try:
            found = importlib.import_module(module.name)
        except ImportError:  # of an extra that is not there
            continue
        for name, value in vars(found).items():
            if name.startswith("_") or getattr(value, "__module__", "") != module.name:
                continue
            where = f"{module.name.removeprefix('streamsketch.')}.{name}"
            members = vars(value).items() if inspect.isclass(value) else [("", value)]
            for member, function in members:
                public = member in ("", "__init__") or not member.startswith("_")
                if (
                    public
                    and inspect.isfunction(function)
                    and ASSERTING & inspect.signature(function).parameters.keys()
                ):
                    yield where if member in ("", "__init__") else f"{where}.{member}"


def test_all_arguments_that_assert_are_in_the_table() -> None:
    assert set(_asserting()) - {*RELEASED, *ELSEWHERE} == set()


@pytest.mark.parametrize("name", RELEASED)
def test_an_assertion_is_a_condition_wherever_the_guarantee_is_stated(name: str, tmp_path: Path, forks: Forks) -> None:
    make, condition = RELEASED[name]
    found = make()
    guarantee = getattr(found, "guarantee", found)
    assert condition in guarantee.conditions
    assert condition in str(guarantee)
    assert condition in json.loads(guarantee.to_json())["conditions"]
    assert ss.Guarantee.from_dict(guarantee.to_dict()) == guarantee
    if isinstance(found, ss.Guarantee) or not hasattr(found, "save"):
        assert condition in " ".join(str(found).split())
        return
    keyed = isinstance(found, ss.PrivateTable | ss.signs.SignTable)
    path = tmp_path / ("x.parquet" if keyed else "x.sketch")
    found.save(path)
    assert condition in ss.load(path).guarantee.conditions
    if keyed:
        assert all(condition in one for one in found.to_arrow()["conditions"].to_pylist())
        assert all(condition in row.guarantee.conditions for row in found.values())
    assert condition in " ".join(forks.succeeded("explain", str(path), cwd=tmp_path).split())
    assert condition in forks.succeeded("explain", str(path), "--json", cwd=tmp_path)


def test_an_assertion_of_one_stream_asserts_nothing() -> None:
    one = _one()
    for given in ([one], [one, one], [one.guarantee]):
        assert ss.compose(given, populations="disjoint").conditions == ()
    for populations in ("overlapping",):
        assert ss.compose([one, _one()], populations=populations).conditions == ()
    assert _keyed().guarantee.conditions == ()


def test_conditions_of_parts_stay_and_of_long_names_can_be_written() -> None:
    first = _merged("sketch")
    both = first.combine(_one(), populations="disjoint").combine(_one(), populations="overlapping")
    assert both.guarantee.conditions == tuple(sorted([MERGED, APART]))
    long = dataclasses.replace(NEAR, unit="c" * 190)
    parts = [PROJECTION.sketch().release(epsilon=1.0, neighbours=long) for _ in "ab"]
    assert parts[0].combine(parts[1], populations="disjoint").guarantee.conditions == (
        "no privacy unit is in two of the streams",
    )
    assert apart_in_streams("c" * 190) == apart_in_streams("privacy unit")


def test_bounds_under_an_assertion_say_so() -> None:
    known = Bounds(NEAR, clip="scale")
    assert known.merged(known, keyed=True, disjoint_units=True).conditions == (MERGED,)
    assert known.merged(known, keyed=True).conditions == ()


def test_a_history_of_stated_keys_says_so() -> None:
    """The first window decides: what it stated, later ones cannot take back, and what it named, they cannot assert."""
    noise = AdditiveNoise(epsilon=1.0, neighbours=NEAR, schedule=Tree(horizon=4))
    stated, asserted = Releaser(noise, PROJECTION), Releaser(noise, PROJECTION)
    assert stated.add(_table(), public_keys=["a", "b"]).guarantee.conditions == ()
    with pytest.raises(ss.InvalidInputError, match="keys were stated"):
        stated.add(_table(), keys_are_public=True)
    assert asserted.add(_table(), keys_are_public=True).guarantee.conditions == (KEYS,)
    for keys in ({"public_keys": ["a", "b"]}, {"keys_are_public": True}, {}):
        assert asserted.add(_table(), **keys).guarantee.conditions == (KEYS,)  # type: ignore[arg-type]


def test_releases_of_all_keys_of_a_stream_say_so(tmp_path: Path) -> None:
    publisher = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="sale")).calibrated(PROJECTION)
    for name, more, conditions in (
        ("stated", {"public_keys": ["north"]}, ()),
        ("found", {}, ("the keys are public, and so are the windows in which each has data",)),
    ):
        (tmp_path / name).mkdir()
        once = ReleaseOnce(publisher, bytes(range(32)), FileSink(tmp_path / name), "sales", **more)  # type: ignore[arg-type]
        held, _ = once.release(0, {"north": PROJECTION.sketch()})
        assert held["north"].guarantee.conditions == conditions
    whole = ReleaseOnce(publisher, bytes(range(32)), FileSink(tmp_path), "sales")
    held, _ = whole.release(0, {"": PROJECTION.sketch()})
    assert held[""].guarantee.conditions == (), "a stream without keys has none to assert of"


def test_commands_state_what_their_options_assert(tmp_path: Path, forks: Forks) -> None:
    for name in "xy":
        _one().save(tmp_path / f"{name}.sketch")
    forks.succeeded("merge", "x.sketch", "y.sketch", "--populations", "disjoint", "-o", "m.sketch", cwd=tmp_path)
    forks.succeeded(
        "merge", "--mean", "x.sketch", "y.sketch", "--populations", "disjoint", "-o", "n.sketch", cwd=tmp_path
    )
    for name in "mn":
        assert ss.load(tmp_path / f"{name}.sketch").guarantee.conditions == (APART,)
    save_raw(_table(), tmp_path / "t.raw-sketch")
    forks.succeeded("release", "t.raw-sketch", "--epsilon", "1", "--keys-are-public", "-o", "t.parquet", cwd=tmp_path)
    assert ss.load(tmp_path / "t.parquet").guarantee.conditions == (KEYS,)
    dry = json.loads(
        forks.succeeded(
            *("release", "t.raw-sketch", "--epsilon", "1", "--keys-are-public", "--dry-run", "--again", "--json"),
            cwd=tmp_path,
        )
    )
    assert dry["guarantee"]["conditions"] == [KEYS]


def test_functions_of_duckdb_state_what_their_argument_asserts() -> None:
    duckdb = pytest.importorskip("duckdb")
    from streamsketch.integrations.duckdb import register  # noqa: PLC0415 - an extra

    connection = duckdb.connect()
    register(connection)
    parts = [_one().to_bytes() for _ in "xy"]
    (found,) = connection.execute("SELECT combine(?, ?, 'disjoint')", parts).fetchone()
    assert ss.PrivateSketch.from_bytes(bytes(found)).guarantee.conditions == (APART,)
