"""Files and streams of each kind as Arrow record batches, nothing in them guessed."""

import codecs
import csv
import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from streamsketch.data.readers.checks import check_columns, raise_if_of_the_file_system
from streamsketch.errors import InvalidInputError

_BATCH_ROWS = 1 << 17
_READ_BYTES = 1 << 22
_HEADER_BYTES = 1 << 16
_NUMBER = pa.decimal128(38, 12)
NUMBER_FORM = "plain decimal numbers of up to 12 places"
_CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
_COMPRESSED = r"(\.(gz|bz2|zst))?$"


def parts_of(file: Any, path: str) -> int:
    """Return how many parts a file is read in: a Parquet file's row groups, 1 for those read whole.

    The file is one of Python's, or Arrow's own.
    """
    if _reader(path) is not None:
        return 1
    try:
        return int(pq.ParquetFile(file).num_row_groups)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(
            f"{path} is not a Parquet file (nor named .csv, .jsonl, .ndjson, .avro, .txt or .log): {error}"
        ) from None


def batches(file: Any, path: str, part: int, columns: list[str], text: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a part of a file."""
    read = _reader(path)
    yield from _parquet_batches(file, path, part, columns) if read is None else read(file, path, columns, text)


def _reader(path: str) -> Callable[[Any, str, list[str], list[str]], Iterator[pa.RecordBatch]] | None:
    """Return what reads a file of this name, or None for Parquet."""
    name = path.lower()
    if re.search(r"\.csv" + _COMPRESSED, name):
        return _csv_batches
    if re.search(r"\.(jsonl|ndjson)" + _COMPRESSED, name):
        return _json_batches
    if re.search(r"\.(txt|log)" + _COMPRESSED, name):
        return _line_batches
    return _avro_batches if name.endswith(".avro") else None


def _parquet_batches(file: Any, path: str, group: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
    schema = pq.read_schema(file)
    check_columns(path, columns, schema.names)
    # text comes as the file's own dictionaries: each distinct key is hashed once
    texts = [name for name in columns if _is_text(schema.field(name).type)]
    parquet = pq.ParquetFile(file, read_dictionary=texts)
    yield from parquet.iter_batches(_BATCH_ROWS, row_groups=[group], columns=columns)


def _csv_batches(file: Any, path: str, columns: list[str], text: list[str]) -> Iterator[pa.RecordBatch]:
    _check_csv_header(file, path, columns)
    try:
        yield from pa_csv.open_csv(_uncompressed(file, path), **_csv_options(columns, text))
    except (pa.ArrowException, OSError) as error:
        raise_if_of_the_file_system(error)
        raise _not_csv(path, columns, error) from None


def _check_csv_header(file: Any, path: str, columns: list[str]) -> None:
    """Refuse a file that names a column twice, of which Arrow would take one.

    One with more in its first line than a simple header is left to Arrow.
    """
    start = pa.BufferReader(file.read(_HEADER_BYTES))
    file.seek(0)
    codec = _compression(path)
    try:
        stream = pa.CompressedInputStream(start, codec) if codec else start
        header, end, _ = stream.read(_HEADER_BYTES).partition(b"\n")
        header.decode()
    except (OSError, UnicodeDecodeError):  # the reading itself will say if the file is not sound
        return
    if end and header.strip() and header.count(b'"') % 2 == 0 and b"\r" not in header.rstrip(b"\r"):
        csv_header(header, path, columns)


def _csv_options(columns: list[str], text: list[str]) -> dict[str, Any]:
    types = {name: pa.string() if name in text else _NUMBER for name in columns}
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
        table = pa_csv.read_csv(pa.BufferReader(_arrows_own(data)), read_options=reading, **_csv_options(columns, text))
    except pa.ArrowException as error:
        raise _not_csv(path, columns, error) from None
    return _one_batch(table)


def _arrows_own(data: bytes) -> pa.Buffer:
    """Return a copy that Arrow's threads may let go of even while Python ends."""
    buffer = pa.allocate_buffer(len(data))
    np.frombuffer(buffer, dtype=np.uint8)[:] = np.frombuffer(data, dtype=np.uint8)
    return buffer


def _json_batches(file: Any, path: str, columns: list[str], text: list[str]) -> Iterator[pa.RecordBatch]:
    first = 1
    for lines in _blocks_of_lines(_uncompressed(file, path), path):
        yield json_lines(lines, path, columns, text, first)
        first += len(lines)


def json_lines(lines: list[bytes], path: str, columns: list[str], text: list[str], first: int = 1) -> pa.RecordBatch:
    """Return lines of JSON objects as a record batch: the ``text`` columns as text, the others as exact decimals.

    Integers among the text columns become text, so that the number 7 is the key "7" in files of every kind.

    Raises
    ------
    InvalidInputError
        For a line that is no object with these fields, by its number, counted from ``first``.
    """
    cells: list[list[Any]] = [[] for _ in columns]
    for number, line in enumerate(lines, first):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_float=Decimal, parse_constant=_refuse)
            for name, column in zip(columns, cells, strict=True):
                column.append(_json_text(row[name]) if name in text else _json_number(row[name]))
        except (ValueError, ArithmeticError, KeyError, TypeError, RecursionError) as error:
            # the library's own text may quote the line, which is private
            raise InvalidInputError(
                f"line {number} of {path} is not a JSON object with the fields {', '.join(columns)}: text or integers "
                f"for keys and indices, {NUMBER_FORM} for values ({type(error).__name__})"
            ) from None
    kinds = [pa.string() if name in text else _NUMBER for name in columns]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(cells, kinds, strict=True)], columns
    )


def _json_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError
    text = str(value)
    text.encode()  # a lone surrogate has no UTF-8
    return text


def _json_number(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise TypeError
    number = Decimal(value)
    if number.adjusted() >= 38 - 12 or (number and int(number.normalize().as_tuple().exponent) < -12):
        raise ArithmeticError
    return number


def _refuse(_: str) -> None:
    raise ValueError


def _line_batches(file: Any, path: str, columns: list[str], _: list[str]) -> Iterator[pa.RecordBatch]:
    check_columns(path, columns, ["file", "line"])
    for lines in _blocks_of_lines(_uncompressed(file, path), path):
        yield _lines(lines, path, columns)


def _blocks_of_lines(stream: Any, path: str) -> Iterator[list[bytes]]:
    rest = b""
    for block in _blocks(stream, path):
        *lines, rest = (rest + block).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def _blocks(stream: Any, path: str) -> Iterator[bytes]:
    try:
        yield stream.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
        while block := stream.read(_READ_BYTES):
            yield block
    except OSError as error:
        raise_if_of_the_file_system(error)
        raise InvalidInputError(f"{path} is not sound, or cut off: it cannot be uncompressed") from None


def _lines(lines: list[bytes], path: str, columns: list[str]) -> pa.RecordBatch:
    try:
        line = pa.array([line.removesuffix(b"\r") for line in lines], pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        raise InvalidInputError(f"{path} has a line that is not UTF-8; convert it first") from None
    name = pa.DictionaryArray.from_arrays(np.zeros(len(lines), dtype=np.int32), [path])
    found = {"file": name, "line": line}
    return pa.RecordBatch.from_pydict({column: found[column] for column in columns})


def _avro_batches(file: Any, path: str, columns: list[str], _: list[str]) -> Iterator[pa.RecordBatch]:
    try:
        from streamsketch.data.readers import avro  # noqa: PLC0415 - an extra, which only Avro files need
    except ImportError:
        raise InvalidInputError(f"{path}: reading Avro needs the extra streamsketch[beam]") from None
    yield from avro.batches(file, path, columns, _BATCH_ROWS)


def _uncompressed(file: Any, path: str) -> Any:
    stream = file if isinstance(file, pa.NativeFile) else pa.PythonFile(file, mode="r")
    codec = _compression(path)
    return pa.CompressedInputStream(stream, codec) if codec else stream


def _compression(path: str) -> str | None:
    return _CODECS.get(path.lower().rsplit(".", 1)[-1])


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind))
