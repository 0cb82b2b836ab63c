"""What a release promises: neighbour relations, guarantees, and how guarantees add up."""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from numbers import Real
from typing import Any, ClassVar, Literal, Protocol

from streamsketch.core import Exact, exact_fraction, is_printable, short
from streamsketch.data import shared
from streamsketch.errors import InvalidInputError

Populations = Literal["disjoint", "overlapping"]

MAX_CONDITIONS = 64

_MAX_TEXT = 200
_MOST_KEYS = (1 << 32) - 1  # what the exchange format carries
_MIN_EPSILON, _MAX_EPSILON = 1e-6, 1e6  # beyond these a promise is noise or nothing


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
        together: the promise then holds for all of them as one table (THEORY.md 4.2).
    """

    bound: Exact
    unit: str = "event"
    max_keys: int = 1

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        bound = exact_fraction(self.bound, "the bound of a neighbour relation")
        if bound <= 0:
            raise InvalidInputError(f"the bound of a neighbour relation must be positive, got {short(self.bound)}")
        _check_text("the privacy unit", self.unit)
        if type(self.max_keys) is not int or not 1 <= self.max_keys <= _MOST_KEYS:
            raise InvalidInputError(f"max_keys must be an integer from 1 to {_MOST_KEYS}, got {short(self.max_keys)}")
        object.__setattr__(self, "bound", bound)

    @abstractmethod
    def grid_steps(self, resolution: Fraction) -> int:
        """Return Δ̃, the largest ℓ1 change of the integer vector x̃, in grid steps."""

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

    def grid_steps(self, resolution: Fraction) -> int:
        """Return ⌈bound / resolution⌉."""
        return math.ceil(Fraction(self.bound) / resolution)


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
        What was done, with its exact parameter, e.g. ``"discrete Laplace, scale 4"``.
    conditions
        What must be true of the data or the public seed for the promise to hold, one sentence each, nothing the library
        can check; usually none. Kept sorted, each once. They go wherever the guarantee goes.

    Examples
    --------
    >>> print(Guarantee(1.0, 0.0, L1(1), "discrete Laplace, scale 4"))
    ε = 1, δ = 0 for one event of at most 1 (L1), by discrete Laplace, scale 4
    >>> print(Guarantee(1.0, 0.0, L1(1), "a mechanism", ["no vector is zero"]))
    ε = 1, δ = 0 for one event of at most 1 (L1), by a mechanism, only if: no vector is zero
    """

    epsilon: float
    delta: float
    neighbours: Neighbours
    mechanism: str
    conditions: Sequence[str] = ()

    def __post_init__(self) -> None:
        epsilon, delta = check_budget(self.epsilon, self.delta)
        if not isinstance(self.neighbours, Neighbours):
            raise TypeError(
                f"neighbours must be L1(bound) or OneCoordinate(bound), got a {type(self.neighbours).__name__}"
            )
        _check_text("the mechanism", self.mechanism)
        object.__setattr__(self, "conditions", _checked_conditions(self.conditions))
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    def __str__(self) -> str:
        relation = "L1" if isinstance(self.neighbours, L1) else "one coordinate"
        keys = self.neighbours.max_keys
        return (
            f"ε = {_exact(self.epsilon)}, δ = {_exact(self.delta)} for one {self.neighbours.unit} of at most "
            f"{self.neighbours.bound} {'' if keys == 1 else f'in each of at most {keys} keys '}({relation}), "
            f"by {self.mechanism}{', only if: ' if self.conditions else ''}{'; '.join(self.conditions)}"
        )


def check_budget(epsilon: float, delta: float) -> tuple[float, float]:
    """Return (ε, δ) as floats; raise `InvalidInputError` unless ε is in [1e-6, 1e6] and δ in [0, 1)."""
    if not (_is_number(epsilon) and _MIN_EPSILON <= epsilon <= _MAX_EPSILON):
        raise InvalidInputError(
            f"epsilon must be a finite number > 0, from {_MIN_EPSILON:g} to {_MAX_EPSILON:g}, got {short(epsilon)}; "
            f"0.1 to 10 is usual"
        )
    if not (_is_number(delta) and 0 <= delta < 1 and float(delta) < 1):  # a fraction may be rounded up to 1
        raise InvalidInputError(f"delta must be a number in [0, 1), got {short(delta)}; far below 1 / number of units")
    return float(epsilon), float(delta) + 0.0  # no negative zero


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _exact(value: float) -> str:
    """Return a float's shortest exact text, so that no promise looks better than it is."""
    return repr(value).removesuffix(".0")


def _sum_rounded_up(values: list[float]) -> float:
    exact = sum(map(Fraction, values))
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def _check_text(name: str, text: str) -> None:
    """Keep what untrusted files may bring to a terminal short and printable."""
    if not (isinstance(text, str) and 0 < len(text) <= _MAX_TEXT and is_printable(text)):
        raise InvalidInputError(f"{name} must be 1 to {_MAX_TEXT} printable characters, got {text!a:.60}")


def _checked_conditions(conditions: Sequence[str]) -> tuple[str, ...]:
    if isinstance(conditions, str):
        raise TypeError("conditions are a sequence of sentences, got a str; put it in a list")
    for condition in conditions:
        _check_text("a condition", condition)
    found = tuple(sorted(set(conditions)))
    if len(found) > MAX_CONDITIONS:
        raise InvalidInputError(
            f"a guarantee holds under at most {MAX_CONDITIONS} conditions, got {len(found)}, and none may be dropped. "
            f"Publish with fewer different bounds"
        )
    return found


class Guaranteed(Protocol):
    """A release: what it guarantees, and the random ids of its data."""

    @property
    def guarantee(self) -> Any:
        """What is guaranteed."""

    @property
    def data_ids(self) -> Collection[bytes]:
        """Random ids of the data, empty where they are unknown."""


def compose(guarantees: Iterable[Guarantee | Guaranteed], *, populations: Populations) -> Guarantee:
    """Return the guarantee of publishing several releases together, under the conditions of all of them.

    Parameters
    ----------
    guarantees
        At least one, all for the same neighbour relation: the releases themselves, or their guarantees alone. Only
        releases can show that populations said to be disjoint share data.
    populations
        ``"disjoint"``: no privacy unit is in two of the streams, so the worst guarantee holds for all (parallel
        composition). ``"overlapping"``: units may be in several, so ε and δ add up (Dwork and Roth 2014,
        Theorem 3.16). The keys of one table, released together for ``max_keys``, are as disjoint: the promise
        of each covers all of them.

    Raises
    ------
    TypeError
        For what is no `Guarantee`: individual differential privacy does not compose.
    InvalidInputError
        For no guarantees, another value of ``populations``, guarantees for different neighbour relations, more than 64
        conditions, or releases of shared data whose populations are said to be disjoint.

    Examples
    --------
    >>> parts = [Guarantee(1.0, 0.0, L1(1), "discrete Laplace, scale 4")] * 3
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
    first = _for_one_relation(parts)
    if populations == "disjoint":
        check_unshared(getattr(part, "data_ids", ()) for part in given)
    mechanism = "; ".join(dict.fromkeys(part.mechanism for part in parts))
    if len(mechanism) > _MAX_TEXT:
        mechanism = "several mechanisms"
    if populations == "disjoint":
        epsilon, delta = max(part.epsilon for part in parts), max(part.delta for part in parts)
    else:
        epsilon = _sum_rounded_up([part.epsilon for part in parts])
        delta = _sum_rounded_up([part.delta for part in parts])
    if delta >= 1:
        raise InvalidInputError(f"the δ of these releases add up to {delta:g}: together they promise nothing")
    conditions = [condition for part in parts for condition in part.conditions]
    return Guarantee(epsilon, delta, first.neighbours, mechanism, conditions)


def _for_one_relation(parts: list[Any]) -> Guarantee:
    """Return the first of the guarantees, once all are known to be ones for the same neighbours."""
    for part in parts:
        if not isinstance(part, Guarantee):
            raise TypeError(f"only Guarantee objects compose, got a {type(part).__name__}")
        if part.neighbours != parts[0].neighbours:
            raise InvalidInputError(
                f"guarantees compose only for one neighbour relation, got {parts[0].neighbours} and "
                f"{part.neighbours}. Release all streams for the same neighbours"
            )
    first: Guarantee = parts[0]
    return first


def check_unshared(data_ids: Iterable[Collection[bytes]]) -> None:
    """Raise `InvalidInputError` if one data id is in two of the given collections."""
    if shared(data_ids):
        raise InvalidInputError(
            "two of these releases are of the same data (one sketch released twice, a copy of it, or a merge and one "
            "of its parts), so their populations are not disjoint. Use populations='overlapping'"
        )
