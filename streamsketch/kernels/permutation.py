"""A keyed pseudo-random permutation of [0, size) in constant memory."""

import functools
from dataclasses import dataclass

import numpy as np

from streamsketch.core.jit import kernel, read_only
from streamsketch.core.numbers import Ints
from streamsketch.kernels.hashing import Words, field_elements

_MIXING_BITS = 80
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of SplitMix64's finaliser
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


@dataclass(frozen=True)
class Permutation:
    """A permutation of [0, size), a function of (seed, label): a Feistel network with cycle walking.

    The network permutes b-bit numbers, b = max(2, bit length of size - 1), split into ⌈b/2⌉ upper and
    ⌊b/2⌋ lower bits. In turn each half is XORed with a mix of the other (SplitMix64's finaliser of it XOR the round's
    key, a field element), ⌈80 / ⌊b/2⌋⌉ times and at least 8, rounded up to an even number. A result outside [0, size)
    is permuted again: fewer than two passes on average for sizes above 2. After all rounds two inputs whose halves
    differ are still correlated with probability about 2^-40, however small the domain.

    Parameters
    ----------
    size
        1 to 2^60.
    seed, label
        Public seed, 0 to 2^64 - 1, and a name for the use of it.

    Examples
    --------
    >>> sorted(Permutation(5, seed=1, label="example").of(np.arange(5)).tolist())
    [0, 1, 2, 3, 4]
    """

    size: int
    seed: int
    label: str

    @functools.cached_property
    def _bits(self) -> int:
        return max(2, (self.size - 1).bit_length())

    @functools.cached_property
    def keys(self) -> Words:
        """The keys of the rounds: uint64, (rounds,)."""
        rounds = max(8, -(-_MIXING_BITS // (self._bits // 2)))
        return np.array(field_elements(self.seed, self.label, rounds + rounds % 2), dtype=np.uint64)

    def of(self, places: Ints) -> Ints:
        """Return the images of ``places``, all in [0, size): int64, (n,)."""
        out = np.empty_like(places)
        permute(read_only(places).view(np.uint64), self.size, self._bits // 2, self.keys, out.view(np.uint64))
        return out


@kernel
def permute(places: Words, size: int, lower_bits: int, keys: Words, out: Words) -> None:
    """Write the image of each place; see `Permutation`."""
    bits = max(2, 64 - _leading_zeros(np.uint64(size - 1)))
    shift = np.uint64(lower_bits)
    lower_mask = (np.uint64(1) << shift) - np.uint64(1)
    upper_mask = (np.uint64(1) << np.uint64(bits - lower_bits)) - np.uint64(1)
    limit = np.uint64(size)
    for i in range(places.size):
        place = places[i]
        while True:
            upper, lower = place >> shift, place & lower_mask
            for turn in range(0, keys.size, 2):
                upper ^= mix(lower ^ keys[turn]) & upper_mask
                lower ^= mix(upper ^ keys[turn + 1]) & lower_mask
            place = (upper << shift) | lower
            if place < limit:
                break
        out[i] = place


@kernel
def _leading_zeros(word: np.uint64) -> int:
    count = 64
    while word:
        word >>= np.uint64(1)
        count -= 1
    return count


@kernel
def mix(word: np.uint64) -> np.uint64:
    """Return SplitMix64's finaliser of a word: a bijection whose output bits each depend on every input bit."""
    word = (word ^ (word >> _30)) * _MIX_1
    word = (word ^ (word >> _27)) * _MIX_2
    return word ^ (word >> _31)
