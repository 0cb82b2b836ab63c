"""``llms.txt``: the pages of the site with a sentence each, for language models (https://llmstxt.org)."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import toctree
from sphinx.application import Sphinx

_LENGTH = 200  # of a description, in characters


def write(app: Sphinx, error: Exception | None) -> None:
    """Write the list beside the pages, in the order of the contents."""
    if error is not None or app.builder.format != "html":
        return
    root = app.env.get_doctree(app.config.root_doc)
    lines = [f"# {app.config.project}", "", f"> {beginning_of(root)}", ""]
    for tree in root.findall(toctree):
        lines += [f"## {tree['caption']}" if tree["caption"] else "## Begin here", ""]
        lines += [line for _, name in tree["entries"] for line in listed(app, name)] + [""]
    Path(app.outdir, "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def listed(app: Sphinx, name: str) -> list[str]:
    """Return a line for a page, and for each below it."""
    page = app.env.get_doctree(name)
    url = f"{app.config.html_baseurl}{app.builder.get_target_uri(name)}"
    said = beginning_of(page)
    found = [f"- [{app.env.titles[name].astext()}]({url})" + (f": {said}" if said else "")]
    for tree in page.findall(toctree):
        found += [line for _, below in tree["entries"] for line in listed(app, below)]
    return found


def beginning_of(page: nodes.document) -> str:
    """Return what a page's first paragraph says, as far as it is short."""
    for text in page.findall(nodes.paragraph):
        if isinstance(text.parent, nodes.section):
            sentences = re.split(r"(?<=[.:?!]) (?=[A-Z])", " ".join(text.astext().split()))
            found = sentences[0]
            for sentence in sentences[1:]:
                if len(found) + len(sentence) >= _LENGTH:
                    break
                found += f" {sentence}"
            return found.rstrip(":")
    return ""


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the list when all pages are there."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
