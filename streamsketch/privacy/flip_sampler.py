"""Exact coin flips for randomised response, one random byte mostly: integers and fair bits only.

A sign is flipped where a uniform number U in [0, 1) is below p = 1/(e^x + 1), x = rate·L: that is where x is below the
logistic quantile ln((1 - U)/U). The first byte of U gives bounds on that quantile, a table of 256 that serves every
rate. For one byte in 256 x lies between them. Then four bytes of U are compared with bounds on p, and where these do
not decide, as many more as it takes (Theory 6.1). So no probability is ever a float, and none is rounded.
"""

import functools
from fractions import Fraction

import numpy as np

from streamsketch.core.jit import kernel, part
from streamsketch.core.numbers import Ints
from streamsketch.privacy.exact_coins import Bytes
from streamsketch.privacy.probability_digits import exponential, logarithms
from streamsketch.privacy.samplers import BitSource, draw
from streamsketch.privacy.sign_flips import MAX_SHIFT, check_rate

_MOST_BITS = 10  # exponents are capped at 2^10: in units of 2^-52 they fit 62 bits
_GUARD_BITS = 64  # beyond the last bit of a threshold; doubled should they not decide it

_BOUND_BITS = 30  # of the bounds on e^-x that four bytes are compared with
_SMALL_BITS = 35  # of x in units of 2^-30, x < 32
_ROUNDED = 3 * _SMALL_BITS

_WORD_BYTES = 4
_UNDECIDED = 2


def flips(levels: Ints, rate: Fraction, bits: BitSource) -> Ints:
    """Draw for each level L ≥ 0 whether its sign flips: 1 with probability 1/(e^{rate·L} + 1), else 0, exactly.

    Where rate·L exceeds 1024 it counts as that: capping is 1-Lipschitz, so it keeps what a flip law guarantees, and the
    probability there is below e^-1023.

    Parameters
    ----------
    levels
        int64, (n,), C-contiguous, at least 0.
    rate
        n / 2^s, as `check_rate` wants it.
    bits
        Secret, uniform.

    Returns
    -------
    ndarray
        int64, (n,), 0 or 1.
    """
    check_rate(rate)
    numerator, shift = rate.numerator, rate.denominator.bit_length() - 1
    tables = *thresholds(), factor_table()

    def fill(out: Ints, buffer: Bytes) -> tuple[int, int]:
        left = levels[levels.size - out.size :]
        done, used = 0, 0
        while True:
            drawn, read, deep = flip_samples(out[done:], buffer[used:], left[done:], numerator, shift, *tables)
            done, used = done + drawn, used + read
            if not deep:
                return done, used
            flipped, at = flip_exactly(min(rate * int(left[done]), Fraction(1 << _MOST_BITS)), buffer, used)
            if at < 0:
                return done, used
            out[done] = flipped
            done, used = done + 1, at

    return draw(fill, levels.size, bits, lambda missing: missing * 33 // 32 + 32)


def flip_exactly(exponent: Fraction, buffer: Bytes, at: int) -> tuple[int, int]:
    """Return (flipped, position) of one sign from its first byte on, -1 when the buffer ends: exact to any digit.

    It compares p = 1/(e^x + 1) with U, of which it knows four bytes, then one more each time. U ≤ p is
    U·(1 + e^-x) ≤ e^-x.
    """
    size = _WORD_BYTES
    while at + size <= buffer.size:
        places = 8 * size + _GUARD_BITS
        low, error = exponential(exponent, places)
        drawn, scale, words = int.from_bytes(buffer[at : at + size].tobytes(), "big"), 1 << places, 1 << 8 * size
        if (drawn + 1) * (scale + low) <= low * words:
            return 1, at + size
        if drawn * (scale + low + error) >= (low + error) * words:
            return 0, at + size
        size += 1
    return 0, -1


@functools.cache
def thresholds() -> tuple[Ints, Ints]:
    """Return up to which exponent each first byte surely flips, and up to which it may: int64, (256,), 2^-52 units.

    Byte b says that U is in [b, b + 1)/256. It flips surely if p ≥ (b + 1)/256, and keeps surely if p ≤ b/256. Now
    p ≥ m/256 where x ≤ ln((256 - m)/m), and then whole units of x are at most the floor of that.
    """
    limits = np.array([1 << (MAX_SHIFT + _MOST_BITS), *quantiles(), 0], dtype=np.int64)  # m = 0, …, 128
    surely, maybe = np.full((2, 256), -1, dtype=np.int64)  # p ≤ 1/2: bytes from 128 on keep
    surely[:128], maybe[:128] = limits[1:], limits[:128]
    return surely, maybe


def quantiles(guard: int = _GUARD_BITS) -> list[int]:
    """Return ⌊2^52 · ln((256 - m)/m)⌋ for m = 1, …, 127; ``guard`` bits more are doubled should they not decide it."""
    while True:
        logs = logarithms(255, MAX_SHIFT + guard)
        bounds = []
        for m in range(1, 128):
            (top, top_error), (bottom, bottom_error) = logs[255 - m], logs[m - 1]
            bounds.append(((top - bottom - bottom_error) >> guard, (top + top_error - bottom) >> guard))
        if all(low == high for low, high in bounds):
            return [low for low, _ in bounds]
        guard *= 2  # the logarithm of a rational other than 1 is irrational, so more bits decide it


@functools.cache
def factor_table() -> Ints:
    """Return 2^30 · e^-(2^j/2^30), rounded down, for j = 0, …, 34: int64, (35,); too small by less than 2."""
    factors = []
    for j in range(_SMALL_BITS):
        low, _ = exponential(Fraction(1 << j, 1 << _BOUND_BITS), _BOUND_BITS + _GUARD_BITS)
        factors.append(low >> _GUARD_BITS)
    return np.array(factors, dtype=np.int64)


@part
def _compare(exponent: int, buffer: Bytes, at: int, factors: Ints) -> int:
    """Return 1 if four bytes flip a sign, 0 if they keep it, 2 if bounds on e^-x of 30 bits do not decide.

    ``low`` starts as the product of the factors of x's bits, x rounded down to a multiple of 2^-30: each factor adds
    less than 3 to its error, and the rounding of x adds at most 1 on the other side. From 32 on, ``low`` is 0. The
    first byte is below 128, so the word is below 2^31 and the products are below 2^63.
    """
    word = 0
    for _ in range(_WORD_BYTES):
        word = (word << 8) | int(buffer[at])
        at += 1
    scale = 1 << _BOUND_BITS
    x = min(exponent >> (MAX_SHIFT - _BOUND_BITS), (1 << _SMALL_BITS) - 1)
    low = scale
    for j in range(_SMALL_BITS):
        if (x >> j) & 1:
            low = (low * factors[j]) >> _BOUND_BITS
    high = low + _ROUNDED
    low = max(low - 1, 0)
    if (word + 1) * (scale + low) <= low << 32:
        return 1
    return 0 if word * (scale + high) >= high << 32 else _UNDECIDED


@kernel
def flip_samples(
    out: Ints, buffer: Bytes, levels: Ints, numerator: int, shift: int, surely: Ints, maybe: Ints, factors: Ints
) -> tuple[int, int, bool]:
    """Fill ``out`` while bytes last; return (signs, bytes used, whether the next sign needs more than four bytes)."""
    most = (1 << (_MOST_BITS + shift)) // numerator
    at = 0
    for i in range(out.size):
        if at >= buffer.size:
            return i, at, False
        level = levels[i]
        # in units of 2^-52, at most 2^62
        exponent = (level * numerator) << (MAX_SHIFT - shift) if level <= most else 1 << (MAX_SHIFT + _MOST_BITS)
        byte = buffer[at]
        flipped = int(exponent <= surely[byte])
        if flipped != int(exponent <= maybe[byte]):  # no branch on the bit itself, which none foresees
            if at + _WORD_BYTES > buffer.size:
                return i, at, False
            flipped = _compare(exponent, buffer, at, factors)
            if flipped == _UNDECIDED:
                return i, at, True
            at += _WORD_BYTES - 1
        at += 1
        out[i] = flipped
    return out.size, at, False
