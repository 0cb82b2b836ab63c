"""What a noise distribution is: one class with all that is known of it, registered by name.

A noise is a file of its own (as `streamsketch.privacy.laplace`) and a line in `streamsketch.privacy.noises`. All others
ask the class: how wide it must be, how it is drawn, its cumulants, what it spends, and by which theorem.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

import numpy as np

from streamsketch.core.numbers import Floats, Ints
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.samplers import BitSource


@dataclasses.dataclass(frozen=True)
class NoiseMoments:
    """Second and fourth cumulant of one cell's noise, in grid steps² and grid steps⁴.

    Independent noises add cumulants; scaling by a multiplies them by a² and a⁴. E[η²] = κ2 and
    E[η⁴] = κ4 + 3κ2².

    Examples
    --------
    >>> NoiseMoments(2.0, 12.0) + NoiseMoments(3.0, 0.0)
    NoiseMoments(k2=5.0, k4=12.0)
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

    def __add__(self, other: "NoiseMoments") -> "NoiseMoments":
        return NoiseMoments(self.k2 + other.k2, self.k4 + other.k4)

    def times(self, count: int | Fraction) -> "NoiseMoments":
        """Return the cumulants of the sum of ``count`` independent noises, a fraction of them for shares of one."""
        return NoiseMoments(float(count) * self.k2, float(count) * self.k4)

    def scaled(self, factor: float) -> "NoiseMoments":
        """Return the cumulants of ``factor`` times the noise."""
        return NoiseMoments(factor**2 * self.k2, factor**4 * self.k4)


@dataclasses.dataclass(frozen=True)
class Sensitivity:
    """How far one privacy unit can move the published integer vector.

    Parameters
    ----------
    l1
        D1, the ℓ1 distance in grid steps.
    l2_squared
        D2², the squared ℓ2 distance in grid steps².
    cells
        How many cells a published sketch has: what its noise does to estimates depends on it.
    layers
        How many independent noises each published cell carries, each of which some observer sees.
    moved
        How many published numbers one privacy unit may move, in all sketches of a release; ``cells`` by default.

    Raises
    ------
    InvalidInputError
        If no unit moves anything, as with a map whose columns are all zero.
    """

    l1: int
    l2_squared: int
    cells: int
    layers: int = 1
    moved: int = 0

    def __post_init__(self) -> None:
        if not self.moved:
            object.__setattr__(self, "moved", self.cells)
        if self.l1 < 1 or self.l2_squared < 1:
            raise InvalidInputError(
                f"no unit moves any cell: the sensitivities are l1={self.l1} and l2²={self.l2_squared}, so there is "
                "nothing to publish. This happens if all columns of a sparse map are empty: use another seed, or "
                "more cells"
            )

    def over_keys(self, keys: int) -> "Sensitivity":
        """Return the sensitivity of a table in which one unit moves up to ``keys`` vectors, each by this much."""
        return dataclasses.replace(self, l1=keys * self.l1, l2_squared=keys * self.l2_squared, moved=keys * self.moved)

    def over_rows(self, l1: int, l2_squared: int, reach: int) -> "Sensitivity":
        """Return the sensitivity of a schedule's rows, which have what moved in a window up to ``reach`` times.

        Each number that moves does so by a whole step.
        """
        return dataclasses.replace(self, l1=l1, l2_squared=l2_squared, moved=min(self.moved * reach, l2_squared))


class Loss(NamedTuple):
    """What a noise spends at a sensitivity.

    Parameters
    ----------
    epsilon
        The least ε at the given δ; infinite if there is none, None where no theorem here covers the noise.
    reason
        Why, without a full stop.
    sigma
        The standard deviation of the Gaussian noise, over the ℓ2 sensitivity, whose privacy loss is no less; None if
        only (ε, δ) is known of the noise.
    """

    epsilon: float | None
    reason: str
    sigma: float | None = None


@dataclasses.dataclass(frozen=True)
class Noise(ABC):
    """A distribution on the integers, with one exact parameter: its only field, a fraction.

    Its constructor raises `InvalidInputError` for a parameter that the sampler cannot take.
    """

    name: ClassVar[str]
    """What ``mechanism=`` calls it, and the exchange format."""
    label: ClassVar[str]
    """What guarantees call it, in front of its parameter."""
    theorem: ClassVar[str]
    """What its guarantee rests on."""
    needs_delta: ClassVar[bool]
    """Whether it needs δ > 0. Noise that does not guarantees δ = 0 for any δ of the budget."""
    widest: ClassVar[float] = math.inf
    """The largest variance that can be drawn, in grid steps²."""
    gains_by_finer_grid: ClassVar[bool] = False
    """Whether its variance has a part in grid steps that is the same on any grid."""

    @classmethod
    def of_amount(cls, amount: Fraction) -> Self:
        """Return the noise of a parameter."""
        return cls(amount)  # type: ignore[call-arg] # the one field of every subclass

    @property
    def amount(self) -> Fraction:
        """The exact parameter."""
        (field,) = dataclasses.fields(self)
        amount: Fraction = getattr(self, field.name)
        return amount

    @classmethod
    @abstractmethod
    def calibrated(cls, sensitivity: Sensitivity, budget: Budget) -> Self:
        """Return the noise that makes the integer vector (ε, δ)-DP.

        Raises
        ------
        InvalidInputError
            If it would be too wide to sample, or needs δ > 0.
        """

    @classmethod
    def check_budget(cls, budget: Budget) -> None:
        """Raise `InvalidInputError` for δ = 0 where the noise never gives that."""
        if cls.needs_delta and budget.delta == 0:
            raise InvalidInputError(
                f"{cls.name.title()} noise never gives delta = 0: set delta (such as 1e-9), or use mechanism='laplace'"
            )

    @classmethod
    def suits(cls, sensitivity: Sensitivity, budget: Budget) -> bool:
        """Return whether ``mechanism="auto"`` takes this noise; at most one registered noise says so."""
        del sensitivity, budget
        return False

    @classmethod
    def most_steps(cls, cells: int, budget: Budget) -> float:
        """Return by how many grid steps a unit may move each of so many cells for the noise to be sampled."""
        del cells, budget
        return math.inf

    @classmethod
    def spends(cls, budget: Budget) -> Budget:
        """Return what a release with noise calibrated to a budget guarantees."""
        return budget if cls.needs_delta else Budget(budget.epsilon)

    @property
    @abstractmethod
    def cumulants(self) -> NoiseMoments:
        """κ2 and κ4."""

    @abstractmethod
    def sample(self, size: int, bits: BitSource) -> Ints:
        """Draw ``size`` exact samples: int64, (size,)."""

    def sample_each(self, size: int, sources: Sequence[BitSource]) -> Ints:
        """Draw what `sample` draws of each source, at once: int64, (n, size)."""
        return np.stack([self.sample(size, bits) for bits in sources])

    def sample_share(self, shares: int, size: int, bits: BitSource) -> Ints:
        """Draw one of ``shares`` independent shares that add up to the noise: int64, (size,).

        Raises
        ------
        InvalidInputError
            If no shares of this noise are known here.
        """
        del shares, size, bits
        raise InvalidInputError(f"{self} cannot be drawn in shares; use Laplace or Gaussian noise")

    @classmethod
    def calibrated_in_shares(cls, sensitivity: Sensitivity, budget: Budget, shares: int) -> Self:
        """Return the noise to draw in ``shares`` shares for a budget; errors as `calibrated`."""
        del shares
        return cls.calibrated(sensitivity, budget)

    @abstractmethod
    def loss(self, sensitivity: Sensitivity, budget: Budget) -> Loss:
        """Return the least ε at the budget's δ; the budget's own ε where it is that, up to the last digit."""

    def rho(self, sensitivity: Sensitivity, cell: int, honest: int = 1) -> float | None:
        """Return the ρ of zero-concentrated differential privacy that a release with this noise spends.

        Parameters
        ----------
        sensitivity
            How far one unit moves the published vector.
        cell
            How far one unit can move a single cell, in grid steps.
        honest
            Of how many shares the noise is the sum.

        Returns
        -------
        float or None
            None where no theorem here covers the noise: the release then counts as any other with its (ε, δ).
        """
        del sensitivity, cell, honest
        return None

    def log_characteristic(self, angles: Floats) -> Floats | None:
        """Return log E cos(angle · η) where that is positive at every angle and known; else None."""
        del angles
        return None

    def log_weights(self, steps: Floats) -> Floats | None:
        """Return log P(n) up to a constant, for n of any kind, whole or between; None if only cumulants are known.

        Tests that need the law of the noise far out use it, and otherwise assume one of the same cumulants.
        """
        del steps
        return None

    def __str__(self) -> str:
        return f"{self.label} {self.amount}"


NOISES: dict[str, type[Noise]] = {}
"""Every noise by its name; the first is offered first."""


def register(kind: type[Noise]) -> type[Noise]:
    """Make a noise known: to ``mechanism=``, the exchange format, checks and plans."""
    NOISES[kind.name] = kind
    return kind


def round_up(value: Fraction, fractional_bits: int) -> Fraction:
    """Return the value rounded up to a multiple of 2^-``fractional_bits``."""
    return Fraction(math.ceil(value * (1 << fractional_bits)), 1 << fractional_bits)


def parameter_text(value: Fraction) -> str:
    """Return a parameter for people: a whole number as it is, else six digits."""
    return f"{value}" if value.denominator == 1 else f"{float(value):.6g}"


def squared_distance_variance(cumulants: NoiseMoments, cells: int, squared_distance: float = 0.0) -> float:
    """Return the noise's part of Var D̂ between two releases whose cells carry this noise, in grid steps⁴ (Theory 4).

    ``squared_distance`` is ‖A z̃‖² in grid steps², 0 for close streams.
    """
    return 8 * cumulants.k2 * squared_distance + 2 * cells * cumulants.k4 + 8 * cells * cumulants.k2**2
