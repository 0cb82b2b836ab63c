"""One function judges data, whoever publishes them: nothing but the noise tells whether there were rows."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.continual import Releaser, Tree
from streamsketch.core.limits import reading_limits
from streamsketch.errors import ReleasedAgainWarning
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.release import AdditiveNoise
from streamsketch.release.publishers import Publisher
from streamsketch.release.ready import Calibrated, Ready
from streamsketch.storage import release_raw, save_raw
from streamsketch.streams import FileSink, ReleaseOnce
from tests.cli.running import Forks
from tests.crossed import crossed

SKETCHES = ss.CountSketch(sketch_dim=64, seed=7)
FINE = SKETCHES.replace(resolution="1/1024")
BY_VALUES, BY_SKETCHES = ss.L1(8, unit="person"), ss.SketchL2(8, unit="person", max_keys=1)
COLUMNS = ["person", "shop", "item"]
MANY = [("a", "x", "tea"), ("b", "y", "jam"), ("c", "x", "jam"), ("a", "x", "oil")]
WORLDS: dict[str, list[tuple[str, str, str]]] = {"rows": MANY, "a row": MANY[:1], "no rows": []}
KEYS = ["x", "y"]


def rows_of(world: str) -> pa.Table:
    cells = zip(*WORLDS[world], strict=True) if WORLDS[world] else [[], [], []]
    return pa.table({name: pa.array(column, pa.string()) for name, column in zip(COLUMNS, cells, strict=True)})


AGREEMENTS: dict[str, tuple[ss.Agreement, dict[str, Any]]] = {
    "values": (ss.Agreement(SKETCHES, index="item", key="shop", unit="person", neighbours=BY_VALUES), {}),
    "sketches": (
        ss.Agreement(FINE, index="item", key="shop", unit="person", neighbours=BY_SKETCHES, clip="equal"),
        {"delta": 1e-6},
    ),
    "counted": (
        ss.Agreement(
            FINE,
            index="item",
            key="shop",
            unit="person",
            neighbours=BY_VALUES,
            counting=ss.privacy.Counting(99, slack=1),
        ),
        {},
    ),
    "rows alone": (ss.Agreement(SKETCHES, index="item", key="shop", neighbours=BY_VALUES), {}),
}


# --- how data are made --------------------------------------------------------------------------------------------


def bounded(world: str, agreement: ss.Agreement) -> Any:
    return ss.sketch(rows_of(world), agreement) if agreement.unit is None else _bound(rows_of(world), agreement)


def unclipped(world: str, agreement: ss.Agreement) -> Any:
    return ss.sketch(rows_of(world), agreement)


def merged(world: str, agreement: ss.Agreement) -> Any:
    """Merge the files of a day, of which there may be none, as is natural."""
    total = ss.SketchTable(agreement)
    if WORLDS[world]:
        total.merge(bounded(world, agreement))
    return total


def merged_bounded(world: str, agreement: ss.Agreement) -> Any:
    total = bounded("no rows", agreement)
    total.merge(bounded(world, agreement), **({} if agreement.unit is None else {"disjoint_units": True}))
    return total


def merged_one(world: str, agreement: ss.Agreement) -> Any:
    """Merge the data of one key so."""
    total = ss.Sketch(agreement)
    if WORLDS[world]:
        total.merge(bounded(world, agreement).sketch_of("x"))
    return total


def _bound(rows: pa.Table, agreement: ss.Agreement) -> Any:
    return ss.bound(rows, agreement, public_keys=KEYS)


MADE: dict[str, Callable[[str, ss.Agreement], Any]] = {
    "bounded": bounded,
    "unclipped": unclipped,
    "merged": merged,
    "merged into what was bounded": merged_bounded,
    "merged, one key": merged_one,
}


# --- how they are published ---------------------------------------------------------------------------------------


def noise_for(agreement: ss.Agreement, more: dict[str, Any]) -> AdditiveNoise:
    neighbours: Any = agreement.neighbours
    return AdditiveNoise(epsilon=1.0, neighbours=neighbours, **more)


def counted(agreement: ss.Agreement, more: dict[str, Any], data: Any) -> AdditiveNoise:
    counting = agreement.counting if data.bounds.counts_for(agreement.neighbours) else None
    neighbours: Any = agreement.neighbours
    return AdditiveNoise(epsilon=1.0, neighbours=neighbours, counting=counting, **more)


def released(data: Any, agreement: ss.Agreement, more: dict[str, Any], _: Path) -> Any:
    keys = {} if isinstance(data, ss.Sketch) else {"public_keys": KEYS}
    return data.release(epsilon=1.0, neighbours=agreement.neighbours, **more, **keys)


def calibrated(data: Any, agreement: ss.Agreement, more: dict[str, Any], _: Path) -> Any:
    keys = {} if isinstance(data, ss.Sketch) else {"public_keys": KEYS}
    ready = counted(agreement, more, data).calibrated(agreement.projection).for_data(data, **keys)
    return ready.draw()


def sketches_by_key(data: Any, agreement: ss.Agreement, more: dict[str, Any], _: Path) -> Any:
    of_keys = {"x": data} if isinstance(data, ss.Sketch) else {key: data.sketch_of(key) for key in KEYS}
    return counted(agreement, more, data).calibrated(agreement.projection).for_data(of_keys).draw()


def flipped(data: Any, agreement: ss.Agreement, _: dict[str, Any], __: Path) -> Any:
    flips = ss.signs.DPSignLogistic(epsilon=1.0, neighbours=agreement.neighbours)  # type: ignore[arg-type]
    return flips.release(data) if isinstance(data, ss.Sketch) else flips.release_table(data, public_keys=KEYS)


def individually(data: Any, agreement: ss.Agreement, _: dict[str, Any], __: Path) -> Any:
    one = data if isinstance(data, ss.Sketch) else data.sketch_of("x")
    bound = 1 if agreement.neighbours is None else agreement.neighbours.bound
    mechanism = ss.signs.IDPSignRPRR(epsilon=1.0, neighbours=ss.L1(bound, unit="person"))
    return mechanism.release(one, assert_bounds=isinstance(agreement.neighbours, ss.SketchL2))


def first_row(data: Any, agreement: ss.Agreement, more: dict[str, Any], _: Path) -> Any:
    releaser = _releaser(agreement, more)
    return releaser.add(data, **({} if isinstance(data, ss.Sketch) else {"public_keys": KEYS}))


def later_row(data: Any, agreement: ss.Agreement, more: dict[str, Any], _: Path) -> Any:
    keys: dict[str, Any] = {} if isinstance(data, ss.Sketch) else {"public_keys": KEYS}
    releaser, first = _releaser(agreement, more), bounded("rows", agreement)
    releaser.add(first.sketch_of("x") if isinstance(data, ss.Sketch) else first, **keys)
    return releaser.add(data, **keys)


def _releaser(agreement: ss.Agreement, more: dict[str, Any]) -> Releaser:
    neighbours: Any = agreement.neighbours
    publisher = AdditiveNoise(epsilon=1.0, neighbours=neighbours, schedule=Tree(horizon=4), **more)
    return Releaser(publisher, agreement.projection)


def once(data: Any, agreement: ss.Agreement, more: dict[str, Any], folder: Path) -> Any:
    publisher = noise_for(agreement, more).calibrated(agreement.projection)
    keys = ["x"] if isinstance(data, ss.Sketch) else KEYS
    releases = ReleaseOnce(publisher, bytes(range(32)), FileSink(folder), "sales", public_keys=keys)
    return releases.release(0, {"x": data} if isinstance(data, ss.Sketch) else data).held


def from_a_file(data: Any, agreement: ss.Agreement, more: dict[str, Any], folder: Path) -> Any:
    path = folder / "a.raw-sketch"
    save_raw(data, path)
    keys: dict[str, Any] = {} if isinstance(data, ss.Sketch) else {"public_keys": KEYS}
    return release_raw(path, epsilon=1.0, neighbours=agreement.neighbours, **more, **keys)  # type: ignore[arg-type]


PUBLISHED: dict[str, Callable[[Any, ss.Agreement, dict[str, Any], Path], Any]] = {
    "release": released,
    "for_data": calibrated,
    "for_data by key": sketches_by_key,
    "signs": flipped,
    "individual signs": individually,
    "the first row": first_row,
    "a later row": later_row,
    "ReleaseOnce": once,
    "a raw file": from_a_file,
}


def face(release: Any) -> Any:
    """Return all that a release states but its noise and its random ids."""
    if isinstance(release, dict) or hasattr(release, "keys"):
        return {key: face(one) for key, one in release.items()}
    stated = type(release), release.guarantee, release.agreement, release.history and str(release.history)
    ids, counts = len(getattr(release, "data_ids", ())), getattr(release, "counts", None)
    return *stated, ids, getattr(release, "clip", None), None if counts is None else counts.shape


def seen(made: str, published: str, agreed: str, world: str, folder: Path) -> Any:
    """Return what an outsider sees of a world: what is stated, or the refusal."""
    agreement, more = AGREEMENTS[agreed]
    folder.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return face(PUBLISHED[published](MADE[made](world, agreement), agreement, more, folder))
        except ss.InvalidInputError as error:
            return str(error)


@crossed(published=PUBLISHED, made=MADE, agreed=AGREEMENTS)
def test_no_release_tells_whether_there_were_rows(published: str, made: str, agreed: str, tmp_path: Path) -> None:
    found = {world: seen(made, published, agreed, world, tmp_path / world) for world in WORLDS}
    assert found["a row"] == found["rows"], "one row more or less is never seen"
    if found["no rows"] != found["rows"]:
        assert "a new Sketch" in str(found["no rows"]), found
        assert made.startswith("merged"), "what bound and sketch make of no rows can be released"


@pytest.mark.parametrize("agreed", AGREEMENTS)
def test_what_bound_makes_of_no_rows_is_released(agreed: str, tmp_path: Path) -> None:
    basis = "enforced" if AGREEMENTS[agreed][0].unit is not None else "asserted"
    for published in ("release", "for_data", "ReleaseOnce", "a raw file", "the first row", "a later row"):
        stated = seen("bounded", published, agreed, "no rows", tmp_path / published)
        assert [one[1].basis for one in stated.values()] == [basis] * 2, published


# --- the command --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agreed", AGREEMENTS)
def test_the_command_shows_nothing_of_rows(agreed: str, tmp_path: Path, forks: Forks) -> None:
    agreement, more = AGREEMENTS[agreed]
    agreement.save(tmp_path / "agreed.json")
    delta = [] if "delta" not in more else ["--delta", str(more["delta"])]
    found = {}
    for world, rows in WORLDS.items():
        folder = tmp_path / world.replace(" ", "-")
        folder.mkdir()
        lines = [",".join(COLUMNS), *(",".join(row) for row in rows), ""]
        (folder / "rows.csv").write_text("\n".join(lines))
        done = forks.run("sketch", "rows.csv", "--agreement", "../agreed.json", "-o", "a.raw-sketch", cwd=folder)
        assert done.returncode == 0, done
        how = ["release", "a.raw-sketch", "--epsilon", "1", *delta, "--public-key", ",".join(KEYS)]
        shown = [forks.run(*how, "--dry-run", cwd=folder), forks.run(*how, "-o", "a.parquet", cwd=folder)]
        assert shown[1].returncode == 0, shown
        table = ss.load(folder / "a.parquet")
        found[world] = face(table), [(one.returncode, one.stdout, one.stderr) for one in shown]
    assert found["a row"] == found["rows"] == found["no rows"]


# --- what cannot be done without the guards -----------------------------------------------------------------------


def kinds_of(base: type) -> Iterator[type]:
    for kind in base.__subclasses__():
        yield kind
        yield from kinds_of(kind)


def test_nothing_but_ready_data_draws() -> None:
    for kind in (Calibrated, *kinds_of(Calibrated)):
        assert not {"release", "draw", "drawn", "on", "release_rows"} & set(dir(kind)), kind
    assert {"draw"} == {name for name in vars(Ready) if not name.startswith("_")} - {
        *("calibrated", "exact", "stated", "guarantee", "charge")
    }
    secret = bounded("rows", AGREEMENTS["values"][0])
    ready = AdditiveNoise(epsilon=1.0, neighbours=BY_VALUES).calibrated(SKETCHES).for_data(secret, public_keys=KEYS)
    assert "secret" in repr(ready)
    assert "secret" in repr(ready["x"])
    assert str(ready["x"].exact.tolist()) not in repr(ready["x"])


def test_ready_data_are_those_at_the_call() -> None:
    """A row that is added between the guards and the draw is not published: nothing judged it."""
    sketch, publisher = SKETCHES.sketch(), AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1))
    ready = publisher.calibrated(SKETCHES).for_data(sketch)
    sketch.update("tea", 1 << 50)
    assert np.abs(ready.draw().values).max() < 1 << 40


@pytest.mark.parametrize("agreed", AGREEMENTS)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_keys_that_are_drawn_together_are_those_drawn_one_by_one(agreed: str, mechanism: str) -> None:
    agreement, _ = AGREEMENTS[agreed]
    neighbours: Any = agreement.neighbours
    terms: dict[str, Any] = {"mechanism": mechanism, "delta": 1e-6 if mechanism == "gaussian" else 0}
    noise = AdditiveNoise(epsilon=1, neighbours=neighbours, counting=agreement.counting, **terms)
    publishers: list[Any] = [noise.calibrated(agreement.projection)]
    if agreed == "values":
        publishers.append(ss.signs.DPSignLogistic(epsilon=1, neighbours=neighbours).calibrated(agreement.projection))
    for publisher in publishers:
        keys = ["none", "x", "y"]
        ready = publisher.for_data(bounded("rows", agreement.replace(keys=keys)), public_keys=keys)
        together, alone = (
            draw(lambda key: KeyedBits(bytes(32), key.encode())) for draw in (ready.draw, one_by_one(ready))
        )
        assert list(together) == list(alone) == keys
        assert [row.to_bytes() for row in together.values()] == [row.to_bytes() for row in alone.values()]
        for draw in (ready.draw, one_by_one(ready)):  # of one source, which the keys read one after another
            bits = KeyedBits(bytes(32), b"all")
            shared = [row.to_bytes() for row in draw(lambda _, bits=bits: bits).values()]
            assert shared == [
                row.draw(source).to_bytes() for source in [KeyedBits(bytes(32), b"all")] for row in ready.values()
            ]


def one_by_one(ready: Any) -> Callable[[Callable[[str], KeyedBits]], dict[str, Any]]:
    return lambda bits_of: {key: ready[key].draw(bits_of(key)) for key in ready}


def test_sums_of_keys_need_a_judged_table() -> None:
    agreement, _ = AGREEMENTS["values"]
    table = bounded("rows", agreement)
    publisher = AdditiveNoise(epsilon=1, neighbours=BY_VALUES).calibrated(agreement.projection)
    with pytest.raises(ss.InvalidInputError, match="basis of its bound"):
        publisher.for_sums(KEYS, table.sums_of(KEYS), table)


def test_sums_are_of_a_single_release_and_of_each_key_once() -> None:
    """Refused before anything is charged: to draw them would fail, or leave a key out."""
    agreement, _ = AGREEMENTS["values"]
    table = bounded("rows", agreement)
    plain = AdditiveNoise(epsilon=1, neighbours=BY_VALUES).calibrated(agreement.projection)
    judged = plain.with_guarantee(plain.guarantee.on("enforced"))
    for keys, sums in (
        (KEYS, table.sums_of(["x"])),
        (["x", "x"], table.sums_of(["x", "x"])),
        ([], table.sums_of(KEYS)),
    ):
        with pytest.raises(ss.InvalidInputError, match=r"there are sums of \d keys for \d different keys"):
            judged.for_sums(keys, sums, table)
    rows = AdditiveNoise(epsilon=1, neighbours=BY_VALUES, schedule=Tree(horizon=4)).calibrated(agreement.projection)
    with pytest.raises(ss.InvalidInputError, match="not a single sketch or table"):
        rows.with_guarantee(rows.guarantee.on("enforced")).for_sums(KEYS, table.sums_of(KEYS), table)


def test_a_row_needs_a_judged_window() -> None:
    plain = AdditiveNoise(epsilon=1.0, neighbours=BY_VALUES, schedule=Tree(horizon=4)).calibrated(SKETCHES)
    with pytest.raises(ss.InvalidInputError, match="the basis of its bound"):
        plain.for_row(np.zeros(64, np.int64), [bytes(8)], None, ss.Sketch(SKETCHES).bounds, None)  # type: ignore[arg-type]


def test_wrong_data_are_refused_before_anything_is_drawn() -> None:
    calibrated_to = AdditiveNoise(epsilon=1.0, neighbours=BY_VALUES).calibrated(SKETCHES)
    data: Any
    for data, error, match in (
        (np.zeros(64), TypeError, "only a Sketch or a SketchTable"),
        ({"a": np.zeros(64)}, TypeError, "only a Sketch can be released"),
        ({}, ss.InvalidInputError, "no key to release"),
        (FINE.sketch(), ss.errors.IncompatibleProjectionsError, "resolution"),
        (FINE.table(), ss.errors.IncompatibleProjectionsError, "resolution"),
    ):
        with pytest.raises(error, match=match):
            calibrated_to.for_data(data)
    with pytest.raises(ss.InvalidInputError, match="a Sketch has no keys"):
        calibrated_to.for_data(SKETCHES.sketch(), public_keys=KEYS)  # type: ignore[call-overload]


# --- releases that nobody could read ------------------------------------------------------------------------------


def mechanisms() -> Iterator[tuple[str, Publisher[Any], ss.projections.Projection]]:
    yield "noise", AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1)), SKETCHES
    yield "signs", ss.signs.DPSignLogistic(epsilon=1.0, neighbours=ss.L1(1)), SKETCHES.replace(sketch_dim=4096)


@pytest.mark.parametrize("limit", ["max_bytes", "max_table_bytes", "max_keys"])
@pytest.mark.parametrize(("name", "publisher", "projection"), list(mechanisms()), ids=lambda one: str(one)[:5])
def test_what_readers_would_refuse_is_neither_charged_nor_drawn(
    name: str, publisher: Any, projection: ss.projections.Projection, limit: str, tmp_path: Path
) -> None:
    ledger, keys = ss.Ledger(tmp_path / "ledger.sqlite"), [f"shop {number}" for number in range(9)]
    ledger.dataset("sales", unit="event", epsilon=1000.0)
    table = projection.table()
    charged: dict[str, Any] = {"ledger": ledger, "dataset": "sales"}

    def publish() -> Any:
        if limit == "max_bytes":
            return publisher.release(projection.sketch(), **charged)
        return publisher.release_table(table, public_keys=keys, again=True, **charged)

    low, high = 1, 1 << 24
    while high - low > 1:  # the least limit at which it is released
        middle = (low + high) // 2
        with reading_limits(**{limit: middle}):
            try:
                released_here = publish()
            except ss.InvalidInputError:
                low = middle
                continue
        with reading_limits(**{limit: middle}):
            assert type(released_here).from_bytes(released_here.to_bytes()) == released_here, name
        high = middle
    charges = ledger.left("sales").charges
    with reading_limits(**{limit: low}), pytest.raises(ss.InvalidInputError, match=limit):
        publish()
    assert ledger.left("sales").charges == charges
    size = {"max_keys": 9, "max_bytes": 4500, "max_table_bytes": 9 * 5500}[limit]
    assert high <= size, "and hardly anything is refused that could be read"


# --- released again -----------------------------------------------------------------------------------------------

AGAIN: dict[str, Any] = {"epsilon": 1.0, "neighbours": ss.L1(1, unit="sale")}


def said(steps: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        steps()
    return [str(one.message) for one in caught if issubclass(one.category, ReleasedAgainWarning)]


def table_of_two() -> ss.SketchTable:
    table = SKETCHES.table()
    table.update(["x", "y"], ["tea", "jam"])
    return table


def copied(sketch: ss.Sketch) -> ss.Sketch:
    total = SKETCHES.sketch()
    total.merge(sketch)
    return total


@pytest.mark.parametrize("count", [2, 5])
def test_a_second_release_of_the_same_data_is_warned_of_once(count: int) -> None:
    sketch, table = SKETCHES.sketch(), table_of_two()
    (one,) = said(lambda: [sketch.release(**AGAIN) for _ in range(count)])
    assert "2 releases with ε = 2, δ = 0 together for one sale" in one
    (two,) = said(lambda: [table.release(**AGAIN, public_keys=KEYS) for _ in range(count)])
    assert "again=True" in two


def test_data_are_known_by_their_ids_wherever_they_are() -> None:
    table = table_of_two()
    assert not said(lambda: table.release(**AGAIN, public_keys=KEYS))
    assert said(lambda: table.sketch_of("x").release(**AGAIN)), "a key of a table that was released"
    other = table_of_two()
    assert not said(lambda: [other.sketch_of(key).release(**AGAIN) for key in KEYS]), "keys are other data"
    assert said(lambda: other.release(**AGAIN, public_keys=KEYS)), "a table whose keys were released"
    sketch = SKETCHES.sketch()
    sketch.release(**AGAIN)
    assert said(lambda: copied(sketch).release(**AGAIN)), "a sum of it"
    signs = ss.signs.DPSignLogistic(epsilon=1.0, neighbours=ss.L1(1, unit="sale"))
    fresh = SKETCHES.sketch()
    fresh.release(**AGAIN)
    assert said(lambda: signs.release(fresh)), "by another mechanism"
    assert not said(lambda: SKETCHES.sketch().release(**AGAIN))


@pytest.mark.parametrize("copies", [False, True])
def test_a_warning_that_is_an_error_is_one_at_every_call(copies: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """A cell that is run again and again releases nothing, and spends nothing."""
    table, ledger = SKETCHES.table(["north"]), ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("sales", unit="sale", epsilon=9)
    options: dict[str, Any] = AGAIN | {"ledger": ledger, "dataset": "sales", "public_keys": ["north"]}
    table.release(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReleasedAgainWarning)
        for _ in range(3):
            with pytest.raises(ReleasedAgainWarning):
                (table.copy() if copies else table).release(**options)
    assert ledger.left("sales").charges == 1, "nothing was charged"
    assert said(lambda: table.release(**options))
    assert not said(lambda: table.release(**options)), "a warning is given once"


def test_a_release_that_is_meant_or_was_not_made_is_not_warned_of(tmp_path: Path) -> None:
    sketch, ledger = SKETCHES.sketch(), ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("sales", unit="sale", epsilon=1.5)
    with pytest.raises(ss.InvalidInputError):
        sketch.release(epsilon=1.0, neighbours=ss.L1(1 << 60, unit="sale"))
    assert not said(lambda: sketch.release(**AGAIN, ledger=ledger, dataset="sales"))
    assert not said(lambda: sketch.release(**AGAIN, again=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReleasedAgainWarning)
        with pytest.raises(ReleasedAgainWarning, match=r"3 releases with ε = 2\.5"):
            sketch.release(**AGAIN | {"epsilon": 0.5}, ledger=ledger, dataset="sales")
    assert ledger.left("sales").charges == 1, "nothing was charged"


def test_saving_replaces_no_other_release(tmp_path: Path) -> None:
    path, sketch = tmp_path / "r.sketch", SKETCHES.sketch()
    first, second = sketch.release(**AGAIN), sketch.release(**AGAIN, again=True)
    first.save(path)
    before = path.stat()
    first.save(path)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    for other in (second, table_of_two().release(**AGAIN, public_keys=KEYS)):
        with pytest.raises(ss.InvalidInputError, match="already exists and is not this release"):
            other.save(path)
        assert ss.load(path) == first
    second.save(path, overwrite=True)
    assert ss.load(path) == second


def test_units_bounded_over_several_keys_pass_the_mechanisms_that_are_proven_for_them() -> None:
    sale = ss.L1(4, unit="sale")
    projection = ss.projections.Rademacher(dim=64, sketch_dim=16, seed=1)
    apart, together = (
        ss.Sketch.from_state(projection, np.arange(16), 1 << 20, bounds=Bounds(sale, "scale", keys)) for keys in (1, 3)
    )
    levels = ss.signs.DPSignRPRRSmooth(epsilon=1.0, neighbours=sale)
    assert levels.release(apart).guarantee.basis == "enforced"
    with pytest.raises(ss.InvalidInputError, match=r"bounded over 3 keys together, for which .* is not proven private"):
        levels.release(together)
    assert levels.release(together, assert_bounds=True).guarantee.basis == "asserted"
    for proven in (ss.signs.DPSignLogistic(epsilon=1.0, neighbours=sale), AdditiveNoise(epsilon=1.0, neighbours=sale)):
        assert proven.release(together).guarantee.basis == "enforced"
