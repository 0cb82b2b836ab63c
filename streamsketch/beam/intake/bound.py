"""Contribution bounding: what one privacy unit adds to a table of sketches, enforced before anything is added up."""

import dataclasses
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Self

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow, FixedWindows, GlobalWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, WindowedValue

from streamsketch.agreement.agreement import Agreement
from streamsketch.beam.intake.keys import METRICS, Keys, PublicKeys, as_dict
from streamsketch.beam.intake.windows import (
    LATE,
    event_windows_of,
    is_the_one_pane,
    require_tumbling,
    tumbling_of,
    windowed_as,
)
from streamsketch.beam.run.known import Known, Span, refuse_bounded, with_known
from streamsketch.beam.run.runner import refuse_broken_runner
from streamsketch.beam.run.runs import RunSecret, label_in, run_secret
from streamsketch.core.documents import TableKey
from streamsketch.core.numbers import check_int
from streamsketch.errors import InvalidInputError
from streamsketch.intake.by_window import intake_of
from streamsketch.intake.events import Events
from streamsketch.intake.rows import Intake
from streamsketch.privacy.neighbours import Clip, Neighbours
from streamsketch.projections.base import Projection
from streamsketch.sketching.bounding.clip import Bounded
from streamsketch.sketching.bounding.contributions import Contributions
from streamsketch.sketching.bounding.digests import UnitDigests
from streamsketch.sketching.bounding.shards import by_shard, decoded
from streamsketch.sketching.bounding.units import UnitBounds

_CHUNK_ROWS = 1 << 20  # number of a bundle's rows, 40 bytes each, for all windows, at which they go to their shards


@dataclasses.dataclass(frozen=True, eq=False)
class BoundedEvents:
    """Events of one window after `BoundContributions`: secret, on the projection's grid.

    Parameters
    ----------
    projection
        The map whose grid and indices the events are of.
    events
        The events.
    """

    projection: Projection
    events: Bounded


class BoundContributions(beam.PTransform):
    """Clip every privacy unit to its bounds: ``PCollection[batches] → PCollection[BoundedEvents]``, for `SketchPerKey`.

    Elements are Arrow ``RecordBatch`` or ``Table`` objects; `RowsToBatches` makes them from rows.

    Values are truncated to the projection's grid, and a unit's rows are summed by key and index, so that returns cancel
    purchases. Then each unit keeps some keys, which the run's secret chooses, and is clipped in them, exactly, in
    integers. The bits are those of `bound` on one machine with the same secret. Under `SketchL2`, a unit's rows become
    cells first, and the cells of all its keys are clipped together. Only clipped contributions are added up. So
    removing all rows of one unit moves the table by no more than a release for the neighbours hides (Theory 4.2),
    whatever those rows hold. The bounds stay with the output of this transform and of `SketchPerKey`, and
    `ReleasePerKey` compares them with its publisher's neighbours. After any other step they are lost.

    A malformed row (a null, NaN, an infinity, an index out of range, text that is not UTF-8, empty text as the unit) is
    dropped, and a large value is clipped: an error would end the whole job because of one unit's data. If all rows are
    dropped, the releases hold only noise; ``count_private_data`` shows that. A column of a wrong type or name is an
    error.

    Parameters
    ----------
    agreement
        The agreement: the columns, and the types to which they are cast, unless `ReadColumns` cast them. It
        needs a unit column.
    neighbours
        What one unit may contribute: `L1`, `L2` or `SketchL2`; by default the agreement's neighbours.
    max_keys
        How many keys a unit keeps, if the bound is for all of them **together**; as in `bound`.
    clip
        How to clip a unit's vector to the bound, if the agreement does not state it. ``"scale"``, the default, shrinks
        the whole vector. ``"cut"`` keeps some of its values and drops the others. ``"equal"`` also lengthens shorter
        vectors, so that each unit counts the same; see `bound`.
    public_keys
        The public keys, as a list, a `pathlib.Path` or a PCollection; see `ReleasePerKey`. Rows of other keys are
        dropped before a unit's keys are chosen.
    across_windows
        Whether to bound each unit's rows in all event-time windows together: ``max_keys`` then counts pairs of key and
        window, and `SketchL2` bounds the cells of all windows. This requires bounded input. Otherwise each window is
        bounded by itself, and the guarantee is for "one aircraft in one window of 3600 s".
    shards
        Number of groups over which units are spread. The events of one group must fit into a worker's memory, at 48
        bytes each.
    count_private_data
        Count ``rows_dropped`` (malformed), ``units``, ``units_over_keys``, ``units_over_bound`` and
        ``units_below_bound`` as Beam metrics; see `BoundingSummary`. These are data without noise, for the operator
        only.

    Raises
    ------
    InvalidInputError
        If the agreement has no unit column, or neither it nor the arguments have neighbours; if bounds are out of
        range, as in `bound`; if the events were already bounded; for ``across_windows`` on unbounded input. In the
        workers, if a column is missing or of a wrong type.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT, Agreement
    >>> from streamsketch.beam import ReleasePerKey, RowsToBatches, SketchPerKey
    >>> from streamsketch.release import AdditiveNoise
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> columns = {"key": "shop", "index": "item", "value": "sold", "unit": "buyer"}
    >>> agreement = Agreement.of(projection, **columns, neighbours=L1(30, unit="buyer", max_keys=2))
    >>> noise = AdditiveNoise(epsilon=1.0, neighbours=agreement.neighbours)
    >>> sales = [("Ann", "north", 17, 1), ("Ann", "south", 17, 900), ("Bob", "south", 18, 1)]
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     releases = (
    ...         pipeline
    ...         | beam.Create(sales)
    ...         | RowsToBatches(agreement, ["buyer", "shop", "item", "sold"])
    ...         | BoundContributions(agreement)
    ...         | SketchPerKey(agreement)
    ...         | ReleasePerKey(noise, public_keys=["north", "south"])
    ...     )
    """

    def __init__(
        self,
        agreement: Agreement,
        *,
        neighbours: Neighbours | None = None,
        max_keys: int | None = None,
        clip: Clip | None = None,
        public_keys: Keys | None = None,
        across_windows: bool = False,
        shards: int = 64,
        count_private_data: bool = False,
    ) -> None:
        super().__init__()
        self._intake = intake_of(agreement, on_bad="drop", bounded=True)
        if agreement.unit is None or agreement.key is None:
            raise InvalidInputError(
                "BoundContributions clips what one unit contributes to each key, so it needs an agreement with a "
                "unit column and a key column; make one with both (unit=…, key=…)"
            )
        neighbours = agreement.neighbours if neighbours is None else neighbours
        if neighbours is None:
            raise InvalidInputError("the agreement does not state what one unit contributes; pass neighbours")
        self.neighbours = neighbours
        clip = dataclasses.replace(agreement, neighbours=neighbours).clip_of(clip)
        rows = agreement.rows_rule
        self._bounds = UnitBounds(agreement.projection, neighbours, max_keys=max_keys, clip=clip, rows=rows)
        self._projection, self.agreement = agreement.projection, agreement
        self.shards = check_int(shards, "shards", 1, 1 << 16)
        self._public_keys = None if public_keys is None else PublicKeys(public_keys).with_agreement(agreement)
        self._across_windows, self._count = across_windows, count_private_data
        self._late = False

    def _neighbours_in(self, windowing: Windowing) -> Neighbours:
        """Return the neighbour relation that holds for the events bounded, as they are windowed."""
        if self._across_windows or isinstance(windowing.windowfn, GlobalWindows):
            return self.neighbours
        words = event_windows_of(windowing.windowfn).words
        return dataclasses.replace(self.neighbours, unit=f"{self.neighbours.unit} in {words}")

    def with_late_data(self) -> Self:
        """Return two collections, ``(bounded, late)``. Late rows are **secret**, for monitoring, and not released."""
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
                "across_windows=True bounds all windows of a unit together, so it needs bounded input, but this "
                "stream never ends. Pass across_windows=False: each window is bounded by itself, and the guarantee "
                "is for a unit in one window"
            )
        run, label = run_secret(events.pipeline), label_in(events.pipeline)
        listed = None if self._public_keys is None else self._public_keys.listed
        side_inputs = {}
        if self._public_keys is not None and listed is None:
            side_inputs = {"public": as_dict(self._public_keys.collection(events.pipeline))}
        prepare = Prepare(self._intake, self._bounds, label, self.shards, listed, count=self._count)
        chunks = events | "Quantise and shard" >> beam.ParDo(prepare, run=run, **side_inputs)
        if regroup:
            chunks |= "All windows of a unit" >> beam.WindowInto(beam.window.GlobalWindows())
        clip = ClipUnits(self._projection, self._bounds, label, count=self._count)
        outputs = (
            chunks
            | "One group a shard" >> beam.GroupByKey()
            | "Clip" >> beam.ParDo(clip, run=run).with_outputs(LATE, main="bounded")
        )
        kept = outputs.bounded
        if regroup:
            kept |= "Back to their windows" >> windowed_as(windowing)
        kept = with_known(kept, self._facts(windowing))
        return (kept, with_known(outputs[LATE], Known(self._projection, late=True))) if self._late else kept

    def _facts(self, windowing: Windowing) -> Known:
        windows = windowing.windowfn  # those of a calendar are of no stream, which would be charged by its windows
        is_by_window = isinstance(windows, FixedWindows) and not self._across_windows
        span = Span(self.neighbours.unit, tumbling_of(windows)) if is_by_window else None
        bounds = dataclasses.replace(self._bounds.enforced, neighbours=self._neighbours_in(windowing))
        return Known(self._projection, bounds, self.neighbours, span)

    def display_data(self) -> dict[str, Any]:
        """Show the bounds, but no secret, in the runner's interface."""
        return {"bounds": repr(self.neighbours)}


@beam.typehints.with_output_types(beam.typehints.KV[int, bytes])
class Prepare(beam.DoFn):
    """Valid events on the grid, spread over shards by their units."""

    def __init__(
        self,
        intake: Intake,
        bounds: UnitBounds,
        label: str,
        shards: int,
        listed: frozenset[TableKey] | None,
        *,
        count: bool,
    ) -> None:
        self._intake, self._bounds, self._label, self._shards = intake, bounds, label, shards
        self._listed, self._count = listed, count
        self._run: RunSecret | None = None

    def start_bundle(self) -> None:
        """Begin without rows."""
        self._parts: dict[BoundedWindow, list[Contributions]] = {}
        self._rows = 0

    def process(
        self,
        element: Any,
        window: BoundedWindow = beam.DoFn.WindowParam,
        public: Mapping[TableKey, None] | None = None,
        *,
        run: RunSecret,
    ) -> Iterator[WindowedValue] | None:
        """Keep the events of an element; yield shards of units when many wait."""
        if run is not self._run:
            self._digests, self._run = UnitDigests(run.derive("bounds", self._label)), run
        if not isinstance(element, pa.RecordBatch | pa.Table):
            raise InvalidInputError(
                f"elements must be Arrow record batches, got a {type(element).__name__}; apply "
                "RowsToBatches(agreement) to rows"
            )
        # a table chunk by chunk: its dictionaries need not fit each other, nor its text one array
        for batch in element.to_batches() if isinstance(element, pa.Table) else [element]:
            events = self._intake.read(batch)
            self._add(events, window, public if self._listed is None else self._listed)
        return self._flush() if self._rows > _CHUNK_ROWS else None

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yield what waits."""
        yield from self._flush()

    def _add(self, events: Events, window: BoundedWindow, public_keys: Container[Any] | None) -> None:
        if self._count and events.rows > len(events):
            Metrics.counter(METRICS, "rows_dropped").inc(events.rows - len(events))
        last = int(window.max_timestamp().micros)
        contributions = Contributions.of(events, self._digests, last, averaged=self._bounds.averaged)
        if public_keys is not None:
            public = np.array([key in public_keys for key, _ in contributions.slots], dtype=bool)
            contributions = contributions if public.all() else contributions.rows(public[contributions.codes])
        contributions = contributions.one_by_one()
        self._parts.setdefault(window, []).append(contributions)
        self._rows += len(contributions)

    def _flush(self) -> Iterator[WindowedValue]:
        parts, self._parts, self._rows = self._parts, {}, 0
        for window, contributions in parts.items():
            for shard, part in by_shard(contributions, self._shards):
                yield WindowedValue((shard, part), window.max_timestamp(), (window,))


class ClipUnits(beam.DoFn):
    """Clip the units of a shard; late rows have no budget left."""

    def __init__(self, projection: Projection, bounds: UnitBounds, label: str, *, count: bool) -> None:
        self._projection, self._bounds, self._label, self._count = projection, bounds, label, count

    def process(
        self, group: tuple[int, Iterable[bytes]], pane: PaneInfo = beam.DoFn.PaneInfoParam, *, run: RunSecret
    ) -> Iterator[Any]:
        """Yield the contributions of one shard's units, clipped."""
        for left in self._bounds.clipped_parts(decoded(group[1]), run.derive("bounds", self._label), totals=False):
            if self._count:
                for name in ("units", "units_over_keys", "units_over_bound", "units_below_bound"):
                    Metrics.counter(METRICS, name).inc(getattr(left.tally, name))
            for time, part in _by_window(left):
                output = TimestampedValue(BoundedEvents(self._projection, part), Timestamp(micros=time))
                yield output if is_the_one_pane(pane) else beam.pvalue.TaggedOutput(LATE, output)


def _by_window(left: Bounded) -> Iterator[tuple[int, Bounded]]:
    """Yield the events of each window; nearly always there is one."""
    if len({time for _, time in left.slots}) == 1:
        yield left.slots[0][1], left
        return
    times, window_of = np.unique(np.array([time for _, time in left.slots], dtype=np.int64), return_inverse=True)
    slots_in_order = np.argsort(window_of, kind="stable")
    events_in_order = np.argsort(window_of[left.codes], kind="stable")
    numbers = np.arange(times.size + 1)
    slot_stops = np.searchsorted(window_of[slots_in_order], numbers)
    event_stops = np.searchsorted(window_of[left.codes[events_in_order]], numbers)
    place = np.empty(len(left.slots), dtype=np.int64)
    place[slots_in_order] = np.arange(len(left.slots))
    for window, time in enumerate(times.tolist()):
        slots = slots_in_order[slot_stops[window] : slot_stops[window + 1]]
        events = events_in_order[event_stops[window] : event_stops[window + 1]]
        codes = place[left.codes[events]] - slot_stops[window]
        columns: dict[str, Any] = {"codes": codes, "indices": left.indices[events], "steps": left.steps[events]}
        columns |= {"slots": [left.slots[slot] for slot in slots.tolist()], "units_of": left.units_of[slots]}
        columns["units_left"] = left.units_left[slots]
        yield time, dataclasses.replace(left, **columns)
