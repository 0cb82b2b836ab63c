"""Names are read once: words of a private dialect, and names that say nothing, name nothing in the code."""

import re
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
# What a variable holds is its name, and what a function returns; zero and one are numbers in kernels.
VAGUE = {"found", "one", "known", "given"}
_VAGUE_FIELD = re.compile(rf"\bself\.(_?(?:{'|'.join(sorted(VAGUE))}))\b")


def named(table: SymbolTable) -> Iterator[str]:
    """Yield forbidden names of functions, classes, parameters, fields, and of local and global variables."""
    for name in table.get_identifiers():
        bare = name.rstrip("_").rpartition("__")[2].strip("_")  # a class's own begin with its name
        symbol = table.lookup(name)
        is_named = symbol.is_assigned() or symbol.is_parameter() or symbol.is_annotated()
        if is_named and not symbol.is_imported() and (bare in VAGUE or bare.lower() in FORBIDDEN):
            yield name
    for inner in table.get_children():
        yield from named(inner)


def forbidden() -> dict[str, set[str]]:
    names = defaultdict(set)
    for path in sorted(path for part in PARTS for path in (ROOT / part).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for name in (*named(symtable(text, path.name, "exec")), *_VAGUE_FIELD.findall(text)):
            names[path.relative_to(ROOT).as_posix()].add(name)
    for path in [path for path in names if path.startswith("streamsketch/kernels/")]:
        names[path].discard("one")
    return {path: names[path] for path in names if names[path]}


def test_no_name_is_of_a_private_dialect() -> None:
    assert not forbidden()


def test_a_forbidden_name_is_seen() -> None:
    code = "class Told:\n    near: int\n    def _said(self, *, how=1):\n        for moment in there: ...\n"
    code += "class Other:\n    def __left_told(self): ...\nimport sound\n"
    code += "def found(given):\n    known_ = [one for one in given]\n"
    seen = {"Told", "near", "_said", "how", "moment", "_Other__left_told", "found", "given", "known_", "one"}
    assert set(named(symtable(code, "code", "exec"))) == seen
    assert _VAGUE_FIELD.findall("self._given = self.known, self.known_keys, self.unknown") == ["_given", "known"]
