"""Avro files as Arrow record batches, their values as they are stored."""

import io
from collections.abc import Iterator, Mapping
from decimal import Context, Decimal
from itertools import islice
from typing import Any

import fastavro
import pyarrow as pa

from streamsketch.data.readers.opening import BATCH_ROWS, check_columns, raise_if_of_the_file_system
from streamsketch.errors import InvalidInputError

_TYPES = {
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
_LOGICAL_TYPES: dict[tuple[Any, Any], pa.DataType] = {
    ("int", "date"): pa.date32(),
    **{
        ("long", f"{where}timestamp-{unit}"): pa.timestamp(short, tz=zone)
        for where, zone in (("", "UTC"), ("local-", None))
        for unit, short in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
_PACKAGES = {"snappy": "cramjam", "zstandard": "backports.zstd", "lz4": "lz4"}
_DECIMAL_DIGITS = 38
_EXACT = Context(prec=2 * _DECIMAL_DIGITS)  # Arrow refuses what has more digits than a field's precision


def batches(file: Any, path: str, columns: list[str], _: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the columns of an Avro file; errors as for other files."""
    lacking = ""
    try:
        blocks = fastavro.block_reader(file)
        if blocks.codec in _PACKAGES:
            lacking = f", or the package {_PACKAGES[blocks.codec]} for its {blocks.codec} blocks is not installed"
        schema = _schema(blocks.writer_schema, path, columns)
        records = _records(blocks)
        while rows := list(islice(records, BATCH_ROWS)):
            arrays = [_column([row[field.name] for row in rows], field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
    except InvalidInputError:
        raise
    except Exception as error:  # noqa: BLE001 - broken files lead the libraries to raise whatever there is
        raise_if_of_the_file_system(error)
        # the libraries' own text may quote the file, which is private
        raise InvalidInputError(f"{path} is not a valid Avro file ({type(error).__name__}){lacking}") from None


class Records:
    """Reads single records of a schema, such as those of messages, their values as they are stored.

    Parameters
    ----------
    schema
        The writer's schema.
    what
        What holds the records, for errors.
    columns
        The fields that are read.

    Raises
    ------
    InvalidInputError
        If a field is missing or of a type that is not read; or if the schema has lists of entries without bytes, of
        which a short message may hold any number.
    """

    def __init__(self, schema: Any, what: str, columns: list[str]) -> None:
        self._fields, self._what = _schema(schema, what, columns), what
        names: dict[str, Any] = {}
        self._stored = fastavro.parse_schema(_without_logical_types(schema), names)  # which spells names out
        if _has_empty_entries(self._stored, names):
            raise InvalidInputError(f"{what} has lists whose entries take no bytes, which cannot be bounded")

    def read(self, data: bytes) -> pa.RecordBatch:
        """Return the record in some bytes, and nothing else in them, as a batch of one row.

        Raises
        ------
        InvalidInputError
            For other bytes.
        """
        source = io.BytesIO(data)
        try:
            row = fastavro.schemaless_reader(source, self._stored, None)
            arrays = [_column([row[field.name]], field.type) for field in self._fields]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self._fields)
        except Exception as error:  # noqa: BLE001 - broken bytes lead the libraries to raise whatever there is
            raise InvalidInputError(f"{self._what} is not a valid Avro record ({type(error).__name__})") from None
        if source.read(1):
            raise InvalidInputError(f"{self._what} has bytes behind its record")
        return batch


def _has_empty_entries(schema: Any, names: Mapping[str, Any]) -> bool:
    """Return whether a schema has arrays of entries that may take no bytes; ``names`` has all named types."""
    if isinstance(schema, list):
        return any(_has_empty_entries(part, names) for part in schema)
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "array" and _takes_nothing(schema["items"], names):
        return True
    return any(
        _has_empty_entries(part, names)
        for name, part in schema.items()
        if name in ("type", "items", "values", "fields")
    )


def _takes_nothing(schema: Any, names: Mapping[str, Any], within: tuple[str, ...] = ()) -> bool:
    """Return whether a value may take no bytes; ``within`` are the records that it is part of."""
    if isinstance(schema, str):
        if schema in within:
            return True  # a record in itself, which has no end
        return schema == "null" or (schema in names and _takes_nothing(names[schema], names, (*within, schema)))
    if not isinstance(schema, dict):
        return False
    match schema.get("type"):
        case "record":
            return all(_takes_nothing(field["type"], names, within) for field in schema["fields"])
        case "fixed":
            return not schema["size"]
        case other:
            return _takes_nothing(other, names, within)


def _records(blocks: Any) -> Iterator[dict[str, Any]]:
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


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).view(kind)
    if pa.types.is_decimal(kind):
        values = [None if value is None else _decimal(value, kind.scale) for value in values]
    return pa.array(values, kind)


def _decimal(stored: bytes, scale: int) -> Decimal:
    return Decimal(int.from_bytes(stored, "big", signed=True)).scaleb(-scale, _EXACT)


def _schema(schema: Any, path: str, columns: list[str]) -> pa.Schema:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if fields is None:
        raise InvalidInputError(f"{path} does not hold Avro records, which have named fields")
    kinds = {field["name"]: field["type"] for field in fields}
    check_columns(path, columns, list(kinds))
    named = dict(_named_types(fields))
    return pa.schema([(name, _type(kinds[name], f"the field {name!r} of {path}", named)) for name in columns])


def _named_types(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield the types in a schema that others of it may name."""
    if isinstance(schema, dict):
        if schema.get("type") in ("enum", "fixed"):
            yield schema["name"], schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from _named_types(part)


def _type(kind: Any, name: str, named: dict[str, Any]) -> pa.DataType:
    if isinstance(kind, list):
        others = [part for part in kind if part != "null"]
        if len(others) == 1:
            return _type(others[0], name, named)
    if isinstance(kind, str) and kind in _TYPES:
        return _TYPES[kind]
    if isinstance(kind, str) and kind in named:
        return _type(named[kind], name, named)
    if isinstance(kind, dict):
        stored, logical = kind["type"], kind.get("logicalType")
        if stored == "array":
            entries = _type(kind["items"], name, named)
            if pa.types.is_floating(entries) or pa.types.is_int64(entries):
                return pa.list_(entries)
        if logical == "decimal" and stored in ("bytes", "fixed"):
            return _decimal_type(kind, name)
        if logical in ("time-millis", "time-micros"):
            raise InvalidInputError(f"{name} holds times of day ({logical}), which cannot be read; convert it first")
        # where it is not one of its stored type, a logical type means nothing
        return _LOGICAL_TYPES.get((stored, logical)) or _type(stored, name, named)
    raise InvalidInputError(
        f"{name} must be of one type: text, bytes, numbers, times or lists of numbers; convert it first"
    )


def _decimal_type(kind: dict[str, Any], name: str) -> pa.DataType:
    if kind["precision"] > _DECIMAL_DIGITS:
        raise InvalidInputError(
            f"{name} holds decimals of {kind['precision']} digits; at most {_DECIMAL_DIGITS} are read; convert it first"
        )
    return pa.decimal128(kind["precision"], kind.get("scale", 0))
