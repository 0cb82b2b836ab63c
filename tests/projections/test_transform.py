"""Whole matrices: the very cells of the rows' sketches, or S x in floating point, whatever the matrix comes as."""

import contextlib
from decimal import Decimal
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
from tests.projections.zoo import SMALL, each_small, each_wide, name

IDENTITY = ss.projections.Identity(dim=4)


def sketches_of(projection: ss.projections.Projection, matrix: np.ndarray) -> list[list[int]]:
    """Return the cells of each row's sketch, its events in another order."""
    states = []
    for row in matrix:
        sketch = projection.sketch()
        sketch.update(np.arange(row.size)[::-1].copy(), row[::-1].copy())
        states.append(sketch.state().tolist())
    return states


def cells_of(released: list[ss.PrivateSketch]) -> list[list[int]]:
    return [row.values.tolist() for row in released]  # noqa: PD011 - no data frame


@each_small
@settings(max_examples=10)
@given(data=st.data(), rows=st.integers(0, 18))
def test_exact_cells_are_those_of_sketches(
    projection: ss.projections.Projection, data: st.DataObject, rows: int
) -> None:
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
def test_floats_meet_the_grid_as_in_a_sketch(projection: ss.projections.Projection) -> None:
    fine = projection.replace(resolution=Fraction(1, 3))
    matrix = np.random.default_rng(3).normal(size=(3, projection.dim))
    assert fine.transform(matrix, exact=True).tolist() == sketches_of(fine, matrix)
    assert fine.transform(sparse.csr_array(matrix), exact=True).tolist() == sketches_of(fine, matrix)


@each_small
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_floating_point_is_the_scaled_matrix_without_a_grid(projection: ss.projections.Projection, dtype: Any) -> None:
    coarse = projection.replace(resolution=100)
    matrix = np.random.default_rng(4).normal(size=(21, projection.dim)).astype(dtype)
    expected = matrix.astype(np.float64) @ projection.columns(range(projection.dim)).T * projection.scale
    for form in (matrix, sparse.csr_array(matrix)):
        result = coarse.transform(form)
        assert result.dtype == dtype
        assert np.allclose(result, expected, rtol=0, atol=1e-4 if dtype is np.float32 else 1e-11)


@each_wide
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_sparse_rows_cost_what_they_hold_not_dim(projection: ss.projections.Projection, rows: int) -> None:
    places = (np.arange(4 * rows) // 4, np.tile([projection.dim - 1, 5, 1 << 41, 0], rows))
    matrix = sparse.coo_array((np.arange(4 * rows) - 3, places), shape=(rows, projection.dim))
    cells = projection.transform(matrix, exact=True)
    expected = [projection.columns(places[1][:4]) @ (np.arange(4 * row, 4 * row + 4) - 3) for row in range(rows)]
    assert cells.tolist() == [row.tolist() for row in expected]
    scaled = projection.transform(matrix)
    assert np.allclose(scaled, cells * projection.scale, rtol=0, atol=1e-9)


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


def test_rows_near_the_limit_are_exact_and_beyond_it_wrap_around() -> None:
    rows = np.array([[2**62, -(2**62) + 1, 0], [5, 0, -(2**60)], [2**62, 2**62, 0], [-(2**62), 2**62, -(2**62)]])
    for projection in (
        ss.CountSketch(dim=3, sketch_dim=2, seed=1),
        ss.projections.Rademacher(dim=3, sketch_dim=3, seed=1),
        ss.projections.OPORP(dim=3, sketch_dim=2, seed=1),
        ss.projections.SRHT(dim=3, sketch_dim=2, seed=1),
        ss.projections.FJLT(dim=3, sketch_dim=2, seed=1),
        ss.projections.GaussianProjection(dim=3, sketch_dim=2, seed=1),
        ss.projections.Rotation(dim=3, sketch_dim=2, seed=1),
        ss.projections.Identity(dim=3),
    ):
        columns = projection.columns(range(3)).tolist()
        expected = [
            [(sum(a * x for a, x in zip(line, row, strict=True)) + 2**63) % 2**64 - 2**63 for line in columns]
            for row in rows.tolist()
        ]
        for form in (rows, sparse.csr_array(rows)):
            assert projection.transform(form, exact=True).tolist() == expected
        for row, cells in zip(rows, expected, strict=True):
            sketch = projection.sketch()
            sketch.update(range(3), row)
            assert sketch.state().tolist() == cells


def test_duplicates_of_a_sparse_matrix_are_summed_before_they_meet_the_grid() -> None:
    projection = ss.CountSketch(dim=3, sketch_dim=2, seed=1)
    doubled = sparse.coo_array((np.array([0.5, 0.5]), (np.array([0, 0]), np.array([1, 1]))), shape=(1, 3))
    assert np.abs(projection.transform(doubled, exact=True)).sum() == 1


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "bsr"])
@pytest.mark.parametrize(
    ("dtype", "count", "value"),
    [(np.int8, 128, 1), (np.uint8, 3, 200), (np.uint16, 2, 2**15), (np.int32, 2, 2**30), (np.float32, 3, 2.0**24 - 1)],
    ids=lambda given: getattr(given, "__name__", None),
)
def test_duplicates_add_up_in_a_type_that_fits_their_sum(form: str, dtype: Any, count: int, value: float) -> None:
    """In int8 128 events of 1 would be -128: 256 steps from 127 events, where a sensitivity counts one."""
    data, zeros = np.full(count, value, dtype=dtype), np.zeros(count, dtype=np.int64)
    matrix: Any = sparse.coo_array((data, (zeros, zeros)), shape=(1, 4))
    if form in ("csr", "csc"):
        build = sparse.csr_array if form == "csr" else sparse.csc_array
        starts = [0, count] if form == "csr" else [0, count, count, count, count]
        matrix = build((data, zeros, np.array(starts)), shape=(1, 4))
    elif form == "bsr":
        matrix = sparse.bsr_array((data.reshape(-1, 1, 1), zeros, np.array([0, count])), shape=(1, 4))
    before = matrix.data.copy()
    assert IDENTITY.transform(matrix, exact=True).tolist() == [[count * float(data[0]), 0, 0, 0]]
    assert IDENTITY.transform(matrix)[0, 0] == pytest.approx(count * float(data[0]))
    assert (matrix.data == before).all()
    published = ss.release.PrivateProjection(projection=IDENTITY, epsilon=1e6, neighbours=ss.OneCoordinate(1)).release(
        matrix
    )
    assert cells_of(published)[0][0] == count * float(data[0])


def test_duplicates_past_63_bits_wrap_around_and_are_released() -> None:
    """One entry would decide whether there is a release (Theory 4.2)."""
    places = (np.zeros(2, dtype=int), np.zeros(2, dtype=int))
    publish = ss.release.PrivateProjection(projection=IDENTITY, epsilon=1, neighbours=ss.L1(1))
    for beyond, wrapped in ((np.array([2**62, 2**62]), -(2**63)), (np.array([-(2**63), -1]), 2**63 - 1)):
        rows = sparse.csr_array((beyond, [0, 0], [0, 2]), shape=(1, 4))
        for matrix in (sparse.coo_array((beyond, places), shape=(1, 4)), rows):
            assert IDENTITY.transform(matrix, exact=True)[0].tolist() == [wrapped, 0, 0, 0]
            publish.release(matrix)
    within = sparse.coo_array((np.array([2**62, 2**62 - 1]), places), shape=(1, 4))
    assert IDENTITY.transform(within, exact=True)[0, 0] == 2**63 - 1
    unsigned = sparse.coo_array((np.array([2**63, 1], dtype=np.uint64), places), shape=(1, 4))
    with pytest.raises(ss.InvalidInputError, match="below"):
        IDENTITY.transform(unsigned, exact=True)


def broken(build: Any, place: int) -> Any:
    matrix = build(np.eye(3, 4, dtype=int))
    if matrix.format == "coo":
        matrix.coords[1][0] = place
    else:
        matrix.indices[0] = place
    return matrix


@pytest.mark.parametrize("place", [4, 99, -1])
@pytest.mark.parametrize("build", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array], ids=str)
@pytest.mark.parametrize("projection", [SMALL[0], SMALL[1], SMALL[6], SMALL[17], SMALL[-1]], ids=name)
def test_a_sparse_index_outside_the_matrix_is_refused(
    projection: ss.projections.Projection, build: Any, place: int
) -> None:
    for exact in (True, False):
        with pytest.raises(ss.InvalidInputError, match=r"shape \(3, 4\) is invalid"):
            projection.transform(broken(build, place), exact=exact)


def test_sparse_row_pointers_that_fall_are_refused() -> None:
    matrix = sparse.csr_array(np.eye(3, 4, dtype=int))
    matrix.indptr[:] = [0, 2, 1, 3]
    with pytest.raises(ss.InvalidInputError, match="row pointers"):
        IDENTITY.transform(matrix, exact=True)


LONG = 2**60 + 129  # as a float64 it would be 2^60 + 128 or 2^60 + 256

MIXED = {
    "arrow": pa.table({"id": pa.array([LONG, 1]), "share": pa.array([0.5, -2.5])}),
    "chunks": pa.concat_tables([pa.table({"a": [LONG], "b": [0.5]}), pa.table({"a": [1], "b": [-2.5]})]),
    "unsigned": pa.table({"a": pa.array([LONG, 1], pa.uint64()), "b": pa.array([0.5, -2.5], pa.float32())}),
    "pandas": pd.DataFrame({"id": [LONG, 1], "share": [0.5, -2.5]}),
    "lists": [[LONG, 0.5], [1, -2.5]],
    "tuples": ((LONG, Fraction(1, 2)), (1, Decimal("-2.5"))),
    "numpy rows": [np.array([LONG, 0.5], dtype=object), np.array([1, -2.5], dtype=object)],
    "objects": np.array([[LONG, Fraction(1, 2)], [1, Fraction(-5, 2)]], dtype=object),
}


@pytest.mark.parametrize("form", MIXED)
def test_each_column_meets_the_grid_in_its_own_type(form: str) -> None:
    """A float64 of both columns would move by 128 steps, or none, where a neighbour moves by one."""
    assert ss.projections.Identity(dim=2).transform(MIXED[form], exact=True).tolist() == [[LONG, 0], [1, -2]]
    halves = ss.projections.Identity(dim=2, resolution="1/2")
    assert halves.transform(MIXED[form], exact=True).tolist() == [[2 * LONG, 1], [2, -5]]
    publish = ss.release.PrivateProjection(projection=halves, epsilon=1e6, neighbours=ss.OneCoordinate("1/2"))
    assert cells_of(publish.release(MIXED[form])) == [[2 * LONG, 1], [2, -5]]


def test_a_frame_without_arrows_interface_keeps_its_columns_apart() -> None:
    class OldFrame:
        dtypes = (np.int64, np.float64)

        def to_numpy(self, dtype: Any = None) -> np.ndarray:
            return np.array([[LONG, 0.5]], dtype=dtype)

    assert ss.projections.Identity(dim=2).transform(OldFrame(), exact=True).tolist() == [[LONG, 0]]


def test_integer_columns_of_several_types_are_whole_numbers() -> None:
    table = pa.table({"a": pa.array([LONG]), "b": pa.array([3], pa.uint64()), "c": pa.array([-4], pa.int8())})
    publish = ss.release.PrivateProjection(projection=ss.projections.Identity(dim=3), epsilon=1e6, neighbours=ss.L1(1))
    assert cells_of(publish.release(table)) == [[LONG, 3, -4]]
    with pytest.raises(ss.InvalidInputError, match="must hold integers"):
        publish.release(table.set_column(2, "c", pa.array([0.5])))


def test_rows_of_several_lengths_are_refused() -> None:
    for exact in (True, False):
        with pytest.raises(ss.InvalidInputError, match=r"rows of equal length|got \(2,\)"):
            IDENTITY.transform([[1, 2, 3, 4], [1]], exact=exact)
    with pytest.raises(ss.InvalidInputError, match="got a bool"):
        IDENTITY.transform([[True, 2, 3, 4.5]], exact=True)


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
    assert ss.projections.Identity(dim=4).transform(matrix).tolist() == matrix.tolist()


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_what_leaves_the_range_of_floats_is_refused(dtype: Any) -> None:
    """Entries of a Gaussian map reach thousands of steps: rows of 1e35 came out as infinities and NaN in float32."""
    largest = float(np.finfo(dtype).max)
    fine = ss.projections.GaussianProjection(dim=3, sketch_dim=40, seed=1, fraction_bits=12)
    within = fine.transform(np.ones((1, 3), dtype=dtype)) * (largest / 1000)
    for form in (np.array, sparse.csr_array):
        assert np.allclose(fine.transform(form(np.full((1, 3), largest / 1000, dtype=dtype))), within, rtol=1e-5)
        beyond = form(np.full((2, 50), largest, dtype=dtype))
        with pytest.raises(ss.errors.SketchOverflowError, match=f"exceeds the range of {dtype.__name__}"):
            SMALL[0].transform(beyond)


@pytest.mark.parametrize("projection", SMALL, ids=name)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_rows_come_out_finite_or_are_refused(projection: ss.projections.Projection, dtype: Any) -> None:
    signs = np.where(np.arange(projection.dim) % 3, np.finfo(dtype).max, -np.finfo(dtype).max).astype(dtype)
    for form in (np.array, sparse.csr_array):
        for halvings in range(0, 40, 2):
            with contextlib.suppress(ss.errors.SketchOverflowError):
                assert np.isfinite(projection.transform(form([signs / dtype(2) ** halvings]))).all()


@pytest.mark.parametrize("projection", SMALL[:6], ids=name)
def test_the_given_matrix_is_left_alone(projection: ss.projections.Projection) -> None:
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
