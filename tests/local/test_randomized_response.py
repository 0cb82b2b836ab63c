"""Probabilities in words of 64 bits: towards privacy, and the caller's decimal context has no say."""

import decimal
from fractions import Fraction

import pytest

import streamsketch as ss
from streamsketch import local
from streamsketch.local import randomized_response


@pytest.mark.parametrize("epsilon", [Fraction(1, 1024), Fraction(1), Fraction(10003, 1000), Fraction(256)])
def test_the_callers_decimal_context_changes_nothing(epsilon: Fraction) -> None:
    def answers() -> list[float]:
        return [
            randomized_response.flipping_words(epsilon),
            randomized_response.telling_words(epsilon, 8),
            randomized_response.share(12_345),
        ]

    expected = answers()
    for context in (
        decimal.Context(prec=3),
        decimal.Context(rounding=decimal.ROUND_DOWN, Emax=2, Emin=-2),
        decimal.Context(traps=[decimal.Inexact]),
    ):
        with decimal.localcontext(context):
            assert answers() == expected
            assert local.CompPrivUnitG(dim=64, epsilon=0.1).squared_error > 0
            assert local.SQKR(dim=9, epsilon=4.0).squared_error > 0


def test_a_whole_number_beyond_floats_is_refused_with_a_sentence() -> None:
    with pytest.raises(ss.InvalidInputError, match="epsilon must be a number"):
        local.PrivUnitG(dim=4, epsilon=10**400)
