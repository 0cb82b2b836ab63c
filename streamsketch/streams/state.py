"""The state of an endless stream in a secret file, with everything that a restart needs."""

import dataclasses
import re
import secrets
import struct
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from streamsketch.core.concealed import concealed
from streamsketch.core.documents import Json
from streamsketch.core.numbers import short
from streamsketch.errors import InvalidInputError, WireFormatError, with_reason
from streamsketch.privacy.guarantee import MAX_CONDITIONS
from streamsketch.sketching.bounding.summary import BoundingSummary
from streamsketch.sketching.bounding.units import SECRET_BYTES
from streamsketch.storage.database import Database, NotSQLiteError, Row, create, opened
from streamsketch.storage.sketches import RawSketch, read_sketch, write_sketch

STREAM_SUFFIX = ".raw-stream"

KEYS_VERSION = 2
"""How secrets follow from that of the state: by HKDF."""

_KIND = b"SSST"
_NUMBER = "(?:0|-?[1-9][0-9]{0,18})"
_PART = re.compile(rf"(?:window|waiting|held|units) {_NUMBER}|chunk {_NUMBER} {_NUMBER}", re.ASCII)
_STREAM = "stream"
_PIECE_BYTES, _PAGE_BYTES = 1 << 18, 1 << 14
_LARGEST = 1 << 61  # numbers of windows, and microseconds
_SECRETS = {"stream": 16, "secret": SECRET_BYTES}
_EARLIER = (
    "is of an earlier version, whose policy is now an agreement and a job: begin a new state and a new folder, with a "
    "first window after those that were released"
)
_LATER = {"units_below_bound", "units_over_windows"}  # fields of the summary that states of earlier versions lack
_COUNTS = ("events", "released", "bad_lines", "rows_late", "rows_before_start")

Chunks: TypeAlias = Mapping[int, bytes | memoryview]
"""Events of a window, in chunks that never change: each is written once, under a number that no other chunk has."""

Content: TypeAlias = Chunks | RawSketch
"""The content of a window."""


def new_chunk() -> int:
    """Return a number for a chunk, at random: a copy of the state that another process continued has others."""
    return secrets.randbits(61)


@concealed
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
    held
        For a schedule, the exact sums that later rows need: int64.
    units
        If units are kept to a few windows, the units admitted to each (`Admission.windows`). These never change, so
        they are written once.
    """

    header: Json
    windows: dict[int, Content]
    waiting: dict[int, bytes]
    held: bytes | None = None
    units: dict[int, bytes] = dataclasses.field(default_factory=dict)


def write_state(saved: Saved, path: str | PathLike[str], piece_bytes: int = _PIECE_BYTES) -> None:
    """Write the state of a stream in one transaction, in pieces; the caller holds `exclusive`.

    Raises
    ------
    OSError
        If it cannot be written. The file stays as it was.
    """
    try:
        with opened(path, _KIND, write=True) as database:
            _write(database, saved, piece_bytes)
    except (FileNotFoundError, NotSQLiteError):  # a new one, or one of an earlier version
        create(path, _KIND, lambda database: _write(database, saved, piece_bytes), page_bytes=_PAGE_BYTES)


def _write(database: Database, saved: Saved, piece_bytes: int) -> None:
    sums = {f"window {number}": content for number, content in saved.windows.items() if isinstance(content, RawSketch)}
    changing = {f"waiting {number}": data for number, data in saved.waiting.items()}
    changing |= {} if saved.held is None else {"held 0": saved.held}
    lasting = {f"units {number}": (saved.units, number) for number in saved.units} | dict(_chunks(saved))
    database.keep([_STREAM, *sums, *changing, *lasting])
    digests = {part: write_sketch(database, part, content) for part, content in sums.items()}
    digests |= {part: _write_bytes(database, part, content, piece_bytes) for part, content in changing.items()}
    for part, (contents, number) in lasting.items():
        digests[part] = database.digest(part) or _write_bytes(database, part, contents[number], piece_bytes)
    database.write(_STREAM, saved.header | {"parts": digests})


def _chunks(saved: Saved) -> Iterator[tuple[str, tuple[Chunks, int]]]:
    """Yield the chunks of windows by the names of their parts; what is in the file already is not encoded again."""
    for number, content in saved.windows.items():
        if not isinstance(content, RawSketch):
            for chunk in content:
                yield f"chunk {number} {chunk}", (content, chunk)


def _write_bytes(database: Database, part: str, content: bytes | memoryview, piece_bytes: int) -> str:
    content = memoryview(content)  # of which pieces are no copies
    pieces = range(0, len(content), piece_bytes)
    return database.write(
        part, {}, (Row(b"%06d" % place, 0, content[at : at + piece_bytes]) for place, at in enumerate(pieces))
    )


def read_state(path: str | PathLike[str]) -> Saved:
    """Return what the file of a stream holds.

    Raises
    ------
    InvalidInputError
        If it is not a state, or was changed or cut.
    OSError
        If it cannot be read.
    """
    try:
        return _read(path)
    except (WireFormatError, ValueError, KeyError, TypeError, RecursionError, struct.error) as error:
        why = str(error) if isinstance(error, WireFormatError) else "its header is not valid"
        reason = (error.reason if isinstance(error, WireFormatError) else None) or "state_damaged"
        text = f"{Path(path)} is not the state of a stream: {why}"
        raise with_reason(InvalidInputError(text), reason) from None


def _read(path: str | PathLike[str]) -> Saved:
    parts: dict[str, dict[int, Any]] = {"window": {}, "waiting": {}, "held": {}, "units": {}}
    try:
        with opened(path, _KIND) as database:
            header = database.header(_STREAM).fields
            digests = _digests(header.pop("parts", None))
            _check(header)
            for part, digest in digests.items():
                kind, *numbers = part.split()
                content = _content(database, part, digest)
                if kind == "chunk":
                    parts["window"].setdefault(int(numbers[0]), {})[int(numbers[1])] = content
                elif kind == "window" and isinstance(content, bytes):  # as earlier versions wrote all its events
                    parts["window"][int(numbers[0])] = {new_chunk(): content}
                else:
                    parts[kind][int(numbers[0])] = content
    except NotSQLiteError:
        raise with_reason(WireFormatError("the file", f"is not one, or {_EARLIER}"), "state_version") from None
    return Saved(header, parts["window"], parts["waiting"], parts["held"].get(0), parts["units"])


def _digests(listed: object) -> dict[str, str]:
    """Return the digests of a state's parts by name, as the header lists them, checked."""
    digests: dict[str, str] = {}
    for part, digest in listed.items() if isinstance(listed, dict) else [("", None)]:
        if _PART.fullmatch(part) is None or not isinstance(digest, str) or not _is_hex(digest, len(digest) // 2):
            raise WireFormatError("header.parts", "are not those that a stream writes")
        digests[part] = digest
    return digests


def _content(database: Database, part: str, digest: str) -> bytes | RawSketch:
    header = database.header(part, digest)
    if header.fields:
        return read_sketch(database, part)
    return b"".join(bytes(row.data) for row in database.rows(part))


def _check(header: Json) -> None:
    """Raise `WireFormatError` unless all fields have the right type and range; only the caller can check a position."""
    if "policy" in header and "job" not in header:
        raise with_reason(WireFormatError("header.policy", _EARLIER), "state_version")
    if _is_count(header["keys"]) and header["keys"] != KEYS_VERSION:
        newer = f"{header['keys']}, but this version of streamsketch reads {KEYS_VERSION}"
        raise with_reason(WireFormatError("header.keys", newer), "state_version")
    bounding = dataclasses.asdict(BoundingSummary())
    stated = header["bounding"]
    valid = {
        **{name: _is_hex(header[name], size) for name, size in _SECRETS.items()},
        **{name: _is_count(header[name]) for name in _COUNTS},
        "keys": header["keys"] == KEYS_VERSION,
        "draws": _is_hex(header["draws"], 32),
        "first_draw": "first_draw" not in header or _is_hex(header["first_draw"], 16),
        "rows_after_end": "rows_after_end" not in header or _is_count(header["rows_after_end"]),
        "conditions": "conditions" not in header or _are_texts(header["conditions"]),
        "agreement": isinstance(header["agreement"], str),
        "job": isinstance(header["job"], dict),
        "place": header["place"] is None or isinstance(header["place"], dict),
        "newest": header["newest"] is None or _is_number(header["newest"], _LARGEST),
        "next": _is_number(header["next"], _LARGEST),
        "versions": "versions" not in header or _are_versions(header["versions"]),
        "sources": "sources" not in header or (header["newest"] is None and _are_sources(header["sources"])),
        "bounding": isinstance(stated, dict)
        and stated.keys() | _LATER == bounding.keys()
        and all(
            _is_number(value) if type(bounding[name]) is int else type(value) in (int, float) and value >= 0
            for name, value in stated.items()
        ),
    }
    for name in header:
        if not valid.get(name, False):
            raise WireFormatError(f"header.{short(name)[1:-1]}", "is not what a stream writes")


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and len(value) <= MAX_CONDITIONS and all(isinstance(text, str) for text in value)


def _are_versions(value: object) -> bool:
    """Return whether these are digests of versions by the numbers of windows."""
    return isinstance(value, dict) and all(
        name.removeprefix("-").isdecimal() and _is_number(int(name), _LARGEST) and _is_hex(version, 32)
        for name, version in value.items()
    )


def _are_sources(value: object) -> bool:
    """Return whether these are `Clocks.to_dict`."""
    return isinstance(value, dict) and all(
        isinstance(source, list)
        and len(source) == 2
        and (source[0] is None or _is_number(source[0], _LARGEST))
        and type(source[1]) is bool
        for source in value.values()
    )


def _is_number(value: object, most: int = (1 << 63) - 1) -> bool:
    return type(value) is int and -most <= value <= most


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0


def _is_hex(value: object, size: int) -> bool:
    return isinstance(value, str) and len(value) == 2 * size and value == bytes.fromhex(value).hex()
