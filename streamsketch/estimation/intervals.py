"""Intervals: the values of a quantity that its estimate does not contradict (Theory 4, "Intervals")."""

import math
import numbers
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from streamsketch.core import special
from streamsketch.core.numbers import Floats, check_int, short
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.noise_effect import InputNoise, OutputNoise
from streamsketch.projections.variance import MapVariance, Real

Method: TypeAlias = Literal["normal", "chebyshev"]

ErrorLaw: TypeAlias = Literal["auto", "normal", "cosine"]
"""How the map's error changes with the quantity beyond slope and curvature, for intervals of what was selected. That of
a cosine, or of what is made of one by scaling and adding, shrinks towards both ends of the range. ``"auto"`` is a
cosine's for the range [-1, 1], and normal for others."""

_MOST_CANDIDATES = 1 << 64  # of more, the probability that each misses may be 0 as a float
_MOST_KURTOSIS = 6.0
_LAPLACE_KURTOSIS = 3.0
_EXACT = 1e-9  # a cosine's error from the map; below it, two streams are multiples of one another
_SKEWED = 1e-7  # curvature; below it, χ² of that many degrees of freedom is as good as normal


class Interval(NamedTuple):
    """A confidence interval, ends included.

    Examples
    --------
    >>> from streamsketch.estimation import Estimate
    >>> interval = Estimate(10.0, projection_variance=3.0, noise_variance=1.0).interval()
    >>> round(interval.low, 2), round(interval.high, 2)
    (6.08, 13.92)
    """

    low: float
    high: float


class Intervals(NamedTuple):
    """The confidence intervals of `Estimates`, as two float64 arrays of their shape."""

    low: Floats
    high: Floats


class Grain(NamedTuple):
    """How coarse the error of products of cells is where the map adds none (Theory 4, "Coarse noise").

    If few entries make up the vectors, most of the error is a multiple of the noise in one cell, which has few values.
    All are arrays of the estimates' shape, or 0.
    """

    deviation: Floats
    """Standard deviation of the part of the error that is linear in the noise."""
    kurtosis: Floats
    """Its excess kurtosis if each vector has one entry."""
    step: Floats
    """The distance of two values that it may then have."""
    bend: Floats
    """A linear error of w comes with one of second order, of at most ``bend``·w²."""

    def least_width(self, miss: float) -> Floats:
        """Return the half-width that an interval needs at least to miss with this probability at most.

        The quantile lies between that of a normal and that of a Laplace law, and beyond it for heavier tails.
        """
        z = -float(special.ndtri(miss / 2))
        kurtosis = np.clip(self.kurtosis, 0.0, _MOST_KURTOSIS) / _LAPLACE_KURTOSIS
        heaviness = np.maximum(np.sqrt(kurtosis), kurtosis)
        linear = self.deviation * (z + max(-math.log(miss) / math.sqrt(2) - z, 0.0) * heaviness) + self.step
        width: Floats = linear + self.bend * linear**2
        return width

    @property
    def alone(self) -> bool:
        """Whether such errors are the whole error: no."""
        return False

    def scaled(self, factor: Any) -> "Grain":
        """Return that of estimates times ``factor`` > 0."""
        return Grain(self.deviation * factor, self.kurtosis, self.step * factor, self.bend / factor)


class LeastWidth(Protocol):
    """How wide intervals have to be because of coarse noise; see `Grain`."""

    @property
    def alone(self) -> bool:
        """Whether the widths are those of the whole error, and not only of its coarse part."""

    def least_width(self, miss: float) -> float:
        """Return the half-width that misses with this probability at most."""

    def scaled(self, factor: float) -> "LeastWidth":
        """Return the same for estimates times ``factor`` > 0."""


class ErrorModel(NamedTuple):
    """What intervals are made of: the fields of `Estimate`, as arrays of one shape."""

    value: Floats
    projection_variance: Floats
    noise_variance: Floats
    slope: Floats
    curvature: Floats
    lowest: float
    highest: float
    grain: "Grain | LeastWidth | None" = None
    error_law: ErrorLaw = "auto"

    @property
    def is_cosine(self) -> bool:
        """Whether the error changes as that of a cosine; see `ErrorLaw`."""
        return self.error_law == "cosine" or (self.error_law == "auto" and (self.lowest, self.highest) == (-1, 1))

    @property
    def variance(self) -> Floats:
        """The sum of the projection's and the noise's variance."""
        return self.projection_variance + self.noise_variance

    @property
    def inside(self) -> Floats:
        """The value, clipped to the range."""
        inside: Floats = np.clip(self.value, self.lowest, self.highest)
        return inside

    def widened(self, ends: Intervals, miss: float) -> Intervals:
        """Return intervals with this probability of a miss that are at least as wide as coarse noise needs."""
        if self.grain is None:
            return ends
        width = np.where(self.variance > 0, self.grain.least_width(miss), 0.0)
        low, high = self.inside - width, self.inside + width
        if not self.grain.alone:
            low, high = np.minimum(ends.low, low), np.maximum(ends.high, high)
        return Intervals(*(np.clip(end, self.lowest, self.highest) for end in (low, high)))


def invert(stated: ErrorModel, reach: float | Floats) -> Intervals:
    """Return all t in the range with |q - t| ≤ ``reach``·√S(t), S(t) the variance if t is the truth.

    S(t) = S + slope·(t - q) + curvature·(t - q)², q the value clipped to the range and S the stated variance. So an
    estimate beyond the range has the interval of the range's end, which has a width. The set is the piece that contains
    q.
    """
    inside, lowest, highest, variance = stated.inside, stated.lowest, stated.highest, stated.variance
    if not (stated.slope.any() or stated.curvature.any()):
        width = reach * np.sqrt(variance)
        return Intervals(*(np.clip(end, lowest, highest) for end in (inside - width, inside + width)))
    # in t - q: a·t² - 2b·t + c ≤ 0
    a = 1 - reach**2 * stated.curvature
    b = reach**2 / 2 * stated.slope
    c = -(reach**2) * variance
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(b**2 - a * c)  # NaN where there is none
        # without cancellation: the larger root of a and b alike, and the other by their product c/a
        far = np.where(b >= 0, b + root, b - root)
        first, second = far / a, c / far
    closed = a > 0
    low = np.where(closed, np.minimum(first, second), np.where(b > 0, second, -np.inf))
    high = np.where(closed, np.maximum(first, second), np.where(b < 0, second, np.inf))
    none = np.isnan(root)
    low, high = np.where(none, -np.inf, low), np.where(none, np.inf, high)
    exact = variance == 0
    low, high = (np.where(exact, 0.0, end) for end in (low, high))
    return Intervals(*(np.clip(inside + end, lowest, highest) for end in (low, high)))


def invert_each(stated: ErrorModel, miss: float, method: Method, kurtosis: float = 0.0) -> Intervals:
    """Return an interval for each estimate, which misses with this probability; see `Estimate.interval`."""
    ends = invert(stated, quantile(miss, method, kurtosis))
    return stated.widened(ends, miss) if method == "normal" else ends


def invert_selected(stated: ErrorModel, candidates: int, miss: float, kurtosis: float = 0.0) -> Intervals:
    """Return intervals for estimates among ``candidates``, of which each misses with this probability.

    See `Estimate.selected_interval`.
    """
    z = quantile(miss, "normal", kurtosis)
    lowest, highest = stated.lowest, stated.highest
    if candidates > 1 and lowest == 0 and math.isinf(highest):
        above, below = _skewed(np.asarray(stated.curvature), miss / 2, z)
        low, high = invert(stated, below)
        return stated.widened(Intervals(np.minimum(low, invert(stated, above).low), high), miss)
    if not stated.is_cosine:
        return stated.widened(invert(stated, z), miss)
    middle, half = (highest + lowest) / 2, (highest - lowest) / 2
    cosine = np.abs(stated.inside - middle) / half
    noise = stated.noise_variance / half**2
    of_map = _map_width(cosine, np.sqrt(stated.projection_variance) / half, noise, z)
    width = half * np.sqrt(of_map**2 + z**2 * noise)
    ends = (np.clip(end, lowest, highest) for end in (stated.inside - width, stated.inside + width))
    return stated.widened(Intervals(*ends), miss)


def miss_of(confidence: float, candidates: int = 1) -> float:
    """Return the probability with which each of ``candidates`` intervals may miss if all are to hold (Bonferroni).

    All that intervals are made of takes it, and not a confidence of each: 1 minus it rounds to 1 for a high confidence
    or many candidates, and then has no quantile.

    Raises
    ------
    InvalidInputError
        For a confidence outside (0, 1), also as a float, or candidates that are not from 1 to 2^64.

    Examples
    --------
    >>> round(miss_of(0.95, 50), 6)
    0.001
    """
    is_between = isinstance(confidence, numbers.Real) and 0 < confidence < 1
    if not is_between or not 0 < float(confidence) < 1:  # a fraction may be 1 as a float
        raise InvalidInputError(f"confidence must lie in (0, 1), got {short(confidence)}; 0.95 is usual")
    return (1 - float(confidence)) / check_int(candidates, "candidates", 1, _MOST_CANDIDATES)


def quantile(miss: float, method: str, kurtosis: float = 0.0) -> float:
    """Return how many standard errors an estimate is off with this probability, for errors of this excess kurtosis.

    The normal quantile z gets the term of Cornish and Fisher, (z³ - 3z)·kurtosis/24. For Laplace noise (3) an interval
    of 95 % then covers 95.3 %, where the normal one covers 93.7 %.

    Examples
    --------
    >>> round(quantile(0.05, "normal"), 2), round(quantile(0.05, "chebyshev"), 2)
    (1.96, 4.47)
    """
    if method == "normal":
        return float(heavier(-float(special.ndtri(miss / 2)), kurtosis))
    if method == "chebyshev":
        return 1 / math.sqrt(miss)
    raise InvalidInputError(f"method must be 'normal' or 'chebyshev', got {method!r}")


def heavier(z: float, kurtosis: Real) -> Real:
    """Return a normal quantile for errors of an excess kurtosis; it ascends with z up to `_MOST_KURTOSIS`."""
    corrected: Real = z + (z**3 - 3 * z) * np.minimum(kurtosis, _MOST_KURTOSIS) / 24
    return corrected


def _skewed(curvature: Floats, tail: float, z: float) -> tuple[Floats, Floats]:
    """Return how many standard errors an estimate of a squared quantity is above or below it with probability ``tail``.

    It is distributed nearly as χ² of 2 / curvature degrees of freedom, which are the cells of most maps (Theory 4,
    "Selected estimates"); as a normal variable, ``z`` both ways, where the curvature is 0.
    """
    values, place = np.unique(curvature, return_inverse=True)
    freedom = 2 / np.maximum(values, _SKEWED)
    spread = np.sqrt(2 * freedom)
    above = (2 * special.gammainccinv(freedom / 2, tail) - freedom) / spread
    below = (freedom - 2 * special.gammaincinv(freedom / 2, tail)) / spread
    ends = (np.where(values > _SKEWED, end, z)[place].reshape(curvature.shape) for end in (above, below))
    first, second = ends
    return first, second


def norm_growth(
    variance: MapVariance, effect: OutputNoise | InputNoise, squared_norm: Real, k2: Real
) -> tuple[Real, float]:
    """Return slope and curvature of the variance of squared norms, at the norms stated.

    The map's part grows with the square of the squared norm, the noise's linearly; ‖z‖₄⁴ is taken as it was estimated.
    """
    curvature = variance.norms + variance.inner
    return 2 * curvature * squared_norm + effect.squared_norm_slope(k2), curvature


def _map_width(cosine: Floats, error: Floats, noise: Floats, z: float) -> Floats:
    """Return the half-width at z of a cosine's interval from the map's part of its standard error, as stated.

    The error was stated at the least cosine within 1.96 standard errors, of map and noise; here it is that within z of
    them.
    """
    usual, total = float(special.ndtri(0.975)), np.sqrt(error**2 + noise)
    least = np.maximum(cosine - usual * total, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(error > _EXACT, z * error / (1 - least**2), 0.0)  # z √a, with error = √a (1 - least²)
        farthest = 2 * (cosine - slope) / (1 + np.sqrt(np.maximum(1 - 4 * slope * (cosine - slope), 0.0)))
    least = np.maximum(cosine - z * total, 0.0)
    width = np.maximum(np.maximum(cosine - farthest, slope * (1 - least**2)), z * error)
    stated: Floats = np.where(cosine - usual * error > -1, width, 2.0)
    return stated
