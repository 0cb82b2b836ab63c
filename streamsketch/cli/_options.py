"""How an option of a command is declared: its group in the help, what it takes, and what it says."""

from collections.abc import Mapping
from typing import Any

import typer


def option(panel: str, takes: str, text: str, *names: str, **more: Any) -> Any:
    """Return the declaration of an option, for `typing.Annotated`.

    Parameters
    ----------
    panel
        The heading under which the help lists it; "" for the last, General.
    takes
        The placeholder of its value; "" for a flag.
    text
        What the help says of it.
    *names
        Its names, such as "--output" and "-o"; by default, that of the parameter.
    **more
        Further arguments of `typer.Option`.
    """
    return typer.Option(*names, help=text, metavar=takes or None, rich_help_panel=panel or None, **more)


def given_options(options: Mapping[str, object]) -> str:
    """Return the names of the options that were given: "--index, --max-keys"."""
    names = [name for name, value in options.items() if value is not None and value is not False and value != []]
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)
