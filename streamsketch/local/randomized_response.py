"""Randomised response by integers: probabilities as numbers of 64-bit words, rounded towards privacy."""

import math
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from streamsketch.hashing import Words

_WORDS = Decimal(2) ** 64
_DIGITS = 150  # e^256 has 112 before the point


def words_at_least(epsilon: Decimal) -> int:
    """Return ⌈2^64 e^-ε⌉: how many of the 2^64 words to accept, for a probability of at least e^-ε."""
    with localcontext() as context:
        context.prec = _DIGITS
        return math.ceil(_WORDS * (-epsilon).exp())


def flipping_words(epsilon: Decimal) -> int:
    """Return ⌈2^64 / (e^ε + 1)⌉: how many words flip a bit, so that keeping is at most e^ε times as likely."""
    with localcontext() as context:
        context.prec = _DIGITS
        return math.ceil(_WORDS / (epsilon.exp() + 1))


def telling_words(epsilon: Decimal, choices: int) -> int:
    """Return how many words tell the truth in 2^k-ary randomised response, which else answers uniformly.

    With probability w/2^64 the truth, else any of the m = ``choices``: the truth is 1 + m·w/(2^64 - w) times as likely
    as another answer. That is at most e^ε for w = ⌊2^64 (e^ε - 1)/(e^ε - 1 + m)⌋.
    """
    with localcontext() as context:
        context.prec = _DIGITS
        odds = epsilon.exp() - 1
        return math.floor(_WORDS * odds / (odds + choices))


def share(words: int) -> float:
    """Return the probability of that many words."""
    return float(Decimal(words) / _WORDS)


def below(drawn: Words, words: int) -> NDArray[np.bool_]:
    """Return which of the drawn words are among the first ``words``, 1 to 2^64: of their shape."""
    return np.asarray(drawn <= np.uint64(words - 1))
