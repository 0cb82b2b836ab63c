"""Numbered sections of the theory pages: "Theory 4.2", on any page and in any docstring, is a link to that section.

The titles carry the numbers. Each section gets the anchor ``theory-4-2``. On the theory pages themselves "section 4.2"
and "(4.2)" are links as well.
"""

import functools
import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

FOLDER = "explanation/theory/"
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\.? ")
_CITED = re.compile(r"\bTheory (\d+(?:\.\d+)?)")
_CITED_INSIDE = re.compile(r"\bTheory (\d+(?:\.\d+)?)|\bsections? (\d+(?:\.\d+)?)|(?<=\()(\d+\.\d)(?=[),;])")
_PLAIN = (nodes.literal, nodes.FixedTextElement, nodes.reference, nodes.title, nodes.math, pending_xref)


def anchor(number: str) -> str:
    """Return the anchor of a section: of "4.2" it is ``theory-4-2``."""
    return f"theory-{number.replace('.', '-')}"


def label(app: Sphinx, page: nodes.document) -> None:
    """Register each numbered section of a theory page as a target."""
    name = app.env.current_document.docname
    if not name.startswith(FOLDER):
        return
    for section in page.findall(nodes.section):
        title = section[0].astext()
        if number := _NUMBER.match(title):
            place = anchor(number[1])
            section["ids"].insert(0, place)
            app.env.domains.standard_domain.labels[place] = (name, place, title)
            app.env.domains.standard_domain.anonlabels[place] = (name, place)


@functools.lru_cache(maxsize=1)
def numbers(folder: Path) -> set[str]:
    """Return the numbers of all sections."""
    titles = re.compile(r"^#+ (\d+(?:\.\d+)?)\.? ", re.MULTILINE)
    return {number for page in folder.glob("*.md") for number in titles.findall(page.read_text(encoding="utf-8"))}


def around_of(node: nodes.Node) -> Iterator[nodes.Node]:
    """Return what a node is in, from the inside."""
    while node.parent is not None:
        node = node.parent
        yield node


def link(app: Sphinx, page: nodes.document) -> None:
    """Make links of the sections that a page cites."""
    name = app.env.current_document.docname
    cited = _CITED_INSIDE if name.startswith(FOLDER) else _CITED
    for text in list(page.findall(nodes.Text)):
        if not cited.search(text) or any(isinstance(around, _PLAIN) for around in around_of(text)):
            continue
        found: list[nodes.Node] = []
        end = 0
        for match in cited.finditer(text):
            if match[0][0].isdigit() and match[0] not in numbers(app.srcdir / FOLDER):
                continue  # some number in parentheses
            found.append(nodes.Text(text[end : match.start()]))
            place = anchor(next(filter(None, match.groups())))
            to = {"refdomain": "std", "reftype": "ref", "reftarget": place, "refdoc": name}
            found.append(pending_xref("", nodes.inline("", match[0]), refexplicit=True, refwarn=True, **to))
            end = match.end()
        text.parent.replace(text, [*found, nodes.Text(text[end:])])


def setup(app: Sphinx) -> dict[str, bool]:
    """Label and link the sections of each page that was read."""
    app.connect("doctree-read", label)
    app.connect("doctree-read", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
