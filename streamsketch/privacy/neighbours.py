"""Neighbour relations: which change of the data one privacy unit can make, and a release hides."""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

from streamsketch.core import Exact, check_int, check_text, exact_fraction, short
from streamsketch.errors import InvalidInputError

MOST_KEYS = (1 << 32) - 1  # what the exchange format carries


@dataclasses.dataclass(frozen=True)
class Neighbours(ABC):
    """Which change of the data one privacy unit can make, and a release hides.

    Parameters
    ----------
    bound
        The largest change, in the values' units. Contributions beyond it are not protected: clip them first.
    unit
        What is protected, in a word: ``"event"``, ``"flight"``, ``"user"``.
    max_keys
        How many sketches one unit may touch, each by at most ``bound``, where many keys' sketches are released
        together: the guarantee then holds for all of them as one table (THEORY.md 4.2).
    """

    bound: Exact
    unit: str = "event"
    max_keys: int = 1

    kind: ClassVar[str]
    label: ClassVar[str]
    """What guarantees call it."""
    implied: ClassVar[tuple[str, ...]] = ()
    """Other kinds of which it is a case, with the same bound."""

    def __post_init__(self) -> None:
        bound = exact_fraction(self.bound, "the bound of a neighbour relation")
        if bound <= 0:
            raise InvalidInputError(f"the bound of a neighbour relation must be positive, got {short(self.bound)}")
        check_text("the privacy unit", self.unit)
        object.__setattr__(self, "max_keys", check_int(self.max_keys, "max_keys", 1, MOST_KEYS))
        object.__setattr__(self, "bound", bound)

    @abstractmethod
    def grid_steps(self, resolution: Fraction) -> int:
        """Return Δ̃, the largest ℓ1 change of the integer vector x̃, in grid steps."""

    def implies_kind(self, other: "Neighbours") -> bool:
        """Return whether a bound of this kind is one of the other kind, too: ‖x‖₂ ≤ ‖x‖₁."""
        return other.kind in {self.kind, *self.implied}

    def implies(self, other: "Neighbours") -> bool:
        """Return whether data that keep to this relation keep to the other one, whatever they hold.

        Examples
        --------
        >>> L1(3, max_keys=2).implies(L1(4, max_keys=2)), L1(3, max_keys=2).implies(L1(3))
        (True, False)
        """
        return (
            self.implies_kind(other)
            and other.unit == self.unit
            and Fraction(other.bound) >= Fraction(self.bound)
            and other.max_keys >= self.max_keys
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the relation as what JSON can hold."""
        return {"relation": self.kind, "bound": str(self.bound), "unit": self.unit, "max_keys": self.max_keys}

    @staticmethod
    def from_dict(fields: Any) -> "Neighbours":
        """Return the relation that `to_dict` returned.

        Raises
        ------
        InvalidInputError
            For other fields, an unknown relation, or values that `to_dict` does not write.
        """
        names = {"relation", "bound", "unit", "max_keys"}
        if not isinstance(fields, Mapping) or fields.keys() != names:
            raise InvalidInputError(f"neighbours are an object of {', '.join(sorted(names))}, got {short(fields)}")
        kind = fields["relation"]
        if not isinstance(kind, str) or kind not in NEIGHBOURS:
            raise InvalidInputError(f"the relation must be one of {', '.join(NEIGHBOURS)}, got {short(kind)}")
        found = NEIGHBOURS[kind](fields["bound"], fields["unit"], fields["max_keys"])
        if found.to_dict() != fields:
            raise InvalidInputError(f"the neighbours must be {found.to_dict()}, got {short(fields)}")
        return found

    def __str__(self) -> str:
        keys = "" if self.max_keys == 1 else f"in each of at most {self.max_keys} keys "
        return f"one {self.unit} of at most {self.bound} {keys}({self.label})"

    def __repr__(self) -> str:
        keys = "" if self.max_keys == 1 else f", max_keys={self.max_keys}"
        return f"{type(self).__name__}({self.bound}, unit={self.unit!r}{keys})"


@dataclasses.dataclass(frozen=True, repr=False)
class L1(Neighbours):
    """Streams of which one lacks the updates of one unit, whose absolute values sum to at most ``bound``.

    Adding or removing a unit, that is; replacing one by another is two such steps. For data on the grid it is
    ‖x - x'‖₁ ≤ bound (Stausholm 2021, Definition 1, with bound 1). Truncation toward zero gives
    Σ|q| ≤ Σ|v| / resolution, so Δ̃ = ⌊bound / resolution⌋ however many updates a unit makes.

    That is for updates that belong to **one unit each**, or are multiples of the resolution. A total of several units
    is truncated once: 1.5 + 0.5 entered as one update on a grid of 1 moves two steps when the 1.5 goes, not one. Enter
    units one by one, or round each before adding them up.

    Examples
    --------
    >>> L1(1, unit="flight")
    L1(1, unit='flight')
    """

    kind: ClassVar[str] = "l1"
    label: ClassVar[str] = "L1"
    implied: ClassVar[tuple[str, ...]] = ("l2",)

    def grid_steps(self, resolution: Fraction) -> int:
        """Return ⌊bound / resolution⌋.

        Raises
        ------
        InvalidInputError
            If that is 0: the grid would hide every protected change by rounding it away.
        """
        steps = Fraction(self.bound) // resolution
        if steps < 1:
            raise InvalidInputError(
                f"the bound {self.bound} is below one grid step of {resolution}, so every protected contribution "
                f"rounds to zero. Use a finer resolution"
            )
        return steps


@dataclasses.dataclass(frozen=True, repr=False)
class OneCoordinate(Neighbours):
    """Vectors that differ in one coordinate, by at most ``bound`` (Li and Li 2023, Definition 2.2).

    Truncation is monotone, so Δ̃ = ⌈bound / resolution⌉. That is for vectors entered with **one update a
    coordinate**, or with values that are multiples of the resolution: each update is truncated by itself, so ten
    updates of 0.9 on a grid of 1 and one update of 9 are the same real vector but nine grid steps apart.

    Examples
    --------
    >>> OneCoordinate("1/2").grid_steps(Fraction(1, 4))
    2
    """

    kind: ClassVar[str] = "one-coordinate"
    label: ClassVar[str] = "one coordinate"

    def grid_steps(self, resolution: Fraction) -> int:
        """Return ⌈bound / resolution⌉."""
        return math.ceil(Fraction(self.bound) / resolution)


@dataclasses.dataclass(frozen=True, repr=False)
class L2(Neighbours):
    """Streams of which one lacks the updates of one unit, whose vector has a Euclidean norm of at most ``bound``.

    For whole vectors, such as an embedding: ‖x - x'‖₂ ≤ bound for data on the grid. Truncation toward zero gives
    ‖q‖₂² ≤ ‖v‖₂² / resolution², so C̃ = ⌊(bound / resolution)²⌋. That is for units with **one update a coordinate**,
    or updates that are multiples of the resolution, which belong to one unit each (as in `L1`).

    A release needs a bound on the spectral norm of its map, which small domains have: `Identity`, `OPORP`, `SRHT`, and
    `SJLT` or `CountSketch` with dim · sketch_dim up to 2^26. In the hashed domain a unit could choose items that all
    meet in the same cells, and there is none better than ``L1(√m · bound)`` for units of at most m items: use that
    (THEORY.md 2.1).

    Examples
    --------
    >>> L2("3/2", unit="embedding").squared_steps(Fraction(1, 2))
    9
    """

    kind: ClassVar[str] = "l2"
    label: ClassVar[str] = "L2"

    def squared_steps(self, resolution: Fraction) -> int:
        """Return ⌊(bound / resolution)²⌋.

        Raises
        ------
        InvalidInputError
            If that is 0.
        """
        squared = math.floor((Fraction(self.bound) / resolution) ** 2)
        if squared < 1:
            raise InvalidInputError(
                f"the bound {self.bound} is below one grid step of {resolution}, so every protected contribution "
                f"rounds to zero. Use a finer resolution"
            )
        return squared

    def grid_steps(self, resolution: Fraction) -> int:
        """Raise `InvalidInputError`: a Euclidean norm bounds no sum of absolute values, whatever the resolution."""
        del resolution
        raise InvalidInputError(
            f"{self!r} bounds a Euclidean norm, and what is asked for rests on sums of absolute values: use "
            f"L1(bound) here, with √m times this bound for units of at most m items"
        )


NEIGHBOURS: dict[str, type[Neighbours]] = {relation.kind: relation for relation in (L1, L2, OneCoordinate)}
"""The relations by their names in JSON and in the exchange format."""
