"""What a release guarantees, and how guarantees add up."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Literal

from streamsketch.core import sentences
from streamsketch.core.documents import Json
from streamsketch.core.notebooks import facts
from streamsketch.core.numbers import short
from streamsketch.core.text import check_text
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.bounds import Basis
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.mechanism import AddedNoise, Mechanism
from streamsketch.privacy.neighbours import Neighbours, check_neighbours

Populations = Literal["disjoint", "overlapping"]

MAX_CONDITIONS = 64

_OWN = {"epsilon", "delta", "mechanism", "conditions"}  # the others are the relation's
_LATER = {"steps", "basis"}  # which earlier versions did not write


@dataclasses.dataclass(frozen=True)
class Guarantee:
    """(ε, δ)-differential privacy for a neighbour relation.

    Parameters
    ----------
    epsilon
        Privacy loss bound, in nats.
    delta
        Probability with which the bound may fail. 0 is pure differential privacy.
    neighbours
        The neighbour relation for which it holds.
    mechanism
        The mechanism with its exact parameters, whose text is like ``discrete Laplace, scale 4``.
    conditions
        Conditions on the data or the public seed under which the guarantee holds, one sentence each. The library does
        not check them. Usually empty. They are sorted, without duplicates, and stay with the guarantee.
    basis
        Whether the bound of ``neighbours`` was ``"enforced"``, by clipping what each unit adds, or is ``"asserted"`` by
        the party that released the data. None before a release, and for releases older than this field.

    Raises
    ------
    TypeError, InvalidInputError
        If a number is out of range or has a wrong type, or the mechanism counts units under neighbours for which no
        count is proven (`Counting.check_for`).

    Examples
    --------
    >>> from fractions import Fraction
    >>> from streamsketch.privacy import L1
    >>> from streamsketch.privacy.laplace import DiscreteLaplace
    >>> print(Guarantee(1.0, 0.0, L1(1), Mechanism.of_noise(DiscreteLaplace(Fraction(4)))))
    ε = 1, δ = 0 for one event of at most 1 (L1), by discrete Laplace, scale 4
    >>> print(Guarantee(1.0, 0.0, L1(1), Mechanism.stated("a mechanism"), ["no vector is zero"]))
    ε = 1, δ = 0 for one event of at most 1 (L1), by a mechanism, only if: no vector is zero
    """

    epsilon: float
    delta: float
    neighbours: Neighbours
    mechanism: Mechanism
    conditions: Sequence[str] = ()
    basis: Basis | None = None

    def __post_init__(self) -> None:
        budget = Budget(self.epsilon, self.delta)
        check_neighbours(self.neighbours)
        if not isinstance(self.mechanism, Mechanism):
            raise TypeError(
                f"the mechanism of a guarantee must be a Mechanism, got a {type(self.mechanism).__name__}. For a "
                "mechanism that is known only by its text, use Mechanism.stated(text)"
            )
        if self.basis not in (None, "enforced", "asserted"):
            raise InvalidInputError(f"a bound is 'enforced' or 'asserted', got {short(self.basis)}")
        for step in self.mechanism.steps:
            if isinstance(step, AddedNoise):
                step.layout.check_for(self.neighbours)
        object.__setattr__(self, "conditions", _checked_conditions(self.conditions))
        object.__setattr__(self, "epsilon", budget.epsilon)
        object.__setattr__(self, "delta", budget.delta)

    @classmethod
    def of(
        cls,
        budget: Budget,
        neighbours: Neighbours,
        mechanism: Mechanism,
        conditions: Sequence[str] = (),
        basis: Basis | None = None,
    ) -> "Guarantee":
        """Return the guarantee of a budget."""
        return cls(budget.epsilon, budget.delta, neighbours, mechanism, conditions, basis)

    def on(self, basis: Basis, conditions: Sequence[str] = ()) -> "Guarantee":
        """Return the guarantee of data on which the bound was enforced, or of which it is asserted."""
        return dataclasses.replace(self, basis=basis, conditions=[*self.conditions, *conditions])

    @property
    def budget(self) -> Budget:
        """ε and δ together."""
        return Budget(self.epsilon, self.delta)

    def to_dict(self) -> Json:
        """Return the guarantee as what JSON can hold; ``"mechanism"`` is for people, ``"steps"`` its exact record."""
        return {
            **self.budget.to_dict(),
            **self.neighbours.to_dict(),
            "mechanism": str(self.mechanism),
            "steps": self.mechanism.to_list(),
            "conditions": list(self.conditions),
            "basis": self.basis,
        }

    @classmethod
    def from_dict(cls, fields: object) -> "Guarantee":
        """Return the guarantee that `to_dict` wrote.

        Earlier versions wrote no ``"steps"``, and before that no ``"basis"``. The mechanism is then known only by its
        text.

        Raises
        ------
        InvalidInputError
            For other fields, or values that `to_dict` does not write.

        Examples
        --------
        >>> from fractions import Fraction
        >>> from streamsketch.privacy import L1
        >>> from streamsketch.privacy.laplace import DiscreteLaplace
        >>> guarantee = Guarantee(1.0, 0.0, L1(1), Mechanism.of_noise(DiscreteLaplace(Fraction(4))))
        >>> Guarantee.from_dict(guarantee.to_dict()) == guarantee
        True
        """
        if not isinstance(fields, Mapping) or not fields.keys() >= _OWN:
            needed = ", ".join(sorted({*_OWN, "relation", "bound", "unit", "max_keys"}))
            raise InvalidInputError(f"a guarantee is an object of {needed}, got {short(fields)}")
        steps, conditions = fields.get("steps", [{"text": fields["mechanism"]}]), fields["conditions"]
        if not isinstance(conditions, list):
            raise InvalidInputError(f"the conditions of a guarantee are a list, got {short(conditions)}")
        neighbours = Neighbours.from_dict({name: fields[name] for name in fields.keys() - _OWN - _LATER})
        mechanism, basis = Mechanism.from_list(steps), fields.get("basis")
        guarantee = cls(fields["epsilon"], fields["delta"], neighbours, mechanism, conditions, basis)
        written = guarantee.to_dict()
        if written != {"steps": steps, "basis": None, **fields}:
            raise InvalidInputError(f"the guarantee must be {short(written)}, got {short(fields)}")
        return guarantee

    def to_json(self) -> str:
        """Return the guarantee as canonical JSON: `to_dict` without ``"steps"`` and without fields that are None.

        Noise is keyed by this text, so fields added later must not change it.
        """
        fields = {name: value for name, value in self.to_dict().items() if value is not None and name != "steps"}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    def __str__(self) -> str:
        conditions = sentences.ONLY_IF.format(conditions="; ".join(self.conditions)) if self.conditions else ""
        stated = self.neighbours.when_enforced if self.basis == "enforced" else self.basis
        basis = "" if stated is None else f", {stated}"
        return sentences.GUARANTEE.format(
            budget=self.budget, neighbours=self.neighbours, basis=basis, mechanism=self.mechanism, conditions=conditions
        )

    def _repr_html_(self) -> str:
        basis = {"enforced": "enforced on the data", "asserted": "asserted"}.get(self.basis or "", "not stated")
        rows: list[tuple[object, object]] = [
            ("budget", self.budget),
            ("protects", self.neighbours),
            ("bound", basis),
            ("mechanism", self.mechanism),
        ]
        rows += [("only if", self.conditions)] if self.conditions else []
        return facts("Guarantee", rows)


def _checked_conditions(conditions: Sequence[str]) -> tuple[str, ...]:
    if isinstance(conditions, str):
        raise TypeError("conditions are a sequence of sentences, got a str; put it in a list")
    for condition in conditions:
        check_text("a condition", condition)
    distinct = tuple(sorted(set(conditions)))
    if len(distinct) > MAX_CONDITIONS:
        raise InvalidInputError(
            f"a guarantee has at most {MAX_CONDITIONS} conditions, got {len(distinct)}; none may be dropped. Publish "
            "with fewer different bounds"
        )
    return distinct
