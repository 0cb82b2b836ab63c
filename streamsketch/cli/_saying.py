"""Sentences on standard error, apart from results: errors, warnings and notes; with ``--json`` each is an object."""

import json
import re
import shutil
import sys
import textwrap

import typer

from streamsketch.core import printable

_WARNING = "warning: "


def wants_json() -> bool:
    """Return whether this call is to print JSON."""
    return "--json" in sys.argv


def say(message: str) -> None:
    """Print a note, or a warning that begins with "warning: "."""
    if wants_json():
        kind = "warning" if message.startswith(_WARNING) else "note"
        _say_object(kind, {"message": printable(message.removeprefix(_WARNING))})
    else:
        _say_text(printable(message))


def say_error(message: str, kind: str) -> None:
    """Print why a command ends: a sentence, or an object with its kind."""
    if wants_json():
        _say_object("error", {"kind": kind, "message": printable(message)})
    else:
        _say_text(f"error: {printable(message)}")


def kind_of(error: BaseException) -> str:
    """Return the kind of an error: `InvalidInputError` is "invalid_input"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__.removesuffix("Error")).lower()


def _say_text(text: str) -> None:
    """Print a sentence: in lines of whole words on a terminal, and in one line elsewhere."""
    if sys.stderr is not None and sys.stderr.isatty():
        text = textwrap.fill(
            text, shutil.get_terminal_size().columns, break_long_words=False, break_on_hyphens=False
        ).replace("error:", typer.style("error:", bold=True, fg="red"), text.startswith("error:"))
    typer.echo(text, err=True)


def _say_object(name: str, fields: dict[str, str]) -> None:
    typer.echo(json.dumps({name: fields}, ensure_ascii=False), err=True)
