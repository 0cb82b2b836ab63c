"""Event-time windows in which each key is published once."""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders.coders import Coder, IntervalWindowCoder
from apache_beam.transforms import trigger
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    BoundedWindow,
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    SlidingWindows,
    TimestampedValue,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp, TimestampTypes
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming
from numpy.typing import NDArray

from streamsketch.core.documents import TableKey
from streamsketch.data.calendar import Calendar, EventWindows, Period, check_times_of_day
from streamsketch.data.columns import NOT_SHOWN, value_type
from streamsketch.data.formats import check_format
from streamsketch.data.windows import LARGEST_TIME, Tumbling, times_in, window_seconds
from streamsketch.errors import InvalidInputError
from streamsketch.intake.columns import without_views
from streamsketch.release.private_sketch import PrivateSketch

Numbers: TypeAlias = NDArray[np.int64]

LATE = "late"
"""Tag of outputs that came after their window was published."""

_DAY = 86_400 * 10**6
_MICROS = {"s": (1, 10**6), "ms": (1, 1000), "us": (1, 1), "ns": (1000, 1)}
"""Divisor and then factor that convert each unit to microseconds."""


def column_of(element: pa.RecordBatch | pa.Table, name: str) -> Any:
    """Return a column by name; raise `InvalidInputError` unless there is exactly one."""
    if element.schema.names.count(name) != 1:
        raise InvalidInputError(f"there is no column {name!r}, or more than one; {NOT_SHOWN}")
    return element.column(name)


class TumblingWindows(beam.PTransform):
    """Put events into consecutive windows of one length, as `ReleasePerKey` needs them.

    This is ``beam.WindowInto`` with the trigger, accumulation mode and lateness that publish each window once. With
    ``column`` it also splits Arrow batches by the event times in them, which Beam does not see.

    Parameters
    ----------
    size
        Length of a window in seconds, or in words: ``"1 day"``, ``"24h"``, ``"15 min"``.
    offset
        Start of one of the windows, in seconds after 1970-01-01T00:00Z.
    column
        A column of event times: Arrow times or dates, or text. Dates with a time of day count as their day, and times
        without a zone as UTC. Rows without a time are dropped, as are rows with a time less than one window from the
        ends of Beam's time, 290,000 years off. By default, the time of an element is its Beam timestamp.
    time_format
        Format of text in that column, as for ``strptime``; by default ISO 8601.
    allowed_lateness
        How long late data are kept, in seconds, for the ``late`` outputs of `BoundContributions` and `ReleasePerKey`.
        They are never released.

    Raises
    ------
    InvalidInputError
        In the workers, if an element has no such column of times.

    Examples
    --------
    >>> import datetime as dt
    >>> import apache_beam as beam
    >>> import pyarrow as pa
    >>> times = [dt.datetime(2024, 5, 31, 9), dt.datetime(2024, 5, 31, 17)]
    >>> sales = pa.table({"shop": ["north", "south"], "sold_at": times})
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     events = pipeline | beam.Create([sales]) | TumblingWindows("1 hour", column="sold_at")
    """

    def __init__(
        self,
        size: float | str,
        *,
        offset: float = 0,
        column: str | None = None,
        time_format: str | None = None,
        allowed_lateness: float = 0,
    ) -> None:
        super().__init__()
        check_format(time_format)
        self._windows = FixedWindows(window_seconds(size), offset)
        self._column, self._format, self._lateness = column, time_format, allowed_lateness

    def expand(self, events: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        if self._column is not None:
            split = SplitByTime(tumbling_of(self._windows), self._column, self._format)
            events |= "Split by time" >> beam.ParDo(split).with_output_types(pa.RecordBatch)
        late = trigger.AfterCount(1) if self._lateness else None
        return events | "Window" >> beam.WindowInto(
            self._windows,
            trigger=trigger.AfterWatermark(late=late),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
            allowed_lateness=self._lateness,
        )


class SplitByTime(beam.DoFn):
    """Split batches by the windows of their rows' times."""

    def __init__(self, windows: EventWindows, column: str, time_format: str | None) -> None:
        self._windows = windows
        self._column, self._format = column, time_format

    def process(self, element: Any) -> Iterator[TimestampedValue]:
        """Yield the rows of each window as a batch of its own, stamped with the window's time."""
        if not isinstance(element, pa.RecordBatch | pa.Table):
            raise InvalidInputError(
                f"{type(self._windows).__name__}Windows(column={self._column!r}) splits Arrow record batches, got a "
                f"{type(element).__name__}. For rows, leave out column and set their times with "
                "beam.window.TimestampedValue"
            )
        element = without_views(element)
        column = column_of(element, self._column)
        number = self._one_number(column)
        if number is not None:  # most messages: nothing to copy
            yield from self._placed(element, number)
            return
        rows, moments = self._moments(column)
        if not len(rows):
            return
        numbers = self._windows.number(moments)
        if len(rows) == element.num_rows and (numbers == numbers[0]).all():
            yield from self._placed(element, int(numbers[0]))
            return
        ordered = np.argsort(numbers, kind="stable")
        breaks = np.flatnonzero(np.diff(numbers[ordered])) + 1
        for places in np.split(ordered, breaks):
            yield from self._placed(element.take(pa.array(rows[places])), int(numbers[places[0]]))

    def _one_number(self, column: Any) -> int | None:
        """Return the number of the window that all rows are in if the first and the last time show it, else None."""
        if not pa.types.is_timestamp(column.type) or column.null_count or not len(column):
            return None
        ends = pc.min_max(column)
        _, moments = self._moments(pa.array([ends["min"].value, ends["max"].value], pa.int64()).cast(column.type))
        numbers = self._windows.number(moments)
        return int(numbers[0]) if numbers.size == 2 and numbers[0] == numbers[1] else None

    def _placed(self, rows: Any, number: int) -> Iterator[TimestampedValue]:
        """Yield the rows of one window."""
        timestamp = Timestamp(micros=self._windows.start(number))
        for batch in [rows] if isinstance(rows, pa.RecordBatch) else rows.combine_chunks().to_batches():
            yield TimestampedValue(_without_unused_words(batch), timestamp)

    def _moments(self, column: Any) -> tuple[Numbers, Numbers]:
        """Return the places of rows whose window Beam can hold, and their times in microseconds."""
        check_times_of_day(self._windows, column, self._column, self._format)
        if pa.types.is_date32(column.type):
            column, divisor, unit = column.cast(pa.int32()), 1, _DAY
        elif pa.types.is_date64(column.type):
            divisor, unit = _DAY // 1000, _DAY  # some hold times of day too
        elif pa.types.is_timestamp(column.type):
            divisor, unit = _MICROS[column.type.unit]
        elif pa.types.is_string(value_type(column)) or pa.types.is_large_string(value_type(column)):
            divisor, unit = 1, 1
        else:
            raise InvalidInputError(f"the column {self._column!r} must hold times or dates, got {column.type}; cast it")
        rows = np.flatnonzero(column.is_valid())
        column = column.drop_null()
        if not pa.types.is_temporal(column.type) and not pa.types.is_integer(column.type):
            column = times_in(column, self._column, self._format)
        whole = column.cast(pa.int64()).to_numpy() // divisor
        if isinstance(self._windows, Calendar):
            low, high = -(LARGEST_TIME // unit), LARGEST_TIME // unit
        else:  # a window's size away from both ends, its start and end fit; so does every product below, between them
            low = -((-MIN_TIMESTAMP.micros - self._windows.size) // unit)
            high = (GlobalWindow().max_timestamp().micros - self._windows.size) // unit
        fits = (whole >= low) & (whole <= high)
        return rows[fits], whole[fits] * unit


def _without_unused_words(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose dictionaries are no longer than it: each of many parts would carry all of the words."""
    long = [pa.types.is_dictionary(column.type) and len(column.dictionary) > len(column) for column in batch.columns]
    if not any(long):
        return batch
    columns = [
        column.dictionary_decode().dictionary_encode() if is_long else column
        for column, is_long in zip(batch.columns, long, strict=True)
    ]
    types = [(name, column.type) for name, column in zip(batch.schema.names, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(types, batch.schema.metadata))  # which marks it as cast


class CalendarWindows(beam.PTransform):
    """Put events into days, weeks or months of a time zone in a bounded pipeline; otherwise like `TumblingWindows`.

    `BoundContributions` then bounds each unit in each window, and the guarantee is for "one customer in one month
    (Europe/Berlin)". Beam has no such windows, so this is a window function in Python. Beam's own runners, including
    Prism, run it; runners that rebuild windows in Java may refuse it.

    Parameters
    ----------
    period, zone
        ``"day"``, ``"week"`` (from Monday on) or ``"month"``, and a zone of the IANA database, which all workers need.
    column, time_format
        As in `TumblingWindows`, with times at most 70,000 years from 1970. In zones other than UTC, dates without a
        time of day are refused.

    Raises
    ------
    InvalidInputError
        If ``period`` or ``zone`` is unknown, or the input is unbounded. In the workers, if an element has no such
        column.

    Examples
    --------
    >>> import datetime as dt
    >>> import apache_beam as beam
    >>> import pyarrow as pa
    >>> times = [dt.datetime(2024, 5, 31, 9), dt.datetime(2024, 6, 1, 17)]
    >>> sales = pa.table({"shop": ["north", "south"], "sold_at": times})
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     events = pipeline | beam.Create([sales]) | CalendarWindows("month", "Europe/Berlin", column="sold_at")
    """

    def __init__(
        self, period: Period, zone: str = "UTC", *, column: str | None = None, time_format: str | None = None
    ) -> None:
        super().__init__()
        check_format(time_format)
        self._windows, self._column, self._format = Calendar(period, zone), column, time_format

    def expand(self, events: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        if not events.is_bounded:
            raise InvalidInputError(
                "CalendarWindows needs bounded input, but this stream never ends. Use TumblingWindows(size), or "
                "release months of a log with `streamsketch stream file`"
            )
        if self._column is not None:
            split = SplitByTime(self._windows, self._column, self._format)
            events |= "Split by time" >> beam.ParDo(split).with_output_types(pa.RecordBatch)
        return events | "Window" >> beam.WindowInto(
            CalendarFn(self._windows),
            trigger=trigger.AfterWatermark(),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )


class CalendarFn(NonMergingWindowFn):
    """Windows of a calendar, for Beam."""

    def __init__(self, windows: Calendar) -> None:
        self.windows, self._last = windows, IntervalWindow(0, 0)

    def assign(self, context: Any) -> list[IntervalWindow]:
        """Return the window of a time; times that are more than 70,000 years off are in one before, and one after."""
        time = Timestamp.of(context.timestamp)
        if not self._last.start <= time < self._last.end:  # neighbours are mostly in one window
            self._last = IntervalWindow(*(Timestamp(micros=micros) for micros in self._ends(time.micros)))
        return [self._last]

    def _ends(self, micros: int) -> tuple[int, int]:
        if micros < -LARGEST_TIME:  # such as the time of elements that have none
            return MIN_TIMESTAMP.micros, self.windows.start_of(-LARGEST_TIME)
        if micros > LARGEST_TIME:
            return self.windows.end_of(LARGEST_TIME), MAX_TIMESTAMP.micros
        return self.windows.start_of(micros), self.windows.end_of(micros)

    def get_window_coder(self) -> Coder:
        """Return the coder of intervals."""
        return IntervalWindowCoder()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CalendarFn) and self.windows == other.windows

    def __hash__(self) -> int:
        return hash(self.windows)


OF_EVENTS = (FixedWindows, CalendarFn)
"""What puts each event into one window of its time."""


def tumbling_of(windows: FixedWindows) -> Tumbling:
    """Return Beam's windows of one length as ours."""
    return Tumbling(_micros(windows.size), _micros(windows.offset))


def event_windows_of(windows: FixedWindows | CalendarFn) -> EventWindows:
    """Return Beam's windows as ours."""
    return windows.windows if isinstance(windows, CalendarFn) else tumbling_of(windows)


def _micros(length: TimestampTypes) -> int:
    return int(Duration.of(length).micros) if isinstance(length, Duration | int | float) else int(length.micros)


def windowed_as(windowing: Windowing) -> beam.WindowInto:
    """Return what windows a collection as another is; Beam's own shorthand forgets the lateness."""
    return beam.WindowInto(
        windowing.windowfn,
        trigger=windowing.triggerfn,
        accumulation_mode=windowing.accumulation_mode,
        timestamp_combiner=windowing.timestamp_combiner,
        allowed_lateness=windowing.allowed_lateness,
    )


def is_the_one_pane(pane: PaneInfo) -> bool:
    """Return whether a pane is the one that may be published: on time, or of a runner that knows no other."""
    return pane.timing not in (PaneInfoTiming.LATE, PaneInfoTiming.EARLY)


def require_one_pane(collection: beam.PCollection) -> None:
    """Refuse windowing under which a key could be published more than once, or never."""
    windowing = collection.windowing
    if isinstance(windowing.windowfn, GlobalWindows):
        _require_global(collection)
        return
    require_tumbling(windowing)
    once = isinstance(windowing.triggerfn, trigger.AfterWatermark) and windowing.triggerfn.early is None
    if not once or windowing.accumulation_mode != trigger.AccumulationMode.DISCARDING:
        raise InvalidInputError(
            f"a release publishes each key and window once, but {windowing.triggerfn} may fire again before or after "
            "the window's end, or accumulate. Apply TumblingWindows(size) to the events"
        )


def require_tumbling(windowing: Windowing) -> None:
    """Refuse windows other than the global one, tumbling ones and those of a calendar."""
    if not isinstance(windowing.windowfn, (GlobalWindows, *OF_EVENTS)):
        raise InvalidInputError(
            f"each event must be in exactly one window, got {type(windowing.windowfn).__name__}. Use "
            "TumblingWindows(period); for sliding windows, sum the releases with SlidingWindowSums(size, period)"
        )


def _require_global(collection: beam.PCollection) -> None:
    if not isinstance(collection.windowing.triggerfn, trigger.DefaultTrigger):
        raise InvalidInputError(
            f"a release publishes each key once, but the trigger {collection.windowing.triggerfn} may fire again. "
            f"Use the default trigger"
        )
    if not collection.is_bounded:
        raise InvalidInputError(
            "a release in the global window needs bounded input, but this stream never ends. Apply "
            "TumblingWindows(size) to the events"
        )


class WindowRange:
    """The windows from a start to a stop, chosen without looking at the data.

    Parameters
    ----------
    start, stop
        Seconds since 1970-01-01T00:00Z, or Beam timestamps; windows that overlap [start, stop) count. Without ``stop``
        they never end.

    Raises
    ------
    InvalidInputError
        If the range is empty.
    """

    def __init__(self, start: TimestampTypes, stop: TimestampTypes | None) -> None:
        self.start, self.stop = Timestamp.of(start), None if stop is None else Timestamp.of(stop)
        if self.stop is not None and self.start >= self.stop:
            raise InvalidInputError(f"public_windows must be (start, stop) with start < stop, got ({start}, {stop})")

    def contains(self, window: IntervalWindow) -> bool:
        """Return whether a window overlaps the range."""
        return bool((self.stop is None or window.start < self.stop) and window.end > self.start)

    def count(self, windowing: Windowing) -> int:
        """Return how many windows there are, or 1 if they never end."""
        return 1 if self.stop is None else len(self._starts(windowing, self.stop))

    def first(self, windowing: Windowing) -> Timestamp:
        """Return the start of the first window."""
        return Timestamp(micros=event_windows_of(windowing.windowfn).start_of(self.start.micros))

    def _starts(self, windowing: Windowing, stop: Timestamp) -> list[Timestamp]:
        starts = event_windows_of(windowing.windowfn).starts(self.start.micros, stop.micros)
        return [Timestamp(micros=start) for start in starts]

    def times(self, keys: beam.PCollection, windowing: Windowing) -> beam.PCollection:
        """Return each key once in each of these windows, in the given windowing."""
        if self.stop is None:
            raise InvalidInputError(
                "public_windows has no stop, so its windows never end; pass public_windows=(start, stop)"
            )
        starts = self._starts(windowing, self.stop)
        return (
            keys
            | "In each window" >> beam.FlatMap(lambda key: [TimestampedValue(key, start) for start in starts])
            | "Window keys" >> windowed_as(windowing)
        )


class KeepWindows(beam.DoFn):
    """Drop what lies in other windows."""

    def __init__(self, windows: WindowRange) -> None:
        self._windows = windows

    def process(self, element: Any, window: BoundedWindow = beam.DoFn.WindowParam) -> Iterator[Any]:
        """Yield the element if its window overlaps the range."""
        if self._windows.contains(window):
            yield element


class SlidingWindowSums(beam.PTransform):
    """Sum releases of tumbling windows into sliding windows: ``KV[key, PrivateSketch] → KV[key, PrivateSketch]``.

    The input is the output of `ReleasePerKey` in `TumblingWindows` of ``period`` seconds; the output is in Beam's
    ``SlidingWindows(size, period)``. No further budget is spent, because each sum is computed from published releases.
    Its noise is the sum of their noise, and its guarantee is theirs. Overlapping sliding windows share noise, so
    comparisons of one key between them are refused. Different keys of one window can be compared as usual.

    Parameters
    ----------
    size, period
        Lengths in seconds; ``size`` must be a multiple of ``period``.

    Raises
    ------
    InvalidInputError
        If ``size`` is not a multiple of ``period``, or the input's windows are not ``period`` seconds long.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from apache_beam.transforms.window import TimestampedValue
    >>> from streamsketch import L1, SJLT
    >>> projection, budget = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7), {"epsilon": 1.0, "neighbours": L1(1)}
    >>> released = [(hour, projection.sketch().release(**budget)) for hour in range(2)]
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     releases = (
    ...         pipeline
    ...         | beam.Create(released)
    ...         | beam.MapTuple(lambda hour, release: TimestampedValue(("north", release), 3600 * hour))
    ...         | TumblingWindows(3600)
    ...     )
    ...     sums = releases | SlidingWindowSums(size=7200, period=3600)
    """

    def __init__(self, size: float, period: float) -> None:
        super().__init__()
        ratio = Fraction(str(size)) / Fraction(str(period)) if period > 0 else Fraction(0)
        if ratio < 1 or ratio.denominator != 1:
            raise InvalidInputError(f"size must be a multiple of period, both in seconds > 0, got {size} and {period}")
        self._size, self._period = size, period

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        windows = releases.windowing.windowfn
        if not isinstance(windows, FixedWindows) or _micros(windows.size) != _micros(self._period):
            raise InvalidInputError(
                f"SlidingWindowSums(period={self._period}) sums releases in TumblingWindows({self._period}), got "
                f"{type(windows).__name__} of {getattr(windows, 'size', 'no')} seconds"
            )
        return (
            releases
            | "Slide"
            >> beam.WindowInto(
                SlidingWindows(self._size, self._period, Timestamp(micros=_micros(windows.offset))),
                trigger=trigger.AfterWatermark(),
                accumulation_mode=trigger.AccumulationMode.DISCARDING,
            )
            | "Gather releases" >> beam.GroupByKey()
            | "Sum releases" >> beam.MapTuple(_sum).with_output_types(beam.typehints.KV[Any, PrivateSketch])
        )


def _sum(key: TableKey, releases: Iterable[PrivateSketch]) -> tuple[Any, PrivateSketch]:
    first, *others = sorted(releases, key=lambda release: release.release_ids)
    total = first
    for other in others:
        # an event is in one window, and a unit bounded across windows is covered by the guarantee of the whole table
        total = total.combine(other, populations="disjoint")
    return key, total
