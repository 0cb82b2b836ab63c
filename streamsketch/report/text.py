"""Text of a report: templates that escape untrusted text."""

from functools import cache
from typing import Any

from markupsafe import Markup

from streamsketch.core import sentences
from streamsketch.core.libraries import jinja2

_NO_BREAK = "\u00a0"


@cache
def templates() -> "jinja2.Environment":
    """Return the templates of the page, which escape all values, including characters that are not printable."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("streamsketch.report"),
        autoescape=True,
        finalize=_printable,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["short"] = shorten
    environment.globals["sentences"] = sentences
    return environment


def _printable(value: object) -> Any:
    """Return a value as text without control or direction characters; markup from templates is left unchanged."""
    text = value if isinstance(value, str) else str(value)
    if isinstance(text, Markup) or text.replace(_NO_BREAK, " ").isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == _NO_BREAK else char.encode("unicode_escape").decode() for char in text
    )


def plain_unit(unit: str) -> str:
    """Return the name of a unit as people say it: "patient" for ``patient_id``.

    Examples
    --------
    >>> plain_unit("web_customer_id")
    'web customer'
    """
    return shorten(unit.removesuffix("_id").replace("_", " "))


def shorten(text: object, longest: int = 60) -> str:
    """Return untrusted text, shortened to ``longest`` characters."""
    shown: str = _printable(text)
    return (shown if len(shown) <= longest else shown[: longest - 1] + "…") or "(no name)"
