"""The site: its extensions, on three pages of their own, and what the whole of it has for readers who search."""

import json
import re
import runpy
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

import streamsketch as ss
from tests.cli.running import ROOT

EXTENSIONS = ("accessible", "captions", "headings", "mathml", "names", "summaries", "theory")
CONF = f"""
import sys
sys.path.insert(0, {str(ROOT / "docs" / "_ext")!r})
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", *{EXTENSIONS}]
autosummary_generate = False
myst_enable_extensions = ["dollarmath"]
python_maximum_signature_line_length = 20
html_math_renderer = "mathml"
html_theme = "basic"
napoleon_google_docstring = False
autodoc_use_legacy_class_based = False
"""
API = """# Things

They are toys.

```{eval-rst}
.. py:module:: tests.docs.toys

.. autoclass:: tests.docs.toys.Toy
   :members:

.. autodata:: tests.docs.toybox.Kind
```
"""
SUMS = """# 1. Sums

Of $\\|x\\|_2^2$, as section 1.1 has it (1.1), (1.4). It is large ($x > 4$), or $y$ is.

## 1.1 More

|  | $\\hat D_1$ | size |
| --- | --- | --- |
| here | 2 | $n$ |

*What is where*

| what | where |
| --- | --- |
| this | here |
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a site of three pages, and return the folder of its HTML."""
    source = tmp_path_factory.mktemp("source")
    pages = {
        "conf.py": CONF,
        "index.md": "# Site\n\n```{toctree}\nreference/api/things\nexplanation/theory/sums\n```\n",
        "reference/api/things.md": API,
        "explanation/theory/sums.md": SUMS,
    }
    for name, text in pages.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text, encoding="utf-8")
    before = list(sys.path)
    built, doctrees = source / "built", source / "doctrees"
    with patch_docutils(str(source)), docutils_namespace(), warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # napoleon and autodoc, between them
        warnings.simplefilter("ignore", DeprecationWarning)
        app = Sphinx(source, source, built, doctrees, "html", status=None, warningiserror=True)
        app.build()
    sys.path[:] = before
    return built


def test_what_a_property_returns_is_no_type(site: Path) -> None:
    """Napoleon takes "What: it is" in the first line for a type and a description."""
    page = (site / "reference" / "api" / "things.html").read_text(encoding="utf-8")
    assert "The size, in cells: how many there are." in re.sub(r"<[^>]+>", "", page)
    assert "Type<span" not in page


def test_a_class_has_a_heading_which_the_contents_list_with_its_members(site: Path) -> None:
    page = (site / "reference" / "api" / "things.html").read_text(encoding="utf-8")
    assert re.search(r"<h2>Toy<a", page)
    assert re.search(r'href="#about-Toy">Toy</a><ul>\s*<li><a [^>]*href="#tests.docs.toys.Toy.resize"', page)


def test_a_module_has_an_anchor_before_a_list_of_its_names(site: Path) -> None:
    page = (site / "reference" / "api" / "things.html").read_text(encoding="utf-8")
    assert page.count('id="module-tests.docs.toys"') == 1
    summary = re.search(r'<table class="autosummary.*?</table>', page, re.DOTALL)
    assert summary is not None
    assert re.findall(r'<span class="pre">([\w.]+)</span>', summary[0]) == ["Toy", "tests.docs.toybox.Kind"]


def test_sections_of_the_theory_are_links(site: Path) -> None:
    page = (site / "reference" / "api" / "things.html").read_text(encoding="utf-8")
    assert '../../explanation/theory/sums.html#theory-1-1"' in page
    page = (site / "explanation" / "theory" / "sums.html").read_text(encoding="utf-8")
    assert len(re.findall(r'<a [^>]*href="#theory-1-1"><span[^>]*>(section )?1.1</span></a>', page)) == 2
    assert "(1.4)" in page


def test_a_formula_is_mathml(site: Path) -> None:
    page = (site / "explanation" / "theory" / "sums.html").read_text(encoding="utf-8")
    assert "<msubsup><mo>‖</mo><mn>2</mn><mn>2</mn></msubsup></math>" in page
    assert "<script" not in page.partition("<article")[2].partition("</article")[0]


MATHML = runpy.run_path(str(ROOT / "docs" / "_ext" / "mathml.py"))
HAT, BAR, TILDE = "\u02c6", "\u02c9", "~"
LETTER = '<mover accent="true"><mi>{}</mi><mo stretchy="false">{}</mo></mover>'


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        (r"\hat x_1", f"<msub>{LETTER.format('x', HAT)}<mn>1</mn></msub>"),
        (r"\bar y_i", f"<msub>{LETTER.format('y', BAR)}<mi>i</mi></msub>"),
        (r"\tilde z_{i}", f"<msub>{LETTER.format('z', TILDE)}<mi>i</mi></msub>"),
        (r"\hat x", LETTER.format("x", HAT)),
    ],
)
def test_the_index_of_a_letter_with_an_accent_stands_at_its_side(latex: str, expected: str) -> None:
    assert f">{expected}</math>" in MATHML["translated"](nodes.math("", latex), as_block=False)


def test_limits_of_a_sum_stay_below_and_above_it() -> None:
    """Beside an accent, too, for which the formula is taken apart."""
    formula = MATHML["translated"](nodes.math_block("", r"\sum_{i=1}^n \hat x_i"), as_block=True)
    assert "<munderover><mo" in formula
    assert "∑</mo><mrow><mi>i</mi>" in formula
    assert formula.count("<msub><mover") == 1


def test_no_stop_or_parenthesis_is_alone_on_a_line(site: Path) -> None:
    page = (site / "explanation" / "theory" / "sums.html").read_text(encoding="utf-8")
    held = re.findall(r'<span class="with-formula">(.*?)</span>', page)
    assert [re.sub("<[^>]+>", "", one) for one in held] == ["‖x‖22,", "(x&gt;4),"]


def test_what_is_no_latex_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[object, ...]] = []
    logger = SimpleNamespace(warning=lambda *words, **_: said.append(words))
    monkeypatch.setitem(MATHML["translated"].__globals__, "getLogger", lambda _: logger)
    assert MATHML["translated"](nodes.math("", r"\nosuch x"), as_block=False) == ""
    assert said[0][1] == r"\nosuch x"


def test_parameters_on_lines_of_their_own_are_no_definitions(site: Path) -> None:
    page = (site / "reference" / "api" / "things.html").read_text(encoding="utf-8")
    assert len(re.findall(r'<dl role="presentation">\s*<dd><em class="sig-param">', page)) == 1
    assert not re.search(r'<dl>\s*<dd><em class="sig-param">', page)


def test_tables_have_no_empty_heads_and_formulas_as_heads_are_spoken(site: Path) -> None:
    page = (site / "explanation" / "theory" / "sums.html").read_text(encoding="utf-8")
    corner, formula, size, *_ = re.findall(r"<t[hd] class=\"head\">.*?</t[hd]>", page)
    assert corner == '<td class="head"></td>'
    assert size == '<th class="head"><p>size</p></th>'
    assert '<math aria-hidden="true" xmlns=' in formula
    assert formula.endswith(f'</math><span class="visually-hidden">D {HAT} 1</span></p></th>')
    assert "<td><p><math xmlns=" in page, "only heads are changed"


def test_an_empty_head_of_docutils_is_a_cell() -> None:
    """Its list-tables have no paragraph there, as tables of Markdown do."""
    context = {"body": '<th class="head"></th><th class="head"><p>size</p></th>'}
    runpy.run_path(str(ROOT / "docs" / "_ext" / "accessible.py"))["mend"](None, "index", "", context, None)
    assert context["body"] == '<td class="head"></td><th class="head"><p>size</p></th>'


def test_only_captions_that_a_page_has_are_seen(site: Path) -> None:
    page = (site / "explanation" / "theory" / "sums.html").read_text(encoding="utf-8")
    captions = re.findall(r"<caption( class=.*?)?><span class=.caption-text.>(.*?)</span>", page)
    assert captions == [(' class="visually-hidden"', "1.1 More"), ("", "What is where")]


def test_headings_of_the_navigation_have_a_level() -> None:
    context = {"furo_navigation_tree": '<p class="caption" role="heading"><span>Begin</span></p>'}
    runpy.run_path(str(ROOT / "docs" / "_ext" / "accessible.py"))["mend"](None, "genindex", "", context, None)
    assert context == {
        "furo_navigation_tree": '<p class="caption" role="heading" aria-level="2"><span>Begin</span></p>'
    }


def test_a_name_that_is_imported_keeps_the_words_of_its_definition(site: Path) -> None:
    page = (site / "reference" / "api" / "things.html").read_text(encoding="utf-8")
    assert "How large a toy is." in page


SOURCES = ("docs", "streamsketch", "pipelines", "changes", "CHANGELOG.md", "pyproject.toml")


def is_current(built: Path) -> bool:
    """Return whether a site is newer than all that it is built from."""
    index = built / "searchindex.js"
    files = [ROOT / name for name in SOURCES]
    files += [file for folder in files if folder.is_dir() for file in folder.rglob("*")]
    kinds = {".css", ".html", ".js", ".md", ".png", ".py", ".svg", ".toml"}
    return index.is_file() and all(
        file.stat().st_mtime < index.stat().st_mtime for file in files if file.suffix in kinds and file.is_file()
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the documentation that `make docs` built, or build it so where it is not or is older."""
    if is_current(ROOT / "out" / "site"):
        return ROOT / "out" / "site"
    built = tmp_path_factory.mktemp("whole")
    command = [sys.executable, "-m", "sphinx", "--builder", "html", "--fail-on-warning", "--keep-going", "--nitpicky"]
    done = subprocess.run(  # noqa: S603 - that is the test
        [*command, "--quiet", "docs", str(built)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return built


SEARCHED = {
    "install": "installation",
    "quickstart": "index",
    "gdpr": "privacy-officer",
    "how big": "how-to/choose-projection",
    "license": "index",
    "notebook": "tutorials/two-parties",
    "dendrogram": "how-to/report",
    "dedup": "how-to/protect-people",
    "pyspark": "how-to/spark",
    "snowflake": "how-to/warehouses",
}


def test_the_search_knows_the_words_that_readers_use(whole: Path) -> None:
    """An entry of the index that is the query comes first, as searchtools.js ranks results."""
    text = (whole / "searchindex.js").read_text(encoding="utf-8")
    found = json.loads(text.removeprefix("Search.setIndex(").rstrip().removesuffix(")"))
    for words, page in SEARCHED.items():
        entries = found["indexentries"][words]
        assert page in {found["docnames"][document] for document, *_ in entries}, words
        assert not any(place for _, place, _ in entries), f"{words}: the search shows the page and its title"


def test_every_page_has_its_version_and_no_broken_text(whole: Path) -> None:
    for path in whole.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        if path.name == "viewer.html":
            continue
        assert f"streamsketch {ss.__version__}" in page, path
        assert "Type<span" not in page, path
        assert not re.search(r'<(script|link|img)[^>]*(src|href)="(https?:)?//', page), f"{path} asks a network"


def test_language_models_get_a_list_of_pages_that_exist(whole: Path) -> None:
    listed = re.findall(r"^- \[.+?\]\((.+?)\)", (whole / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert "how-to/choose-projection.html" in listed
    assert all((whole / name).is_file() for name in listed)
    full = (whole / "llms-full.txt").read_text(encoding="utf-8")
    assert re.findall(r"^Source: (.+)$", full, re.MULTILINE) == ["index.html", *listed]
    assert "agreement = ss.agree(" in full, "pages are as they are written"
    assert "Return the exact, secret sketch of a table" in full, "docstrings are in their place"
    assert not re.search(r"^`{3}\{|^<!-- ", full, re.MULTILINE), "nothing is left of directives and marks"
    assert "****" not in full
    assert (whole / "404.html").is_file()


def test_no_formula_is_left_as_it_is_written(whole: Path) -> None:
    for path in whole.rglob("*.html"):
        page = re.sub(r"<(pre|script|style|code)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search(r"\$[^\s$<>][^$<>]*\$", page), path


class Links(HTMLParser):
    """What a page links to, and its anchors."""

    def __init__(self, path: Path) -> None:
        """Read the page."""
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, _tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note them."""
        for name, value in attributes:
            if name in {"href", "src"}:
                self.links.add(value or "")
            elif name in {"id", "name"} and value:
                self.anchors.add(value)


def broken(folder: Path) -> list[str]:
    """Return the links from pages to files and anchors that are not there."""
    pages = {path: Links(path) for path in folder.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            to = (path.parent / unquote(address.path)).resolve() if address.path else path
            anchor = unquote(address.fragment)
            if not to.is_file() or (anchor and to in pages and anchor not in pages[to].anchors):
                found.append(f"{path.relative_to(folder)}: {link}")
    return sorted(found)


def test_every_link_inside_the_site_works(whole: Path) -> None:
    assert broken(whole) == []


def test_links_to_nothing_are_found(tmp_path: Path) -> None:
    text = (
        '<h1 id="top">{}</h1><a href="#top"></a><a href="other.html#there"></a><a href="https://example.org/#no"></a>'
    )
    (tmp_path / "page.html").write_text(text + '<a href="other.html#gone"></a><img src="gone.png">', encoding="utf-8")
    (tmp_path / "other.html").write_text('<p id="there">', encoding="utf-8")
    assert broken(tmp_path) == ["page.html: gone.png", "page.html: other.html#gone"]


def test_tutorials_offer_the_notebooks_that_there_are(whole: Path) -> None:
    folder = whole / "tutorials"
    offered = {link for page in folder.glob("*.html") for link in Links(page).links if link.endswith(".ipynb")}
    assert {"two-parties.ipynb", "phones.ipynb", "hospitals.ipynb"} <= offered
    assert offered == {path.name for path in folder.glob("*.ipynb")}
