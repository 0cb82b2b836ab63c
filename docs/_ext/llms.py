"""``llms.txt`` and ``llms-full.txt``: the site for language models (https://llmstxt.org).

The first lists the pages with a sentence each. The second has the pages themselves, one after the other: the Markdown
that they are written in, and as plain text those that directives make of docstrings and of the command line's help.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import toctree
from sphinx.application import Sphinx
from sphinx.builders.text import TextBuilder
from sphinx.writers.text import TextTranslator

_LENGTH = 200  # of a description, in characters
_NO_SENTENCE = 20  # as "Ten minutes.", which describes nothing
_MADE = re.compile(r"^`{3}\{(?:commands|eval-rst|glossary|include|list-table|literalinclude)\}", re.MULTILINE)
# what is for Sphinx or for the tests alone
_MARKS = re.compile(r"^<!--.*?-->\n|^\{\.\w+\}\n|^`{3}\{toctree\}\n.*?^`{3}\n", re.MULTILINE | re.DOTALL)


def write(app: Sphinx, error: Exception | None) -> None:
    """Write both files beside the pages, in the order of the contents."""
    if error is not None or app.builder.format != "html":
        return
    start = app.config.root_doc
    root = app.env.get_doctree(start)
    lines = [f"# {app.config.project}", "", f"> {beginning_of(root)}", ""]
    full = [text_of(app, start)]
    for tree in root.findall(toctree):
        lines += [f"## {tree['caption']}" if tree["caption"] else "## Begin here", ""]
        for _, entry in tree["entries"]:
            for name in pages_from(app, entry):
                lines.append(listed(app, name))
                full.append(text_of(app, name))
        lines.append("")
    Path(app.outdir, "llms.txt").write_text("\n".join(lines), encoding="utf-8")
    Path(app.outdir, "llms-full.txt").write_text("\n".join(full), encoding="utf-8")


def pages_from(app: Sphinx, name: str) -> Iterator[str]:
    """Return a page, and those below it."""
    yield name
    for tree in app.env.get_doctree(name).findall(toctree):
        for _, below in tree["entries"]:
            yield from pages_from(app, below)


def address(app: Sphinx, name: str) -> str:
    """Return where a page is."""
    return f"{app.config.html_baseurl}{app.builder.get_target_uri(name)}"


def listed(app: Sphinx, name: str) -> str:
    """Return a line for a page."""
    said = beginning_of(app.env.get_doctree(name))
    return f"- [{app.env.titles[name].astext()}]({address(app, name)})" + (f": {said}" if said else "")


def beginning_of(page: nodes.document) -> str:
    """Return what a page's first paragraph says, as far as it is short."""
    for text in page.findall(nodes.paragraph):
        if isinstance(text.parent, nodes.section):
            sentences = re.split(r"(?<=[.:?!]) (?=[A-Z])", " ".join(text.astext().split()))
            while len(sentences) > 1 and len(sentences[0]) < _NO_SENTENCE:
                sentences.pop(0)
            found = sentences[0]
            for sentence in sentences[1:]:
                if len(found) + len(sentence) >= _LENGTH:
                    break
                found += f" {sentence}"
            return found.rstrip(":")
    return ""


def text_of(app: Sphinx, name: str) -> str:
    """Return a page as text, below its title and its address."""
    source = Path(app.env.doc2path(name)).read_text(encoding="utf-8")
    if _MADE.search(source):
        builder = TextBuilder(app, app.env)
        builder.init()
        page = app.env.get_and_resolve_doctree(name, builder)
        translator = TextTranslator(page, builder)
        page.walkabout(translator)
        body = translator.body.partition("\n\n")[2]  # without the title and its underline
        body = body.replace("****", "")  # between names that are bold one by one
    else:
        body = _MARKS.sub("", source).partition("\n")[2]
    return f"# {app.env.titles[name].astext()}\n\nSource: {address(app, name)}\n\n{body.strip()}\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the files when all pages are there."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
