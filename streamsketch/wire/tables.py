"""Parquet tables of private sketches: one row a key."""

import io
import os
import stat
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streamsketch.core import check_length, current_limits, short, write_whole
from streamsketch.data import is_key_type, key_column, times_of
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.projections import Projection
from streamsketch.release import PrivateSketch
from streamsketch.wire.parquet_pages import check_footer, measure

_BATCH_ROWS = 1024
_LEAST_FOOTER = 1 << 16
_ID_BYTES = 120  # of a release id: the bytes object, and its places
_ROW_BYTES = 1536  # of the other objects of a release

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
            "mechanism": pa.array([str(release.guarantee.mechanism) for release in releases]),
            "conditions": pa.array([list(release.guarantee.conditions) for release in releases], pa.list_(pa.string())),
        },
        metadata={"streamsketch.projection": releases[0].projection.to_json()},
    )


def load_table(
    path: str | os.PathLike[str], *, expect: Projection | None = None, max_bytes: int | None = None
) -> dict[Any, PrivateSketch]:
    """Return the private sketches of a table, by key.

    Parameters
    ----------
    path
        A file that `save_table` wrote.
    expect
        The agreed projection, if any.
    max_bytes
        Refuse larger files, files whose pages are larger once they are decompressed, and files whose keys and
        releases take more memory; by default `Limits.max_table_bytes`.

    Raises
    ------
    WireFormatError
        If the file is no such table, a key appears twice, a sketch in it is unsound, or the table has more than
        `Limits.max_keys` rows. Keys finer than microseconds need pandas.
    OSError
        If the file cannot be read.
    """
    return load_rows(path, PrivateSketch, "sketch", expect=expect, max_bytes=max_bytes)


def load_rows(
    path: str | os.PathLike[str], kind: type[Released], column: str, *, expect: Projection | None, max_bytes: int | None
) -> dict[Any, Released]:
    """Return releases of a kind as `load_table` does, their bytes in ``column``."""
    limits = current_limits()
    most = limits.max_table_bytes if max_bytes is None else max_bytes
    with open(path, "rb") as file:  # noqa: PTH123 - path may be any path-like
        size = _size_of(file, most)
        try:
            parquet = _opened(file, size)
            _check_columns(parquet.schema_arrow, _names(parquet), column)
            if parquet.metadata.num_rows > limits.max_keys:
                raise WireFormatError(
                    "length", f"{parquet.metadata.num_rows} rows, over the limit of {limits.max_keys}; raise max_keys"
                )
            longest = measure(file, size, parquet.metadata, ["key", column], most).longest
            # a value may be a few bytes in the file, by a dictionary or a prefix, but is no longer than a page
            rows = max(1, min(_BATCH_ROWS, most // max(1, longest)))
            return _read(parquet, kind, column, expect, rows, most)
        except (pa.ArrowException, OSError) as error:
            raise WireFormatError("parquet", f"is not a readable Parquet file ({type(error).__name__})") from None


def column_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of a Parquet file's columns; the pages are not read.

    Raises
    ------
    WireFormatError
        If the file is no Parquet file, or a name is not UTF-8.
    OSError
        If the file cannot be read.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - path may be any path-like
        size = _size_of(file, None)
        try:
            return _names(_opened(file, size))
        except (pa.ArrowException, OSError) as error:
            raise WireFormatError("parquet", f"is not a readable Parquet file ({type(error).__name__})") from None


def _size_of(file: BinaryIO, most: int | None) -> int:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise WireFormatError("parquet", "is not a regular file; a table is read from its end")
    if most is not None:
        check_length(status.st_size, most, "max_table_bytes")
    return status.st_size


def _opened(file: BinaryIO, size: int) -> pq.ParquetFile:
    """Return an open Parquet file; lists in its footer have no more entries than the footer has bytes."""
    most = min(current_limits().max_header_bytes // 4, max(_LEAST_FOOTER, size // 4))
    footer = check_footer(file, size, most)
    most = max(1, footer)
    try:
        return pq.ParquetFile(file, thrift_string_size_limit=most, thrift_container_size_limit=most)
    except UnicodeDecodeError:
        raise WireFormatError("columns", "have names that are not UTF-8") from None


def _names(parquet: pq.ParquetFile) -> list[str]:
    try:
        return list(parquet.schema_arrow.names)
    except UnicodeDecodeError:
        raise WireFormatError("columns", "have names that are not UTF-8") from None


def _read(
    parquet: pq.ParquetFile, kind: type[Released], column: str, expect: Projection | None, rows: int, most: int
) -> dict[Any, Released]:
    sketches: dict[Any, Released] = {}
    kept = row = 0
    for batch in parquet.iter_batches(rows, columns=["key", column]):
        for key, image in zip(_keys(batch.column("key")), batch.column(column), strict=True):
            if not image.is_valid:
                raise WireFormatError(f"row {row}", f"has no {column}")
            if key in sketches:
                raise WireFormatError(f"row {row}", "has a key that appeared before")
            try:
                release = kind.from_bytes(image.as_py(), expect=expect, max_bytes=most)
            except WireFormatError as error:
                raise WireFormatError(f"row {row}, {error.where}", error.problem) from None
            kept += _memory_of(key, release)
            if kept > most:
                raise WireFormatError("length", f"over the limit of {most} bytes unpacked; raise max_bytes")
            sketches[key] = release
            expect = release.projection  # one projection a table
            row += 1
    return sketches


def _memory_of(key: Any, release: Any) -> int:
    """Return how much memory a row takes, roughly: cells or signs, ids and text."""
    guarantee = release.guarantee
    texts = [str(guarantee.mechanism), guarantee.neighbours.unit, *getattr(guarantee, "conditions", ())]
    size = release.values.nbytes if isinstance(release, PrivateSketch) else release.words.nbytes
    ids = len(release.release_ids) if isinstance(release, PrivateSketch) else 1
    return int(sys.getsizeof(key) + size + _ID_BYTES * ids + sum(map(sys.getsizeof, texts)) + _ROW_BYTES)


def _check_columns(schema: pa.Schema, names: list[str], column: str) -> None:
    if any(names.count(name) != 1 for name in ("key", column)):
        raise WireFormatError("columns", f"must include key and {column} once each, got {short(names)}")
    kind = schema.field(column).type
    if kind not in (pa.binary(), pa.large_binary()):
        raise WireFormatError("columns", f"must have {column} as binary, got {short(str(kind))}")
    kind = schema.field("key").type
    if not is_key_type(kind.value_type if pa.types.is_dictionary(kind) else kind):
        raise WireFormatError("key", f"must be text, bytes, integers, dates or times, got {short(str(kind))}")


def _keys(column: pa.Array) -> list[Any]:
    try:
        column = key_column(column, "key")
        if not pa.types.is_dictionary(column.type):
            return _values(column)
        used, places = np.unique(column.indices.to_numpy(zero_copy_only=False), return_inverse=True)
        values = _values(column.dictionary.take(pa.array(used)))
        return [values[place] for place in places]
    except (InvalidInputError, UnicodeDecodeError, OverflowError) as error:
        raise WireFormatError("key", f"must be text, bytes, integers, dates or times, all present: {error}") from None


def _values(keys: pa.Array) -> list[Any]:
    values: list[Any] = times_of(keys) if pa.types.is_timestamp(keys.type) else keys.to_pylist()
    return values
