"""Whole matrices by a block-hashed map: each row of the result is the sum of the columns that the twin names."""

import functools
import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from streamsketch.core.jit import read_only
from streamsketch.kernels.hashing import BitSlices, polynomials
from streamsketch.kernels.matrices import block_csr, block_dense, largest_bits
from tests.oracles import naive

DTYPES = [np.int64, np.float64, np.float32]
BLOCK, CHUNK = 512, 4096  # of nonzeros that are hashed together, and of columns whose places are kept
POOL = [0, 1, 2, 511, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**53, 2**59, 2**60 - 2, 2**60 - 1]

Events: TypeAlias = list[tuple[int, Any]]  # the nonzeros of a row: (index, value)

each_dtype = pytest.mark.parametrize("dtype", DTYPES)


class Sparse:
    """A map, as the twin knows it and as the kernels are told."""

    def __init__(self, sparsity: int, buckets: int, seed: int = 7, independence: int = 4) -> None:
        self.sketch_dim = sparsity * buckets
        self.twin = naive.Map("sjlt-block", self.sketch_dim, sparsity, seed, independence, Fraction(1))
        self.column = functools.cache(self.twin.column)
        slices = BitSlices(rows=sparsity, width=buckets.bit_length())
        coefficients = polynomials(seed, "sjlt-block", slices.words, independence)
        self.told = (coefficients, slices.rows, slices.width, slices.rows_per_word)

    def csr(self, rows: Sequence[Events], dtype: Any) -> np.ndarray:
        starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        keys = np.array([index for row in rows for index, _ in row], dtype=np.uint64)
        values = np.array([value for row in rows for _, value in row], dtype=dtype)
        out = self.leftovers(len(rows), dtype)
        block_csr(starts, keys, values, *self.told, out)
        return out

    def dense(self, matrix: np.ndarray) -> np.ndarray:
        out = self.leftovers(len(matrix), matrix.dtype)
        before = matrix.copy()
        block_dense(read_only(matrix), *self.told, out)
        assert np.array_equal(matrix, before, equal_nan=matrix.dtype.kind == "f")
        return out

    def leftovers(self, lines: int, dtype: Any) -> np.ndarray:
        return np.full((lines, self.sketch_dim), math.nan if np.dtype(dtype).kind == "f" else 99, dtype=dtype)

    def slowly(self, rows: Sequence[Events]) -> list[list[Any]]:
        """Return the exact result: ints of any size, or fractions."""
        result = []
        for row in rows:
            cells = [0] * self.sketch_dim
            for index, value in row:
                for place, sign in self.column(index):
                    cells[place] += sign * (value if isinstance(value, int) else Fraction(value))
            result.append(cells)
        return result


def events_of(matrix: np.ndarray) -> list[Events]:
    return [list(enumerate(row.tolist())) for row in matrix]


def assert_same_integers(found: np.ndarray, expected: list[list[int]]) -> None:
    """Compare modulo 2^64, as sums of int64 are made; where nothing exceeds 63 bits that is equality."""
    assert found.dtype == np.int64
    assert [[cell % 2**64 for cell in row] for row in found.tolist()] == [[c % 2**64 for c in row] for row in expected]


def assert_within_rounding(found: np.ndarray, expected: list[list[Any]], rows: Sequence[Events]) -> None:
    epsilon = float(np.finfo(found.dtype).eps)
    for cells, exact, row in zip(found.tolist(), expected, rows, strict=True):
        slack = (len(row) + 4) * epsilon * math.fsum(abs(value) for _, value in row)
        assert all(abs(cell - float(right)) <= slack for cell, right in zip(cells, exact, strict=True))


def numbers(size: int, seed: int, dtype: Any) -> np.ndarray:
    """Return integers that all three dtypes hold, as they do their sums: float results are exact too."""
    return np.random.default_rng(seed).integers(-99, 100, size).astype(dtype)


maps = st.builds(
    Sparse,
    sparsity=st.integers(1, 9) | st.sampled_from([16, 21, 61, 70]),  # one word and several, the last one not full
    buckets=st.sampled_from([1, 2, 4, 8, 16, 64, 1024]),
    seed=st.integers(0, 2**64 - 1),
    independence=st.integers(4, 6),
)
int64s = st.integers(-9, 9) | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**62, -(2**62), 2**62 - 1])
floats = st.floats(-1e6, 1e6, width=32, allow_subnormal=False)
indices = st.integers(0, 50) | st.integers(0, 2**60 - 1) | st.sampled_from(POOL)


def rows_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Events]]:
    """Draw rows in any order: empty ones, repeated indices and explicit zeros are all among them."""
    return st.lists(st.lists(st.tuples(indices, values), max_size=12), max_size=9)


# --- sparse rows --------------------------------------------------------------------------------------------


@given(maps, rows_of(int64s))
def test_csr_integers_equal_their_twin(sparse_map: Sparse, rows: list[Events]) -> None:
    assert_same_integers(sparse_map.csr(rows, np.int64), sparse_map.slowly(rows))


@each_dtype
@given(maps, rows_of(floats))
def test_csr_floats_equal_their_twin_within_rounding(dtype: Any, sparse_map: Sparse, rows: list[Events]) -> None:
    if dtype is np.int64:
        rows = [[(index, int(value)) for index, value in row] for row in rows]
        assert_same_integers(sparse_map.csr(rows, dtype), sparse_map.slowly(rows))
        return
    assert_within_rounding(sparse_map.csr(rows, dtype), sparse_map.slowly(rows), rows)


@each_dtype
@pytest.mark.parametrize(
    "lengths",
    [
        [BLOCK],
        [BLOCK - 1, 1, 0, BLOCK],  # rows end where blocks do
        [0, 0, BLOCK + 1, 0],
        [1] * 5 + [3 * BLOCK + 7] + [1] * 5,
        [300, 300, 300, 300, 300],  # blocks end within rows
    ],
    ids=str,
)
def test_rows_and_blocks_may_end_anywhere(lengths: list[int], dtype: Any) -> None:
    sparse_map = Sparse(sparsity=9, buckets=1024)  # two words, of five rows and of four
    random = np.random.default_rng(1)
    keys = random.choice(POOL, sum(lengths)).tolist()
    values = numbers(sum(lengths), 2, np.int64).tolist()
    events = iter(zip(keys, values, strict=True))
    rows = [[next(events) for _ in range(length)] for length in lengths]
    assert sparse_map.csr(rows, dtype).tolist() == sparse_map.slowly(rows)


@each_dtype
def test_narrow_indices_may_precede_wide_ones(dtype: Any) -> None:
    sparse_map = Sparse(sparsity=8, buckets=128)
    narrow: Events = [(index % 40, 1) for index in range(512)]
    wide: Events = [(2**60 - 1 - index % 40, -1) for index in range(512)]
    rows = [narrow, wide, narrow[:9] + wide[:9], wide + narrow]
    assert sparse_map.csr(rows, dtype).tolist() == sparse_map.slowly(rows)


@each_dtype
def test_no_rows_and_rows_of_nothing(dtype: Any) -> None:
    sparse_map = Sparse(sparsity=4, buckets=16)
    assert sparse_map.csr([], dtype).shape == (0, 64)
    assert sparse_map.csr([[], [], []], dtype).tolist() == [[0] * 64] * 3
    assert sparse_map.dense(np.empty((0, 5), dtype=dtype)).shape == (0, 64)
    assert sparse_map.dense(np.empty((3, 0), dtype=dtype)).tolist() == [[0] * 64] * 3


# --- dense rows ---------------------------------------------------------------------------------------------


@given(st.data(), maps, st.integers(0, 18), st.integers(1, 18))
def test_dense_integers_equal_their_twin(data: st.DataObject, sparse_map: Sparse, lines: int, dim: int) -> None:
    cells = data.draw(st.lists(int64s, min_size=dim, max_size=dim))
    # other lines are the first one turned and shifted by a line's number, so that each differs
    rows = [[(cells[(j + i) % dim] + i + 2**63) % 2**64 - 2**63 for j in range(dim)] for i in range(lines)]
    matrix = np.array(rows, dtype=np.int64).reshape(lines, dim)
    assert_same_integers(sparse_map.dense(matrix), sparse_map.slowly(events_of(matrix)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@given(maps, st.integers(0, 35), st.integers(1, 35), st.integers(0, 2**32))
def test_dense_floats_equal_their_twin_within_rounding(
    dtype: Any, sparse_map: Sparse, lines: int, dim: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    matrix = (random.normal(size=(lines, dim)) * 10.0 ** random.integers(-3, 4, (lines, dim))).astype(dtype)
    rows = events_of(matrix[:3]) + events_of(matrix[-3:])  # enough for a slow loop
    found = sparse_map.dense(matrix)
    assert_within_rounding(np.concatenate([found[:3], found[-3:]]), sparse_map.slowly(rows), rows)


@each_dtype
def test_no_remainder_of_lines_or_columns_is_lost(dtype: Any) -> None:
    sparse_map = Sparse(sparsity=5, buckets=8)
    for lines, dim in itertools.product([1, 7, 8, 9, 15, 16, 17, 33], repeat=2):
        matrix = numbers(lines * dim, 3, dtype).reshape(lines, dim)
        assert sparse_map.dense(matrix).tolist() == sparse_map.slowly(events_of(matrix)), (lines, dim)


@pytest.mark.parametrize(
    ("dim", "dtype"),
    [
        *((dim, np.int64) for dim in (CHUNK, CHUNK + 1)),
        *((CHUNK + 1, dtype) for dtype in (np.float64, np.float32)),
        *(pytest.param(dim, np.int64, marks=pytest.mark.long) for dim in (CHUNK - 1, 2 * CHUNK + 21)),
        *(
            pytest.param(dim, dtype, marks=pytest.mark.long)
            for dim in (CHUNK - 1, CHUNK, 2 * CHUNK + 21)
            for dtype in (np.float64, np.float32)
        ),
    ],
)
def test_matrices_may_be_wider_than_a_chunk_of_columns(dim: int, dtype: Any) -> None:
    sparse_map = Sparse(sparsity=2, buckets=32)
    matrix = numbers(19 * dim, 4, dtype).reshape(19, dim)
    some = [0, 8, 18]  # a full group of lines and what is left of one
    assert sparse_map.dense(matrix)[some].tolist() == sparse_map.slowly(events_of(matrix[some]))


@each_dtype
def test_of_many_row_blocks_fewer_columns_are_kept_at_a_time(dtype: Any) -> None:
    sparse_map = Sparse(sparsity=2051, buckets=8)  # its places fill the table at 512 columns; 3 rows are left over
    matrix = numbers(9 * 1100, 5, dtype).reshape(9, 1100)
    assert np.array_equal(sparse_map.dense(matrix), sparse_map.csr(events_of(matrix), dtype))


# --- both ---------------------------------------------------------------------------------------------------


@each_dtype
def test_dense_and_csr_rows_have_one_projection(dtype: Any) -> None:
    sparse_map = Sparse(sparsity=8, buckets=128, independence=8)
    given_matrix = sparse.random_array((50, 300), density=0.3, rng=np.random.default_rng(6))
    matrix = np.rint(given_matrix.toarray() * 100).astype(dtype)
    assert np.array_equal(sparse_map.dense(matrix), sparse_map.csr(events_of(matrix), dtype))


@pytest.mark.parametrize("heavy", [2**63 - 1, -(2**63 - 1)])
def test_rows_of_the_largest_mass_are_exact(heavy: int) -> None:
    sparse_map = Sparse(sparsity=4, buckets=4)
    whole, parts = [0] * 16, [heavy // 16] * 16
    whole[5] = heavy
    parts[3] += heavy - sum(parts)
    matrix = np.array([whole, parts], dtype=np.int64)
    expected = sparse_map.slowly(events_of(matrix))
    assert sparse_map.dense(matrix).tolist() == sparse_map.csr(events_of(matrix), np.int64).tolist() == expected


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("lines", [3, 8, 17, 24])
def test_what_overflows_in_one_row_stays_there(lines: int, dtype: Any) -> None:
    sparse_map = Sparse(sparsity=4, buckets=8)
    matrix = numbers(lines * 40, 7, dtype).reshape(lines, 40)
    clean = sparse_map.dense(matrix)
    spoilt = matrix.copy()
    spoilt[1] = [math.inf, -math.inf, math.nan, float(np.finfo(dtype).max)] * 10
    others = np.arange(lines) != 1
    with np.errstate(all="ignore"):
        assert np.array_equal(sparse_map.dense(spoilt)[others], clean[others])
        assert np.array_equal(sparse_map.csr(events_of(spoilt), dtype)[others], clean[others])


@pytest.mark.parametrize(("floats", "bits"), [(np.float32, np.uint32), (np.float64, np.uint64)])
def test_the_largest_bits_are_those_of_the_largest_magnitude(floats: Any, bits: Any) -> None:
    rng = np.random.default_rng(5)
    mask = bits(np.iinfo(bits).max >> 1)
    for size in (0, 1, 2, 17, 1000):
        numbers = (rng.normal(size=size) * 10.0 ** rng.integers(-30, 30, size)).astype(floats)
        for extreme in (None, -0.0, -np.finfo(floats).max, np.inf, -np.inf, np.nan, -np.nan):
            if extreme is not None and size:
                numbers[size // 2] = extreme
            found = np.array(largest_bits(numbers.view(bits), mask), dtype=bits).view(floats)
            slowly = max(map(abs, numbers.tolist()), default=0.0)
            assert found == slowly or (math.isnan(found) and np.isnan(numbers).any())
