"""Where rows of CSV end, for all that reads it: whole files, streams and logs.

CSV is cut here before Arrow reads it. Arrow's own blocks lose a LF that begins one, within a quoted cell too, where the
block before it ends with a CR (apache/arrow#51368, in all versions up to 25.0).
"""

import codecs
import functools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from streamsketch.core import sentences
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.csv_rows import strict_rows

LONGEST_ROW = 1 << 24
"""Bytes of the longest row that is read."""

_WORTH_A_KERNEL = 1 << 20  # bytes, which a pattern reads in some 15 ms: to load a kernel takes about as long


def pieces_of_rows(stream: Any, path: str, delimiter: str, size: int, *, multiline: bool = False) -> Iterator[bytes]:
    """Yield the rows of CSV, those of about ``size`` bytes at a time; a piece ends with a whole row, or is not CSV.

    A byte order mark and empty lines at the beginning are left out. The last row gets a line end if it has none.

    Parameters
    ----------
    stream
        An object with a method ``read``, at its beginning.
    path
        Its name, for errors.
    delimiter
        The character between cells.
    size
        How many bytes are read at a time.
    multiline
        Whether cells in quotes may hold line breaks.

    Raises
    ------
    InvalidInputError
        If a row is longer than 16 MiB.
    """
    rest, is_begun, ended = b"", False, False
    while not ended:
        block = stream.read(size)
        ended = not block
        if not is_begun:
            block = (rest + block).removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")  # empty lines are no rows
            rest = b""
        whole, rest = whole_rows(rest, block, delimiter, multiline=multiline, ended=ended)
        if len(rest) > LONGEST_ROW:
            raise InvalidInputError(
                f"{path} has a row of more than {LONGEST_ROW:,} bytes, the limit"
                f"{'; if a quote is not closed, close it' if multiline else ''}"
            )
        if whole:
            is_begun = True
            yield whole


def whole_rows(
    rest: bytes, block: bytes, delimiter: str = ",", *, multiline: bool = False, ended: bool
) -> tuple[bytes, bytes]:
    """Return the whole rows of a block of CSV, and its unfinished rest; what is not CSV counts as whole.

    ``rest`` is that of the block before. A newline ends a row. With ``multiline``, a newline within quotes does not.
    """
    if not (ended or (multiline and (b'"' in rest or b'"' in block))):
        end = block.rfind(b"\n") + 1
        return (b"".join((rest, memoryview(block)[:end])), block[end:]) if end else (b"", rest + block)
    data = rest + block
    if ended:
        return data if data.endswith(b"\n") or not data else data + b"\n", b""
    end = strict_until(data, delimiter, multiline=True)
    rest = data[end:]
    return (data[:end], rest) if _grammar(delimiter, multiline=True)[2].fullmatch(rest) else (data, b"")


def first_row(data: bytes, delimiter: str = ",", *, multiline: bool = False) -> tuple[bytes, bytes]:
    """Return the first of some whole rows, with its line end, and what follows; if it is not CSV, all and nothing."""
    row = next(split_rows(data, delimiter, multiline=multiline), data)
    return row, data[len(row) :]


def split_rows(data: bytes, delimiter: str = ",", *, multiline: bool = False) -> "Iterator[bytes]":
    """Yield the rows of CSV one by one, with their ends, up to the first that is not CSV."""
    if not multiline:
        yield from (line + b"\n" for line in data.split(b"\n")[:-1])
        return
    _, row, _ = _grammar(delimiter, multiline=True)
    at = 0
    while (match := row.match(data, at)) and match.end() > at:
        yield match[0]
        at = match.end()


def strict_until(data: bytes, delimiter: str = ",", *, multiline: bool = False) -> int:
    """Return where the first row begins that a strict parser refuses; the length of the whole rows if it takes all.

    A cell that begins with a quote ends with one, in the same line unless ``multiline``. Quotes in it are doubled, and
    a delimiter or the end of the line follows it. Carriage returns are in such cells, or end a line with its newline.
    """
    if b'"' not in data and (b"\r" not in data or data.count(b"\r") == data.count(b"\r\n")):
        return len(data)
    if len(data) >= _WORTH_A_KERNEL and delimiter.isascii():
        return int(strict_rows(np.frombuffer(data, np.uint8), ord(delimiter), multiline))
    match = _grammar(delimiter, multiline=multiline)[0].match(data)
    return 0 if match is None else match.end()


def not_a_row(*, multiline: bool, whole: bool) -> str:
    """Return in words why a row is refused by `strict_until`, of a whole file or of a stream, and the remedy."""
    if multiline:
        return (
            "is not CSV: a quote is not closed, text follows a closing quote, or there is a carriage return without "
            "a newline. Quotes within quotes are doubled. If a line break always ends a row, give --set multiline=no "
            "(in Python multiline=False)"
        )
    remedy = (
        "if the writer of the file quotes cells with line breaks, `sketch --set multiline=yes` reads them (in Python "
        "multiline=True); or write Parquet or JSON lines"
        if whole
        else "write cells with line breaks as JSON lines"
    )
    return f"{sentences.NOT_ONE_LINE}. Here a line break ends a row: {remedy}"


@functools.cache
def _grammar(delimiter: str, *, multiline: bool) -> "tuple[re.Pattern[bytes], ...]":
    """Return the patterns of rows, of one row, and of a row that has not ended."""
    mark = re.escape(delimiter.encode())
    quoted = rb"[^\"]" if multiline else rb"[^\"\n]"
    inside = rb'"%b*+(?:""%b*+)*+' % (quoted, quoted)
    plain = rb'[^%b"\r\n][^%b\r\n]*+' % (mark, mark)
    cell = rb'(?:%b"|%b|)' % (inside, plain)
    row = rb"(?:%b%b)*+%b\r*+\n" % (cell, mark, cell)
    unfinished = rb'(?:%b%b)*+(?:%b"?|%b|)\r*+' % (cell, mark, inside, plain)
    return re.compile(rb"(?:%b)*+" % row), re.compile(row), re.compile(unfinished)
