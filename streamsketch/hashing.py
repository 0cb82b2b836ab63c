"""Public randomness: t-wise independent hashing, and bit fields of one hash word.

Everything here follows from a public seed by BLAKE2b in counter mode and by arithmetic modulo the Mersenne
prime p = 2^61 - 1, so the same seed gives the same bits on every machine and in every version.

One polynomial of degree t - 1 with uniform coefficients over GF(p) is a t-wise independent family. The disjoint
bit fields of its value are independent of each other (up to a bias of 2^-61), so one evaluation serves
several rows of a sparse projection: each takes one field, its sign on top and its bucket below
(Kane and Nelson 2014 for the independence that is needed; THEORY.md 1.1 for the slicing).
"""

import hashlib
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch._jit import kernel

Words: TypeAlias = NDArray[np.uint64]

PRIME = (1 << 61) - 1
MAX_KEY = (1 << 60) - 1

_P = np.uint64(PRIME)
_LOW_32 = np.uint64((1 << 32) - 1)
_LOW_29 = np.uint64((1 << 29) - 1)
_3, _29, _32, _61 = np.uint64(3), np.uint64(29), np.uint64(32), np.uint64(61)


def field_elements(seed: int, label: str, count: int) -> list[int]:
    """Return ``count`` independent uniform elements of GF(2^61 - 1), a function of ``(seed, label)`` alone.

    Element i is the first of the 61-bit words BLAKE2b(key=seed, person="streamsketch.gfp",
    label ‖ 0 ‖ i ‖ attempt), attempt = 0, 1, …, that is not p itself. All integers are little-endian,
    8 bytes each; the word is the low 61 bits of an 8-byte digest.

    Examples
    --------
    >>> field_elements(seed=7, label="example", count=2)
    [753330603531878367, 1838065021840226669]
    """
    elements = []
    for index in range(count):
        word, attempt = PRIME, 0
        while word == PRIME:
            message = label.encode() + b"\0" + index.to_bytes(8, "little") + attempt.to_bytes(8, "little")
            digest = hashlib.blake2b(
                message, digest_size=8, key=seed.to_bytes(8, "little"), person=b"streamsketch.gfp"
            ).digest()
            word = int.from_bytes(digest, "little") & PRIME
            attempt += 1
        elements.append(word)
    return elements


@dataclass(frozen=True, slots=True)
class BitSlices:
    """How the rows of a sparse projection share hash words.

    Row r reads word ``r // rows_per_word``, bits ``[i·width, (i+1)·width)`` with ``i = r % rows_per_word``:
    the top bit is the sign (1 is minus), the others the bucket. Rows are spread evenly over the
    ``⌈rows / ⌊61/width⌋⌉`` words.
    """

    rows: int
    width: int

    @property
    def words(self) -> int:
        """How many polynomials one item evaluates."""
        return -(-self.rows // (61 // self.width))

    @property
    def rows_per_word(self) -> int:
        """How many rows read one word."""
        return -(-self.rows // self.words)


def polynomials(seed: int, label: str, words: int, independence: int) -> Words:
    """Return the coefficients, leading one first, of ``words`` polynomials: uint64, (words, independence)."""
    elements = field_elements(seed, label, words * independence)
    return np.array(elements, dtype=np.uint64).reshape(words, independence)


@kernel
def _reduce(out: Words) -> None:
    for i in range(out.size):
        folded = (out[i] & _P) + (out[i] >> _61)  # < p + 8
        out[i] = folded - _P if folded >= _P else folded


@kernel
def horner_narrow(keys: Words, coefficients: Words, out: Words) -> None:
    """Write the polynomial's value mod p at each key < 2^32 into ``out``."""
    for i in range(keys.size):
        out[i] = coefficients[0]
    for j in range(1, coefficients.size):
        coefficient = coefficients[j]
        for i in range(keys.size):
            # out < 3·2^61 + 2^34 always: its upper half is < 2^31, so both products fit 64 bits;
            # 2^61 ≡ 1 folds them to 2^35 + 2^61 and 8 + 2^61, and the coefficient is < 2^61.
            key = keys[i] & _LOW_32
            upper = (out[i] >> _32) * key
            lower = (out[i] & _LOW_32) * key
            out[i] = (upper >> _29) + ((upper & _LOW_29) << _32) + (lower >> _61) + (lower & _P) + coefficient
    _reduce(out)


@kernel
def horner_wide(keys: Words, coefficients: Words, out: Words) -> None:
    """Write the polynomial's value mod p at each key < 2^60 into ``out``."""
    for i in range(keys.size):
        out[i] = coefficients[0]
    for j in range(1, coefficients.size):
        coefficient = coefficients[j]
        for i in range(keys.size):
            # out < 1.5·2^63 + 2^36 always: upper < 1.5·2^59 + 2^33 (and 2^64 ≡ 8), middle < 2^64,
            # so the sum is < 1.5·2^62 + 2^36 + three terms < 2^61 and small change.
            key_upper, key_lower = (keys[i] >> _32) & _LOW_32, keys[i] & _LOW_32
            out_upper, out_lower = out[i] >> _32, out[i] & _LOW_32
            upper = out_upper * key_upper
            middle = out_upper * key_lower + out_lower * key_upper
            lower = out_lower * key_lower
            out[i] = (
                (upper << _3)
                + (middle >> _29)
                + ((middle & _LOW_29) << _32)
                + (lower >> _61)
                + (lower & _P)
                + coefficient
            )
    _reduce(out)


@kernel
def add_product(total: Words, factor: np.uint64, keys: Words, scratch: Words) -> None:
    """Add ``factor · keys`` mod p to ``total`` (all < p; keys < 2^60), through a scratch array of equal size."""
    horner_wide(keys, np.array([factor, np.uint64(0)], dtype=np.uint64), scratch)
    for i in range(total.size):
        summed = total[i] + scratch[i]
        total[i] = summed - _P if summed >= _P else summed
