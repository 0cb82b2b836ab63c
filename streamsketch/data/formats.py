"""Times in text, in ISO 8601 or a stated format, by Arrow; dates that the calendar does not have are refused."""

import contextlib
import datetime as dt
import functools
import re

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.libraries import pa, pc
from streamsketch.core.numbers import short
from streamsketch.errors import InvalidInputError

ZONED = r"[T ].*(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
"""A time of ISO 8601 that states its offset from UTC."""

_NANOS = r"(:[0-9]{2}\.[0-9]{6})[0-9]{1,3}"
_DAY = np.timedelta64(1, "D")
_SPRING = np.timedelta64(100, "D")
_MOST_SHIFTED = np.timedelta64(5, "D")  # an impossible date is read as day 1, 2 or 3, which a zone moves by one at most


_PROBES = dt.datetime(2023, 11, 5, 11, 7, 9, tzinfo=dt.UTC), dt.datetime(1999, 3, 30, 11, 52, 3, tzinfo=dt.UTC)


@functools.lru_cache(maxsize=64)
def check_format(form: str | None) -> None:
    """Raise `InvalidInputError` for a format that states no date, or of which a part would be passed over.

    ``strptime`` reads weeks of ISO 8601 and names of time zones and forgets them: each time would be in 1900, or in
    UTC.

    Examples
    --------
    >>> check_format("%d.%m.%Y %H:%M")
    >>> check_format("%d.%m.%Y %H:%M %Z")
    Traceback (most recent call last):
        ...
    streamsketch.errors.InvalidInputError: the format of times '%d.%m.%Y %H:%M %Z' has names of time zones, ...
    """
    if form is None:
        return
    directives = re.findall(r"%[EO]?(.)", form)
    if "Z" in directives:
        raise InvalidInputError(
            f"the format of times {short(form)} has names of time zones, which are not read: write offsets, such as "
            "+01:00, and %z instead of %Z"
        )
    if "s" in directives or all(_reads(form, probe) for probe in _PROBES):
        return
    raise InvalidInputError(
        f"the format of times {short(form)} states no date that can be read: state year, month and day, as "
        "%Y-%m-%d does, or the day of the year, as %Y-%j does; weeks of ISO 8601 are not read"
    )


def _reads(form: str, time: dt.datetime) -> bool:
    """Return whether a time that is written in a format is read as one of its date."""
    try:
        (instant,) = _numpy(_read(pa.array([time.strftime(form)]), form))
    except (pa.ArrowException, ValueError):
        return False
    return bool(instant.astype("datetime64[D]") == np.datetime64(time.date()))


def times_of_text(column: "pa.Array") -> "pa.Array":
    """Return text in ISO 8601 as times in microseconds, of every engine and format; those with a zone become UTC.

    A date, and behind T or a space hours, minutes, seconds and up to nine digits of them, of which seven and more are
    rounded down; then no zone, Z, or an offset of hours, or of hours and minutes.

    Raises
    ------
    pyarrow.ArrowInvalid
        For other text.

    Examples
    --------
    >>> times_of_text(pa.array(["2024-05-31T10Z", "2024-05-31 10:30:00.25+02", None])).to_pylist()
    [datetime.datetime(2024, 5, 31, 10, 0), datetime.datetime(2024, 5, 31, 8, 30, 0, 250000), None]
    """
    for zone in _zones(column):
        with contextlib.suppress(pa.ArrowInvalid):
            return column.cast(pa.timestamp("us", tz=zone)).cast(pa.timestamp("us"))
    column = pc.replace_substring_regex(column, _NANOS, r"\1")  # rounded down, as nanoseconds of other types
    zoned = pc.match_substring_regex(column, ZONED)  # some have a zone, others have none
    plain = pc.if_else(zoned, None, column).cast(pa.timestamp("us"))
    instants = pc.if_else(zoned, column, None).cast(pa.timestamp("us", tz="UTC"))
    return pc.coalesce(plain, instants.cast(pa.timestamp("us")))


def _zones(column: "pa.Array") -> "tuple[str | None, ...]":
    """Return the zones to try for text, first that of the first row: to refuse a row costs many times a reading."""
    with contextlib.suppress(pa.ArrowInvalid):
        column[:1].cast(pa.timestamp("us"))
        return None, "UTC"
    return "UTC", None


def times_by_format(column: "pa.Array", form: str) -> "pa.Array":
    """Return text as times in microseconds; those with a zone become UTC.

    Arrow reads 31.02.2024 as 2024-03-02, a time in another window. Here, such text is not a time.

    Parameters
    ----------
    column
        Text, not in a dictionary.
    form
        Format of the text, as for ``strptime``.

    Raises
    ------
    pyarrow.ArrowInvalid
        For text of another format, and for a date that does not exist.

    Examples
    --------
    >>> times_by_format(pa.array(["29.02.2024"]), "%d.%m.%Y").to_pylist()
    [datetime.datetime(2024, 2, 29, 0, 0)]
    """
    times = _read(column, form)
    shifted = _numpy(times) + _DAY
    suspect = shifted - shifted.astype("datetime64[M]") < _MOST_SHIFTED
    if suspect.any() and not _exist(pc.unique(column.filter(pa.array(suspect))), form):
        raise pa.ArrowInvalid("a date that does not exist")
    return times


def _read(column: "pa.Array", form: str) -> "pa.Array":
    return pc.strptime(column, format=form, unit="us").cast(pa.timestamp("us"))


def _numpy(times: "pa.Array") -> NDArray[np.datetime64]:
    instants: NDArray[np.datetime64] = times.to_numpy(zero_copy_only=False)
    return instants


def _exist(texts: "pa.Array", form: str) -> bool:
    """Return whether all texts, which have this format, state dates of the calendar.

    A later directive replaces an earlier one. So with a month or a date behind it, the same text is a day of January,
    which has all of 31, and the first of January, each of the same year, time of day and zone.
    """

    def read(more: str, directives: str) -> NDArray[np.datetime64]:
        longer = pc.binary_join_element_wise(texts, *(pa.scalar(suffix, texts.type) for suffix in (more, " ")))
        return _numpy(_read(longer, f"{form} {directives}"))

    january, new_year = read("01", "%m"), read("01 01", "%m %d")
    first = (new_year + _SPRING).astype("datetime64[Y]")  # a zone may have moved New Year to another year
    dates = first.astype("datetime64[us]") + (_numpy(_read(texts, form)) - new_year)
    return bool((dates - dates.astype("datetime64[M]") == january - new_year).all())
