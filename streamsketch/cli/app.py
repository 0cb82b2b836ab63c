"""The ``streamsketch`` command: a file of this folder for each command, or for a group, imported when it is run."""

import contextlib
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

import streamsketch as ss
from streamsketch.errors import (
    BoundExceededWarning,
    KeyTypeWarning,
    NoiseMismatchWarning,
    TruncationWarning,
    WeakGuaranteeWarning,
)

_HELP = "Private sketches of data streams: plan them, make them, release them, compare them."
_PAGES = {  # of the documentation, in the repository; "" is for all that have none of their own
    "": "docs/reference/command-line.md",
    "agree": "docs/tutorials/customers.md",
    "choose_bound": "docs/how-to/choose-epsilon-and-bounds.md",
    "compare": "docs/tutorials/two-parties.md",
    "key": "docs/how-to/sign-and-verify.md",
    "ledger": "docs/how-to/ledger.md",
    "plan": "docs/how-to/choose-projection.md",
    "release": "docs/explanation/what-an-outsider-may-see.md",
    "round": "docs/explanation/threat-model.md",
    "sign": "docs/how-to/sign-and-verify.md",
    "sketch": "docs/reference/endless-streams.md",
    "verify": "docs/how-to/sign-and-verify.md",
}
_LOOKS: dict[str, Any] = {"pretty_exceptions_enable": False, "rich_markup_mode": "markdown"}
_GROUPS = {
    "ledger": "Keep the record of what was spent of each data set's privacy budget.",
    "key": "Make and show the keys by which a party signs files and takes part in rounds.",
    "round": "Publish the sum of several parties' sketches with one noise.",
}
_ORDER = [
    "demo",
    "plan",
    "choose-bound",
    "agree",
    "sketch",
    "merge",
    "release",
    "inspect",
    "explain",
    "compare",
    "nearest",
    "mean",
    "report",
    "sign",
    "verify",
    "ledger",
    "key",
    "round",
]


def _more(file: str) -> str:
    """Return what stands below the help of a command."""
    return f"More: {_PAGES.get(file, _PAGES[''])}, in the repository."


class _Command(TyperCommand):
    """What is said of a command whose file is not imported yet."""

    file: str | None = None  # of a group; a command by itself has its own name

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        import pyarrow as pa  # noqa: PLC0415 - as slow as a command

        # Arrow would put its own in their place while it reads, and lose a signal at times
        pa.enable_signal_handlers(enable=False)
        alone = typer.Typer(add_completion=False, **_LOOKS)
        name = str(self.name).replace("-", "_")
        file = self.file or name
        alone.command(epilog=_more(file))(getattr(import_module(f"streamsketch.cli.{file}"), name))
        return typer.main.get_command(alone).make_context(info_name, args, parent, **extra)


def _docstrings() -> dict[str, dict[str, str]]:
    """Return what the public functions of each file say of themselves, from its source.

    A file whose function has its name is a command, any other with functions a group. In the order of work; what is
    new to it comes last.
    """
    said = re.compile(r'^def ([a-z]\w*)\(.*?"""(.*?)"""', re.DOTALL | re.MULTILINE)
    found = {
        file.stem: dict(said.findall(file.read_text(encoding="utf-8")))
        for file in Path(__file__).parent.glob("[!_]*.py")
        if file.stem != "app"
    }
    names = [name.replace("-", "_") for name in _ORDER]
    return dict(sorted(found.items(), key=lambda each: names.index(each[0]) if each[0] in names else len(names)))


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        typer.echo(ss.__version__)
        raise typer.Exit


app = typer.Typer(
    name="streamsketch",
    help=_HELP,
    epilog="Begin with docs/index.md, in the repository.",
    no_args_is_help=True,
    **_LOOKS,
)
for _file, _said in _docstrings().items():
    if _file in _said:
        _named = _file.replace("_", "-")
        app.command(_named, cls=_Command, help=_said[_file], epilog=_more(_file))(lambda: None)
        continue
    _group = typer.Typer(name=_file, help=_GROUPS[_file], epilog=_more(_file), no_args_is_help=True, **_LOOKS)
    for _name, _doc in _said.items():
        _group.command(_name, cls=type("_Command", (_Command,), {"file": _file}), help=_doc, epilog=_more(_file))(
            lambda: None
        )
    app.add_typer(_group)


@contextlib.contextmanager
def _warnings_said() -> Iterator[None]:
    """Say warnings on standard error, which is the operator's, each once: the windows of a stream repeat them."""
    said: set[str] = set()

    def say_once(message: object) -> None:
        from streamsketch.cli._showing import say  # noqa: PLC0415 - it shows estimates too, and imports much

        if str(message) not in said:
            said.add(str(message))
            say(f"warning: {message}")

    with warnings.catch_warnings():
        for category in (BoundExceededWarning, KeyTypeWarning, TruncationWarning, WeakGuaranteeWarning):
            warnings.simplefilter("always", category)
        warnings.showwarning = lambda message, *_: say_once(message)
        yield


@app.callback(help=_HELP)
def options(
    context: typer.Context,
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Take the options that stand before any subcommand."""
    context.with_resource(_warnings_said())


def _interrupted(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def main() -> None:
    """Run the command: 0 when done, 2 for a mistake, 130 or 143 when interrupted or terminated."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    warnings.simplefilter("ignore", NoiseMismatchWarning)  # commands name the file where they read it
    try:
        app(prog_name="streamsketch")
    except ss.StreamsketchError as error:
        _say_mistake(str(error))
    except ModuleNotFoundError as error:
        if error.name is not None:  # ours names an extra, in a sentence
            raise
        _say_mistake(str(error))
    except BrokenPipeError:
        sys.stdout = None  # nobody reads on; flushing it would fail again
        sys.exit(1)
    except OSError as error:
        _say_mistake(f"{error.filename or 'a file'} cannot be read or written: {error.strerror or error}")
    else:
        return
    _end_at_once(2)


def _say_mistake(message: str) -> None:
    from streamsketch.cli._showing import say_mistake  # noqa: PLC0415 - it shows estimates too, and imports much

    say_mistake(message)


def _end_at_once(status: int) -> NoReturn:
    """End without the interpreter's own end.

    After an error in a file Arrow's threads may still hold bytes of Python's, and to let go of them while the
    interpreter ends aborts the process.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(status)
