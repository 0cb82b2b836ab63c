"""Slow, readable twins of clipping in sketch space and of counts, in Python integers only, after Theory 2.2 and 2.3.

Nothing here imports the library.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from tests.oracles import naive

Slot = tuple[Any, int]
Cell = tuple[Slot, int]
"""A slot, which is a key and a window, and a cell in [0, k)."""

Column = Callable[[int], list[int]]
"""Returns a column of A as a dense list of k integers."""

Row = tuple[Slot, int, int]
"""A slot, an index, and a value in grid steps."""


def as_int64(number: int) -> int:
    """Return what is left of an integer modulo 2^64, in [-2^63, 2^63)."""
    return (number + 2**63) % 2**64 - 2**63


def steps_of(bound: Fraction, unit_squared: Fraction) -> int:
    """Return ⌊bound / unit⌋, a cell's unit being given by its square, which is rational."""
    return math.isqrt(math.floor(bound**2 / unit_squared))


def clipped(cells: Mapping[Any, int], limit: int, clip: str = "scale") -> dict[Any, int]:
    """Return one unit's cells, int64 each, with squares that sum to at most limit², without those that are 0."""
    squares = sum(y**2 for y in cells.values())
    if squares == 0 or (clip == "scale" and squares <= limit**2):
        return {place: y for place, y in cells.items() if y}
    narrow = squares < 2**62 and all(abs(y) < 2**31 for y in cells.values())
    if narrow:
        shift = (62 - squares.bit_length()) // 2
        sizes = {place: abs(y) << shift for place, y in cells.items()}
    else:
        shift = 0
        while True:
            shift += 1
            sizes = {place: abs(y) >> shift for place, y in cells.items()}
            if all(a < 2**31 for a in sizes.values()) and sum(a**2 for a in sizes.values()) < 2**62:
                break
    scaled = sum(a**2 for a in sizes.values())
    if scaled == 0:
        return {}
    root = math.isqrt(scaled - 1) + 1  # ⌈√scaled⌉
    ratio = 2**32 * limit // root
    found = {place: (1 if y > 0 else -1) * (sizes[place] * ratio >> 32) for place, y in cells.items()}
    return {place: y for place, y in found.items() if y}


def cells_of(rows: Iterable[Row], column: Column) -> dict[Cell, int]:
    """Return one unit's cells in all its slots, as int64: A x̃ of each slot."""
    cells: dict[Cell, int] = {}
    for slot, index, steps in rows:
        for cell, entry in enumerate(column(index)):
            cells[slot, cell] = as_int64(cells.get((slot, cell), 0) + entry * steps)
    return cells


def kept_rows(rows: list[Row], unit: bytes, max_keys: int, secret: bytes) -> list[Row]:
    """Return the rows of one unit in the slots that it keeps: those of least rank."""
    draws = naive.Draws(secret)
    kept = sorted({slot for slot, _, _ in rows}, key=lambda slot: draws.rank(unit, slot))[:max_keys]
    return [row for row in rows if row[0] in kept]


def bounded(
    events: Iterable[tuple[bytes, Slot, int, int]],
    column: Column,
    *,
    limit: int,
    clip: str = "scale",
    max_keys: int = 2**32 - 1,
    secret: bytes = bytes(32),
) -> tuple[dict[Cell, int], dict[Slot, int]]:
    """Return the sums of what is left of (unit digest, slot, index, steps) events, as int64, and the units in slots."""
    rows: dict[bytes, list[Row]] = {}
    for unit, slot, index, steps in events:
        rows.setdefault(unit, []).append((slot, index, steps))
    sums: dict[Cell, int] = {}
    units: dict[Slot, int] = {}
    for unit, own in rows.items():
        kept = kept_rows(own, unit, max_keys, secret)
        for slot in {slot for slot, _, _ in kept}:
            units[slot] = units.get(slot, 0) + 1
        for place, y in clipped(cells_of(kept, column), limit, clip).items():
            sums[place] = as_int64(sums.get(place, 0) + y)
    return {place: y for place, y in sums.items() if y}, units
