"""Clipping in sketch space: the bits of its twin, an l2 bound that no rows break, the same result by every path."""

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.sketching.bounding import cells, units
from streamsketch.sketching.bounding.cell_kernels import clip_cells, root_above
from streamsketch.sketching.bounding.cells import bounded_cells
from streamsketch.sketching.bounding.clip import Bounded
from streamsketch.sketching.bounding.contributions import Contributions
from streamsketch.sketching.bounding.grouping import GroupedEvents
from tests.oracles import naive_cells, naive_maps
from tests.projections.zoo import SMALL, name
from tests.sketching.bounding.edges import EDGES
from tests.sketching.bounding.test_clip import SECRET, SLOTS, UNITS, Event, columns

steps_of_cells = st.one_of(st.integers(-9, 9), st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from(EDGES))
limits = st.one_of(st.integers(1, 9), st.integers(1, (1 << 31) - 1), st.just((1 << 31) - 1))
clips = st.sampled_from(["scale", "equal"])
COUNTS = "", "_over_bound", "_below_bound"
MAPS = [projection for projection in SMALL if projection.dim == 50 and projection.kind != "rotation"]


def clipped(units: list[list[int]], limit: int, clip: str) -> list[list[int]]:
    """Return what `clip_cells` makes of the cells of units."""
    steps = np.array([step for unit in units for step in unit], dtype=np.int64)
    stops = np.cumsum([len(unit) for unit in units])
    clip_cells(steps, stops, limit, clip == "equal")
    return [part.tolist() for part in np.split(steps, stops[:-1])]


def twin(unit: list[int], limit: int, clip: str) -> list[int]:
    left = naive_cells.clipped(dict(enumerate(unit)), limit, clip)
    return [left.get(i, 0) for i in range(len(unit))]


# --- the arithmetic -----------------------------------------------------------------------------------------------


@given(st.lists(st.lists(steps_of_cells, max_size=6), min_size=1, max_size=3), limits, clips)
def test_cells_are_clipped_as_by_the_twin_and_never_exceed_the_bound(
    units: list[list[int]], limit: int, clip: str
) -> None:
    found = clipped(units, limit, clip)
    assert found == [twin(unit, limit, clip) for unit in units]
    for unit, left in zip(units, found, strict=True):
        assert sum(step**2 for step in left) <= limit**2
        assert all(step * was >= 0 for step, was in zip(left, unit, strict=True))
        if clip == "scale" and sum(step**2 for step in unit) <= limit**2:
            assert left == unit


@given(st.lists(steps_of_cells.filter(bool), min_size=1, max_size=6), limits)
def test_a_unit_that_is_clipped_keeps_its_length_but_for_rounding(unit: list[int], limit: int) -> None:
    """A cell loses less than a step and the ratio half a step more; a shift to the right costs 2^-26 of the bound."""
    exact = limit / math.sqrt(sum(step**2 for step in unit))
    (left,) = clipped([unit], limit, "equal")
    for was, step in zip(unit, left, strict=True):
        assert abs(abs(step) - abs(was) * exact) < 1.5 + limit / 2**26


@pytest.mark.parametrize("size", [1, 2, 100, 5000])
@pytest.mark.parametrize("step", [1, 3, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, -(1 << 63)])
def test_many_equal_cells_are_clipped_as_by_the_twin(size: int, step: int) -> None:
    limit = (1 << 31) - 1
    assert clipped([[step] * size], limit, "equal") == [twin([step] * size, limit, "equal")]


@given(st.one_of(st.integers(1, (1 << 62) - 1), st.integers(1, (1 << 31) - 1).map(lambda root: root * root)))
def test_roots_are_rounded_up(number: int) -> None:
    for near in {number, max(number - 1, 1), min(number + 1, (1 << 62) - 1)}:
        assert root_above(np.uint64(near)) == math.isqrt(near - 1) + 1


def test_a_unit_without_cells_adds_nothing() -> None:
    assert clipped([[], [0, 0], [3, 4], []], 10, "equal") == [[], [0, 0], [6, 8], []]


# --- from rows to cells -------------------------------------------------------------------------------------------

rows_of_units = st.lists(
    st.tuples(
        st.sampled_from(UNITS),
        st.sampled_from(SLOTS),
        st.integers(0, 49),
        st.one_of(st.integers(-99, 99), st.sampled_from([1 << 62, -(1 << 62)])),
    ),
    max_size=40,
)


def left_of(parts: Iterable[Bounded]) -> Counter[tuple[Any, int]]:
    """Return the sums of cells, by slot and cell."""
    found: Counter[tuple[Any, int]] = Counter()
    for part in parts:
        assert part.in_cells
        assert part.steps.all()
        for code, cell, step in zip(part.codes.tolist(), part.indices.tolist(), part.steps.tolist(), strict=True):
            found[part.slots[code], cell] += step
    return nonzero(found)


def nonzero(cells: Counter[tuple[Any, int]]) -> Counter[tuple[Any, int]]:
    """Return the cells, as int64, that are not zero."""
    wrapped = {place: naive_cells.as_int64(step) for place, step in cells.items()}
    return Counter({place: step for place, step in wrapped.items() if step})


@functools.cache
def column(text: str, index: int) -> list[int]:
    return naive_maps.column(text, index)


def bounds_for(
    projection: ss.projections.Projection, clip: str = "equal", limit: int = 4096, max_keys: int = 9
) -> dict[str, Any]:
    return {"projection": projection, "max_keys": max_keys, "limit": limit, "secret": SECRET, "equal": clip == "equal"}


@pytest.mark.parametrize("projection", MAPS, ids=name)
@settings(max_examples=settings.default.max_examples // 2)  # of each of 16 maps
@given(rows_of_units, limits, clips, st.integers(1, 5))
def test_rows_are_clipped_as_by_the_twin_in_every_map(
    projection: ss.projections.Projection, found: list[Event], limit: int, clip: str, max_keys: int
) -> None:
    bounds: dict[str, Any] = {"limit": limit, "clip": clip, "max_keys": max_keys, "secret": SECRET}
    sums, units = naive_cells.bounded(found, functools.partial(column, projection.to_json()), **bounds)
    parts = list(bounded_cells(columns(found), **bounds_for(projection, clip, limit, max_keys)))
    assert left_of(parts) == sums
    held: Counter[Any] = Counter()
    for part in parts:
        held.update(dict(zip(part.slots, part.units_of.tolist(), strict=True)))
    assert +held == units
    assert sum(part.tally.units for part in parts) == len({unit for unit, *_ in found})


@given(rows_of_units, st.randoms(use_true_random=False), clips)
def test_order_and_company_of_rows_decide_nothing(found: list[Event], shuffle: Any, clip: str) -> None:
    bounds = bounds_for(ss.SJLT(dim=50, sketch_dim=16, sparsity=4, seed=3), clip, max_keys=2)
    whole = left_of(bounded_cells(columns(found), **bounds))
    shuffled = found.copy()
    shuffle.shuffle(shuffled)
    assert left_of(bounded_cells(columns(shuffled), **bounds)) == whole
    alone: Counter[tuple[Any, int]] = Counter()
    for unit in UNITS:
        for place, step in left_of(bounded_cells(columns([row for row in found if row[0] == unit]), **bounds)).items():
            alone[place] += step
    assert nonzero(alone) == whole


@pytest.mark.parametrize("projection", [MAPS[0], MAPS[1], MAPS[3]], ids=name)
@pytest.mark.parametrize("clip", ["scale", "equal"])
@pytest.mark.parametrize("most", [{"PART": 1, "PIECE": 1}, {"PART": 7, "PIECE": 3}, {"PART": 40}, {"PIECE": 5}])
@pytest.mark.parametrize("large", [0, 1 << 20])
def test_parts_and_pieces_of_any_size_give_the_same_cells(
    projection: ss.projections.Projection, clip: str, most: dict[str, int], large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one unit too, which are then found twice: once to be measured, once to be clipped."""
    rng = np.random.default_rng(5)
    drawn = zip(rng.integers(0, 5, 200), rng.integers(0, 5, 200), rng.integers(0, 50, 200), range(200), strict=True)
    found: list[Event] = [
        (UNITS[unit], SLOTS[slot], int(index), step << 10 * unit) for unit, slot, index, step in drawn
    ]
    bounds = bounds_for(projection, clip, 1 << 14)
    whole = list(bounded_cells(columns(found), **bounds))
    for constant, size in ({"CELLS_A_SLOT": 0, "LARGE": large} | most).items():
        monkeypatch.setattr(cells, f"_{constant}", size)
    parts = list(bounded_cells(columns(found), **bounds))
    assert left_of(parts) == left_of(whole)
    assert (len(parts) > 5) == (large == 0 and "PART" in most)
    for field in ("units", "units_over_bound", "units_below_bound", "total", "kept"):
        assert sum(getattr(part.tally, field) for part in parts) == pytest.approx(getattr(whole[0].tally, field))
    assert max(part.tally.largest for part in parts) == pytest.approx(whole[0].tally.largest)
    assert sum(part.units_of for part in parts).tolist() == [5] * 5  # type: ignore[union-attr]


@pytest.mark.parametrize("clip", ["scale", "equal"])
@pytest.mark.parametrize("corner", [0, 1, 2])
def test_a_unit_at_the_bound_is_not_counted_as_clipped(corner: int, clip: str) -> None:
    """Σ cells² at limit², one below, three above: of a small unit, and of one too large for memory, the same tally."""
    tallies, none = [], np.empty(0, dtype=np.int64)
    for limit in (5, 1025):  # a slot for each row of features, which are ones: 25 cells, and more than 2^20
        features = np.ones((limit, limit), dtype=np.int64)
        features[0, 0] = corner
        slots = [("AA", window) for window in range(limit)]
        rows = Contributions(np.full((limit, 2), 7, np.uint64), slots, np.arange(limit), none, none, features)  # type: ignore[arg-type]
        bounds = bounds_for(ss.projections.Identity(dim=limit), clip, limit, max_keys=limit)
        parts = list(bounded_cells(rows, **bounds))
        assert (len(parts) > 1) == (limit > 5), "in turn, some slots at a time"
        kept = [part.steps for part in parts if part.steps.size]
        assert sum(int(steps.sum()) for steps in kept) == (limit**2 - 1 + corner if corner < 2 else corner - 1)
        tallies.append([sum(getattr(part.tally, f"units{name}") for part in parts) for name in COUNTS])
        assert max(part.tally.largest for part in parts) == pytest.approx(math.sqrt(limit**2 - 1 + corner**2))
    assert tallies == [[1, int(corner > 1), int(corner < 1 and clip == "equal")]] * 2


def test_cells_that_cancel_count_once_if_they_are_met_again() -> None:
    """A cell that is zero in between stays one cell: met twice, it would count twice in the norm."""
    projection = ss.projections.Identity(dim=2)
    colliding = ss.CountSketch(dim=64, sketch_dim=1, seed=1)
    signs = [int(colliding.columns([index])[0, 0]) for index in range(64)]
    plus, minus = signs.index(1), signs.index(-1)
    other = signs.index(1, plus + 1)
    found: list[Event] = [(UNITS[0], SLOTS[0], index, 3) for index in (plus, minus, other)]
    assert left_of(bounded_cells(columns(found), **bounds_for(colliding, "scale", 3))) == {(SLOTS[0], 0): 3}
    found = [(UNITS[0], SLOTS[0], 0, step) for step in (5, -5)]
    (part,) = bounded_cells(columns(found), **bounds_for(projection))
    assert part.codes.size == 0
    assert part.units_of.tolist() == [1]
    assert dataclasses.asdict(part.tally) | {"units": 1} == dataclasses.asdict(part.tally)
    assert list(bounded_cells(columns([]), **bounds_for(projection))) == []


def test_sums_wrap_around_before_they_are_clipped() -> None:
    """2^62 twice is -2^63, as in a sketch; a third time -2^62; a fourth time nothing."""
    projection = ss.projections.Identity(dim=2)
    for times, expected in enumerate([10, -10, -10, 0], start=1):
        found: list[Event] = [(UNITS[0], SLOTS[0], 1, 1 << 62)] * times
        left = left_of(bounded_cells(columns(found), **bounds_for(projection, "scale", 10)))
        assert left == Counter({(SLOTS[0], 1): expected} if expected else {})


# --- bounded tables -----------------------------------------------------------------------------------------------

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution="1/4096")
LIMIT = ss.SketchL2(4).cell_steps(PROJECTION)


def batch(seed: int, size: int = 500, units: int = 30) -> tuple[Any, ...]:
    """Return rows of units in up to five keys, with large and negative values, as `bound_units` takes them."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-9, 10, size) * 10 ** rng.integers(0, 6, size)
    return (
        rng.integers(0, 5, size),
        [f"item {i}" for i in rng.integers(0, 40, size)],
        values,
        rng.integers(0, units, size),
    )


def exact_units(rows: tuple[Any, ...], clip: str) -> list[dict[Any, int]]:
    """Return the cells of each unit by the twin."""
    keys, items, values, units = rows
    indices = PROJECTION.indices_of(items).tolist()
    found: dict[int, list[naive_cells.Row]] = {}
    for key, index, value, unit in zip(keys.tolist(), indices, values.tolist(), units.tolist(), strict=True):
        found.setdefault(unit, []).append(((key, 0), index, value * 4096))
    column_of = functools.partial(column, PROJECTION.to_json())
    return [naive_cells.clipped(naive_cells.cells_of(own, column_of), LIMIT, clip) for own in found.values()]


@pytest.mark.parametrize("clip", ["scale", "equal"])
def test_a_table_is_the_sum_of_its_units_cells_in_batches_and_files_too(
    clip: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = batch(1)
    expected: Counter[Any] = Counter()
    for unit in exact_units(rows, clip):
        assert sum(step**2 for step in unit.values()) <= LIMIT**2
        expected.update(unit)
    bounds: dict[str, Any] = {"neighbours": ss.SketchL2(4, unit="customer"), "clip": clip}
    whole = ss.bounding.bound_units([rows], PROJECTION, **bounds)
    for key, sketch in whole.items():
        assert sketch.state().tolist() == [expected[(key, 0), cell] for cell in range(64)]
    order = np.random.default_rng(2).permutation(500)
    shuffled = [[column[i] for i in order] for column in rows]
    parts: Any = [tuple(column[at : at + 90] for column in shuffled) for at in range(0, 500, 90)]
    for rows_in_memory in (1 << 20, 64):
        monkeypatch.setattr(units, "GroupedEvents", lambda folder: GroupedEvents(folder, rows_in_memory))  # noqa: B023
        assert ss.bounding.bound_units(parts, PROJECTION, **bounds) == whole


def test_a_table_of_some_units_and_one_of_the_others_add_up_to_that_of_all() -> None:
    rows = batch(3)
    bounds: dict[str, Any] = {"neighbours": ss.SketchL2(4), "clip": "equal"}
    parts = [tuple(np.array(column)[rows[3] % 2 == half] for column in rows) for half in (0, 1)]
    table, other = (ss.bounding.bound_units([part], PROJECTION, **bounds) for part in parts)
    table.merge(other, disjoint_units=True)
    assert table == ss.bounding.bound_units([rows], PROJECTION, **bounds)
    assert table.bounds.neighbours == ss.SketchL2(4)


@pytest.mark.parametrize("max_keys", [1, 2, 4])
def test_a_unit_keeps_so_many_keys_and_the_bound_holds_for_all_of_them(max_keys: int) -> None:
    keys, items, values, _ = batch(4)
    rows = (keys, items, values, np.zeros(500, dtype=int))
    table = ss.bounding.bound_units([rows], PROJECTION, neighbours=ss.SketchL2(4, max_keys=max_keys))
    assert len(table) == max_keys
    squares = int((table.cells**2).sum())
    assert 0.99 * LIMIT**2 <= squares <= LIMIT**2


def test_a_unit_in_many_keys_is_clipped_over_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (np.arange(3000), np.arange(3000), np.ones(3000, dtype=int), np.zeros(3000, dtype=int))
    bounds: dict[str, Any] = {"neighbours": ss.SketchL2(4), "clip": "equal"}
    table = ss.bounding.bound_units([rows], PROJECTION, **bounds)
    assert len(table) == 3000
    assert 0.98 * LIMIT**2 < int((table.cells**2).sum()) <= LIMIT**2
    for constant in ("PART", "CELLS_A_SLOT", "LARGE"):
        monkeypatch.setattr(cells, f"_{constant}", 2000 if constant == "PART" else 0)
    assert ss.bounding.bound_units([rows], PROJECTION, **bounds) == table


def test_a_unit_is_shortened_or_lengthened_and_the_summary_says_so() -> None:
    rows = (None, ["tea", "tea", "jam", "rye"], [1, 2, 300, 5], ["Ann", "Ann", "Bob", "Cid"])
    for clip, lengthened, kept in (("scale", 0, 3 + 4 + 4), ("equal", 1, 12)):
        summary = ss.bounding.BoundingSummary()
        neighbours = ss.SketchL2(4, unit="customer")
        ss.bounding.bound_units([rows], PROJECTION, neighbours=neighbours, clip=clip, summary=summary)  # type: ignore[arg-type]
        assert (summary.units, summary.units_over_bound, summary.units_below_bound) == (3, 2, lengthened)
        assert summary.total == pytest.approx(3 + 300 + 5)
        assert summary.largest_unit == pytest.approx(300)
        assert summary.total_kept == pytest.approx(kept, rel=1e-3)


def test_nobody_adds_nothing() -> None:
    table = ss.bounding.bound_units([], PROJECTION, neighbours=ss.SketchL2(4), clip="equal")
    assert len(table) == 0
    assert table.bounds.neighbours == ss.SketchL2(4)
    gone = ss.bounding.bound_units([(["a"] * 2, [1] * 2, [3, -3], [1] * 2)], PROJECTION, neighbours=ss.SketchL2(4))
    assert len(gone) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clip": "cut"}, r"clipped to SketchL2 by clip='scale', clip='equal' or clip='average', got 'cut'"),
        ({"clip": "even"}, r"clip must be 'scale'"),
        ({"max_keys": 3}, r"SketchL2 bounds all keys of a unit together.*max_keys=3"),
        ({"neighbours": ss.SketchL2("1/4")}, r"4,096 are needed. Use resolution='1/32768'"),
        ({"neighbours": ss.SketchL2(1 << 30)}, r"2\*\*31 grid steps or more"),
        ({"neighbours": ss.L1(9), "clip": "equal"}, r"clipped to L1 by clip='scale' or clip='cut', got 'equal'"),
    ],
)
def test_bounds_that_cannot_be_enforced_are_refused(change: dict[str, Any], message: str) -> None:
    options: dict[str, Any] = {"neighbours": ss.SketchL2(4)} | change
    with pytest.raises(ss.InvalidInputError, match=message):
        ss.bounding.bound_units([], PROJECTION, **options)


def test_cells_out_of_range_are_refused_and_change_nothing() -> None:
    table = PROJECTION.table(["a"])
    one = np.array([1])
    for cell in (-1, 64):
        with pytest.raises(ss.InvalidInputError, match="cells must be in"):
            table.add_cells(["b"], one - 1, np.array([cell]), one)
    with pytest.raises(IndexError):
        table.add_cells(["b"], one, one, one)
    assert list(table) == ["a"]
    table.add_cells(["b", "c"], np.array([0, 0]), np.array([3, 3]), np.array([5, -7]))
    assert (table["b"].state()[3], table["b"].mass, list(table)) == (-2, 12, ["a", "b"])
