"""Exact samplers for discrete noise: integers and fair bits only.

The algorithms are Canonne, Kamath and Steinke 2020 (Algorithms 1 to 3): every probability is an exact rational or
an exact exponential of one, decided by comparing digits with uniform random bytes. No floating point, no
table, and no tail cut where its probability is above e^-1000.

Bits come from a `BitSource`. Releases use `SystemBits`, the operating system's CSPRNG. `KeyedBits` is for
pipelines that may retry a bundle: the same secret and context give the same noise, so a retry publishes
nothing new. `SystemBits` keeps no buffer, so nothing survives a fork or a pickle; a `KeyedBits` is a position in a
stream, made for one release and refused by pickle.
"""

import hashlib
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import Ints, kernel
from streamsketch.errors import InvalidInputError

Bytes: TypeAlias = NDArray[np.uint8]

MAX_LAPLACE_SCALE = 1 << 32
MIN_SIGMA_SQUARED = Fraction(1, 2)  # below it the sampler would hardly ever accept
MAX_SIGMA_SQUARED = 1 << 48

_MAX_RATIO_BITS = 48
_BYTES_PER_SAMPLE = 16  # Laplace takes 9 to 12, a Gaussian 13 to 18; a shortfall is drawn again, a surplus thrown away
_MAX_REQUEST = 1 << 22


class BitSource(Protocol):
    """A stream of uniform random bytes."""

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""


class SystemBits:
    """The operating system's CSPRNG."""

    def read(self, size: int) -> bytes:
        """Return ``size`` fresh bytes of `os.urandom`."""
        return os.urandom(size)


class KeyedBits:
    """The bytes of SHAKE-256 keyed by a secret: a function of (secret, context), else unpredictable.

    Block i of 4 KiB is SHAKE-256("streamsketch.noise" ‖ secret ‖ SHA-512(context) ‖ i), i as 8 bytes little-endian.

    Parameters
    ----------
    secret
        32 bytes from the operating system's CSPRNG. Whoever knows it can subtract the noise.
    context
        Everything that makes a release different from another: contents included, so that changed input
        gets independent noise.
    """

    _BLOCK = 1 << 12

    def __init__(self, secret: bytes, context: bytes) -> None:
        if len(secret) != 32:
            raise InvalidInputError(f"a noise secret must be 32 bytes, got {len(secret)}; use secrets.token_bytes(32)")
        self._prefix = b"streamsketch.noise" + secret + hashlib.sha512(context).digest()
        self._block = 0
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes of the stream."""
        parts = [self._rest]
        missing = size - len(self._rest)
        while missing > 0:
            parts.append(hashlib.shake_256(self._prefix + self._block.to_bytes(8, "little")).digest(self._BLOCK))
            self._block += 1
            missing -= self._BLOCK
        joined = b"".join(parts)
        self._rest = joined[size:]
        return joined[:size]

    def __reduce__(self) -> Any:
        raise TypeError("a KeyedBits holds a secret and a position; pickle the secret where it is safe instead")


def check_laplace(scale: Fraction) -> None:
    """Raise `InvalidInputError` unless the sampler can take this scale."""
    if not 0 < scale <= MAX_LAPLACE_SCALE:
        raise InvalidInputError(_out_of_range("Laplace scale", scale, "(0", MAX_LAPLACE_SCALE))
    if max(scale.numerator.bit_length(), scale.denominator.bit_length()) > _MAX_RATIO_BITS:
        raise InvalidInputError(f"a Laplace scale must be a ratio of {_MAX_RATIO_BITS}-bit integers, got {scale}")


def check_gaussian(sigma_squared: Fraction) -> None:
    """Raise `InvalidInputError` unless the sampler can take this variance."""
    if not MIN_SIGMA_SQUARED <= sigma_squared <= MAX_SIGMA_SQUARED:
        raise InvalidInputError(_out_of_range("Gaussian variance", sigma_squared, "[1/2", MAX_SIGMA_SQUARED))
    if sigma_squared.numerator.bit_length() > _MAX_RATIO_BITS + 1 or sigma_squared.denominator > 1 << 8:
        raise InvalidInputError(
            f"a Gaussian variance must be a ratio of a 48-bit and an 8-bit integer, got {sigma_squared}"
        )


def _out_of_range(what: str, value: Fraction, low: str, limit: int) -> str:
    about = f"about 2^{value.numerator.bit_length() - value.denominator.bit_length()}" if value > 0 else str(value)
    return (
        f"the noise would have a {what} of {about} grid steps, outside {low}, {limit}]. Where it is too wide, use a "
        f"coarser resolution: a grid far finer than the noise gains nothing"
    )


def discrete_laplace(scale: Fraction, size: int, bits: BitSource) -> Ints:
    """Draw ``size`` exact samples of P(n) ∝ exp(-|n| / scale): int64, (size,)."""
    check_laplace(scale)

    def fill(out: Ints, buffer: Bytes) -> tuple[int, int]:
        return _laplace_samples(out, buffer, scale.numerator, scale.denominator)

    return _draw(fill, size, bits)


def discrete_gaussian(sigma_squared: Fraction, size: int, bits: BitSource) -> Ints:
    """Draw ``size`` exact samples of P(n) ∝ exp(-n² / 2σ²): int64, (size,)."""
    check_gaussian(sigma_squared)
    # The proposal is a discrete Laplace of scale σ²/centre, for any whole centre; near σ it is accepted most.
    centre = max(1, round(float(sigma_squared) ** 0.5))
    proposal = sigma_squared / centre
    # far² · denominator ≤ 2^62 keeps the kernel in 64 bits, and far > 2^5.5 σ as the numerator is ≤ 2^49
    far = (1 << 31) >> -(-(sigma_squared.denominator - 1).bit_length() // 2)

    def fill(out: Ints, buffer: Bytes) -> tuple[int, int]:
        return _gaussian_samples(
            out,
            buffer,
            sigma_squared.numerator,
            sigma_squared.denominator,
            centre,
            far,
            proposal.numerator,
            proposal.denominator,
        )

    return _draw(fill, size, bits)


def _draw(fill: Callable[[Ints, Bytes], tuple[int, int]], size: int, bits: BitSource) -> Ints:
    """Fill an array of samples, reading more bytes as the sampler runs out of them.

    A sample cut off by the end of the buffer starts again from its own first byte, with fresh ones behind:
    drawing it anew from fresh bytes alone would favour samples that need few.
    """
    out = np.empty(size, dtype=np.int64)
    done, rest = 0, b""
    while done < size:
        request = min(_MAX_REQUEST, _BYTES_PER_SAMPLE * (size - done) + 64)
        rest += bits.read(request)
        buffer = np.frombuffer(rest, dtype=np.uint8)
        drawn, used = fill(out[done:], buffer)
        done += drawn
        rest = rest[used:]
    return out


# The kernels read bytes from ``buffer`` at a position and return the new position, or -1 when the buffer ends.


@kernel
def _bernoulli(numerator: int, denominator: int, buffer: Bytes, at: int) -> tuple[int, int]:
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
def _bernoulli_exp_fraction(numerator: int, denominator: int, buffer: Bytes, at: int) -> tuple[int, int]:
    """Return (bit, position), bit = 1 with probability exp(-numerator/denominator), a fraction in [0, 1].

    CKS Algorithm 1: with K the first k at which Bernoulli(fraction/k) fails, P(K odd) = exp(-fraction).
    Bernoulli(fraction/k) is drawn as Bernoulli(1/k) and Bernoulli(fraction), so no product can overflow.
    """
    k = 1
    while True:
        bit, at = _bernoulli(1, k, buffer, at)
        if at >= 0 and bit == 1:
            bit, at = _bernoulli(numerator, denominator, buffer, at)
        if at < 0:
            return 0, -1
        if bit == 0:
            return k & 1, at
        k += 1


@kernel
def _uniform(limit: int, buffer: Bytes, at: int) -> tuple[int, int]:
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


@kernel
def _geometric(buffer: Bytes, at: int) -> tuple[int, int]:
    """Return (rounds, position): how often in a row Bernoulli(1/e) says 1."""
    rounds = 0
    while True:
        bit, at = _bernoulli_exp_fraction(1, 1, buffer, at)
        if at < 0:
            return 0, -1
        if bit == 0:
            return rounds, at
        rounds += 1


@kernel
def _laplace(numerator: int, denominator: int, buffer: Bytes, at: int) -> tuple[int, int]:
    """Return (sample, position) of discrete Laplace noise of scale numerator/denominator (CKS Algorithm 2)."""
    while True:
        remainder, at = _uniform(numerator, buffer, at)
        if at < 0:
            return 0, -1
        bit, at = _bernoulli_exp_fraction(remainder, numerator, buffer, at)
        if at < 0:
            return 0, -1
        if bit == 0:
            continue
        rounds, at = _geometric(buffer, at)
        if at < 0:
            return 0, -1
        if at >= buffer.size:
            return 0, -1
        negative = buffer[at] & 1
        at += 1
        # numerator < 2^48: a product of 2^63 would take 2^15 rounds, which is e^-32768 away
        magnitude = (remainder + numerator * rounds) // denominator
        if negative:
            if magnitude == 0:
                continue  # zero has one sign only
            return -magnitude, at
        return magnitude, at


@kernel
def _laplace_samples(out: Ints, buffer: Bytes, numerator: int, denominator: int) -> tuple[int, int]:
    """Fill ``out`` while bytes last; return (samples drawn, bytes they used)."""
    used = 0
    for i in range(out.size):
        sample, at = _laplace(numerator, denominator, buffer, used)
        if at < 0:
            return i, used
        out[i] = sample
        used = at
    return out.size, used


@kernel
def _gaussian_samples(
    out: Ints,
    buffer: Bytes,
    variance_numerator: int,
    variance_denominator: int,
    centre: int,
    far: int,
    numerator: int,
    denominator: int,
) -> tuple[int, int]:
    """Fill ``out`` with discrete Gaussians while bytes last; return (samples drawn, bytes they used).

    CKS Algorithm 3 with a proposal of scale σ²/centre: accept y with probability exp(-(|y| - centre)²/2σ²).
    ``far``² times the variance's denominator is at most 2^62.
    """
    used = 0
    for i in range(out.size):
        at = used
        while True:
            sample, at = _laplace(numerator, denominator, buffer, at)
            if at < 0:
                return i, used
            distance = abs(abs(sample) - centre)
            if distance >= far:  # would be accepted with probability below e^-1000
                continue
            exponent = distance * distance * variance_denominator
            whole = exponent // (2 * variance_numerator)
            bit = 1
            while whole > 0 and bit == 1:
                bit, at = _bernoulli_exp_fraction(1, 1, buffer, at)
                if at < 0:
                    return i, used
                whole -= 1
            if bit == 1:
                bit, at = _bernoulli_exp_fraction(
                    exponent % (2 * variance_numerator), 2 * variance_numerator, buffer, at
                )
                if at < 0:
                    return i, used
            if bit == 1:
                break
        out[i] = sample
        used = at
    return out.size, used
