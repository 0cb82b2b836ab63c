"""The site: its extensions, on three pages of their own, and what the whole of it has for readers who search."""

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

import streamsketch as ss
from tests.cli.running import ROOT

EXTENSIONS = ("headings", "mathml", "names", "theory")
CONF = f"""
import sys
sys.path.insert(0, {str(ROOT / "docs" / "_ext")!r})
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", *{EXTENSIONS}]
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"
html_theme = "basic"
napoleon_google_docstring = False
autodoc_use_legacy_class_based = False
"""
API = """# Things

```{eval-rst}
.. autoclass:: tests.docs.toys.Toy
   :members:
```
"""
SUMS = """# 1. Sums

Of $\\|x\\|_2^2$, as section 1.1 has it (1.1), (1.4).

## 1.1 More
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
    assert re.search(r'href="#about-Toy">Toy</a><ul>\s*<li><a [^>]*href="#tests.docs.toys.Toy.size"', page)


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


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the documentation as `make docs` does, and return its folder."""
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
        assert page in {found["docnames"][document] for document, *_ in found["indexentries"][words]}, words


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
    assert (whole / "404.html").is_file()
