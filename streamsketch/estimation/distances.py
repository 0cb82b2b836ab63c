"""Squared distances, squared norms and inner products of blocks of sketches, by one matrix product."""

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import Floats
from streamsketch.estimation.blocks import Block, difference, mark_secret
from streamsketch.estimation.coarse_noise import grain_of_norms, grain_of_products
from streamsketch.estimation.estimate import Estimates
from streamsketch.estimation.intervals import norm_growth

_CANCELLED = 1e-6  # a difference this small relative to its terms keeps fewer than ten digits


def distances_between(rows: Block, columns: Block, *, same: bool) -> Estimates:
    """Estimate squared distances between two blocks: (n, m) arrays; ``same`` zeroes the diagonal."""
    effect = rows.effect
    k2, k4 = rows.k2[:, None] + columns.k2, rows.k4[:, None] + columns.k4
    x, y = from_first(rows, rows), from_first(columns, rows)
    value = squared_gaps(x, y, rows, columns) - effect.count * k2
    size = np.maximum(value, 0.0)
    projection_variance = rows.variance.of_squared_norm(size, fourth_power_sums(x, y, (k2, k4), rows, size))
    noise_variance = np.maximum(effect.squared_norm_variance(size, k2, k4), 0.0)
    slope, curving = norm_growth(rows.variance, effect, size, k2)
    curvature = np.full(size.shape, curving)
    if same:
        for array in (value, projection_variance, noise_variance, slope, curvature):
            np.fill_diagonal(array, 0.0)
    steps = None if rows.steps is None or columns.steps is None else np.maximum(rows.steps[:, None], columns.steps)
    found = Estimates(
        value, projection_variance, noise_variance, lowest=0.0, slope=slope, curvature=curvature,
        grain=grain_of_norms(rows.variance, size, k2, k4, steps),
    )  # fmt: skip
    return mark_secret(found, rows, columns)


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
    of_map = variance.of_squared_norm(size, fourth)
    grain = grain_of_norms(variance, size, block.k2, block.k4, block.steps)
    found = Estimates(value, of_map, noise_variance, lowest=0.0, slope=slope, curvature=curvature, grain=grain)
    return mark_secret(found, block)


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
    found = Estimates(
        value,
        variance.of_inner_product(*norms, value, squares),
        np.maximum(effect.inner_product_variance(*norms, *k2), 0.0),
        slope=2 * variance.inner * value,  # of the map's part b⟨x, y⟩²; the norms are taken as estimated
        curvature=np.full(value.shape, variance.inner),
        grain=grain_of_products(variance, norms, k2, (rows.k4[:, None], columns.k4), steps_of_pairs(rows, columns)),
    )
    return mark_secret(found, rows, columns)


def steps_of_pairs(rows: Block, columns: Block) -> tuple[Floats, Floats] | None:
    """Return the steps of the noises of two blocks, as arrays that broadcast to one of pairs."""
    return None if rows.steps is None or columns.steps is None else (rows.steps[:, None], columns.steps)


def from_first(block: Block, rows: Block) -> NDArray[np.float64]:
    """Return cells minus those of the first row, in data units: (n, k). Large common sums would cost digits."""
    if block is rows and len(rows.cells) == 1:
        return np.zeros(rows.cells.shape)
    first = rows.cell_units[0]
    if (block.cell_units == first).all():
        gaps = first * difference(block.cells, rows.cells[0])
    else:
        cells = block.cells.astype(np.float64)
        gaps = block.cell_units[:, None] * cells - first * rows.cells[0].astype(np.float64)
    return np.asarray(gaps, dtype=np.float64)


def squared_gaps(x: NDArray[np.float64], y: NDArray[np.float64], rows: Block, columns: Block) -> NDArray[np.float64]:
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


def fourth_power_sums(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    noise: tuple[NDArray[np.float64], NDArray[np.float64]],
    rows: Block,
    size: NDArray[np.float64],
) -> NDArray[np.float64] | None:
    """Return ‖x_i - y_j‖₄⁴ where a map's variance grows with it, as estimated from the cells; None elsewhere."""
    if rows.variance.fourth <= 0:
        return None
    sums = _fourth_powers_of_gaps(x, y)
    return np.clip(rows.effect.fourth_power_sum(sums, size, *noise, rows.variance), 0.0, size**2)


def _fourth_powers_of_gaps(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Σ (x_i - y_j)⁴ over the cells of all rows: by three matrix products, and directly as `squared_gaps`."""
    squares_x, squares_y = x**2, y**2
    scale = np.einsum("ik,ik->i", squares_x, squares_x)[:, None] + np.einsum("ik,ik->i", squares_y, squares_y)
    sums: NDArray[np.float64] = squares_x @ squares_y.T
    sums *= 1.5
    sums -= (squares_x * x) @ y.T
    sums -= x @ (squares_y * y).T
    sums *= 4
    sums += scale
    cancelled = sums <= _CANCELLED * scale
    for i, j in np.argwhere(cancelled) if cancelled.any() else ():
        gap = (x[i] - y[j]) ** 2
        sums[i, j] = gap @ gap
    return sums
