"""Days, weeks and months in time zones, against datetime and zoneinfo, one time after the other."""

import datetime as dt
import pickle
import zoneinfo
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.agreement import Agreement
from streamsketch.data.calendar import Calendar, Period, check_times_of_day, event_windows
from streamsketch.data.windows import LARGEST_TIME, Tumbling
from streamsketch.intake import Intake

PERIODS = get_args(Period)
DAY, HOUR = 86_400 * 10**6, 3_600 * 10**6
EPOCH, MICRO = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.timedelta(microseconds=1)
# midnights that are skipped or come twice, a half-hour change, a date that is skipped, rules south of the equator
ZONES = [
    *("UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Beirut", "America/Havana", "Africa/Cairo"),
    *("America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Kiritimati", "Asia/Kathmandu"),
]

SKIPPED = ["1844-12-31", "1993-08-21", "1994-12-31", "2011-12-30"]


def micros(text: str) -> int:
    """Return an instant in microseconds."""
    return (dt.datetime.fromisoformat(text) - EPOCH) // MICRO


def date_in(zone: str, time: int) -> dt.date:
    """Return the latest local date up to a time; a clock that is set back across midnight returns to the one before."""
    tz = dt.UTC if zone == "UTC" else zoneinfo.ZoneInfo(zone)
    now, before = ((EPOCH + (time - back) * MICRO).astimezone(tz) for back in (0, HOUR))
    if now.utcoffset() == before.utcoffset():
        return now.date()
    return max((EPOCH + (time - minutes * 30 * 10**6) * MICRO).astimezone(tz).date() for minutes in range(122))


def named(period: str, date: dt.date) -> str:
    """Return the name of the window that a date is in."""
    if period == "month":
        return date.isoformat()[:7]
    return (date - dt.timedelta(days=date.weekday() if period == "week" else 0)).isoformat()


@given(
    st.sampled_from(PERIODS),
    st.sampled_from(ZONES),
    st.lists(st.integers(micros("1830-01-01T00:00Z"), micros("2120-01-01T00:00Z")), min_size=1, max_size=8),
    st.integers(-2 * HOUR, 2 * HOUR),
)
def test_times_are_in_the_windows_of_their_local_dates(
    period: Period, zone: str, instants: list[int], shift: int
) -> None:
    windows = Calendar(period, zone)
    starts = windows.start_of(np.array(instants))
    times = np.concatenate([instants, starts + shift, starts, starts - 1])  # mostly where something may go wrong
    numbers = windows.number(times)
    assert windows.names(numbers).to_pylist() == [named(period, date_in(zone, time)) for time in times.tolist()]
    assert [windows.number(time) for time in times.tolist()] == numbers.tolist()
    assert ((windows.start(numbers) <= times) & (times < windows.end_of(times))).all()
    assert [windows.number_named(windows.name(number)) for number in numbers.tolist()] == numbers.tolist()


@pytest.mark.parametrize(
    ("zone", "date", "start", "hours"),
    [
        ("Europe/Berlin", "2024-03-31", "2024-03-30T23:00Z", 23),
        ("Europe/Berlin", "2024-10-27", "2024-10-26T22:00Z", 25),
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00Z", 23),  # from 01:00 on: midnight is skipped
        ("America/Sao_Paulo", "2018-02-17", "2018-02-17T02:00Z", 25),
        ("Asia/Beirut", "2023-03-26", "2023-03-25T22:00Z", 23),
        ("America/Havana", "2023-11-05", "2023-11-05T04:00Z", 25),  # midnight comes twice: from the first one on
        ("America/St_Johns", "2010-11-07", "2010-11-07T02:30Z", 25),  # a minute later the clock goes back to the 6th
        ("America/Toronto", "1919-03-31", "1919-03-31T04:30Z", 23.5),  # 23:30 is followed by 00:30
        ("Australia/Lord_Howe", "2024-04-07", "2024-04-06T13:00Z", 24.5),
        ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00Z", 24),
        ("Asia/Kathmandu", "1985-12-31", "1985-12-30T18:30Z", 24),
        ("Europe/Berlin", "1893-04-01", "1893-03-31T23:06:32Z", 24 - 392 / 3600),
        ("UTC", "1969-12-31", "1969-12-31T00:00Z", 24),
    ],
)
def test_days_in_which_clocks_change(zone: str, date: str, start: str, hours: float) -> None:
    days = Calendar("day", zone)
    number = days.number_named(date)
    assert number is not None
    begin, end = days.start(np.array([number, number + 1])).tolist()
    assert (days.name(number), begin, end - begin) == (date, micros(start), round(hours * HOUR))
    expected = sorted({days.start(number - 1), begin, end})  # of what is never, none
    assert days.starts(begin - 1, end + 1) == expected


SKIPPING = {"Pacific/Apia", "Pacific/Kwajalein", "Pacific/Kiritimati", "Asia/Manila"}
# half an hour of summer time, midnight that is skipped, and both hemispheres
ODD = {"Australia/Lord_Howe", "America/Havana", "America/New_York", "Europe/London", "Asia/Kathmandu"}


@pytest.mark.parametrize(("every", "some"), [(60, 40), pytest.param(1, 100, marks=pytest.mark.long)])
@pytest.mark.parametrize("period", PERIODS)
def test_in_every_zone_each_window_is_longer_than_nothing_and_named_by_its_date(
    period: Period, every: int, some: int
) -> None:
    """In those that skip a date, in odd ones, and in every sixtieth of the others."""
    skipping = set()
    for zone in sorted({*SKIPPING, *ODD, *sorted(zoneinfo.available_timezones())[::every]}):
        try:
            windows = Calendar(period, zone)
        except ss.InvalidInputError:
            continue  # of this machine alone
        ends = [micros("1840-01-01T00:00Z"), micros("2040-01-01T00:00Z")]
        # every window in which some zone skips a date, and those around it; otherwise some of two centuries
        skips = [windows.number(micros(f"{date}T12:00Z")) for date in SKIPPED]
        near = {number + more for number in skips for more in range(-3, 4)}
        first, last = (windows.number(end) for end in ends)
        numbers = np.array(sorted(near | set(range(first, last, max(1, (last - first) // some)))))
        starts, following = windows.start(numbers), windows.start(numbers + 1)
        assert (starts < following).all(), zone
        assert (windows.number(starts) == numbers).all(), zone
        assert (windows.number(following - 1) == numbers).all(), zone
        names = windows.names(numbers).to_pylist()
        assert len(set(names)) == len(numbers)
        assert [windows.number_named(name) for name in names] == numbers.tolist(), zone
        skipping |= {zone for date in SKIPPED if windows.number_named(date) is None} if period == "day" else set()
    assert period != "day" or skipping >= SKIPPING


def test_a_date_that_is_skipped_is_no_window() -> None:
    days = Calendar("day", "Pacific/Apia")
    assert days.number_named("2011-12-30") is None
    before, after = days.number_named("2011-12-29"), days.number_named("2011-12-31")
    assert before is not None
    assert after == before + 1
    assert days.starts(days.start(before), days.start(after) + 1) == [days.start(before), days.start(after)]


def test_weeks_are_those_of_iso() -> None:
    weeks = Calendar("week")
    assert weeks.number(np.array([-4 * DAY, -3 * DAY, 0, 4 * DAY - 1, 4 * DAY])).tolist() == [-1, 0, 0, 0, 1]
    assert (weeks.name(0), weeks.name(-1)) == ("1969-12-29", "1969-12-22")
    for year in range(1960, 2030):
        monday = dt.date.fromisocalendar(year, 1, 1).isoformat()
        assert weeks.number_named(monday) is not None


def test_windows_far_away_follow_each_other() -> None:
    """Beyond the years of datetime too: there a zone keeps its first offset, or its last rules."""
    times = np.array([-LARGEST_TIME, micros("0001-01-01T12:00Z"), micros("9999-12-31T12:00Z"), LARGEST_TIME])
    for period in PERIODS:
        for zone in ("UTC", "Europe/Berlin", "America/Sao_Paulo"):
            windows = Calendar(period, zone)
            numbers = windows.number(times)
            assert windows.start(numbers + 1).tolist() == windows.end_of(times).tolist()
            assert ((windows.start(numbers) <= times) & (times < windows.end_of(times))).all()
            every = windows.start(np.array([*numbers, *(numbers + 1)]))
            for first, last in pairwise(numbers.tolist()):
                assert windows.start(last) > windows.start(first)
            assert every.tolist() == [windows.start(int(number)) for number in (*numbers, *(numbers + 1))]
    summer = micros("9999-07-01T00:00Z")
    assert Calendar("day", "Europe/Berlin").start_of(summer) == summer - 2 * HOUR
    assert Calendar("day", "Europe/Berlin").start_of(summer + 400 * 146_097 // 400 * DAY) % DAY == 22 * HOUR


def test_a_calendar_of_utc_has_the_days_of_24_hours() -> None:
    times = np.arange(-(10**16), 10**16, 7 * 10**13)
    days, lengths = Calendar("day"), Tumbling(DAY)
    assert np.array_equal(days.number(times), lengths.number(times))
    assert days.names(days.number(times)).equals(lengths.names(lengths.number(times)))
    assert days.starts(-5, 3 * DAY) == list(lengths.starts(-5, 3 * DAY))


def test_arrays_of_any_shape_of_time_are_one_computation() -> None:
    windows = Calendar("day", "Europe/Berlin")
    assert windows.number(np.array([], dtype=np.int64)).tolist() == []
    scattered = np.array([0, 10**17, -(10**17), 0])  # too far apart for one table
    assert windows.start_of(scattered).tolist() == [windows.start_of(int(time)) for time in scattered]
    assert pickle.loads(pickle.dumps(windows)) == windows  # noqa: S301 - our own


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "", "../UTC", "right/UTC", "localtime", "Europe", "\0", 7])
def test_other_zones_are_refused(zone: Any) -> None:
    with pytest.raises(ss.InvalidInputError, match="is not a time zone in this machine's IANA database"):
        Calendar("day", zone)


def test_utc_needs_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", missing)
    assert Calendar("month").name(Calendar("month").number(0)) == "1970-01"
    with pytest.raises(ss.InvalidInputError, match="pip install tzdata for the newest database"):
        Calendar("month", "Europe/Berlin")


def test_other_periods_are_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match="period must be one of day, week, month, got 'year'"):
        Calendar("year")  # type: ignore[arg-type]


# --- what users say --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "zone", "expected"),
    [
        ("month", None, Calendar("month")),
        ("1 month", "Asia/Beirut", Calendar("month", "Asia/Beirut")),
        ("week", None, Calendar("week")),
        ("1 week", None, Tumbling(7 * DAY)),  # as ever
        ("1 week", "UTC", Calendar("week")),
        ("1d", None, Tumbling(DAY)),
        ("1d", "UTC", Calendar("day")),
        ("day", None, Calendar("day")),
        (3600, None, Tumbling(HOUR)),
    ],
)
def test_windows_are_said_in_words(window: Any, zone: str | None, expected: Any) -> None:
    assert event_windows(window, zone) == expected


@pytest.mark.parametrize(
    ("window", "zone", "message"),
    [
        ("2 months", None, "--window must be a day, a week or a month of the calendar, got '2 months'"),
        ("24h", "UTC", "--window must be a day, a week or a month in a time zone, got '24h'"),
        (86_400, "UTC", "in a time zone, got 86400"),
        ("year", None, "a window must be a number and a unit"),
        ("month", "Berlin", "'Berlin' is not a time zone"),
    ],
)
def test_other_windows_are_refused(window: Any, zone: str | None, message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        event_windows(window, zone, "--window")


@pytest.mark.parametrize(
    ("column", "form", "fits"),
    [
        (pa.array([dt.date(2024, 5, 31)]), None, False),
        (pa.array(["2024-05-31T12:00", "2024-05-31"]), None, False),
        (pa.array(["2024-05-31"]).dictionary_encode(), None, False),
        (pa.array(["31.05.2024"]), "%d.%m.%Y", False),
        (pa.array(["31.05.2024 12"]), "%d.%m.%Y %H", True),
        (pa.array(["2024-05-31T12:00", "2024-05-31T12"], pa.large_string()), None, True),
        (pa.array([], pa.string()), None, True),
        (pa.array([dt.datetime(2024, 5, 31)]), None, True),  # noqa: DTZ001 - in UTC
    ],
)
def test_dates_are_refused_in_a_time_zone(column: Any, form: str | None, fits: bool) -> None:  # noqa: FBT001 - a case
    for windows in (Calendar("month"), Tumbling(DAY)):
        check_times_of_day(windows, column, "at", form)
    if fits:
        check_times_of_day(Calendar("month", "Asia/Beirut"), column, "at", form)
        return
    with pytest.raises(ss.InvalidInputError, match="the column at has dates without a time of day"):
        check_times_of_day(Calendar("month", "Asia/Beirut"), column, "at", form)


def test_rows_fall_into_windows_of_a_zone() -> None:
    agreement = Agreement(ss.SJLT(sketch_dim=64, sparsity=4, seed=7), index={"item": "integer"})
    batch = pa.record_batch({"item": [1, 2, 3], "at": ["2024-04-30T21:59Z", "2024-04-30T22:00Z", "2024-05-01"]})
    months = Calendar("month", "Europe/Berlin")
    bad: list[int] = []
    intake = Intake(agreement, on_bad=lambda row, _: bad.append(row), time="at", windows=months)
    numbers: Any = intake.read(batch).window
    assert (months.names(numbers).to_pylist(), bad) == (["2024-04", "2024-05"], [3])
    with pytest.raises(ss.InvalidInputError, match="which have no time zone; leave out the zone Europe/Berlin"):
        Intake(agreement, time="at", windows=months).read(batch)
