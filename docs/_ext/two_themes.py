"""Pictures with a light and a dark variant, written as GitHub understands them.

``<picture>`` with a ``<source media="(prefers-color-scheme: dark)" srcset=…>`` and an ``<img src=… alt=…>`` becomes two
images, of which the theme shows one. So its switch works, and Sphinx finds the files.
"""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.logging import getLogger

_PICTURE = re.compile(
    r'<picture>\s*<source media="[^"]*dark[^"]*" srcset="([^"]+)">\s*<img (.*?)>\s*</picture>', re.DOTALL
)


class TwoThemes(SphinxTransform):
    """Replace pictures by images, before Sphinx collects those."""

    default_priority = 100

    def apply(self) -> None:
        """Replace all pictures of a page."""
        for raw in list(self.document.findall(nodes.raw)):
            text = raw.astext().strip()
            if not text.startswith("<picture>"):
                continue
            found = _PICTURE.fullmatch(text)
            if found is None:
                getLogger(__name__).warning(
                    "a <picture> needs a source for dark and an img, each in a line", location=raw
                )
                continue
            light = dict(re.findall(r'(\w+)="([^"]*)"', found[2]))
            images = [
                nodes.image(uri=uri, alt=light["alt"], classes=[f"only-{theme}"])
                for uri, theme in ((light["src"], "light"), (found[1], "dark"))
            ]
            raw.replace_self(images)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(TwoThemes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
