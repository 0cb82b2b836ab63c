"""The clock of a log: which rows are late, which are too far ahead, and which advance it."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsketch.data.calendar import Calendar
from streamsketch.data.windows import Tumbling
from streamsketch.intake.clock import AheadLimit, Clock, ClockKind

SIZE = 60
ENDS = [1 << 61, (1 << 63) - 1, -(1 << 63)]
LOGS = st.lists(st.tuples(st.integers(-100, 900) | st.sampled_from(ENDS), st.booleans()), max_size=30)


def judged(
    rows: list[tuple[int, bool]], kind: ClockKind, delay: int, limit: AheadLimit
) -> tuple[list[bool], list[bool], int | None]:
    """Return which rows are late, which too far ahead, and the newest time: a loop of its own."""
    newest: int | None = None
    late, ahead = [], []
    for time, is_beat in rows:
        within = min(max(time, -(1 << 61)), 1 << 61)
        number = max(within - delay, -(1 << 61)) // SIZE
        if newest is None:
            reach = None if limit.first is None else limit.first + max(limit.most, 10_000)
        else:
            watermark = (newest - delay) // SIZE
            reach = (watermark if limit.first is None else max(watermark, limit.first)) + limit.most
        far = reach is not None and number > reach
        over = newest is not None and within // SIZE * SIZE + SIZE <= newest - delay
        ahead.append(far)
        late.append((over or within != time) and not far)
        if not far and within == time and (is_beat or kind == "events"):
            newest = time if newest is None else max(newest, time)
    return late, ahead, newest


@given(
    LOGS,
    st.sampled_from(["events", "heartbeats"]),
    st.sampled_from([0, 7, 150]),
    st.sampled_from([1, 3]),
    st.none() | st.integers(-1, 4),
    st.integers(0, 30),
)
def test_rows_are_judged_by_the_rows_before_them(
    rows: list[tuple[int, bool]], kind: ClockKind, delay: int, most: int, first: int | None, cut: int
) -> None:
    limit = AheadLimit(Tumbling(SIZE), most, first)
    clock = Clock(delay, kind, limit=limit)
    late: list[bool] = []
    ahead: list[bool] = []
    for part in (rows[:cut], rows[cut:]):
        times = np.array([time for time, _ in part], dtype=np.int64)
        beats = np.array([is_beat for _, is_beat in part], dtype=bool)
        late += clock.late(times, Tumbling(SIZE), beats).tolist()
        ahead += clock.ahead(times, beats).tolist()
        clock.advance(times, beats)
    assert (late, ahead, clock.newest) == judged(rows, kind, delay, limit)


@pytest.mark.parametrize("kind", ["events", "heartbeats"])
def test_an_old_row_takes_the_reach_of_a_clock_not_back(kind: ClockKind) -> None:
    """All short logs of rows that are old, on time, within reach and beyond it, read at once."""
    for times in itertools.product([0, 60, 130, 190, 1000], repeat=4):
        for beats in ([True] * 4, [True, True, False, True]):
            log = [(0, True), *zip(times, beats, strict=True)]
            clock, limit = Clock(0, kind, limit=AheadLimit(Tumbling(SIZE), 2)), AheadLimit(Tumbling(SIZE), 2)
            array, flags = np.array([time for time, _ in log]), np.array([is_beat for _, is_beat in log])
            found = clock.late(array, Tumbling(SIZE), flags).tolist(), clock.ahead(array, flags).tolist()
            clock.advance(array, flags)
            assert (*found, clock.newest) == judged(log, kind, 0, limit)


@pytest.mark.parametrize("kind", ["events", "heartbeats"])
def test_a_batch_that_is_in_time_by_itself_is_late_by_rows_before_it(kind: ClockKind) -> None:
    clock, beats = Clock(7, kind), np.ones(2, dtype=bool)
    clock.advance(np.array([500, 600]), beats)
    assert clock.late(np.array([100, 110]), Tumbling(SIZE), beats).tolist() == [True, True]
    assert clock.late(np.array([590, 599]), Tumbling(SIZE), beats).tolist() == [False, False]


def test_a_row_alone_is_too_far_ahead_from_the_end_of_the_last_window_in_reach_on() -> None:
    clock = Clock(5, newest=5, limit=AheadLimit(Tumbling(SIZE), 2))
    ends = np.array([3 * SIZE + 4, 3 * SIZE + 5])
    assert [clock.ahead(ends[[place]]).tolist() for place in (0, 1)] == [[False], [True]]


@given(st.integers(1, 500), st.integers(0, 100), st.integers(0, 1000), st.integers(0, 500))
def test_whatever_is_within_the_length_passes(length: int, delay: int, newest: int, after: int) -> None:
    clock = Clock(delay, newest=newest, limit=AheadLimit.of_length(Tumbling(SIZE, 7), length))
    (is_ahead,) = clock.ahead(np.array([newest + after]))
    assert not (is_ahead and after <= length)
    assert is_ahead or after < length + 2 * SIZE, "rounded up to windows"


@pytest.mark.parametrize(("period", "most"), [("day", 2), ("week", 1), ("month", 1)])
def test_a_length_is_rounded_up_to_windows_of_a_calendar(period: str, most: int) -> None:
    windows = Calendar(period)  # type: ignore[arg-type]
    assert AheadLimit.of_length(windows, 24 * 3_600_000_000).most == most
    assert AheadLimit.of_length(windows, None).most == 10_000


@pytest.mark.parametrize("kind", ["events", "heartbeats"])
def test_old_rows_never_take_a_clock_back_however_rows_are_split(kind: ClockKind) -> None:
    times = np.array([30, 12, 55, 7, 9, 41, 70, 3])
    for sizes in itertools.product((1, 2, 3), repeat=3):
        clock, start, newest = Clock(5, kind), 0, []
        for size in (*sizes, times.size - sum(sizes)):
            rows = times[start : start + size]
            start += size
            newest += clock.newest_before(rows, np.ones(rows.size, dtype=bool))[1:].tolist()
            clock.advance(rows, np.ones(rows.size, dtype=bool))
            assert clock.newest == newest[-1] if newest else clock.newest is None
        assert newest == np.maximum.accumulate(times).tolist()
