"""The ``streamsketch`` command: a file of this folder for each command, or for a group, imported when it is run."""

import atexit
import contextlib
import difflib
import functools
import gc
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import typer

import streamsketch as ss
from streamsketch.cli._help import Command, Group, help_of, help_width, text_of
from streamsketch.cli._pages import topic_of
from streamsketch.cli._saying import be_quiet, kind_of, print_everywhere, say, say_error, wants_json
from streamsketch.cli._sentences import SENTENCES
from streamsketch.core.kernel_cache import announce_compiling
from streamsketch.core.libraries import load_for_commands, once_loaded, pa
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
_HELP = "Private sketches of data streams: plan, make, release and compare them."
_FIRST_MORE = (
    "streamsketch COMMAND --help explains a command, streamsketch more shows the other commands, and streamsketch "
    "guide has pages of the documentation."
)
_END = (
    "Exit status: 0 when done; 1 if a command checked something and the answer is no (a signature, an audit, the goal "
    "of a plan, a dry run that would be refused, more than 1 % of bad lines), or if a job failed; "
    "2 for a mistake in the call or its input."
)
UsageError: Any = typer.BadParameter.__base__  # which older versions of typer take from click
_LOOKS: dict[str, Any] = {"pretty_exceptions_enable": False, "rich_markup_mode": None}
# Commands by the headings of help, in its order: "choose-bound" is the function choose_bound in choose_bound.py, "party
# sign" is sign in party.py, and "party key new" is new in party_key.py.
_FIRST = {
    "Begin": ("demo", "guide"),
    "Agree": ("plan", "agree"),
    "Release": ("release", "sketch", "stream"),
    "Read releases": ("compare", "report", "explain"),
    "Budgets and parties": ("ledger", "party"),
}
_MORE = {
    "More about releases": ("describe", "frequency", "nearest", "changes", "history", "merge"),
    "More": ("check", "choose-bound"),
}
_GROUPS = {
    "plan": "Choose a sketch and its noise for a question, and predict the error.",
    "stream": "Release each window of a stream once, and watch and check it.",
    "ledger": "Keep the record of what was spent of each data set's budget.",
    "party": "Keys, signatures, and rounds that publish one sum of many parties.",
    "party key": "Make and show the keys with which a party signs files and takes part in rounds.",
    "party round": "Publish the sum of several parties' sketches with the noise of one release.",
}
# What earlier versions called commands, for those who type that.
_RENAMED = {
    "consume": "stream kafka",
    "index": "nearest --write-index",
    "inspect": "explain",
    "job": "stream beam, watch, publish or replay; for files, release … -- BEAM OPTIONS",
    "key": "party key",
    "mean": "merge --mean",
    "round": "party round",
    "sign": "party sign",
    "verify": "party verify",
    "viewer": "report --viewer",
    "warmup": "demo --warmup",
}


def _more(file: str) -> str:
    """Return what stands below the help of a command."""
    return f"More: streamsketch guide {topic_of(file)}"


@functools.cache
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
        command = cast("Command", typer.main.get_command(alone))
        command.params.append(_quiet_option())
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        once_loaded("pyarrow", _keep_signal_handlers)
        if self.file == "stream":  # whose folders import Arrow themselves
            pa.enable_signal_handlers(enable=False)
        else:  # jobs run code of others, who may have arrays of pandas
            load_for_commands()
        return self.loaded().make_context(info_name, args, parent, **extra)


class _Root(Group):
    """All commands, of which the first help shows a dozen, and `streamsketch more` the others."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a command with its name and arguments; tell the new name of one that earlier versions had."""
        name = args[0]
        if name == "more":
            return name, Command(name, callback=lambda: self._show_more(ctx)), args[1:]
        if name in _RENAMED:
            raise UsageError(f"`streamsketch {name}` is now `streamsketch {_RENAMED[name]}`", ctx)
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the first help, which fits a screen of 24 lines."""
        shown = help_of(self, ctx)
        entries = [entry for heading in _FIRST for entry in shown.groups[heading]]
        first = shown._replace(groups={"Commands": entries}, more=_FIRST_MORE)
        formatter.write(text_of(first, help_width()) + "\n")

    def _show_more(self, ctx: Any) -> None:
        shown = help_of(self, ctx)
        first = {entry.names for heading in _FIRST for entry in shown.groups[heading]}
        groups = {
            heading: each for heading, each in shown.groups.items() if not first & {entry.names for entry in each}
        }
        typer.echo(text_of(shown._replace(groups=groups), help_width()))


def _keep_signal_handlers(arrow: Any) -> None:
    """Keep Arrow from putting its own in their place while it reads, as it would lose a signal at times."""
    arrow.enable_signal_handlers(enable=False)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        typer.echo(ss.__version__)
        raise typer.Exit


app = typer.Typer(name="streamsketch", cls=Group, help=_HELP, epilog=_END, no_args_is_help=True, **_LOOKS)


def _add(name: str, heading: str | None) -> None:
    """Add a command, or a group with its commands, to the group that its name begins with."""
    group, _, own = name.rpartition(" ")
    into = _typers[group]
    if name not in _GROUPS:
        file = (group or own).replace(" ", "_").replace("-", "_")
        lazy = type("_Command", (_Command,), {"file": file})
        into.command(own, cls=lazy, help=SENTENCES[name], epilog=_more(file), rich_help_panel=heading)(lambda: None)
        return
    _typers[name] = typer.Typer(
        name=own, cls=Group, help=_GROUPS[name], epilog=_more(name.replace(" ", "_")), no_args_is_help=True, **_LOOKS
    )
    into.add_typer(_typers[name], rich_help_panel=heading)
    inside = [other for other in (*_GROUPS, *SENTENCES) if other.rpartition(" ")[0] == name]
    for other in inside:
        _add(other, None)


_typers = {"": app}
for _heading, _names in (_FIRST | _MORE).items():
    for _name in _names:
        _add(_name, _heading)


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


@app.callback(cls=_Root, help=_HELP)
def options(
    context: typer.Context,
    *,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Take the options that stand before any subcommand."""
    context.with_resource(_print_warnings())
    if not wants_json() and "--warmup" not in sys.argv:  # which announces more
        context.with_resource(announce_compiling(say))


def _interrupted(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def _end_at_once(status: int) -> NoReturn:
    """End without the interpreter's own end.

    After an error in a file Arrow's threads may still hold bytes of Python's, and to let go of them while the
    interpreter ends aborts the process.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(status)


def main(end: Callable[[int], NoReturn] = _end_at_once) -> None:  # noqa: C901 - one branch for each kind of error
    """Run the command.

    It ends with 0 when done, 1 if it checked something and the answer is no, 2 after a mistake, 130 or 143 when
    interrupted or terminated, and 141 if nobody reads its output.

    Parameters
    ----------
    end
        How the process ends after an error that a command said; by default at once.
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
    end(2)


def run_and_end() -> None:
    """Run the command as a process of its own, which then ends at once.

    Without this, to free each object and all machine code takes a sixth of the time of a small release.
    """
    status: int | str = 0
    try:
        main()
    except SystemExit as end:
        status = end.code or 0
    is_alone = threading.active_count() == 1 and "apache_beam" not in sys.modules  # which ends what it began
    if is_alone and isinstance(status, int):
        atexit._run_exitfuncs()  # noqa: SLF001 - as the interpreter does at its end
        with contextlib.suppress(OSError):  # which the interpreter's own end reports
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
            os._exit(status)
    sys.exit(status)


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
    if name := getattr(error, "option_name", ""):
        from streamsketch.cli._moved import where_it_went  # noqa: PLC0415 - which a call without mistakes need not load

        path = [] if error.ctx is None else error.ctx.command_path.split()[1:]
        message = where_it_went(" ".join(path), name) or message
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
