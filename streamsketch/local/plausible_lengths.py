"""Which lengths of reports are plausible: honest ones have them, all or all but one in 10^9 (Theory 7.6)."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.libraries import scipy_special
from streamsketch.local.parameters import GaussianCap
from streamsketch.local.random_words import dot_rows
from streamsketch.local.report import Layout, Reported, Values

FALSE_ALARM = 1e-9
"""Largest share of honest reports outside the bounds."""

_FEW = 1 << 12  # values, for which BLAS starts no threads
_SLACK = 2.0**-20  # relative, for floating-point sums and for quantiles from another machine


class Lengths(NamedTuple):
    """The range of Euclidean lengths of honest values, ends included."""

    least: float
    most: float

    def rounded(self, layout: Layout) -> "Lengths":
        """Return the bounds for values rounded to the layout's dtype."""
        kind = np.finfo(layout.stored)
        relative = float(kind.eps) / 2 + _SLACK
        absolute = math.sqrt(layout.count) * float(kind.smallest_subnormal) / 2
        return Lengths(max(0.0, self.least * (1 - relative) - absolute), self.most * (1 + relative) + absolute)


def gaussian_lengths(cap: GaussianCap, fewest: int, most: int) -> Lengths:
    """Return the lengths of τ·x with ‖x‖² = a² + χ², where a is PrivUnitG's height.

    χ² has ``fewest`` to ``most`` degrees of freedom. Each of the four tails takes 1/4 of `FALSE_ALARM`.
    """
    tail = FALSE_ALARM / 4
    above = -float(scipy_special.ndtri(tail * cap.mass / cap.inside))
    below = -float(scipy_special.ndtri(min(0.5, tail * (1 - cap.mass) / (1 - cap.inside))))
    least = 2 * float(scipy_special.gammaincinv(fewest / 2, tail)) if fewest else 0.0
    largest = 2 * float(scipy_special.gammainccinv(most / 2, tail)) if most else 0.0
    return Lengths(cap.scale * math.sqrt(least), cap.scale * math.sqrt(max(above, below) ** 2 + largest))


def noisy_lengths(count: int, radius: float, variance_proxy: float, moments: tuple[float, float]) -> Lengths:
    """Return the lengths of a vector of length at most ``radius`` plus ``count`` independent discrete Gaussians.

    The upper bound is by their sub-Gaussian tail (Hsu, Kakade and Zhang 2012), the lower one by that of sums of
    non-negative variables (Maurer 2003); each takes 1/2 of `FALSE_ALARM`. ``moments`` are E x² and E x⁴ of one.
    """
    t = math.log(2 / FALSE_ALARM)
    second, fourth = moments
    most = variance_proxy * (count + 2 * math.sqrt(count * t) + 2 * t)
    least = count * second - math.sqrt(2 * t * count * fourth)
    return Lengths(max(0.0, math.sqrt(max(0.0, least)) - radius), math.sqrt(most) + radius)


def lengths_fit(mechanism: Reported, values: Values) -> NDArray[np.bool_]:
    """Return which rows of ``values``, (n, count), have a length that an honest report can have: bool, (n,)."""
    least, most = mechanism.honest_lengths
    if most == math.inf:
        return np.ones(values.shape[0], dtype=np.bool_)
    cells = values.astype(np.float64)
    squares = dot_rows(cells, cells)
    return np.asarray((squares >= least * least) & (squares <= most * most))


def all_fit(mechanism: Reported, values: Values) -> bool:
    """Return whether `lengths_fit` holds for all rows; fast for a single row."""
    least, most = mechanism.honest_lengths
    if most == math.inf:
        return True
    if values.shape[0] == 1 and values.shape[1] <= _FEW:
        row = values[0].astype(np.float64)
        return least * least <= float(row @ row) <= most * most
    return bool(lengths_fit(mechanism, values).all())


def implausible(mechanism: Reported, values: Values) -> str:
    """Return a message about the first row of ``values`` whose length no honest report has."""
    least, most = mechanism.honest_lengths
    first = values[int(np.argmin(lengths_fit(mechanism, values)))].astype(np.float64)
    length = math.sqrt(float(first @ first))
    return (
        f"a report has length {length:.6g}, but honest reports of {mechanism!r} have {least:.6g} to {most:.6g}; it is "
        "damaged or dishonest"
    )
