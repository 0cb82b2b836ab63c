"""How much memory the pages of a Parquet file take, found from their headers before Arrow reads any of them.

Arrow allocates what a page's header announces: a file of two kilobytes may unpack to gigabytes. A column chunk
is a sequence of pages, each a header, a Thrift struct in the compact protocol, followed by the bytes that it announces.
"""

import struct
from typing import Any, BinaryIO, NamedTuple

from streamsketch.errors import WireFormatError

_TAIL = struct.Struct("<I4s")  # length of the footer, magic
_MAGIC = b"PAR1"
_WINDOWS = (1 << 10, 1 << 17, 1 << 24)  # bytes in which a header must end; Arrow takes no more either
_PAGES = {0: 5, 2: 7, 3: 8}  # type of a page: field of its own header. Data, dictionary, data of version 2
_DICTIONARY = 2
_RESERVED = 1024  # values of a fixed size that Arrow makes room for, however few are read
_TYPE, _UNPACKED, _PACKED = 1, 2, 3  # fields of a header
_VALUES = 1  # field of a page's own header
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _STRUCT = 1, 2, 3, 7, 8, 9, 12
_VARINTS = (4, 5, 6)  # 16, 32 and 64 bits
_LONGEST_VARINT = 10
_DEEPEST = 8
_BYTES_A_STRUCT = 4  # at least, on average, in what is written by honest writers
_ROW_GROUPS, _COLUMNS, _ROWS, _META_DATA = 4, 1, 3, 3  # fields of the footer, of a row group, of a column


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
        If they hold more, a header is not valid, or a column has not one value for each row.
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
    for group in _row_groups(file, size):
        chunks, rows = group.get(_COLUMNS), group.get(_ROWS)
        if not isinstance(chunks, list) or len(chunks) != metadata.num_columns or type(rows) is not int:
            raise WireFormatError("parquet", "has a group of rows without its columns")
        for place in places:
            chunk = _chunk(chunks[place], rows)
            if chunk.values == 0:
                continue  # Arrow reads no page of it, and writes none: its place may be 0
            pages = _pages(file, size, chunk, most - total)
            total, longest = total + pages.total, max(longest, pages.longest)
    file.seek(0)
    return Unpacked(total, longest)


class _Chunk(NamedTuple):
    start: int
    length: int
    values: int


def _row_groups(file: BinaryIO, size: int) -> list[dict[int, Any]]:
    """Return the row groups in the footer; pyarrow's own metadata would end the process where statistics are wrong."""
    file.seek(size - _TAIL.size)
    length, _ = _TAIL.unpack(file.read(_TAIL.size))
    file.seek(size - _TAIL.size - length)
    try:
        groups = _Thrift(file.read(length)).struct().get(_ROW_GROUPS, [])
    except IndexError:
        groups = None
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise WireFormatError("parquet", "has a footer that is not valid")
    return groups


def _chunk(column: Any, rows: int) -> _Chunk:
    fields = column.get(_META_DATA) if isinstance(column, dict) else None
    fields = fields if isinstance(fields, dict) else {}
    values, length, start, dictionary = (fields.get(field) for field in (5, 7, 9, 11))
    if type(values) is not int or type(length) is not int or type(start) is not int:
        raise WireFormatError("parquet", "has a column without a place")
    if values != rows:
        raise WireFormatError("parquet", f"has {values} values in a column of {rows} rows")
    if type(dictionary) is int and 0 < dictionary < start:
        start = dictionary
    return _Chunk(start, length, values)


def _pages(file: BinaryIO, size: int, chunk: _Chunk, most: int) -> Unpacked:
    total = longest = values = 0
    start, end = chunk.start, chunk.start + chunk.length
    if not 0 < start <= end <= size:
        raise WireFormatError("parquet", "has a column that begins or ends outside the file")
    while start < end:
        header = _header(file, start, end)
        total, longest = total + header.unpacked, max(longest, header.unpacked)
        if total > most:
            raise _too_long(most)
        if not header.dictionary:
            values += header.values
        if not 0 <= header.values <= chunk.values:
            raise WireFormatError("parquet", f"has a page of {header.values} values in {chunk.values} rows")
        start = header.end
    if values != chunk.values:
        raise WireFormatError("parquet", f"has {values} values in pages of {chunk.values} rows")
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
            raise _invalid()
        own = fields.get(_PAGES.get(kind, 0))
        values = own.get(_VALUES) if isinstance(own, dict) else None
        page_end = start + thrift.at + packed
        if type(values) is not int or unpacked < 0 or packed < 0 or page_end > end:
            raise _invalid()
        return _Header(kind == _DICTIONARY, unpacked, values, page_end)
    raise _invalid()


class _Thrift:
    """Reads one struct in Thrift's compact protocol; what Parquet has no use for it refuses."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0
        self._left = len(data) // _BYTES_A_STRUCT + 16

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the struct's integers, lists and structs by field; raise IndexError where the bytes end."""
        self._left -= 1
        if depth > _DEEPEST or self._left < 0:
            raise _invalid()
        fields: dict[int, Any] = {}
        last = 0
        while head := self._byte():
            kind, step = head & 0xF, head >> 4
            number = last + step if step else self._zigzag()
            if number <= last:  # of a field that is there twice Arrow would take the second
                raise _invalid()
            last = number
            if kind not in (_TRUE, _FALSE):
                fields[number] = self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _VARINTS:
            return self._zigzag()
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _LIST and depth <= _DEEPEST:
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            if count > len(self._data):
                raise _invalid()
            return [self._value(head & 0xF, depth + 1) for _ in range(count)]
        if kind == _BINARY:
            self._skip(self._varint())
        elif kind in (_TRUE, _FALSE, _BYTE):  # in a list, a truth value takes a byte
            self._skip(1)
        elif kind == _DOUBLE:
            self._skip(8)
        else:
            raise _invalid()
        return None

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
        raise _invalid()

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


def _too_long(most: int) -> WireFormatError:
    return WireFormatError("length", f"over the limit of {most} bytes unpacked; raise max_bytes")


def _invalid() -> WireFormatError:
    return WireFormatError("parquet", "has a page or a footer that is not valid, or of an unknown kind")
