"""Names of what a stream publishes: one slot for each key and window."""

import datetime as dt
import hashlib
import re
from typing import NamedTuple
from urllib.parse import quote, unquote

import numpy as np

from streamsketch.data.columns import plain_key
from streamsketch.errors import InvalidInputError

VERSION = "version"
"""The ``kind`` of the slot in which a window's version is claimed."""
_NO_KEY = "=all"  # of the one slot in a window of a stream without keys
_LONGEST_NAME = 200  # of a file, with room for what stands before and behind it
_STREAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_1970 = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICRO = dt.timedelta(microseconds=1)


class Slot(NamedTuple):
    """A key in a window of a stream.

    Parameters
    ----------
    stream
        Name of the stream.
    start
        Start of the window, in microseconds after 1970-01-01T00:00Z.
    kind, key
        The key's type (``text``, ``integer`` or ``bytes``), and the key as text, with bytes in hexadecimal. The slot
        of kind ``version`` has no key: it holds the claim of the window's version, and no release.

    Examples
    --------
    >>> slot = Slot("flights", 1357016400 * 10**6, "text", "AA")
    >>> slot.window, slot.file
    ('2013-01-01T05-00-00Z', 'AA')
    """

    stream: str
    start: int
    kind: str
    key: str

    @property
    def window(self) -> str:
        """The start of the window as text that file names can hold, such as 2013-01-01T05-00-00Z."""
        return f"{(_1970 + self.start * _MICRO).replace(tzinfo=None).isoformat()}Z".replace(":", "-")

    @property
    def file(self) -> str:
        """The name of the slot's file. No two keys share one, and none begins with a dot, which would hide the file."""
        if not self.key and self.kind == "text":
            return _NO_KEY
        if self.kind == VERSION:
            return f"={VERSION}"
        name = {"text": "", "integer": "=", "bytes": "=x"}[self.kind] + quote(self.key, safe=" ")
        if name.startswith("."):
            name = "%2E" + name[1:]
        return no_longer(name, _LONGEST_NAME)

    def __str__(self) -> str:
        return f"{self.stream} {self.window} {self.file}"


def no_longer(name: str, most: int) -> str:
    """Return a name of a file, or a digest of one that has more characters than ``most``."""
    return name if len(name) <= most else "==" + hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def check_stream(name: object) -> None:
    """Raise `InvalidInputError` unless a name can be the name of a stream."""
    if not isinstance(name, str) or not _STREAM.fullmatch(name):
        raise InvalidInputError(
            f"a stream's name must be 1 to 64 letters, digits, '_' or '-', and not begin with '-', got {name!r:.80}"
        )


def start_of(window: int | dt.datetime) -> int:
    """Return the start of a window in microseconds after 1970-01-01T00:00Z, from that number or a time with its zone.

    Raises
    ------
    InvalidInputError
        For a time without a zone, or a number beyond the years 1 to 9999.
    TypeError
        For something else.
    """
    if isinstance(window, dt.datetime):
        if window.tzinfo is None:
            raise InvalidInputError(
                f"the start of a window needs a time zone; pass tzinfo, such as datetime.UTC, got {window}"
            )
        return (window - _1970) // _MICRO
    if isinstance(window, bool) or not isinstance(window, int | np.integer):
        raise TypeError(f"window must be its start in microseconds or as a datetime, got a {type(window).__name__}")
    try:
        _1970 + int(window) * _MICRO
    except OverflowError:
        raise InvalidInputError(
            f"a window must start in the years 1 to 9999, got {window} microseconds after 1970"
        ) from None
    return int(window)


def named_key(key: object) -> tuple[str, str]:
    """Return the ``kind`` and the ``key`` of a key's slots."""
    plain = plain_key(key, "keys of a stream")
    if isinstance(plain, bytes):
        return "bytes", plain.hex()
    return "integer" if isinstance(plain, int) else "text", str(plain)


def key_of_file(name: str) -> str:
    """Return the key, as text, from which `Slot.file` made this name; a name with a hash stays as it is."""
    if name == _NO_KEY:
        return ""
    if name.startswith("=="):
        return name
    return unquote(name.removeprefix("=x" if name.startswith("=x") else "="))
