"""The file of an index of published signs: a head, the first member, codes, ids and keys, to be mapped."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from streamsketch.core.files import write_whole
from streamsketch.core.libraries import pa
from streamsketch.core.limits import current_limits
from streamsketch.core.numbers import short
from streamsketch.data.arrow_messages import message_batches
from streamsketch.data.columns import check_keys, is_key_type
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.kernels.popcount import COLUMNS
from streamsketch.release.published import OTHER_FILES, Encoded, OtherFile
from streamsketch.signs.index_members import MOST_MEMBERS, Content
from streamsketch.signs.sketch import Signs

if TYPE_CHECKING:
    from streamsketch.kernels.hashing import Words

_MAGIC, _NUMBERS = b"SSsigns\x02", 3  # members, and bytes of the first member and of the keys
_WITHOUT_KEYS, _FEWER_NUMBERS = b"SSsigns\x01", 2
_NUMBER_BYTES = 8
_PAGE = 4096
_WORD_BITS = 64


def write_index(path: str | os.PathLike[str], index: Content) -> None:
    """Write a file that `read_index` maps, atomically."""
    first, keys = index.first.to_bytes(), pa.py_buffer(b"") if index.keys is None else _stream_of(index.keys)
    numbers = b"".join(number.to_bytes(_NUMBER_BYTES, "little") for number in (index.members, len(first), keys.size))
    head = (_MAGIC + numbers + first).ljust(_start(_NUMBERS, len(first)), b"\0")
    write_whole(path, cast("list[bytes]", [head, index.blocks.data, index.ids.data, memoryview(keys)]))


def is_index(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins as an index of signs."""
    with Path(path).open("rb") as file:
        return file.read(len(_MAGIC)) in (_MAGIC, _WITHOUT_KEYS)


def read_index(path: str | os.PathLike[str]) -> Content:
    """Return what a file holds, mapped; errors as `SignIndex.load`."""
    with Path(path).open("rb") as file:
        head = file.read(len(_MAGIC) + _FEWER_NUMBERS * _NUMBER_BYTES)
        count, size = (int.from_bytes(head[at : at + _NUMBER_BYTES], "little") for at in (8, 16))
        is_index = head[:8] in (_MAGIC, _WITHOUT_KEYS) and 1 <= count <= MOST_MEMBERS
        if not is_index or size > current_limits().max_bytes:
            raise WireFormatError("head", "this is not an index of signs; pass a file that SignIndex.save wrote")
        with_keys = head[:8] == _MAGIC
        of_keys = int.from_bytes(file.read(_NUMBER_BYTES), "little") if with_keys else 0
        first = Encoded.any_from_bytes(file.read(size))
        if not isinstance(first, Signs):
            raise WireFormatError("first member", f"it has signs, and this is a {type(first).__name__}")
        start = _start(_NUMBERS if with_keys else _FEWER_NUMBERS, size)
        words = -(-count // COLUMNS) * COLUMNS * first.words.size
        expected, length = start + 8 * (words + count) + of_keys, file.seek(0, os.SEEK_END)
        if length != expected:
            raise WireFormatError(
                "codes",
                f"{count:,} members of {first.projection.sketch_dim} signs, and keys of {of_keys:,} bytes, take "
                f"{expected:,} bytes, and the file has {length:,}",
            )
    content: Words = np.asarray(np.memmap(path, "<u8", "r", start, (words + count,)))
    blocks, ids, unused = content[:words], content[words:], first.projection.sketch_dim % _WORD_BITS
    if unused and (blocks.reshape(-1, first.words.size, COLUMNS)[:, -1] >> np.uint64(unused)).any():
        raise WireFormatError("codes", "the bits after the last sign must be 0")
    if (ids[1:] <= ids[:-1]).any():
        raise WireFormatError("ids", "they are not in order, or not distinct")
    keys = np.memmap(path, "u1", "r", expected - of_keys, (of_keys,)) if of_keys else None
    return Content(first, count, blocks, ids, None if keys is None else _keys_in(keys, count))


def _start(numbers: int, size: int) -> int:
    """Return where codes begin behind so many numbers and a release of so many bytes."""
    return -(-(len(_MAGIC) + numbers * _NUMBER_BYTES + size) // _PAGE) * _PAGE


def _stream_of(keys: "pa.Array") -> "pa.Buffer":
    """Return keys as an Arrow IPC stream."""
    batch, sink = pa.record_batch({"key": keys}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _keys_in(content: Any, count: int) -> "pa.Array":
    """Return the keys in mapped bytes, which hold a column of ``count`` keys that takes no more than they do."""
    try:
        schema, batches = message_batches(pa.py_buffer(content), len(content))
        if schema.names != ["key"] or not is_key_type(schema.field(0).type):
            raise WireFormatError(
                "keys", f"they must be one column of text, bytes, integers or times, got {short(schema)}"
            )
        if len(batches) != 1:
            raise WireFormatError("keys", f"they must be in one batch, got {len(batches)}")
        keys = batches[0].column(0)
        check_keys(keys)
        if len(keys) != count or keys.null_count:
            raise WireFormatError("keys", f"{count:,} members need as many, got {len(keys) - keys.null_count:,}")
    except (pa.ArrowException, InvalidInputError, UnicodeDecodeError) as error:
        raise WireFormatError("keys", f"they are damaged: {short(str(error))}") from None
    return keys


OTHER_FILES.enter(
    "index of signs",
    OtherFile(is_index, "an index of signs, which is searched: read it with streamsketch.signs.SignIndex.load(path)"),
)
