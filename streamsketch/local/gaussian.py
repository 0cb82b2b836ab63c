"""The Gaussian mechanism: noise on every coordinate, as a baseline."""

import dataclasses
import functools
import math
from fractions import Fraction

import numpy as np

from streamsketch.core.numbers import Floats
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.hashing import Words
from streamsketch.local.mechanism import Mechanism, register
from streamsketch.local.plausible_lengths import noisy_lengths
from streamsketch.local.random_words import dot_rows
from streamsketch.local.report import Layout, Values
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.gaussian import DiscreteGaussian, gaussian_sigma
from streamsketch.privacy.noise import Sensitivity
from streamsketch.privacy.samplers import MAX_SIGMA_SQUARED, BitSource

_FRACTION_BITS = 16
_SLACK = 2.0**-40  # a unit vector's length after division by it


@dataclasses.dataclass(frozen=True, kw_only=True)
class GaussianMechanism(Mechanism):
    """The vector on a grid plus discrete Gaussian noise on every coordinate: the baseline, (ε, δ)-LDP.

    For any two inputs v, v' and any set S of reports, P(S | v) ≤ e^ε P(S | v') + δ. Vectors are rounded to multiples of
    2^-f, so any two are at most 2(2^f + √d/2) grid steps apart; noise is calibrated to that distance on the lattice
    (Theory 3), so the guarantee does not depend on floats. The error grows like d/ε², that of PrivUnit like d/ε.

    The exact sampler takes longer for larger noise, for any vector. Anyone who sees both its running time and the
    report learns something about the noise, and so about the vector. Do not let others time it.

    Parameters
    ----------
    dim, epsilon, ball
        As in `Mechanism`.
    delta
        The δ of one report, 10^-30 to 0.1.

    Raises
    ------
    InvalidInputError
        If a field is out of range.

    Examples
    --------
    >>> round(GaussianMechanism(dim=1 << 10, epsilon=4.0, delta=1e-6).expected_squared_error(1))
    5838
    """

    delta: float

    kind = "gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_float("delta", 1e-30, 0.1)
        _ = self._noise  # raises if the noise cannot be sampled

    @functools.cached_property
    def _noise(self) -> tuple[int, DiscreteGaussian]:
        """Return f and the noise, with f as large as the sampler allows."""
        for fraction_bits in range(_FRACTION_BITS, -1, -1):
            diameter = 2 * ((1 + _SLACK) * 2.0**fraction_bits + math.sqrt(self.sphere_dim) / 2)
            squared = math.ceil(Fraction(diameter) ** 2)
            needed = gaussian_sigma(self.epsilon, self.delta) ** 2 * squared
            if needed < MAX_SIGMA_SQUARED / 2:
                break
        else:
            raise InvalidInputError(
                f"epsilon={self.epsilon:g} and delta={self.delta:g} at dim={self.dim} need more noise than "
                f"can be sampled. Use a larger epsilon or delta"
            )
        # the largest l1 for this l2; Gaussian noise depends on the l2 only
        distance = Sensitivity(l1=math.isqrt(self.sphere_dim * squared) + 1, l2_squared=squared, cells=self.sphere_dim)
        return fraction_bits, DiscreteGaussian.calibrated(distance, Budget(self.epsilon, self.delta))

    @property
    def fraction_bits(self) -> int:
        """f, for the grid of multiples of 2^-f."""
        return self._noise[0]

    @property
    def noise(self) -> DiscreteGaussian:
        """The noise, in grid steps."""
        return self._noise[1]

    @property
    def layout(self) -> Layout:
        """sphere_dim integers."""
        return Layout(self.sphere_dim, "int32", seeded=False)

    @functools.cached_property
    def honest_lengths(self) -> tuple[float, float]:
        """See `Mechanism.honest_lengths`; in grid steps."""
        radius = (1 + _SLACK) * 2.0**self.fraction_bits + math.sqrt(self.sphere_dim) / 2
        cumulants = self.noise.cumulants
        moments = cumulants.k2, cumulants.k4 + 3 * cumulants.k2**2
        return noisy_lengths(self.sphere_dim, radius, float(self.noise.sigma_squared), moments)

    @property
    def longest_contribution(self) -> float:
        """See `Mechanism.longest_contribution`."""
        return self.honest_lengths[1] * 0.5**self.fraction_bits

    @property
    def squared_error(self) -> float:
        """d·σ², up to at most d/4 squared grid steps of rounding."""
        return self.sphere_dim * self.noise.cumulants.k2 / 4.0**self.fraction_bits

    def fill(self, units: Floats, bits: BitSource, seeds: Words, values: Values) -> None:
        """Write reports; see `Mechanism.fill`. Noise exceeds 2^24 · 40 steps with probability below e^-800."""
        del seeds  # unused
        scaled = units * (2.0**self.fraction_bits / np.sqrt(dot_rows(units, units)))[:, np.newaxis]
        noisy = np.rint(scaled).astype(np.int64) + self.noise.sample(units.size, bits).reshape(units.shape)
        values[...] = np.clip(noisy, -(1 << 31), (1 << 31) - 1)

    def contributions(self, seeds: Words, values: Values) -> Floats:
        """Return the reports in real units; see `Mechanism.contributions`."""
        del seeds
        return values * 0.5**self.fraction_bits


register(GaussianMechanism)
