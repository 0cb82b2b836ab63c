"""Tests that hold the structure fast: those that import, read or patch a private name of a module.

What a test needs of a module's inside is a unit of it, with a name of its own; what it lowers is a parameter. The lists
below only become shorter. Files of `streamsketch.cli` that begin with an underscore are no private names: they serve
several commands.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.cli.running import ROOT

PATCHING = ("setattr", "delattr", "object", "patch")

IMPORTED: set[tuple[str, str]] = set()
READ = {
    ("beam/streams/conftest.py", "_draw"),
    ("beam/streams/conftest.py", "_draw_each"),
}
PATCHED = {
    ("accounting/test_ledger_postgres.py", "_NOW"),
    ("beam/intake/test_read.py", "_READ_BYTES"),
    ("beam/streams/conftest.py", "_draw"),
    ("beam/streams/conftest.py", "_draw_each"),
    ("cli/test_warmup.py", "_COMPILED"),
    ("data/readers/test_borders.py", "_READ_BYTES"),
    ("observables/test_alarms.py", "_empty_sketch"),
    ("observables/test_bounding.py", "_first_to_succeed"),
    ("observables/test_bounding.py", "_most_accurate"),
}


_MAY_NAME = re.compile(r"""[."']_[A-Za-z]|\bimport\b[^\n]*\b_[A-Za-z]|^\s+_\w+( as \w+)?,""", re.MULTILINE)
"""What stands in each file that names one: most have none, and take longer to parse than to search."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each name that is imported from the library, "" for a module, and the name under which it is known."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (("", each.asname or each.name) for each in node.names if each.name == "streamsketch")
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "streamsketch":
            for name in node.names:
                file = ROOT / node.module.replace(".", "/") / f"{name.name}.py"
                yield ("" if file.exists() else name.name), name.asname or name.name


def reads(tree: ast.Module, ours: set[str]) -> Iterator[str]:
    """Yield the private attributes of what was imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            root = node.value
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in ours:
                yield node.attr


def patches(tree: ast.Module) -> Iterator[str]:
    """Yield the private names that are patched, also inside of ``"package.module._name"``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PATCHING:
            for given in node.args[:2]:
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield from filter(is_private, given.value.split("."))


def names(path: Path) -> tuple[set[str], set[str], set[str]]:
    """Return the private names that a file of tests imports, reads and patches."""
    text = path.read_text(encoding="utf-8")
    if not _MAY_NAME.search(text):
        return set(), set(), set()
    tree = ast.parse(text)
    imported = list(imports(tree))
    return (
        {name for name, _ in imported if is_private(name)},
        set(reads(tree, {known for _, known in imported})),
        set(patches(tree)),
    )


def test_tests_name_no_more_private_names_than_are_listed() -> None:
    """Less is welcome: take it off the list."""
    tests = ROOT / "tests"
    of_files = {path.relative_to(tests).as_posix(): names(path) for path in tests.rglob("*.py")}
    for place, listed in enumerate((IMPORTED, READ, PATCHED)):
        there = {(file, name) for file, of_file in of_files.items() for name in of_file[place]}
        assert there == listed, sorted(there ^ listed)


def test_the_lists_become_shorter() -> None:
    assert not IMPORTED
    assert len(READ) <= 2
    assert len(PATCHED) <= 9


def test_what_counts_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "test_some.py"
    path.write_text(
        "from streamsketch.signs.hamming import _MANY\nfrom streamsketch.signs import hamming as h\n"
        "from streamsketch.cli import _saying\n"
        "import streamsketch as ss\n"
        "def test_it(monkeypatch):\n    h._group()\n    ss.Sketch._combine\n    monkeypatch.setattr(h, '_MANY', 1)\n"
        "    monkeypatch.setattr('streamsketch.cli.app._FIRST', {})\n    h.public(_MANY)\n    h.__doc__\n"
    )
    assert names(path) == ({"_MANY"}, {"_group", "_combine"}, {"_MANY", "_FIRST"})
