"""A model of all cells of n streams at once: their common shape, whatever the scale of a cell (Theory 4.9).

Cell i of the streams, divided by the standard deviations of their noises, is a vector with the law
Σ_j p_j N(0, t_j S + I). S, (n, n), has trace n; the scales t are a grid, as cells hold popular and rare items; p is
free. S is drawn by ν cells towards a target: one common cosine, or one for each distance in time. Everything here is a
deterministic function of the cells, and all of it is done after the release.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from streamsketch.core.numbers import Floats, Ints

Target: TypeAlias = Literal["common", "lag"]
"""What shapes are drawn towards: one common cosine, or one for each lag."""

STRENGTHS: dict[Target, tuple[int, ...]] = {"common": (300, 100, 30, 0), "lag": (300, 100, 30)}
"""By how many cells, ν, in the order in which they are tried; each fit starts from the one before it."""

FOLDS = 2
"""Cell i is in fold i mod 2."""

FIRST_STEPS, NEXT_STEPS = 24, 12
"""Steps of the first fit to some cells, and of each that starts from the one before it."""

_BEYOND = 1.8  # of a step of expectation and maximisation, which is slow where noise dominates
_SCALES = 16
_LEAST_SCALE = 3e-3
_LEAST_START = 2e-3  # of the largest eigenvalue
_LEAST_EIGENVALUE = 1e-6
_LEAST_CHANCE = 1e-300
_FEW = 4  # streams, below which nothing depends on the lag


class Fit(NamedTuple):
    """A fitted model."""

    shape: Floats
    """S, (n, n), of trace n."""
    scales: Floats
    """The grid of scales t, of which the first is 0: (j,)."""
    chances: Floats
    """Their probabilities p: (j,)."""

    @property
    def cosines(self) -> Floats:
        """(n, n)."""
        return cosines_of(self.shape)


class Chosen(NamedTuple):
    """The fits of the target and the strength that make held-out cells likeliest."""

    target: Target
    strength: int
    """ν, in cells."""
    whole: Floats
    """Cosines from all cells: (n, n)."""
    halves: tuple[Floats, Floats]
    """Cosines from the cells of each fold: (n, n)."""


def _scored(folds: list[Floats], target: Target) -> Iterator[tuple[float, Target, int, Fit, Fit]]:
    """Yield each strength of a target with the fits to both folds, after how well each fits the other fold."""
    strengths = STRENGTHS[target]
    paths = [fits(fold, target, [strength / FOLDS for strength in strengths]) for fold in folds]
    for strength, first, second in zip(strengths, *paths, strict=True):
        yield log_likelihood(folds[1], first) + log_likelihood(folds[0], second), target, strength, first, second


def choose(cells: Floats, *, in_time: bool) -> Chosen:
    """Fit the model to both folds for each target and strength, and to all cells for the best.

    Parameters
    ----------
    cells
        In standard deviations of their noise: float64, (k, n), with k ≥ 4 and n ≥ 2.
    in_time
        Whether the order of the streams is that of time.
    """
    folds = [cells[fold::FOLDS] for fold in range(FOLDS)]
    has_lag = in_time and cells.shape[1] >= _FEW
    targets = [target for target in STRENGTHS if target != "lag" or has_lag]
    tried = (scored for target in targets for scored in _scored(folds, target))
    _, target, strength, first, second = max(tried, key=lambda scored: scored[0])
    strengths = STRENGTHS[target]
    *_, whole = fits(cells, target, strengths[: strengths.index(strength) + 1])
    return Chosen(target, strength, whole.cosines, (first.cosines, second.cosines))


def fits(cells: Floats, target: Target, strengths: Sequence[float]) -> Iterator[Fit]:
    """Yield a fit for each strength: the first by `FIRST_STEPS` from `start_of`, the next by `NEXT_STEPS` from it."""
    fit, steps = start_of(cells), FIRST_STEPS
    for strength in strengths:
        fit = fitted(cells, fit, target, strength, steps)
        steps = NEXT_STEPS
        yield fit


def start_of(cells: Floats) -> Fit:
    """Return the model from which fits start: the positive part of what the cells' products show, without noise."""
    count, streams = cells.shape
    values, vectors = np.linalg.eigh(cells.T @ cells / count - np.eye(streams))
    values = np.maximum(values, _LEAST_START * max(float(values[-1]), 0.01))
    shape = (vectors * values) @ vectors.T
    energies = np.einsum("ia,ia->i", cells, cells) / streams
    scales = np.geomspace(_LEAST_SCALE, max(1.5 * float(energies.max()), 1.0), _SCALES)
    scales = np.concatenate([[0.0], scales])
    return Fit(shape * (streams / np.trace(shape)), scales, np.full(scales.size, 1 / scales.size))


def fitted(cells: Floats, fit: Fit, target: Target, strength: float, steps: int) -> Fit:
    """Return the model after so many steps of expectation and maximisation, of which each goes 1.8 times as far.

    A cell is divided into its part of each scale, by the probabilities of the scales, and what the streams add to a
    cell is expected with its second moments. In the axes of S these are diagonal but for the cell's own products, of
    which the mean over the scales is taken as the product of two means of squares.
    """
    (count, streams), (shape, scales, chances) = cells.shape, fit
    rows, diagonal, lags = np.ascontiguousarray(cells.T), np.diag_indices(streams), lags_of(streams)
    for _ in range(steps):
        values, vectors, turned, spreads, shares = _in_axes(rows, shape, scales)
        shares += np.log(chances + _LEAST_CHANCE)[:, None]
        shares -= shares.max(axis=0)
        np.exp(shares, out=shares)
        shares /= shares.sum(axis=0)
        numbers = shares.sum(axis=1)
        kept = values / spreads[1:]
        kept_squares = scales[1:, None] * kept**2
        turned *= np.sqrt(kept_squares.T @ shares[1:])
        moments = turned @ turned.T
        moments[diagonal] += numbers[1:] @ kept
        weight, chances = float(numbers[1:].sum()), numbers / count
        next_shape = vectors @ (moments / max(weight, _LEAST_CHANCE)) @ vectors.T
        if strength:
            lengths = np.sqrt(next_shape[diagonal])
            wanted = target_of(cosines_of(next_shape), target, lags) * np.multiply.outer(lengths, lengths)
            next_shape = (weight * next_shape + strength * wanted) / (weight + strength)
        next_shape *= streams / np.trace(next_shape)
        shape = (vectors * values) @ vectors.T
        shape += _BEYOND * (next_shape - shape)
        shape = (shape + shape.T) / 2
    return Fit(shape, scales, chances)


def log_likelihood(cells: Floats, fit: Fit) -> float:
    """Return the logarithm of the density of cells, but for a constant."""
    logarithms = _in_axes(cells.T, fit.shape, fit.scales)[-1] + np.log(fit.chances + _LEAST_CHANCE)[:, None]
    highest = logarithms.max(axis=0)
    return float((highest + np.log(np.exp(logarithms - highest).sum(axis=0))).sum())


def lags_of(streams: int) -> Ints:
    """Return the distance in time of each pair of so many streams: (n, n)."""
    return np.abs(np.subtract.outer(np.arange(streams), np.arange(streams)))


def target_of(cosines: Floats, target: Target, lags: Ints) -> Floats:
    """Return the target of these cosines: (n, n)."""
    streams = len(cosines)
    if target == "common":
        constant: Floats = np.full((streams, streams), (float(cosines.sum()) - streams) / (streams * (streams - 1)))
        np.fill_diagonal(constant, 1.0)
        return constant
    means: Floats = np.bincount(lags.ravel(), cosines.ravel()) / np.bincount(lags.ravel())
    return means[lags]


def cosines_of(products: Floats) -> Floats:
    """Return the cosines of a Gram matrix whose diagonal is above 0."""
    lengths = np.sqrt(np.maximum(np.diagonal(products), _LEAST_EIGENVALUE))
    cosines: Floats = products / np.multiply.outer(lengths, lengths)
    np.minimum(np.maximum(cosines, -1.0, out=cosines), 1.0, out=cosines)
    np.fill_diagonal(cosines, 1.0)
    return cosines


def _in_axes(rows: Floats, shape: Floats, scales: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return eigenvalues and axes of S, cells in the axes (n, k), their variances (j, n), and log densities (j, k).

    Of the streams' cells, (n, k): sums over scales are then over whole rows, which take a fraction of the time.
    """
    values, vectors = np.linalg.eigh(shape)
    values = np.maximum(values, _LEAST_EIGENVALUE)
    turned, spreads = vectors.T @ rows, scales[:, None] * values + 1
    logarithms = (-0.5 / spreads) @ (turned * turned)
    logarithms -= 0.5 * np.log(spreads).sum(axis=1)[:, None]
    return values, vectors, turned, spreads, logarithms
