"""Windows published by a schedule: rows, their state, ranges, and who refuses them."""

import dataclasses
import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.continual import Factorisation, HistoryPart, Releaser, Schedule, Separate, Tree, release
from streamsketch.errors import DependentNoiseError, InvalidInputError
from streamsketch.privacy import Counting
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.release.checking.release import check_release
from streamsketch.release.composition import compose
from streamsketch.release.noise_parts import NoisePart
from streamsketch.report import page_of
from tests.release.histories import (
    COUNTED,
    GRID,
    KEYS,
    ROOT,
    TREE,
    UNIT,
    copy_of,
    counted_tables,
    published_tables,
    publisher,
    rows_of,
    window,
)
from tests.release.ranges import range_of

SCHEDULES: list[Schedule] = [
    Separate(horizon=5),
    TREE,
    ROOT,
    Factorisation(horizon=5, blocks=2, bits=4),
    Factorisation(horizon=5, band=2, max_windows=3, gap=2, bits=4),
]


# --- rows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_rows_are_the_schedules_sums_with_the_noise_of_their_bits(schedule: Schedule) -> None:
    releaser, secret = Releaser(publisher(schedule), GRID), bytes(32)
    exact = schedule.matrix() @ np.array([window(day).state() for day in range(5)])
    noise = publisher(schedule).calibrated(GRID).noise
    for day in range(5):
        (computed,) = releaser.exact(window(day)).values()
        given: Any = functools.partial(_keyed, secret, day)
        row: Any = releaser.add(window(day), bits=given)
        assert np.array_equal(computed, exact[day])
        assert np.array_equal(row.values - exact[day], noise.sample(16, KeyedBits(secret, b"%d" % day)))
        assert row.history == HistoryPart(releaser.history, day, day + 1, is_row=True)
        assert (row.noise, row.multiplier) == (noise.cumulants, 1)
        assert releaser.windows == day + 1


def _keyed(secret: bytes, day: int, key: Any, exact: Any) -> KeyedBits:
    assert key is None
    assert exact.shape == (16,)
    return KeyedBits(secret, b"%d" % day)


def test_rows_of_tables_have_counts_and_all_public_keys() -> None:
    tables = counted_tables()
    rows: list[Any] = release(tables, COUNTED, public_keys=KEYS)
    assert [list(row) for row in rows] == [KEYS] * 5
    assert len({one.release_ids for row in rows for one in row.rows}) == 15
    assert len({row[key].data_ids for row in rows for key in KEYS}) == 3
    assert rows[2].guarantee.basis == "enforced"
    assert str(rows[0].guarantee) == (
        "ε = 1, δ = 0 for one customer in one of 5 windows of at most 3 (L1), enforced, by "
        f"{rows[0].guarantee.mechanism.the_noise.noise}, over 5 windows (square root in blocks (8)), a unit in one of "
        "them, with a count of units (weight 40) and slack (weight 2)"
    )
    assert [row["west"].counts.shape for row in rows] == [(2,)] * 5
    for row in rows:
        assert ss.PrivateTable.from_bytes(row.to_bytes()) == row
        assert "units" not in row.to_arrow().column_names
        assert "row" in str(row.explain())


@pytest.mark.parametrize("stops", range(1, 6))
def test_a_restart_after_any_window_gives_the_same_rows(stops: int) -> None:
    def drawn(_: Any, exact: Any) -> KeyedBits:
        return KeyedBits(bytes(32), exact.tobytes())

    history = bytes(range(8))
    tables = counted_tables()
    first = Releaser(COUNTED, GRID, history=history)
    whole = [first.add(table, public_keys=KEYS, bits=drawn) for table in tables]
    again, found = Releaser(COUNTED, GRID, history=history), []
    for day, table in enumerate(tables):
        if day == stops:
            again = Releaser.restored(COUNTED, GRID, again.state)
        found.append(again.add(table, public_keys=KEYS if day == 0 else None, bits=drawn))
    assert found == whole


def test_a_state_of_something_else_is_refused() -> None:
    releaser = Releaser(publisher(), GRID)
    with pytest.raises(InvalidInputError, match="no window was added"):
        _ = releaser.state
    releaser.add(window(0))
    state = releaser.state
    with pytest.raises(InvalidInputError, match="rows of the publisher would have"):
        Releaser.restored(publisher(TREE), GRID, state)
    with pytest.raises(InvalidInputError, match="sums of 1 keys have 16 numbers"):
        Releaser.restored(publisher(), GRID, state._replace(held=state.held[:, :3]))
    with pytest.raises(InvalidInputError, match="holds 2 sums after 2 windows"):
        Releaser.restored(publisher(), GRID, state._replace(window=2))


def _raise(*_: Any) -> Any:
    raise OSError("no entropy")


REFUSED: list[tuple[str, Callable[[], Any], dict[str, Any], str]] = [
    ("another map", lambda: ss.SJLT(sketch_dim=16, sparsity=4, seed=8).sketch(), {}, "seed"),
    ("a table", GRID.table, {"public_keys": ["a"]}, "keys of the first, none"),
    ("keys of a sketch", lambda: window(1), {"public_keys": ["a"]}, "a Sketch has no keys"),
    ("no ledger", lambda: window(1), {"dataset": "sales"}, "pass ledger="),
    ("no window", int, {}, "a window is a Sketch"),
    ("bits that end", lambda: window(1), {"bits": _raise}, "no entropy"),
]


@pytest.mark.parametrize(("make", "options", "match"), [one[1:] for one in REFUSED], ids=[one[0] for one in REFUSED])
def test_a_refused_window_leaves_the_history(make: Any, options: Any, match: str) -> None:
    releaser = Releaser(publisher(), GRID)
    releaser.add(window(0))
    before = releaser.state
    with pytest.raises((ss.StreamsketchError, TypeError, OSError), match=match):
        releaser.add(make(), **options)
    after = releaser.state
    assert np.array_equal(after.held, before.held)
    assert (after.window, after.guarantee) == (before.window, before.guarantee)
    assert np.array_equal(
        releaser.exact(window(1))[None], ROOT.matrix()[1, :2] @ [window(0).state(), window(1).state()]
    )


def test_no_window_beyond_the_horizon_is_released() -> None:
    releaser = Releaser(publisher(), GRID)
    for day in range(5):
        releaser.add(window(day))
    with pytest.raises(InvalidInputError, match="all 5 windows of the schedule have been added"):
        releaser.add(window(5))
    with pytest.raises(InvalidInputError, match="all 5 windows"):
        release([window(day) for day in range(6)], publisher())
    with pytest.raises(InvalidInputError, match="no window to release"):
        release([], publisher())


def test_all_windows_have_the_keys_and_the_guarantee_of_the_first() -> None:
    tables = counted_tables()
    releaser = Releaser(COUNTED, GRID)
    releaser.add(tables[0], public_keys=KEYS)
    with pytest.raises(InvalidInputError, match="keys of the first"):
        releaser.add(tables[1], public_keys=KEYS[:2])
    plain = Releaser(publisher(), GRID)
    plain.add(tables[0], public_keys=KEYS)
    with pytest.raises(InvalidInputError, match="follow one agreement"):
        plain.add(GRID.table(), public_keys=KEYS)


def test_people_bounded_in_each_window_are_bounded_over_all_of_them() -> None:
    """Of sketch space √m times the bound, as squares add up."""
    fine = dataclasses.replace(GRID, resolution="1/2048")
    for schedule, bound, fits in ((ROOT, 4, True), (SCHEDULES[-1], 4, False), (SCHEDULES[-1], 7, True)):
        agreement = ss.Agreement(fine, index="item", unit="customer", neighbours=ss.SketchL2(4, unit="customer"))
        sketch = ss.bound(pa.table({"customer": ["a", "b"], "item": ["x", "y"]}), agreement)
        releaser = Releaser(publisher(schedule, neighbours=ss.SketchL2(bound, unit="customer")), fine)
        if fits:
            row: Any = releaser.add(sketch)
            assert row.guarantee.basis == "enforced"
            assert row.guarantee.neighbours.units.startswith("customers in ")
        else:
            with pytest.raises(InvalidInputError, match="does not imply"):
                releaser.add(sketch)


WAYS: dict[str, tuple[ss.projections.Projection, Any, Any]] = {
    "L1": (GRID, UNIT, "scale"),
    "L1, cut": (GRID, UNIT, "cut"),
    "SketchL2": (GRID.replace(resolution="1/8192"), ss.SketchL2(3, unit="customer"), "scale"),
    "SketchL2, equal": (GRID.replace(resolution="1/8192"), ss.SketchL2(3, unit="customer"), "equal"),
}


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_rows_do_not_state_which_windows_have_data(way: str, keyed: bool) -> None:  # noqa: FBT001 - a parameter
    """A new sketch says nothing of a bound: where those with rows are bounded it is refused, in whichever window."""
    projection, neighbours, clip = WAYS[way]
    agreed = ss.Agreement(
        projection, index="item", key="shop" if keyed else None, unit="customer", neighbours=neighbours, clip=clip
    )
    rows = pa.table({"customer": ["Ann", "Bob"], "item": ["tea", "jam"], "shop": ["north", "north"]})
    full, none = ss.bound(rows, agreed), ss.bound(rows[:0], agreed)
    new: Any = ss.SketchTable if keyed else ss.Sketch
    schedule = publisher(TREE, neighbours=neighbours)
    keys: dict[str, Any] = {"public_keys": ["north", "south"]} if keyed else {}
    stated = set()
    for windows in ([full, full], [full, none], [none, full], [none, none]):
        releaser = Releaser(schedule, projection)
        for one in windows:
            row = releaser.add(one, **keys)
            sketches = [row[key] for key in row] if isinstance(row, ss.PrivateTable) else [row]
            stated |= {(one.guarantee, one.clip, one.agreement) for one in sketches}
            for empty in (new(agreed), new(projection)):
                with pytest.raises(InvalidInputError, match=r"states no bound|follow one agreement"):
                    releaser.add(empty, **keys)
        with pytest.raises(InvalidInputError, match="states no bound"):
            Releaser(schedule, projection).add(new(agreed), **keys)
        assert releaser.windows == 2
    ((guarantee, shown, _),) = stated
    assert (guarantee.basis, shown) == ("enforced", clip if way.startswith("SketchL2") else None)


def test_a_unit_that_may_be_in_all_windows_is_the_unit() -> None:
    schedule = Tree(horizon=5, max_windows=5)
    rows: Any = release([counted_tables()[0]], publisher(schedule), keys_are_public=True)
    assert rows[0].guarantee.neighbours == UNIT
    assert rows[0].guarantee.basis == "enforced"


def test_whoever_publishes_single_releases_is_told_of_schedules() -> None:
    table = GRID.table()
    paths: list[Callable[[], Any]] = [
        lambda: publisher().release(window(0)),
        lambda: publisher().release_table(table, public_keys=["a"]),
        lambda: publisher().release_rows(GRID, np.ones((2, 4), dtype=np.int64)),
        lambda: publisher().calibrated(GRID).for_data(window(0), assert_bounds=True),
        lambda: publisher().calibrated(GRID).for_data({"a": window(0)}),
    ]
    for path in paths:
        with pytest.raises(InvalidInputError, match="add each window to streamsketch"):
            path()
    with pytest.raises(InvalidInputError, match="has no schedule"):
        Releaser(publisher(None), GRID)
    with pytest.raises(TypeError, match="schedule must be"):
        publisher("tree")  # type: ignore[arg-type]


# --- rows are no streams ----------------------------------------------------------------------------------------


READERS: dict[str, Callable[[Any, Any], Any]] = {
    "squared_norm": lambda row, _: ss.squared_norm(row),
    "squared_distance": ss.squared_distance,
    "cosine": ss.cosine,
    "pairwise": lambda row, other: ss.pairwise([row, other]),
    "combine": lambda row, other: row.combine(other, populations="overlapping"),
    "subtract": lambda row, other: other.subtract(row, populations="overlapping"),
    "scaled": lambda row, _: row.scaled(2),
    "scaled by 1": lambda row, _: row.scaled(1),
    "units": lambda row, _: row.units,
    "total": lambda row, _: row.total,
    "report": lambda row, other: page_of({"a": row, "b": other}, title="rows"),
}


@pytest.mark.parametrize("name", READERS)
def test_nothing_is_estimated_of_a_row(name: str) -> None:
    row, other = rows_of()[0], window(3).release(epsilon=1.0, neighbours=UNIT)
    with pytest.raises(InvalidInputError, match="row 0 of a schedule is not a stream"):
        READERS[name](row, other)


def test_a_release_states_its_part_of_a_history() -> None:
    row = rows_of()[1]
    given = {"noise": row.noise, "guarantee": row.guarantee, "release_ids": row.release_ids}

    def made(history: Any, multiplier: Any = 1, guarantee: Any = row.guarantee, **fields: Any) -> Any:
        fields = given | {"guarantee": guarantee} | fields
        return ss.PrivateSketch(GRID, row.values, multiplier=multiplier, history=history, **fields)

    other = window(0).release(epsilon=1.0, neighbours=UNIT).guarantee
    for history, changed, match in (
        (None, {}, "must state which part of the history"),
        (row.history, {"guarantee": other}, "states the schedule"),
        (row.history, {"multiplier": 2}, "as published"),
        (HistoryPart(bytes(8), 2, 6), {}, "beyond the 5"),
        (row.history, {"release_ids": [bytes(8), bytes([1] * 8)]}, "single release"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            made(history, **changed)
    with pytest.raises(InvalidInputError, match="is not a stream"):
        ss.PrivateSketch(GRID, row.values, **given, parts=[NoisePart(row.noise, row.guarantee, history=row.history)])
    for fields, match in (
        ((b"short", 0, 1), "8 bytes"),
        ((bytes(8), 3, 3), "must not be empty"),
        ((bytes(8), 0, 2, True), "a row is of one window"),
        ((bytes(8), 0, 2, False, (1, 1)), "must not be empty"),
        ((bytes(8), 0, 2, False, (0, 2)), "subtracted from itself"),
        ((bytes(8), 0, 1, 1), "is_row must be True or False"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            HistoryPart(*fields)


def test_a_table_is_of_one_part_of_one_history() -> None:
    tables = [published_tables()[:2] for _ in range(2)]
    (first, second), (other, _) = tables
    for mixed in ({"a": first["north"], "b": second["south"]}, {"a": first["north"], "b": other["south"]}):
        with pytest.raises(InvalidInputError, match="one part of one history"):
            ss.PrivateTable(mixed)


# --- ranges -----------------------------------------------------------------------------------------------------


def test_ranges_and_differences_are_checked_against_their_schedule() -> None:
    for schedule in SCHEDULES:
        rows = rows_of(schedule)
        halvings = 0 if schedule.scale == 1 else 6
        ranges = [range_of(rows, 1, 4, halvings=halvings), range_of(rows, 0, 2, halvings=halvings, minus=(3, 5))]
        for one in [*rows, *ranges, ranges[0].scaled(Fraction(-1, 3))]:
            assert check_release(one).verdict == "enough"
            assert ss.PrivateSketch.from_bytes(one.to_bytes()) == one
            said = " ".join(str(one.explain()).split())
            assert "16 cells of every row: discrete" in said
            assert str(one.history) in said
            assert "Theory 11.3" in said
        assert ss.squared_norm(ranges[0]).variance > 0
        tiny = copy_of(ranges[0], noise=NoiseMoments(5e-324, 0.0))  # whose share of any noise is 0 as a float
        assert check_release(tiny).verdict == "too little"
        short = _with_noise(ranges[0], 0.25) if schedule.scale == 1 else _with_noise(ranges[0], 0.5)
        assert check_release(short).verdict == "too little"
        with pytest.raises(DependentNoiseError):
            ss.squared_distance(*ranges)
    less = dataclasses.replace(rows_of(TREE)[0].guarantee, mechanism=_of(Separate(horizon=5)))
    row = rows_of(TREE)[0]
    assert check_release(copy_of(row, noise=less.mechanism.the_noise.cumulants, guarantee=less)).verdict == "enough"
    wrong = dataclasses.replace(less.mechanism.the_noise, layout=Layout(schedule=TREE))
    less = dataclasses.replace(less, mechanism=ss.privacy.Mechanism([wrong]))
    assert check_release(copy_of(row, noise=wrong.cumulants, guarantee=less)).verdict == "too little"


def test_a_unit_in_other_windows_than_the_schedules_is_refused() -> None:
    for schedule, unit in ((TREE, "sale in at most 3 of 5 windows"), (SCHEDULES[-1], "sale in one of 5 windows")):
        with pytest.raises(InvalidInputError, match="name the unit alone"):
            publisher(schedule, neighbours=ss.L1(3, unit=unit)).calibrated(GRID)
    row = rows_of(TREE)[0]
    for unit in ("customer", "customer in at most 3 of 5 windows"):
        neighbours = dataclasses.replace(row.guarantee.neighbours, unit=unit)
        found = check_release(copy_of(row, guarantee=dataclasses.replace(row.guarantee, neighbours=neighbours)))
        assert found.verdict == "too little"
        assert "its noise for a unit in one of 5 windows" in found.reason


def test_schedules_of_strangers_are_not_looked_through_at_any_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    row = rows_of()[0]
    for name in ("row_blocks", "norms"):
        monkeypatch.setattr(Schedule, name, property(lambda schedule: pytest.fail(f"{schedule} was looked through")))

    def by(schedule: Schedule) -> Any:
        noise = dataclasses.replace(row.guarantee.mechanism.the_noise, layout=Layout(schedule=schedule))
        neighbours = dataclasses.replace(row.guarantee.neighbours, unit=schedule.unit_text("customer"))
        return dataclasses.replace(row.guarantee, mechanism=ss.privacy.Mechanism([noise]), neighbours=neighbours)

    large = Factorisation(horizon=100_000, blocks=9)
    for part in (row.history, HistoryPart(bytes(8), 5, 90_000)):
        one = ss.PrivateSketch.from_bytes(copy_of(row, guarantee=by(large), history=part).to_bytes())
        assert check_release(one).verdict == "not checked"
        assert "blocks to look through" in " ".join(str(one.explain()).split())
    several = [Tree(horizon=50_000, depth=depth) for depth in range(2, 40)]
    parts = [NoisePart(row.noise, by(one), history=HistoryPart(bytes(8), 0, 2)) for one in several]
    ids = [bytes([number] * 8) for number in range(len(parts))]
    values = 10 * row.values  # cells that are too small are refused without a look at any schedule
    summed = ss.PrivateSketch(GRID, values, row.noise, by(TREE), parts=parts, release_ids=ids)
    assert check_release(summed).verdict == "not checked"


def _of(schedule: Schedule) -> Any:
    return publisher(schedule).calibrated(GRID).guarantee.mechanism


def _with_noise(one: Any, factor: float) -> Any:
    return copy_of(one, noise=NoiseMoments(one.noise.k2 * factor, one.noise.k4 * factor**2))


def test_sums_of_ranges_of_two_histories_keep_what_each_states() -> None:
    north, south = ([row["north"] for row in published_tables()] for _ in range(2))
    one, other = range_of(north, 0, 2, halvings=3), range_of(south, 2, 5, halvings=5)
    total = one.combine(other, populations="overlapping")
    assert (total.history, total.counts) == (None, None)
    assert {part.history for part in total.parts} == {one.history, other.history}
    assert check_release(total).verdict == "enough"
    assert ss.PrivateSketch.from_bytes(total.to_bytes()) == total
    assert total.guarantee.epsilon == 2
    assert compose([total, *north, other], populations="overlapping").epsilon == 4  # no cells show of what it is made


def test_counts_of_ranges_are_in_the_lattice_of_the_cells() -> None:
    tables = counted_tables()
    releaser = Releaser(COUNTED, GRID)
    rows: list[Any] = []
    for table in tables:
        noiseless = releaser.exact(table, public_keys=KEYS)["north"]
        row: Any = releaser.add(table, public_keys=KEYS)
        north = row["north"]
        rows.append(copy_of(north, values=noiseless[:16], counts=noiseless[16:]))
    people = [sum(number % 2 for number in range(4 + day)) for day in range(5)]
    for start, stop in ((0, 5), (1, 3), (4, 5)):
        found = range_of(rows, start, stop)
        assert found.units.value == pytest.approx(sum(people[start:stop]), abs=0.01)
        assert found.total.value == pytest.approx(sum(people[start:stop]), abs=0.5)
        deviation = ROOT.error(start, stop) / ROOT.error(0, 5)
        assert found.units.standard_error == pytest.approx(deviation * range_of(rows, 0, 5).units.standard_error)
        assert found.explain().count_errors["units"] == pytest.approx(found.units.standard_error)
    fine, coarse = range_of(rows, 0, 2, halvings=6), range_of(rows, 0, 2, halvings=2)
    assert fine.units.standard_error == pytest.approx(coarse.units.standard_error)
    again = [row["south"] for row in published_tables()]
    both = fine.combine(range_of(again, 0, 2, halvings=3), populations="disjoint")
    assert both.units.variance == pytest.approx(2 * fine.units.variance)
    assert fine.scaled(2).counts is None
    plain = window(0).release(epsilon=1.0, neighbours=UNIT).scaled(Fraction(1, 4))
    with pytest.raises(InvalidInputError, match="multiplier of 1, or of 2"):
        ss.PrivateSketch(
            GRID,
            plain.values,
            plain.noise,
            _counted_guarantee(),
            multiplier="1/4",
            release_ids=[bytes(8)],
            counts=np.array([1, 2]),
        )


def _counted_guarantee() -> Any:
    return publisher(None, counting=Counting(40, slack=2)).calibrated(GRID).guarantee
