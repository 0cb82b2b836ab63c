"""How long honest reports are: bounds that hold for all of them, or for all but one in 10^9 (THEORY.md 7.6)."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammainccinv, gammaincinv, ndtri

from streamsketch.local.parameters import GaussianCap
from streamsketch.local.report import Layout

FALSE_ALARM = 1e-9
"""At most this share of honest reports is outside the bounds."""

_SLACK = 2.0**-20  # of a length: sums in floating point, and quantiles of another machine


class Lengths(NamedTuple):
    """The Euclidean lengths that honest values have, bounds included."""

    least: float
    most: float

    def rounded(self, layout: Layout) -> "Lengths":
        """Return the bounds after values were rounded to the layout's dtype."""
        kind = np.finfo(layout.stored)
        relative = float(kind.eps) / 2 + _SLACK
        absolute = math.sqrt(layout.count) * float(kind.smallest_subnormal) / 2
        return Lengths(max(0.0, self.least * (1 - relative) - absolute), self.most * (1 + relative) + absolute)


def gaussian_lengths(cap: GaussianCap, fewest: int, most: int) -> Lengths:
    """Return the lengths of τ·x, ‖x‖² = a² + χ², a PrivUnitG's height.

    χ² has at least ``fewest`` and at most ``most`` degrees of freedom. Each of the four tails has 1/4 of `FALSE_ALARM`.
    """
    tail = FALSE_ALARM / 4
    above = -float(ndtri(tail * cap.mass / cap.inside))
    below = -float(ndtri(min(0.5, tail * (1 - cap.mass) / (1 - cap.inside))))
    least = 2 * float(gammaincinv(fewest / 2, tail)) if fewest else 0.0
    largest = 2 * float(gammainccinv(most / 2, tail)) if most else 0.0
    return Lengths(cap.scale * math.sqrt(least), cap.scale * math.sqrt(max(above, below) ** 2 + largest))


def noisy_lengths(count: int, reach: float, variance_proxy: float, moments: tuple[float, float]) -> Lengths:
    """Return the lengths of a vector of length at most ``reach`` plus ``count`` independent discrete Gaussians.

    From above by their sub-Gaussian tail (Hsu, Kakade and Zhang 2012), from below by that of sums of non-negative
    variables (Maurer 2003); each has 1/2 of `FALSE_ALARM`. ``moments`` are E x² and E x⁴ of one.
    """
    t = math.log(2 / FALSE_ALARM)
    second, fourth = moments
    most = variance_proxy * (count + 2 * math.sqrt(count * t) + 2 * t)
    least = count * second - math.sqrt(2 * t * count * fourth)
    return Lengths(max(0.0, math.sqrt(max(0.0, least)) - reach), math.sqrt(most) + reach)
