"""A growing folder of Parquet files as the log of one partition."""

import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp
from numpy.typing import NDArray

from streamsketch.beam.intake.windows import column_of
from streamsketch.beam.streams.lateness import EARLY, PartitionClock, agree_on_clock, micros_of
from streamsketch.beam.streams.messages import encoded_batch
from streamsketch.data.readers.formats import batches, parts_of
from streamsketch.data.windows import Tumbling, microseconds
from streamsketch.errors import InvalidInputError
from streamsketch.intake.clock import AheadLimit, Clock, ClockKind
from streamsketch.intake.columns import missing


class ReadGrowingFolder(beam.PTransform):
    """Read Parquet files in the order of their names, as they appear: ``→ PCollection[bytes]``, for `DecodeMessages`.

    A row without a time is dropped, and a row with a time outside Beam's range is late. Neither ends the stream.

    The folder is the log. A file that appears later must have a later name, and files must appear whole: write them
    under a name that begins with ``.`` or ``_``, then rename them. Watermark and lateness depend on the newest time in
    the files so far, less the delay, so a replay gives the same result. One worker reads.

    A heartbeat is a row with a time and no other value. With ``clock="heartbeats"`` only heartbeats move the watermark,
    and a row is late if the heartbeats before it ended its window. Pass the same clock to `configure_stream`, and the
    same delay, windows and limit to `DecodeMessages`.

    Parameters
    ----------
    folder
        The folder, on any file system that Beam knows.
    columns
        The columns to read.
    time
        The column with Arrow times; it must be in ``columns``.
    delay
        How far events may be out of order, in seconds or as text.
    size, offset
        Length and start of the windows, as in `TumblingWindows`.
    every
        Seconds between two listings of the folder, and the longest time of reading without a checkpoint, unless one
        file takes longer.
    last
        Name of a file that ends the stream when it appears; it is not read.
    clock
        What moves the watermark: every row (``"events"``), or only heartbeats (``"heartbeats"``).
    limit
        How far a row may be ahead; one further ahead does not move the watermark. By default there is no limit.

    Raises
    ------
    InvalidInputError
        If ``time`` is not one of ``columns``, ``clock`` is unknown, or a length is not valid.

    Examples
    --------
    >>> import apache_beam as beam
    >>> pipeline = beam.Pipeline(runner="FnApiRunner")
    >>> read = ReadGrowingFolder("arriving", ["shop", "item", "at"], time="at", delay="5 min", size="1 hour")
    >>> messages = pipeline | read
    """

    def __init__(  # noqa: PLR0913 - what a stream's windows are belongs together
        self,
        folder: str,
        columns: list[str],
        *,
        time: str,
        delay: float | str,
        size: float | str,
        offset: float = 0,
        every: float = 1.0,
        last: str = "_END",
        clock: ClockKind = "events",
        limit: AheadLimit | None = None,
    ) -> None:
        super().__init__()
        Clock(0, clock)  # which knows the kinds
        if time not in columns:
            raise InvalidInputError(f"time must be one of the columns {', '.join(columns)}, got {time!r}")
        micros = [microseconds(delay, "delay", least=0), microseconds(size, "size"), round(offset * 10**6)]
        self._folder, self._step = folder, ReadFiles(list(dict.fromkeys(columns)), time, micros, every, last)
        self._step.clock = clock
        self._step.limit = limit

    def expand(self, start: Any) -> beam.PCollection:
        """Apply the transform to a pipeline."""
        agree_on_clock(start.pipeline, self._step.clock)
        folder = start | "Folder" >> beam.Create([self._folder])
        return folder | "Read as it grows" >> beam.ParDo(self._step).with_output_types(bytes)


class _After(RestrictionTracker):
    """The files after one name, claimed one by one."""

    def __init__(self, after: str) -> None:
        self._after = after

    def current_restriction(self) -> str:
        return self._after

    def try_claim(self, position: str) -> bool:
        self._after = position
        return True

    def try_split(self, fraction_of_remainder: float) -> tuple[str, str] | None:
        return (self._after, self._after) if fraction_of_remainder == 0 else None

    def check_done(self) -> bool:
        return True

    def current_progress(self) -> RestrictionProgress:
        return RestrictionProgress(fraction=0.5)

    def is_bounded(self) -> bool:
        return False


class _Files(RestrictionProvider):
    def initial_restriction(self, _: str) -> str:
        return ""

    def create_tracker(self, restriction: str) -> _After:
        return _After(restriction)

    def restriction_size(self, _element: str, _restriction: str) -> int:
        return 1

    def truncate(self, _element: str, _restriction: str) -> None:
        return None


class ReadFiles(beam.DoFn):
    """Read the files of a folder as they come."""

    def __init__(self, columns: list[str], time: str, micros: list[int], every: float, last: str) -> None:
        self._columns, self._time, self._micros, self._every, self._last = columns, time, micros, every, last
        self.clock: ClockKind = "events"
        self.limit: AheadLimit | None = None

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        folder: str,
        tracker: Any = beam.DoFn.RestrictionParam(_Files()),  # noqa: B008 - how Beam asks for it
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(  # noqa: B008 - as above
            ManualWatermarkEstimator.default_provider()  # noqa: B008
        ),
    ) -> Iterator[TimestampedValue]:
        """Yield the rows of files that have come."""
        delay, size, offset = self._micros
        before = estimator.current_watermark()
        has_watermark = before is not None and before > MIN_TIMESTAMP
        newest = before.micros + EARLY + delay if has_watermark else None
        clock = PartitionClock(delay, size, offset, newest, clock=self.clock, limit=self.limit)
        names, began = self._names(folder), time.monotonic()
        for name in names:
            if name > tracker.current_restriction() and name != self._last:
                tracker.try_claim(name)
                for batch in self._batches(FileSystems.join(folder, name)):
                    for timestamp, part in self._parts(batch, clock):
                        yield TimestampedValue(encoded_batch(part), timestamp)
                if clock.newest is not None:
                    estimator.set_watermark(clock.passed)
                if time.monotonic() > began + self._every:  # a checkpoint has to wait for this call's end
                    tracker.defer_remainder()
                    return
        if self._last in names:
            estimator.set_watermark(MAX_TIMESTAMP)
        else:
            tracker.defer_remainder(Duration(self._every))

    def _names(self, folder: str) -> list[str]:
        (match,) = FileSystems.match([FileSystems.join(folder, "*")])
        names = sorted(FileSystems.split(metadata.path)[1] for metadata in match.metadata_list)
        return [name for name in names if name[0] not in "._" or name == self._last]

    def _batches(self, path: str) -> Iterator[pa.RecordBatch]:
        with FileSystems.open(path, compression_type="uncompressed") as file:
            for part in range(parts_of(file, path)):
                yield from batches(file, path, part, self._columns, [])

    def _parts(self, batch: pa.RecordBatch, clock: PartitionClock) -> Iterator[tuple[Timestamp, pa.RecordBatch]]:
        """Yield rows with the watermark before them; in a batch, those of earlier windows first."""
        batch = batch.filter(column_of(batch, self._time).is_valid())
        times = micros_of(column_of(batch, self._time), self._time)
        if self.clock == "events":
            for places in self._windows(times):
                yield clock.timestamp, batch.take(pa.array(places))
                _, ahead = clock.judge(times[places])
                clock.advance(times[places[~ahead]])
            return
        beats = np.ones(batch.num_rows, dtype=bool)
        for name in self._columns:
            if name != self._time:
                beats &= missing(column_of(batch, name))
        before = clock.watermarks_before(times, beats)
        ahead = clock.ahead(times, beats) & ~beats
        late = clock.are_late(times, beats) & ~beats
        if late.any():  # by all heartbeats, as by those before them
            yield clock.timestamp, batch.filter(pa.array(late))
        for mark in np.unique(before[ahead]).tolist():
            yield Timestamp(micros=mark), batch.filter(pa.array(ahead & (before == mark)))
        (timely,) = np.nonzero(~late & ~ahead & ~beats)
        for places in self._windows(times[timely]):
            rows = timely[places]
            yield Timestamp(micros=int(before[rows].max())), batch.take(pa.array(rows))

    def _windows(self, times: NDArray[np.int64]) -> Iterator[NDArray[np.intp]]:
        """Yield the places of each window's times, by window."""
        windows, ends = Tumbling(*self._micros[1:]), np.iinfo(np.int64)
        far = abs(windows.offset)
        numbers = windows.number(np.clip(times, ends.min + far, ends.max - far))
        order = np.argsort(numbers, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
            if places.size:
                yield places
