"""The theory pages are numbered without a gap, and every section that is cited anywhere exists."""

import re
from itertools import pairwise

from tests.cli.running import ROOT

THEORY = ROOT / "docs" / "explanation" / "theory"
_TITLE = re.compile(r"^(#+) (\d+)(?:\.(\d+))?\.? (.+)$", re.MULTILINE)
_CITED = re.compile(r"\bTheory\s+(?:#\s+)?(\d+(?:\.\d+)?)((?:(?:,| and|, and) \d+(?:\.\d+)?)*)")


def titles() -> list[tuple[int, int]]:
    """Return the sections' numbers in the order of the pages, (4, 2) of 4.2 and (4, 0) of 4."""
    index = (THEORY / "index.md").read_text(encoding="utf-8")
    pages = re.search(r"```{toctree}\n(.*?)```", index, re.DOTALL)
    assert pages is not None
    names = [word for word in pages[1].split() if not word.startswith(":")]
    assert {"index", *names} == {page.stem for page in THEORY.glob("*.md")}
    found = []
    for name in names:
        page = (THEORY / f"{name}.md").read_text(encoding="utf-8")
        for level, chapter, section, _ in _TITLE.findall(page):
            assert len(level) == (2 if section else 1), (name, chapter, section)
            found.append((int(chapter), int(section or 0)))
    return found


def test_sections_are_numbered_one_after_the_other() -> None:
    numbers = titles()
    assert numbers[0] == (1, 0)
    for before, after in pairwise(numbers):
        assert after in ((before[0], before[1] + 1), (before[0] + 1, 0))


def test_every_section_that_is_cited_exists() -> None:
    known = {f"{chapter}.{section}" if section else f"{chapter}" for chapter, section in titles()}
    cited = set()
    folders = ("streamsketch", "docs", "tests", "benchmarks", "pipelines")
    paths = [path for folder in folders for kind in ("*.py", "*.md") for path in (ROOT / folder).rglob(kind)]
    for path in [*paths, *ROOT.glob("*.md")]:
        text = path.read_text(encoding="utf-8")
        assert "THEORY" + ".md" not in text, f"{path} cites a file that is not there: write Theory 4.2"
        for first, others in _CITED.findall(text):
            numbers = {first, *re.findall(r"\d+(?:\.\d+)?", others)}
            assert numbers <= known, (path, numbers)
            cited |= numbers
    assert len(cited) > 30


def test_the_code_and_the_tests_that_the_pages_name_exist() -> None:
    named = set()
    for page in THEORY.glob("*.md"):
        named |= set(
            re.findall(r"`((?:streamsketch|tests|benchmarks)/[\w/]+(?:\.py)?)`", page.read_text(encoding="utf-8"))
        )
    assert len(named) > 100
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
