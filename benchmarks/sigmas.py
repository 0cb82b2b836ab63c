"""The Gaussian mechanism's σ as papers state it, at ℓ2 sensitivity 1: baselines, never used for a release.

KKMM is Kenthapadi, Korolova, Mironov and Mishra 2013, DR Dwork and Roth 2014. The exact σ, after Balle and Wang 2018,
is `streamsketch.privacy.gaussian.gaussian_sigma`.
"""

import math

from scipy.optimize import brentq
from scipy.special import ndtr

from streamsketch.privacy.gaussian import gaussian_log_delta


def kkmm(epsilon: float, delta: float) -> float:
    """Return √(2(ln(1/2δ) + ε))/ε, for δ < 1/2 (KKMM Theorem 1, read back from Eq. 3, which is for δ/2).

    Examples
    --------
    >>> round(kkmm(1.0, 0.1), 3)
    2.284
    """
    if not 0 < delta < 1 / 2:
        raise ValueError(f"Theorem 1 is for 0 < delta < 1/2, got {delta}")
    return math.sqrt(2 * (math.log(1 / (2 * delta)) + epsilon)) / epsilon


def kkmm_any_matrix(epsilon: float, delta: float) -> float:
    """Return 4√ln(1/δ)/ε, for ε < ln(1/δ): for a Gaussian matrix nobody has looked at (KKMM Theorem 2).

    A matrix of k > 2(ln d + ln(2/δ)) rows has an ℓ2 sensitivity above 2 with probability below δ/2, and that is hidden
    in δ. For the matrix in use it is a gamble: either its sensitivity is below 2, or the guarantee is broken.
    """
    if not epsilon < math.log(1 / delta):
        raise ValueError(f"Theorem 2 is for epsilon < ln(1/delta), got {epsilon} and {math.log(1 / delta):.3g}")
    return 4 * math.sqrt(math.log(1 / delta)) / epsilon


def classical(epsilon: float, delta: float) -> float:
    """Return √(2 ln(1.25/δ))/ε: proven for ε < 1 only (DR Theorem 3.22), used by papers for every ε."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def tail_sigma(epsilon: float, delta: float) -> float:
    """Return the least σ with P[privacy loss > ε] = Φ(1/2σ - εσ) ≤ δ: the step from which closed forms are derived."""
    low = high = 1.0
    while tail_delta(epsilon, low) < delta:
        low /= 2
    while tail_delta(epsilon, high) > delta:
        high *= 2
    return float(brentq(lambda sigma: tail_delta(epsilon, sigma) - delta, low, high, xtol=1e-12))


def tail_delta(epsilon: float, sigma: float) -> float:
    """Return P[privacy loss > ε] = Φ(1/2σ - εσ)."""
    return float(ndtr(1 / (2 * sigma) - epsilon * sigma))


def exact_delta(epsilon: float, sigma: float) -> float:
    """Return the least δ for which N(0, σ²) is (ε, δ)-DP."""
    return math.exp(gaussian_log_delta(epsilon, sigma))


def kkmm_delta(epsilon: float, sigma: float) -> float:
    """Return the δ at which KKMM's Theorem 1 asks for this σ: ½exp(ε - ε²σ²/2); the theorem says nothing from ½ on."""
    return math.exp(epsilon - (epsilon * sigma) ** 2 / 2) / 2
