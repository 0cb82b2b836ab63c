"""Formulas as MathML, which browsers set themselves: no script, no font and no network.

Docutils translates the LaTeX. A formula that it cannot translate is a warning, which fails the build.
"""

import html
import re
from typing import Any
from xml.etree import ElementTree as ET

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

_NAMESPACE = "http://www.w3.org/1998/Math/MathML"
_ENTITIES = re.compile(r"&(?!amp;|lt;|gt;)\w+;")  # of HTML, which XML does not know
_ACCENTS = {"\u02c6", "\u02c9", "\u02dc", "~"}  # hat, bar, tilde


def inline(writer: Any, node: nodes.math) -> None:
    """Write a formula of a sentence."""
    writer.body.append(translated(node, as_block=False))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula that has a line of its own, which scrolls if it is too long."""
    writer.body.append(f'<div class="math">{translated(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def translated(node: nodes.math | nodes.math_block, *, as_block: bool) -> str:
    """Return a formula as MathML, on one line."""
    try:
        found = str(tex2mathml(node.astext(), as_block=as_block))
    except (MathError, AttributeError, IndexError) as error:
        getLogger(__name__).warning("no formula of LaTeX: %s (%s)", node.astext(), error, location=node)
        return ""
    return at_the_side("".join(line.strip() for line in found.splitlines()))


def at_the_side(formula: str) -> str:
    """Return a formula with the indices of letters that have an accent at their side: Docutils puts them below."""
    if "<munderover>" not in formula:
        return formula
    ET.register_namespace("", _NAMESPACE)
    tree = ET.fromstring(_ENTITIES.sub(lambda one: html.unescape(one[0]), formula))  # noqa: S314 - that is what docutils wrote
    for one in tree.iter(f"{{{_NAMESPACE}}}munderover"):
        letter, index, accent = one
        if accent.text in _ACCENTS:
            one.tag = f"{{{_NAMESPACE}}}msub"
            one[:] = [ET.Element(f"{{{_NAMESPACE}}}mover", accent="true"), index]
            one[0].extend([letter, accent])
    return ET.tostring(tree, encoding="unicode")


_FORMULA = re.compile(r"([^\s<>]*)(<math .*?</math>)([^\s<>]*)")


def keep(found: re.Match[str]) -> str:
    """Return a formula with the parentheses and stops at its sides, from which browsers would break the line."""
    return f'<span class="with-formula">{found[0]}</span>' if found[1] or found[3] else found[0]


def hold(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: nodes.document | None) -> None:
    """Keep formulas of a page together with what touches them."""
    if "body" in context:
        context["body"] = _FORMULA.sub(keep, context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.connect("html-page-context", hold, priority=950)  # after what looks for formulas that are heads of tables
    return {"parallel_read_safe": True, "parallel_write_safe": True}
