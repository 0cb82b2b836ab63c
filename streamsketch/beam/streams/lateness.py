"""Decide where a log is read which events are late, from that log only.

A runner decides this by the current positions of all its sources, so a replay may accept rows that were late before.
Here, a row is late if a record before its own *in its own partition* was past the end of the row's window by more than
the allowed delay. So the content of a window is a function of the log, and a window computed again has the same bytes.

Sources set the Beam timestamp of each message to the watermark of its partition before the message. Before the first
record, this is Beam's earliest timestamp. `DecodeMessages` judges each row by it, whatever the time of the message: a
producer that is a few seconds behind loses nothing, if the delay covers these seconds.

If each record moves the clock, one record ahead makes others late. No bound on contributions covers that: the people in
the data must not set timestamps, and releases state this as a condition. If only heartbeats move the clock, which carry
no one's data, no unit decides about others, and there is no condition. In both cases, a record that is further ahead
than `AheadLimit` allows moves nothing.
"""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from numpy.typing import NDArray

from streamsketch.beam.intake.keys import METRICS
from streamsketch.beam.intake.windows import LATE
from streamsketch.core.numbers import Ints
from streamsketch.data.windows import Tumbling
from streamsketch.errors import InvalidInputError
from streamsketch.intake.clock import AheadLimit, Clock, ClockKind

EARLY = 1000
"""Microseconds: a runner ends a window at its last millisecond, when rows in it are still on time."""


def agree_on_clock(pipeline: beam.Pipeline, clock: ClockKind) -> None:
    """Record what moves a pipeline's watermark; raise `InvalidInputError` if an earlier step recorded otherwise."""
    Clock(0, clock)  # which knows the kinds
    recorded = vars(pipeline).setdefault("streamsketch_clock", clock)
    if recorded != clock:
        raise InvalidInputError(
            f"the guarantee depends on what moves the watermark, but this step has clock={clock!r} and an earlier one "
            f"in the pipeline clock={recorded!r}; pass the same clock to configure_stream and all sources"
        )


def micros_of(times: pa.Array, name: str) -> Ints:
    """Return Arrow times in microseconds, rounded down: int64, (n,). Those beyond 64 bits are at the ends.

    Raises
    ------
    InvalidInputError
        For a column of another type.
    """
    if pa.types.is_date(times.type):
        times = times.cast(pa.timestamp("ms"))
    if not pa.types.is_timestamp(times.type):
        raise InvalidInputError(
            f"the column {name} must hold Arrow times, got {times.type}; write the column as timestamps"
        )
    counts: Ints = times.cast(pa.int64()).to_numpy(zero_copy_only=False)
    if times.type.unit == "ns":
        return counts // 1000
    factor = {"s": 10**6, "ms": 10**3, "us": 1}[times.type.unit]
    most = int(np.iinfo(np.int64).max) // factor
    return np.clip(counts, -most, most) * factor


class PartitionClock(Clock):
    """The watermark of one partition of a log: the newest timestamp that moves it, less the allowed delay.

    Timestamps whose window is outside Beam's range are late and do not move the watermark.

    Parameters
    ----------
    delay
        How far records may be out of order, in microseconds.
    size, offset
        Length and start of the windows, in microseconds.
    newest
        Newest timestamp so far, in microseconds, to continue from another clock.
    clock
        What moves the watermark: every record (``"events"``), or only heartbeats (``"heartbeats"``).
    limit
        How far ahead a record may be; by default there is no limit within Beam's range of times.

    Examples
    --------
    >>> clock = PartitionClock(delay=5_000_000, size=60_000_000)  # windows of a minute
    >>> [clock.is_late(seconds * 10**6) for seconds in (10, 70, 20)]  # at 70 s, the first window is over
    [False, False, True]
    >>> clock.watermark
    65000000
    """

    def __init__(
        self,
        delay: int,
        size: int,
        offset: int = 0,
        newest: int | None = None,
        *,
        clock: ClockKind = "events",
        limit: AheadLimit | None = None,
    ) -> None:
        margin = size + delay  # so that what follows stays within 64 bits
        span = MIN_TIMESTAMP.micros + margin, GlobalWindow().max_timestamp().micros - margin
        super().__init__(delay, clock, newest=newest, span=span, limit=limit)
        self._windows = Tumbling(size, offset)

    @property
    def watermark(self) -> int:
        """The watermark in microseconds. No record that is on time has an earlier timestamp."""
        watermark = super().watermark
        return MIN_TIMESTAMP.micros if watermark is None else watermark

    @property
    def passed(self) -> Timestamp:
        """The watermark that a source reports: `EARLY` before its own, since rows of a window that it ends are late."""
        return Timestamp(micros=self.watermark - (self.newest is not None) * EARLY)

    @property
    def timestamp(self) -> Timestamp:
        """The timestamp that a source sets on the next record, which is the watermark before it."""
        return Timestamp(micros=self.watermark)

    def watermarks_before(self, times: Ints, heartbeats: NDArray[np.bool_]) -> Ints:
        """Return the watermark before each of several consecutive records, in microseconds: int64, (n,)."""
        newest = self.newest_before(times, heartbeats)[:-1]
        watermarks: Ints = np.where(newest <= self._low, MIN_TIMESTAMP.micros, newest - self.delay)
        return watermarks

    def floor(self, watermark: int) -> int:
        """Return the earliest watermark that judges rows as this one does: the start of its window."""
        return watermark if watermark <= MIN_TIMESTAMP.micros else self._windows.start_of(watermark)

    def judge(self, times: Ints) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which rows of one record are late, and which are too far ahead, without moving the clock."""
        # rows do not move this clock
        still = PartitionClock(self.delay, *self._windows, self.newest, clock="heartbeats", limit=self._limit)
        return still.late(times, self._windows), still.ahead(times)

    def on_time(self) -> tuple[int, int]:
        """Return the range [first, stop) of times at which a row of the next record is neither late nor far ahead."""
        if self.newest is None:
            first, before = self._low, None
        else:
            first, before = max(self._low, self._windows.start_of(self.watermark)), self._windows.number(self.watermark)
        if self._limit is None:
            return first, self._high + 1
        return first, min(self._high + 1, self._windows.start(self._limit.last(before) + 1) + self.delay)

    def is_late(self, time: int, *, heartbeat: bool = False) -> bool:
        """Return whether a record with this timestamp is late, then advance the clock if the record moves it."""
        return bool(self.are_late(np.array([time]), np.array([heartbeat]))[0])

    def go_on(self, time: int) -> None:
        """Advance the clock to a timestamp, unless that is behind it or outside Beam's range of times."""
        self.advance(np.array([time]), np.array([True]))

    def are_late(self, times: Ints, heartbeats: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which of several consecutive records are late and advance the clock, as `is_late` for each in turn."""
        late = self.late(times, self._windows, heartbeats)
        self.advance(times, heartbeats)
        return late


class TakeOnTime(beam.PTransform):
    """Split rows of your own source into rows on time and late rows: ``PCollection → (on_time, late)``.

    The source sets Beam's earliest timestamp on late rows, and their own time on the others. The second output is
    **secret**, in the global window, and for monitoring only; it is never released.

    Parameters
    ----------
    count_private_data
        Count late rows as a Beam metric (``rows_late``). The count has no noise, so it is for the operator only.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from apache_beam.transforms.window import TimestampedValue
    >>> rows = [TimestampedValue(("north", "tea"), 3600), TimestampedValue(("north", "jam"), MIN_TIMESTAMP)]
    >>> pipeline = beam.Pipeline(runner="FnApiRunner")
    >>> on_time, late = pipeline | beam.Create(rows) | TakeOnTime()
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

    def process(self, element: Any, timestamp: Timestamp = beam.DoFn.TimestampParam) -> Iterator[Any]:
        if timestamp.micros > MIN_TIMESTAMP.micros:
            yield element
            return
        if self._count:
            rows = element.num_rows if isinstance(element, pa.RecordBatch | pa.Table) else 1
            Metrics.counter(METRICS, "rows_late").inc(rows)
        yield beam.pvalue.TaggedOutput(LATE, TimestampedValue(element, MIN_TIMESTAMP))
