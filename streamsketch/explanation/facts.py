"""What every explanation says: who is protected, and what that means, whatever was published."""

import dataclasses
import decimal
import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from streamsketch.privacy import L1, Guarantee, IndividualGuarantee
from streamsketch.projections import Projection
from streamsketch.release import NoiseCheck

_FALSE_ALARMS = 0.05
_LARGE_EPSILON = 100.0  # e^ε is finite


@dataclasses.dataclass(frozen=True)
class Explained(ABC):
    """What a release guarantees.

    It depends on what the release says of itself and on nothing in it that was measured, so releases made alike have
    equal explanations.

    Parameters
    ----------
    guarantee, projection
        Of the release.
    """

    guarantee: Guarantee | IndividualGuarantee
    projection: Projection

    enough: ClassVar[str] = "The noise is enough"

    @property
    def who(self) -> str:
        """Who is protected, by which bound."""
        near = self.guarantee.neighbours
        if isinstance(near, L1):
            change = f"one {near.unit}, in the data or not, whose values sum to at most {near.bound} in absolute value"
        else:
            change = f"one {near.unit}, which changes one coordinate by at most {near.bound}"
        if near.max_keys == 1:
            return change
        return f"{change} in each of at most {near.max_keys} keys, by the releases of all keys together"

    @property
    def meaning(self) -> str:
        """What ε and δ mean for whoever wants to find somebody out.

        A test with false alarms in a share a of cases has power min(e^ε a + δ, 1 - e^-ε (1 - δ - a)) at most
        (Kairouz, Oh and Viswanath 2015, Theorem 2.1).
        """
        epsilon, delta = self.guarantee.epsilon, self.guarantee.delta
        power = 1 - math.exp(-epsilon) * max(1 - delta - _FALSE_ALARMS, 0.0)
        if epsilon < _LARGE_EPSILON:
            power = min(power, math.exp(epsilon) * _FALSE_ALARMS + delta)
        return (
            f"no test that raises a false alarm in 5 % of cases finds out that a given "
            f"{self.guarantee.neighbours.unit} is in the data in more than {percent(100 * power)} % of them"
        )

    @property
    @abstractmethod
    def how(self) -> list[str]:
        """The mechanism, in sentences."""

    @property
    @abstractmethod
    def theorems(self) -> list[str]:
        """What the guarantee rests on."""

    @property
    @abstractmethod
    def check(self) -> NoiseCheck:
        """Whether the noise stated is enough for the guarantee."""

    @property
    @abstractmethod
    def amount(self) -> list[str]:
        """How much noise there is, in sentences."""

    @property
    @abstractmethod
    def not_protected(self) -> list[str]:
        """What the guarantee does not cover."""

    @property
    def assumed(self) -> list[str]:
        """What estimates from the release, and their intervals, rest on."""
        return [WITHIN_INTEGERS]

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as what JSON can hold: numbers, text, lists and objects."""

    def _beyond(self, alike: str) -> list[str]:
        """Return what no guarantee covers; ``alike`` is what a release is for."""
        near = self.guarantee.neighbours
        return [
            f"What one {near.unit} adds beyond the bound of {near.bound}, unless it was clipped before sketching.",
            f"All that is behind one person, if that is more than one {near.unit}: n of them spend n times ε.",
            f"Facts about many: that two {alike} are alike is what the release is for.",
            "The same data released again, here or elsewhere: that adds to ε.",
        ]


WITHIN_INTEGERS = (
    "no cell's exact sum, noise included, left the 63 bits of an integer: sums count modulo 2^64, which costs no "
    "privacy, and past that estimates mean nothing."
)
WHO_TAKES_PART = "Who takes part, and under which key: the release's existence says that much."
EXACT_SKETCH = "The exact sketch, and a process or pipeline that held it or the noise's secret."


def keys_said(guarantee: Guarantee) -> list[str]:
    """Return what share of a guarantee went into choosing the keys, in a sentence if there is one."""
    keys = guarantee.mechanism.keys
    if keys is None:
        return []
    return [f"Which keys are published was chosen privately, with ε = {keys.epsilon:g}, δ = {keys.delta:g} of it."]


def leading_digit(value: float) -> float:
    """Return a number of one digit near a positive value."""
    return float(f"{value:.0e}") if value > 0 else 1.0


def percent(percents: float) -> str:
    """Return percents with three digits or more, rounded up, though not to certainty."""
    if percents >= 100:
        return "100"
    digits, text = 2, "100"
    while float(text) >= 100:
        digits += 1
        text = f"{float(decimal.Context(digits, decimal.ROUND_CEILING).create_decimal_from_float(percents)):.{digits}g}"
    return text
