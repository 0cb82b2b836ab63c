"""Randomised response in integers: probabilities as numbers of 64-bit words, rounded in favour of privacy."""

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from streamsketch.kernels.hashing import Words

_WORDS = 1 << 64
# not the caller's context, whose precision would affect the guarantee; e^256 has 112 digits before the point
_CONTEXT = Context(
    prec=150, rounding=ROUND_HALF_EVEN, Emin=-9999, Emax=9999, traps=[InvalidOperation, DivisionByZero, Overflow]
)


def flipping_words(epsilon: Fraction) -> int:
    """Return ⌈2^64 / (e^ε + 1)⌉, the number of words that flip a bit, so keeping is at most e^ε times as likely."""
    with localcontext(_CONTEXT):
        return math.ceil(_WORDS / (_exp(epsilon) + 1))


def telling_words(epsilon: Fraction, choices: int) -> int:
    """Return the number w of words that select the true answer in randomised response among m = ``choices``.

    The answer is true with probability w/2^64 and otherwise uniform, so the true answer is 1 + m·w/(2^64 - w) times as
    likely as another. This is at most e^ε for w = ⌊2^64 (e^ε - 1)/(e^ε - 1 + m)⌋.
    """
    with localcontext(_CONTEXT):
        odds = _exp(epsilon) - 1
        return math.floor(_WORDS * odds / (odds + choices))


def share(words: int) -> float:
    """Return the probability of ``words`` of the 2^64 words."""
    return words / _WORDS


def _exp(epsilon: Fraction) -> Decimal:
    return (Decimal(epsilon.numerator) / epsilon.denominator).exp()


def below(drawn: Words, words: int) -> NDArray[np.bool_]:
    """Return which of the drawn words are among the first ``words``, 1 to 2^64: bool, of the same shape."""
    return np.asarray(drawn <= np.uint64(words - 1))
