"""Projection of whole matrices, on the grid or in floating point."""

from typing import Any, Literal, overload

import numpy as np

from streamsketch.core.jit import read_only
from streamsketch.core.libraries import sparse
from streamsketch.core.numbers import Ints, Numbers
from streamsketch.data.matrices import matrix_of, steps_of
from streamsketch.errors import InvalidInputError, SketchOverflowError
from streamsketch.kernels.matrices import largest_bits
from streamsketch.projections.base import Projection


def transform(projection: Projection, matrix: Any, *, exact: bool) -> Numbers:
    """Return the projection of each row of a matrix; see `Projection.transform`."""
    return transform_read(projection, matrix_of(matrix, exact=exact), exact=exact)


@overload
def transform_read(projection: Projection, matrix: Any, *, exact: Literal[True]) -> Ints: ...
@overload
def transform_read(projection: Projection, matrix: Any, *, exact: bool) -> Numbers: ...
def transform_read(projection: Projection, matrix: Any, *, exact: bool) -> Numbers:
    """Return the projection of each row of a matrix that `matrix_of` returned for the same ``exact``."""
    if matrix.ndim != 2 or matrix.shape[1] != projection.dim:
        raise InvalidInputError(
            f"the matrix must have shape (n, {projection.dim}), with a column for each index of the projection; "
            f"got {matrix.shape}"
        )
    if exact:
        steps = steps_of(matrix, projection.grid)
        cells = np.zeros((matrix.shape[0], projection.sketch_dim), dtype=np.int64)
        _project(projection, steps, cells)
        return cells
    prepared, largest = _as_float(matrix)
    out = np.zeros((matrix.shape[0], projection.sketch_dim), dtype=prepared.dtype)
    scale = out.dtype.type(projection.scale)
    # two maps in a row, as in an FJLT with its padded dim, sum (2 dim)² terms: no intermediate sum is larger
    bound = largest * projection.max_entry * (2 * projection.dim) ** 2 * max(projection.scale, 1.0)
    in_range = bound < float(np.finfo(out.dtype).max) / 2
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is detected below
        if not sparse.issparse(prepared):
            _project(projection, prepared, out)
            np.multiply(out, scale, out=out)
            if in_range or _all_finite(out):
                return out
            out[:] = 0
        _project(projection, prepared * scale, out)  # entries of A may be large: S x may be in range though A x is not
    if not in_range and not _all_finite(out):
        raise SketchOverflowError(
            f"a projected number or an intermediate sum exceeds the range of {out.dtype}; pass the matrix as "
            f"float64, or scale it down"
        )
    return out


def _project(projection: Projection, matrix: Any, out: Numbers) -> None:
    if sparse.issparse(matrix):
        projection.project_csr(matrix, out)
    else:
        projection.project_dense(read_only(matrix), out)


def _all_finite(numbers: Numbers) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(numbers.sum()) or np.isfinite(numbers).all())  # a finite sum has finite terms


def _as_float(matrix: Any) -> tuple[Any, float]:
    """Return the matrix as finite floats, and their largest absolute value."""
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
    largest = _largest_magnitude(numbers)
    if not np.isfinite(largest):
        raise InvalidInputError("the matrix holds NaN or infinite values; fill or drop them first")
    return floats, largest


def _largest_magnitude(numbers: Numbers) -> float:
    """Return the largest absolute value of C-contiguous floats, 0 if there are none, NaN if any is NaN."""
    bits = np.dtype(f"u{numbers.itemsize}")
    mask = bits.type(np.iinfo(bits).max >> 1)
    return float(np.array(largest_bits(numbers.reshape(-1).view(bits), mask), dtype=bits).view(numbers.dtype))
