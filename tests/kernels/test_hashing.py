"""Public randomness: kernels equal their twins, and the family is uniform and t-wise independent, exactly."""

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from streamsketch.kernels import hashing
from tests.oracles import naive

FALSE_REJECT = 1e-6  # of each statistical test; seeds are fixed, so none of them is ever flaky

EXTREME_ELEMENTS = [0, 1, 2, 0x1B, 2**32 - 1, 2**32, 2**60, 2**63, 2**64 - 2, 2**64 - 1]
EXTREME_KEYS = [0, 1, 2, 3, 2**16, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**59, 2**60 - 2**32, 2**60 - 2, 2**60 - 1]

elements = st.sampled_from(EXTREME_ELEMENTS) | st.integers(0, 2**64 - 1)
wide_keys = st.sampled_from(EXTREME_KEYS) | st.integers(0, 2**60 - 1)


def evaluated(keys: Sequence[int], coefficients: Sequence[int]) -> list[int]:
    out = np.empty(len(keys), dtype=np.uint64)
    hashing.evaluate(np.array(keys, dtype=np.uint64), np.array(coefficients, dtype=np.uint64), out)
    return out.tolist()


# --- kernels and their twins --------------------------------------------------------------------------------


@given(st.lists(wide_keys, max_size=35), st.lists(elements, min_size=1, max_size=10))
def test_polynomials_equal_their_twin(keys: list[int], coefficients: list[int]) -> None:
    assert evaluated(keys, coefficients) == [naive.polynomial_at(key, coefficients) for key in keys]
    assert evaluated(keys, coefficients) == [hashing.polynomial_at(key, coefficients) for key in keys]


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 7, 8, 255])
def test_no_fold_loses_a_bit_at_the_extremes(degree: int) -> None:
    for coefficient in EXTREME_ELEMENTS:
        coefficients = [coefficient] * (degree + 1)
        assert evaluated(EXTREME_KEYS, coefficients) == [naive.polynomial_at(key, coefficients) for key in EXTREME_KEYS]


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 31, 32, 33])
def test_every_number_of_keys_is_hashed_and_no_more(count: int) -> None:
    coefficients = hashing.polynomials(7, "tile", 1, 5)[0]
    keys = np.arange(2**59, 2**59 + count, dtype=np.uint64)
    out = np.full(count + 20, 99, dtype=np.uint64)
    hashing.evaluate(keys, coefficients, out[:count])
    assert out[:count].tolist() == [naive.polynomial_at(key, coefficients.tolist()) for key in keys.tolist()]
    assert (out[count:] == 99).all()


@given(st.lists(st.tuples(elements, wide_keys), max_size=20), elements)
def test_added_products_equal_their_twin(pairs: list[tuple[int, int]], factor: int) -> None:
    total = np.array([start for start, _ in pairs], dtype=np.uint64)
    hashing.add_product(total, np.uint64(factor), np.array([key for _, key in pairs], dtype=np.uint64))
    assert total.tolist() == [start ^ naive.product(factor, key) for start, key in pairs]


def test_the_modulus_is_irreducible() -> None:
    """Rabin's test: x^(2^64) = x, and x^(2^32) - x has no factor in common with a modulus of degree 64."""
    power, powers = 2, []
    for _ in range(64):
        power = naive.product(power, power)
        powers.append(power)
    assert powers[63] == 2
    a, b = naive.MODULUS, powers[31] ^ 2
    while b:  # Euclid
        while a.bit_length() >= b.bit_length():
            a ^= b << a.bit_length() - b.bit_length()
        a, b = b, a
    assert a == 1


# --- field elements -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2024, 2**32, 2**64 - 1])
@pytest.mark.parametrize("label", ["sjlt-block", "count-sketch", "tuple/2", ""])
def test_field_elements_equal_their_twin(seed: int, label: str) -> None:
    assert hashing.field_elements(seed, label, 40) == naive.field_elements(seed, label, 40)


def test_field_elements_do_not_depend_on_how_many_are_asked_for() -> None:
    assert hashing.field_elements(5, "label", 100)[:7] == hashing.field_elements(5, "label", 7)


def test_seed_and_label_each_change_every_field_element() -> None:
    streams = [hashing.field_elements(seed, label, 50) for seed in (1, 2) for label in ("a", "b")]
    assert len({element for stream in streams for element in stream}) == 200


def test_polynomials_are_filled_with_field_elements_row_by_row() -> None:
    coefficients = hashing.polynomials(3, "label", words=4, independence=5)
    assert coefficients.shape == (4, 5)
    assert coefficients.ravel().tolist() == naive.field_elements(3, "label", 20)


def test_field_elements_are_uniform() -> None:
    drawn = np.array(hashing.field_elements(11, "uniformity", 40_000), dtype=np.uint64)
    for shift in (0, 29, 56):  # low, middle and top eight bits
        counts = np.bincount(((drawn >> np.uint64(shift)) & np.uint64(255)).astype(int), minlength=256)
        assert stats.chisquare(counts).pvalue > FALSE_REJECT / 3


# --- independence -------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.dictionaries(wide_keys, elements, min_size=1, max_size=6))
def test_any_t_values_at_any_t_keys_come_from_exactly_one_polynomial(points: dict[int, int]) -> None:
    # so uniform coefficients make the values at t distinct keys uniform on GF(2^64)^t: t-wise independence, exactly
    coefficients = naive.interpolate(points)
    assert evaluated(list(points), coefficients) == list(points.values())


@pytest.mark.parametrize("keys", [(0, 1), (3, 200), (0, 1, 255), (7, 77, 177)], ids=str)
def test_all_polynomials_of_a_small_field_take_all_values_once(keys: tuple[int, ...]) -> None:
    """GF(2^8), by x^8 + x^4 + x^3 + x + 1: as many polynomials of degree t - 1 as values at t keys, enumerated."""
    modulus, t = 0x11B, len(keys)
    packed = np.zeros((256,) * t, dtype=np.uint32)  # by coefficient; eight bits a key
    for place, key in enumerate(keys):
        for degree in range(t):
            power = naive.polynomial_at(key, [1] + [0] * degree, modulus)
            terms = np.array([naive.product(c, power, modulus) for c in range(256)], dtype=np.uint32)
            packed ^= (terms << np.uint32(8 * place)).reshape([-1 if axis == degree else 1 for axis in range(t)])
    taken = np.zeros(256**t, dtype=bool)
    taken[packed.ravel()] = True
    assert taken.all()


def test_fields_of_a_word_of_a_small_field_are_uniform_and_independent() -> None:
    """All four two-bit fields of the words at two keys, over all 2^16 polynomials: each of the 2^16 cases once."""
    modulus, keys = 0x11B, (5, 9)
    words = (
        tuple(naive.polynomial_at(key, c, modulus) >> shift & 3 for key in keys for shift in (0, 2, 4, 6))
        for c in itertools.product(range(256), repeat=2)
    )
    assert set(Counter(words).values()) == {1}


# --- bit slices ---------------------------------------------------------------------------------------------


@given(st.integers(1, 5000), st.integers(1, 25))
def test_bit_fields_are_disjoint_fit_the_word_and_use_every_word(rows: int, width: int) -> None:
    slices = hashing.BitSlices(rows=rows, width=width)
    assert (slices.words, slices.rows_per_word) == naive.words_and_rows_per_word(rows, width)
    assert slices.rows_per_word * width <= 64
    assert (slices.words - 1) * slices.rows_per_word < rows <= slices.words * slices.rows_per_word


@pytest.mark.parametrize(("rows", "width", "words"), [(9, 8, 2), (8, 8, 1), (1, 25, 1), (64, 1, 1), (65, 1, 2)])
def test_rows_share_as_few_words_as_64_bits_allow(rows: int, width: int, words: int) -> None:
    assert hashing.BitSlices(rows=rows, width=width).words == words
