"""What was appended to a raw file: whole raw files behind it, which count from the moment that their end is written.

The first file may be followed by zeros up to a multiple of 64 bytes, a mark, and further raw files. The mark says where
they end. It is written last, and lies within one sector of a disk: so an append counts whole or not at all, and what is
behind the end is an append that was not finished.
"""

import hashlib
import os
import struct
from typing import BinaryIO

from streamsketch.errors import WireFormatError

_MARK = struct.Struct("<8sQ")  # name, end of what counts
_NAME, _CHECKSUM_BYTES, _ALIGNED = b"APPENDED", 16, 64
_BYTES = _MARK.size + _CHECKSUM_BYTES


def log_start(first: int) -> int:
    """Return where the appended files begin behind a first one of so many bytes."""
    return _mark_place(first) + _BYTES


def log_end(between: bytes | memoryview, first: int, size: int) -> int:
    """Return where what was appended ends; ``first`` if nothing was.

    Parameters
    ----------
    between
        The bytes from the end of the first file to `log_start`, as many as are there.
    first, size
        Bytes of the first file, and of all.
    """
    place = _mark_place(first) - first
    mark = bytes(between[place:])
    if any(between[:place]) or (any(mark) and len(mark) < _BYTES):
        raise WireFormatError("length", f"should be {first} bytes, {size} are there: joined with something else")
    if not any(mark):
        return first  # an append that was not finished
    name, end = _MARK.unpack_from(mark)
    if mark != _mark(end) or name != _NAME:
        raise WireFormatError("mark", "of what was appended does not match: fetch the file from a backup")
    if not log_start(first) <= end <= size:
        raise WireFormatError("length", f"should be {end} bytes, {size} are there: cut off")
    return int(end)


def write_behind(file: BinaryIO, first: int, end: int, data: bytes) -> int:
    """Append a raw file to an open one that ends at ``end``, or leave it as it was; return where it ends now.

    The caller holds `files.locked`.
    """
    start = max(end, log_start(first))
    try:
        file.truncate(end)  # an append that was not finished
        _write_at(file, start, data)
        _write_at(file, _mark_place(first), _mark(start + len(data)))
    except OSError:
        if end > first:
            file.seek(_mark_place(first))
            file.write(_mark(end))
        file.truncate(end)
        raise
    return start + len(data)


def _write_at(file: BinaryIO, place: int, data: bytes) -> None:
    file.seek(place)
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _mark_place(first: int) -> int:
    return -(-first // _ALIGNED) * _ALIGNED


def _mark(end: int) -> bytes:
    framed = _MARK.pack(_NAME, end)
    return framed + hashlib.blake2b(framed, digest_size=_CHECKSUM_BYTES, person=b"streamsketch.raw").digest()
