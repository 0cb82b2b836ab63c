"""Tables and facts on standard output: to the width of a terminal, and one row a line anywhere else."""

import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import typer
from rich.cells import cell_len

from streamsketch.errors import printable

_GAP = "  "
_MOST_CELL, _MOST_TITLE = 200, 500  # characters: keys of strangers have any length, and JSON has all of it
_LEAST_TEXT = 13  # columns that a text has at least, before it is folded further


class Table(NamedTuple):
    """Columns of text."""

    columns: Mapping[str, Sequence[str]]
    title: str | None
    texts: int
    """How many columns, from the left, are text, and may be folded; the others are numbers, in one line each."""


def table_of(columns: Mapping[str, Sequence[str]], *, title: str | None = None, texts: int = 1) -> Table:
    """Return a table whose first ``texts`` columns are text, and whose other columns are numbers."""
    return Table(columns, title, texts)


def show(table: Table) -> None:
    """Print a table, and an empty line."""
    typer.echo("\n".join([*table_lines(table, terminal_width()), ""]))


def show_facts(title: str, facts: Mapping[str, str]) -> None:
    """Print named facts, one a line, or more lines if a fact has several; line breaks must not come from files."""
    typer.echo("\n".join([*fact_lines(title, facts, terminal_width()), ""]))


def terminal_width() -> int | None:
    """Return the width of the terminal; None for a pipe or file, which has no edge."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


def fact_lines(title: str, facts: Mapping[str, str], width: int | None) -> list[str]:
    """Return the lines of named facts."""
    left = max(map(len, facts), default=0) + len(_GAP)
    lines = [*folded(printable(title, _MOST_TITLE), width), ""]
    for name, fact in facts.items():
        parts = [line for part in fact.split("\n") for line in folded(printable(part), width and width - left)]
        lines += [
            typer.style(name.ljust(left) if place == 0 else " " * left, bold=place == 0) + line
            for place, line in enumerate(parts)
        ]
    return lines


def table_lines(table: Table, width: int | None) -> list[str]:
    """Return the lines of a table."""
    cells = {name: [printable(cell, _MOST_CELL) for cell in column] for name, column in table.columns.items()}
    widths = _widths(cells, table.texts, width)
    heads = [
        textwrap.wrap(name, max(column_width, 1), break_long_words=False) or [""]
        for name, column_width in zip(cells, widths, strict=True)
    ]
    highest = max(map(len, heads))
    lines = [] if table.title is None else [*folded(printable(table.title, _MOST_TITLE), width), ""]
    for place in range(highest):
        row = [([""] * (highest - len(head)) + head)[place] for head in heads]
        lines.append(typer.style(_joined(row, widths, table.texts), bold=True))
    lines.append(" " + "─" * (sum(widths) + len(_GAP) * (len(widths) - 1) + 2))
    for row_cells in zip(*cells.values(), strict=True):
        parts = [
            folded(cell, column_width) if place < table.texts else [cell]
            for place, (cell, column_width) in enumerate(zip(row_cells, widths, strict=True))
        ]
        lines += [
            _joined([part[place] if place < len(part) else "" for part in parts], widths, table.texts)
            for place in range(max(map(len, parts)))
        ]
    return lines


def _widths(cells: Mapping[str, Sequence[str]], texts: int, width: int | None) -> list[int]:
    """Return the widths of columns: heads are folded first, then text, and never a number."""
    least = [max([*map(cell_len, column), *map(cell_len, name.split())], default=0) for name, column in cells.items()]
    whole = [max(cell_len(name), length) for name, length in zip(cells, least, strict=True)]
    gaps = len(_GAP) * len(whole) + 1
    if width is None or sum(whole) + gaps <= width:
        return whole
    widths = whole
    for place in sorted(range(len(whole)), key=lambda place: least[place] - whole[place]):
        if sum(widths) + gaps > width:
            widths[place] = least[place]
    while sum(widths) + gaps > width:
        widest = max(range(texts), key=lambda place: widths[place])
        if widths[widest] <= _LEAST_TEXT:
            break
        widths[widest] -= 1
    return widths


def folded(text: str, width: int | None) -> list[str]:
    """Return the lines of a text at a width; one line without a width."""
    if width is None or cell_len(text) <= width:
        return [text]
    return textwrap.wrap(text, max(width, _LEAST_TEXT), break_on_hyphens=False) or [""]


def _joined(row: Sequence[str], widths: Sequence[int], texts: int) -> str:
    padded = [
        cell + " " * (width - cell_len(cell)) if place < texts else " " * (width - cell_len(cell)) + cell
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return f"{_GAP}{_GAP.join(padded)}".rstrip()
