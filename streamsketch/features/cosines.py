"""Cosines of a turn in 2^13 steps, as integers that are the same on every machine."""

import functools

import numpy as np
from numpy.typing import NDArray

TURN_BITS = 13
"""A turn has 2^13 steps, so an angle is rounded by at most 0.0004."""

_BITS = 100  # of the fixed point in which the table is computed
_PI = 0x3243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89 >> 156  # π · 2^100


@functools.lru_cache(maxsize=64)
def cosine_table(amplitude: int) -> NDArray[np.int16]:
    """Return ⌊amplitude · cos(2πi/2^13) + 1/2⌋ for each step i of a turn: int16, (2^13,).

    Parameters
    ----------
    amplitude
        From 0 to 2^15 - 1.

    Examples
    --------
    >>> table = cosine_table(1000)
    >>> table[[0, 1 << 11, 1 << 12]].tolist(), int(table[1 << 10])  # no turn, a quarter, a half; an eighth
    ([1000, 0, -1000], 707)
    """
    exact = _quarter()
    half = 1 << (_BITS - 1)
    quarter = [(amplitude * cosine + half) >> _BITS for cosine in exact]  # 0 to a quarter of a turn, both included
    first_half = quarter + [-value for value in quarter[-2::-1]]
    turn = first_half + first_half[-2:0:-1]
    table = np.array(turn, dtype=np.int16)
    table.flags.writeable = False
    return table


@functools.cache
def _quarter() -> list[int]:
    """Return cos(2πi/2^13) · 2^100 for i from 0 to 2^11, each rounded by far less than 2^-40."""
    steps = 1 << (TURN_BITS - 2)
    cosines = []
    for i in range(steps + 1):
        angle = _PI * i // (2 * steps)
        square = angle * angle >> _BITS
        term, total, k = 1 << _BITS, 0, 0
        while term:
            total += -term if k % 4 else term
            k += 2
            term = (term * square >> _BITS) // (k * (k - 1))
        cosines.append(total)
    cosines[-1] = 0  # of a right angle
    return cosines
