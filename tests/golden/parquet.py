"""Parquet as WIRE.md asks for it: reads what this library writes, and writes flat tables. No library.

From the Parquet format's own description: Thrift's compact protocol, PLAIN and dictionary pages, Snappy.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.golden.mechanisms import need
from tests.golden.reader import read_varint, varint, zigzag

MAGIC = b"PAR1"
PLAIN, RLE, DICTIONARIES = 0, 3, (2, 8)
UNCOMPRESSED, SNAPPY = 0, 1
INT32, INT64, BYTE_ARRAY = 1, 2, 6
UTF8, DATE, MILLIS, MICROS = 0, 6, 9, 10  # converted types
LOGICAL = {1: "text", 6: "date", 8: "time"}
PER_SECOND = {1: 10**3, 2: 10**6, 3: 10**9}  # of a timestamp's units
Fields = dict[int, Any]


class Column(NamedTuple):
    """A column's type, and its values; of times, nanoseconds."""

    kind: str
    values: list[Any]


# --- Thrift -----------------------------------------------------------------------------------------------------


def read_struct(data: bytes, at: int) -> tuple[Fields, int]:
    """Return a struct's fields by number, and the place behind it."""
    fields: Fields = {}
    number = 0
    while True:
        head, at = data[at], at + 1
        if head == 0:
            return fields, at
        if head >> 4:
            number += head >> 4
        else:
            number, at = read_signed(data, at)
        fields[number], at = read_value(data, at, head & 15)


def read_value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    """Return a value of a kind."""
    if kind in (1, 2, 3, 7):
        return (kind == 1 if kind < 3 else None), at + {3: 1, 7: 8}.get(kind, 0)
    if kind in (4, 5, 6):
        return read_signed(data, at)
    if kind == 8:
        length, at = read_varint(data, at)
        need(at + length <= len(data), "text is cut off")
        return data[at : at + length], at + length
    if kind == 9:
        count, of, at = data[at] >> 4, data[at] & 15, at + 1
        if count == 15:
            count, at = read_varint(data, at)
        found = []
        for _ in range(count):
            one, at = read_value(data, at, of)
            found.append(one)
        return found, at
    need(kind == 12, "a type that Parquet has no use for")
    return read_struct(data, at)


def read_signed(data: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag integer."""
    value, at = read_varint(data, at)
    return value >> 1 ^ -(value & 1), at


def thrift(fields: Fields) -> bytes:
    """Return a struct: integers as 64-bit ones, but as 32-bit ones where Parquet has them, which `I32` marks."""
    out, last = b"", 0
    for number, value in sorted(fields.items()):
        kind, data = written(value)
        out += bytes([(number - last) << 4 | kind]) + data
        last = number
    return out + b"\0"


class I32(int):
    """An integer of 32 bits."""


def written(value: Any) -> tuple[int, bytes]:
    """Return a value's type and bytes."""
    if isinstance(value, bool):
        return (1 if value else 2), b""
    if isinstance(value, int):
        return (5 if isinstance(value, I32) else 6), varint(zigzag(value))
    if isinstance(value, bytes):
        return 8, varint(len(value)) + value
    if isinstance(value, list):
        parts = [written(one) for one in value]
        of = parts[0][0] if parts else 12
        head = bytes([len(parts) << 4 | of]) if len(parts) < 15 else bytes([0xF0 | of]) + varint(len(parts))
        return 9, head + b"".join(data for _, data in parts)
    return 12, thrift(value)


# --- reading ----------------------------------------------------------------------------------------------------


def read_footer(data: bytes) -> Fields:
    """Return a file's metadata."""
    need(len(data) >= 12 and data[:4] == data[-4:] == MAGIC, "no Parquet file")
    length = int.from_bytes(data[-8:-4], "little")
    need(length <= len(data) - 12, "a footer that is cut off")
    return read_struct(data[-8 - length : -8], 0)[0]


def read_columns(data: bytes) -> dict[str, Column]:
    """Return the flat columns of a Parquet file that are of types that keys and releases have, by name."""
    footer = read_footer(data)
    found: dict[str, Column] = {}
    for place, (leaf, depth) in enumerate(leaves_of(footer[2])):
        if depth > 1 or leaf[1] not in (INT32, INT64, BYTE_ARRAY):
            continue
        chunks = [group[1][place][3] for group in footer[4]]
        values = [value for chunk in chunks for value in read_chunk(data, chunk, leaf)]
        need(len(values) == footer[3], "another number of values than rows")
        kind, unit = kind_of(leaf)
        found[leaf[4].decode()] = Column(kind, [typed(value, kind, unit) for value in values])
    return found


def leaves_of(schema: list[Fields]) -> Iterator[tuple[Fields, int]]:
    """Yield the columns of a schema, each with its depth; elements with children come before them."""
    left = [schema[0][5]]
    for element in schema[1:]:
        left[-1] -= 1
        children = element.get(5, 0)
        if children:
            left.append(children)
        else:
            yield element, len(left)
        while left and left[-1] == 0:
            left.pop()


def kind_of(leaf: Fields) -> tuple[str, int]:
    """Return what a column's values are, and how many nanoseconds a time's unit has."""
    logical = next(iter(leaf.get(10, {}).items()), (0, {}))
    if logical[0] == 8:
        return "time", 10**9 // PER_SECOND[next(iter(logical[1][2]))]
    if 6 in leaf and leaf[6] in (MILLIS, MICROS):
        return "time", 10**6 if leaf[6] == MILLIS else 10**3
    if logical[0] in LOGICAL:
        return LOGICAL[logical[0]], 1
    return {UTF8: "text", DATE: "date"}.get(leaf.get(6, -1), "bytes" if leaf[1] == BYTE_ARRAY else "integer"), 1


def typed(value: Any, kind: str, unit: int) -> Any:
    """Return a value as the type it is of."""
    if value is None:
        return None
    if kind == "time":
        return value * unit
    return value.decode() if kind == "text" else value


def read_chunk(data: bytes, chunk: Fields, leaf: Fields) -> Iterator[Any]:
    """Yield the values of a column in one group of rows; None for nulls."""
    at, left, dictionary = min(chunk[9], chunk.get(11) or chunk[9]), chunk[5], []
    while left > 0:
        header, at = read_struct(data, at)
        page = unpacked(data[at : at + header[3]], chunk[4])
        at += header[3]
        need(len(page) == header[2], "a page of another length than stated")
        if header[1] == 2:
            dictionary = list(plain(page, leaf[1], header[7][1]))
            continue
        need(header[1] == 0, "a page of another version")
        count, encoding = header[5][1], header[5][2]
        left -= count
        levels = [1] * count
        if leaf.get(3, 0) == 1:  # optional: a level for each value says whether it is there
            size = int.from_bytes(page[:4], "little")
            levels, page = list(hybrid(page[4 : 4 + size], 1, count)), page[4 + size :]
        if encoding == PLAIN:
            values = plain(page, leaf[1], sum(levels))
        else:
            need(encoding in DICTIONARIES, "an unknown encoding")
            values = (dictionary[place] for place in hybrid(page[1:], page[0], sum(levels)))
        for level in levels:
            yield next(values) if level else None


def plain(page: bytes, kind: int, count: int) -> Iterator[Any]:
    """Yield values in the encoding PLAIN."""
    at = 0
    for _ in range(count):
        if kind == BYTE_ARRAY:
            size = int.from_bytes(page[at : at + 4], "little")
            need(at + 4 + size <= len(page), "a value is cut off")
            yield page[at + 4 : at + 4 + size]
            at += 4 + size
        else:
            size = 4 if kind == INT32 else 8
            yield int.from_bytes(page[at : at + size], "little", signed=True)
            at += size


def hybrid(data: bytes, width: int, count: int) -> Iterator[int]:
    """Yield integers of so many bits from runs of one value and packed groups of eight."""
    at, size = 0, -(-width // 8)
    while count > 0:
        head, at = read_varint(data, at)
        if head & 1:
            bits, values = int.from_bytes(data[at : at + (head >> 1) * width], "little"), (head >> 1) * 8
            at += (head >> 1) * width
            run = [bits >> place * width & (1 << width) - 1 for place in range(min(values, count))]
        else:
            run = [int.from_bytes(data[at : at + size], "little")] * min(head >> 1, count)
            at += size
        count -= len(run)
        yield from run


def unpacked(page: bytes, codec: int) -> bytes:
    """Return a page, decompressed."""
    if codec == UNCOMPRESSED:
        return page
    need(codec == SNAPPY, "compressed by another codec than Snappy")
    size, at = read_varint(page, 0)
    out = bytearray()
    while at < len(page):
        tag, at = page[at], at + 1
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                extra = length - 59
                length, at = int.from_bytes(page[at : at + extra], "little"), at + extra
            out += page[at : at + length + 1]
            at += length + 1
            continue
        extra = {1: 1, 2: 2, 3: 4}[tag & 3]
        offset, at = int.from_bytes(page[at : at + extra], "little"), at + extra
        length = (tag >> 2 & 7) + 4 if extra == 1 else (tag >> 2) + 1
        offset |= (tag >> 5) << 8 if extra == 1 else 0
        need(0 < offset <= len(out), "a copy from before the page")
        for _ in range(length):
            out.append(out[-offset])
    need(len(out) == size, "a page of another length than its own")
    return bytes(out)


# --- writing ----------------------------------------------------------------------------------------------------


def write_table(columns: dict[str, Column], entries: dict[str, bytes] | None = None, *, codec: int = SNAPPY) -> bytes:
    """Return required columns as a file of one group of rows, and of one page each; with entries in its footer."""
    rows = len(next(iter(columns.values())).values)
    out, chunks = MAGIC, []
    leaves: list[Fields] = [{4: b"schema", 5: I32(len(columns))}]
    for name, column in columns.items():
        kind = {"text": BYTE_ARRAY, "bytes": BYTE_ARRAY, "date": INT32}.get(column.kind, INT64)
        logical = {"text": {1: {}}, "date": {6: {}}, "time": {8: {1: False, 2: {3: {}}}}}.get(column.kind)
        leaves.append({1: I32(kind), 3: I32(0), 4: name.encode()} | ({} if logical is None else {10: logical}))
        body = b"".join(stored(value, kind) for value in column.values)
        page = packed(body) if codec == SNAPPY else body
        header = thrift(
            {
                1: I32(0),
                2: I32(len(body)),
                3: I32(len(page)),
                5: {1: I32(rows), 2: I32(PLAIN), 3: I32(RLE), 4: I32(RLE)},
            }
        )
        length = len(header) + len(page)
        meta = {1: I32(kind), 2: [I32(PLAIN)], 3: [name.encode()], 4: I32(codec), 5: rows}
        meta |= {6: len(header) + len(body), 7: length, 9: len(out)}
        chunks.append({2: len(out), 3: meta})
        out += header + page
    footer: Fields = {1: I32(1), 2: leaves, 3: rows, 4: [{1: chunks, 2: len(out) - 4, 3: rows}] if rows else []}
    if entries:
        footer[5] = [{1: name.encode(), 2: value} for name, value in entries.items()]
    said = thrift(footer)
    return out + said + len(said).to_bytes(4, "little") + MAGIC


def stored(value: Any, kind: int) -> bytes:
    """Return a value in the encoding PLAIN."""
    if kind == BYTE_ARRAY:
        data = value.encode() if isinstance(value, str) else bytes(value)
        return len(data).to_bytes(4, "little") + data
    return int(value).to_bytes(4 if kind == INT32 else 8, "little", signed=True)


def packed(page: bytes) -> bytes:
    """Return a page as Snappy that copies nothing."""
    parts = [page[at : at + 60] for at in range(0, len(page), 60)]
    return varint(len(page)) + b"".join(bytes([len(part) - 1 << 2]) + part for part in parts)
