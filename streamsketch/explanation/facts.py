"""The parts that all explanations have: who is protected, and what that means."""

import dataclasses
import decimal
import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from streamsketch.privacy import L1, L2, Basis, Guarantee, IndividualGuarantee
from streamsketch.projections import Projection
from streamsketch.release import NoiseCheck

_FALSE_ALARMS = 0.05
_BASES: dict[Basis | None, str] = {
    "enforced": "what each adds was clipped to that bound",
    "asserted": "nothing was clipped to that bound: whoever released the data asserts that it holds",
    None: "the release does not say whether that bound was enforced or is asserted",
}
_LARGE_EPSILON = 100.0  # e^ε is finite


@dataclasses.dataclass(frozen=True)
class Explained(ABC):
    """What a release guarantees.

    It depends on the stated guarantee and parameters, not on measured values, so releases made in the same way have
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
        """The privacy unit and its bound."""
        near = self.guarantee.neighbours
        if isinstance(near, L2):
            change = f"one {near.unit}, in the data or not, whose vector has a Euclidean norm of at most {near.bound}"
        elif isinstance(near, L1):
            change = f"one {near.unit}, in the data or not, whose absolute values sum to at most {near.bound}"
        else:
            change = f"one {near.unit}, which changes one coordinate by at most {near.bound}"
        if near.max_keys > 1:
            change += f" in each of at most {near.max_keys} keys, by the releases of all keys together"
        return f"{change}; {_BASES[self.guarantee.basis]}"

    @property
    def meaning(self) -> str:
        """What ε and δ mean: the power of a test for membership."""
        return meaning_of(self.guarantee)

    @property
    @abstractmethod
    def how(self) -> list[str]:
        """The mechanism, in sentences."""

    @property
    @abstractmethod
    def theorems(self) -> list[str]:
        """The theorems that prove the guarantee."""

    @property
    @abstractmethod
    def check(self) -> NoiseCheck:
        """Whether the stated noise is enough for the guarantee."""

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
        """The assumptions of estimates and their intervals."""
        return [WITHIN_INTEGERS]

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON-serialisable objects."""

    def _beyond(self, alike: str) -> list[str]:
        """Return what no guarantee covers; ``alike`` names what releases compare."""
        near = self.guarantee.neighbours
        return [
            *(
                []
                if self.guarantee.basis == "enforced"
                else [f"What one {near.unit} adds beyond the bound of {near.bound}, where that was not clipped."]
            ),
            f"A person behind more than one {near.unit}: n of them spend n times ε.",
            f"Facts about many: the release is meant to show that two {alike} are similar.",
            "Another release of the same data, here or elsewhere: it adds to ε.",
        ]


WITHIN_INTEGERS = (
    "no cell's exact sum, including noise, exceeded 63 bits: sums wrap modulo 2^64, which costs no privacy but makes "
    "estimates meaningless."
)
WHO_TAKES_PART = "Who takes part, and under which key: the existence of the release shows it."
EXACT_SKETCH = "The exact sketch, and any process or pipeline that held it or the secret of the noise."


def meaning_of(guarantee: Guarantee | IndividualGuarantee) -> str:
    """Return what ε and δ mean: the power of a test for membership.

    A test with false alarm rate a has power at most min(e^ε a + δ, 1 - e^-ε (1 - δ - a))
    (Kairouz, Oh and Viswanath 2015, Theorem 2.1).
    """
    epsilon, delta = guarantee.epsilon, guarantee.delta
    power = 1 - math.exp(-epsilon) * max(1 - delta - _FALSE_ALARMS, 0.0)
    if epsilon < _LARGE_EPSILON:
        power = min(power, math.exp(epsilon) * _FALSE_ALARMS + delta)
    return (
        f"no test with a false alarm rate of 5 % detects that a given "
        f"{guarantee.neighbours.unit} is in the data in more than {percent(100 * power)} % of cases"
    )


def keys_said(guarantee: Guarantee) -> list[str]:
    """Return a sentence on the share of the guarantee spent on choosing the keys, if any."""
    keys = guarantee.mechanism.keys
    if keys is None:
        return []
    return [f"The published keys were chosen privately, with ε = {keys.epsilon:g}, δ = {keys.delta:g} of it."]


def leading_digit(value: float) -> float:
    """Return a positive value rounded to one significant digit."""
    return float(f"{value:.0e}") if value > 0 else 1.0


def percent(percents: float) -> str:
    """Return a percentage with three digits or more, rounded up, but to 100 only if it is 100."""
    if percents >= 100:
        return "100"
    digits, text = 2, "100"
    while float(text) >= 100:
        digits += 1
        text = f"{float(decimal.Context(digits, decimal.ROUND_CEILING).create_decimal_from_float(percents)):.{digits}g}"
    return text
