"""Read files of earlier versions: raw sketches, possibly several in one file, and states of streams.

Such a file is only read here; the first write makes an SQLite file of it.
"""

import hashlib
import json
import struct

import numpy as np

from streamsketch.core.limits import current_limits
from streamsketch.errors import IncompatibleProjectionsError, WireFormatError
from streamsketch.projections.base import MAX_MASS
from streamsketch.sketching.exact import ExactSums
from streamsketch.storage.first_bytes import OLD_RAW
from streamsketch.storage.sketches import RawHeader, RawSketch, key_of

_RAW_FRAME = struct.Struct("<BIQ")  # version, length of the header, and of what is between its checksum and the file's
_RAW_VERSION = 2
_LATER = {"agreement": None, "largest": 0, "bounds": None}  # defaults of fields that the oldest of these files lack
_MARK = struct.Struct("<8sQ16s")  # name, where what was appended ends, checksum
_ALIGNED = 64
_CHECKSUM_BYTES = 16


class _Bytes:
    """Reads fields from the front of bytes, never beyond their end."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.left = memoryview(data)

    def take(self, size: int, where: str) -> memoryview:
        if not 0 <= size <= len(self.left):
            raise WireFormatError(where, f"needs {size} bytes, {len(self.left)} are left: the file was cut off")
        part, self.left = self.left[:size], self.left[size:]
        return part


def _check(data: memoryview, digest: memoryview, person: bytes) -> None:
    if hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES, person=person).digest() != digest:
        raise WireFormatError("checksum", "does not match: the bytes were changed; fetch them from a backup")


# --- raw sketches -------------------------------------------------------------------------------------------------


def read_old_sketch(data: bytes) -> RawSketch:
    """Return the raw sketch in the bytes of a file; `WireFormatError` if they are changed, cut or of another format."""
    whole, rest = memoryview(data), _Bytes(data)
    total = _raw_sketch(rest)
    first = len(whole) - len(rest.left)
    padding = rest.take(min(-first % _ALIGNED, len(rest.left)), "padding")
    mark = bytes(rest.take(min(_MARK.size, len(rest.left)), "mark"))
    if any(padding) or (any(mark) and len(mark) < _MARK.size):
        raise WireFormatError("length", f"should be {first} bytes, {len(whole)} are there: joined with something else")
    if not any(mark):  # an append that was not finished
        return total
    name, end, digest = _MARK.unpack(mark)
    _check(memoryview(mark)[:_CHECKSUM_BYTES], digest, b"streamsketch.raw")
    if name != b"APPENDED" or not len(whole) - len(rest.left) <= end <= len(whole):
        raise WireFormatError("length", f"should be {end} bytes, {len(whole)} are there: cut off")
    rest.left = rest.left[: end - (len(whole) - len(rest.left))]
    events = total.events
    while rest.left:
        more = _raw_sketch(rest)
        events += more.events
        try:
            total.state.merge(more.state)  # type: ignore[arg-type] # of two kinds: a TypeError
        except (IncompatibleProjectionsError, TypeError):
            raise WireFormatError("appended", "does not belong to the file: of another kind or projection") from None
    return RawSketch(total.state, events, total.releases)


def _raw_sketch(rest: _Bytes) -> RawSketch:
    """Read one raw sketch from the front."""
    whole = rest.left
    if bytes(whole[: len(OLD_RAW)]) != OLD_RAW[: len(whole)]:
        raise WireFormatError("first line", "is not that of a raw sketch")
    rest.take(len(OLD_RAW), "first line")
    version, header_bytes, length = _RAW_FRAME.unpack(rest.take(_RAW_FRAME.size, "frame"))
    if version != _RAW_VERSION:
        raise WireFormatError(
            "version", f"{version}, but this version of streamsketch reads {_RAW_VERSION}; sketch the data again"
        )
    if header_bytes > (most := current_limits().max_header_bytes):
        raise WireFormatError("header", f"{header_bytes} bytes, over the limit of {most}; raise max_header_bytes")
    text = rest.take(header_bytes, "header")
    _check(whole[: len(whole) - len(rest.left)], rest.take(_CHECKSUM_BYTES, "checksum"), b"streamsketch.raw")
    body = _Bytes(rest.take(length, "length"))
    _check(whole[: len(whole) - len(rest.left)], rest.take(_CHECKSUM_BYTES, "checksum"), b"streamsketch.raw")
    header = _header(bytes(text))
    rows, dim = 1 if header.keys is None else header.keys, header.projection.sketch_dim
    masses = np.frombuffer(body.take(8 * rows, "masses"), dtype="<i8")
    cells = np.frombuffer(body.take(8 * rows * dim, "cells"), dtype="<i8").reshape(rows, dim)
    keys = []
    for place in range(header.keys or 0):
        size = int.from_bytes(body.take(4, f"key {place}"), "little")
        keys.append(key_of(bytes(body.take(size, f"key {place}")), place))
    if body.left:
        raise WireFormatError("end", f"{len(body.left)} bytes follow the last part")
    state = header.state(keys, ExactSums.of(cells.astype(np.int64, copy=False)), masses.astype(np.int64, copy=False))
    return RawSketch(state, header.events, header.releases)


def _header(text: bytes) -> RawHeader:
    try:
        fields = _LATER | json.loads(text)
        keys = fields.pop("keys")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise WireFormatError("header", "is not JSON of a raw sketch") from None
    if keys is not None and (type(keys) is not int or not 0 <= keys <= MAX_MASS):
        raise WireFormatError("header.keys", "must be an integer from 0 to 2^63 - 1, or null")
    return RawHeader.from_fields(fields | {"keyed": keys is not None}, keys or 0)


# --- states of streams --------------------------------------------------------------------------------------------
