"""guide: pages of the documentation in the terminal."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from streamsketch.cli import guide as guide_module
from streamsketch.cli._pages import PAGES
from tests.cli.running import ROOT, Forks
from tests.cli.test_help import COMMANDS, GROUPS, help_at

SITE = re.compile(r"^<!--|^\(\w+\)=|\]\((?!http)[\w./#-]+\)|^```\{|\{[a-z]+\}`|!\[", re.MULTILINE)


@pytest.mark.parametrize("topic", PAGES)
def test_a_page_is_its_text_without_what_is_for_the_site(topic: str, forks: Forks, tmp_path: Path) -> None:
    shown = forks.succeeded("guide", topic, cwd=tmp_path)
    page = (ROOT / "docs" / PAGES[topic]).read_text()
    assert shown.splitlines()[0] == page.splitlines()[0]
    assert len(shown) > 0.8 * len(page), "little is left out"
    assert not SITE.search(shown)
    assert json.loads(forks.succeeded("guide", topic, "--json", cwd=tmp_path))["text"] == shown.strip()


def test_a_terminal_gets_lines_of_its_width_and_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(guide_module, "terminal_width", lambda: 80)
    guide_module.guide("choose-method")
    lines = capsys.readouterr().out.splitlines()
    assert 70 < max(map(len, lines)) <= 80
    assert not any(line.startswith("|") for line in lines)


def test_links_name_the_topics_to_which_they_lead(forks: Forks, tmp_path: Path) -> None:
    shown = forks.succeeded("guide", "choose-method", cwd=tmp_path)
    assert "| find what is alike (`streamsketch guide alike`) |" in shown
    assert "| a mean from phones |" in shown, "a page that is not installed"


def test_all_pages_are_listed_and_others_suggested(forks: Forks, tmp_path: Path) -> None:
    listed = json.loads(forks.succeeded("guide", "--json", cwd=tmp_path))
    assert [row["topic"] for row in listed] == list(PAGES)
    assert all(row["title"] for row in listed)
    said = forks.refused("guide", "legder", cwd=tmp_path)
    assert said == "error: there is no page legder. Did you mean ledger? `streamsketch guide` lists all\n"
    said = forks.refused("guide", "xyz", cwd=tmp_path)
    assert said == "error: there is no page xyz. `streamsketch guide` lists all\n"


@pytest.mark.parametrize("path", [*GROUPS, *COMMANDS])
def test_help_names_a_page_that_is_installed(path: str) -> None:
    said, _, topic = help_at(path).more.rpartition(" ")
    assert said == "More: streamsketch guide"
    assert topic in PAGES


def test_the_wheel_has_the_pages() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert built["force-include"] == {f"docs/{page}": f"streamsketch/pages/{page}" for page in PAGES.values()}
