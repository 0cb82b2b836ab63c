"""The state of an endless stream in a file: secret, and all that a restart needs."""

import dataclasses
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamsketch.core import current_limits, read_bounded, remove_partial, write_whole
from streamsketch.errors import InvalidInputError, WireFormatError

STREAM_SUFFIX = ".raw-stream"

_MAGIC = b"\x89SSSTR\r\n\x1a\nSECRET: an endless stream of streamsketch, not to be shared\n"
_VERSION = 1
_FRAME = struct.Struct("<BQ")  # version, and length of the header
_CHECKSUM_BYTES = 16


@dataclasses.dataclass
class Saved:
    """What the file of a stream holds.

    Parameters
    ----------
    header
        JSON: which stream it is, how far the log was read, and counts.
    windows
        The windows that are not over, by number.
    waiting
        Releases that were drawn, by the numbers of their windows. They are written here before they are published, so
        that a restart publishes the same bytes.
    """

    header: dict[str, Any]
    windows: dict[int, bytes]
    waiting: dict[int, bytes]


def write_state(saved: Saved, path: str | os.PathLike[str]) -> None:
    """Write the state of a stream, whole or not at all; the caller holds `held`.

    Raises
    ------
    OSError
        If it cannot be written; what is there stays.
    """
    remove_partial(path)
    write_whole(path, _parts(saved), secret=True)


def _parts(saved: Saved) -> Iterator[bytes]:
    sizes = {
        "windows": [[number, len(data)] for number, data in saved.windows.items()],
        "waiting": [[number, len(data)] for number, data in saved.waiting.items()],
    }
    header = json.dumps(saved.header | sizes, sort_keys=True, separators=(",", ":")).encode()
    checksum = hashlib.blake2b(digest_size=_CHECKSUM_BYTES, person=b"streamsketch.str")
    head = _MAGIC + _FRAME.pack(_VERSION, len(header)) + header
    for part in (head, *saved.windows.values(), *saved.waiting.values()):
        checksum.update(part)
        yield part
    yield checksum.digest()


def read_state(path: str | os.PathLike[str]) -> Saved:
    """Return what the file of a stream holds.

    Raises
    ------
    InvalidInputError
        If it is none, or was changed or cut.
    OSError
        If it cannot be read.
    """
    try:
        return _read(memoryview(read_bounded(path, current_limits().max_raw_bytes, "max_raw_bytes")))
    except (WireFormatError, ValueError, KeyError, TypeError, struct.error) as error:
        why = str(error) if isinstance(error, WireFormatError) else "its header is not sound"
        raise InvalidInputError(f"{Path(path)} is not the state of a stream: {why}") from None


def _read(data: memoryview) -> Saved:
    if data[: len(_MAGIC)] != _MAGIC:
        raise WireFormatError("first line", "is not that of a stream's state")
    body, due = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    found = hashlib.blake2b(body, digest_size=_CHECKSUM_BYTES, person=b"streamsketch.str")
    if found.digest() != due:
        raise WireFormatError("checksum", "does not match: the bytes were changed or cut; fetch them from a backup")
    version, length = _FRAME.unpack_from(body, len(_MAGIC))
    if version != _VERSION:
        raise WireFormatError("version", f"{version}, this release reads {_VERSION}")
    at = len(_MAGIC) + _FRAME.size
    header = json.loads(bytes(body[at : at + length]))
    at += length
    parts: list[dict[int, bytes]] = []
    for name in ("windows", "waiting"):
        parts.append({})
        for number, size in header.pop(name):
            parts[-1][number] = bytes(body[at : at + size])
            at += size
    return Saved(header, *parts)
