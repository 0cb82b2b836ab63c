"""Differences of cells in whole steps of their noise: the longest ones, and laws of their squares (Theory 4.7)."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from streamsketch.core.numbers import Floats
from streamsketch.estimation.few_cells import FewCells, sizes_of
from streamsketch.estimation.noise_law import Lattice, on_grid
from streamsketch.estimation.square_sums import FINE, LARGEST_GRID, LEAST_GRID, Squares
from streamsketch.estimation.tail_law import WINDOW, Law

FEW_CELLS_EXACT = 3
"""In so many cells a law is known for every tolerance."""

_LARGE_GRID = 1 << 18  # where squares are rounded up to it
_ROUNDED = 0.02  # standard deviations of T, that it may be larger by
_ROUNDING = 1e-9
_MOST_SUMS = 1 << 18  # of noises in all cells but one


def longest_vectors(squares: int, cells: int, most: int) -> list[tuple[int, ...]] | None:
    """Return the vectors of whole numbers with Σz² ≤ ``squares`` that none other exceeds in every cell.

    Each as its positive entries, descending, as signs and order do not matter; None if there are more than ``most``.
    """
    vectors: list[tuple[int, ...]] = []

    def extend(chosen: tuple[int, ...], left: int) -> bool:
        """Add all that begin with these entries; return whether there is room for more."""
        largest = min(math.isqrt(left), chosen[-1] if chosen else left)
        if len(chosen) == cells or largest == 0:
            last = chosen[-1] if len(chosen) == cells else 0
            # the entry that is the cheapest to lengthen is the least
            if left < 2 * last + 1:
                vectors.append(chosen)
            return len(vectors) <= most
        remaining = cells - len(chosen)
        for entry in range(largest, 0, -1):
            if remaining * entry**2 + 2 * entry + 1 <= left:  # all later ones could be longer by a step
                break
            if not extend((*chosen, entry), left - entry**2):
                return False
        return True

    return vectors if extend((), squares) else None


def vector_of_alike(squares: int, number: int, cells: int) -> tuple[int, ...]:
    """Return a vector of whole numbers with Σz² ≤ ``squares``, descending, without zeros.

    It has ``number`` entries of one size, the first ones by 1 larger where that fits; others are as large as is left.
    """
    size = math.isqrt(squares // number)
    vector, left = [size] * number, squares - number * size**2
    for place in range(min(left // (2 * size + 1), number)):
        vector[place] += 1
        left -= 2 * size + 1
    while left > 0 and len(vector) < cells:
        vector.append(min(math.isqrt(left), vector[-1]))
        left -= vector[-1] ** 2
        if vector[-1] == 0:
            break
    return tuple(entry for entry in vector if entry)


def of_steps(noise: Lattice, vectors: Sequence[tuple[int, ...]], count: int) -> tuple[Law, ...]:
    """Return for each vector the law of ‖z + η‖², z of ``count`` whole steps: its entries, and zeros."""
    laws = sizes_of(noise.weights, {0}.union(*vectors))
    norms: list[Law] = []
    for vector in vectors:
        if count <= FEW_CELLS_EXACT and noise.weights.size ** (count - 1) <= _MOST_SUMS:
            few = (*vector, *[0] * (count - len(vector)))
            norms.append(FewCells(tuple(laws[entry] for entry in few), noise.step))
            continue
        numbers = Counter(vector)
        numbers[0] += count - len(vector)
        kept = {entry: number for entry, number in numbers.items() if number}
        norms.append(_of_sizes([laws[entry] for entry in kept], tuple(kept.values()), noise.step))
    return tuple(norms)


def _of_sizes(sizes: Sequence[Floats], counts: tuple[int, ...], unit: float) -> Law:
    """Return the law of a sum of squares of whole numbers of ``unit``, ``counts`` of each law of 0, 1, … units.

    Where it has too many values for a grid, squares are rounded up, so that no tail is too small. In many cells, where
    that would add up, they keep their means.
    """
    places = [np.flatnonzero(law > 0).astype(np.float64) for law in sizes]
    weights = [law[law > 0] for law in sizes]
    squares, variance, largest = [place**2 for place in places], 0.0, 0.0
    for square, weight, count in zip(squares, weights, counts, strict=True):
        mean = float(weight @ square)
        variance += count * float(weight @ (square - mean) ** 2)
        largest = max(largest, float(square[-1] - square[0]))
    deviation = math.sqrt(variance)
    spread = 2 * largest + WINDOW * deviation
    exact, step = spread <= LARGEST_GRID, 1.0
    if not exact:
        step = spread / _LARGE_GRID
        exact = sum(counts) * step <= _ROUNDED * deviation
    if not exact:
        step = max(min(deviation / math.sqrt(sum(counts)) / FINE, largest / LEAST_GRID), spread / LARGEST_GRID)
    laws: list[Floats] = []
    offset = 0
    for square, weight, count in zip(squares, weights, counts, strict=True):
        least = math.floor(square[0] / step)
        if exact:
            whole = np.ceil(square / step - _ROUNDING).astype(np.int64) - least
            laws.append(np.bincount(whole, weight).astype(np.float64))
        else:
            least -= 1
            laws.append(on_grid((square, weight), step, (least, math.ceil(square[-1] / step) + 1)))
        offset += count * least
    return Squares(tuple(laws), counts, step * unit**2, exact, None, 0.0 if exact else unit**2 / 2, offset)
