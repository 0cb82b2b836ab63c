"""Every block of every page of the documentation runs, in order, and prints what the page says."""

import re
import shutil
from pathlib import Path

import pytest

import streamsketch as ss
from tests.commands.running import ROOT, Forks
from tests.docs.pages import Reader, blocks_of

DOCS = ROOT / "docs"
LANGUAGES = {
    "python",
    "pycon",
    "sh",
    "text",
    "json",
    "csv",
    "sql",
    "toml",
    "yaml",
    "xml",
    "java",
    "go",
    "c",
    "javascript",
    "Dockerfile",
}
PAGES = {str(page.relative_to(DOCS)): page for page in sorted(DOCS.rglob("*.md"))}
WITH_CODE = {name: blocks for name, page in PAGES.items() if (blocks := blocks_of(page))}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder of its own with the data that pages read."""
    (tmp_path / "pipelines").mkdir()
    shutil.copytree(ROOT / "pipelines" / "data", tmp_path / "pipelines" / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", [name for name in WITH_CODE if name != "tutorials/customers.md"])
def test_the_blocks_of_a_page_run(name: str, forks: Forks) -> None:
    reader = Reader(PAGES[name], forks)
    for block in WITH_CODE[name]:
        reader.read(block)


def test_the_customers_of_two_sellers(folder: Path, forks: Forks) -> None:
    """What the page tells of its numbers: cosines within five standard errors, so one run in a million fails."""
    reader = Reader(PAGES["tutorials/customers.md"], forks)
    for block in WITH_CODE["tutorials/customers.md"]:
        reader.read(block)
    cosines, refused, row, warned = reader.said[-5], *reader.said[-3:]
    found = [(float(value), float(error)) for value, error in re.findall(r": (-?\d\.\d\d) ± (\d\.\d\d)", cosines)]
    for (value, error), truth in zip(found, [0.95, 0.93, 0.06], strict=True):
        assert abs(value - truth) < 5 * error + 0.05, (value, error, truth)
        assert error < 0.2
    assert refused.startswith("the agreements differ")
    assert "in row 1 a value that is no integer" in row
    assert warned == "BoundExceededWarning\n"
    assert (folder / "report.html").stat().st_size > 10_000
    assert isinstance(ss.load("web.parquet"), ss.PrivateTable)


def test_code_is_in_languages_that_are_checked() -> None:
    for name, blocks in WITH_CODE.items():
        assert {block.language for block in blocks} <= LANGUAGES, name
