"""Exact samplers for discrete noise: integers and fair bits only.

Every probability is proportional to the exponential of an exact rational, and is decided by comparing as many of its
digits with uniform random bytes as it takes: no floating point, and no tail cut. One word is enough mostly.

A round reads words until they have drawn a block of integers (`streamsketch.privacy.probability_digits`), then the low
bits, then a coin of probability exp(-exponent) over that of the block's anchor: heads, and the integer is drawn; tails,
or words that draw nothing, and another round follows. So P(n) is proportional to exp(-exponent(n)), exactly (Theory
3.2). The kernel knows the first two words of a round. The rare round that needs a third, fewer than 3 in 10^7, is read
again from its first byte by `Table.round`, with as many digits as it takes.

Bits come from a `BitSource`. Releases use `SystemBits`, the operating system's CSPRNG. `KeyedBits` is for
pipelines that may retry a bundle: the same secret and context give the same noise, so a retry publishes
nothing new. `SystemBits` keeps no buffer, so nothing survives a fork or a pickle; a `KeyedBits` is a position in a
stream, made for one release and refused by pickle.
"""

import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import kernel, part
from streamsketch.core.numbers import Ints
from streamsketch.errors import InvalidInputError, NoiseTooWideError
from streamsketch.privacy.exact_coins import Bytes, exp_coin, exp_fraction
from streamsketch.privacy.probability_digits import WORD_BITS, Shape, digits, weighted

MAX_LAPLACE_SCALE = 1 << 32
MIN_SIGMA_SQUARED = Fraction(1, 2)  # calibration asks for more
MAX_SIGMA_SQUARED = 1 << 48

_WORD_BYTES = WORD_BITS // 8
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

    __slots__ = ("_at", "_block", "_held", "_prefix")

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


# --- rounds -------------------------------------------------------------------------------------------------------


class _Words(NamedTuple):
    """The two levels that the kernel knows."""

    first: NDArray[np.int16]
    """The block that a first word draws; words beyond draw none by themselves."""
    rest: int
    """How many of those go on to a second word, if there are as many."""
    second: Ints
    """Cumulative counts of second words, from block ``lowest`` on."""
    lowest: int
    second_rest: int
    """How many second words beyond go on to a third, if there are as many."""


class Table:
    """What rounds of one distribution need.

    Parameters
    ----------
    shape
        The distribution.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.c, one_word = weighted(shape)
        two_words = digits(shape, self.c, 2)
        blocks = np.arange(one_word.lowest, one_word.lowest + len(one_word.counts), dtype=np.int16)
        first, second = np.repeat(blocks, one_word.counts), np.cumsum(two_words.counts, dtype=np.int64)
        self.words = _Words(first, one_word.rest, second, two_words.lowest, two_words.rest)

    @property
    def numbers(self) -> tuple[Any, ...]:
        """What `draw_rounds` takes."""
        shape = self.shape
        return (*self.words, shape.shift, self.low_bytes, shape.power, shape.numerator, shape.denominator)

    @property
    def low_bytes(self) -> int:
        """How many bytes the low bits take."""
        return -(-self.shape.shift // 8)

    def bytes_for(self, size: int) -> int:
        """Return about how many bytes so many draws take, and some more."""
        if self.shape.shift == 0:
            return size * _WORD_BYTES * 33 // 32 + 32
        return size * (_WORD_BYTES + self.low_bytes + 1) * 9 // 8 + 32

    def fill(self, out: Ints, buffer: Bytes) -> tuple[int, int]:
        """Fill ``out`` while bytes last; return (draws, bytes of the rounds that came to their end)."""
        done, used = 0, 0
        while True:
            drawn, read, deep = draw_rounds(out[done:], buffer[used:], *self.numbers)
            done, used = done + drawn, used + read
            if not deep:
                return done, used
            n, at = self.round(buffer, used)
            if at < 0:
                return done, used
            used = at
            if n is not None:
                out[done] = n
                done += 1

    def round(self, buffer: Bytes, at: int) -> tuple[int | None, int]:
        """Return (integer drawn or None, position) of one round, -1 when the buffer ends: exact to any digit."""
        shape = self.shape
        block, at = self._block(buffer, at)
        if block is None or at < 0:
            return None, at
        if shape.shift == 0:
            return block, at
        end = at + self.low_bytes
        low = int.from_bytes(buffer[at:end].tobytes(), "big") & ((1 << shape.shift) - 1)
        n = (block << shape.shift) + low
        # 64 bits hold this and n but for integers that only words of level 2^27 or later draw
        exponent = (abs(n) ** shape.power - abs(shape.anchor(block)) ** shape.power) * shape.denominator
        heads, at = exp_coin(exponent, shape.numerator, buffer, end)
        return n if heads else None, at

    def _block(self, buffer: Bytes, at: int) -> tuple[int | None, int]:
        """Return (block or None, position) of the words of a round."""
        level, place = 0, 0
        while True:
            level += 1
            end = at + _WORD_BYTES
            if end > buffer.size:
                return None, -1
            place = (place << WORD_BITS) + int.from_bytes(buffer[at:end].tobytes(), "big")
            at = end
            here = digits(self.shape, self.c, level)
            for block, count in enumerate(here.counts, here.lowest):
                if place < count:
                    return block, at
                place -= count
            if place >= here.rest:
                return None, at


# --- draws --------------------------------------------------------------------------------------------------------


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
    if size:
        _fill(fill, out, bits.read(min(_MAX_REQUEST, bytes_for(size))), bits, bytes_for)
    return out


def draw_each(table: Table, size: int, sources: Sequence[BitSource]) -> Ints:
    """Draw ``size`` exact samples of each source: int64, (n, size). Each row has what `draw` draws of its source."""
    out = np.empty((len(sources), size), dtype=np.int64)
    request = min(_MAX_REQUEST, table.bytes_for(size))
    step = max(1, _MAX_REQUEST // request)
    for first in range(0, len(sources) if size else 0, step):
        some = sources[first : first + step]
        read = [bits.read(request) for bits in some]
        rows = out[first : first + step]
        whole = draw_rows(rows, np.frombuffer(b"".join(read), np.uint8).reshape(len(some), request), *table.numbers)
        for place in np.flatnonzero(~whole).tolist():  # again from its first byte: it needs a third word, or more bytes
            _fill(table.fill, rows[place], read[place], some[place], table.bytes_for)
    return out


def _fill(
    fill: Callable[[Ints, Bytes], tuple[int, int]],
    out: Ints,
    read: bytes,
    bits: BitSource,
    bytes_for: Callable[[int], int],
) -> None:
    """Fill ``out`` from bytes that were read, and from more where these run out."""
    done, used = fill(out, np.frombuffer(read, dtype=np.uint8))
    while done < out.size:
        read = read[used:] + bits.read(min(_MAX_REQUEST, bytes_for(out.size - done)))
        drawn, used = fill(out[done:], np.frombuffer(read, dtype=np.uint8))
        done += drawn


# --- kernels ------------------------------------------------------------------------------------------------------

_NOTHING, _BLOCK, _DEEPER, _ENDED = range(4)


@part
def _second(
    place: int, buffer: Bytes, at: int, rest: int, second: Ints, lowest: int, second_rest: int
) -> tuple[int, int, int]:
    """Return (what a second word draws, block, position), ``place`` that of the first behind all that draw a block."""
    if place >= rest:
        return _NOTHING, 0, at
    if at + 2 > buffer.size:
        return _ENDED, 0, at
    place = (place << 16) | (int(buffer[at]) << 8) | int(buffer[at + 1])  # < 2^32
    if place < second[-1]:
        return _BLOCK, lowest + int(np.searchsorted(second, place, side="right")), at + 2
    return (_DEEPER if place - second[-1] < second_rest else _NOTHING), 0, at + 2


@part
def _in_block(
    block: int, buffer: Bytes, at: int, shift: int, low_bytes: int, power: int, numerator: int, denominator: int
) -> tuple[int, int, int]:
    """Return (integer, whether it is drawn, position) of a block that two words can draw.

    Such blocks are within 24 scales or 7 σ, 2^37 or less, and an integer's exponent exceeds its anchor's by less than
    1/4: the coin's numerator is below its denominator, which is at most 2^50.
    """
    if at + low_bytes >= buffer.size:  # the coin takes a byte as well
        return 0, 0, -1
    low = 0
    for _ in range(low_bytes):
        low = (low << 8) | int(buffer[at])
        at += 1
    n = (block << shift) + (low & ((1 << shift) - 1))
    nearest = block << shift if block >= 0 else ((block + 1) << shift) - 1
    exponent = (abs(n) - abs(nearest)) * denominator
    if power == 2:
        exponent *= abs(n) + abs(nearest)
    if int(buffer[at]) * numerator > exponent << 8:  # above the first digit, where `exp_fraction` says 1
        return n, 1, at + 1
    heads, at = exp_fraction(exponent, numerator, buffer, at)
    return n, heads, at


@kernel
def draw_rounds(
    out: Ints,
    buffer: Bytes,
    first: NDArray[np.int16],
    rest: int,
    second: Ints,
    lowest: int,
    second_rest: int,
    shift: int,
    low_bytes: int,
    power: int,
    numerator: int,
    denominator: int,
) -> tuple[int, int, bool]:
    """Fill ``out`` by rounds while bytes last; return (draws, bytes used, whether the next round needs a third word).

    The buffer may end within a round, which then is not counted.
    """
    done, used = 0, 0
    while done < out.size:
        at = used + 2
        if at > buffer.size:
            break
        word = (int(buffer[used]) << 8) | int(buffer[used + 1])
        if word < first.size:
            outcome, block = _BLOCK, int(first[word])
        else:
            outcome, block, at = _second(word - first.size, buffer, at, rest, second, lowest, second_rest)
        if outcome >= _DEEPER:
            return done, used, outcome == _DEEPER
        n, heads = block, outcome
        if outcome == _BLOCK and shift > 0:
            n, heads, at = _in_block(block, buffer, at, shift, low_bytes, power, numerator, denominator)
            if at < 0:
                break
        used = at
        if heads == 1:
            out[done] = n
            done += 1
    return done, used, False


@kernel
def draw_rows(
    out: Ints,
    buffers: Bytes,
    first: NDArray[np.int16],
    rest: int,
    second: Ints,
    lowest: int,
    second_rest: int,
    shift: int,
    low_bytes: int,
    power: int,
    numerator: int,
    denominator: int,
) -> NDArray[np.bool_]:
    """Fill each row of ``out`` from its row of bytes by `draw_rounds`; return which are filled: bool, (n,)."""
    whole = np.empty(len(out), np.bool_)
    for row in range(len(out)):
        table = first, rest, second, lowest, second_rest, shift, low_bytes, power, numerator, denominator
        done, _, _ = draw_rounds(out[row], buffers[row], *table)
        whole[row] = done == out.shape[1]
    return whole
