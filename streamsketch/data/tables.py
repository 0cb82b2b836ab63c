"""Whole tables of other libraries, batch by batch, by the interface they share: Arrow's C stream."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from streamsketch.core import short
from streamsketch.errors import InvalidInputError


def batches_of(rows: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of a table, whoever made it, as Arrow record batches.

    Parameters
    ----------
    rows
        A data frame of pandas or polars, an Arrow table, batch or reader, a relation of DuckDB, or anything else with
        ``__arrow_c_stream__``. What it reads lazily is never in memory at once.
    columns
        The columns, each there once.

    Raises
    ------
    TypeError
        For other objects.
    InvalidInputError
        For columns that are not there, or there twice; or if the other library fails in the middle.
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
            raise InvalidInputError(f"the table must have {', '.join(wrong)} once each; it has {short(names)}")
        for batch in reader:
            yield batch.select(list(dict.fromkeys(columns)))
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"the table could not be read to its end ({type(error).__name__})") from None


def names_of(index: str | Sequence[str]) -> list[str]:
    """Return the columns of an index, one or several."""
    return [index] if isinstance(index, str) else list(index)
