"""Parquet tables of releases: one row per key."""

import contextlib
import io
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from streamsketch.core.documents import TableKey
from streamsketch.core.libraries import is_installed, pa, pq
from streamsketch.core.limits import check_length, current_limits
from streamsketch.core.numbers import short
from streamsketch.core.wrong import BYTES, wrong_type
from streamsketch.data.columns import is_key_type, key_column, key_values
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.projections.base import Projection
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.release.private_table import PrivateTable
from streamsketch.release.published_table import TABLES, PublishedTable
from streamsketch.release.readable import row_memory
from streamsketch.wire import plain_parquet
from streamsketch.wire.codecs import Codec, enter_codec
from streamsketch.wire.parquet_pages import check_footer, measure, read_footer
from streamsketch.wire.parsing import at

_BATCH_ROWS = 1024
_LEAST_FOOTER = 1 << 16


def encode_table(table: PublishedTable[Any]) -> bytes:
    """Return a table of releases as a Parquet file, which any Parquet reader opens; equal tables give equal bytes."""
    content = io.BytesIO()
    pq.write_table(table.to_arrow(), content)
    return content.getvalue()


def read_table(
    file: BinaryIO,
    size: int,
    kind: type[PublishedTable[Any]] | None,
    *,
    expect: Projection | None,
    max_bytes: int | None,
) -> PublishedTable[Any]:
    """Return the table of releases in an open Parquet file.

    Parameters
    ----------
    file, size
        The file, and how many bytes it has.
    kind
        The class of the table; by default it follows from the columns.
    expect
        The agreed projection, if any.
    max_bytes
        Refuse larger files, files whose pages are larger once they are decompressed, and files whose keys and
        releases take more memory; by default `Limits.max_table_bytes`.

    Raises
    ------
    WireFormatError
        If the file is no such table, a key appears twice, a release in it is invalid or has another guarantee, or the
        table has no row or more than `Limits.max_keys`. Keys finer than microseconds need pandas.
    """
    if is_installed("pyarrow"):
        with checked(file, size, kind, max_bytes) as table:
            rows = _rows_of(table.parquet, table.kind, table.rows)
            releases = _read(rows, table.kind, expect, table.most)
            kind = table.kind
    else:
        kind, most, rows = _plain_rows(file, size, kind, max_bytes)
        releases = _read(rows, kind, expect, most)
    if not releases:
        raise WireFormatError("length", "a table without a row: it holds no release")
    return at("table", lambda: kind.of_one(releases))


def encoded_rows(data: bytes, kind: type[PublishedTable[Any]]) -> dict[TableKey, bytes]:
    """Return the rows of what `encode_table` wrote, by key, each as the bytes of its release; they are not parsed."""
    with checked(io.BytesIO(data), len(data), kind, None) as table:
        return {key: image for key, image in _rows_of(table.parquet, kind, table.rows) if image is not None}


class Reading(NamedTuple):
    """An open table whose footer and page headers were checked."""

    parquet: "pq.ParquetFile"
    kind: type[PublishedTable[Any]]
    rows: int
    """At a time, within memory."""
    most: int
    """Bytes that it may take."""


@contextlib.contextmanager
def checked(
    file: BinaryIO, size: int, kind: type[PublishedTable[Any]] | None, max_bytes: int | None
) -> Iterator[Reading]:
    """Yield a table to be read; errors as `read_table`."""
    limits = current_limits()
    most = limits.max_table_bytes if max_bytes is None else max_bytes
    check_length(size, most, "max_table_bytes")
    try:
        parquet = _opened(file, size)
        names = _names(parquet)
        if kind is None:
            kind = _kind_with(names) or PrivateTable
        _check_columns(parquet.schema_arrow, names, kind.column)
        _check_rows(parquet.metadata.num_rows)
        longest = measure(file, size, parquet.metadata, ["key", kind.column], most).longest
        # a value may be a few bytes in the file, by a dictionary or a prefix, but is no longer than a page
        yield Reading(parquet, kind, max(1, min(_BATCH_ROWS, most // max(1, longest))), most)
    except (pa.ArrowException, OSError) as error:
        raise WireFormatError("parquet", f"is not a readable Parquet file ({type(error).__name__})") from None


def kind_of(file: BinaryIO, size: int) -> type[PublishedTable[Any]] | None:
    """Return the class of the table in an open Parquet file, by its columns; None where it is no such table.

    Raises
    ------
    WireFormatError
        If the file is no Parquet file, or a name is not UTF-8.
    """
    if not is_installed("pyarrow"):
        return _kind_with([leaf.path for leaf in read_footer(file, size, _longest_footer(size)).leaves])
    try:
        return _kind_with(_names(_opened(file, size)))
    except (pa.ArrowException, OSError) as error:
        raise WireFormatError("parquet", f"is not a readable Parquet file ({type(error).__name__})") from None


def _plain_rows(
    file: BinaryIO, size: int, kind: type[PublishedTable[Any]] | None, max_bytes: int | None
) -> tuple[type[PublishedTable[Any]], int, Iterator[tuple[Any, Any]]]:
    """Return the class of a table, how many bytes it may take, and its rows, read without Arrow; checked as it is."""
    limits = current_limits()
    most = limits.max_table_bytes if max_bytes is None else max_bytes
    check_length(size, most, "max_table_bytes")
    footer = read_footer(file, size, _longest_footer(size))
    names = [leaf.path for leaf in footer.leaves]
    kind = kind or _kind_with(names) or PrivateTable
    _check_names(names, kind.column)
    if plain_parquet.kind_of(footer.leaf(kind.column)).name != "bytes":
        raise WireFormatError("columns", f"must have {kind.column} as binary")
    _check_rows(footer.rows)
    measure(file, size, footer, ["key", kind.column], most)
    return kind, most, plain_parquet.rows_of(file, footer, ("key", kind.column))


def _kind_with(names: list[str]) -> type[PublishedTable[Any]] | None:
    column = next((column for column in TABLES if column in names), None)
    return None if column is None else TABLES.get(column, f"this table holds {column}")


def decode_table(
    data: bytes, *, expect: Projection | None, max_bytes: int | None, kind: type[PublishedTable[Any]] | None = None
) -> PublishedTable[Any]:
    """Return the table of releases in bytes; by default its kind follows from the columns, see `read_table`."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise wrong_type("a table is read from bytes", data, BYTES)
    return read_table(io.BytesIO(data), len(data), kind, expect=expect, max_bytes=max_bytes)


def _opened(file: BinaryIO, size: int) -> "pq.ParquetFile":
    """Return an open Parquet file; lists in its footer have no more entries than the footer has bytes."""
    footer = check_footer(file, size, _longest_footer(size))
    most = max(1, footer)
    try:
        return pq.ParquetFile(file, thrift_string_size_limit=most, thrift_container_size_limit=most)
    except UnicodeDecodeError:
        raise WireFormatError("columns", "have names that are not UTF-8") from None


def _longest_footer(size: int) -> int:
    return min(current_limits().max_header_bytes // 4, max(_LEAST_FOOTER, size // 4))


def _check_rows(rows: int) -> None:
    most = current_limits().max_keys
    if rows > most:
        raise WireFormatError("length", f"{rows} rows, over the limit of {most}; raise max_keys")


def _names(parquet: "pq.ParquetFile") -> list[str]:
    try:
        return list(parquet.schema_arrow.names)
    except UnicodeDecodeError:
        raise WireFormatError("columns", "have names that are not UTF-8") from None


def _rows_of(
    parquet: "pq.ParquetFile", kind: type[PublishedTable[Any]], rows: int
) -> Iterator[tuple[Any, bytes | None]]:
    for batch in parquet.iter_batches(rows, columns=["key", kind.column]):
        yield from zip(_keys(batch.column("key")), batch.column(kind.column).to_pylist(), strict=True)


def _read(
    rows: Iterator[tuple[Any, Any]], kind: type[PublishedTable[Any]], expect: Projection | None, most: int
) -> dict[TableKey, Any]:
    releases: dict[TableKey, Any] = {}
    kept = 0
    guarantee = None
    for row, (key, image) in enumerate(rows):
        if image is None:
            raise WireFormatError(f"row {row}", f"has no {kind.column}")
        if key in releases:
            raise WireFormatError(f"row {row}", "has a key that appeared before")
        try:
            release = kind.row_type.from_bytes(image, expect=expect, max_bytes=most)
        except WireFormatError as error:
            raise WireFormatError(f"row {row}, {error.where}", error.problem) from None
        if guarantee not in (None, release.guarantee):
            raise WireFormatError(
                f"row {row}, guarantee", "is not that of the rows before: a table is one release with one guarantee"
            )
        kept += _memory_of(key, release)
        if kept > most:
            raise WireFormatError("length", f"over the limit of {most} bytes unpacked; raise max_bytes")
        releases[key] = release
        expect, guarantee = release.projection, release.guarantee
    return releases


def _memory_of(key: TableKey, release: Any) -> int:
    size = release.values.nbytes if isinstance(release, PrivateSketch) else release.words.nbytes
    return row_memory(key, release.guarantee, size, len(release.summed_ids))


def _check_names(names: list[str], column: str) -> None:
    if any(names.count(name) != 1 for name in ("key", column)):
        raise WireFormatError("columns", f"must include key and {column} once each, got {short(names)}")


def _check_columns(schema: "pa.Schema", names: list[str], column: str) -> None:
    _check_names(names, column)
    kind = schema.field(column).type
    if kind not in (pa.binary(), pa.large_binary()):
        raise WireFormatError("columns", f"must have {column} as binary, got {short(str(kind))}")
    kind = schema.field("key").type
    if not is_key_type(kind.value_type if pa.types.is_dictionary(kind) else kind):
        raise WireFormatError("key", f"must be text, bytes, integers, dates or times, got {short(str(kind))}")


def _keys(column: "pa.Array") -> list[TableKey]:
    try:
        column = key_column(column, "key")
        if not pa.types.is_dictionary(column.type):
            return key_values(column)
        used, places = np.unique(column.indices.to_numpy(zero_copy_only=False), return_inverse=True)
        values = key_values(column.dictionary.take(pa.array(used)))
        return [values[place] for place in places]
    except InvalidInputError as error:
        raise WireFormatError("key", f"must be text, bytes, integers, dates or times, all present: {error}") from None


enter_codec(Codec(PublishedTable, "table of releases", encode_table, decode_table))
