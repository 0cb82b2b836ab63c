"""Captions of tables: a paragraph that begins with ``Table:`` and follows a table, as GitHub shows it too."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_MARK = "Table: "


class Captions(SphinxTransform):
    """Move such paragraphs into the tables above them."""

    default_priority = 100

    def apply(self) -> None:
        """Give each table of a page the caption that follows it."""
        for table in self.document.findall(nodes.table):
            after = table.next_node(descend=False, siblings=True)
            if isinstance(after, nodes.paragraph) and after.astext().startswith(_MARK):
                after.parent.remove(after)
                first = after[0]
                after.replace(first, nodes.Text(first.astext().removeprefix(_MARK)))
                table.insert(0, nodes.title("", "", *after.children))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(Captions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
