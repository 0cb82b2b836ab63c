"""The core works without any product, engine or folder for people, and says which one is missing."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.removal import ENGINES, PARTS, PEOPLE, PRODUCTS, part_of
from tests.test_structure import MODULES, NAMES, imports, name_of, target, tree

ROOT = Path(__file__).parents[1]
CORE = [path for path in MODULES if part_of(name_of(path)) == "core"]
# Which tests of the core's folders are of a product, or use an engine: those that name it.
FOLDERS = ["sketching", "privacy", "release", "agreement", "estimation", "wire"]
ALL = r"\bbeam\b|\bcli\b|kit\b"  # Beam and commands load every product, and the kit has a file of each
NAMED = {
    "signs": rf"[Ss]ign|{ALL}",
    "local": rf"\blocal\b|Report|MeanAggregator|{ALL}",
    "rounds": r"parties|signer",
    "ranges": rf"continual|schedule|Releaser|Tree|Report|{ALL}",
    "sites": rf"[Ff]eatures|populations|\bsites\b|{ALL}",
    "once": rf"\bonce\b|ReleaseOnce|{ALL}",
    "machine": r"storage|streams\.|streams import|jobs",
    "beam": r"beam",
    "spark": r"spark",
    "people": r"planning|report|\bcli\b|integrations|conformance|bounding\b|\.plan\b|import plan",
}


def test_every_part_has_its_modules() -> None:
    assert set(NAMED) == set(PARTS)
    for part, modules in PARTS.items():
        assert [module for module in modules if module not in NAMES] == [], part
    assert len(CORE) > 150


def loads(path: Path) -> set[str]:
    """Return which modules of the package a file imports: at once, deferred, for types, or by a text."""
    texts = set[str]()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in {"import_module", "__import__"}:
            texts |= {
                each.value
                for each in ast.walk(node)
                if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.startswith("streams")
            }
    return {target(each) for each in imports(path)} | {text.removeprefix("streamsketch.") for text in texts}


def strangers(path: Path, here: str) -> list[str]:
    """Return what a file of the core, or of a product, loads of products, engines and folders for people.

    A product may load what plans and explains it, which is for people.
    """
    known = {"core", here} | ({"people"} if here in PRODUCTS else set())
    return sorted(module for module in loads(path) if module and part_of(module) not in known)


@pytest.mark.parametrize("part", ["core", *PRODUCTS])
def test_the_core_and_each_product_load_no_other_part(part: str) -> None:
    """But for the table of `streamsketch.products`, which loads a product by its name when it is asked for one."""
    files = [path for path in MODULES if part_of(name_of(path)) == part]
    assert {name_of(path): strangers(path, part) for path in files if strangers(path, part)} == {}


@pytest.mark.parametrize(
    "line",
    [
        "from streamsketch.signs.sketch import SignSketch",
        "def late():\n    from streamsketch.features.features import Features",
        "if TYPE_CHECKING:\n    from streamsketch.parties.keys import PublicKey",
        "def late():\n    importlib.import_module('streamsketch.schedules.tree')",
        "def late():\n    importlib.import_module(f'streamsketch.storage')",
        "from streamsketch.once.keys import hkdf",
        "import streamsketch.planning",
    ],
)
def test_a_knot_is_seen(line: str, tmp_path: Path) -> None:
    path = tmp_path / "knot.py"
    path.write_text(line, encoding="utf-8")
    assert len(strangers(path, "core")) == 1
    assert len(strangers(path, "local")) == (0 if "planning" in line else 1)


def test_only_the_tables_import_by_a_name_that_is_computed() -> None:
    computing = {
        name_of(path)
        for path in CORE
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in {"import_module", "__import__"}
        and not isinstance(node.args[0], ast.Constant)
    }
    assert computing == {"products", "core.libraries"}


def test_the_core_makes_its_journey_without_a_part() -> None:
    """Without each product, and without all engines and folders for people; it names a product that it is asked for."""
    groups = [*PRODUCTS, ",".join([*ENGINES, *PEOPLE])]
    command = [sys.executable, "-m", "tests.removal", *groups]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)  # noqa: S603
    assert json.loads(done.stdout) == dict.fromkeys(groups, "")


def test_what_the_core_needs_is_missed() -> None:
    """Blocked like a product, a folder of the core ends the journey."""
    code = (
        "from tests import removal as it; it.PARTS['x'] = ('wire',); it.OWNERS['wire'] = 'x'; "
        "print(it.remove_in_fork('x'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)  # noqa: S603
    assert re.search("streamsketch.wire.* is (blocked|not installed)", done.stdout)


def names(path: Path, part: str) -> bool:
    """Return whether a file of tests is of a part, or uses it: it names the part, or imports tests that do."""
    waiting, read = [path], set[Path]()
    while waiting:
        file = waiting.pop()
        if file in read or not file.exists():
            continue
        read.add(file)
        text = file.read_text(encoding="utf-8")
        if re.search(NAMED[part], text):
            return True
        used = re.findall(r"^ *from (tests[\w.]*) import", text, re.MULTILINE)
        waiting += [ROOT / f"{module.replace('.', '/')}.py" for module in used]
    return False


@pytest.mark.long
@pytest.mark.parametrize("part", [*PRODUCTS, *ENGINES])
def test_the_tests_of_the_core_pass_without_a_part(part: str) -> None:
    files = [
        str(path)
        for folder in FOLDERS
        for path in sorted((ROOT / "tests" / folder).rglob("test_*.py"))
        if not names(path, part)
    ]
    assert len(files) > 20
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.removal", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "BLOCKED": part, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)  # noqa: S603
    assert done.returncode == 0, done.stdout[-4000:]
