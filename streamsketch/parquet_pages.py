"""How much memory the pages of a Parquet file take, found from their headers before Arrow reads any of them.

Arrow allocates what a page's header announces: a file of two kilobytes may unpack to gigabytes. The headers lie one
after the other in a column chunk, each a Thrift struct in the compact protocol, before as many bytes as it says.
"""

import struct
from typing import Any, BinaryIO, NamedTuple

import pyarrow.parquet as pq

from streamsketch.errors import WireFormatError

_TAIL = struct.Struct("<I4s")  # length of the footer, magic
_MAGIC = b"PAR1"
_WINDOWS = (1 << 10, 1 << 17, 1 << 24)  # bytes in which a header must end; Arrow takes no more either
_PAGES = {0: 5, 2: 7, 3: 8}  # type of a page: field of its own header. Data, dictionary, data of version 2
_DICTIONARY = 2
_RESERVED = 1024  # values of a fixed size that Arrow makes room for, however few are read
_TYPE, _UNPACKED, _PACKED = 1, 2, 3  # fields of a header
_VALUES = 1  # field of a page's own header
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 7, 8, 12
_VARINTS = (4, 5, 6)  # 16, 32 and 64 bits
_LONGEST_VARINT = 10
_DEEPEST = 4


class Unpacked(NamedTuple):
    """What the pages of some columns hold."""

    total: int
    """Bytes of all pages, decompressed."""
    longest: int
    """Bytes of the largest page: no value is longer."""


def check_footer(file: BinaryIO, size: int, most: int) -> int:
    """Return the length of a Parquet file's footer.

    Raises
    ------
    WireFormatError
        If there is none, or it is longer than ``most``.
    """
    if size < _TAIL.size + len(_MAGIC):
        raise WireFormatError("parquet", f"has {size} bytes, too few for a Parquet file")
    file.seek(size - _TAIL.size)
    length, magic = _TAIL.unpack(file.read(_TAIL.size))
    file.seek(0)
    if magic != _MAGIC or length > size - _TAIL.size:
        raise WireFormatError("parquet", "does not end as a Parquet file does: it was cut off, or is encrypted")
    if length > most:
        raise WireFormatError(
            "parquet", f"has a footer of {length} bytes, over the limit of {most}; raise max_header_bytes"
        )
    return int(length)


def measure(file: BinaryIO, size: int, metadata: Any, columns: list[str], most: int) -> Unpacked:
    """Return what the pages of flat columns hold, from their headers alone.

    Parameters
    ----------
    file, size
        An open Parquet file, and its length.
    metadata
        Its `pyarrow.parquet.FileMetaData`.
    columns
        Names of columns, each there once.
    most
        Bytes that the pages may hold in all.

    Raises
    ------
    WireFormatError
        If they hold more, a header is not sound, or a column has not one value for each row.
    """
    total = longest = 0
    places = [place for place in range(metadata.num_columns) if metadata.schema.column(place).path in columns]
    if len(places) != len(columns):
        raise WireFormatError("columns", f"must be plain: {', '.join(columns)} are not, or are nested")
    for place in places:
        column = metadata.schema.column(place)
        if column.max_repetition_level:
            raise WireFormatError("columns", f"must hold one value a row, {column.path} holds lists")
        if column.physical_type == "FIXED_LEN_BYTE_ARRAY" and column.length * _RESERVED > most:
            raise _too_long(most)
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        for place in places:
            chunk = metadata.row_group(group).column(place)
            if chunk.num_values != rows:
                raise WireFormatError("parquet", f"has {chunk.num_values} values in a column of {rows} rows")
            pages = _pages(file, size, chunk, most - total)
            total, longest = total + pages.total, max(longest, pages.longest)
    file.seek(0)
    return Unpacked(total, longest)


def _pages(file: BinaryIO, size: int, chunk: pq.ColumnChunkMetaData, most: int) -> Unpacked:
    total = longest = values = 0
    start, end = chunk.data_page_offset, 0
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
        start = chunk.dictionary_page_offset
    end = start + chunk.total_compressed_size
    if not 0 < start <= end <= size:
        raise WireFormatError("parquet", "has a column that begins or ends outside the file")
    while start < end:
        header = _header(file, start, end)
        total, longest = total + header.unpacked, max(longest, header.unpacked)
        if total > most:
            raise _too_long(most)
        if not header.dictionary:
            values += header.values
        if not 0 <= header.values <= chunk.num_values:
            raise WireFormatError("parquet", f"has a page of {header.values} values in {chunk.num_values} rows")
        start = header.end
    if values != chunk.num_values:
        raise WireFormatError("parquet", f"has {values} values in pages of {chunk.num_values} rows")
    return Unpacked(total, longest)


class _Header(NamedTuple):
    dictionary: bool
    unpacked: int
    values: int
    end: int
    """Where the page ends."""


def _header(file: BinaryIO, start: int, end: int) -> _Header:
    for window in _WINDOWS:
        file.seek(start)
        thrift = _Thrift(file.read(min(window, end - start)))
        try:
            fields = thrift.struct()
        except IndexError:
            continue  # it is longer than the window, or than the file
        kind, unpacked, packed = (fields.get(field) for field in (_TYPE, _UNPACKED, _PACKED))
        if type(kind) is not int or type(unpacked) is not int or type(packed) is not int:
            raise _unsound()
        own = fields.get(_PAGES.get(kind, 0))
        values = own.get(_VALUES) if isinstance(own, dict) else None
        page_end = start + thrift.at + packed
        if type(values) is not int or unpacked < 0 or packed < 0 or page_end > end:
            raise _unsound()
        return _Header(kind == _DICTIONARY, unpacked, values, page_end)
    raise _unsound()


class _Thrift:
    """Reads one struct in Thrift's compact protocol; what it does not expect in a page's header it refuses."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the struct's integers and structs by field; raise IndexError where the bytes end."""
        if depth > _DEEPEST:
            raise _unsound()
        fields: dict[int, Any] = {}
        last = 0
        while head := self._byte():
            kind, step = head & 0xF, head >> 4
            number = last + step if step else self._zigzag()
            if number <= last:  # of a field that is there twice Arrow would take the second
                raise _unsound()
            last = number
            if kind in _VARINTS:
                fields[number] = self._zigzag()
            elif kind == _STRUCT:
                fields[number] = self.struct(depth + 1)
            elif kind in (_BYTE, _DOUBLE, _BINARY):
                self._skip({_BYTE: 1, _DOUBLE: 8}.get(kind) or self._varint())
            elif kind not in (_TRUE, _FALSE):
                raise _unsound()
        return fields

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self._data):
            raise IndexError

    def _varint(self) -> int:
        value = 0
        for place in range(_LONGEST_VARINT):
            byte = self._byte()
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return value
        raise _unsound()

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


def _too_long(most: int) -> WireFormatError:
    return WireFormatError("length", f"over the limit of {most} bytes unpacked; raise max_bytes")


def _unsound() -> WireFormatError:
    return WireFormatError("parquet", "has a page whose header is not sound, or of an unknown kind")
