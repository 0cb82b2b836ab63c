"""Names are read once: words of a private dialect, and names that say nothing, name no function, parameter or class."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import streamsketch

ROOT = Path(streamsketch.__file__).parent
# What to write instead: neighbours; timestamp; header, or what it is; options; valid, invalid; below the noise floor.
FORBIDDEN = {
    *("near", "moment", "there", "how", "told", "said", "said_of", "left_told"),
    *("sound", "unsound", "drowned", "emptied", "united", "under", "remember"),
}
# Files with such names from before, which get fewer and no more.
NOT_YET: dict[str, set[str]] = {
    "agreement/agreement.py": {"_said"},
    "beam/intake/bound.py": {"_moment"},
    "beam/intake/read.py": {"how"},
    "beam/run/ordering.py": {"moment"},
    "beam/streams/budget.py": {"moment"},
    "beam/streams/changes.py": {"there"},
    "beam/streams/lateness.py": {"moment"},
    "beam/streams/messages.py": {"_sound", "moment"},
    "sketching/bounding/cut.py": {"how"},
}


def named(tree: ast.AST) -> Iterator[str]:
    """Yield the names of functions, parameters, classes and annotated fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            yield from (
                field.target.id
                for field in node.body
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            )
        elif isinstance(node, ast.arg):
            yield node.arg


def found() -> dict[str, set[str]]:
    names = defaultdict(set)
    for path in sorted(ROOT.rglob("*.py")):
        for name in named(ast.parse(path.read_text(encoding="utf-8"))):
            if name.strip("_") in FORBIDDEN:
                names[path.relative_to(ROOT).as_posix()].add(name)
    return names


def test_no_name_is_of_a_private_dialect() -> None:
    assert not {path: new for path, names in found().items() if (new := names - NOT_YET.get(path, set()))}


def test_a_forbidden_name_is_seen() -> None:
    tree = ast.parse("class Told:\n    near: int\n    def _said(self, *, how=1): ...\n")
    assert {name.strip("_").lower() for name in named(tree)} & FORBIDDEN == {"told", "near", "said", "how"}
