"""Parquet tables of private sketches: one row a key."""

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.projections.base import Projection
from streamsketch.release import PrivateSketch

_COLUMNS = ("key", "sketch")


def save_table(sketches: Mapping[Any, PrivateSketch], path: str | os.PathLike[str]) -> None:
    """Write private sketches as a Parquet table that `load_table` and any Parquet reader can open.

    Columns: ``key`` (the mapping's keys), ``sketch`` (binary, the exchange format of WIRE.md), and for people
    ``epsilon``, ``delta``, ``unit`` and ``mechanism``.

    Parameters
    ----------
    sketches
        Releases of one projection by key; keys of one Arrow type.

    Raises
    ------
    TypeError
        If a value is not a PrivateSketch: raw sketches have no public format.
    IncompatibleProjectionsError
        If the projections differ.
    InvalidInputError
        If there are none, or the keys have no common Arrow type.
    """
    table = table_of(sketches)
    pq.write_table(table, os.fspath(path))


def table_of(sketches: Mapping[Any, PrivateSketch]) -> pa.Table:
    """Return private sketches as the Arrow table that `save_table` writes; errors as there."""
    if not sketches:
        raise InvalidInputError("there are no sketches to write; give at least one")
    releases = list(sketches.values())
    for release in releases:
        if not isinstance(release, PrivateSketch):
            raise TypeError(
                f"only PrivateSketch objects have a public format, got a {type(release).__name__}. Call release() first"
            )
        releases[0].projection.check_same(release.projection)
    try:
        keys = pa.array(list(sketches))
    except (pa.ArrowException, TypeError) as error:
        raise InvalidInputError(f"the keys must have one Arrow type, such as text or integers: {error}") from None
    return pa.table(
        {
            "key": keys,
            "sketch": pa.array([release.to_bytes() for release in releases], pa.binary()),
            "epsilon": pa.array([release.guarantee.epsilon for release in releases]),
            "delta": pa.array([release.guarantee.delta for release in releases]),
            "unit": pa.array([release.guarantee.neighbours.unit for release in releases]),
            "mechanism": pa.array([release.guarantee.mechanism for release in releases]),
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
        Refuse files, or uncompressed columns, larger than this.

    Raises
    ------
    WireFormatError
        If the file is no such table, a key appears twice, or a sketch in it is unsound.
    OSError
        If the file cannot be read.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - path may be any path-like
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise WireFormatError("length", f"{size} bytes, over the limit of {max_bytes}; raise max_bytes")
        try:
            parquet = pq.ParquetFile(file)
            groups = [parquet.metadata.row_group(number) for number in range(parquet.num_row_groups)]
            unpacked = sum(group.total_byte_size for group in groups)
            if unpacked > max_bytes:
                raise WireFormatError("length", f"{unpacked} bytes unpacked, over the limit of {max_bytes}")
            table = parquet.read(columns=list(_COLUMNS))
        except (pa.ArrowException, OSError) as error:
            raise WireFormatError("parquet", f"is not a readable Parquet file: {error}") from None
    if table.column_names != list(_COLUMNS) or table.schema.field("sketch").type != pa.binary():
        raise WireFormatError("columns", f"must include key and sketch (binary), got {table.column_names}")
    keys, images = (table.column(name).to_pylist() for name in _COLUMNS)
    if len(set(keys)) < len(keys):
        raise WireFormatError("key", "appears twice in the table")
    sketches = {}
    for row, (key, image) in enumerate(zip(keys, images, strict=True)):
        if image is None:
            raise WireFormatError(f"row {row}", "has no sketch")
        try:
            sketches[key] = PrivateSketch.from_bytes(image, expect=expect, max_bytes=max_bytes)
        except WireFormatError as error:
            raise WireFormatError(f"row {row}, {error.where}", error.problem) from None
    return sketches
