"""Which events come too late, decided where a log is read, by that log alone.

A runner decides by how far all its sources happen to be, so a replay may let in what was late before. Here a record is
late if a newer one before it *in its own partition* was more than the allowed delay past the end of its window. So what
a window holds is a function of the log, and a window computed again has the same bytes.

One record far ahead makes all others late, which no bound on contributions covers: timestamps must not be set by those
whose data they carry. Releases of streams state this as a condition.
"""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from streamsketch.beam.keys import METRICS
from streamsketch.beam.once import LATE


class PartitionClock:
    """The watermark of one partition of a log: its newest timestamp less the allowed delay.

    Parameters
    ----------
    delay
        How far records may be out of order, in microseconds.
    size, offset
        Length and start of the windows, in microseconds.
    newest
        Newest timestamp so far, in microseconds; for going on where another clock stopped.
    """

    def __init__(self, delay: int, size: int, offset: int = 0, newest: int | None = None) -> None:
        self._delay, self._size, self._offset = delay, size, offset
        self.newest = newest

    @property
    def watermark(self) -> int:
        """No record that is on time has an earlier timestamp: microseconds."""
        return MIN_TIMESTAMP.micros if self.newest is None else self.newest - self._delay

    def is_late(self, moment: int) -> bool:
        """Say whether a record with this timestamp is late, then let the clock go on with it."""
        end = (moment - self._offset) // self._size * self._size + self._offset + self._size
        late = end <= self.watermark
        self.newest = moment if self.newest is None else max(self.newest, moment)
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
