"""Every public name is on one page of the reference."""

import ast
import importlib
import inspect
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import streamsketch as ss
from streamsketch import beam, bounding, errors, jobs, local, parties, planning, signs, spark
from streamsketch.beam import streams
from streamsketch.cli._pages import PAGES as PAGES_OF_GUIDE
from streamsketch.projections.families import KINDS
from tests.cli.running import ROOT

FRAMEWORKS = ("streamsketch.integrations.flower.", "streamsketch.integrations.nvflare.")
PAGES = ROOT / "docs" / "reference" / "api"
# What folders of the package take from one another, and no user needs.
AMONG_US = {
    *("signs.Expected", "signs.FlipLaw", "signs.Method", "signs.Shape", "signs.Signs", "signs.cell_steps"),
    *("signs.check_comparable", "signs.check_flips", "signs.check_individual", "signs.check_signs"),
    *("signs.distances_between", "signs.expected", "signs.is_index", "signs.needs_norms", "signs.words_of"),
    *(
        "signs.SignProducts",
        "signs.SignPublisher",
        "signs.plain_products",
        "signs.shared_covariance",
        "signs.sign_products",
    ),
    *("beam.claim_path", "beam.streams.slot_of"),
    *("jobs.LogForm", "jobs.comparisons"),
    *("jobs.logs", "jobs.read_comparisons", "jobs.read_releases", "jobs.write"),
    *("local.all_fit", "local.implausible", "local.mechanism_from_fields", "local.step_exponent_of"),
}
ELSEWHERE = {"__version__", *(name for name in ss.__all__ if isinstance(getattr(ss, name), ModuleType))}


# These too, although an example shows what each does.
SHOWN_AMONG_US = {
    *("estimation.format_value", "estimation.quantile", "features.cosine_table", "projections.hadamard_transform"),
    *("release.check_release", "signs.FlipLaw", "signs.expected", "signs.sign_products"),
    *("storage.append_raw", "storage.is_raw", "storage.read_header", "storage.transaction"),
}


def documented() -> Counter[str]:
    """Return how often each name has a directive of its own; `make test-federated` has what frameworks need."""
    found: Counter[str] = Counter()
    for page in PAGES.glob("*.md"):
        module = ""
        for kind, name in re.findall(r"^\.\. ([\w:]+):: (\S+)$", page.read_text(), re.MULTILINE):
            if kind in ("py:module", "currentmodule"):
                module = name
            elif kind.startswith("auto") and kind != "autosummary":
                found[name if name.startswith("streamsketch.") else f"{module}.{name}"] += 1
    return Counter({name: count for name, count in found.items() if not name.startswith(FRAMEWORKS)})


def test_every_public_name_is_documented_once() -> None:
    found = documented()
    assert max(found.values()) == 1
    wanted = {f"streamsketch.{name}" for name in set(ss.__all__) - ELSEWHERE - set(vars(errors))}
    for folder in (beam, spark, streams, jobs, local, parties, signs, bounding, planning):
        inside = folder.__name__.removeprefix("streamsketch.")
        wanted |= {f"streamsketch.{inside}.{name}" for name in folder.__all__ if f"{inside}.{name}" not in AMONG_US}
    shown = {id(_thing(name)) for name in found}
    assert not {name for name in wanted if id(_thing(name)) not in shown}, "add it to a page of docs/reference/api"
    kinds = {f"streamsketch.projections.{kind.__name__}" for kind, _ in KINDS.values()}
    assert {name.replace(".projections", "") for name in kinds - set(found)} <= set(found)


def test_what_an_example_shows_to_users_is_documented() -> None:
    """In all folders that `ss` names: an estimator that only its folder lists is for users too."""
    found = {id(_thing(name)) for name in documented()} | {id(error) for error in vars(errors).values()}
    shown = set()
    for folder in sorted(name for name in ss.__all__ if isinstance(getattr(ss, name), ModuleType)):
        module = getattr(ss, folder)
        for name, thing in ((name, getattr(module, name)) for name in getattr(module, "__all__", ())):
            if not (inspect.isroutine(thing) or inspect.isclass(thing)):
                continue
            if "\nExamples\n" in inspect.cleandoc(thing.__doc__ or "") and id(thing) not in found:
                shown.add(f"{folder}.{name}")
    assert shown == SHOWN_AMONG_US, "add it to a page of docs/reference/api, or here if no user needs it"


def _thing(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_every_name_of_the_top_namespace_has_an_example() -> None:
    without = {name for name in set(ss.__all__) - ELSEWHERE if ">>> " not in (inspect.getdoc(getattr(ss, name)) or "")}
    without -= {name for name in without if not callable(getattr(ss, name))}  # numbers and types have no docstring
    assert not without


def test_what_is_documented_is_there() -> None:
    for name in documented():
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
    page = (PAGES.parent / "error-messages.md").read_text()
    explained = re.findall(r"^`(.*)`\n: ", page, re.MULTILINE)
    assert len(explained) > 20
    known = [*messages(), *vars(errors)]
    for message in explained:
        pieces = [piece for piece in message.split("…") if len(piece) > 3]
        assert any(all(piece in text for piece in pieces) for text in known), message


def test_every_error_is_explained() -> None:
    page = (PAGES.parent / "error-messages.md").read_text()
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
