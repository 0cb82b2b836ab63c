"""``streamsketch guide``: pages of the documentation, for machines without the site."""

import posixpath
import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

import streamsketch as ss
from streamsketch.cli._layout import show, table_of, terminal_width
from streamsketch.cli._pages import PAGES
from streamsketch.cli._showing import AsJson, meant, show_json

_INSTALLED, _SOURCE = Path(ss.__file__).parent / "pages", Path(ss.__file__).parent.parent / "docs"
_WIDEST = 100  # columns, beyond which lines are hard to read
# What pages have for the site: comments for tests, directives, anchors, pictures and roles.
_FOR_THE_SITE = [
    (re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL), ""),
    (re.compile(r"^```\{eval-rst\}.*?^```\n", re.MULTILINE | re.DOTALL), ""),
    (re.compile(r"^```\{[a-z-]+\}[^\n]*\n(?::[^\n]*\n)*(.*?)^```\n", re.MULTILINE | re.DOTALL), r"\1"),
    (re.compile(r"^\([\w-]+\)=\n", re.MULTILINE), ""),
    (re.compile(r"^\{[^}\n\":]*\}\n", re.MULTILINE), ""),
    (re.compile(r"!\[[^]]*\]\([^)]*\)\n?"), ""),
    (re.compile(r"\[[⁰¹²³⁴⁵⁶⁷⁸⁹]+\]\([^)]*\)"), ""),  # footnotes, which refer to a page of the site alone
    (re.compile(r"\{[a-z]+\}`([^`<]+?)(?: <[^`]*>)?`"), r"\1"),
    (re.compile(r"\n{3,}"), "\n\n"),
]
_LINK = re.compile(r"(?<!`)\[([^]`]*(?:`[^`]*`)?[^]`]*)\]\((?!https?:)([^)\s]*)\)")


def guide(
    topic: Annotated[str | None, typer.Argument(help="Name of the page. Without it, all are listed.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show a page of the documentation, or list the pages.

    These are the pages that are installed, and that `--help` names. The site has more, with links, pictures and a
    search.

    $ streamsketch guide ledger
    """
    if topic is None:
        titles = {name: _page(name).partition("\n")[0].lstrip("# ") for name in PAGES}
        if as_json:
            show_json([{"topic": name, "title": title} for name, title in titles.items()])
        else:
            show(table_of({"topic": list(titles), "page": list(titles.values())}, texts=2))
        return
    if topic not in PAGES:
        closest = meant(topic, list(PAGES)) or "."
        raise ss.InvalidInputError(f"there is no page {topic}{closest} `streamsketch guide` lists all")
    text = _page(topic)
    if as_json:
        show_json({"topic": topic, "text": text})
    elif (width := terminal_width()) is None:
        typer.echo(text)
    else:
        Console(width=min(width, _WIDEST)).print(Markdown(text))


def _page(topic: str) -> str:
    """Return a page without the parts that are only for the site."""
    folder = _INSTALLED if _INSTALLED.is_dir() else _SOURCE
    text = (folder / PAGES[topic]).read_text(encoding="utf-8")
    for pattern, instead in _FOR_THE_SITE:
        text = pattern.sub(instead, text)
    return _LINK.sub(lambda link: _without_link(topic, link[1], link[2]), text).strip()


def _without_link(topic: str, text: str, target: str) -> str:
    """Return the text of a link, and how to show the page to which it leads, if that is installed."""
    page = target.partition("#")[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(PAGES[topic]), page))
    topics = [other for other, file in PAGES.items() if page and file == path and other != topic]
    return f"{text} (`streamsketch guide {topics[0]}`)" if topics else text
