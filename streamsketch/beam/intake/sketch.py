"""From events to one exact sketch per key."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.windowed_value import WindowedValue

from streamsketch.agreement.agreement import Agreement
from streamsketch.beam.intake.bound import BoundedEvents
from streamsketch.beam.run.coders import SketchCoder
from streamsketch.beam.run.known import known_of, with_known
from streamsketch.beam.run.runner import refuse_broken_runner
from streamsketch.beam.run.steps import Each, Step, merge_group
from streamsketch.errors import InvalidInputError
from streamsketch.intake.by_window import intake_of
from streamsketch.intake.rows import Intake
from streamsketch.projections.base import Projection
from streamsketch.sketching.keyed import codes_of, table_keys
from streamsketch.sketching.partials import PartialSketches
from streamsketch.sketching.sketch import Sketch


class SketchPerKey(beam.PTransform):
    """Sketch the events of each key: ``PCollection[events] → PCollection[KV[key, Sketch]]``, exact and secret.

    Elements are Arrow ``RecordBatch`` or ``Table`` objects, for example from `ReadColumns`, `RowsToBatches` or Beam's
    ``ReadFromParquetBatched``, or the output of `BoundContributions`. Keys are text, bytes or integers. Each bundle
    keeps the sketches of few keys, or the events of many, in at most 128 MiB. The resulting partial sketches are merged
    exactly, so the result does not depend on runner, bundling or retries.

    Parameters
    ----------
    agreement
        The agreement: the columns to sketch, and the types to which they are cast, unless `ReadColumns` cast them.
        Releases carry its fingerprint.

    Raises
    ------
    InvalidInputError
        If the agreement has no key column. In the workers, if an element cannot be sketched; see `Sketch.update`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> import pyarrow as pa
    >>> from streamsketch import SJLT, Agreement
    >>> agreement = Agreement.of(SJLT(sketch_dim=64, sparsity=4, seed=7), key="shop", index="item", value="sold")
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     sales = pa.table({"shop": ["north", "south"], "item": ["tea", "jam"], "sold": [3, 2]})
    ...     sketches = pipeline | beam.Create([sales]) | SketchPerKey(agreement)
    """

    def __init__(self, agreement: Agreement) -> None:
        super().__init__()
        self._intake = intake_of(agreement)
        if agreement.key is None:
            raise InvalidInputError(
                "SketchPerKey makes a sketch for each key, but the agreement has no key column; make one with key=…"
            )
        self._agreement = agreement

    def expand(self, events: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        refuse_broken_runner(events.pipeline)
        sketches = (
            events
            | "Sketch bundles" >> beam.ParDo(SketchBundles(self._intake, counted=known_of(events).bounds.counted))
            # not CombinePerKey: its lifting would hold up to 100,000 sketches, however large, a second time
            | "Gather partial sketches" >> beam.GroupByKey()
            | "Merge partial sketches"
            >> beam.ParDo(Each(merge_group)).with_output_types(beam.typehints.KV[Any, Sketch])
        )
        about: dict[str, Any] = {"projection": self._agreement.projection, "agreement": self._agreement}
        return with_known(sketches, dataclasses.replace(known_of(events), **about))

    def display_data(self) -> dict[str, Any]:
        """Show the public agreement in the runner's interface."""
        return {"agreement": str(self._agreement), "projection": self._agreement.projection.to_json()}


@beam.typehints.with_output_types(beam.typehints.KV[Any, Sketch])
class SketchBundles(Step):
    """Sketches of each bundle and window, flushed at the bundle's end or when they have grown large.

    Parameters
    ----------
    intake
        Reads the rows.
    counted
        Whether the units of bounded events are counted.
    batch_rows
        How many rows enter at once.
    table_bytes
        The size of the sketches of one bundle and window up to which they are a table.
    flush_bytes
        The size of a bundle's partial sketches, for all windows, at which they are emitted.
    """

    def __init__(
        self,
        intake: Intake,
        *,
        counted: bool = False,
        batch_rows: int = 1 << 17,
        table_bytes: int = 1 << 26,
        flush_bytes: int = 1 << 27,
    ) -> None:
        self._intake, self._projection, self._counted = intake, intake.agreement.projection, counted
        self._batch_rows, self._table_bytes, self._flush_bytes = batch_rows, table_bytes, flush_bytes

    def start_bundle(self) -> None:
        """Begin without sketches."""
        self._bundles: dict[BoundedWindow, PartialSketches] = {}

    def process(self, element: Any, window: BoundedWindow = beam.DoFn.WindowParam) -> Iterator[WindowedValue]:
        """Add an element's events; yield partial sketches when they have grown large."""
        sketches = self._bundles.get(window)
        if sketches is None:
            most_keys = max(1, self._table_bytes // (8 * self._projection.sketch_dim))
            sketches = self._bundles[window] = PartialSketches(self._projection, most_keys)
        if self._counted and isinstance(element, BoundedEvents):
            sketches.count([key for key, _ in element.events.slots], element.events.counts)
        for keys, codes, places, steps, in_cells in self._rows_of(element):
            sketches.add(keys, codes, places, steps, in_cells=in_cells)
            if sum(sketches.nbytes for sketches in self._bundles.values()) > self._flush_bytes:
                yield from self._flush()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yield the partial sketches that are left."""
        yield from self._flush()

    def _rows_of(self, element: Any) -> Iterator[tuple[Sequence[Any], Any, Any, Any, bool]]:
        """Yield keys, and the events' places among them, indices and steps, in parts.

        The last value is whether they are cells and steps in these, as for units that are clipped in sketch space.
        """
        if isinstance(element, pa.RecordBatch | pa.Table):
            first = 1
            for batch in [element] if isinstance(element, pa.RecordBatch) else element.to_batches():
                for start in range(0, batch.num_rows, self._batch_rows):
                    events = self._intake.read(batch.slice(start, self._batch_rows), first + start).one_by_one()
                    yield *codes_of(table_keys(events.keys)), events.indices, events.steps, False
                first += batch.num_rows
        elif isinstance(element, BoundedEvents):
            self._projection.check_same(element.projection)
            left = element.events
            keys = [key for key, _ in left.slots]
            for start in range(0, left.codes.size, self._batch_rows):
                part = slice(start, start + self._batch_rows)
                yield keys, left.codes[part], left.indices[part], left.steps[part], left.in_cells
        else:
            raise InvalidInputError(
                "elements must be Arrow record batches or the output of BoundContributions, got a "
                f"{type(element).__name__}. Apply RowsToBatches(agreement) to rows"
            )

    def _flush(self) -> Iterator[WindowedValue]:
        for window, sketches in self._bundles.items():
            for keyed in _checked(sketches.take()):
                yield WindowedValue(keyed, window.max_timestamp(), (window,))


@beam.typehints.with_input_types(Sketch)
@beam.typehints.with_output_types(Sketch)
class MergeSketches(beam.CombineFn):
    """Merge sketches of one projection exactly, in ``beam.CombinePerKey`` or ``beam.CombineGlobally``.

    Parameters
    ----------
    projection
        The public map of all the sketches.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import SJLT
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> sketch = projection.sketch()
    >>> sketch.update([17, 18], [1, 2])
    >>> merge = MergeSketches(projection)
    >>> merge.merge_accumulators([sketch, sketch]).mass
    6

    A pipeline merges the sketches of each key:

    >>> pipeline = beam.Pipeline(runner="FnApiRunner")
    >>> sketches = pipeline | beam.Create([("north", sketch), ("north", sketch)])
    >>> totals = sketches | beam.CombinePerKey(merge)
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
        """Return the sketch unchanged. No noise is added here, where a retry would draw it twice."""
        return accumulator

    def get_accumulator_coder(self) -> SketchCoder:
        """Return the coder of accumulators between workers."""
        return SketchCoder()


def _checked(keyed: Iterator[tuple[Any, Sketch]]) -> Iterator[tuple[Any, Sketch]]:
    for key, sketch in keyed:
        if not isinstance(key, str | bytes | int):  # Beam has no deterministic bytes for others
            raise InvalidInputError(f"keys must be text, bytes or integers, got a {type(key).__name__}; cast them")
        yield key, sketch
