"""Laws of sums of squares, and their tails: of the squared distance of two sketches' cells (Theory 4.7)."""

import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import special
from streamsketch.core.numbers import Floats
from streamsketch.core.roots import interpolated

SMALLEST = 1e-15
"""The least p-value under noise: a smaller one is given as this."""

_LOG_SMALLEST = math.log(SMALLEST / 100)
WINDOW = 24.0
"""How many standard deviations of a sum are looked at."""

_NEGLIGIBLE = 1e-20  # of a transform
_UNTILTED = 1e-6  # tails down to this are read from the untilted law
_QUICK = 1e-9, 1e-12  # levels down to the first have lines that are read from it; the second is its error
_ROUNDING = 1e-9
_BISECTIONS = 40
_GOLDEN = (math.sqrt(5) - 1) / 2
_GOLDEN_STEPS = 16
_BELOW = 1e-5  # the probability of a sum that is further below its mean than is allowed for
_JUMPS = 8.0  # of the largest square, that a tilted sum is from its mean
_STRETCHES = 4000  # of a factor, to integrate over
_PLACES = 2001  # of a normal variable, to integrate over
_LENGTHS = 48  # of a vector, between which the logarithm of the tail is interpolated


class Law(ABC):
    """The law of a number T ≥ 0."""

    @abstractmethod
    def tail(self, value: float) -> float:
        """Return P(T ≥ value), at least `SMALLEST` where T has no largest value."""

    def rough_tail(self, value: float) -> float:
        """Return P(T ≥ value) with an error of 1e-12, which is quicker far out."""
        return float(self.rough_tails(np.array([value]))[0])

    def rough_tails(self, values: Floats) -> Floats:
        """Return P(T ≥ each value) with errors of 1e-12."""
        return np.array([self.tail(value) for value in values.tolist()])

    @property
    @abstractmethod
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""

    def line(self, level: float) -> float:
        """Return about the least value with P(T ≥ value) ≤ ``level``, which is at least `SMALLEST`."""
        tail = self.rough_tail if level >= _UNTILTED else self.tail
        mean, deviation = self.moments
        low, high = 0.0, mean + 4 * deviation
        while tail(high) > level:
            low, high = high, high + 4 * (high - low) + deviation
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if tail(middle) > level else (low, middle)
        return high


@dataclasses.dataclass(frozen=True, eq=False)
class Point(Law):
    """T is this value."""

    value: float

    def tail(self, value: float) -> float:
        """Return 1 up to the value, else 0."""
        return float(value <= self.value * (1 + _ROUNDING))

    @property
    def moments(self) -> tuple[float, float]:
        """The value, and 0."""
        return self.value, 0.0

    def line(self, level: float) -> float:
        """Return the least float above the value."""
        del level
        return float(np.nextafter(self.value * (1 + _ROUNDING), math.inf))


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
        mean, deviation = (one / self.step**2 for one in self.moments)
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
class Gamma(Law):
    """T has a Gamma law: ``mean`` · χ²_f / f with f = ``freedom``."""

    mean: float
    freedom: float

    def tail(self, value: float) -> float:
        """Return P(T ≥ value)."""
        return self.rough_tail(value)

    def rough_tails(self, values: Floats) -> Floats:
        """Return P(T ≥ each value)."""
        half = self.freedom / 2
        found: Floats = special.gammaincc(half, half * np.maximum(values, 0.0) / self.mean)
        return found

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        return self.mean, self.mean * math.sqrt(2 / self.freedom)

    def line(self, level: float) -> float:
        """Return the quantile at 1 - level."""
        return self.mean * float(special.gammainccinv(self.freedom / 2, level)) * 2 / self.freedom


@dataclasses.dataclass(frozen=True, eq=False)
class NormalSquares(Law):
    """T is the squared norm of a normal vector: of ``cells`` cells of variance ``variance``, moved along one direction.

    That is by ``distance`` and by a normal number of variance ``drift``.
    """

    variance: float
    cells: int
    distance: float
    drift: float

    def tail(self, value: float) -> float:
        """Return P(T ≥ value)."""
        return max(self.rough_tail(value), SMALLEST)

    def rough_tails(self, values: Floats) -> Floats:
        """Return P(T ≥ each value), the mean over the cell along the direction."""
        deviation = math.sqrt(self.variance + self.drift)
        if self.cells == 1:
            ends = np.sqrt(np.maximum(values, 0.0))
            found: Floats = special.ndtr((self.distance - ends) / deviation) + special.ndtr(
                -(self.distance + ends) / deviation
            )
            return found
        places, weights = _normal_rule()
        left = np.maximum(values[:, None] - (self.distance + deviation * places) ** 2, 0.0)
        tails: Floats = special.gammaincc((self.cells - 1) / 2, left / (2 * self.variance)) @ weights
        return np.minimum(tails, 1.0)

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        along, others = self.variance + self.drift, self.cells - 1
        square = 2 * others * self.variance**2 + 2 * along**2 + 4 * self.distance**2 * along
        return others * self.variance + along + self.distance**2, math.sqrt(square)


@functools.cache
def _normal_rule() -> tuple[Floats, Floats]:
    """Return places and weights for a mean over a standard normal variable."""
    places = np.linspace(-WINDOW / 2, WINDOW / 2, _PLACES)
    weights = np.exp(-(places**2) / 2)
    return places, weights / weights.sum()


class Hits(NamedTuple):
    """How a few items of equal size are in the cells: each in one cell of each of ``blocks`` blocks."""

    items: int
    blocks: int
    cells: int
    """Of a block."""

    def chances(self, count: int) -> Floats:
        """Return the probabilities that a cell is hit by 0, 1, … items, ``count`` of them."""
        number = np.arange(count)
        log = special.gammaln(self.items + 1) - special.gammaln(number + 1) - special.gammaln(self.items - number + 1)
        found: Floats = np.exp(log - number * math.log(self.cells)) * (1 - 1 / self.cells) ** (self.items - number)
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class Squares(Law):
    """T = Σ(η_i + s_i)² over k cells, with independent noises η and signals s.

    T is on a grid of ``step`` T-units, by the discrete Fourier transform of the law of one cell's square, tilted by
    exp(θ·) so that the value that is asked for is in the middle: far out, too, its digits are those of floats.

    Parameters
    ----------
    squares
        The laws of the squares of cells, on the grid; their sums are 1. With ``hits``, those of cells that 0, 1, …
        items meet.
    counts
        How many cells each law is of; with ``hits``, k alone.
    step
        Of the grid.
    exact
        Whether squares are on the grid; else a value on the grid stands for all within half a step.
    hits
        How items meet cells; None where cells are independent.
    shift
        Half of the distance of the values that T has, if it is known and not exact: P(T ≥ t) holds all of t.
    offset
        Steps of the grid that T has besides the sum of squares: the least squares of cells, which laws leave out.
    """

    squares: tuple[Floats, ...]
    counts: tuple[int, ...]
    step: float
    exact: bool
    hits: Hits | None = None
    shift: float = 0.0
    offset: int = 0

    def tail(self, value: float) -> float:
        """Return P(T ≥ value), or `SMALLEST` if that is less."""
        place = self._place(value)
        if self.exact:
            return self._tail_from(math.ceil(place - _ROUNDING * max(place, 1.0)))
        below = math.floor(place + 0.5)  # from its lower half-step on
        first, second = self._tail_from(below), self._tail_from(below + 1)
        return first * math.pow(second / first, place + 0.5 - below)

    def _place(self, value: float) -> float:
        """Return where a value of T is on the grid."""
        return (value - self.shift) / self.step - self.offset

    def rough_tail(self, value: float) -> float:
        """Return the same number as `rough_tails`."""
        start, tails = self._untilted
        place, last = self._place(value), tails.size - 1
        if self.exact and math.isfinite(place):
            place = math.ceil(place - _ROUNDING * max(place, 1.0)) - 0.5
        place = place + 0.5 - start
        if place < 0 or place > last:
            return float(place < 0)
        before = int(place)
        at = float(tails[before])
        return at if before == last else (float(tails[before + 1]) - at) * (place - before) + at

    def rough_tails(self, values: Floats) -> Floats:
        """Return P(T ≥ each value) from the law as it is, without a tilt."""
        start, tails = self._untilted
        places = (values - self.shift) / self.step - self.offset
        if self.exact:
            places = np.ceil(places - _ROUNDING * np.maximum(places, 1.0)) - 0.5
        found: Floats = np.interp(places + 0.5 - start, np.arange(tails.size), tails, left=1.0, right=0.0)
        return found

    def line(self, level: float) -> float:
        """Return the least value on the grid with P(T ≥ value) ≤ ``level``, between its points if not exact."""
        if level < _QUICK[0]:
            return super().line(level)
        level -= _QUICK[1] if level < _UNTILTED else 0.0
        start, tails = self._untilted
        place = int(np.searchsorted(-tails, -level))  # the first with a tail ≤ level
        if self.exact or place == 0 or place >= tails.size:
            return self.shift + (self.offset + start + place) * self.step
        above, below = math.log(tails[place - 1]), math.log(max(tails[place], _NEGLIGIBLE))
        return (
            self.shift + (self.offset + start + place - (math.log(level) - below) / (above - below) - 0.5) * self.step
        )

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation; without the covariance that hits of items make."""
        mean, deviation = self._moments
        return self.step * (self.offset + mean), self.step * deviation

    @functools.cached_property
    def _moments(self) -> tuple[float, float]:
        """Mean and standard deviation on the grid, without the offset."""
        laws: Sequence[Floats] = self.squares
        if self.hits is not None:
            chances = self.hits.chances(len(laws))
            laws = [np.sum([p * law for p, law in zip(chances, laws, strict=True)], axis=0)]
        mean = variance = 0.0
        for law, count in zip(laws, self.counts, strict=True):
            first, second = _two_moments(law)
            mean += count * first
            variance += count * max(second - first**2, 0.0)
        return mean, math.sqrt(variance)

    @functools.cached_property
    def _least_of_others(self) -> list[int]:
        """For a cell of each law, the least that all other cells together have, but for a probability of `_BELOW`.

        P(Σx ≤ E Σx - t) ≤ exp(-t² / 2ΣE x²) for independent x ≥ 0 (Maurer 2003). Cells that items may hit count as 0.
        """
        moments = [_two_moments(law) for law in self.squares]
        counts = [*self.counts]
        if self.hits is not None:
            counts = [self.counts[0] - self.hits.items * self.hits.blocks - 1, *[0] * (len(moments) - 1)]
        found = []
        for place in range(len(moments)):
            others = [max(count - (place == i and self.hits is None), 0) for i, count in enumerate(counts)]
            mean, second = (sum(n * one[i] for n, one in zip(others, moments, strict=True)) for i in (0, 1))
            found.append(max(math.floor(mean - math.sqrt(-2 * math.log(_BELOW) * max(second, 0.0))), 0))
        return found

    @functools.cached_property
    def _untilted(self) -> tuple[int, Floats]:
        """From which point on the grid, P(T ≥ it) for all that follow."""
        mean, deviation = self._moments
        start = max(0, int(mean - WINDOW / 2 * deviation))
        size = _power_of_two(max(law.size for law in self.squares) + WINDOW * deviation)
        law = np.roll(self._law(self.squares, 0.0, size), -(start % size))
        return start, np.clip(np.cumsum(law[::-1])[::-1], 0.0, 1.0)

    def _tail_from(self, place: int) -> float:
        """Return P(T ≥ place steps)."""
        if place <= 0:
            return 1.0
        start, tails = self._untilted
        if place <= start:
            return 1.0
        if place - start < tails.size and tails[place - start] > _UNTILTED:
            return float(tails[place - start])
        return max(self._tilted_tail(place), SMALLEST)

    def _tilted_tail(self, place: int) -> float:
        """Return P(T ≥ place steps) far out, or 0 where it is negligible."""
        # a square this large alone makes T ≥ place, with the least that the other cells have: what is more counts as
        # that, or few cells with long tails would fill the transform
        least = self._least_of_others
        laws = [_clipped(law, place - low) for law, low in zip(self.squares, least, strict=True)]
        _, deviation = self._moments
        rate, log_size = self._saddle(laws, place)
        if log_size < _LOG_SMALLEST:
            return 0.0
        size = _power_of_two(_JUMPS * max(law.size for law in laws) + WINDOW * deviation)
        law = self._law(laws, rate, size)
        beyond = np.arange(size // 2)
        terms = law[(place + beyond) % size] * np.exp(-rate * beyond)
        return min(math.exp(log_size) * float(terms.sum()) / (1 - _BELOW), 1.0)  # at least, with those below

    def _saddle(self, laws: Sequence[Floats], place: int) -> tuple[float, float]:
        """Return the tilt θ ≥ 0 with E T = ``place``, and log E exp(θ(T - place)), which is Chernoff's bound."""
        kept = [np.flatnonzero(law) for law in laws]
        parts = [(places, law[places]) for law, places in zip(laws, kept, strict=True)]

        def log_size(rate: float) -> float:
            logs = [_log_mean(places, weights, rate) for places, weights in parts]
            return self._together(np.array(logs)) - rate * place

        low, high = 0.0, 1 / (self._moments[1] + 1)
        while log_size(2 * high) < log_size(high):
            high *= 2
            if log_size(high) < _LOG_SMALLEST:
                return high, log_size(high)
        high *= 2
        for _ in range(_GOLDEN_STEPS):  # a convex function
            first, second = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            low, high = (low, second) if log_size(first) < log_size(second) else (first, high)
        rate = (low + high) / 2
        return rate, log_size(rate)

    def _together(self, logs: Floats) -> float:
        """Return log E exp(θT) from the logarithms of E exp(θ·square) of each law."""
        if self.hits is None:
            return float(sum(count * log for count, log in zip(self.counts, logs, strict=True)))
        ratios = np.exp(logs - logs[0])
        return self.counts[0] * float(logs[0]) + math.log(float(_block(ratios, self.hits))) * self.hits.blocks

    def _law(self, laws: Sequence[Floats], rate: float, size: int) -> Floats:
        """Return the law of T, tilted, modulo ``size``."""
        transforms, logs = [], [0.0] * len(laws)
        if rate:
            logs = [_log_mean(np.arange(law.size), law, rate) for law in laws]
        for law, log in zip(laws, logs, strict=True):
            tilted = law * np.exp(rate * np.arange(law.size) - log) if rate else law / law.sum()
            transforms.append(np.fft.rfft(tilted, size))
        if self.hits is None:
            found = np.ones(transforms[0].size, dtype=np.complex128)
            for count, transform in zip(self.counts, transforms, strict=True):
                found = found * _power(transform, count)
            return np.fft.irfft(found, size)
        ratios = np.exp(np.array(logs) - logs[0])
        untouched = self.counts[0] - self.hits.items * self.hits.blocks
        kept = np.abs(transforms[0]) ** max(untouched, 0) > _NEGLIGIBLE
        parts = np.array([ratio * transform[kept] for ratio, transform in zip(ratios, transforms, strict=True)])
        found = np.zeros(kept.size, dtype=np.complex128)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = _power(_block(parts / parts[0], self.hits), self.hits.blocks)
        found[kept] = np.nan_to_num(relative * _power(parts[0], self.counts[0]))
        return np.fft.irfft(found / found[0], size)


def _clipped(law: Floats, place: int) -> Floats:
    """Return a law with all that is at ``place`` or beyond there."""
    return law if place >= law.size - 1 else np.append(law[:place], law[place:].sum())


def _two_moments(law: Floats) -> tuple[float, float]:
    """Return the means of the place and of its square."""
    places = np.arange(law.size, dtype=np.float64)
    return float(law @ places), float(law @ places**2)


def _power_of_two(size: float) -> int:
    return 1 << math.ceil(math.log2(size + 16))


def _log_mean(places: NDArray[np.int64], weights: Floats, rate: float) -> float:
    """Return log Σ weight·exp(rate·place)."""
    top = rate * float(places[-1])
    return top + math.log(float(weights @ np.exp(rate * places - top)))


def _power(values: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """Return a power of a transform, 0 where it is negligible."""
    if count == 1:
        return values
    found = np.zeros(values.shape, dtype=np.complex128)
    size = np.abs(values)
    with np.errstate(divide="ignore"):
        kept = count * np.log(size) > math.log(_NEGLIGIBLE)
    found[kept] = np.exp(count * np.log(values[kept]))
    return found


def _block(ratios: Any, hits: Hits) -> Any:
    """Return E Π c_{h_i} over the cells of one block, h_i of ``items`` items in cell i at random, and c_0 = 1.

    It is m! B^-m times the coefficient of x^m in (Σ_j c_j x^j / j!)^B, by the recurrence for powers of a series.
    """
    series = [ratio / math.factorial(j) for j, ratio in enumerate(ratios)]
    powers = [series[0] ** 0]
    for n in range(1, hits.items + 1):
        most = min(n, len(series) - 1)
        powers.append(sum((i * (hits.cells + 1) - n) * series[i] * powers[n - i] for i in range(1, most + 1)) / n)
    return powers[hits.items] * math.exp(math.lgamma(hits.items + 1) - hits.items * math.log(hits.cells))


@dataclasses.dataclass(frozen=True, eq=False)
class Stretched(Law):
    """T = L·G, G independent of L, of a Gamma law of mean 1 and ``freedom`` degrees: a map of a vector with noise."""

    length: Law
    freedom: float

    def tail(self, value: float) -> float:
        """Return P(T ≥ value): the mean of P(L ≥ value / G)."""
        rough = self.rough_tail(value)
        if rough > _UNTILTED:
            return rough
        factors, weights = self._factors
        places, logs = self._lengths
        found = np.exp(np.interp(value / factors, places, logs, left=0.0, right=-math.inf))
        return min(max(float(weights @ found), SMALLEST), 1.0)

    def rough_tails(self, values: Floats) -> Floats:
        """Return P(T ≥ each value), from rough tails of L."""
        factors, weights = self._factors
        return np.array(
            [min(float(weights @ self.length.rough_tails(value / factors)), 1.0) for value in values.tolist()]
        )

    @functools.cached_property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        mean, deviation = self.length.moments
        return mean, math.sqrt((mean**2 + deviation**2) * (1 + 2 / self.freedom) - mean**2)

    @functools.cached_property
    def _factors(self) -> tuple[Floats, Floats]:
        """Values of G, and their weights: a rule of equal steps of log G, whose density is smooth."""
        half = self.freedom / 2
        low, high = (
            math.log(end / half)
            for end in (special.gammaincinv(half, SMALLEST), special.gammainccinv(half, SMALLEST / 100))
        )
        logs = np.linspace(low, high, _STRETCHES)
        density = half * (logs - np.exp(logs))
        weights = np.exp(density - density.max())
        return np.exp(logs), weights / weights.sum()

    @functools.cached_property
    def _lengths(self) -> tuple[Floats, Floats]:
        """Lengths, and log P(L ≥ length), fine enough to interpolate: log tails are nearly quadratic between knots."""
        mean, deviation = self.length.moments
        knots = np.linspace(max(mean - 9 * deviation, 0.0), mean + WINDOW * deviation, _LENGTHS)
        tails = np.array([self.length.tail(knot) for knot in knots])
        seen = tails > SMALLEST
        fine = np.linspace(knots[0], knots[seen][-1], _STRETCHES)
        return fine, interpolated(knots[seen], np.log(tails[seen]), fine)


@dataclasses.dataclass(frozen=True, eq=False)
class Mixture(Law):
    """T has each of these laws with a probability."""

    chances: Floats
    laws: tuple[Law, ...]

    def tail(self, value: float) -> float:
        """Return the mean of the tails, with an error of 1e-12."""
        return self.rough_tail(value)

    def rough_tail(self, value: float) -> float:
        """Return the mean of rough tails."""
        tails = np.array([[law.rough_tail(value)] for law in self.laws])
        return float(np.minimum(self.chances @ tails, 1.0)[0])

    def rough_tails(self, values: Floats) -> Floats:
        """Return the means of rough tails."""
        tails = np.array([law.rough_tails(values) for law in self.laws])
        found: Floats = np.minimum(self.chances @ tails, 1.0)
        return found

    @functools.cached_property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        means, deviations = np.array([law.moments for law in self.laws]).T
        mean = float(self.chances @ means)
        return mean, math.sqrt(float(self.chances @ (deviations**2 + means**2)) - mean**2)
