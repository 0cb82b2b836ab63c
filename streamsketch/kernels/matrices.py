"""Numba kernels that project whole matrices by a block-hashed map, in int64, float64 or float32.

Integer cells are sums modulo 2^64, as int64 addition computes them.
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import kernel
from streamsketch.core.numbers import Ints, Numbers
from streamsketch.kernels.hashing import Words, evaluate
from streamsketch.kernels.vectors import VECTOR_BYTES, add_signed, transpose_tile

_BLOCK = 512  # nonzeros hashed at a time
_WORDS = 1 << 14  # fewer, if their hash words would not fit in the L2 cache
_COLUMNS = 1 << 12  # columns whose places are kept at a time: with the transposed lines they fit in the L2 cache
_PLACES = 1 << 20  # at most so many places, 8 MB, or those of 512 columns
_0, _1 = np.uint64(0), np.uint64(1)

Number = TypeVar("Number", bound=np.generic)


@kernel
def largest_bits(numbers: Numbers, mask: Any) -> Any:
    """Return the largest of the unsigned ``numbers & mask``.

    The bits of floats without their sign have the order of absolute values, with infinity above all finite values and
    NaN above infinity.
    """
    largest = mask & ~mask
    for i in range(numbers.size):
        bits = numbers[i] & mask
        largest = bits if bits > largest else largest  # noqa: FURB136 - `max` takes long to compile
    return largest


@kernel
def block_csr(
    starts: Ints,
    keys: Words,
    values: Numbers,
    coefficients: Words,
    rows: int,
    width: int,
    rows_per_word: int,
    out: Numbers,
) -> None:
    """Write the projection of each row of a CSR matrix into ``out``, (n, sketch_dim).

    ``starts`` is the matrix's indptr, (n + 1,). The nonzeros are hashed in blocks across the ends of rows, and added
    directly to the row of ``out``: with a scratch of separate plus and minus cells, as used for sketches, short rows
    would pay for its 2k cells.
    """
    block = min(_BLOCK, max(8, _WORDS // coefficients.shape[0]))
    words = np.empty((coefficients.shape[0], block), dtype=np.uint64)
    base = hashed = starts[0]
    for line in range(out.shape[0]):
        cells = out[line].reshape(rows, -1)
        cells[:] = 0
        start, last = starts[line], starts[line + 1]
        while start < last:
            if start == hashed:
                base, hashed = hashed, min(hashed + block, starts[-1])
                for word in range(coefficients.shape[0]):
                    evaluate(keys[base:hashed], coefficients[word], words[word, : hashed - base])
            end = min(hashed, last)
            for word in range(coefficients.shape[0]):
                blocks = cells[word * rows_per_word : (word + 1) * rows_per_word]
                _scatter_signed(words[word, start - base : end - base], values[start:end], blocks, width)
            start = end


@kernel
def _scatter_signed(words: Words, values: Numbers, blocks: Numbers, width: int) -> None:
    """Add ±``values`` to the cells given by each word's bit fields, one in each row of ``blocks``."""
    step, sign = np.uint64(width), np.uint64(1 << (width - 1))
    bucket = sign - _1
    row = 0
    while row + 4 <= blocks.shape[0]:  # four rows in one pass, to load each word once
        row_0, row_1, row_2, row_3 = blocks[row], blocks[row + 1], blocks[row + 2], blocks[row + 3]
        offset = np.uint64(row * width)
        for i in range(values.size):
            word, plus, minus = words[i] >> offset, values[i], -values[i]
            row_0[word & bucket] += plus if word & sign == _0 else minus  # a select, not a branch
            word >>= step
            row_1[word & bucket] += plus if word & sign == _0 else minus
            word >>= step
            row_2[word & bucket] += plus if word & sign == _0 else minus
            word >>= step
            row_3[word & bucket] += plus if word & sign == _0 else minus
        row += 4
    while row < blocks.shape[0]:
        cells, offset = blocks[row], np.uint64(row * width)
        for i in range(values.size):
            word = words[i] >> offset
            cells[word & bucket] += values[i] if word & sign == _0 else -values[i]
        row += 1


@kernel
def block_dense(matrix: Numbers, coefficients: Words, rows: int, width: int, rows_per_word: int, out: Numbers) -> None:
    """Write the projection of each row of (n, dim), C-contiguous, into ``out``, (n, sketch_dim)."""
    lines, dim = matrix.shape
    buckets = 1 << (width - 1)
    lanes = VECTOR_BYTES // matrix.itemsize  # matrix rows at a time: one scatter is one vector addition
    step = min(_COLUMNS, max(512, _PLACES // rows))
    places = np.empty((rows, min(step, dim)), dtype=np.int64)
    signs = np.empty(places.shape, dtype=matrix.dtype)
    turned = aligned_zeros(places.shape[1] * lanes, matrix)
    scratch = aligned_zeros((rows * buckets + lanes) * lanes, matrix)  # the last tile of a fold may end past the cells
    tile = aligned_zeros(lanes * lanes, matrix)
    for start in range(0, max(dim, 1), step):
        columns = min(step, dim - start)
        keys = np.arange(start, start + columns).astype(np.uint64)
        _fill_places(keys, coefficients, rows, width, rows_per_word, lanes, places, signs)
        for first in range(0, lines, lanes):
            _turn(matrix[first : first + lanes], start, columns, turned, lanes)
            _scatter_lanes(turned, places, signs, columns, lanes, scratch)
            if start == 0:
                out[first : first + lanes] = 0
            _fold_lanes(scratch, rows, buckets, tile, lanes, out[first : first + lanes])


@kernel
def _scatter_lanes(turned: Numbers, places: Ints, signs: Numbers, columns: int, lanes: int, scratch: Numbers) -> None:
    """Add vector j of ``turned``, signed, at the places of column j, one in each row block."""
    row = 0
    while row + 2 <= places.shape[0]:  # two rows in one pass: the vectors of more would not stay in the L1 cache
        row_0, row_1, signs_0, signs_1 = places[row], places[row + 1], signs[row], signs[row + 1]
        for j in range(columns):
            add_signed(scratch, (row_0[j], row_1[j]), turned, j * lanes, (signs_0[j], signs_1[j]))
        row += 2
    while row < places.shape[0]:
        for j in range(columns):
            add_signed(scratch, (places[row, j],), turned, j * lanes, (signs[row, j],))
        row += 1


@kernel
def _turn(lines: Numbers, start: int, columns: int, turned: Numbers, lanes: int) -> None:
    """Write column start + j of up to ``lanes`` lines at ``turned[j · lanes]``; other lanes are unchanged."""
    tiled = columns // lanes * lanes if lines.shape[0] == lanes else 0
    cells = lines.reshape(-1)
    for j in range(0, tiled, lanes):
        transpose_tile(cells, start + j, lines.shape[1], turned, j * lanes, lanes)
    for lane in range(lines.shape[0]):
        line = lines[lane]
        for j in range(tiled, columns):
            turned[j * lanes + lane] = line[start + j]


@kernel
def aligned_zeros(size: int, like: NDArray[Number]) -> NDArray[Number]:
    """Return zeros of the dtype of ``like``, aligned to 64 bytes, so that a vector is one cache line."""
    lanes = VECTOR_BYTES // like.itemsize
    cells = np.zeros(size + lanes, dtype=like.dtype)
    start = (-cells.ctypes.data % VECTOR_BYTES) // like.itemsize
    return cells[start : start + size]


@kernel
def _fold_lanes(scratch: Numbers, rows: int, buckets: int, tile: Numbers, lanes: int, out: Numbers) -> None:
    """Add the cells of the scratch to the lines of ``out``, and clear it."""
    cells = min(lanes, buckets)  # cells of a tile: both are powers of two
    for place in range(0, rows * buckets, cells):
        transpose_tile(scratch, place * lanes, lanes, tile, 0, lanes)
        for lane in range(out.shape[0]):
            line, column = out[lane, place : place + cells], tile[lane * lanes : lane * lanes + cells]
            for i in range(cells):
                line[i] += column[i]
    scratch[:] = 0


@kernel
def _fill_places(
    keys: Words,
    coefficients: Words,
    rows: int,
    width: int,
    rows_per_word: int,
    lanes: int,
    places: Ints,
    signs: Numbers,
) -> None:
    """Write the scratch place and the sign of each of ``keys`` in each row block."""
    words = np.empty(keys.size, dtype=np.uint64)
    bucket = np.uint64((1 << (width - 1)) - 1)
    for word in range(coefficients.shape[0]):
        evaluate(keys, coefficients[word], words)
        first = word * rows_per_word
        for row in range(first, min(first + rows_per_word, rows)):
            offset, sign = np.uint64((row - first) * width), np.uint64((row - first) * width + width - 1)
            for j in range(keys.size):
                places[row, j] = ((row << (width - 1)) + np.int64((words[j] >> offset) & bucket)) * lanes
                signs[row, j] = 1 - 2 * np.int64((words[j] >> sign) & _1)
