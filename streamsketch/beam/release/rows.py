"""Rows of a schedule: their windows, their guarantee, and the exact sums to which noise is added."""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.coders import BytesCoder, TupleCoder, VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec
from apache_beam.transforms.window import GlobalWindows, IntervalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from streamsketch.beam.intake.keys import METRICS
from streamsketch.beam.intake.windows import OF_EVENTS, WindowRange, event_windows_of, windowed_as
from streamsketch.beam.run.coders import SketchCoder
from streamsketch.beam.run.known import Known, Span
from streamsketch.beam.run.runner import refuse_lost_state
from streamsketch.beam.run.steps import Each
from streamsketch.beam.streams.slots import decoded_key, encoded_key
from streamsketch.data.calendar import EventWindows
from streamsketch.data.windows import Tumbling
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.privacy.schedule import Schedule
from streamsketch.projections.base import Projection
from streamsketch.release.additive_noise import AdditiveNoise
from streamsketch.schedules.rows import Row, RowSums
from streamsketch.sketching.sketch import Sketch

_DIGEST = 16
_NUMBER = 8


class ScheduledWindows(NamedTuple):
    """The windows of a schedule.

    Parameters
    ----------
    schedule
        The schedule of their rows.
    windows
        All windows of this kind, released or not.
    first
        The number of the first window that is released.
    number
        The number of windows that are released, at most the schedule's horizon.
    """

    schedule: Schedule
    windows: EventWindows
    first: int
    number: int

    @classmethod
    def of(cls, schedule: Schedule, named: WindowRange | None, windowing: Windowing) -> "ScheduledWindows":
        """Return the windows that are released, which do not depend on the data.

        Raises
        ------
        InvalidInputError
            If there is no range of windows, if it has more windows than the horizon, or if windows are not of event
            time.
        """
        if not isinstance(windowing.windowfn, OF_EVENTS):
            raise InvalidInputError(
                f"a schedule needs windows of event time, got {type(windowing.windowfn).__name__}; apply "
                "TumblingWindows(size) to the events"
            )
        if named is None:
            raise InvalidInputError(
                "a schedule publishes a row for each window, with or without data; pass public_keys, and "
                "public_windows with the start of the first window"
            )
        count = schedule.horizon if named.stop is None else named.count(windowing)
        if count > schedule.horizon:
            raise InvalidInputError(
                f"public_windows has {count} windows, but the noise of the schedule is for its horizon of "
                f"{schedule.horizon}; shorten public_windows, or use a schedule with a longer horizon"
            )
        windows = event_windows_of(windowing.windowfn)
        return cls(schedule, windows, int(windows.number(named.first(windowing).micros)), count)

    @property
    def start(self) -> int:
        """Where the first window begins, in microseconds since 1970."""
        return int(self.windows.start(self.first))

    @property
    def stop(self) -> int:
        """Where the last window ends."""
        return int(self.windows.start(self.first + self.number))

    @property
    def range(self) -> WindowRange:
        """The windows, as a range with an end."""
        return WindowRange(Timestamp(micros=self.start), Timestamp(micros=self.stop))

    def unit(self, name: str) -> str:
        """Return the unit of a guarantee, with the number of windows that it may be in, if not in all."""
        schedule = self.schedule
        if not schedule.limits_windows or f" of {schedule.horizon} windows" in name:
            return name
        return schedule.unit_text(name, self.windows.words.removeprefix("one window of "))

    @property
    def first_window(self) -> IntervalWindow:
        """The first window, as one of Beam's."""
        ends = (int(self.windows.start(number)) for number in (self.first, self.first + 1))
        return IntervalWindow(*(Timestamp(micros=micros) for micros in ends))

    def place(self, window: IntervalWindow) -> int:
        """Return the number of a window's row, counted from 0."""
        return int(self.windows.number(int(window.start.micros))) - self.first

    def span(self, facts: Known, unit: str) -> Span:
        """Return the stretch of time that a charge to a ledger covers: all windows, once."""
        stretches = Tumbling(self.stop - self.start, self.start)
        if facts.span is None:
            return Span(unit, stretches)
        # rows cover all windows of a unit, or bounding dropped the others
        is_whole = facts.span.max_windows is not None or not self.schedule.limits_windows
        return Span(facts.span.unit if is_whole else unit, stretches)


def publisher_of_rows(publisher: AdditiveNoise, facts: Known, of: ScheduledWindows) -> AdditiveNoise:
    """Return the publisher with the relation for all windows of a unit, and with the agreement's counts of units."""
    stated = publisher.neighbours
    if facts.bounds.is_enforced and stated == facts.neighbours:
        stated = _held(facts, of) or stated
    else:
        stated = dataclasses.replace(stated, unit=of.unit(stated.unit))
    return dataclasses.replace(publisher, neighbours=stated).counted_as(facts.bounds, facts.agreement)


def guarantee_of_rows(
    publisher: AdditiveNoise, projection: Projection, facts: Known, of: ScheduledWindows, *, assert_bounds: bool
) -> Guarantee:
    """Return the guarantee of all rows of all keys together, which states whether its bound was enforced.

    Parameters
    ----------
    publisher
        From `publisher_of_rows`.
    projection, facts, of
        The projection of the sketches, the public facts about them, and their windows.
    assert_bounds
        As in `ReleasePerKey`.

    Raises
    ------
    InvalidInputError
        As in `streamsketch.release.ready.Calibrated.guarantee_for`, and if units were bounded in periods that are not
        the schedule's.
    IncompatibleAgreementsError
        If the agreement states another budget.
    """
    _check_periods(facts.span, of)
    data = dataclasses.replace(facts, bounds=dataclasses.replace(facts.bounds, neighbours=_held(facts, of)))
    guarantee: Guarantee = publisher.calibrated(projection).guarantee_for(
        data, assert_bounds=assert_bounds, over_windows=True
    )
    return guarantee


def _held(facts: Known, of: ScheduledWindows) -> Neighbours | None:
    """Return the relation that holds for all windows of a unit, from bounds on each window or on all together."""
    relation, held = facts.neighbours, facts.bounds.neighbours
    if relation is None or held is None:
        return held
    if held.unit == relation.unit and relation.of_sketches:  # all windows of a unit were clipped together
        return dataclasses.replace(relation, unit=of.unit(relation.unit))
    return relation.over_windows(of.schedule, of.unit(relation.unit))


def _check_periods(span: Span | None, of: ScheduledWindows) -> None:
    """Raise `InvalidInputError` if units were bounded in periods other than the schedule's windows."""
    if span is None or span.max_windows is None or not isinstance(of.windows, Tumbling):
        return
    schedule, (size, _) = of.schedule, of.windows
    if span.stretches.size != schedule.horizon * size or span.stretches.start_of(of.start) != of.start:
        raise InvalidInputError(
            f"units were bounded in periods of {span.stretches.size // size} windows, but the schedule has "
            f"{schedule.horizon} windows from {Timestamp(micros=of.start).to_rfc3339()} on; pass BoundAcrossWindows a "
            f"period of {schedule.horizon} windows, with first=… at the first of them"
        )
    if span.max_windows > schedule.most:
        raise InvalidInputError(
            f"BoundAcrossWindows allows a unit in {span.max_windows} windows of its period, but the schedule "
            f"allows it in {schedule.most}; pass the same max_windows to both"
        )
    if schedule.gap > 1:
        raise InvalidInputError(
            f"the schedule needs a unit's windows to be {schedule.gap} apart, which BoundAcrossWindows does not "
            "enforce; use a schedule with gap=1"
        )


class SumBySchedule(beam.PTransform):
    """Add up windows by a schedule, in their order: ``KV[key, Sketch] → KV[key, (row, exact numbers)]``.

    The input has each key once in each window. If it is bounded, all windows of a key are gathered. In a stream, the
    job's state has the sums that later rows need, and the windows that arrived out of order; it is **secret**, as
    sketches are. A row belongs to the newest window that it adds up. Its numbers are int64, as bytes: first the cells,
    then the counts.

    Parameters
    ----------
    of
        The schedule's windows.
    projection, guarantee
        The projection and the guarantee of the rows.
    count
        Whether keys without data are counted.
    """

    def __init__(self, of: ScheduledWindows, projection: Projection, guarantee: Guarantee, *, count: bool) -> None:
        super().__init__()
        self._of, self._sums = of, SumsOfRows(projection, guarantee, count)

    def expand(self, totals: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        windowing, of = totals.windowing, self._of
        kind = beam.typehints.KV[bytes, tuple[int, Sketch]]
        by_key = (
            totals
            | "Number the window" >> beam.ParDo(_Number(of)).with_output_types(kind)
            | "Outside of windows" >> beam.WindowInto(GlobalWindows())
        )
        row = beam.typehints.KV[Any, tuple[int, bytes]]
        if totals.is_bounded:
            step = beam.ParDo(Each(_all_rows, self._sums, of)).with_output_types(row)
            rows = by_key | "All windows of a key" >> beam.GroupByKey() | "Step through them" >> step
        else:
            refuse_lost_state(totals.pipeline)
            steps = by_key | "Step by step" >> beam.ParDo(ReleaseRows(self._sums, of)).with_output_types(row)
            # the publishing step must not be fused with it: Flink waits forever if a stage has stable input and state
            rows = steps | "To what publishes" >> beam.transforms.util.ReshufflePerKey()
        return rows | "Back to their windows" >> windowed_as(windowing)


class _Number(beam.DoFn):
    def __init__(self, of: ScheduledWindows) -> None:
        self._of = of

    def process(
        self, keyed: tuple[Any, Sketch], window: IntervalWindow = beam.DoFn.WindowParam
    ) -> Iterator[tuple[bytes, tuple[int, Sketch]]]:
        yield encoded_key(keyed[0]), (self._of.place(window), keyed[1])


class SumsOfRows(NamedTuple):
    """What the rows of a key are made of, which is `RowSums` as on every engine, and what the job counts of it."""

    projection: Projection
    guarantee: Guarantee
    counts_empty: bool

    def begin(self) -> RowSums:
        """Return the sums before the first window."""
        return RowSums(self.projection, self.guarantee)

    def rows(self, sums: RowSums, waiting: dict[int, Sketch]) -> Iterator[Row]:
        """Take the windows that come next without a gap, and yield their rows."""
        for row, total in sums.in_turn(waiting):
            if self.counts_empty and total.mass == 0:
                Metrics.counter(METRICS, "keys_without_data").inc()
            yield row

    @property
    def digest(self) -> bytes:
        """Digest of the projection and the guarantee to which held sums belong."""
        named = f"{self.projection.to_json()}\0{self.guarantee.to_json()}"
        return hashlib.blake2b(named.encode(), digest_size=_DIGEST, person=b"streamsketch.sum").digest()


def _timed(key: bytes, row: Row, of: ScheduledWindows) -> TimestampedValue:
    start = Timestamp(micros=int(of.windows.start(of.first + row.place)))
    return TimestampedValue((decoded_key(key), (row.place, row.exact.astype("<i8").tobytes())), start)


def _all_rows(
    keyed: tuple[bytes, Iterable[tuple[int, Sketch]]], sums: SumsOfRows, of: ScheduledWindows
) -> Iterator[TimestampedValue]:
    for row in sums.rows(sums.begin(), dict(keyed[1])):
        yield _timed(keyed[0], row, of)


class ReleaseRows(beam.DoFn):
    """Release the rows of a schedule, in order of their windows."""

    HELD = ReadModifyWriteStateSpec("held", BytesCoder())
    WAITING = BagStateSpec("waiting", TupleCoder((VarIntCoder(), SketchCoder())))

    def __init__(self, sums: SumsOfRows, of: ScheduledWindows) -> None:
        self._sums, self._of = sums, of

    def process(
        self,
        keyed: tuple[bytes, tuple[int, Sketch]],
        held: Any = beam.DoFn.StateParam(HELD),
        waiting: Any = beam.DoFn.StateParam(WAITING),
    ) -> Iterator[TimestampedValue]:
        """Yield the rows that a window's sketch completes."""
        key, (place, total) = keyed
        sums = self._restored(held.read())
        if place > sums.windows:
            waiting.add((place, total))
            return
        ready = {**dict(waiting.read()), place: total}
        for row in self._sums.rows(sums, ready):
            yield _timed(key, row, self._of)
        held.write(self._sums.digest + sums.windows.to_bytes(_NUMBER, "little") + sums.held.tobytes())
        waiting.clear()
        for left in ready.items():
            waiting.add(left)

    def _restored(self, held: bytes | None) -> RowSums:
        begun = self._sums.begin()
        if held is None:
            return begun
        if held[:_DIGEST] != self._sums.digest:
            raise InvalidInputError(
                "the sums in the job's state belong to another projection or another guarantee; restore the job with "
                "the schedule, budget and bounds that it began with"
            )
        windows = int.from_bytes(held[_DIGEST : _DIGEST + _NUMBER], "little")
        sums = np.frombuffer(held, dtype=np.int64, offset=_DIGEST + _NUMBER).reshape(-1, begun.held.shape[1])
        return RowSums.restored(self._sums.projection, self._sums.guarantee, windows, sums, keys=1)
