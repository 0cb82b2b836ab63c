"""Adding to raw files that other processes add to and release from as well."""

import dataclasses
import io
import os
from pathlib import Path
from typing import Any, cast

import numpy as np

from streamsketch.core import current_limits, locked
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import NO_DATA, Bounds
from streamsketch.sketching import Sketch, SketchTable
from streamsketch.storage.files import (
    KeyPart,
    RawHead,
    check_one_name,
    key_part,
    load_raw,
    read_head,
    replace_raw,
    united,
)
from streamsketch.storage.format import MAX_BYTES, RawSketch, State, agreed_in, encode, read_header
from streamsketch.storage.log import log_start, write_behind

_MOST_PARTS = 256  # of which a file consists, as each costs its readers some tenths of a millisecond
_LEAST_BYTES = 1 << 20  # that may be appended, however small a file is


def append_raw(raw: RawSketch, path: str | os.PathLike[str], *, new: bool = False) -> RawHead:
    """Add a raw sketch to what a file holds, or write it if there is none; return what the file is about then.

    It is written behind what is there, of which no cell is read, and keys are copied but not decoded; now and then, so
    that each byte is written again but a few times, all is written anew. A process that is killed leaves the file as it
    was, or with all that was to be added. The file is locked from the read to the write: what several processes append,
    and snapshots between, all count.

    Parameters
    ----------
    raw
        The events to add. Made from `emptied` of what the file holds, it adds no data ids.
    path
        The raw file.
    new
        Whether there must be no such file yet.

    Raises
    ------
    InvalidInputError
        If one holds one stream and the other a table, there is a file that should be new, or both together are too
        large for a file.
    IncompatibleProjectionsError
        If the projections differ.
    WireFormatError, OSError
        As `load_raw`, or if the file cannot be written. The file is then unchanged.
    """
    with locked(path):
        if new and Path(path).exists():
            raise InvalidInputError(f"{path} was made by another process meanwhile and is not replaced; append to it")
        try:
            head = read_head(path)
        except FileNotFoundError:
            replace_raw(raw, path)
            return read_head(path)
        if type(head.empty) is not type(raw.state):
            raise InvalidInputError(
                f"{path} and what is added to it differ: one holds one stream, the other one for each key"
            )
        cast("Any", head.empty).merge(raw.state)  # fails where they do not belong together
        data = encode(dataclasses.replace(raw, releases=()))
        if raw.releases or not _has_room(head, len(data)):
            _rewrite(raw, path)
            return read_head(path)
        check_one_name(path)
        with Path(path).open("r+b") as file:
            end = write_behind(file, head.first, head.end, data)
    return RawHead(emptied(head.empty), head.events + raw.events, head.first, end, (*head.key_parts, _keys_in(data)))


def _keys_in(data: bytes) -> KeyPart:
    file = io.BytesIO(data)
    header, size = read_header(file, len(data))
    return key_part(file, header, 0, size, agreed_in(header)[0])


def _has_room(head: RawHead, more: int) -> bool:
    """Return whether a file is read again fast enough with so many bytes appended, at most as many as it began with."""
    appended = head.end - min(head.end, log_start(head.first)) + more
    return (
        len(head.key_parts) <= _MOST_PARTS
        and appended <= max(head.first, _LEAST_BYTES)
        and log_start(head.first) + appended <= min(MAX_BYTES, current_limits().max_raw_bytes)
    )


def _rewrite(raw: RawSketch, path: str | os.PathLike[str]) -> None:
    """Write what a file holds and what is added to it as one."""
    there = load_raw(path)
    cast("Any", there.state).merge(raw.state)
    releases = united([there.releases, raw.releases])
    replace_raw(dataclasses.replace(there, events=there.events + raw.events, releases=releases), path)


def emptied(state: State, *, bounds: Bounds = NO_DATA) -> State:
    """Return a new sketch or table with the data ids of another: its events count as the same data.

    Parameters
    ----------
    state
        The other one.
    bounds
        What is known of the rows to come; by default they decide. Where they are not clipped, say `UNKNOWN`: whether
        any came must not show in what is known of the sum.
    """
    projection = state.projection
    known: Any = {"ids": state.data_ids, "agreement": state.agreement, "bounds": bounds}
    if isinstance(state, Sketch):
        return Sketch.from_state(projection, np.zeros(projection.sketch_dim, dtype=np.int64), 0, **known)
    cells, masses = np.zeros((0, projection.sketch_dim), dtype=np.int64), np.zeros(0, dtype=np.int64)
    return SketchTable.from_state(projection, [], cells, masses, **known)
