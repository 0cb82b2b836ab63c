"""Windows of time: lengths in words, times in columns of all kinds, and the windows they fall into."""

import datetime as dt
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.agreement import Column
from streamsketch.agreement.casts import cast
from streamsketch.data.calendar import Calendar
from streamsketch.data.windows import (
    LARGEST_TIME,
    Tumbling,
    micros_in,
    microseconds,
    readable_times,
    times_in,
    window_seconds,
    window_time,
)
from streamsketch.intake.clock import Clock
from streamsketch.streams import Slot

NOON = dt.datetime.fromisoformat("2024-05-31T12:00")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1 day", 86400), ("1d", 86400), ("24h", 86400), ("15 min", 900), ("2 weeks", 1209600), ("0.5 s", 0.5), (60, 60)],
)
def test_lengths_are_numbers_and_units(text: Any, seconds: float) -> None:
    assert window_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "day", "1", "1 month", "-1 day", "0 min", "1 day 2 h", 0, float("nan"), 1e999])
def test_other_lengths_are_refused(text: Any) -> None:
    with pytest.raises(ss.InvalidInputError, match="a window must be"):
        window_seconds(text)


@pytest.mark.parametrize(
    ("column", "form"),
    [
        (pa.array([NOON]), None),
        (pa.array([NOON], pa.timestamp("s")), None),
        (pa.array([NOON], pa.timestamp("ns", tz="UTC")), None),
        (pa.array([NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))).astimezone(dt.UTC)]), None),
        (pa.array(["2024-05-31T12:00:00Z"]), None),
        (pa.array(["2024-05-31 12:00"]).dictionary_encode(), None),
        (pa.array(["5/31/24 12:00"], pa.large_string()), "%m/%d/%y %H:%M"),
        (pa.array([NOON.date()]), None),
    ],
)
def test_times_of_all_kinds_are_in_the_same_day(column: Any, form: str | None) -> None:
    times = times_in(column, "when", form).cast(pa.int64()).to_numpy()
    days = Tumbling(86_400 * 10**6)
    assert days.names(days.number(times)).to_pylist() == ["2024-05-31"]


def test_nanoseconds_of_text_are_rounded_down() -> None:
    """As those of Arrow's times are, also before 1970, and beside times of other forms."""
    texts = ["2026-11-22T10:00:00.123456789Z", "1969-12-31T23:59:59.9999999", "2026-11-22", "2026-11-22 10:00:00.5+01"]
    expected = ["2026-11-22T10:00:00.123456Z", "1969-12-31T23:59:59.999999", *texts[2:]]
    for column in (texts, *([text] for text in texts)):
        other = [expected[texts.index(text)] for text in column]
        assert micros_in(pa.array(column), "at").tolist() == micros_in(pa.array(other), "at").tolist()
        assert readable_times(pa.array(column), None).all()
    assert not readable_times(pa.array(["2026-11-22T10:00:00.1234567890", "2026-11-22.1234567"]), None).any()


def test_times_with_and_without_a_zone_stand_in_one_column() -> None:
    texts = [
        "2026-01-01",
        "2026-01-01T01:00+01:00",
        "2026-01-01 00:00:00",
        "2025-12-31T21:00-03",
        "2026-01-01T00:00:00Z",
    ]
    for column in (pa.array(texts), pa.array(texts).dictionary_encode(), pa.array(texts, pa.large_string())):
        assert set(times_in(column, "at").to_pylist()) == {dt.datetime(2026, 1, 1)}  # noqa: DTZ001 - as it stands


TIMES = [
    "2026-01-01",
    "2026-01-01T01:00:00.123456789+01:00",
    "2026-01-01 00:00",
    "2025-12-31T21:00-03",
    "2026-01-01T00Z",
]


@given(st.lists(st.sampled_from(TIMES), max_size=5))
def test_a_column_of_text_has_the_times_of_its_rows_whichever_is_first(texts: list[str]) -> None:
    column = pa.array(texts, pa.string())
    assert times_in(column, "at").to_pylist() == [
        times_in(column[at : at + 1], "at")[0].as_py() for at in range(len(column))
    ]


@pytest.mark.parametrize("column", [["noon"], [1], [1.5], [None, NOON], ["2024-05-31", None]])
def test_what_is_no_time_is_refused_without_a_word_of_it(column: list[Any]) -> None:
    with pytest.raises(ss.InvalidInputError, match="the column when") as caught:
        times_in(pa.array(column), "when")
    assert "noon" not in str(caught.value)


@given(st.integers(-(10**18), 10**18), st.sampled_from([86400, 900, 7 * 86400, 1, 3600]))
def test_a_window_begins_at_most_its_length_before_each_of_its_times(nanoseconds: int, seconds: int) -> None:
    times = times_in(pa.array([nanoseconds], pa.timestamp("ns")), "when")
    windows = Tumbling(seconds * 10**6)
    (name,) = windows.names(windows.number(times.cast(pa.int64()).to_numpy())).to_pylist()
    start = int(dt.datetime.fromisoformat(name).replace(tzinfo=dt.UTC).timestamp()) * 10**9
    assert start <= nanoseconds < start + seconds * 10**9
    assert start % (seconds * 10**9) == 0


@pytest.mark.parametrize("offset", [0, 7, 3_599_999_999])
@pytest.mark.parametrize("size", [1, 60_000_000, 3_600_000_000])
def test_each_time_is_in_one_window(size: int, offset: int) -> None:
    windows = Tumbling(size, offset)
    times = np.array([-(1 << 60), -size - 1, -size, -1, 0, 1, size - 1, size, size + offset, 1 << 60])
    starts, ends = windows.start_of(times), windows.end_of(times)
    assert ((starts <= times) & (times < ends) & (ends - starts == size)).all()
    assert ((starts - offset) % size == 0).all()
    assert [windows.start_of(int(time)) for time in times] == starts.tolist()
    assert np.array_equal(windows.start(windows.number(times)), starts)
    assert list(windows.starts(offset - 1, offset + size + 1)) == [offset - size, offset, offset + size]


def test_windows_are_named_by_their_start() -> None:
    hour, day = 3_600_000_000, 86_400_000_000
    assert Tumbling(day).name(1) == "1970-01-02"
    assert Tumbling(day, 6 * hour).name(0) == "1970-01-01T0600Z"
    assert Tumbling(hour // 3600).name(59) == "1970-01-01T000059Z"


@given(
    st.integers(-(10**15), 10**15),
    st.sampled_from([Tumbling(size * 10**6) for size in (86_400, 900, 1)] + [Tumbling(500_000), Calendar("month")]),
)
def test_names_of_windows_say_when_they_start(time: int, windows: Any) -> None:
    number = windows.number(time)
    assert window_time(windows.name(number)) == windows.start(number)
    assert window_time(str(windows.names(np.array([number]))[0])) == windows.start(number)
    start = windows.start(number) // 10**6 * 10**6
    assert window_time(Slot("flights", start, "text", "AA").window) == start


@pytest.mark.parametrize(
    "name", ["", "north", "2024", "2024-13", "2024-02-30", "2024-05-01T24Z", "x 2024-05", "2024-0\u0665"]
)
def test_other_names_are_of_no_window(name: str) -> None:
    assert window_time(name) is None


# --- clocks ----------------------------------------------------------------------------------------------------

LOGS = st.lists(st.tuples(st.integers(-60, 60), st.booleans()), max_size=30)


def lateness(rows: list[tuple[int, bool]], delay: int, windows: Tumbling, kind: str) -> tuple[list[bool], int | None]:
    """Return which rows are late, and the newest time, one after the other; times beyond ±50 are out of the span."""
    newest: int | None = None
    late = []
    for time, is_heartbeat in rows:
        end = (time - windows.offset) // windows.size * windows.size + windows.size + windows.offset
        late.append(abs(time) > 50 or (newest is not None and end <= newest - delay))
        if abs(time) <= 50 and (kind == "events" or is_heartbeat):
            newest = time if newest is None else max(newest, time)
    return late, newest


@pytest.mark.parametrize("kind", ["events", "heartbeats"])
@given(rows=LOGS, cut=st.integers(0, 30), delay=st.integers(0, 20), size=st.integers(1, 15), offset=st.integers(0, 14))
def test_rows_are_late_by_those_before_them_however_a_log_is_cut(
    kind: Any, rows: list[tuple[int, bool]], cut: int, delay: int, size: int, offset: int
) -> None:
    windows, clock = Tumbling(size, offset), Clock(delay, kind, span=(-50, 50))
    late: list[bool] = []
    for part in (rows[:cut], rows[cut:]):
        times, beats = np.array([time for time, _ in part], dtype=np.int64), np.array([beat for _, beat in part], bool)
        late += clock.late(times, windows, beats).tolist()
        clock.advance(times, beats)
        clock = Clock(delay, kind, newest=clock.newest, span=(-50, 50))
    expected, newest = lateness(rows, delay, windows, kind)
    assert late == expected
    assert clock.newest == newest or (clock.newest is None and newest == -50)


def test_heartbeats_alone_move_a_clock_of_heartbeats() -> None:
    clock, times = Clock(5, "heartbeats"), np.array([100])
    clock.advance(times)
    assert (clock.newest, clock.watermark) == (None, None)
    clock.advance(times, np.array([True]))
    assert (clock.newest, clock.watermark) == (100, 95)


def test_other_kinds_of_clock_are_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match="clock must be one of events, heartbeats, got 'wall'"):
        Clock(0, "wall")  # type: ignore[arg-type]


def test_the_largest_times_fit() -> None:
    clock = Clock(LARGEST_TIME)
    times = np.array([LARGEST_TIME, -LARGEST_TIME, LARGEST_TIME + 1])
    assert clock.late(times, Tumbling(LARGEST_TIME)).tolist() == [False, True, True]
    assert clock.newest_before(times).tolist() == [-LARGEST_TIME, *[LARGEST_TIME] * 3]


@pytest.mark.parametrize("length", ["0.0000001 s", 1e-7, 10**17, 0])
def test_lengths_are_whole_microseconds_within_limits(length: Any) -> None:
    with pytest.raises(ss.InvalidInputError, match=r"window must be"):
        microseconds(length, "window")


def test_times_beyond_the_largest_are_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match="more than 70,000 years before or after 1970"):
        micros_in(pa.array([LARGEST_TIME + 1], pa.timestamp("us")), "when")


DAYS = ["2026-11-22", "20261122", "2026-W47-7", " 2026-11-22", "1600-01-01", "9999-12-31"]
CLOCKS = ["14:00", "14", "1400", "14:00:00.1234567", "14:00:00.123456789", "14:00:00.1234567891", "14:00:60", "24:00"]
ZONES = ["", "Z", "z", "+01:00", "+0100", "+01", " Z", "UTC"]


def test_what_a_column_is_cast_to_is_a_time_of_windows_too() -> None:
    """Rows of other windows are left out by their times in text, also where the column is then cast."""
    column, cast_by = Column("at", "timestamp"), 0
    for parts in itertools.product(DAYS, "T ", CLOCKS, ZONES):
        text = pa.array(["".join(parts)])
        try:
            instant = cast(text, column, range(1, 2))
        except ss.InvalidInputError:
            continue
        cast_by += 1
        assert micros_in(text, "at").tolist() == micros_in(instant, "at").tolist()
    assert cast_by > 50
