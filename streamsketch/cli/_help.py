"""Help of the commands: groups of options, placeholders for their values, and an example of each command."""

import re
import shutil
import signal
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from streamsketch.cli._values import read_without_pydantic

_WIDEST, _NARROWEST = 100, 40
_MOST_LEFT = 30  # columns of names and placeholders; a longer one has a line of its own

_GENERAL = "General"
_PANELS = (
    "Input",
    "Kafka",
    "Privacy",
    "Ledger",
    "Projection",
    "Estimates",
    "Keys and signatures",
    "Workers",
    "Monitoring",
    "Output",
    _GENERAL,
)
"""The groups of options in the order of help; others are before the last two."""


class Entry(NamedTuple):
    """A line of help."""

    names: str
    """The name or names of an option, with the placeholder of its value."""
    text: str


class Help(NamedTuple):
    """The help of a command."""

    usage: str
    paragraphs: list[str]
    groups: dict[str, list[Entry]]
    """Arguments and options, under their headings; subcommands for a group of commands."""
    examples: list[str]
    """Calls."""
    more: str


def help_of(command: Any, context: Any) -> Help:
    """Return the help of a command or group, whose parameters are loaded.

    Parameters
    ----------
    command
        A command as typer makes it.
    context
        Its context, which has its name and those of its groups.
    """
    path = context.command_path
    paragraphs = [" ".join(part.replace("\\\n", " ").split()) for part in _parts(command.help or "")]
    groups: dict[str, list[Entry]] = {}
    words: list[str] = [path]
    last: list[str] = []
    for each in command.params:
        if each.param_type_name == "argument":
            name = _argument(each)
            (last if name.startswith("[--") else words).append(name)
            groups.setdefault("Arguments", []).append(Entry(name.strip("[]"), _text(each, context)))
    subcommands = getattr(command, "commands", {})
    for name, subcommand in subcommands.items():
        entry = Entry(name, (subcommand.help or "").partition("\n\n")[0].replace("\n", " "))
        groups.setdefault(getattr(subcommand, "rich_help_panel", None) or "Commands", []).append(entry)
    options = [each for each in command.get_params(context) if each.param_type_name != "argument" and not each.hidden]
    words += [_names(each)[-1] for each in options if each.required]
    by_group: dict[str, list[Entry]] = {}
    for each in options:
        by_group.setdefault(_panel(each), []).append(Entry(", ".join(_names(each)), _text(each, context)))
    groups |= {heading: by_group[heading] for heading in _headings(options) if heading in by_group}
    usage = " ".join([*words, *(["COMMAND"] if subcommands else ["[OPTIONS]"]), *last])
    examples = [part.removeprefix("$ ") for part in paragraphs if part[0] == "$"]
    return Help(usage, [part for part in paragraphs if part[0] != "$"], groups, examples, command.epilog or "")


def text_of(content: Help, width: int) -> str:
    """Return a command's help in lines that are no longer than ``width``, unless a single word is longer."""
    lines = [*_wrapped(content.usage, width, "Usage: ", "  "), ""]
    for paragraph in content.paragraphs:
        lines += [*_wrapped(paragraph, width), ""]
    names = [len(entry.names) for entries in content.groups.values() for entry in entries]
    left = max([length for length in names if length <= _MOST_LEFT], default=0) + 4
    for heading, entries in content.groups.items():
        lines += [typer.style(f"{heading}:", bold=True), *_rows(entries, width, left), ""]
    if content.examples:
        lines.append(typer.style("Example:" if len(content.examples) == 1 else "Examples:", bold=True))
        lines += [*(line for call in content.examples for line in call_lines(call, width)), ""]
    lines += _wrapped(content.more, width) if content.more else []
    return "\n".join(lines).rstrip()


def call_lines(call: str, width: int, indent: str = "  ") -> list[str]:
    """Return the lines of a call as a shell reads them: each line except the last ends with a backslash."""
    word = r"""(?:[^\s"']|"[^"]*"|'[^']*')+"""
    words = re.findall(rf"-\S+ (?!-){word}|{word}", call)  # an option and what it takes stay together
    lines = [indent + words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) + 3 > width:
            lines[-1] += " \\"
            lines.append(f"{indent}    {word}")
        else:
            lines[-1] += f" {word}"
    return lines


def _parts(text: str) -> list[str]:
    return [part.strip("\n") for part in re.split(r"\n\s*\n", text) if part.strip()]


def _wrapped(text: str, width: int, first: str = "", others: str = "") -> list[str]:
    """Return lines of whole words, in which "[default: 1]" is one."""
    whole = re.sub(r"\[default: [^]]*\]", lambda match: match[0].replace(" ", "\xa0"), text)
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    lines = textwrap.wrap(whole, width, initial_indent=first, subsequent_indent=others, **options)
    return [line.replace("\xa0", " ") for line in lines]


def _rows(entries: list[Entry], width: int, left: int) -> Iterator[str]:
    """Yield lines with names at the left and text at the right, below a name that is too long."""
    for names, text in entries:
        shown = f"  {typer.style(names, bold=True)}"
        lines = _wrapped(text, width, " " * left, " " * left)
        if lines and len(names) + 4 <= left:
            yield shown + lines[0][len(names) + 2 :]
            lines = lines[1:]
        else:
            yield shown
        yield from lines


def _argument(each: Any) -> str:
    name = each.metavar or str(each.name).upper()
    name += "" if each.nargs == 1 or name.endswith("...]") else "..."
    return name if each.required or name[0] == "[" else f"[{name}]"


def _names(each: Any) -> list[str]:
    """Return the names of an option, short names first, and then the placeholder of its value."""
    if each.secondary_opts:
        return [f"{each.opts[0]}/{each.secondary_opts[0]}"]
    *names, last = sorted(each.opts, key=len)
    return [*names, last if each.is_flag else f"{last} {each.metavar or 'VALUE'}"]


def _panel(each: Any) -> str:
    return getattr(each, "rich_help_panel", None) or _GENERAL


def _headings(options: list[Any]) -> list[str]:
    """Return the headings of a command's options, in their order."""
    own = dict.fromkeys(heading for each in options if (heading := _panel(each)) not in _PANELS)
    return [*_PANELS[:-2], *own, *_PANELS[-2:]]


def _text(each: Any, context: Any) -> str:
    record = each.get_help_record(context)
    return re.sub(r"\bx>=(?=[\d.]+\])", "at least ", " ".join((record[1] if record else "").split()))


def help_width() -> int:
    """Return the number of columns that help takes here."""
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns))


def _write(command: Any, context: Any, formatter: Any) -> None:
    formatter.write(text_of(help_of(command, context), help_width()) + "\n")


class Command(TyperCommand):
    """A command with this help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, as typer calls it."""
        read_without_pydantic(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; end without an error message if nobody reads its output."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            sys.stdout = None  # flushing it would fail again
            sys.exit(128 + signal.SIGPIPE)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        _write(self, ctx, formatter)


class Group(TyperGroup):
    """A group of commands with this help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, as typer calls it."""
        read_without_pydantic(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        _write(self, ctx, formatter)
