"""Estimates from sketches, with standard errors.

All but the cosine and the profile distance are unbiased over the draw of the projection and the noise. All accept
published `PrivateSketch` objects and a party's own raw `Sketch` objects, also one of each. The latter have no noise,
and their estimates are as secret as they are: a `SecretEstimate`.
Formulas: Theory 4, after Stausholm 2021, Lemmas 3 and 10, with corrected constants.

Standard errors are plug-in: unknown norms are replaced by their estimates. So is the sum ‖z‖₄⁴, from the cells' fourth
moment, for a very sparse map, where it adds variance, and in part for hashed maps, where it takes variance away. For
other maps it is taken as 0, which makes the standard error largest.

Sums of units that were all brought to one length in sketch space (`SketchL2`, ``clip="equal"``) have less of the map's
error in norms and products, the more so the more alike units are (Theory 4.4). That is taken off where each unit is in
one key and units were counted, as far as the release shows it. Under ``clip="scale"`` it does not say how many units
were clipped, so standard errors are those of sums that were not, and wider than necessary.
"""

import math
from numbers import Real

import numpy as np

from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, block_of, check_comparable, pair_of
from streamsketch.estimation.cosines import cosines_between, profiles_from
from streamsketch.estimation.distances import distances_between, norms_of, products_between
from streamsketch.estimation.estimate import Estimate
from streamsketch.estimation.estimate_arrays import Estimates


def squared_distance(x: AnySketch, y: AnySketch) -> Estimate:
    """Estimate ‖x - y‖₂² in squared data units: ``u²(‖Y_x - Y_y‖² - k(κ2x + κ2y))``.

    Here u is the grid step of a cell in data units, Y are the k cells, and κ the cumulants of their noise. The variance
    is ``V_S(z) + 4K2‖z‖² + k·K4 + 2k·K2²``, with z = x - y and K the sums of the cumulants in data units.

    Parameters
    ----------
    x, y
        Two sketches of one projection, with independent noise.

    Raises
    ------
    TypeError
        If an argument is not a sketch.
    IncompatibleProjectionsError
        If the projections differ.
    DependentNoiseError
        If both contain the noise of one release.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> projection = SJLT(dim=1000, sketch_dim=256, sparsity=4, seed=7)
    >>> x, y = projection.sketch(), projection.sketch()
    >>> x.update(3, 5)
    >>> y.update(3, 1)
    >>> squared_distance(x, y).value
    16.0
    """
    return distances_between(*pair_of(x, y), same=False)[0, 0]


def squared_norm(x: AnySketch) -> Estimate:
    """Estimate ‖x‖₂² in squared data units: ``u²(‖Y_x‖² - k·κ2)``.

    The variance is ``V_S(x) + 4K2‖x‖² + k·K4 + 2k·K2²``; see `squared_distance` for the symbols.

    Parameters
    ----------
    x
        A sketch.

    Raises
    ------
    TypeError
        If ``x`` is not a sketch.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> x = SJLT(dim=1000, sketch_dim=256, sparsity=4, seed=7).sketch()
    >>> x.update(3, 5)
    >>> squared_norm(x).value
    25.0
    """
    check_comparable([x])
    return norms_of(block_of([x]))[0]


def inner_product(x: AnySketch, y: AnySketch) -> Estimate:
    """Estimate ⟨x, y⟩ in squared data units: ``u²⟨Y_x, Y_y⟩``.

    The variance is ``W_S(x, y) + K2y‖x‖² + K2x‖y‖² + k·K2x·K2y``; see `squared_distance` for the symbols.

    Parameters
    ----------
    x, y
        Two sketches of one projection, with independent noise.

    Raises
    ------
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As in `squared_distance`.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> projection = SJLT(dim=1000, sketch_dim=256, sparsity=4, seed=7)
    >>> x, y = projection.sketch(), projection.sketch()
    >>> x.update(3, 5)
    >>> y.update(3, 2)
    >>> inner_product(x, y).value
    10.0
    """
    return products_between(*pair_of(x, y))[0, 0]


def normalised_inner_product(x: AnySketch, y: AnySketch, *, norm_x: float = 1.0, norm_y: float = 1.0) -> Estimate:
    """Estimate ⟨x, y⟩ of vectors with public norms, in squared data units, as ‖x‖‖y‖ times the `cosine`.

    For similar embeddings of length 1 this is far more accurate than `inner_product`, because the map's errors in the
    two norms cancel (Li and Li 2023, Appendix C, for OPORP and very sparse projections).

    Parameters
    ----------
    x, y
        Two sketches of one projection, with independent noise.
    norm_x, norm_y
        The Euclidean norms, in data units, > 0. They must be public, or published with a guarantee of their own.

    Raises
    ------
    InvalidInputError
        If a norm is not positive and finite, and as in `cosine`.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As in `squared_distance`.

    Examples
    --------
    >>> from streamsketch.projections import OPORP
    >>> projection = OPORP(dim=1000, sketch_dim=250, seed=7)
    >>> x, y = projection.sketch(), projection.sketch()
    >>> x.update([3, 4], [3, 4])
    >>> y.update([3, 4], [3, 4])
    >>> normalised_inner_product(x, y, norm_x=5, norm_y=5).value
    25.0
    """
    for norm in (norm_x, norm_y):
        if isinstance(norm, bool) or not (isinstance(norm, Real) and 0 < norm < math.inf):
            raise InvalidInputError(f"a norm must be a positive, finite number, got {norm!r:.40}")
    return cosine(x, y).scaled(float(norm_x) * float(norm_y))


def cosine(x: AnySketch, y: AnySketch) -> Estimate:
    """Estimate the cosine ⟨x, y⟩ / (‖x‖ ‖y‖): a ratio of unbiased estimates, itself nearly unbiased.

    This is the normalised estimator of Li and Li 2023. Its variance follows from the delta method. The projection's
    part is that of its quadratic form, at most a·(1 - ρ²)², where a is W_S's coefficient of ‖x‖²‖y‖² (Theory 4; 1/k for
    an SJLT). With few cells the estimate may be close to ±1 by chance, so this part is evaluated at the farthest cosine
    within two standard errors. The noise's part combines its effects on the two norms and the inner product, with the
    covariances 2·K2·⟨x, y⟩. If it grows with the cosine, it is also evaluated at the farthest cosine within two
    standard errors, as in Fieller's interval. Both parts are then evaluated again at the smallest cosine within two
    standard errors of their sum, where they are larger for two similar streams. The value may exceed 1 by its error;
    intervals are clipped to [-1, 1].

    Sums of units that were clipped in sketch space have more of the map's error than stated if they point nearly the
    same way but consist of different units: at most 1.2 times the variance for cosines up to 0.7, 2.3 times at 0.95,
    and an error of the order of 1/k at 1. It matters where noise is small beside it (Theory 4.4).

    In simulations of streams close to the limit below which the cosine is undefined, intervals that were returned
    missed the cosine in at most 5.4 % of cases (Theory 4).

    In simulations with 8 to 1024 cells, 95 % intervals covered the cosine in at least 95 % of cases, and in at least 93
    % if most streams of that size would be refused. Without noise they covered it in 86 % for two streams of one item
    each, which may collide in all their cells. With fewer than 8 cells (a > 1/8) the interval is [-1, 1].

    Parameters
    ----------
    x, y
        Two sketches of one projection, with independent noise.

    Raises
    ------
    InvalidInputError
        If an estimated squared norm is within two standard errors of zero, because the cosine is then undefined or
        below the noise floor; or if the noise was added before the map: estimate the inner product and the norms
        separately.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As in `squared_distance`.

    Examples
    --------
    >>> from streamsketch import CountSketch
    >>> projection = CountSketch(sketch_dim=256, seed=7)
    >>> x, y = projection.sketch(), projection.sketch()
    >>> x.update(["tea", "milk", "bread"], [1, 2, 3])
    >>> y.update(["tea", "milk", "bread"], [2, 4, 6])
    >>> round(cosine(x, y).value, 12)
    1.0
    """
    return _defined(cosines_between(*pair_of(x, y), same=False))[0, 0]


def profile_distance(x: AnySketch, y: AnySketch) -> Estimate:
    """Estimate ‖x/‖x‖ - y/‖y‖‖² = 2 - 2·cosine, the squared distance of two streams scaled to length 1.

    It compares what streams consist of and ignores their size. It is 0 for equal profiles, 2 for streams with nothing
    in common, and up to 4 with negative values. Streams are scaled by their Euclidean norms, because a sketch does not
    give their totals. Error and interval are twice those of the `cosine`.

    Parameters
    ----------
    x, y
        Two sketches of one projection, with independent noise.

    Raises
    ------
    TypeError, InvalidInputError, IncompatibleProjectionsError, DependentNoiseError
        As in `cosine`.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> projection = SJLT(dim=1000, sketch_dim=256, sparsity=4, seed=7)
    >>> small, large = projection.sketch(), projection.sketch()
    >>> small.update([3, 4], [1, 2])
    >>> large.update([3, 4], [100, 200])
    >>> abs(round(profile_distance(small, large).value, 6))
    0.0
    """
    return profiles_from(_defined(cosines_between(*pair_of(x, y), same=False)))[0, 0]


def _defined(cosines: Estimates) -> Estimates:
    """Return cosines of one pair; raise `InvalidInputError` if a stream is below the noise floor."""
    if np.isnan(cosines.value).any():
        raise InvalidInputError(
            "the cosine is undefined: the squared norm of a sketch is within two standard errors of zero, so its "
            "stream is empty or below the noise floor. Check squared_norm(), and release with a larger epsilon or a "
            "smaller sketch_dim"
        )
    return cosines
