"""CSV files and streams as Arrow record batches, nothing in them guessed."""

import csv
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from streamsketch.data.readers.opening import (
    NUMBER,
    NUMBER_FORM,
    arrows_own,
    check_columns,
    compression,
    raise_if_of_the_file_system,
    uncompressed,
)
from streamsketch.errors import InvalidInputError

_HEADER_BYTES = 1 << 16


def batches(file: Any, path: str, columns: list[str], text: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a CSV file with a header line."""
    _check_csv_header(file, path, columns)
    try:
        yield from pa_csv.open_csv(uncompressed(file, path), **_csv_options(columns, text))
    except (pa.ArrowException, OSError) as error:
        raise_if_of_the_file_system(error)
        raise _not_csv(path, columns, error) from None


def _check_csv_header(file: Any, path: str, columns: list[str]) -> None:
    """Refuse a file that names a column twice, of which Arrow would take one.

    One with more in its first line than a simple header is left to Arrow.
    """
    start = pa.BufferReader(file.read(_HEADER_BYTES))
    file.seek(0)
    codec = compression(path)
    try:
        stream = pa.CompressedInputStream(start, codec) if codec else start
        header, end, _ = stream.read(_HEADER_BYTES).partition(b"\n")
        header.decode()
    except (OSError, UnicodeDecodeError):  # the reading itself will say if the file is not sound
        return
    if end and header.strip() and header.count(b'"') % 2 == 0 and b"\r" not in header.rstrip(b"\r"):
        csv_header(header, path, columns)


def _csv_options(columns: list[str], text: list[str]) -> dict[str, Any]:
    types = {name: pa.string() if name in text else NUMBER for name in columns}
    return {
        "parse_options": pa_csv.ParseOptions(newlines_in_values=True),
        "convert_options": pa_csv.ConvertOptions(
            include_columns=columns, column_types=types, strings_can_be_null=False
        ),
    }


def _not_csv(path: str, columns: list[str], error: Exception) -> InvalidInputError:
    # Arrow's own text may quote the file, which is private; of a column it quotes the name that was asked for
    if isinstance(error, pa.ArrowKeyError):
        missing = next((name for name in columns if f"'{name}'" in str(error)), ", ".join(columns))
        return InvalidInputError(f"{path} has no column {missing} in its header line")
    return InvalidInputError(
        f"{path} cannot be read as CSV ({type(error).__name__}). It needs a header line with the columns "
        f"{', '.join(columns)}, as many cells in every line, and {NUMBER_FORM} for values; if it is compressed, it may "
        f"be cut off"
    )


def csv_header(line: bytes, path: str, columns: list[str]) -> list[str]:
    """Return the names in a CSV stream's first line; raise `InvalidInputError` unless all columns are there once."""
    try:
        names = next(csv.reader([line.decode("utf-8-sig").strip("\r\n")]), [])
    except (UnicodeDecodeError, csv.Error):
        raise InvalidInputError(f"{path} does not begin with a header line of CSV in UTF-8") from None
    check_columns(path, columns, names)
    twice = [name for name in columns if names.count(name) > 1]
    if twice:
        raise InvalidInputError(f"{path} has {', '.join(twice)} more than once; name its columns apart")
    return names


def csv_piece(data: bytes, header: list[str], path: str, columns: list[str], text: list[str]) -> pa.RecordBatch:
    """Return whole lines of CSV, without the header, as a record batch; errors as for a file."""
    reading = pa_csv.ReadOptions(column_names=header, block_size=len(data) + 1)
    try:
        table = pa_csv.read_csv(pa.BufferReader(arrows_own(data)), read_options=reading, **_csv_options(columns, text))
    except pa.ArrowException as error:
        raise _not_csv(path, columns, error) from None
    found = table.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], table.schema)
