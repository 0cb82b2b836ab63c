"""Rows of Python objects as Arrow batches: the one way in for elements that are no columns."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import BoundedWindow, GlobalWindow, GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from streamsketch.agreement.agreement import Agreement
from streamsketch.beam.intake.keys import METRICS
from streamsketch.beam.run.steps import Step
from streamsketch.data.columns import arrow_column
from streamsketch.data.lenient import lenient_column
from streamsketch.errors import InvalidInputError
from streamsketch.intake.columns import salvage
from streamsketch.intake.rows import Intake

_EVERYWHERE = GlobalWindow()
_ROWS = 8192  # rows that wait to enter a batch together


class RowsToBatches(beam.PTransform):
    """Turn rows of Python objects into Arrow batches: ``PCollection[tuple or dict] → PCollection[RecordBatch]``.

    It is for `SketchPerKey`, `BoundContributions` and other transforms that take batches. Columns are cast to the
    agreed types. Rows keep their windows, and get their window's last time, so window them first. Arrow batches among
    them pass unchanged.

    A malformed row has another shape, or a field that does not fit its type. If the agreement has a unit column, it is
    dropped, because it may be one unit's; otherwise it ends the job. A field of features may hold anything, including
    lists and NumPy arrays. What does not fit the field, or is not in a dictionary, counts as missing, and the row is
    kept.

    Parameters
    ----------
    agreement
        Names and types of the columns.
    columns
        The columns of the fields of tuples, in order. By default key, index and value, those that the agreement has.
        Required if the agreement has a unit column, so that no field is mistaken for another. Dictionaries have their
        fields by name.
    count_private_data
        Count dropped rows as a Beam metric (``rows_dropped``): data without noise, for the operator's eyes only.

    Raises
    ------
    InvalidInputError
        If ``columns`` lacks an agreed column, or is left out although the agreement has units. In the workers, for
        malformed rows that are not dropped.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import SJLT, Agreement
    >>> from streamsketch.beam import RowsToBatches, SketchPerKey
    >>> agreement = Agreement.of(SJLT(sketch_dim=64, sparsity=4, seed=7), key="shop", index="item", value="sold")
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     rows = pipeline | beam.Create([("north", "tea", 3), {"shop": "south", "item": "jam", "sold": 2}])
    ...     sketches = rows | RowsToBatches(agreement) | SketchPerKey(agreement)
    """

    def __init__(
        self, agreement: Agreement, columns: Sequence[str] | None = None, *, count_private_data: bool = False
    ) -> None:
        super().__init__()
        self._intake = Intake(
            agreement, on_bad="refuse" if agreement.unit is None else "drop", bounded=agreement.unit is not None
        )
        if columns is None and agreement.unit is not None:
            raise InvalidInputError(
                f"rows with units need the order of their fields; pass columns={agreement.names}, or another order of "
                "these"
            )
        self._columns = agreement.names if columns is None else list(columns)
        if missing := [name for name in agreement.names if name not in self._columns]:
            raise InvalidInputError(f"the rows lack the agreement's columns {', '.join(missing)}; add them")
        self._count = count_private_data

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        step = _GlobalRows if isinstance(rows.windowing.windowfn, GlobalWindows) else WindowedRows
        gather = beam.ParDo(step(self._intake, self._columns, count=self._count))
        return rows | "Gather rows" >> gather.with_output_types(pa.RecordBatch)


class _Rows(Step):
    """Rows that wait to become batches, by window."""

    def __init__(self, intake: Intake, columns: list[str], *, count: bool) -> None:
        self._intake, self._columns, self._count = intake, columns, count
        self._features = feature_columns(intake.agreement)
        self._lenient = [place for place, name in enumerate(columns) if name in self._features]
        self._needed = set(columns) - self._features.keys()
        self._drops = intake.agreement.unit is not None
        self._width, self._most_fields = len(columns), len(columns) * _ROWS

    def start_bundle(self) -> None:
        # row after row, as fields: the garbage collector would look at each tuple, and at all else, again and again
        self._waiting: dict[BoundedWindow, list[Any]] = {}
        self._last: BoundedWindow | None = None  # whose rows need no look-up: Beam's windows are slow to hash

    def _add(self, row: Any, window: BoundedWindow) -> Iterable[WindowedValue] | None:
        if type(row) is not tuple:
            if isinstance(row, pa.RecordBatch | pa.Table):
                return [WindowedValue(row, window.max_timestamp(), (window,))]
            row = self._tuple(row)
        if len(row) != self._width:
            self._refuse(1, "got a row of another shape")
            return None
        if window is not self._last:
            self._last, self._fields = window, self._waiting.setdefault(window, [])
        self._fields.extend(row)
        return self._batches(window) if len(self._fields) >= self._most_fields else None

    def _tuple(self, row: Any) -> tuple[Any, ...]:
        """Return the fields of a row; an empty tuple for anything else."""
        if isinstance(row, dict) and row.keys() >= self._needed:
            return tuple(map(row.get, self._columns))
        return tuple(row) if isinstance(row, tuple) else ()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window in list(self._waiting):
            yield from self._batches(window)

    def _batches(self, window: BoundedWindow) -> Iterator[WindowedValue]:
        fields, self._last = self._waiting.pop(window), None
        for group in alike_rows([fields[place :: self._width] for place in range(self._width)], self._lenient):
            for batch in self._cast(group):
                yield WindowedValue(batch, window.max_timestamp(), (window,))

    def _cast(self, columns: list[list[Any]]) -> list[pa.RecordBatch]:
        """Return rows whose fields have one type each; what else waited with them does not matter."""

        def batch(start: int, stop: int) -> pa.RecordBatch | None:
            if start == stop:  # no column is at fault here: its types are those of the rows
                return None
            arrays = [
                lenient_column(column[start:stop], lists=self._features[name])
                if name in self._features
                else _array(column[start:stop], name, number=name == self._intake.agreement.value)
                for column, name in zip(columns, self._columns, strict=True)
            ]
            return self._intake.cast(pa.RecordBatch.from_arrays(arrays, self._columns))

        rows = len(columns[0])
        if not self._drops:
            return [batch(0, rows)]
        batches: list[Any] = list(salvage(batch, rows, lambda *_: None))
        self._refuse(rows - sum(part.num_rows for part in batches), "")
        return batches

    def _refuse(self, rows: int, why: str) -> None:
        if not self._drops:
            raise InvalidInputError(
                f"rows must be tuples ({', '.join(self._columns)}), dictionaries of these, or Arrow record batches, "
                f"{why}"
            )
        if self._count and rows:
            Metrics.counter(METRICS, "rows_dropped").inc(rows)


class WindowedRows(_Rows):
    """Rows of windows other than the global one."""

    def process(self, row: Any, window: BoundedWindow = beam.DoFn.WindowParam) -> Iterable[WindowedValue] | None:
        """Keep a row until there are enough for a batch."""
        return self._add(row, window)


class _GlobalRows(_Rows):
    """Without a window parameter, for which Beam takes a slower way to each row."""

    def process(self, row: Any) -> Iterable[WindowedValue] | None:
        return self._add(row, _EVERYWHERE)


def feature_columns(agreement: Agreement) -> dict[str, bool]:
    """Return the columns of features, in which rows may hold anything, and whether each holds embeddings."""
    return {} if agreement.features is None else agreement.features.lenient


def alike_rows(columns: list[list[Any]], lenient: Collection[int] = ()) -> Iterator[list[list[Any]]]:
    """Yield the columns of rows whose fields have the same types: what else is beside a row must not matter.

    In the columns at the places ``lenient``, fields of any types are together.
    """
    typed = [column for place, column in enumerate(columns) if place not in lenient]
    if all(len(set(map(type, column))) == 1 for column in typed):
        yield columns
        return
    groups: dict[tuple[type, ...], list[list[Any]]] = {}
    kinds = zip(*(map(type, column) for column in typed), strict=True)
    for kind, row in zip(kinds, zip(*columns, strict=True), strict=True):
        group = groups.setdefault(kind, [[] for _ in columns])
        for column, field in zip(group, row, strict=True):
            column.append(field)
    yield from groups.values()


def _array(fields: list[Any], name: str, *, number: bool) -> pa.Array:
    if not fields or fields[0] is None:
        return pa.nulls(len(fields), pa.int64() if number else pa.string())
    if isinstance(fields[0], np.generic):
        fields = [field.item() for field in fields]
    return arrow_column(fields, name)
