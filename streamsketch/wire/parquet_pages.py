"""How much memory the pages of a Parquet file take, found from their headers before Arrow reads any of them.

Arrow allocates what a page's header announces: a file of two kilobytes may unpack to gigabytes. A column chunk
is a sequence of pages, each a header, a Thrift struct in the compact protocol, followed by the bytes that it announces.
"""

import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from streamsketch.core.numbers import short
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
_SCHEMA, _FILE_ROWS, _CHILDREN = 2, 3, 5  # fields of the footer, and of an element of its schema
_OPTIONAL, _REPEATED, _FIXED = 1, 2, 7  # repetitions, and the type of bytes of one length


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
            raise WireFormatError("columns", f"must hold one value a row, {short(column.path)} holds lists")
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


class Element(NamedTuple):
    """A flat column, as the footer describes it; what is not there is 0."""

    path: str
    place: int
    """Among all columns."""
    type: int
    length: int
    optional: bool
    converted: int
    logical: dict[int, Any]
    max_repetition_level: int

    @property
    def physical_type(self) -> str:
        """The name of its type, where a length goes with it."""
        return "FIXED_LEN_BYTE_ARRAY" if self.type == _FIXED else ""


class Footer(NamedTuple):
    """The contents of a file's footer, for readers without Arrow."""

    rows: int
    leaves: tuple[Element, ...]
    groups: tuple[list[Any], ...]
    """The columns of each group of rows."""

    @property
    def num_columns(self) -> int:
        """How many columns there are, those inside others included."""
        return len(self.leaves)

    @property
    def schema(self) -> "Footer":
        """The columns, for `measure`."""
        return self

    def column(self, place: int) -> Element:
        """Return the column at a place."""
        return self.leaves[place]

    def leaf(self, name: str) -> Element:
        """Return the column of a name."""
        return next(leaf for leaf in self.leaves if leaf.path == name)


def read_footer(file: BinaryIO, size: int, most: int) -> Footer:
    """Return a Parquet file's footer.

    Raises
    ------
    WireFormatError
        If it is longer than ``most``, or not valid.
    """
    length = check_footer(file, size, most)
    file.seek(size - _TAIL.size - length)
    try:
        fields = _Thrift(file.read(length), whole=True).struct()
        leaves = tuple(_leaves(fields[_SCHEMA]))
        rows, groups = fields[_FILE_ROWS], tuple(group[_COLUMNS] for group in fields.get(_ROW_GROUPS, []))
    except (IndexError, KeyError, TypeError, AttributeError):
        raise WireFormatError("parquet", "has a footer that is not valid") from None
    except UnicodeDecodeError:
        raise WireFormatError("columns", "have names that are not UTF-8") from None
    if type(rows) is not int or rows < 0 or rows != sum(_rows_in(group) for group in fields.get(_ROW_GROUPS, [])):
        raise WireFormatError("parquet", "has groups of another number of rows than it states")
    return Footer(rows, leaves, groups)


def _rows_in(group: dict[int, Any]) -> int:
    rows = group.get(_ROWS)
    return rows if type(rows) is int and rows >= 0 else -1


def _leaves(schema: list[Any]) -> Iterator[Element]:
    """Yield the columns of a schema, which lists each group before what is in it."""
    open_groups: list[tuple[int, str, int]] = [(schema[0][_CHILDREN], "", 0)]  # left, path, repetition
    place = 0
    for fields in schema[1:]:
        while open_groups and open_groups[-1][0] == 0:
            open_groups.pop()
        left, path, level = open_groups.pop()
        open_groups.append((left - 1, path, level))
        path += fields[4].decode()
        level += fields.get(3) == _REPEATED
        if fields.get(_CHILDREN):
            open_groups.append((fields[_CHILDREN], f"{path}.", level))
            continue
        logical = fields.get(10)
        if 10 in fields and not (
            isinstance(logical, dict) and logical
        ):  # nothing at all: Arrow takes no other type then
            raise _invalid()
        yield Element(
            *(path, place, _number(fields.get(1)), _number(fields.get(2)), fields.get(3) == _OPTIONAL),
            *(_number(fields.get(6), -1), logical or {}, level),
        )
        place += 1


def _number(value: Any, otherwise: int = 0) -> int:
    return value if type(value) is int else otherwise


class Page(NamedTuple):
    """A page of a column, as it is in the file."""

    kind: int
    values: int
    encoding: int
    levels: int
    """How is said which values are null, of data pages of version 1."""
    unpacked: int
    body: bytes


def codec_of(column: Any) -> int:
    """Return the compression of a column's pages in a group of rows."""
    return _number(column[_META_DATA].get(4), -1)


def pages_of(file: BinaryIO, column: Any) -> Iterator[Page]:
    """Yield the pages of a column of a group, whose headers `measure` has checked."""
    chunk = _chunk(column, _number(column[_META_DATA].get(5), -1))
    start, end = chunk.start, chunk.start + chunk.length
    while start < end and chunk.values:
        header = _header(file, start, end)
        file.seek(header.end - header.packed)
        levels, unpacked = header.levels, header.unpacked
        yield Page(header.kind, header.values, header.encoding, levels, unpacked, file.read(header.packed))
        start = header.end


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
        if header.kind != _DICTIONARY:
            values += header.values
        if not 0 <= header.values <= chunk.values:
            raise WireFormatError("parquet", f"has a page of {header.values} values in {chunk.values} rows")
        start = header.end
    if values != chunk.values:
        raise WireFormatError("parquet", f"has {values} values in pages of {chunk.values} rows")
    return Unpacked(total, longest)


class _Header(NamedTuple):
    kind: int
    unpacked: int
    packed: int
    values: int
    encoding: int
    levels: int
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
        encoding, levels = (_number(own.get(field) if own else None, -1) for field in (2, 3))
        return _Header(kind, unpacked, packed, values, encoding, levels, page_end)
    raise _invalid()


class _Thrift:
    """Reads one struct in Thrift's compact protocol, and refuses types that Parquet does not use.

    Texts and truth values are returned only if ``whole`` is set.
    """

    def __init__(self, data: bytes, *, whole: bool = False) -> None:
        self._data, self.at, self._whole = data, 0, whole
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
            elif self._whole:
                fields[number] = kind == _TRUE
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
            length = self._varint()
            self._skip(length)
            if self._whole:
                return self._data[self.at - length : self.at]
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
