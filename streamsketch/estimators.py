"""Estimates from sketches, with honest error bars.

All but the cosine are unbiased over the draw of the projection and the noise, and all work on published
`PrivateSketch` objects as on a party's own raw `Sketch` (which adds no noise; what comes out is then as secret as the
sketch). Formulas: THEORY.md 4, after Stausholm 2021, Lemmas 3 and 10, with the corrected constants.

Standard errors are plug-in: unknown norms are replaced by their estimates. The sum ‖z‖₄⁴ is taken as the 0 that makes
the error bar widest; for a very sparse map, where it adds variance, it is estimated from the cells' fourth moment.
"""

import math
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.errors import InvalidInputError
from streamsketch.estimate import Estimate, Estimates
from streamsketch.noise_effect import InputNoise, OutputNoise, effect_of, unit_of
from streamsketch.privacy.noise import Cumulants
from streamsketch.projections.variance import MapVariance
from streamsketch.release import PrivateSketch, check_independent, check_same_place
from streamsketch.sketch import Sketch

AnySketch: TypeAlias = PrivateSketch | Sketch

_CANCELLED = 1e-6  # a gap this small beside its terms keeps fewer than ten digits
_TWO_ERRORS = 1.96  # of a 95 % interval
_FEW_CELLS = 1 / 8  # of W_S's coefficient: 1 / 8 cells


def squared_distance(x: AnySketch, y: AnySketch) -> Estimate:
    """Estimate ‖x - y‖₂² in squared data units: ``u²(‖Y_x - Y_y‖² - k(κ2x + κ2y))``.

    Variance: ``V_S(z) + 4K2‖z‖² + k·K4 + 2k·K2²``, K the summed cumulants in data units.

    Parameters
    ----------
    x, y
        Sketches of one projection, with independent noises.

    Raises
    ------
    TypeError
        If an argument is no sketch.
    IncompatibleProjectionsError
        If the projections differ.
    DependentNoiseError
        If both hold the noise of one release.

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
    first, second = _views(x, y)
    return _squared_norm(first.values - second.values, first.noise + second.noise, first)


def squared_norm(x: AnySketch) -> Estimate:
    """Estimate ‖x‖₂² in squared data units: ``u²(‖Y_x‖² - k·κ2)``.

    Variance: ``V_S(x) + 4K2‖x‖² + k·K4 + 2k·K2²``.

    Parameters
    ----------
    x
        A sketch.

    Raises
    ------
    TypeError
        If it is no sketch.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> x = SJLT(dim=1000, sketch_dim=256, sparsity=4, seed=7).sketch()
    >>> x.update(3, 5)
    >>> squared_norm(x).value
    25.0
    """
    (view,) = _views(x)
    return _squared_norm(view.values, view.noise, view)


def _squared_norm(cells: NDArray[np.float64], noise: Cumulants, view: "_View") -> Estimate:
    value = float(cells @ cells) - view.effect.count * noise.k2
    norm = max(value, 0.0)
    fourth = _fourth_power_sum(cells, cells, noise, noise, view)
    return Estimate(
        value,
        view.law.of_squared_norm(norm, fourth),
        max(view.effect.squared_norm_variance(norm, noise.k2, noise.k4), 0.0),
        lowest=0.0,
    )


def inner_product(x: AnySketch, y: AnySketch) -> Estimate:
    """Estimate ⟨x, y⟩ in squared data units: ``u²⟨Y_x, Y_y⟩``.

    Variance: ``W_S(x, y) + K2y‖x‖² + K2x‖y‖² + k·K2x·K2y``.

    Parameters
    ----------
    x, y
        Sketches of one projection, with independent noises.

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
    first, second = _views(x, y)
    value = float(first.values @ second.values)
    norm_x, norm_y = (max(_plain_norm(view), 0.0) for view in (first, second))
    squares = _fourth_power_sum(first.values, second.values, first.noise, second.noise, first)
    return Estimate(
        value,
        first.law.of_inner_product(norm_x, norm_y, value, squares),
        max(first.effect.inner_product_variance(norm_x, norm_y, first.noise.k2, second.noise.k2), 0.0),
    )


def normalised_inner_product(x: AnySketch, y: AnySketch, *, norm_x: float = 1.0, norm_y: float = 1.0) -> Estimate:
    """Estimate ⟨x, y⟩ of vectors whose norms are public, as ‖x‖‖y‖ times the `cosine`.

    For embeddings of length 1 this is far better than `inner_product` where they are similar: what the map does
    to both norms cancels (Li and Li 2023, Appendix C, for OPORP and very sparse projections).

    Parameters
    ----------
    x, y
        Sketches of one projection, with independent noises.
    norm_x, norm_y
        The Euclidean norms, in data units, > 0: known to everybody, or published with a guarantee of their own.

    Raises
    ------
    InvalidInputError
        For norms that are not positive and finite; else as `cosine`.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As `squared_distance`.

    Examples
    --------
    >>> from streamsketch import OPORP
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

    This is the normalised estimator of Li and Li 2023. Its variance is by the delta method: the projection's part is
    that of its quadratic form, at most a·(1 - ρ²)² with a = W_S's coefficient of ‖x‖²‖y‖² (THEORY.md 4; 1/k for an
    SJLT), taken so that the interval reaches the farthest cosine that two standard errors leave possible: with few
    cells the estimate may be near ±1 by chance. The noises' part is their share of the two norms and the inner product
    with the covariances 2·K2·⟨x, y⟩. The value may exceed 1 by its error; intervals are cut to [-1, 1].

    Of 95 % intervals without noise at least 93 % were seen to cover, for a ≤ 1/8 (eight cells); of two streams of one
    item each, which may meet in all their cells by chance, 86 %. With fewer cells the interval is all of [-1, 1].

    Parameters
    ----------
    x, y
        Sketches of one projection, with independent noises.

    Raises
    ------
    InvalidInputError
        If a squared norm is estimated within two standard errors of zero: the cosine is then undefined, or drowned. If
        the noise was added before the map: then estimate the inner product and the norms apart.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As `squared_distance`.
    """
    first, second = _views(x, y)
    if not isinstance(first.effect, OutputNoise):
        raise InvalidInputError(
            "the cosine has no error bar for noise that was added before the map; use inner_product and squared_norm"
        )
    k = first.effect.count
    norm_x, norm_y = _plain_norm(first), _plain_norm(second)
    for norm, noise in ((norm_x, first.noise), (norm_y, second.noise)):
        if norm <= 2 * math.sqrt(first.effect.squared_norm_variance(0.0, noise.k2, noise.k4)):
            raise InvalidInputError(
                "the cosine is undefined: the squared norm of a sketch is within two standard errors of zero, so its "
                "stream is empty or drowned in noise. Check squared_norm(), and release with more epsilon or a smaller "
                "sketch_dim"
            )
    product = float(first.values @ second.values)
    value = product / math.sqrt(norm_x * norm_y)
    bounded = min(1.0, max(-1.0, value))
    # each part as a share of the squared cosine's scale: product / √(norm_x · norm_y), norm / norm
    noise_x, noise_y = first.noise.k2 / norm_x, second.noise.k2 / norm_y
    product_part = noise_x + noise_y + k * noise_x * noise_y
    norm_part = sum(
        first.effect.squared_norm_variance(norm, noise.k2, noise.k4) / norm**2
        for norm, noise in ((norm_x, first.noise), (norm_y, second.noise))
    )
    covariance_part = 2 * (noise_x + noise_y)
    noise_variance = product_part + bounded**2 * (norm_part / 4 - covariance_part)
    # ΣM² of the form's diagonal is between 0 and half its squared Frobenius norm, which is (1 - ρ²)²
    coefficient = first.law.norms + max(first.law.fourth, 0.0) / 2
    variance = _cosine_variance(abs(bounded), coefficient)
    return Estimate(value, variance, max(noise_variance, 0.0), lowest=-1.0, highest=1.0)


def _cosine_variance(value: float, coefficient: float) -> float:
    """Return the projection's part of the variance from the cosine's absolute value v and a (THEORY.md 4).

    ((v - c)/z)², c the least cosine with v - c = z √a (1 - c²); at least the first order a(1 - v²)².
    """
    if coefficient > _FEW_CELLS:
        return ((1 + value) / 1.9) ** 2  # a normal interval of 95 % is then all of [-1, 1]
    reach = _TWO_ERRORS * math.sqrt(coefficient)
    # the quadratic's lower root, without the cancellation
    least = 2 * (value - reach) / (1 + math.sqrt(max(1 - 4 * reach * (value - reach), 0.0)))
    return max(((value - least) / _TWO_ERRORS) ** 2, coefficient * (1 - value**2) ** 2)


def pairwise(sketches: Iterable[AnySketch]) -> Estimates:
    """Estimate all squared distances between n sketches at once, by one matrix product.

    Parameters
    ----------
    sketches
        n sketches of one projection, with independent noises.

    Returns
    -------
    Estimates
        Its fields are (n, n) float64 arrays, symmetric, zero on the diagonal; ``estimates[i, j]`` is
        ``squared_distance(sketches[i], sketches[j])`` up to rounding.

    Raises
    ------
    InvalidInputError
        For fewer than two sketches.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As `squared_distance`.
    """
    sketches = list(sketches)
    if len(sketches) < 2:
        raise InvalidInputError(f"pairwise needs at least two sketches, got {len(sketches)}")
    check_comparable(sketches)
    block = block_of(sketches)
    return distances_between(block, block, same=True)


class Block(NamedTuple):
    """Comparable sketches as arrays, for `distances_between`."""

    cells: NDArray[np.float64]
    """(n, k), in data units."""
    k2: NDArray[np.float64]
    """Each noise's second cumulant, in data units: (n,)."""
    k4: NDArray[np.float64]
    """Each noise's fourth cumulant, in data units: (n,)."""
    law: MapVariance
    effect: OutputNoise | InputNoise


def block_of(sketches: Sequence[AnySketch]) -> Block:
    """Return sketches that `check_comparable` has passed as one block for `distances_between`."""
    views = [_view(sketch) for sketch in sketches]
    return Block(
        np.stack([view.values for view in views]),
        np.array([view.noise.k2 for view in views]),
        np.array([view.noise.k4 for view in views]),
        views[0].law,
        _place_of(views).effect,
    )


def distances_between(rows: Block, columns: Block, *, same: bool) -> Estimates:
    """Estimate squared distances between two blocks: (n, m) arrays; ``same`` zeroes the diagonal."""
    law, effect = rows.law, rows.effect
    k2, k4 = rows.k2[:, None] + columns.k2, rows.k4[:, None] + columns.k4
    value = _squared_gaps(rows.cells - rows.cells[0], columns.cells - rows.cells[0]) - effect.count * k2
    size = np.maximum(value, 0.0)
    projection_variance = law.of_squared_norm(size, _fourth_power_sums(rows, columns, k2, k4, size))
    noise_variance = np.maximum(effect.squared_norm_variance(size, k2, k4), 0.0)
    if same:
        for array in (value, projection_variance, noise_variance):
            np.fill_diagonal(array, 0.0)
    return Estimates(value, projection_variance, noise_variance, lowest=0.0)


def _squared_gaps(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ‖x_i - y_j‖² for all rows: by one matrix product, and directly where that would cancel its digits."""
    squares_x, squares_y = np.einsum("ik,ik->i", x, x), np.einsum("ik,ik->i", y, y)
    scale = squares_x[:, None] + squares_y
    gaps: NDArray[np.float64] = scale - 2 * (x @ y.T)
    for i, j in np.argwhere(gaps <= _CANCELLED * scale):
        difference = x[i] - y[j]
        gaps[i, j] = difference @ difference
    return gaps


def _fourth_power_sums(
    rows: Block, columns: Block, k2: NDArray[np.float64], k4: NDArray[np.float64], size: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    if rows.law.fourth <= 0:
        return None
    sums = np.stack([((columns.cells - cells) ** 4).sum(axis=1) for cells in rows.cells])
    return np.clip(rows.effect.fourth_power_sum(sums, size, k2, k4, rows.law), 0.0, size**2)


class _View(NamedTuple):
    values: NDArray[np.float64]  # in data units
    noise: Cumulants  # in data units
    law: MapVariance
    effect: OutputNoise | InputNoise


def check_comparable(sketches: Sequence[AnySketch]) -> None:
    """Raise unless all are sketches of one projection with independent noises; errors as `squared_distance`."""
    for sketch in sketches:
        if not isinstance(sketch, PrivateSketch | Sketch):
            raise TypeError(f"estimates need PrivateSketch or Sketch objects, got a {type(sketch).__name__}")
        sketches[0].projection.check_same(sketch.projection)
    releases = [sketch for sketch in sketches if isinstance(sketch, PrivateSketch)]
    check_independent(releases)
    check_same_place(releases)


def _views(*sketches: AnySketch) -> list[_View]:
    check_comparable(sketches)
    views = [_view(sketch) for sketch in sketches]
    return [view._replace(effect=_place_of(views).effect) for view in views]


def _place_of(views: Sequence[_View]) -> _View:
    """Return a view that has noise, if there is one: a raw sketch has none, and fits any place."""
    return next((view for view in views if view.noise.k2 > 0), views[0])


def _view(sketch: AnySketch) -> _View:
    projection = sketch.projection
    if isinstance(sketch, PrivateSketch):
        cells = sketch.unit * sketch.values.astype(np.float64)
        noise = sketch.noise.scaled(float(sketch.multiplier) * unit_of(projection, sketch.noise_place))
        return _View(cells, noise, projection.variance, effect_of(projection, sketch.noise_place))
    cells = projection.unit * sketch.state.astype(np.float64)
    return _View(cells, Cumulants(), projection.variance, effect_of(projection, "output"))


def _plain_norm(view: _View) -> float:
    return float(view.values @ view.values) - view.effect.count * view.noise.k2


def _fourth_power_sum(
    x: NDArray[np.float64], y: NDArray[np.float64], noise_x: Cumulants, noise_y: Cumulants, view: _View
) -> float | None:
    """Estimate Σx²y² (‖z‖₄⁴ where both are z) from the cells, where ignoring it would make error bars too small."""
    if view.law.fourth <= 0:
        return None
    n, sums = view.effect.count, float((x**2) @ (y**2))
    norms = max(float(x @ x) - n * noise_x.k2, 0.0), max(float(y @ y) - n * noise_y.k2, 0.0)
    if x is y:
        estimate = view.effect.fourth_power_sum(sums, norms[0], noise_x.k2, noise_x.k4, view.law)
    else:
        k2 = noise_x.k2, noise_y.k2
        estimate = view.effect.product_square_sum(sums, norms, float(x @ y), k2, view.law)
    return min(max(estimate, 0.0), norms[0] * norms[1])
