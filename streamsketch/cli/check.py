"""``streamsketch check``: what to know of rows before any release."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch.cli._fields import Field, set_fields, set_option
from streamsketch.cli._inputs import READING, Reading
from streamsketch.cli._items import items_of_file
from streamsketch.cli._layout import show, table_of
from streamsketch.cli._options import option
from streamsketch.cli._saying import say
from streamsketch.cli._showing import AsJson, plural, show_json
from streamsketch.intake.checking import Finding, check_rows
from streamsketch.intake.files import RowReader

FIELDS = {
    "dictionary": Field("FILE", "public list of the items that may occur, with the columns of the index", Path)
} | READING
"""What `--set` states."""
_TITLE = "What to know of these rows. Secret: for the operator alone"


@dataclass
class _Further(Reading):
    """The fields, and the public list."""

    dictionary: Path | None = None


def check(
    inputs: Annotated[list[Path], typer.Argument(help="CSV, JSON lines or Parquet files of rows.", metavar="ROWS")],
    *,
    agreement: Annotated[Path, option("Input", "FILE", "Agreement by which the rows would be read.", "--agreement")],
    settings: Annotated[list[str] | None, set_option("Input", FIELDS)] = None,
    as_json: AsJson = False,
) -> None:
    """Look at rows before any release: names, missing cells, rows that would be dropped, units with many rows.

    The output is secret, as the rows are: it is for the operator alone. Nothing is spent. It says how many rows have
    names that are not in Unicode's form NFC, have blanks around them, look like missing values (NA, NULL, nan, none,
    -), or appear in several spellings that the agreement keeps apart; which names are in no public list (--set
    dictionary); which rows would be dropped, and why; how many rows units have; and columns that seem to be swapped.
    Rows are read as a stream. Of a column with more than a million different names, the first ones are looked at, and
    the output says how many rows have others. The exit status is 1 if a release of these rows would be refused.

    $ streamsketch check sales.csv --agreement people.json
    """
    agreed = ss.Agreement.load(agreement)
    more = set_fields(_Further(), FIELDS, settings)
    reader = more.reader(agreed)
    listed = None if more.dictionary is None else _listed(agreed, more.dictionary)
    summary = check_rows(_batches(reader, inputs), agreed, listed)
    findings = summary.findings()
    if as_json:
        rows = [finding._asdict() if hasattr(finding, "_asdict") else vars(finding) for finding in findings]
        show_json({"rows": summary.rows, "refused": summary.refused, "findings": rows})
    elif findings:
        show(table_of(_columns(findings, summary.rows), title=_TITLE, texts=3))
    else:
        say(f"Nothing to say of {plural(summary.rows, 'row')}.")
    if summary.refused:
        blank = "" if agreed.missing == "drop" else ", or agree with --missing drop, which leaves out those with blanks"
        say(f"A release of these rows would be refused: correct them{blank}.")
        raise typer.Exit(1)


def _batches(reader: RowReader, paths: list[Path]) -> Iterator[Any]:
    for path in paths:
        path.open("rb").close()
        yield from reader.batches(path)


def _listed(agreed: ss.Agreement, path: Path) -> dict[str, list[str]]:
    items = items_of_file(agreed.projection, agreed, path).items
    return {
        column.name: [text for text in items.column(column.name).to_pylist() if isinstance(text, str)]
        for column in agreed.index
        if column.type == "text"
    }


def _columns(findings: list[Finding], rows: int) -> dict[str, list[str]]:
    return {
        "column": [finding.column for finding in findings],
        "what": [finding.kind for finding in findings],
        "which": [finding.text for finding in findings],
        "rows": [f"{finding.rows:,} ({100 * finding.rows / rows:.3g} %)" for finding in findings],
    }
