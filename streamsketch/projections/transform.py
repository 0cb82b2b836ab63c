"""Whole matrices at once: what is read as a matrix, and its projection."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from streamsketch.encoding import quantise
from streamsketch.errors import InvalidInputError

if TYPE_CHECKING:
    from streamsketch.projections.base import Projection

_EXACT_FLOAT = 1 << 53
_SAFE_SUM = 2.0**62


def transform(projection: "Projection", matrix: Any, *, exact: bool) -> NDArray[Any]:
    """Return the projection of each row of a matrix; see `Projection.transform`."""
    given = matrix_of(matrix)
    if given.ndim != 2 or given.shape[1] != projection.dim:
        raise InvalidInputError(
            f"the matrix must have the shape (n, {projection.dim}), a column for each index of the projection; "
            f"got {given.shape}"
        )
    prepared = _on_grid(projection, given) if exact else _as_float(given)
    out = np.zeros((given.shape[0], projection.sketch_dim), dtype=prepared.dtype)
    scale = out.dtype.type(1 if exact else projection.scale)
    if sparse.issparse(prepared):
        projection.project_csr(prepared if exact else prepared * scale, out)
        return out
    projection.project_dense(prepared, out)
    return out if exact else np.multiply(out, scale, out=out)


def exact_product(values: Any, block: NDArray[np.int64], largest: int) -> Any:
    """Return ``values @ block`` of int64 matrices, ``largest`` bounding Σ|terms| of every cell of it.

    Below 2^53 floats hold every partial sum exactly, whatever the order, and BLAS is some ten times as fast.
    """
    if largest < _EXACT_FLOAT and not sparse.issparse(values):
        return (values.astype(np.float64) @ block.astype(np.float64)).astype(np.int64)
    return values @ block


def matrix_of(matrix: Any) -> Any:
    """Return a NumPy array or a CSR array in canonical form."""
    if sparse.issparse(matrix):
        rows = sparse.csr_array(matrix)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        return rows
    if isinstance(matrix, np.ma.MaskedArray):
        raise InvalidInputError("the matrix is a masked array, which holds no value in places; fill them first")
    if isinstance(matrix, np.ndarray):
        return np.asarray(matrix)
    if isinstance(matrix, pa.ChunkedArray | pa.Array):
        return _vectors_of(matrix)
    if hasattr(matrix, "__arrow_c_stream__"):  # Arrow tables, and the data frames that hand over as such
        table = pa.table(matrix)
        columns = [column.to_numpy() for column in table.columns if not column.null_count]
        if len(columns) < table.num_columns:
            raise InvalidInputError("the matrix holds nulls; fill or drop them first")
        return np.column_stack(columns) if columns else np.empty((table.num_rows, 0))
    return np.asarray(matrix)


def _vectors_of(column: Any) -> NDArray[Any]:
    """Return an Arrow column of vectors of one length as a matrix."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = array.storage if isinstance(array, pa.FixedShapeTensorArray) else array
    if not pa.types.is_fixed_size_list(array.type):
        raise InvalidInputError(
            f"an Arrow array that is a matrix has the type fixed_size_list, got {array.type}. Cast it to "
            f"pyarrow.list_(type, length)"
        )
    flat = array.flatten()
    if array.null_count or flat.null_count:
        raise InvalidInputError("the matrix holds nulls; fill or drop them first")
    vectors: NDArray[Any] = flat.to_numpy(zero_copy_only=False).reshape(len(array), array.type.list_size)
    return vectors


def _on_grid(projection: "Projection", matrix: Any) -> Any:
    """Return the matrix in grid steps, int64, once no row can overflow."""
    values = matrix.data if sparse.issparse(matrix) else np.ravel(matrix)
    steps = quantise(values, projection.grid)
    if sparse.issparse(matrix):
        quantised = sparse.csr_array((steps, matrix.indices, matrix.indptr), shape=matrix.shape)
    else:
        quantised = steps.reshape(matrix.shape)
    projection.check_mass(largest_mass(quantised))
    return quantised


def largest_mass(matrix: Any) -> int:
    """Return the largest Σ|q| of a row of an int64 matrix, dense or CSR, exactly."""
    if not matrix.shape[0]:
        return 0
    rough = np.asarray(abs(matrix.astype(np.float64)).sum(axis=1)).reshape(-1)
    if rough.max() < _SAFE_SUM:
        return int(np.asarray(abs(matrix).sum(axis=1)).max())
    heavy = (matrix[[row]] for row in np.flatnonzero(rough >= _SAFE_SUM))  # int64 sums could wrap: Python's cannot
    masses: list[int] = [sum(map(abs, (row.data if sparse.issparse(row) else row[0]).tolist())) for row in heavy]
    return max(masses)


def _as_float(matrix: Any) -> Any:
    if matrix.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"the matrix must hold numbers, got {matrix.dtype}. Decimals and fractions need exact=True"
        )
    wanted = np.float32 if matrix.dtype == np.float32 else np.float64
    numbers: Any
    if sparse.issparse(matrix):
        floats = matrix.astype(wanted, copy=False)
        numbers = floats.data
    else:
        floats = numbers = np.ascontiguousarray(matrix, dtype=wanted)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(numbers.sum())  # a finite sum has finite terms
    if not (finite or np.isfinite(numbers).all()):
        raise InvalidInputError("the matrix holds NaN or infinite values; fill or drop them first")
    return floats
