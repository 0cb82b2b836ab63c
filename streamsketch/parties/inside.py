"""Signatures inside Parquet tables: an entry of the footer, over all other bytes of the file."""

import hashlib
import io
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from streamsketch.errors import SignatureError

ENTRY = b"streamsketch.signature"
MAGIC = b"PAR1"
_TAIL = 8  # the footer's length, and the magic again
_TEXT = b"\x18"  # in Thrift's compact form, what stands between an entry's name and the length of its value
_LONGEST_VARINT = 5


def signed_table(table: pa.Table, line_of: Callable[[str], bytes]) -> bytes:
    """Return a table as a Parquet file with its signature inside.

    Parameters
    ----------
    table
        What to write.
    line_of
        Returns the envelope for the SHA-256 of the file with spaces in the place of the envelope; always as long.
    """
    blank = b" " * len(line_of(hashlib.sha256().hexdigest()))
    content = io.BytesIO()
    with pq.ParquetWriter(content, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({ENTRY: blank})
    data = content.getvalue()
    start, end = _place(data)
    return data[:start] + line_of(hashlib.sha256(data).hexdigest()) + data[end:]


def signature_inside(data: bytes) -> tuple[bytes, str] | None:
    """Return the envelope inside a table's footer and the SHA-256 of the rest, spaces in its place; None without one.

    Whatever else is changed in the file changes the hash; and as its footer names the entry once, no other bytes of it
    can take the envelope's place.
    """
    try:
        start, end = _place(data)
    except SignatureError:
        return None
    digest = hashlib.sha256(data[:start])
    digest.update(b" " * (end - start))
    digest.update(data[end:])
    return data[start:end], digest.hexdigest()


def _place(data: bytes) -> tuple[int, int]:
    """Return where the value of the entry begins and ends."""
    size = int.from_bytes(data[-_TAIL:-4], "little")
    footer = len(data) - _TAIL - size
    name = data.find(ENTRY + _TEXT, max(0, footer), len(data) - _TAIL)
    if data[:4] != MAGIC or footer < len(MAGIC) or name < 0 or data.count(ENTRY, footer) > 1:
        raise SignatureError("the table has no signature inside")
    at, length = name + len(ENTRY + _TEXT), 0
    for place in range(_LONGEST_VARINT):
        byte = data[at + place]
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:  # the last
            at += place + 1
            break
    if at + length > len(data) - _TAIL:
        raise SignatureError("the table has no signature inside")
    return at, at + length
