"""Bounded sketches of tables under an agreement."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from streamsketch.agreement import Agreement
from streamsketch.data import batches_of
from streamsketch.errors import InvalidInputError
from streamsketch.sketching.bounding.cut import Clip
from streamsketch.sketching.bounding.summary import BoundingSummary
from streamsketch.sketching.bounding.units import Batch, add_bounded
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable

_NO_KEY = ""


def bound(
    rows: Any,
    agreement: Agreement,
    *,
    clip: Clip = "scale",
    public_keys: Iterable[Any] | None = None,
    summary: BoundingSummary | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Sketch | SketchTable:
    """Return the exact, secret sketch of a table to which no privacy unit adds more than was agreed on.

    Rows are cast to the agreed types, those of one unit summed by key and index, and what exceeds the agreed bound is
    clipped, exactly, in integers: a release for ``agreement.neighbours`` protects every unit, whatever its rows hold
    (THEORY.md 4.2). Sketches, what a secret decides in them, and memory are as by `bound_units`.

    Parameters
    ----------
    rows
        A data frame of pandas or polars, an Arrow table or reader, a relation of DuckDB, or any other with Arrow's C
        stream; lazy ones are read batch by batch.
    agreement
        With a column of units, and neighbours of type `L1` or `L2`.
    clip, public_keys, summary, folder
        As in `bound_units`; rows that the agreement drops as something is missing count in ``rows_blank``.

    Returns
    -------
    SketchTable or Sketch
        By key if the agreement has a key column, else one sketch.

    Raises
    ------
    TypeError
        If ``agreement`` is no Agreement, or ``rows`` no table.
    InvalidInputError
        For an agreement that names no units or no bound; and as `Agreement.batches` and `bound_units`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import L1, SJLT, Agreement
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> five = L1(5, unit="customer")
    >>> agreement = Agreement(projection, index="item", value="sold", unit="customer", neighbours=five)
    >>> rows = pa.table({"item": ["tea", "tea", "jam"], "sold": [80995, -80995, 8], "customer": ["Ann", "Ann", "Bob"]})
    >>> bound(rows, agreement).mass
    5
    """
    if not isinstance(agreement, Agreement):
        raise TypeError(f"rows are bounded under an Agreement, got a {type(agreement).__name__}")
    options: dict[str, Any] = {"clip": clip, "public_keys": public_keys, "summary": summary, "folder": folder}
    return bound_batches(batches_of(rows, agreement.names), agreement, **options)


def bound_batches(
    batches: Iterable[pa.RecordBatch],
    agreement: Agreement,
    *,
    table: SketchTable | None = None,
    clip: Clip = "scale",
    public_keys: Iterable[Any] | None = None,
    summary: BoundingSummary | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Sketch | SketchTable:
    """Return the sketch of batches that have the agreed columns, each of any type that is cast; as `bound`.

    They are added to an empty ``table`` of the projection; by default to one that names the agreement.
    """
    if agreement.unit is None or agreement.neighbours is None:
        missing = "column of units (unit=…)" if agreement.unit is None else "bound (neighbours=L1(…))"
        raise InvalidInputError(f"the agreement names no {missing}, so nothing says what one unit may add")
    if public_keys is not None:
        public_keys = agreement.keys_of(public_keys)
    found = BoundingSummary()
    table = add_bounded(
        SketchTable(agreement) if table is None else table,
        _cast(batches, agreement, found),
        neighbours=agreement.neighbours,
        clip=clip,
        public_keys=public_keys,
        summary=found,
        folder=folder,
    )
    if summary is not None:
        summary.merge(found)
    return table if agreement.key is not None else table.sketch_of(_NO_KEY)


def _cast(batches: Iterable[pa.RecordBatch], agreement: Agreement, summary: BoundingSummary) -> Iterator[Batch]:
    """Yield the agreed columns, cast, without the rows in which something is missing, which are counted."""
    first = 1
    for batch in batches:
        found = agreement.cast(batch, first, bounded=True)
        first += batch.num_rows
        gone = batch.num_rows - found.num_rows
        summary.rows_read += gone
        summary.rows_blank += gone
        yield agreed_columns(found, agreement)


def agreed_columns(found: pa.RecordBatch, agreement: Agreement) -> Batch:
    """Return the columns of a batch that an agreement has cast, as `bound_units` takes them."""
    keys, units, values = (
        None if name is None else found.column(name)
        for name in (agreement.key and agreement.key.name, agreement.unit and agreement.unit.name, agreement.value)
    )
    return keys, tuple(found.column(column.name) for column in agreement.index), values, units
