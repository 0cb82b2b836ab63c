"""What one unit moves in sketch space, and of counts: C̃ in ℓ2 at most over all its keys, whatever its rows hold.

First the law as Theory 2.2 defines it, in Python's integers; then the library, which must do exactly that. Each
check is shown to catch what is not private.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.privacy import Counting, Neighbours
from streamsketch.privacy.layout import Layout
from streamsketch.sketching.bounding import cells as in_cells
from streamsketch.sketching.bounding import units
from streamsketch.sketching.bounding.clip import Bounded, bounded, summed
from tests.audit.record import judged
from tests.oracles.naive_cells import Slot, cells_of, clipped
from tests.sketching.bounding.test_sensitivities import MAPS as SMALL_MAPS

Cells = Mapping[Any, int]
Clipper = Callable[[Cells, int, str], Cells]

WAYS = ["scale", "equal"]
LIMITS = [1, 2, 3, 5, 2**12, 275_807, 2**31 - 1]
A, B = ("A", 0), ("B", 7)


def small() -> Iterator[Cells]:
    """Yield every unit of three small cells, in two keys."""
    places = [(A, 0), (A, 1), (B, 0)]
    for values in itertools.product(range(-3, 4), repeat=3):
        yield dict(zip(places, values, strict=True))


def extreme() -> Iterator[Cells]:
    """Yield units about the ends of the words that kernels calculate in."""
    ends = [2**30, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, -(2**63)]
    for one, other in itertools.product([*ends, 1], ends):
        yield {(A, 0): one, (B, 0): other}
    yield {(A, cell): 2**30 for cell in range(16)}  # the squares sum to 2^64
    yield {(A, cell): 2**30 for cell in range(4)}  # to 2^62
    yield {(A, cell): -(2**63) for cell in range(16)}
    yield {(A, 0): 2**63 - 1} | {(A, cell): 1 for cell in range(1, 16)}


UNITS = [*small(), *extreme()]


def squares(cells: Cells) -> int:
    return sum(y**2 for y in cells.values())


def exceeding(clipper: Clipper, way: str) -> tuple[Cells, int] | None:
    """Return the first unit that is left longer than a limit, with it; None if none is."""
    pairs = itertools.product(UNITS, LIMITS)
    return next(((unit, limit) for unit, limit in pairs if squares(clipper(unit, limit, way)) > limit**2), None)


@pytest.mark.parametrize("way", WAYS)
def test_no_unit_is_left_longer_than_the_limit(way: str) -> None:
    assert exceeding(clipped, way) is None


@pytest.mark.parametrize("way", WAYS)
def test_what_is_clipped_keeps_signs_and_loses_less_than_two_steps_a_cell(way: str) -> None:
    for limit, unit in itertools.product([1, 3, 2**20], UNITS):
        size, found = math.isqrt(squares(unit)), clipped(unit, limit, way)
        if way == "scale" and squares(unit) <= limit**2:
            assert found == {place: y for place, y in unit.items() if y}
        elif size:
            for place, y in unit.items():
                left = found.get(place, 0)
                assert left * y >= 0
                # |y|·limit/size, where size is rounded down: too large by less than limit/size
                assert abs(y) * limit / size - 2 - limit / size <= abs(left) <= limit


def test_a_unit_without_cells_adds_nothing_and_the_shortest_is_brought_to_the_limit() -> None:
    assert clipped({(A, 0): 0}, 5, "equal") == clipped({}, 5, "equal") == {}
    for limit in LIMITS:
        assert clipped({(A, 0): -1}, limit, "equal") == {(A, 0): -limit}


# --- faults put back, which the check must find -------------------------------------------------------------------


def rescaled(cells: Cells, limit: int, way: str, *, root: Callable[[int], int], last: Callable[[int], int]) -> Cells:
    """Clip as the definition does, but for how the root and the last division are rounded."""
    total = squares(cells)
    if total == 0 or (way == "scale" and total <= limit**2) or total >= 2**62:
        return clipped(cells, limit, way)
    shift = (62 - total.bit_length()) // 2
    ratio = 2**32 * limit // root(total << 2 * shift)
    return {place: (1 if y > 0 else -1) * last((abs(y) << shift) * ratio) for place, y in cells.items()}


def root_rounded_down(cells: Cells, limit: int, way: str) -> Cells:
    return rescaled(cells, limit, way, root=math.isqrt, last=lambda product: product >> 32)


def root_rounded_up(total: int) -> int:
    return math.isqrt(total - 1) + 1


def cells_rounded_up(cells: Cells, limit: int, way: str) -> Cells:
    return rescaled(cells, limit, way, root=root_rounded_up, last=lambda product: -(-product >> 32))


def cells_rounded_to_the_nearest(cells: Cells, limit: int, way: str) -> Cells:
    return rescaled(cells, limit, way, root=root_rounded_up, last=lambda product: (product + 2**31) >> 32)


def squares_in_one_word(cells: Cells, limit: int, way: str) -> Cells:
    total = squares(cells) % 2**64
    return cells if total == 0 or (way == "scale" and total <= limit**2) else clipped(cells, limit, way)


def key_by_key(cells: Cells, limit: int, way: str) -> Cells:
    """Give each key the limit to itself."""
    found: dict[Any, int] = {}
    for slot in {slot for slot, _ in cells}:
        found |= clipped({place: y for place, y in cells.items() if place[0] == slot}, limit, way)
    return found


def no_units_but_long_ones(cells: Cells, limit: int, way: str) -> Cells:
    """Compare the largest cell with the limit, in place of the norm."""
    return cells if all(abs(y) <= limit for y in cells.values()) else clipped(cells, limit, way)


FAULTS = [root_rounded_down, cells_rounded_up, cells_rounded_to_the_nearest, squares_in_one_word, key_by_key]
FAULTS += [no_units_but_long_ones]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fault", FAULTS)
def test_clipping_with_a_fault_is_caught(fault: Clipper, way: str) -> None:
    assert exceeding(fault, way) is not None


def test_a_bound_on_the_data_in_place_of_their_sketch_is_caught() -> None:
    """Where columns of A are equal, items add up in its cells: as in a hashed domain, where a unit can choose them."""

    def column(_: int) -> list[int]:
        return [1, -1]

    rows: list[tuple[Slot, int, int]] = [(A, index, 100) for index in range(9)]
    limit = 150
    on_the_data = clipped({index: steps for _, index, steps in rows}, limit)
    assert squares(on_the_data) <= limit**2
    moved = cells_of([(A, index, steps) for index, steps in on_the_data.items()], column)
    assert squares(moved) > 17 * limit**2  # 9 · 2, but for rounding
    assert squares(clipped(cells_of(rows, column), limit)) <= limit**2


# --- the library: every map, adversarial units --------------------------------------------------------------------

HASHED = ss.SJLT(sketch_dim=4, sparsity=2, seed=9)
MAPS = [*SMALL_MAPS, HASHED, ss.projections.FJLT(dim=2, sketch_dim=2, seed=2, density="1/2", fraction_bits=2)]
MAPS += [
    ss.projections.Rotation(dim=2, sketch_dim=2, seed=1),
    ss.projections.VerySparse(dim=2, sketch_dim=3, sparsity=2, seed=7),
]
KEYS = "abc"
Row = tuple[str, int, int, str]
"""A key, an index, a value and a unit."""


def indices_of(projection: ss.projections.Projection) -> list[int]:
    """Return two indices; in a hashed domain two whose columns are equal."""
    columns = projection.columns(np.arange(min(projection.dim, 64)))
    same = next((at for at in range(1, columns.shape[1]) if (columns[:, at] == columns[:, 0]).all()), 1)
    return [0, same]


def rows_of(projection: ss.projections.Projection) -> list[Row]:
    """Return the rows of units of every kind: one of each name."""
    one, other = indices_of(projection)
    found = [(key, index, value, "many") for key in KEYS for index, value in ((one, 900), (other, 901))]
    found += [("a", one, 1 << 61, "huge")] * 7 + [("b", other, -(1 << 61), "huge")] * 4
    found += [("a", one, 1, "least"), ("b", one, 3, "few"), ("b", other, -2, "few"), ("b", one, 0, "few")]
    found += [("a", one, 5, "returned"), ("a", one, -5, "returned")]
    found += [(key, index, value, "flat") for key in "ab" for index, value in ((one, 37), (other, -36))]
    found += [("c", one, 2895, "long"), ("c", other, 2896, "long")]
    return found


def relation_of(projection: ss.projections.Projection, max_keys: int) -> ss.SketchL2:
    """Return a bound of some 5,000 steps of a cell."""
    return ss.SketchL2(Fraction(5000 * projection.cell_unit), unit="user", max_keys=max_keys)


def table_of(
    rows: list[Row], projection: ss.projections.Projection, neighbours: Neighbours, way: Any
) -> list[list[int]]:
    """Return the cells of each key, and two exact counts behind them."""
    keys, indices, values, units = (list(column) for column in zip(*rows, strict=True))
    columns = keys, np.array(indices, dtype=np.int64), np.array(values, dtype=np.int64), units
    table = ss.bounding.bound_units([columns], projection, neighbours=neighbours, clip=way)
    sketches = [table.sketch_of(key) for key in KEYS]
    return [np.append(one.state(), one.counts).tolist() for one in sketches]  # type: ignore[arg-type]


def changes(projection: ss.projections.Projection, neighbours: Neighbours, way: str) -> list[np.ndarray]:
    """Return by how much each unit changes the cells and counts of each key: (keys, cells and counts), exactly."""
    rows = rows_of(projection)
    with_all = np.array(table_of(rows, projection, neighbours, way), dtype=object)
    names = sorted({row[-1] for row in rows})
    without = [table_of([row for row in rows if row[-1] != unit], projection, neighbours, way) for unit in names]
    return [with_all - np.array(one, dtype=object) for one in without]


def farthest(projection: ss.projections.Projection, neighbours: ss.SketchL2, way: str) -> int:
    """Return the largest squared distance, over all keys, between the cells with and without a unit."""
    return max(int((moved[:, :-2] ** 2).sum()) for moved in changes(projection, neighbours, way))


@pytest.fixture
def one_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs with and without a unit draw one secret, as they would in the two worlds that are compared."""
    monkeypatch.setattr("os.urandom", bytes)


@pytest.mark.usefixtures("one_secret")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("max_keys", [2, 2**32 - 1])
@pytest.mark.parametrize("projection", MAPS, ids=lambda projection: projection.kind)
def test_a_unit_moves_all_keys_by_the_bound_at_most(
    projection: ss.projections.Projection, max_keys: int, way: str
) -> None:
    neighbours = relation_of(projection, max_keys)
    limit = neighbours.cell_steps(projection)
    moved = farthest(projection, neighbours, way)
    judged(1 - math.sqrt(moved) / limit)
    assert limit >= 4999
    assert (limit - 10) ** 2 < moved <= limit**2


COUNTED: dict[str, tuple[Callable[[ss.projections.Projection], Neighbours], str]] = {
    "scale": (lambda projection: relation_of(projection, 2), "scale"),
    "equal": (lambda projection: relation_of(projection, 2), "equal"),
    "l1 by scale": (lambda _: ss.L1(50, unit="user", max_keys=2), "scale"),
    "l1 by cut": (lambda _: ss.L1(50, unit="user", max_keys=2), "cut"),
}


def exceeds(projection: ss.projections.Projection, name: str) -> bool:
    """Return whether a unit changes cells and counts by more than is stated of a release with both."""
    relation, way = COUNTED[name]
    neighbours = relation(projection)
    counting = Counting.of(projection, neighbours, delta=1e-6)
    bound = 50 if counting.slack else 0
    stated = sensitivity_of(projection, neighbours, Layout(counting))
    for moved in changes(projection, neighbours, way):
        counts = counting.weighted(moved[:, -2:], bound)
        published = np.concatenate([moved[:, :-2], counts], axis=1)
        if np.abs(published).sum() > stated.l1 or (published**2).sum() > stated.l2_squared:
            return True
    return False


@pytest.mark.usefixtures("one_secret")
@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("projection", [MAPS[0], HASHED, *MAPS[5:8]], ids=lambda projection: projection.kind)
def test_a_unit_moves_cells_and_counts_together_by_what_is_stated(
    projection: ss.projections.Projection, name: str
) -> None:
    assert not exceeds(projection, name)


def counting_rows(found: Any) -> np.ndarray:
    return np.bincount(found.codes, minlength=len(found.slots))


def twice(found: Any) -> np.ndarray:
    return 2 * found.units_left


@pytest.mark.usefixtures("one_secret")
@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("count", [counting_rows, twice])
def test_counts_with_a_fault_are_caught(
    count: Callable[[Any], np.ndarray], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Bounded.counts.fget  # type: ignore[attr-defined]

    def faulty(found: Bounded) -> np.ndarray:
        return np.stack([count(found), counts(found)[:, 1]], axis=1)

    monkeypatch.setattr(Bounded, "counts", property(faulty))
    assert exceeds(ss.SJLT(dim=64, sketch_dim=16, sparsity=4, seed=2), name)


# --- faults put back there ----------------------------------------------------------------------------------------


def nothing_clipped(patch: pytest.MonkeyPatch) -> None:
    bounded_cells = units.bounded_cells
    most = {"limit": (1 << 31) - 1, "equal": False}
    patch.setattr(units, "bounded_cells", lambda events, **bounds: bounded_cells(events, **bounds | most))


def clipped_before_the_map(patch: pytest.MonkeyPatch) -> None:
    def on_the_data(events: Any, *, max_keys: int, limit: int, secret: bytes, **_: Any) -> Iterator[Any]:
        bounds = {"max_keys": max_keys, "limit": limit**2, "secret": secret}
        yield bounded(events, **bounds, together=True, squared=True)

    patch.setattr(units, "bounded_cells", on_the_data)


def a_bound_for_each_key(patch: pytest.MonkeyPatch) -> None:
    def each_key(*given: Any, **options: Any) -> Any:
        found = summed(*given, **options)
        keys = np.diff(found.unit_ends, prepend=0)
        owners = np.repeat(found.units, keys, axis=0)
        return dataclasses.replace(found, units=owners, unit_ends=np.arange(1, len(owners) + 1))

    patch.setattr(in_cells, "summed", each_key)


def two_halves_of_a_unit(patch: pytest.MonkeyPatch) -> None:
    """Clip in two calls, as where the rows of a unit are not brought together."""
    bounded_cells = units.bounded_cells

    def halves(events: Any, **bounds: Any) -> Iterator[Any]:
        for half in (slice(None, None, 2), slice(1, None, 2)):
            yield from bounded_cells(events.rows(half), **bounds)

    patch.setattr(units, "bounded_cells", halves)


LIBRARY_FAULTS = [nothing_clipped, clipped_before_the_map, a_bound_for_each_key, two_halves_of_a_unit]


@pytest.mark.usefixtures("one_secret")
@pytest.mark.parametrize("fault", LIBRARY_FAULTS)
def test_a_library_with_a_fault_is_caught(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    neighbours = relation_of(HASHED, 2)
    assert farthest(HASHED, neighbours, "scale") > 1.4 * neighbours.cell_steps(HASHED) ** 2
