"""The ``streamsketch`` command."""

import contextlib
import os
import signal
import sys
import warnings
from typing import Annotated, NoReturn

import pyarrow as pa
import typer

import streamsketch as ss
from streamsketch.cli._showing import say_mistake
from streamsketch.cli.compare import compare
from streamsketch.cli.demo import demo
from streamsketch.cli.explain import explain
from streamsketch.cli.inspect import inspect
from streamsketch.cli.mean import mean
from streamsketch.cli.merge import merge
from streamsketch.cli.nearest import nearest
from streamsketch.cli.plan import plan
from streamsketch.cli.release import release
from streamsketch.cli.report import report
from streamsketch.cli.sketch import sketch

_HELP = "Private sketches of data streams: plan them, make them, release them, compare them."

app = typer.Typer(
    name="streamsketch", help=_HELP, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown"
)
app.command()(demo)
app.command()(plan)
app.command()(sketch)
app.command()(merge)
app.command()(release)
app.command()(inspect)
app.command()(explain)
app.command()(compare)
app.command()(nearest)
app.command()(mean)
app.command()(report)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        typer.echo(ss.__version__)
        raise typer.Exit


@app.callback(help=_HELP)
def options(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Take the options that stand before any subcommand."""


def _interrupted(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def main() -> None:
    """Run the command: 0 when done, 2 for a mistake, 130 or 143 when interrupted or terminated."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    # Arrow would put its own in their place while it reads, and lose a signal at times
    pa.enable_signal_handlers(enable=False)
    warnings.simplefilter("ignore", ss.NoiseMismatchWarning)  # commands name the file where they read it
    try:
        app(prog_name="streamsketch")
    except ss.StreamsketchError as error:
        say_mistake(str(error))
    except BrokenPipeError:
        sys.stdout = None  # nobody reads on; flushing it would fail again
        sys.exit(1)
    except OSError as error:
        say_mistake(f"{error.filename or 'a file'} cannot be read or written: {error.strerror or error}")
    else:
        return
    _end_at_once(2)


def _end_at_once(status: int) -> NoReturn:
    """End without the interpreter's own end.

    After an error in a file Arrow's threads may still hold bytes of Python's, and to let go of them while the
    interpreter ends aborts the process.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(status)
