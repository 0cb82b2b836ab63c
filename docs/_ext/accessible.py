"""What Sphinx and the theme write, as screen readers need it: axe-core's rules are the measure.

``site.js`` does the rest, which depends on the width of the window.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_CHANGES = (
    # parameters on lines of their own are no definitions
    ('<dl>\n<dd><em class="sig-param">', '<dl role="presentation">\n<dd><em class="sig-param">'),
    # the corner of a table heads nothing
    ('<th class="head"></th>', '<td class="head"></td>'),
    ('<th class="head"><p></p></th>', '<td class="head"></td>'),
)


_FORMULA_HEADS = re.compile(r'(?<=<th class="head">)<p><math( .*?</math>)</p>(?=</th>)')


def spoken(head: re.Match[str]) -> str:
    """Return the head of a column that is a formula with its symbols as text, for screen readers alone."""
    symbols = " ".join(re.sub(r"<[^>]+>", " ", f"<math{head[1]}").split())
    return f'<p><math aria-hidden="true"{head[1]}<span class="visually-hidden">{symbols}</span></p>'


def mend(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: nodes.document | None) -> None:
    """Change the body and the navigation of a page."""
    for before, after in _CHANGES if "body" in context else ():
        context["body"] = context["body"].replace(before, after)
    if "body" in context:
        context["body"] = _FORMULA_HEADS.sub(spoken, context["body"])
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Sphinx) -> dict[str, bool]:
    """Come after the theme."""
    app.connect("html-page-context", mend, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
