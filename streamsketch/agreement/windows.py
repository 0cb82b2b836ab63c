"""Windows of an agreement: which rows are published together, by their times."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from streamsketch.agreement.columns import Column, columns_of
from streamsketch.core.documents import Json
from streamsketch.core.libraries import pa
from streamsketch.core.numbers import check_int, short
from streamsketch.core.text import check_text
from streamsketch.data.calendar import Calendar, EventWindows, check_times_of_day, event_windows
from streamsketch.data.formats import check_format
from streamsketch.data.windows import micros_in, microseconds
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.layout import Layout

Are: TypeAlias = Literal["releases", "keys"]

MOST_WINDOWS = 100_000
"""The largest number of windows from the first to the last."""
_MOST_OF_A_UNIT = (1 << 20) - 1
_TIME_TYPES = ("timestamp", "date")
_UTC = "UTC"
_LATER = ("zone", "first", "last", "period", "max_windows")


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Windows of event time: how rows are divided by their times, and what is published of each window.

    Windows follow each other without gaps. None of them depends on the data.

    Parameters
    ----------
    time
        Column of times: a name, or a name and a type, ``"timestamp"`` (an instant; times without a zone are in UTC) or
        ``"date"``.
    every
        Length of a window, in seconds or as ``"1 hour"``; or ``"day"``, ``"week"`` (from Monday on) or ``"month"`` of
        the calendar. ``"1 day"`` is 24 hours, unless there is a zone.
    format
        Format of times in text, as for ``strptime``; by default ISO 8601. It must state a date, and names of time zones
        (``%Z``) are refused. A date that the calendar does not have, such as 31.02.2024, cannot be read.
    zone
        The time zone of the calendar, such as ``"Europe/Berlin"``; by default UTC.
    first, last
        The first and the last window, by their starts: a time in ISO 8601, or the first local date of a window of the
        calendar, ``"2026-11-22"`` or ``"2026-11"``. Rows of other windows are left out. Windows of one length are
        counted from ``first``. A stream needs the first, a batch both. They must not depend on the data.
    are
        ``"releases"``: each window is published by itself, and a unit pays in each window that it is in. ``"keys"``:
        one release, in which each window, or each pair of key and window, is a key (``KEY 2024-05-31``). A unit is then
        clipped over all windows together, to the ``max_keys`` of the neighbours.
    period, max_windows
        A unit contributes in at most ``max_windows`` windows, by default 1, of each period, such as ``"1 day"``, and
        pays in each period. Only jobs on Beam keep units to that. A schedule has ``max_windows`` and ``gap`` of its
        own.

    Raises
    ------
    InvalidInputError
        For lengths, zones and times that are none, or do not fit each other.

    Examples
    --------
    >>> windows = Windows(time="at", every="1 hour", first="2026-11-22", last="2026-11-22T02:00Z")
    >>> list(windows.names)
    ['2026-11-22T0000Z', '2026-11-22T0100Z', '2026-11-22T0200Z']
    >>> print(windows)
    1 hour by at:timestamp, from 2026-11-22 to 2026-11-22T02:00Z, each a release
    """

    time: Any
    every: Any
    format: str | None = None
    zone: str | None = None
    first: str | None = None
    last: str | None = None
    are: Are = "releases"
    period: Any = None
    max_windows: int | None = None

    def __post_init__(self) -> None:
        (time, *others) = columns_of(self.time, "the column of times", "timestamp")
        if others or time.type not in _TIME_TYPES:
            raise InvalidInputError(
                f"windows have one column of times, of type {' or '.join(_TIME_TYPES)}, got {short(self.time)}"
            )
        self._set("time", time)
        for name in ("every", "period"):
            value = getattr(self, name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                seconds = format(Decimal(repr(value)), "f")
                self._set(name, f"{seconds} s")
        for name in ("every", "format", "zone", "first", "last", "period"):
            if (value := getattr(self, name)) is not None or name == "every":
                check_text(f"the {name} of windows", value)
        if self.are not in get_args(Are):
            raise InvalidInputError(f"windows are 'releases' or 'keys', got {short(self.are)}")
        self._check_times()
        self._check_ends()
        self._check_period()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_times(self) -> None:
        check_format(self.format)
        empty = pa.array([], pa.date32() if self.time.type == "date" else pa.string())
        check_times_of_day(self.of_times, empty, self.time.name, self.format)

    def _check_ends(self) -> None:
        first, last = self.first_number, self.last_number
        if last is None:
            return
        if first is None:
            raise InvalidInputError("windows with a last one also have a first: state both")
        if not 0 <= last - first < MOST_WINDOWS:
            raise InvalidInputError(
                f"the last window must be one of the {MOST_WINDOWS:,} from the first on, got {short(self.first)} and "
                f"{short(self.last)}"
            )

    def _check_period(self) -> None:
        if self.period is not None:
            windows = self.of_times
            if isinstance(windows, Calendar) or self.period_micros % windows.size:
                raise InvalidInputError(
                    f"the period must be a multiple of windows of one length, got {short(self.period)} and "
                    f"{short(self.every)}"
                )
            if self.are == "keys":
                raise InvalidInputError(
                    "windows that are keys share one release, in which max_keys of the neighbours bounds a unit: leave "
                    "out period"
                )
        if self.max_windows is not None:
            check_int(self.max_windows, "max_windows", 1, _MOST_OF_A_UNIT)
            if self.period is None:
                raise InvalidInputError("max_windows needs a period; set period, or leave out max_windows")

    # --- windows --------------------------------------------------------------------------------------------

    @functools.cached_property
    def of_times(self) -> EventWindows:
        """The windows that times are in: `data.windows.Tumbling` or `data.calendar.Calendar`."""
        windows = event_windows(self.every, self.zone, "the length of windows")
        if self.first is None or isinstance(windows, Calendar):
            return windows
        return windows._replace(offset=_micros(self.first, "first") % windows.size)

    @property
    def is_by_calendar(self) -> bool:
        """Whether windows are days, weeks or months of the calendar, not of one length."""
        return isinstance(self.of_times, Calendar)

    @functools.cached_property
    def first_number(self) -> int | None:
        """The number of the first window, as `of_times` counts; None without one."""
        return self._number("first")

    @functools.cached_property
    def last_number(self) -> int | None:
        """The number of the last window, as `of_times` counts; None without one."""
        return self._number("last")

    def _number(self, which: str) -> int | None:
        text, windows = getattr(self, which), self.of_times
        if text is None:
            return None
        if isinstance(windows, Calendar):
            number: int | None = windows.number_named(text)
            if number is None:
                raise InvalidInputError(
                    f"the {which} of windows must be the first date of a {windows.period}, such as {windows.name(0)}, "
                    f"got {short(text)}"
                )
            return number
        start = _micros(text, which)
        number = int(windows.number(start))
        if windows.start(number) != start:
            raise InvalidInputError(
                f"the {which} of windows must be the start of a window, such as {windows.name(number)}, got "
                f"{short(text)}"
            )
        return number

    @property
    def numbers(self) -> range | None:
        """The numbers of all windows from the first to the last; None unless both are stated."""
        if self.first_number is None or self.last_number is None:
            return None
        return range(self.first_number, self.last_number + 1)

    @property
    def names(self) -> list[str] | None:
        """The names of all windows from the first to the last: of files, or as keys; None unless both are stated."""
        return None if self.numbers is None else self.names_of(self.numbers)

    def end_of(self, layout: Layout) -> int | None:
        """Return the number of the first window after those that are released; None without an end.

        The last one is the stated window or, without one, the window of the layout's last row.
        """
        if self.last_number is not None:
            return self.last_number + 1
        if self.first_number is None or layout.horizon is None:
            return None
        return self.first_number + layout.horizon

    def names_of(self, numbers: range) -> list[str]:
        """Return the names of windows: of files, or, where windows are keys, as keys have them."""
        texts: list[str] = self.of_times.names(np.arange(numbers.start, numbers.stop)).to_pylist()
        return texts if self.are == "keys" else [text.replace(":", "") for text in texts]

    @property
    def period_micros(self) -> int:
        """The period, in microseconds; 0 without one."""
        return 0 if self.period is None else int(microseconds(self.period, "the period"))

    # --- as JSON --------------------------------------------------------------------------------------------

    def to_dict(self) -> Json:
        """Return the windows as a dict that JSON can hold; what is not stated is left out."""
        time = self.time._asdict() | ({} if self.format is None else {"format": self.format})
        later = {name: getattr(self, name) for name in _LATER}
        fields = {"time": time, "every": self.every, "are": self.are}
        return fields | {name: value for name, value in later.items() if value is not None}

    @staticmethod
    def from_dict(fields: object) -> "Windows":
        """Return the windows that `to_dict` wrote.

        Raises
        ------
        InvalidInputError
            For anything else.
        """
        needed = {"time", "every", "are"}
        if not isinstance(fields, Mapping) or not needed <= fields.keys() <= needed | set(_LATER):
            raise InvalidInputError(
                f"the windows of an agreement are an object of {', '.join(sorted(needed))} and, where they are stated, "
                f"{', '.join(_LATER)}, got {short(fields)}"
            )
        time = fields["time"]
        if not isinstance(time, Mapping) or not {"name", "type"} <= time.keys() <= {"name", "type", "format"}:
            raise InvalidInputError(
                f"the time of windows is an object of name, type and, of text, format, got {short(time)}"
            )
        if not (isinstance(time["name"], str) and isinstance(time["type"], str)):
            raise InvalidInputError(f"the name and the type of a column of times are text, got {short(time)}")
        later = {name: value for name, value in fields.items() if name != "time"}
        windows = Windows(time=Column(time["name"], time["type"]), format=time.get("format"), **later)
        if windows.to_dict() != fields:
            raise InvalidInputError(f"the windows of an agreement must be {windows.to_dict()}, got {short(fields)}")
        return windows

    def __str__(self) -> str:
        zone = f" ({self.zone})" if self.zone is not None else ""
        since = "" if self.first is None else f", from {self.first}"
        until = "" if self.last is None else f" to {self.last}"
        period = "" if self.period is None else f", a unit in {self.max_windows or 1} of each {self.period}"
        kind = "each a release" if self.are == "releases" else "each a key"
        return f"{self.every}{zone} by {self.time}{since}{until}{period}, {kind}"


def _micros(text: str, which: str) -> int:
    try:
        return int(micros_in(pa.array([text]), which)[0])
    except InvalidInputError:
        raise InvalidInputError(
            f"the {which} of windows must be a time in ISO 8601, such as 2026-11-22T13:00Z, got {short(text)}"
        ) from None
