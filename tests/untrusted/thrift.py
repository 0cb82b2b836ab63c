"""Structs in Thrift's compact protocol as trees that can be written in any order, with fields twice."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.golden.reader import read_varint, varint

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12


class Field(NamedTuple):
    """A field of a struct, or an entry of a list, whose number is 0."""

    number: int
    kind: int
    value: Any
    """The zigzag integer, bytes, the kind of a list's entries and these, or the fields of a struct."""


def read_struct(data: bytes, at: int = 0) -> tuple[list[Field], int]:
    """Return the fields of a struct and the place behind it."""
    found, last = [], 0
    while head := data[at]:
        kind, step, at = head & 0xF, head >> 4, at + 1
        assert step, "Arrow writes fields in order"
        last += step
        value, at = (None, at) if kind in (TRUE, FALSE) else _value(data, at, kind)
        found.append(Field(last, kind, value))
    return found, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (I16, I32, I64):
        return read_varint(data, at)
    if kind == STRUCT:
        return read_struct(data, at)
    if kind == LIST:
        head, at = data[at], at + 1
        count, at = (head >> 4, at) if head >> 4 < 15 else read_varint(data, at)
        entries = []
        for _ in range(count):
            value, at = _value(data, at, head & 0xF)
            entries.append(Field(0, head & 0xF, value))
        return (head & 0xF, entries), at
    length, at = (8 if kind == DOUBLE else 1, at) if kind != BINARY else read_varint(data, at)
    return data[at : at + length], at + length


def written(fields: list[Field]) -> bytes:
    """Return a struct, its fields in the order in which they are given."""
    out, last = b"", 0
    for number, kind, value in fields:
        step = number - last
        out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + varint(2 * number)
        out, last = out + _written_value(kind, value), number
    return out + b"\0"


def _written_value(kind: int, value: Any) -> bytes:
    if kind in (TRUE, FALSE):
        return b""
    if kind in (I16, I32, I64):
        return varint(value)
    if kind == STRUCT:
        return written(value)
    if kind == LIST:
        of, entries = value
        count = len(entries)
        head = bytes([count << 4 | of]) if count < 15 else bytes([0xF0 | of]) + varint(count)
        return head + b"".join(_written_value(of, entry.value) for entry in entries)
    return (varint(len(value)) if kind == BINARY else b"") + value


def variants(fields: list[Field]) -> Iterator[tuple[str, list[Field]]]:
    """Yield a struct with each field, at any depth, doubled, also changed, moved, left out, or of another type."""
    for place, field in enumerate(fields):
        before, behind = fields[:place], fields[place + 1 :]
        yield f"{field.number} left out", [*before, *behind]
        yield f"{field.number} twice", [*before, field, field, *behind]
        yield f"{field.number} last", [*before, *behind, field]
        yield f"{field.number} first", [field, *before, *behind]
        for name, other in _others(field):
            yield f"{field.number} {name}", [*before, other, *behind]
            yield f"{field.number}, then {name}", [*before, field, other, *behind]
            yield f"{field.number} {name}, then as it was", [*before, other, field, *behind]
            yield f"{field.number}, at last {name}", [*before, field, *behind, other]
        for name, inner in _inside(field):
            yield f"{field.number}.{name}", [*before, inner, *behind]


def _others(field: Field) -> Iterator[tuple[str, Field]]:
    """Yield the field with other values, and as other types."""
    number, kind, value = field
    if kind in (I16, I32, I64):
        for other in (0, value + 2, value ^ 1, 2 * value):
            yield f"is {other} zigzag", Field(number, kind, other)
    if kind in (TRUE, FALSE):
        yield "is the opposite", Field(number, TRUE + FALSE - kind, None)
    if kind == STRUCT:
        for place, inner in enumerate(value):
            yield f"without {inner.number}", Field(number, kind, [*value[:place], *value[place + 1 :]])
    if kind == LIST:
        yield "without its last", Field(number, kind, (value[0], value[1][:-1]))
    for other_kind, other in ((I32, 6), (BINARY, b"key"), (STRUCT, []), (STRUCT, [Field(1, I32, 2)]), (TRUE, None)):
        if other_kind != kind:
            yield f"of type {other_kind}", Field(number, other_kind, other)
    if kind != LIST:
        yield "a list", Field(number, LIST, (I32, [Field(0, I32, 2)]))


def _inside(field: Field) -> Iterator[tuple[str, Field]]:
    if field.kind == STRUCT:
        for name, inner in variants(field.value):
            yield name, field._replace(value=inner)
    if field.kind == LIST and field.value[0] == STRUCT:
        of, entries = field.value
        for place, entry in enumerate(entries):
            for name, inner in variants(entry.value):
                changed = [*entries[:place], entry._replace(value=inner), *entries[place + 1 :]]
                yield f"[{place}].{name}", field._replace(value=(of, changed))
