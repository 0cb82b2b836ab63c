"""How much of a map's error is left in sums of units that were all brought to one length in sketch space.

Such a unit's length has no error from the map, and neither has a sum of units that are all alike. How alike they are
follows from the norm of their sum and from their number (Theory 4.4, "Sums of clipped units").
"""

import math
from typing import Any, NamedTuple

import numpy as np

from streamsketch.core.numbers import Floats
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.counts import moments_of_units
from streamsketch.estimation.noise_effect import InputNoise, OutputNoise
from streamsketch.projections.variance import MapVariance
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.sketching.sketch import Sketch

_SURE = 2.0  # standard errors
_OF_BOTH = 2  # of the error of a squared length, in those of the length


class EqualUnits(NamedTuple):
    """What n releases state of sums of units of one length: float64, (n,)."""

    most: Floats
    """The squared norm that a sum would have if all its units were alike, in squared data units: the square of their
    number, two standard errors above its estimate, times their length. Infinite where units may have other lengths."""
    rounding: Floats
    """The square of the relative error of a squared norm that rounding each unit to whole cells may cause."""

    def at(self, kept: Any) -> "EqualUnits":
        """Return the same of some of the releases."""
        return EqualUnits(self.most[kept], self.rounding[kept])

    def scaled(self, weight: Floats) -> "EqualUnits":
        """Return the same of releases times these factors."""
        return EqualUnits(self.most * weight**2, self.rounding)


class MapPart(NamedTuple):
    """The map's part of a variance, and how it grows with the truth: arrays of one shape."""

    variance: Floats
    slope: Floats
    curvature: Floats


def equal_units_of(sketch: PrivateSketch | Sketch) -> tuple[float, float]:
    """Return `EqualUnits.most` and `EqualUnits.rounding` of one sketch.

    Lengths are equal, and those of the bound, in a release with ``clip="equal"``, of units that are each in one key.
    """
    unknown = np.inf, 0.0
    if not isinstance(sketch, PrivateSketch) or sketch.clip != "equal" or sketch.counts is None:
        return unknown
    stated = {part.guarantee.neighbours for part in sketch.as_parts()}
    if len(stated) != 1 or any(part.history for part in sketch.as_parts()):
        return unknown
    (neighbours,) = stated
    if neighbours.max_keys != 1:
        return unknown
    try:
        steps = neighbours.cell_steps(sketch.projection)  # type: ignore[attr-defined]  # of relations that are clipped so
    except InvalidInputError:  # a file may state a bound below one cell
        return unknown
    number, variance = moments_of_units(sketch)
    number = max(number, 0.0) + _SURE * math.sqrt(variance)
    return (number * steps * sketch.projection.cell_unit) ** 2, (_OF_BOTH**2 * sketch.projection.sketch_dim) / steps**2


def norm_share(size: Floats, noise: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Return how alike units are for sure, and the largest share of the map's variance that their sum may have.

    The share of the variance of a squared norm, 2(1 - m)², is the largest for any units of equal length with the mean
    cosine m ≥ 0.29 over all pairs, and attained by two groups of the same size. Below, nothing is taken away.

    Parameters
    ----------
    size
        Squared norms.
    noise
        The variances of the noise in them.
    most
        `EqualUnits.most`.
    """
    alike = np.clip(np.maximum(size - _SURE * np.sqrt(noise), 0.0) / np.maximum(most, np.finfo(np.float64).tiny), 0, 1)
    return alike, np.minimum(2 * (1 - alike) ** 2, 1.0)


def of_norms(variance: MapVariance, whole: MapPart, size: Floats, noise: Floats, equal: EqualUnits) -> MapPart:
    """Return the map's part for squared norms, where ``whole`` is that of a sum which was not clipped in sketch space.

    ``noise`` is the variance of the noise.
    """
    if variance.fourth > 0:
        return whole
    alike, _ = norm_share(size, noise, equal.most)
    left = (4 * variance.norms * (1 - alike) ** 2 + equal.rounding) * size**2
    less = np.isfinite(equal.most) & (left < whole.variance)
    # of 4a(t - t²/T)², with t the truth and T the norm of units that are alike
    slope = 2 * (4 * variance.norms * (1 - alike) * (1 - 2 * alike) + equal.rounding) * size
    curvature = 4 * variance.norms * (1 - 2 * alike) ** 2 + equal.rounding
    return MapPart(*(np.where(less, a, b) for a, b in zip((left, slope, curvature), whole, strict=True)))


def of_products(
    variance: MapVariance,
    whole: MapPart,
    norms: tuple[Floats, Floats],
    inner: Floats,
    effect: OutputNoise | InputNoise,
    noises: tuple[tuple[Floats, Floats], tuple[Floats, Floats]],
    equals: tuple[EqualUnits, EqualUnits],
) -> MapPart:
    """Return the map's part for inner products; arrays broadcast together.

    ``noises`` are the second and the fourth cumulants on both sides. Sums that point apart keep the whole error.
    """
    if variance.fourth > 0:
        return whole
    a, (k2_x, k2_y) = variance.norms, (noises[0][0], noises[1][0])
    spread = [
        np.maximum(effect.squared_norm_variance(norm, *noise), 0.0) for norm, noise in zip(norms, noises, strict=True)
    ]
    shares = [norm_share(norm, own, equal.most)[1] for norm, own, equal in zip(norms, spread, equals, strict=True)]
    share = (shares[0] + shares[1]) / 2
    product = norms[0] * norms[1]
    sure = np.maximum(inner - _SURE * np.sqrt(np.maximum(effect.inner_product_variance(*norms, k2_x, k2_y), 0.0)), 0.0)
    upper = [norm + _SURE * np.sqrt(own) for norm, own in zip(norms, spread, strict=True)]
    scale = np.sqrt(upper[0] * upper[1])
    cosine = np.minimum(np.divide(sure, scale, out=np.zeros_like(scale), where=scale > 0), 1.0)
    cosine = np.maximum(cosine - _SURE * np.sqrt(a) * (1 - cosine**2), 0.0)
    rounding = np.maximum(equals[0].rounding, equals[1].rounding)
    left = a * (product * (1 - (1 - share) * cosine**4) + share * inner**2) + rounding * inner**2
    less = np.isfinite(equals[0].most) & np.isfinite(equals[1].most) & (inner > 0) & (left < whole.variance)
    curvature = a * share + rounding
    return MapPart(
        *(np.where(less, x, y) for x, y in zip((left, 2 * curvature * inner, curvature), whole, strict=True))
    )
