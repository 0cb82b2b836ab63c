"""Laws of a number T ≥ 0 and their tails: in closed form, or made of other laws (Theory 4.7)."""

import dataclasses
import functools
import math
from abc import ABC, abstractmethod

import numpy as np

from streamsketch.core import special
from streamsketch.core.numbers import Floats
from streamsketch.core.roots import interpolated

SMALLEST = 1e-15
"""The least p-value under noise: a smaller one is given as this."""

WINDOW = 24.0
"""How many standard deviations of a sum are looked at."""

_UNTILTED = 1e-6  # tails down to this are read from the untilted law
_ROUNDING = 1e-9
_BISECTIONS = 40
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
        tails: Floats = special.gammaincc(half, half * np.maximum(values, 0.0) / self.mean)
        return tails

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
            single: Floats = special.ndtr((self.distance - ends) / deviation) + special.ndtr(
                -(self.distance + ends) / deviation
            )
            return single
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
        tails = np.exp(np.interp(value / factors, places, logs, left=0.0, right=-math.inf))
        return min(max(float(weights @ tails), SMALLEST), 1.0)

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
        return max(self.rough_tail(value), SMALLEST)

    def rough_tail(self, value: float) -> float:
        """Return the mean of rough tails."""
        tails = np.array([[law.rough_tail(value)] for law in self.laws])
        return float(np.minimum(self.chances @ tails, 1.0)[0])

    def rough_tails(self, values: Floats) -> Floats:
        """Return the means of rough tails."""
        tails = np.array([law.rough_tails(values) for law in self.laws])
        means: Floats = np.minimum(self.chances @ tails, 1.0)
        return means

    @functools.cached_property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        means, deviations = np.array([law.moments for law in self.laws]).T
        mean = float(self.chances @ means)
        return mean, math.sqrt(float(self.chances @ (deviations**2 + means**2)) - mean**2)
