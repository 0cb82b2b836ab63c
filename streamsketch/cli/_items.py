"""The items of commands and their categories: from options, and from dictionaries in files."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

import streamsketch as ss
from streamsketch.agreement.casts import cast
from streamsketch.cli._headers import columns_in
from streamsketch.core.libraries import pa
from streamsketch.data.columns import arrow_column
from streamsketch.data.readers.formats import batches, format_of, parts_of
from streamsketch.data.readers.opening import open_file
from streamsketch.errors import IncompatibleAgreementsError
from streamsketch.estimation.blocks import AnySketch


class Dictionary(NamedTuple):
    """The items of a file."""

    items: "pa.Table"
    """A column for each part."""
    category: "pa.ChunkedArray | None"
    """Of each item."""


def agreement_of(sketch: AnySketch, path: Path | None) -> ss.Agreement | None:
    """Return the agreement that sketches followed; all sketches of files have the same one."""
    if path is not None:
        return ss.Agreement.load(path)
    if isinstance(sketch, ss.Sketch) or sketch.agreement is None:
        return sketch.agreement if isinstance(sketch, ss.Sketch) else None
    raise IncompatibleAgreementsError(
        f"the releases follow the agreement {sketch.agreement}, which gives the types by which items were hashed: give "
        f"--agreement FILE"
    )


def items_of_option(projection: ss.projections.Projection, agreed: ss.Agreement | None, items: list[str]) -> "pa.Table":
    """Return the items of an option as a table with a column for each part; without an agreement as `sketch` casts."""
    return _cast(projection, agreed, _split_items(items, _names(agreed)))


def items_of_file(
    projection: ss.projections.Projection,
    agreed: ss.Agreement | None,
    path: Path,
    *,
    index: list[str] | None = None,
    category: str | None = None,
) -> Dictionary:
    """Return the items of a file like those of an option, and their categories.

    ``index`` are the columns of items where no agreement names them; by default, the only column.
    """
    if index and agreed is not None:
        raise ss.InvalidInputError("the agreement names the columns of the index: leave out --set index")
    names = index or _names(agreed)
    if not names and format_of(str(path)) != "lines":
        names = [_column_of_items(path, category)]
    if category in names:
        raise ss.InvalidInputError(f"the column {category} holds the items, so it cannot be their category")
    table = _read(path, names, agreed, category)
    if category is None:
        return Dictionary(_cast(projection, agreed, table), None)
    return Dictionary(_cast(projection, agreed, table.drop_columns([category])), table.column(category))


def _names(agreed: ss.Agreement | None) -> list[str]:
    """Return the columns of items."""
    return [] if agreed is None else [column.name for column in agreed.index]


def _column_of_items(path: Path, category: str | None) -> str:
    """Return the one column of a dictionary that holds items, where no agreement names it."""
    names = [name for name in columns_in(path) if name != category]
    if len(names) != 1:
        raise ss.InvalidInputError(
            f"{path} has {len(names)} columns that may hold the items, and no agreement says which do: give "
            "--agreement FILE, or --set index=COLUMN"
        )
    return names[0]


def _cast(projection: ss.projections.Projection, agreed: ss.Agreement | None, table: "pa.Table") -> "pa.Table":
    """Return items cast as by `sketch`; an agreement casts them later."""
    if not table.num_rows:
        raise ss.InvalidInputError("there are no items: name those that may occur")
    if agreed is not None:
        return table
    of_options = ss.Agreement.of(projection, index=table.column_names)
    rows = range(1, table.num_rows + 1)
    columns = [(arrow_column(table.column(column.name), column.name), column) for column in of_options.index]
    arrays = [cast(values, column, rows, keep_times=True) for values, column in columns]
    return pa.table(arrays, names=table.column_names)


def _split_items(items: list[str], names: list[str]) -> "pa.Table":
    """Return the items of an option: items separated by commas, or for several columns the parts of one item."""
    lines = list(csv.reader(items, skipinitialspace=True))
    if len(names) < 2:
        return pa.table({(names or ["item"])[0]: [item for line in lines for item in line]})
    for text, line in zip(items, lines, strict=True):
        if len(line) != len(names):
            raise ss.InvalidInputError(
                f"an item has the parts {', '.join(names)}, with commas between them: --items for each item; got {text}"
            )
    return pa.table(dict(zip(names, map(list, zip(*lines, strict=True)), strict=True)))


def _read(path: Path, names: list[str], agreed: ss.Agreement | None, category: str | None) -> "pa.Table":
    """Return columns of a file, as text where its format leaves types open."""
    lines = format_of(str(path)) == "lines"
    if lines and len(names) > 1:
        raise ss.InvalidInputError(f"the lines of {path} are one column, and items have the parts {', '.join(names)}")
    if lines and category is not None:
        raise ss.InvalidInputError(f"the lines of {path} are items, and have no column {category}")
    path.stat()  # its error names the file, and Arrow's does not
    file, columns = open_file(path), ["line"] if lines else [*names, *([] if category is None else [category])]
    any_text = agreed is None or agreed.missing != "keep"
    pieces = [
        batch
        for part in range(parts_of(file, str(path)))
        for batch in batches(file, str(path), part, columns, columns, any_text=any_text)
    ]
    if not pieces:
        return pa.table({name: pa.array([], pa.string()) for name in ((names or ["item"]) if lines else columns)})
    table = pa.Table.from_batches(pieces)
    if not lines:
        return table.select(columns)
    table = table.select(["line"]).rename_columns(names or ["item"])
    return table.filter(pa.compute.not_equal(table.column(0), ""))


def plain_item(item: object) -> Any:
    """Return an item as it is written in JSON."""
    if isinstance(item, dict):
        return [plain_item(part) for part in item.values()]
    return item if isinstance(item, int | str) else item.hex() if isinstance(item, bytes) else str(item)
