"""Blocks of CSV cut where rows end: what Arrow reads has no border within a row.

Arrow's own blocks lose a LF that begins one, within a quoted cell too, where the block before it ends with a CR
(apache/arrow#51368, in all versions up to 25.0).
"""

import functools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import Ints
from streamsketch.errors import InvalidInputError

LONGEST_ROW = 1 << 24
_LINE_END = re.compile(rb"\r\n?|\n")
_QUOTE, _CR, _LF = b'"\r\n'


def pieces_of_rows(stream: Any, path: str, delimiter: str, size: int) -> Iterator[bytes]:
    """Yield whole rows of CSV, those of about ``size`` bytes at a time; the last may lack its line end.

    Parameters
    ----------
    stream
        An object with a method ``read``, at the beginning of a row.
    path
        Its name, for errors.
    delimiter
        The character between cells.
    size
        How many bytes are read at a time.

    Raises
    ------
    InvalidInputError
        If a row is longer than 16 MiB.
    """
    rest = b""
    while block := stream.read(size):
        data = rest + block
        end = end_of_rows(data, delimiter)
        rest = data[end:]
        if end:
            yield data[:end]
        if len(rest) > LONGEST_ROW:
            raise InvalidInputError(
                f"{path} has a row of more than {LONGEST_ROW:,} bytes; if a quote is not closed, close it"
            )
    if rest:
        yield rest


def end_of_rows(data: bytes, delimiter: str) -> int:
    """Return the number of bytes of the whole rows at the beginning of some data, which begin with a row.

    A row ends with LF, CRLF or CR outside of quotes. As in RFC 4180, a cell is in quotes if it begins with one.
    """
    if b'"' not in data:
        return _last_end(data, 0, len(data))
    cells = np.frombuffer(data, dtype=np.uint8)
    opening, closing = _quoted_cells(data, cells, delimiter)
    end = len(data)
    for place in reversed(range(len(opening))):  # the last row has few cells
        if found := _last_end(data, int(closing[place]), end):
            return found
        end = int(opening[place])
    return _last_end(data, 0, end)


def first_row(data: bytes, delimiter: str) -> tuple[bytes, bytes]:
    """Return the first row of some whole rows, without its line end, and the rows after it."""
    start = 0
    while start < len(data):
        cell = _quoted(delimiter).search(data, start)  # which looks at what is before the start
        stop = len(data) if cell is None else cell.start()
        if line_end := _LINE_END.search(data, start, stop):
            return data[: line_end.start()], data[line_end.end() :]
        start = stop if cell is None else cell.end()
    return data, b""


def _last_end(data: bytes, start: int, stop: int) -> int:
    """Return the place after the last line end in [start, stop) of some data; 0 if there is none.

    A CR at the end of the data is none, as a LF may follow.
    """
    line_feed = data.rfind(b"\n", start, stop)
    carriage_return = data.rfind(b"\r", max(start, line_feed), min(stop, len(data) - 1))
    return max(line_feed, carriage_return) + 1


def _quoted_cells(data: bytes, cells: NDArray[np.uint8], delimiter: str) -> tuple[Ints, Ints]:
    """Return where quoted cells begin, and where they end, exclusive; one that is not closed ends with the data."""
    quotes = np.flatnonzero(cells == _QUOTE)
    if len(quotes) % 2:
        quotes = np.append(quotes, len(data) - 1)
    opening, closing = quotes[::2], quotes[1::2] + 1
    before = cells[np.maximum(opening, 1) - 1]
    follows = (before == ord(delimiter)) | (before == _LF) | (before == _CR) | (opening == 0)
    doubled = np.zeros(len(opening), dtype=np.bool_)
    doubled[1:] = opening[1:] == closing[:-1]
    if (follows | doubled).all():  # every second quote closes: none is an ordinary character within a cell
        return opening, closing
    spans = np.array([cell.span() for cell in _quoted(delimiter).finditer(data)], dtype=np.int64).reshape(-1, 2)
    return spans[:, 0], spans[:, 1]


@functools.cache
def _quoted(delimiter: str) -> "re.Pattern[bytes]":
    return re.compile(rb'(?:\A|(?<=[%b\r\n]))"[^"]*+(?:""[^"]*+)*+(?:"|\Z)' % re.escape(delimiter.encode()))
