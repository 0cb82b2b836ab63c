"""The law of the median of s cells of a sketch, each with a random sign, from the cells themselves (Theory 4.5)."""

import dataclasses
import functools
import math
from typing import Self

import numpy as np

from streamsketch.core import special
from streamsketch.core.numbers import Floats, Ints
from streamsketch.estimation.intervals import quantile

_MOST_SIZES = 1 << 12  # kept of the cells' sizes: all of the largest half, and quantiles of the others
_STEPS = 256  # of the integral for a variance
_BISECTIONS = 50
_GRID = 1 << 15  # points of the law of a sum
_MOST_NUMBERS = 48  # of summands, whose laws are computed; between them quantiles are interpolated
_FAR = 12  # standard errors
_ROUNDED = 8  # draws
_LEAST_TAIL = 1e-11  # of the law of a sum, which rounding leaves


@dataclasses.dataclass(frozen=True, eq=False)
class CellLaw:
    """The law of the median of ``count`` draws from a symmetric law, of which the absolute values are known.

    The median of an even number is the mean of the middle two, as usual.

    Parameters
    ----------
    sizes
        Absolute values, ascending, in ``unit``; whole numbers where the draws are cells, so that sums of them are
        exact. Float64, (n,).
    weights
        How often each was seen, float64, (n,); they sum to 1.
    count
        How many are drawn, s.
    unit
        Greater than 0.

    Examples
    --------
    >>> law = CellLaw.of(np.array([-3.0, 1.0, 2.0, -1.0]), 3)
    >>> float(law.reach(0.5)), round(float(law.variance), 3)
    (1.0, 2.367)
    """

    sizes: Floats
    weights: Floats
    count: int
    unit: float = 1.0

    @classmethod
    def of(cls, cells: Floats, count: int, unit: float = 1.0) -> Self:
        """Return the law of the median of ``count`` of these cells, in ``unit``, with random signs."""
        sizes, seen = np.unique(np.abs(cells), return_counts=True)
        if sizes.size > _MOST_SIZES:
            # each size stands for those from the one before it: what is left out counts as larger than it was
            kept = _MOST_SIZES // 2
            ends = np.linspace(0, sizes.size - kept, kept + 1).astype(np.int64)[1:] - 1
            kept_places = np.concatenate([ends, np.arange(sizes.size - kept, sizes.size)])
            seen = np.diff(np.cumsum(seen)[kept_places], prepend=0)
            sizes = sizes[kept_places]
        return cls(sizes, seen / seen.sum(), count, unit)

    def scaled(self, factor: float) -> Self:
        """Return the law of ``factor`` times the median, for ``factor`` > 0."""
        return dataclasses.replace(self, unit=self.unit * factor)

    def tail(self, size: object) -> Floats:
        """Return the probability that the median is farther from 0 than each size ≥ 0."""
        return self._tail(np.asarray(size, dtype=np.float64) / self.unit)

    def _tail(self, size: object) -> Floats:
        size = np.asarray(size, dtype=np.float64)
        above = 1 - np.concatenate([[0.0], np.cumsum(self.weights)])[np.searchsorted(self.sizes, size, side="right")]
        above = np.maximum(above, 0.0) / 2
        half = self.count // 2
        if self.count % 2:
            odd: Floats = 2 * special.betainc(half + 1, half + 1, above)  # of s draws more than s/2 lie above
            return odd
        # P(median < -t) = C·E[F(x)^(m-1) ((1 - F(x))^m - (1 - F(-2t - x))^m); x < -t] with s = 2m, F the law of a draw
        values, chances = self._both_sides
        shares = np.cumsum(chances) - chances / 2
        ends = np.concatenate([[0.0], np.cumsum(chances)])
        factor = half * math.comb(self.count, half)
        tails = np.empty(size.shape)
        for place, t in np.ndenumerate(size):
            below = slice(0, np.searchsorted(values, -t))
            x, share = values[below], shares[below]
            other = (ends[np.searchsorted(values, -2 * t - x)] + ends[np.searchsorted(values, -2 * t - x, "right")]) / 2
            terms = share ** (half - 1) * ((1 - share) ** half - np.minimum(1 - other, 1.0) ** half)
            # the term's sign: -2t - x > x where x < -t, so F there is the larger one
            tails[place] = factor * float(chances[below] @ terms)
        even: Floats = np.minimum(2 * tails, 1.0)
        return even

    def reach(self, miss: float) -> float:
        """Return the least size that the median is beyond with this probability at most.

        Where the cells are too few to tell, it is the sum of the largest two sizes, or a normal quantile of standard
        errors if that is more.
        """
        half = self.count // 2
        if self.count % 2:
            above = 2 * float(special.betaincinv(half + 1, half + 1, miss / 2))
            place = int(np.searchsorted(np.cumsum(self.weights), 1 - above - 1e-12))
            size, is_known = float(self.sizes[min(place, self.sizes.size - 1)]), above >= self.weights[-1]
        else:
            low, high = 0.0, float(self.sizes[-1])
            for _ in range(_BISECTIONS):
                middle = (low + high) / 2
                low, high = (middle, high) if float(self._tail(middle)) > miss else (low, middle)
            size = high
            is_known = self.sizes.size > 1 and float(self._tail(self.sizes[-2])) <= miss
        if is_known:
            return self.unit * size
        # in the largest cell an item errs by what is there without it, which the next size allows for
        wide: float = quantile(miss, "normal") * self.variance**0.5
        return max(self.unit * float(self.sizes[-2:].sum()), wide)

    def reach_of_sums(self, numbers: Ints, miss: float, most: int = _MOST_NUMBERS) -> Floats:
        """Return the least sizes that sums of so many independent medians are beyond with this probability at most.

        Parameters
        ----------
        numbers
            How many medians are added up, at least 1 each: int64, (n,).
        miss
            Probability in (0, 1).
        most
            Of how many different numbers the law is computed.

        Returns
        -------
        ndarray
            float64, (n,): for one median `reach`. Between the numbers whose law is computed, quantiles in standard
            errors are interpolated.

        Examples
        --------
        >>> law = CellLaw.of(np.array([-1.0, 1.0]), 1)
        >>> law.reach_of_sums(np.array([2, 10, 100]), 0.1).round()
        array([ 2.,  6., 16.])
        """
        distinct, place = np.unique(numbers, return_inverse=True)
        knots = distinct
        if distinct.size > most:
            knots = np.unique(np.rint(np.geomspace(distinct[0], distinct[-1], most)).astype(np.int64))
        reaches = [self.reach(miss) if number == 1 else self._sum_reach(int(number), miss) for number in knots]
        roots = np.sqrt(knots)
        sizes: Floats = np.interp(np.sqrt(distinct), roots, np.array(reaches) / roots) * np.sqrt(distinct)
        return sizes[place]

    def _sum_reach(self, number: int, miss: float) -> float:
        """Return the reach of a sum of so many medians.

        The rate at which tails of a sum fall is convex (Cramér): where its law is lost in rounding, the reach grows at
        most with the logarithm of the tail.
        """
        if self.variance == 0:
            return 0.0
        if number not in self._sums:
            self._sums[number] = self._sum_beyond(number)
        step, beyond = self._sums[number]
        rounded = min(number, _ROUNDED) / 2  # steps; of more draws, those that are not 0 do not round alike
        tail = max(miss, _LEAST_TAIL)
        reach = step * (np.searchsorted(-beyond, -tail) + 0.5 + rounded)
        return float(reach * math.log(miss) / math.log(tail))

    def _sum_beyond(self, number: int) -> tuple[float, Floats]:
        """Return a step, and the probabilities that a sum of medians is farther than 1/2, 3/2, … steps from 0.

        By its characteristic function. The grid reaches so far that what lies beyond, which wraps around, is rare.
        """
        step = 2 * (2 * self.unit * float(self.sizes[-1]) + _FAR * (number * self.variance) ** 0.5) / _GRID
        chances = -np.diff(self._tails(step * (np.arange(_GRID // 2) + 0.5)), prepend=1.0)
        law = np.zeros(_GRID)
        law[: _GRID // 2] = np.concatenate([chances[:1], chances[1:] / 2])
        law[-1 : _GRID // 2 : -1] = chances[1:] / 2
        summed = np.fft.irfft(np.fft.rfft(law) ** number, _GRID)
        beyond = np.cumsum(2 * summed[_GRID // 2 - 1 : 0 : -1])[::-1]
        return step, np.append(np.maximum.accumulate(beyond[::-1])[::-1], 0.0)

    def _tails(self, sizes: Floats) -> Floats:
        """Return `tail` of many sizes; of an even number interpolated between quantiles of the cells."""
        knots, tails = self._known_tails
        if self.count % 2:
            odd: Floats = tails[np.searchsorted(knots, sizes, side="right") - 1]
            return odd
        even: Floats = np.interp(sizes, knots, tails, right=0.0)
        return even

    @functools.cached_property
    def _known_tails(self) -> tuple[Floats, Floats]:
        ends = np.concatenate([[0.0], self.sizes])  # an odd median's tail is constant between two sizes
        if self.count % 2 == 0:
            ends = ends[np.unique(np.linspace(0, self.sizes.size, _STEPS).astype(np.int64))]
        return self.unit * ends, self._tail(ends)

    @functools.cached_property
    def _sums(self) -> dict[int, tuple[float, Floats]]:
        return {}

    @functools.cached_property
    def variance(self) -> float:
        """The median's variance: ∫ 2t·P(|median| > t) dt, up to the largest size."""
        if self.count <= 2:  # the mean
            return self.unit**2 * float(self.weights @ self.sizes**2) / self.count
        ends = np.concatenate([[0.0], self.sizes])  # between two sizes the tail of an odd median is constant
        if self.count % 2 == 0:
            ends = ends[np.unique(np.linspace(0, self.sizes.size, _STEPS).astype(np.int64))]
        middles = (ends[1:] + ends[:-1]) / 2
        return self.unit**2 * float(self._tail(middles) @ np.diff(ends**2))

    @functools.cached_property
    def _both_sides(self) -> tuple[Floats, Floats]:
        values = np.concatenate([-self.sizes[::-1], self.sizes])
        return values, np.concatenate([self.weights[::-1], self.weights]) / 2


@functools.lru_cache(maxsize=64)
def normal_median_variance(count: int) -> float:
    """Return the variance of the median of ``count`` normal variables of variance 1."""
    points = special.ndtri((np.arange(_MOST_SIZES) + 0.5) / (2 * _MOST_SIZES))
    return CellLaw.of(points, count).variance
