"""Discrete Laplace noise: pure differential privacy, by the ℓ1 sensitivity."""

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from streamsketch.core import sentences
from streamsketch.core.numbers import Floats, Ints
from streamsketch.privacy import samplers
from streamsketch.privacy.budget import Budget, least
from streamsketch.privacy.noise import Loss, Noise, NoiseMoments, Sensitivity, parameter_text, round_up
from streamsketch.privacy.samplers import BitSource
from streamsketch.privacy.share_samplers import laplace_share
from streamsketch.privacy.zcdp import MARGIN, pure_rho

_KEPT_BITS = 24  # below the leading bit of a scale, so rounding up costs at most 2^-24 of it
_SMALL = 1e-4  # of one over the scale: below, the difference in the divergence loses its digits


@dataclasses.dataclass(frozen=True)
class DiscreteLaplace(Noise):
    """P(n) ∝ exp(-|n| / scale) on the integers, ``scale`` an exact rational in grid steps.

    Examples
    --------
    >>> print(DiscreteLaplace(Fraction(4)))
    discrete Laplace, scale 4
    """

    scale: Fraction

    name = "laplace"
    label = sentences.LAPLACE
    theorem = "Dwork and Roth 2014, Theorem 3.6, on the integer lattice (documentation, Theory 3)"
    needs_delta = False
    widest = 2.0 * samplers.MAX_LAPLACE_SCALE**2

    def __post_init__(self) -> None:
        samplers.check_laplace(self.scale)

    @classmethod
    def calibrated(cls, sensitivity: Sensitivity, budget: Budget) -> "DiscreteLaplace":
        """Return the noise of scale D1/ε that makes the integer vector ε-DP; errors as `Noise.calibrated`.

        Source: Dwork and Roth 2014, Theorem 3.6; on the lattice the pmf ratio at ℓ1 distance D is at most
        exp(D / scale), for any number of cells. The scale is an exact rational, rounded up.

        Examples
        --------
        >>> print(DiscreteLaplace.calibrated(Sensitivity(l1=4, l2_squared=4, cells=64), Budget(1.0)))
        discrete Laplace, scale 4
        """
        scale = Fraction(sensitivity.l1) / least(budget.epsilon)
        if scale.numerator.bit_length() > 2 * _KEPT_BITS or scale.denominator.bit_length() > 2 * _KEPT_BITS:
            whole_bits = max(0, math.floor(scale).bit_length())
            scale = round_up(scale, max(0, _KEPT_BITS - whole_bits) if whole_bits else 2 * _KEPT_BITS - 1)
        return cls(scale)

    @classmethod
    def suits(cls, sensitivity: Sensitivity, budget: Budget) -> bool:
        """Return whether δ < exp(-D1²/D2²) (Stausholm 2021, Note 5); for an SJLT that is δ < e^{-s}."""
        return budget.delta == 0 or math.log(budget.delta) < -(sensitivity.l1**2) / sensitivity.l2_squared

    @classmethod
    def most_steps(cls, cells: int, budget: Budget) -> float:
        """Return by how many grid steps a unit may move each of so many cells for the noise to be sampled."""
        return samplers.MAX_LAPLACE_SCALE * budget.epsilon / cells

    @property
    def cumulants(self) -> NoiseMoments:
        """κ2 = V = 2q/(1-q)² and κ4 = V + 3V², q = exp(-1/scale) (Theory 3)."""
        rate = 1 / float(self.scale)
        variance = 2 * math.exp(-rate) / math.expm1(-rate) ** 2
        return NoiseMoments(variance, variance + 3 * variance**2)

    def sample(self, size: int, bits: BitSource) -> Ints:
        """Draw ``size`` exact samples: int64, (size,)."""
        return samplers.discrete_laplace(self.scale, size, bits)

    def sample_each(self, size: int, sources: Sequence[BitSource]) -> Ints:
        """Draw what `sample` draws of each source, in one pass: int64, (n, size)."""
        return samplers.draw_each(samplers.laplace_table(self.scale), size, sources)

    def sample_share(self, shares: int, size: int, bits: BitSource) -> Ints:
        """Draw one of ``shares`` independent shares whose sum has exactly this distribution (Theory 9.1)."""
        return laplace_share(self.scale, shares, size, bits)

    def loss(self, sensitivity: Sensitivity, budget: Budget) -> Loss:
        """Return D1 / scale, for any δ; see `Noise.loss`."""
        del budget
        spent = float(sensitivity.l1 / self.scale)
        reason = sentences.LAPLACE_LOSS.format(
            scale=parameter_text(self.scale), sensitivity=f"{sensitivity.l1:,}", epsilon=f"{spent:.4g}"
        )
        return Loss(spent, reason)

    def rho(self, sensitivity: Sensitivity, cell: int, honest: int = 1) -> float:
        """Return the ρ that the noise spends: shares make exactly this noise; see `Noise.rho`.

        The divergence is convex in the shift and 0 at 0, so the sum over cells is largest with whole cells.
        """
        del honest
        by_cells = sensitivity.l1 / cell * laplace_divergence(self.scale, cell)
        return min(by_cells, pure_rho(float(sensitivity.l1 / self.scale)))

    def log_characteristic(self, angles: Floats) -> Floats:
        """Return log E cos(angle · η) = -log(1 + V(1 - cos angle)), V the variance."""
        return -np.log1p(2 * self.cumulants.k2 * np.sin(angles / 2) ** 2)

    def log_weights(self, steps: Floats) -> Floats:
        """Return -|n| / scale; see `Noise.log_weights`."""
        return -np.abs(steps) / float(self.scale)


def laplace_divergence(scale: Fraction, steps: int) -> float:
    """Return KL = sup_α D_α/α of discrete Laplace noise and its shift by ``steps``: (D - 2q(1-q^D)/(1-q²))/scale.

    That the supremum is the Kullback-Leibler divergence is proved in Theory 9.4.

    Examples
    --------
    >>> round(laplace_divergence(Fraction(1), 1), 4)
    0.4621
    """
    rate = 1 / float(scale)
    if rate * steps < _SMALL:
        return steps**2 * rate**2 / 2  # the divergence is less, for any number of steps: the limit of narrow shifts
    missing = -math.expm1(-rate * steps)  # 1 - q^D
    return rate * (steps - missing / math.sinh(rate)) * (1 + MARGIN)
