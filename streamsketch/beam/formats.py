"""One file of each kind as Arrow record batches."""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from streamsketch.errors import InvalidInputError

_BATCH_ROWS = 1 << 17
_READ_BYTES = 1 << 22
_NUMBER = pa.decimal128(38, 12)
_CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
_COMPRESSED = r"(\.(gz|bz2|zst))?$"
_AVRO_TYPES = {
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
_AVRO_LOGICAL_TYPES = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "uuid": pa.string(),
}


def parts_of(file: Any, path: str) -> int:
    """Return how many parts a file is read in: a Parquet file's row groups, 1 for those read whole."""
    if _reader(path) is not None:
        return 1
    try:
        return int(pq.ParquetFile(file).num_row_groups)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(
            f"{path} is not a Parquet file (nor named .csv, .avro, .txt or .log): {error}"
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
    if re.search(r"\.(txt|log)" + _COMPRESSED, name):
        return _line_batches
    return _avro_batches if name.endswith(".avro") else None


def _parquet_batches(file: Any, path: str, group: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
    schema = pq.read_schema(file)
    _check_columns(path, columns, schema.names)
    # text comes as the file's own dictionaries: each distinct key is hashed once
    texts = [name for name in columns if _is_text(schema.field(name).type)]
    parquet = pq.ParquetFile(file, read_dictionary=texts)
    yield from parquet.iter_batches(_BATCH_ROWS, row_groups=[group], columns=columns)


def _csv_batches(file: Any, path: str, columns: list[str], text: list[str]) -> Iterator[pa.RecordBatch]:
    types = {name: pa.string() if name in text else _NUMBER for name in columns}
    options = pa_csv.ConvertOptions(include_columns=columns, column_types=types, strings_can_be_null=False)
    parsing = pa_csv.ParseOptions(newlines_in_values=True)
    try:
        yield from pa_csv.open_csv(_uncompressed(file, path), parse_options=parsing, convert_options=options)
    except pa.ArrowException as error:
        # Arrow's own text may quote the file, which is private
        raise InvalidInputError(
            f"{path} cannot be read as CSV ({type(error).__name__}). It needs a header line with the columns "
            f"{', '.join(columns)}, as many cells in every line, and plain decimal numbers for values"
        ) from None


def _line_batches(file: Any, path: str, columns: list[str], _: list[str]) -> Iterator[pa.RecordBatch]:
    _check_columns(path, columns, ["file", "line"])
    stream = _uncompressed(file, path)
    rest = b""
    while block := stream.read(_READ_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        yield _lines(lines, path, columns)
    if rest:
        yield _lines([rest], path, columns)


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
        records = fastavro.reader(file)
        schema = _avro_schema(records.writer_schema, path, columns)
        while rows := list(islice(records, _BATCH_ROWS)):
            yield pa.RecordBatch.from_pylist([{name: row[name] for name in columns} for row in rows], schema)
    except (ValueError, EOFError, IndexError, pa.ArrowException) as error:
        if isinstance(error, InvalidInputError):
            raise
        # the library's own text may quote the file, which is private
        raise InvalidInputError(f"{path} is not a sound Avro file ({type(error).__name__})") from None


def _avro_schema(schema: Any, path: str, columns: list[str]) -> pa.Schema:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if fields is None:
        raise InvalidInputError(f"{path} does not hold Avro records, which have named fields")
    kinds = {field["name"]: field["type"] for field in fields}
    _check_columns(path, columns, list(kinds))
    return pa.schema([(name, _avro_type(kinds[name], f"the field {name!r} of {path}")) for name in columns])


def _avro_type(kind: Any, name: str) -> pa.DataType:
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        if len(others) == 1:
            return _avro_type(others[0], name)
    if isinstance(kind, dict):
        logical = kind.get("logicalType")
        if logical == "decimal":
            return pa.decimal128(kind["precision"], kind.get("scale", 0))
        return _AVRO_LOGICAL_TYPES[logical] if logical in _AVRO_LOGICAL_TYPES else _avro_type(kind["type"], name)
    if isinstance(kind, str) and kind in _AVRO_TYPES:
        return _AVRO_TYPES[kind]
    raise InvalidInputError(f"{name} is neither text, bytes, a number nor a time, or may be several; convert it first")


def _uncompressed(file: Any, path: str) -> Any:
    stream = pa.PythonFile(file, mode="r")
    codec = _CODECS.get(path.lower().rsplit(".", 1)[-1])
    return pa.CompressedInputStream(stream, codec) if codec else stream


def _check_columns(path: str, columns: list[str], there: list[str]) -> None:
    missing = [name for name in columns if name not in there]
    if missing:
        raise InvalidInputError(f"{path} has no column {', '.join(missing)}, only {', '.join(there)}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind))
