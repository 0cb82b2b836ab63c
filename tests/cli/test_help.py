"""The help of every command: what a person reads at 80 columns, and an example that the parser takes."""

import ast
import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import streamsketch
from streamsketch.cli._help import Entry, Help, call_lines, help_of, text_of
from streamsketch.cli.app import app
from tests.cli.running import ENVIRONMENT, Forks

TREE: Any = typer.main.get_command(app)
MOST_AT_THE_TOP, MOST_COMMANDS, MOST_OF_A_PLAN, SCREEN = 20, 42, 15, (80, 24)
MOST_OF_ONE, MOST_OPTIONS = 20, 220


def paths_in(group: Any, path: str = "") -> Iterator[tuple[str, bool]]:
    """Yield the name of each command and group inside a group, and whether it is a group."""
    for name, each in group.commands.items():
        inside = f"{path} {name}".strip()
        yield inside, hasattr(each, "commands")
        if hasattr(each, "commands"):
            yield from paths_in(each, inside)


GROUPS = [path for path, is_group in paths_in(TREE) if is_group]
COMMANDS = [path for path, is_group in paths_in(TREE) if not is_group]
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


def own_options(path: str) -> list[str]:
    """Return the options of a command, without those that all have."""
    options = [each.opts[-1] for each in command_at(path).params if each.param_type_name == "option"]
    return [name for name in options if name not in ("--json", "--quiet", "-q")]


def test_there_are_few_commands_and_each_has_few_options() -> None:
    assert len(TREE.commands) <= MOST_AT_THE_TOP
    assert len(COMMANDS) <= MOST_COMMANDS
    numbers = {path: len(own_options(path)) for path in COMMANDS}
    assert {path: number for path, number in numbers.items() if number > MOST_OF_ONE} == {}
    assert sum(numbers.values()) <= MOST_OPTIONS
    for path in COMMANDS:
        if path.startswith("plan "):
            assert numbers[path] <= MOST_OF_A_PLAN, path


def test_the_first_help_shows_a_dozen_commands_on_one_screen(forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    columns, rows = SCREEN
    monkeypatch.setitem(ENVIRONMENT, "COLUMNS", str(columns))
    first, more = forks.succeeded("--help"), forks.succeeded("more")
    assert len(first.splitlines()) < rows, "the prompt takes the last"
    assert max(map(len, [*first.splitlines(), *more.splitlines()])) <= columns
    in_first, in_more = (
        {name for name in TREE.commands if re.search(rf"^  {name} ", text, re.MULTILINE)} for text in (first, more)
    )
    assert len(in_first) == 12
    assert in_first | in_more == set(TREE.commands)
    assert not in_first & in_more
    assert "choose-bound" in in_more
    assert "streamsketch more" in first


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("consume", "stream kafka"),
        ("index", "nearest --write-index"),
        ("inspect", "explain"),
        ("key", "party key"),
        ("mean", "merge --mean"),
        ("round", "party round"),
        ("sign", "party sign"),
        ("verify", "party verify"),
        ("viewer", "report --viewer"),
    ],
)
def test_a_name_of_before_is_answered_with_the_new_one(old: str, new: str, forks: Forks, tmp_path: Path) -> None:
    said = forks.refused(old, "a.sketch", "--json-not-asked", cwd=tmp_path)
    assert said.startswith(f"error: `streamsketch {old}` is now `streamsketch {new}`. See")
    assert help_at(new.partition(" --")[0]).usage.startswith(f"streamsketch {new.partition(' --')[0]} ")
    assert "job` is now `streamsketch stream beam" in forks.refused("job", "stream", cwd=tmp_path)


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


def calls_in_messages() -> Iterator[tuple[str, str]]:
    """Yield each call of the command that a text of the package has in backticks, with the file that has it."""
    for path in sorted(Path(streamsketch.__file__).parent.rglob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if "`streamsketch" in source else ():
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)
            if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                for call in re.findall(r"`streamsketch ([a-z][^`]*)`", text):
                    yield path.name, " ".join(call.split())


def test_messages_name_commands_and_options_that_there_are() -> None:
    calls = set(calls_in_messages())
    assert len(calls) > 10
    wrong = []
    for file, call in sorted(calls):
        words = call.split()
        names = [" ".join(words[:length]) for length in (3, 2, 1) if " ".join(words[:length]) in {*GROUPS, *COMMANDS}]
        if not names and words[0] != "more":
            wrong.append(f"{file}: {call}")
        for option in re.findall(r"(?<!\S)--[a-z][a-z0-9-]*", call):
            meant = [path for path in COMMANDS if names and path.split()[: len(names[0].split())] == names[0].split()]
            known = {name for path in meant for each in command_at(path).params for name in each.opts}
            if option not in {*known, "--help"}:
                wrong.append(f"{file}: {call}: {option}")
    assert wrong == []
