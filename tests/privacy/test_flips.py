"""Exact flips: the kernel makes the bits of its twin, with exactly the chances of the law."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import streamsketch as ss
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.privacy.sign_flips import check_rate, flips, rate_below
from tests.oracles import naive_signs
from tests.oracles.naive_noise import Tape, TapeEndError
from tests.oracles.sources import Given

SECRET = bytes(range(32))
FALSE_REJECTS = 1e-7
RATES = [Fraction(1, 1 << 20), Fraction(3, 8), Fraction(1), Fraction(14128181, 1 << 25), Fraction(40)]


@given(
    st.binary(min_size=400, max_size=400),
    st.lists(st.one_of(st.integers(0, 40), st.integers(0, (1 << 63) - 1)), min_size=1, max_size=12),
    st.sampled_from(RATES),
)
def test_flips_are_those_of_the_twin(data: bytes, levels: list[int], rate: Fraction) -> None:
    found = flips(np.array(levels, dtype=np.int64), rate, Given(data + bytes(1 << 16))).tolist()
    tape = Tape(data)
    for level, flipped in zip(levels, found, strict=True):
        try:
            assert naive_signs.flip(level, rate, tape) == flipped
        except TapeEndError:
            return


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("level", [0, 1, 2, 5])
def test_flips_are_as_frequent_as_the_law_says(rate: Fraction, level: int) -> None:
    """False rejects: 20 cases at 1e-7."""
    size = 60_000
    found = flips(np.full(size, level, dtype=np.int64), rate, KeyedBits(SECRET, f"{rate}/{level}".encode()))
    chance = float(naive_signs.flip_chance(level, rate))
    assert stats.binomtest(int(found.sum()), size, chance).pvalue > FALSE_REJECTS


def test_the_same_check_sees_flips_two_percent_too_rare() -> None:
    found = flips(np.ones(1_000_000, dtype=np.int64), Fraction(3, 8), KeyedBits(SECRET, b"rare"))
    wrong = 0.98 * float(naive_signs.flip_chance(1, Fraction(3, 8)))
    assert stats.binomtest(int(found.sum()), found.size, wrong).pvalue < FALSE_REJECTS


def test_a_short_buffer_does_not_favour_short_samples() -> None:
    """One byte at a time: a draw cut off is replayed with more bytes, never dropped."""
    rate, size = Fraction(1, 2), 20_000
    found = flips(np.ones(size, dtype=np.int64), rate, Given(KeyedBits(SECRET, b"trickle").read(1 << 20), 1))
    whole = flips(np.ones(size, dtype=np.int64), rate, KeyedBits(SECRET, b"trickle"))
    assert np.array_equal(found, whole)


@given(st.fractions(Fraction(1, 1 << 40), 1 << 20))
def test_rates_are_rounded_down_by_little(rate: Fraction) -> None:
    rounded = rate_below(rate)
    check_rate(rounded)
    assert rate * (1 - Fraction(1, 1 << 11)) < rounded <= rate


def test_rates_out_of_range_are_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match=r"below 2\^-52"):
        rate_below(Fraction(1, 1 << 53))
    for rate in (Fraction(0), Fraction(1, 3), Fraction(1 << 33), Fraction(1, 1 << 53), Fraction(-1)):
        with pytest.raises(ss.InvalidInputError, match="flip rate"):
            check_rate(rate)
    assert flips(np.zeros(0, dtype=np.int64), Fraction(1), Given(b"")).size == 0
