"""Codec: how one kind of object becomes bytes, and bytes that kind of object."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Codec(NamedTuple):
    """How one kind of object becomes bytes, and how the bytes are known.

    Parameters
    ----------
    kind
        The class.
    name
        What it is called in errors.
    magic
        The first bytes, by which files are told apart.
    encode, decode
        ``encode(thing)`` returns bytes; ``decode(data, **agreed)`` an object, or raises `WireFormatError`.
    """

    kind: type[Any]
    name: str
    magic: bytes
    encode: Callable[[Any], bytes]
    decode: Callable[..., Any]
