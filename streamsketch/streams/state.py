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
from streamsketch.sketching import SECRET_BYTES, BoundingSummary

STREAM_SUFFIX = ".raw-stream"

_MAGIC = b"\x89SSSTR\r\n\x1a\nSECRET: an endless stream of streamsketch, not to be shared\n"
_VERSION = 1
_FRAME = struct.Struct("<BQ")  # version, and length of the header
_CHECKSUM_BYTES = 16
_LARGEST = 1 << 61  # numbers of windows, and microseconds
_SECRETS = {"stream": 16, "secret": SECRET_BYTES}
_COUNTS = ("events", "released", "bad_lines", "rows_late", "rows_before_start")


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
    """Write the state of a stream, whole or not at all; the caller holds `exclusive`.

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
    except (WireFormatError, ValueError, KeyError, TypeError, RecursionError, struct.error) as error:
        why = str(error) if isinstance(error, WireFormatError) else "its header is not valid"
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
    sizes = [_sizes(header.pop(name)) for name in ("windows", "waiting")]
    if at + sum(sum(each.values()) for each in sizes) != len(body):
        raise WireFormatError("length", "is not that of the header and the windows in it")
    parts: list[dict[int, bytes]] = []
    for each in sizes:
        parts.append({})
        for number, size in each.items():
            parts[-1][number] = bytes(body[at : at + size])
            at += size
    _check(header)
    return Saved(header, *parts)


def _sizes(given: Any) -> dict[int, int]:
    """Return the size of each window, by its number, in the order that they are in."""
    found = {number: size for number, size in given if _is_number(number, _LARGEST) and _is_number(size) and size >= 0}
    if len(found) < len(given):
        raise WireFormatError("windows", "must be pairs of a number, each once, and a size")
    return found


def _check(header: dict[str, Any]) -> None:
    """Raise `WireFormatError` unless all is there, of the right type and range; what a place is, its reader knows."""
    bounding = dataclasses.asdict(BoundingSummary())
    given = header["bounding"]
    valid = {
        **{name: _is_hex(header[name], size) for name, size in _SECRETS.items()},
        **{name: _is_number(header[name]) and header[name] >= 0 for name in _COUNTS},
        "draws": "draws" not in header or _is_hex(header["draws"], 32),
        "agreement": isinstance(header["agreement"], str),
        "policy": isinstance(header["policy"], dict),
        "place": header["place"] is None or isinstance(header["place"], dict),
        "newest": header["newest"] is None or _is_number(header["newest"], _LARGEST),
        "next": _is_number(header["next"], _LARGEST),
        "bounding": isinstance(given, dict)
        and given.keys() == bounding.keys()
        and all(
            _is_number(given[name]) if type(value) is int else type(given[name]) in (int, float) and given[name] >= 0
            for name, value in bounding.items()
        ),
    }
    for name in header:
        if not valid.get(name, False):
            raise WireFormatError(f"header.{name}", "is not what a stream writes")


def _is_number(value: Any, most: int = (1 << 63) - 1) -> bool:
    return type(value) is int and -most <= value <= most


def _is_hex(value: Any, size: int) -> bool:
    return isinstance(value, str) and len(value) == 2 * size and value == bytes.fromhex(value).hex()
