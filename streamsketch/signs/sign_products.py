"""How often published signs agree with those of a query, by the angle: what retrieval by Hamming distance rests on.

Over the draw of map and flips, products of two vectors' signs have the mean E[s s'] (THEORY.md 6.6). But one query is
compared with all members, so its own cells and flips make all of its products larger or smaller together: given a
query's cell U and its published sign s, a member's sign has the mean h(U; θ) = E[g(U cos θ + Z sin θ)].
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import erf

from streamsketch.core import Floats, short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import FlipLaw, Guarantee, IndividualGuarantee
from streamsketch.projections import Projection
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
    shared: float
    """The variance of its mean given the query's cell and sign: what all members at this angle have in common."""


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
        As `expected`.

    Examples
    --------
    >>> from streamsketch import OneCoordinate
    >>> from streamsketch.projections import OPORP
    >>> from streamsketch.signs import DPSignOPORPRR
    >>> projection = OPORP(dim=999, sketch_dim=256, seed=1)
    >>> publish = DPSignOPORPRR(epsilon=2, neighbours=OneCoordinate(1))
    >>> found = sign_products(math.pi / 4, projection, publish.law(projection), publish.guarantee(projection))
    >>> round(found.mean, 3), round(found.shared, 3)
    (0.29, 0.152)
    """
    if not 0 <= theta <= math.pi:
        raise InvalidInputError(f"an angle lies in [0, π] radians, got {short(theta)}")
    kept = constant_gain(flipped)
    if kept:
        mean = (kept if exact_query else kept**2) * (1 - 2 * theta / math.pi)
        return SignProducts(mean, _variance(kept * _plain(theta), mean))
    cells = cells_of(projection, flipped, guarantee, check_norm(norm))
    gains = [gain_of(cells, group) for group in range(len(cells.steps))]
    mean = sign_curve([(np.sign if exact_query else gain, gain) for gain in gains]).at(theta)
    squares = np.mean([_CHANCES @ _given(gain, theta) ** 2 for gain in gains])
    return SignProducts(mean, max(float(squares) - mean**2, 0.0))


def plain_products(theta: float) -> SignProducts:
    """Return the law for exact signs on both sides; see `sign_products`."""
    mean = 1 - 2 * theta / math.pi
    return SignProducts(mean, _variance(_plain(theta), mean))


def _plain(theta: float) -> Floats:
    """Return E[exact sign | U] of a few cells U > 0: the sign of U cos θ + Z sin θ."""
    return np.asarray(erf(_CELLS * math.cos(theta) / max(math.sin(theta), _TINY) / math.sqrt(2)))


def _given(gain: Gain, theta: float) -> Floats:
    """Return h(U; θ) of a few cells U > 0."""
    sizes, chances = np.concatenate([-_CELLS, _CELLS]), np.concatenate([_CHANCES, _CHANCES]) / 2
    cells = np.add.outer(_CELLS * math.cos(theta), sizes * math.sin(theta))
    return np.asarray(gain(cells.ravel()).reshape(cells.shape) @ chances)


def _variance(given: Floats, mean: float) -> float:
    return max(float(_CHANCES @ given**2) - mean**2, 0.0)
