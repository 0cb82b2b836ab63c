"""Random vectors of which only inner products matter, in fewer numbers than coordinates."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def gaussian_rows(count: int, dim: int, rng: np.random.Generator) -> Floats:
    """Return ``count`` rows with the inner products, in distribution, of as many standard Gaussian vectors of R^dim.

    Gaussian rows are L·Q with Q of orthonormal rows and L a lower triangle of independent numbers: χ on the diagonal,
    of dim, dim - 1, … degrees, and Gaussians below (Bartlett's decomposition of a Wishart matrix).

    Examples
    --------
    >>> gaussian_rows(3, 1 << 24, np.random.default_rng(1)).shape
    (3, 3)
    """
    if dim <= count:
        return rng.standard_normal((count, dim))
    triangle = np.tril(rng.standard_normal((count, count)), -1)
    np.fill_diagonal(triangle, np.sqrt(rng.chisquare(dim - np.arange(count))))
    return triangle


def noisy_rows(products: Floats, dim: int, sigma: float, rng: np.random.Generator) -> Floats:
    """Return rows with the inner products, in distribution, of vectors of R^dim with N(0, σ²) added to each number.

    Rotate the n vectors into n coordinates: the noise there is Gaussian, and that in the other dim - n is
    `gaussian_rows`. So n·2n numbers stand for n·dim.

    Parameters
    ----------
    products
        The vectors' inner products, (n, n).
    """
    count = len(products)
    jitter = 1e-9 * float(np.trace(products)) / count  # equal vectors make the products singular
    within = np.linalg.cholesky(products + jitter * np.eye(count)) + sigma * rng.standard_normal((count, count))
    return np.concatenate([within, sigma * gaussian_rows(count, dim - count, rng)], axis=1)
