"""Cosines and profile distances: how similar streams are, regardless of their size.

Formulas: Theory 4, "Shape".
"""

import math

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import special
from streamsketch.core.numbers import Floats
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import Block, mark_secret
from streamsketch.estimation.coarse_noise import grain_of_products
from streamsketch.estimation.distances import steps_of_pairs
from streamsketch.estimation.estimate_arrays import Estimates
from streamsketch.estimation.intervals import Grain
from streamsketch.estimation.noise_effect import InputNoise, OutputNoise
from streamsketch.projections.variance import MapVariance

_TWO_ERRORS = 1.96  # of a 95 % interval
_NOISE_FLOOR = 2.0  # standard errors of an empty stream's squared norm
_LEAST_ACROSS = 1e-6  # of the square of a sine
_FEW_CELLS = 1 / 8  # of W_S's coefficient: 1 / 8 cells


def below_noise_floor(block: Block, among: int = 1) -> NDArray[np.bool_]:
    """Return which of a block's n sketches are below the noise floor: (n,), bool.

    Their squared norms are at most two standard errors of an empty stream's squared norm; where they are selected among
    many, as many more as makes it as unlikely that any of so many empty streams is above.

    Parameters
    ----------
    block
        The sketches.
    among
        How many streams these were selected from.
    """
    floor = least_norm(block.effect, block.k2, block.k4)
    return block.squared_norms <= floor * floor_errors(block, among) / _NOISE_FLOOR


def floor_errors(block: Block, among: int) -> Floats:
    """Return how many standard errors of an empty stream's squared norm make the noise floor of many streams: (n,).

    That norm is a sum of squares over cells: their skewness makes the far tail longer (Cornish and Fisher).
    """
    spread = 2 * block.k2**2
    heavy = np.divide(block.k4 + spread, spread, out=np.ones_like(spread), where=spread > 0)
    skewness = np.sqrt(8 / block.effect.count) * heavy
    z = -float(special.ndtri(float(special.ndtr(-_NOISE_FLOOR)) / max(among, 1)))
    errors: Floats = z + (z**2 - _NOISE_FLOOR**2) * skewness / 6
    return errors


def cosines_between(rows: Block, columns: Block, *, same: bool) -> Estimates:
    """Estimate cosines between two blocks: (n, m) arrays, NaN where undefined; ``same`` makes the diagonal 1.

    Raises
    ------
    InvalidInputError
        If the noise was added before the map.
    """
    estimates = cosines(
        rows.values @ columns.values.T,
        (rows.squared_norms[:, None], columns.squared_norms),
        (rows.k2[:, None], columns.k2),
        (rows.k4[:, None], columns.k4),
        rows.effect,
        rows.variance,
        steps_of_pairs(rows, columns),
    )
    if same:
        defined = ~np.isnan(np.diagonal(estimates.value))
        for array, value in (
            (estimates.value, 1.0),
            (estimates.projection_variance, 0.0),
            (estimates.noise_variance, 0.0),
        ):
            array[defined, defined] = value
            np.fill_diagonal(array, np.where(defined, value, np.nan))
    return mark_secret(estimates, rows, columns)


def profiles_from(cosines: Estimates) -> Estimates:
    """Return the squared distances 2 - 2c between streams scaled to length 1, from their cosines c."""
    parts = (2 - 2 * cosines.value, 4 * cosines.projection_variance, 4 * cosines.noise_variance)
    grain = cosines.grain.scaled(2.0) if isinstance(cosines.grain, Grain) else None
    profiles = Estimates(*parts, lowest=0.0, highest=4.0, grain=grain, error_law="cosine")
    return profiles.as_secret() if cosines.secret else profiles


def cosines(
    product: Floats,
    norms: tuple[Floats, Floats],
    k2: tuple[Floats, Floats],
    k4: tuple[Floats, Floats],
    effect: OutputNoise | InputNoise,
    variance: MapVariance,
    steps: tuple[Floats, Floats] | None = None,
    covariance: float = 0.0,
) -> Estimates:
    """Estimate cosines from inner products and squared norms, by `streamsketch.cosine`'s formulas.

    Parameters
    ----------
    product
        Estimated inner products, in squared data units.
    norms, k2, k4
        Of the first and the second streams: estimated squared norms, and their noises' cumulants in data units. All
        arrays broadcast together.
    effect, variance
        What noise and map do, for all of them.
    steps
        Of the noises of the first and the second streams, in data units; None if they are fine.
    covariance
        Of both noises in a cell, in squared data units, if they depend on each other.

    Returns
    -------
    Estimates
        NaN where a stream is below the noise floor.

    Raises
    ------
    InvalidInputError
        If the noise was added before the map.
    """
    if not isinstance(effect, OutputNoise):
        raise InvalidInputError(
            "the cosine has no standard error for noise added before the map; use inner_product and squared_norm"
        )
    defined = np.broadcast_to(True, np.shape(product))  # noqa: FBT003 - an array of True
    for norm, second, fourth in zip(norms, k2, k4, strict=True):
        defined = defined & (norm > least_norm(effect, second, fourth))
    norm_x, norm_y = (np.where(defined, norm, 1.0) for norm in norms)
    value = np.where(defined, product, np.nan) / np.sqrt(norm_x * norm_y)
    bounded = np.minimum(np.abs(value), 1.0)
    # each part as a share of the squared cosine's scale: product / √(norm_x · norm_y), norm / norm
    noise_x, noise_y = k2[0] / norm_x, k2[1] / norm_y
    shared = covariance / np.sqrt(norm_x * norm_y)
    product_part = noise_x + noise_y + effect.count * (noise_x * noise_y + shared**2)
    norm_part = sum(
        effect.squared_norm_variance(norm, second, fourth) / norm**2
        for norm, second, fourth in zip((norm_x, norm_y), k2, k4, strict=True)
    )
    growth = norm_part / 4 - 2 * (noise_x + noise_y) + effect.count * shared**2  # of the variance with ρ²

    def of_shared(size: Floats) -> Floats:
        """Return what the covariance adds to the variance, of the sign of the cosine."""
        part: Floats = 2 * shared * np.sign(value) * size * (1 - size**2 + effect.count * (noise_x + noise_y))
        return part

    farthest = _farthest(bounded, product_part, growth)
    # ΣM² of the form's diagonal is between 0 and half its squared Frobenius norm, which is (1 - ρ²)²
    coefficient = variance.norms + max(variance.fourth, 0.0) / 2
    of_map = _map_variance(bounded, coefficient)
    of_noise = np.maximum(product_part + farthest**2 * growth - of_shared(farthest), 0.0)
    # and again at the least cosine within two standard errors, where both parts may be larger
    least = np.maximum(bounded - _TWO_ERRORS * np.sqrt(of_map + of_noise), 0.0)
    of_map = np.maximum(of_map, coefficient * (1 - least**2) ** 2)
    place = np.where(growth < 0, least, farthest)
    of_noise = np.maximum(of_noise if covariance else 0.0, product_part + place**2 * growth - of_shared(place))
    grain = grain_of_products(variance, (norm_x, norm_y), k2, k4, steps)
    if grain is not None:  # a cosine changes with what is orthogonal to each of the two, of this length
        across, length = np.maximum(1 - least**2, _LEAST_ACROSS), np.sqrt(norm_x * norm_y)
        share = np.sqrt(across) / length
        grain = Grain(grain.deviation * share, grain.kurtosis, grain.step * share, grain.bend * length / across)
    parts = np.asarray(value), np.asarray(of_map), np.asarray(of_noise)
    return Estimates(*parts, lowest=-1.0, highest=1.0, grain=grain, error_law="cosine")


def least_norm(effect: OutputNoise | InputNoise, k2: Floats, k4: Floats) -> Floats:
    """Return the estimated squared norm above which a stream stands out from its noise: the noise floor."""
    empty = np.zeros_like(k2)
    return np.asarray(_NOISE_FLOOR * np.sqrt(np.maximum(effect.squared_norm_variance(empty, k2, k4), 0.0)))


def _farthest(value: Floats, level: Floats, growth: Floats) -> Floats:
    """Return the cosine at which to evaluate a noise variance of level + growth·c²: ``value`` unless that grows.

    It is the largest c ≤ 1 with c - value = z √(level + growth·c²), as in Fieller's interval for a ratio.
    """
    growing = np.maximum(growth, 0.0)
    rest = 1 - _TWO_ERRORS**2 * growing
    root = value + _TWO_ERRORS * np.sqrt(level * np.maximum(rest, 0.0) + growing * value**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        end = np.where(rest > 0, np.minimum(root / rest, 1.0), 1.0)
    farthest: Floats = np.where(growth > 0, np.where(np.isnan(value), np.nan, end), value)
    return farthest


def _map_variance(value: Floats, coefficient: float) -> Floats:
    """Return the projection's part of the variance from the cosine's absolute value v and a (Theory 4).

    It is ((v - c)/z)² with c the least cosine that has v - c = z √a (1 - c²), and at least the first order a(1 - v²)².
    """
    if coefficient > _FEW_CELLS:
        whole: Floats = ((1 + value) / 1.9) ** 2  # a 95 % normal interval is then all of [-1, 1]
        return whole
    half_width = _TWO_ERRORS * math.sqrt(coefficient)
    # the quadratic's lower root, without cancellation
    least = 2 * (value - half_width) / (1 + np.sqrt(np.maximum(1 - 4 * half_width * (value - half_width), 0.0)))
    stated: Floats = np.maximum(((value - least) / _TWO_ERRORS) ** 2, coefficient * (1 - value**2) ** 2)
    return stated
