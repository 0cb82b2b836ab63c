"""Short names for privacy units, keyed by a secret: fast on whole columns, and hardly ever equal for two units."""

import hashlib
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamsketch._jit import kernel
from streamsketch.columns import value_type
from streamsketch.encoding import Ints, canonical_column
from streamsketch.errors import InvalidInputError
from streamsketch.hashing import PRIME, Words

Bytes: TypeAlias = NDArray[np.uint8]

_P = np.uint64(PRIME)
_LOW_32, _LOW_29 = np.uint64((1 << 32) - 1), np.uint64((1 << 29) - 1)
_3, _8, _29, _32, _61 = (np.uint64(bits) for bits in (3, 8, 29, 32, 61))
_WORD_BYTES = 7  # below 2^56, so that a product and a word stay below 2^63


class UnitDigests:
    """Hashes units to two numbers mod p = 2^61 - 1: the unit's bytes as a polynomial, at two secret points.

    Two different units of at most n bytes share a digest with probability at most ((n/7 + 2) / p)² over the choice of
    the secret, whatever the names (Carter and Wegman 1979).

    Parameters
    ----------
    secret
        32 bytes.
    """

    def __init__(self, secret: bytes) -> None:
        drawn = hashlib.blake2b(digest_size=16, key=secret, person=b"streamsketch.uni").digest()
        self._points = np.frombuffer(drawn, dtype="<u8").astype(np.uint64) % _P

    def of(self, units: pa.Array) -> Words:
        """Return the digests of a column without nulls: uint64, (n, 2).

        Raises
        ------
        InvalidInputError
            For text that is not UTF-8.
        """
        if pa.types.is_dictionary(units.type):
            codes = units.indices.to_numpy(zero_copy_only=False)
            words: Words = self.of(units.dictionary)[codes] if len(codes) else np.empty((0, 2), dtype=np.uint64)
            return words
        out = np.empty((len(units), 2), dtype=np.uint64)
        tag, data, stops = _as_bytes(units)
        unit_polynomials(tag, data, stops, self._points, out)
        return out


def _as_bytes(units: pa.Array) -> tuple[int, Bytes, Ints]:
    """Return a tag for the kind of name, and the names' bytes one after the other, with where each ends."""
    kind = value_type(units)
    if pa.types.is_integer(kind):
        numbers = units.to_numpy(zero_copy_only=False)
        rows = np.zeros((numbers.size, 9), dtype=np.uint8)
        rows[:, :8] = numbers.astype("<i8" if numbers.dtype.kind == "i" else "<u8").view(np.uint8).reshape(-1, 8)
        rows[:, 8] = numbers < 0
        return ord("i"), rows.ravel(), 9 * np.arange(1, numbers.size + 1, dtype=np.int64)
    tag = ord("b")
    if not pa.types.is_binary(kind) and not pa.types.is_large_binary(kind) and not pa.types.is_binary_view(kind):
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            tag, units = ord("t"), pa.array(canonical_column(units), pa.large_binary())
        else:
            tag = ord("s")
            _check_text(units)
    names = units.cast(pa.large_binary())
    offsets = np.frombuffer(names.buffers()[1], dtype=np.int64, count=len(names) + 1, offset=8 * names.offset)
    start, stop = int(offsets[0]), int(offsets[-1])
    data = np.frombuffer(names.buffers()[2] or b"", dtype=np.uint8)[start:stop]
    return tag, data, offsets[1:] - start


def _check_text(units: pa.Array) -> None:
    try:
        units.validate(full=True)
    except pa.ArrowInvalid:
        raise InvalidInputError("a privacy unit is not valid UTF-8") from None


@kernel
def unit_polynomials(tag: int, data: Bytes, stops: Ints, points: Words, out: Words) -> None:
    """Write Σ wᵢ·xⁿ⁻ⁱ mod p for each name: w₀ its tag and length, then its words of seven bytes, x each point."""
    start = 0
    for i in range(stops.size):
        stop = stops[i]
        for j in range(points.size):
            point_upper, point_lower = points[j] >> _32, points[j] & _LOW_32
            total = np.uint64((stop - start) << 8 | tag)
            at = start
            while at < stop:
                word = np.uint64(0)
                for byte in range(at, min(at + _WORD_BYTES, stop)):
                    word = (word << _8) | np.uint64(data[byte])
                # total and point < 2^61: upper < 2^58, middle < 2^62, and the five terms and the word < 2^63
                upper = (total >> _32) * point_upper
                middle = (total >> _32) * point_lower + (total & _LOW_32) * point_upper
                lower = (total & _LOW_32) * point_lower
                total = (upper << _3) + (middle >> _29) + ((middle & _LOW_29) << _32) + (lower >> _61) + (lower & _P)
                total += word
                total = (total & _P) + (total >> _61)
                total = total - _P if total >= _P else total
                at += _WORD_BYTES
            out[i, j] = total
        start = stop
