"""Exact clipping of runs of grid steps to an l1 bound: scaled as a whole, or taken in order until it is reached.

Steps are int64, so |step| ≤ 2^63 is a uint64, and the sum of a run fits 128 bits.
"""

import math

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import kernel
from streamsketch.core.numbers import Ints

_0, _1, _63 = np.uint64(0), np.uint64(1), np.uint64(63)
_2_31, _2_32 = np.uint64(1 << 31), np.uint64(1 << 32)
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
def exceeds_squared(steps: Ints, starts: Ints, stops: Ints, limit: int) -> NDArray[np.bool_]:
    """Return which runs of rows have Σ steps² > limit, for limit < 2^62."""
    over = np.zeros(starts.size, dtype=np.bool_)
    for run in range(starts.size):
        left = np.uint64(limit)
        for i in range(starts[run], stops[run]):
            size = magnitude(steps[i])
            if size >= _2_31 or size * size > left:
                over[run] = True
                break
            left -= size * size
    return over


@kernel
def cut_steps(steps: Ints, starts: Ints, stops: Ints, limit: int) -> None:
    """Clip each run in place to Σ|steps| ≤ limit: the first ones are kept."""
    for run in range(starts.size):
        left = np.uint64(limit)
        for i in range(starts[run], stops[run]):
            size = magnitude(steps[i])
            taken = size if size < left else left  # noqa: FURB136 - min has no type here
            left -= taken
            steps[i] = np.int64(taken) if steps[i] > 0 else -np.int64(taken)


@kernel
def scale_steps(steps: Ints, starts: Ints, stops: Ints, limit: int) -> None:
    """Scale each run in place by limit / N, N = Σ|steps| > limit of its run, rounded so that Σ|steps| is limit.

    With C the sums of |steps| up to an entry, it becomes ⌊C·limit/N⌋ minus that of the entry before: within 1 of
    |step|·limit/N, as what rounding leaves over is carried on to the next. Truncated one by one, all entries below
    N/limit would vanish, and with them streams of counts. 0 < limit < 2^62.
    """
    for run in range(starts.size):
        high, low = _0, _0
        for i in range(starts[run], stops[run]):
            size = magnitude(steps[i])
            low += size
            if low < size:
                high += _1
        above, below = _0, _0
        for i in range(starts[run], stops[run]):
            share, above, below = _divide(magnitude(steps[i]), limit, high, low, above, below)
            steps[i] = np.int64(share) if steps[i] > 0 else -np.int64(share)


@kernel
def _divide(
    size: np.uint64, limit: int, high: np.uint64, low: np.uint64, above: np.uint64, below: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return quotient and remainder (two words) of (size · limit + remainder before) / N, N = high·2^64 + low ≥ size.

    Long division, one bit of ``limit`` at a time: the remainder stays below N, and below 3N < 2^128 between two bits.
    """
    if high == _0 and low >> _63 == _0 and size < _2_32 and np.uint64(limit) < _2_31:  # the dividend is below 2^64
        dividend = size * np.uint64(limit) + below
        return dividend // low, _0, dividend % low
    quotient, upper, lower = _0, _0, _0
    for bit in range(_LIMIT_BITS - 1, -1, -1):
        upper = (upper << _1) | (lower >> _63)
        lower <<= _1
        if (limit >> bit) & 1:
            lower += size
            if lower < size:
                upper += _1
        quotient <<= _1
        while upper > high or (upper == high and lower >= low):
            if lower < low:
                upper -= _1
            lower -= low
            upper -= high
            quotient += _1
    lower += below
    upper += above
    if lower < below:
        upper += _1
    if upper > high or (upper == high and lower >= low):
        if lower < low:
            upper -= _1
        lower -= low
        upper -= high
        quotient += _1
    return quotient, upper, lower


def scale_squares(steps: Ints, starts: Ints, stops: Ints, limit: int) -> None:
    """Make each step of each run trunc(step · √(limit / N)), N = Σ step² > limit of its run, in place.

    Each square is at most step²·limit/N, so those of a run sum to at most limit. In Python's integers, as products take
    up to 256 bits.
    """
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        run = steps[start:stop].tolist()
        total = sum(step * step for step in run)
        scaled = (math.isqrt(step * step * limit // total) for step in run)
        steps[start:stop] = [size if step > 0 else -size for step, size in zip(run, scaled, strict=True)]
