"""From events to one exact sketch per key."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.windowed_value import WindowedValue

from streamsketch.beam.coders import SketchCoder
from streamsketch.errors import InvalidInputError
from streamsketch.projections.base import Projection
from streamsketch.sketch import Sketch
from streamsketch.table import SketchTable

_FLUSH_ROWS = 8192
_FLUSH_BYTES = 1 << 27  # of one bundle's tables, then partial sketches move on


class SketchPerKey(beam.PTransform):
    """Sketch the events of each key: ``PCollection[events] → PCollection[KV[key, Sketch]]``, exact and private.

    Elements are Arrow ``RecordBatch`` or ``Table`` objects with columns, the fast way, or rows
    ``(key, (index, value))``; both may be mixed. Each bundle fills one `SketchTable`; partial sketches are then
    merged, exactly, so the result does not depend on runner, bundling or retries.

    Parameters
    ----------
    projection
        The public map.
    key, index, value
        Column names in Arrow elements. ``index`` may be several columns, read as a tuple; ``value=None`` counts
        1 an event.

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
        projection: Projection,
        *,
        key: str = "key",
        index: str | Sequence[str] = "index",
        value: str | None = "value",
    ) -> None:
        super().__init__()
        if not isinstance(projection, Projection):
            raise TypeError(f"SketchPerKey needs a Projection, got a {type(projection).__name__}")
        self._projection = projection
        self._columns = (key, (index,) if isinstance(index, str) else tuple(index), value)

    def expand(self, events: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        return (
            events
            | "Sketch bundles" >> beam.ParDo(_SketchBundles(self._projection, *self._columns))
            | "Merge partial sketches" >> beam.CombinePerKey(MergeSketches(self._projection))
        )

    def display_data(self) -> dict[str, Any]:
        """Show the public projection in the runner's interface."""
        return {"projection": self._projection.to_json()}


@beam.typehints.with_output_types(beam.typehints.KV[Any, Sketch])
class _SketchBundles(beam.DoFn):
    """One table a bundle and window, flushed at the bundle's end or when it has grown large."""

    def __init__(self, projection: Projection, key: str, index: tuple[str, ...], value: str | None) -> None:
        self._projection = projection
        self._key, self._index, self._value = key, index, value

    def start_bundle(self) -> None:
        self._bundles: dict[BoundedWindow, _Bundle] = {}

    def process(self, element: Any, window: BoundedWindow = beam.DoFn.WindowParam) -> Iterator[tuple[Any, Sketch]]:
        bundle = self._bundles.setdefault(window, _Bundle(self._projection))
        if isinstance(element, pa.RecordBatch | pa.Table):
            bundle.add_columns(
                self._column(element, self._key),
                [self._column(element, name) for name in self._index],
                1 if self._value is None else self._column(element, self._value),
            )
        else:
            bundle.add_row(element)
        if bundle.table.nbytes > _FLUSH_BYTES:
            yield from self._bundles.pop(window).sketches()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, bundle in self._bundles.items():
            for keyed in bundle.sketches():
                yield WindowedValue(keyed, window.max_timestamp(), (window,))
        self._bundles = {}

    def _column(self, element: pa.RecordBatch | pa.Table, name: str) -> Any:
        if name not in element.schema.names:
            raise InvalidInputError(
                f"there is no column {name!r}, only {', '.join(element.schema.names)}; "
                f"name the columns in SketchPerKey(key=…, index=…, value=…)"
            )
        return element.column(name)


class _Bundle:
    """The table of one bundle and window, with the rows that wait to enter it together."""

    def __init__(self, projection: Projection) -> None:
        self.table = SketchTable(projection)
        self._rows: tuple[list[Any], list[Any], list[Any]] = ([], [], [])

    def add_columns(self, keys: Any, index: list[Any], values: Any) -> None:
        self.table.update(keys, self.table.projection.indices_of(*index), values)

    def add_row(self, row: Any) -> None:
        try:
            key, (index, value) = row
        except (TypeError, ValueError):
            raise InvalidInputError(
                "elements must be Arrow record batches or rows (key, (index, value)), "
                f"got a {type(row).__name__} of another shape"
            ) from None
        for column, entry in zip(self._rows, (key, index, value), strict=True):
            column.append(entry)
        if len(self._rows[0]) >= _FLUSH_ROWS:
            self._enter_rows()

    def _enter_rows(self) -> None:
        keys, indices, values = self._rows
        if keys:
            self.table.update(keys, indices, values)
        self._rows = ([], [], [])

    def sketches(self) -> Iterator[tuple[Any, Sketch]]:
        self._enter_rows()
        yield from self.table.items()


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
