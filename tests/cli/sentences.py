"""The first sentences of all commands, as `streamsketch --help` shows them without importing a command.

`python -m tests.cli.sentences` writes streamsketch/cli/_sentences.py again; a test compares it with the docstrings.
"""

import ast
from pathlib import Path

import streamsketch as ss

FOLDER = Path(ss.__file__).parent / "cli"
GROUPS = "ledger", "party", "party_key", "party_round", "plan", "stream"
FILE = FOLDER / "_sentences.py"


def sentences() -> dict[str, str]:
    """Return the first paragraph of the docstring of each command, by its name, read from the source."""
    read: dict[str, str] = {}
    for path in sorted(FOLDER.glob("[!_]*.py")):
        if path.stem == "app":
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                words = [*path.stem.split("_"), node.name] if path.stem in GROUPS else [path.stem]
                if path.stem in GROUPS or node.name == path.stem:
                    name = " ".join(words).replace("_", "-")
                    read[name] = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
    return read


def text() -> str:
    """Return the file."""
    lines = "".join(f'    "{name}": "{sentence}",\n' for name, sentence in sentences().items())
    return (
        '"""What each command does, for help that imports none: written by `python -m tests.cli.sentences`."""\n\n'
        f"SENTENCES = {{\n{lines}}}\n"
    )


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
