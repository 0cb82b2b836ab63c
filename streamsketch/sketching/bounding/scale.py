"""Exact clipping of runs of grid steps to an l1 bound: scaled as a whole, or taken in order until it is reached.

Steps are int64, so |step| ≤ 2^63 is a uint64, and the sum of a run fits 128 bits.
"""

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import Ints, kernel

_0, _1, _63 = np.uint64(0), np.uint64(1), np.uint64(63)
_LIMIT_BITS = 62


@kernel
def magnitude(step: int) -> np.uint64:
    """Return |step| as uint64, that of -2^63 too."""
    return np.uint64(-step) if step < 0 else np.uint64(step)


@kernel
def exceeds(steps: Ints, starts: Ints, stops: Ints, limit: int) -> NDArray[np.bool_]:
    """Return which runs of rows have Σ|steps| > limit, for limit < 2^62."""
    over = np.zeros(starts.size, dtype=np.bool_)
    for run in range(starts.size):
        left = np.uint64(limit)
        for i in range(starts[run], stops[run]):
            size = magnitude(steps[i])
            if size > left:
                over[run] = True
                break
            left -= size
    return over


@kernel
def cut_steps(groups: Ints, steps: Ints, limit: int) -> None:
    """Clip ``steps`` in place to Σ|steps| ≤ limit in each run of equal ``groups``: the first ones are kept."""
    left = np.uint64(limit)
    for i in range(steps.size):
        if i > 0 and groups[i] != groups[i - 1]:
            left = np.uint64(limit)
        size = magnitude(steps[i])
        taken = size if size < left else left  # noqa: FURB136 - min has no type here
        left -= taken
        steps[i] = np.int64(taken) if steps[i] > 0 else -np.int64(taken)


@kernel
def scale_steps(steps: Ints, starts: Ints, stops: Ints, limit: int) -> None:
    """Make each step of each run trunc(step · limit / N), N = Σ|steps| > limit of its run, in place.

    Each result is at most |step|·limit/N, so those of a run sum to at most limit < 2^62.
    """
    for run in range(starts.size):
        high, low = _0, _0
        for i in range(starts[run], stops[run]):
            size = magnitude(steps[i])
            low += size
            if low < size:
                high += _1
        for i in range(starts[run], stops[run]):
            share = np.int64(_quotient(magnitude(steps[i]), limit, high, low))
            steps[i] = share if steps[i] > 0 else -share


@kernel
def _quotient(size: np.uint64, limit: int, high: np.uint64, low: np.uint64) -> np.uint64:
    """Return ⌊size · limit / N⌋, N = high·2^64 + low ≥ size: long division, one bit of ``limit`` at a time.

    The remainder stays below N, and below 3N < 2^128 between two bits.
    """
    quotient, above, below = _0, _0, _0
    for bit in range(_LIMIT_BITS - 1, -1, -1):
        above = (above << _1) | (below >> _63)
        below <<= _1
        if (limit >> bit) & 1:
            below += size
            if below < size:
                above += _1
        quotient <<= _1
        while above > high or (above == high and below >= low):
            if below < low:
                above -= _1
            below -= low
            above -= high
            quotient += _1
    return quotient
