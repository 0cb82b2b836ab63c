"""Whole matrices: the very cells of the rows' sketches, or S x in floating point, whatever the matrix comes as."""

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import streamsketch as ss
from tests.projections.zoo import SMALL, each_small, name


def sketches_of(projection: ss.Projection, matrix: np.ndarray) -> list[list[int]]:
    """Return the cells of each row's sketch, its events in another order."""
    states = []
    for row in matrix:
        sketch = projection.sketch()
        sketch.update(np.arange(row.size)[::-1].copy(), row[::-1].copy())
        states.append(sketch.state.tolist())
    return states


@each_small
@settings(max_examples=10, deadline=None)
@given(data=st.data(), rows=st.integers(0, 18))
def test_exact_cells_are_those_of_sketches(projection: ss.Projection, data: st.DataObject, rows: int) -> None:
    seed = data.draw(st.integers(0, 2**32))
    random = np.random.default_rng(seed)
    largest = data.draw(st.sampled_from([1, 1000, 2**40]))
    matrix = random.integers(-largest, largest + 1, (rows, projection.dim))
    matrix[random.random(matrix.shape) < data.draw(st.floats(0, 1))] = 0
    expected = sketches_of(projection, matrix)
    for form in (matrix, sparse.csr_array(matrix), sparse.csc_matrix(matrix), np.asfortranarray(matrix)):
        cells = projection.transform(form, exact=True)
        assert cells.dtype == np.int64
        assert cells.shape == (rows, projection.sketch_dim)
        assert cells.tolist() == expected


@each_small
def test_floats_meet_the_grid_as_in_a_sketch(projection: ss.Projection) -> None:
    fine = projection.replace(resolution=Fraction(1, 3))
    matrix = np.random.default_rng(3).normal(size=(3, projection.dim))
    assert fine.transform(matrix, exact=True).tolist() == sketches_of(fine, matrix)
    assert fine.transform(sparse.csr_array(matrix), exact=True).tolist() == sketches_of(fine, matrix)


@each_small
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_floating_point_is_the_scaled_matrix_without_a_grid(projection: ss.Projection, dtype: Any) -> None:
    coarse = projection.replace(resolution=100)
    matrix = np.random.default_rng(4).normal(size=(21, projection.dim)).astype(dtype)
    expected = matrix.astype(np.float64) @ projection.columns(range(projection.dim)).T * projection.scale
    for form in (matrix, sparse.csr_array(matrix)):
        result = coarse.transform(form)
        assert result.dtype == dtype
        assert np.allclose(result, expected, rtol=0, atol=1e-4 if dtype is np.float32 else 1e-11)


def test_arrow_and_data_frames_are_matrices() -> None:
    projection = ss.SJLT(dim=4, sketch_dim=8, sparsity=2, seed=1)
    matrix = np.arange(12).reshape(3, 4) - 5
    columns = {f"c{j}": matrix[:, j] for j in range(4)}
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), 4)
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(matrix)
    expected = projection.transform(matrix, exact=True).tolist()
    for form in (
        pa.table(columns),
        pa.record_batch(columns),
        vectors,
        vectors[0:3],
        pa.chunked_array([vectors[:1], vectors[1:]]),
        tensors,
        pd.DataFrame(columns),
        pd.DataFrame(columns, dtype="int64[pyarrow]"),
        matrix.tolist(),
        np.asarray(matrix).view(np.matrix),
        matrix.astype(">i4"),
        matrix.astype(object),
    ):
        assert projection.transform(form, exact=True).tolist() == expected
    assert projection.transform(vectors[1:], exact=True).tolist() == expected[1:]


def test_rows_near_the_limit_are_exact_and_beyond_it_refused() -> None:
    near = np.array([[2**62, -(2**62) + 1, 0], [5, 0, -(2**60)]])
    beyond = np.array([[2**62, 2**62, 0]])
    for projection in (
        ss.CountSketch(dim=3, sketch_dim=2, seed=1),
        ss.Rademacher(dim=3, sketch_dim=3, seed=1),
        ss.OPORP(dim=3, sketch_dim=2, seed=1),
        ss.SRHT(dim=3, sketch_dim=2, seed=1),
    ):
        expected = [
            [sum(a * x for a, x in zip(line, row, strict=True)) for line in columns]
            for row in near.tolist()
            for columns in [projection.columns(range(3)).tolist()]
        ]
        for form in (near, sparse.csr_array(near)):
            assert projection.transform(form, exact=True).tolist() == expected
        for form in (beyond, sparse.csr_array(beyond)):
            with pytest.raises(ss.SketchOverflowError):
                projection.transform(form, exact=True)


def test_duplicates_of_a_sparse_matrix_are_summed_before_they_meet_the_grid() -> None:
    projection = ss.CountSketch(dim=3, sketch_dim=2, seed=1)
    doubled = sparse.coo_array((np.array([0.5, 0.5]), (np.array([0, 0]), np.array([1, 1]))), shape=(1, 3))
    assert np.abs(projection.transform(doubled, exact=True)).sum() == 1


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.zeros((2, 3)), r"shape \(n, 4\).*got \(2, 3\)"),
        (np.zeros(4), r"got \(4,\)"),
        (np.array([[0, np.nan, 0, 0]]), "NaN or infinite"),
        (np.array([[np.inf, -np.inf, 0, 0]]), "NaN or infinite"),
        (sparse.csr_array(np.array([[0, np.inf, 0, 0]])), "NaN or infinite"),
        (np.array([["a", "b", "c", "d"]]), "must hold numbers"),
        (np.ma.masked_equal(np.zeros((1, 4)), 0), "masked array"),
        (pa.array([[1, 2, 3, 4]]), "fixed_size_list, got list"),
        (pa.array([[1, None, 3, 4]], pa.list_(pa.int64(), 4)), "nulls"),
        (pa.array([None, [1, 2, 3, 4]], pa.list_(pa.int64(), 4)), "nulls"),
        (pa.table({"a": [1], "b": [None], "c": [1], "d": [1]}), "nulls"),
    ],
    ids=["columns", "vector", "nan", "inf", "sparse-inf", "text", "masked", "list", "null", "null-row", "null-column"],
)
def test_what_is_no_matrix_is_refused(matrix: Any, message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        ss.CountSketch(dim=4, sketch_dim=2, seed=1).transform(matrix)


def test_large_finite_numbers_are_no_infinity() -> None:
    matrix = np.full((1, 4), 1e308)
    assert ss.Identity(dim=4).transform(matrix).tolist() == matrix.tolist()


@pytest.mark.parametrize("projection", SMALL[:6], ids=name)
def test_the_given_matrix_is_left_alone(projection: ss.Projection) -> None:
    matrix = np.random.default_rng(1).normal(size=(9, projection.dim))
    matrix.setflags(write=False)
    before = matrix.copy()
    projection.transform(matrix)
    projection.transform(matrix, exact=True)
    assert (matrix == before).all()


@pytest.mark.parametrize("dim", [8192, 8193, 20_000], ids=str)
def test_more_columns_than_one_chunk_holds(dim: int) -> None:
    projection = ss.SJLT(dim=dim, sketch_dim=256, sparsity=4, seed=1)
    matrix = np.random.default_rng(1).integers(-9, 9, (11, dim))
    assert projection.transform(matrix, exact=True).tolist() == sketches_of(projection, matrix)
