"""What several releases of the same people promise together, where sums of ε say too much."""

import dataclasses
import importlib.metadata
import math
from collections.abc import Sequence

from scipy.optimize import brentq

from streamsketch.encoding import short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.calibration import gaussian_log_delta

_MOST_EPSILON = 50.0  # of the sum: beyond, a finer figure is worth nothing and its grid too large
_MARGIN = 1e-6  # relative, on ε: the solver's error, and the lattice's η (THEORY.md 3), far smaller
_LEAST_DELTA = 1e-15  # what the discretised distributions can tell from 0


@dataclasses.dataclass(frozen=True)
class Spent:
    """What one release spends.

    Parameters
    ----------
    epsilon, delta
        Its promise.
    sigma
        For Gaussian noise, its standard deviation over the ℓ2 sensitivity, by which the promise holds at every δ at
        once; None for noise of which no more is used than (ε, δ).
    """

    epsilon: float
    delta: float
    sigma: float | None = None


@dataclasses.dataclass(frozen=True)
class Accounted:
    """A promise of several releases together, and how it was found."""

    epsilon: float
    delta: float
    by: str


def account(parts: Sequence[Spent], delta: float) -> Accounted | None:
    """Return the ε of several releases, adaptively chosen, at one δ for all; None where only the sum is known.

    Gaussian noises alone compose in closed form: their privacy loss is that of one, with 1/σ² = Σ 1/σ_i² (Dong, Roth
    and Su 2022, Corollary 3.3), and its ε is Balle and Wang 2018, Theorem 8. Others are composed as privacy loss
    distributions by dp-accounting (the extra ``accounting``): a Gaussian as itself, any other release as the worst
    that keeps its (ε, δ), which is the optimal composition of such (Kairouz, Oh and Viswanath 2015).

    Parameters
    ----------
    parts
        At least one.
    delta
        The failure probability that all of them together may have, in [0, 1).

    Raises
    ------
    InvalidInputError
        For no parts, or a δ outside [0, 1).

    Examples
    --------
    >>> account([Spent(1.0, 1e-9, sigma=5.5)] * 4, 1e-9).by
    'the closed form for Gaussian noise'
    >>> round(account([Spent(1.0, 1e-9, sigma=5.5)] * 4, 1e-9).epsilon, 3)
    2.073
    """
    if not parts:
        raise InvalidInputError("there is no release to account for; give at least one")
    if not 0 <= delta < 1:
        raise InvalidInputError(f"delta must be a number in [0, 1), got {short(delta)}")
    if delta < _LEAST_DELTA:
        return None
    sigmas = [part.sigma for part in parts if part.sigma is not None]
    if len(sigmas) == len(parts):
        total = 1 / math.sqrt(sum(1 / sigma**2 for sigma in sigmas))
        return Accounted(gaussian_epsilon(total, delta), delta, "the closed form for Gaussian noise")
    return _by_loss_distributions(parts, delta)


def gaussian_epsilon(sigma: float, delta: float) -> float:
    """Return the least ε for which N(0, σ²) is (ε, δ)-DP at ℓ2 sensitivity 1, rounded up.

    Source: Balle and Wang 2018, Theorem 8, solved for ε.

    Examples
    --------
    >>> from streamsketch.privacy.calibration import gaussian_sigma
    >>> round(gaussian_epsilon(gaussian_sigma(1.0, 1e-9), 1e-9), 5)
    1.0
    """

    def excess(epsilon: float) -> float:
        return gaussian_log_delta(epsilon, sigma) - math.log(delta)

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-12)) * (1 + _MARGIN)


def _by_loss_distributions(parts: Sequence[Spent], delta: float) -> Accounted | None:
    if sum(part.epsilon for part in parts) > _MOST_EPSILON:
        return None
    try:
        from dp_accounting.pld import common, privacy_loss_distribution  # noqa: PLC0415 - an extra, slow to import
    except ImportError:
        return None
    total = None
    for part in dict.fromkeys(parts):
        if part.sigma is not None:
            one = privacy_loss_distribution.from_gaussian_mechanism(part.sigma)
        else:
            stated = common.DifferentialPrivacyParameters(part.epsilon, part.delta)
            one = privacy_loss_distribution.from_privacy_parameters(stated)
        several = one.self_compose(parts.count(part))
        total = several if total is None else total.compose(several)
    if total is None:
        return None
    epsilon = float(total.get_epsilon_for_delta(delta)) * (1 + _MARGIN)
    if not math.isfinite(epsilon):
        return None
    version = importlib.metadata.version("dp-accounting")
    return Accounted(epsilon, delta, f"privacy loss distributions, dp-accounting {version}")
