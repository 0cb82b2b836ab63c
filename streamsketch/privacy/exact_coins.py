"""Coins and small integers of exact probability, from uniform random bytes: integers only, no floating point, no table.

Each kernel reads bytes from ``buffer`` at a position and returns the new position, or -1 when the buffer ends. A
probability is decided by comparing its digits with the bytes, until they differ.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import kernel

Bytes: TypeAlias = NDArray[np.uint8]


@kernel
def bernoulli(numerator: int, denominator: int, buffer: Bytes, at: int) -> tuple[int, int]:
    """Return (bit, position), bit = 1 with probability numerator/denominator ≤ 1; denominator < 2^54.

    Compares the base-256 digits of the fraction with random bytes until they differ: one byte mostly, and
    exact because a tie goes on to the next digit.
    """
    if numerator >= denominator:
        return 1, at
    remainder = numerator
    while True:
        if at >= buffer.size:
            return 0, -1
        remainder <<= 8  # < 2^62
        digit = remainder // denominator
        remainder -= digit * denominator
        drawn = int(buffer[at])
        at += 1
        if drawn != digit:
            return (1 if drawn < digit else 0), at
        if remainder == 0:
            return 0, at


@kernel
def exp_fraction(numerator: int, denominator: int, buffer: Bytes, at: int) -> tuple[int, int]:
    """Return (bit, position), bit = 1 with probability exp(-numerator/denominator), a fraction in [0, 1].

    Canonne, Kamath and Steinke 2020, Algorithm 1: with K the first k at which Bernoulli(fraction/k) fails,
    P(K odd) = exp(-fraction). Bernoulli(fraction/k) is drawn as Bernoulli(1/k) and Bernoulli(fraction), so no product
    can overflow.
    """
    k = 1
    while True:
        bit, at = bernoulli(1, k, buffer, at)
        if at >= 0 and bit == 1:
            bit, at = bernoulli(numerator, denominator, buffer, at)
        if at < 0:
            return 0, -1
        if bit == 0:
            return k & 1, at
        k += 1


@kernel
def exp_coin(numerator: int, denominator: int, buffer: Bytes, at: int) -> tuple[int, int]:
    """Return (bit, position), bit = 1 with probability exp(-numerator/denominator), a fraction ≥ 0."""
    for _ in range(numerator // denominator):
        bit, at = exp_fraction(1, 1, buffer, at)
        if at < 0 or bit == 0:
            return 0, at
    return exp_fraction(numerator % denominator, denominator, buffer, at)


@kernel
def uniform(limit: int, buffer: Bytes, at: int) -> tuple[int, int]:
    """Return (integer, position), uniform on [0, limit), limit < 2^54, by rejection."""
    mask = limit - 1
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> shift
    while True:
        drawn, left = 0, mask
        while left > 0:
            if at >= buffer.size:
                return 0, -1
            drawn = (drawn << 8) | int(buffer[at])
            at += 1
            left >>= 8
        drawn &= mask
        if drawn < limit:
            return drawn, at
