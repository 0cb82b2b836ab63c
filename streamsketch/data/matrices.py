"""Read matrices without loss: no number is converted or summed inexactly."""

import contextlib
import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.libraries import pa, sparse
from streamsketch.data.grid import quantise, quantise_one
from streamsketch.errors import InvalidInputError

_REBUILT = ("csr", "csc", "bsr", "coo")


@dataclasses.dataclass(frozen=True)
class MixedColumns:
    """A table with columns of several types, which no single dtype would hold exactly."""

    columns: "list[pa.ChunkedArray]"
    shape: tuple[int, int]
    ndim: int = 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """int64 if all columns are integers, else object."""
        whole = all(pa.types.is_integer(column.type) for column in self.columns)
        return np.dtype(np.int64 if whole else object)


def matrix_of(matrix: Any, *, exact: bool) -> Any:
    """Return a NumPy array, a CSR array in canonical form or, where ``exact`` needs them apart, `MixedColumns`.

    Raises
    ------
    InvalidInputError
        For nulls, masks, ragged rows, and sparse indices outside their matrix.

    Notes
    -----
    Duplicate entries of a sparse matrix are summed; integers, if ``exact``, modulo 2^64, as cells are.
    """
    if sparse.issparse(matrix):
        return _canonical(matrix, exact=exact) if matrix.ndim == 2 else matrix
    if isinstance(matrix, np.ma.MaskedArray):
        raise InvalidInputError("the matrix is a masked array; fill the masked entries first")
    if isinstance(matrix, np.ndarray):
        return np.asarray(matrix)
    if isinstance(matrix, pa.ChunkedArray | pa.Array):
        return _vectors_of(matrix)
    if hasattr(matrix, "__arrow_c_stream__"):  # Arrow tables, and data frames with Arrow's interface
        try:
            table = pa.table(matrix)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):  # whose text quotes a value
            raise InvalidInputError(
                "the matrix has a column of mixed types, such as numbers and text, or two columns of one name; cast "
                "or rename them first"
            ) from None
        return _columns_of(table, exact=exact)
    return _rows_of(matrix, exact=exact)


def steps_of(matrix: Any, grid: Any) -> Any:
    """Quantise what `matrix_of` returned: trunc(value / grid), exactly, as int64, dense and C-contiguous or CSR."""
    if isinstance(matrix, MixedColumns):
        return np.ascontiguousarray(np.column_stack([quantise(column, grid) for column in matrix.columns]))
    values = matrix.data if sparse.issparse(matrix) else np.ravel(matrix)
    if values.dtype.kind == "O":
        steps: np.ndarray[Any, np.dtype[np.int64]] = np.array(
            [quantise_one(value, grid) for value in values.tolist()], dtype=np.int64
        )
    else:
        steps = quantise(values, grid)
    if sparse.issparse(matrix):
        return sparse.csr_array((steps, matrix.indices, matrix.indptr), shape=matrix.shape)
    return steps.reshape(matrix.shape)


# --- sparse -------------------------------------------------------------------------------------------------


def _canonical(matrix: Any, *, exact: bool) -> Any:
    matrix = _validated(matrix)
    wide = _wide_enough(matrix, exact=exact)
    rows = _summed(wide)
    return rows.astype(np.float32) if matrix.dtype == np.float32 and not exact else rows


def _validated(matrix: Any) -> Any:
    """Return the matrix rebuilt with validated indices, since the kernels do not check them."""
    if matrix.format not in _REBUILT:
        matrix = matrix.tocsr()
    build = getattr(sparse, f"{matrix.format}_array")
    try:
        if matrix.format == "coo":
            return build((matrix.data, matrix.coords), shape=matrix.shape)
        rebuilt = build((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
        rebuilt.check_format(full_check=True)
    except ValueError:  # its text may contain an index
        raise InvalidInputError(
            f"the sparse matrix of shape {matrix.shape} is invalid: an index is out of range, or row pointers "
            f"decrease. Fix it, or build it from coordinates"
        ) from None
    return rebuilt


def _wide_enough(matrix: Any, *, exact: bool) -> Any:
    """Return the matrix in a dtype wide enough for sums of duplicates: int8 would wrap at 128."""
    if matrix.has_canonical_format and matrix.format != "coo":
        return matrix
    if exact and matrix.dtype.kind in "iu":
        if matrix.dtype == np.uint64 and matrix.nnz and int(matrix.data.max()) >= 1 << 63:
            raise InvalidInputError("value out of range: unsigned integers must be below 2**63")
        return matrix.astype(np.int64, copy=False)
    if matrix.dtype.kind in "iuf" or (matrix.dtype.kind == "b" and not exact):
        return matrix.astype(np.promote_types(matrix.dtype, np.float64), copy=False)
    return matrix


def _summed(matrix: Any) -> Any:
    rows = matrix.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


# --- tables, vectors, lists ---------------------------------------------------------------------------------


def _columns_of(table: "pa.Table", *, exact: bool) -> Any:
    if any(column.null_count for column in table.columns):
        raise InvalidInputError("the matrix holds nulls; fill or drop them first")
    if exact and len({column.type for column in table.columns}) > 1:
        return MixedColumns(table.columns, table.shape)
    columns = [column.to_numpy() for column in table.columns]
    return np.column_stack(columns) if columns else np.empty((table.num_rows, 0))


def _vectors_of(column: Any) -> NDArray[Any]:
    """Return an Arrow column of vectors of equal length as a matrix."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = array.storage if isinstance(array, pa.FixedShapeTensorArray) else array
    if not pa.types.is_fixed_size_list(array.type):
        raise InvalidInputError(
            f"an Arrow array read as a matrix must have the type fixed_size_list, got {array.type}. Cast it to "
            f"pyarrow.list_(type, length)"
        )
    flat = array.flatten()
    if array.null_count or flat.null_count:
        raise InvalidInputError("the matrix holds nulls; fill or drop them first")
    vectors: NDArray[Any] = flat.to_numpy(zero_copy_only=False).reshape(len(array), array.type.list_size)
    return vectors


def _rows_of(matrix: Any, *, exact: bool) -> NDArray[Any]:
    """Read nested lists, data frames without Arrow's interface, and whatever else NumPy accepts."""
    try:
        if exact and isinstance(matrix, list | tuple):
            return _one_type(np.array(matrix, dtype=object))
        return _one_type(matrix.to_numpy(dtype=object)) if exact and hasattr(matrix, "dtypes") else np.asarray(matrix)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"the matrix could not be read as rows of equal length ({type(error).__name__}); pass a NumPy array"
        ) from None


def _one_type(objects: NDArray[Any]) -> NDArray[Any]:
    """Return Python numbers as int64 or float64 if all are of that kind, else unchanged."""
    kinds = set(map(type, objects.ravel().tolist()))
    if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        with contextlib.suppress(OverflowError):
            return objects.astype(np.int64)
    elif all(issubclass(kind, float | np.float32 | np.float16) for kind in kinds):
        return objects.astype(np.float64)
    return objects
