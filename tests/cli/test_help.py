"""The help of every command: what a person reads at 80 columns, and an example that the parser takes."""

import functools
import re
import shlex
from typing import Any

import pytest
import typer

from streamsketch.cli._help import Entry, Help, call_lines, help_of, text_of
from streamsketch.cli.app import app

TREE: Any = typer.main.get_command(app)
GROUPS = [name for name, each in TREE.commands.items() if hasattr(each, "commands")]
COMMANDS = [
    *(name for name in TREE.commands if name not in GROUPS),
    *(f"{group} {name}" for group in GROUPS for name in TREE.commands[group].commands),
]
PYTHON = re.compile(r"[<{]\w|\w\[(str|int|float|Path)|\b(Path|None|bool|str|int|float|Annotated)\b")


@functools.cache
def command_at(path: str) -> Any:
    """Return a command or group; a command with its parameters."""
    found = TREE
    for name in path.split():
        found = found.commands[name]
    return found.loaded() if hasattr(found, "loaded") else found


@functools.cache
def help_at(path: str) -> Help:
    command = command_at(path)
    return help_of(command, typer.Context(command, info_name=f"streamsketch {path}".rstrip()))


def entry_of(option: str, found: Help) -> Entry:
    names = {
        name: entry for group in found.groups.values() for entry in group for name in re.split("[ ,/]+", entry.names)
    }
    return names[option]


@pytest.mark.parametrize("path", ["", *GROUPS, *COMMANDS])
def test_it_fits_80_columns_and_shows_no_type_of_python(path: str) -> None:
    found = help_at(path)
    shown = re.sub("\x1b\\[[0-9;]*m", "", text_of(found, 80))
    assert max(map(len, shown.split("\n"))) <= 80
    assert not re.search(r"[ \t]$", shown, re.MULTILINE)
    assert not PYTHON.search(re.sub(r'\{"\w.*\}', "", shown))


@pytest.mark.parametrize("path", COMMANDS)
def test_each_option_has_a_group_and_names_what_it_takes(path: str) -> None:
    found = help_at(path)
    for each in command_at(path).params:
        if each.param_type_name == "option":
            names = entry_of(each.opts[0], found).names
            assert bool(re.search(r"[^,] ", names)) != each.is_flag, names
    assert {entry.names for entry in found.groups["General"]} <= {"--json", "-q, --quiet", "--help"}, (
        "any other has a group"
    )


@pytest.mark.parametrize("path", COMMANDS)
def test_examples_are_calls_that_the_parser_takes(path: str) -> None:
    assert help_at(path).examples
    for call in help_at(path).examples:
        check_example(path, call_lines(call, 80))


def check_example(path: str, lines: list[str]) -> None:
    assert all(line.endswith(" \\") for line in lines[:-1])
    example = "".join(line.removesuffix("\\") for line in lines)
    name, *words = shlex.split(example)
    assert name == "streamsketch"
    assert words[: len(path.split())] == path.split()
    arguments = words[len(path.split()) :]
    assert command_at(path).make_context(path, [*arguments]).params, "without a usage error"
    named = {word.partition("=")[0] for word in arguments[: [*arguments, "--"].index("--")] if word.startswith("-")}
    assert named <= {option for each in command_at(path).params for option in each.opts}


def test_an_option_takes_the_same_in_all_commands_and_reads_or_writes_in_all() -> None:
    for name, takes in (
        ("--projection", "FILE"),
        ("--agreement", "FILE"),
        ("--epsilon", "EPSILON"),
        ("--delta", "DELTA"),
    ):
        entries = [
            entry_of(name, help_at(path))
            for path in COMMANDS
            if name in {option for each in command_at(path).params for option in each.opts}
        ]
        assert len(entries) > 3
        assert {entry.names for entry in entries} == {f"{name} {takes}"}
        assert not any(re.match("Write|File to write", entry.text) for entry in entries)
    for path in COMMANDS:
        for entry in (entry for group in help_at(path).groups.values() for entry in group):
            if entry.names.startswith("--write-"):
                assert "rite " in entry.text, entry
