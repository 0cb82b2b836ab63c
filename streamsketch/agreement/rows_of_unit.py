"""What a privacy unit of several rows contributes to features: their average, one of them, or each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from streamsketch.agreement.agreed_features import AgreedFeatures
from streamsketch.agreement.columns import Column, columns_of
from streamsketch.agreement.windows import Windows
from streamsketch.core.documents import Json
from streamsketch.core.numbers import short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.neighbours import Clip

Which: TypeAlias = Literal["mean", "latest", "first", "all"]

TIME_TYPES = ("timestamp", "date", "integer")
_BY = " by "
_OF_ONE_TIME = ("latest", "first")


@dataclass(frozen=True)
class RowsOfUnit:
    """Which rows of a privacy unit count, if it has several in a key: in each key, and in each window, by itself.

    With all but ``"all"`` a unit counts as one row (``clip="average"``): its features in a key are divided by the
    number of rows that count there, in integers, to the nearest grid step, halves away from zero. So the order of rows
    does not matter. What a unit adds is then clipped to the agreed bound. It depends on its own rows alone, so a
    release protects the unit whatever these hold, by each choice alike (Theory 10.3).

    Parameters
    ----------
    which
        ``"mean"``: all rows count, and the unit is their average. ``"latest"`` or ``"first"``: the rows of the latest
        or of the first time count; if several have that time, the unit is their average. ``"all"``: each row counts as
        one, until the unit's sum reaches the bound (``clip="scale"``) or is brought to it (``"equal"``). Sums are then
        of rows, and averages are withheld where a release shows several rows (`describe`).
    time
        For ``"latest"`` and ``"first"``, the column of times: a name, or a name and a type, ``"timestamp"`` (an
        instant, to the microsecond; times without a zone are in UTC), ``"date"``, or ``"integer"`` for numbers that
        grow with time, such as those of visits. By default the column of times of the agreement's windows.

    Raises
    ------
    InvalidInputError
        For another choice, or a column of times that does not fit it.

    Examples
    --------
    >>> RowsOfUnit.parse("latest by visited:date")
    RowsOfUnit(which='latest', time=Column(name='visited', type='date'))
    >>> print(RowsOfUnit("first", ("visit", "integer")))
    first by visit:integer
    """

    which: Which
    time: Any = None

    def __post_init__(self) -> None:
        if self.which not in get_args(Which):
            raise InvalidInputError(
                f"rows of a unit are 'mean', 'latest by TIME', 'first by TIME' or 'all', got {short(self.which)}"
            )
        if self.time is None:
            return
        if not self.of_one_time:
            raise InvalidInputError(
                f"only 'latest' and 'first' depend on times: leave out {short(self.time)}, or {self.which!r}"
            )
        (time, *others) = columns_of(self.time, "the column of times", "timestamp")
        if others or time.type not in TIME_TYPES:
            raise InvalidInputError(
                f"rows of a unit are ordered by one column of type {', '.join(TIME_TYPES)}, got {short(self.time)}"
            )
        object.__setattr__(self, "time", time)

    @staticmethod
    def parse(text: str, typed: str | None = None) -> "RowsOfUnit":
        """Return the choice that `str` shows: ``"mean"``, ``"latest by visited:date"``.

        Parameters
        ----------
        text
            The choice. A column of times without a type is of type ``"timestamp"``.
        typed
            The type of such a column, instead.

        Raises
        ------
        InvalidInputError
            As in `RowsOfUnit`.
        """
        which, by, name = text.strip().partition(_BY)
        if not by:
            return RowsOfUnit(which)  # type: ignore[arg-type] # it checks
        column, colon, kind = name.strip().rpartition(":")
        if not colon or kind not in TIME_TYPES:
            column, kind = name.strip(), typed or "timestamp"
        return RowsOfUnit(which.strip(), (column, kind))  # type: ignore[arg-type] # it checks

    @property
    def is_one(self) -> bool:
        """Whether a unit counts as one row in each key."""
        return self.which != "all"

    @property
    def of_one_time(self) -> bool:
        """Whether only rows of one time count."""
        return self.which in _OF_ONE_TIME

    def to_dict(self) -> Json:
        """Return the choice as a dict that JSON can hold."""
        return {"which": self.which} | ({} if self.time is None else {"time": self.time._asdict()})

    @staticmethod
    def from_dict(fields: object) -> "RowsOfUnit":
        """Return the choice that `to_dict` wrote.

        Raises
        ------
        InvalidInputError
            For anything else.
        """
        if not isinstance(fields, Mapping) or not {"which"} <= fields.keys() <= {"which", "time"}:
            raise InvalidInputError(
                f"the rows of a unit are an object of which and, for latest and first, time, got {short(fields)}"
            )
        if "time" not in fields:
            rows = RowsOfUnit(fields["which"])
            if rows.of_one_time:
                raise InvalidInputError(f"the {rows.which} row of a unit is by a time: state the column, time")
            return rows
        time = fields["time"]
        if not isinstance(time, Mapping) or time.keys() != {"name", "type"} or not _are_text(time.values()):
            raise InvalidInputError(f"the time of rows is an object of name and type, both text, got {short(time)}")
        return RowsOfUnit(fields["which"], Column(time["name"], time["type"]))

    def __str__(self) -> str:
        return self.which if self.time is None else f"{self.which}{_BY}{self.time}"


def _are_text(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def rows_of_unit_in(
    value: object, *, features: AgreedFeatures | None, unit: object, windows: object, clip: Clip | None
) -> tuple[RowsOfUnit | None, Clip | None]:
    """Return the rows of a unit, with their column of times, and how units are clipped, of the fields of an agreement.

    Raises
    ------
    TypeError, InvalidInputError
        If these do not fit each other.
    """
    if value is None:
        return None, clip
    rows = RowsOfUnit.parse(value) if isinstance(value, str) else value
    if not isinstance(rows, RowsOfUnit):
        raise TypeError(
            f"rows_of_unit must be 'mean', 'latest by TIME', 'first by TIME', 'all' or a RowsOfUnit, got a "
            f"{type(value).__name__}"
        )
    if features is None or unit is None:
        lacking = "features" if features is None else "unit column (unit=…)"
        raise InvalidInputError(
            f"rows_of_unit={str(rows)!r} is about the features of units with several rows, and the agreement has no "
            f"{lacking}: leave out rows_of_unit"
        )
    if rows.of_one_time and rows.time is None:
        if not isinstance(windows, Windows):
            raise InvalidInputError(
                f"the {rows.which} row of a unit is by a time: name its column, such as "
                f"rows_of_unit='{rows.which} by visited'"
            )
        rows = RowsOfUnit(rows.which, windows.time)
    if isinstance(windows, Windows) and rows.time is not None and rows.time.name == windows.time.name:
        _check_readable(rows, windows)
    if rows.is_one != (clip == "average") and not (rows.is_one and clip is None):
        remedy = "leave out clip" if rows.is_one else "use clip='scale' or 'equal'"
        raise InvalidInputError(
            f"with rows_of_unit={str(rows)!r} a unit counts as {'one row' if rows.is_one else 'each of its rows'}, "
            f"which clip={clip!r} does not do: {remedy}"
        )
    return rows, "average" if rows.is_one else clip


def _check_readable(rows: RowsOfUnit, windows: Windows) -> None:
    """Raise `InvalidInputError` unless the times of windows can also order the rows of a unit."""
    other = f"name another column, such as rows_of_unit='{rows.which} by visited'"
    if windows.format is not None:
        raise InvalidInputError(
            f"rows of a unit are ordered by times in ISO 8601, and those of the windows have the format "
            f"{windows.format}: {other}"
        )
    if rows.time.type == "integer":
        raise InvalidInputError(
            f"the column {rows.time.name} holds the times of the windows, and rows of a unit are ordered by it as "
            f"integers: leave out the type, or {other}"
        )
