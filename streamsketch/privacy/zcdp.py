"""Zero-concentrated differential privacy: what a release spends in ρ, and which (ε, δ) a total of ρ gives."""

import functools
import math

from streamsketch.core.libraries import optimize

MARGIN = 1e-9  # relative, on ρ and ε: what floats may be off


def pure_rho(epsilon: float) -> float:
    """Return the ρ of any ε-DP release: ε·tanh(ε/2), which is below ε²/2 (Theory 9.4).

    Examples
    --------
    >>> round(pure_rho(1.0), 4)
    0.4621
    """
    return epsilon * math.tanh(epsilon / 2) * (1 + MARGIN)


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
    minimum = optimize.minimize_scalar(at, bounds=(centre - 8, centre + 8), method="bounded", options={"xatol": 1e-9})
    return max(0.0, float(minimum.fun)) * (1 + MARGIN)


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
