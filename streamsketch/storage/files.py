"""Raw sketches at rest: the private format, apart from the exchange format and never to be shared.

A file says SECRET in its first line, is readable by its owner only, and carries a checksum and the record of what was
released from it. It serves one party between two runs of its own, or workers of one party; others get releases.
"""

import dataclasses
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from streamsketch.agreement import check_agreed
from streamsketch.core import current_limits, locked, read_bounded, remove_partial, write_whole
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.privacy import NO_DATA
from streamsketch.projections import Projection
from streamsketch.release import PrivateSketch
from streamsketch.sketching import Sketch, SketchTable
from streamsketch.storage.format import (
    CHECKSUM_BYTES,
    MAGIC,
    MAX_BYTES,
    PastRelease,
    RawSketch,
    Reader,
    State,
    agreed_in,
    decode,
    in_parts,
    read_header,
)
from streamsketch.storage.log import log_end, log_start

SUFFIX = ".raw-sketch"


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
        If what is there is not a valid raw sketch, or has several names by hard links: it is not replaced.
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
            raise InvalidInputError(f"{path} is not replaced, as it is not a valid raw sketch: {error}") from None
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
    check_one_name(path)
    remove_partial(path)
    write_whole(path, in_parts(raw, MAX_BYTES), secret=True)


def check_one_name(path: str | os.PathLike[str]) -> None:
    """Raise `InvalidInputError` for a file that is there under several names, by hard links."""
    if Path(path).exists() and Path(path).stat().st_nlink > 1:
        raise InvalidInputError(
            f"{path} is one of several names of one file (hard links), and the others would not remember what is "
            f"released. Keep one name, and make symbolic links for others"
        )


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


def remember(raw: RawSketch, releases: Sequence[PrivateSketch]) -> RawSketch:
    """Return the raw sketch with these releases, made together, in its record."""
    first = releases[0]
    past = PastRelease(first.guarantee, first.release_ids[0].hex())
    return dataclasses.replace(raw, releases=united([raw.releases, [past]]))


@dataclasses.dataclass(frozen=True)
class RawHead:
    """What is known of a raw file without its cells."""

    empty: State
    """An empty sketch or table with the file's projection, agreement and data ids: its events count as the same.

    Its bounds are those of a new one: what is added to the file decides."""
    events: int
    first: int
    """Bytes of the first file in it."""
    end: int
    """Where the last one ends."""
    key_parts: tuple["KeyPart", ...]
    """The keys of each file in it."""

    @property
    def keyed(self) -> bool:
        """Whether it holds a table."""
        return isinstance(self.empty, SketchTable)

    @property
    def most_keys(self) -> int:
        """A bound on the number of keys: that of all files in it, where several may have the same key."""
        return sum(part.number for part in self.key_parts)

    @functools.cached_property
    def keys(self) -> frozenset[Any] | None:
        """The keys of a table, decoded when they are first asked for; `WireFormatError` if they are not valid."""
        if not self.keyed:
            return None
        return frozenset(key for part in self.key_parts for key in Reader(memoryview(part.data)).keys(part.number))


class KeyPart(NamedTuple):
    """The keys of one file, as its bytes."""

    number: int
    data: bytes


def read_head(path: str | os.PathLike[str]) -> RawHead:
    """Return what a raw file is about, of its cells not a byte; errors as `load_raw`, but for cells and keys."""
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        header, first = read_header(file, size)
        projection, agreement, ids, _ = agreed_in(header)
        known = [_agreed_fields(header)]  # whose text need not be parsed again
        events, keys = header["events"], [key_part(file, header, 0, first, projection)]
        file.seek(first)
        end, at = log_end(file.read(log_start(first) - first), first, size), log_start(first)
        while at < end:
            file.seek(at)
            header, more = read_header(file, end - at)
            if _agreed_fields(header) not in known:
                known.append(_agreed_fields(header))
                _, agreed, others, _ = agreed_in(header)
                ids, agreement = ids.merged(others), check_agreed(agreement, agreed)
            events += header["events"]
            keys.append(key_part(file, header, at, more, projection))
            at += more
    shared: dict[str, Any] = {"ids": ids, "agreement": agreement, "bounds": NO_DATA}
    rows = 1 if header["keys"] is None else 0
    cells, masses = np.zeros((rows, projection.sketch_dim), dtype=np.int64), np.zeros(rows, dtype=np.int64)
    empty: State = (
        Sketch.from_state(projection, cells[0], 0, **shared)
        if rows
        else SketchTable.from_state(projection, [], cells, masses, **shared)
    )
    return RawHead(empty, events, first, end, tuple(keys))


def _agreed_fields(header: dict[str, Any]) -> tuple[Any, ...]:
    return header["projection"], header["agreement"], header["data_ids"]


def key_part(file: BinaryIO, header: dict[str, Any], start: int, size: int, projection: Projection) -> KeyPart:
    """Return the keys in a file that was read up to its header, which began at ``start``."""
    if header["keys"] is None:
        return KeyPart(0, b"")
    cells = 8 * header["keys"] * (projection.sketch_dim + 1)
    if cells > size:
        raise WireFormatError("header.keys", f"{header['keys']} need {cells} bytes, and the file has {size}")
    file.seek(cells, os.SEEK_CUR)
    left = start + size - CHECKSUM_BYTES - file.tell()
    return KeyPart(header["keys"], file.read(max(0, left)))


def _releases_in(path: str | os.PathLike[str]) -> tuple[PastRelease, ...]:
    with Path(path).open("rb") as file:
        found: tuple[PastRelease, ...] = read_header(file, os.fstat(file.fileno()).st_size)[0]["releases"]
    return found
