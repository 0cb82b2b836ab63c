"""One file of each kind as Arrow record batches."""

import codecs
import io
import re
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
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
_AVRO_LOGICAL_TYPES: dict[tuple[Any, Any], pa.DataType] = {
    ("int", "date"): pa.date32(),
    **{
        ("long", f"{where}timestamp-{unit}"): pa.timestamp(short, tz=zone)
        for where, zone in (("", "UTC"), ("local-", None))
        for unit, short in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
_AVRO_PACKAGES = {"snappy": "cramjam", "zstandard": "backports.zstd", "lz4": "lz4"}
_DECIMAL_DIGITS = 38
_EXACT = Context(prec=2 * _DECIMAL_DIGITS)  # Arrow refuses what has more digits than a field's precision


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
    except (pa.ArrowException, OSError) as error:
        _raise_if_of_the_file_system(error)
        # Arrow's own text may quote the file, which is private
        raise InvalidInputError(
            f"{path} cannot be read as CSV ({type(error).__name__}). It needs a header line with the columns "
            f"{', '.join(columns)}, as many cells in every line, and plain decimal numbers for values; if it is "
            f"compressed, it may be cut off"
        ) from None


def _line_batches(file: Any, path: str, columns: list[str], _: list[str]) -> Iterator[pa.RecordBatch]:
    _check_columns(path, columns, ["file", "line"])
    rest = b""
    for block in _blocks(_uncompressed(file, path), path):
        *lines, rest = (rest + block).split(b"\n")
        if lines:
            yield _lines(lines, path, columns)
    if rest:
        yield _lines([rest], path, columns)


def _blocks(stream: Any, path: str) -> Iterator[bytes]:
    try:
        yield stream.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
        while block := stream.read(_READ_BYTES):
            yield block
    except OSError as error:
        _raise_if_of_the_file_system(error)
        raise InvalidInputError(f"{path} is not sound, or cut off: it cannot be uncompressed") from None


def _raise_if_of_the_file_system(error: Exception) -> None:
    """Raise errors that have a number: those of a file's contents have none."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def _lines(lines: list[bytes], path: str, columns: list[str]) -> pa.RecordBatch:
    try:
        line = pa.array([line.removesuffix(b"\r") for line in lines], pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        raise InvalidInputError(f"{path} has a line that is not UTF-8; convert it first") from None
    name = pa.DictionaryArray.from_arrays(np.zeros(len(lines), dtype=np.int32), [path])
    found = {"file": name, "line": line}
    return pa.RecordBatch.from_pydict({column: found[column] for column in columns})


def _avro_batches(file: Any, path: str, columns: list[str], _: list[str]) -> Iterator[pa.RecordBatch]:
    lacking = ""
    try:
        blocks = fastavro.block_reader(file)
        if blocks.codec in _AVRO_PACKAGES:
            lacking = f", or the package {_AVRO_PACKAGES[blocks.codec]} for its {blocks.codec} blocks is not installed"
        schema = _avro_schema(blocks.writer_schema, path, columns)
        records = _avro_records(blocks)
        while rows := list(islice(records, _BATCH_ROWS)):
            arrays = [_avro_column([row[field.name] for row in rows], field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
    except InvalidInputError:
        raise
    except Exception as error:  # noqa: BLE001 - broken files lead the libraries to raise whatever there is
        _raise_if_of_the_file_system(error)
        # the libraries' own text may quote the file, which is private
        raise InvalidInputError(f"{path} is not a sound Avro file ({type(error).__name__}){lacking}") from None


def _avro_records(blocks: Any) -> Iterator[dict[str, Any]]:
    """Yield records with their values as they are stored: a date that Python cannot hold would end the job."""
    stored = fastavro.parse_schema({"type": "array", "items": _without_logical_types(blocks.writer_schema)})
    for block in blocks:
        records, count = block.bytes_.read(), block.num_records
        if not 0 <= count <= len(records):  # a wrong count of records without bytes would never end
            raise ValueError
        # a block is an array, without its length and its end
        array = io.BytesIO()
        fastavro.schemaless_writer(array, "long", count)
        array.write(records + b"\0" if count else b"")
        array.seek(0)
        rows = fastavro.schemaless_reader(array, stored, None)
        if len(rows) != count:
            raise ValueError
        yield from rows


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(part) for part in schema]
    if isinstance(schema, dict):
        # defaults are for readers with a schema of their own
        left_out = ("logicalType", "default", "doc")
        return {name: _without_logical_types(part) for name, part in schema.items() if name not in left_out}
    return schema


def _avro_column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).view(kind)
    if pa.types.is_decimal(kind):
        values = [None if value is None else _decimal(value, kind.scale) for value in values]
    return pa.array(values, kind)


def _decimal(stored: bytes, scale: int) -> Decimal:
    return Decimal(int.from_bytes(stored, "big", signed=True)).scaleb(-scale, _EXACT)


def _avro_schema(schema: Any, path: str, columns: list[str]) -> pa.Schema:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if fields is None:
        raise InvalidInputError(f"{path} does not hold Avro records, which have named fields")
    kinds = {field["name"]: field["type"] for field in fields}
    _check_columns(path, columns, list(kinds))
    named = dict(_named_types(fields))
    return pa.schema([(name, _avro_type(kinds[name], f"the field {name!r} of {path}", named)) for name in columns])


def _named_types(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield the types in a schema that others of it may name."""
    if isinstance(schema, dict):
        if schema.get("type") in ("enum", "fixed"):
            yield schema["name"], schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from _named_types(part)


def _avro_type(kind: Any, name: str, named: dict[str, Any]) -> pa.DataType:
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        if len(others) == 1:
            return _avro_type(others[0], name, named)
    if isinstance(kind, str) and kind in _AVRO_TYPES:
        return _AVRO_TYPES[kind]
    if isinstance(kind, str) and kind in named:
        return _avro_type(named[kind], name, named)
    if isinstance(kind, dict):
        stored, logical = kind["type"], kind.get("logicalType")
        if logical == "decimal" and stored in ("bytes", "fixed"):
            return _decimal_type(kind, name)
        if logical in ("time-millis", "time-micros"):
            raise InvalidInputError(f"{name} holds times of day ({logical}), which are not read; convert it first")
        # where it is not one of its stored type, a logical type means nothing
        return _AVRO_LOGICAL_TYPES.get((stored, logical)) or _avro_type(stored, name, named)
    raise InvalidInputError(f"{name} is neither text, bytes, a number nor a time, or may be several; convert it first")


def _decimal_type(kind: dict[str, Any], name: str) -> pa.DataType:
    if kind["precision"] > _DECIMAL_DIGITS:
        raise InvalidInputError(
            f"{name} holds decimals of {kind['precision']} digits; at most {_DECIMAL_DIGITS} are read; convert it first"
        )
    return pa.decimal128(kind["precision"], kind.get("scale", 0))


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
