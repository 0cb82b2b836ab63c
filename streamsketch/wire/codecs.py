"""Kinds of objects in the exchange format: their first bytes, their classes, and functions that write and read them.

A codec is entered by the module that has it, which is loaded when such bytes are read: reading a release loads no
mechanism for signs or reports, and works where these are not installed.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from streamsketch.products import HELD, Registry
from streamsketch.release.published import Encoded


class Codec(NamedTuple):
    """How one kind of object becomes bytes, and is read from them.

    Parameters
    ----------
    kind
        The class, whose ``magic`` are the first bytes.
    name
        What it is called in errors.
    encode
        A function of an object that returns bytes.
    decode
        A function ``decode(data, **agreed)`` that returns an object or raises `WireFormatError`.
    read_by
        For what is no release: what it is, and how it is read, for the errors of `streamsketch.load`.
    is_alone
        Whether bytes are read without what the parties agreed on.
    """

    kind: type[Encoded]
    name: str
    encode: Callable[[Any], bytes]
    decode: Callable[..., Any]
    read_by: str = ""
    is_alone: bool = True

    @property
    def magic(self) -> bytes:
        """The first bytes, by which files are distinguished. They are like PNG's: they reveal text-mode mangling."""
        return self.kind.magic


CODECS: Registry[Codec] = Registry("codec")
"""By `Codec.magic`."""
LONGEST_MAGIC = max(map(len, CODECS))


def enter_codec(codec: Codec) -> Codec:
    """Enter a codec by its first bytes, and return it."""
    return CODECS.enter(codec.magic, codec)


def magic_in(start: bytes) -> bytes | None:
    """Return the first bytes with which a file begins; None if they are those of no kind."""
    return next((magic for magic in CODECS if start.startswith(magic)), None)


def codec_of(magic: bytes | None) -> Codec | None:
    """Return the codec of first bytes; None for None.

    Raises
    ------
    MissingProductError
        If the product that has it is not installed.
    """
    return None if magic is None else CODECS.get(magic, f"these bytes hold {HELD.get(magic, 'a release')}")
