"""Tails of estimates beyond the normal approximation, which more nonzeros make lighter.

If a difference is spread over many coordinates, the error of its squared length is nearly normal. If it consists of q
equal coordinates, two of them seldom collide in a cell, but each collision causes a large error. THEORY.md 4.1 derives
the distribution used here.
"""

import dataclasses
import functools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ive, ndtr, ndtri

_FEW_MEETINGS = 40.0  # expected; with more, the error is normal
_MOST_MEETINGS = 60
_STEPS = 24  # of bisection: to 1e-6 of the bracket


@dataclasses.dataclass(frozen=True)
class ErrorLaw:
    """The distribution of the relative error of a squared distance, (D̂ - D) / D.

    Parameters
    ----------
    map_variance, noise_variance
        The projection's and the noise's parts of its variance, relative to D².
    blocks
        Number of cells that each coordinate is added to (s); 0 for a map whose errors are taken as normal.
    meeting
        Probability that two coordinates collide in a given one of these cells.
    spread
        The least number of equal coordinates in a difference.

    Examples
    --------
    >>> spread_thin = ErrorLaw(2 / 256, 0.0, blocks=1, meeting=1 / 256, spread=1 << 20)
    >>> few_items = ErrorLaw(2 / 256, 0.0, blocks=1, meeting=1 / 256, spread=2)
    >>> round(spread_thin.half_width(0.05), 3), round(few_items.half_width(0.05), 3)
    (0.173, 0.333)
    """

    map_variance: float
    noise_variance: float
    blocks: int = 0
    meeting: float = 0.0
    spread: int = 1

    @property
    def standard_error(self) -> float:
        """The square root of the variance."""
        return math.sqrt(self.map_variance + self.noise_variance)

    def miss_chance(self, half_width: float) -> float:
        """Return the probability that the relative error exceeds ``half_width``, for the worst difference."""
        normal = 2 * float(ndtr(-half_width / self.standard_error)) if self.standard_error else 0.0
        chances, shifts = _meetings(self.blocks, self.meeting, self.spread)
        if not chances.size:
            return normal
        noise = max(math.sqrt(self.noise_variance), 1e-6 * half_width)
        few = 2 * (chances * ndtr((shifts - half_width) / noise)).sum(axis=1)
        return max(normal, float(few.max()))

    def half_width(self, miss: float) -> float:
        """Return the half-width that the relative error exceeds with probability at most ``miss``."""
        if not self.standard_error:
            return 0.0
        # the normal distribution gives a lower bound, Chebyshev's inequality an upper one
        low, high = -float(ndtri(miss / 2)) * self.standard_error, self.standard_error / math.sqrt(miss)
        if self.miss_chance(low * (1 + 1e-9)) <= miss:
            return low
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.miss_chance(middle) <= miss else (middle, high)
        return high


@functools.lru_cache(maxsize=4096)
def _meetings(blocks: int, meeting: float, spread: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return, for each number q of items, the probabilities of n = …, -1, 0, 1, … signed collisions and the errors."""
    counts = np.unique(np.rint(2 ** (np.arange(2, 41) / 2)))
    counts = counts[counts >= spread]
    expected = blocks * meeting * counts * (counts - 1) / 2
    keep = (expected > 0) & (expected <= _FEW_MEETINGS)
    counts, expected = counts[keep, None], expected[keep, None]
    signed = np.arange(-_MOST_MEETINGS, _MOST_MEETINGS + 1)
    # the difference of two Poisson variables of half the mean: e^-λ I_n(λ)
    return ive(np.abs(signed), expected), 2 * signed / (counts * max(blocks, 1))
