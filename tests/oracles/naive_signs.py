"""Slow, readable twins of the sign sketches: flips byte by byte, their exact chances, bits counted one by one."""

from fractions import Fraction

import mpmath

from tests.oracles.naive_noise import ONE, Tape, as_mpf, bernoulli_exp


def flip(level: int, rate: Fraction, tape: Tape) -> int:
    """Return 1 with probability 1/(e^{rate·level} + 1)."""
    exponent = rate * min(level, 2**62 // rate.numerator)
    while True:
        if tape.byte() % 2 == 0:
            return 0
        if all(bernoulli_exp(ONE, tape) for _ in range(int(exponent))) and bernoulli_exp(exponent % 1, tape):
            return 1


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
