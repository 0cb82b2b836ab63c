"""Check protobuf payloads before they are parsed, so that parsing takes memory in proportion to a payload.

A parser makes an object of each entry of a repeated field and keeps unknown fields; an entry may be two bytes. The
check takes no memory: it admits known fields in ascending order, each once unless it is repeated. Short payloads are
parsed without it.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from streamsketch.core.limits import current_limits
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.privacy.guarantee import MAX_CONDITIONS
from streamsketch.privacy.mechanism import MAX_STEPS
from streamsketch.wire import wire_pb2

_SHORT = 1 << 16  # bytes: its objects take a megabyte or two at most
_FEWER = {"conditions": MAX_CONDITIONS, "steps": MAX_STEPS}
_NUMBER_BYTES = 8
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
_DEEPEST = 8
_FIXED_LENGTHS = {_FIXED64: 8, _FIXED32: 4}
_WIRE_TYPES = {
    FieldDescriptor.TYPE_DOUBLE: _FIXED64,
    FieldDescriptor.TYPE_FIXED64: _FIXED64,
    FieldDescriptor.TYPE_SFIXED64: _FIXED64,
    FieldDescriptor.TYPE_FLOAT: _FIXED32,
    FieldDescriptor.TYPE_FIXED32: _FIXED32,
    FieldDescriptor.TYPE_SFIXED32: _FIXED32,
    FieldDescriptor.TYPE_STRING: _BYTES,
    FieldDescriptor.TYPE_BYTES: _BYTES,
    FieldDescriptor.TYPE_MESSAGE: _BYTES,
}

_LENGTH_BEFORE = {kind for kind, wire_type in _WIRE_TYPES.items() if wire_type == _BYTES}


def parse(message: Any, payload: bytes) -> None:
    """Parse a payload into an empty message.

    Raises
    ------
    WireFormatError
        If it is not such a message in canonical order, or repeats a field more often than ``Limits.max_items``.
    """
    kind: Descriptor = message.DESCRIPTOR
    most = current_limits().max_items
    if len(payload) > min(_SHORT, 2 * most):
        _look_over(kind, payload, 0, len(payload), 0, most)
    try:
        message.ParseFromString(payload)
    except DecodeError:
        raise _invalid(kind) from None


def _look_over(kind: Descriptor, payload: bytes, start: int, end: int, depth: int, most: int) -> None:
    last, count = 0, 0
    for field, begins, ends in fields(kind, payload, start, end):
        count = count + 1 if field.number == last else 1
        if field.number < last or (count > 1 and not field.is_repeated):
            raise WireFormatError("payload", "is not in canonical form: its fields are out of order, or there twice")
        numbers = field.is_repeated and field.type not in _LENGTH_BEFORE  # 8 bytes each, however short they are here
        if count > min(most, _FEWER.get(field.name, most)) or (numbers and ends - begins > _NUMBER_BYTES * most):
            most = min(most, _FEWER.get(field.name, most))
            raise WireFormatError(field.name, f"has more than {most} entries; if you trust the source, raise max_items")
        last = field.number
        if field.message_type is not None:
            if depth >= _DEEPEST:
                raise _invalid(kind)
            _look_over(field.message_type, payload, begins, ends, depth + 1, most)


def fields(kind: Descriptor, payload: bytes, at: int, end: int) -> Iterator[tuple[FieldDescriptor, int, int]]:
    """Yield each field between two places with the places where its value begins and ends."""
    while at < end:
        tag, at = _varint(kind, payload, at, end)
        field, wire_type = kind.fields_by_number.get(tag >> 3), tag & 7
        if field is None or wire_type not in (_WIRE_TYPES.get(field.type, _VARINT), _packed(field)):
            raise _invalid(kind)
        if wire_type == _VARINT:
            size = _varint(kind, payload, at, end)[1] - at
        elif wire_type == _BYTES:
            size, at = _varint(kind, payload, at, end)
        else:
            size = _FIXED_LENGTHS[wire_type]
        if size > end - at:
            raise _invalid(kind)
        yield field, at, at + size
        at += size


def _packed(field: FieldDescriptor) -> int | None:
    """Return the wire type of a repeated field's numbers together."""
    return _BYTES if field.is_repeated else None


def _varint(kind: Descriptor, payload: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for place in range(_LONGEST_VARINT):
        if at + place >= end:
            break
        byte = payload[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise _invalid(kind)


def _invalid(kind: Descriptor) -> WireFormatError:
    return WireFormatError("payload", f"is not a {kind.name} message")


Part = TypeVar("Part")


def at(where: str, build: Callable[[], Part]) -> Part:
    """Return the result of ``build``; report its errors as faults of the bytes at ``where``."""
    try:
        return build()
    except InvalidInputError as error:
        raise WireFormatError(where, str(error)) from None


def ratio_message(ratio: Fraction) -> wire_pb2.Ratio:
    """Return a fraction as a message; raise `InvalidInputError` if it does not fit."""
    try:
        return wire_pb2.Ratio(numerator=ratio.numerator, denominator=ratio.denominator)
    except ValueError:
        raise InvalidInputError(f"{ratio} does not fit the exchange format, which has 64-bit fractions") from None


def ratio_of(where: str, message: wire_pb2.Ratio) -> Fraction:
    """Return a message's fraction; raise `WireFormatError` if it has none."""
    if message.denominator == 0:
        raise WireFormatError(where, "has denominator 0")
    return Fraction(message.numerator, message.denominator)
