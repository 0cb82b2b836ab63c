"""The sum of squares of many cells, whose law is a tilted Fourier transform (Theory 4.7)."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import special
from streamsketch.core.numbers import Floats
from streamsketch.estimation.tail_law import SMALLEST, WINDOW, Law

LARGEST_GRID = 1 << 20
"""The most points of the grid of a law of squares."""

LEAST_GRID = 1 << 12
"""The fewest points up to the largest square of a cell."""

FINE = 24.0
"""Points of the grid in a standard deviation of a cell's square, where it is not exact."""

_LOG_SMALLEST = math.log(SMALLEST / 100)
_NEGLIGIBLE = 1e-20  # of a transform
_UNTILTED = 1e-6  # tails down to this are read from the untilted law
_QUICK = 1e-9, 1e-12  # levels down to the first have lines that are read from it; the second is its error
_ROUNDING = 1e-9
_UNSEEN = 1e-12
_GOLDEN = (math.sqrt(5) - 1) / 2
_GOLDEN_STEPS = 16
_STEEPEST = 0.5  # tilt per step: a grid that keeps moments has a few weights below 0, which steeper ones would show
_BELOW = 1e-5  # the probability of a sum that is further below its mean than is allowed for
_JUMPS = 8.0  # of the largest square, that a tilted sum is from its mean


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
        chances: Floats = np.exp(log - number * math.log(self.cells)) * (1 - 1 / self.cells) ** (self.items - number)
        return chances


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
        place = _in_half_steps(place)
        below = math.floor(place)
        first, second = self._tail_from(below), self._tail_from(below + 1)
        return first * math.pow(second / first, place - below)

    def _place(self, value: float) -> float:
        """Return where a value of T is on the grid."""
        return (value - self.shift) / self.step - self.offset

    def rough_tail(self, value: float) -> float:
        """Return the same number as `rough_tails`."""
        start, tails = self._untilted
        place, last = self._place(value), tails.size - 1
        if self.exact and math.isfinite(place):
            place = math.ceil(place - _ROUNDING * max(place, 1.0))
        elif not self.exact:
            place = _in_half_steps(place)
        place -= start
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
            places = np.ceil(places - _ROUNDING * np.maximum(places, 1.0))
        else:
            places = np.minimum(places + 0.5, 2 * places)  # as `_in_half_steps`
        probabilities: Floats = np.interp(places - start, np.arange(tails.size), tails, left=1.0, right=0.0)
        return probabilities

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
        between = start + place - (math.log(level) - below) / (above - below)
        return self.shift + (self.offset + max(between - 0.5, between / 2)) * self.step

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation; without the covariance that hits of items make."""
        mean, deviation = self._moments
        return self.step * (self.offset + mean), self.step * deviation

    @property
    def values(self) -> tuple[Floats, Floats]:
        """The values of T on the grid that it has with more than `_UNSEEN`, and their probabilities, whose sum is 1."""
        start, tails = self._untilted
        chances = tails - np.append(tails[1:], 0.0)
        seen = np.flatnonzero(chances > _UNSEEN)
        shares: Floats = chances[seen] / chances[seen].sum()
        return self.step * (self.offset + start + seen.astype(np.float64)), shares

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
        least = []
        for place in range(len(moments)):
            others = [max(count - (place == i and self.hits is None), 0) for i, count in enumerate(counts)]
            mean, second = (sum(n * pair[i] for n, pair in zip(others, moments, strict=True)) for i in (0, 1))
            least.append(max(math.floor(mean - math.sqrt(-2 * math.log(_BELOW) * max(second, 0.0))), 0))
        return least

    @functools.cached_property
    def _untilted(self) -> tuple[int, Floats]:
        """From which point on the grid, P(T ≥ it) for all that follow."""
        mean, deviation = self._moments
        start = max(0, int(mean - WINDOW / 2 * deviation))
        size = _quick_size(max(law.size for law in self.squares) + WINDOW * deviation)
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
        size = _quick_size(_JUMPS * max(law.size for law in laws) + WINDOW * deviation)
        law = self._law(laws, rate, size)
        beyond = np.arange(size // 2)
        terms = law[(place + beyond) % size] * np.exp(-rate * beyond)
        return min(math.exp(log_size) * float(terms.sum()) / (1 - _BELOW), 1.0)  # at least, with those below

    def _saddle(self, laws: Sequence[Floats], place: int) -> tuple[float, float]:
        """Return the tilt θ ≥ 0 with E T = ``place``, and log E exp(θ(T - place)), which is Chernoff's bound."""
        parts = [_Logarithms.of(law) for law in laws]

        def log_size(rate: float) -> float:
            logs = np.array([part.mean(rate) for part in parts])
            return self._together(logs) - rate * place if np.isfinite(logs).all() else math.inf

        low, high = 0.0, min(1 / (self._moments[1] + 1), _STEEPEST / 2)
        while 2 * high <= _STEEPEST and log_size(2 * high) < log_size(high):
            high *= 2
            if log_size(high) < _LOG_SMALLEST:
                return high, log_size(high)
        high *= 2
        for _ in range(_GOLDEN_STEPS):  # a convex function
            first, second = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            at_second = log_size(second)
            low, high = (low, second) if at_second == math.inf or log_size(first) < at_second else (first, high)
        rate = (low + high) / 2
        return rate, log_size(rate)

    def _together(self, logs: Floats) -> float:
        """Return log E exp(θT) from the logarithms of E exp(θ·square) of each law."""
        if self.hits is None:
            return float(sum(count * log for count, log in zip(self.counts, logs, strict=True)))
        value, log = _block(np.ones(logs.size), logs - logs[0], self.hits)
        return self.counts[0] * float(logs[0]) + (math.log(value) + log) * self.hits.blocks

    def _law(self, laws: Sequence[Floats], rate: float, size: int) -> Floats:
        """Return the law of T, tilted, modulo ``size``."""
        transforms, logs = [], [0.0] * len(laws)
        if rate:
            logarithms = [_Logarithms.of(law) for law in laws]
            logs = [law.mean(rate) for law in logarithms]
            laws = [law.tilted(rate, log) for law, log in zip(logarithms, logs, strict=True)]
        for law in laws:
            tilted = law if rate else law / law.sum()
            transforms.append(np.fft.rfft(tilted, size))
        if self.hits is None:
            powers = [_power(*each) for each in zip(transforms, self.counts, strict=True)]
            return np.fft.irfft(functools.reduce(np.multiply, powers), size)
        gains = np.array(logs) - logs[0]
        untouched = self.counts[0] - self.hits.items * self.hits.blocks
        kept = np.abs(transforms[0]) ** max(untouched, 0) > _NEGLIGIBLE
        parts = np.array([transform[kept] for transform in transforms])
        product = np.zeros(kept.size, dtype=np.complex128)
        with np.errstate(divide="ignore", invalid="ignore"):
            block, _ = _block(parts / parts[0], gains, self.hits)
            relative = _power(block / block[0], self.hits.blocks)
        product[kept] = np.nan_to_num(relative * _power(parts[0], self.counts[0]))
        return np.fft.irfft(product / product[0], size)


def _in_half_steps(place: float) -> float:
    """Return a place on a grid, counted from the lower half-step of each point; no square is less than 0."""
    return min(place + 0.5, 2 * place)


def _clipped(law: Floats, place: int) -> Floats:
    """Return a law with all that is at ``place`` or beyond there."""
    return law if place >= law.size - 1 else np.append(law[:place], law[place:].sum())


def _two_moments(law: Floats) -> tuple[float, float]:
    """Return the means of the place and of its square."""
    places = np.arange(law.size, dtype=np.float64)
    return float(law @ places), float(law @ places**2)


def _quick_size(size: float) -> int:
    """Return a size of at least that, and 16 more, of which a transform takes little time: 2^n or 3·2^n."""
    most = 1 << math.ceil(math.log2(size + 16))
    return most * 3 // 4 if size + 16 <= most * 3 // 4 else most


class _Logarithms(NamedTuple):
    """A law where it is not 0. A grid that keeps moments has a few weights below 0."""

    places: NDArray[np.int64]
    sizes: Floats
    """Logarithms of absolute weights."""
    signs: Floats

    @classmethod
    def of(cls, law: Floats) -> "_Logarithms":
        places = np.flatnonzero(law)
        weights = law[places]
        return cls(places, np.log(np.abs(weights)), np.sign(weights))

    def mean(self, rate: float) -> float:
        """Return log Σ weight·exp(rate·place); infinite where the tilt is too much for the grid."""
        sizes = self.sizes + rate * self.places
        top = float(sizes.max())
        total = float(self.signs @ np.exp(sizes - top))
        return top + math.log(total) if total > 0 else math.inf

    def tilted(self, rate: float, log: float) -> Floats:
        """Return weights times exp(rate·place - log)."""
        law = np.zeros(int(self.places[-1]) + 1)
        law[self.places] = self.signs * np.exp(self.sizes + rate * self.places - log)
        return law


def _power(values: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """Return a power of a transform, 0 where it is negligible: by squares, where logarithms take ten times as long."""
    if count <= 1:
        return values if count else np.ones_like(values)
    kept = np.abs(values) > math.exp(math.log(_NEGLIGIBLE) / count)
    square = values[kept]
    power = np.ones_like(square)
    while True:
        if count & 1:
            power *= square
        count >>= 1
        if not count:
            break
        square *= square
    result = np.zeros(values.shape, dtype=np.complex128)
    result[kept] = power
    return result


def _block(parts: Any, gains: Sequence[float] | Floats, hits: Hits) -> tuple[Any, float]:
    """Return E Π c_{h_i} over the cells of one block, h_i of ``items`` items in cell i at random, and c_0 = 1.

    It is m! B^-m times the coefficient of x^m in (Σ_j c_j x^j / j!)^B, by the recurrence for powers of a series.

    Parameters
    ----------
    parts, gains
        c_j is parts[j]·exp(gains[j]), which may be larger than any float far beyond the noise.
    hits
        How items meet cells.

    Returns
    -------
    value, log
        The expectation is value·exp(log).
    """
    powers, sizes = [parts[0] ** 0], [0.0]
    for n in range(1, hits.items + 1):
        numbers = range(1, min(n, len(parts) - 1) + 1)
        size = max(gains[i] + sizes[n - i] for i in numbers)
        factors = [(i * (hits.cells + 1) - n) / math.factorial(i) for i in numbers]
        shares = [math.exp(gains[i] + sizes[n - i] - size) for i in numbers]
        terms = zip(numbers, factors, shares, strict=True)
        powers.append(sum(factor * share * parts[i] * powers[n - i] for i, factor, share in terms) / n)
        sizes.append(size)
    log = sizes[-1] + math.lgamma(hits.items + 1) - hits.items * math.log(hits.cells)
    return powers[-1], log
