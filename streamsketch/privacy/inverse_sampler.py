"""Draws of discrete noise by comparing random words with exact digits of its probabilities, one word mostly.

A round reads words until they have drawn a block of integers (`streamsketch.privacy.probability_digits`), then the low
bits, then a coin of probability exp(-exponent) over that of the block's anchor: heads, and the integer is drawn; tails,
or words that draw nothing, and another round follows. So P(n) is proportional to exp(-exponent(n)), exactly (Theory
3.2).

The kernel knows the first two words of a round. The rare round that needs a third, fewer than 3 in 10^7, is read again
from its first byte by `Table.round`, with as many digits as it takes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import kernel, part
from streamsketch.core.numbers import Ints
from streamsketch.privacy.exact_coins import Bytes, exp_coin, exp_fraction
from streamsketch.privacy.probability_digits import WORD_BITS, Shape, digits, weighted

_WORD_BYTES = WORD_BITS // 8


class _Words(NamedTuple):
    """The two levels that the kernel knows."""

    first: NDArray[np.int16]
    """The block that a first word draws; words beyond draw none by themselves."""
    rest: int
    """How many of those go on to a second word, if there are as many."""
    second: Ints
    """Cumulative counts of second words, from block ``lowest`` on."""
    lowest: int
    second_rest: int
    """How many second words beyond go on to a third, if there are as many."""


class Table:
    """What rounds of one distribution need.

    Parameters
    ----------
    shape
        The distribution.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.c, one = weighted(shape)
        two = digits(shape, self.c, 2)
        blocks = np.arange(one.lowest, one.lowest + len(one.counts), dtype=np.int16)
        first, second = np.repeat(blocks, one.counts), np.cumsum(two.counts, dtype=np.int64)
        self.words = _Words(first, one.rest, second, two.lowest, two.rest)

    @property
    def low_bytes(self) -> int:
        """How many bytes the low bits take."""
        return -(-self.shape.shift // 8)

    def bytes_for(self, size: int) -> int:
        """Return about how many bytes so many draws take, and some more."""
        if self.shape.shift == 0:
            return size * _WORD_BYTES * 33 // 32 + 32
        return size * (_WORD_BYTES + self.low_bytes + 1) * 9 // 8 + 32

    def fill(self, out: Ints, buffer: Bytes) -> tuple[int, int]:
        """Fill ``out`` while bytes last; return (draws, bytes of the rounds that came to their end)."""
        shape, done, used = self.shape, 0, 0
        while True:
            drawn, read, deep = draw_rounds(
                out[done:],
                buffer[used:],
                *self.words,
                shape.shift,
                self.low_bytes,
                shape.power,
                shape.numerator,
                shape.denominator,
            )
            done, used = done + drawn, used + read
            if not deep:
                return done, used
            n, at = self.round(buffer, used)
            if at < 0:
                return done, used
            used = at
            if n is not None:
                out[done] = n
                done += 1

    def round(self, buffer: Bytes, at: int) -> tuple[int | None, int]:
        """Return (integer drawn or None, position) of one round, -1 when the buffer ends: exact to any digit."""
        shape = self.shape
        block, at = self._block(buffer, at)
        if block is None or at < 0:
            return None, at
        if shape.shift == 0:
            return block, at
        end = at + self.low_bytes
        low = int.from_bytes(buffer[at:end].tobytes(), "big") & ((1 << shape.shift) - 1)
        n = (block << shape.shift) + low
        # 64 bits hold this and n but for integers that only words of level 2^27 or later draw
        exponent = (abs(n) ** shape.power - abs(shape.anchor(block)) ** shape.power) * shape.denominator
        heads, at = exp_coin(exponent, shape.numerator, buffer, end)
        return n if heads else None, at

    def _block(self, buffer: Bytes, at: int) -> tuple[int | None, int]:
        """Return (block or None, position) of the words of a round."""
        level, place = 0, 0
        while True:
            level += 1
            end = at + _WORD_BYTES
            if end > buffer.size:
                return None, -1
            place = (place << WORD_BITS) + int.from_bytes(buffer[at:end].tobytes(), "big")
            at = end
            here = digits(self.shape, self.c, level)
            for block, count in enumerate(here.counts, here.lowest):
                if place < count:
                    return block, at
                place -= count
            if place >= here.rest:
                return None, at


_NOTHING, _BLOCK, _DEEPER, _ENDED = range(4)


@part
def _second(
    place: int, buffer: Bytes, at: int, rest: int, second: Ints, lowest: int, second_rest: int
) -> tuple[int, int, int]:
    """Return (what a second word draws, block, position), ``place`` that of the first behind all that draw a block."""
    if place >= rest:
        return _NOTHING, 0, at
    if at + 2 > buffer.size:
        return _ENDED, 0, at
    place = (place << 16) | (int(buffer[at]) << 8) | int(buffer[at + 1])  # < 2^32
    if place < second[-1]:
        return _BLOCK, lowest + int(np.searchsorted(second, place, side="right")), at + 2
    return (_DEEPER if place - second[-1] < second_rest else _NOTHING), 0, at + 2


@part
def _in_block(
    block: int, buffer: Bytes, at: int, shift: int, low_bytes: int, power: int, numerator: int, denominator: int
) -> tuple[int, int, int]:
    """Return (integer, whether it is drawn, position) of a block that two words can draw.

    Such blocks are within 24 scales or 7 σ, 2^37 or less, and an integer's exponent exceeds its anchor's by less than
    1/4: the coin's numerator is below its denominator, which is at most 2^50.
    """
    if at + low_bytes >= buffer.size:  # the coin takes a byte as well
        return 0, 0, -1
    low = 0
    for _ in range(low_bytes):
        low = (low << 8) | int(buffer[at])
        at += 1
    n = (block << shift) + (low & ((1 << shift) - 1))
    nearest = block << shift if block >= 0 else ((block + 1) << shift) - 1
    exponent = (abs(n) - abs(nearest)) * denominator
    if power == 2:
        exponent *= abs(n) + abs(nearest)
    if int(buffer[at]) * numerator > exponent << 8:  # above the first digit, where `exp_fraction` says 1
        return n, 1, at + 1
    heads, at = exp_fraction(exponent, numerator, buffer, at)
    return n, heads, at


@kernel
def draw_rounds(
    out: Ints,
    buffer: Bytes,
    first: NDArray[np.int16],
    rest: int,
    second: Ints,
    lowest: int,
    second_rest: int,
    shift: int,
    low_bytes: int,
    power: int,
    numerator: int,
    denominator: int,
) -> tuple[int, int, bool]:
    """Fill ``out`` by rounds while bytes last; return (draws, bytes used, whether the next round needs a third word).

    The buffer may end within a round, which then is not counted.
    """
    done, used = 0, 0
    while done < out.size:
        at = used + 2
        if at > buffer.size:
            break
        word = (int(buffer[used]) << 8) | int(buffer[used + 1])
        if word < first.size:
            found, block = _BLOCK, int(first[word])
        else:
            found, block, at = _second(word - first.size, buffer, at, rest, second, lowest, second_rest)
        if found >= _DEEPER:
            return done, used, found == _DEEPER
        n, heads = block, found
        if found == _BLOCK and shift > 0:
            n, heads, at = _in_block(block, buffer, at, shift, low_bytes, power, numerator, denominator)
            if at < 0:
                break
        used = at
        if heads == 1:
            out[done] = n
            done += 1
    return done, used, False
