"""Numba kernels that add tiles of 16 keys to a scratch in which plus and minus cells are apart.

The sign bit tops a row's field of a hash word, so the field itself is a place in the row's 2^width cells: neither a
branch nor a multiplication is needed. There is a set of kernels for each way of adding, each with the hash and the
additions once, since compiling them takes long.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch._jit import kernel
from streamsketch.carryless import TILE, hash_tile
from streamsketch.encoding import Ints
from streamsketch.hashing import Words
from streamsketch.projections.pipeline import COMMON_INDEPENDENCE, QUAD, hash_and_add
from streamsketch.projections.prefetch import prefetch

Bounds: TypeAlias = tuple[np.uint64, np.uint64, np.uint64]

_BLOCK = 256  # items whose bounds are found at a time: they stay in the L1 cache
_AHEAD = 256  # items: bounds and tiles are read faster than memory answers
_LINE = 64  # bytes
_WORDS_OF_LINE = 8
_LOW_32, _31, _32 = np.uint64((1 << 32) - 1), np.uint64(31), np.uint64(32)


class Adders(NamedTuple):
    """The kernels of one way of adding, all with the arguments `add_batch` and `add_runs` have below."""

    add_batch: Callable[..., Bounds]
    add_runs: Callable[..., None]


@kernel
def batch_bounds(keys: Words, values: Ints) -> Bounds:
    """Return the largest key and Σ|values| as two limbs: (max, units of 2^32, the rest), uint64.

    Negative indices seen as uint64 are huge, so one comparison finds them too. The limbs cannot overflow
    for fewer than 2^31 items.
    """
    largest, upper, lower = np.uint64(0), np.uint64(0), np.uint64(0)
    for i in range(keys.size):
        largest = max(largest, keys[i])
        magnitude = np.uint64(abs(values[i]))  # |-2^63| wraps to -2^63, which is 2^63 as uint64
        upper += magnitude >> _32
        lower += magnitude & _LOW_32
    return largest, upper, lower


@kernel
def add_plainly(
    keys: Words,
    values: NDArray[Any],
    start: int,
    end: int,
    coefficients: Words,
    rows: int,
    width: int,
    rows_per_word: int,
    scratch: NDArray[Any],
) -> None:
    """Add up to 16 items, from ``start`` to ``end``, to ``scratch``."""
    tile, words, field = np.zeros(TILE, dtype=np.uint64), np.empty(TILE, dtype=np.uint64), np.uint64((1 << width) - 1)
    for i in range(end - start):  # an assignment of slices takes seconds to compile: its error is a formatted text
        tile[i] = keys[start + i]
    for word in range(coefficients.shape[0]):
        hash_tile(tile, 0, coefficients[word], words, 0)
        first = word * rows_per_word
        for row in range(min(rows_per_word, rows - first)):
            base, offset = np.uint64((first + row) << width), np.uint64(row * width)
            for i in range(end - start):
                scratch[base + ((words[i] >> offset) & field)] += values[start + i]


@kernel
def fold_scratch(scratch: NDArray[Any], width: int, state: NDArray[Any]) -> None:
    """Add plus minus minus cells of a scratch to the k cells of ``state``."""
    buckets = 1 << (width - 1)
    for first in range(0, state.size, buckets):
        plus = scratch[2 * first : 2 * first + buckets]
        minus = scratch[2 * first + buckets : 2 * first + 2 * buckets]
        cells = state[first : first + buckets]
        for bucket in range(buckets):
            cells[bucket] += plus[bucket] - minus[bucket]


@kernel
def empty_into(scratch: NDArray[Any], width: int, state: NDArray[Any]) -> None:
    """As `fold_scratch`, and clear the scratch for the next."""
    buckets = 1 << (width - 1)
    for first in range(0, state.size, buckets):
        plus = scratch[2 * first : 2 * first + buckets]
        minus = scratch[2 * first + buckets : 2 * first + 2 * buckets]
        cells = state[first : first + buckets]
        for bucket in range(buckets):
            cells[bucket] += plus[bucket] - minus[bucket]
        plus[:] = 0
        minus[:] = 0


@kernel
def within(bounds: Bounds, last_key: np.uint64, room: np.uint64) -> bool:
    """Return whether the largest key is at most ``last_key``, and Σ|values| at most ``room`` < 2^63."""
    largest, upper, lower = bounds
    units = upper + (lower >> _32)
    return bool(largest <= last_key and units >> _31 == 0 and (units << _32 | (lower & _LOW_32)) <= room)


@kernel
def empty_cells(layout: Words) -> NDArray[np.uint16]:
    """Return room for the cells of two tiles, zeros, that begins at a cache line."""
    size = 2 * layout.shape[0] * TILE * QUAD
    room = np.zeros(size + _LINE // 2, dtype=np.uint16)
    start = (-room.ctypes.data % _LINE) // 2
    return room[start : start + size]


@kernel
def tile_starts(counts: Ints) -> Ints:
    """Return where runs of so many items begin if each is padded to whole tiles, and where the last ends."""
    starts = np.empty(counts.size + 1, dtype=np.int64)
    total = 0
    for run in range(counts.size):
        starts[run] = total
        total += (counts[run] + TILE - 1) // TILE * TILE
    starts[counts.size] = total
    return starts


def _pipelined(straight: int) -> Adders:  # noqa: C901 - two kernels
    """Return kernels that hash a tile while they add the one before it; ``straight`` as in `hash_and_add`.

    The first turn adds what is in the first tile to one cell past the others, which nobody reads.
    """

    def add_batch(
        keys: Words,
        values: Ints,
        coefficients: Words,
        layout: Words,
        rows: int,
        width: int,
        rows_per_word: int,
        last_key: np.uint64,
        room: np.uint64,
        state: Ints,
    ) -> Bounds:
        """Add a batch to the cells of one sketch, unless a key exceeds ``last_key`` or Σ|values| exceeds ``room``.

        Bounds are returned as by `batch_bounds`. Keys out of range reach arbitrary cells of a scratch, never ``state``.
        """
        past = rows << width
        scratch, cells = np.zeros(past + 1, dtype=np.int64), empty_cells(layout)
        words, whole = coefficients.shape[0], keys.size - keys.size % TILE
        read, write = 0, cells.size // 2
        largest, upper, lower = batch_bounds(keys[whole:], values[whole:])
        for place in range(-TILE, whole, TILE):
            for item in range(place + _AHEAD, place + _AHEAD + TILE, _WORDS_OF_LINE):
                prefetch(keys, item)
                prefetch(values, item)
            if place % _BLOCK == 0:
                end = min(place + _BLOCK, whole)
                block_largest, block_upper, block_lower = batch_bounds(keys[place:end], values[place:end])
                largest = max(largest, block_largest)
                upper += block_upper
                lower += block_lower
            for word in range(0 if place >= 0 else words - 1, words if whole else 0):
                next_word, next_place = word + 1, place
                if next_word == words:
                    next_word, next_place = 0, min(place + TILE, whole - TILE)
                first = word * rows_per_word
                hash_and_add(
                    keys,
                    next_place,
                    coefficients,
                    next_word,
                    layout,
                    cells,
                    write,
                    read,
                    straight,
                    min(rows_per_word, rows - first),
                    values,
                    max(place, 0),
                    scratch,
                    first << width if place >= 0 else past,
                )
                read, write = write, read
        if whole < keys.size:
            add_plainly(keys, values, whole, keys.size, coefficients, rows, width, rows_per_word, scratch)
        if within((largest, upper, lower), last_key, room):
            fold_scratch(scratch, width, state)
        return largest, upper, lower

    def add_runs(
        keys: Words,
        values: NDArray[Any],
        starts: Ints,
        coefficients: Words,
        layout: Words,
        rows: int,
        width: int,
        rows_per_word: int,
        table: NDArray[Any],
    ) -> None:
        """Add the items of run r, from ``starts[r]`` to ``starts[r + 1]``, to ``table[r]``; runs are whole tiles."""
        past = rows << width
        scratch, cells = np.zeros(past + 1, dtype=table.dtype), empty_cells(layout)
        words, read, write, run = coefficients.shape[0], 0, cells.size // 2, 0
        for place in range(-TILE, keys.size, TILE):
            for item in range(place + _AHEAD, place + _AHEAD + TILE, _WORDS_OF_LINE):
                prefetch(keys, item)
                prefetch(values, item)
            for word in range(0 if place >= 0 else words - 1, words if keys.size else 0):
                next_word, next_place = word + 1, place
                if next_word == words:
                    next_word, next_place = 0, min(place + TILE, keys.size - TILE)
                first = word * rows_per_word
                hash_and_add(
                    keys,
                    next_place,
                    coefficients,
                    next_word,
                    layout,
                    cells,
                    write,
                    read,
                    straight,
                    min(rows_per_word, rows - first),
                    values,
                    max(place, 0),
                    scratch,
                    first << width if place >= 0 else past,
                )
                read, write = write, read
            if place >= 0:
                while starts[run + 1] <= place:
                    run += 1
                if starts[run + 1] == place + TILE:
                    empty_into(scratch, width, table[run])

    return Adders(kernel(add_batch), kernel(add_runs))


def _plain() -> Adders:
    """Return kernels for words whose rows have more than 2^16 cells together: memory, not hashing, sets the time."""

    def add_batch(
        keys: Words,
        values: Ints,
        coefficients: Words,
        layout: Words,  # noqa: ARG001 - it is empty
        rows: int,
        width: int,
        rows_per_word: int,
        last_key: np.uint64,
        room: np.uint64,
        state: Ints,
    ) -> Bounds:
        scratch = np.zeros(rows << width, dtype=np.int64)
        for place in range(0, keys.size, TILE):
            end = min(place + TILE, keys.size)
            add_plainly(keys, values, place, end, coefficients, rows, width, rows_per_word, scratch)
        bounds = batch_bounds(keys, values)
        if within(bounds, last_key, room):
            fold_scratch(scratch, width, state)
        return bounds

    def add_runs(
        keys: Words,
        values: NDArray[Any],
        starts: Ints,
        coefficients: Words,
        layout: Words,  # noqa: ARG001 - it is empty
        rows: int,
        width: int,
        rows_per_word: int,
        table: NDArray[Any],
    ) -> None:
        scratch = np.zeros(rows << width, dtype=table.dtype)
        for run in range(table.shape[0]):
            for place in range(starts[run], starts[run + 1], TILE):
                add_plainly(keys, values, place, place + TILE, coefficients, rows, width, rows_per_word, scratch)
            if starts[run] < starts[run + 1]:
                empty_into(scratch, width, table[run])

    return Adders(kernel(add_batch), kernel(add_runs))


_OCTETS, _QUADS, _ANY, _PLAIN = _pipelined(2 * QUAD), _pipelined(QUAD), _pipelined(0), _plain()


def adders(coefficients: Words, layout: Words, rows: int, rows_per_word: int) -> Adders:
    """Return the kernels that suit a map."""
    if len(layout) == 0:
        return _PLAIN
    if coefficients.shape[1] == COMMON_INDEPENDENCE and rows % rows_per_word == 0:
        return {2 * QUAD: _OCTETS, QUAD: _QUADS}.get(rows_per_word, _ANY)
    return _ANY
