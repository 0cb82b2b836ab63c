"""PrivUnit: a random point of the sphere, more likely in a cap around the vector."""

import dataclasses
import functools

import numpy as np

from streamsketch.core.libraries import scipy_special
from streamsketch.core.numbers import Floats
from streamsketch.kernels.hashing import Words
from streamsketch.local.mechanism import register
from streamsketch.local.parameters import SphereCap, sphere_cap
from streamsketch.local.plausible_lengths import Lengths
from streamsketch.local.priv_unit_g import WithPrecision, check_float16
from streamsketch.local.random_words import LEAST_UNIFORM, dot_rows, secret_words, standard_normals, uniforms
from streamsketch.local.report import Layout, Values
from streamsketch.privacy.samplers import BitSource

_DEGREE = 21  # ln I⁻¹ has its nearest singularity at 0: Chebyshev series on [1/2, 1) converge like 5.8^-degree
_NODES = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))


class InverseBeta:
    """The quantiles of Beta(h, h), by a Chebyshev series of their logarithm for each power of two, to about 1e-13.

    Parameters
    ----------
    half
        h, at least 1/2.
    least
        The smallest argument needed, above 2^-1000.
    """

    def __init__(self, half: float, least: float) -> None:
        self._octaves = 1 - int(np.frexp(least)[1])  # the first is [1/4, 1/2]
        mantissas = 0.375 + 0.125 * _NODES
        values = [
            np.log(scipy_special.betaincinv(half, half, mantissas * 0.5**octave)) for octave in range(self._octaves)
        ]
        self._series = np.polynomial.chebyshev.chebfit(_NODES, np.array(values).T, _DEGREE)

    def __call__(self, probabilities: Floats) -> Floats:
        """Return the quantiles of probabilities from ``least`` to 1/2."""
        mantissas, exponents = np.frexp(probabilities)
        mantissas = np.where(exponents == 0, 1.0, mantissas)  # 1/2 is the end of the first octave
        octaves = np.clip(-1 - exponents, 0, self._octaves - 1)
        return np.asarray(np.exp(_clenshaw(4.0 * mantissas - 3.0, self._series[:, octaves])))


def _clenshaw(places: Floats, series: Floats) -> Floats:
    last, previous = np.zeros_like(places), np.zeros_like(places)
    for row in series[:0:-1]:
        last, previous = row + 2 * places * last - previous, last
    return np.asarray(series[0] + places * last - previous)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivUnit(WithPrecision):
    """PrivUnit: uniform on the cap {⟨V, v⟩ ≥ γ} of the sphere with probability p, else on the rest of the sphere.

    Source: Bhowmick et al. 2018; with p and the cap of least error it has the least worst-case error of all unbiased
    ε-LDP mechanisms (Asi, Feldman and Talwar 2022, Theorem 1). Caps are exact. A report is dim floats; `PrivUnitG`
    discusses the effect of floats on the guarantee.

    Parameters
    ----------
    dim, epsilon, ball, precision
        As in `PrivUnitG`.

    Raises
    ------
    InvalidInputError
        If a field is out of range.

    Examples
    --------
    >>> round(PrivUnit(dim=1 << 15, epsilon=10.0).expected_squared_error(1), 1)
    3082.6
    """

    kind = "priv-unit"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_float16(self, 1 / self.cap.mean / 64)  # the output has length 1/m

    @functools.cached_property
    def cap(self) -> SphereCap:
        """The cap's parameters."""
        return sphere_cap(self.sphere_dim, self.epsilon)

    @property
    def layout(self) -> Layout:
        """sphere_dim floats."""
        return Layout(self.sphere_dim, self.precision, seeded=False)

    @functools.cached_property
    def honest_lengths(self) -> tuple[float, float]:
        """1/m for every honest report, up to rounding; see `Mechanism.honest_lengths`."""
        return Lengths(1 / self.cap.mean, 1 / self.cap.mean).rounded(self.layout)

    @property
    def squared_error(self) -> float:
        """1/m² - 1, exactly."""
        return self.cap.squared_error

    def fill(self, units: Floats, bits: BitSource, seeds: Words, values: Values) -> None:
        """Write (⟨V, v⟩ v + √(1 - ⟨V, v⟩²) w)/m with w uniform and orthogonal to v; see `Mechanism.fill`."""
        del seeds  # unused
        people, size = units.shape
        units = units / np.sqrt(dot_rows(units, units))[:, np.newaxis]
        words = secret_words(bits, people * (size + 2)).reshape(people, size + 2)
        across = np.empty((people, size))
        standard_normals(np.ascontiguousarray(words[:, 2:]).reshape(-1), across.reshape(-1))
        across -= dot_rows(across, units)[:, np.newaxis] * units
        below = self._below(uniforms(words[:, 0]), uniforms(words[:, 1]))
        height, radius = 1 - 2 * below, 2 * np.sqrt(below * (1 - below))
        across *= (radius / np.sqrt(dot_rows(across, across)))[:, np.newaxis]
        values[...] = (across + height[:, np.newaxis] * units) / self.cap.mean

    @functools.cached_property
    def _inverse(self) -> InverseBeta:
        return InverseBeta((self.sphere_dim - 1) / 2, self.cap.mass * LEAST_UNIFORM)

    def _below(self, coins: Floats, places: Floats) -> Floats:
        """Return (1 - ⟨V, v⟩)/2, a Beta((d-1)/2, (d-1)/2) variable conditioned on the cap or on the rest.

        Both cases are computed for every coin.
        """
        inside = self._inverse(self.cap.mass * places)
        lower = (1 - self.cap.mass) * places  # P(⟨V, v⟩ ≤ this height) of a uniform V, and 1 minus it
        upper = self.cap.mass + (1 - self.cap.mass) * (1 - places)
        smaller = self._inverse(np.minimum(np.minimum(lower, upper), 0.5))
        outside = np.where(lower < upper, 1 - smaller, smaller)
        return np.asarray(np.where(coins < self.cap.inside, inside, outside))

    def contributions(self, seeds: Words, values: Values) -> Floats:
        """Return the reports as float64; see `Mechanism.contributions`."""
        del seeds
        return values.astype(np.float64)


register(PrivUnit)
