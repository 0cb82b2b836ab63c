"""Slow, readable twins of the sign sketches: flips byte by byte, their exact chances, bits counted one by one."""

import functools
from fractions import Fraction

import mpmath

from tests.oracles.naive_noise import Tape, as_mpf

MOST = 1024
"""Exponents above count as that."""


def flip(level: int, rate: Fraction, tape: Tape) -> int:
    """Return 1 with probability p = 1/(e^{rate·level} + 1): whether the tape's 0.b1b2b3… (base 256) is below p.

    The first byte decides by itself unless it is p's first digit. Then four bytes are compared with p's four digits,
    and one more each time that they are equal.
    """
    digits = chance_digits(level, rate)
    drawn = [tape.byte()]
    if drawn[0] == digits[0] and level:
        drawn += [tape.byte() for _ in range(3)]
        while drawn == digits[: len(drawn)]:
            drawn.append(tape.byte())
    return int(drawn < digits[: len(drawn)])


@functools.cache
def chance_digits(level: int, rate: Fraction) -> list[int]:
    """Return the first 400 digits of p to base 256."""
    with mpmath.workdps(1000):
        chance = 1 / (mpmath.exp(as_mpf(min(rate * level, Fraction(MOST)))) + 1)
        return list(int(mpmath.floor(chance * mpmath.mpf(256) ** 400)).to_bytes(400, "big"))


def flip_chance(level: int, rate: Fraction) -> mpmath.mpf:
    """Return 1/(e^{rate·level} + 1) to 60 digits."""
    return 1 / (mpmath.exp(as_mpf(rate * level)) + 1)


def level(shape: str, cell: int, step: int) -> int:
    """Return a cell's level under a flip law."""
    margin = min(abs(cell), 2**63 - abs(cell))  # signs change at 0, and where sums modulo 2^64 leave 63 bits
    if shape == "constant":
        return int(margin != 0)
    if shape == "linear":
        return margin
    return -(-margin // step)


def plus_chance(shape: str, rate: Fraction, cell: int, step: int) -> mpmath.mpf:
    """Return P(the published sign is +)."""
    wrong = flip_chance(level(shape, cell, step), rate)
    return 1 - wrong if cell > 0 else wrong


def hamming(x: bytes, y: bytes) -> int:
    """Return in how many bits two byte strings differ."""
    assert len(x) == len(y)
    return (int.from_bytes(x) ^ int.from_bytes(y)).bit_count()
