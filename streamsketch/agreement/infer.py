"""Agreements from the schema of a table."""

from typing import Any

from streamsketch.agreement.agreement import Agreement, Missing
from streamsketch.agreement.columns import Column, columns_of, logical_type
from streamsketch.data import schema_of
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
        ``__arrow_c_schema__``. Only the schema is read, and of a data frame only these columns are converted.
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
    >>> from streamsketch import SJLT
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> sales = pa.table({"item": ["milk"], "week": [7], "sold": [3]})
    >>> agree(sales, projection, index=["item", "week"], value="sold").index
    (Column(name='item', type='text'), Column(name='week', type='integer'))
    """
    columns = {
        name: None if given is None else columns_of(given, what, _INFER)
        for name, given, what in (
            ("index", index, "an index column"),
            ("key", key, "the key column"),
            ("unit", unit, "the unit column"),
        )
    }
    untyped = [one.name for found in columns.values() for one in found or () if one.type == _INFER]
    schema = schema_of(rows, [*untyped, *([] if value is None else [value])])

    def typed(found: tuple[Column, ...] | None) -> Any:
        return found and [
            (one.name, logical_type(one.name, schema.field(one.name).type)) if one.type == _INFER else one
            for one in found
        ]

    return Agreement(
        projection,
        **{name: typed(found) for name, found in columns.items()},
        value=value,
        neighbours=neighbours,
        missing=missing,
        title=title,
    )
