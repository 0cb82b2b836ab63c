"""Items that estimates are asked for, one or many, and their indices: hashed as the events of streams are."""

import datetime as dt
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.casts import cast
from streamsketch.agreement.same import check_alike
from streamsketch.core.libraries import pa, pc
from streamsketch.core.numbers import Ints
from streamsketch.core.text import named
from streamsketch.core.wrong import AGREEMENT, COLUMN, NO_ITEMS, nature_of, wrong_type
from streamsketch.data.columns import arrow_column
from streamsketch.data.keys import index_of
from streamsketch.data.tables import batches_of
from streamsketch.errors import IncompatibleAgreementsError, InvalidInputError
from streamsketch.estimation.blocks import AnySketch
from streamsketch.release.private_sketch import PrivateSketch

if TYPE_CHECKING:
    from streamsketch.core.documents import TableKey


class Items(NamedTuple):
    """n items."""

    column: "pa.Array"
    """As they were given; a struct for an index of several columns."""
    indices: Ints
    """In [0, dim): int64, (n,)."""


class Groups(NamedTuple):
    """m different items, in categories."""

    indices: Ints
    """Of the items, each once: int64, (m,)."""
    items: Ints
    """Places of the items of the first category, then of the next one, …: int64, (n,). An item may be in several."""
    codes: Ints
    """The category of each, ascending: int64, (n,)."""
    names: "pa.Array"
    """Of the categories."""


def distinct_items(dictionary: Any, sketch: AnySketch, agreement: Agreement | None) -> Items:
    """Return the items of a dictionary, each once, in their order; errors as `items_of`, or if there are none."""
    items = items_of(dictionary, sketch, agreement)
    _, first = np.unique(items.indices, return_index=True)
    if not first.size:
        raise InvalidInputError("the dictionary has no items: pass those that may occur")
    first.sort()
    return Items(items.column.take(pa.array(first)), items.indices[first])


def groups_of(dictionary: Any, category: Any, sketch: AnySketch, agreement: Agreement | None) -> Groups:
    """Return the items of a dictionary by category: the name of a column of it, or a column beside it.

    Raises
    ------
    InvalidInputError
        As in `items_of`; for a dictionary without items, or without this column; for a column of another length.
    """
    agreed = _agreement_of(sketch, agreement)
    if isinstance(category, str):
        if is_one(dictionary) or not _is_table(dictionary):
            raise InvalidInputError(
                f"the category {category!r:.60} names a column, but the dictionary is not a table: pass a table, or "
                "the categories as a column"
            )
        names, columns = _table_columns(dictionary, None)
        if category not in names:
            raise InvalidInputError(
                f"the dictionary has no column {category!r:.60} for the category, but {named(names)}"
            )
        column = columns[names.index(category)]
        kept = [name for name in names if name != category] if agreed is None else [part.name for part in agreed.index]
        items = items_of(pa.table(columns, names).select(_checked_names(kept, names)), sketch, agreement)
    else:
        column, items = arrow_column(category, "category"), items_of(dictionary, sketch, agreement)
    if len(column) != items.indices.size:
        raise InvalidInputError(f"the dictionary has {items.indices.size:,} items and {len(column):,} categories")
    if not len(column):
        raise InvalidInputError("the dictionary has no items: pass those that may occur")
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    encoded = pc.dictionary_encode(_plain_text(plain), null_encoding="encode")
    indices, places = np.unique(items.indices, return_inverse=True)
    pairs = np.unique(np.column_stack([encoded.indices.to_numpy().astype(np.int64), places]), axis=0)
    return Groups(indices, pairs[:, 1], pairs[:, 0], encoded.dictionary)


def _plain_text(column: "pa.Array") -> "pa.Array":
    """Return a column of views of text, as polars has, as text: Arrow takes no rows of those."""
    return column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column


def _checked_names(wanted: list[str], names: list[str]) -> list[str]:
    missing = [name for name in wanted if name not in names]
    if missing:
        raise InvalidInputError(f"the dictionary has no column {named(missing)}, but {named(names)}")
    return wanted


def is_one(item: Any) -> bool:
    """Return whether this is one item: not a table, a column, or a tuple of columns."""
    if isinstance(item, tuple):
        return bool(item) and all(map(is_one, item))
    return isinstance(item, str | bytes | np.generic) or not (
        isinstance(item, list | range | np.ndarray)
        or hasattr(item, "__arrow_c_stream__")
        or hasattr(item, "__arrow_c_array__")
        or hasattr(item, "__len__")
        or hasattr(item, "collect_batches")
    )


def single_index(item: Any, sketch: AnySketch, agreement: Agreement | None) -> Ints | None:
    """Return the index of one item as int64, (1,), without Arrow; None of what only Arrow's columns hold or cast.

    Raises the same errors as `items_of`.
    """
    if not is_one(item) or isinstance(item, tuple) or _agreement_of(sketch, agreement) is not None:
        return None
    if not isinstance(item, str | bytes | int | np.integer | dt.date):
        return None
    projection = sketch.projection
    return np.array([index_of(item, projection.dim, projection.seed)], dtype=np.int64)


def items_of(items: Any, sketch: AnySketch, agreement: Agreement | None) -> Items:
    """Return one item or many, with their indices in a sketch's stream; see `streamsketch.frequency`.

    Raises
    ------
    InvalidInputError
        For items of another type or out of range, missing ones, or another number of columns than in the agreement.
    IncompatibleAgreementsError
        If the stream followed another agreement, or one that is not given.
    """
    agreed = _agreement_of(sketch, agreement)
    names, columns = _named_columns(items, agreed)
    keys: list[TableKey] = columns
    if agreed is not None:
        rows = range(1, len(columns[0]) + 1)
        keep = agreed.missing == "keep"
        pairs = zip(columns, agreed.index, strict=True)
        keys = [
            cast(agreed.spelt(_present(column), part), part, rows, keep_times=keep) if len(column) else column
            for column, part in pairs
        ]
    indices = sketch.projection.indices_of(*keys)
    columns = [_plain_text(column) for column in columns]
    shown = columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, names)
    return Items(shown, indices)


def item_table(items: Any, agreement: Agreement | None = None) -> "pa.Table":
    """Return items as a table with a column for each part, uncast, of which `items_of` makes the same again.

    Raises
    ------
    InvalidInputError
        For columns of several lengths, or another number of them than in the agreement.
    """
    names, columns = _named_columns(items, agreement)
    return pa.table(columns, names=names)


def _agreement_of(sketch: AnySketch, agreement: Agreement | None) -> Agreement | None:
    """Return the agreement that a sketch's stream followed: its own, or the one given, if it is the same."""
    if agreement is not None:
        if not isinstance(agreement, Agreement):
            raise wrong_type("agreement must be an Agreement", agreement, AGREEMENT)
        check_alike(sketch.agreement, agreement)
        return agreement
    if isinstance(sketch, PrivateSketch):
        if sketch.agreement is not None:
            raise IncompatibleAgreementsError(
                f"the release follows the agreement {sketch.agreement}, which states the types of the hashed items: "
                "pass it as agreement=…, for example Agreement.load(…)"
            )
        return None
    return sketch.agreement


def _named_columns(items: Any, agreed: Agreement | None) -> "tuple[list[str], list[pa.Array]]":
    """Return the names and the columns of items, all of one length and as many as an agreement's index has."""
    if agreed is not None and agreed.features is not None:
        raise InvalidInputError(
            f"rows of this agreement have features of the columns {', '.join(agreed.features.columns)}, not items: "
            "use column_differences or describe"
        )
    names, columns = _columns(items, None if agreed is None else [column.name for column in agreed.index])
    if len({len(column) for column in columns}) != 1:
        raise InvalidInputError(
            f"the columns of items must have the same length, got {', '.join(str(len(column)) for column in columns)}"
        )
    if agreed is not None and len(columns) != len(agreed.index):
        raise InvalidInputError(
            f"the agreement's index has the columns {', '.join(part.name for part in agreed.index)}, and items have "
            f"{len(columns)}: pass one for each, in this order"
        )
    return names, columns


def _columns(items: Any, names: list[str] | None) -> "tuple[list[str], list[pa.Array]]":
    """Return the names and the columns of items; names are those given, or a table's own, or made up."""
    if items is None or isinstance(items, os.PathLike) or nature_of(items) in NO_ITEMS:
        raise InvalidInputError(str(wrong_type("items are one item, a list or a column of them", items, COLUMN)))
    if is_one(items):
        parts = items if isinstance(items, tuple) else (items,)
        columns = [
            arrow_column(np.array([part]) if isinstance(part, np.datetime64) else [part], "item") for part in parts
        ]
    elif isinstance(items, tuple):
        columns = [arrow_column(part, "item") for part in items]
        if not columns:
            raise InvalidInputError("an item needs at least one part, got an empty tuple")
    elif _is_table(items):
        return _table_columns(items, names)
    else:
        columns = [arrow_column(items, "item")]
    if names is None or len(names) != len(columns):
        names = [f"part_{place}" for place in range(1, len(columns) + 1)]
    return names, columns


def _is_table(value: Any) -> bool:
    if isinstance(value, pa.ChunkedArray | pa.Array):
        return False
    return hasattr(value, "collect_batches") or (
        hasattr(value, "__arrow_c_stream__") and len(getattr(value, "shape", (0, 0))) != 1
    )


def _table_columns(items: Any, names: list[str] | None) -> "tuple[list[str], list[pa.Array]]":
    if hasattr(items, "collect_batches"):  # polars' LazyFrame, whose batches come in any order
        items = items.collect()
    if isinstance(items, pa.RecordBatch) or not (isinstance(items, pa.Table) or hasattr(items, "columns")):
        items = pa.RecordBatchReader.from_stream(items).read_all()
    if names is None:
        names = items.column_names if isinstance(items, pa.Table) else [str(name) for name in items.columns]
    if not names:
        raise InvalidInputError("items need at least one column, got a table of none")
    batches = list(batches_of(items, names))
    if not batches:
        return names, [pa.array([], pa.int64()) for _ in names]
    table = pa.Table.from_batches(batches)
    return names, [arrow_column(table.column(name), name) for name in names]


def _present(column: "pa.Array") -> "pa.Array":
    if column.null_count:
        raise InvalidInputError(f"{column.null_count} items are missing (null); leave them out")
    return column
