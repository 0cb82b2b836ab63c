"""Exact flips: the kernel makes the bits of its twin, with exactly the chances of the law."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import streamsketch as ss
from streamsketch.privacy import flip_sampler
from streamsketch.privacy.flip_sampler import flip_exactly, flips
from streamsketch.privacy.sign_flips import check_rate, rate_below
from tests.noise import salted_bits
from tests.oracles import naive_signs
from tests.oracles.naive_noise import Tape, TapeEndError
from tests.oracles.sources import Given

pytestmark = pytest.mark.rejects(2e-6)


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


LEVELS = [0, 1, 2, 3, 1000, 1 << 21, (1 << 63) - 1]
EVERY_RATE = [*RATES, Fraction(1, 1 << 52), Fraction(3, 1 << 30), Fraction(1 << 32)]
EACH = pytest.mark.parametrize("rate", EVERY_RATE, ids=str)


def bits_of(words: list[bytes], level: int, rate: Fraction) -> list[int]:
    """Return what each word makes of a sign of this level, with bytes behind it that decide nothing else."""
    found = []
    for word in words:
        given = Given(word + bytes(400))
        found.append(int(flips(np.array([level], dtype=np.int64), rate, given)[0]))
    return found


@EACH
def test_of_all_first_bytes_as_many_flip_as_the_law_says(rate: Fraction) -> None:
    """All 256: those below the chance's first digit flip, those above it keep."""
    for level in LEVELS:
        first = naive_signs.chance_digits(level, rate)[0]
        found = bits_of([bytes([byte]) for byte in range(256)], level, rate)
        assert found[:first] == [1] * first
        assert found[first + 1 :] == [0] * (255 - first)
        assert level or found[first] == 0


@EACH
@pytest.mark.parametrize("digits", [2, 4, 5, 9, 40])
def test_what_the_first_byte_leaves_open_the_next_ones_decide(rate: Fraction, digits: int) -> None:
    """Numbers just below and above the chance: by one unit of their last byte, and by some."""
    for level in LEVELS[1:]:
        exact = int.from_bytes(bytes(naive_signs.chance_digits(level, rate)[:digits]), "big")
        gaps = sorted({-300, -2, -1, 1, 2, 300} if digits > 2 else {-1, 1})
        near = {gap: exact + gap for gap in gaps if 0 <= exact + gap < 256**digits}
        words = [word.to_bytes(digits, "big") for word in near.values()]
        assert bits_of(words, level, rate) == [int(gap < 0) for gap in near]


def test_signs_that_read_on_leave_the_next_ones_their_bytes() -> None:
    rate, levels = Fraction(3, 8), [1, 2, 1, 0, 5]
    data = b"".join(
        bytes([*naive_signs.chance_digits(level, rate)[:more], 0])
        for level, more in zip(levels, (4, 0, 7, 1, 5), strict=True)
    )
    data += bytes(range(1, 120))
    tape = Tape(data)
    wanted = [naive_signs.flip(level, rate, tape) for level in levels]
    given = Given(data, 1)
    assert flips(np.array(levels, dtype=np.int64), rate, given).tolist() == wanted
    assert given.at == tape.at, "one byte at a time, none is read too many"


def test_thresholds_are_the_floors_of_quantiles() -> None:
    """The least exponent behind a threshold is beyond the quantile, and the threshold is not: one off would show."""
    surely, maybe = flip_sampler.thresholds()
    unit = mpmath.mpf(2) ** -52
    for m in range(1, 129):
        limit = int(surely[m - 1])
        assert m == 128 or limit == maybe[m]
        assert mpmath.exp(limit * unit) <= mpmath.mpf(256 - m) / m < mpmath.exp((limit + 1) * unit)
    assert maybe[0] == 1 << 62
    assert set(surely[128:]) == set(maybe[128:]) == {-1}


def test_too_few_bits_of_logarithms_are_doubled_until_they_decide() -> None:
    assert flip_sampler.quantiles(guard=1) == flip_sampler.quantiles()


@pytest.mark.parametrize("changed", [-400, 400])
def test_the_same_check_sees_factors_that_are_a_little_off(changed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    factors = flip_sampler.factor_table() + changed
    monkeypatch.setattr(flip_sampler, "factor_table", lambda: factors)
    with pytest.raises(AssertionError):
        test_what_the_first_byte_leaves_open_the_next_ones_decide(Fraction(3, 8), 4)


def test_the_exact_comparison_takes_as_many_bytes_as_decide() -> None:
    for level, rate in ((1, Fraction(3, 8)), (7, Fraction(1)), (0, Fraction(1))):
        digits = bytes(naive_signs.chance_digits(level, rate)[:60])
        for more in (4, 30, 59):
            for last in (0, 255):
                data = np.frombuffer(digits[:more] + bytes([last]), dtype=np.uint8)
                tape = Tape(data.tobytes())
                try:
                    assert flip_exactly(rate * level, data, 0) == (naive_signs.flip(level, rate, tape), max(4, tape.at))
                except TapeEndError:
                    assert flip_exactly(rate * level, data, 0) == (0, -1)


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("level", [0, 1, 2, 5])
def test_flips_are_as_frequent_as_the_law_says(rate: Fraction, level: int) -> None:
    """False rejects: 20 cases at 1e-7."""
    size = 60_000
    found = flips(np.full(size, level, dtype=np.int64), rate, salted_bits(f"{rate}/{level}".encode(), SECRET))
    chance = float(naive_signs.flip_chance(level, rate))
    assert stats.binomtest(int(found.sum()), size, chance).pvalue > FALSE_REJECTS


def test_the_same_check_sees_flips_two_percent_too_rare() -> None:
    found = flips(np.ones(1_000_000, dtype=np.int64), Fraction(3, 8), salted_bits(b"rare", SECRET))
    wrong = 0.98 * float(naive_signs.flip_chance(1, Fraction(3, 8)))
    assert stats.binomtest(int(found.sum()), found.size, wrong).pvalue < FALSE_REJECTS


def test_a_short_buffer_does_not_favour_short_samples() -> None:
    """One byte at a time: a draw cut off is replayed with more bytes, never dropped."""
    rate, size = Fraction(1, 2), 4_000
    found = flips(np.ones(size, dtype=np.int64), rate, Given(salted_bits(b"trickle", SECRET).read(1 << 20), 1))
    whole = flips(np.ones(size, dtype=np.int64), rate, salted_bits(b"trickle", SECRET))
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
