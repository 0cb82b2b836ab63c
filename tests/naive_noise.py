"""Slow, readable twins of the exact samplers, and exact laws of discrete noise.

The twins read the same bytes as the kernels of `streamsketch.privacy.samplers` and must make the same samples of
them, one by one. They know only fractions and Python's integers: nothing here can overflow or round.
"""

import functools
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
from numpy.typing import NDArray

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


# --- samplers (Canonne, Kamath and Steinke 2020, Algorithms 1 to 3) ----------------------------------------------


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


def laplace(scale: Fraction, tape: Tape) -> int:
    """Return one sample of P(n) ∝ exp(-|n| / scale)."""
    while True:
        below = uniform(scale.numerator, tape)
        if not bernoulli_exp(Fraction(below, scale.numerator), tape):
            continue
        rounds = 0
        while bernoulli_exp(ONE, tape):
            rounds += 1
        negative = tape.byte() % 2
        magnitude = (below + scale.numerator * rounds) // scale.denominator
        if negative and magnitude == 0:
            continue
        return -magnitude if negative else magnitude


def gaussian(sigma_squared: Fraction, tape: Tape) -> int:
    """Return one sample of P(n) ∝ exp(-n² / 2σ²)."""
    centre = max(1, round(float(sigma_squared) ** 0.5))
    while True:
        sample = laplace(sigma_squared / centre, tape)
        exponent = Fraction((abs(sample) - centre) ** 2) / (2 * sigma_squared)
        if not all(bernoulli_exp(ONE, tape) for _ in range(int(exponent))):
            continue
        if bernoulli_exp(exponent - int(exponent), tape):
            return sample


def complete_samples(draw: Callable[[Tape], int], data: bytes, limit: int) -> tuple[list[int], int]:
    """Return the samples (at most ``limit``) that ``data`` holds in full, and how many bytes those took."""
    tape, samples, used = Tape(data), [], 0
    while len(samples) < limit:
        try:
            samples.append(draw(tape))
        except TapeEndError:
            break
        used = tape.at
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
    """Return the exact δ at which N_Z(0, σ²) and its shift by v are ε-close (THEORY.md 3).

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
