"""Noise distributions on the integers, and the cumulants that estimators need of them."""

import dataclasses
import math
from fractions import Fraction

import numpy as np

from streamsketch.core import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import samplers as sampling
from streamsketch.privacy.samplers import BitSource


@dataclasses.dataclass(frozen=True)
class Cumulants:
    """Second and fourth cumulant of one cell's noise, in grid steps² and grid steps⁴.

    Independent noises add cumulants; scaling by a multiplies them by a² and a⁴. E[η²] = κ2 and
    E[η⁴] = κ4 + 3κ2².

    Examples
    --------
    >>> Cumulants(2.0, 12.0) + Cumulants(3.0, 0.0)
    Cumulants(k2=5.0, k4=12.0)
    """

    k2: float = 0.0
    k4: float = 0.0

    def __post_init__(self) -> None:
        # E[η⁴] = κ4 + 3κ2² is at least E[η²]² = κ2², in double precision as WIRE.md says; honest noise is far from it
        if not (math.isfinite(self.k2) and math.isfinite(self.k4) and self.k2 >= 0 and self.k4 >= -2 * self.k2**2):
            raise InvalidInputError(
                f"noise cumulants must be finite with k2 >= 0 and k4 >= -2 k2², got k2={self.k2}, k4={self.k4}"
            )
        object.__setattr__(self, "k2", float(self.k2) + 0.0)  # no negative zeros: equal noises have equal bytes
        object.__setattr__(self, "k4", float(self.k4) + 0.0)

    def __add__(self, other: "Cumulants") -> "Cumulants":
        return Cumulants(self.k2 + other.k2, self.k4 + other.k4)

    def times(self, count: int) -> "Cumulants":
        """Return the cumulants of the sum of ``count`` independent noises."""
        return Cumulants(count * self.k2, count * self.k4)

    def scaled(self, factor: float) -> "Cumulants":
        """Return the cumulants of ``factor`` times the noise."""
        return Cumulants(factor**2 * self.k2, factor**4 * self.k4)


@dataclasses.dataclass(frozen=True)
class DiscreteLaplace:
    """P(n) ∝ exp(-|n| / scale) on the integers, ``scale`` an exact rational in grid steps.

    Examples
    --------
    >>> print(DiscreteLaplace(Fraction(4)))
    discrete Laplace, scale 4
    """

    scale: Fraction

    def __post_init__(self) -> None:
        sampling.check_laplace(self.scale)

    @property
    def cumulants(self) -> Cumulants:
        """κ2 = V = 2q/(1-q)² and κ4 = V + 3V², q = exp(-1/scale) (THEORY.md 3)."""
        rate = 1 / float(self.scale)
        variance = 2 * math.exp(-rate) / math.expm1(-rate) ** 2
        return Cumulants(variance, variance + 3 * variance**2)

    def sample(self, size: int, bits: BitSource) -> Ints:
        """Draw ``size`` exact samples: int64, (size,)."""
        return sampling.discrete_laplace(self.scale, size, bits)

    def __str__(self) -> str:
        return f"discrete Laplace, scale {self.scale}"


@dataclasses.dataclass(frozen=True)
class DiscreteGaussian:
    """P(n) ∝ exp(-n² / 2σ²) on the integers, σ² an exact rational in grid steps².

    Examples
    --------
    >>> DiscreteGaussian(Fraction(25)).cumulants
    Cumulants(k2=25.0, k4=0.0)
    """

    sigma_squared: Fraction

    def __post_init__(self) -> None:
        sampling.check_gaussian(self.sigma_squared)

    @property
    def cumulants(self) -> Cumulants:
        """κ2 = σ² and κ4 = 0 for σ ≥ 2 (to 1e-29, THEORY.md 3); summed directly below."""
        sigma_squared = float(self.sigma_squared)
        if sigma_squared >= 4:
            return Cumulants(sigma_squared, 0.0)
        support = np.arange(-40, 41, dtype=np.float64)  # mass beyond is below e^-200
        weights = np.exp(-(support**2) / (2 * sigma_squared))
        weights /= weights.sum()
        second, fourth = float(weights @ support**2), float(weights @ support**4)
        return Cumulants(second, fourth - 3 * second**2)

    def sample(self, size: int, bits: BitSource) -> Ints:
        """Draw ``size`` exact samples: int64, (size,)."""
        return sampling.discrete_gaussian(self.sigma_squared, size, bits)

    def __str__(self) -> str:
        return f"discrete Gaussian, variance {self.sigma_squared}"


Noise = DiscreteLaplace | DiscreteGaussian


def squared_distance_variance(cumulants: Cumulants, cells: int, squared_distance: float = 0.0) -> float:
    """Return the noise's part of Var D̂ between two releases whose cells carry this noise, in grid steps⁴ (THEORY.md 4).

    ``squared_distance`` is ‖A z̃‖² in grid steps², 0 for close streams.
    """
    return 8 * cumulants.k2 * squared_distance + 2 * cells * cumulants.k4 + 8 * cells * cumulants.k2**2
