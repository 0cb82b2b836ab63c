"""Tutorials as notebooks: a page whose code is all Python can be downloaded as a notebook that runs as the page does.

Notebooks are made while the site is built, from the same blocks that the tests run, so they are never behind the pages.
Outputs are those that the page shows. A block that is to fail has the tag ``raises-exception``, with which Jupyter goes
on to the next one.
"""

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

FOLDER = "tutorials/"
_BLOCK = re.compile(r"(?:^<!-- ([a-z ]+)(?:: .*?)? -->\n)?^(`{3,})(\w+)\n(.*?)^\2$", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"<picture>.*?</picture>\n*", re.DOTALL)
_LINK = re.compile(r"\[([^]]+)\]\((?!https?:)([^)]+)\)")

START = """# The data are in the repository: run this notebook in a clone.
import os
from pathlib import Path

found = [folder for folder in (Path.cwd(), *Path.cwd().parents) if (folder / "pipelines" / "data").is_dir()]
if not found:
    raise SystemExit("Put this notebook into a clone of streamsketch: it reads pipelines/data there.")
os.chdir(found[0])
"""


def notebook(page: str) -> dict[str, Any] | None:
    """Return a page in Markdown as a notebook, or None if a block is neither Python nor what it prints."""
    if {language for _, _, language, _ in _BLOCK.findall(page)} != {"python", "text"}:
        return None
    cells = [code(START, len("start"))]
    end = 0
    for block in _BLOCK.finditer(page):
        cells += words(page[end : block.start()], block.start())
        end = block.end()
        mark, _, language, text = block.groups()
        if language == "python":
            cells.append(code(text, block.start()))
            cells[-1]["metadata"] = {"tags": ["raises-exception"]} if mark == "fails" else {}
        elif mark == "part" or cells[-1]["cell_type"] != "code":
            cells += words(block[0].partition("\n")[2] if mark else block[0], block.end())
        else:
            cells[-1]["outputs"] = [printed(text, fails=bool(cells[-1]["metadata"]))]
    cells += words(page[end:], len(page))
    cells.insert(1, cells.pop(0))  # below the title
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def code(text: str, place: int) -> dict[str, Any]:
    """Return a cell of code."""
    kind: dict[str, Any] = {
        "cell_type": "code",
        "id": f"code-{place}",
        "metadata": {},
        "execution_count": None,
        "outputs": [],
    }
    return {**kind, "source": text.rstrip("\n")}


def words(text: str, place: int) -> list[dict[str, Any]]:
    """Return a cell of Markdown, if there is anything to read: without pictures and links to other pages."""
    said = _LINK.sub(r"\1", _PICTURE.sub("", text)).strip()
    return [{"cell_type": "markdown", "id": f"words-{place}", "metadata": {}, "source": said}] if said else []


def printed(text: str, *, fails: bool) -> dict[str, Any]:
    """Return what a block prints, or the error in which it ends."""
    if fails:
        name, _, message = text.strip().partition(": ")
        return {"output_type": "error", "ename": name, "evalue": message, "traceback": [text.strip()]}
    return {"output_type": "stream", "name": "stdout", "text": text}


def offer(app: Sphinx, page: nodes.document) -> None:
    """Put a link to its notebook under the title of a tutorial that has one."""
    name = app.env.current_document.docname
    if not name.startswith(FOLDER) or notebook(app.env.doc2path(name).read_text(encoding="utf-8")) is None:
        return
    link = f'<a href="{name.rpartition("/")[2]}.ipynb" download>Download this page as a notebook</a>'
    next(page.findall(nodes.section)).insert(1, nodes.raw("", f'<p class="notebook">{link}</p>', format="html"))


def write(app: Sphinx, error: Exception | None) -> None:
    """Write the notebooks beside their pages."""
    if error is not None or app.builder.format != "html":
        return
    for name in sorted(each for each in app.env.found_docs if each.startswith(FOLDER)):
        made = notebook(app.env.doc2path(name).read_text(encoding="utf-8"))
        if made is not None:
            path = Path(app.outdir, f"{name}.ipynb")
            path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the notebooks on their pages, and write them when all pages are there."""
    app.connect("doctree-read", offer)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
