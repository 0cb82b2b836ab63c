"""``streamsketch frequency``: how often items occur in releases, and the largest of a dictionary."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias, get_args

import streamsketch as ss
from streamsketch.cli._fields import INDEX, Field, set_fields, set_option
from streamsketch.cli._items import agreement_of, items_of_file, items_of_option, plain_item
from streamsketch.cli._keys import Signers
from streamsketch.cli._layout import show, table_of
from streamsketch.cli._options import option
from streamsketch.cli._pairs import Only, check_top, select_names
from streamsketch.cli._reading import Files, FollowedAgreement, Raw, load_sketches
from streamsketch.cli._saying import say
from streamsketch.cli._showing import (
    AsJson,
    Confidence,
    estimate_fields,
    interval_name,
    plural,
    progress_bar,
    show_json,
)
from streamsketch.cli._writing import new_file
from streamsketch.core.documents import Json
from streamsketch.core.files import replacing
from streamsketch.core.libraries import pa, pa_csv, pq
from streamsketch.core.text import spreadsheet_text
from streamsketch.data.columns import is_text_type
from streamsketch.estimation.blocks import AnySketch, is_secret
from streamsketch.estimation.estimate import estimate_cells
from streamsketch.estimation.intervals import Interval
from streamsketch.estimation.points import PointEstimator

_MOST_SHOWN = 10_000  # rows on a screen
_NUMBERS = ("estimate", "error", "low", "high")

Write: TypeAlias = Callable[["pa.Table"], None]


class _Frequencies(NamedTuple):
    """Estimates of one sketch."""

    table: "pa.Table"
    secret: bool
    top: Any = None
    """The result of `streamsketch.top`, if the largest items are requested."""


FIELDS = {
    "index": INDEX,
    "estimator": Field("ESTIMATOR", f"by which cells become one estimate: {', '.join(get_args(PointEstimator))}"),
}
"""What `--set` states."""


@dataclass
class _Further:
    """What few questions need."""

    index: list[str] | None = None
    estimator: PointEstimator = "auto"


def frequency(  # noqa: PLR0913 - a command's options are its parameters
    files: Files,
    *,
    items: Annotated[
        list[str] | None,
        option(
            "Input",
            "ITEM",
            "Items, separated by commas: tea,jam. If the index has several columns, the parts of one item; repeatable.",
        ),
    ] = None,
    dictionary: Annotated[
        Path | None, option("Input", "FILE", "File of items: CSV, JSON lines, Parquet, or .txt with one item a line.")
    ] = None,
    top: Annotated[
        int | None,
        option(
            "Estimates",
            "NUMBER",
            "Show only this number of items, the largest ones, and an estimate of what the dictionary misses.",
        ),
    ] = None,
    settings: Annotated[list[str] | None, set_option("Input", FIELDS)] = None,
    agreement: FollowedAgreement = None,
    confidence: Confidence = 0.95,
    output: Annotated[
        Path | None, option("Output", "FILE", "Write all rows to a .parquet or .csv file.", "--output", "-o")
    ] = None,
    only: Only = None,
    signer: Signers = None,
    raw: Raw = False,
    as_json: AsJson = False,
) -> None:
    """Estimate how often items occur in the streams of releases.

    Each interval holds for its item alone. With --top, only the largest items of the dictionary are shown. All
    intervals of a release then hold together with the stated confidence, although the items were selected. A dictionary
    must not depend on the data.

    $ streamsketch frequency north.parquet --items tea,jam --agreement north.json
    """
    check_top(top)
    more = set_fields(_Further(), FIELDS, settings)
    if (items is None) == (dictionary is None):
        raise ss.InvalidInputError("name the items: --items tea,jam, or --dictionary FILE")
    if output is not None:
        new_file(output, (".parquet", ".csv"), "a table of frequencies")
    sketches = select_names(
        load_sketches(files, least=1, command="frequency", raw=raw, signer=signer), only, "frequency", least=1
    )
    agreed = agreement_of(next(iter(sketches.values())), agreement)
    projection = next(iter(sketches.values())).projection
    wanted = _wanted(projection, agreed, items, dictionary, more.index)
    rows = len(sketches) * min(wanted.num_rows, top or wanted.num_rows)
    if output is None and not as_json and rows > _MOST_SHOWN:
        raise ss.InvalidInputError(
            f"{rows:,} rows are too many for a screen: state how many of each release, --top N, or --output FILE"
        )
    options: dict[str, Any] = {"agreement": agreed, "estimator": more.estimator, "confidence": confidence}
    by_release = _estimates(sketches, wanted, top, options)
    if output is not None:
        with _written(output) as write:
            count = sum(
                _write_one(write, name, frequencies, as_csv=output.suffix == ".csv") for name, frequencies in by_release
            )
        if as_json:
            show_json({"file": str(output), "rows": count, "releases": len(sketches)})
        else:
            say(f"{output}: {plural(count, 'estimate')} of {plural(len(sketches), 'release')}.")
    elif as_json:
        show_json([_fields(name, frequencies, confidence) for name, frequencies in by_release])
    else:
        _show(dict(by_release), confidence)
    if agreed is not None and agreed.neighbours is not None and agreed.clip == "equal":
        say(f"Each {agreed.neighbours.unit} counts the same, so frequencies are sums of votes, not of rows or values.")
    if is_secret(sketches.values()):
        what = "is printed here" if output is None else f"is in {output}"
        say(f"warning: raw sketches took part: what {what} is as secret as they are.")


def _wanted(
    projection: ss.projections.Projection,
    agreed: ss.Agreement | None,
    items: list[str] | None,
    dictionary: Path | None,
    index: list[str] | None,
) -> "pa.Table":
    if index and (agreed is not None or dictionary is None):
        raise ss.InvalidInputError(
            "--set index names the column of a dictionary where no agreement says it: leave it out"
        )
    if dictionary is None:
        return items_of_option(projection, agreed, items or [])
    return items_of_file(projection, agreed, dictionary, index=index).items


def _estimates(
    sketches: Mapping[str, AnySketch], items: "pa.Table", top: int | None, options: dict[str, Any]
) -> Iterator[tuple[str, _Frequencies]]:
    """Yield the estimates of each sketch by name."""
    with progress_bar("estimates") as progress:
        task = progress.add_task("estimating", total=len(sketches), events=0)
        for place, (name, sketch) in enumerate(sketches.items(), 1):
            if top is None:
                frequencies = _Frequencies(ss.frequency(sketch, items, **options), is_secret([sketch]))
            else:
                largest = ss.top(sketch, items, top, **options)
                frequencies = _Frequencies(largest.table, is_secret([sketch]), largest)
            progress.update(task, completed=place, events=place * items.num_rows)
            yield name, frequencies


@contextlib.contextmanager
def _written(path: Path) -> Iterator[Write]:
    """Yield a writer of tables of one schema to a file, which appears complete or not at all."""
    writers: list[Any] = []

    with replacing(path) as partial:

        def write(table: "pa.Table") -> None:
            if not writers:
                kind = pa_csv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
                writers.append(kind(partial, table.schema))
            writers[0].write_table(table)

        try:
            yield write
        finally:
            for writer in writers:
                writer.close()


def _write_one(write: Write, name: str, frequencies: _Frequencies, *, as_csv: bool) -> int:
    """Write the estimates of a sketch; the parts of an item are columns, because CSV has no nested columns."""
    table = frequencies.table.flatten()
    table = table.add_column(0, "key", pa.repeat(name, table.num_rows))
    if as_csv:  # keys and items come from others, and spreadsheets run formulas
        for place, column in enumerate(table.columns[: -len(_NUMBERS)]):
            if is_text_type(column.type):
                cells = pa.array(map(spreadsheet_text, column.to_pylist()), pa.string())
                table = table.set_column(place, table.column_names[place], cells)
    write(table)
    return int(table.num_rows)


def _fields(name: str, frequencies: _Frequencies, confidence: float) -> Json:
    rows = [
        {"item": plain_item(row["item"]), "estimate": row["estimate"], "standard_error": row["error"]}
        | {end: row[end] if math.isfinite(row[end]) else None for end in ("low", "high")}
        for row in frequencies.table.to_pylist()
    ]
    fields: Json = {"of": name, "items": rows, "confidence": confidence}
    if frequencies.top is not None:
        fields["candidates"] = frequencies.top.candidates
        for field in ("missed", "squared_norm"):
            fields[field] = estimate_fields(getattr(frequencies.top, field), confidence, "value")
    return fields | ({"secret": True} if frequencies.secret else {})


def _show(by_release: Mapping[str, _Frequencies], confidence: float) -> None:
    """Print a table for people, and how much a dictionary misses."""
    columns: dict[str, list[str]] = {"stream": []} if len(by_release) > 1 else {}
    columns |= {name: [] for name in ("item", "frequency", "± s.e.", interval_name(confidence))}
    for name, frequencies in by_release.items():
        for place, row in enumerate(frequencies.table.to_pylist()):
            item = plain_item(row["item"])
            ends = Interval(row["low"], row["high"])
            cells = estimate_cells(ss.estimation.Estimate(row["estimate"], row["error"] ** 2, 0.0), ends)
            text = ", ".join(map(str, item)) if isinstance(item, list) else str(item)
            shown = (text, *cells) if len(by_release) == 1 else (name if place == 0 else "", text, *cells)
            for column, cell in zip(columns.values(), shown, strict=True):
                column.append(cell)
    show(table_of(columns, title=next(iter(by_release)) if len(by_release) == 1 else None, texts=len(columns) - 3))
    for name, frequencies in by_release.items():
        if frequencies.top is not None:
            missed = f"miss {frequencies.top.missed} of the squared norm {frequencies.top.squared_norm}"
            say(f"{name}: the {plural(frequencies.top.candidates, 'item')} of the dictionary {missed}.")
