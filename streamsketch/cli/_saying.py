"""Sentences on standard error, apart from results: errors, warnings and notes; with ``--json`` each is an object.

``--quiet`` leaves out notes, and bars of progress.
"""

import contextlib
import io
import json
import re
import shutil
import sys
import textwrap
from typing import Any

import typer

from streamsketch.errors import printable

_WARNING = "warning: "
_quiet = False


def be_quiet(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    """Print no notes and draw no bars from now on, or print and draw them again."""
    global _quiet  # noqa: PLW0603 - one command runs in a process, and each sets it
    _quiet = wanted


def is_quiet() -> bool:
    """Return whether this call must print no notes and draw no bars."""
    return _quiet


def wants_json() -> bool:
    """Return whether this call must print JSON."""
    return "--json" in sys.argv


def say(message: str, *, note: bool = True) -> None:
    """Print a note, or a warning that begins with "warning: "; ``note=False`` if ``--quiet`` must print it, too."""
    if _quiet and note and not message.startswith(_WARNING):
        return
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
    typer.echo(json_for(sys.stderr, {name: fields}), err=True)


def print_everywhere() -> None:
    """Let standard output and error print what their encoding lacks as escapes, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError):  # a stream that is closed fails where it is used
                stream.reconfigure(errors="backslashreplace")


def json_for(stream: object, result: object, **options: Any) -> str:
    """Return JSON, in ASCII where a stream's encoding lacks a character: an escape of Python's is none of JSON."""
    text = json.dumps(result, ensure_ascii=False, **options)
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeError, LookupError):
        text = json.dumps(result, ensure_ascii=True, **options)
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)
