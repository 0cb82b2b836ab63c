"""Public randomness: kernels equal their twins, and the family is t-wise independent."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from streamsketch import hashing
from tests import naive

P = naive.PRIME
FALSE_REJECT = 1e-6  # of each statistical test; seeds are fixed, so none of them is ever flaky

EXTREME_ELEMENTS = [0, 1, 7, 2**29, 2**32 - 1, 2**32, 2**60 - 1, 2**60, P - 2, P - 1]
NARROW_KEYS = [0, 1, 2, 2**16, 2**31, 2**32 - 2, 2**32 - 1]
WIDE_KEYS = [*NARROW_KEYS, 2**32, 2**32 + 1, 2**33 - 1, 2**59, 2**60 - 2**32, 2**60 - 2, 2**60 - 1]

elements = st.sampled_from(EXTREME_ELEMENTS) | st.integers(0, P - 1)
narrow_keys = st.sampled_from(NARROW_KEYS) | st.integers(0, 2**32 - 1)
wide_keys = st.sampled_from(WIDE_KEYS) | st.integers(0, 2**60 - 1)


def evaluated(horner: Callable[..., None], keys: Sequence[int], coefficients: Sequence[int]) -> list[int]:
    out = np.empty(len(keys), dtype=np.uint64)
    horner(np.array(keys, dtype=np.uint64), np.array(coefficients, dtype=np.uint64), out)
    return out.tolist()


# --- kernels and their twins --------------------------------------------------------------------------------


@given(st.lists(narrow_keys, max_size=20), st.lists(elements, min_size=1, max_size=17))
def test_narrow_polynomials_equal_their_twin(keys: list[int], coefficients: list[int]) -> None:
    expected = [naive.polynomial_at(key, coefficients) for key in keys]
    assert evaluated(hashing.horner_narrow, keys, coefficients) == expected


@given(st.lists(wide_keys, max_size=20), st.lists(elements, min_size=1, max_size=17))
def test_wide_polynomials_equal_their_twin(keys: list[int], coefficients: list[int]) -> None:
    expected = [naive.polynomial_at(key, coefficients) for key in keys]
    assert evaluated(hashing.horner_wide, keys, coefficients) == expected


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 7, 8, 255])
@pytest.mark.parametrize("coefficient", EXTREME_ELEMENTS)
def test_no_accumulator_overflows_at_the_extremes(degree: int, coefficient: int) -> None:
    coefficients = [coefficient] * (degree + 1)
    for horner, keys in ((hashing.horner_narrow, NARROW_KEYS), (hashing.horner_wide, WIDE_KEYS)):
        expected = [naive.polynomial_at(key, coefficients) for key in keys]
        assert evaluated(horner, keys, coefficients) == expected


@given(st.lists(st.tuples(elements, wide_keys), max_size=20), elements)
def test_added_products_equal_their_twin(pairs: list[tuple[int, int]], factor: int) -> None:
    total = np.array([start for start, _ in pairs], dtype=np.uint64)
    keys = np.array([key for _, key in pairs], dtype=np.uint64)
    hashing.add_product(total, np.uint64(factor), keys, np.empty_like(total))
    assert total.tolist() == [(start + factor * key) % P for start, key in pairs]


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


def test_a_word_equal_to_p_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    class Digest:
        def __init__(self, message: bytes, **_: Any) -> None:
            self.attempt = int.from_bytes(message[-8:], "little")
            attempts.append(self.attempt)

        def digest(self) -> bytes:
            words = {0: P, 1: 2**61 | P, 2: 2**63 | 12345}  # bits above the 61st do not count
            return words[self.attempt].to_bytes(8, "little")

    monkeypatch.setattr(hashlib, "blake2b", Digest)
    assert hashing.field_elements(0, "label", 1) == [12345]
    assert attempts == [0, 1, 2]


def test_polynomials_are_filled_with_field_elements_row_by_row() -> None:
    coefficients = hashing.polynomials(3, "label", words=4, independence=5)
    assert coefficients.shape == (4, 5)
    assert coefficients.ravel().tolist() == naive.field_elements(3, "label", 20)


def test_field_elements_are_uniform() -> None:
    drawn = np.array(hashing.field_elements(11, "uniformity", 40_000), dtype=np.uint64)
    for shift in (0, 29, 53):  # low, middle and top eight bits
        counts = np.bincount(((drawn >> np.uint64(shift)) & np.uint64(255)).astype(int), minlength=256)
        assert stats.chisquare(counts).pvalue > FALSE_REJECT / 3


# --- independence -------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.dictionaries(wide_keys, elements, min_size=1, max_size=9))
def test_any_t_values_at_any_t_keys_come_from_exactly_one_polynomial(points: dict[int, int]) -> None:
    # so uniform coefficients make the values at t distinct keys uniform on GF(p)^t: t-wise independence, exactly
    coefficients = naive.interpolate(points)
    assert evaluated(hashing.horner_wide, list(points), coefficients) == list(points.values())


# --- bit slices ---------------------------------------------------------------------------------------------


@given(st.integers(1, 5000), st.integers(1, 25))
def test_bit_fields_are_disjoint_fit_the_word_and_use_every_word(rows: int, width: int) -> None:
    slices = hashing.BitSlices(rows=rows, width=width)
    assert (slices.words, slices.rows_per_word) == naive.words_and_rows_per_word(rows, width)
    assert slices.rows_per_word * width <= 61
    assert (slices.words - 1) * slices.rows_per_word < rows <= slices.words * slices.rows_per_word


@pytest.mark.parametrize(("rows", "width", "words"), [(8, 8, 2), (7, 8, 1), (1, 25, 1), (61, 1, 1), (62, 1, 2)])
def test_rows_share_as_few_words_as_61_bits_allow(rows: int, width: int, words: int) -> None:
    assert hashing.BitSlices(rows=rows, width=width).words == words
