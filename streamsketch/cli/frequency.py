"""``streamsketch frequency``: how often items occur in releases, and the largest of a dictionary."""

import contextlib
import csv
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import typer

import streamsketch as ss
from streamsketch.agreement import cast
from streamsketch.cli._keys import Signers
from streamsketch.cli._pairs import Only, check_top, select_names
from streamsketch.cli._reading import Files, Raw, load_sketches, new_file
from streamsketch.cli._showing import (
    Confidence,
    Json,
    estimate_fields,
    interval_name,
    plural,
    progress_bar,
    say,
    show,
    show_json,
    table_of,
)
from streamsketch.core import names_given, replacing, spreadsheet_text
from streamsketch.data import arrow_column, batches, format_of, is_text_type, parts_of
from streamsketch.errors import IncompatibleAgreementsError
from streamsketch.estimation import AnySketch, Interval, PointEstimator, estimate_cells, is_secret

_MOST_SHOWN = 10_000  # rows on a screen
_NUMBERS = ("estimate", "error", "low", "high")

Write: TypeAlias = Callable[[pa.Table], None]


class _Found(NamedTuple):
    """Estimates of one sketch."""

    table: pa.Table
    secret: bool
    top: Any = None
    """What `streamsketch.top` found, if the largest are wanted."""


def frequency(  # noqa: PLR0913 - a command's options are its parameters
    files: Files,
    *,
    items: Annotated[
        list[str] | None,
        typer.Option(
            help="Items, with commas, as tea,jam. For an index of several columns, the parts of one; repeatable.",
            show_default=False,
        ),
    ] = None,
    dictionary: Annotated[
        Path | None,
        typer.Option(help="A file of items: CSV, JSON lines, Parquet, or .txt with one a line.", show_default=False),
    ] = None,
    index: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of the dictionary that holds the items; several are read as a tuple. An agreement says it.",
            show_default=False,
        ),
    ] = None,
    top: Annotated[
        int | None, typer.Option(help="Only this many items, the largest, and what is missed.", show_default=False)
    ] = None,
    agreement: Annotated[
        Path | None,
        typer.Option(help="What the streams were sketched by, a JSON file: items get its types.", show_default=False),
    ] = None,
    estimator: Annotated[
        PointEstimator, typer.Option(help="How the cells of an item become one estimate; auto takes what errs less.")
    ] = "auto",
    confidence: Confidence = 0.95,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write all rows to a .parquet or .csv file.", show_default=False),
    ] = None,
    only: Only = None,
    signer: Signers = None,
    raw: Raw = False,
    as_json: Json = False,
) -> None:
    """Estimate how often items occur in the streams of releases.

    Each interval is for its item alone. With --top, the largest items of the dictionary are shown, and with the stated
    confidence all intervals of a release hold, although items were selected. A dictionary must not depend on the data.
    """
    check_top(top)
    if (items is None) == (dictionary is None):
        raise ss.InvalidInputError("say which items: --items tea,jam, or --dictionary FILE")
    if output is not None:
        new_file(output, (".parquet", ".csv"), "a table of frequencies")
    sketches = select_names(
        load_sketches(files, least=1, command="frequency", raw=raw, signer=signer), only, "frequency", least=1
    )
    agreed = _agreement_of(next(iter(sketches.values())), agreement)
    wanted = _items(next(iter(sketches.values())).projection, agreed, index, items, dictionary)
    rows = len(sketches) * min(wanted.num_rows, top or wanted.num_rows)
    if output is None and not as_json and rows > _MOST_SHOWN:
        raise ss.InvalidInputError(
            f"{rows:,} rows are too many for a screen: say how many of each release, --top N, or --output FILE"
        )
    options: dict[str, Any] = {"agreement": agreed, "estimator": estimator, "confidence": confidence}
    found = _estimates(sketches, wanted, top, options)
    if output is not None:
        with _written(output) as write:
            count = sum(_write_one(write, name, one, as_csv=output.suffix == ".csv") for name, one in found)
        if as_json:
            show_json({"file": str(output), "rows": count, "releases": len(sketches)})
        else:
            say(f"{output}: {plural(count, 'estimate')} of {plural(len(sketches), 'release')}.")
    elif as_json:
        show_json([_fields(name, one, confidence) for name, one in found])
    else:
        _show(dict(found), confidence)
    if is_secret(sketches.values()):
        what = "is printed here" if output is None else f"is in {output}"
        say(f"Raw sketches took part: what {what} is as secret as they are.")


def _agreement_of(sketch: AnySketch, path: Path | None) -> ss.Agreement | None:
    """Return the agreement that sketches followed; those of files have one in common."""
    if path is not None:
        return ss.Agreement.load(path)
    if isinstance(sketch, ss.Sketch) or sketch.agreement is None:
        return sketch.agreement if isinstance(sketch, ss.Sketch) else None
    raise IncompatibleAgreementsError(
        f"the releases follow the agreement {sketch.agreement}, which says as which types items were hashed: say "
        f"--agreement FILE"
    )


def _items(
    projection: ss.Projection,
    agreed: ss.Agreement | None,
    index: list[str] | None,
    items: list[str] | None,
    dictionary: Path | None,
) -> pa.Table:
    """Return the items as a table with a column for each part; without an agreement as `sketch` casts them."""
    if agreed is not None:
        if index:
            raise ss.InvalidInputError("the agreement says which columns the index has: leave out --index")
        names = [column.name for column in agreed.index]
    else:
        names = names_given(index, "--index") if index else []
    table = _given(items or [], names) if dictionary is None else _read(dictionary, names, agreed)
    if not table.num_rows:
        raise ss.InvalidInputError("there are no items: name those that may occur")
    if agreed is not None:
        return table
    of_options = ss.Agreement.of(projection, index=table.column_names)
    rows = range(1, table.num_rows + 1)
    columns = [(arrow_column(table.column(one.name), one.name), one) for one in of_options.index]
    cast_ones = [cast(column, one, rows, keep_times=True) for column, one in columns]
    return pa.table(cast_ones, names=table.column_names)


def _given(items: list[str], names: list[str]) -> pa.Table:
    """Return the items of an option: all with commas between them, or for several columns the parts of one."""
    lines = list(csv.reader(items, skipinitialspace=True))
    if len(names) < 2:
        return pa.table({(names or ["item"])[0]: [item for line in lines for item in line]})
    for text, line in zip(items, lines, strict=True):
        if len(line) != len(names):
            raise ss.InvalidInputError(
                f"an item has the parts {', '.join(names)}, with commas between them: --items for each item; got {text}"
            )
    return pa.table(dict(zip(names, map(list, zip(*lines, strict=True)), strict=True)))


def _read(path: Path, names: list[str], agreed: ss.Agreement | None) -> pa.Table:
    """Return columns of a file, as text where its format leaves types open."""
    lines = format_of(str(path)) == "lines"
    if not names and not lines:
        raise ss.InvalidInputError(f"say which column of {path} holds the items: --index COLUMN")
    if lines and len(names) > 1:
        raise ss.InvalidInputError(f"the lines of {path} are one column, and items have the parts {', '.join(names)}")
    path.stat()  # its error names the file, and Arrow's does not
    file, columns = pa.OSFile(str(path)), ["line"] if lines else names
    any_text = agreed is None or agreed.missing != "keep"
    found = [
        batch
        for part in range(parts_of(file, str(path)))
        for batch in batches(file, str(path), part, columns, columns, any_text=any_text)
    ]
    if not found:
        return pa.table({name: pa.array([], pa.string()) for name in names or ["item"]})
    table = pa.Table.from_batches(found)
    if not lines:
        return table.select(names)
    table = table.select(["line"]).rename_columns(names or ["item"])
    return table.filter(pa.compute.not_equal(table.column(0), ""))


def _estimates(
    sketches: Mapping[str, AnySketch], items: pa.Table, top: int | None, options: dict[str, Any]
) -> Iterator[tuple[str, _Found]]:
    """Yield the estimates of each sketch by name."""
    with progress_bar("estimates") as progress:
        task = progress.add_task("estimating", total=len(sketches), events=0)
        for place, (name, sketch) in enumerate(sketches.items(), 1):
            if top is None:
                found = _Found(ss.frequency(sketch, items, **options), is_secret([sketch]))
            else:
                largest = ss.top(sketch, items, top, **options)
                found = _Found(largest.table, is_secret([sketch]), largest)
            progress.update(task, completed=place, events=place * items.num_rows)
            yield name, found


@contextlib.contextmanager
def _written(path: Path) -> Iterator[Write]:
    """Yield what writes tables of one schema to a file, which appears whole or not at all."""
    writers: list[Any] = []

    with replacing(path) as partial:

        def write(table: pa.Table) -> None:
            if not writers:
                kind = pa_csv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
                writers.append(kind(partial, table.schema))
            writers[0].write_table(table)

        try:
            yield write
        finally:
            for writer in writers:
                writer.close()


def _write_one(write: Write, name: str, found: _Found, *, as_csv: bool) -> int:
    """Write the estimates of a sketch; the parts of an item are columns, as CSV has no others."""
    table = found.table.flatten()
    table = table.add_column(0, "key", pa.repeat(name, table.num_rows))
    if as_csv:  # keys and items come from others, and spreadsheets run formulas
        for place, column in enumerate(table.columns[: -len(_NUMBERS)]):
            if is_text_type(column.type):
                cells = pa.array(map(spreadsheet_text, column.to_pylist()), pa.string())
                table = table.set_column(place, table.column_names[place], cells)
    write(table)
    return int(table.num_rows)


def _plain(item: Any) -> Any:
    """Return an item as JSON has it."""
    if isinstance(item, dict):
        return [_plain(part) for part in item.values()]
    return item if isinstance(item, int | str) else item.hex() if isinstance(item, bytes) else str(item)


def _fields(name: str, found: _Found, confidence: float) -> dict[str, Any]:
    rows = [
        {"item": _plain(row["item"]), "estimate": row["estimate"], "standard_error": row["error"]}
        | {end: row[end] if math.isfinite(row[end]) else None for end in ("low", "high")}
        for row in found.table.to_pylist()
    ]
    fields: dict[str, Any] = {"of": name, "items": rows, "confidence": confidence}
    if found.top is not None:
        fields["candidates"] = found.top.candidates
        for one in ("missed", "squared_norm"):
            fields[one] = estimate_fields(getattr(found.top, one), confidence, "value")
    return fields | ({"secret": True} if found.secret else {})


def _show(found: Mapping[str, _Found], confidence: float) -> None:
    """Print a table for people, and what a dictionary misses."""
    columns: dict[str, list[str]] = {"of": []} if len(found) > 1 else {}
    columns |= {name: [] for name in ("item", "frequency", "± s.e.", interval_name(confidence))}
    for name, one in found.items():
        for place, row in enumerate(one.table.to_pylist()):
            item = _plain(row["item"])
            ends = Interval(row["low"], row["high"])
            cells = estimate_cells(ss.Estimate(row["estimate"], row["error"] ** 2, 0.0), ends)
            text = ", ".join(map(str, item)) if isinstance(item, list) else str(item)
            shown = (text, *cells) if len(found) == 1 else (name if place == 0 else "", text, *cells)
            for column, cell in zip(columns.values(), shown, strict=True):
                column.append(cell)
    show(table_of(columns, title=f"of {next(iter(found))}" if len(found) == 1 else None))
    for name, one in found.items():
        if one.top is not None:
            missed = f"miss {one.top.missed} of the squared norm {one.top.squared_norm}"
            say(f"{name}: the {plural(one.top.candidates, 'item')} of the dictionary {missed}.")
