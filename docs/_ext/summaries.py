"""A list of the names on each page of the reference, before their entries: a name is written once."""

import re

from sphinx.application import Sphinx

_BLOCK = re.compile(r"^```\{eval-rst\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MODULE = re.compile(r"^\.\. (?:py:module|currentmodule):: (\S+)\n", re.MULTILINE)
_ENTRY = re.compile(r"^\.\. auto\w+:: (\S+)$", re.MULTILINE)


def with_summary(block: re.Match[str]) -> str:
    """Return a block of entries with a list of them below the line that names their module."""
    module, names = _MODULE.search(block[0]), _ENTRY.findall(block[0])
    if module is None or not names:
        return block[0]
    lines = [f"   {name.removeprefix(f'{module[1]}.')}" for name in names]
    summary = "\n".join(["", ".. autosummary::", "   :nosignatures:", "", *lines, ""])
    return block[0][: module.end()] + summary + block[0][module.end() :]


def add(_app: Sphinx, page: str, source: list[str]) -> None:
    """Add the lists to a page of the reference of Python."""
    if page.startswith("reference/api/"):
        source[0] = _BLOCK.sub(with_summary, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Read pages so."""
    app.connect("source-read", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
