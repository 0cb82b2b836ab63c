"""How often published signs agree with those of a query, by the angle: what retrieval by Hamming distance rests on.

Over the draw of map and flips, products of two vectors' signs have the mean E[s s'] (Theory 6.6). But one query is
compared with all members, so its own cells and flips make all of its products larger or smaller together: given a
query's cell U and its published sign s, a member's sign has the mean h(U; θ) = E[g(U cos θ + Z sin θ)].
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamsketch.core import special
from streamsketch.core.numbers import Floats, short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.privacy.sign_flips import FlipLaw
from streamsketch.projections.base import Projection
from streamsketch.signs.sign_curve import Gain, sign_curve
from streamsketch.signs.sign_gains import cells_of, check_norm, constant_gain, gain_of
from streamsketch.signs.sketch import Method

_REACH, _POINTS = 8.0, 400  # of standard normal cells, on one side
_CELLS = (np.arange(_POINTS) + 0.5) * _REACH / _POINTS
_TINY = 1e-12
_CHANCES = np.exp(-(_CELLS**2) / 2) / np.exp(-(_CELLS**2) / 2).sum()


class SignProducts(NamedTuple):
    """The law of the product of a query's sign and a member's."""

    mean: float
    """E[s s']: twice the probability that they agree, less 1."""
    cell_means: Floats
    """h(U; θ) at a grid of the query's cells, for a few groups of rows: (groups, cells)."""
    own: Floats
    """What the query's published sign is on average there, where its exact one is 1: likewise."""

    def chances(self) -> tuple[Floats, Floats]:
        """Return with which probabilities signs agree, given the query's cell and sign, and how frequent these are.

        Both of them float64, (n,), ascending by probability.
        """
        frequent = _CHANCES * np.concatenate([1 + self.own, 1 - self.own]) / (2 * len(self.cell_means))
        agree = np.concatenate([1 + self.cell_means, 1 - self.cell_means]) / 2
        order = np.argsort(agree, axis=None)
        return agree.ravel()[order], frequent.ravel()[order]


def sign_products(
    theta: float,
    projection: Projection,
    flipped: FlipLaw | Method,
    guarantee: Guarantee | IndividualGuarantee,
    *,
    norm: float | None = None,
    exact_query: bool = False,
) -> SignProducts:
    """Return how signs of vectors at an angle agree with those of a query, all published alike.

    For cells that are nearly normal, as sums of many coordinates are.

    Parameters
    ----------
    theta, projection, flipped, guarantee, norm
        As in `expected`.
    exact_query
        Whether the query's signs are its own exact ones, without flips.

    Raises
    ------
    InvalidInputError
        As in `expected`.

    Examples
    --------
    >>> from streamsketch import OneCoordinate
    >>> from streamsketch.projections import OPORP
    >>> from streamsketch.signs import DPSignOPORPRR
    >>> projection = OPORP(dim=999, sketch_dim=256, seed=1)
    >>> publish = DPSignOPORPRR(epsilon=2, neighbours=OneCoordinate(1))
    >>> found = sign_products(math.pi / 4, projection, publish.law(projection), publish.guarantee(projection))
    >>> round(found.mean, 3), shared_covariance([found]).round(3).tolist()
    (0.29, [[0.109]])
    """
    if not 0 <= theta <= math.pi:
        raise InvalidInputError(f"an angle lies in [0, π] radians, got {short(theta)}")
    kept = constant_gain(flipped)
    if kept:
        mean = (kept if exact_query else kept**2) * (1 - 2 * theta / math.pi)
        own = np.full((1, _POINTS), 1.0 if exact_query else kept)
        return SignProducts(mean, kept * _plain(theta), own)
    cells = cells_of(projection, flipped, guarantee, check_norm(norm))
    gains = [gain_of(cells, group) for group in range(len(cells.steps))]
    mean = sign_curve([(np.sign if exact_query else gain, gain) for gain in gains]).at(theta)
    own = np.array([np.ones(_POINTS) if exact_query else gain(_CELLS) for gain in gains])
    return SignProducts(mean, np.array([_cell_means(gain, theta) for gain in gains]), own)


def plain_products(theta: float) -> SignProducts:
    """Return the law for exact signs on both sides; see `sign_products`."""
    return SignProducts(1 - 2 * theta / math.pi, _plain(theta), np.ones((1, _POINTS)))


def shared_covariance(products: Sequence[SignProducts]) -> Floats:
    """Return the covariance, over a query's cell and sign, of the means of its products with members at n angles.

    Parameters
    ----------
    products
        Of n angles, of signs published alike.

    Returns
    -------
    ndarray
        float64, (n, n).
    """
    cell_means, means = np.array([law.cell_means for law in products]), np.array([law.mean for law in products])
    seconds = np.einsum("agu,bgu,u->ab", cell_means, cell_means, _CHANCES) / cell_means.shape[1]
    return np.asarray(seconds - np.outer(means, means))


def _plain(theta: float) -> Floats:
    """Return E[exact sign | U] of a few cells U > 0, the sign of U cos θ + Z sin θ: (1, cells)."""
    return np.asarray(special.erf(_CELLS[None] * math.cos(theta) / max(math.sin(theta), _TINY) / math.sqrt(2)))


def _cell_means(gain: Gain, theta: float) -> Floats:
    """Return h(U; θ) of a few cells U > 0."""
    sizes, chances = np.concatenate([-_CELLS, _CELLS]), np.concatenate([_CHANCES, _CHANCES]) / 2
    cells = np.add.outer(_CELLS * math.cos(theta), sizes * math.sin(theta))
    return np.asarray(gain(cells.ravel()).reshape(cells.shape) @ chances)
