"""Words that readers search for and pages do not use: each becomes an entry of the index, which the search consults.

A search for exactly such a word, or such words, then shows the page first.
"""

import tomllib
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import index
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.logging import getLogger

WORDS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""By page."""


class SearchWords(SphinxTransform):
    """Add a page's words to the index, before the domains collect it."""

    default_priority = 800

    def apply(self) -> None:
        """Add the words at the page's title."""
        words = WORDS.get(self.env.current_document.docname)
        if words is None:
            return
        page = next(self.document.findall(nodes.section))
        # the page itself and no place in it: the search would show it once more for its title
        entries = [("single", word, "", "main", None) for word in words]
        page.insert(1, index(entries=entries, inline=False))


def check(app: Sphinx) -> None:
    """Warn of words for a page that is not there."""
    for name in sorted(set(WORDS) - app.env.found_docs):
        getLogger(__name__).warning("there are search words for %s, which is no page", name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(SearchWords)
    app.connect("env-updated", lambda app, _env: check(app))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
