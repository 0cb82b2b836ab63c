"""Text is a time of the same instant, or none, for windows, for agreed columns, and in messages for Beam."""

import datetime as dt
import json
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import Timestamp

import streamsketch as ss
from streamsketch.beam.streams import DecodeMessages
from streamsketch.data.windows import readable_times, times_in
from streamsketch.intake import Intake

SKETCH = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
TIMED = ss.Agreement(SKETCH, index={"at": "timestamp"}, missing="refuse")
PLAIN = ss.Agreement(SKETCH, index={"amount": "integer"}, missing="refuse")
DAY, HOUR, MINUTE, SECOND = "2024-05-31T00:00", "2024-05-31T10:00", "2024-05-31T10:20", "2024-05-31T10:20:30"
TIMES = {
    "2024-05-31": DAY,
    "2024-05-31T10": HOUR,
    "2024-05-31 10": HOUR,
    "2024-05-31T10Z": HOUR,
    "2024-05-31 10Z": HOUR,
    "2024-05-31T10+02": "2024-05-31T08:00",
    "2024-05-31T10-0230": "2024-05-31T12:30",
    "2024-05-31T10:20": MINUTE,
    "2024-05-31T10:20Z": MINUTE,
    "2024-05-31T10:20+02:00": "2024-05-31T08:20",
    "2024-05-31T10:20:30": SECOND,
    "2024-05-31 10:20:30": SECOND,
    "2024-05-31T10:20:30Z": SECOND,
    "2024-05-31T10:20:30+00:00": SECOND,
    "2024-05-31T12:20:30+02": SECOND,
    "2024-05-31T12:20:30+0200": SECOND,
    "2024-05-31T08:20:30-02:00": SECOND,
    "2024-05-31T10:20:30.5": f"{SECOND}.500000",
    "2024-05-31T10:20:30.5Z": f"{SECOND}.500000",
    "2024-05-31T10:20:30.123456Z": f"{SECOND}.123456",
}
NO_TIMES = [
    *("", "soon", "2024", "2024-05", "2024-5-31", "2024-02-30", "2024-152", "2024-W22-5", "20240531", "1717150000"),
    *("20240531T102030Z", "2024-05-31T102030Z", "2024-05-31T", "2024-05-31Z", "2024-05-31+02:00", " 2024-05-31"),
    *("2024-05-31 ", "2024-05-31t10:20:30Z", "2024-05-31T10:20:30z", "2024-05-31T10:20:30,5Z", "2024-05-31T25:00"),
    *("2024-05-31T24:00:00Z", "2024-05-31T10:20:60Z", "2024-05-31T10:20:30.Z", "2024-05-31T10:20:30 +02:00"),
    *("2024-05-31T10:20:30+02:00:30", "2024-05-31T10:20:30.1234567891Z", "10000-01-01", "-0001-01-01"),
]


def of_windows(text: str) -> dt.datetime | None:
    cell = pa.array([text])
    return times_in(cell, "at")[0].as_py() if readable_times(cell)[0] else None


def of_a_column(text: str) -> dt.datetime | None:
    bad: list[int] = []
    cast = Intake(TIMED, on_bad=lambda place, _: bad.append(place)).cast(pa.record_batch({"at": [text]}), 0)
    return None if bad else cast.column("at").cast(pa.timestamp("us"))[0].as_py()


def of_beam(text: str, more: Any = None) -> dt.datetime | None:
    """Return the time of a row of JSON, alone or beside another that other readers have to read."""
    lines = [json.dumps({"amount": 1, "time": text}), *([] if more is None else [json.dumps(more)])]
    decode = DecodeMessages(PLAIN, time="time", size=60, format="json")
    decode._step.start_bundle()
    found = [*decode._step.process("\n".join(lines).encode(), Timestamp(0)), *decode._step.finish_bundle()]
    rows = [element for element in found if not isinstance(element, beam.pvalue.TaggedOutput)]
    times = [row["time"] for element in rows for row in element.value.to_pylist() if row["amount"] == 1]
    return times[0].replace(tzinfo=None) if times else None


@pytest.mark.parametrize("text", [*TIMES, *NO_TIMES])
def test_a_text_is_the_same_time_everywhere(text: str) -> None:
    expected = None if text in NO_TIMES else dt.datetime.fromisoformat(TIMES[text])
    assert of_windows(text) == expected
    assert of_a_column(text) == expected
    assert of_beam(text) == expected
    assert of_beam(text, {"amount": 2, "time": "2024-05-31T10:20:30Z"}) == expected
    assert of_beam(text, {"amount": "three", "time": 7}) == expected
