"""What a release guarantees: neighbour relations, guarantees, and how guarantees add up."""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal

from streamsketch.core import Exact, check_text, exact_fraction, short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.counting import Release, places_that_count, sharing_data
from streamsketch.privacy.mechanism import Mechanism

Populations = Literal["disjoint", "overlapping"]

MAX_CONDITIONS = 64

_MOST_KEYS = (1 << 32) - 1  # what the exchange format carries


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

    def __post_init__(self) -> None:
        bound = exact_fraction(self.bound, "the bound of a neighbour relation")
        if bound <= 0:
            raise InvalidInputError(f"the bound of a neighbour relation must be positive, got {short(self.bound)}")
        check_text("the privacy unit", self.unit)
        if type(self.max_keys) is not int or not 1 <= self.max_keys <= _MOST_KEYS:
            raise InvalidInputError(f"max_keys must be an integer from 1 to {_MOST_KEYS}, got {short(self.max_keys)}")
        object.__setattr__(self, "bound", bound)

    @abstractmethod
    def grid_steps(self, resolution: Fraction) -> int:
        """Return Δ̃, the largest ℓ1 change of the integer vector x̃, in grid steps."""

    def to_dict(self) -> dict[str, Any]:
        """Return the relation as what JSON can hold."""
        return {"relation": self.kind, "bound": str(self.bound), "unit": self.unit, "max_keys": self.max_keys}

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


@dataclasses.dataclass(frozen=True)
class Guarantee:
    """(ε, δ)-differential privacy for a neighbour relation.

    Parameters
    ----------
    epsilon
        Privacy loss bound, in nats.
    delta
        Probability with which the bound may fail; 0 is pure differential privacy.
    neighbours
        The relation under which it holds.
    mechanism
        What was done, with its exact parameter; its text is like ``discrete Laplace, scale 4``.
    conditions
        What must be true of the data or the public seed for the guarantee to hold, one sentence each; the library
        checks none of it. Usually empty. Kept sorted, each once. They go wherever the guarantee goes.

    Examples
    --------
    >>> from streamsketch.privacy import DiscreteLaplace
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

    def __post_init__(self) -> None:
        budget = Budget(self.epsilon, self.delta)
        if not isinstance(self.neighbours, Neighbours):
            raise TypeError(
                f"neighbours must be L1(bound), L2(bound) or OneCoordinate(bound), got a "
                f"{type(self.neighbours).__name__}"
            )
        if not isinstance(self.mechanism, Mechanism):
            raise TypeError(
                f"the mechanism of a guarantee must be a Mechanism, got a {type(self.mechanism).__name__}; of one that "
                f"is known by its text alone, Mechanism.stated(text)"
            )
        object.__setattr__(self, "conditions", _checked_conditions(self.conditions))
        object.__setattr__(self, "epsilon", budget.epsilon)
        object.__setattr__(self, "delta", budget.delta)

    @classmethod
    def of(
        cls, budget: Budget, neighbours: Neighbours, mechanism: Mechanism, conditions: Sequence[str] = ()
    ) -> "Guarantee":
        """Return the guarantee of a budget."""
        return cls(budget.epsilon, budget.delta, neighbours, mechanism, conditions)

    @property
    def budget(self) -> Budget:
        """ε and δ together."""
        return Budget(self.epsilon, self.delta)

    def to_dict(self) -> dict[str, Any]:
        """Return the guarantee as what JSON can hold: numbers, text and a list."""
        return {
            **self.budget.to_dict(),
            **self.neighbours.to_dict(),
            "mechanism": str(self.mechanism),
            "conditions": list(self.conditions),
        }

    def __str__(self) -> str:
        conditions = f", only if: {'; '.join(self.conditions)}" if self.conditions else ""
        return f"{self.budget} for {self.neighbours}, by {self.mechanism}{conditions}"


def _checked_conditions(conditions: Sequence[str]) -> tuple[str, ...]:
    if isinstance(conditions, str):
        raise TypeError("conditions are a sequence of sentences, got a str; put it in a list")
    for condition in conditions:
        check_text("a condition", condition)
    found = tuple(sorted(set(conditions)))
    if len(found) > MAX_CONDITIONS:
        raise InvalidInputError(
            f"a guarantee holds under at most {MAX_CONDITIONS} conditions, got {len(found)}, and none may be dropped. "
            f"Publish with fewer different bounds"
        )
    return found


def compose(guarantees: Iterable[Guarantee | Release], *, populations: Populations) -> Guarantee:
    """Return the guarantee of publishing several releases together, under the conditions of all of them.

    Parameters
    ----------
    guarantees
        At least one, all for the same neighbour relation: the releases and tables themselves, or their guarantees
        alone. A table is one release. Only releases can show that one can be computed from others, and spends nothing
        more (a copy, a row beside its table, a sum beside all of its parts), or that populations said to be disjoint
        share data.
    populations
        ``"disjoint"``: no privacy unit is in two of the streams, so the worst guarantee holds for all (parallel
        composition). ``"overlapping"``: units may be in several, so ε and δ add up (Dwork and Roth 2014,
        Theorem 3.16).

    Raises
    ------
    TypeError
        For what is no `Guarantee`: individual differential privacy does not compose.
    InvalidInputError
        For no guarantees, another value of ``populations``, guarantees for different neighbour relations, more than 64
        conditions, or releases of shared data whose populations are said to be disjoint.

    Examples
    --------
    >>> parts = [Guarantee(1.0, 0.0, L1(1), Mechanism.stated("a mechanism"))] * 3
    >>> compose(parts, populations="overlapping").epsilon
    3.0
    >>> compose(parts, populations="disjoint").epsilon
    1.0
    """
    given = list(guarantees)
    parts: list[Any] = [getattr(part, "guarantee", part) for part in given]
    if populations not in ("disjoint", "overlapping"):
        raise InvalidInputError(
            f"populations must be 'disjoint' (no privacy unit is in two streams) or 'overlapping', got {populations!r}"
        )
    if not parts:
        raise InvalidInputError("there is no guarantee to compose; give at least one")
    neighbours = _for_one_relation(parts).neighbours
    if populations == "disjoint" and (sharing := sharing_data(given)):
        first, second = sharing[0]
        raise InvalidInputError(
            f"releases {first + 1} and {second + 1} of {len(given)} are of the same data (one sketch released twice, a "
            f"copy of it, or a sum and one of its parts), so their populations are not disjoint. Use "
            f"populations='overlapping'"
        )
    parts = [parts[place] for place in places_that_count(given)]
    mechanism = Mechanism.together(part.mechanism for part in parts)
    combined = Budget.largest if populations == "disjoint" else Budget.total
    budget = combined([part.budget for part in parts])
    conditions = [condition for part in parts for condition in part.conditions]
    return Guarantee.of(budget, neighbours, mechanism, conditions)


def _for_one_relation(parts: list[Any]) -> Guarantee:
    """Return the first of the guarantees, once all are known to be ones for the same neighbours."""
    for part in parts:
        if not isinstance(part, Guarantee):
            raise TypeError(f"only Guarantee objects compose, got a {type(part).__name__}")
        if part.neighbours != parts[0].neighbours:
            raise InvalidInputError(
                f"guarantees compose only for one neighbour relation, got {parts[0].neighbours!r} and "
                f"{part.neighbours!r}. Release all streams for the same neighbours"
            )
    first: Guarantee = parts[0]
    return first
