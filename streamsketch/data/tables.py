"""Tables of other libraries, read batch by batch through Arrow's C stream interface."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from streamsketch.core import short
from streamsketch.errors import InvalidInputError


def batches_of(rows: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield columns of a table of any library as Arrow record batches.

    Parameters
    ----------
    rows
        A data frame of pandas or polars, an Arrow table, batch or reader, a relation of DuckDB, or anything else with
        ``__arrow_c_stream__``. A lazy source is never loaded as a whole.
    columns
        Names of the columns, each of which must occur exactly once.

    Raises
    ------
    TypeError
        For other objects.
    InvalidInputError
        For columns that are missing or occur twice, or if the other library fails while reading.
    """
    if not hasattr(rows, "__arrow_c_stream__"):
        raise TypeError(
            f"rows must be a data frame, an Arrow table or a relation, with __arrow_c_stream__; got a "
            f"{type(rows).__name__}"
        )
    try:
        reader = pa.RecordBatchReader.from_stream(rows)
        names = reader.schema.names
        wrong = [name for name in columns if names.count(name) != 1]
        if wrong:
            raise InvalidInputError(f"the table must have {', '.join(wrong)} exactly once; it has {short(names)}")
        for batch in reader:
            yield batch.select(list(dict.fromkeys(columns)))
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"the table could not be read completely ({type(error).__name__})") from None


def names_of(index: str | Sequence[str] | None) -> list[str]:
    """Return the names of an index's columns as a list; `InvalidInputError` for none."""
    if not index:
        raise InvalidInputError("say which columns index the rows: index='item', or several names for tuples")
    return [index] if isinstance(index, str) else list(index)
