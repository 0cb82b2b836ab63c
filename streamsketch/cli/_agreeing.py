"""Options that make an agreement, of the commands that write one."""

from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch.agreement import is_type
from streamsketch.core import names_given

Index = Annotated[
    list[str] | None,
    typer.Option(help="Column that says what happened, with its type, as item:text or week:integer; in order."),
]
Key = Annotated[str | None, typer.Option(help="Column of keys, with its type: one sketch for each.")]
Value = Annotated[str | None, typer.Option(help="Column of numbers to add up. By default, 1 a row.")]
UnitColumn = Annotated[str | None, typer.Option(help="Column that names the privacy unit, with its type.")]
Missing = Annotated[str, typer.Option(help="Rows with something null or blank: 'refuse' or 'drop'.")]
Title = Annotated[str, typer.Option(help="What the agreement is about, in a line.")]


def typed(text: str) -> str | tuple[str, str]:
    """Return a column as NAME:TYPE says it; a name may hold colons."""
    name, _, kind = text.rpartition(":")
    return (name, kind) if name and is_type(kind) else text


def name_of(text: str) -> str:
    """Return the name of a column that NAME:TYPE says."""
    column = typed(text)
    return column if isinstance(column, str) else column[0]


def columns_from(index: list[str], key: str | None, unit: str | None) -> dict[str, object]:
    """Return the columns of an agreement from options."""
    return {
        "index": [typed(one) for one in names_given(index, "--index")],
        "key": None if key is None else typed(key),
        "unit": None if unit is None else typed(unit),
    }


def load_projection(path: Path) -> ss.Projection:
    """Return the projection in a file; errors name the file."""
    try:
        return ss.Projection.from_json(path.read_bytes())
    except ss.InvalidInputError as error:
        raise ss.InvalidInputError(f"{path} is not a projection: {error}") from None
