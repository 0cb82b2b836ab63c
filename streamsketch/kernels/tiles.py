"""Numba kernels that add tiles of 16 keys to a scratch with separate plus and minus cells.

The sign is the top bit of a row's field of a hash word, so the field itself is an index into the row's 2^width cells,
and neither a branch nor a multiplication is needed. There is one set of kernels for each way of adding, each with one
copy of the hashing and the additions, since compiling them takes long.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from streamsketch.core.jit import intrinsic, kernel, part
from streamsketch.core.libraries import ir, types
from streamsketch.core.numbers import Ints
from streamsketch.kernels.carryless import TILE, hash_tile
from streamsketch.kernels.hashing import Words
from streamsketch.kernels.llvm_types import (
    Builder,
    Context,
    Intrinsic,
    NumbaType,
    Signature,
    TypingContext,
    Value,
    i8,
    i32,
)
from streamsketch.kernels.pipeline import COMMON_INDEPENDENCE, QUAD, address, hash_and_add

Bounds: TypeAlias = tuple[Any, Any, Any, Any]  # uint64 in kernels, which Numba hands to Python as int

_BLOCK = 256  # items whose bounds are computed at a time: they stay in the L1 cache
_AHEAD = 256  # items to prefetch ahead: bounds and tiles are read faster than memory delivers
_WORDS_OF_LINE = 8
_LAST_OF_LINE = _WORDS_OF_LINE - 1
_MOST_REQUESTED = 256  # cells of a table's row while a tile is hashed: more would wait for memory
_LOW_32, _32 = np.uint64((1 << 32) - 1), np.uint64(32)


@intrinsic
def prefetch(typingctx: TypingContext, array: NumbaType, place: NumbaType) -> Intrinsic:
    """Request the cache line of ``array[place]``, to be loaded during other work; ``place`` may lie past the end.

    A kernel that processes blocks in several passes reads new memory in its first pass only, faster than it arrives.
    Hardware prefetching does not continue across the other passes, nor past a page.

    Parameters
    ----------
    array
        One-dimensional and C-contiguous.
    place
        In elements.
    """
    del typingctx, place  # Numba passes types here; the values are in ``arguments``

    def generate(context: Context, builder: Builder, signature: Signature, arguments: list[Value]) -> Value:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = i8().as_pointer(), i32()
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        read, keep, of_data = ir.Constant(number, 0), ir.Constant(number, 3), ir.Constant(number, 1)
        builder.call(function, [address, read, keep, of_data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


class Adders(NamedTuple):
    """The kernels of one way of adding; their arguments are those of `add_batch` and `add_runs` below."""

    add_batch: Callable[..., Bounds]
    add_runs: Callable[..., None]


@kernel
def batch_bounds(indices: Ints, values: Ints, start: int, end: int) -> Bounds:
    """Return the largest index, the largest |value| and Σ|values|, in units of 2^32 and the rest, of a range.

    Indices are read as uint64, where negative ones are huge, so one comparison detects them too. There are fewer than
    2^31 items.
    """
    last, largest, upper, lower = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
    for item in range(end - start):
        i = np.uint64(start + item)  # an unsigned index compiles to vector code
        key = np.uint64(indices[i])
        last = key if key > last else last  # noqa: FURB136 - `max` takes long to compile
        magnitude = np.uint64(abs(values[i]))  # |-2^63| wraps to -2^63, which is 2^63 as uint64
        largest = magnitude if magnitude > largest else largest  # noqa: FURB136
        upper += magnitude >> _32
        lower += magnitude & _LOW_32
    return last, largest, upper, lower


@kernel
def add_plainly(
    indices: Ints,
    values: Ints,
    start: int,
    end: int,
    coefficients: Words,
    rows: int,
    width: int,
    rows_per_word: int,
    scratch: Ints,
) -> None:
    """Add up to 16 items, from ``start`` to ``end``, to ``scratch``."""
    tile, words, field = np.zeros(TILE, dtype=np.uint64), np.empty(TILE, dtype=np.uint64), np.uint64((1 << width) - 1)
    for i in range(end - start):  # slice assignment takes seconds to compile, because of its formatted error message
        tile[i] = np.uint64(indices[start + i])
    for word in range(coefficients.shape[0]):
        hash_tile(tile, 0, coefficients[word], words, 0)
        first = word * rows_per_word
        for row in range(min(rows_per_word, rows - first)):
            base, offset = np.uint64((first + row) << width), np.uint64(row * width)
            for i in range(end - start):
                scratch[base + ((words[i] >> offset) & field)] += values[start + i]


@part
def pour_into(scratch: Ints, first: int, width: int, state: Ints) -> None:
    """Add the plus cells minus the minus cells, from ``scratch[first]`` on, to the k cells of ``state``."""
    buckets = 1 << (width - 1)
    for row_start in range(0, state.size, buckets):
        plus = first + 2 * row_start
        for bucket in range(buckets):
            plus_cell, minus_cell = np.uint64(plus + bucket), np.uint64(plus + buckets + bucket)
            state[np.uint64(row_start + bucket)] += scratch[plus_cell] - scratch[minus_cell]


def scratch_size(layout: Words, rows: int, width: int) -> int:
    """Return the size of the kernels' scratch, in int64: allocations inside kernels take long to compile.

    From the first cache line on it holds the cell numbers of two tiles, 16 keys, 16 values, the plus and minus cells of
    all rows, and one spare cell.
    """
    return _LAST_OF_LINE + 2 * (len(layout) + 1) * TILE + (rows << width) + 1


@part
def clear(scratch: Ints, first: int) -> None:
    """Write zeros from ``scratch[first]`` on."""
    for i in range(scratch.size - first):
        scratch[np.uint64(first + i)] = 0


@kernel
def tile_starts(counts: Ints) -> Ints:
    """Return where runs of ``counts`` items start if each is padded to whole tiles, and where the last ends."""
    starts = np.empty(counts.size + 1, dtype=np.int64)
    total = 0
    for run in range(counts.size):
        starts[run] = total
        total += (counts[run] + TILE - 1) // TILE * TILE
    starts[counts.size] = total
    return starts


@functools.cache  # only those that are used are made
def _pipelined(straight: int) -> Adders:  # noqa: C901, PLR0915 - two kernels
    """Return kernels that hash a tile while they add the previous one; ``straight`` as in `hash_and_add`.

    The first iteration adds zeros to the spare cell, which is never read.
    """

    def add_batch(
        indices: Ints,
        values: Ints,
        coefficients: Words,
        layout: Words,
        rows: int,
        width: int,
        rows_per_word: int,
        last_index: int,
        scratch: Ints,
        state: Ints,
    ) -> Bounds:
        """Add a batch to the cells of one sketch, unless an index exceeds ``last_index``; return its bounds.

        Bounds are those of `batch_bounds`. Indices out of range change arbitrary cells of ``scratch``, never ``state``.
        """
        words, whole = coefficients.shape[0], indices.size - indices.size % TILE
        first = -(address(scratch, 0) >> 3) & _LAST_OF_LINE
        spare = first + 2 * layout.shape[0] * TILE  # for the last tile, if it is not whole
        first_cell = spare + 2 * TILE
        clear(scratch, 0)
        for i in range(whole, indices.size):
            scratch[spare + i - whole], scratch[spare + TILE + i - whole] = indices[i], values[i]
        write, read = address(scratch, first), address(scratch, first + layout.shape[0] * TILE)
        last, largest, upper, lower = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
        for place in range(-TILE, indices.size, TILE):
            prefetch(indices, place + _AHEAD)  # no loop, which would take long to compile
            prefetch(indices, place + _AHEAD + _WORDS_OF_LINE)
            prefetch(values, place + _AHEAD)
            prefetch(values, place + _AHEAD + _WORDS_OF_LINE)
            if place & (_BLOCK - 1) == 0:
                end = place + _BLOCK if place + _BLOCK < indices.size else indices.size  # noqa: FURB136
                block_last, block_largest, block_upper, block_lower = batch_bounds(indices, values, place, end)
                last = block_last if block_last > last else last  # noqa: FURB136
                largest = block_largest if block_largest > largest else largest  # noqa: FURB136
                upper += block_upper
                lower += block_lower
            tile = address(indices, place)
            next_tile = address(indices, place + TILE) if place + TILE < whole else address(scratch, spare)
            added = address(values, place) if 0 <= place < whole else address(scratch, spare + TILE)
            for word in range(0 if place >= 0 else words - 1, words):
                first_row = word * rows_per_word
                hash_and_add(
                    tile if word + 1 < words else next_tile,
                    coefficients,
                    word + 1 if word + 1 < words else 0,
                    layout,
                    write,
                    read,
                    straight,
                    rows_per_word if first_row + rows_per_word < rows else rows - first_row,
                    added,
                    address(scratch, first_cell + ((first_row if place >= 0 else rows) << width)),
                )
                read, write = write, read
        if last <= np.uint64(last_index):
            pour_into(scratch, first_cell, width, state)
        return last, largest, upper, lower

    def add_runs(
        indices: Ints,
        values: Ints,
        starts: Ints,
        targets: Ints,
        coefficients: Words,
        layout: Words,
        rows: int,
        width: int,
        rows_per_word: int,
        scratch: Ints,
        table: Ints,
    ) -> None:
        """Add the items of run r, from ``starts[r]`` to ``starts[r + 1]``, to row ``targets[r]``; runs are whole tiles.

        While a tile is hashed, its share of the run's cells is requested: few tables are in a cache.
        """
        words, run, share, cell, flat = coefficients.shape[0], -1, 0, 0, table.reshape(-1)
        first = -(address(scratch, 0) >> 3) & _LAST_OF_LINE
        spare = first + 2 * layout.shape[0] * TILE
        first_cell = spare + 2 * TILE
        clear(scratch, 0)
        write, read = address(scratch, first), address(scratch, first + layout.shape[0] * TILE)
        for place in range(-TILE, indices.size, TILE):
            prefetch(indices, place + _AHEAD)  # no loop, which would take long to compile
            prefetch(indices, place + _AHEAD + _WORDS_OF_LINE)
            prefetch(values, place + _AHEAD)
            prefetch(values, place + _AHEAD + _WORDS_OF_LINE)
            if place >= 0 and starts[run + 1] == place:
                while starts[run + 1] == place:
                    run += 1
                share = (table.shape[1] + _LAST_OF_LINE) * TILE // int(starts[run + 1] - place)
                share = _MOST_REQUESTED if share > _MOST_REQUESTED else share  # noqa: FURB136
                cell = targets[run] * table.shape[1]
            for line in range(cell, cell + share, _WORDS_OF_LINE):
                prefetch(flat, line)
            cell += share
            tile = address(indices, place)
            next_tile = address(indices, place + TILE) if place + TILE < indices.size else address(scratch, spare)
            added = address(values, place) if place >= 0 else address(scratch, spare + TILE)
            for word in range(0 if place >= 0 else words - 1, words):
                first_row = word * rows_per_word
                hash_and_add(
                    tile if word + 1 < words else next_tile,
                    coefficients,
                    word + 1 if word + 1 < words else 0,
                    layout,
                    write,
                    read,
                    straight,
                    rows_per_word if first_row + rows_per_word < rows else rows - first_row,
                    added,
                    address(scratch, first_cell + ((first_row if place >= 0 else rows) << width)),
                )
                read, write = write, read
            if place >= 0 and starts[run + 1] == place + TILE:
                pour_into(scratch, first_cell, width, table[targets[run]])
                clear(scratch, first_cell)

    return Adders(kernel(add_batch), kernel(add_runs))


@functools.cache
def _plain() -> Adders:
    """Return kernels for words whose rows have more than 2^16 cells in all, where memory dominates the time."""

    def add_batch(
        indices: Ints,
        values: Ints,
        coefficients: Words,
        layout: Words,  # noqa: ARG001 - it is empty
        rows: int,
        width: int,
        rows_per_word: int,
        last_index: int,
        scratch: Ints,
        state: Ints,
    ) -> Bounds:
        clear(scratch, 0)
        for place in range(0, indices.size, TILE):
            end = min(place + TILE, indices.size)
            add_plainly(indices, values, place, end, coefficients, rows, width, rows_per_word, scratch)
        last, largest, upper, lower = batch_bounds(indices, values, 0, indices.size)
        if last <= np.uint64(last_index):
            pour_into(scratch, 0, width, state)
        return last, largest, upper, lower

    def add_runs(
        indices: Ints,
        values: Ints,
        starts: Ints,
        targets: Ints,
        coefficients: Words,
        layout: Words,  # noqa: ARG001 - it is empty
        rows: int,
        width: int,
        rows_per_word: int,
        scratch: Ints,
        table: Ints,
    ) -> None:
        clear(scratch, 0)
        for run in range(table.shape[0]):
            for place in range(starts[run], starts[run + 1], TILE):
                add_plainly(indices, values, place, place + TILE, coefficients, rows, width, rows_per_word, scratch)
            if starts[run] < starts[run + 1]:
                pour_into(scratch, 0, width, table[targets[run]])
                clear(scratch, 0)

    return Adders(kernel(add_batch), kernel(add_runs))


def adders(coefficients: Words, layout: Words, rows: int, rows_per_word: int) -> Adders:
    """Return the kernels that suit a map."""
    if len(layout) == 0:
        return _plain()
    if coefficients.shape[1] == COMMON_INDEPENDENCE and rows % rows_per_word == 0:
        return _pipelined(rows_per_word if rows_per_word in {QUAD, 2 * QUAD} else 0)
    return _pipelined(0)
