"""Agreements from the schema of a table."""

from typing import Any

import pyarrow as pa

from streamsketch.agreement.agreement import Agreement, Missing
from streamsketch.agreement.columns import columns_of, logical_type
from streamsketch.core import short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import Neighbours
from streamsketch.projections import Projection

_INFER = "infer"


def agree(  # noqa: PLR0913 - the fields of an agreement
    rows: Any,
    projection: Projection,
    *,
    index: Any,
    key: Any = None,
    value: str | None = None,
    unit: Any = None,
    neighbours: Neighbours | None = None,
    missing: Missing = "refuse",
    title: str = "",
) -> Agreement:
    """Return an agreement whose types are those of a table, for columns that are given by name alone.

    Parameters
    ----------
    rows
        A data frame, an Arrow table or schema, a relation of DuckDB: whatever has ``__arrow_c_stream__`` or
        ``__arrow_c_schema__``. Only the schema is read.
    projection, index, key, value, unit, neighbours, missing, title
        As in `Agreement`. A column with a type keeps it.

    Raises
    ------
    TypeError
        If ``rows`` has no schema.
    InvalidInputError
        For columns that are missing or occur twice, types that need a word, such as floats, and as `Agreement`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import HASHED_DIM, SJLT
    >>> projection = SJLT(dim=HASHED_DIM, sketch_dim=64, sparsity=4, seed=7)
    >>> sales = pa.table({"item": ["milk"], "week": [7], "sold": [3]})
    >>> agree(sales, projection, index=["item", "week"], value="sold").index
    (Column(name='item', type='text'), Column(name='week', type='integer'))
    """
    schema = _schema(rows)

    def typed(given: Any, what: str) -> Any:
        if given is None:
            return None
        columns = columns_of(given, what, _INFER)
        return [
            (one.name, logical_type(one.name, _type(schema, one.name))) if one.type == _INFER else one
            for one in columns
        ]

    if value is not None:
        _type(schema, value)
    return Agreement(
        projection,
        index=typed(index, "an index column"),
        key=typed(key, "the key column"),
        value=value,
        unit=typed(unit, "the unit column"),
        neighbours=neighbours,
        missing=missing,
        title=title,
    )


def _schema(rows: Any) -> pa.Schema:
    if isinstance(rows, pa.Schema):
        return rows
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows).schema
    if hasattr(rows, "__arrow_c_schema__"):
        return pa.schema(rows)
    raise TypeError(
        f"rows must be a data frame, an Arrow table or a schema, with __arrow_c_stream__; got a {type(rows).__name__}"
    )


def _type(schema: pa.Schema, name: str) -> pa.DataType:
    if schema.names.count(name) != 1:
        raise InvalidInputError(f"the table must have {name} exactly once; it has {short(schema.names)}")
    return schema.field(name).type
