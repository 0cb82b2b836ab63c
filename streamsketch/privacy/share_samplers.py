"""Exact samples of a share of discrete Laplace noise: h independent shares add up to exactly the noise.

A share is G - G' with G and G' negative binomial of shape 1/h and q = exp(-1/scale), as a compound Poisson sum: G is
Σ j·N_j over j ≥ 1, the N_j independent and Poisson of rate q^j / (h j). Points are proposed at a rate that is easy to
draw, and thinned by coins of exact probability (THEORY.md 9.1).
"""

from fractions import Fraction

from streamsketch.core import Ints, kernel
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.coins import Bytes, bernoulli, exp_coin, uniform
from streamsketch.privacy.samplers import BitSource, check_laplace, draw

_FARTHEST = 12  # octaves beyond the scale; points farther out, kept with probability e^-2000, are left out


def laplace_share(scale: Fraction, shares: int, size: int, bits: BitSource) -> Ints:
    """Draw ``size`` exact samples, of which ``shares`` add up to discrete Laplace noise of ``scale``: int64, (size,).

    P(n) = (1-q)^(2r) q^|n| C(|n|+r-1, |n|) ₂F₁(r, |n|+r; |n|+1; q²) with r = 1/shares and q = exp(-1/scale).

    Parameters
    ----------
    scale
        Of the sum, as `DiscreteLaplace` takes it.
    shares
        How many add up to it, from 1 to 4096.
    size, bits
        As in `Noise.sample`.

    Raises
    ------
    InvalidInputError
        For a scale that `DiscreteLaplace` refuses, or another number of shares.
    """
    check_laplace(scale)
    if shares < 1:
        raise InvalidInputError(f"noise is drawn in one share or more, got {shares}")
    octaves = max(1, (-(-scale.numerator // scale.denominator) - 1).bit_length())  # the least I with 2^I >= scale

    def fill(out: Ints, buffer: Bytes) -> tuple[int, int]:
        return _share_samples(out, buffer, scale.numerator, scale.denominator, shares, octaves)

    return draw(fill, size, bits, lambda missing: 16 * missing + 64)


@kernel
def _poisson_small(numerator: int, denominator: int, buffer: Bytes, at: int) -> tuple[int, int]:
    """Return (n, position), n Poisson of mean numerator/(2·denominator) ≤ 1/2; the denominator < 2^40.

    n is proposed with probability 2^-(n+1) and kept with (2·mean)^n / n!, coin by coin.
    """
    while True:
        n = 0
        while True:
            if at >= buffer.size:
                return 0, -1
            heads = buffer[at] & 1
            at += 1
            if heads == 0:
                break
            n += 1
        kept = 1
        for i in range(1, n + 1):
            kept, at = bernoulli(numerator, denominator * i, buffer, at)
            if at < 0:
                return 0, -1
            if kept == 0:
                break
        if kept == 1:
            return n, at


@kernel
def _two_over_e(buffer: Bytes, at: int) -> tuple[int, int]:
    """Return (bit, position), bit = 1 with probability 2/e: that a Poisson variable of mean 1 is at most 1."""
    first, at = _poisson_small(1, 1, buffer, at)
    if at < 0:
        return 0, -1
    second, at = _poisson_small(1, 1, buffer, at)
    if at < 0:
        return 0, -1
    return (1 if first + second <= 1 else 0), at


@kernel
def _kept_point(numerator: int, denominator: int, octaves: int, buffer: Bytes, at: int) -> tuple[int, int]:
    """Return (j, position) of one proposed point with a random sign, j = 0 where it is thinned out.

    j·denominator ≤ 2^(octaves + 12)·denominator < 2^13·numerator ≤ 2^61, as 2^octaves < 2·scale + 2 and the numerator
    has 48 bits.
    """
    octave, at = uniform(octaves + 1, buffer, at)
    if at < 0:
        return 0, -1
    tail = 0
    if octave == octaves:  # the octaves from here on, with probabilities 1/2, 1/4, …
        tail = 1
        while True:
            if at >= buffer.size:
                return 0, -1
            more = buffer[at] & 1
            at += 1
            if more == 0:
                break
            tail += 1
        if tail >= _FARTHEST:
            return 0, at
        octave = octaves + tail - 1
    least = 1 << octave
    above, at = uniform(least, buffer, at)
    if at < 0:
        return 0, -1
    j = least + above
    bit, at = bernoulli(least, j, buffer, at)
    for _ in range(tail):
        if at >= 0 and bit == 1:
            bit, at = _two_over_e(buffer, at)
    if at >= 0 and bit == 1:
        bit, at = exp_coin(j * denominator - tail * numerator, numerator, buffer, at)
    if at < 0:
        return 0, -1
    if bit == 0:
        return 0, at
    if at >= buffer.size:
        return 0, -1
    negative = buffer[at] & 1
    at += 1
    return (-j if negative else j), at


@kernel
def _share_samples(
    out: Ints, buffer: Bytes, numerator: int, denominator: int, shares: int, octaves: int
) -> tuple[int, int]:
    """Fill ``out`` while bytes last; return (samples drawn, bytes they used)."""
    # Poisson of mean 2(octaves + 1)/shares, as a sum of parts of mean 1/2 at most
    parts = -(-4 * (octaves + 1) // shares)
    used = 0
    for i in range(out.size):
        at, total = used, 0
        for _ in range(parts):
            points, at = _poisson_small(4 * (octaves + 1), shares * parts, buffer, at)
            if at < 0:
                return i, used
            for _ in range(points):
                j, at = _kept_point(numerator, denominator, octaves, buffer, at)
                if at < 0:
                    return i, used
                total += j
        out[i] = total
        used = at
    return out.size, used
