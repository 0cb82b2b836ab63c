"""Randomised response by integers: probabilities as numbers of 64-bit words, rounded towards privacy."""

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import Words

_WORDS = 1 << 64
# Never the caller's context, whose digits and rounding would be the guarantee's. e^256 has 112 digits before the point.
_CONTEXT = Context(
    prec=150, rounding=ROUND_HALF_EVEN, Emin=-9999, Emax=9999, traps=[InvalidOperation, DivisionByZero, Overflow]
)


def flipping_words(epsilon: Fraction) -> int:
    """Return ⌈2^64 / (e^ε + 1)⌉: how many words flip a bit, so that keeping is at most e^ε times as likely."""
    with localcontext(_CONTEXT):
        return math.ceil(_WORDS / (_exp(epsilon) + 1))


def telling_words(epsilon: Fraction, choices: int) -> int:
    """Return how many words tell the truth in 2^k-ary randomised response, which else answers uniformly.

    With probability w/2^64 the truth, else any of the m = ``choices``: the truth is 1 + m·w/(2^64 - w) times as likely
    as another answer. That is at most e^ε for w = ⌊2^64 (e^ε - 1)/(e^ε - 1 + m)⌋.
    """
    with localcontext(_CONTEXT):
        odds = _exp(epsilon) - 1
        return math.floor(_WORDS * odds / (odds + choices))


def share(words: int) -> float:
    """Return the probability of that many words."""
    return words / _WORDS


def _exp(epsilon: Fraction) -> Decimal:
    return (Decimal(epsilon.numerator) / epsilon.denominator).exp()


def below(drawn: Words, words: int) -> NDArray[np.bool_]:
    """Return which of the drawn words are among the first ``words``, 1 to 2^64: of their shape."""
    return np.asarray(drawn <= np.uint64(words - 1))
