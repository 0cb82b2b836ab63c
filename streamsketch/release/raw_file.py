"""Raw sketches at rest: the private format, apart from the exchange format and never to be shared.

A file says SECRET in its first line, is readable by its owner only, and carries a checksum and the record of what was
released from it. It serves one party between two runs of its own, or workers of one party; others get releases.
"""

import dataclasses
import datetime as dt
import hashlib
import io
import itertools
import json
import os
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np

from streamsketch.agreement import Agreement
from streamsketch.core import Limits, check_length, current_limits, locked, read_bounded, remove_partial, write_whole
from streamsketch.data import canonical_bytes, data_ids
from streamsketch.errors import IncompatibleProjectionsError, InvalidInputError, WireFormatError
from streamsketch.privacy import L1, L2, Guarantee, Mechanism, Neighbours, OneCoordinate
from streamsketch.projections import Projection, check_largest_entry
from streamsketch.release.private_sketch import RELEASE_ID_BYTES, PrivateSketch
from streamsketch.release.sensitivity import check_carried
from streamsketch.sketching import Sketch, SketchTable

MAGIC = b"\x89SSRAW\r\n\x1a\nSECRET: a raw sketch of streamsketch, not to be shared\n"
VERSION = 2
SUFFIX = ".raw-sketch"

_FRAME = struct.Struct("<BIQ")  # version, length of the header, and of what is between its checksum and the file's
_LENGTH_BYTES = 4  # of each key's length
_CHECKSUM_BYTES = 16
_MAX_BYTES = Limits().max_raw_bytes
_MAX_COUNT = (1 << 63) - 1
_PART_BYTES = 1 << 23
_LATER = {"agreement": None, "largest": 0}  # fields that files written before them do not have
_CHANGED = "does not match: the bytes were changed; fetch them from a backup"
_RELEASE_ID = re.compile(rf"[0-9a-f]{{{2 * RELEASE_ID_BYTES}}}")
_NEIGHBOURS: dict[str, type[Neighbours]] = {relation.kind: relation for relation in (L1, L2, OneCoordinate)}

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


def save_raw(raw: RawSketch | State, path: str | os.PathLike[str]) -> None:
    """Write a raw sketch for its owner's eyes only (mode 0600); releases that the file there remembers are kept.

    So a stream may go on replacing its file while another process releases what is in it. Of the file there
    the header alone is read. The file is as secret as the sketch; `release_raw` makes of it what may be shared.

    Parameters
    ----------
    raw
        A `Sketch` or `SketchTable`, or what `load_raw` returned.
    path
        Where; names usually end in ``.raw-sketch``.

    Raises
    ------
    InvalidInputError
        If what is there is not a sound raw sketch, or has several names by hard links: it is not replaced.
    OSError
        If the file cannot be written.
    """
    with locked(path):
        earlier: tuple[PastRelease, ...] = ()
        try:
            earlier = _releases_in(path)
        except FileNotFoundError:
            pass
        except WireFormatError as error:
            raise InvalidInputError(f"{path} is not replaced, as it is not a sound raw sketch: {error}") from None
        raw = raw if isinstance(raw, RawSketch) else RawSketch(raw)
        replace_raw(dataclasses.replace(raw, releases=united([earlier, raw.releases])), path)


def replace_raw(raw: RawSketch, path: str | os.PathLike[str]) -> None:
    """Write a raw sketch over whatever is there, whole or not at all; the caller holds `files.locked`.

    A symbolic link stays one: the file it names is replaced, so that every name of it shows the same record.

    Raises
    ------
    InvalidInputError
        If the file has several names by hard links: the others would keep the old content and forget releases.
    """
    if Path(path).exists() and Path(path).stat().st_nlink > 1:
        raise InvalidInputError(
            f"{path} is one of several names of one file (hard links), and the others would not remember what is "
            f"released. Keep one name, and make symbolic links for others"
        )
    remove_partial(path)
    write_whole(path, _in_parts(raw, _MAX_BYTES), secret=True)


def load_raw(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> RawSketch:
    """Return what a raw file holds, if it is no longer than ``max_bytes``, by default `Limits.max_raw_bytes`.

    Returns
    -------
    RawSketch
        Secret: the exact sketch or table in ``state``, and what was released from it before in ``releases``. Release it
        by `release_raw`, so that the file remembers that, too.

    Raises
    ------
    WireFormatError
        If it is too long, cut, changed, of another version or inconsistent.
    OSError
        If it cannot be read.
    """
    most = current_limits().max_raw_bytes if max_bytes is None else max_bytes
    return decode(read_bounded(path, most), max_bytes=most)


def is_raw(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins as raw ones do, whatever its name is."""
    with Path(path).open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def united(records: Sequence[Sequence[PastRelease]]) -> tuple[PastRelease, ...]:
    """Return all releases of several records, each once."""
    return tuple({past.release_id: past for record in records for past in record}.values())


# --- to bytes -----------------------------------------------------------------------------------------------------


def check_size(projection: Projection, keys: int, *, more: int = 0, max_bytes: int | None = None) -> None:
    """Raise `InvalidInputError` if the sketches of so many keys, and ``more`` bytes, are too large for a file."""
    size, most = 8 * keys * (projection.sketch_dim + 1) + more, _MAX_BYTES if max_bytes is None else max_bytes
    if size > most:
        raise InvalidInputError(
            f"{keys:,} sketches of {projection.sketch_dim:,} cells take {size:,} bytes, and a raw file holds at most "
            f"{most:,}: use fewer cells, split the events by key into several files, or sketch them by Beam "
            f"(SketchPerKey)"
        )


def encode(raw: RawSketch, *, max_bytes: int = _MAX_BYTES) -> bytes:
    """Return a raw sketch as the bytes of a file; `InvalidInputError` for one too large to be read again."""
    return b"".join(_in_parts(raw, max_bytes))


def _in_parts(raw: RawSketch, max_bytes: int) -> Iterator[bytes]:
    """Return a file's parts one by one, their size checked before the first; a table's cells are copied in pieces."""
    state, projection, ids = raw.state, raw.projection, raw.state.data_ids
    check_size(projection, len(state) if isinstance(state, SketchTable) else 1, max_bytes=max_bytes)
    header = {
        "projection": state.projection.to_json(),
        "agreement": None if state.agreement is None else state.agreement.to_json(),
        "largest": state.largest,
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
    more = len(head) + len(last) + _CHECKSUM_BYTES
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
    return hashlib.blake2b(framed, digest_size=_CHECKSUM_BYTES, person=b"streamsketch.raw")


# --- from bytes ---------------------------------------------------------------------------------------------------


def decode(data: bytes, *, max_bytes: int | None = None) -> RawSketch:
    """Return the raw sketch in the bytes of a file; errors as `load_raw`."""
    check_length(len(data), current_limits().max_raw_bytes if max_bytes is None else max_bytes, "max_raw_bytes")
    file, view = io.BytesIO(data), memoryview(data)
    header = _read_header(file, len(data))
    if _checksum(view[:-_CHECKSUM_BYTES]).digest() != view[-_CHECKSUM_BYTES:]:
        raise WireFormatError("checksum", _CHANGED)
    body = _Reader(view[file.tell() : -_CHECKSUM_BYTES])
    try:
        projection = Projection.from_json(header["projection"])
        check_largest_entry(projection)
        ids = data_ids.from_list(map(bytes.fromhex, header["data_ids"]))
        agreement = None if header["agreement"] is None else Agreement.from_json(header["agreement"])
        if agreement is not None:
            projection.check_same(agreement.projection)
    except (InvalidInputError, IncompatibleProjectionsError, KeyError, TypeError, ValueError) as error:
        raise WireFormatError("header", f"is not sound: {error}") from None
    count, events = header["keys"], header["events"]
    known: dict[str, Any] = {"ids": ids, "largest": header["largest"], "agreement": agreement}
    rows = 1 if count is None else count
    masses = body.integers(rows, "masses")
    cells = body.integers(rows * projection.sketch_dim, "cells").reshape(rows, projection.sketch_dim)
    keys = [_key(body.take(body.length(f"key {i}"), f"key {i}"), i) for i in range(count or 0)]
    body.end()
    try:
        state: State
        if count is None:
            state = Sketch.from_state(projection, cells[0], int(masses[0]), **known)
        else:
            state = SketchTable.from_state(projection, keys, cells, masses, **known)
    except (InvalidInputError, OverflowError):  # never their values
        raise WireFormatError("cells", "do not belong together with the masses, keys and projection") from None
    return RawSketch(state, events, header["releases"])


def _releases_in(path: str | os.PathLike[str]) -> tuple[PastRelease, ...]:
    with Path(path).open("rb") as file:
        found: tuple[PastRelease, ...] = _read_header(file, os.fstat(file.fileno()).st_size)["releases"]
    return found


def _read_header(file: BinaryIO, size: int) -> dict[str, Any]:
    """Return the header of a file of so many bytes, and leave the file behind its checksum."""
    head = file.read(len(MAGIC) + _FRAME.size)
    if head[: len(MAGIC)] != MAGIC[: len(head)]:
        raise WireFormatError("first line", "is not that of a raw sketch")
    least = len(MAGIC) + _FRAME.size + 2 * _CHECKSUM_BYTES
    if size < least:
        raise WireFormatError("length", f"{size} bytes, a raw sketch has {least} or more: it was cut off")
    version, header_bytes, length = _FRAME.unpack_from(head, len(MAGIC))
    if version != VERSION:
        raise WireFormatError("version", f"{version}, this release reads {VERSION}; sketch the data again")
    if header_bytes > (most := current_limits().max_header_bytes):
        raise WireFormatError("header", f"{header_bytes} bytes, over the limit of {most}; raise max_header_bytes")
    if (due := least + header_bytes + length) != size:
        raise WireFormatError("length", f"should be {due} bytes, {size} are there: cut off or joined")
    text = file.read(header_bytes)
    if _checksum(head + text).digest() != file.read(_CHECKSUM_BYTES):
        raise WireFormatError("checksum", _CHANGED)
    return _header(text)


class _Reader:
    """Takes parts off a body, never more than is there."""

    def __init__(self, body: memoryview) -> None:
        self._body, self._at = body, 0

    def take(self, size: int, where: str) -> memoryview:
        if size > len(self._body) - self._at:
            raise WireFormatError(where, f"needs {size} bytes, {len(self._body) - self._at} are left")
        self._at += size
        return self._body[self._at - size : self._at]

    def length(self, where: str) -> int:
        return int.from_bytes(self.take(_LENGTH_BYTES, where), "little")

    def integers(self, count: int, where: str) -> "np.ndarray[Any, np.dtype[np.int64]]":
        return np.frombuffer(self.take(8 * count, where), dtype="<i8").astype(np.int64, copy=False)

    def end(self) -> None:
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
        raise WireFormatError("header", f"is not sound: {error}") from None


def _past(fields: dict[str, Any]) -> PastRelease:
    relation = _NEIGHBOURS[fields["relation"]]
    neighbours = relation(fields["bound"], fields["unit"], fields["max_keys"])
    check_carried(neighbours)  # a record that could not be written again
    if not isinstance(fields["release_id"], str) or not _RELEASE_ID.fullmatch(fields["release_id"]):
        raise TypeError(f"a release id must be {RELEASE_ID_BYTES} bytes in hex")
    mechanism = Mechanism.stated(fields["mechanism"])
    guarantee = Guarantee(fields["epsilon"], fields["delta"], neighbours, mechanism, fields["conditions"])
    return PastRelease(guarantee, fields["release_id"])


def _key(data: memoryview, place: int) -> Any:
    tag, text = bytes(data[:1]), bytes(data[1:])
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


# --- releasing ----------------------------------------------------------------------------------------------------


def remember(raw: RawSketch, releases: Sequence[PrivateSketch]) -> RawSketch:
    """Return the raw sketch with these releases, made together, in its record."""
    first = releases[0]
    # as it will be read again: the record of a raw file keeps the mechanism's text
    guarantee = dataclasses.replace(first.guarantee, mechanism=Mechanism.stated(str(first.guarantee.mechanism)))
    past = PastRelease(guarantee, first.release_ids[0].hex())
    return dataclasses.replace(raw, releases=united([raw.releases, [past]]))
