"""The pages on paper: a browser prints them, and every number and word of them is in the PDF, in colour."""

import io
import json
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pypdf
import pytest

import streamsketch as ss
from streamsketch.features import Category, Features, Number
from streamsketch.report import federation_of, page_of, page_of_federation, viewer_page
from streamsketch.report.differences import Dictionary
from tests.chromium import Chromium
from tests.noise import drawn_once
from tests.report import test_federation
from tests.report.test_browser import BROWSER, DRAWN, PROJECTION, READY, shops, weeks

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on the PATH to print the report with")

WIDE = Features({"age": Number(0, 100), "ward": Category([f"ward {n}" for n in range(14)])}, seed=7)


class Shown(HTMLParser):
    """The text of a page: without scripts, styles, titles of pictures, and what only a pointer shows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self._hidden: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        classes = (found.get("class") or "").split()
        hides = tag in ("script", "style", "title", "desc", "label") or {"tip", "with-script", "large"} & set(classes)
        if hides or self._hidden:
            self._hidden += [tag] if tag not in ("meta", "input", "img") else []

    def handle_endtag(self, _tag: str) -> None:
        if self._hidden:
            self._hidden.pop()

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text.append(data)


def printed(folder: Path, page: str, script: str = "", until: str = READY) -> pypdf.PdfReader:
    """Print a page once something is so, of what it does by itself or by a script."""
    (folder / "page.html").write_text(page, encoding="utf-8")
    with Chromium(folder) as tab:
        tab.show((folder / "page.html").as_uri())
        tab.run(script)
        tab.until(until)
        tab.run(DRAWN)
        return pypdf.PdfReader(io.BytesIO(tab.pdf()))


def text_of(paper: pypdf.PdfReader) -> str:
    """Return all text of a PDF, with letters in place of ligatures."""
    return unicodedata.normalize("NFKC", " ".join(page.extract_text() for page in paper.pages))


def numbers(text: str) -> Counter[str]:
    """Return the numbers in a text; a line may end anywhere in a long word, but not in a number."""
    return Counter(re.findall(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?", text))


def hospitals() -> str:
    """Return the page of a federation of more columns than a sheet of paper is wide."""
    agreement = ss.agree(test_federation.SCHEMA.remove(3), features=WIDE, unit="patient_id")
    random = np.random.default_rng(36)
    found = {}
    for name, age in (("north", 40), ("south", 40), ("west", 40), ("old", 60)):
        rows = {
            "patient_id": random.integers(1 << 60, size=3000),
            "age": random.normal(age, 10, 3000),
            "ward": [f"ward {n}" for n in random.integers(14, size=3000)],
        }
        sums = ss.bound(pa.table(rows, schema=test_federation.SCHEMA.remove(3)), agreement)
        assert isinstance(sums, ss.Sketch)
        found[name] = sums.release(epsilon=2.0, delta=1e-6, neighbours=agreement.neighbours)
    with pytest.MonkeyPatch.context() as patch:
        test_federation.rough(patch)
        federation = federation_of(found, agreement)
        return page_of_federation(federation, title="Hospitals")


def differences() -> str:
    """Return the page of distances of four streams and the items in which they differ."""
    random = np.random.default_rng(3)
    found = {}
    for name in ("north", "south", "east", "west"):
        sketch = PROJECTION.sketch()
        sketch.update(np.arange(60), random.poisson(300, 60))
        found[name] = sketch.release(epsilon=1.0, neighbours=ss.L1(1, unit="sale"))
    return page_of(found, title="Four", by="distance", why=Dictionary(np.arange(60)))


PAGES: dict[str, Callable[[], str]] = {
    "16 shops": lambda: shops(16),
    "60 shops": lambda: shops(60),
    "weeks": weeks,
    "differences": differences,
    "hospitals": hospitals,
}


@drawn_once
def on_paper(which: str) -> tuple[str, pypdf.PdfReader]:
    """Return a page, and what a browser prints of it."""
    page = PAGES[which]()
    with tempfile.TemporaryDirectory() as folder:
        return page, printed(Path(folder), page)


@pytest.mark.parametrize("which", PAGES)
def test_every_number_and_word_of_a_page_is_on_paper(which: str) -> None:
    page, paper = on_paper(which)
    shown = " ".join(Shown(page[page.index("<body>") :]).text)
    found = text_of(paper)
    lost = numbers(shown) - numbers(found)
    # the cells of a heat map have no numbers where these do not fit, and a table has them all
    assert not {number for number in lost if number not in numbers(found)}, lost
    assert sum(lost.values()) <= 0.02 * sum(numbers(shown).values()), lost
    words = set(re.findall(r"[^\W\d_]{3,}", found))
    assert set(re.findall(r"[^\W\d_]{3,}", shown)) <= words


def test_tables_have_their_heads_on_every_sheet() -> None:
    _, paper = on_paper("16 shops")
    sheets = [page.extract_text() for page in paper.pages]
    rows = re.compile(r"shop \d\d\s+shop \d\d\s+-?\d\.\d+")
    with_rows = [sheet for sheet in sheets if len(rows.findall(sheet)) > 5]
    assert len(with_rows) > 2
    assert all("± s.e." in sheet and "95" in sheet for sheet in with_rows)


@pytest.mark.parametrize("which", ["16 shops", "hospitals"])
def test_colours_are_on_paper(which: str) -> None:
    _, paper = on_paper(which)
    drawn = b"".join(page.get_contents().get_data() for page in paper.pages if page.get_contents() is not None)  # type: ignore[union-attr]
    fills = {tuple(map(float, found)) for found in re.findall(rb"([\d.]+) ([\d.]+) ([\d.]+) rg", drawn)}
    coloured = {fill for fill in fills if max(fill) - min(fill) > 0.2}
    assert len(coloured) >= (8 if which == "16 shops" else 2), fills  # a heat map has many colours
    # a browser with a window leaves out the colours of backgrounds unless the page asks for them
    style = PAGES[which]().partition("</style>")[0]
    assert "print-color-adjust: exact" in style[style.index("@media print") :]


def test_the_viewer_prints_the_pairs_and_guarantees_of_what_was_dropped(tmp_path: Path) -> None:
    cases = json.loads((Path(__file__).parents[2] / "web/tests/page.json").read_text("utf-8"))["cases"]
    case = next(one for one in cases if one["name"] == "groups")
    drop = """
      const files = new DataTransfer();
      for (const [name, text] of Object.entries(%s)) {
        const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
        files.items.add(new File([bytes], name + ".sketch"));
      }
      document.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
    """
    paper = printed(tmp_path, viewer_page(), drop % json.dumps(case["releases"]), "document.querySelector('.vt-box')")
    found = text_of(paper)
    assert case["facts"]["answer"] in " ".join(found.split())
    names = case["facts"]["names"]
    pairs = len(names) * (len(names) - 1) // 2
    table = found[found.index("95 % interval, all at once") :]
    assert len(re.findall(r"shop \d+\s+shop \d+\s+-?\d\.\d+", table)) == pairs
    assert "What is guaranteed" in found
    flat = " ".join(found.split())
    assert (
        "Whether the data of one sale are in a release or not changes the probability of anything on this page" in flat
    )
    assert "Asserted, not checked: one sale adds at most 1. The guarantee depends on it." in flat
    assert "% of the differences between the streams" in flat
    assert "Squared norms" in found
    assert "Drop" not in found
