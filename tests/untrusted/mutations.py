"""Bytes changed at random, in ways that get past checksums: a function of a seeded generator alone."""

import json
import random
import struct
from typing import Any

from tests.golden.reader import varint

_NUMBERS = (0, 1, -1, 2, 7, 64, 255, 1 << 16, 1 << 24, (1 << 31) - 1, 1 << 32, 1 << 60, (1 << 63) - 1, (1 << 64) - 1)
_DOUBLES = (0.0, -0.0, 1e-300, 5e-324, 0.5, 1.0, 1e6, 1e308, float("inf"), float("-inf"), float("nan"))
_TEXTS = (
    "",
    "x",
    "=1+1",
    "\x00",
    "\x1b[2J",
    "\u202e",
    "\ud800",
    "é",
    "1/0",
    "9" * 90,
    "1/" + "9" * 90,
    "l1",
    "gaussian",
)


def changed_bytes(data: bytes, chance: random.Random) -> bytes:
    """Return bytes with a few flipped, cut off, put in, repeated or replaced."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        place, size = chance.randrange(len(changed) + 1), chance.choice((1, 1, 2, 4, 8, 40))
        match chance.randrange(6):
            case 0 if place < len(changed):
                changed[place] ^= 1 << chance.randrange(8)
            case 1:
                del changed[place : place + size]
            case 2:
                changed[place:place] = chance.randbytes(size)
            case 3:
                changed[place : place + size] = changed[chance.randrange(len(changed) + 1) :][:size]
            case 4:
                changed[place : place + size] = chance.choice((b"\x00", b"\xff", b"\x80", b"\x7f")) * size
            case _:
                number = chance.choice(_NUMBERS) % (1 << 64)
                changed[place : place + 8] = number.to_bytes(8, "little")[: chance.choice((1, 2, 4, 8))]
    return bytes(changed) if chance.random() < 0.95 else bytes(changed[: chance.randrange(len(changed) + 1)])


def changed_message(payload: bytes, chance: random.Random) -> bytes:
    """Return a protobuf payload with fields dropped, repeated, swapped, or of other values."""
    try:
        fields = _fields(payload)
    except (IndexError, struct.error):
        return changed_bytes(payload, chance)
    if not fields:
        return changed_bytes(payload, chance)
    place = chance.randrange(len(fields))
    number, kind, value = fields[place]
    match chance.randrange(10):
        case 0:
            del fields[place]
        case 1:
            fields[place:place] = [fields[place]] * chance.choice((1, 1, 3, 100))
        case 2:
            chance.shuffle(fields)
        case 3:
            fields[place] = (chance.choice((1, number + 1, 15, 1 << 28)), kind, value)
        case _:
            fields[place] = (number, kind, _changed_value(kind, value, chance))
    return b"".join(_encoded(*field) for field in fields)


def _changed_value(kind: int, value: Any, chance: random.Random) -> Any:
    if kind == 0:
        return chance.choice((value + 1, value - 1, value << 1, chance.choice(_NUMBERS), chance.getrandbits(64))) % (
            1 << 64
        )
    if kind == 1:
        other = struct.pack("<d", chance.choice(_DOUBLES))
        return chance.choice((other, changed_bytes(value, chance)[:8].ljust(8, b"\0")))
    if kind == 5:
        return chance.randbytes(4)
    if chance.random() < 0.2:
        return chance.choice(_TEXTS).encode("utf-8", "surrogatepass")
    return (changed_message if chance.random() < 0.7 else changed_bytes)(value, chance)


def _fields(payload: bytes) -> list[tuple[int, int, Any]]:
    at, fields = 0, []
    while at < len(payload):
        tag, at = _varint(payload, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(payload, at)
        else:
            size, at = (8, at) if kind == 1 else (4, at) if kind == 5 else _varint(payload, at)
            if kind not in (1, 2, 5) or at + size > len(payload):
                raise IndexError
            value, at = payload[at : at + size], at + size
        fields.append((tag >> 3, kind, value))
    return fields


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (payload[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if payload[at - 1] < 0x80:
            return value, at


def _encoded(number: int, kind: int, value: Any) -> bytes:
    tag = varint(number << 3 | kind)
    if kind == 0:
        return tag + varint(value)
    return tag + (varint(len(value)) if kind == 2 else b"") + value


def changed_json(text: bytes, chance: random.Random) -> bytes:
    """Return a JSON object with other values, names or nesting, or as bytes changed at random."""
    try:
        fields = json.loads(text)
    except ValueError:
        return changed_bytes(text, chance)
    if not isinstance(fields, dict) or chance.random() < 0.3:
        return changed_bytes(text, chance)
    for _ in range(chance.choice((1, 1, 2))):
        _change_field(fields, chance)
    return json.dumps(fields).encode()


def _change_field(fields: dict[str, Any], chance: random.Random) -> None:
    name = chance.choice(sorted(fields) or ["kind"])
    fields.setdefault(name, 0)
    inner = fields[name]
    if isinstance(inner, list) and inner and isinstance(inner[0], dict) and chance.random() < 0.8:
        _change_field(chance.choice(inner), chance)
        return
    match chance.randrange(7):
        case 0:
            del fields[name]
            fields.setdefault("kind", 0)
        case 1:
            fields[chance.choice(_TEXTS)] = fields[name]
        case 2:
            nested: Any = chance.choice(([], {}, [[[1]]]))
            for _ in range(chance.choice((0, 1, 400))):
                nested = [nested]
            fields[name] = nested
        case 3:
            fields[name] = chance.choice(_TEXTS)
        case 4:
            fields[name] = chance.choice((None, True, False, *_DOUBLES))
        case _:
            fields[name] = chance.choice((*_NUMBERS, -(1 << 63), 10**30, str(chance.choice(_NUMBERS))))


def changed_footer(data: bytes, chance: random.Random) -> bytes:
    """Change what is not a page: the footer, and the headers of pages, which lie in front of their values."""
    size = int.from_bytes(data[-8:-4], "little")
    start = len(data) - 8 - size
    if chance.random() < 0.3:
        place = chance.randrange(4, 60)
        return data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
    changed = changed_bytes(data[start:-8], chance)
    return data[:start] + changed + len(changed).to_bytes(4, "little") + data[-4:]
