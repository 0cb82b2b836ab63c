"""The ``streamsketch`` command: a file of this folder for each command, or for a group, imported when it is run."""

import contextlib
import difflib
import gc
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import typer

import streamsketch as ss
from streamsketch.cli._help import Command, Group
from streamsketch.cli._pages import topic_of
from streamsketch.cli._saying import be_quiet, kind_of, print_everywhere, say, say_error, wants_json
from streamsketch.core.kernel_cache import announce_compiling
from streamsketch.core.libraries import once_loaded, pa
from streamsketch.errors import (
    BoundExceededWarning,
    KeyTypeWarning,
    NoiseMismatchWarning,
    TruncationWarning,
    WeakGuaranteeWarning,
)

_CHOICE = re.compile(r"'([^']*)' is not one of ('.*')")
_NO_NUMBER = re.compile(r"valid (number|float|integer)")
_COLLECTED = 100_000  # objects; by default 700, and what modules make while they load is not garbage
_HELP = "Private sketches of data streams: plan them, make them, release them, compare them."
_END = (
    "Exit status: 0 when done; 1 if a command checked something and the answer is no (a signature, an audit, the goal "
    "of a plan, a dry run that would be refused, more than 1 % of bad lines), or if a job failed; "
    "2 for a mistake in the call or its input."
)
UsageError: Any = typer.BadParameter.__base__  # which older versions of typer take from click
_LOOKS: dict[str, Any] = {"pretty_exceptions_enable": False, "rich_markup_mode": None}
# In the order of --help, with the first paragraph of each docstring, so that help imports no command: "choose-bound" is
# the function choose_bound in choose_bound.py, "ledger init" is init in ledger.py, and "ledger" is the group.
_COMMANDS = {
    "demo": "Sketch, release and compare the source of ten packages of Python's standard library.",
    "guide": "Show a page of the documentation, or list the pages that are installed.",
    "plan": "Choose a projection and a mechanism, and predict the error.",
    "choose-bound": "Choose a bound that most units keep to, or with the least error, with differential privacy.",
    "agree": "Write down how all parties sketch: projection, columns, bounds, and how to treat missing values.",
    "sketch": "Sketch events exactly, into a secret file for `release`.",
    "consume": "Release each window of a Kafka topic once, by an agreement, on one machine and without Java.",
    "merge": "Add sketches up: raw sketches of one party exactly, releases with their noise.",
    "release": "Add noise to a raw sketch, or release rows as agreed, and write what may be shared.",
    "inspect": "Show the contents of a file of sketches and its guarantee.",
    "explain": "Show who is protected and how, the noise that this needs, and what is not protected.",
    "compare": "Estimate squared distances and cosines between private sketches, most similar pair first.",
    "describe": "Describe the people in releases of features: means, deviations and shares, column by column.",
    "nearest": "Find the nearest neighbours of each release, by estimated distance, cosine, or signs that differ.",
    "index": "Put published signs into one matrix of codes, which `nearest --index` searches.",
    "frequency": "Estimate how often items occur in the streams of releases.",
    "changes": "Test whether a stream has changed from window to window, with few false alarms over the series.",
    "history": "Read any range of the windows that were published by a schedule, at no further privacy cost.",
    "mean": "Average releases: the sketch of the mean stream (x₁ + … + xₙ) / n.",
    "report": "Write a page of cosines or distances, neighbours and a map, with error bars and guarantees.",
    "viewer": "Write a page on which others drop releases, to see what `report` shows of them.",
    "sign": "Sign files: each signature is a line of FILE.intoto.jsonl, which you send along.",
    "verify": "Check the signature of a file, and show what it states.",
    "ledger": "Keep the record of what was spent of each data set's privacy budget.",
    "ledger init": "Enter a data set and its budget; the ledger is made if it is not there.",
    "ledger show": "Show what is left of each data set's budget, and when the full budget is available again.",
    "ledger charge": "Charge a release that another program makes, before it is made.",
    "ledger audit": "Check that no entry was removed, changed or reordered; ends with 1 if one was, and names it.",
    "ledger export": "Write all entries as JSON lines, oldest first; with --json as one object.",
    "key": "Make and show the keys with which a party signs files and takes part in rounds.",
    "key new": "Make a party's keys: private ones, which stay here with mode 0600, and public ones for all others.",
    "key show": "Show a public key and its fingerprint, which two people compare; for a private key, its public half.",
    "round": "Publish the sum of several parties' sketches with the noise of one release.",
    "round new": "Write down what parties agree on before they publish one sum: everybody signs it, then contributes.",
    "round show": "Show what a round agrees on, its fingerprint, and who has signed it.",
    "round sign": "Sign a round, in its file: you agree with it, and confirm that each key in it is its party's.",
    "round contribute": "Write what a party sends in a round: its sketch, with its share of the noise and its masks.",
    "round combine": "Add up all parties' contributions: one release, with the same bits whoever adds them up.",
    "job": "Sketch files and unbounded streams on a cluster, by Apache Beam, and watch and check these jobs.",
    "job files": "Sketch files on a cluster, release each key once, and compare all releases.",
    "job stream": "Release each window of an unbounded stream once, from a Kafka topic or a folder that grows.",
    "job watch": "Serve metrics and health of a stream on 127.0.0.1, from what it has published alone.",
    "job publish": "Publish a stream's releases to a Kafka topic, each once.",
    "job replay": "Compute a topic once more in this process, and compare: each release must have the same bytes.",
    "warmup": "Compile all kernels now, so that no later command or worker has to.",
}
# The headings of --help, each before the command that it begins with.
_HEADINGS = {
    "demo": "Begin",
    "plan": "Agree",
    "sketch": "Sketch and release",
    "inspect": "Read releases",
    "sign": "Signatures, budgets, parties",
    "job": "Clusters",
}


def _more(file: str) -> str:
    """Return what stands below the help of a command."""
    return f"More: streamsketch guide {topic_of(file)}"


def _quiet_option() -> Any:
    """Return the option that every command has, and that no function of a command sees."""
    alone = typer.Typer(add_completion=False)

    @alone.command()
    def _(
        *,
        _quiet: Annotated[
            bool,
            typer.Option(
                "--quiet",
                "-q",
                help="Print no notes and draw no progress bars. Warnings and errors are printed.",
                is_eager=True,
                callback=be_quiet,
            ),
        ] = False,
    ) -> None: ...

    (option,) = typer.main.get_command(alone).params
    option.expose_value = False
    return option


class _Command(Command):
    """A command whose file is not imported yet."""

    file: str

    def loaded(self) -> Command:
        """Return the command with its parameters."""
        alone = typer.Typer(add_completion=False, **_LOOKS)
        function = getattr(import_module(f"streamsketch.cli.{self.file}"), str(self.name).replace("-", "_"))
        alone.command(cls=Command, epilog=_more(self.file))(function)
        found = cast("Command", typer.main.get_command(alone))
        found.params.append(_quiet_option())
        return found

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        once_loaded("pyarrow", _keep_signal_handlers)
        if self.file == "job":  # whose folders import Arrow themselves
            pa.enable_signal_handlers(enable=False)
        return self.loaded().make_context(info_name, args, parent, **extra)


def _keep_signal_handlers(arrow: Any) -> None:
    """Keep Arrow from putting its own in their place while it reads, as it would lose a signal at times."""
    arrow.enable_signal_handlers(enable=False)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        typer.echo(ss.__version__)
        raise typer.Exit


app = typer.Typer(
    name="streamsketch",
    cls=Group,
    help=_HELP,
    epilog=_END,
    no_args_is_help=True,
    **_LOOKS,
)
_groups: dict[str, typer.Typer] = {}
_heading = ""
for _name, _help in _COMMANDS.items():
    _of, _, _own = _name.rpartition(" ")
    _file = (_of or _own).replace("-", "_")
    _heading = _HEADINGS.get(_name, _heading)
    if any(each.startswith(f"{_name} ") for each in _COMMANDS):
        _groups[_name] = typer.Typer(
            name=_name, cls=Group, help=_help, epilog=_more(_file), no_args_is_help=True, **_LOOKS
        )
        app.add_typer(_groups[_name], rich_help_panel=_heading)
    else:
        _groups.get(_of, app).command(
            _own,
            cls=type("_Command", (_Command,), {"file": _file}),
            help=_help,
            epilog=_more(_file),
            rich_help_panel=_heading if not _of else None,
        )(lambda: None)


@contextlib.contextmanager
def _print_warnings() -> Iterator[None]:
    """Say warnings on standard error, which is the operator's, each once: the windows of a stream repeat them."""
    printed: set[str] = set()

    def say_once(message: object) -> None:
        if str(message) not in printed:
            printed.add(str(message))
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
    context.with_resource(_print_warnings())
    if not wants_json() and context.invoked_subcommand != "warmup":  # which announces more
        context.with_resource(announce_compiling(say))


def _interrupted(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def main() -> None:  # noqa: C901 - one branch for each kind of error
    """Run the command.

    It ends with 0 when done, 1 if it checked something and the answer is no, 2 after a mistake, 130 or 143 when
    interrupted or terminated, and 141 if nobody reads its output.
    """
    gc.set_threshold(_COLLECTED)
    print_everywhere()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    warnings.simplefilter("ignore", NoiseMismatchWarning)  # commands name the file where they read it
    try:
        status: int | None = app(prog_name="streamsketch", standalone_mode=False)
    except UsageError as error:
        _say_usage(error)
        sys.exit(2)
    except ss.StreamsketchError as error:
        say_error(str(error), kind_of(error))
    except ModuleNotFoundError as error:
        if error.name is not None:  # ours names an extra, in a sentence
            raise
        say_error(str(error), "missing_package")
    except typer.Abort:
        sys.exit(128 + signal.SIGINT)
    except OSError as error:
        say_error(_wrong_with_file(error), "file")
    except UnicodeError:
        # what it is stays unsaid: it may be a key
        say_error("a text cannot be read or written as UTF-8; give files and columns names in UTF-8", "encoding")
    else:
        if status:
            sys.exit(status)
        return
    _end_at_once(2)


def _wrong_with_file(error: OSError) -> str:
    if not isinstance(error, FileNotFoundError) or error.filename is None:
        return f"{error.filename or 'a file'} cannot be read or written: {error.strerror or error}"
    folder = Path(error.filename).parent
    return f"{error.filename} does not exist{'' if folder.is_dir() else f': there is no folder {folder}'}"


def _say_usage(error: Any) -> None:
    """Print what the parser refuses, or the help of a group that is named alone."""
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message(), err=True)
        return
    if type(error).__name__ == "NoSuchOption":
        # typer compares "--" too, which all have
        names = {option.lstrip("-"): option for option in error.possibilities or ()}
        close = difflib.get_close_matches(error.option_name.lstrip("-"), names)
        error.possibilities = [names[name] for name in close]
    message = error.format_message().replace("Value error, ", "")
    if chosen := _CHOICE.search(message):
        from streamsketch.cli._showing import meant  # noqa: PLC0415 - which loads what most calls do not need

        message = message.removesuffix(".") + meant(chosen[1], re.findall("'([^']+)'", chosen[2]))
    if _NO_NUMBER.search(message):
        from streamsketch.core.numbers import number_hint  # noqa: PLC0415 - as above

        if hint := number_hint(text := _given_to(getattr(error, "param", None))):
            message = f"{message.removesuffix('.')}, got {text!r}{hint}"
    path = "streamsketch" if error.ctx is None else error.ctx.command_path
    say_error(f"{message}{'' if message.endswith(('.', '?')) else '.'} See `{path} --help`", "usage")


def _given_to(option: Any) -> str:
    """Return the text that the call gives to an option, which the parser refuses; nothing if it is not found."""
    for place, word in enumerate(sys.argv):
        name, is_joined, value = word.partition("=")
        if name in getattr(option, "opts", ()):
            return value if is_joined else "".join(sys.argv[place + 1 : place + 2])
    return ""


def _end_at_once(status: int) -> NoReturn:
    """End without the interpreter's own end.

    After an error in a file Arrow's threads may still hold bytes of Python's, and to let go of them while the
    interpreter ends aborts the process.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(status)
