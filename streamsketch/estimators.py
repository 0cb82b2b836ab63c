"""Estimates from sketches, with honest error bars.

All but the cosine are unbiased over the draw of the projection and the noise, and all work on published
`PrivateSketch` objects as on a party's own raw `Sketch` (which adds no noise; what comes out is then as secret as the
sketch). Formulas: THEORY.md 4, after Stausholm 2021, Lemmas 3 and 10, with the corrected constants.

Standard errors are plug-in: unknown norms are replaced by their estimates, and ‖z‖₄⁴ by its lower bound 0.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.errors import InvalidInputError
from streamsketch.estimate import Estimate, Estimates
from streamsketch.privacy.noise import Cumulants
from streamsketch.projections.base import Projection
from streamsketch.release import PrivateSketch, check_independent
from streamsketch.sketch import Sketch

AnySketch: TypeAlias = PrivateSketch | Sketch


_CANCELLED = 1e-6  # a gap this small beside its terms keeps fewer than ten digits


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
    k = first.values.size
    noise = first.noise + second.noise
    gap = first.values - second.values
    value = float(gap @ gap) - k * noise.k2
    return Estimate(
        value,
        first.projection.squared_norm_variance(max(value, 0.0)),
        _squared_norm_noise(max(value, 0.0), noise, k),
        lowest=0.0,
    )


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
    k = view.values.size
    value = float(view.values @ view.values) - k * view.noise.k2
    return Estimate(
        value,
        view.projection.squared_norm_variance(max(value, 0.0)),
        _squared_norm_noise(max(value, 0.0), view.noise, k),
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
    k = first.values.size
    value = float(first.values @ second.values)
    norm_x = max(float(first.values @ first.values) - k * first.noise.k2, 0.0)
    norm_y = max(float(second.values @ second.values) - k * second.noise.k2, 0.0)
    return Estimate(
        value,
        first.projection.inner_product_variance(norm_x, norm_y, value),
        second.noise.k2 * norm_x + first.noise.k2 * norm_y + k * first.noise.k2 * second.noise.k2,
    )


def cosine(x: AnySketch, y: AnySketch) -> Estimate:
    """Estimate the cosine ⟨x, y⟩ / (‖x‖ ‖y‖): a ratio of unbiased estimates, itself nearly unbiased.

    Its variance is to first order (delta method): (1 - ρ²)²/k from the projection, and the noises' share of
    the two norms and the inner product with their covariances 2·K2·⟨x, y⟩. The value may exceed 1 by its error;
    intervals are cut to [-1, 1].

    Parameters
    ----------
    x, y
        Sketches of one projection, with independent noises.

    Raises
    ------
    InvalidInputError
        If a squared norm is estimated within two standard errors of zero: the cosine is then undefined, or drowned.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As `squared_distance`.
    """
    first, second = _views(x, y)
    k = first.values.size
    norm_x = float(first.values @ first.values) - k * first.noise.k2
    norm_y = float(second.values @ second.values) - k * second.noise.k2
    for norm, noise in ((norm_x, first.noise), (norm_y, second.noise)):
        if norm <= 2 * math.sqrt(_squared_norm_noise(0.0, noise, k)):
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
        _squared_norm_noise(norm, noise, k) / norm**2 for norm, noise in ((norm_x, first.noise), (norm_y, second.noise))
    )
    covariance_part = 2 * (noise_x + noise_y)
    noise_variance = product_part + bounded**2 * (norm_part / 4 - covariance_part)
    return Estimate(value, (1 - bounded**2) ** 2 / k, max(noise_variance, 0.0), lowest=-1.0, highest=1.0)


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
    return distances_between(sketches[0].projection, block, block, same=True)


Block: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Cells (n, k) in data units, and each row's noise cumulants κ2 and κ4, (n,)."""


def block_of(sketches: Sequence[AnySketch]) -> Block:
    """Return sketches that `check_comparable` has passed as one block for `distances_between`."""
    views = [_view(sketch) for sketch in sketches]
    return (
        np.stack([view.values for view in views]),
        np.array([view.noise.k2 for view in views]),
        np.array([view.noise.k4 for view in views]),
    )


def distances_between(projection: Projection, rows: Block, columns: Block, *, same: bool) -> Estimates:
    """Estimate squared distances between two blocks: (n, m) arrays; ``same`` zeroes the diagonal."""
    (x, x_k2, x_k4), (y, y_k2, y_k4) = rows, columns
    k = projection.sketch_dim
    k2, k4 = x_k2[:, None] + y_k2, x_k4[:, None] + y_k4
    value = _squared_gaps(x - x[0], y - x[0]) - k * k2
    size = np.maximum(value, 0.0)
    projection_variance = projection.squared_norm_variance(size)
    noise_variance = 4 * k2 * size + k * k4 + 2 * k * k2**2
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


class _View(NamedTuple):
    projection: Projection
    values: NDArray[np.float64]  # in data units
    noise: Cumulants  # in data units


def check_comparable(sketches: Sequence[AnySketch]) -> None:
    """Raise unless all are sketches of one projection with independent noises; errors as `squared_distance`."""
    for sketch in sketches:
        if not isinstance(sketch, PrivateSketch | Sketch):
            raise TypeError(f"estimates need PrivateSketch or Sketch objects, got a {type(sketch).__name__}")
        sketches[0].projection.check_same(sketch.projection)
    check_independent(sketch for sketch in sketches if isinstance(sketch, PrivateSketch))


def _views(*sketches: AnySketch) -> list[_View]:
    check_comparable(sketches)
    return [_view(sketch) for sketch in sketches]


def _view(sketch: AnySketch) -> _View:
    if isinstance(sketch, PrivateSketch):
        cells = sketch.unit * sketch.values.astype(np.float64)
        return _View(sketch.projection, cells, sketch.noise.scaled(sketch.unit))
    return _View(sketch.projection, sketch.projection.unit * sketch.state.astype(np.float64), Cumulants())


def _squared_norm_noise(squared_norm: float, noise: Cumulants, cells: int) -> float:
    return 4 * noise.k2 * squared_norm + cells * noise.k4 + 2 * cells * noise.k2**2
