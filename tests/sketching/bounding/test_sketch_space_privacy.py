"""What one unit moves in sketch space: C̃ in ℓ2 at most, over all its keys and windows, whatever its rows hold.

First the law as THEORY.md 2.2 defines it, in Python's integers; then the library, which must do exactly that. Each
check is shown to catch what is not private.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.oracles.naive_cells import Slot, cells_of, clipped

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
    return next((pair for pair in pairs if squares(clipper(*pair, way)) > pair[1] ** 2), None)


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
