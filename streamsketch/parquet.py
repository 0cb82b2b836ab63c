"""Parquet tables of private sketches: one row a key."""

import io
import os
from collections.abc import Mapping
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streamsketch.columns import key_column
from streamsketch.encoding import short
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.files import write_whole
from streamsketch.projections.base import Projection
from streamsketch.release import PrivateSketch

_BATCH_ROWS = 256

Released = TypeVar("Released", bound=Any)


def save_table(sketches: Mapping[Any, PrivateSketch], path: str | os.PathLike[str]) -> None:
    """Write private sketches as a Parquet table that `load_table` and any Parquet reader can open.

    Rows ascend by key, so that the order of the mapping, which may be that of events, shows nothing.

    Columns: ``key`` (the mapping's keys), ``sketch`` (binary, the exchange format of WIRE.md), and for people
    ``epsilon``, ``delta``, ``unit``, ``mechanism`` and ``conditions`` (a list, usually empty).

    Parameters
    ----------
    sketches
        Releases of one projection by key; keys of one type: text, bytes, integers, dates or times.

    Raises
    ------
    TypeError
        If a value is not a PrivateSketch: raw sketches have no public format.
    IncompatibleProjectionsError
        If the projections differ.
    InvalidInputError
        If there are none, or the keys have no common type.
    """
    save_rows(sketches, path, PrivateSketch, "sketch")


def save_rows(sketches: Mapping[Any, Any], path: str | os.PathLike[str], kind: type[Any], column: str) -> None:
    """Write releases of a kind as `save_table` does, their bytes in ``column``."""
    content = io.BytesIO()
    pq.write_table(table_of(sketches, kind, column), content)
    write_whole(path, content.getvalue())


def table_of(sketches: Mapping[Any, Any], kind: type[Any] = PrivateSketch, column: str = "sketch") -> pa.Table:
    """Return releases as the Arrow table that `save_table` writes; errors as there."""
    if not sketches:
        raise InvalidInputError("there are no sketches to write; give at least one")
    releases = list(sketches.values())
    for release in releases:
        if not isinstance(release, kind):
            raise TypeError(
                f"a table holds {kind.__name__} objects, got a {type(release).__name__}. Call release() first: raw "
                f"sketches have no public format"
            )
        releases[0].projection.check_same(release.projection)
    keys = key_column(list(sketches), "key")
    order = pc.sort_indices(keys)
    releases = [releases[place] for place in order.to_pylist()]
    return pa.table(
        {
            "key": keys.take(order),
            column: pa.array([release.to_bytes() for release in releases], pa.binary()),
            "epsilon": pa.array([release.guarantee.epsilon for release in releases]),
            "delta": pa.array([release.guarantee.delta for release in releases]),
            "unit": pa.array([release.guarantee.neighbours.unit for release in releases]),
            "mechanism": pa.array([release.guarantee.mechanism for release in releases]),
            "conditions": pa.array([list(release.guarantee.conditions) for release in releases], pa.list_(pa.string())),
        },
        metadata={"streamsketch.projection": releases[0].projection.to_json()},
    )


def load_table(
    path: str | os.PathLike[str], *, expect: Projection | None = None, max_bytes: int = 1 << 30
) -> dict[Any, PrivateSketch]:
    """Return the private sketches of a table, by key.

    Parameters
    ----------
    path
        A file that `save_table` wrote.
    expect
        The agreed projection, if any.
    max_bytes
        Refuse larger files, and files whose sketches add up to more. Opening the file itself is left to Arrow.

    Raises
    ------
    WireFormatError
        If the file is no such table, a key appears twice, or a sketch in it is unsound.
    OSError
        If the file cannot be read.
    """
    return load_rows(path, PrivateSketch, "sketch", expect=expect, max_bytes=max_bytes)


def load_rows(
    path: str | os.PathLike[str], kind: type[Released], column: str, *, expect: Projection | None, max_bytes: int
) -> dict[Any, Released]:
    """Return releases of a kind as `load_table` does, their bytes in ``column``."""
    with open(path, "rb") as file:  # noqa: PTH123 - path may be any path-like
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise WireFormatError("length", f"{size} bytes, over the limit of {max_bytes}; raise max_bytes")
        try:
            plain = pq.ParquetFile(file)
            _check_columns(plain.schema_arrow, column)
            # dictionary-encoded, so that a repeated sketch is not unpacked before its bytes are counted
            encoded = pq.ParquetFile(file, metadata=plain.metadata, read_dictionary=[column])
            return _read(encoded, kind, column, expect, max_bytes)
        except (pa.ArrowException, OSError) as error:
            raise WireFormatError("parquet", f"is not a readable Parquet file ({type(error).__name__})") from None


def _read(
    parquet: pq.ParquetFile, kind: type[Released], column: str, expect: Projection | None, max_bytes: int
) -> dict[Any, Released]:
    sketches: dict[Any, Released] = {}
    unpacked = row = 0
    for batch in parquet.iter_batches(_BATCH_ROWS, columns=["key", column]):
        for key, image in zip(_keys(batch.column("key")), batch.column(column), strict=True):
            if not image.is_valid:
                raise WireFormatError(f"row {row}", f"has no {column}")
            data = image.as_py()
            unpacked += len(data)
            if unpacked > max_bytes:
                raise WireFormatError("length", f"over the limit of {max_bytes} bytes unpacked; raise max_bytes")
            if key in sketches:
                raise WireFormatError(f"row {row}", "has a key that appeared before")
            try:
                sketches[key] = kind.from_bytes(data, expect=expect, max_bytes=max_bytes)
            except WireFormatError as error:
                raise WireFormatError(f"row {row}, {error.where}", error.problem) from None
            expect = sketches[key].projection  # one projection a table
            row += 1
    return sketches


def _check_columns(schema: pa.Schema, column: str) -> None:
    if any(schema.names.count(name) != 1 for name in ("key", column)):
        raise WireFormatError("columns", f"must include key and {column} once each, got {short(schema.names)}")
    kind = schema.field(column).type
    if kind not in (pa.binary(), pa.large_binary()):
        raise WireFormatError("columns", f"must have {column} as binary, got {short(str(kind))}")


def _keys(column: pa.Array) -> list[Any]:
    try:
        keys: list[Any] = key_column(column, "key").to_pylist()
    except (InvalidInputError, UnicodeDecodeError, OverflowError) as error:
        raise WireFormatError("key", f"must be text, bytes, integers, dates or times, all present: {error}") from None
    return keys
