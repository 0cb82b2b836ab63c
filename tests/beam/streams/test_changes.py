"""What is compared between windows, and with which test."""

import datetime as dt
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.window import TimestampedValue

import streamsketch as ss
from streamsketch.beam import CalendarWindows
from streamsketch.beam.streams import ChangesBetweenWindows
from tests.beam.running import run
from tests.counted import shops

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)


def counted(number: int) -> ss.PrivateSketch:
    sketch = PROJECTION.sketch()
    sketch.update(number % 3, 9)
    return sketch.release(epsilon=1.0, neighbours=ss.L1(9))


@pytest.mark.parametrize(
    ("by", "share"), [("distance", 0.0), ("distance", 1.0), ("mean", 0.0), ("profile", 0.0), ("cosine", 0.0)]
)
def test_the_p_value_is_that_of_a_test_with_the_tolerance(by: Any, share: float) -> None:
    found = shops()
    x, y = found["north"], found["south"]
    tolerance = share * ss.squared_distance(x, y).value ** 0.5
    change = ChangesBetweenWindows(by=by, tolerance=tolerance)._test.change(x, y)
    assert change.p_value == ss.sameness(x, y, tolerance, by=by).p_value
    assert not share or 0.01 < change.p_value < 0.99
    assert change.estimate.value == ss.pairwise([x, y], by=by).value[0, 1]


def test_too_few_units_have_no_average_and_no_p_value() -> None:
    found = shops()
    change = ChangesBetweenWindows(by="mean")._test.change(found["north"], found["kiosk"])
    assert change.p_value is None
    assert change.estimate.value != change.estimate.value


def test_months_that_come_in_any_order_are_compared_with_the_ones_before(tmp_path: Path) -> None:
    starts = {month: dt.datetime(2026, month, 1, tzinfo=dt.UTC).timestamp() for month in (1, 2, 3, 4, 5, 7, 8, 9)}
    found = {month: counted(month) for month in starts}

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        order = sorted(starts, key=lambda month: month * 5 % 11)
        at_times = beam.MapTuple(lambda time, keyed: TimestampedValue(keyed, time))
        timed = pipeline | beam.Create([(starts[month] + 3600, ("a", found[month])) for month in order]) | at_times
        releases = timed | CalendarWindows("month")
        named = beam.Map(lambda keyed, window=beam.DoFn.WindowParam: (int(window.start), keyed[1].p_value))
        return releases | ChangesBetweenWindows() | named

    changes, _ = run(build, tmp_path)
    expected = {starts[month]: ss.sameness(found[month], found[month - 1]).p_value for month in (2, 3, 4, 5, 8, 9)}
    assert sorted(changes) == sorted(expected.items())


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"by": "size"}, "by must be"),
        ({"tolerance": -1.0}, "tolerance must be finite"),
        ({"by": "cosine", "samples": True}, "compared by their averages"),
        ({"samples": True}, "compared by their averages"),
    ],
)
def test_mistakes_are_known_before_the_job(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=what):
        ChangesBetweenWindows(**options)
