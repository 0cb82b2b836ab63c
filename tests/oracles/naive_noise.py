"""Slow, readable twins of the exact samplers, and exact laws of discrete noise.

The twins read the same bytes as the kernels of `streamsketch.privacy` and must make the same samples of them, one by
one. They know fractions, Python's integers and exponentials to 60 digits: nothing here can overflow or round.
"""

import bisect
import functools
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import mpmath
import numpy as np
from numpy.typing import NDArray

from streamsketch.privacy import samplers

mpmath.mp.dps = 60

ONE = Fraction(1)


class TapeEndError(Exception):
    """A twin asked for a byte behind the last one."""


class Tape:
    """Bytes to read one after the other, and how many were read."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise TapeEndError
        self.at += 1
        return self.data[self.at - 1]


# --- coins --------------------------------------------------------------------------------------------------


def bernoulli(probability: Fraction, tape: Tape) -> int:
    """Return 1 with the given probability: whether the tape's number 0.b1b2b3… (base 256) lies below it."""
    if probability >= 1:
        return 1
    rest = probability
    while True:
        rest *= 256
        digit = int(rest)
        rest -= digit
        drawn = tape.byte()
        if drawn != digit:
            return int(drawn < digit)
        if rest == 0:
            return 0


def bernoulli_exp(exponent: Fraction, tape: Tape) -> int:
    """Return 1 with probability exp(-exponent), exponent in [0, 1]."""
    k = 1
    while bernoulli(Fraction(1, k), tape) and bernoulli(exponent, tape):
        k += 1
    return k % 2


def uniform(limit: int, tape: Tape) -> int:
    """Return an integer uniform on [0, limit): whole bytes, cut to the bits that limit - 1 has, until one fits."""
    bits = (limit - 1).bit_length()
    while True:
        drawn = 0
        for _ in range(-(-bits // 8)):
            drawn = drawn * 256 + tape.byte()
        drawn %= 2**bits
        if drawn < limit:
            return drawn


# --- samplers (Theory 3.2) ----------------------------------------------------------------------------------


class Law(NamedTuple):
    """c·exp(-rate·|n|^power), in blocks of 2^shift integers."""

    power: int
    rate: Fraction
    shift: int
    c: int

    def exponent(self, n: int) -> Fraction:
        return abs(n) ** self.power * self.rate

    def anchor(self, block: int) -> int:
        """Return the integer of the block with the largest mass."""
        return min(block * 2**self.shift, (block + 1) * 2**self.shift - 1, key=abs)


@functools.cache
def laplace_law(scale: Fraction) -> Law:
    """Return the law P(n) ∝ exp(-|n| / scale), with the library's c."""
    shift = next(shift for shift in itertools.count() if 2 ** (shift + 1) > scale / 8)
    return Law(1, 1 / scale, shift, samplers.laplace_table(scale).c)


@functools.cache
def gaussian_law(sigma_squared: Fraction) -> Law:
    """Return the law P(n) ∝ exp(-n² / 2σ²), with the library's c."""
    shift = next(shift for shift in itertools.count() if 4 ** (shift + 1) > sigma_squared / 32**2)
    return Law(2, 1 / (2 * sigma_squared), shift, samplers.gaussian_table(sigma_squared).c)


def words_of(law: Law, block: int, level: int) -> int:
    """Return how many words of levels up to this one draw a block, in words of this level."""
    return int(mpmath.floor(mass_of(law, block) * 2 ** (16 * (level - 1))))


@functools.cache
def mass_of(law: Law, block: int) -> mpmath.mpf:
    """Return what draws a block, in words of the first level, to 60 digits."""
    return law.c * mpmath.exp(-as_mpf(law.exponent(law.anchor(block))))


@functools.cache
def level_of(law: Law, level: int) -> tuple[list[tuple[int, int]], int]:
    """Return (block, words of this level that draw it) from the least block on, and a bound on what is left of all."""
    blocks, bound = [], 0
    for side in (-1, 1):
        block = -1 if side < 0 else 0
        while words := words_of(law, block, level):
            blocks.append((block, words - 2**16 * words_of(law, block, level - 1) if level > 1 else words))
            bound += 1
            block += side
        steepness = law.exponent(law.anchor(block + side)) - law.exponent(law.anchor(block))
        bound += 1 + math.ceil(1 / steepness)
    return sorted(blocks), bound


@functools.cache
def ends_of(law: Law, level: int) -> list[int]:
    """Return how many words of this level draw each block of `level_of` or one before it."""
    return list(itertools.accumulate(count for _, count in level_of(law, level)[0])) or [0]


def one_round(law: Law, tape: Tape) -> int | None:
    """Return what a round draws: an integer, or nothing."""
    words, level, left = 0, 0, 1
    while True:
        level += 1
        words = words * 2**16 + tape.byte() * 256 + tape.byte()
        left *= 2**16
        ends = ends_of(law, level)
        place = bisect.bisect(ends, words)
        if place < len(ends):
            return _in_block(law, level_of(law, level)[0][place][0], tape)
        words, left = words - ends[-1], left - ends[-1]
        assert left >= 0
        left = min(left, level_of(law, level)[1])
        if words >= left:
            return None


def _in_block(law: Law, block: int, tape: Tape) -> int | None:
    if law.shift == 0:
        return block
    low = 0
    for _ in range(-(-law.shift // 8)):
        low = low * 256 + tape.byte()
    n = block * 2**law.shift + low % 2**law.shift
    exponent = law.exponent(n) - law.exponent(law.anchor(block))
    heads = all(bernoulli_exp(ONE, tape) for _ in range(int(exponent))) and bernoulli_exp(exponent % 1, tape)
    return n if heads else None


def laplace(scale: Fraction, tape: Tape) -> int | None:
    """Return what one round draws of P(n) ∝ exp(-|n| / scale)."""
    return one_round(laplace_law(scale), tape)


def gaussian(sigma_squared: Fraction, tape: Tape) -> int | None:
    """Return what one round draws of P(n) ∝ exp(-n² / 2σ²)."""
    return one_round(gaussian_law(sigma_squared), tape)


def complete_samples(draw: Callable[[Tape], int | None], data: bytes, limit: int) -> tuple[list[int], int]:
    """Return the samples (at most ``limit``) of the rounds that ``data`` holds in full, and their bytes' number."""
    tape, samples, used = Tape(data), [], 0
    while len(samples) < limit:
        try:
            sample = draw(tape)
        except TapeEndError:
            break
        used = tape.at
        if sample is not None:
            samples.append(sample)
    return samples, used


# --- exact laws ------------------------------------------------------------------------------------------------


def as_mpf(value: Fraction) -> mpmath.mpf:
    """Return a fraction to 60 digits."""
    return mpmath.mpf(value.numerator) / value.denominator


@functools.cache
def laplace_pmf(scale: Fraction, n: int) -> mpmath.mpf:
    """Return P(n) of the discrete Laplace law to 60 digits."""
    ratio = mpmath.exp(-1 / as_mpf(scale))
    return (1 - ratio) / (1 + ratio) * ratio ** abs(n)


@functools.cache
def _gaussian_normaliser(sigma_squared: Fraction) -> mpmath.mpf:
    variance = as_mpf(sigma_squared)
    reach = int(mpmath.sqrt(2 * variance * mpmath.mp.dps * mpmath.log(10))) + 2
    return mpmath.fsum(mpmath.exp(-(mpmath.mpf(n) ** 2) / (2 * variance)) for n in range(-reach, reach + 1))


@functools.cache
def gaussian_pmf(sigma_squared: Fraction, n: int) -> mpmath.mpf:
    """Return P(n) of the discrete Gaussian law to 60 digits; for small variances, as it sums directly."""
    return mpmath.exp(-(mpmath.mpf(n) ** 2) / (2 * as_mpf(sigma_squared))) / _gaussian_normaliser(sigma_squared)


def laplace_tail(scale: Fraction, n: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(sample ≥ n) of the discrete Laplace law for whole n ≥ 1, to double precision."""
    rate = 1 / float(scale)
    return np.exp(-rate * n) / (1 + np.exp(-rate))


def gaussian_masses(sigma_squared: Fraction) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the support of the discrete Gaussian law up to 12 σ, and its masses, to double precision."""
    reach = int(12 * float(sigma_squared) ** 0.5) + 12
    support = np.arange(-reach, reach + 1)
    masses = np.exp(-(support.astype(np.float64) ** 2) / (2 * float(sigma_squared)))
    return support, masses / masses.sum()


def lattice_delta(sigma_squared: Fraction, shift: tuple[int, ...], epsilon: float) -> float:
    """Return the exact δ at which N_Z(0, σ²) and its shift by v are ε-close (Theory 3).

    δ_v = P[T > εσ² - n/2] - e^ε P[T > εσ² + n/2] with T = ⟨v, Y⟩ and n = ‖v‖². Shifting the second tail onto the
    first turns it into Σ_t P(t) (1 - e^{ε - (t + n/2)/σ²}) over t > εσ² - n/2: positive terms, no cancellation.
    """
    support, masses = gaussian_masses(sigma_squared)
    law = np.ones(1)
    for entry in shift:
        spread = np.zeros((support.size - 1) * entry + 1)
        spread[::entry] = masses
        law = np.convolve(law, spread)
    total = np.arange(law.size) - law.size // 2
    loss = (total + sum(entry**2 for entry in shift) / 2) / float(sigma_squared)
    beyond = loss > epsilon
    return float(law[beyond] @ -np.expm1(epsilon - loss[beyond]))


def moments(pmf: Callable[[int], mpmath.mpf], reach: int) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Return the cumulants κ2 and κ4 of a symmetric law, summed over [-reach, reach]."""
    second = mpmath.fsum(2 * n**2 * pmf(n) for n in range(1, reach + 1))
    fourth = mpmath.fsum(2 * n**4 * pmf(n) for n in range(1, reach + 1))
    return second, fourth - 3 * second**2
