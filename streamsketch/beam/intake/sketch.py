"""From events to one exact sketch per key."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import BoundedWindow, GlobalWindow, GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from streamsketch.agreement import Agreement
from streamsketch.beam.intake.events import ROWS, BoundedEvents, RowBuffer, column_of
from streamsketch.beam.intake.partials import PartialSketches
from streamsketch.beam.run.coders import SketchCoder
from streamsketch.beam.run.known import known_of, with_known
from streamsketch.beam.run.runner import refuse_broken_runner
from streamsketch.beam.run.steps import Each, Step
from streamsketch.errors import InvalidInputError
from streamsketch.intake import Intake
from streamsketch.projections import Projection
from streamsketch.sketching import Sketch, keyed_steps

_EVERYWHERE = GlobalWindow()
_BATCH_ROWS = 1 << 17  # that enter at once
_TABLE_BYTES = 1 << 26  # of the sketches of one bundle and window that are kept as a table
_FLUSH_BYTES = 1 << 27  # of one bundle, all windows together; then partial sketches move on


class SketchPerKey(beam.PTransform):
    """Sketch the events of each key: ``PCollection[events] → PCollection[KV[key, Sketch]]``, exact and secret.

    Elements are Arrow ``RecordBatch`` or ``Table`` objects with columns, the fast way, such as `ReadColumns` and Beam's
    ``ReadFromParquetBatched`` give, or rows ``(key, index, value)`` or ``(key, (index, value))``, or what
    `BoundContributions` returns; all may be mixed. Keys are text, bytes or integers. Each bundle keeps the sketches of
    few keys, or the events of many, in 128 MiB at most; the partial sketches that come of it are merged, exactly, so
    the result does not depend on runner, bundling or retries.

    Parameters
    ----------
    projection
        The public map, or an `Agreement`: Arrow elements are then cast by it, unless `ReadColumns` did so, it names the
        columns, and releases carry its fingerprint.
    key, index, value
        Column names in Arrow elements. ``index`` may be several columns, read as a tuple; ``value=None`` counts
        1 an event. With an agreement they are left as they are.

    Raises
    ------
    InvalidInputError
        In the workers, for elements that cannot be sketched; see `Sketch.update`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import SJLT
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     rows = pipeline | beam.Create([("AA", (17, 1)), ("UA", (18, 2))])
    ...     sketches = rows | SketchPerKey(projection)
    """

    def __init__(
        self,
        projection: Projection | Agreement,
        *,
        key: str = "key",
        index: str | Sequence[str] = "index",
        value: str | None = "value",
    ) -> None:
        super().__init__()
        self._agreement = projection if isinstance(projection, Agreement) else None
        if isinstance(projection, Agreement):
            if (key, index, value) != ("key", "index", "value"):
                raise InvalidInputError("the agreement says which columns are sketched; leave out key, index and value")
            if projection.key is None:
                raise InvalidInputError("the agreement has no key, and SketchPerKey makes a sketch of each key")
            key, index, value = projection.key.name, [one.name for one in projection.index], projection.value
            projection = projection.projection
        if not isinstance(projection, Projection):
            raise TypeError(f"SketchPerKey needs a Projection or an Agreement, got a {type(projection).__name__}")
        self._projection = projection
        self._columns = (key, (index,) if isinstance(index, str) else tuple(index), value)

    def expand(self, events: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        refuse_broken_runner(events.pipeline)
        everywhere = isinstance(events.windowing.windowfn, GlobalWindows)
        bundles = _GlobalBundles if everywhere else _WindowedBundles
        sketches = (
            events
            | "Sketch bundles" >> beam.ParDo(bundles(self._projection, *self._columns, self._agreement))
            # not CombinePerKey: its lifting would hold up to 100,000 sketches, however large, a second time
            | "Gather partial sketches" >> beam.GroupByKey()
            | "Merge partial sketches"
            >> beam.ParDo(Each(_merged_partials)).with_output_types(beam.typehints.KV[Any, Sketch])
        )
        known = dataclasses.replace(known_of(events), projection=self._projection, agreement=self._agreement)
        return with_known(sketches, known)

    def display_data(self) -> dict[str, Any]:
        """Show the public projection in the runner's interface."""
        return {"projection": self._projection.to_json()}


def merged(sketches: Iterable[Sketch]) -> Sketch:
    """Return the sum of at least one sketch, a new one: Beam may use its inputs again."""
    first, *others = sketches
    total = first.copy()
    for other in others:
        total.merge(other)
    return total


def _merged_partials(group: tuple[Any, Iterable[Sketch]]) -> Iterator[tuple[Any, Sketch]]:
    yield group[0], merged(group[1])


class _SketchBundles(Step):
    """Sketches of each bundle and window, flushed at the bundle's end or when they have grown large."""

    def __init__(
        self,
        projection: Projection,
        key: str,
        index: tuple[str, ...],
        value: str | None,
        agreement: Agreement | None = None,
    ) -> None:
        self._projection = projection
        self._key, self._index, self._value = key, index, value
        self._agreement, self._intake = agreement, None if agreement is None else Intake(agreement)

    def start_bundle(self) -> None:
        self._bundles: dict[BoundedWindow, _Bundle] = {}

    def _add(self, element: Any, window: BoundedWindow) -> Iterator[WindowedValue] | None:
        bundle = self._bundle(window)
        if isinstance(element, pa.RecordBatch | pa.Table):
            return self._add_columns(element, bundle)
        if isinstance(element, BoundedEvents):
            return self._add_bounded(element, bundle)
        if self._agreement is not None:
            raise InvalidInputError(
                f"under an agreement elements are Arrow record batches, whose types it casts, or bounded events; got a "
                f"{type(element).__name__}"
            )
        bundle.add_row(element)
        return self._enter_rows(bundle) if len(bundle.keys) >= ROWS else None

    def _bundle(self, window: BoundedWindow) -> "_Bundle":
        bundle = self._bundles.get(window)
        if bundle is None:
            bundle = self._bundles[window] = _Bundle(self._projection)
        return bundle

    def _enter_rows(self, bundle: "_Bundle") -> Iterator[WindowedValue]:
        bundle.enter_rows()
        return self._flush_if_large()

    def _add_columns(self, element: pa.RecordBatch | pa.Table, bundle: "_Bundle") -> Iterator[WindowedValue]:
        for start in range(0, element.num_rows, _BATCH_ROWS):
            part = element.slice(start, _BATCH_ROWS)
            if self._intake is not None:
                batches = [part] if isinstance(part, pa.RecordBatch) else part.to_batches()
                part = pa.Table.from_batches([self._intake.cast(batch, start + 1) for batch in batches])
            bundle.add(
                column_of(part, self._key),
                self._projection.indices_of(*(column_of(part, name) for name in self._index)),
                1 if self._value is None else column_of(part, self._value),
            )
            yield from self._flush_if_large()

    def _add_bounded(self, element: BoundedEvents, bundle: "_Bundle") -> Iterator[WindowedValue]:
        self._projection.check_same(element.projection)
        events = element.events
        keys = [key for key, _ in events.slots]
        for start in range(0, events.codes.size, _BATCH_ROWS):
            part = slice(start, start + _BATCH_ROWS)
            bundle.sketches.add(keys, events.codes[part], events.indices[part], events.steps[part])
            yield from self._flush_if_large()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield from self._flush()

    def _flush_if_large(self) -> Iterator[WindowedValue]:
        if sum(bundle.sketches.nbytes for bundle in self._bundles.values()) > _FLUSH_BYTES:
            yield from self._flush()

    def _flush(self) -> Iterator[WindowedValue]:
        for window, bundle in self._bundles.items():
            for keyed in bundle.take():
                yield WindowedValue(keyed, window.max_timestamp(), (window,))


@beam.typehints.with_output_types(beam.typehints.KV[Any, Sketch])
class _WindowedBundles(_SketchBundles):
    def process(self, element: Any, window: BoundedWindow = beam.DoFn.WindowParam) -> Iterator[WindowedValue] | None:
        return self._add(element, window)


@beam.typehints.with_output_types(beam.typehints.KV[Any, Sketch])
class _GlobalBundles(_SketchBundles):
    """Without a window parameter, for which Beam takes a slower way to each element; rows only wait at first."""

    def start_bundle(self) -> None:
        super().start_bundle()
        self._everything = self._bundle(_EVERYWHERE)

    def process(self, element: Any) -> Iterator[WindowedValue] | None:
        if type(element) is tuple and self._agreement is None:
            everything = self._everything
            everything.add_row(element)
            return self._enter_rows(everything) if len(everything.keys) >= ROWS else None
        return self._add(element, _EVERYWHERE)


class _Bundle:
    """The sketches of one bundle and window, with the rows that wait to enter them together."""

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self.sketches = PartialSketches(projection, max(1, _TABLE_BYTES // (8 * projection.sketch_dim)))
        # rows that wait, as columns: the garbage collector would look at each tuple, and at all else, again and again
        self.keys: list[Any] = []
        self._indices: list[Any] = []
        self._values: list[Any] = []

    def add(self, keys: Any, indices: Any, values: Any) -> None:
        self.sketches.add(*keyed_steps(self._projection, keys, indices, values, warn=False))

    def add_row(self, row: Any) -> None:
        try:
            if len(row) == 2:
                key, (index, value) = row
            else:
                key, index, value = row
        except (TypeError, ValueError):
            raise InvalidInputError(
                "elements must be Arrow record batches or rows (key, index, value) or (key, (index, value)), "
                f"got a {type(row).__name__} of another shape"
            ) from None
        self.keys.append(key)
        self._indices.append(index)
        self._values.append(value)

    def enter_rows(self) -> None:
        keys, indices, values = self.keys, self._indices, self._values
        self.keys, self._indices, self._values = [], [], []
        if not keys:
            return
        if all(len(set(map(type, column))) == 1 for column in (keys, indices, values)):
            self.add(keys, indices, values)
            return
        buffer = RowBuffer()  # what else waits must not matter
        for row in zip(keys, indices, values, strict=True):
            buffer.add(row)
        for alike in buffer.take():
            self.add(*zip(*alike, strict=True))

    def take(self) -> Iterator[tuple[Any, Sketch]]:
        """Yield each key's sketch and start anew."""
        self.enter_rows()
        yield from self.sketches.take()


@beam.typehints.with_input_types(Sketch)
@beam.typehints.with_output_types(Sketch)
class MergeSketches(beam.CombineFn):
    """Merge sketches of one projection, exactly: for `CombinePerKey`, `CombineGlobally`.

    Parameters
    ----------
    projection
        The public map that all of them were made with.
    """

    def __init__(self, projection: Projection) -> None:
        super().__init__()
        self._projection = projection

    def create_accumulator(self) -> Sketch:
        """Return an empty sketch."""
        return Sketch(self._projection)

    def add_input(self, mutable_accumulator: Sketch, element: Sketch) -> Sketch:
        """Merge one sketch."""
        mutable_accumulator.merge(element)
        return mutable_accumulator

    def merge_accumulators(self, accumulators: Iterable[Sketch]) -> Sketch:
        """Merge into a new sketch: Beam may use its inputs again."""
        total = self.create_accumulator()
        for accumulator in accumulators:
            total.merge(accumulator)
        return total

    def extract_output(self, accumulator: Sketch) -> Sketch:
        """Return the sketch as it is; noise has no place here, where a retry would draw it twice."""
        return accumulator

    def get_accumulator_coder(self) -> SketchCoder:
        """Return the coder of accumulators between workers."""
        return SketchCoder()
