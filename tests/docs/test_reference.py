"""Every public name is on one page of the reference."""

import ast
import importlib
import inspect
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import streamsketch as ss
from streamsketch import bounding, errors, limits
from streamsketch.cli._pages import PAGES as PAGES_OF_GUIDE
from streamsketch.projections.families import KINDS
from tests.cli.running import ROOT
from tests.generated.namespaces import documented

FRAMEWORKS = ("integrations.flower", "integrations.nvflare")
REFERENCE = ROOT / "docs" / "reference"
ELSEWHERE = {"__version__", *(name for name in ss.__all__ if isinstance(getattr(ss, name), ModuleType))}


def entries() -> list[str]:
    """Return each entry of the reference; `make test-federated` has what frameworks need."""
    return [
        f"streamsketch.{namespace}.{name}".replace("..", ".")
        for namespace, names in documented().items()
        for name in names
        if namespace not in FRAMEWORKS
    ]


def test_every_public_name_is_documented_once() -> None:
    """What a namespace shows has an entry: see `test_namespaces_show_what_their_pages_document` too."""
    assert max(Counter(entries()).values()) == 1
    wanted = {f"streamsketch.errors.{name}" for name, thing in vars(errors).items() if isinstance(thing, type)}
    for module in (bounding, limits):
        wanted |= {f"{module.__name__}.{name}" for name in module.__all__}
    documented_things = {id(_thing(name)) for name in entries()}
    assert not {name for name in wanted if id(_thing(name)) not in documented_things}
    kinds = {f"streamsketch.projections.{kind.__name__}" for kind, _ in KINDS.values()}
    assert {name.replace(".projections", "") for name in kinds - set(entries())} <= set(entries())


def _thing(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_every_name_of_the_top_namespace_has_an_example() -> None:
    without = {name for name in set(ss.__all__) - ELSEWHERE if ">>> " not in (inspect.getdoc(getattr(ss, name)) or "")}
    without -= {name for name in without if not callable(getattr(ss, name))}  # numbers and types have no docstring
    assert not without


def test_what_is_documented_is_there() -> None:
    for name in entries():
        module, _, attribute = name.rpartition(".")
        assert hasattr(__import__(module, fromlist=[attribute]), attribute), name


def messages() -> list[str]:
    """Return every text of the package's code, with a line for each place that a value fills."""
    found = []
    for path in Path(ss.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.append(
                    "".join(str(part.value) if isinstance(part, ast.Constant) else "\n" for part in node.values)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def test_every_error_that_is_explained_can_happen() -> None:
    page = (REFERENCE / "error-messages.md").read_text()
    explained = re.findall(r"^`(.*)`\n: ", page, re.MULTILINE)
    assert len(explained) > 20
    known = [*messages(), *vars(errors)]
    for message in explained:
        pieces = [piece for piece in message.split("…") if len(piece) > 3]
        assert any(all(piece in text for piece in pieces) for text in known), message


def test_every_error_is_explained() -> None:
    page = (REFERENCE / "error-messages.md").read_text()
    for name, thing in vars(errors).items():
        if isinstance(thing, type):
            assert page.count(name) >= 2, name


def test_pages_that_the_code_names_are_pages() -> None:
    """Those to be written too: the lists of the index have their final names."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {f"docs/{name}.md" for name in ["index", *re.findall(r"^([\w/-]+)$", index, re.MULTILINE)]}
    named = {f"docs/{page}" for page in PAGES_OF_GUIDE.values()}
    for path in Path(ss.__file__).parent.rglob("*.py"):
        named |= set(re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text(encoding="utf-8")))
    assert len(named) > 5
    assert named <= pages
