"""Plain text for terminals of eighty columns."""

import textwrap
from collections.abc import Sequence

WIDTH = 80
NO_BREAK = "\u00a0"
"""A space that `filled` keeps on one line."""

_KEPT_TOGETHER = (" = ", "± ", " %")


def filled(text: str, *, first: str = "", indent: str = "") -> str:
    """Return a paragraph of lines within the width, each formula on one of them."""
    for pair in _KEPT_TOGETHER:
        text = text.replace(pair, pair.replace(" ", NO_BREAK))
    lines = textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return lines.replace(NO_BREAK, " ")


def aligned(rows: Sequence[Sequence[str]], *, left: int) -> str:
    """Return rows as columns, the first ``left`` of them to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
