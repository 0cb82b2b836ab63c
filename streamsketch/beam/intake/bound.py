"""Contribution bounding: what one privacy unit adds to a table of sketches, enforced before anything is added up."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow, FixedWindows, GlobalWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, WindowedValue

from streamsketch.beam.intake.events import ROWS, BoundedEvents, RowBuffer, column_of
from streamsketch.beam.intake.keys import METRICS, Keys, PublicKeys, as_dict
from streamsketch.beam.intake.shards import by_shard, decoded
from streamsketch.beam.intake.windows import LATE, is_the_one_pane, require_tumbling, tumbling_of, windowed_as
from streamsketch.beam.run.known import Known, Span, refuse_bounded, with_known
from streamsketch.beam.run.runner import refuse_broken_runner
from streamsketch.beam.run.runs import RunSecret, label_in, run_secret
from streamsketch.core import Exact, check_int
from streamsketch.errors import InvalidInputError
from streamsketch.intake import Events, column_events, is_malformed
from streamsketch.privacy import L1, Bounds
from streamsketch.projections import Projection
from streamsketch.sketching import (
    MAX_LIMIT,
    Bounded,
    Clip,
    Contributions,
    UnitDigests,
    bounded,
    check_clip,
    concatenated,
)

_CHUNK_ROWS = 1 << 20  # of one bundle, all windows together, 40 bytes each; then they move on to their shards


class BoundContributions(beam.PTransform):
    """Clip every privacy unit to its bounds: ``PCollection[events] → PCollection[BoundedEvents]``, for `SketchPerKey`.

    Elements are Arrow ``RecordBatch`` or ``Table`` objects with columns, or rows ``(unit, key, index, value)``: tuples
    in this order, whatever the columns are called. A dict is not such a row, and is dropped as malformed; make a tuple
    of it first.

    Values meet the projection's grid first, and a unit's rows are summed by key and index, so that what was returned
    cancels what was bought. Then each unit keeps at most ``max_keys`` keys, chosen by the run's secret, and in each of
    them at most ``l1`` in total absolute value, clipped exactly in integers; only what is left is ever added up. So
    removing all rows of one unit moves the table of sketches by at most D1 = max_keys·Δ1·⌊l1/g⌋ and
    D2 = √max_keys·Δ2·⌊l1/g⌋ (THEORY.md 4.2), whatever those rows hold. These bounds go with
    what this transform returns, and with what `SketchPerKey` makes of that, where `ReleasePerKey` compares them with
    its publisher's neighbours. Any other step ends them.

    A malformed row (a null, NaN, an infinity, an index out of range, text that is not UTF-8, empty text as the unit) is
    dropped, and a heavy value is clipped: an error would end everybody's job for one unit's data. So is a row of
    another shape, or with a field of another type, such as text as a value; if all rows are, as where the unit was left
    out, the releases hold noise alone: ``count_private_data`` shows that. A column of a wrong type or name raises.

    Parameters
    ----------
    projection
        The public map that the events will be sketched with.
    unit
        Column that names the privacy unit: an aircraft, a user. Text, bytes, integers, dates or times, of one type
        throughout: 7 and "7" are two units.
    max_keys
        How many keys one unit may touch: 1 to 2^32 - 1.
    l1
        The largest total of |value| that one unit may add to one key, in data units.
    clip
        What becomes of a unit's vector of a key beyond ``l1``: ``"scale"`` shrinks it as a whole and keeps its
        direction, ``"cut"`` keeps some of its values and drops the others.
    key, index, value
        Column names as in `SketchPerKey`.
    unit_name
        What the unit is called in the guarantee; the column's name by default.
    public_keys
        Keys outside are dropped before a unit's keys are chosen, so that none is wasted on them: a list, a
        `pathlib.Path` or a PCollection, as in `ReleasePerKey`.
    across_windows
        With event-time windows: bound each unit's rows in all windows together, ``max_keys`` counting pairs of key and
        window. Needs bounded input. Without it, each window is bounded by itself, and the guarantee is for
        "one aircraft in one window of 3600 s".
    shards
        Units are spread over so many groups; one group's events must fit a worker's memory, at 48 bytes each.
    count_private_data
        Count as Beam metrics: ``rows_dropped`` as malformed, ``units``, ``units_over_keys`` and ``units_over_bound``.
        Data without noise, for the operator's eyes only.

    Raises
    ------
    InvalidInputError
        For bounds out of range, events that were bounded before, ``across_windows`` on unbounded input, and in the
        workers for missing columns and columns of a wrong type.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT
    >>> from streamsketch.beam import ReleasePerKey, SketchPerKey
    >>> from streamsketch.release import AdditiveNoise
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> noise = AdditiveNoise(epsilon=1.0, neighbours=L1(30, unit="passenger", max_keys=2))
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     releases = (
    ...         pipeline
    ...         | beam.Create([("Ann", "AA", 17, 1), ("Ann", "UA", 17, 900), ("Bob", "UA", 18, 1)])
    ...         | BoundContributions(projection, unit="passenger", max_keys=2, l1=30)
    ...         | SketchPerKey(projection)
    ...         | ReleasePerKey(noise, public_keys=["AA", "UA"])
    ...     )
    """

    def __init__(  # noqa: PLR0913 - the columns and the bounds belong together
        self,
        projection: Projection,
        *,
        unit: str,
        max_keys: int,
        l1: Exact,
        clip: Clip = "scale",
        key: str = "key",
        index: str | Sequence[str] = "index",
        value: str | None = "value",
        unit_name: str | None = None,
        public_keys: Keys | None = None,
        across_windows: bool = False,
        shards: int = 64,
        count_private_data: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(projection, Projection):
            raise TypeError(f"BoundContributions needs a Projection, got a {type(projection).__name__}")
        check_int(shards, "shards", 1, 1 << 16)
        check_clip(clip)
        self._neighbours = L1(l1, unit=unit if unit_name is None else unit_name, max_keys=max_keys)
        self._limit, self.clip = self._neighbours.grid_steps(projection.grid), clip
        if self._limit >= MAX_LIMIT:
            raise InvalidInputError(f"l1 must be below 2**62 grid steps of {projection.grid}, got {l1}")
        self._projection = projection
        self._columns = (unit, key, (index,) if isinstance(index, str) else tuple(index), value)
        self._public_keys = None if public_keys is None else PublicKeys(public_keys)
        self._across_windows = across_windows
        self._shards, self._count = shards, count_private_data
        self._late = False

    def _neighbours_in(self, windowing: Windowing) -> L1:
        """Return the neighbour relation that holds for the events bounded, as they are windowed."""
        if self._across_windows or isinstance(windowing.windowfn, GlobalWindows):
            return self._neighbours
        micros = windowing.windowfn.size.micros
        seconds = micros // 10**6 if micros % 10**6 == 0 else micros / 10**6  # in full: other windows, other guarantees
        unit = f"{self._neighbours.unit} in one window of {seconds} s"
        return L1(self._neighbours.bound, unit, self._neighbours.max_keys)

    def with_late_data(self) -> Self:
        """Return two collections, ``(bounded, late)``: late rows are **secret**, for monitoring; never released."""
        self._late = True
        return self

    def expand(self, events: beam.PCollection) -> Any:
        """Apply the transform."""
        refuse_broken_runner(events.pipeline)
        windowing = events.windowing
        require_tumbling(windowing)
        refuse_bounded(events)
        regroup = self._across_windows and not isinstance(windowing.windowfn, GlobalWindows)
        if regroup and not events.is_bounded:
            raise InvalidInputError(
                "across_windows=True looks at all windows of a unit together, so it needs bounded input; this stream "
                "never ends. Bound each window by itself, and the guarantee is for a unit in one window"
            )
        run, label = run_secret(events.pipeline), label_in(events.pipeline)
        listed = None if self._public_keys is None else self._public_keys.listed
        known = {}
        if self._public_keys is not None and listed is None:
            known = {"known": as_dict(self._public_keys.collection(events.pipeline))}
        prepare = _Prepare(self._projection, label, self._columns, self._shards, listed)
        prepare.count = self._count
        chunks = events | "Quantise and shard" >> beam.ParDo(prepare, run=run, **known)
        if regroup:
            chunks |= "All windows of a unit" >> beam.WindowInto(beam.window.GlobalWindows())
        clip = _Clip(self._projection, self._neighbours.max_keys, self._limit, self.clip, label)
        clip.count = self._count
        outputs = (
            chunks
            | "One group a shard" >> beam.GroupByKey()
            | "Clip" >> beam.ParDo(clip, run=run).with_outputs(LATE, main="bounded")
        )
        kept = outputs.bounded
        if regroup:
            kept |= "Back to their windows" >> windowed_as(windowing)
        kept = self._marked(kept, windowing)
        return (kept, with_known(outputs[LATE], Known(self._projection, late=True))) if self._late else kept

    def _marked(self, events: beam.PCollection, windowing: Windowing) -> beam.PCollection:
        windows = windowing.windowfn
        is_by_window = isinstance(windows, FixedWindows) and not self._across_windows
        span = Span(self._neighbours.unit, tumbling_of(windows)) if is_by_window else None
        bounds = Bounds(self._neighbours_in(windowing), self.clip)
        return with_known(events, Known(self._projection, bounds, self._neighbours, span))

    def display_data(self) -> dict[str, Any]:
        """Show the bounds in the runner's interface; never a secret."""
        return {"bounds": repr(self._neighbours)}


@beam.typehints.with_output_types(beam.typehints.KV[int, bytes])
class _Prepare(beam.DoFn):
    """Sound events on the grid, spread over shards by their units."""

    def __init__(
        self,
        projection: Projection,
        label: str,
        columns: tuple[str, str, tuple[str, ...], str | None],
        shards: int,
        listed: frozenset[Any] | None,
    ) -> None:
        self._projection, self._label = projection, label
        self._columns, self._shards, self._listed = columns, shards, listed
        self._run: RunSecret | None = None
        self.count = False

    def start_bundle(self) -> None:
        self._parts: dict[BoundedWindow, list[Contributions]] = {}
        self._buffers: dict[BoundedWindow, RowBuffer] = {}
        self._rows = 0
        self._known: Mapping[Any, None] | frozenset[Any] | None = self._listed

    def process(
        self,
        element: Any,
        window: BoundedWindow = beam.DoFn.WindowParam,
        known: Mapping[Any, None] | None = None,
        *,
        run: RunSecret,
    ) -> Iterator[WindowedValue] | None:
        if run is not self._run:
            self._digests, self._run = UnitDigests(run.derive("bounds", self._label)), run
        if self._listed is None:
            self._known = known
        if isinstance(element, pa.RecordBatch | pa.Table):
            unit, key, index, value = self._columns
            # a table chunk by chunk: its dictionaries need not fit each other, nor its text one array
            for batch in element.to_batches() if isinstance(element, pa.Table) else [element]:
                parts = column_events(
                    self._projection,
                    column_of(batch, unit),
                    column_of(batch, key),
                    [column_of(batch, name) for name in index],
                    None if value is None else column_of(batch, value),
                )
                self._add(parts, batch.num_rows, window)
        else:
            self._add_row(element, window)
        return self._flush() if self._rows > _CHUNK_ROWS else None

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window in list(self._buffers):
            self._enter_rows(window)
        yield from self._flush()

    def _add_row(self, row: Any, window: BoundedWindow) -> None:
        if not (isinstance(row, tuple) and len(row) == 4):
            self._count_dropped(1)  # it may be one person's, and an error would end everybody's job
            return
        plain = tuple(field.item() if isinstance(field, np.generic) else field for field in row)
        if is_malformed(plain):
            self._count_dropped(1)
            return
        buffer = self._buffers.setdefault(window, RowBuffer())
        buffer.add(plain)
        if buffer.waiting >= ROWS:
            self._enter_rows(window)

    def _enter_rows(self, window: BoundedWindow) -> None:
        for rows in self._buffers[window].take():
            units, keys, indices, values = map(list, zip(*rows, strict=True))
            try:
                parts = column_events(self._projection, units, keys, [indices], values)
            except InvalidInputError:  # all of them are of types that are not valid, and may be one person's
                parts = []
            self._add(parts, len(rows), window)

    def _add(self, parts: list[Events], rows: int, window: BoundedWindow) -> None:
        found = concatenated([Contributions.of(part, self._digests, _moment(window)) for part in parts])
        self._count_dropped(rows - len(found))
        if self._known is not None:
            public = np.array([key in self._known for key, _ in found.slots], dtype=bool)
            found = found if public.all() else found.rows(public[found.codes])
        self._parts.setdefault(window, []).append(found)
        self._rows += len(found)

    def _flush(self) -> Iterator[WindowedValue]:
        parts, self._parts, self._rows = self._parts, {}, 0
        for window, found in parts.items():
            for shard, part in by_shard(found, self._shards):
                yield WindowedValue((shard, part), window.max_timestamp(), (window,))

    def _count_dropped(self, rows: int) -> None:
        if self.count and rows:
            Metrics.counter(METRICS, "rows_dropped").inc(rows)


class _Clip(beam.DoFn):
    """Clip the units of a shard; what comes late has no budget left."""

    def __init__(self, projection: Projection, max_keys: int, limit: int, clip: Clip, label: str) -> None:
        self._projection, self._label = projection, label
        self._bounds: dict[str, Any] = {"max_keys": max_keys, "limit": limit, "clip": clip}
        self.count = False

    def process(
        self,
        group: tuple[int, Iterable[bytes]],
        pane: PaneInfo = beam.DoFn.PaneInfoParam,
        *,
        run: RunSecret,
    ) -> Iterator[Any]:
        events = decoded(group[1])
        secret = run.derive("bounds", self._label)
        left = bounded(events, secret=secret, totals=False, **self._bounds)
        if self.count:
            for name in ("units", "units_over_keys", "units_over_bound"):
                Metrics.counter(METRICS, name).inc(getattr(left.tally, name))
        for moment, part in _by_window(left):
            found = TimestampedValue(BoundedEvents(self._projection, part), Timestamp(micros=moment))
            yield found if is_the_one_pane(pane) else beam.pvalue.TaggedOutput(LATE, found)


def _moment(window: BoundedWindow) -> int:
    return int(window.max_timestamp().micros)


def _by_window(left: Bounded) -> Iterator[tuple[int, Bounded]]:
    """Yield the events of each window; nearly always there is one."""
    if len({moment for _, moment in left.slots}) == 1:
        yield left.slots[0][1], Bounded(left.slots, left.codes, left.indices, left.steps, left.units_of)
        return
    moments, window_of = np.unique(np.array([moment for _, moment in left.slots], dtype=np.int64), return_inverse=True)
    slots_in_order = np.argsort(window_of, kind="stable")
    events_in_order = np.argsort(window_of[left.codes], kind="stable")
    numbers = np.arange(moments.size + 1)
    slot_stops = np.searchsorted(window_of[slots_in_order], numbers)
    event_stops = np.searchsorted(window_of[left.codes[events_in_order]], numbers)
    place = np.empty(len(left.slots), dtype=np.int64)
    place[slots_in_order] = np.arange(len(left.slots))
    for window, moment in enumerate(moments.tolist()):
        slots = slots_in_order[slot_stops[window] : slot_stops[window + 1]]
        events = events_in_order[event_stops[window] : event_stops[window + 1]]
        codes = place[left.codes[events]] - slot_stops[window]
        names = [left.slots[slot] for slot in slots.tolist()]
        yield moment, Bounded(names, codes, left.indices[events], left.steps[events], left.units_of[slots])
