"""Parquet without a library: the keys and releases of a table, where Arrow is not installed.

What this library writes, and what others write alike: data pages of version 1, `PLAIN` and dictionary pages, in Snappy,
GZIP or as they are (WIRE.md, "Tables"). Lengths are checked before anything of them is made.
"""

import datetime as dt
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from streamsketch.core.numbers import short
from streamsketch.errors import WireFormatError
from streamsketch.wire.parquet_pages import Element, Footer, codec_of, pages_of

_INT32, _INT64, _BYTES = 1, 2, 6
_STORED, _SNAPPY, _GZIP = 0, 1, 2
_CODECS = {3: "LZO", 4: "BROTLI", 5: "LZ4", 6: "ZSTD", 7: "LZ4_RAW"}
_DATA, _DICTIONARY = 0, 2
_PLAIN, _PLACES, _RLE = 0, (2, 8), 3
_UTF8, _DATE, _MILLIS, _MICROS = 0, 6, 9, 10  # converted types
_UNSIGNED, _SIGNED, _NONE = (11, 12, 13, 14), (15, 16, 17, 18), -1
_KINDS = {1: "text", 6: "date", 8: "time", 10: "integer"}  # of logical types
_PHYSICAL = {"text": (_BYTES,), "date": (_INT32,), "time": (_INT64,), "integer": (_INT32, _INT64), "bytes": (_BYTES,)}
_PER_SECOND = {1: 10**3, 2: 10**6, 3: 10**9}
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - times without a zone have none
_FIRST_DAY = dt.date(1970, 1, 1)
_MOST_WIDTH = 32
_LITERAL_TAGS = 60


class Kind(NamedTuple):
    """What the values of a column are."""

    name: str
    """``"text"``, ``"bytes"``, ``"integer"``, ``"date"`` or ``"time"``."""
    per_second: int = 1
    utc: bool = False
    unsigned: bool = False


_CONVERTED = {
    _UTF8: Kind("text"),
    _DATE: Kind("date"),
    _MILLIS: Kind("time", 10**3, utc=True),
    _MICROS: Kind("time", 10**6, utc=True),
    **{converted: Kind("integer", unsigned=converted in _UNSIGNED) for converted in (*_UNSIGNED, *_SIGNED)},
}


def rows_of(file: BinaryIO, footer: Footer, columns: tuple[str, str]) -> Iterator[tuple[Any, Any]]:
    """Yield the values of two flat columns, row by row, None for nulls.

    Raises
    ------
    WireFormatError
        If a page is not valid, or needs Arrow to be read.
    """
    elements = [footer.leaf(name) for name in columns]
    kinds = [kind_of(element) for element in elements]
    for group in footer.groups:
        chunks = [list(_chunk(file, group[element.place], element)) for element in elements]
        for values in zip(*chunks, strict=True):
            first, second = (
                None if value is None else _typed(value, kind) for value, kind in zip(values, kinds, strict=True)
            )
            if first is None:
                raise WireFormatError("key", "must be text, bytes, integers, dates or times, all present")
            yield first, second


def kind_of(element: Element) -> Kind:
    """Return what the values of a column are.

    Raises
    ------
    WireFormatError
        If they are no text, bytes, integers, dates or times, or not stored as these are.
    """
    kind = _stated_kind(element)
    if kind is None or element.type not in _PHYSICAL[kind.name]:
        raise WireFormatError(
            "columns",
            f"must be text, bytes, integers, dates or times, stored as Parquet stores these, {short(element.path)} is "
            "not",
        )
    return kind


def _stated_kind(element: Element) -> Kind | None:
    """Return what a column says that its values are; None for anything else, and for what is not valid."""
    if element.logical:
        return _logical_kind(element.logical)
    if element.converted == _NONE:
        return Kind("bytes") if element.type == _BYTES else Kind("integer")
    return _CONVERTED.get(element.converted)


def _logical_kind(logical: dict[int, Any]) -> Kind | None:
    (number, fields), *more = logical.items()
    name = _KINDS.get(number)
    if more or not isinstance(fields, dict) or name is None:
        return None
    if name == "time":
        (unit,) = fields[2] if isinstance(fields.get(2), dict) and len(fields[2]) == 1 else (0,)
        is_valid = unit in _PER_SECOND and type(fields.get(1)) is bool
        return Kind("time", _PER_SECOND[unit], utc=fields[1]) if is_valid else None
    if name == "integer":
        return Kind("integer", unsigned=not fields[2]) if type(fields.get(2)) is bool else None
    return Kind(name)


def _typed(value: Any, kind: Kind) -> Any:
    try:
        if kind.name == "text":
            return value.decode()
        if kind.name == "date":
            return _FIRST_DAY + dt.timedelta(days=value)
        if kind.name == "time":
            micros, rest = divmod(value * 10**6, kind.per_second)
            if rest:
                raise WireFormatError("key", "has times finer than microseconds, which take pandas and Arrow")
            time = _EPOCH + dt.timedelta(microseconds=micros)
            return time.replace(tzinfo=dt.UTC) if kind.utc else time
    except UnicodeDecodeError:
        raise WireFormatError("key", "is text that is not UTF-8") from None
    except OverflowError:
        raise WireFormatError("key", "must lie in the years 1 to 9999") from None
    return value


def _chunk(file: BinaryIO, column: object, element: Element) -> Iterator[Any]:
    """Yield the values of a column in one group of rows."""
    codec = codec_of(column)
    dictionary: list[Any] = []
    for page in pages_of(file, column):
        if page.kind not in (_DATA, _DICTIONARY):
            raise WireFormatError(
                "parquet", "has data pages of version 2, which need Arrow: install streamsketch itself"
            )
        body = _unpacked(page.body, codec, page.unpacked)
        if page.kind == _DICTIONARY:
            dictionary = _plain(body, element, page.values)
            continue
        present = [1] * page.values
        if element.optional:
            if page.levels != _RLE:
                raise _invalid()
            length = int.from_bytes(body[:4], "little")
            present, body = _runs(body[4 : 4 + length], 1, page.values), body[4 + length :]
        count = sum(present)
        if page.encoding == _PLAIN:
            items = _plain(body, element, count)
        elif page.encoding in _PLACES and body:
            places = _runs(body[1:], body[0], count)
            if any(place >= len(dictionary) for place in places):
                raise _invalid()
            items = [dictionary[place] for place in places]
        elif count:
            raise WireFormatError(
                "parquet", f"has values in encoding {page.encoding}, which need Arrow: install streamsketch itself"
            )
        else:
            items = []
        values = iter(items)
        yield from (next(values) if is_present else None for is_present in present)


def _plain(body: bytes, element: Element, count: int) -> list[Any]:
    """Return values in the encoding PLAIN."""
    values: list[Any] = []
    at = 0
    if element.type == _BYTES:
        for _ in range(count):
            length = int.from_bytes(body[at : at + 4], "little")
            value = body[at + 4 : at + 4 + length]
            if at + 4 > len(body) or len(value) < length:
                raise _invalid()
            values.append(value)
            at += 4 + length
        return values
    width = 4 if element.type == _INT32 else 8
    if width * count > len(body):
        raise _invalid()
    signed = not kind_of(element).unsigned
    return [int.from_bytes(body[at : at + width], "little", signed=signed) for at in range(0, width * count, width)]


def _runs(data: bytes, width: int, count: int) -> list[int]:
    """Return integers of so many bits, from runs of one value and packed groups of eight."""
    if width > _MOST_WIDTH:
        raise _invalid()
    numbers: list[int] = []
    at, size = 0, -(-width // 8)
    while len(numbers) < count:
        head, at = _varint(data, at)
        if head & 1:
            length, values = (head >> 1) * width, min((head >> 1) * 8, count - len(numbers))
            if at + length > len(data) or not head >> 1:
                raise _invalid()
            for first in range(0, values, 8):
                bits = int.from_bytes(data[at + first // 8 * width : at + (first // 8 + 1) * width], "little")
                numbers += [bits >> place * width & (1 << width) - 1 for place in range(min(8, values - first))]
            at += length
        else:
            if at + size > len(data) or not head >> 1:
                raise _invalid()
            numbers += [int.from_bytes(data[at : at + size], "little")] * min(head >> 1, count - len(numbers))
            at += size
    return numbers


def _unpacked(body: bytes, codec: int, size: int) -> bytes:
    """Return a page of ``size`` bytes, decompressed."""
    if codec == _SNAPPY:
        body = _snappy(body, size)
    elif codec == _GZIP:
        try:
            body = zlib.decompressobj(31).decompress(body, size + 1)
        except zlib.error:
            raise _invalid() from None
    elif codec != _STORED:
        raise WireFormatError(
            "parquet", f"is compressed by {_CODECS.get(codec, codec)}, which needs Arrow: install streamsketch itself"
        )
    if len(body) != size:
        raise _invalid()
    return body


def _snappy(body: bytes, size: int) -> bytes:
    stated, at = _varint(body, 0)
    if stated != size:
        raise _invalid()
    out = bytearray()
    while at < len(body):
        tag, at = body[at], at + 1
        if tag & 3 == 0:
            length = (tag >> 2) + 1
            if length > _LITERAL_TAGS:
                extra = length - _LITERAL_TAGS
                length, at = int.from_bytes(body[at : at + extra], "little") + 1, at + extra
            if at + length > len(body) or len(out) + length > size:
                raise _invalid()
            out += body[at : at + length]
            at += length
            continue
        extra = {1: 1, 2: 2, 3: 4}[tag & 3]
        offset, at = int.from_bytes(body[at : at + extra], "little"), at + extra
        length = (tag >> 2 & 7) + 4 if extra == 1 else (tag >> 2) + 1
        offset |= (tag >> 5) << 8 if extra == 1 else 0
        if not 0 < offset <= len(out) or len(out) + length > size:
            raise _invalid()
        part = bytes(out[len(out) - offset : len(out) - offset + length])
        out += (part * (length // len(part) + 1))[:length]
    return bytes(out)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at >= len(data):
            raise _invalid()
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at
    raise _invalid()


def _invalid() -> WireFormatError:
    return WireFormatError("parquet", "has a page that is not valid")
