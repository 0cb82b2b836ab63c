"""Matrices that vectors can have, near given ones: of cosines, of inner products, of squared distances (Theory 4.9).

Each kind is a closed convex set, so a projection on it brings an estimate of a matrix of the set nearer to the matrix.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.numbers import Floats

_PROJECTIONS = 24
_LEAST_EIGENVALUE = 1e-12  # of the trace, below which a matrix is projected
_QUIETEST = 0.1  # of the loudest noise: with less, so few projections would not end near the set


def nearest_cosines(cosines: Floats, hidden: NDArray[np.bool_] | None = None) -> Floats:
    """Return positive semidefinite cosines near these: 24 alternating projections (Higham 2002), none if they are.

    The streams that the noise hides, (n,) bool, are fitted to the others, which are projected without them: what is
    said of a hidden stream is not to move what others tell.
    """
    kept = np.eye(len(cosines), dtype=bool)
    if hidden is not None and hidden.any() and not hidden.all():
        above = np.ix_(~hidden, ~hidden)
        cosines = cosines.copy()
        cosines[above] = nearest_cosines(cosines[above])
        kept[above] = True
    if _is_positive(cosines):
        return cosines
    positive = _positive(_alternated(cosines, _positive, lambda matrix: np.where(kept, cosines, matrix)))
    lengths = np.sqrt(np.diagonal(positive))
    nearest: Floats = np.clip((positive + positive.T) / (2 * np.outer(lengths, lengths)), -1.0, 1.0)
    np.fill_diagonal(nearest, 1.0)
    return nearest


def nearest_products(products: Floats, noises: Floats) -> Floats:
    """Return the nearest inner products and squared norms that vectors can have; the same if these are.

    Parameters
    ----------
    products
        Symmetric, squared norms on the diagonal: float64, (n, n).
    noises
        Standard deviations, above 0, in which vectors are measured, at least a tenth of the largest: what is quiet is
        not to be moved by what is loud.
    """
    units = _units(noises)
    sizes = np.outer(units, units)
    scaled = products / sizes
    if _is_positive(scaled):
        return products
    positive = _positive(scaled)
    nearest: Floats = (positive + positive.T) / 2 * sizes
    return nearest


def nearest_distances(squares: Floats, noises: Floats) -> Floats:
    """Return squared distances of points near these: 24 alternating projections, none if they are of points.

    D is of points if its diagonal is 0 and xᵀDx ≤ 0 for all x with Σx = 0 (Schoenberg 1935). The nearest matrix with
    the second property lacks the positive part in these directions (Gaffke and Mathar 1989).

    Parameters
    ----------
    squares
        Symmetric, 0 or more, 0 on the diagonal: float64, (n, n).
    noises
        As in `nearest_products`.
    """
    units = _units(noises)
    sizes = np.outer(units, units)
    scaled = squares / sizes
    along = 1 / units  # Σx = 0 is that Σ along·y = 0, where y = units·x
    centre = np.eye(len(squares)) - np.outer(along, along) / float(along @ along)

    def negative(matrix: Floats) -> Floats:
        nearest: Floats = matrix - _positive(centre @ matrix @ centre)
        return nearest

    if _is_positive(-(centre @ scaled @ centre)):
        return squares
    projected = negative(_alternated(scaled, negative, _hollow)) * sizes
    own = np.diagonal(projected)
    nearest: Floats = np.maximum((projected + projected.T) / 2 - np.add.outer(own, own) / 2, 0.0)
    return _hollow(nearest)


def _units(noises: Floats) -> Floats:
    units: Floats = np.maximum(noises, _QUIETEST * noises.max())
    return units


def _alternated(matrix: Floats, project: Callable[[Floats], Floats], restore: Callable[[Floats], Floats]) -> Floats:
    """Return a matrix after projections on a cone and on a plane in turn, with Dykstra's correction for the cone."""
    projected, correction = matrix, np.zeros_like(matrix)
    for _ in range(_PROJECTIONS):
        moved = projected - correction
        inside = project(moved)
        correction = inside - moved
        projected = restore(inside)
    return projected


def _hollow(matrix: Floats) -> Floats:
    """Return the matrix with 0 on the diagonal."""
    hollow = matrix.copy()
    np.fill_diagonal(hollow, 0.0)
    return hollow


def _is_positive(matrix: Floats) -> bool:
    """Return whether a matrix is positive semidefinite, but for rounding."""
    return bool(np.linalg.eigvalsh(matrix)[0] >= -_LEAST_EIGENVALUE * float(np.trace(matrix)))


def _positive(matrix: Floats) -> Floats:
    """Return the nearest positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    positive: Floats = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return positive
