"""How far a neighbour moves each cell, and how many signs it can change (Theory 6.2)."""

import functools
import math
from fractions import Fraction

import numpy as np

from streamsketch.accounting.sensitivity import grid_steps
from streamsketch.core import special
from streamsketch.core.libraries import integrate, scipy_special
from streamsketch.core.numbers import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.privacy.sign_flips import FlipLaw, Shape
from streamsketch.projections.base import Projection
from streamsketch.projections.explicit import MAX_ENUMERATED

__all__ = [
    "FlipLaw",
    "Shape",
    "binomial_count",
    "cell_steps",
    "chernoff_count",
    "neighbourhood_change_bound",
    "pair_change_bound",
]

_MAX_STEP = 1 << 62


def cell_steps(projection: Projection, neighbours: Neighbours) -> Ints:
    """Return how far a neighbour can move each cell, Δ̃·max_i|A_ji|, at least 1: int64, (k,), in grid steps.

    Under both relations: ‖x̃ - x̃'‖₁ ≤ Δ̃ moves cell j by at most Δ̃ times the largest entry of row j.

    Raises
    ------
    InvalidInputError
        If a step reaches 2^62, or A is random and too large to look at.
    """
    steps = grid_steps(projection, neighbours)
    entries = row_maxima(projection)
    if steps * max(1, int(entries.max())) >= _MAX_STEP:  # a map of few entries may have none but 0
        raise InvalidInputError("one unit could move a cell by 2**62 grid steps or more; use a coarser resolution")
    return np.maximum(steps * entries, 1)


def row_maxima(projection: Projection) -> Ints:
    """Return max_i |A_ji| of each row: int64, (k,); exactly where entries are other than -1, 0 and 1.

    Raises
    ------
    InvalidInputError
        If that would take a look at more than 2^35 entries.
    """
    if projection.enumerated_entries("row maxima") > MAX_ENUMERATED:
        raise InvalidInputError(
            f"the largest entries of the rows of {type(projection).__name__} are found by enumeration, but "
            f"dim={projection.dim} times sketch_dim={projection.sketch_dim} are more than {MAX_ENUMERATED}. Use "
            "Rademacher, SJLT or OPORP, whose entries are ±1"
        )
    return _found_maxima(projection.replace(resolution=Fraction(1)))  # the grid does not change A


@functools.lru_cache(maxsize=64)
def _found_maxima(projection: Projection) -> Ints:
    largest = projection.row_maxima()
    largest.flags.writeable = False
    return largest


_SAFETY = 1 + 1e-6  # beyond what quadrature and special functions are off
_LEAST_DELTA = 1e-300  # below, tails have no digits left
_SMOOTHINGS = [1.5 + step / 8 for step in range(60)]


def neighbourhood_change_bound(dim: int, ratio: float) -> float:
    """Return F, the paper's bound on the chance that some neighbour of x changes a given sign.

    ``F = ∫_0^∞ 2p[2Φ(t)-1]^{p-1} [2Φ(rt)-1] φ(t) dt``, p = dim (Li and Li 2023, Lemma 4.2 and equation 5): the chance
    that β·max|w_i| exceeds an independent N(0, ‖x‖²). Its proof takes events that share a variable for independent, and
    it is about continuous entries; no claim of this library rests on it alone.

    Parameters
    ----------
    dim
        p, ≥ 1.
    ratio
        r = β / ‖x‖, in (0, 1].

    Examples
    --------
    >>> round(neighbourhood_change_bound(1, 1.0), 6)
    0.5
    """

    def given_rank(rank: float) -> float:
        largest = special.ndtri(0.5 + 0.5 * rank ** (1 / dim))  # the quantile of max|w_i|, by substitution
        return float(2 * special.ndtr(ratio * largest) - 1)

    value, _ = integrate.quad(given_rank, 0, 1, epsabs=1e-12, epsrel=1e-10, limit=200)
    return float(value)


def chernoff_count(cells: int, chance: float, delta: float) -> int:
    """Return N₊ of Li and Li 2023, Proposition 4.4: more of ``cells`` change with probability at most δ (Chernoff).

    ``Fk + ½(ln(1/δ) + √(ln²(1/δ) + 8Fk·ln(1/δ)))``, rounded up, at most ``cells``, and that for δ below 1e-300.
    """
    if delta < _LEAST_DELTA:
        return cells
    mean, surprise = chance * cells, -math.log(delta)
    bound = mean + (surprise + math.sqrt(surprise**2 + 8 * mean * surprise)) / 2
    return min(cells, math.ceil(bound * _SAFETY))


def binomial_count(cells: int, chance: float, delta: float) -> int:
    """Return the least N with P(Binomial(cells, chance) > N) ≤ δ, at least 1; all cells for δ below 1e-300."""
    if delta < _LEAST_DELTA:
        return cells
    low, high = 0, cells  # bisect: the tail falls with N, and is 0 at cells
    while low < high:
        middle = (low + high) // 2
        if scipy_special.bdtrc(middle, cells, min(chance, 1.0)) * _SAFETY <= delta:
            high = middle
        else:
            low = middle + 1
    return max(1, low)


def pair_change_bound(dim: int, ratio: Fraction, fraction_bits: int, max_entry: int) -> float:
    """Return a bound on the chance that a row of independent lattice Gaussians gives two neighbours different signs.

    For vectors of the grid with norms ≥ m at ℓ2 distance ≤ r·m, where -, 0 and + are three different signs. Continuous
    entries give the angle over π, at most θ/π with θ = 2 asin(r/2). On the lattice sums can be 0 whatever the norms:
    with a Gaussian of variance τ² = 1 added to each entry they are continuous but for e^{dim·η}, and two cells of
    different signs leave at least 1 - 4Φ(-t) of the chance for a pair of standard normals at that angle, one above
    -s and one below s, s = tτ/√(σ² + τ²). So P ≤ e^{dim·η} (θ/π + 4∫_0^s φ(x)Φ(x cot(θ/2)) dx) / (1 - 4Φ(-t)),
    for every t (Theory 6.2).

    Parameters
    ----------
    dim
        Entries of a row.
    ratio
        r, in (0, 1].
    fraction_bits
        Of the entries' grid: σ = 2^fraction_bits.
    max_entry
        The largest entry of their table, for the rounding of its thresholds.
    """
    sigma_squared = 4.0**fraction_bits
    angle = 2 * math.asin(float(ratio) * _SAFETY / 2)
    cotangent = 1 / math.tan(angle / 2)
    ripple = 2.1 * math.exp(-2 * math.pi**2 * sigma_squared / (sigma_squared + 1))  # 2Σ_j e^{-2π²j²v}, v < 1
    smoothing = dim * math.log1p(ripple)
    rounding = dim * (2 * max_entry + 2) * 2.0**-60

    def bound(reach: float) -> float:
        s = reach / math.sqrt(sigma_squared + 1)

        def density(x: float) -> float:
            return float(math.exp(-x * x / 2) / math.sqrt(2 * math.pi) * special.ndtr(x * cotangent))

        widened, _ = integrate.quad(density, 0, s, epsabs=1e-15, epsrel=1e-9)
        return (angle / math.pi + 4 * float(widened)) / (1 - 4 * float(special.ndtr(-reach)))

    if smoothing > 1:
        raise InvalidInputError(f"dim={dim} independent entries on this grid are too many to bound; add fraction_bits")
    least = min(bound(reach) for reach in _SMOOTHINGS)
    return min(1.0, math.exp(smoothing) * least * _SAFETY + rounding)
