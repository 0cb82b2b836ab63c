"""How to install: by paths of a clone, since no index has the package, and with extras that exist.

Once an index has the package, `BY_NAME` may go.
"""

import re
import tomllib
from collections.abc import Iterator

import pytest

from tests.cli.running import ROOT

BY_NAME = re.compile(
    r"(?:pip3? install|uv add|uvx|uv pip install)\b(?! --no-index)[^`&.]*?[ '\"](streamsketch(?:-reader)?)(?![\w./*-])"
)
"""A line that installs the package by its name from an index, where a stranger may register it."""
IN_BRACKETS = re.compile(r"(?:streamsketch|install ['\"]?\.|\.whl\)?)\[([a-z-]+(?:,[a-z-]+)*)\]")
IN_WORDS = re.compile(r"\bextras? ``?([a-z]+)``?(?: and ``?([a-z]+)``?)?")
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
PLACES = ("docs/**/*.md", "streamsketch/**/*.py", "pipelines/**/*.py", "changes/*.md", "README.md", "streamsketch/*.md")


def texts() -> Iterator[tuple[str, str]]:
    """Yield what users read: pages, docstrings and messages, without the breaks of lines."""
    for place in PLACES:
        for path in sorted(ROOT.glob(place)):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8").replace("\n", " ")


def extras_in(text: str) -> set[str]:
    """Return the extras that a text names."""
    found = {extra for listed in IN_BRACKETS.findall(text) for extra in listed.split(",")}
    return found | {extra for pair in IN_WORDS.findall(text) for extra in pair if extra}


def test_nothing_installs_the_package_by_a_name_that_no_index_has() -> None:
    assert {name: found for name, text in texts() if (found := BY_NAME.findall(text))} == {}


def test_extras_that_are_named_exist() -> None:
    gone = {"docs/how-to/upgrade.md": {"pictures", "ledger-postgres"}}
    found = {name: extras_in(text) - gone.get(name, set()) for name, text in texts()}
    assert {name: extras for name, extras in found.items() if not extras <= EXTRAS} == {}
    assert set().union(*found.values()) == EXTRAS, "each is on some page"


@pytest.mark.parametrize(
    ("text", "by_name", "extras"),
    [
        ("pip install 'streamsketch[beam,parties]'", True, {"beam", "parties"}),
        ("pip install streamsketch", True, set()),
        ("`pip install --upgrade streamsketch-reader`", True, set()),
        ("uv add streamsketch", True, set()),
        ("pip install '.[beam]' matplotlib", False, {"beam"}),
        ('pip install "$(ls /tmp/streamsketch-*.whl)[beam]"', False, {"beam"}),
        ("pip install ./reader` installs `streamsketch-reader`", False, set()),
        ("pip install . && streamsketch demo", False, set()),
        ("pip install --no-index --find-links wheels 'streamsketch[parties]'", False, {"parties"}),
        ("needs Apache Beam (the extra `beam` of streamsketch)", False, {"beam"}),
        ("the extras ``beam`` and ``streams``", False, {"beam", "streams"}),
    ],
)
def test_ways_to_install_are_found(text: str, *, by_name: bool, extras: set[str]) -> None:
    assert (bool(BY_NAME.findall(text)), extras_in(text)) == (by_name, extras)
