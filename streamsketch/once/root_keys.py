"""Root keys: secrets that outlive a process, fetched where they are used, so that no job specification carries them."""

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from streamsketch.errors import InvalidInputError

RootKey: TypeAlias = os.PathLike[str] | str | Callable[[], bytes]
"""A file, the name of an environment variable, or a function that returns 32 bytes."""

KEY_BYTES = 32
_OTHERS = stat.S_IRWXO


def check_root_key(source: RootKey) -> None:
    """Raise `TypeError` unless this is a place to fetch a key from; a key would be in the job's specification."""
    if isinstance(source, bytes | bytearray) or not (isinstance(source, os.PathLike | str) or callable(source)):
        raise TypeError(
            "root_key must be a pathlib.Path of a file on the workers, the name of an environment variable, or a "
            f"function that returns the key, got a {type(source).__name__}: a key itself would be in the job's "
            "specification"
        )


def fetch_root_key(source: RootKey) -> bytes:
    """Return the 32 bytes of a root key.

    Parameters
    ----------
    source
        A `pathlib.Path` to a file that other users cannot access, the name of an environment variable, or a function.
        Files hold 32 bytes or 64 hexadecimal digits, variables 64 hexadecimal digits; the function returns 32 bytes.

    Raises
    ------
    InvalidInputError
        If there is no such file or variable, others can access the file, or it does not hold a key.
    """
    if isinstance(source, str):
        text = os.environ.get(source)
        if text is None:
            raise InvalidInputError(
                f"the environment variable {source} with the root key is not set on the workers; set it"
            )
        return _key_in(text.encode(), f"the environment variable {source}")
    if isinstance(source, os.PathLike):
        return _key_in(_content(Path(source)), f"the file {os.fspath(source)}")
    key = source()
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise InvalidInputError(f"the function root_key must return {KEY_BYTES} bytes, but returned something else")
    return key


def key_fingerprint(root_key: bytes) -> bytes:
    """Return 8 bytes that distinguish two root keys and reveal nothing about either."""
    return hashlib.blake2b(digest_size=8, key=root_key, person=b"streamsketch.fpr").digest()


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & _OTHERS:
                raise InvalidInputError(f"other users can access the root key in {path}; set its mode to 0600")
            return file.read(4 * KEY_BYTES)
    except OSError as error:
        raise InvalidInputError(f"the root key in {path} cannot be read: {error.strerror}") from None


def _key_in(content: bytes, name: str) -> bytes:
    """Return the root key that some content is, in bytes or as hexadecimal digits; ``name`` says what holds it.

    Raises
    ------
    InvalidInputError
        If it is none.
    """
    if len(content) == KEY_BYTES:
        return content
    try:
        key = bytes.fromhex(content.decode("ascii").strip())
    except ValueError:  # UnicodeDecodeError as well; neither message may show the key
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidInputError(
            f"{name} does not hold a root key: {KEY_BYTES} bytes, or {2 * KEY_BYTES} hexadecimal digits"
        )
    return key
