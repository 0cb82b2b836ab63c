"""PrivHS and RePrivHS: a random direction, and a randomised bit for the vector's side of it."""

import dataclasses
import functools
from fractions import Fraction

import numpy as np

from streamsketch.core.jit import read_only
from streamsketch.core.numbers import Floats
from streamsketch.kernels.hashing import Words
from streamsketch.local import randomized_response
from streamsketch.local.baselines.frames import add_directions, direction_salts, direction_scale, sides
from streamsketch.local.mechanism import Mechanism, register
from streamsketch.local.random_words import secret_words
from streamsketch.local.report import Layout, Values
from streamsketch.privacy.samplers import BitSource

MAX_REPETITIONS = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivHS(Mechanism):
    """PrivHS: a point of the hemisphere around v with probability e^ε/(e^ε + 1), else of the opposite one.

    The report is a seed and a bit: the seed gives a uniform direction g, independent of v, and the bit is the sign of
    ⟨g, v⟩, flipped with probability 1/(e^ε + 1). The server uses ±g at scale coth(ε/2) √π Γ((d+1)/2)/Γ(d/2), which has
    the distribution of Duchi, Jordan and Wainwright 2018 (Section 4.2.3, ℓ2 ball). It is ε-LDP for any two inputs by
    the flip alone, which is decided by integers, so rounding in ⟨g, v⟩ does not affect the guarantee. The mechanism is
    unbiased; its error exceeds the least possible by a factor that grows with ε.

    Parameters
    ----------
    dim, epsilon, ball
        As in `Mechanism`.
    seed
        Public, 0 to 2^64 - 1: selects the directions of the reports' seeds.

    Raises
    ------
    InvalidInputError
        If a field is out of range.

    Examples
    --------
    >>> mechanism = PrivHS(dim=1 << 15, epsilon=10.0)
    >>> round(mechanism.expected_squared_error(1)), mechanism.layout.bits
    (51479, 65)
    """

    seed: int = 0

    kind = "priv-hs"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_int("seed", 0, (1 << 64) - 1)

    @property
    def directions(self) -> int:
        """R, the number of directions of a report, each with a bit at ε/R."""
        return 1

    @functools.cached_property
    def flipping(self) -> int:
        """The number of the 2^64 words that flip a bit."""
        return randomized_response.flipping_words(Fraction(self.epsilon) / self.directions)

    @property
    def radius(self) -> float:
        """B0, the length of one direction's contribution: √π Γ((d+1)/2)/Γ(d/2) over 1 - 2 P(flip)."""
        return direction_scale(self.sphere_dim) / (1 - 2 * randomized_response.share(self.flipping))

    @property
    def layout(self) -> Layout:
        """A seed and a bit for each direction."""
        return Layout(self.directions, "bits", seeded=True)

    @property
    def squared_error(self) -> float:
        """(B0(ε/R)² - 1)/R, exactly (Theory 7)."""
        return (self.radius**2 - 1) / self.directions

    @property
    def longest_contribution(self) -> float:
        """B0, if all directions are equal; see `Mechanism.longest_contribution`."""
        return self.radius

    @property
    def _salts(self) -> tuple[np.uint64, np.uint64]:
        return direction_salts(self.seed, self.kind)

    def fill(self, units: Floats, bits: BitSource, seeds: Words, values: Values) -> None:
        """Write reports; see `Mechanism.fill`."""
        seeds[:] = secret_words(bits, seeds.size)
        sides(units, seeds, *self._salts, values)
        drawn = secret_words(bits, values.size).reshape(values.shape)
        values ^= randomized_response.below(drawn, self.flipping)

    def contributions(self, seeds: Words, values: Values) -> Floats:
        """Return the mean of ±B0·g/‖g‖ over a report's directions; see `Mechanism.contributions`."""
        out = np.zeros((seeds.size, self.sphere_dim))
        add_directions(seeds, *self._salts, read_only(values), out)
        out *= self.radius / self.directions
        return out


@dataclasses.dataclass(frozen=True, kw_only=True)
class RePrivHS(PrivHS):
    """The average of R repetitions of `PrivHS` at ε/R each, with less error for ε above 2.

    The report is one seed and R bits. It is ε-LDP for any two inputs, since ε adds up over independently flipped bits.
    Source: Duchi, Jordan and Wainwright 2018, repeated as by Feldman and Talwar 2021.

    Parameters
    ----------
    dim, epsilon, ball, seed
        As in `PrivHS`.
    repetitions
        R, 1 to 256; by default max(⌊ε/2⌋, 1).

    Raises
    ------
    InvalidInputError
        If a field is out of range.

    Examples
    --------
    >>> mechanism = RePrivHS(dim=1 << 15, epsilon=10.0)
    >>> mechanism.repetitions, round(mechanism.expected_squared_error(1)), mechanism.layout.bits
    (5, 17748, 69)
    """

    repetitions: int = 0

    kind = "re-priv-hs"

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.repetitions) is int and self.repetitions == 0:
            object.__setattr__(self, "repetitions", max(int(self.epsilon / 2), 1))
        self._set_int("repetitions", 1, MAX_REPETITIONS)

    @property
    def directions(self) -> int:
        """R."""
        return self.repetitions


register(PrivHS)
register(RePrivHS)
