"""Streams of text in other encodings than UTF-8."""

import codecs
from typing import Any

from streamsketch.errors import InvalidInputError


def check_encoding(encoding: str | None) -> str | None:
    """Return the encoding of text files as Python names it, or None for UTF-8, which is not transcoded.

    Raises
    ------
    InvalidInputError
        If Python has no text encoding of that name.
    """
    if encoding is None:
        return None
    try:
        info = codecs.lookup(encoding)
        codecs.getincrementaldecoder(info.name)
        if not getattr(info, "_is_text_encoding", True):  # base64, which bytes.decode refuses, too
            raise LookupError  # noqa: TRY301 - as the look-up does
    except (LookupError, ValueError, TypeError):
        raise InvalidInputError(
            f"there is no encoding {encoding!r:.40}; use a name such as utf-16, cp1252 or iso8859-2"
        ) from None
    return None if info.name in ("utf-8", "ascii") else info.name


class Transcoded:
    """A stream of text in some encoding, which is read as UTF-8 in a few blocks of memory.

    Parameters
    ----------
    stream
        An object with a method ``read``, which returns no bytes at its end.
    encoding
        Name of its encoding.
    path
        Its name, for errors.
    is_whole
        Whether the stream ends where the text does, and not within a character.
    """

    closed = False

    def __init__(self, stream: Any, encoding: str, path: str, *, is_whole: bool = True) -> None:
        self._stream, self._is_whole = stream, is_whole
        self._decoder = Decoder(encoding, path)
        self._ready = b""

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes of UTF-8, fewer at the end."""
        parts, length = [self._ready], len(self._ready)
        while length < size and (block := self._stream.read(size)):
            parts.append(self._decoder.decode(block))
            length += len(parts[-1])
        if length < size and self._is_whole:
            parts.append(self._decoder.decode(b"", final=True))
        whole = b"".join(parts)
        self._ready = whole[size:]
        return whole[:size]


class Decoder:
    """Transcodes text to UTF-8, block by block; a character may begin in one and end in another.

    Parameters
    ----------
    encoding
        Name of an encoding.
    path
        Name of the text, for errors.
    """

    def __init__(self, encoding: str, path: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._encoding, self._path = encoding, path

    def decode(self, block: bytes, *, final: bool = False) -> bytes:
        """Return a block as UTF-8.

        Raises
        ------
        InvalidInputError
            If the bytes are not text in this encoding; the message does not quote them.
        """
        try:
            return self._decoder.decode(block, final).encode()
        except UnicodeError:
            raise InvalidInputError(
                f"{self._path} is not text in the encoding {self._encoding}; name the encoding in which it was written"
            ) from None
