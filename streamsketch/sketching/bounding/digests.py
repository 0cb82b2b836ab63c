"""Keyed digests of privacy units: fast on whole columns, with a negligible probability of collision."""

import hashlib
import itertools
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import kernel, part
from streamsketch.core.libraries import pa
from streamsketch.core.numbers import Ints
from streamsketch.data.columns import is_bytes_type, joined_bytes, value_type
from streamsketch.data.keys import canonical_column
from streamsketch.kernels.carryless import multiply_add
from streamsketch.kernels.hashing import MAX_KEY, Words
from streamsketch.kernels.words import bytes_at

Bytes: TypeAlias = NDArray[np.uint8]

_0, _8, _WORD_BYTES = np.uint64(0), np.uint64(8), 8
_BYTE = np.uint64(0xFF)
_NUMBER_BYTES = 9  # of an integer: eight, little-endian, and one that says whether it is negative


class UnitDigests:
    """Hashes units to two words: a polynomial over GF(2^64) of the unit's bytes, at two secret points below 2^60.

    Two different units of at most n bytes share a digest with probability at most ((n/8 + 1) / 2^60)² over the choice
    of the secret, for any names (Carter and Wegman 1979).

    Parameters
    ----------
    secret
        32 bytes.
    """

    def __init__(self, secret: bytes) -> None:
        drawn = hashlib.blake2b(digest_size=16, key=secret, person=b"streamsketch.uni").digest()
        self._points = np.frombuffer(drawn, dtype="<u8").astype(np.uint64) & np.uint64(MAX_KEY)

    def of(self, units: "pa.Array") -> Words:
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
        if pa.types.is_integer(value_type(units)):
            numbers = units.to_numpy(zero_copy_only=False)
            signed = numbers.dtype.kind == "i"
            words = numbers.astype(np.int64 if signed else np.uint64).view(np.uint64)
            integer_polynomials(_head(ord("i"), _NUMBER_BYTES), words, signed, self._points, out)
            return out
        tag, data, ends = _as_bytes(units)
        unit_polynomials(tag, data, ends, self._points, out)
        return out


class RunDigests:
    """Hashes runs of rows as `UnitDigests` does, each with a secret of its own.

    Parameters
    ----------
    secrets
        A secret for each of k runs.
    places
        Where the runs begin, and the end of the last: int64, (k + 1,).
    """

    def __init__(self, secrets: Sequence[bytes], places: Ints) -> None:
        self._secrets, self._places = secrets, places

    def of(self, units: "pa.Array") -> Words:
        """Return the digests of a column without nulls: uint64, (n, 2); as `UnitDigests.of`."""
        if pa.types.is_dictionary(units.type) and len(units.dictionary) * len(self._secrets) > len(units):
            units = units.dictionary_decode()  # or each run would hash the words of all
        out = np.empty((len(units), 2), dtype=np.uint64)
        for secret, (start, stop) in zip(self._secrets, itertools.pairwise(self._places.tolist()), strict=True):
            out[start:stop] = UnitDigests(secret).of(units[start:stop])
        return out


def _as_bytes(units: "pa.Array") -> tuple[int, Bytes, Ints]:
    """Return a tag for the type of the names and what `joined_bytes` returns for them."""
    kind = value_type(units)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return ord("t"), *joined_bytes(canonical_column(units))
    return ord("b" if is_bytes_type(kind) else "s"), *joined_bytes(units)


def _head(tag: int, length: int) -> int:
    """Return the word before those of a name's bytes."""
    return length << 8 | tag


@kernel
def integer_polynomials(head: int, words: Words, signed: bool, points: Words, out: Words) -> None:  # noqa: FBT001 - Numba compiles no keywords
    """Write what `unit_polynomials` writes for integers, given in two's complement if they are signed."""
    first = np.empty(points.size, dtype=np.uint64)
    for j in range(points.size):
        first[j] = multiply_add(np.uint64(head), points[j], _0)
    for i in range(words.size):
        swapped = _swapped(words[i])
        sign = words[i] >> np.uint64(63) if signed else _0
        for j in range(points.size):
            out[i, j] = multiply_add(first[j] ^ swapped, points[j], sign)


@kernel
def unit_polynomials(tag: int, data: Bytes, ends: Ints, points: Words, out: Words) -> None:
    """Write Σ wᵢ·xⁿ⁻ⁱ in GF(2^64) for each name and point x: w₀ has tag and length, then come words of eight bytes.

    The first byte of a word is its highest, and the last word has the bytes that are left.
    """
    for i in range(ends.size - 1):
        start, stop = ends[i], ends[i + 1]
        for j in range(points.size):
            out[i, j] = (stop - start) << 8 | tag
        for at in range(start, stop, _WORD_BYTES):
            missing = max(at + _WORD_BYTES - stop, 0)
            word = _swapped(bytes_at(data, at, stop)) >> np.uint64(8 * missing)
            for j in range(points.size):
                out[i, j] = multiply_add(out[i, j], points[j], word)


@part
def _swapped(word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - inlined
    """Return a word with its bytes in the opposite order."""
    swapped = _0
    for byte in range(_WORD_BYTES):
        swapped = (swapped << _8) | ((word >> np.uint64(8 * byte)) & _BYTE)
    return swapped
