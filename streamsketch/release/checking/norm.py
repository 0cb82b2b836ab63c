"""How small the squared norm of a release can be: noise alone makes it large, for any data."""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.errors import InvalidInputError
from streamsketch.privacy.noise import Noise

FALSE_ALARMS = 1e-6
"""At most this share of releases with the stated noise has a squared norm below `least_squared_norm`."""

RATES = np.geomspace(1e-4, 100.0, 80)
"""λ of the bounds of which the largest is taken, in units of one over a cell's variance."""

_REACH = 10.0  # of the quadrature, in standard deviations
_BEYOND = 1e-22  # more than the normal distribution has beyond that
_STEP = 0.1  # of the quadrature, in units of one over a cell's standard deviation


class CellNoise(NamedTuple):
    """The noise in each cell: the sum of ``draws`` independent draws, each multiplied by ``factor``.

    For noise in shares, ``draws`` is a fraction if not all parties are assumed honest. The characteristic function is
    that power of one draw's; for Gaussian shares up to 1e-12.
    """

    noise: Noise
    factor: float
    draws: float


@functools.lru_cache(maxsize=1024)  # releases of many projections have few different noises
def least_squared_norm(noises: tuple[CellNoise, ...], cells: int) -> float:
    """Return a lower bound on ‖Y‖² for cells Y = signal + noise, which fails with probability at most `FALSE_ALARMS`.

    It is a Chernoff bound, so it is below the exact quantile, and it holds for every signal. It is 0 or less if no
    bound is known, as for a single cell.

    Parameters
    ----------
    noises
        Independent noises in each cell; their sum is η.
    cells
        How many cells there are.

    Notes
    -----
    For λ > 0, exp(-λx²) = E exp(ixT) with T ~ N(0, 2λ), so E exp(-λ(η + s)²) = E[exp(isT) φ(T)], φ the characteristic
    function of η. Those of the noises taken here are positive (`Noise.log_characteristic`), hence so is φ, and
    E exp(-λ(η + s)²) ≤ E φ(T) = M(λ) for every signal s. The cells' noises are independent: by Markov's inequality
    P(‖Y‖² ≤ r) ≤ exp(λr) M(λ)^k for every λ, which is `FALSE_ALARMS` at r = (log `FALSE_ALARMS` - k log M(λ)) / λ. The
    largest of these r over a fixed list of λ is returned, as each is valid. log M is convex, so r, a
    concave function over a positive linear one, rises along the list up to its largest value and falls from there. So
    that value is searched by halving.

    M(λ) is computed by the trapezoidal rule with step h over the whole line. By Poisson summation that is
    Σ_j E exp(-λ(η - 2πj/h)²) ≥ M(λ): its error is on the safe side.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from streamsketch.privacy.laplace import DiscreteLaplace
    >>> bound = least_squared_norm((CellNoise(DiscreteLaplace(Fraction(4)), 1.0, 1),), cells=1024)
    >>> round(bound / (1024 * DiscreteLaplace(Fraction(4)).cumulants.k2), 2)
    0.69
    """
    if _variance(noises) == 0:  # below the least float: nothing is impossible
        return 0.0

    def bound(place: int) -> float:
        return chernoff_bound(noises, cells, float(RATES[place]))

    low, high = 0, len(RATES) - 1  # the largest bound is not outside
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if bound(middle) < bound(middle + 1) else (low, middle)
    return bound(low)


def has_known_characteristic(noise: Noise) -> bool:
    """Return whether the noise's characteristic function is known, and positive."""
    return noise.log_characteristic(np.zeros(1)) is not None


def chernoff_bound(noises: Sequence[CellNoise], cells: int, rate: float) -> float:
    """Return the bound of `least_squared_norm` that one λ gives: r = (log `FALSE_ALARMS` - k log M(λ)) / λ.

    Parameters
    ----------
    noises, cells
        As in `least_squared_norm`.
    rate
        λ > 0, in units of one over a cell's variance.
    """
    variance = _variance(noises)
    scale = rate / variance
    spread = math.sqrt(2 * scale)  # of T
    step = min(0.5, _STEP / (math.sqrt(variance) * spread))
    places = step * np.arange(math.ceil(_REACH / step) + 1, dtype=np.float64)
    log_phi: NDArray[np.float64] = np.zeros(places.size)
    for part in noises:
        log_phi += part.draws * _log_characteristic(part.noise, places * (part.factor * spread))
    terms = np.exp(log_phi - places**2 / 2)
    expectation = step * (2 * terms.sum() - terms[0]) / math.sqrt(2 * math.pi) + _BEYOND
    return (math.log(FALSE_ALARMS) - cells * math.log(min(expectation, 1.0))) / scale


def _variance(noises: Sequence[CellNoise]) -> float:
    return sum(part.draws * part.factor**2 * part.noise.cumulants.k2 for part in noises)


def _log_characteristic(noise: Noise, angles: NDArray[np.float64]) -> NDArray[np.float64]:
    log = noise.log_characteristic(angles)
    if log is None:
        raise InvalidInputError(f"no norm is bounded for {noise}, whose characteristic function is not known")
    return log
