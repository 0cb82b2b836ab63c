"""Estimates from sketches, with standard errors.

All but the cosine and the profile distance are unbiased over the draw of the projection and the noise. All accept
published `PrivateSketch` objects and a party's own raw `Sketch` objects; the latter have no noise, and their estimates
are as secret as they are.
Formulas: THEORY.md 4, after Stausholm 2021, Lemmas 3 and 10, with corrected constants.

Standard errors are plug-in: unknown norms are replaced by their estimates. The sum ‖z‖₄⁴ is taken as 0, which makes
the standard error largest; for a very sparse map, where it adds variance, it is estimated from the cells' fourth
moment.
"""

import math
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from streamsketch.errors import InvalidInputError
from streamsketch.estimation.estimate import Estimate
from streamsketch.estimation.inversion import norm_growth
from streamsketch.estimation.shapes import cosines
from streamsketch.estimation.views import AnySketch, View, gap_of, views_of
from streamsketch.privacy import NoiseMoments


def squared_distance(x: AnySketch, y: AnySketch) -> Estimate:
    """Estimate ‖x - y‖₂² in squared data units: ``u²(‖Y_x - Y_y‖² - k(κ2x + κ2y))``.

    Here u is the grid step of a cell in data units, Y are the k cells, and κ the cumulants of their noise. The variance
    is ``V_S(z) + 4K2‖z‖² + k·K4 + 2k·K2²``, with z = x - y and K the sums of the cumulants in data units.

    Parameters
    ----------
    x, y
        Sketches of one projection, with independent noise.

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
    first, second = views_of(x, y)
    return _squared_norm(gap_of(first, second), first.noise + second.noise, first)


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
        If it is not a sketch.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> x = SJLT(dim=1000, sketch_dim=256, sparsity=4, seed=7).sketch()
    >>> x.update(3, 5)
    >>> squared_norm(x).value
    25.0
    """
    (view,) = views_of(x)
    return _squared_norm(view.values, view.noise, view)


def _squared_norm(cells: NDArray[np.float64], noise: NoiseMoments, view: View) -> Estimate:
    value = float(cells @ cells) - view.effect.count * noise.k2
    norm = max(value, 0.0)
    fourth = _fourth_power_sum(cells, cells, noise, noise, view)
    slope, curvature = norm_growth(view.variance, view.effect, norm, noise.k2)
    return Estimate(
        value,
        view.variance.of_squared_norm(norm, fourth),
        max(view.effect.squared_norm_variance(norm, noise.k2, noise.k4), 0.0),
        lowest=0.0,
        slope=slope,
        curvature=curvature,
    )


def inner_product(x: AnySketch, y: AnySketch) -> Estimate:
    """Estimate ⟨x, y⟩ in squared data units: ``u²⟨Y_x, Y_y⟩``.

    The variance is ``W_S(x, y) + K2y‖x‖² + K2x‖y‖² + k·K2x·K2y``; see `squared_distance` for the symbols.

    Parameters
    ----------
    x, y
        Sketches of one projection, with independent noise.

    Raises
    ------
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As `squared_distance`.

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
    first, second = views_of(x, y)
    value = float(first.values @ second.values)
    norm_x, norm_y = (max(_plain_norm(view), 0.0) for view in (first, second))
    squares = _fourth_power_sum(first.values, second.values, first.noise, second.noise, first)
    return Estimate(
        value,
        first.variance.of_inner_product(norm_x, norm_y, value, squares),
        max(first.effect.inner_product_variance(norm_x, norm_y, first.noise.k2, second.noise.k2), 0.0),
        slope=2 * first.variance.inner * value,  # of the map's part b⟨x, y⟩²; the norms are taken as estimated
        curvature=first.variance.inner,
    )


def normalised_inner_product(x: AnySketch, y: AnySketch, *, norm_x: float = 1.0, norm_y: float = 1.0) -> Estimate:
    """Estimate ⟨x, y⟩ of vectors with public norms, in squared data units, as ‖x‖‖y‖ times the `cosine`.

    For similar embeddings of length 1 this is far more accurate than `inner_product`, since the map's errors in the two
    norms cancel (Li and Li 2023, Appendix C, for OPORP and very sparse projections).

    Parameters
    ----------
    x, y
        Sketches of one projection, with independent noise.
    norm_x, norm_y
        The Euclidean norms, in data units, > 0: public knowledge, or published with a guarantee of their own.

    Raises
    ------
    InvalidInputError
        For norms that are not positive and finite, and where `cosine` raises it.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As `squared_distance`.

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
    angle, scale = cosine(x, y), float(norm_x) * float(norm_y)
    return Estimate(
        scale * angle.value,
        scale**2 * angle.projection_variance,
        scale**2 * angle.noise_variance,
        lowest=-scale,
        highest=scale,
    )


def cosine(x: AnySketch, y: AnySketch) -> Estimate:
    """Estimate the cosine ⟨x, y⟩ / (‖x‖ ‖y‖): a ratio of unbiased estimates, itself nearly unbiased.

    This is the normalised estimator of Li and Li 2023. Its variance follows from the delta method. The projection's
    part is that of its quadratic form, at most a·(1 - ρ²)² with a = W_S's coefficient of ‖x‖²‖y‖² (THEORY.md 4; 1/k for
    an SJLT). It is evaluated such that the interval extends to the farthest cosine within two standard errors, since
    with few cells the estimate may be near ±1 by chance. The noise's part combines its effects on the two norms and the
    inner product, with the covariances 2·K2·⟨x, y⟩. Where it grows with the cosine, it is evaluated at the farthest
    one within two standard errors, as in Fieller's interval. Both parts are then evaluated again at the least cosine
    within two standard errors of them together, where they are larger for two like streams. The value may exceed 1 by
    its error; intervals are clipped to [-1, 1].

    In simulations of streams near the limit below which the cosine is undefined, an interval was returned and missed
    the cosine in at most 5.4 % of cases (THEORY.md 4).

    In simulations 95 % intervals covered in at least 95 % of cases with 8 to 1024 cells, and in at least 93 % where
    most streams of that size would be refused; without noise in 86 % for two streams of one item each, which may
    collide in all their cells. With fewer than 8 cells, a > 1/8, the interval is [-1, 1].

    Parameters
    ----------
    x, y
        Sketches of one projection, with independent noise.

    Raises
    ------
    InvalidInputError
        If an estimated squared norm is within two standard errors of zero, where the cosine is undefined or lost in
        noise; or if the noise was added before the map, where the inner product and the norms must be estimated
        separately.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As `squared_distance`.
    """
    first, second = views_of(x, y)
    estimate = cosines(
        np.asarray(first.values @ second.values),
        (np.asarray(_plain_norm(first)), np.asarray(_plain_norm(second))),
        (np.asarray(first.noise.k2), np.asarray(second.noise.k2)),
        (np.asarray(first.noise.k4), np.asarray(second.noise.k4)),
        first.effect,
        first.variance,
    )[()]
    if math.isnan(estimate.value):
        raise InvalidInputError(
            "the cosine is undefined: the squared norm of a sketch is within two standard errors of zero, so its "
            "stream is empty or too small for its noise. Check squared_norm(), and release with a larger epsilon "
            "or a smaller sketch_dim"
        )
    return estimate


def profile_distance(x: AnySketch, y: AnySketch) -> Estimate:
    """Estimate ‖x/‖x‖ - y/‖y‖‖² = 2 - 2c, c the `cosine`: the squared distance of streams scaled to length 1.

    It compares what streams consist of, whatever their size: 0 for equal profiles, 2 for streams with nothing in
    common, up to 4 with negative values. Streams are scaled by their Euclidean norms, since their totals cannot be
    estimated from a sketch. Error and interval are those of the cosine, twice as large.

    Parameters
    ----------
    x, y
        Sketches of one projection, with independent noise.

    Raises
    ------
    TypeError, InvalidInputError, IncompatibleProjectionsError, DependentNoiseError
        As `cosine`.

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
    found = cosine(x, y)
    return Estimate(
        2 - 2 * found.value, 4 * found.projection_variance, 4 * found.noise_variance, lowest=0.0, highest=4.0
    )


def _plain_norm(view: View) -> float:
    return float(view.values @ view.values) - view.effect.count * view.noise.k2


def _fourth_power_sum(
    x: NDArray[np.float64], y: NDArray[np.float64], noise_x: NoiseMoments, noise_y: NoiseMoments, view: View
) -> float | None:
    """Estimate Σx²y² (‖z‖₄⁴ if both are z) from the cells; None where ignoring it is safe."""
    if view.variance.fourth <= 0:
        return None
    n, sums = view.effect.count, float((x**2) @ (y**2))
    norms = max(float(x @ x) - n * noise_x.k2, 0.0), max(float(y @ y) - n * noise_y.k2, 0.0)
    if x is y:
        estimate = view.effect.fourth_power_sum(sums, norms[0], noise_x.k2, noise_x.k4, view.variance)
    else:
        k2 = noise_x.k2, noise_y.k2
        estimate = view.effect.product_square_sum(sums, norms, float(x @ y), k2, view.variance)
    return min(max(estimate, 0.0), norms[0] * norms[1])
