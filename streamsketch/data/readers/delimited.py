"""CSV files and streams as Arrow record batches, nothing in them guessed."""

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamsketch.core import named, pa, pa_csv
from streamsketch.data.readers.opening import (
    NUMBER_FORM,
    arrows_own,
    compression,
    number_type,
    raise_if_of_the_file_system,
    uncompressed,
)
from streamsketch.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER_BYTES = 1 << 16
_PLACES = [
    re.compile(pattern) for pattern in (r"Row #(\d+)", r"In CSV column #(\d+)", r"columns, got (\d+)")
]  # of Arrow


def batches(
    file: Any, path: str, columns: list[str], text: list[str], delimiter: str = ","
) -> "Iterator[pa.RecordBatch]":
    """Yield the columns of a CSV file with a header line."""
    header = _check_csv_header(file, path, columns, delimiter)
    options = _csv_options(columns, text, delimiter)
    try:
        yield from pa_csv.open_csv(uncompressed(file, path), **options)
    except (pa.ArrowException, OSError) as error:
        raise_if_of_the_file_system(error)
        raise _not_csv(path, columns, _with_row(path, error, options), header) from None


def check_delimiter(given: str) -> str:
    r"""Return the delimiter of CSV that an option names, a tab also as ``\t`` spelt out."""
    found = "\t" if given == r"\t" else given
    if len(found) != 1 or not found.isascii() or found in '"\r\n':
        raise InvalidInputError(
            f"the delimiter must be one ASCII character, not a quote or line end, got {given!a:.20}"
        )
    return found


def _with_row(path: str, error: Exception, options: dict[str, Any]) -> Exception:
    """Return the error with its row, which Arrow knows only when it reads a file by one thread."""
    if not Path(path).is_file():
        return error
    try:
        reader = pa_csv.open_csv(
            uncompressed(pa.OSFile(path), path), read_options=pa_csv.ReadOptions(use_threads=False), **options
        )
        for _ in reader:
            pass
    except (pa.ArrowException, OSError) as found:
        return found
    return error


def _check_csv_header(file: Any, path: str, columns: list[str], delimiter: str) -> list[str]:
    """Return the names in a file's header; refuse a column that is named twice, as Arrow would read only one.

    If the first line is more than a simple header, Arrow checks it, and no names are returned.
    """
    start = pa.BufferReader(file.read(_HEADER_BYTES))
    file.seek(0)
    codec = compression(path)
    try:
        stream = pa.CompressedInputStream(start, codec) if codec else start
        header, end, _ = stream.read(_HEADER_BYTES).partition(b"\n")
        header.decode()
    except (OSError, UnicodeDecodeError):  # the reader itself reports a file that is not valid
        return []
    if end and header.strip() and header.count(b'"') % 2 == 0 and b"\r" not in header.rstrip(b"\r"):
        return csv_header(header, path, columns, delimiter)
    return []


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
        raise InvalidInputError(f"{path} does not begin with a header line of CSV in UTF-8") from None
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
