"""Public randomness: t-wise independent hashing, and bit fields of one hash word.

Everything here follows from a public seed by BLAKE2b in counter mode and by arithmetic in GF(2^64), so the same seed
gives the same bits on every machine and in every version.

One polynomial of degree t - 1 with uniform coefficients over GF(2^64) is a t-wise independent family of uniform words.
Disjoint bit fields of a uniform word are uniform and independent, so one evaluation serves several rows of a
sparse projection: each row takes one field, the sign in its top bit and the bucket below (Kane and Nelson 2014 for the
independence required; Theory 1.1 for the proof).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import kernel
from streamsketch.kernels.carryless import TILE, hash_tile, instructions, multiply_add

Words: TypeAlias = NDArray[np.uint64]

WORD_BITS = 64
MAX_KEY = (1 << 60) - 1
_MODULUS = (1 << 64) | 0b11011  # x^64 + x^4 + x^3 + x + 1


def field_elements(seed: int, label: str, count: int) -> list[int]:
    """Return ``count`` independent uniform elements of GF(2^64), a function of ``(seed, label)`` alone.

    Element i is the 8-byte digest BLAKE2b(key=seed, person="streamsketch.gf2", label ‖ 0 ‖ i). All integers are
    little-endian, 8 bytes each.

    Examples
    --------
    >>> field_elements(seed=7, label="example", count=2)
    [15196580579576872688, 298247208608270830]
    """
    start = hashlib.blake2b(
        label.encode() + b"\0", digest_size=8, key=seed.to_bytes(8, "little"), person=b"streamsketch.gf2"
    )
    digests = []
    for index in range(count):
        each = start.copy()
        each.update(index.to_bytes(8, "little"))
        digests.append(each.digest())
    elements: list[int] = np.frombuffer(b"".join(digests), dtype="<u8").tolist()
    return elements


def polynomial_at(index: int, coefficients: Sequence[int]) -> int:
    """Return the value of a polynomial over GF(2^64), leading coefficient first, in Python's integers.

    Examples
    --------
    >>> polynomial_at(2, [1, 0, 5])  # x² + 5
    1
    """
    value = 0
    for coefficient in coefficients:
        product = 0
        for bit in range(index.bit_length()):
            if index >> bit & 1:
                product ^= value << bit
        for top in range(product.bit_length() - 1, WORD_BITS - 1, -1):
            if product >> top & 1:
                product ^= _MODULUS << (top - WORD_BITS)
        value = product ^ coefficient
    return value


@dataclass(frozen=True, slots=True)
class BitSlices:
    """How the rows of a sparse projection share hash words.

    Row r reads word ``r // rows_per_word``, bits ``[i·width, (i+1)·width)`` with ``i = r % rows_per_word``:
    the top bit is the sign (1 is minus), the others the bucket. Rows are spread evenly over the
    ``⌈rows / ⌊64/width⌋⌉`` words.
    """

    rows: int
    width: int

    @property
    def words(self) -> int:
        """Number of hash words, and so of polynomials, for each item."""
        return -(-self.rows // (WORD_BITS // self.width))

    @property
    def rows_per_word(self) -> int:
        """Number of rows that share one word."""
        return -(-self.rows // self.words)


def polynomials(seed: int, label: str, words: int, independence: int) -> Words:
    """Return the coefficients of ``words`` polynomials, leading ones first: uint64, (words, independence)."""
    instructions()  # warns where hashing is slow
    elements = field_elements(seed, label, words * independence)
    return np.array(elements, dtype=np.uint64).reshape(words, independence)


@kernel
def evaluate(keys: Words, coefficients: Words, out: Words) -> None:
    """Write the polynomial's value at each key below 2^60 into ``out``; all arrays are C-contiguous."""
    whole = keys.size - keys.size % TILE
    for place in range(0, whole, TILE):
        hash_tile(keys, place, coefficients, out, place)
    if whole < keys.size:
        last_keys, words = np.zeros(TILE, dtype=np.uint64), np.empty(TILE, dtype=np.uint64)
        for i in range(whole, keys.size):
            last_keys[i - whole] = keys[i]
        hash_tile(last_keys, 0, coefficients, words, 0)
        for i in range(whole, keys.size):
            out[i] = words[i - whole]


@kernel
def add_product(total: Words, factor: np.uint64, keys: Words) -> None:
    """Add ``factor · keys`` in GF(2^64) to ``total``; keys are below 2^60."""
    for i in range(total.size):
        total[i] = multiply_add(factor, keys[i], total[i])
