"""Names are read once: words of a private dialect, and names that say nothing, name nothing in the code."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import streamsketch

ROOT = Path(streamsketch.__file__).parents[1]
PARTS = "streamsketch", "pipelines"
# What to write instead: neighbours; timestamp; header, or what it is; options; valid, invalid; below the noise floor.
FORBIDDEN = {
    *("near", "moment", "there", "how", "told", "said", "said_of", "left_told"),
    *("sound", "unsound", "drowned", "emptied", "united", "under", "remember"),
}


def named(tree: ast.AST) -> Iterator[str]:
    """Yield the names of functions, classes, parameters, fields, and of local and global variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def found() -> dict[str, set[str]]:
    names = defaultdict(set)
    for path in sorted(path for part in PARTS for path in (ROOT / part).rglob("*.py")):
        for name in named(ast.parse(path.read_text(encoding="utf-8"))):
            if name.strip("_").lower() in FORBIDDEN:
                names[path.relative_to(ROOT).as_posix()].add(name)
    return names


def test_no_name_is_of_a_private_dialect() -> None:
    assert not found()


def test_a_forbidden_name_is_seen() -> None:
    tree = ast.parse("class Told:\n    near: int\n    def _said(self, *, how=1):\n        for moment in there: ...\n")
    assert {name.strip("_").lower() for name in named(tree)} & FORBIDDEN == {"told", "near", "said", "how", "moment"}
