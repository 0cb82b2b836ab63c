"""A heading for every class and function of the reference.

Search and the list of contents then find them. What autodoc writes is left as it is, below the heading.
"""

from docutils import nodes
from sphinx.addnodes import desc, desc_signature, tabular_col_spec
from sphinx.application import Sphinx

FOLDER = "reference/api/"


def add(app: Sphinx, page: nodes.document) -> None:
    """Put each class and function that stands in a section into a section of its own."""
    if not app.env.current_document.docname.startswith(FOLDER):
        return
    for unseen in page.findall(tabular_col_spec):
        # a module's anchor, which Docutils moved to what follows it: a list of names, whose widths are not of HTML
        around = unseen.parent
        while not isinstance(around, nodes.section):
            around = around.parent
        around["ids"] += unseen["ids"]
        unseen["ids"] = []
    for thing in [each for each in page.findall(desc) if isinstance(each.parent, nodes.section)]:
        signature = next(thing.findall(desc_signature))
        name = signature["fullname"]
        section = nodes.section("", nodes.title("", name), ids=[f"about-{name}"], names=[])
        thing.replace_self(section)
        section.append(thing)
        signature["_toc_name"] = ""  # the heading is in the contents, and what the class has below it


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the headings before Sphinx collects the contents."""
    app.connect("doctree-read", add, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
