"""Squared distances, squared norms and inner products of blocks of sketches, by one matrix product."""

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.numbers import Floats
from streamsketch.estimation.blocks import Block, difference, mark_secret
from streamsketch.estimation.coarse_noise import grain_of_norms, grain_of_products
from streamsketch.estimation.equal_units import EqualUnits, MapPart, of_norms, of_products
from streamsketch.estimation.estimate_arrays import Estimates
from streamsketch.estimation.intervals import norm_growth

_TAKEN = 2 / 3  # of a sum of fourth powers that makes an error smaller
_SURE, _EIGHTH = 2.0, 96.0  # standard errors; a fourth power of a normal noise has the variance 96K2⁴
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
    estimates = Estimates(
        value, projection_variance, noise_variance, lowest=0.0, slope=slope, curvature=curvature,
        grain=grain_of_norms(rows.variance, size, k2, k4, steps),
    )  # fmt: skip
    return mark_secret(estimates, rows, columns)


def norms_of(block: Block) -> Estimates:
    """Estimate the squared norms of a block's n sketches: (n,) arrays."""
    value = block.squared_norms
    size = np.maximum(value, 0.0)
    of_map, of_noise = map_part_of_norms(block, size)
    return mark_secret(
        Estimates(
            value, of_map.variance, of_noise, lowest=0.0, curvature=of_map.curvature,
            slope=of_map.slope + block.effect.squared_norm_slope(block.k2),
            grain=grain_of_norms(block.variance, size, block.k2, block.k4, block.steps),
        ),
        block,
    )  # fmt: skip


def map_part_of_norms(block: Block, size: Floats) -> tuple[MapPart, Floats]:
    """Return the map's and the noise's part of the variance of squared norms that are estimated as ``size``."""
    fourth, variance = None, block.variance
    if has_fourths(block):
        fourth = fourths_of((block.values**4).sum(axis=1), size, (block.k2, block.k4), block)
    of_noise = np.maximum(block.effect.squared_norm_variance(size, block.k2, block.k4), 0.0)
    curvature = variance.norms + variance.inner
    whole = MapPart(
        np.asarray(variance.of_squared_norm(size, fourth)), 2 * curvature * size, np.full(size.shape, curvature)
    )
    return whole if block.equal is None else of_norms(variance, whole, size, of_noise, block.equal), of_noise


def products_between(rows: Block, columns: Block) -> Estimates:
    """Estimate inner products between two blocks: (n, m) arrays."""
    x, y = rows.values, columns.values
    value = x @ y.T
    norms = np.maximum(rows.squared_norms, 0.0)[:, None], np.maximum(columns.squared_norms, 0.0)
    k2, k4 = (rows.k2[:, None], columns.k2), (rows.k4[:, None], columns.k4)
    of_map = map_part_of_products(rows, columns, value, norms)
    estimates = Estimates(
        value,
        of_map.variance,
        np.maximum(rows.effect.inner_product_variance(*norms, *k2), 0.0),
        slope=of_map.slope,
        curvature=of_map.curvature,
        grain=grain_of_products(rows.variance, norms, k2, k4, steps_of_pairs(rows, columns)),
    )
    return mark_secret(estimates, rows, columns)


def map_part_of_products(rows: Block, columns: Block, value: Floats, norms: tuple[Floats, Floats]) -> MapPart:
    """Return the map's part of the variance of inner products of these values, of streams of these squared norms."""
    variance, k2 = rows.variance, (rows.k2[:, None], columns.k2)
    squares = None
    if has_fourths(rows):
        squares = product_squares_of((rows.values**2) @ (columns.values**2).T, norms, value, k2, rows)
    whole = MapPart(
        np.asarray(variance.of_inner_product(*norms, value, squares)),
        2 * variance.inner * value,  # of the map's part b⟨x, y⟩²; the norms are taken as estimated
        np.full(value.shape, variance.inner),
    )
    if rows.equal is None or columns.equal is None:
        return whole
    noises = (k2[0], rows.k4[:, None]), (k2[1], columns.k4)
    equals = EqualUnits(*(part[:, None] for part in rows.equal)), columns.equal
    return of_products(variance, whole, norms, value, rows.effect, noises, equals)


def products_among(block: Block) -> Estimates:
    """Estimate the inner products of a block's n sketches: (n, n) arrays, with squared norms on the diagonal."""
    products, norms = products_between(block, block), norms_of(block)
    parts = [np.array(part) for part in products.parts()]
    for part, diagonal in zip(parts, norms.parts(), strict=True):
        np.fill_diagonal(part, diagonal)
    return products.with_parts(*parts)


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
    """Return ‖x_i - y_j‖₄⁴ where a map's variance depends on it and cells show it; None elsewhere."""
    return fourths_of(fourth_powers_of_gaps(x, y), size, noise, rows) if has_fourths(rows) else None


def has_fourths(block: Block) -> bool:
    """Return whether the map's variance is to depend on ‖z‖₄⁴; elsewhere that counts as 0, which is an upper bound."""
    return block.variance.fourth > 0 or block.nonzeros > 0


def fourths_of(sums: Floats, size: Floats, noise: tuple[Floats, Floats], block: Block) -> Floats:
    """Return ‖z‖₄⁴ from the sums of the fourth powers of cells.

    Where it adds variance, it is the estimate. Where it takes variance away, as under hashed maps, it is two thirds of
    the estimate less two standard errors of the noise, and at most half of ‖z‖⁴: cells of few items have rare errors,
    and intervals hold in as many cases as before only if something is left for these (Theory 4).
    """
    if block.variance.fourth > 0:
        estimate = block.effect.fourth_power_sum(sums, size, *noise, block.variance)
        return np.asarray(np.clip(estimate, 0.0, size**2))
    k2, k4 = noise
    clean = sums - 6 * k2 * size - block.effect.count * (k4 + 3 * k2**2) - 3 * block.variance.norms * size**2
    return _sure_part(clean, k2**2, size**2, block)


def product_squares_of(
    sums: Floats, norms: tuple[Floats, Floats], inner: Floats, k2: tuple[Floats, Floats], block: Block
) -> Floats:
    """Return Σx²y² from the sums of the products of squared cells, as `fourths_of`."""
    whole = norms[0] * norms[1]
    if block.variance.fourth > 0:
        estimate = block.effect.product_square_sum(sums, norms, inner, k2, block.variance)
        return np.asarray(np.clip(estimate, 0.0, whole))
    clean = sums - block.effect.inner_product_variance(*norms, *k2) - block.variance.norms * (whole + 2 * inner**2)
    return _sure_part(clean, k2[0] * k2[1], whole, block)


def _sure_part(clean: Floats, squared_noise: Floats, whole: Floats, block: Block) -> Floats:
    noise = _SURE * np.sqrt(_EIGHTH * block.effect.count) * squared_noise
    estimate = (clean - noise) / (1 / block.nonzeros - 3 * block.variance.norms)
    return np.asarray(np.clip(_TAKEN * estimate, 0.0, whole / 2))


def fourth_powers_of_gaps(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
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
