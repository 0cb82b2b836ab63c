"""Exact digits of the probabilities of discrete noise: P(n) ∝ exp(-exponent(n)), by integer arithmetic alone.

The integers are cut into blocks. With c a whole number, c·exp(-exponent) of a block's most likely integer is the
number of the 2^16 values of a random word that draw the block; its fraction is spread over a second word, what is
left of that over a third, and so on (Theory 3.2). Here these digits are computed, each of them with certainty.
"""

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

WORD_BITS = 16
_GUARD_BITS = 96  # beyond the last digit wanted; doubled should they not decide it


@dataclasses.dataclass(frozen=True)
class Shape:
    """exp(-|n|^power · denominator / numerator) on the integers, in blocks of 2^shift of them.

    Block b holds the integers from b·2^shift to (b + 1)·2^shift - 1, so none has both signs. Its anchor is the one
    nearest to zero, the most likely.
    """

    power: int
    numerator: int
    denominator: int
    shift: int

    def exponent(self, n: int) -> Fraction:
        """Return -log of the mass of n over that of 0."""
        return Fraction(abs(n) ** self.power * self.denominator, self.numerator)

    def anchor(self, block: int) -> int:
        """Return the integer of a block that is nearest to zero."""
        return block << self.shift if block >= 0 else ((block + 1) << self.shift) - 1


class Digits(NamedTuple):
    """How the words of one level are shared out.

    Parameters
    ----------
    lowest
        The block of the first number in ``counts``.
    counts
        How many words draw ``lowest``, ``lowest + 1``, … All other blocks have none.
    rest
        At least the sum over all blocks of what the words of this level and those before fall short by.
    """

    lowest: int
    counts: list[int]
    rest: int


def weighted(shape: Shape) -> tuple[int, Digits]:
    """Return c, about as large as the words of the first level allow, and the first digits.

    Any smaller c from 1 on is as exact; more words would draw nothing.
    """
    c = 1 << WORD_BITS
    while True:
        first = digits(shape, c, 1)
        words = sum(first.counts)
        if words + first.rest <= 1 << WORD_BITS:
            return c, first
        c = min(c - 1, c * ((1 << WORD_BITS) - first.rest) // words)


def digits(shape: Shape, c: int, level: int, guard: int = _GUARD_BITS) -> Digits:
    """Return digit ``level`` (1, 2, …), to base 2^16, of c·exp(-exponent) of each block's anchor.

    Parameters
    ----------
    shape
        The distribution.
    c
        From 1 to 2^16. The first digit is the whole part.
    level
        Which digit.
    guard
        Bits beyond the last digit, doubled should they not decide it.
    """
    while True:
        below, above = (_floors(shape, side, c, WORD_BITS * (level - 1), guard) for side in (1, 0))
        if below is not None and above is not None:
            break
        guard *= 2  # a floor was not decided; c·exp(-r) is no integer for rational r ≠ 0, so more digits decide it
    rest = sum(_shortfall(shape, side, len(floors)) for side, floors in ((1, below), (0, above)))
    floors = [*reversed(below), *above]
    return Digits(-len(below), floors if level == 1 else [floor % (1 << WORD_BITS) for floor in floors], rest)


def _floors(shape: Shape, side: int, c: int, bits: int, guard: int) -> list[int] | None:
    """Return ⌊2^bits · c · exp(-exponent)⌋ for the anchors of one side, down to the last that is not 0.

    None if ``guard`` bits are too few to decide.
    """
    floors = []
    for low, high in _masses(shape, side, bits + guard):
        floor = c * low >> guard
        if c * high >> guard != floor:
            return None
        if floor == 0:
            break
        floors.append(floor)
    return floors


def _shortfall(shape: Shape, side: int, size: int) -> int:
    """Return a bound on what the floors of one side leave, ``size`` of them above 0, in units of their last place.

    Each leaves less than 1. Behind them the masses m_0 < 1, m_1, … fall at least as fast as m_0·e^(-i·step), since the
    exponent is convex: their sum is below 1 / (1 - e^-step) ≤ 1 + 1/step.
    """
    step = _exponent(shape, side, size + 1) - _exponent(shape, side, size)
    return size + 1 + -(-step.denominator // step.numerator)


def _exponent(shape: Shape, side: int, i: int) -> Fraction:
    """Return the exponent of anchor i of a side: blocks 0, 1, 2, … are on side 0, and -1, -2, -3, … on side 1."""
    return shape.exponent(shape.anchor(-1 - i if side else i))


def _masses(shape: Shape, side: int, places: int) -> Iterator[tuple[int, int]]:
    """Yield bounds (low, high) on 2^places · exp(-exponent) of the anchors of one side, outwards and for ever.

    Exponents of anchors are a quadratic polynomial, so each mass is the one before times a ratio, and each ratio the
    one before times a constant. Of numbers x, y ≤ 1 known from x', y' up to errors e, f (in units of 2^-places), the
    product is x'y' or more and x'y' + e + f or less; rounding down adds 1.
    """
    first, second, third = (_exponent(shape, side, i) for i in range(3))
    mass, error = exponential(first, places)
    ratio, ratio_error = exponential(second - first, places)
    bend, bend_error = exponential(third - 2 * second + first, places)
    while True:
        yield mass, mass + error
        mass, error = mass * ratio >> places, error + ratio_error + 1
        ratio, ratio_error = ratio * bend >> places, ratio_error + bend_error + 1


def exponential(x: Fraction, places: int) -> tuple[int, int]:
    """Return (low, error) with low ≤ 2^places · exp(-x) ≤ low + error, for rational x ≥ 0; exact at 0.

    Examples
    --------
    >>> low, error = exponential(Fraction(1), 64)
    >>> low / 2**64, error < 2**10
    (0.36787944117144233, True)
    """
    if x == 0:
        return 1 << places, 0
    if x >= places:
        return 0, 1
    halvings = max(0, (2 * x.numerator // x.denominator).bit_length())
    numerator, denominator = x.numerator, x.denominator << halvings  # at most 1/2
    # The series alternates. Terms are rounded down, each by less than half of its predecessor's error and 1: below 2.
    # After ``terms`` of them the true one is below 2, so what follows is below 1.
    term = total = 1 << places
    terms = 0
    while term:
        terms += 1
        term = term * numerator // (denominator * terms)
        total += -term if terms % 2 else term
    low, error = total - 2 * terms - 1, 4 * terms + 2
    for _ in range(halvings):
        low, error = low * low >> places, 2 * error + 1
    return low, error


def logarithms(most: int, places: int) -> list[tuple[int, int]]:
    """Return (low, error) with low ≤ 2^places · ln n ≤ low + error, for n = 1, …, most; exact at 1.

    ln n = ln(n - 1) + 2(z + z³/3 + z⁵/5 + …), z = 1/(2n - 1).

    Examples
    --------
    >>> low, error = logarithms(10, 64)[9]
    >>> low / 2**64, error < 2**10
    (2.302585092994046, True)
    """
    bounds = [(0, 0)]
    for n in range(2, most + 1):
        # Powers of z are rounded down, each by less than 1 and 1/9 of the one before: 9/8. So a term is below the true
        # one by less than 9/8 + 1, and what follows the last power is below 9/8 + 1 as well.
        power, square = (2 << places) // (2 * n - 1), (2 * n - 1) ** 2
        total = terms = 0
        while power:
            total += power // (2 * terms + 1)
            power //= square
            terms += 1
        low, error = bounds[-1]
        bounds.append((low + total, error + 3 * terms + 3))
    return bounds
