"""Which events come too late, decided where a log is read, by that log alone.

A runner decides by how far all its sources happen to be, so a replay may let in what was late before. Here a record is
late if a newer one before it *in its own partition* was more than the allowed delay past the end of its window. So what
a window holds is a function of the log, and a window computed again has the same bytes.

Where each record moves the clock, one record far ahead makes all others late, which no bound on contributions covers:
timestamps must not be set by those whose data they carry, and releases state this as a condition. Where it is moved by
heartbeats alone, records that carry nobody's data, no unit decides about others, and there is no condition.
"""

import weakref
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, get_args

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from numpy.typing import NDArray

from streamsketch.beam.intake.keys import METRICS
from streamsketch.beam.intake.windows import LATE
from streamsketch.errors import InvalidInputError
from streamsketch.intake import Tumbling

Clock: TypeAlias = Literal["events", "heartbeats"]


def check_clock(clock: Clock) -> None:
    """Raise `InvalidInputError` unless this is the name of a clock."""
    if clock not in get_args(Clock):
        raise InvalidInputError(f"clock must be one of {', '.join(get_args(Clock))}, got {clock!r:.80}")


_CLOCKS: "weakref.WeakKeyDictionary[beam.Pipeline, Clock]" = weakref.WeakKeyDictionary()


def agree_on_clock(pipeline: beam.Pipeline, clock: Clock) -> None:
    """Note what moves a pipeline's watermark; raise `InvalidInputError` if its sources or its stream say otherwise."""
    check_clock(clock)
    known = _CLOCKS.setdefault(pipeline, clock)
    if known != clock:
        raise InvalidInputError(
            f"clock={clock!r} here, and clock={known!r} before it in the same pipeline: the guarantee depends on what "
            f"moves the watermark. Give configure_stream and all sources the same"
        )


class PartitionClock:
    """The watermark of one partition of a log: the newest timestamp that moves it, less the allowed delay.

    Timestamps so far off that Beam cannot hold their window are late, and move nothing.

    Parameters
    ----------
    delay
        How far records may be out of order, in microseconds.
    size, offset
        Length and start of the windows, in microseconds.
    newest
        Newest timestamp so far, in microseconds; for going on where another clock stopped.
    clock
        What moves it: ``"events"``, each record, or ``"heartbeats"``, those alone.
    """

    def __init__(
        self, delay: int, size: int, offset: int = 0, newest: int | None = None, *, clock: Clock = "events"
    ) -> None:
        check_clock(clock)
        self._delay, self._windows, self._clock = delay, Tumbling(size, offset), clock
        margin = size + delay  # so that what follows stays within 64 bits
        self._low, self._high = MIN_TIMESTAMP.micros + margin, GlobalWindow().max_timestamp().micros - margin
        self.newest = newest

    @property
    def watermark(self) -> int:
        """No record that is on time has an earlier timestamp: microseconds."""
        return MIN_TIMESTAMP.micros if self.newest is None else self.newest - self._delay

    def is_late(self, moment: int, *, heartbeat: bool = False) -> bool:
        """Say whether a record with this timestamp is late, then let the clock go on with it, if it moves the clock."""
        late = self._windows.end_of(moment) <= self.watermark or not self._low <= moment <= self._high
        if heartbeat or self._clock == "events":
            self.go_on(moment)
        return late

    def go_on(self, moment: int) -> None:
        """Let the clock go on to a timestamp, unless that is behind it or beyond Beam's times."""
        if self._low <= moment <= self._high:
            self.newest = moment if self.newest is None else max(self.newest, moment)

    def are_late(self, moments: NDArray[np.int64], heartbeats: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Say which of some records in a row are late, by heartbeats alone: as `is_late` of one after the other."""
        sound = (self._low <= moments) & (moments <= self._high)
        before = self._low if self.newest is None else self.newest  # nothing sound is late for the former
        newest = np.maximum.accumulate(np.append(before, np.where(heartbeats & sound, moments, before)))
        if (heartbeats & sound).any():
            self.newest = int(newest[-1])
        ends = self._windows.end_of(np.clip(moments, self._low, self._high))
        late: NDArray[np.bool_] = (ends <= newest[:-1] - self._delay) | ~sound
        return late


class TakeOnTime(beam.PTransform):
    """Split what a log gives in what is on time and what is late: ``→ (on_time, late)``.

    Sources mark late elements by the earliest timestamp that Beam has. The second output is **secret**, for monitoring
    alone, and in the global window; it is never released.

    Parameters
    ----------
    count_private_data
        Count late rows as a Beam metric (``rows_late``): data without noise, for the operator's eyes only.
    """

    def __init__(self, *, count_private_data: bool = False) -> None:
        super().__init__()
        self._count = count_private_data

    def expand(self, events: beam.PCollection) -> Any:
        """Apply the transform."""
        step = beam.ParDo(_Split(count=self._count)).with_output_types(events.element_type)
        outputs = events | "By the log's clock" >> step.with_outputs(LATE, main="on_time")
        return outputs.on_time, outputs[LATE]


class _Split(beam.DoFn):
    def __init__(self, *, count: bool) -> None:
        self._count = count

    def process(self, element: Any, moment: Timestamp = beam.DoFn.TimestampParam) -> Iterator[Any]:
        if moment.micros > MIN_TIMESTAMP.micros:
            yield element
            return
        if self._count:
            rows = element.num_rows if isinstance(element, pa.RecordBatch | pa.Table) else 1
            Metrics.counter(METRICS, "rows_late").inc(rows)
        yield beam.pvalue.TaggedOutput(LATE, TimestampedValue(element, MIN_TIMESTAMP))
