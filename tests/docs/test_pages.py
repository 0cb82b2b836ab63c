"""Every block of every page of the documentation runs, in order, and prints what the page says."""

import shutil
from pathlib import Path

import pytest

from tests.cli.running import ROOT, Forks
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
@pytest.mark.parametrize("name", [name for name in WITH_CODE if not name.startswith("tutorials/")])
def test_the_blocks_of_a_page_run(name: str, forks: Forks) -> None:
    if name == "how-to/spark.md":
        pytest.importorskip("pyspark", reason="Spark has an environment of its own (make test-spark)")
    reader = Reader(PAGES[name], forks)
    for block in WITH_CODE[name]:
        reader.read(block)


def test_code_is_in_languages_that_are_checked() -> None:
    for name, blocks in WITH_CODE.items():
        assert {block.language for block in blocks} <= LANGUAGES, name
