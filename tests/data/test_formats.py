"""Times in text of a stated format, compared with the calendar of Python."""

import calendar
import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch import SJLT, Agreement
from streamsketch.beam import CalendarWindows, TumblingWindows
from streamsketch.data.formats import check_format
from streamsketch.data.windows import Tumbling, readable_times, times_in
from streamsketch.intake.rows import Intake
from streamsketch.jobs.files import FilesJob

YEARS = [1900, 1999, 2000, 2023, 2024, 2100]  # centuries with and without a leap day
FORMATS = {
    "%d.%m.%Y": "{d:02}.{m:02}.{y}",
    "%d.%m.%y": "{d:02}.{m:02}.{short:02}",
    "%m/%d/%Y %H:%M": "{m}/{d}/{y} 23:30",
    "%d %b %Y %I:%M %p": "{d} {name:.3} {y} 11:30 pm",
    "%e %B %C%y%n": "{d} {name} {y}  ",
    "%F %T %%": "{y}-{m:02}-{d:02} 23:30:00 %",
    "%k o'clock, %d.%m.%Y": "23 o'clock, {d:02}.{m:02}.{y}",
    "%d.%m.%Y %H:%M %z": "{d:02}.{m:02}.{y} 23:30 -1200",
    "%z %R %Y%m%d": "+14:00 00:30 {y}{m:02}{d:02}",
}


@pytest.mark.parametrize("form", [*FORMATS, None, "%Y-%j", "%Y-W%W-%w", "%s", "%D", "%A, %d %B %Y", "%%Z %F"])
def test_formats_of_dates_can_be_agreed_on(form: str | None) -> None:
    check_format(form)
    assert ss.Windows(time="at", every="1 h", format=form).format == form


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("%G-W%V-%u", "no date that can be read"),
        ("%d.%m.", "no date that can be read"),
        ("%H:%M", "no date that can be read"),
        ("%Y %U", "no date that can be read"),
        ("%d.%m.%Y %H:%M:%S.%f", "no date that can be read"),
        ("dd.mm.yyyy", "no date that can be read"),
        ("%d.%m.%Y %H:%M %Z", "names of time zones"),
    ],
)
def test_formats_that_are_passed_over_in_part_are_refused(form: str, said: str) -> None:
    """``strptime`` reads them: all times as of 1900, or those of another zone as of UTC."""
    near = ss.L1(1, unit="customer")
    agreement = Agreement(
        SJLT(sketch_dim=64, sparsity=4, seed=7), key="shop", index="item", unit="customer", neighbours=near
    )
    timed: dict[str, Any] = {"time": "at", "time_format": form}
    makers: list[Any] = [
        lambda: ss.Windows(time="at", every="1 h", format=form),
        lambda: Intake(agreement, windows=Tumbling(10**6), **timed),
        lambda: TumblingWindows("1 h", column="at", time_format=form),
        lambda: CalendarWindows("day", column="at", time_format=form),
        lambda: FilesJob(
            patterns=["*.csv"], agreement=agreement, epsilon=1.0, output="out", public_keys=["a"], window="1 h", **timed
        ),
    ]
    for make in makers:
        with pytest.raises(ss.InvalidInputError, match=said):
            make()


@pytest.mark.parametrize("form", FORMATS)
def test_dates_are_times_if_the_calendar_has_them(form: str) -> None:
    for year in YEARS if "%y" not in form or "%C" in form else [1999, 2000, 2023, 2024]:
        texts, expected = [], []
        for month in range(1, 13):
            for day in (1, 2, 3, 28, 29, 30, 31):
                names = {"short": year % 100, "name": calendar.month_name[month]}
                texts.append(FORMATS[form].format(d=day, m=month, y=year, **names))
                expected.append(day <= calendar.monthrange(year, month)[1])
        column = pa.array(texts)
        assert readable_times(column, form).tolist() == expected, (form, year)
        assert readable_times(column.dictionary_encode(), form).tolist() == expected, (form, year)
        with pytest.raises(ss.InvalidInputError, match="text that is not a time in the format"):
            times_in(column, "at", form)
        times_in(column.filter(pa.array(expected)), "at", form)


@pytest.mark.parametrize("year", YEARS)
def test_days_of_a_year_are_times_if_it_has_them(year: int) -> None:
    texts = [f"{year}-{day:03}" for day in range(1, 367)]
    many = 365 + calendar.isleap(year)
    assert readable_times(pa.array(texts), "%Y-%j").tolist() == [True] * many + [False] * (366 - many)
    first = dt.datetime(year, 1, 1)  # noqa: DTZ001 - as it stands
    days = [first + dt.timedelta(day) for day in range(many)]
    assert times_in(pa.array(texts[:many]), "at", "%Y-%j").to_pylist() == days


@pytest.mark.parametrize(
    "text", ["24:00 01.03.2024", "23:60 01.03.2024", "23:59 01.13.2024", "23:59 32.01.2024", "23:59 00.01.2024"]
)
def test_parts_out_of_range_are_no_time(text: str) -> None:
    assert not readable_times(pa.array([text]), "%H:%M %d.%m.%Y").any()


def test_a_row_of_an_impossible_date_is_malformed_alone() -> None:
    agreement = Agreement(SJLT(sketch_dim=64, sparsity=4, seed=7), index="item", unit="customer", neighbours=ss.L1(1))
    at = ["29.02.2024", "31.02.2024", "02.03.2024", "31.04.2024"]
    rows = pa.record_batch({"item": list("abcd"), "customer": list("wxyz"), "at": at})
    days = Tumbling(86_400 * 10**6)
    for bounded in (False, True):
        bad: list[int] = []
        intake = Intake(
            agreement,
            on_bad=lambda row, _, bad=bad: bad.append(row),  # type: ignore[misc]
            bounded=bounded,
            time="at",
            time_format="%d.%m.%Y",
            windows=days,
        )
        events = intake.read(rows)
        assert events.window is not None
        assert (days.names(events.window).to_pylist(), bad) == (["2024-02-29", "2024-03-02"], [2, 4])
