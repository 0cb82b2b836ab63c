"""What several releases of the same people guarantee together, if sums of ε would overstate the loss."""

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from streamsketch.core.libraries import stats
from streamsketch.core.numbers import Floats, short
from streamsketch.core.roots import root_of
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.gaussian import gaussian_deltas, gaussian_epsilon

_MOST_EPSILON = 50.0  # of the sum: beyond, a finer figure is worth nothing and its grid too large
_MARGIN = 1e-6  # relative, on ε: the solver's error, and the lattice's η (Theory 3), far smaller
_LEAST_DELTA = 1e-15  # below, a sum of ε with δ = 0 is as good
_STEP, _MOST_STEPS = 1e-4, 1 << 20  # of the grid that different ε are rounded up to
_FLOATS = 1e-9  # relative, on δ: sums of positive numbers, so their errors are relative ones; on a step too
_TAIL = 1e-12  # share of δ that may be spent on losses too rare to look at, at each end
_NEVER = -1e9  # the logarithm of 0, finite for the root finder


@dataclasses.dataclass(frozen=True)
class PrivacyCost:
    """What one release spends.

    Parameters
    ----------
    epsilon, delta
        Of its guarantee.
    sigma
        For Gaussian noise, its standard deviation over the ℓ2 sensitivity, by which the guarantee holds at every δ at
        once; None if only (ε, δ) is known of the noise.
    """

    epsilon: float
    delta: float
    sigma: float | None = None


@dataclasses.dataclass(frozen=True)
class Accounted:
    """A guarantee of several releases together, and how it was found."""

    epsilon: float
    delta: float
    by: str


def account(parts: Sequence[PrivacyCost], delta: float) -> Accounted | None:
    """Return the ε of several releases at one δ for all; None where only the sum is known.

    **For a plan fixed beforehand**: what is released may depend on earlier releases, the budgets must not. Of budgets
    chosen after a look at earlier releases, this is neither a filter nor an odometer: a tree whose paths are all
    composed to (2, 0.01) can have δ = 0.0137 as a whole (Theory 9.4). `streamsketch.Ledger` accounts for those.

    Gaussian noises alone compose in closed form: their privacy loss is that of one, with 1/σ² = Σ 1/σ_i² (Dong, Roth
    and Su 2022, Corollary 3.3), and its ε is Balle and Wang 2018, Theorem 8. Others are composed as privacy loss
    distributions: a Gaussian as itself, any other release as the worst that keeps its (ε, δ), whose loss is ±ε or
    infinite, which is the optimal composition of such (Kairouz, Oh and Viswanath 2015). Their sums are binomial, and
    added up term by term: a fast Fourier transform would err by a fixed amount, more than a small δ (Theory 4.2).

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
    >>> account([PrivacyCost(1.0, 1e-9, sigma=5.5)] * 4, 1e-9).by
    'the closed form for Gaussian noise'
    >>> round(account([PrivacyCost(1.0, 1e-9, sigma=5.5)] * 4, 1e-9).epsilon, 3)
    2.073
    """
    if not parts:
        raise InvalidInputError("there is no release to account for; pass at least one")
    if not 0 <= delta < 1:
        raise InvalidInputError(f"delta must be a number in [0, 1), got {short(delta)}")
    if delta < _LEAST_DELTA:
        return None
    sigmas = [part.sigma for part in parts if part.sigma is not None]
    if len(sigmas) == len(parts):
        total = 1 / math.sqrt(sum(1 / sigma**2 for sigma in sigmas))
        return Accounted(gaussian_epsilon(total, delta), delta, "the closed form for Gaussian noise")
    return _by_loss_distributions(parts, delta)


def _by_loss_distributions(parts: Sequence[PrivacyCost], delta: float) -> Accounted | None:
    """Return ε with P(∞) + P(finite) · E δ_G(ε - L) ≤ δ: L the sum of the ±ε, δ_G the curve of all Gaussians as one."""
    if sum(part.epsilon for part in parts) > _MOST_EPSILON:
        return None
    worst = [part for part in parts if part.sigma is None]
    precision = sum(1 / part.sigma**2 for part in parts if part.sigma is not None)
    sigma = 1 / math.sqrt(precision) if precision else None
    infinite = -math.expm1(sum(math.log1p(-part.delta) for part in worst)) * (1 + _FLOATS)
    sums = _sums_of_losses([part.epsilon for part in worst])
    if sums is None:
        return None
    losses, chances = sums
    rare = (np.cumsum(chances) < _TAIL * delta) | (np.cumsum(chances[::-1])[::-1] < _TAIL * delta)
    losses, chances = losses[~rare], chances[~rare]
    room = (delta * (1 - 2 * _TAIL - _FLOATS) - infinite) / (1 - infinite) if infinite < delta else 0.0
    if room <= 0:
        return None

    def excess(epsilon: float) -> float:
        gaps = epsilon - losses
        curve = -np.expm1(np.minimum(gaps, 0.0)) if sigma is None else gaussian_deltas(gaps, sigma)
        value = float(chances @ curve)
        return (math.log(value) if value > 0 else _NEVER) - math.log(room)

    epsilon, high = 0.0, 1.0
    if excess(0.0) > 0:
        while excess(high) > 0:
            high *= 2
        epsilon = (root_of(excess, 0.0, high, xtol=1e-12, rtol=1e-12) + 1e-11) * (1 + _MARGIN)
    return Accounted(epsilon, delta, "privacy loss distributions")


def _sums_of_losses(epsilons: Sequence[float]) -> tuple[Floats, Floats] | None:
    """Return what a sum of losses can be, and with which chances: each +ε with probability e^ε/(1 + e^ε), else -ε.

    Equal ε make a binomial sum, which is exact. Different ones are rounded up to a grid, which can only increase the
    loss.
    """
    epsilons = [epsilon for epsilon in epsilons if epsilon > 0]
    if not epsilons:
        return np.zeros(1), np.ones(1)
    step = max(epsilons)
    if min(epsilons) < step:
        step = min(_STEP, max(min(epsilons), sum(epsilons) / _MOST_STEPS)) * (1 + _FLOATS)
    groups = Counter(math.ceil(epsilon / step) for epsilon in epsilons)
    total = sum(steps * count for steps, count in groups.items())
    if total > 4 * _MOST_STEPS:
        return None
    chances = np.ones(1)
    for steps, count in sorted(groups.items(), key=lambda group: -group[1]):  # the most first: it costs nothing
        ups = stats.binom.pmf(np.arange(count + 1), count, 1 / (1 + math.exp(-steps * step)))
        wider = np.zeros(chances.size + steps * count)
        for up in np.flatnonzero(ups).tolist():
            wider[up * steps : up * steps + chances.size] += ups[up] * chances
        chances = wider
    losses = np.arange(-total, total + 1, 2, dtype=np.float64)
    losses *= step
    return losses, chances
