"""Names are read once: words of a private dialect, and names that say nothing, name nothing in the code."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from symtable import SymbolTable, symtable

import streamsketch

ROOT = Path(streamsketch.__file__).parents[1]
PARTS = "streamsketch", "pipelines"
# What to write instead: neighbours; timestamp; header, or what it is; options; valid, invalid; below the noise floor.
FORBIDDEN = {
    *("near", "moment", "there", "how", "told", "said", "said_of", "left_told"),
    *("sound", "unsound", "drowned", "emptied", "united", "under", "remember"),
}


def named(table: SymbolTable) -> Iterator[str]:
    """Yield forbidden names of functions, classes, parameters, fields, and of local and global variables."""
    for name in table.get_identifiers():
        if name.rstrip("_").rpartition("__")[2].strip("_").lower() in FORBIDDEN:  # a class's own begin with its name
            symbol = table.lookup(name)
            if not symbol.is_imported() and (symbol.is_assigned() or symbol.is_parameter() or symbol.is_annotated()):
                yield name
    for inner in table.get_children():
        yield from named(inner)


def found() -> dict[str, set[str]]:
    names = defaultdict(set)
    for path in sorted(path for part in PARTS for path in (ROOT / part).rglob("*.py")):
        for name in named(symtable(path.read_text(encoding="utf-8"), path.name, "exec")):
            names[path.relative_to(ROOT).as_posix()].add(name)
    return names


def test_no_name_is_of_a_private_dialect() -> None:
    assert not found()


def test_a_forbidden_name_is_seen() -> None:
    code = "class Told:\n    near: int\n    def _said(self, *, how=1):\n        for moment in there: ...\n"
    code += "class Other:\n    def __left_told(self): ...\nimport sound\n"
    seen = {"Told", "near", "_said", "how", "moment", "_Other__left_told"}
    assert set(named(symtable(code, "code", "exec"))) == seen
