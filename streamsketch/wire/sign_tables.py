"""Published signs of a table as matrices, without an object for each.

The rows of a table differ in a few fields alone: signs and ids. Their first bytes are parsed once, and the others are
compared with them. Whatever is not alike is read as a release of its own.
"""

import os
import stat
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.libraries import pa
from streamsketch.data.columns import check_keys, joined_bytes, key_column
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.kernels.hashing import Words
from streamsketch.products import SERVICES
from streamsketch.projections.base import Projection
from streamsketch.release.private_sketch import RELEASE_ID_BYTES
from streamsketch.signs.publishers import SignTable
from streamsketch.signs.sketch import Signs, SignSketch
from streamsketch.wire import wire_pb2
from streamsketch.wire.codecs import LONGEST_MAGIC
from streamsketch.wire.parsing import fields
from streamsketch.wire.registry import load, table_in
from streamsketch.wire.releases import CHECKSUM_BYTES, HEADER, checksum
from streamsketch.wire.tables import checked, kind_of, read_table

if TYPE_CHECKING:
    from streamsketch.agreement.same import Signer

Bytes = NDArray[np.uint8]

_ID_BYTES = 8
_KIND: Any = wire_pb2.SignSketch.DESCRIPTOR
_VARYING = ("signs", "release_id", "data_ids")


class SignRows(NamedTuple):
    """n releases that were published alike."""

    like: Signs
    """One of them."""
    words: Words
    """uint64, (n, ⌈k / 64⌉)."""
    ids: bytes
    """Their release ids, 8 bytes each."""
    keys: "pa.Array"
    """Their n keys."""


def sign_rows(path: str | os.PathLike[str], *, signer: "Signer | Iterable[Signer] | None" = None) -> Iterator[SignRows]:
    """Yield the published signs of a file, in its order, a part of a table at a time; see `SignIndex.from_files`.

    Raises
    ------
    TypeError
        If the file publishes something else.
    WireFormatError, SignatureError, OSError
        As in `load`.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - path may be any path-like
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file.peek(LONGEST_MAGIC).startswith(SignTable.magic):
            image, size = table_in(file, path, signer, None)
            if kind_of(image, size) is SignTable:
                if not (yield from rows_of_table(image, size)):
                    read_table(image, size, SignTable, expect=None, max_bytes=None)
                return
    release = load(path, signer=signer)
    if not isinstance(release, Signs):
        raise TypeError(f"an index holds published signs, and {os.fspath(path)} has a {type(release).__name__}")
    yield SignRows(release, release.words[None], release.release_id, pa.array([Path(path).stem]))


def rows_of_table(file: BinaryIO, size: int) -> Generator[SignRows, None, bool]:
    """Yield the rows of a table of signs in their order; return whether no data are in two of them.

    Raises
    ------
    WireFormatError
        As in `streamsketch.wire.tables.read_table`, but for keys that appear twice.
    """
    alike, kept, row = None, 0, 0
    data_ids: list[NDArray[np.uint64]] = []
    with checked(file, size, SignTable, None) as table:
        for batch in table.parquet.iter_batches(table.rows, columns=["key", "signs"]):
            keys, images = _keys(batch.column("key")), batch.column("signs")
            if not len(images):
                continue
            if images.null_count:
                raise WireFormatError(f"row {row + images.is_null().index(True).as_py()}", "has no signs")
            joined, ends = joined_bytes(images)
            if alike is None:
                alike = _Alike(joined[ends[0] : ends[1]].tobytes(), row, None, table.most)
            rows = alike.rows(joined[ends[0] : ends[-1]], ends)
            if rows is not None:
                kept += _memory(keys, rows[0]) + rows[2].nbytes
                yield SignRows(alike.release, *rows[:2], keys)
                data_ids.append(rows[2])
            else:
                for place in range(len(images)):
                    data = joined[ends[place] : ends[place + 1]].tobytes()
                    release = _Alike(data, row + place, alike.release.projection, table.most).release
                    kept += _memory(keys[place : place + 1], release.words)
                    yield SignRows(release, release.words[None], release.release_id, keys[place : place + 1])
                    data_ids.append(np.frombuffer(b"".join(release.data_ids), dtype=">u8"))
            row += len(images)
            if kept > table.most:
                raise WireFormatError("length", f"over the limit of {table.most} bytes unpacked; raise max_table_bytes")
    if not row:
        raise WireFormatError("length", "a table without a row: it holds no release")
    ids = np.sort(np.concatenate(data_ids))
    return not bool((ids[1:] == ids[:-1]).any())


class _Alike:
    """The first row of a table, with which others are compared.

    Parameters
    ----------
    data
        Its bytes.
    row, expect, most
        Its number, for errors, the projection of the rows before, and the bytes that it may have.
    """

    def __init__(self, data: bytes, row: int, expect: Projection | None, most: int) -> None:
        try:
            self.release: SignSketch = SignSketch.from_bytes(data, expect=expect, max_bytes=most)
        except WireFormatError as error:
            raise WireFormatError(f"row {row}, {error.where}", error.problem) from None
        self._data = np.frombuffer(data, dtype=np.uint8)
        end = len(data) - CHECKSUM_BYTES
        places: dict[str, list[tuple[int, int]]] = {name: [] for name in _VARYING}
        fixed, at = [], 0
        for field, begins, ends in fields(_KIND, data, HEADER.size, end):
            if field.name in places:
                places[field.name].append((begins, ends))
                fixed.append((at, begins))
                at = ends
        self._fixed = [*fixed, (at, end)]
        (self._signs,), (self._id,) = places["signs"], places["release_id"]
        self._data_ids = np.array([begins for begins, _ in places["data_ids"]], dtype=np.int64)

    def rows(self, joined: Bytes, ends: NDArray[np.int64]) -> tuple[Words, bytes, NDArray[np.uint64]] | None:
        """Return the words, the release ids and the data ids of n rows, if all are valid and alike.

        Parameters
        ----------
        joined
            The bytes of all rows.
        ends
            Where the first begins, and where each ends: int64, (n + 1,).
        """
        length, k = self._data.size, self.release.projection.sketch_dim
        if (np.diff(ends) != length).any():
            return None
        rows = joined.reshape(-1, length)
        if any((rows[:, begin:end] != self._data[begin:end]).any() for begin, end in self._fixed):
            return None
        begin, end = self._signs
        if k % 8 and (rows[:, end - 1] >> k % 8).any():
            return None
        data_ids = np.ascontiguousarray(rows[:, self._data_ids[:, None] + np.arange(_ID_BYTES)]).view(">u8")[:, :, 0]
        if (data_ids[:, 1:] <= data_ids[:, :-1]).any():
            return None
        content = joined.data
        for start in range(0, len(joined), length):
            middle = start + length - CHECKSUM_BYTES
            if checksum(content[start:middle]) != content[middle : start + length]:
                return None
        words = np.zeros((len(rows), self.release.words.size * 8), dtype=np.uint8)
        words[:, : end - begin] = rows[:, begin:end]
        ids = rows[:, slice(*self._id)].tobytes()
        return words.view("<u8"), ids, data_ids.astype(np.uint64).ravel()


def _keys(column: "pa.Array") -> "pa.Array":
    """Return a batch's keys, plain; raise `WireFormatError` for other keys than tables have."""
    try:
        keys = key_column(column, "key")
        keys = keys.dictionary_decode() if pa.types.is_dictionary(keys.type) else keys
        check_keys(keys)
    except InvalidInputError as error:
        raise WireFormatError("key", f"must be text, bytes, integers, dates or times, all present: {error}") from None
    return keys


def _memory(keys: "pa.Array", words: Words) -> int:
    return int(keys.nbytes + words.nbytes + RELEASE_ID_BYTES * len(words))


SERVICES.enter("rows of signs", sign_rows)
