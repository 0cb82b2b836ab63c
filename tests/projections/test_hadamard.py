"""The fast Walsh-Hadamard transform: the definition's result, in place, for every size, shape and dtype."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsketch import InvalidInputError
from streamsketch.projections.hadamard import hadamard_transform
from tests.oracles import naive_maps

each_dtype = pytest.mark.parametrize("dtype", [np.int64, np.float64, np.float32], ids=lambda dtype: dtype.__name__)


def matrix(size: int) -> np.ndarray:
    places = np.arange(size)
    return 1 - 2 * (np.bitwise_count(places[:, None] & places) % 2).astype(np.int64)


def test_the_matrix_of_these_tests_is_the_twins() -> None:
    vector = [3, -1, 4, 1, -5, 9, 2, 6]
    assert (matrix(8) @ vector).tolist() == naive_maps.hadamard(vector)


@each_dtype
@pytest.mark.parametrize("bits", range(12))
def test_it_is_the_definition(bits: int, dtype: Any) -> None:
    given = np.random.default_rng(bits).integers(-99, 100, (2, 3, 1 << bits)).astype(dtype)
    result = given.copy()
    hadamard_transform(result)
    assert (result == given.astype(np.float64) @ matrix(1 << bits).astype(np.float64)).all()


def in_order(cells: np.ndarray) -> np.ndarray:
    """Return the transform level by level, in the order in which floats are rounded: a twin of the vector code."""
    lanes = 64 // cells.itemsize
    levels = [1 << bit for bit in range(cells.size.bit_length() - 1)]
    if cells.size >= 8 * lanes:
        levels = [half for half in levels if lanes <= half < 8 * lanes] + [
            half for half in levels if half < lanes or half >= 8 * lanes
        ]
    for half in levels:
        pairs = cells.reshape(-1, 2, half)
        cells = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
    return cells


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bits", [2, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
def test_floats_are_rounded_in_one_order_wherever_they_lie(bits: int, dtype: Any) -> None:
    whole = np.random.default_rng(bits).normal(size=(1 << bits) + 64).astype(dtype)
    start = -whole.ctypes.data % 64 // whole.itemsize  # a cache line
    for lead in (0, 1, 16 // whole.itemsize, 48 // whole.itemsize):
        given = whole[start + lead : start + lead + (1 << bits)].copy()
        array = np.empty_like(whole)[start + lead : start + lead + (1 << bits)]
        array[...] = given
        hadamard_transform(array)
        assert array.tobytes() == in_order(given).tobytes()


@each_dtype
def test_large_ones_come_back_when_transformed_twice(dtype: Any) -> None:
    given = np.random.default_rng(1).integers(-3, 4, 1 << 17).astype(dtype)
    result = given.copy()
    hadamard_transform(result)
    assert result[0] == given.sum()
    hadamard_transform(result)
    assert (result == given * (1 << 17)).all()


@each_dtype
@pytest.mark.parametrize("shift", [1, 3])
def test_unaligned_arrays_are_transformed_and_their_neighbours_left(shift: int, dtype: Any) -> None:
    whole = np.random.default_rng(2).integers(-99, 100, 300).astype(dtype)
    before = whole.copy()
    hadamard_transform(whole[shift : shift + 256])
    assert (whole[shift : shift + 256] == before[shift : shift + 256] @ matrix(256)).all()
    assert (np.delete(whole, np.s_[shift : shift + 256]) == np.delete(before, np.s_[shift : shift + 256])).all()


@given(
    st.integers(0, 9).flatmap(
        lambda bits: st.lists(st.integers(-(2**50), 2**50), min_size=1 << bits, max_size=1 << bits)
    )
)
def test_twice_is_a_multiple_and_none_exceeds_the_sum(vector: list[int]) -> None:
    result = np.array(vector, dtype=np.int64)
    hadamard_transform(result)
    assert int(np.abs(result).max()) <= sum(map(abs, vector))
    hadamard_transform(result)
    assert result.tolist() == [len(vector) * value for value in vector]


@each_dtype
def test_sums_go_to_sums(dtype: Any) -> None:
    x, y = np.random.default_rng(3).integers(-99, 100, (2, 256)).astype(dtype)
    combined = 3 * x - 5 * y
    for array in (x, y, combined):
        hadamard_transform(array)
    assert (combined == 3 * x - 5 * y).all()


@pytest.mark.parametrize("size", [4, 128])
def test_integers_wrap_around(size: int) -> None:
    vector = [2**63 - 1, 1, 5, -(2**63)] * (size // 4)
    result = np.array(vector, dtype=np.int64)
    hadamard_transform(result)
    assert [value % 2**64 for value in result.tolist()] == [value % 2**64 for value in naive_maps.hadamard(vector)]


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("size", [8, 64])
def test_a_numpy_matrix_is_transformed_and_its_neighbours_left(size: int) -> None:
    whole = np.arange(3 * size, dtype=np.float64)
    hadamard_transform(np.asmatrix(whole[size : 2 * size]))
    expected = np.arange(3 * size)
    expected[size : 2 * size] = expected[size : 2 * size] @ matrix(size)
    assert (whole == expected).all()


def test_an_empty_batch_stays_empty() -> None:
    hadamard_transform(np.zeros((0, 8)))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), r"must be a power of two, got shape \(3,\)"),
        (np.zeros((2, 0)), r"power of two"),
        (np.zeros(()), r"power of two"),
        (np.zeros(4, dtype=np.int32), "int64, float64 or float32, got int32"),
        (np.ones((4, 4)).T[:2], "C-contiguous"),
        (np.ones(8)[::2], "C-contiguous"),
        (np.broadcast_to(1.0, (4,)), "writeable"),
    ],
    ids=["three", "none", "scalar", "int32", "transposed", "strided", "read-only"],
)
def test_what_it_cannot_transform_stays_as_it_was(array: np.ndarray, message: str) -> None:
    before = array.copy()
    with pytest.raises(InvalidInputError, match=message):
        hadamard_transform(array)
    assert (array == before).all()


def test_a_list_is_no_array() -> None:
    with pytest.raises(TypeError, match="got a list"):
        hadamard_transform([1, 2])  # type: ignore[arg-type]


def test_a_masked_array_is_refused() -> None:
    masked = np.ma.masked_array(np.ones(4), mask=[True, False, False, False])
    with pytest.raises(TypeError, match="without a mask, got a MaskedArray"):
        hadamard_transform(masked)
    assert (masked.data == 1).all()
