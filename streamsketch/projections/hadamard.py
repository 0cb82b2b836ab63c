"""The fast Walsh-Hadamard transform, in place."""

import numpy as np

from streamsketch.core.jit import kernel
from streamsketch.core.numbers import Numbers
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.pipeline import address
from streamsketch.kernels.vectors import VECTOR_BYTES, butterflies

_PIECE = 16  # bytes, to which NumPy aligns arrays
_INNER_BYTES, _OUTER_BYTES = 1 << 15, 1 << 18  # bytes that stay in a first-level and a second-level cache


def hadamard_transform(array: Numbers) -> None:
    """Multiply the last axis by the ±1 Walsh-Hadamard matrix, in place: ``H[f, j] = (-1)^popcount(f & j)``.

    The order is natural (Sylvester). The transform is not normalised: applied twice, it multiplies by the length N of
    the axis. It takes N log2 N additions. No result exceeds the sum of the absolute inputs; integers wrap around where
    that exceeds 63 bits.

    Parameters
    ----------
    array
        int64, float64 or float32, (..., N), C-contiguous and writeable; N is a power of two.

    Raises
    ------
    TypeError
        If it is not a NumPy array, or a masked one.
    InvalidInputError
        For another dtype, shape or layout; the array is unchanged.

    Examples
    --------
    >>> vector = np.array([1, 0, 2, 0])
    >>> hadamard_transform(vector)
    >>> vector
    array([ 3,  3, -1, -1])
    """
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"hadamard_transform works in place on a NumPy array without a mask, got a {type(array).__name__}"
        )
    if array.dtype not in (np.int64, np.float64, np.float32):
        raise InvalidInputError(f"the array must be int64, float64 or float32, got {array.dtype}; cast it first")
    if array.ndim == 0 or array.shape[-1] & (array.shape[-1] - 1) or array.shape[-1] == 0:
        raise InvalidInputError(
            f"the length of the last axis must be a power of two, got shape {array.shape}; pad it with zeros"
        )
    if not array.flags.carray:
        raise InvalidInputError("the array must be C-contiguous, aligned and writeable; transform a copy")
    # a np.matrix stays two-dimensional when reshaped, and the kernel would write past its end
    transform_cells(np.asarray(array).reshape(-1), array.shape[-1])


@kernel
def transform_cells(cells: Numbers, size: int) -> None:
    """Transform each run of ``size`` cells, a power of two: `hadamard_transform` without checks.

    Each level of the transform rounds once, so the grouping of levels into sweeps does not change the result; their
    order does: three levels between vectors, those within a vector, and the rest from the nearest to the farthest.
    """
    lanes = VECTOR_BYTES // cells.itemsize
    if size < 8 * lanes:
        for start in range(0, cells.size, size):
            _scalar(cells, start, size)
        return
    inner, outer = min(size, _INNER_BYTES // cells.itemsize), min(size, _OUTER_BYTES // cells.itemsize)
    for start in range(0, cells.size, size):
        for distant in range(start, start + size, outer):
            for first in range(distant, distant + outer, inner):
                for offset in range(first, first + inner, 8 * lanes):
                    butterflies(cells, offset, lanes, 8, VECTOR_BYTES, 1)
                _levels(cells, first, inner, 8 * lanes)
            if outer > inner:
                _levels(cells, distant, outer, inner)
        if size > outer:
            _levels(cells, start, size, outer)


@kernel
def _scalar(cells: Numbers, start: int, size: int) -> None:
    half = 1
    while half < size:
        for first in range(start, start + size, 2 * half):
            for i in range(first, first + half):
                x, y = cells[i], cells[i + half]
                cells[i] = x + y
                cells[i + half] = x - y
        half *= 2


@kernel
def _levels(cells: Numbers, start: int, size: int, half: int) -> None:
    """Compute the butterflies at distances half, 2·half, …, size / 2, with three levels in a sweep where possible."""
    while 8 * half <= size:
        for first in range(start, start + size, 8 * half):
            inner, end = _whole_lines(cells, first, half)
            for offset in range(inner, end, VECTOR_BYTES // cells.itemsize):
                butterflies(cells, offset, half, 8, VECTOR_BYTES, 0)
            for offset in range(first, inner, _PIECE // cells.itemsize):
                butterflies(cells, offset, half, 8, _PIECE, 0)
            for offset in range(end, first + half, _PIECE // cells.itemsize):
                butterflies(cells, offset, half, 8, _PIECE, 0)
        half *= 8
    if 4 * half <= size:
        for offset in range(start, start + size, 4 * half):
            _two_levels(cells, offset, half)
    elif 2 * half <= size:
        for offset in range(start, start + half, VECTOR_BYTES // cells.itemsize):
            butterflies(cells, offset, half, 2, VECTOR_BYTES, 0)


@kernel
def _two_levels(cells: Numbers, first: int, half: int) -> None:
    inner, end = _whole_lines(cells, first, half)
    for offset in range(inner, end, VECTOR_BYTES // cells.itemsize):
        butterflies(cells, offset, half, 4, VECTOR_BYTES, 0)
    for offset in range(first, inner, _PIECE // cells.itemsize):
        butterflies(cells, offset, half, 4, _PIECE, 0)
    for offset in range(end, first + half, _PIECE // cells.itemsize):
        butterflies(cells, offset, half, 4, _PIECE, 0)


@kernel
def _whole_lines(cells: Numbers, first: int, half: int) -> tuple[int, int]:
    """Return the part of ``half`` cells from ``first`` on that is whole cache lines, if the rest is whole pieces.

    NumPy's arrays start 16 bytes after a cache line, where every vector would cross a line.
    """
    lanes = VECTOR_BYTES // cells.itemsize
    lead = (-address(cells, first) % VECTOR_BYTES) // cells.itemsize
    if lead == 0 or lead % (_PIECE // cells.itemsize) or half < 16 * lanes:
        return first, first + half
    return first + lead, first + half - lanes + lead
