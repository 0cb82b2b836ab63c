"""A map of the streams in two dimensions, with their errors."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from streamsketch.estimation import Estimates

Floats = NDArray[np.float64]


class Scaling(NamedTuple):
    """n streams as points of a plane."""

    places: Floats
    """(n, 2), in data units, their mean at the origin."""
    covariances: Floats
    """Of each place: (n, 2, 2)."""
    share: float
    """The share of the two axes in the sum of positive eigenvalues, 0 to 1."""


def classical_scaling(distances: Estimates) -> Scaling:
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
    """
    squares = distances.value
    n = len(squares)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ squares @ centre)
    first = np.argsort(-values, kind="stable")[:2]
    sizes = np.maximum(values[first], 0.0)
    places = np.zeros((n, 2))
    places[:, : len(first)] = vectors[:, first] * np.sqrt(sizes)
    places *= np.where(places[np.abs(places).argmax(axis=0), (0, 1)] < 0, -1.0, 1.0)  # eigenvectors have no sign
    positive = values[values > 0].sum()
    share = float(sizes.sum() / positive) if positive > 0 else 0.0
    lengths = (places**2).sum(axis=0)
    solve = np.divide(places, 2 * lengths, out=np.zeros_like(places), where=lengths > 0)
    covariances = np.stack([_covariance(distances, i, solve) for i in range(n)])
    return Scaling(places, covariances, share)


def _covariance(distances: Estimates, point: int, solve: Floats) -> Floats:
    others = np.arange(len(distances.value)) != point
    d = distances.value[point, others]
    products = (d[:, None] + d - distances.value[np.ix_(others, others)]) / 2
    lengths = np.sqrt(np.maximum(d, 0.0))
    scale = np.outer(lengths, lengths)
    cosine = np.clip(np.divide(products, scale, out=np.zeros_like(products), where=scale > 0), -1.0, 1.0)
    np.fill_diagonal(cosine, 1.0)
    half = np.where(np.eye(len(d), dtype=bool), 1.0, cosine / 2)
    of_map, of_noise = (
        np.sqrt(variance[point, others]) for variance in (distances.projection_variance, distances.noise_variance)
    )
    joint = np.outer(of_map, of_map) * cosine**2 + np.outer(of_noise, of_noise) * half
    covariance = solve[others].T @ joint @ solve[others]
    values, vectors = np.linalg.eigh(covariance)
    kept: Floats = (vectors * np.maximum(values, 0.0)) @ vectors.T  # the correlations need not fit together exactly
    return kept


def similarity_order(squared_distances: Floats) -> list[int]:
    """Return an order in which similar streams are adjacent, by hierarchical clustering."""
    if len(squared_distances) < 3:
        return list(range(len(squared_distances)))
    lengths = squareform(np.sqrt(np.maximum(squared_distances, 0.0)), checks=False)
    return [int(leaf) for leaf in leaves_list(linkage(lengths, "average", optimal_ordering=True))]
