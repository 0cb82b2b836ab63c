"""Kernels that count the differing bits of all pairs of packed rows.

A tile is 4 rows by 16 columns. As many of its counts as the processor has registers for stay there over all words, so
that what is loaded serves several pairs. With AVX-512 VPOPCNTDQ that is the whole tile, and eight words of a pair take
an exclusive or, a count and an addition.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import compiles_for, intrinsic, kernel
from streamsketch.core.libraries import cgutils, ir, types
from streamsketch.core.numbers import Ints
from streamsketch.kernels.carryless import arrays, check_contiguous
from streamsketch.kernels.hashing import Words
from streamsketch.kernels.llvm_types import (
    Builder,
    Context,
    Intrinsic,
    NumbaType,
    Signature,
    TypingContext,
    Value,
    i32,
    i64,
)
from streamsketch.kernels.vectors import transpose_tile

Counts: TypeAlias = NDArray[np.int16] | NDArray[np.int32]

ROWS, COLUMNS = 4, 16

_LINE, _TWO = 64, 2
PLACE_BITS = 32  # of a column in a key, behind its distance
NO_COLUMN = (1 << 63) - 1
_CHUNK_WORDS = 1 << 14  # of columns, 128 KiB: they stay in the second cache


@intrinsic
def count_tile(
    typingctx: TypingContext,
    rows: NumbaType,
    places: NumbaType,
    columns: NumbaType,
    block: NumbaType,
    words: NumbaType,
    out: NumbaType,
    at: NumbaType,
) -> Intrinsic:
    """Write popcount(row XOR column) of 4 rows and 16 columns; bounds are not checked.

    Parameters
    ----------
    rows
        uint64, one-dimensional, C-contiguous.
    places
        Where each of the four rows starts in ``rows``, a tuple.
    columns
        uint64, one-dimensional, C-contiguous: from ``block`` on, 16 first words, 16 second words and so on.
    words
        Words of a row; the integers of ``out`` must hold 64 times as much.
    out
        int16 or int32, one-dimensional, C-contiguous.
    at
        Where each row's 16 counts start in ``out``, a tuple.
    """
    del typingctx, block, words  # Numba passes types here; the values are in ``arguments``
    check_contiguous(rows, columns, out)

    def generate(context: Context, builder: Builder, signature: Signature, arguments: list[Value]) -> Value:
        operands = arrays(context, builder, signature, arguments)
        starts, targets = (cgutils.unpack_tuple(builder, arguments[i]) for i in (1, 6))
        held_rows, held_columns, lanes = _held(context)
        columns_from = builder.gep(operands[2].data, [arguments[3]])
        counter = _Counter(builder, lanes, operands[0].data, columns_from, arguments[4])
        for row in range(0, ROWS, held_rows):
            for column in range(0, COLUMNS, held_columns):
                part = slice(row, row + held_rows)
                counter.count(starts[part], column, held_columns // lanes, operands[5].data, targets[part])
        return context.get_dummy_value()

    return types.void(rows, places, columns, types.intp, types.intp, out, at), generate


def _held(context: Context) -> tuple[int, int, int]:
    """Return the rows and columns whose counts fit in registers, and the counts in one; measured for each."""
    if compiles_for(context, "avx512vpopcntdq", "avx512f"):
        return ROWS, COLUMNS, 8
    if compiles_for(context, "sse2") and not compiles_for(context, "avx2"):  # one word at a time, if it can
        return (1, 4, 1) if compiles_for(context, "popcnt") else (1, 8, 8)
    return 2, 8, 8


class _Counter:
    """Emits the loops over words."""

    def __init__(self, builder: Builder, lanes: int, rows: Value, columns: Value, count: Value) -> None:
        self.builder, self.lanes, self.rows, self.columns, self.length = builder, lanes, rows, columns, count
        self.words, name = (ir.VectorType(i64(), lanes), f"v{lanes}i64") if lanes > 1 else (i64(), "i64")
        kind = ir.FunctionType(self.words, [self.words])
        self.popcount = cgutils.get_or_insert_function(builder.module, kind, f"llvm.ctpop.{name}")

    def count(self, starts: Value, column: int, vectors: int, out: Value, targets: Value) -> None:
        """Count ``vectors`` registers of columns from ``column`` on of the rows that begin at ``starts``."""
        builder, zero, lanes = self.builder, ir.Constant(i64(), 0), self.lanes
        nothing = ir.Constant(self.words, [0] * lanes if lanes > 1 else 0)
        totals = [[cgutils.alloca_once_value(builder, nothing) for _ in range(vectors)] for _ in starts]
        with cgutils.for_range_slice(builder, zero, self.length, ir.Constant(i64(), 1)) as (j, _):
            first = builder.add(builder.mul(j, ir.Constant(i64(), COLUMNS)), ir.Constant(i64(), column))
            held = [self._load(builder.add(first, ir.Constant(i64(), lanes * v))) for v in range(vectors)]
            for start, row in zip(starts, totals, strict=True):
                word = self._everywhere(builder.load(builder.gep(self.rows, [builder.add(start, j)])))
                for total, vector in zip(row, held, strict=True):
                    ones = builder.call(self.popcount, [builder.xor(word, vector)])
                    builder.store(builder.add(builder.load(total), ones), total)
        cell = out.type.pointee
        counted = ir.VectorType(cell, lanes) if lanes > 1 else cell
        for target, row in zip(targets, totals, strict=True):
            for v, total in enumerate(row):
                place = builder.gep(out, [builder.add(target, ir.Constant(i64(), column + lanes * v))])
                counts = builder.trunc(builder.load(total), counted)
                builder.store(counts, builder.bitcast(place, counted.as_pointer()), align=2)

    def _load(self, place: Value) -> Value:
        address = self.builder.bitcast(self.builder.gep(self.columns, [place]), self.words.as_pointer())
        return self.builder.load(address, align=8)

    def _everywhere(self, word: Value) -> Value:
        if self.lanes == 1:
            return word
        nothing = ir.Constant(self.words, ir.Undefined)
        first = self.builder.insert_element(nothing, word, ir.Constant(i32(), 0))
        lanes = ir.Constant(ir.VectorType(i32(), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, nothing, lanes)


@kernel
def in_blocks(columns: Words) -> Words:
    """Return (m, w) words as `count_tile` reads them: for each 16 columns, w lines of 16 words; 0 beyond the last."""
    count, words = columns.shape
    blocks = (count + COLUMNS - 1) // COLUMNS
    out = np.zeros(blocks * words * COLUMNS, dtype=np.uint64)
    for i in range(count):
        first = i // COLUMNS * words * COLUMNS + i % COLUMNS
        for w in range(words):
            out[first + w * COLUMNS] = columns[i, w]
    return out


@kernel
def count_pairs(rows: Words, begin: int, end: int, blocks: Words, out: Counts, mirrored: bool) -> None:  # noqa: FBT001
    """Write the distances of rows ``begin`` to ``end`` to all columns into those rows of ``out``, (n, m).

    ``blocks`` is `in_blocks` of the columns. If ``mirrored``, they are the rows themselves, and ``begin`` is a multiple
    of 32: each 32 rows are compared with the columns from their own on, and the counts are written twice.
    """
    count, size, group = out.shape[1], rows.shape[1] * COLUMNS, _LINE // out.itemsize
    chunk = max(_TWO, _CHUNK_WORDS // size // _TWO * _TWO) * COLUMNS
    for left in range(begin // chunk * chunk if mirrored else 0, count, chunk):
        right = min(left + chunk, count)
        for first in range(begin, end, group):
            last = min(first + group, end)
            if not mirrored:
                _count(rows, first, last, blocks, left, right, out)
            elif first < right:
                _count(rows, first, last, blocks, max(left, first), right, out)
                _mirror(out, first, last, max(left, last), right)


@kernel
def _count(rows: Words, first: int, last: int, blocks: Words, left: int, right: int, out: Counts) -> None:
    """Count rows ``first`` to ``last`` and columns ``left``, a multiple of 16, to ``right``."""
    words, count = rows.shape[1], out.shape[1]
    flat, cells, spare = rows.reshape(-1), out.reshape(-1), np.empty(ROWS * COLUMNS, dtype=out.dtype)
    for i in range(first, last, ROWS):
        a, b, c, d = i, min(i + 1, last - 1), min(i + 2, last - 1), min(i + 3, last - 1)
        places = (a * words, b * words, c * words, d * words)
        for j in range(left, right, COLUMNS):
            if j + COLUMNS <= count:
                lines = (a * count + j, b * count + j, c * count + j, d * count + j)
                count_tile(flat, places, blocks, j * words, words, cells, lines)
            else:
                lines = (0, COLUMNS, 2 * COLUMNS, 3 * COLUMNS)
                count_tile(flat, places, blocks, j * words, words, spare, lines)
                for place in range((min(ROWS, last - i)) * COLUMNS):
                    if place % COLUMNS < count - j:
                        out[i + place // COLUMNS, j + place % COLUMNS] = spare[place]


@kernel
def _mirror(out: Counts, first: int, last: int, left: int, right: int) -> None:
    """Copy out[i, j] to out[j, i], for rows ``first`` to ``last`` and columns ``left`` to ``right``."""
    cells, count, group = out.reshape(-1), out.shape[1], _LINE // out.itemsize
    for j in range(left, right, group):
        if last - first == group and j + group <= right:
            transpose_tile(cells, first * count + j, count, cells, j * count + first, count)
        else:
            for column in range(j, min(j + group, right)):
                for i in range(first, last):
                    out[column, i] = out[i, column]


@kernel
def nearest_columns(rows: Words, blocks: Words, begin: int, end: int, best: Ints) -> None:
    """Keep for each row the columns of least distance among those from ``begin``, a multiple of 16, to ``end``.

    Parameters
    ----------
    rows
        uint64, (n, w), C-contiguous.
    blocks
        `in_blocks` of the columns.
    begin, end
        Which columns; ``end`` at most 2^32.
    best
        int64, (n, top), C-contiguous: distance·2^32 + column for each column kept, as a heap whose root is the largest.
        Places without a column hold 2^63 - 1. Equal distances keep the lesser columns, as columns are visited in
        ascending order.
    """
    n, words = rows.shape
    flat, lines = rows.reshape(-1), (0, COLUMNS, 2 * COLUMNS, 3 * COLUMNS)
    counts, bounds = np.empty(ROWS * COLUMNS, dtype=np.int32), np.empty(ROWS * COLUMNS, dtype=np.int32)
    chunk = max(1, _CHUNK_WORDS // (words * COLUMNS)) * COLUMNS
    for left in range(begin, end, chunk):
        right = min(left + chunk, end)
        for i in range(0, n, ROWS):
            a, b, c, d = i, min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1)
            places = (a * words, b * words, c * words, d * words)
            for place in range(ROWS * COLUMNS):
                bounds[place] = _bound(best, i + place // COLUMNS)
            for j in range(left, right, COLUMNS):
                count_tile(flat, places, blocks, j * words, words, counts, lines)
                closer = 0
                for place in range(ROWS * COLUMNS):  # without a branch: vectors
                    closer |= counts[place] < bounds[place]
                if closer:
                    _keep_tile(counts, i, j, right, best)
                    for place in range(ROWS * COLUMNS):
                        bounds[place] = _bound(best, i + place // COLUMNS)


@kernel
def _bound(best: Ints, row: int) -> int:
    """Return the distance below which a column is kept, 2^31 - 1 at most; 0 for no row."""
    return best[row, 0] >> PLACE_BITS if row < best.shape[0] else 0


@kernel
def _keep_tile(counts: Counts, i: int, j: int, right: int, best: Ints) -> None:
    """Keep the pairs of a tile that are close enough; the tile begins at row i and column j."""
    for row in range(min(ROWS, best.shape[0] - i)):
        for column in range(min(COLUMNS, right - j)):
            _keep(np.int64(counts[row * COLUMNS + column]) << PLACE_BITS | (j + column), best[i + row])


@kernel
def _keep(key: Any, heap: Ints) -> None:
    """Replace the largest key of a heap by a lesser one."""
    if key >= heap[0]:
        return
    at, size = 0, heap.size
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and heap[below + 1] > heap[below]:
            below += 1
        if heap[below] <= key:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = key
