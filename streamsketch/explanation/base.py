"""What all explanations have in common: their sections, the layout of 80 columns, and the fields of JSON."""

import dataclasses
import decimal
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from streamsketch.core import sentences
from streamsketch.core.documents import Json
from streamsketch.core.notebooks import ShownAsText
from streamsketch.core.text import aligned, filled
from streamsketch.privacy.bounds import Basis
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.products import Registry
from streamsketch.projections.base import Projection
from streamsketch.release.checking.noise import NoiseCheck, Verdict

_FALSE_ALARMS = 0.05
_BASES: dict[Basis | None, str] = {
    "enforced": sentences.BASIS_ENFORCED,
    "asserted": sentences.BASIS_ASSERTED,
    None: sentences.BASIS_UNKNOWN,
}
_LARGE_EPSILON = 100.0  # e^ε is finite
_LABELS = 11  # columns
_SUMS = 1e-12  # what sums of floats are off
_UP = decimal.Context(prec=6, rounding=decimal.ROUND_CEILING)
_VERDICTS: dict[Verdict, str] = {"too little": sentences.WARNING, "not checked": sentences.NOT_CHECKED}


@dataclasses.dataclass(frozen=True)
class BaseExplanation(ShownAsText, ABC):
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

    enough: ClassVar[str] = sentences.NOISE_IS_ENOUGH

    @property
    def who(self) -> str:
        """The privacy unit and its bound."""
        windows = isinstance(self.guarantee, Guarantee) and self.guarantee.mechanism.layout.many_windows
        change = self.guarantee.neighbours.described(enforced=self.guarantee.basis == "enforced", windows=windows)
        return f"{change}; {_BASES[self.guarantee.basis]}"

    @property
    def meaning(self) -> str:
        """What ε and δ mean for the power of a test for membership."""
        return meaning_of(self.guarantee)

    @property
    @abstractmethod
    def mechanism(self) -> list[str]:
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
    def warnings(self) -> list[str]:
        """What to be warned of, in sentences; empty if there is nothing."""
        guarantee, check = self.guarantee, self.check
        warnings = [f"{weakness}." for weakness in Budget(guarantee.epsilon, guarantee.delta).weaknesses]
        if isinstance(guarantee, IndividualGuarantee):
            warnings.insert(0, sentences.INDIVIDUAL)
        if guarantee.conditions:
            warnings.append(sentences.HOLDS_ONLY_IF.format(conditions="; ".join(guarantee.conditions)))
        if check.verdict == "too little":
            warnings.append(sentences.TOO_LITTLE_NOISE.format(reason=check.reason))
        if guarantee.basis == "asserted":
            warnings.append(sentences.NOTHING_CLIPPED.format(bound=guarantee.neighbours.bound))
        return warnings

    @property
    def assumed(self) -> list[str]:
        """The assumptions of estimates and their intervals."""
        return [WITHIN_INTEGERS]

    @property
    def sections(self) -> list[tuple[str, list[str]]]:
        """The guarantee as sentences under short headings."""
        conditions = [f"{condition}." for condition in self.guarantee.conditions]
        verdict = _VERDICTS.get(self.check.verdict, self.enough)
        return [
            ("Guarantee", [f"{self.guarantee}."]),
            ("Protected", [f"{self.who}."]),
            *([("Only if", conditions)] if conditions else []),
            ("Meaning", [f"{self.meaning}."]),
            ("How", self.mechanism),
            (
                "Theorem",
                [f"{theorem}." for theorem in self.theorems] or ["none is known for a mechanism given as text."],
            ),
            ("Check", [f"{verdict}: {self.check.reason}.", sentences.NOT_SHOWN]),
            ("Noise", self.amount),
            (
                "Estimates",
                [
                    f"assume that {self.assumed[0]}",
                    *(f"They assume that {assumption}" for assumption in self.assumed[1:]),
                ],
            ),
        ]

    @abstractmethod
    def to_dict(self) -> Json:
        """Return the explanation as JSON-serialisable objects."""

    def _common_fields(self) -> Json:
        """Return the fields that all explanations have, except ``not_protected``, which comes last."""
        return {
            "guarantee": self.guarantee.to_dict(),
            "protected": self.who,
            "meaning": self.meaning,
            "how": self.mechanism,
            "theorems": self.theorems,
            "check": {"verdict": self.check.verdict, "reason": self.check.reason},
            "assumed": self.assumed,
            "projection": json.loads(self.projection.to_json()),
        }

    def _text(self, heading: str, rows: Sequence[Sequence[str]]) -> str:
        """Return the sections, a table under its heading if there is one, and what is not protected."""
        lines = [
            filled(" ".join(sentences), first=label.ljust(_LABELS), indent=" " * _LABELS)
            for label, sentences in self.sections
        ]
        if rows:
            lines.append(heading)
            lines += [f"{' ' * _LABELS}{line}" for line in aligned(rows, left=0).splitlines()]
        lines.append("Not protected")
        lines += [filled(sentence, first="- ", indent="  ") for sentence in self.not_protected]
        return "\n".join(lines)

    def _beyond(self, alike: str) -> list[str]:
        """Return what no guarantee covers; ``alike`` names what releases compare."""
        unit, bound = self.guarantee.neighbours.unit, self.guarantee.neighbours.bound
        return [
            *([] if self.guarantee.basis == "enforced" else [sentences.BEYOND_BOUND.format(unit=unit, bound=bound)]),
            sentences.MORE_UNITS.format(unit=unit),
            sentences.FACTS_ABOUT_MANY.format(alike=alike),
            sentences.ANOTHER_RELEASE,
        ]


EXPLANATIONS: Registry[Callable[[Any], BaseExplanation]] = Registry("explanation")
"""What explains one release, by the ``magic`` of its class."""


WITHIN_INTEGERS = (
    "no cell's exact sum, including noise, exceeded 63 bits: sums wrap modulo 2^64, which costs no privacy but makes "
    "estimates meaningless."
)


def meaning_of(guarantee: Guarantee | IndividualGuarantee) -> str:
    """Return what ε and δ mean: the power of a test for membership.

    A test with false alarm rate a has power at most min(e^ε a + δ, 1 - e^-ε (1 - δ - a))
    (Kairouz, Oh and Viswanath 2015, Theorem 2.1).
    """
    epsilon, delta = guarantee.epsilon, guarantee.delta
    power = 1 - math.exp(-epsilon) * max(1 - delta - _FALSE_ALARMS, 0.0)
    if epsilon < _LARGE_EPSILON:
        power = min(power, math.exp(epsilon) * _FALSE_ALARMS + delta)
    return sentences.MEANING.format(unit=guarantee.neighbours.unit, percent=percent(100 * power))


def key_selection_sentence(guarantee: Guarantee) -> list[str]:
    """Return a sentence on the share of the guarantee spent on choosing the keys, if any."""
    keys = guarantee.mechanism.keys
    if keys is None:
        return []
    return [sentences.CHOSEN_KEYS.format(epsilon=f"{keys.epsilon:g}", delta=f"{keys.delta:g}")]


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


def format_rounded_up(budget: float) -> str:
    """Return an ε or δ with up to six digits, rounded up, so that no guarantee looks better than it is.

    Examples
    --------
    >>> format_rounded_up(0.1 + 0.2), format_rounded_up(1.234561)
    ('0.3', '1.23457')
    """
    text = f"{budget:.6g}"
    if float(text) >= budget * (1 - _SUMS):
        return text
    return f"{float(_UP.create_decimal_from_float(budget)):.6g}"


def budget_text(epsilon: float, delta: float) -> str:
    """Return ε and δ for people, rounded up.

    Examples
    --------
    >>> budget_text(0.1 + 0.2, 1e-6)
    'ε = 0.3, δ = 1e-06'
    """
    return sentences.BUDGET.format(epsilon=format_rounded_up(epsilon), delta=format_rounded_up(delta))
