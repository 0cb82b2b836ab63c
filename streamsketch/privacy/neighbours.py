"""What a neighbour relation is: one class with all that is known of it, registered by name.

A relation is a file of its own (as `streamsketch.privacy.l1`) and a line in `streamsketch.privacy.relations`. All
others ask the class: how far a unit moves a sketch, over windows too, how units are clipped to it, and what it says.
Its fields are its text, its JSON and what it implies; the exchange format refuses a field that it cannot carry.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar, Literal, Protocol, TypeAlias

from streamsketch.core import sentences
from streamsketch.core.documents import Json
from streamsketch.core.numbers import Exact, check_int, exact_fraction, short
from streamsketch.core.text import check_text
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.noise import Sensitivity
from streamsketch.privacy.schedule import Schedule

MOST_KEYS = (1 << 32) - 1  # what the exchange format carries
_COMMON = ("bound", "unit", "max_keys")  # the fields of every relation
_ABSENT = object()

Clip: TypeAlias = Literal["scale", "cut", "equal", "average"]
"""How what a unit adds is brought within a bound: shrunk as a whole, some of it dropped, or all units at one length."""

Norm: TypeAlias = Literal["l1", "l2"]
"""How the size of what a unit adds is measured: the sum of absolute values, or the Euclidean length."""


class Cells(Protocol):
    """What a relation asks of a projection: what one grid step of a cell is in data units, exactly."""

    @property
    def scale_squared(self) -> Fraction:
        """The square of the public scale."""

    @property
    def grid(self) -> Fraction:
        """The resolution."""


class Moved(Cells, Protocol):
    """What a relation asks of a projection to say how far one unit moves its cells, in grid steps."""

    @property
    def kind(self) -> str:
        """The family."""

    @property
    def dim(self) -> int:
        """The number of indices."""

    @property
    def sketch_dim(self) -> int:
        """The number of cells."""

    @property
    def l1_sensitivity(self) -> int:
        """Δ1(A), the largest ℓ1 norm of a column."""

    @property
    def l2_sensitivity_squared(self) -> int:
        """Δ2(A)², the largest squared ℓ2 norm of a column."""

    @property
    def max_entry(self) -> int:
        """The largest |entry|."""

    @property
    def spectral_bound(self) -> int | None:
        """A proven bound on the squared spectral norm, if there is a useful one."""


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
    norm: ClassVar[Norm | None] = None
    """What of a unit it bounds; None if it bounds no total of a unit."""
    of_sketches: ClassVar[bool] = False
    """Whether it bounds what a unit changes in the exact sketches of all keys together, not in the data."""
    whole_steps: ClassVar[bool] = False
    """Whether totals of several units must be whole grid steps, since each unit is truncated by itself."""
    one_coordinate: ClassVar[bool] = False
    """Whether a unit changes one coordinate of a vector at most."""
    counted: ClassVar[bool] = False
    """Whether a count of units is proven beside the cells (`Counting`)."""
    free_slack: ClassVar[bool] = False
    """Whether the total of the units costs no noise beside that count."""
    clips_keys_together: ClassVar[bool] = False
    """Whether units can be clipped to it over several keys together."""
    matrix_number: ClassVar[Literal["sensitivities", "spectral bound"] | None] = "sensitivities"
    """What `sensitivity` takes of a matrix."""

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
            ways = [f"clip={way!r}" for way in self.clips]
            choices = " or ".join([part for part in (", ".join(ways[:-1]), *ways[-1:]) if part])
            choices = choices or "nothing: it is not one of units' totals"
            remedy = "; one row or average a unit is bounded by SketchL2.of_averages(unit, max_keys)"
            raise InvalidInputError(
                f"units are clipped to {type(self).__name__} by {choices}, got {short(clip)}"
                f"{remedy if clip == 'average' else ''}"
            )

    @property
    def units(self) -> str:
        """The unit in the plural, such as "customers" or "customers in at most 3 of 52 windows"."""
        within = next((phrase for phrase in (" in one ", " in at most ") if phrase in self.unit), "")
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
        >>> from streamsketch import L1, SketchL2
        >>> L1(3, max_keys=2).in_windows(4), SketchL2(3).in_windows(4)
        (L1(3, unit='event', max_keys=8), SketchL2(6, unit='event'))
        """
        return dataclasses.replace(self, max_keys=self.max_keys * count)

    def over_rows(self, windows: int) -> "Neighbours":
        """Return the relation for a schedule's rows, of data that keep to this one in each of a unit's windows.

        It is this relation: the schedule's norms count how many windows a unit is in (Theory 11.2).
        """
        del windows
        return self

    def over_windows(self, schedule: Schedule, unit: str) -> "Neighbours":
        """Return the relation for all windows of a unit, if this one holds in each of them (Theory 11.2).

        Every engine judges rows of a schedule by this relation.

        Parameters
        ----------
        schedule
            States in how many windows a unit may be.
        unit
            The unit's text in the publisher. It is that of the relation if both name the same unit: it may state the
            length of windows.
        """
        is_same = schedule.is_unit(unit) and unit.startswith(f"{self.unit} in ")
        named = unit if is_same else schedule.unit_over_windows(self.unit)
        return dataclasses.replace(self.over_rows(schedule.most), unit=named)

    # --- how far a unit moves a sketch ----------------------------------------------------------------------

    def sensitivity(self, projection: Moved) -> Sensitivity:
        """Return how far one unit can move its sketches: D1 = m·Δ1(A)·Δ̃ and D2² = m·Δ2(A)²·Δ̃² (Theory 2)."""
        steps = self.grid_steps(projection.grid)
        one_key = Sensitivity(
            l1=projection.l1_sensitivity * steps,
            l2_squared=projection.l2_sensitivity_squared * steps**2,
            cells=projection.sketch_dim,
        )
        return one_key.over_keys(self.max_keys)

    def sensitivity_of_rows(self, projection: Moved, window: Sensitivity, schedule: Schedule) -> Sensitivity:
        """Return how far one unit moves all rows of a schedule together.

        Row t moves by Σ_j C[t, j]·v_j for a unit that moves window j by v_j, in at most m windows. With every ‖v_j‖
        bounded, norms of the columns apply (Theory 11.2).

        Parameters
        ----------
        projection
            The public map.
        window
            How far the unit moves one window, counts included.
        schedule
            Which rows are published.
        """
        del projection
        norms = schedule.norms
        return window.over_rows(norms.l1 * window.l1, norms.l2_squared * window.l2_squared, schedule.reach)

    def sensitivity_before_map(self, columns: int, size: int, grid: Fraction) -> Sensitivity:
        """Return how far one unit moves ``size`` coordinates before a map, if one of its steps moves ``columns`` by 1.

        They are x̃ itself, or that behind a Hadamard transform of squared norm ``columns``.
        """
        steps = self.grid_steps(grid)
        return Sensitivity(columns * steps, columns * steps**2, size).over_keys(self.max_keys)

    def most_in_a_cell(self, projection: Moved) -> int:
        """Return how far one unit can move a single cell at most, in grid steps."""
        return projection.max_entry * self.grid_steps(projection.grid)

    def is_below(self, steps: int, projection: Cells) -> bool:
        """Return whether one row of |value| = ``steps`` grid steps is more than a unit may add."""
        return steps * projection.grid > Fraction(self.bound)

    # --- clipping -------------------------------------------------------------------------------------------

    def clip_steps(self, projection: Cells) -> int:
        """Return the bound to which units are clipped, in grid steps; squared if it is one on data in ℓ2.

        Raises
        ------
        InvalidInputError
            If it bounds no total of a unit, or is below one grid step.
        """
        del projection
        raise InvalidInputError(
            f"units are clipped to L1(bound, unit=…), L2 or SketchL2, got {self!r:.60}, which does not "
            f"bound the total of a unit"
        )

    def check_delta(self, delta: float, mechanism: str) -> None:
        """Raise `InvalidInputError` if the noise of this δ would be far wider than its user expects."""
        del delta, mechanism

    # --- what it says ---------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def change(self) -> str:
        """What adding or removing a unit changes, with the bound, such as "it changes one coordinate by at most 3"."""

    def described(self, *, enforced: bool, windows: bool) -> str:
        """Return who is protected, for explanations.

        Parameters
        ----------
        enforced
            Whether units were clipped.
        windows
            Whether a unit may be in several windows of the release.
        """
        del enforced
        keys = f" {sentences.IN_EACH_KEY.format(keys=self.max_keys)}" if self.max_keys > 1 else ""
        together = sentences.KEYS_TOGETHER if self.max_keys > 1 else ""
        change = f"{self.change}{keys}{sentences.IN_THESE_WINDOWS if windows else ''}{together}"
        return sentences.PROTECTED.format(unit=self.unit, where="", change=change)

    @classmethod
    def own_fields(cls) -> tuple[str, ...]:
        """Return the names of the fields that this relation has and others have not."""
        return tuple(field.name for field in dataclasses.fields(cls) if field.name not in _COMMON)

    def implies_kind(self, other: "Neighbours") -> bool:
        """Return whether a bound of this kind is also one of the other kind, as ‖x‖₂ ≤ ‖x‖₁ shows.

        The other's own fields must be the same here.
        """
        alike = all(getattr(self, name, _ABSENT) == getattr(other, name) for name in other.own_fields())
        return alike and other.kind in {self.kind, *self.implied}

    def implies(self, other: "Neighbours") -> bool:
        """Return whether all data that keep to this relation also keep to the other one.

        Examples
        --------
        >>> from streamsketch import L1
        >>> L1(3, max_keys=2).implies(L1(4, max_keys=2)), L1(3, max_keys=2).implies(L1(3))
        (True, False)
        """
        return (
            self.implies_kind(other)
            and other.unit == self.unit
            and Fraction(other.bound) >= Fraction(self.bound)
            and other.max_keys >= self.max_keys
        )

    def to_dict(self) -> Json:
        """Return the relation as a dict that JSON can hold: its name, and all of its fields."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain = {name: str(value) if isinstance(value, Fraction) else value for name, value in values.items()}
        return {"relation": self.kind, **plain}

    @staticmethod
    def from_dict(fields: object) -> "Neighbours":
        """Return the relation that `to_dict` wrote.

        Raises
        ------
        InvalidInputError
            For other fields, an unknown relation, or values that `to_dict` does not write.
        """
        names = {"relation", *_COMMON}
        if isinstance(fields, Mapping) and "relation" in fields:
            kind = fields["relation"]
            if not isinstance(kind, str) or kind not in NEIGHBOURS:
                raise InvalidInputError(f"the relation must be one of {', '.join(NEIGHBOURS)}, got {short(kind)}")
            names |= {*NEIGHBOURS[kind].own_fields()}
        if not isinstance(fields, Mapping) or fields.keys() != names:
            raise InvalidInputError(f"neighbours are an object of {', '.join(sorted(names))}, got {short(fields)}")
        relation = NEIGHBOURS[kind](**{name: value for name, value in fields.items() if name != "relation"})
        if relation.to_dict() != fields:
            raise InvalidInputError(f"the neighbours must be {relation.to_dict()}, got {short(fields)}")
        return relation

    @property
    def _keys_text(self) -> str:
        return "" if self.max_keys == 1 else f"{sentences.IN_EACH_KEY.format(keys=self.max_keys)} "

    def __str__(self) -> str:
        own = "".join(f", {name.replace('_', ' ')} {getattr(self, name)}" for name in self.own_fields())
        return sentences.NEIGHBOURS.format(
            unit=self.unit, bound=self.bound, keys=self._keys_text, relation=f"{self.label}{own}"
        )

    def __repr__(self) -> str:
        default = next(field.default for field in dataclasses.fields(self) if field.name == "max_keys")
        keys = "" if self.max_keys == default else f", max_keys={self.max_keys}"
        own = "".join(f", {name}={getattr(self, name)!r}" for name in self.own_fields())
        return f"{type(self).__name__}({self.bound}, unit={self.unit!r}{keys}{own})"


NEIGHBOURS: dict[str, type[Neighbours]] = {}
"""The relations by their names in JSON and in the exchange format."""


def register_relation(relation: type[Neighbours]) -> None:
    """Make a relation known by its name, to JSON, the exchange format and agreements."""
    NEIGHBOURS[relation.kind] = relation


def check_neighbours(neighbours: object) -> None:
    """Raise `TypeError` unless it is a registered neighbour relation."""
    if not isinstance(neighbours, Neighbours) or NEIGHBOURS.get(neighbours.kind) is not type(neighbours):
        relations = " or ".join(f"{relation.__name__}(bound)" for relation in NEIGHBOURS.values())
        raise TypeError(f"neighbours must be {relations}, got a {type(neighbours).__name__}")
