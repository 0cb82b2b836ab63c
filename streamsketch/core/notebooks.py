"""What objects show in notebooks: HTML without scripts, in the notebook's own colours, with every text escaped."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streamsketch.errors import printable

MOST_ROWS = 50
"""Rows of a table that are shown; the rest is counted."""

_LONGEST = 120  # characters of a name
_WIDTH, _HEIGHT = 180, 14
_CELL = "text-align:left;padding:2px 10px"
_NUMBER = "text-align:right;padding:2px 10px"
_FAINT = "opacity:0.7"


class Html(str):
    """Text that is HTML already. All other text is escaped where it enters HTML."""

    __slots__ = ()


class Drawn(NamedTuple):
    """An interval to draw, with the value in it. Ends may be infinite; a value that is NaN is not drawn."""

    low: float
    value: float
    high: float


def escaped(text: object) -> str:
    """Return text for HTML: special characters as entities, what is not printable as escape sequences.

    Examples
    --------
    >>> escaped("<b>tea</b> & 'milk'")
    '&lt;b&gt;tea&lt;/b&gt; &amp; &#x27;milk&#x27;'
    """
    if isinstance(text, Html):
        return text
    import html  # noqa: PLC0415 - whose table of entities takes a millisecond, and commands show text

    return html.escape(printable(text), quote=True)


def name_of(name: object) -> str:
    """Return a key of a table as text, cut if it is long."""
    return printable(name, _LONGEST)


def block(*parts: str) -> str:
    """Return parts of HTML as one element."""
    return f'<div class="streamsketch" style="color:inherit;background:transparent">{"".join(parts)}</div>'


def paragraph(text: object, *, faint: bool = False) -> Html:
    """Return a paragraph of text."""
    return Html(f'<p style="margin:4px 0;{_FAINT if faint else ""}">{escaped(text)}</p>')


def lines(text: str) -> str:
    """Return text of several lines as it is, each line escaped by itself."""
    shown = "\n".join(escaped(line) for line in text.split("\n"))
    return block(f'<pre style="color:inherit;background:transparent;white-space:pre-wrap;margin:4px 0">{shown}</pre>')


def facts(title: object, rows: Iterable[tuple[object, object]]) -> str:
    """Return a table of names and what they are; a tuple or list is one line for each of its elements."""
    shown = []
    for name, value in rows:
        values = value if isinstance(value, tuple | list) else [value]
        text = "<br>".join(escaped(entry) for entry in values)
        shown.append(
            f'<tr><th scope="row" style="{_CELL};vertical-align:top">{escaped(name)}</th>'
            f'<td style="{_CELL}">{text}</td></tr>'
        )
    return block(paragraph(Html(f"<b>{escaped(title)}</b>")), f"<table><tbody>{''.join(shown)}</tbody></table>")


def table(
    title: object, names: Sequence[str], rows: Sequence[Sequence[object]], left: int, notes: Sequence[str]
) -> str:
    """Return a table, whose first ``left`` columns are text and the others numbers or drawings, with notes below."""
    styles = [_CELL if place < left else _NUMBER for place in range(len(names))]
    head = "".join(
        f'<th scope="col" style="{style}">{escaped(name)}</th>' for name, style in zip(names, styles, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td style="{style}">{escaped(cell)}</td>' for cell, style in zip(row, styles, strict=True))
        + "</tr>"
        for row in rows
    )
    below = "".join(paragraph(note, faint=True) for note in notes)
    return block(
        paragraph(Html(f"<b>{escaped(title)}</b>")),
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>",
        below,
    )


def scale_of(intervals: Iterable[Drawn], lowest: float, highest: float) -> tuple[float, float]:
    """Return from where to where intervals are drawn: 0 and all finite ends, within the possible range."""
    ends = [0.0] + [end for interval in intervals for end in interval if math.isfinite(end)]
    start, stop = min(ends), max(ends)
    if math.isfinite(lowest) and math.isfinite(highest):
        start, stop = min(start, lowest), max(stop, highest)
    return (start, stop) if stop > start else (start - 1.0, stop + 1.0)


def interval_bar(drawn: Drawn, scale: tuple[float, float], label: str) -> Html:
    """Return a drawing of an interval: a line from end to end, a dot for the value and a tick at 0.

    An end beyond the scale, such as an infinite one, is drawn as an arrow at the border.
    """
    start, stop = scale

    def place(number: float) -> float:
        share = (min(max(number, start), stop) - start) / (stop - start)
        return round(6 + (_WIDTH - 12) * share, 2)

    middle = _HEIGHT / 2
    if math.isnan(drawn.low) or math.isnan(drawn.high):
        return Html(f'<span style="{_FAINT}">no interval</span>')
    left, right, zero = place(drawn.low), place(drawn.high), place(0.0)
    shapes = [
        f'<line x1="{zero}" y1="0" x2="{zero}" y2="{_HEIGHT}" stroke="currentColor" stroke-opacity="0.3"/>',
        f'<line x1="{left}" y1="{middle}" x2="{right}" y2="{middle}" stroke="currentColor" stroke-width="2"/>',
    ]
    for end, at, step in ((drawn.low, left, 5), (drawn.high, right, -5)):
        if not start <= end <= stop:
            points = f"{at + step},{middle - 4} {at},{middle} {at + step},{middle + 4}"
            shapes.append(f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="2"/>')
    if not math.isnan(drawn.value):
        shapes.append(f'<circle cx="{place(drawn.value)}" cy="{middle}" r="3.5" fill="currentColor"/>')
    return Html(
        f'<svg role="img" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}">'
        f"<title>{escaped(label)}</title>{''.join(shapes)}</svg>"
    )


class ShownAsText:
    """Shows its text in notebooks, with its columns aligned."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return lines(str(self))
