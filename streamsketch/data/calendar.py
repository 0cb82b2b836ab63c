"""Windows by the calendar: days, weeks and months in a time zone."""

import dataclasses
import datetime as dt
import functools
import re
import zoneinfo
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from streamsketch.core.libraries import pa, pc
from streamsketch.core.numbers import Ints, short
from streamsketch.data.columns import value_type
from streamsketch.data.windows import Tumbling, Whole, microseconds
from streamsketch.errors import InvalidInputError

Period: TypeAlias = Literal["day", "week", "month"]

_DAY = 86_400 * 10**6
_MICRO = dt.timedelta(microseconds=1)
_MONDAY = 3  # 1970-01-01 is a Thursday: weeks begin three days earlier
_CYCLE = {
    "day": 146_097,
    "week": 20_871,
    "month": 4_800,
}  # windows in 400 years, after which all dates and rules repeat
_CYCLE_MICROS = 146_097 * _DAY
_UTC = "UTC"
_BLOCK = 128  # windows whose starts are computed together
_BLOCKS = 4096  # that are remembered: 4 MB
_MOVE = 20 * 3_600 * 10**6  # of a clock across the date line, at least
_MOVED = ("1800-01-01", "2100-01-01")  # before, no zone had a clock; afterwards, rules repeat
_MOST_DENSE = 1 << 16  # windows between the first and the last of an array, up to which a table of all is made

_ONE = re.compile(r"\s*(1\s*)?(d|day|w|week|month)s?\s*")
_MONTHS = re.compile(r"\s*[\d.]+\s*months?\s*")
_CLOCK = re.compile(r"%[EO0#^_-]*[HIcsTRrX]")
_OTHER = re.compile(r"(right|posix)/|localtime$|posixrules$|Factory$")  # with leap seconds, or of this machine alone
_DATE_LENGTH = len("2024-05-31")


@dataclasses.dataclass(frozen=True)
class Calendar:
    """Days, ISO weeks or months in a time zone: windows that follow each other as `Tumbling` windows do.

    A window begins when its first local date does: at midnight, later where midnight is skipped, and at the first of
    two midnights where the clock is set back. So a day in which the clock changes has 23 or 25 hours. Number 0 has the
    local date 1970-01-01. A date that a zone skips as a whole (Pacific/Apia, 2011-12-30) is no window, and has no
    number: every window is longer than 0.

    Times are integers or int64 arrays, in microseconds since 1970-01-01T00:00Z. Dates are of the Gregorian calendar,
    also before it was introduced.

    Parameters
    ----------
    period
        ``"day"``, ``"week"``, from Monday on, or ``"month"``.
    zone
        A zone of the IANA database. Machines with different versions of the database agree on past times, except where
        the database was corrected. They disagree on future windows where rules have changed.

    Raises
    ------
    InvalidInputError
        For another period, or a zone that the database does not have.

    Examples
    --------
    >>> months = Calendar("month", "Europe/Berlin")
    >>> new_year = 1_704_063_600_000_000  # 2023-12-31T23:00Z
    >>> months.name(months.number(new_year)), months.name(months.number(new_year - 1))
    ('2024-01', '2023-12')
    >>> (months.end_of(new_year) - new_year) // 3_600_000_000
    744
    """

    period: Period
    zone: str = _UTC

    def __post_init__(self) -> None:
        if self.period not in get_args(Period):
            raise InvalidInputError(f"period must be one of {', '.join(get_args(Period))}, got {short(self.period)}")
        _zone(self.zone)

    def number(self, times: Whole) -> Whole:
        """Return the number of the window that each time is in."""
        if isinstance(times, int):
            return int(self.number(np.array([times]))[0])
        # no zone is a day or more from UTC: the window is that of UTC, the one before or the one after
        places = _in_utc(self.period, times)
        places += (times >= self._starts_at(places + 1)).astype(np.int64) - (times < self._starts_at(places))
        return places - self._skipped_before(places)

    def start(self, numbers: Whole) -> Whole:
        """Return the starts of windows."""
        if isinstance(numbers, int):
            return int(self.start(np.array([numbers]))[0])
        return self._starts_at(self._places(numbers))

    def start_of(self, times: Whole) -> Whole:
        """Return the start of the window that each time is in."""
        return self.start(self.number(times))

    def end_of(self, times: Whole) -> Whole:
        """Return the end, exclusive, of the window that each time is in."""
        return self.start(self.number(times) + 1)

    def starts(self, first: int, stop: int) -> list[int]:
        """Return the starts of all windows that overlap [first, stop)."""
        numbers = np.arange(self.number(first), self.number(max(first, stop - 1)) + 1)
        starts: list[int] = self.start(numbers).tolist()
        return starts

    def name(self, number: int) -> str:
        """Return a window's first local date, as used in file names: ``2024-05-01``, or ``2024-05`` for a month."""
        return str(self.names(np.array([number]))[0])

    def names(self, numbers: Ints) -> "pa.DictionaryArray":
        """Return windows' first local dates as text, those of months without the day."""
        distinct, places = np.unique(self._places(numbers), return_inverse=True)
        unit: Any = "M" if self.period == "month" else "D"
        names = np.datetime_as_string(_midnights(self.period, distinct).astype("datetime64[us]"), unit=unit).tolist()
        return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(names, pa.string()))

    def number_named(self, name: str) -> int | None:
        """Return the number of the window that begins on a date, by ISO 8601; None if there is none."""
        text = f"{name}-01" if self.period == "month" and len(name) == len("2024-05") else name
        try:
            midnight = np.array([(dt.date.fromisoformat(text) - dt.date(1970, 1, 1)).days * _DAY])
        except ValueError:
            return None
        place = _in_utc(self.period, midnight)
        number = place - self._skipped_before(place)
        return int(number[0]) if _midnights(self.period, self._places(number)) == midnight else None

    @property
    def words(self) -> str:
        """One window, for guarantees."""
        return f"one {self.period} ({self.zone})"

    # Dates have places, which are numbers that also count the dates that the zone skips.

    def _skipped_before(self, places: Ints) -> Ints | int:
        """Return how many skipped dates lie between the date 1970-01-01 and others; negative for those before it."""
        skipped = _skipped(self.zone) if self.period == "day" else None
        return 0 if skipped is None else np.searchsorted(skipped, places) - int(np.searchsorted(skipped, 0))

    def _places(self, numbers: Ints) -> Ints:
        """Return the places of windows' dates."""
        skipped = _skipped(self.zone) if self.period == "day" else None
        if skipped is None:
            return numbers
        before = int(np.searchsorted(skipped, 0))
        after = skipped - np.arange(len(skipped)) + before  # the numbers of the dates after those that are skipped
        return numbers - before + np.searchsorted(after, numbers, side="right")

    def _starts_at(self, places: Ints) -> Ints:
        """Return the starts of dates; one that is skipped starts with the next one."""
        if self.zone == _UTC or not places.size:
            return _midnights(self.period, places)
        first, last = int(places.min()), int(places.max())
        if last - first < _MOST_DENSE:
            table = self._starts(np.arange(first, last + 1))
            return table[places - first]
        distinct, of_each = np.unique(places, return_inverse=True)
        return self._starts(distinct)[of_each]

    def _starts(self, numbers: Ints) -> Ints:
        """Return the starts of windows from the tables of a zone."""
        cycle, (first, last) = _CYCLE[self.period], _range(self.period)
        # outside of the years 1200 to 2799 a zone's offset is constant, or follows rules that repeat with the dates
        cycles = np.minimum((numbers - first) // cycle, 0) + np.maximum((numbers - last) // cycle + 1, 0)
        within, places = np.unique(numbers - cycles * cycle, return_inverse=True)
        blocks, begins = np.unique(within // _BLOCK, return_index=True)
        parts = np.split(within, begins[1:])
        each = zip(blocks.tolist(), parts, strict=True)
        distinct = np.concatenate([_block(self, block)[part - block * _BLOCK] for block, part in each])
        starts: Ints = distinct[places] + cycles * _CYCLE_MICROS
        return starts


EventWindows: TypeAlias = Tumbling | Calendar
"""Windows of event time that follow each other."""


def event_windows(window: float | str, zone: str | None = None, name: str = "window") -> EventWindows:
    """Return windows from what users pass: ``"month"``, or a length such as ``"1 hour"``.

    Parameters
    ----------
    window
        ``"day"``, ``"week"`` or ``"month"``: by the calendar. Or a length, in seconds or as text, which is 24 hours for
        ``"1 day"`` and 7 times that for ``"1 week"``, unless there is a zone.
    zone
        A zone of the IANA database, by default UTC. With one, the window is a day, a week or a month.
    name
        What it is called, for errors.

    Raises
    ------
    InvalidInputError
        For other windows, and as `Calendar` and `microseconds`.

    Examples
    --------
    >>> event_windows("1 hour"), event_windows("month")
    (Tumbling(size=3600000000, offset=0), Calendar(period='month', zone='UTC'))
    >>> event_windows("1 day", "Asia/Kolkata")
    Calendar(period='day', zone='Asia/Kolkata')
    """
    text = window if isinstance(window, str) else ""
    match = _ONE.fullmatch(text)
    period: Any = None if match is None else {"d": "day", "w": "week"}.get(match[2], match[2])
    if match and (zone is not None or period == "month" or (match[1] is None and match[2] == period)):
        return Calendar(period, _UTC if zone is None else zone)
    if zone is not None or _MONTHS.fullmatch(text):
        where = "in a time zone" if zone is not None else "of the calendar"
        raise InvalidInputError(f"{name} must be a day, a week or a month {where}, got {short(window)}")
    return Tumbling(microseconds(window, name))


def check_times_of_day(windows: EventWindows, column: "pa.Array", name: str, form: str | None = None) -> None:
    """Raise `InvalidInputError` for dates, where the windows are those of a time zone.

    A date has no zone. As midnight in UTC, it would be in the window before wherever clocks are behind UTC.
    """
    if not isinstance(windows, Calendar) or windows.zone == _UTC:
        return
    kind = value_type(column)
    dates = pa.types.is_date(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        shortest = pc.min(pc.utf8_length(column.cast(kind))).as_py()  # None without rows
        dates = (shortest or _DATE_LENGTH + 1) <= _DATE_LENGTH if form is None else _CLOCK.search(form) is None
    if dates:
        raise InvalidInputError(
            f"the column {name} has dates without a time of day, which have no time zone; leave out the zone "
            f"{windows.zone}"
        )


def _zone(name: str) -> dt.tzinfo:
    """Return a time zone by its name."""
    if name == _UTC:
        return dt.UTC  # which needs no database
    try:
        if isinstance(name, str) and not _OTHER.match(name):
            return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise InvalidInputError(
        f"{short(name)} is not a time zone in this machine's IANA database. Use a name of the form Area/City, or run "
        "pip install tzdata for the newest database"
    )


def _in_utc(period: Period, times: Ints) -> Ints:
    """Return the numbers of the windows that times are in, if the zone were UTC."""
    if period == "month":
        months: Ints = times.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
        return months
    days = times // _DAY
    return days if period == "day" else (days + _MONDAY) // 7


def _midnights(period: Period, numbers: Ints) -> Ints:
    """Return when windows start, if the zone were UTC."""
    if period == "month":
        starts: Ints = numbers.astype("datetime64[M]").astype("datetime64[us]").astype(np.int64)
        return starts
    return (numbers if period == "day" else numbers * 7 - _MONDAY) * _DAY


@functools.cache
def _range(period: Period) -> tuple[int, int]:
    """Return the numbers of the windows of the years 1200 to 2799, the last one exclusive."""
    ends = np.array(["1200-01-01", "2800-01-01"], dtype="datetime64[us]").astype(np.int64)
    first, last = _in_utc(period, ends).tolist()
    return first, last


@functools.cache
def _skipped(name: str) -> Ints | None:
    """Return the places of the dates that a zone skips as a whole, in order, or None: its clock moves on by a day.

    Such a move, across the date line, is for good. So it lies between two half-years with offsets that differ by 20
    hours or more.
    """
    if name == _UTC:
        return None
    zone = _zone(name)
    days = [int(day) for day in np.arange(*_MOVED, dtype="datetime64[6M]").astype("datetime64[D]").astype(np.int64)]
    offsets = [_offset_at(zone, day) for day in days]
    skipped = []
    for place, (before, after) in enumerate(pairwise(offsets)):
        if after - before >= _MOVE:
            each = range(days[place] - 1, days[place + 1] + 1)
            starts = [_first_instant(zone, day * _DAY) for day in each]
            skipped += [day for day, start, end in zip(each, starts, starts[1:], strict=False) if start == end]
    return np.array(skipped, dtype=np.int64) if skipped else None


def _offset_at(zone: dt.tzinfo, day: int) -> int:
    return _offset((dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=day)).astimezone(zone))


@functools.lru_cache(maxsize=_BLOCKS)
def _block(windows: Calendar, block: int) -> Ints:
    """Return the starts of one block of windows: int64, (_BLOCK,)."""
    zone = _zone(windows.zone)
    midnights = _midnights(windows.period, np.arange(block * _BLOCK, (block + 1) * _BLOCK))
    starts = np.array([_first_instant(zone, midnight) for midnight in midnights.tolist()], dtype=np.int64)
    starts.flags.writeable = False
    return starts


def _first_instant(zone: dt.tzinfo, midnight: int) -> int:
    """Return the first instant whose local date is that of a local midnight, or later; both in microseconds."""
    local = dt.datetime(1970, 1, 1, tzinfo=zone) + midnight * _MICRO
    first, second = (midnight - _offset(local.replace(fold=fold)) for fold in (0, 1))
    if first <= second:  # one midnight, or two
        return first
    # midnight is skipped: it follows the instant at which the clock is put forward, which lies between the two
    low, high = second, first
    while high - low > 1:
        middle = (low + high) // 2
        instant = (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + middle * _MICRO).astimezone(zone)
        low, high = (low, middle) if instant.replace(tzinfo=local.tzinfo) >= local else (middle, high)
    return high


def _offset(local: dt.datetime) -> int:
    return int(local.utcoffset() // _MICRO)  # type: ignore[operator] # a zone has one
