"""Public randomness of reports and secret Gaussians, against their twins, and their laws."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from streamsketch.local import random_words as streams
from tests.local.directions import bits
from tests.oracles import naive_local
from tests.oracles.sources import Given

pytestmark = pytest.mark.rejects(1e-6)


words64 = st.integers(0, 2**64 - 1)

# Written down once: the same bits on every machine.
PINNED = {
    0: "0x1.24f82aa55eb15p+3",
    1: "-0x1.24f82aa55eb15p+3",
    2**64 - 1: "-0x0.0p+0",
    0x0123456789ABCDEF: "-0x1.6c2133b144f55p+1",
    0x9E3779B97F4A7C15: "-0x1.fe9b1fba2575ep-2",
    1 << 40: "0x1.5ae1011c48ccdp+2",
}


def gaussians(words: list[int]) -> np.ndarray:
    out = np.empty(len(words))
    streams.standard_normals(np.array(words, dtype=np.uint64), out)
    return out


def test_pinned_gaussians_have_the_same_bits() -> None:
    assert {key: float(value).hex() for key, value in zip(PINNED, gaussians(list(PINNED)), strict=True)} == PINNED


@given(st.lists(words64, min_size=1, max_size=20))
def test_gaussians_are_the_quantiles(words: list[int]) -> None:
    for drawn, found in zip(words, gaussians(words), strict=True):
        assert found == pytest.approx(naive_local.gaussian(drawn), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("bit", range(1, 64))
def test_gaussians_are_right_to_the_last_digits_in_every_range(bit: int) -> None:
    half = (mpmath.mpf((1 << bit) >> 1) + 0.5) / mpmath.mpf(2) ** 64
    found = mpmath.mpf(float(gaussians([1 << bit])[0]))
    assert abs(mpmath.ncdf(-found) - half) / mpmath.npdf(found) < 2e-15 * max(1, found)


def test_gaussians_are_gaussian() -> None:
    """Kolmogorov-Smirnov at p > 1e-6, and the first four moments within 5 standard errors."""
    sample = np.empty(1 << 18)
    streams.standard_normals(streams.secret_words(bits("gaussians"), sample.size), sample)
    assert stats.kstest(sample, "norm").pvalue > 1e-6
    for power, (moment, variance) in enumerate(((0, 1), (1, 2), (0, 15), (3, 96)), start=1):
        assert abs((sample**power).mean() - moment) < 5 * math.sqrt(variance / sample.size)


def test_uniforms_stay_inside_the_open_interval() -> None:
    ends = streams.uniforms(np.array([0, 2**64 - 1], dtype=np.uint64))
    assert 0 < ends[0] < 1e-15
    assert 1 - 1e-15 < ends[1] < 1


def test_secret_words_are_read_whole_from_a_source_that_gives_few_bytes() -> None:
    assert streams.secret_words(Given(bytes(range(40)), 3), 5).astype("<u8").tobytes() == bytes(range(40))


@given(words64, words64, st.integers(0, 10**9))
def test_streams_are_their_twins(seed: int, salted: int, index: int) -> None:
    found = streams.streams_of(np.array([seed], dtype=np.uint64), np.uint64(salted))
    assert int(found[0]) == naive_local.start(seed, salted)
    assert int(streams.word(found[0], index)) == naive_local.word(int(found[0]), index)


def test_vectors_of_overlapping_streams_share_nothing() -> None:
    """The stream that starts one word later is the same but for its ends; the vectors it means are not."""
    salted = streams.salt(1, "overlap")
    begin = naive_local.start(12345, int(salted))
    later = naive_local.seed_of((begin + 0x9E3779B97F4A7C15) % 2**64, int(salted))
    one, other = np.empty((2, 50))
    for seed, out in ((12345, one), (later, other)):
        streams.gaussian_vector(np.uint64(seed), salted, np.empty(50, dtype=np.uint64), out)
    starts = streams.streams_of(np.array([12345, later], dtype=np.uint64), salted)
    assert [int(streams.word(starts[0], i + 1)) for i in range(9)] == [
        int(streams.word(starts[1], i)) for i in range(9)
    ]
    assert not set(one.tolist()) & set(other.tolist())
    assert one == pytest.approx(naive_local.vector(12345, int(salted), 50), abs=1e-14)


def test_salts_are_their_twins_and_differ_by_use() -> None:
    assert int(streams.salt(7, "use")) == naive_local.salt(7, "use")
    assert len({int(streams.salt(seed, use)) for seed in (1, 2) for use in ("a", "b")}) == 4


@given(words64, st.integers(1, 300).flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size))))
def test_rows_are_their_twins_and_distinct(begin: int, shape: tuple[int, int]) -> None:
    size, count = shape
    taken, found = np.zeros(size, dtype=np.uint8), np.empty(count, dtype=np.int64)
    streams.sample_rows(np.uint64(begin), size, taken, found)
    assert found.tolist() == naive_local.rows(begin, size, count)
    assert len(set(found.tolist())) == count
    assert not taken.any()


def test_every_set_of_rows_is_as_likely_as_any_other() -> None:
    """χ² of the 35 sets of 3 out of 7, at p > 1e-6."""
    counts: dict[tuple[int, ...], int] = {}
    taken, found = np.zeros(7, dtype=np.uint8), np.empty(3, dtype=np.int64)
    for begin in streams.streams_of(np.arange(7000, dtype=np.uint64), streams.salt(1, "rows")):
        streams.sample_rows(begin, 7, taken, found)
        chosen = tuple(sorted(found.tolist()))
        counts[chosen] = counts.get(chosen, 0) + 1
    assert len(counts) == 35
    assert stats.chisquare(list(counts.values())).pvalue > 1e-6


@pytest.mark.parametrize("size", [1, 63, 64, 65, 200])
def test_signs_are_their_twins(size: int) -> None:
    out = np.empty(size)
    streams.copy_signed(np.uint64(99), np.full(size, 2.0), out)
    assert out.tolist() == [2.0 * naive_local.sign(99, j) for j in range(size)]
