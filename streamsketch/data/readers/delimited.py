"""CSV files and streams as Arrow record batches, nothing in them guessed."""

import codecs
import csv
import functools
import re
from typing import TYPE_CHECKING, Any

from streamsketch.core import named, pa, pa_csv
from streamsketch.data.readers.opening import (
    NUMBER_FORM,
    arrows_own,
    number_type,
    raise_if_of_the_file_system,
    uncompressed,
)
from streamsketch.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_ROW = 1 << 24
"""Bytes of the longest row that is read."""

_BLOCK_BYTES = 1 << 20
_PLACES = [
    re.compile(pattern) for pattern in (r"Row #(\d+)", r"In CSV column #(\d+)", r"columns, got (\d+)")
]  # of Arrow


def batches(
    file: Any, path: str, columns: list[str], text: list[str], delimiter: str = ",", *, multiline: bool = False
) -> "Iterator[pa.RecordBatch]":
    """Yield the columns of a CSV file with a header line: the rows that a strict parser finds, or an error.

    A line is a row. With ``multiline``, cells in quotes may hold line breaks, and a row ends where its quotes are
    closed.
    """
    pieces = _pieces(file, path, delimiter, multiline=multiline)
    names, first = csv_header(next(pieces, b""), path, columns, delimiter), 2
    for piece in pieces:
        end = strict_until(piece, delimiter, multiline=multiline)
        if end:
            batch = csv_piece(piece[:end], names, path, columns, text, delimiter, first)
            yield batch
            first += batch.num_rows
        if end < len(piece):
            raise InvalidInputError(f"row {first:,} of {path} {not_a_row(multiline=multiline, whole=True)}")


def _pieces(file: Any, path: str, delimiter: str, *, multiline: bool) -> "Iterator[bytes]":
    """Yield the header of a file, then its rows in pieces; a piece ends with a whole row, or is not CSV."""
    stream, rest, is_begun, ended = uncompressed(file, path), b"", False, False
    while not ended:
        try:
            block = stream.read(_BLOCK_BYTES)
        except OSError as error:
            raise_if_of_the_file_system(error)
            raise InvalidInputError(f"{path} cannot be decompressed: it is damaged or cut off") from None
        ended = not block
        data = rest + block
        if not is_begun:
            data = data.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")  # empty lines are no rows
        whole, rest = whole_rows(data, delimiter, multiline=multiline, ended=ended)
        if len(rest) > LONGEST_ROW:
            raise InvalidInputError(f"{path} has a row of more than {LONGEST_ROW:,} bytes, the limit")
        if whole and not is_begun:
            is_begun = True
            header = next(split_rows(whole, delimiter, multiline=multiline), whole)
            yield header
            whole = whole[len(header) :]
        if whole:
            yield whole


def whole_rows(data: bytes, delimiter: str = ",", *, multiline: bool = False, ended: bool) -> tuple[bytes, bytes]:
    """Return the whole rows of CSV, and the unfinished rest; what is not CSV counts as whole.

    A newline ends a row. With ``multiline``, a newline within quotes does not.
    """
    if ended:
        return data if data.endswith(b"\n") or not data else data + b"\n", b""
    if not multiline or b'"' not in data:
        end = data.rfind(b"\n") + 1
        return data[:end], data[end:]
    end = strict_until(data, delimiter, multiline=True)
    rest = data[end:]
    return (data[:end], rest) if _grammar(delimiter, multiline=True)[2].fullmatch(rest) else (data, b"")


def split_rows(data: bytes, delimiter: str = ",", *, multiline: bool = False) -> "Iterator[bytes]":
    """Yield the rows of CSV one by one, with their ends, up to the first that is not CSV."""
    if not multiline:
        yield from (line + b"\n" for line in data.split(b"\n")[:-1])
        return
    _, row, _ = _grammar(delimiter, multiline=True)
    at = 0
    while (found := row.match(data, at)) and found.end() > at:
        yield found[0]
        at = found.end()


def strict_until(data: bytes, delimiter: str = ",", *, multiline: bool = False) -> int:
    """Return where the first row begins that a strict parser refuses; the length of the whole rows if it takes all.

    A cell that begins with a quote ends with one, in the same line unless ``multiline``. Quotes in it are doubled, and
    a delimiter or the end of the line follows it. Carriage returns are in such cells, or end a line with its newline.
    """
    if b'"' not in data and data.count(b"\r") == data.count(b"\r\n"):
        return len(data)
    found = _grammar(delimiter, multiline=multiline)[0].match(data)
    return 0 if found is None else found.end()


def not_a_row(*, multiline: bool, whole: bool) -> str:
    """Return in words why a row is refused by `strict_until`, of a whole file or of a stream, and the remedy."""
    if multiline:
        return (
            "is not CSV: a quote is not closed, text follows a closing quote, or there is a carriage return without "
            "a newline. Quotes within quotes are doubled. If a line break always ends a row, give --no-multiline (in "
            "Python multiline=False)"
        )
    remedy = (
        "if the writer of the file quotes cells with line breaks, `sketch --multiline` reads them (in Python "
        "multiline=True); or write Parquet or JSON lines"
        if whole
        else "write cells with line breaks as JSON lines"
    )
    return (
        "is not one line of CSV: a quote is not closed in it, text follows a closing quote, or there is a carriage "
        f"return without a newline. Here a line break ends a row: {remedy}"
    )


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


def check_delimiter(given: str) -> str:
    r"""Return the delimiter of CSV that an option names, a tab also as ``\t`` spelt out."""
    found = "\t" if given == r"\t" else given
    if len(found) != 1 or not found.isascii() or found in '"\r\n':
        raise InvalidInputError(
            f"the delimiter must be one ASCII character, not a quote or line end, got {given!a:.20}"
        )
    return found


def _csv_options(columns: list[str], text: list[str], delimiter: str) -> dict[str, Any]:
    types = {name: pa.string() if name in text else number_type() for name in columns}
    return {
        "parse_options": pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "convert_options": pa_csv.ConvertOptions(
            include_columns=columns, column_types=types, strings_can_be_null=False
        ),
    }


def _not_csv(path: str, columns: list[str], error: Exception, header: list[str], first: int = 1) -> InvalidInputError:
    """Return what is wrong with a file or a piece of it, whose Arrow's row 1 is row ``first``."""
    # Arrow's own text may quote the file, which is private; of a column it quotes the name that was asked for
    if isinstance(error, pa.ArrowKeyError):
        missing = next((name for name in columns if f"'{name}'" in str(error)), ", ".join(columns))
        return InvalidInputError(f"{path} has no column {missing} in its header line")
    row, column, cells = (found and int(found[1]) for found in (one.search(str(error)) for one in _PLACES))
    where = []
    if row is not None:
        where.append(f"row {row + first - 1:,}")
    if column is not None and column < len(header):
        where.append(f"column {header[column]}")
    if cells is not None:
        where.append(f"{cells:,} cells, not {len(header)}" if header else f"{cells:,} cells")
    return InvalidInputError(
        f"{path} cannot be read as CSV ({', '.join(where) or type(error).__name__}). It needs a header line with the "
        f"columns {', '.join(columns)}, as many cells in every line, and {NUMBER_FORM} for values; if it is "
        f"compressed, it may be cut off"
    )


def csv_header(line: bytes, path: str, columns: list[str], delimiter: str = ",") -> list[str]:
    """Return the names in a CSV stream's first line; raise `InvalidInputError` unless all columns are there once.

    The error quotes nothing of the line, which may be a private row.
    """
    try:
        names = next(csv.reader([line.decode("utf-8-sig").strip("\r\n")], delimiter=delimiter), [])
    except (UnicodeDecodeError, csv.Error):
        raise InvalidInputError(
            f"{path} cannot be read as CSV: it does not begin with a header line in UTF-8"
        ) from None
    if len(names) == 1 and names[0] not in columns and (other := next((one for one in ";\t|," if one in names[0]), "")):
        raise InvalidInputError(
            f"{path} has one column only; if {other!a} is its delimiter, pass that as delimiter, on the command line "
            f"--delimiter {other!r}"
        )
    if missing := [name for name in columns if name not in names]:
        raise InvalidInputError(
            f"{path} has no column {named(missing)}: CSV must begin with a header line that names all columns"
        )
    twice = [name for name in columns if names.count(name) > 1]
    if twice:
        raise InvalidInputError(f"{path} has {', '.join(twice)} more than once; rename the columns")
    return names


def csv_piece(
    data: bytes, header: list[str], path: str, columns: list[str], text: list[str], delimiter: str = ",", first: int = 2
) -> "pa.RecordBatch":
    """Return rows of CSV, from row ``first`` where the header is row 1, as a record batch; errors as for a file."""
    reading = pa_csv.ReadOptions(column_names=header, block_size=len(data) + 1, use_threads=False)
    options = _csv_options(columns, text, delimiter)
    try:
        table = pa_csv.read_csv(pa.BufferReader(arrows_own(data)), read_options=reading, **options)
    except pa.ArrowException as error:
        raise _not_csv(path, columns, error, header, first) from None
    found = table.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], table.schema)
