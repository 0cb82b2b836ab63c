"""References to names of streamsketch: `Sketch.release` finds its page from any docstring."""

import functools
import re
import sys
from collections import defaultdict
from pkgutil import resolve_name
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.nodes import make_refnode


@functools.lru_cache(maxsize=1)
def _by_ending(names: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the full names that end in each name: of ``streamsketch.Sketch.release`` also ``release``."""
    found: dict[str, list[str]] = defaultdict(list)
    for full in names:
        parts = full.split(".")
        for first in range(len(parts)):
            found[".".join(parts[first:])].append(full)
    return found


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, inside: nodes.Element) -> Any:
    """Return a reference to the name that is meant.

    What is not documented, being internal or another library's, stays plain text. A name of the package, or of a
    class that is documented, which does not exist gives None: an error of the build.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].removesuffix("()")
    endings = _by_ending(tuple(env.domains.python_domain.objects))
    full = endings.get(target) or endings.get(target.split(".")[-1] if node["reftype"] == "class" else "")
    if full:
        place = env.domains.python_domain.objects[min(full, key=lambda each: (each.count("."), each))]
        return make_refnode(app.builder, node["refdoc"], place.docname, place.node_id, inside, target)
    if target.startswith("streamsketch."):
        return inside if exists(target) else None
    owner = endings.get(target.rpartition(".")[0])
    return None if owner and not exists(f"{owner[0]}.{target.rpartition('.')[2]}") else inside


def exists(name: str) -> bool:
    """Return whether Python finds a full name, or a type checker an annotated field of a class."""
    try:
        resolve_name(name)
    except (AttributeError, ImportError):
        owner, _, field = name.rpartition(".")
        return bool(owner) and field in getattr(resolve_name(owner), "__annotations__", {})
    return True


def words_of(name: str, thing: Any) -> list[str]:
    """Return the words below the definition of a constant or an alias, in whichever module that is."""
    last = name.rpartition(".")[2]
    for module in [each for each in sys.modules if each.startswith(f"{name.partition('.')[0]}.")]:
        if vars(sys.modules[module]).get(last) is thing:
            found = ModuleAnalyzer.for_module(module).find_attr_docs().get(("", last))
            if found:
                return list(found)
    return []


_PAGES = {"WIRE.md": "reference/wire"}


def escape(app: Sphinx, what: str, full: str, thing: Any, _options: Any, lines: list[str]) -> None:
    """Let docstrings be what they are for a reader of the source: |value| is no substitution, a page is a link."""

    def link(page: re.Match[str]) -> str:
        name = _PAGES.get(page[0], page[0].removeprefix("docs/").removesuffix(".md"))
        return f":doc:`{page[0]} </{name}>`" if name in app.env.found_docs else page[0]

    if what == "data":
        lines[:] = words_of(full, thing) or lines  # instead of those of its type
    for place, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``.*?``)", line)
            parts[::2] = [re.sub(r"(?<!\\)\|", r"\|", part) for part in parts[::2]]
            parts[::2] = [re.sub(r"\b(WIRE|docs/[\w/-]+)\.md\b", link, part) for part in parts[::2]]
            lines[place] = "".join(parts)
    if what in {"attribute", "data", "property"}:
        # Napoleon takes the words before a colon in the first line for a type. This line is nothing on the page.
        lines.insert(0, "\\")


def readable(
    _app: Sphinx, _what: str, _name: str, _thing: Any, _options: Any, signature: str | None, result: str | None
) -> tuple[str, str | None] | None:
    """Let Sphinx parse the signatures of dataclasses."""
    return signature and (signature.replace("<factory>", "..."), result)


def dash(_app: Sphinx, page: nodes.document) -> None:
    """Put a dash between a parameter and what is said of it."""
    for text in list(page.findall(nodes.Text)):
        if text.startswith(" -- "):
            text.parent.replace(text, nodes.Text(f" – {text[4:]}"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx ask here for what it does not find."""
    app.connect("autodoc-process-docstring", escape, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", readable)
    app.connect("doctree-read", dash)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
