"""The private format of raw sketches: what is in their files, as bytes and back."""

import dataclasses
import datetime as dt
import functools
import hashlib
import io
import itertools
import json
import re
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np

from streamsketch.accounting import check_carried
from streamsketch.agreement import Agreement, check_agreed
from streamsketch.core import (
    Ints,
    Limits,
    check_length,
    current_limits,
)
from streamsketch.data import DataIds, canonical_bytes, data_ids
from streamsketch.errors import IncompatibleProjectionsError, InvalidInputError, WireFormatError
from streamsketch.privacy import UNKNOWN, Bounds, Guarantee
from streamsketch.projections import MAX_MASS, Projection, check_entries
from streamsketch.release import RELEASE_ID_BYTES
from streamsketch.sketching import Sketch, SketchTable
from streamsketch.storage.log import log_end, log_start

MAGIC = b"\x89SSRAW\r\n\x1a\nSECRET: a raw sketch of streamsketch, not to be shared\n"
VERSION = 2

_FRAME = struct.Struct("<BIQ")  # version, length of the header, and of what is between its checksum and the file's
_LENGTH_BYTES = 4  # of each key's length
CHECKSUM_BYTES = 16
MAX_BYTES = Limits().max_raw_bytes
_MAX_COUNT = (1 << 63) - 1
_PART_BYTES = 1 << 23
_LATER = {"agreement": None, "largest": 0, "bounds": None}  # fields that files written before them do not have
_CHANGED = "does not match: the bytes were changed; fetch them from a backup"
_RELEASE_ID = re.compile(rf"[0-9a-f]{{{2 * RELEASE_ID_BYTES}}}")

State: TypeAlias = Sketch | SketchTable


class PastRelease(NamedTuple):
    """One release of a raw sketch, as its file remembers it."""

    guarantee: Guarantee
    release_id: str
    """The id of the release, in hex; of a table's, the first one's."""


@dataclasses.dataclass(frozen=True)
class RawSketch:
    """What a raw file holds, all of it secret but the projection and the releases.

    Parameters
    ----------
    state
        The sketch of one stream, or the table of many keys'.
    events
        How many events were added.
    releases
        What was released from this data before, or from a part of it.
    """

    state: State
    events: int = 0
    releases: tuple[PastRelease, ...] = ()

    @property
    def projection(self) -> Projection:
        """The public map."""
        return self.state.projection

    @property
    def agreement(self) -> Agreement | None:
        """The agreement that all rows in it followed, if any."""
        return self.state.agreement

    def __repr__(self) -> str:
        return f"<RawSketch, secret, of {self.projection!r}>"


# --- to bytes -----------------------------------------------------------------------------------------------------


def check_size(projection: Projection, keys: int, *, more: int = 0, max_bytes: int | None = None) -> None:
    """Raise `InvalidInputError` if the sketches of so many keys, and ``more`` bytes, are too large for a file."""
    size, most = 8 * keys * (projection.sketch_dim + 1) + more, MAX_BYTES if max_bytes is None else max_bytes
    if size > most:
        raise InvalidInputError(
            f"{keys:,} sketches of {projection.sketch_dim:,} cells take {size:,} bytes, and a raw file holds at most "
            f"{most:,}: use fewer cells, split the events by key into several files, or sketch them by Beam "
            f"(SketchPerKey)"
        )


def encode(raw: RawSketch, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Return a raw sketch as the bytes of a file; `InvalidInputError` for one too large to be read again."""
    return b"".join(in_parts(raw, max_bytes))


def in_parts(raw: RawSketch, max_bytes: int) -> Iterator[bytes]:
    """Return a file's parts one by one, their size checked before the first; a table's cells are copied in pieces."""
    state, projection, ids = raw.state, raw.projection, raw.state.data_ids
    check_size(projection, len(state) if isinstance(state, SketchTable) else 1, max_bytes=max_bytes)
    header = {
        "projection": state.projection.to_json(),
        "agreement": None if state.agreement is None else state.agreement.to_json(),
        "largest": state.largest,
        "bounds": state.bounds.to_dict(),
        "keys": len(state) if isinstance(state, SketchTable) else None,
        "events": raw.events,
        "data_ids": [one.hex() for one in (ids.own, *sorted(ids.parts - {ids.own}))],
        "releases": [_past_fields(past) for past in raw.releases],
    }
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    keys: list[bytes] = []
    if isinstance(state, SketchTable):
        masses, cells = state.masses, state.cells_in_parts(max(1, _PART_BYTES // (8 * projection.sketch_dim)))
        keys = [canonical_bytes(key) for key in state]
    else:
        masses, cells = np.array([state.mass]), iter([state.state()])
    last = b"".join(part for key in keys for part in (len(key).to_bytes(_LENGTH_BYTES, "little"), key))
    head = _head(text, 8 * len(masses) * (projection.sketch_dim + 1) + len(last))
    more = len(head) + len(last) + CHECKSUM_BYTES
    check_size(projection, len(masses), more=more, max_bytes=max_bytes)
    return _with_checksum(itertools.chain([head, _integers(masses)], map(_integers, cells), [last]))


def _head(header: bytes, length: int) -> bytes:
    """Return a file's beginning, up to the header and its checksum, which ``length`` bytes and the file's follow."""
    head = MAGIC + _FRAME.pack(VERSION, len(header), length) + header
    return head + _checksum(head).digest()


def _integers(array: "np.ndarray[Any, np.dtype[np.int64]]") -> bytes:
    return np.asarray(array, dtype="<i8").tobytes()


def _with_checksum(parts: Iterator[bytes]) -> Iterator[bytes]:
    checksum = _checksum(b"")
    for part in parts:
        checksum.update(part)
        yield part
    yield checksum.digest()


def _past_fields(past: PastRelease) -> dict[str, Any]:
    return past.guarantee.to_dict() | {"release_id": past.release_id}


def _checksum(framed: bytes | memoryview) -> "hashlib.blake2b":
    return hashlib.blake2b(framed, digest_size=CHECKSUM_BYTES, person=b"streamsketch.raw")


# --- from bytes ---------------------------------------------------------------------------------------------------


def decode(data: bytes, *, max_bytes: int | None = None) -> RawSketch:
    """Return the raw sketch in the bytes of a file; errors as `load_raw`."""
    check_length(len(data), current_limits().max_raw_bytes if max_bytes is None else max_bytes, "max_raw_bytes")
    view = memoryview(data)
    parts = [_part(view)]
    first = parts[0].size
    end, at = log_end(view[first : log_start(first)], first, len(view)), log_start(first)
    while at < end:
        parts.append(_part(view[at:end]))
        at += parts[-1].size
    header, kinds = parts[0].header, {part.header["keys"] is None for part in parts}
    try:
        for part in parts[1:]:
            parts[0].projection.check_same(part.projection)
        agreement = functools.reduce(check_agreed, (part.agreement for part in parts))
    except IncompatibleProjectionsError:
        kinds = set()
    if len(kinds) != 1:
        raise WireFormatError("appended", "does not belong to the file: it is of another kind, or projection")
    ids = functools.reduce(DataIds.merged, (part.ids for part in parts))
    known = {"ids": ids, "agreement": agreement, "largest": max(part.header["largest"] for part in parts)}
    keyed = kinds == {False}
    known["bounds"] = functools.reduce(functools.partial(Bounds.merged, keyed=keyed), (part.bounds for part in parts))
    return RawSketch(_state(parts, known), sum(part.header["events"] for part in parts), header["releases"])


class _Part(NamedTuple):
    """One raw file, alone or among several."""

    header: dict[str, Any]
    projection: Projection
    agreement: Agreement | None
    ids: DataIds
    bounds: Bounds
    keys: list[Any]
    masses: Ints
    cells: Ints
    size: int


def _part(view: memoryview) -> _Part:
    file = io.BytesIO(view[: len(MAGIC) + _FRAME.size + CHECKSUM_BYTES + current_limits().max_header_bytes])
    header, size = read_header(file, len(view))
    if _checksum(view[: size - CHECKSUM_BYTES]).digest() != view[size - CHECKSUM_BYTES : size]:
        raise WireFormatError("checksum", _CHANGED)
    body = Reader(view[file.tell() : size - CHECKSUM_BYTES])
    projection, agreement, ids, bounds = agreed_in(header)
    rows = 1 if header["keys"] is None else header["keys"]
    masses = body.integers(rows, "masses")
    cells = body.integers(rows * projection.sketch_dim, "cells").reshape(rows, projection.sketch_dim)
    keys = body.keys(header["keys"] or 0)
    body.end()
    return _Part(header, projection, agreement, ids, bounds, keys, masses, cells, size)


def agreed_in(header: dict[str, Any]) -> tuple[Projection, Agreement | None, DataIds, Bounds]:
    """Return a header's projection, agreement, data ids and bounds; `WireFormatError` if they are not valid."""
    try:
        projection = Projection.from_json(header["projection"])
        check_entries(projection, "largest entry", raw=True)
        ids = data_ids.from_list(map(bytes.fromhex, header["data_ids"]))
        agreement = None if header["agreement"] is None else Agreement.from_json(header["agreement"])
        if agreement is not None:
            projection.check_same(agreement.projection)
        bounds = UNKNOWN if header["bounds"] is None else Bounds.from_dict(header["bounds"])
    except (InvalidInputError, IncompatibleProjectionsError, KeyError, TypeError, ValueError) as error:
        raise WireFormatError("header", f"is not valid: {error}") from None
    return projection, agreement, ids, bounds


def _state(parts: list[_Part], known: dict[str, Any]) -> State:
    """Return the sum of all parts."""
    projection, keyed = parts[0].projection, parts[0].header["keys"] is not None
    if len(parts) == 1:
        return _alone(parts[0], known)
    places = {key: place for place, key in enumerate(dict.fromkeys(key for part in parts for key in part.keys))}
    count = len(places) if keyed else 1
    masses, cells = np.zeros(count, dtype=np.int64), np.zeros((count, projection.sketch_dim), dtype=np.int64)
    for part in parts:
        _alone(part, {})  # checks it
        rows = [places[key] for key in part.keys] if keyed else [0]
        cells[rows] += part.cells
        masses[rows] += np.minimum(part.masses, MAX_MASS - masses[rows])  # 2^63 - 1 stands for that and more
    return _alone(parts[0]._replace(keys=list(places), masses=masses, cells=cells), known)


def _alone(part: _Part, known: dict[str, Any]) -> State:
    try:
        if part.header["keys"] is None:
            return Sketch.from_state(part.projection, part.cells[0], int(part.masses[0]), **known)
        return SketchTable.from_state(part.projection, part.keys, part.cells, part.masses, **known)
    except (InvalidInputError, OverflowError):  # never their values
        raise WireFormatError("cells", "do not belong together with the masses, keys and projection") from None


def read_header(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    """Return a raw file's header and its bytes, of ``size`` at most; leave the file behind the header's checksum."""
    head = file.read(len(MAGIC) + _FRAME.size)
    if head[: len(MAGIC)] != MAGIC[: len(head)]:
        raise WireFormatError("first line", "is not that of a raw sketch")
    least = len(MAGIC) + _FRAME.size + 2 * CHECKSUM_BYTES
    if size < least:
        raise WireFormatError("length", f"{size} bytes, a raw sketch has {least} or more: it was cut off")
    version, header_bytes, length = _FRAME.unpack_from(head, len(MAGIC))
    if version != VERSION:
        raise WireFormatError("version", f"{version}, this release reads {VERSION}; sketch the data again")
    if header_bytes > (most := current_limits().max_header_bytes):
        raise WireFormatError("header", f"{header_bytes} bytes, over the limit of {most}; raise max_header_bytes")
    if (due := least + header_bytes + length) > size:
        raise WireFormatError("length", f"should be {due} bytes, {size} are there: it was cut off")
    text = file.read(header_bytes)
    if _checksum(head + text).digest() != file.read(CHECKSUM_BYTES):
        raise WireFormatError("checksum", _CHANGED)
    return _header(text), due


class Reader:
    """Takes parts off a body, never more than is there."""

    def __init__(self, body: memoryview) -> None:
        self._body, self._at = body, 0

    def take(self, size: int, where: str) -> memoryview:
        """Return so many bytes."""
        if size > len(self._body) - self._at:
            raise WireFormatError(where, f"needs {size} bytes, {len(self._body) - self._at} are left")
        self._at += size
        return self._body[self._at - size : self._at]

    def integers(self, count: int, where: str) -> "np.ndarray[Any, np.dtype[np.int64]]":
        """Return so many integers: int64."""
        return np.frombuffer(self.take(8 * count, where), dtype="<i8").astype(np.int64, copy=False)

    def keys(self, count: int) -> list[Any]:
        """Return so many keys."""
        data, at, keys = bytes(self._body[self._at :]), 0, []
        for number in range(count):  # not by `take`, as there may be many
            start = at + _LENGTH_BYTES
            at = start + int.from_bytes(data[at:start], "little")
            if max(start, at) > len(data):
                raise WireFormatError(f"key {number}", f"ends {max(start, at) - len(data)} bytes behind the last")
            keys.append(_key(data[start:at], number))
        self._at += at
        return keys

    def end(self) -> None:
        """Raise `WireFormatError` if something is left."""
        if self._at < len(self._body):
            raise WireFormatError("end", f"{len(self._body) - self._at} bytes follow the last part")


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise WireFormatError("header", "is not JSON") from None
    wanted = {
        "projection": (str, "text"),
        "agreement": (str | None, "text or null"),
        "largest": (int, "an integer from 0 to 2^63"),
        "bounds": (dict | None, "an object or null"),
        "keys": (int | None, "an integer from 0 to 2^63 - 1, or null"),
        "events": (int, "an integer from 0 to 2^63 - 1"),
        "data_ids": (list, "a list"),
        "releases": (list, "a list"),
    }
    if isinstance(header, dict):
        header = _LATER | header
    if not isinstance(header, dict) or header.keys() != wanted.keys():
        raise WireFormatError("header", f"must have the fields {', '.join(wanted)} and no others")
    for name, (kind, described) in wanted.items():
        value = header[name]
        in_range = not isinstance(value, int) or 0 <= value <= _MAX_COUNT + (name == "largest")
        if isinstance(value, bool) or not isinstance(value, kind) or not in_range:
            raise WireFormatError(f"header.{name}", f"must be {described}")  # never the value: events are secret
    try:
        return header | {"releases": tuple(map(_past, header["releases"]))}
    except (InvalidInputError, KeyError, TypeError, ValueError) as error:
        raise WireFormatError("header", f"is not valid: {error}") from None


def _past(fields: dict[str, Any]) -> PastRelease:
    guarantee = Guarantee.from_dict({name: value for name, value in fields.items() if name != "release_id"})
    check_carried(guarantee.neighbours)  # a record that could not be written again
    if not isinstance(fields["release_id"], str) or not _RELEASE_ID.fullmatch(fields["release_id"]):
        raise TypeError(f"a release id must be {RELEASE_ID_BYTES} bytes in hex")
    return PastRelease(guarantee, fields["release_id"])


def _key(data: bytes, place: int) -> Any:
    tag, text = data[:1], data[1:]
    try:
        if tag == b"s":
            return text.decode()
        if tag == b"b":
            return text
        if tag == b"i":
            return int(text)
        if tag == b"d":
            return dt.date(1970, 1, 1) + dt.timedelta(days=int(text))
    except (ValueError, OverflowError):
        pass
    raise WireFormatError(f"key {place}", "is neither text, bytes, an integer nor a date")
