"""PrivUnitG: a Gaussian vector, more likely in a cap around the vector."""

import dataclasses
import functools

import numpy as np

from streamsketch.core.numbers import Floats
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.hashing import Words
from streamsketch.local.mechanism import Mechanism, register
from streamsketch.local.parameters import GaussianCap, gaussian_cap
from streamsketch.local.plausible_lengths import gaussian_lengths
from streamsketch.local.random_words import dot_rows, quantiles, secret_words, standard_normals, uniforms
from streamsketch.local.report import Layout, Values
from streamsketch.privacy.samplers import BitSource

PRECISIONS = ("float32", "float16")
_LARGEST_FLOAT16 = 65504.0
_LARGEST_CELL = 64.0  # bounds the cells of z + (a - ⟨z, u⟩)u: |a| ≤ 25, and Gaussians from one word are at most 9.2


@dataclasses.dataclass(frozen=True, kw_only=True)
class WithPrecision(Mechanism):
    """Mechanisms that send floats of a chosen width."""

    precision: str = "float32"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_choice("precision", PRECISIONS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivUnitG(WithPrecision):
    """PrivUnitG(p, q): a Gaussian vector, in the cap {⟨V, v⟩ ≥ γ} with probability p (Asi et al. 2023, Algorithm 8).

    It is unbiased, and its error is within a factor 1 + O((ε + log d)/d) of the least of any unbiased ε-LDP mechanism
    (Asi, Feldman and Talwar 2022, Proposition 5). A report is dim floats. p and q have the least error for (dim, ε).

    The guarantee, for any two inputs, is that of the distribution over real numbers. In floating point, the set of
    possible values depends on the vector in their last bits, and no bound is known on what this reveals; float32 and
    float16 reports show fewer of these bits. `CompPrivUnitG`, `PrivHS`, `RePrivHS` and `SQKR` send one of finitely many
    values, and their guarantees do not depend on floats.

    Parameters
    ----------
    dim, epsilon, ball
        As in `Mechanism`.
    precision
        Width of the floats sent: ``"float32"`` or ``"float16"``. Rounding to float16 adds at most 2^-21 of
        squared_error + 1, the mean squared length of a report, to the error.

    Raises
    ------
    InvalidInputError
        If a field is out of range.

    Examples
    --------
    >>> mechanism = PrivUnitG(dim=1 << 15, epsilon=10.0)
    >>> round(mechanism.expected_squared_error(1), 1), mechanism.layout.bits
    (3083.2, 1048576)
    """

    kind = "priv-unit-g"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_float16(self, self.cap.scale)

    @functools.cached_property
    def cap(self) -> GaussianCap:
        """The cap's parameters."""
        return gaussian_cap(self.sphere_dim, self.epsilon)

    @property
    def layout(self) -> Layout:
        """sphere_dim floats."""
        return Layout(self.sphere_dim, self.precision, seeded=False)

    @functools.cached_property
    def honest_lengths(self) -> tuple[float, float]:
        """See `Mechanism.honest_lengths`."""
        return gaussian_lengths(self.cap, self.sphere_dim - 1, self.sphere_dim - 1).rounded(self.layout)

    @property
    def squared_error(self) -> float:
        """d·τ² + g·τ - 1, exactly (Theory 7)."""
        return self.cap.squared_norm(self.sphere_dim) - 1

    def fill(self, units: Floats, bits: BitSource, seeds: Words, values: Values) -> None:
        """Write reports; see `Mechanism.fill`."""
        del seeds  # unused
        lengths = np.sqrt(dot_rows(units, units))
        values[...] = randomize_units(units / lengths[:, np.newaxis], self.cap, bits)

    def contributions(self, seeds: Words, values: Values) -> Floats:
        """Return the reports as float64; see `Mechanism.contributions`."""
        del seeds
        return values.astype(np.float64)


def check_float16(mechanism: WithPrecision, scale: float) -> None:
    """Raise `InvalidInputError` if the mechanism's values may exceed the range of float16."""
    if mechanism.precision == "float16" and _LARGEST_CELL * scale > _LARGEST_FLOAT16:
        raise InvalidInputError(
            f"at epsilon={mechanism.epsilon:g} values may exceed the range of float16; use precision='float32'"
        )


def randomize_units(units: Floats, cap: GaussianCap, bits: BitSource) -> Floats:
    """Return PrivUnitG of rows of length 1: float64, (n, k).

    In multiples of the standard deviation V is z + (a - ⟨z, u⟩)u with z standard Gaussian, and a standard Gaussian
    given a ≥ g with probability p, else given a < g. Every row takes k + 2 words of secret bits.
    """
    people, size = units.shape
    words = secret_words(bits, people * (size + 2)).reshape(people, size + 2)
    noise = np.empty((people, size))
    standard_normals(np.ascontiguousarray(words[:, 2:]).reshape(-1), noise.reshape(-1))
    along = cap_heights(uniforms(words[:, 0]), uniforms(words[:, 1]), cap)
    noise += (along - dot_rows(noise, units))[:, np.newaxis] * units
    noise *= cap.scale
    return noise


def cap_heights(coins: Floats, places: Floats, cap: GaussianCap) -> Floats:
    """Return a ~ N(0, 1) given a ≥ g if the coin is below p, else given a < g, by inversion.

    Both cases are computed for every coin.
    """
    above, below = np.empty_like(places), np.empty_like(places)
    quantiles(cap.mass * places, above)
    quantiles((1 - cap.mass) * places, below)
    return np.asarray(np.where(coins < cap.inside, -above, below))


register(PrivUnitG)
