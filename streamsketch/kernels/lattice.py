"""Public Gaussian entries on a grid, identical on every machine: the discrete Gaussian by integer arithmetic alone."""

import functools
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from streamsketch.core.jit import kernel
from streamsketch.core.numbers import Ints
from streamsketch.kernels.hashing import WORD_BITS, Words

_DIGITS = 256  # fractional bits of the fixed-point weights; rounding affects fewer than 20 of them
_GUIDE_BITS = 12
_GUIDE_SHIFT = np.uint64(WORD_BITS - _GUIDE_BITS)


class LatticeGaussian(NamedTuple):
    """The distribution P(n) ∝ exp(-n² / (2·4^f)) as thresholds for words uniform on [0, 2^64).

    A word w gives n = i - last with the largest i for which ``thresholds[i] ≤ w``. ``guide[w >> 52]`` is the i of the
    bucket's first word, where the search begins. Values beyond ±last, up to ``largest``, have no word.
    """

    thresholds: Words
    guide: Ints
    last: int
    largest: int
    second_moment: Fraction
    fourth_moment: Fraction


@functools.lru_cache(maxsize=16)
def lattice_gaussian(fraction_bits: int) -> LatticeGaussian:
    """Return the table of standard Gaussian entries in multiples of 2^-fraction_bits.

    Threshold i is the cumulative weight below n, in units of 2^-64, rounded to the nearest integer. Weights
    are fixed-point integers: w_0 = 1, w_{n+1} = w_n r_n, r_{n+1} = r_n e^{-1/4^f}, r_0 = e^{-1/(2·4^f)}; those beyond
    9.2 standard deviations, which would round to zero, are left out. The moments are exact for the table.

    Examples
    --------
    >>> table = lattice_gaussian(8)
    >>> float(table.second_moment) / 4**8, float(table.fourth_moment / table.second_moment**2)
    (1.0, 3.0)
    """
    step, ratio = _exp_minus(Fraction(1, 4**fraction_bits)), _exp_minus(Fraction(1, 2 * 4**fraction_bits))
    weights = [1 << _DIGITS]
    while weights[-1] >> (_DIGITS - 62 - fraction_bits):
        weights.append(weights[-1] * ratio >> _DIGITS)
        ratio = ratio * step >> _DIGITS
    largest = len(weights) - 1
    words = 1 << WORD_BITS
    both_sides = weights[:0:-1] + weights
    total = sum(both_sides)
    thresholds, below = [0], 0
    for weight in both_sides:
        below += weight
        thresholds.append((2 * words * below + total) // (2 * total))
    counts = [after - before for before, after in pairwise(thresholds)]
    last = largest - next(place for place, count in enumerate(counts) if count)
    table = np.array(thresholds[largest - last : largest + last + 1], dtype=np.uint64)
    buckets = np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << _GUIDE_SHIFT
    guide = np.searchsorted(table, buckets, side="right").astype(np.int64) - 1
    moments = [Fraction(sum(n**power * count for n, count in enumerate(counts, -largest)), words) for power in (2, 4)]
    return LatticeGaussian(table, guide, last, largest, *moments)


def _exp_minus(exponent: Fraction) -> int:
    """Return e^-exponent for an exponent in (0, 1], with `_DIGITS` fractional bits."""
    total, term, order = 0, 1 << _DIGITS, 0
    while term:
        total += -term if order % 2 else term
        order += 1
        term = term * exponent.numerator // (exponent.denominator * order)
    return total


@kernel
def gaussian_entries(words: Words, thresholds: Words, guide: Ints, last: int, out: Ints) -> None:
    """Write the entry of each word; see `LatticeGaussian`."""
    for i in range(words.size):
        word = words[i]
        place = guide[word >> _GUIDE_SHIFT]
        # one or two steps: outside the tails a bucket has few thresholds
        while place + 1 < thresholds.size and thresholds[place + 1] <= word:
            place += 1
        out[i] = place - last
