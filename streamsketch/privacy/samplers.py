"""Exact samplers for discrete noise: integers and fair bits only.

Every probability is proportional to the exponential of an exact rational, and is decided by comparing as many of its
digits with uniform random bytes as it takes (`streamsketch.privacy.inverse_sampler`): no floating point, and no tail
cut.

Bits come from a `BitSource`. Releases use `SystemBits`, the operating system's CSPRNG. `KeyedBits` is for
pipelines that may retry a bundle: the same secret and context give the same noise, so a retry publishes
nothing new. `SystemBits` keeps no buffer, so nothing survives a fork or a pickle; a `KeyedBits` is a position in a
stream, made for one release and refused by pickle.
"""

import functools
import hashlib
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from streamsketch.core.numbers import Ints
from streamsketch.errors import InvalidInputError, NoiseTooWideError
from streamsketch.privacy.exact_coins import Bytes
from streamsketch.privacy.inverse_sampler import Table
from streamsketch.privacy.probability_digits import Shape

MAX_LAPLACE_SCALE = 1 << 32
MIN_SIGMA_SQUARED = Fraction(1, 2)  # calibration asks for more
MAX_SIGMA_SQUARED = 1 << 48

_MAX_RATIO_BITS = 48
_MAX_REQUEST = 1 << 22
_KEPT_TABLES = 16  # of at most 140 kB


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

    Block i of 4 KiB is SHAKE-256("streamsketch.noise.3" ‖ secret ‖ SHA-512(context) ‖ i), i as 8 bytes little-endian.
    The 3 is the version of the samplers: the same bytes read by samplers of two versions would reveal more than two
    releases do.

    Parameters
    ----------
    secret
        32 bytes from the operating system's CSPRNG. Whoever knows it can subtract the noise.
    context
        Everything that makes a release different from another: contents included, so that changed input
        gets independent noise.
    """

    _BLOCK = 1 << 12
    _SPARE = 64  # for the id of a release, which is read after its noise

    def __init__(self, secret: bytes, context: bytes) -> None:
        if len(secret) != 32:
            raise InvalidInputError(f"a noise secret must be 32 bytes, got {len(secret)}; use secrets.token_bytes(32)")
        self._prefix = b"streamsketch.noise.3" + secret + hashlib.sha512(context).digest()
        self._block, self._at = 0, 0
        self._held = b""  # the beginning of the block

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes of the stream."""
        parts: list[bytes] = []
        while size > 0:
            end = min(self._at + size, self._BLOCK)
            if end > len(self._held):
                self._squeeze(min(max(end + self._SPARE, 2 * len(self._held)), self._BLOCK))
            parts.append(self._held[self._at : end])
            size -= end - self._at
            self._at = end
            if end == self._BLOCK:
                self._block, self._at, self._held = self._block + 1, 0, b""
        return b"".join(parts)

    def _squeeze(self, size: int) -> None:
        """Compute the beginning of the block: a shorter digest is the beginning of a longer one, in less time."""
        self._held = hashlib.shake_256(self._prefix + self._block.to_bytes(8, "little")).digest(size)

    def __reduce__(self) -> Any:
        raise TypeError("a KeyedBits holds a secret and a position; pickle the secret where it is safe instead")


def check_laplace(scale: Fraction) -> None:
    """Raise `InvalidInputError` unless the sampler can take this scale."""
    if not 0 < scale <= MAX_LAPLACE_SCALE:
        raise _out_of_range("Laplace scale", scale, "(0", MAX_LAPLACE_SCALE)
    if max(scale.numerator.bit_length(), scale.denominator.bit_length()) > _MAX_RATIO_BITS:
        raise InvalidInputError(f"a Laplace scale must be a ratio of {_MAX_RATIO_BITS}-bit integers, got {scale}")


def check_gaussian(sigma_squared: Fraction) -> None:
    """Raise `InvalidInputError` unless the sampler can take this variance."""
    if not MIN_SIGMA_SQUARED <= sigma_squared <= MAX_SIGMA_SQUARED:
        raise _out_of_range("Gaussian variance", sigma_squared, "[1/2", MAX_SIGMA_SQUARED)
    if sigma_squared.numerator.bit_length() > _MAX_RATIO_BITS + 1 or sigma_squared.denominator > 1 << 8:
        raise InvalidInputError(
            f"a Gaussian variance must be a ratio of a 48-bit and an 8-bit integer, got {sigma_squared}"
        )


def _out_of_range(what: str, value: Fraction, low: str, limit: int) -> InvalidInputError:
    about = f"about 2^{value.numerator.bit_length() - value.denominator.bit_length()}" if value > 0 else str(value)
    kind = NoiseTooWideError if value > limit else InvalidInputError
    return kind(
        f"the noise would have a {what} of {about} grid steps, outside {low}, {limit}]. If it is too wide, use a "
        "coarser resolution: a grid far finer than the noise gains nothing"
    )


def discrete_laplace(scale: Fraction, size: int, bits: BitSource) -> Ints:
    """Draw ``size`` exact samples of P(n) ∝ exp(-|n| / scale): int64, (size,)."""
    table = laplace_table(scale)
    return draw(table.fill, size, bits, table.bytes_for)


def discrete_gaussian(sigma_squared: Fraction, size: int, bits: BitSource) -> Ints:
    """Draw ``size`` exact samples of P(n) ∝ exp(-n² / 2σ²): int64, (size,)."""
    table = gaussian_table(sigma_squared)
    return draw(table.fill, size, bits, table.bytes_for)


@functools.lru_cache(maxsize=_KEPT_TABLES)
def laplace_table(scale: Fraction) -> Table:
    """Return the table of blocks of P(n) ∝ exp(-|n| / scale)."""
    check_laplace(scale)
    # blocks of 1/16 to 1/8 of the scale: at most 710 within 32 bits, and at most 1/16 of the coins fall on tails
    shift = max(0, int(scale / 8).bit_length() - 1)
    return Table(Shape(1, scale.numerator, scale.denominator, shift))


@functools.lru_cache(maxsize=_KEPT_TABLES)
def gaussian_table(sigma_squared: Fraction) -> Table:
    """Return the table of blocks of P(n) ∝ exp(-n² / (2 σ²))."""
    check_gaussian(sigma_squared)
    # blocks of 1/64 to 1/32 of σ: at most 860 within 32 bits, and at most 1/75 of the coins fall on tails
    shift = max(0, (int(sigma_squared / 1024).bit_length() - 1) // 2)
    return Table(Shape(2, 2 * sigma_squared.numerator, sigma_squared.denominator, shift))


def draw(
    fill: Callable[[Ints, Bytes], tuple[int, int]], size: int, bits: BitSource, bytes_for: Callable[[int], int]
) -> Ints:
    """Fill an array of samples, reading more bytes as the sampler runs out of them.

    A sample cut off by the end of the buffer starts again from its own first byte, with fresh ones behind:
    drawing it anew from fresh bytes alone would favour samples that need few.
    """
    out = np.empty(size, dtype=np.int64)
    done, rest = 0, b""
    while done < size:
        request = min(_MAX_REQUEST, bytes_for(size - done))
        rest += bits.read(request)
        buffer = np.frombuffer(rest, dtype=np.uint8)
        drawn, used = fill(out[done:], buffer)
        done += drawn
        rest = rest[used:]
    return out
