"""Discrete Gaussian noise: (ε, δ)-differential privacy, by the ℓ2 sensitivity."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from streamsketch.core import sentences, special
from streamsketch.core.numbers import Floats, Ints
from streamsketch.core.roots import root_of
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import samplers
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.noise import Loss, Noise, NoiseMoments, Sensitivity, parameter_text, round_up
from streamsketch.privacy.samplers import BitSource
from streamsketch.privacy.zcdp import MARGIN as RHO_MARGIN

_NEVER = -1e9  # the logarithm of a δ too small to compute; finite, for the root finder
_ROUNDING_VARIANCE = 3  # τ² of Theory 3: rounding a continuous Gaussian to the lattice
_ETA = 7.7e-26  # of Theory 3, at that τ², for each cell that a unit moves, and layer
_SHARES_ETA = 6e-13  # of Theory 9.2, at shares of that variance or more, for each cell that a unit moves
_MOST_LOST = 0.1  # of ε, to rounding
_LEAST_SHARE = 3  # variance of a share
_MAX_DELTA = 1 - 1e-6  # calibrating to less is sound; nearer to 1 the solver loses its digits
_KEPT_BITS = 8  # fractional bits of a small σ²; from 2^16 on it is an integer
_MARGIN = 1e-6  # relative, on ε: the solver's error, and the lattice's η, far smaller
_LEAST_VARIANCE = 1.0  # for two periods of the characteristic function to be all of it
_PERIODS = np.array([-2.0, -1.0, 1.0, 2.0])


@dataclasses.dataclass(frozen=True)
class DiscreteGaussian(Noise):
    """P(n) ∝ exp(-n² / 2σ²) on the integers, σ² an exact rational in grid steps².

    Examples
    --------
    >>> DiscreteGaussian(Fraction(25)).cumulants
    NoiseMoments(k2=25.0, k4=0.0)
    """

    sigma_squared: Fraction

    name = "gaussian"
    label = sentences.GAUSSIAN
    theorem = (
        "Balle and Wang 2018, Theorem 8, for the continuous Gaussian that the lattice noise is a rounding of "
        "(documentation, Theory 3)"
    )
    needs_delta = True
    widest = float(samplers.MAX_SIGMA_SQUARED)
    gains_by_finer_grid = True

    def __post_init__(self) -> None:
        samplers.check_gaussian(self.sigma_squared)

    @classmethod
    def calibrated(cls, sensitivity: Sensitivity, budget: Budget) -> "DiscreteGaussian":
        """Return the noise that makes the integer vector (ε, δ)-DP.

        σ² = (σ_BW · D2)² + 3, rounded up: if N(0, σ² - τ²) is (ε, δ)-DP at sensitivity D2, then N_Z(0, σ²) is
        (ε + 2kη, e^{kη}δ)-DP, with η = 7.7e-26 at τ² = 3 (Theory 3: the lattice Gaussian is a data-independent
        rounding of the continuous one). The continuous σ used verbatim would exceed δ. The calibration
        to (ε - 2kη, e^{-kη}δ) covers η, the margin of 1e-7 on σ_BW the solver's error.

        Raises
        ------
        InvalidInputError
            For δ = 0, which no Gaussian gives; for noise too wide to sample.
        """
        cls.check_budget(budget)
        rounded = _less_rounding(budget, _ETA * sensitivity.layers, sensitivity)
        sigma = Fraction(gaussian_sigma(rounded.epsilon, rounded.delta)) * Fraction(1 + 1e-7)
        variance = sigma**2 * sensitivity.l2_squared + _ROUNDING_VARIANCE
        return cls(round_up(variance, _KEPT_BITS if variance < 1 << 16 else 0))

    @classmethod
    def suits(cls, sensitivity: Sensitivity, budget: Budget) -> bool:
        """Return whether δ ≥ exp(-D1²/D2²) (Stausholm 2021, Note 5)."""
        return budget.delta > 0 and math.log(budget.delta) >= -(sensitivity.l1**2) / sensitivity.l2_squared

    @classmethod
    def most_steps(cls, cells: int, budget: Budget) -> float:
        """Return by how many grid steps a unit may move each of so many cells for the noise to be sampled."""
        return math.sqrt(samplers.MAX_SIGMA_SQUARED / 2 / cells) / gaussian_sigma(budget.epsilon, budget.delta)

    @property
    def cumulants(self) -> NoiseMoments:
        """κ2 = σ² and κ4 = 0 for σ ≥ 2 (to 1e-29, Theory 3); summed directly below."""
        sigma_squared = float(self.sigma_squared)
        if sigma_squared >= 4:
            return NoiseMoments(sigma_squared, 0.0)
        support = np.arange(-40, 41, dtype=np.float64)  # mass beyond is below e^-200
        weights = np.exp(-(support**2) / (2 * sigma_squared))
        weights /= weights.sum()
        second, fourth = float(weights @ support**2), float(weights @ support**4)
        return NoiseMoments(second, fourth - 3 * second**2)

    def sample(self, size: int, bits: BitSource) -> Ints:
        """Draw ``size`` exact samples: int64, (size,)."""
        return samplers.discrete_gaussian(self.sigma_squared, size, bits)

    def sample_each(self, size: int, sources: Sequence[BitSource]) -> Ints:
        """Draw what `sample` draws of each source, in one pass: int64, (n, size)."""
        return samplers.draw_each(samplers.gaussian_table(self.sigma_squared), size, sources)

    @classmethod
    def calibrated_in_shares(cls, sensitivity: Sensitivity, budget: Budget, shares: int) -> "DiscreteGaussian":
        """Return the noise that ``shares`` discrete Gaussians of a variance of 3 or more amount to; as `calibrated`.

        Their sum is within a factor e^±η of N_Z(0, σ²) in each cell, η < 6e-13 for any number of shares (Theory
        9.2), so calibrating N_Z(0, σ²) to (ε - 2kη, e^{-kη}δ) covers it.
        """
        whole = cls.calibrated(sensitivity, _less_rounding(budget, _SHARES_ETA, sensitivity))
        share = max(whole.sigma_squared / shares, Fraction(_LEAST_SHARE))
        return cls(shares * round_up(share, _KEPT_BITS if share < 1 << 16 else 0))  # a share is exact, and so the sum

    def sample_share(self, shares: int, size: int, bits: BitSource) -> Ints:
        """Draw one of ``shares`` independent shares: discrete Gaussians of variance σ²/shares: int64, (size,)."""
        return samplers.discrete_gaussian(self.sigma_squared / shares, size, bits)

    def loss(self, sensitivity: Sensitivity, budget: Budget) -> Loss:
        """Return the ε of N(0, σ² - τ²); see `Noise.loss`."""
        spare = float(self.sigma_squared) - _ROUNDING_VARIANCE
        if budget.delta == 0:
            return Loss(math.inf, sentences.GAUSSIAN_WITHOUT_DELTA)
        if spare <= 0:
            return Loss(None, sentences.GAUSSIAN_NARROW.format(noise=self))
        sigma = math.sqrt(spare / sensitivity.l2_squared)
        spent = gaussian_epsilon(sigma, budget.delta)
        if gaussian_log_delta(budget.epsilon, sigma) <= math.log(budget.delta) + _MARGIN:
            spent = min(spent, budget.epsilon)  # the solver's last digit
        reason = sentences.GAUSSIAN_LOSS.format(
            variance=parameter_text(self.sigma_squared),
            sensitivity=f"{math.sqrt(sensitivity.l2_squared):.6g}",
            epsilon=f"{spent:.4g}",
            delta=f"{budget.delta:.4g}",
        )
        return Loss(spent, reason, sigma)

    def rho(self, sensitivity: Sensitivity, cell: int, honest: int = 1) -> float:
        """Return the ρ that the noise, or a sum of ``honest`` discrete Gaussians, spends; see `Noise.rho`.

        Source: Canonne, Kamath and Steinke 2020, Theorem 14; for sums `_ripple`.
        """
        del cell
        rate = 1 / math.sqrt(self.sigma_squared) + _ripple(float(self.sigma_squared) / honest, honest)
        return sensitivity.l2_squared * rate**2 / 2 * (1 + RHO_MARGIN)

    def log_characteristic(self, angles: Floats) -> Floats | None:
        """Return log E cos(angle · η): by Poisson summation, Σ_j exp(-σ²(angle + 2πj)²/2) over its value at 0."""
        if self.sigma_squared < _LEAST_VARIANCE:
            return None
        angles = angles - 2 * math.pi * np.round(angles / (2 * math.pi))
        half = float(self.sigma_squared) / 2
        others = np.exp(-half * 4 * math.pi * _PERIODS * (math.pi * _PERIODS + angles[:, None])).sum(axis=1)
        at_zero = np.exp(-half * (2 * math.pi * _PERIODS) ** 2).sum()
        log: Floats = -half * angles**2 + np.log1p(others) - np.log1p(at_zero)
        return log

    def log_weights(self, steps: Floats) -> Floats:
        """Return -n² / 2σ²; see `Noise.log_weights`."""
        return -(steps**2) / (2 * float(self.sigma_squared))


def _less_rounding(budget: Budget, eta: float, sensitivity: Sensitivity) -> Budget:
    """Return (ε - 2nη, e^{-nη}δ), what a budget leaves once n cells are rounded to the lattice, η each.

    Cells that the unit does not move have the same distribution with and without it, and cost nothing.
    """
    budget, lost = budget.rounded_down(), eta * sensitivity.moved
    if 2 * lost > _MOST_LOST * budget.epsilon:
        raise InvalidInputError(
            f"one unit may move {sensitivity.moved:,} cells, and rounding the noise in so many of them spends ε = "
            f"{2 * lost:.3g} of {budget.epsilon:g}. Set max_keys, the number of keys that a unit may be in, use a "
            "coarser resolution, or allow a larger ε"
        )
    return Budget(budget.epsilon - 2 * lost, min(budget.delta, _MAX_DELTA) * math.exp(-lost))


def _ripple(variance: float, shares: int) -> float:
    """Return τ of Kairouz, Liu and Steinke 2021, Proposition 14, by which √(2ρ) of a sum of Gaussian shares is larger.

    A unit moves at most as many cells as its squared ℓ2 distance, so its √d is at most that distance.
    """
    return 10 * math.fsum(math.exp(-2 * math.pi**2 * variance * j / (j + 1)) for j in range(1, shares))


@functools.lru_cache(maxsize=1024)
def gaussian_sigma(epsilon: float, delta: float) -> float:
    """Return σ_BW, the least σ at which continuous N(0, σ²) is (ε, δ)-DP at ℓ2 sensitivity 1.

    Source: Balle and Wang 2018, Theorem 8: Φ(1/(2σ) - εσ) - e^ε Φ(-1/(2σ) - εσ) ≤ δ, solved for log σ.

    Examples
    --------
    >>> round(gaussian_sigma(1.0, 1e-9), 6)
    5.495266
    """

    def excess(log_sigma: float) -> float:
        return gaussian_log_delta(epsilon, math.exp(log_sigma)) - math.log(delta)

    low = high = 0.0
    while excess(low) < 0:
        low -= 1
    while excess(high) > 0:
        high += 1
    return math.exp(root_of(excess, low, high, xtol=1e-14, rtol=1e-14))


def gaussian_log_delta(epsilon: float, sigma: float) -> float:
    """Return the logarithm of the least δ for which N(0, σ²) is (ε, δ)-DP at ℓ2 sensitivity 1."""
    below, above = epsilon * sigma - 1 / (2 * sigma), epsilon * sigma + 1 / (2 * sigma)
    if below < 0:
        first, second = float(special.log_ndtr(-below)), epsilon + float(special.log_ndtr(-above))
        return first + math.log(-math.expm1(second - first)) if second < first else _NEVER
    # Φ(-x) = erfcx(x/√2) exp(-x²/2) / 2 and above² - below² = 2ε: the two exponentials are one, and what is
    # left loses fewer digits than the difference of two logarithms
    difference = float(special.erfcx(below / math.sqrt(2)) - special.erfcx(above / math.sqrt(2)))
    return math.log(difference / 2) - below**2 / 2 if difference > 0 else _NEVER


def gaussian_epsilon(sigma: float, delta: float) -> float:
    """Return the least ε for which N(0, σ²) is (ε, δ)-DP at ℓ2 sensitivity 1, rounded up.

    Source: Balle and Wang 2018, Theorem 8, solved for ε.

    Examples
    --------
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
    return float(root_of(excess, 0.0, high, xtol=1e-12, rtol=1e-12)) * (1 + _MARGIN)


def gaussian_deltas(epsilons: Floats, sigma: float) -> Floats:
    """Return δ of N(0, σ²) at ℓ2 sensitivity 1 for each ε, negative ones too; as `gaussian_log_delta`."""
    below, above = epsilons * sigma - 1 / (2 * sigma), epsilons * sigma + 1 / (2 * sigma)
    out = np.empty_like(below)
    low = below < 0
    first = special.log_ndtr(-below[low])
    out[low] = -np.exp(first) * np.expm1(np.minimum(epsilons[low] + special.log_ndtr(-above[low]) - first, 0.0))
    scaled = special.erfcx(below[~low] / math.sqrt(2)) - special.erfcx(above[~low] / math.sqrt(2))
    out[~low] = np.maximum(scaled, 0.0) / 2 * np.exp(-(below[~low] ** 2) / 2)
    return out
