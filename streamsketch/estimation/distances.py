"""Distances and cosines between many sketches at once, by one matrix product."""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, Block, block_of, check_comparable, difference
from streamsketch.estimation.cosines import cosines_between, profiles_from
from streamsketch.estimation.estimate import Estimates
from streamsketch.estimation.intervals import norm_growth

By: TypeAlias = Literal["distance", "cosine", "profile"]
"""What streams are compared by: squared distances, cosines, or squared distances of streams scaled to length 1."""

_CANCELLED = 1e-6  # a difference this small relative to its terms keeps fewer than ten digits


def pairwise(sketches: Iterable[AnySketch], *, by: By = "distance") -> Estimates:
    """Estimate all squared distances between n sketches at once, or all cosines, by one matrix product.

    Parameters
    ----------
    sketches
        n sketches of one projection, with independent noises.
    by
        ``"distance"`` for `squared_distance`, ``"cosine"`` for `cosine`, ``"profile"`` for `profile_distance`. The
        distances of counts mostly measure how large streams are; the other two compare what they consist of.

    Returns
    -------
    Estimates
        (n, n) float64 arrays, symmetric, of no error on the diagonal; ``estimates[i, j]`` is
        ``squared_distance(sketches[i], sketches[j])`` up to rounding, in squared data units, or as the others. Cosines
        and profile distances of a sketch whose squared norm is within two standard errors of zero are NaN.

    Raises
    ------
    InvalidInputError
        For fewer than two sketches, another ``by``, or cosines of releases with noise added before the map.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As `squared_distance`.
    """
    sketches = list(sketches)
    if len(sketches) < 2:
        raise InvalidInputError(f"pairwise needs at least two sketches, got {len(sketches)}")
    check_by(by)
    check_comparable(sketches)
    block = block_of(sketches)
    return compare_blocks(block, block, by, same=True)


def check_by(by: str) -> None:
    """Raise `InvalidInputError` unless streams can be compared by this."""
    if by not in MEASURES:
        *others, last = map(repr, MEASURES)
        raise InvalidInputError(f"by must be {', '.join(others)} or {last}, got {by!r:.40}")


def compare_blocks(rows: Block, columns: Block, by: By, *, same: bool) -> Estimates:
    """Compare two blocks, or a block with itself if ``same``: (n, m) arrays; errors as `pairwise`."""
    return MEASURES[by].between(rows, columns, same)


def distances_between(rows: Block, columns: Block, *, same: bool) -> Estimates:
    """Estimate squared distances between two blocks: (n, m) arrays; ``same`` zeroes the diagonal."""
    effect = rows.effect
    k2, k4 = rows.k2[:, None] + columns.k2, rows.k4[:, None] + columns.k4
    x, y = _from_first(rows, rows), _from_first(columns, rows)
    value = _squared_gaps(x, y, rows, columns) - effect.count * k2
    size = np.maximum(value, 0.0)
    projection_variance = rows.variance.of_squared_norm(size, _fourth_power_sums(x, y, (k2, k4), rows, size))
    noise_variance = np.maximum(effect.squared_norm_variance(size, k2, k4), 0.0)
    slope, curving = norm_growth(rows.variance, effect, size, k2)
    curvature = np.full(size.shape, curving)
    if same:
        for array in (value, projection_variance, noise_variance, slope, curvature):
            np.fill_diagonal(array, 0.0)
    return Estimates(value, projection_variance, noise_variance, lowest=0.0, slope=slope, curvature=curvature)


def norms_of(block: Block) -> Estimates:
    """Estimate the squared norms of a block's n sketches: (n,) arrays."""
    effect, variance, values = block.effect, block.variance, block.values
    value = block.squared_norms
    size = np.maximum(value, 0.0)
    fourth = None
    if variance.fourth > 0:
        sums = (values**4).sum(axis=1)
        fourth = np.clip(effect.fourth_power_sum(sums, size, block.k2, block.k4, variance), 0.0, size**2)
    noise_variance = np.maximum(effect.squared_norm_variance(size, block.k2, block.k4), 0.0)
    slope, curving = norm_growth(variance, effect, size, block.k2)
    curvature = np.full(size.shape, curving)
    return Estimates(
        value,
        variance.of_squared_norm(size, fourth),
        noise_variance,
        lowest=0.0,
        slope=slope,
        curvature=curvature,
    )


def products_between(rows: Block, columns: Block) -> Estimates:
    """Estimate inner products between two blocks: (n, m) arrays."""
    effect, variance, x, y = rows.effect, rows.variance, rows.values, columns.values
    value = x @ y.T
    norms = np.maximum(rows.squared_norms, 0.0)[:, None], np.maximum(columns.squared_norms, 0.0)
    k2 = rows.k2[:, None], columns.k2
    squares = None
    if variance.fourth > 0:
        estimate = effect.product_square_sum((x**2) @ (y**2).T, norms, value, k2, variance)
        squares = np.clip(estimate, 0.0, norms[0] * norms[1])
    return Estimates(
        value,
        variance.of_inner_product(*norms, value, squares),
        np.maximum(effect.inner_product_variance(*norms, *k2), 0.0),
        slope=2 * variance.inner * value,  # of the map's part b⟨x, y⟩²; the norms are taken as estimated
        curvature=np.full(value.shape, variance.inner),
    )


def _from_first(block: Block, rows: Block) -> NDArray[np.float64]:
    """Return cells minus those of the first row, in data units: (n, k). Large common sums would cost digits."""
    if block is rows and len(rows.cells) == 1:
        return np.zeros(rows.cells.shape)
    first = rows.cell_units[0]
    if (block.cell_units == first).all():
        from_first = first * difference(block.cells, rows.cells[0])
    else:
        cells = block.cells.astype(np.float64)
        from_first = block.cell_units[:, None] * cells - first * rows.cells[0].astype(np.float64)
    return np.asarray(from_first, dtype=np.float64)


def _squared_gaps(x: NDArray[np.float64], y: NDArray[np.float64], rows: Block, columns: Block) -> NDArray[np.float64]:
    """Return ‖x_i - y_j‖² for all rows: by one matrix product, and directly where that would lose digits."""
    squares_x, squares_y = np.einsum("ik,ik->i", x, x), np.einsum("ik,ik->i", y, y)
    scale = squares_x[:, None] + squares_y
    gaps: NDArray[np.float64] = scale - 2 * (x @ y.T)
    cancelled = gaps <= _CANCELLED * scale
    for i, j in np.argwhere(cancelled) if cancelled.any() else ():
        if rows.cell_units[i] == columns.cell_units[j]:
            gap = rows.cell_units[i] * difference(rows.cells[i], columns.cells[j])
        else:
            gap = x[i] - y[j]
        gaps[i, j] = gap @ gap
    return gaps


def _fourth_power_sums(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    noise: tuple[NDArray[np.float64], NDArray[np.float64]],
    rows: Block,
    size: NDArray[np.float64],
) -> NDArray[np.float64] | None:
    if rows.variance.fourth <= 0:
        return None
    sums = np.array([((y - cells) ** 4).sum(axis=1) for cells in x])
    return np.clip(rows.effect.fourth_power_sum(sums, size, *noise, rows.variance), 0.0, size**2)


class Measure(NamedTuple):
    """What streams are compared by: in `pairwise`, in Beam, by commands and in reports."""

    title: str
    """For people, in the singular."""
    between: Callable[[Block, Block, bool], Estimates]
    """Compares two blocks, or a block with itself: (n, m) arrays."""
    sign: int = 1
    """-1 if the greatest value is the nearest, as of cosines."""

    @property
    def column(self) -> str:
        """The name in tables and JSON."""
        return self.title.replace(" ", "_")


MEASURES: dict[By, Measure] = {
    "distance": Measure("squared distance", lambda rows, columns, same: distances_between(rows, columns, same=same)),
    "cosine": Measure("cosine", lambda rows, columns, same: cosines_between(rows, columns, same=same), sign=-1),
    "profile": Measure(
        "profile distance", lambda rows, columns, same: profiles_from(cosines_between(rows, columns, same=same))
    ),
}
