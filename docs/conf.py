"""How Sphinx builds the documentation: ``make docs``, without a network."""

import hashlib
import logging
import os
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from sphinx.application import Sphinx

import streamsketch as ss  # the extensions beside this file go first

logging.getLogger().addHandler(logging.NullHandler())  # Beam tells what it does without

project = "streamsketch"
author = "The streamsketch developers"
project_copyright = "The streamsketch developers, Apache-2.0"
release = version = ss.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "accessible",
    "captions",
    "sphinx_copybutton",
    "commands",
    "headings",
    "llms",
    "mathml",
    "names",
    "notebooks",
    "search_words",
    "summaries",
    "theory",
    "two_themes",
]
exclude_patterns = ["_build", "_templates"]
nitpicky = True

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_dmath_allow_space = False  # $5 and $6 is money, which is why digits are allowed beside a formula
myst_heading_anchors = 4

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_mock_imports = ["flwr", "nvflare"]  # which have an environment of their own
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_use_legacy_class_based = False
autosummary_generate = False
napoleon_google_docstring = False
napoleon_attr_annotations = False  # types are in the signature
napoleon_use_param = False  # parameters that share a description stay together
napoleon_use_rtype = False
napoleon_use_admonition_for_examples = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

smartquotes = False  # what is quoted is often to be typed

html_theme = "furo"
html_title = f"streamsketch {release}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"priority": 200})]
templates_path = ["_templates"]
html_additional_pages = {"404": "404.html"}
# where the site and the repository are: known where they are published
html_baseurl = os.environ.get("STREAMSKETCH_SITE", "")
_project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
html_context = {
    "html_baseurl": html_baseurl,
    "repository": os.environ.get("STREAMSKETCH_REPOSITORY") or _project.get("urls", {}).get("Repository", ""),
}
html_extra_path = ["../streamsketch/report/viewer.html"]
html_copy_source = False
html_show_sourcelink = False
copybutton_selector = "div[class*=highlight-]:not(.highlight-text) pre"  # what is printed is not to be copied
copybutton_exclude = ".linenos, .gp, .go"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


extensions_digest = hashlib.sha256(
    b"".join(path.read_bytes() for path in sorted((Path(__file__).parent / "_ext").glob("*.*")))
).hexdigest()


def name_the_repository(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Complete the commands that clone the repository, where it is known."""
    source[0] = source[0].replace("git clone …", f"git clone {html_context['repository'] or '…'}")


def setup(app: Sphinx) -> None:
    """Read pages so."""
    app.connect("source-read", name_the_repository)
    # what extensions did to pages is done again when they change
    app.add_config_value("extensions_digest", "", "env", types=frozenset({str}))
