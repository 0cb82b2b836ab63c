"""Single keys, and the range of indices.

Integer keys are used as indices directly. Text, bytes, dates and times, and tuples of columns become 60-bit
*fingerprints*, keyed by the projection's public seed. n distinct keys collide with probability at most
n²/2^61; a collision costs accuracy, never privacy.
"""

import datetime as dt
import hashlib

import numpy as np

from streamsketch.core.numbers import INT64_MAX
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.hashing import MAX_KEY

HASHED_DIM = MAX_KEY + 1
"""The size of the fingerprint domain, 2^60: the `dim` that keys other than integers need."""

PERSON = b"streamsketch.key"
OUT_OF_RANGE = (
    "index {which}: indices must lie in [0, {dim}). "
    "Use a projection with a larger dim (up to 2**60), or pass keys as text to have them hashed"
)


def fingerprint(key: object, seed: int) -> int:
    """Return the 60-bit fingerprint of one key.

    It is the low 60 bits, little-endian, of an 8-byte BLAKE2b with key = ``seed`` (8 bytes, little-endian),
    person = ``streamsketch.key`` and, as message, one tag byte and the key's canonical bytes: ``s`` and UTF-8
    for text, ``b`` and the bytes themselves, ``i`` and ASCII decimal for integers, ``d`` and ASCII decimal
    days since 1970-01-01 for dates, ``t`` and ASCII decimal nanoseconds since 1970-01-01T00:00Z for times
    (times without a zone count as UTC). So 1, "1" and b"1" differ.

    Raises
    ------
    InvalidInputError
        For any other type.

    Examples
    --------
    >>> len({fingerprint(key, seed=0) for key in (1, "1", b"1")})
    3
    """
    digest = hashlib.blake2b(canonical_bytes(key), digest_size=8, key=seed_bytes(seed), person=PERSON).digest()
    return int.from_bytes(digest, "little") & MAX_KEY


def check_indices(largest: int, dim: int) -> None:
    """Raise `InvalidInputError` unless the largest index, as an unsigned 64-bit integer, lies in [0, dim)."""
    if largest >= dim:
        signed = largest - (1 << 64) if largest > INT64_MAX else largest
        raise InvalidInputError(OUT_OF_RANGE.format(which="negative" if signed < 0 else "too large", dim=dim))


def seed_bytes(seed: int) -> bytes:
    """Return a seed as the key of its fingerprints."""
    return seed.to_bytes(8, "little")


def canonical_bytes(key: object) -> bytes:
    """Return the tag byte and the canonical bytes of a key, as described in `fingerprint`."""
    if isinstance(key, str):
        try:
            return b"s" + key.encode()
        except UnicodeEncodeError:
            raise InvalidInputError("a text key contains lone surrogates, which UTF-8 cannot encode") from None
    if isinstance(key, bytes):
        return b"b" + key
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return b"i%d" % int(key)
    if isinstance(key, dt.datetime) and key == key:  # noqa: PLR0124 - pandas' NaT is no time
        zoned = key if key.tzinfo else key.replace(tzinfo=dt.UTC)
        elapsed = zoned - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        nanoseconds = elapsed // dt.timedelta(microseconds=1) * 1000 + getattr(key, "nanosecond", 0)  # of pandas
        return b"t%d" % nanoseconds
    if isinstance(key, dt.date) and not isinstance(key, dt.datetime):
        return b"d%d" % (key - dt.date(1970, 1, 1)).days
    raise InvalidInputError(
        f"keys of type {type(key).__name__} cannot be hashed. Use integers, text, bytes, dates or times (cast floats "
        "and booleans to one of them first), or a list or a column of them"
    )


def key_of(canonical: bytes) -> str | bytes | int | dt.date:
    """Return the key (text, bytes, an integer or a date) that has these canonical bytes.

    Raises
    ------
    InvalidInputError
        For other bytes, and for canonical bytes of a time, which do not contain its zone.

    Examples
    --------
    >>> canonical_bytes("tea"), key_of(canonical_bytes(-7))
    (b'stea', -7)
    """
    tag, name = canonical[:1], canonical[1:]
    try:
        key: str | bytes | int | dt.date | None = None
        if tag == b"s":
            key = name.decode()
        elif tag == b"b":
            key = name
        elif tag == b"i":
            key = int(name)
        elif tag == b"d":
            key = dt.date(1970, 1, 1) + dt.timedelta(days=int(name))
    except (ValueError, OverflowError):
        key = None
    if key is None or canonical_bytes(key) != canonical:
        raise InvalidInputError("these are not the canonical bytes of text, bytes, an integer or a date")
    return key
