"""Bounds across the windows of a stream that never ends: each unit may be in a few windows of each period."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.coders import BytesCoder, VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import BoundedWindow, FixedWindows, GlobalWindow, GlobalWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp, TimestampTypes
from numpy.typing import NDArray

from streamsketch.agreement.agreement import Agreement
from streamsketch.beam.intake.bound import BoundContributions
from streamsketch.beam.intake.keys import Keys
from streamsketch.beam.intake.windows import tumbling_of, windowed_as
from streamsketch.beam.run.known import Span, known_of, refuse_bounded, with_known
from streamsketch.beam.run.runner import refuse_lost_state
from streamsketch.beam.run.runs import RunSecret, label_in, run_secret
from streamsketch.core.numbers import check_int
from streamsketch.data.windows import Tumbling, microseconds, seconds_text
from streamsketch.errors import InvalidInputError
from streamsketch.intake.columns import plain, salvage
from streamsketch.intake.rows import Intake
from streamsketch.intake.units import whole_days
from streamsketch.privacy.neighbours import Clip, Neighbours
from streamsketch.sketching.bounding.digests import UnitDigests

_ENTRY = np.dtype([("low", "<u8"), ("high", "<u8"), ("window", "<i8")])


class BoundAcrossWindows(beam.PTransform):
    """Clip every unit in all windows of a period together, in an unbounded stream: ``events → BoundedEvents``.

    A unit may contribute to ``max_windows`` windows of each period, the first ones for which its rows arrive. Rows in
    other windows are dropped. In each window, the unit is clipped to the neighbours, as by `BoundContributions`. So the
    guarantee is for all of a unit's data in one period, "one aircraft in one period of 86400 s". The bound of a period
    has max_keys·max_windows slots under `L1`, and is √max_windows times the bound of a window under `SketchL2`
    (`Neighbours.in_windows`). The job's state holds which windows a unit has used until the period is over.

    Parameters
    ----------
    agreement, neighbours, clip, public_keys, shards, count_private_data
        As in `BoundContributions`; the neighbours bound what a unit contributes in one window.
    max_windows
        Number of windows of a period in which one unit may contribute.
    period
        Length of a period in seconds, or as text such as ``"30 days"``. It must be a multiple of the windows' length,
        and periods start where windows do.
    first
        Start of one of the periods, such as that of a schedule's first window: seconds since 1970-01-01T00:00Z, or a
        Beam timestamp. By default the first start of a window after 1970-01-01T00:00Z.

    Raises
    ------
    InvalidInputError
        If a bound is out of range or the events are not in `TumblingWindows`, and as in `BoundContributions`.

    Examples
    --------
    >>> from streamsketch import L1, SJLT, Agreement
    >>> columns = {"key": "shop", "index": "item", "unit": "buyer"}
    >>> five = L1(5, unit="buyer", max_keys=2)
    >>> agreement = Agreement.of(SJLT(sketch_dim=64, sparsity=4, seed=7), **columns, neighbours=five)
    >>> bound = BoundAcrossWindows(agreement, max_windows=3, period="30 days")
    >>> bound.display_data()["bounds"]
    "L1(5, unit='buyer in one period of 2592000 s', max_keys=6)"
    """

    def __init__(  # noqa: PLR0913 - as BoundContributions, and the period
        self,
        agreement: Agreement,
        *,
        max_windows: int,
        period: float | str,
        first: TimestampTypes | None = None,
        neighbours: Neighbours | None = None,
        clip: Clip | None = None,
        public_keys: Keys | None = None,
        shards: int = 64,
        count_private_data: bool = False,
    ) -> None:
        super().__init__()
        check_int(max_windows, "max_windows", 1, (1 << 20) - 1)
        self._max_windows, self._period, self._first = max_windows, microseconds(period, "period"), first
        self._bound = BoundContributions(
            agreement,
            neighbours=neighbours,
            clip=clip,
            public_keys=public_keys,
            shards=shards,
            count_private_data=count_private_data,
        )
        relation = self._bound.neighbours
        unit = f"{relation.unit} in one period of {seconds_text(self._period)} s"
        self._neighbours = dataclasses.replace(relation.in_windows(max_windows), unit=unit)

    def expand(self, events: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        refuse_lost_state(events.pipeline)
        refuse_bounded(events)
        windowing = events.windowing
        windows = windowing.windowfn
        if not isinstance(windows, FixedWindows):
            raise InvalidInputError(
                f"BoundAcrossWindows counts windows of one length, got {type(windows).__name__}; apply "
                "TumblingWindows(size) to the events"
            )
        size, offset = tumbling_of(windows)
        if self._period % size:
            raise InvalidInputError(
                f"period must be a multiple of the windows' length, got {seconds_text(self._period)} s and "
                f"{seconds_text(size)} s"
            )
        run, label = run_secret(events.pipeline), label_in(events.pipeline)
        first = offset if self._first is None else Timestamp.of(self._first).micros
        if (first - offset) % size:
            raise InvalidInputError(
                f"first must be the start of a window, got {seconds_text(first)} s for windows of "
                f"{seconds_text(size)} s"
            )
        periods = Tumbling(self._period, first)
        admit = Admit(periods, self._max_windows)
        admitted = (
            events
            | "Shard units"
            >> beam.ParDo(_Shard(self._bound.agreement, self._bound.shards, label), run=run).with_output_types(
                beam.typehints.KV[int, tuple[int, bytes, Any]]
            )
            | "Outside of windows" >> beam.WindowInto(GlobalWindows())
            | "Admit" >> beam.ParDo(admit).with_output_types(events.element_type)
            | "Back to their windows" >> windowed_as(windowing)
        )
        kept = admitted | self._bound
        facts = known_of(kept)
        bounds = dataclasses.replace(facts.bounds, neighbours=self._neighbours)
        if bounds.clip == "equal" and self._max_windows > 1:  # units in fewer windows count less over the period
            bounds = dataclasses.replace(bounds, clip="scale and equal")
        return with_known(
            kept,
            dataclasses.replace(
                facts, bounds=bounds, span=Span(self._bound.neighbours.unit, periods, self._max_windows)
            ),
        )

    def display_data(self) -> dict[str, Any]:
        """Show the bounds in the runner's interface; never a secret."""
        return {"bounds": repr(self._neighbours)}


class _Shard(beam.DoFn):
    """Spread rows over shards by their units, with a digest of each row's unit; rows without a unit go nowhere."""

    def __init__(self, agreement: Agreement, shards: int, label: str) -> None:
        self._intake = Intake(agreement, on_bad="drop", bounded=True)
        self._shards, self._label = shards, label
        self._digests: UnitDigests | None = None

    def process(
        self, element: Any, window: BoundedWindow = beam.DoFn.WindowParam, *, run: RunSecret
    ) -> Iterator[TimestampedValue]:
        if self._digests is None:
            self._digests = UnitDigests(run.derive("bounds", self._label))
        start = int(window.start.micros)
        for batch in element.to_batches() if isinstance(element, pa.Table) else [element]:
            for shard, digests, rows in self._sharded(self._intake.cast(batch), self._digests):
                yield TimestampedValue((shard, (start, digests.tobytes(), rows)), window.max_timestamp())

    def _sharded(
        self, batch: pa.RecordBatch, digests: UnitDigests
    ) -> Iterator[tuple[int, NDArray[np.uint64], pa.RecordBatch]]:
        column = whole_days(plain(batch.column(self._intake.agreement.unit.name)))
        batch = batch.filter(column.is_valid())
        column = column.drop_null()

        def read(start: int, stop: int) -> tuple[NDArray[np.uint64], pa.RecordBatch]:
            return digests.of(column.slice(start, stop - start)), batch.slice(start, stop - start)

        # text that is not UTF-8 is dropped, as others' rows are valid
        for units, rows in salvage(read, batch.num_rows, lambda *_: None):
            shards = units[:, 0] % np.uint64(self._shards)
            order = np.argsort(shards, kind="stable")
            for places in np.split(order, np.flatnonzero(np.diff(shards[order])) + 1):
                if places.size:
                    yield int(shards[places[0]]), units[places], rows.take(pa.array(places))


class Admit(beam.DoFn):
    """Let the rows of each unit's first windows in a period pass; forget the period when it is over."""

    USED = ReadModifyWriteStateSpec("used", BytesCoder())
    FORGOTTEN = ReadModifyWriteStateSpec("forgotten", VarIntCoder())
    OVER = TimerSpec("over", TimeDomain.WATERMARK)

    def __init__(self, periods: Tumbling, max_windows: int) -> None:
        self._periods, self._max_windows = periods, max_windows

    def process(
        self,
        keyed: tuple[int, tuple[int, bytes, Any]],
        timestamp: Timestamp = beam.DoFn.TimestampParam,
        used: Any = beam.DoFn.StateParam(USED),
        forgotten: Any = beam.DoFn.StateParam(FORGOTTEN),
        over: Any = beam.DoFn.TimerParam(OVER),
    ) -> Iterator[Any]:
        """Yield the rows of a unit that its budget admits."""
        _, (window, digests, rows) = keyed
        if forgotten.read() is not None and window < forgotten.read():
            return  # late: which windows its unit has used is no longer known
        units = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
        held = np.frombuffer(used.read() or b"", dtype=_ENTRY)
        different, rows_of = np.unique(units, axis=0, return_inverse=True)
        admitted, added = self._admitted(held, different, window)
        if added.size:
            used.write(np.concatenate([held, added]).tobytes())
            over.set(self._over(window))
        keep = admitted[rows_of.ravel()]
        if not keep.any():
            return
        yield TimestampedValue(rows.filter(pa.array(keep)), timestamp)

    def _admitted(
        self, held: NDArray[Any], units: NDArray[np.uint64], window: int
    ) -> tuple[NDArray[np.bool_], NDArray[Any]]:
        """Return which units may contribute to a window, and the entries of the new ones among them."""
        start, end = self._periods.start_of(window), self._periods.end_of(window)
        now = held[(held["window"] >= start) & (held["window"] < end)]
        own = np.empty(len(units), dtype=_ENTRY)
        own["low"], own["high"], own["window"] = units[:, 0], units[:, 1], window
        names, unit_of = np.unique(np.concatenate([now, own])[["low", "high"]], return_inverse=True)
        counts = np.bincount(unit_of[: len(now)], minlength=len(names))[unit_of[len(now) :]]
        present = np.zeros(len(names), dtype=bool)
        present[unit_of[: len(now)][now["window"] == window]] = True
        present = present[unit_of[len(now) :]]
        fresh = ~present & (counts < self._max_windows)
        return present | fresh, own[fresh]

    @on_timer(OVER)
    def forget(
        self,
        timestamp: Timestamp = beam.DoFn.TimestampParam,
        used: Any = beam.DoFn.StateParam(USED),
        forgotten: Any = beam.DoFn.StateParam(FORGOTTEN),
        over: Any = beam.DoFn.TimerParam(OVER),
    ) -> None:
        """Forget what a unit has used, once its period is over."""
        held = np.frombuffer(used.read() or b"", dtype=_ENTRY)
        left = held[held["window"] >= timestamp.micros]
        used.write(left.tobytes())
        forgotten.write(int(timestamp.micros))
        if left.size:
            over.set(self._over(int(left["window"].min())))

    def _over(self, window: int) -> Timestamp:
        """Return the end of a window's period, or the end of Beam's time if that is earlier."""
        return Timestamp(micros=min(self._periods.end_of(window), GlobalWindow().max_timestamp().micros))
