"""Streams as points of a plane that keep squared distances as well as possible, and how uncertain each point is."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.libraries import linalg
from streamsketch.core.numbers import Floats
from streamsketch.estimation.estimate_arrays import Estimates


class Scaling(NamedTuple):
    """n streams as points of a plane."""

    places: Floats
    """(n, 2), in data units, their mean at the origin."""
    covariances: Floats
    """Of each place: (n, 2, 2)."""
    share: float
    """The share of the two axes in the sum of positive eigenvalues, 0 to 1."""


def classical_scaling(distances: Estimates, rows: int = 64) -> Scaling:
    """Place n streams in the plane, preserving squared distances as well as possible (Torgerson 1952).

    A stream's covariance is that of Gower's (1968) formula for one more point, x = ½ (XᵀX)⁻¹ Xᵀ (b - d), in its squared
    distances d to the others, which stay fixed. Two distances of one stream are taken to be correlated by the squared
    cosine of the angle between them in the map's errors, and by half the cosine in those of the noise; an equal shift
    of all its distances has no effect, as the mean of the places is the origin. The covariance is of first order: for
    ellipses in a figure, not for tests.

    Parameters
    ----------
    distances
        Of all pairs, as returned by `streamsketch.pairwise`: (n, n), n ≥ 2.
    rows
        Of a block of cosines, which a processor keeps in its cache.
    """
    squares = distances.value
    n = len(squares)
    centred = -0.5 * (squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean())
    values = linalg.eigvalsh(centred)
    # of n eigenvectors two are needed, which take a small part of the time of all
    largest, vectors = linalg.eigh(centred, subset_by_index=[n - 2, n - 1])
    sizes = np.maximum(largest[::-1], 0.0)
    places = vectors[:, ::-1] * np.sqrt(sizes)
    places *= np.where(places[np.abs(places).argmax(axis=0), (0, 1)] < 0, -1.0, 1.0)  # eigenvectors have no sign
    positive = values[values > 0].sum()
    share = float(sizes.sum() / positive) if positive > 0 else 0.0
    lengths = (places**2).sum(axis=0)
    solve = np.divide(places, 2 * lengths, out=np.zeros_like(places), where=lengths > 0)
    # of numbers near 1 in single precision, which is enough for a figure and twice as fast
    unit = float(np.abs(squares).max()) or 1.0
    of_map, of_noise = (np.sqrt(part) / unit for part in (distances.projection_variance, distances.noise_variance))
    covariances = _covariances((squares / unit).astype(np.float32), of_map, of_noise, solve * math.sqrt(unit), rows)
    sizes, turns = np.linalg.eigh(covariances)  # the correlations need not fit together exactly
    covariances = (turns * np.maximum(sizes, 0.0)[:, None]) @ turns.transpose(0, 2, 1)
    return Scaling(places, covariances * unit, share)


def _covariances(squares: NDArray[np.float32], of_map: Floats, of_noise: Floats, solve: Floats, rows: int) -> Floats:
    """Return the covariances of n places, (n, 2, 2): each sums over all pairs of the other streams.

    Parameters
    ----------
    squares
        Squared distances, (n, n).
    of_map, of_noise
        Standard deviations of these, (n, n).
    solve
        What a place moves by with each distance, (n, 2).
    rows
        Of a block of cosines.
    """
    n = len(squares)
    lengths = np.sqrt(np.maximum(squares, 0))
    inverse = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    buffer = np.empty(rows * n, dtype=np.float32)
    covariances = np.empty((n, 2, 2))
    for point in range(n):
        others = np.arange(n) != point
        moved_by_map, moved_by_noise = ((part[point] * others)[:, None] * solve for part in (of_map, of_noise))
        by_map, by_noise = moved_by_map.astype(np.float32), moved_by_noise.astype(np.float32)
        half = by_noise.T @ by_noise  # the cosine is halved for the noise, but not on the diagonal
        total = np.zeros((2, 2), dtype=np.float32)
        row, scale = squares[point], inverse[point]
        for start in range(
            0, n, rows
        ):  # cosines of rows with the columns from their diagonal on, as they are symmetric
            end = min(start + rows, n)
            size = end - start
            cosine = buffer[: size * (n - start)].reshape(size, n - start)
            np.subtract(row[start:], squares[start:end, start:], out=cosine)
            cosine += row[start:end, None]
            cosine *= scale[start:end, None] / 2
            cosine *= scale[start:]
            np.clip(cosine, -1, 1, out=cosine)
            np.fill_diagonal(cosine, 1)
            half += _quadratic(cosine, by_noise, start, end)
            np.multiply(cosine, cosine, out=cosine)
            total += _quadratic(cosine, by_map, start, end)
        covariances[point] = total + half / 2
    return covariances


def _quadratic(block: NDArray[Any], columns: NDArray[Any], start: int, end: int) -> NDArray[Any]:
    """Return what rows of a symmetric M, from their diagonal on, and their mirror image add to columnsᵀ M columns."""
    left = columns[start:end].T @ block
    beside = left[:, end - start :] @ columns[end:]
    product: NDArray[Any] = left[:, : end - start] @ columns[start:end] + beside + beside.T
    return product
