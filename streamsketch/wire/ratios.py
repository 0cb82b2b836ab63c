"""What every codec of the exchange format needs: fractions, and input that a type refuses as a fault of the bytes."""

from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.wire import wire_pb2

Part = TypeVar("Part")


def at(where: str, build: Callable[[], Part]) -> Part:
    """Return what ``build`` makes; input it refuses is a fault of the bytes at ``where``."""
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
