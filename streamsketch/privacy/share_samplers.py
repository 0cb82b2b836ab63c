"""Exact samples of a share of discrete Laplace noise: h independent shares add up to exactly the noise.

A share is G - G' with G and G' negative binomial of shape 1/h and q = exp(-1/scale), as a compound Poisson sum: G is
Σ j·N_j over j ≥ 1, the N_j independent and Poisson of rate q^j / (h j). Points are proposed at a rate that is easy to
draw, and thinned by coins of exact probability (Theory 9.1). Those beyond 2,000 scales, which hardly ever occur, are
drawn for all cells at once, in Python's integers: no tail is cut.
"""

from collections.abc import Callable
from fractions import Fraction

from streamsketch.core.jit import kernel
from streamsketch.core.numbers import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.exact_coins import Bytes, bernoulli, exp_coin, uniform
from streamsketch.privacy.samplers import BitSource, check_laplace, draw

_FAR = 12  # octaves beyond the scale: there points are kept with probability e^-2036 at most
_SHIFT = 20  # of e^-2036, (2/e)^20 · 2^-20 is a coin that fails early


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
    return near_and_far(scale, shares, size, bits, _FAR)


def near_and_far(scale: Fraction, shares: int, size: int, bits: BitSource, far: int) -> Ints:
    """Draw shares, their points from ``far`` octaves beyond the scale on apart; the law is that of any far, 2 to 12."""
    octaves = max(1, (-(-scale.numerator // scale.denominator) - 1).bit_length())  # the least I with 2^I >= scale

    def fill(out: Ints, buffer: Bytes) -> tuple[int, int]:
        return _share_samples(out, buffer, scale.numerator, scale.denominator, shares, octaves, far)

    drawn = draw(fill, size, bits, lambda missing: 16 * missing + 64)
    for cell, point in far_points(scale, shares, octaves, size, bits, far):
        total = int(drawn[cell]) + point
        drawn[cell] = (total + (1 << 63)) % (1 << 64) - (1 << 63)  # modulo 2^64, as all sums of cells
    return drawn


def far_points(
    scale: Fraction, shares: int, octaves: int, size: int, bits: BitSource, far: int
) -> list[tuple[int, int]]:
    """Return the cell and the signed distance of the points that `_kept_point` leaves out, of all cells together.

    They are proposed at the rate 2·size/(shares·2^(far-1)). Each has to pass a coin of e^-(2^(far-1) - far), however
    distant, so this coin is made part of the rate: with far = 12 there is no point but with a chance of e^-2000.
    """
    common = (1 << (far - 1)) - far  # j/scale - tail ≥ 2^(tail-1) - tail ≥ this
    shift = min(common, _SHIFT)
    mean = Fraction(2 * size, shares << (far - 1 + shift))  # times (2/e)^shift · e^-(common - shift)
    parts = max(1, -(-2 * mean.numerator // mean.denominator))

    def coin(i: int) -> bool:
        """Return a coin of 2·mean/i, mean that of a part."""
        return (
            flip_coin(2 * mean / (parts * i), bits)
            and all(flip_two_over_e(bits) for _ in range(shift))
            and all(flip_exp(Fraction(1), bits) for _ in range(common - shift))
        )

    points = []
    for _ in range(sum(poisson(coin, bits) for _ in range(parts))):
        tail = far
        while bits.read(1)[0] & 1:
            tail += 1
        least = 1 << (octaves + tail - 1)
        point = least + _below(least, bits)
        kept = flip_coin(Fraction(least, point), bits) and all(flip_two_over_e(bits) for _ in range(tail))
        if kept and flip_exp(point / scale - tail - common, bits):
            points.append((_below(size, bits), point if bits.read(1)[0] & 1 else -point))
    return points


def poisson(coin: Callable[[int], bool], bits: BitSource) -> int:
    """Return a Poisson variable of mean at most 1/2, of which ``coin(i)`` has 2·mean/i; see `poisson_small`."""
    while True:
        n = 0
        while bits.read(1)[0] & 1:
            n += 1
        if all(coin(i) for i in range(1, n + 1)):
            return n


def flip_coin(chance: Fraction, bits: BitSource) -> bool:
    """Return whether a coin of this probability succeeds, by its base-256 digits as `bernoulli`."""
    if chance >= 1:
        return True
    while True:
        digit, drawn = int(256 * chance), bits.read(1)[0]
        chance = 256 * chance - digit
        if drawn != digit or chance == 0:
            return drawn < digit


def flip_exp(exponent: Fraction, bits: BitSource) -> bool:
    """Return whether a coin of e^-exponent succeeds; see `exp_coin`."""
    whole = int(exponent)
    return all(_flip_fraction(Fraction(1), bits) for _ in range(whole)) and _flip_fraction(exponent - whole, bits)


def _flip_fraction(exponent: Fraction, bits: BitSource) -> bool:
    """Return whether a coin of e^-exponent succeeds, for an exponent in [0, 1]; see `exp_fraction`."""
    k = 1
    while flip_coin(Fraction(1, k), bits) and flip_coin(exponent, bits):
        k += 1
    return k % 2 == 1


def flip_two_over_e(bits: BitSource) -> bool:
    """Return whether a coin of 2/e succeeds; see `two_over_e`."""

    def half(i: int) -> bool:
        return flip_coin(Fraction(1, i), bits)

    return poisson(half, bits) + poisson(half, bits) <= 1


def _below(limit: int, bits: BitSource) -> int:
    """Return an integer uniform on [0, limit)."""
    width = (limit - 1).bit_length()
    while True:
        drawn = int.from_bytes(bits.read(-(-width // 8)), "little") & ((1 << width) - 1)
        if drawn < limit:
            return drawn


@kernel
def poisson_small(numerator: int, denominator: int, buffer: Bytes, at: int) -> tuple[int, int]:
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
def two_over_e(buffer: Bytes, at: int) -> tuple[int, int]:
    """Return (bit, position), bit = 1 with probability 2/e: that a Poisson variable of mean 1 is at most 1."""
    first, at = poisson_small(1, 1, buffer, at)
    if at < 0:
        return 0, -1
    second, at = poisson_small(1, 1, buffer, at)
    if at < 0:
        return 0, -1
    return (1 if first + second <= 1 else 0), at


@kernel
def _kept_point(numerator: int, denominator: int, octaves: int, far: int, buffer: Bytes, at: int) -> tuple[int, int]:
    """Return (j, position) of one proposed point with a random sign, j = 0 where it is thinned out, or is ``far``.

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
        if tail >= far:
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
            bit, at = two_over_e(buffer, at)
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
    out: Ints, buffer: Bytes, numerator: int, denominator: int, shares: int, octaves: int, far: int
) -> tuple[int, int]:
    """Fill ``out`` while bytes last; return (samples drawn, bytes they used)."""
    # Poisson of mean 2(octaves + 1)/shares, as a sum of parts of mean 1/2 at most
    parts = -(-4 * (octaves + 1) // shares)
    used = 0
    for i in range(out.size):
        at, total = used, 0
        for _ in range(parts):
            points, at = poisson_small(4 * (octaves + 1), shares * parts, buffer, at)
            if at < 0:
                return i, used
            for _ in range(points):
                j, at = _kept_point(numerator, denominator, octaves, far, buffer, at)
                if at < 0:
                    return i, used
                total += j
        out[i] = total
        used = at
    return out.size, used
