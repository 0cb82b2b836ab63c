"""Plain text for terminals of 80 columns."""

import dataclasses
import functools
import re
import sys
import textwrap
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from streamsketch.errors import InvalidInputError, printable

WIDTH = 80
MAX_TEXT = 200
"""Characters of a text that files of strangers may bring."""
NO_BREAK = "\u00a0"
"""A space that `filled` keeps on one line."""

_NOT_PRINTABLE = (
    *((0x00, 0x1F), (0x7F, 0xA0), (0xAD, 0xAD)),  # controls, the no-break space and the soft hyphen
    *((0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD), (0x70F, 0x70F), (0x890, 0x891), (0x8E2, 0x8E2)),  # Arabic, Syriac
    *((0x1680, 0x1680), (0x180E, 0x180E), (0x2000, 0x200F), (0x3000, 0x3000)),  # spaces, joiners, directions
    *((0x2028, 0x202F), (0x205F, 0x206F)),  # separators, embeddings, isolates
    *((0xD800, 0xF8FF), (0xFDD0, 0xFDEF), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB), (0xFFFE, 0xFFFF)),  # surrogates, private
    *((0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A)),  # formats
    *((plane << 16 | 0xFFFE, plane << 16 | 0xFFFF) for plane in range(1, 14)),  # noncharacters
    *((0xE0000, 0xE00FF), (0xEFFFE, 0xEFFFF), (0xF0000, 0x10FFFF)),  # tags, private
)
"""Ranges of code points, first and last; listed here because Unicode's categories change between versions."""

_MOST_NAMED = 300  # characters
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_KEPT_TOGETHER = (" = ", "± ", " %")


def is_printable(text: str) -> bool:
    """Return whether text has no control, format or private-use characters, and no separator but the plain space.

    The list of code points is the exchange format's (WIRE.md): the same in every version of Unicode.
    """
    if text.isascii():  # most text is, and needs no pattern, which takes a millisecond to compile
        return text.isprintable()
    return _refused().search(text) is None


@functools.cache
def _refused() -> re.Pattern[str]:
    return re.compile("[" + "".join(f"\\U{first:08X}-\\U{last:08X}" for first, last in _NOT_PRINTABLE) + "]")


def check_text(name: str, text: str) -> None:
    """Raise `InvalidInputError` unless text is short and printable: untrusted files bring it to a terminal."""
    if not (isinstance(text, str) and 0 < len(text) <= MAX_TEXT and is_printable(text)):
        raise InvalidInputError(f"{name} must be 1 to {MAX_TEXT} printable characters, got {text!a:.60}")


def names_given(options: Sequence[str], what: str) -> list[str]:
    """Return the names in options that take several: with commas, or an option for each, or both.

    A name with a comma is put in double quotes, as in CSV.

    Raises
    ------
    InvalidInputError
        For names that are empty or there twice.

    Examples
    --------
    >>> names_given(["north,south", '"Korea, South"'], "--public-key")
    ['north', 'south', 'Korea, South']
    """
    import csv  # noqa: PLC0415 - which only options of several names need

    try:
        names = [name for row in csv.reader(options, strict=True, skipinitialspace=True) for name in row or [""]]
    except csv.Error:
        raise InvalidInputError(f"{what} has a quote that is not closed, or text after it") from None
    if not all(names):
        raise InvalidInputError(f"{what} has an empty name; names are separated by single commas")
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise InvalidInputError(f"{what} has {twice!a} twice")
    return names


def filled(text: str, *, first: str = "", indent: str = "") -> str:
    """Return text wrapped to the width, with no formula broken across lines."""
    for pair in _KEPT_TOGETHER:
        text = text.replace(pair, pair.replace(" ", NO_BREAK))
    lines = textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return lines.replace(NO_BREAK, " ")


def aligned(rows: Sequence[Sequence[str]], *, left: int) -> str:
    """Return rows as aligned columns: the first ``left`` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def named(names: Iterable[object]) -> str:
    """Return names, of a file's columns or fields, as they stand in a message: with commas, and of bounded length."""
    return printable(", ".join(map(str, names)), _MOST_NAMED)


def short_name(text: object, longest: int) -> str:
    """Return untrusted text as one line of at most so many characters."""
    shown = printable(text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


# a dataclass's own code is of no file, or of its module
_INSIDE = (str(Path(__file__).parent.parent), "<string>", str(dataclasses.__file__))


def warn_outside(message: str, category: type[Warning]) -> None:
    """Warn at the line outside this package that asked for what is warned of."""
    level, frame = 1, sys._getframe()  # noqa: SLF001 - what `warnings` itself counts
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(printable(message), category, stacklevel=level)


def spreadsheet_text(text: str) -> str:
    """Return text for a CSV cell, with an apostrophe before anything that a spreadsheet would run as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
