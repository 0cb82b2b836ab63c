"""A caption for every table: Markdown has none of its own.

A paragraph in italics before a table is its caption. Otherwise it is the section's title, with the first column's
where a section has several tables: for screen readers alone, as everybody else sees the title above the table.
"""

from docutils import nodes
from sphinx.application import Sphinx


def add(_app: Sphinx, page: nodes.document) -> None:
    """Give tables without a title one."""
    seen: set[str] = set()
    for table in list(page.findall(nodes.table)):
        if table.children and isinstance(table[0], nodes.title):
            continue
        classes = ["visually-hidden"]
        before = table.parent[table.parent.index(table) - 1] if table.parent.index(table) else None
        if isinstance(before, nodes.paragraph) and len(before) == 1 and isinstance(before[0], nodes.emphasis):
            caption, classes = before.astext(), []
            before.parent.remove(before)
        elif "autosummary" in table["classes"]:
            caption = "On this page"
        else:
            caption = section_of(table)
            if caption in seen:
                caption += f": {next(iter(table.findall(nodes.entry))).astext()}"
            seen.add(caption)
        table.insert(0, nodes.title("", caption, classes=classes))
        page.set_id(table)


def section_of(node: nodes.Element) -> str:
    """Return the title of the section that a node is in."""
    while not isinstance(node, nodes.section):
        node = node.parent
    return node[0].astext()


def setup(app: Sphinx) -> dict[str, bool]:
    """Caption the tables of each page that was read."""
    app.connect("doctree-read", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
