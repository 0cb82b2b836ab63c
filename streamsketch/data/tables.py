"""Tables of other libraries, read batch by batch through Arrow's C stream interface."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from streamsketch.core import short
from streamsketch.errors import InvalidInputError

_LAZY_ROWS = 1 << 17
_UNREAD = "the table could not be read completely ({})"


def batches_of(rows: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield columns of a table of any library as Arrow record batches.

    Parameters
    ----------
    rows
        A data frame of pandas or polars, a lazy one of polars, an Arrow table, batch or reader, a relation of DuckDB,
        or anything else with ``__arrow_c_stream__``. A lazy source is never loaded as a whole.
    columns
        Names of the columns, each of which must occur exactly once.

    Raises
    ------
    TypeError
        For other objects.
    InvalidInputError
        For columns that are missing or occur twice, or if the other library fails while reading.
    """
    wanted = list(dict.fromkeys(columns))
    if hasattr(rows, "collect_batches"):  # polars' LazyFrame
        yield from _lazy_batches(rows, wanted)
        return
    if not hasattr(rows, "__arrow_c_stream__"):
        raise TypeError(
            f"rows must be a data frame, an Arrow table or a relation, with __arrow_c_stream__; got a "
            f"{type(rows).__name__}"
        )
    try:
        reader = pa.RecordBatchReader.from_stream(rows)
        _check_names(wanted, reader.schema.names)
        for batch in reader:
            yield batch.select(wanted)
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(_UNREAD.format(type(error).__name__)) from None


def _lazy_batches(rows: Any, columns: list[str]) -> Iterator[pa.RecordBatch]:
    try:
        _check_names(columns, rows.collect_schema().names())
        for frame in rows.select(columns).collect_batches(chunk_size=_LAZY_ROWS, maintain_order=False, lazy=True):
            yield from pa.RecordBatchReader.from_stream(frame)
    except InvalidInputError:
        raise
    except Exception as error:
        if isinstance(error, pa.ArrowException | OSError) or type(error).__module__.startswith("polars"):
            raise InvalidInputError(_UNREAD.format(type(error).__name__)) from None  # its own text may quote the data
        raise


def _check_names(wanted: list[str], names: list[str]) -> None:
    if wrong := [name for name in wanted if names.count(name) != 1]:
        raise InvalidInputError(f"the table must have {', '.join(wrong)} exactly once; it has {short(names)}")


def names_of(index: str | Sequence[str] | None) -> list[str]:
    """Return the names of an index's columns as a list; `InvalidInputError` for none."""
    if not index:
        raise InvalidInputError("say which columns index the rows: index='item', or several names for tuples")
    return [index] if isinstance(index, str) else list(index)
