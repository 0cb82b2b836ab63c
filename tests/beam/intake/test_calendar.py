"""Months of a time zone on Beam: each event in the window of its local date, and the bounds for each window."""

import datetime as dt
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing import test_stream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

import streamsketch as ss
from streamsketch.beam import (
    BoundContributions,
    CalendarWindows,
    ReleasePerKey,
    RowsToBatches,
    SketchPerKey,
    SlidingWindowSums,
)
from streamsketch.beam.intake.windows import CalendarFn
from streamsketch.data.calendar import Calendar
from streamsketch.intake import Intake
from streamsketch.release import AdditiveNoise
from tests.beam.running import run

ZONE = "Europe/Berlin"
MONTHS = Calendar("month", ZONE)
NEAR = ss.L1(2, unit="visitor")
AGREEMENT = ss.Agreement(
    ss.SJLT(sketch_dim=64, sparsity=4, seed=11), key="shop", index="item", unit="visitor", neighbours=NEAR
)
FIRST, LATER = 1_714_514_400, 1_717_192_800  # 1 May and 1 June 2024 in Berlin
ROWS = [
    *(("north", item, "Ann", FIRST + shift) for shift in (-1, 0, 5) for item in "aa"),
    ("south", "b", "Bob", LATER),
    ("north", "c", "Cy", LATER - 1),
]
TABLE = pa.table(
    {
        **{name: [row[place] for row in ROWS] for place, name in enumerate(("shop", "item", "visitor"))},
        "at": pa.array([row[3] for row in ROWS], pa.timestamp("s", "UTC")),
    }
)


def named(keyed: tuple[Any, Any], window: Any = beam.DoFn.WindowParam) -> tuple[Any, str, int, Any]:
    start, end = window.start.micros, window.end.micros
    assert MONTHS.end_of(start) == end
    return keyed[0], MONTHS.name(MONTHS.number(start)), end, keyed[1]


def expected() -> dict[tuple[str, str], ss.Sketch]:
    """Return the sketch of each shop and month, as one machine reads them: no unit is clipped in it."""
    found: dict[tuple[str, str], ss.Sketch] = {}
    intake = Intake(AGREEMENT, time="at", windows=MONTHS)
    for events in intake.batches(TABLE):
        names = MONTHS.names(events.window).to_pylist()  # type: ignore[arg-type] # there are windows
        for key, name, index, steps in zip(events.keys.to_pylist(), names, events.indices, events.steps, strict=True):
            sketch = found.setdefault((key, name), AGREEMENT.projection.sketch())
            sketch.add_steps(np.array([index]), np.array([steps]))
    return found


@pytest.mark.parametrize("in_column", [True, False])
def test_events_are_in_the_months_of_their_local_dates(in_column: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a case
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        if in_column:
            batches = pipeline | beam.Create([TABLE]) | CalendarWindows("month", ZONE, column="at")
        else:
            rows = [TimestampedValue(row[:3], row[3]) for row in ROWS]
            windowed = pipeline | beam.Create(rows, reshuffle=False) | CalendarWindows("month", ZONE)
            batches = windowed | RowsToBatches(AGREEMENT, ["shop", "item", "visitor"])
        return batches | SketchPerKey(AGREEMENT) | beam.Map(named)

    found, _ = run(build, tmp_path)
    assert {(key, name): sketch.state().tolist() for key, name, _, sketch in found} == {
        place: sketch.state().tolist() for place, sketch in expected().items()
    }


def test_units_are_bounded_and_released_in_each_month(tmp_path: Path) -> None:
    # of times in [1 April, 2 June), so in three months
    windows = Timestamp(FIRST - 30 * 86_400), Timestamp(LATER + 86_400)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        bounded = pipeline | beam.Create([TABLE]) | CalendarWindows("month", ZONE, column="at")
        noise = AdditiveNoise(epsilon=20_000.0, neighbours=NEAR)  # noise of 0
        released = ReleasePerKey(noise, public_keys=["north", "south"], public_windows=windows)
        return bounded | BoundContributions(AGREEMENT) | SketchPerKey(AGREEMENT) | released | beam.Map(named)

    found, _ = run(build, tmp_path)
    release = {(key, name): one for key, name, _, one in found}
    assert sorted(release) == [(key, f"2024-0{month}") for key in ("north", "south") for month in (4, 5, 6)]
    units = {one.guarantee.neighbours.unit for one in release.values()}
    assert units == {"visitor in one month (Europe/Berlin)"}
    of_all = expected()
    for place, one in release.items():
        clipped = place == ("north", "2024-05")  # Ann's four are two, and Cy's one stays
        sums = AGREEMENT.projection.sketch()
        if clipped:
            sums.update(["a", "c"], [2, 1])
        elif place in of_all:
            sums = of_all[place]
        assert one.values.tolist() == sums.state().tolist(), place


def test_what_never_ends_is_refused() -> None:
    endless = beam.Pipeline(runner="FnApiRunner") | test_stream.TestStream().add_elements([1])
    with pytest.raises(ss.InvalidInputError, match="CalendarWindows needs bounded input, but this stream never ends"):
        endless | CalendarWindows("month")
    releases = beam.Pipeline(runner="FnApiRunner") | beam.Create([("a", 1)]) | CalendarWindows("month")
    with pytest.raises(ss.InvalidInputError, match="got CalendarFn"):
        releases | SlidingWindowSums(60, 30)


def test_dates_have_no_zone(tmp_path: Path) -> None:
    table = TABLE.set_column(3, "at", pa.array([dt.date(2024, 5, 1)] * len(ROWS)))
    with pytest.raises(
        Exception, match="dates without a time of day, which have no time zone; leave out the zone Europe/Berlin"
    ):
        run(lambda pipeline: pipeline | beam.Create([table]) | CalendarWindows("month", ZONE, column="at"), tmp_path)


def test_windows_at_the_ends_of_time_fit_into_it() -> None:
    windows = CalendarFn(MONTHS)
    assert windows == CalendarFn(MONTHS) != CalendarFn(Calendar("month"))
    for time in (MIN_TIMESTAMP, Timestamp(0), beam.window.GlobalWindow().max_timestamp()):
        context = windows.AssignContext(time)
        (window,) = windows.assign(context)
        assert MIN_TIMESTAMP <= window.start <= time < window.end <= MAX_TIMESTAMP
        assert windows.assign(context) == [window]
