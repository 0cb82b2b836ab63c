"""The squared length of whole steps in one to three cells, whose law is a sum over all values (Theory 4.7)."""

import dataclasses
import functools
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.numbers import Floats
from streamsketch.estimation.tail_law import SMALLEST, Law

_ROUNDING = 1e-9


def sizes_of(weights: Floats, entries: Iterable[int]) -> dict[int, Floats]:
    """Return for each entry e the law of |n + z|, of the whole z with |z| ≤ e that is the least favourable.

    That is z = e where the law of n falls on both sides. Elsewhere P(|n + z| ≥ r) is the largest over z for each r
    alone: no z has a law of larger sizes.

    Parameters
    ----------
    weights
        The probabilities of n = -m … m, symmetric: float64, (2m + 1,).
    entries
        Whole numbers, 0 or more.

    Returns
    -------
    dict[int, Floats]
        The probabilities of 0 … m + e: float64, (m + e + 1,) each.
    """
    half, laws = weights.size // 2, {}
    if falls(weights):
        steps = np.arange(-half, half + 1)
        return {entry: np.bincount(np.abs(steps + entry), weights).astype(np.float64) for entry in entries}
    upper = np.append(np.cumsum(weights[::-1])[::-1], 0.0)  # P(n ≥ -m), …, P(n ≥ m), 0

    def beyond(sizes: NDArray[np.int64], z: int) -> Floats:
        """Return P(|n + z| ≥ each size), for sizes above 0."""
        ends = (upper[np.clip(sizes + side * z + half, 0, weights.size)] for side in (-1, 1))
        return np.minimum(sum(ends), 1.0)

    errors = np.arange(1, half + 1)  # beyond, the larger z is the less favourable
    largest, z = np.zeros(half), 0
    for entry in sorted(set(entries)):
        while z <= min(entry, 2 * half):  # from 2m on, n + z is beyond all of them
            largest = np.maximum(largest, beyond(errors, z))
            z += 1
        tails = np.concatenate([np.ones(1), largest, beyond(np.arange(half + 1, half + entry + 2), entry)])
        laws[entry] = tails[:-1] - tails[1:]
    return laws


def falls(weights: Floats) -> bool:
    """Return whether a symmetric law falls on both sides, but for rounding."""
    right = weights[weights.size // 2 :]
    return bool((right[1:] <= right[:-1] * (1 + _ROUNDING)).all())


@dataclasses.dataclass(frozen=True, eq=False)
class FewCells(Law):
    """T = Σ a_i² over one to three cells, a_i whole numbers of steps with laws of their own.

    Tails are sums over all values in all cells but the last one.

    Parameters
    ----------
    sizes
        For each cell the probabilities of 0, 1, … steps.
    step
        In data units.
    """

    sizes: tuple[Floats, ...]
    step: float

    def tail(self, value: float) -> float:
        """Return P(T ≥ value), at least `SMALLEST`."""
        place = value / self.step**2
        return max(self._tail_from(math.ceil(place - _ROUNDING * max(place, 1.0))), SMALLEST)

    @functools.cached_property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        mean = variance = 0.0
        for law in self.sizes:
            squares = np.arange(law.size, dtype=np.float64) ** 2
            first = float(law @ squares)
            mean += first
            variance += float(law @ (squares - first) ** 2)
        return self.step**2 * mean, self.step**2 * math.sqrt(variance)

    def line(self, level: float) -> float:
        """Return the least whole number of squared steps with P(T ≥ it) ≤ ``level``."""
        mean, deviation = (value / self.step**2 for value in self.moments)
        low, high = 0, math.ceil(mean + 4 * deviation) + 1
        while self._tail_from(high) > level:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._tail_from(middle) > level else (low, middle)
        return high * self.step**2

    def _tail_from(self, squares: int) -> float:
        """Return P(T ≥ this number of squared steps)."""
        sums, chances = self._others
        least = np.ceil(np.sqrt(np.maximum(squares - sums, 0.0))).astype(np.int64)
        beyond = self._upper[np.minimum(least, self.sizes[-1].size)]
        return min(float(chances @ beyond), 1.0)

    @functools.cached_property
    def _upper(self) -> Floats:
        """The probability that the last cell has at least 0, 1, … steps; the last one is 0."""
        return np.append(np.cumsum(self.sizes[-1][::-1])[::-1], 0.0)

    @property
    def _others(self) -> tuple[Floats, Floats]:
        """The sums of squares in all cells but the last one, in squared steps, and their probabilities."""
        sums, chances = np.zeros(1), np.ones(1)
        for law in self.sizes[:-1]:
            places = np.flatnonzero(law)
            sums = np.add.outer(sums, places.astype(np.float64) ** 2).ravel()
            chances = np.outer(chances, law[places]).ravel()
        return sums, chances


@dataclasses.dataclass(frozen=True, eq=False)
class OneSquare(Law):
    """T = a², the square of one cell whose law is known at points, whatever the distance of their squares.

    Parameters
    ----------
    points, weights
        Absolute values of a, and their probabilities: (n,), in data units.
    half
        What a point stands for to both sides, alike; 0 if the points are the values of a.
    """

    points: Floats
    weights: Floats
    half: float

    def tail(self, value: float) -> float:
        """Return P(T ≥ value), at least `SMALLEST`."""
        size = math.sqrt(max(value, 0.0))
        if not self.half:
            return min(max(float(self.weights @ (self.points >= size * (1 - _ROUNDING))), SMALLEST), 1.0)
        above, below = (np.clip((end - size) / (2 * self.half) + 0.5, 0.0, 1.0) for end in (self.points, -self.points))
        return min(max(float(self.weights @ (above + below)), SMALLEST), 1.0)

    @functools.cached_property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        squares, own = self.points**2, self.half**2 / 3  # the variance of what a point stands for
        mean = float(self.weights @ squares) + own
        fourth = float(self.weights @ squares**2) + 6 * own * float(self.weights @ squares) + self.half**4 / 5
        return mean, math.sqrt(max(fourth - mean**2, 0.0))
