"""Zero-concentrated differential privacy: what a release spends in ρ, and which (ε, δ) a total of ρ gives."""

import functools
import math
from fractions import Fraction

from scipy.optimize import minimize_scalar

from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.noise import Noise

_MARGIN = 1e-9  # relative, on ρ and ε: what floats may be off
_SMALL = 1e-4  # of one over the scale: below, the difference in the Laplace divergence loses its digits


def pure_rho(epsilon: float) -> float:
    """Return the ρ of any ε-DP release: ε·tanh(ε/2), which is below ε²/2 (THEORY.md 9.4).

    Examples
    --------
    >>> round(pure_rho(1.0), 4)
    0.4621
    """
    return epsilon * math.tanh(epsilon / 2) * (1 + _MARGIN)


def laplace_divergence(scale: Fraction, steps: int) -> float:
    """Return KL = sup_α D_α/α of discrete Laplace noise and its shift by ``steps``: (D - 2q(1-q^D)/(1-q²))/scale.

    That the supremum is the Kullback-Leibler divergence is proved in THEORY.md 9.4.

    Examples
    --------
    >>> round(laplace_divergence(Fraction(1), 1), 4)
    0.4621
    """
    rate = 1 / float(scale)
    if rate * steps < _SMALL:
        return steps**2 * rate**2 / 2  # the divergence is less, for any number of steps: the limit of narrow shifts
    missing = -math.expm1(-rate * steps)  # 1 - q^D
    return rate * (steps - missing / math.sinh(rate)) * (1 + _MARGIN)


def noise_rho(noise: Noise, *, l1: int, l2_squared: int, cell: int, honest: int = 1) -> float | None:
    """Return the ρ that a noise spends; None where no theorem here tells.

    Parameters
    ----------
    noise
        On each cell, independent.
    l1, l2_squared
        As in `Sensitivity`, in grid steps and grid steps².
    cell
        How far one unit can move a single cell, in grid steps.
    honest
        Of how many shares the noise is the sum: shares of Laplace noise make exactly that noise, Gaussian ones nearly.
    """
    if isinstance(noise, DiscreteGaussian):  # Canonne, Kamath and Steinke 2020, Theorem 14
        rate = 1 / math.sqrt(noise.sigma_squared) + _ripple(float(noise.sigma_squared) / honest, honest)
        return l2_squared * rate**2 / 2 * (1 + _MARGIN)
    if isinstance(noise, DiscreteLaplace):
        # the divergence is convex in the shift and 0 at 0, so the sum over cells is largest with whole cells
        by_cells = l1 / cell * laplace_divergence(noise.scale, cell)
        return min(by_cells, pure_rho(float(l1 / noise.scale)))
    return None


def _ripple(variance: float, shares: int) -> float:
    """Return τ of Kairouz, Liu and Steinke 2021, Proposition 14, by which √(2ρ) of a sum of Gaussian shares is larger.

    A unit moves at most as many cells as its squared ℓ2 distance, so its √d is at most that distance.
    """
    return 10 * math.fsum(math.exp(-2 * math.pi**2 * variance * j / (j + 1)) for j in range(1, shares))


def rho_to_epsilon(rho: float, delta: float) -> float:
    """Return the ε at which ρ-zCDP is (ε, δ)-DP: inf over α > 1 of αρ + ln(1/(αδ))/(α-1) + ln(1-1/α).

    Source: Canonne, Kamath and Steinke 2020, Proposition 12. Any α gives a valid ε, so the search only decides how
    tight it is.

    Examples
    --------
    >>> round(rho_to_epsilon(0.1, 1e-6), 3)
    2.142
    """
    if rho == 0:
        return 0.0

    def at(log_order: float) -> float:
        order = 1 + math.exp(log_order)
        return order * rho + math.log(1 / (order * delta)) / (order - 1) + math.log1p(-1 / order)

    centre = 0.5 * math.log(max(math.log(1 / delta), 1e-9) / rho)
    found = minimize_scalar(at, bounds=(centre - 8, centre + 8), method="bounded", options={"xatol": 1e-9})
    return max(0.0, float(found.fun)) * (1 + _MARGIN)


@functools.lru_cache(maxsize=256)
def epsilon_to_rho(epsilon: float, delta: float) -> float:
    """Return the largest ρ, up to 1e-12 of it, whose `rho_to_epsilon` is at most ε."""
    low, high = 0.0, epsilon
    while rho_to_epsilon(high, delta) < epsilon:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rho_to_epsilon(middle, delta) <= epsilon else (low, middle)
    return low
