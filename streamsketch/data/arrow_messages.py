"""Arrow IPC streams from others: refused before Arrow unpacks them if they would take too much memory."""

import struct
from typing import Any

import numpy as np

from streamsketch.core.libraries import pa, pc
from streamsketch.errors import InvalidInputError

_DICTIONARY, _ROWS = 2, 3  # kinds of messages, as Message.fbs of Arrow numbers them
_BITS, _FEW = 8, 4096  # a row takes a bit at least; a few may be nulls alone, which take nothing


_FREELY = 1 << 26  # bytes that any message may unpack to
_TIMES = 100  # its own size that a larger message may unpack to


def most_unpacked(size: int, most: int) -> int:
    """Return to how many bytes a message of this size may unpack: to 64 MiB or 100 times its size, and not to more.

    Few bytes then cannot take all memory of a stream, whoever writes them.

    Examples
    --------
    >>> most_unpacked(7_000, 1 << 28) >> 20, most_unpacked(1_000_000, 1 << 28), most_unpacked(1 << 28, 1 << 28) >> 20
    (64, 100000000, 256)
    """
    return min(most, max(_FREELY, _TIMES * size))


def unpacked_size(batch: "pa.RecordBatch") -> int:
    """Return how many bytes a batch has, with its dictionaries and views resolved."""
    return int(batch.nbytes) + sum(_decoded(column, -1) for column in batch.columns)


def message_batches(data: "bytes | memoryview | pa.Buffer", most: int) -> "tuple[pa.Schema, list[pa.RecordBatch]]":
    """Return the schema and the batches of an Arrow IPC stream, whose structure is valid; codes and text may not be.

    Parameters
    ----------
    data
        The stream.
    most
        Bytes that it may unpack to, dictionaries decoded.

    Raises
    ------
    InvalidInputError
        If the bytes are not such a stream, or would unpack to more.
    """
    try:
        size = sum(map(_unpacked, pa.ipc.MessageReader.open_stream(data)))
        _check(size, most)
        with pa.ipc.open_stream(data) as reader:
            schema, batches = reader.schema, list(reader)
        for batch in batches:
            batch.validate()  # lengths and buffers: they may be negative, or too short
            size += sum(_decoded(column, most) for column in batch.columns)
            _check(size, most)
    except InvalidInputError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged ones lead Arrow to raise errors of any type
        raise InvalidInputError(f"this is not a valid Arrow IPC stream ({type(error).__name__})") from None
    return schema, batches


def _check(size: int, most: int) -> None:
    if size > most:
        raise InvalidInputError(f"an Arrow IPC stream unpacks to {size} bytes or more, over the limit of {most}")


def _unpacked(message: Any) -> int:
    """Return how many bytes a message's buffers have once they are uncompressed."""
    table = _Table.root(message.metadata.to_pybytes())
    kind = table.number(1, "<B")
    if kind not in (_DICTIONARY, _ROWS):
        return 0
    batch = table.inner(2) if kind == _ROWS else table.inner(2).inner(1)
    body = memoryview(message.body)
    size = len(body) if not batch.has(3) else sum(_length(body, *place) for place in batch.pairs(2))
    lengths = [batch.number(0, "<q"), *(length for length, _ in batch.pairs(1))]
    if not 0 <= max(lengths) <= _BITS * size + _FEW:
        raise ValueError
    return size


def _length(body: memoryview, start: int, length: int) -> int:
    """Return the length of a compressed buffer, which begins with it; -1 if it is not compressed."""
    if not length:
        return 0
    (stated,) = struct.unpack_from("<q", body, start)
    if stated < -1:
        raise ValueError
    return int(length if stated == -1 else stated)


def _decoded(column: "pa.Array", most: int) -> int:
    """Return how many bytes of text a column has once its dictionary or its views are resolved.

    A few bytes may stand for many. Returns 0 if it cannot be more than ``most``.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        words = sum(buffer.size for buffer in column.dictionary.buffers() if buffer is not None)
        if not _is_bytes(kind.value_type) or words * len(column) <= most:
            return 0
        lengths = _lengths(column.dictionary)
        codes = column.indices.drop_null().to_numpy(zero_copy_only=False)
        return int(lengths[codes[(codes >= 0) & (codes < lengths.size)]].sum())
    return int(_lengths(column).sum()) if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind) else 0


def _lengths(column: "pa.Array") -> Any:
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        views = np.frombuffer(column.buffers()[1], dtype="<i4").reshape(-1, 4)  # of which the first word is the length
        return np.maximum(views[column.offset : column.offset + len(column), 0], 0).astype(np.int64)
    return np.abs(pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))


def _is_bytes(kind: "pa.DataType") -> bool:
    kinds = ("is_string", "is_binary", "is_large_string", "is_large_binary", "is_string_view", "is_binary_view")
    return any(getattr(pa.types, name)(kind) for name in kinds)


class _Table:
    """A table of FlatBuffers: its fields by number. What is not there raises ``struct.error``."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data, self._place = data, place
        self._offsets = place - self._at(place, "<i")
        self._fields = (self._at(self._offsets, "<H") - 4) // 2

    @classmethod
    def root(cls, data: bytes) -> "_Table":
        """Return the outermost table."""
        return cls(data, int(struct.unpack_from("<I", data)[0]))

    def has(self, field: int) -> bool:
        """Return whether a field is there."""
        return self._of(field) != 0

    def number(self, field: int, form: str) -> int:
        """Return a number, 0 where the field is not there."""
        return self._at(self._place + self._of(field), form) if self.has(field) else 0

    def inner(self, field: int) -> "_Table":
        """Return a table inside."""
        return _Table(self._data, self._behind(field))

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """Return a vector of structures of two 64-bit numbers."""
        if not self.has(field):
            return []
        start = self._behind(field)
        count = self._at(start, "<I")
        if start < 0 or start + 4 + 16 * count > len(self._data):
            raise ValueError
        return list(struct.iter_unpack("<qq", self._data[start + 4 : start + 4 + 16 * count]))

    def _behind(self, field: int) -> int:
        place = self._place + self._of(field)
        return place + self._at(place, "<I")

    def _of(self, field: int) -> int:
        return self._at(self._offsets + 4 + 2 * field, "<H") if field < self._fields else 0

    def _at(self, place: int, form: str) -> int:
        if place < 0:  # which struct counts from the end
            raise ValueError
        return int(struct.unpack_from(form, self._data, place)[0])
