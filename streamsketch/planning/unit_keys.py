"""Which keys stand out from the noise of a plan, and what would lift those that do not."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.core import special
from streamsketch.core.numbers import Floats
from streamsketch.estimation.means import LEAST_UNITS
from streamsketch.planning.noise_floor import NoiseFloor
from streamsketch.planning.unit_facts import UnitFacts
from streamsketch.planning.unit_options import Columns, UnitOption, clipped, cosine_variances
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.noise import NOISES

if TYPE_CHECKING:
    from streamsketch.privacy.neighbours import Clip, Neighbours

_MOST_EPSILON = 20.0
_STEPS = 40  # of bisections
_MOST_UNITS = 1e15
_TINY = 1e-300


class PlannedKey(NamedTuple):
    """What to expect of one key's release.

    Lengths are ℓ2 norms after clipping, in data units. With ``clip="equal"`` each unit has the length of the bound.

    Examples
    --------
    >>> from streamsketch.planning import TypicalUnit, plan_units
    >>> typical = TypicalUnit(items=40, match=0.004)
    >>> plan = plan_units(typical, units={"Wien": 900}, epsilon=1.0, delta=1e-6, unit="customer")
    >>> key = plan.keys[0]
    >>> key.key, key.units, key.below < 0.01
    ('Wien', 900.0, True)
    """

    key: str
    """Its name, or its number among those of the plan, from 1."""
    units: float
    """How many units it has."""
    length: float
    """The expected length of its sum."""
    below: float
    """The probability that its release is below the noise floor and has no cosine, over the draw of map and noise. For
    averages (``question="mean"``): that its number of units is within two standard errors of zero."""
    cosine_error: float
    """The expected standard error of a cosine with another key of its size, if both stand out; at most 1."""
    visible_distance: float
    """The least distance ‖x - y‖₂ to the sum of a like key that `streamsketch.sameness` finds with probability 0.8
    at level 0.05. For averages, the least distance of theirs, with the error of the numbers of units."""


@dataclasses.dataclass(frozen=True)
class Remedy:
    """A change that would make more keys stand out.

    Parameters
    ----------
    standing
        Number of keys that would then stand out.
    epsilon
        The ε that is needed, with the same sketch, bound and kind of noise.
    option
        Another of the plan's options, with the same ε.
    merged
        How many keys or windows to merge into one, of the median size of those below the noise floor.
    """

    standing: int
    epsilon: float | None = None
    option: UnitOption | None = None
    merged: int | None = None


@dataclasses.dataclass(frozen=True)
class KeyPlanner:
    """Predicts which keys stand out under an option.

    Parameters
    ----------
    facts
        What is known of units.
    units
        How many units each key has: float64, (n,).
    averages
        Whether averages are asked for, which need the number of units rather than the norm.
    """

    facts: UnitFacts
    units: Floats
    averages: bool

    def rows(self, names: Sequence[str], option: UnitOption) -> tuple[PlannedKey, ...]:
        """Return what is to be expected of each key."""
        norms = self._norms(option)
        errors = _cosine_errors(option, norms, self.facts.cosines)
        columns = self.units, np.sqrt(norms), self._below(option, norms), errors, self._visible(option, norms)
        return tuple(map(PlannedKey._make, zip(names, *(column.tolist() for column in columns), strict=True)))

    def below(self, option: UnitOption) -> Floats:
        """Return the probability of each key that it is below the noise floor, or has no average: (n,)."""
        return self._below(option, self._norms(option))

    def least_units(self, option: UnitOption, chance: float) -> float:
        """Return how many units a key has that is below the noise floor with this probability; inf for none."""
        low, high = 0.0, math.log(_MOST_UNITS)
        if self._of(option, _MOST_UNITS) > chance:
            return math.inf
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._of(option, math.exp(middle)) > chance else (low, middle)
        return math.exp(high)

    def remedies(self, chosen: UnitOption, options: Sequence[UnitOption], budget: Budget) -> list[Remedy]:
        """Return what would lift the middle one of the keys below the noise floor, as far as anything does."""
        below = self.below(chosen) >= NoiseFloor.even
        if not below.any():
            return []
        middle = float(np.median(self.units[below]))
        remedies = [self._larger_epsilon(chosen, budget, middle), self._other_option(chosen, options)]
        needed = self.least_units(chosen, NoiseFloor.even)
        if math.isfinite(needed):
            remedies.append(Remedy(int((~below).sum()), merged=math.ceil(needed / middle * (1 - 1e-9))))
        return [remedy for remedy in remedies if remedy is not None]

    def standing(self, option: UnitOption) -> int:
        """Return how many keys are more likely than not to stand out."""
        return int((self.below(option) < NoiseFloor.even).sum())

    def _larger_epsilon(self, chosen: UnitOption, budget: Budget, units: float) -> Remedy | None:
        """Return the least ε, to two digits, at which a key of so many units is likelier than not to stand out."""

        def lifted(epsilon: float) -> bool:
            return self._of(_recalibrated(chosen, Budget(epsilon, budget.delta)), units) < NoiseFloor.even

        if budget.epsilon >= _MOST_EPSILON or not lifted(_MOST_EPSILON):
            return None
        epsilon = _least(lifted, budget.epsilon, _MOST_EPSILON)
        digits = 1 - math.floor(math.log10(epsilon))
        epsilon = math.ceil(epsilon * 10**digits) / 10**digits
        option = _recalibrated(chosen, Budget(epsilon, budget.delta))
        return Remedy(self.standing(option), epsilon=epsilon)

    def _other_option(self, chosen: UnitOption, options: Sequence[UnitOption]) -> Remedy | None:
        """Return the option in which most keys stand out, if they are more than in the chosen one."""
        norms: dict[tuple[Neighbours, Clip], Floats] = {}
        counts = []
        for option in options:
            way = option.neighbours, option.clip
            norms[way] = norms[way] if way in norms else self._norms(option)
            counts.append(int((self._below(option, norms[way]) < NoiseFloor.even).sum()))
        most = max(counts)
        if most <= self.standing(chosen):
            return None
        best = min(
            (option for option, count in zip(options, counts, strict=True) if count == most),
            key=lambda option: option.error,
        )
        return Remedy(most, option=best)

    def _norms(self, option: UnitOption) -> Floats:
        weights, kept = clipped(self.facts, option.neighbours, option.clip)
        return np.maximum(self.facts.squared_norms(self.units, weights, kept), 0.0)

    def _of(self, option: UnitOption, units: float) -> float:
        """Return the probability of one key of so many units."""
        return float(dataclasses.replace(self, units=np.array([units])).below(option)[0])

    def _visible(self, option: UnitOption, norms: Floats) -> Floats:
        floor = NoiseFloor.of(option.projection, option.noise)
        if not self.averages or not option.layout.is_counted:
            return np.full(self.units.shape, floor.visible_distance())
        # each number of units is off by so many, which moves its average along itself
        units, error = self._left(option), option.layout.units_deviation(option.noise.cumulants)
        drifts = 2 * (error * np.sqrt(norms) / units) ** 2
        return np.array([floor.visible_distance(drift=drift) for drift in drifts.tolist()]) / units

    def _left(self, option: UnitOption) -> Floats:
        """Return how many units are left in each key."""
        present = self.facts.units or (1.0,)
        left = self.facts.sums(present, *clipped(self.facts, option.neighbours, option.clip)).units
        return np.asarray(self.units * float(np.mean(left) / np.mean(present)))

    def _below(self, option: UnitOption, norms: Floats) -> Floats:
        if not self.averages or not option.layout.is_counted:
            return NoiseFloor.of(option.projection, option.noise).chance(norms)
        error = option.layout.units_deviation(option.noise.cumulants)
        return np.asarray(special.ndtr(LEAST_UNITS - self._left(option) / error))


def _cosine_errors(option: UnitOption, norms: Floats, cosines: Floats) -> Floats:
    """Return the standard errors of cosines between sums of equal norms: root mean squares over several cosines."""
    x = np.maximum(norms, _TINY)[:, None]
    of_map, of_noise = cosine_variances(Columns.of([(option.projection, option.noise)]), x, x, cosines)
    return np.asarray(np.minimum(np.sqrt(np.mean(of_map + of_noise, axis=1)), 1.0))


def _recalibrated(option: UnitOption, budget: Budget) -> UnitOption:
    """Return an option with the noise of another budget."""
    sensitivity = sensitivity_of(option.projection, option.neighbours, option.layout)
    return dataclasses.replace(option, noise=NOISES[option.mechanism].calibrated(sensitivity, budget))


def _least(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return about the least number at which a condition holds, which holds at the upper end and stays."""
    for _ in range(12):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
