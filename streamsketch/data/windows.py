"""Event time: tumbling windows, and times and lengths in columns and text."""

import datetime as dt
import re
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.libraries import pa, pc
from streamsketch.core.numbers import Ints, short
from streamsketch.data.columns import value_type
from streamsketch.data.formats import times_by_format, times_of_text
from streamsketch.errors import InvalidInputError

_SECOND, _MINUTE, _DAY = 10**6, 60 * 10**6, 86_400 * 10**6
_UNITS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}
_UNITS |= {"w": 7 * 86_400, "week": 7 * 86_400}
LARGEST_TIME = 1 << 61
"""In microseconds, 73,000 years before or after 1970: sums and differences of such times fit int64."""
_LENGTH = re.compile(rf"\s*(\d{{1,20}}(?:\.\d{{1,20}})?)\s*({'|'.join(_UNITS)})s?\s*")

_NAME = re.compile(r"(\d{4}-\d{2})(-\d{2}(?:T(\d{2})[-:]?(\d{2})(?:[-:]?(\d{2})(\.\d{1,6})?)?Z)?)?", re.ASCII)
_WEEK = re.compile(r"(\d{4})-W(\d{2})", re.ASCII)
_1970 = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_BEGINS = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"

Whole = TypeVar("Whole", int, Ints)


class Tumbling(NamedTuple):
    """Consecutive windows of one length; number 0 starts ``offset`` after 1970-01-01T00:00Z.

    Times are integers or int64 arrays, in microseconds since 1970.

    Parameters
    ----------
    size, offset
        Length of the windows, and the start of number 0, in microseconds.

    Examples
    --------
    >>> hours = Tumbling(3_600_000_000)
    >>> hours.number(5_000_000_000), hours.start_of(5_000_000_000), hours.end_of(5_000_000_000)
    (1, 3600000000, 7200000000)
    """

    size: int
    offset: int = 0

    def number(self, times: Whole) -> Whole:
        """Return the number of the window that each time is in."""
        return (times - self.offset) // self.size

    def start(self, numbers: Whole) -> Whole:
        """Return the starts of windows."""
        return numbers * self.size + self.offset

    def start_of(self, times: Whole) -> Whole:
        """Return the start of the window that each time is in."""
        return self.start(self.number(times))

    def end_of(self, times: Whole) -> Whole:
        """Return the end, exclusive, of the window that each time is in."""
        return self.start_of(times) + self.size

    def starts(self, first: int, stop: int) -> range:
        """Return the starts of all windows that overlap [first, stop)."""
        return range(self.start_of(first), stop, self.size)

    @property
    def words(self) -> str:
        """One window, for guarantees: its length in full, as other windows make other guarantees."""
        return f"one window of {seconds_text(self.size)} s"

    def name(self, number: int) -> str:
        """Return a window's start as used in file names: a date, or a time in UTC without colons."""
        return str(self.names(np.array([number]))[0]).replace(":", "")

    def names(self, numbers: Ints) -> "pa.DictionaryArray":
        """Return windows' starts as text: a date, if all windows start at midnight, otherwise a time in UTC."""
        distinct, places = np.unique(numbers, return_inverse=True)
        grid = int(np.gcd(self.size, self.offset))  # all starts are multiples of it
        unit: Any = "D" if grid % _DAY == 0 else "m" if grid % _MINUTE == 0 else "s" if grid % _SECOND == 0 else "us"
        texts = np.datetime_as_string(self.start(distinct).astype("datetime64[us]"), unit=unit).tolist()
        names = texts if unit == "D" else [f"{text}Z" for text in texts]
        return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(names, pa.string()))


def window_seconds(length: float | str) -> float:
    """Return the length of a window in seconds: a number, or text such as ``"1 day"``, ``"24h"``, ``"15 min"``.

    Raises
    ------
    InvalidInputError
        For other text, or a length that is not positive.

    Examples
    --------
    >>> window_seconds("1 day"), window_seconds("1d") == window_seconds("24h"), window_seconds("15 min")
    (86400, True, 900)
    """
    seconds: Any = length
    if isinstance(length, str):
        match = _LENGTH.fullmatch(length)
        if not match:
            raise InvalidInputError(
                "a window must be a number and a unit (s, min, h, d or w), such as '1 day', '1d', '24h' or '15 min'; "
                f"got {short(length)}"
            )
        exact = Fraction(match[1]) * _UNITS[match[2]]
        seconds = int(exact) if exact.denominator == 1 else float(exact)
    if not 0 < seconds < float("inf"):
        raise InvalidInputError(f"a window must be longer than 0 seconds, got {short(length)}")
    return float(seconds) if isinstance(length, float) else seconds


def times_in(column: "pa.Array", name: str, form: str | None = None) -> "pa.Array":
    """Return a column of times, dates or text as times in microseconds; those with a zone become UTC.

    Parameters
    ----------
    column
        Times, dates, or text.
    name
        Name of the column, for errors.
    form
        Format of times in text, as for ``strptime``; by default ISO 8601.

    Raises
    ------
    InvalidInputError
        For other types, and text of another format.
    """
    kind = value_type(column)
    if column.null_count:
        raise InvalidInputError(f"the column {name} has nulls ({column.null_count} of {len(column)}); drop those rows")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_null(kind):
            if getattr(kind, "unit", "") == "ns":  # rounded down, as windows are; a cast rounds towards zero
                micros = np.floor_divide(column.cast(pa.int64()).to_numpy(zero_copy_only=False), 1000)
                return pa.array(micros, pa.int64()).cast(pa.timestamp("us"))
            return column.cast(pa.timestamp("us", tz=getattr(kind, "tz", None))).cast(pa.timestamp("us"))
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            if form is not None:
                return times_by_format(column, form)
            return times_of_text(column)
    except pa.ArrowException:
        # Arrow's own message quotes the cell, which is private
        raise InvalidInputError(not_a_time(name, form)) from None
    raise InvalidInputError(f"the column {name} must hold times, dates, or text with times or dates; got {kind}")


def not_a_time(name: str, form: str | None = None, row: int | None = None) -> str:
    """Return what is wrong with a column whose text is not a time, without a cell."""
    holds = "text that" if row is None else f"text, and in row {row:,} a text that"
    like = "ISO 8601, such as 2024-05-31T12:00:00Z" if form is None else f"the format {form}"
    return (
        f"the column {name} holds {holds} is not a time in {like}: correct the row or leave it out, or state the "
        "format of times (agree --set time-format)"
    )


def readable_times(column: "pa.Array", form: str | None = None) -> NDArray[np.bool_]:
    """Return which cells `times_in` reads, each judged by itself: bool, (n,). All, if the column is not text.

    Text that Python reads too is read at once, and of the rest only what begins as a date, text by text.

    Examples
    --------
    >>> readable_times(pa.array(["2026-11-22", "soon", "2026-02-30", "2026-11-22T10:00Z"])).tolist()
    [True, False, False, True]
    """
    kind = value_type(column)
    readable = np.ones(len(column), dtype=np.bool_)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return readable
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        likely = np.fromiter((_is_likely(text, form) for text in column.to_pylist()), np.bool_, len(column))
        times_in(column.filter(pa.array(likely)), "")
    except (InvalidInputError, UnicodeDecodeError):
        likely = np.zeros(len(column), dtype=np.bool_)
    suspects = ~likely
    if form is None:  # Arrow reads no time that begins otherwise
        begins = pc.fill_null(pc.match_substring_regex(column, _BEGINS), fill_value=False)
        readable = begins.to_numpy(zero_copy_only=False).copy()
        suspects &= readable
    for place in np.flatnonzero(suspects).tolist():
        readable[place] = _is_time(column.slice(place, 1), form)
    return readable


def _is_likely(text: str | None, form: str | None) -> bool:
    """Return whether Python reads a text as a time; it need not read what Arrow does."""
    if text is None or form is not None:
        return False
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_time(cell: "pa.Array", form: str | None) -> bool:
    if cell.null_count:
        return False
    try:
        times_in(cell, "", form)
    except InvalidInputError:
        return False
    return True


def micros_in(column: "pa.Array", name: str, form: str | None = None) -> Ints:
    """Return a column of times, dates or text in microseconds since 1970: int64, (n,); as `times_in`.

    Raises
    ------
    InvalidInputError
        As in `times_in`, and for times beyond `LARGEST_TIME`.
    """
    micros: Ints = times_in(column, name, form).cast(pa.int64()).to_numpy(zero_copy_only=False)
    if micros.size and not -LARGEST_TIME <= micros.min() <= micros.max() <= LARGEST_TIME:
        raise InvalidInputError(
            f"the column {name} holds a time more than 70,000 years before or after 1970; correct or drop those rows"
        )
    return micros


def microseconds(length: float | str, name: str, *, least: int = 1) -> int:
    """Return a length as `window_seconds` takes it, in microseconds.

    Raises
    ------
    InvalidInputError
        Unless it is a whole number of microseconds from ``least``, 0 or 1, to `LARGEST_TIME`.

    Examples
    --------
    >>> microseconds("15 min", "window"), microseconds(0, "delay", least=0)
    (900000000, 0)
    """
    seconds = length if length == 0 and least == 0 and not isinstance(length, str) else window_seconds(length)
    micros = round(seconds * _SECOND) if seconds * _SECOND <= LARGEST_TIME else 0
    if not least <= micros <= LARGEST_TIME or abs(micros - seconds * _SECOND) > 1e-3:
        raise InvalidInputError(
            f"{name} must be a whole number of microseconds of at most 70,000 years, got {short(length)}"
        )
    return micros


def seconds_text(micros: int) -> str:
    """Return microseconds as text in seconds, exact: different lengths give different texts.

    Examples
    --------
    >>> seconds_text(60_000_000), seconds_text(1_500_000)
    ('60', '1.5')
    """
    return str(micros // _SECOND if micros % _SECOND == 0 else micros / _SECOND)


def key_and_window(name: str) -> tuple[str, str] | None:
    """Return key and window of a stream named ``KEY 2024-05-01``; a name of a window alone has the key ``""``.

    None is returned for a name that does not end in that of a window.

    Examples
    --------
    >>> key_and_window("north west 2024-05"), key_and_window("2024-05-01"), key_and_window("north")
    (('north west', '2024-05'), ('', '2024-05-01'), None)
    """
    key, _, window = name.rpartition(" ")
    return None if window_time(window) is None else (key, window)


def window_time(name: str) -> int | None:
    """Return the start of the window with this name, in microseconds since 1970; None for a name of anything else.

    Names are those of `Tumbling`, of `Calendar`, whose dates count as those of UTC, and of slots of a stream, and weeks
    of ISO 8601.

    Examples
    --------
    >>> window_time("1970-01-02"), window_time("1970-01-02T0100Z"), window_time("1970-02"), window_time("north")
    (86400000000, 90000000000, 2678400000000, None)
    >>> window_time("1970-W02") == window_time("1970-01-05")
    True
    """
    if week := _WEEK.fullmatch(name):
        try:
            monday = dt.date.fromisocalendar(int(week[1]), int(week[2]), 1)
        except ValueError:  # no week of that year
            return None
        return (monday - _1970.date()) // dt.timedelta(microseconds=1)
    match = _NAME.fullmatch(name)
    if not match:
        return None
    month, rest, *clock, fraction = match.groups()
    day = "-01" if rest is None else rest[:3]
    hour, minute, second = (part or "00" for part in clock)
    try:
        time = dt.datetime.fromisoformat(f"{month}{day}T{hour}:{minute}:{second}{fraction or ''}+00:00")
    except ValueError:  # no date
        return None
    return (time - _1970) // dt.timedelta(microseconds=1)
