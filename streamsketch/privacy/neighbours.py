"""Neighbour relations: which change of the data one privacy unit can make, and a release hides."""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from streamsketch.core import Exact, check_int, check_text, exact_fraction, short
from streamsketch.errors import InvalidInputError

MOST_KEYS = (1 << 32) - 1  # what the exchange format carries
_MOST_STEPS = 1 << 31  # of a sketch's norm: its square fits int64
_ROOT_DIGITS = 7  # of a square root that is rounded up to a decimal

Clip: TypeAlias = Literal["scale", "cut", "equal"]
"""How what a unit adds is brought within a bound: shrunk as a whole, some of it dropped, or all units at one length."""


class Cells(Protocol):
    """What a relation asks of a projection: what one grid step of a cell is in data units, exactly."""

    @property
    def scale_squared(self) -> Fraction:
        """The square of the public scale."""

    @property
    def grid(self) -> Fraction:
        """The resolution."""


@dataclasses.dataclass(frozen=True)
class Neighbours(ABC):
    """The change of the data that one privacy unit can make, and that a release hides.

    Parameters
    ----------
    bound
        The largest change, in the values' units. Contributions beyond it are not protected, so clip them first. Values
        are the numbers that are read: under an agreement, a float is the multiple of the resolution that rounds to it,
        such as 0.3, if there is one. Otherwise a float is its exact binary value.
    unit
        The name of what is protected: ``"event"``, ``"flight"``, ``"user"``.
    max_keys
        The number of sketches that one unit may touch, each by at most ``bound``, if the sketches of many keys are
        released together. The guarantee then holds for all of them as one table (Theory 4.2).
    """

    bound: Exact
    unit: str = "event"
    max_keys: int = 1

    kind: ClassVar[str]
    label: ClassVar[str]
    """What guarantees call it."""
    implied: ClassVar[tuple[str, ...]] = ()
    """Other kinds of which it is a case, with the same bound."""
    clips: ClassVar[tuple[Clip, ...]] = ()
    """How units can be clipped to it, the default first."""
    when_enforced: ClassVar[str] = "enforced"
    """What guarantees say of data that were clipped to it."""

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

    def check_steps(self, projection: Cells) -> None:
        """Raise `InvalidInputError` if the bound is below one step of the projection's grid."""
        self.grid_steps(projection.grid)

    def check_clip(self, clip: str) -> None:
        """Raise `InvalidInputError` if units cannot be clipped to this relation in this way."""
        if clip not in self.clips:
            known = " or ".join(f"clip={way!r}" for way in self.clips) or "nothing: it is not one of units' totals"
            raise InvalidInputError(f"units are clipped to {type(self).__name__} by {known}, got {short(clip)}")

    @property
    def units(self) -> str:
        """The unit in the plural, such as "customers" or "customers in at most 3 of 52 windows"."""
        within = next((one for one in (" in one ", " in at most ") if one in self.unit), "")
        who, _, span = self.unit.partition(within) if within else (self.unit, "", "")
        return f"{who}s{within}{span}"

    @property
    def any_keys(self) -> bool:
        """Whether a unit may be in any number of keys."""
        return False

    def in_windows(self, count: int) -> "Neighbours":
        """Return the relation of data in which a unit is in up to ``count`` windows and keeps to this bound in each.

        The windows of a key count as keys of their own.

        Raises
        ------
        InvalidInputError
            If there would be too many keys to count.

        Examples
        --------
        >>> L1(3, max_keys=2).in_windows(4), SketchL2(3).in_windows(4)
        (L1(3, unit='event', max_keys=8), SketchL2(6, unit='event'))
        """
        return dataclasses.replace(self, max_keys=self.max_keys * count)

    def implies_kind(self, other: "Neighbours") -> bool:
        """Return whether a bound of this kind is also one of the other kind, as ‖x‖₂ ≤ ‖x‖₁ shows."""
        return other.kind in {self.kind, *self.implied}

    def implies(self, other: "Neighbours") -> bool:
        """Return whether all data that keep to this relation also keep to the other one.

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
        """Return the relation as a dict that JSON can hold."""
        return {"relation": self.kind, "bound": str(self.bound), "unit": self.unit, "max_keys": self.max_keys}

    @staticmethod
    def from_dict(fields: Any) -> "Neighbours":
        """Return the relation that `to_dict` wrote.

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
    """Streams that differ by the updates of one unit, whose absolute values sum to at most ``bound``.

    One stream has the unit and the other does not; replacing one unit by another is two such steps. For data on the
    grid, ‖x - x'‖₁ ≤ bound (Stausholm 2021, Definition 1, with bound 1). Truncation toward zero gives Σ|q| ≤ Σ|v| /
    resolution, so Δ̃ = ⌊bound / resolution⌋ for any number of updates of the unit.

    This holds for updates that belong to **one unit each**, or are multiples of the resolution. A total of several
    units is truncated only once: if 1.5 + 0.5 is entered as one update on a grid of 1, removing the 1.5 moves it by two
    steps, not one. Enter units one by one, or round each before adding them up.

    Examples
    --------
    >>> L1(1, unit="flight")
    L1(1, unit='flight')
    """

    kind: ClassVar[str] = "l1"
    label: ClassVar[str] = "L1"
    implied: ClassVar[tuple[str, ...]] = ("l2",)
    clips: ClassVar[tuple[Clip, ...]] = ("scale", "cut")

    def grid_steps(self, resolution: Fraction) -> int:
        """Return ⌊bound / resolution⌋.

        Raises
        ------
        InvalidInputError
            If that is 0, because the grid would round every protected change away.
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

    Truncation is monotone, so Δ̃ = ⌈bound / resolution⌉. This holds for vectors that are entered with **one update per
    coordinate**, or with values that are multiples of the resolution. Each update is truncated by itself: on a grid of
    1, ten updates of 0.9 and one update of 9 are the same real vector, but nine grid steps apart. The bound is one on
    the numbers that are read, as in `Neighbours`: between the float 0.3, which an agreement reads as 3/10, and one that
    is a little less than 0.1, there is more than 1/5.

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
    """Streams that differ by the updates of one unit, whose vector has a Euclidean norm of at most ``bound``.

    It is for whole vectors, such as an embedding: ‖x - x'‖₂ ≤ bound for data on the grid. Truncation toward zero gives
    ‖q‖₂² ≤ ‖v‖₂² / resolution², so C̃ = ⌊(bound / resolution)²⌋. This holds for units with **one update per
    coordinate**, or with updates that are multiples of the resolution, each of one unit (as in `L1`).

    A release needs a bound on the spectral norm of its map, which exists for small domains: `Identity`, `OPORP`,
    `SRHT`, and `SJLT` or `CountSketch` with dim · sketch_dim up to 2^26. In the hashed domain, a unit could choose
    items that all fall into the same cells; no bound is then better than ``L1(√m · bound)`` for units of at most m
    items (Theory 2.1). `SketchL2` bounds the change of the sketch instead, for any map.

    Examples
    --------
    >>> L2("3/2", unit="embedding").squared_steps(Fraction(1, 2))
    9
    """

    kind: ClassVar[str] = "l2"
    label: ClassVar[str] = "L2"
    clips: ClassVar[tuple[Clip, ...]] = ("scale",)

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
        """Raise `InvalidInputError`, because a Euclidean norm bounds no sum of absolute values."""
        del resolution
        raise InvalidInputError(
            f"{self!r} bounds a Euclidean norm, but this needs a bound on a sum of absolute values: use L1(bound) "
            "here, with √m times this bound for units of at most m items"
        )

    def check_steps(self, projection: Cells) -> None:
        """Raise `InvalidInputError` if the bound is below one step of the projection's grid."""
        self.squared_steps(projection.grid)


@dataclasses.dataclass(frozen=True, repr=False)
class SketchL2(Neighbours):
    """Streams that differ by one unit, which changes the **exact sketches** by an ℓ2 norm of at most ``bound``.

    The norm is over the cells of all keys and windows of a release together: ‖S x - S x'‖₂ ≤ bound in data units. The
    bound is on the unit's sketch, not on its rows. Once the sketch is clipped to it, it holds for every map, for any
    indices, hashed ones too, and whatever the rows hold. `bound` and, on Beam, `BoundContributions` clip in integers. A
    map that preserves norms gives a unit with m different items a sketch of norm about √m; an `L1` bound would be m.

    Cells are integers, so the squared distance in grid steps is at most ⌊(bound / cell_unit)²⌋, with cell_unit = scale
    · resolution (Theory 2.2). Gaussian noise hides that much for any number of keys: release with δ > 0. Laplace noise,
    and everything else that depends on sums of absolute values, needs ``max_keys`` and is much wider: k cells in m keys
    move by √(k·m) times as much.

    Parameters
    ----------
    bound
        The largest ℓ2 norm, in the values' units. With ``clip="equal"`` every unit has this length, and any bound gives
        the same cosines.
    unit
        The name of what is protected.
    max_keys
        The number of keys that one unit may be in, by default any number. The bound holds for all of them together.

    Examples
    --------
    >>> print(SketchL2(4, unit="customer"))
    one customer of at most 4 (L2 of sketches)
    >>> print(SketchL2(4, unit="customer", max_keys=13))
    one customer of at most 4 in at most 13 keys together (L2 of sketches)
    """

    bound: Exact = 1
    max_keys: int = MOST_KEYS

    kind: ClassVar[str] = "sketch-l2"
    label: ClassVar[str] = "L2 of sketches"
    clips: ClassVar[tuple[Clip, ...]] = ("scale", "equal")
    when_enforced: ClassVar[str] = "enforced whatever its rows hold"

    @property
    def any_keys(self) -> bool:
        """Whether a unit may be in any number of keys."""
        return self.max_keys == MOST_KEYS

    def squared_cell_steps(self, projection: Cells) -> int:
        """Return ⌊(bound / cell_unit)²⌋, the largest change of all cells by one unit, in squared grid steps.

        Raises
        ------
        InvalidInputError
            If that is 0, because so coarse a grid would round every unit away, or if it is 2^62 or more.
        """
        unit_squared = projection.scale_squared * projection.grid**2
        squared = math.floor(Fraction(self.bound) ** 2 / unit_squared)
        if not 1 <= squared < _MOST_STEPS**2:
            wrong, remedy = ("below one grid step", "finer") if squared < 1 else ("2**31 grid steps or more", "coarser")
            raise InvalidInputError(
                f"the bound {self.bound} on the L2 norm of a sketch is {wrong} of its cells, each of "
                f"{math.sqrt(unit_squared):.4g} at a resolution of {projection.grid}. Use a {remedy} resolution"
            )
        return squared

    def cell_steps(self, projection: Cells) -> int:
        """Return ⌊bound / cell_unit⌋ exactly, the ℓ2 norm of a clipped unit's cells in grid steps.

        Raises
        ------
        InvalidInputError
            As in `squared_cell_steps`.

        Examples
        --------
        >>> from streamsketch import SJLT
        >>> SketchL2(3).cell_steps(SJLT(sketch_dim=64, sparsity=4, seed=7, resolution="1/1024"))
        6144
        """
        return math.isqrt(self.squared_cell_steps(projection))

    def check_steps(self, projection: Cells) -> None:
        """Raise `InvalidInputError` if the bound is below one step of the projection's grid."""
        self.squared_cell_steps(projection)

    def grid_steps(self, resolution: Fraction) -> int:
        """Raise `InvalidInputError`, because a norm of sketches bounds nothing before the map."""
        del resolution
        raise InvalidInputError(
            f"{self!r} bounds what a unit changes in the exact sketch, but this needs a bound on what it changes in "
            "the data: use L1(bound) or OneCoordinate(bound) here, or noise on the cells, as Sketch.release adds"
        )

    def in_windows(self, count: int) -> "SketchL2":
        """Return the relation of a unit in up to ``count`` windows, whose bound is √count times as large."""
        bound = _root_above(Fraction(self.bound) ** 2 * count)
        return dataclasses.replace(self, bound=bound, max_keys=min(self.max_keys * count, MOST_KEYS))

    def __str__(self) -> str:
        keys = "in one key " if self.max_keys == 1 else f"in at most {self.max_keys} keys together "
        return f"one {self.unit} of at most {self.bound} {'' if self.any_keys else keys}({self.label})"

    def __repr__(self) -> str:
        keys = "" if self.any_keys else f", max_keys={self.max_keys}"
        return f"SketchL2({self.bound}, unit={self.unit!r}{keys})"


def _root_above(square: Fraction) -> Fraction:
    """Return a square root, exact if it is a fraction, else rounded up to six decimal digits or more."""
    top, bottom = math.isqrt(square.numerator), math.isqrt(square.denominator)
    if top**2 == square.numerator and bottom**2 == square.denominator:
        return Fraction(top, bottom)
    parts = 10 ** max(0, _ROOT_DIGITS - len(str(math.isqrt(math.ceil(square)))))
    return Fraction(math.isqrt(math.ceil(square * parts**2) - 1) + 1, parts)


NEIGHBOURS: dict[str, type[Neighbours]] = {relation.kind: relation for relation in (L1, L2, SketchL2, OneCoordinate)}
"""The relations by their names in JSON and in the exchange format."""


def check_delta_for(neighbours: Neighbours, delta: float, mechanism: str) -> None:
    """Raise `InvalidInputError` for Laplace noise on a bound on sketches, unless the mechanism was named.

    δ is 0 by default, and a release is spent before its noise is seen.
    """
    if isinstance(neighbours, SketchL2) and delta == 0 and mechanism == "auto":
        raise InvalidInputError(
            "a bound on sketches is meant for Gaussian noise: pass delta, such as 1e-6. With delta=0 the noise is "
            "Laplace and many times as wide; if you want that, pass mechanism='laplace'"
        )
