"""Streams on Prism, whose windows fire as its watermark passes them: seconds a test."""

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from streamsketch.beam.streams import PartitionClock
from tests.beam.running import append_to, recorded
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
MINUTE = 60
BASE = (
    int(time.time()) // (3 * MINUTE) * (3 * MINUTE) - 9 * MINUTE
)  # at the end of a test, windows open up to the present


def log(records: Iterable[tuple[int, Any]], delay: int) -> test_stream.TestStream:
    """Return a partition of a log as its source gives it: (seconds after `BASE`, element), late ones marked."""
    clock = PartitionClock(delay * 10**6, MINUTE * 10**6)
    passed = Timestamp(BASE - delay)
    test = test_stream.TestStream().advance_watermark_to(passed)
    for at, element in records:
        late = clock.is_late((BASE + at) * 10**6)
        test = test.add_elements([TimestampedValue(element, MIN_TIMESTAMP if late else BASE + at)])
        if clock.watermark > passed.micros:
            passed = Timestamp(micros=clock.watermark)
            test = test.advance_watermark_to(passed)
    return test.advance_watermark_to_infinity()


def with_minute(keyed: tuple[Any, Any], window: Any = beam.DoFn.WindowParam) -> tuple[Any, int, Any]:
    """Return a key, the start of its window in seconds after `BASE`, and the value."""
    return keyed[0], int(window.start) - BASE, keyed[1]


def run(
    options: list[str], build: Callable[[beam.Pipeline], dict[str, beam.PCollection]], folder: Path
) -> dict[str, list[Any]]:
    """Run a streaming pipeline; return the elements of each collection that ``build`` returns."""
    folder.mkdir(exist_ok=True)
    with beam.Pipeline(options=PipelineOptions([*options, "--streaming"])) as pipeline:
        found = build(pipeline)
        for name, collection in found.items():
            collection | f"Record {name}" >> beam.Map(append_to, str(folder / name))
    wait_for_workers()
    return {name: recorded(folder / name) for name in found}


def wait_for_workers() -> None:
    """Wait until this process's workers have hung up: a Prism that is killed before would make them raise."""
    deadline = time.monotonic() + PATIENCE
    while any(thread.name.startswith("read_") for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.05)
