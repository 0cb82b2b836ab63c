"""Numba kernels that project whole matrices by a block-hashed map, in int64, float64 or float32.

Integer cells are bounded by the mass of their row, which callers keep below 2^63; sums on the way may wrap.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsketch._jit import kernel
from streamsketch.encoding import Ints
from streamsketch.hashing import Words, horner_narrow, horner_wide
from streamsketch.projections.kernels import scatter_word
from streamsketch.projections.vectors import VECTOR_BYTES, add_vector, transpose_tile

_BLOCK = 512
_TILE = 16  # cells folded at a time: a sweep down all lines would meet the same cache sets
_COLUMNS = 1 << 13  # their bit fields are kept at a time
_LIMIT_32 = np.uint64(1 << 32)


@kernel
def block_csr(
    starts: Ints,
    keys: Words,
    values: NDArray[Any],
    coefficients: Words,
    rows: int,
    width: int,
    rows_per_word: int,
    out: NDArray[Any],
) -> None:
    """Write the projection of each row of a CSR matrix into ``out``, (n, sketch_dim)."""
    scratch = np.zeros((rows, 1 << width), dtype=values.dtype)
    word_block = np.empty(_BLOCK, dtype=np.uint64)
    buckets = scratch.shape[1] // 2
    for line in range(out.shape[0]):
        for start in range(starts[line], starts[line + 1], _BLOCK):
            end = min(start + _BLOCK, starts[line + 1])
            words = word_block[: end - start]
            for word in range(coefficients.shape[0]):
                _hash(keys[start:end], coefficients[word], words)
                first = word * rows_per_word
                scatter_word(words, values[start:end], scratch, first, min(rows_per_word, rows - first), width)
        cells = out[line]
        for row in range(rows):
            field = scratch[row]
            for bucket in range(buckets):
                cells[row * buckets + bucket] = field[bucket] - field[buckets + bucket]
            field[:] = 0


@kernel
def block_dense(
    matrix: NDArray[Any], coefficients: Words, rows: int, width: int, rows_per_word: int, out: NDArray[Any]
) -> None:
    """Write the projection of each row of (n, dim), C-contiguous, into ``out``, (n, sketch_dim)."""
    lines, dim = matrix.shape
    size = 1 << width
    lanes = VECTOR_BYTES // matrix.itemsize  # matrix rows that go together: one scatter is one vector addition
    fields = np.empty((rows, min(dim, _COLUMNS)), dtype=np.int64)
    transposed = aligned_zeros(fields.shape[1] * lanes, matrix)
    scratch = aligned_zeros(rows * size * lanes, matrix)
    out[:] = 0
    for start in range(0, dim, _COLUMNS):
        columns = min(_COLUMNS, dim - start)
        _fill_fields(start, columns, coefficients, rows, width, rows_per_word, fields)
        for first in range(0, lines, lanes):
            _transpose(matrix[first : first + lanes], start, columns, transposed, lanes)
            for row in range(rows):
                for j in range(columns):
                    add_vector(scratch, fields[row, j] * lanes, transposed, j * lanes)
            _fold_lanes(scratch.reshape(rows * size, lanes), rows, size, out[first : first + lanes])


@kernel
def _transpose(lines: NDArray[Any], start: int, columns: int, transposed: NDArray[Any], lanes: int) -> None:
    """Write column start + j of up to ``lanes`` lines at ``transposed[j · lanes]``."""
    tiled = columns // lanes * lanes if lines.shape[0] == lanes else 0
    cells = lines.reshape(-1)
    for j in range(0, tiled, lanes):
        transpose_tile(cells, start + j, lines.shape[1], transposed, j * lanes)
    for lane in range(lines.shape[0]):
        line = lines[lane]
        for j in range(tiled, columns):
            transposed[j * lanes + lane] = line[start + j]


@kernel
def aligned_zeros(size: int, like: NDArray[Any]) -> NDArray[Any]:
    """Return zeros of the dtype of ``like`` that begin at a multiple of 64 bytes: a vector is then one cache line."""
    lanes = VECTOR_BYTES // like.itemsize
    cells = np.zeros(size + lanes, dtype=like.dtype)
    start = (-cells.ctypes.data % VECTOR_BYTES) // like.itemsize
    return cells[start : start + size]


@kernel
def _fold_lanes(scratch: NDArray[Any], rows: int, size: int, out: NDArray[Any]) -> None:
    """Add plus minus minus cells to the lines of ``out``, and clear the scratch."""
    buckets = size // 2
    for row in range(rows):
        plus = scratch[row * size : row * size + buckets]
        minus = scratch[row * size + buckets : (row + 1) * size]
        for tile in range(0, buckets, _TILE):
            for lane in range(out.shape[0]):
                cells = out[lane]
                for bucket in range(tile, min(tile + _TILE, buckets)):
                    cells[row * buckets + bucket] += plus[bucket, lane] - minus[bucket, lane]
    scratch[:] = 0


@kernel
def _fill_fields(
    start: int, columns: int, coefficients: Words, rows: int, width: int, rows_per_word: int, fields: Ints
) -> None:
    """Write the scratch place that each row block has for the indices from ``start`` on."""
    keys = np.arange(start, start + columns).astype(np.uint64)
    words = np.empty(columns, dtype=np.uint64)
    mask = np.uint64((1 << width) - 1)
    for word in range(coefficients.shape[0]):
        _hash(keys, coefficients[word], words)
        first = word * rows_per_word
        for row in range(first, min(first + rows_per_word, rows)):
            offset = np.uint64((row - first) * width)
            for j in range(columns):
                fields[row, j] = (row << width) + np.int64((words[j] >> offset) & mask)


@kernel
def _hash(keys: Words, coefficients: Words, words: Words) -> None:
    largest = np.uint64(0)
    for i in range(keys.size):
        largest = max(largest, keys[i])
    if largest < _LIMIT_32:
        horner_narrow(keys, coefficients, words)
    else:
        horner_wide(keys, coefficients, words)
