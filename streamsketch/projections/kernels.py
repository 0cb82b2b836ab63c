"""Numba kernels that add a sparse projection of a batch to integer state.

Cells are sums modulo 2^64, which int64 addition gives whatever wraps on the way (THEORY.md 1, "Overflow").
"""

from typing import TypeAlias

import numpy as np

from streamsketch._jit import kernel, part
from streamsketch.encoding import Ints
from streamsketch.hashing import Words, horner_narrow, horner_wide
from streamsketch.projections.hash_tiles import TILE, hash_tile_narrow, hash_tile_wide
from streamsketch.projections.prefetch import prefetch

Bounds: TypeAlias = tuple[np.uint64, np.uint64, np.uint64]

_BLOCK = 256  # items whose bounds are found, or that are hashed, at a time: they stay in the L1 cache
_LINE = 8  # items in a cache line
_LOW_32 = np.uint64((1 << 32) - 1)
_LOW_40 = np.uint64((1 << 40) - 1)
_40, _60 = np.uint64(40), np.uint64(60)
MOST_MASS = (1 << 63) - 1
_1, _32, _LIMIT_32 = np.uint64(1), np.uint64(32), np.uint64(1 << 32)


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


@part
def _scatter_words(words: Words, values: Ints, scratch: Ints, width: int) -> None:
    """Add ``values`` to the cell each word's bit fields name, in every row of ``scratch``."""
    field, step = np.uint64((1 << width) - 1), np.uint64(width)
    row = 0
    while row + 4 <= scratch.shape[0]:  # four rows in one pass: fewer loads of the word, independent stores
        row_0, row_1, row_2, row_3 = scratch[row], scratch[row + 1], scratch[row + 2], scratch[row + 3]
        offset = np.uint64(row * width)
        for i in range(values.size):
            word, value = words[i] >> offset, values[i]
            row_0[word & field] += value
            word >>= step
            row_1[word & field] += value
            word >>= step
            row_2[word & field] += value
            word >>= step
            row_3[word & field] += value
        row += 4
    while row < scratch.shape[0]:
        cells, offset = scratch[row], np.uint64(row * width)
        for i in range(values.size):
            cells[(words[i] >> offset) & field] += values[i]
        row += 1


@kernel
def _prefetch_tile(keys: Words, values: Ints, start: int) -> None:
    for place in range(start, start + TILE, _LINE):
        prefetch(keys, place)
        prefetch(values, place)


@kernel
def _aligned_words() -> Words:
    """Return room for a tile's words that begins at a multiple of 64 bytes: a vector is then one cache line."""
    words = np.empty(TILE + _LINE, dtype=np.uint64)
    start = (-words.ctypes.data % 64) // 8
    return words[start : start + TILE]


@kernel
def _scatter_tiles(
    keys: Words, values: Ints, coefficients: Words, scratch: Ints, width: int, rows_per_word: int
) -> Bounds:
    """Add whole tiles to ``scratch`` and return their bounds, as `batch_bounds` does."""
    words = _aligned_words()
    largest, upper, lower = np.uint64(0), np.uint64(0), np.uint64(0)
    for start in range(0, keys.size, _BLOCK):
        end = min(start + _BLOCK, keys.size)
        block_largest, block_upper, block_lower = batch_bounds(keys[start:end], values[start:end])
        largest = max(largest, block_largest)
        upper += block_upper
        lower += block_lower
        for place in range(start, end, TILE):
            _prefetch_tile(keys, values, place + _BLOCK)  # bounds read faster than memory answers, and then no one does
            value_tile = values[place : place + TILE]
            for word in range(coefficients.shape[0]):
                if block_largest < _LIMIT_32:
                    hash_tile_narrow(keys, place, coefficients[word], words)
                else:
                    hash_tile_wide(keys, place, coefficients[word], words)
                first_row = word * rows_per_word
                last_row = min(first_row + rows_per_word, scratch.shape[0])
                _scatter_words(words, value_tile, scratch[first_row:last_row], width)
    return largest, upper, lower


@kernel
def sjlt_scratch(
    keys: Words, values: Ints, coefficients: Words, rows: int, width: int, rows_per_word: int
) -> tuple[Ints, np.uint64, np.uint64, np.uint64]:
    """Return (scratch, largest key, upper, lower): the batch's projection with plus and minus cells apart.

    The sign bit tops each field, so ``scratch[r]`` holds 2^(width-1) plus cells, then as many minus cells: no
    branch, no multiplication. Bounds are as in `batch_bounds`; out-of-range keys land in
    arbitrary cells of the scratch, which the caller then throws away.
    """
    scratch = np.zeros((rows, 1 << width), dtype=np.int64)
    whole = keys.size - keys.size % TILE
    largest, upper, lower = _scatter_tiles(keys[:whole], values[:whole], coefficients, scratch, width, rows_per_word)
    if whole < keys.size:
        last_keys, last_values = np.zeros(TILE, dtype=np.uint64), np.zeros(TILE, dtype=np.int64)
        for i in range(whole, keys.size):
            last_keys[i - whole], last_values[i - whole] = keys[i], values[i]  # the others add 0 to cells of key 0
        last_largest, last_upper, last_lower = _scatter_tiles(
            last_keys, last_values, coefficients, scratch, width, rows_per_word
        )
        largest, upper, lower = max(largest, last_largest), upper + last_upper, lower + last_lower
    return scratch, largest, upper, lower


@kernel
def fold_scratch(scratch: Ints, state: Ints) -> None:
    """Add plus minus minus cells of a scratch to the k cells of ``state``."""
    buckets = scratch.shape[1] // 2
    for row in range(scratch.shape[0]):
        for bucket in range(buckets):
            state[row * buckets + bucket] += scratch[row, bucket] - scratch[row, buckets + bucket]


@kernel
def _add_entry(
    cells: Ints, first: np.uint64, bits: np.uint64, value: np.int64, bucket: np.uint64, sign: np.uint64
) -> None:
    """Add ±``value`` to the cell, counted from ``first``, that the lowest field of ``bits`` names."""
    # value ^ -1 - -1 = -value: the sign costs no branch, which random signs would mispredict
    minus = -np.int64((bits >> sign) & _1)
    cells[first + (bits & bucket)] += (value ^ minus) - minus


@kernel
def _scatter_word_to_rows(
    table: Ints, slots: Ints, words: Words, values: Ints, first_row: int, n_rows: int, width: int
) -> None:
    """As `_scatter_word`, but add item i's entries, signed, to ``table[slots[i]]``."""
    step, sign = np.uint64(width), np.uint64(width - 1)
    buckets = np.uint64(1 << (width - 1))
    bucket = buckets - _1
    row = 0
    while row + 4 <= n_rows:  # four rows in one pass: no inner loop to leave, and four cache misses at a time
        offset, first = np.uint64(row * width), np.uint64(first_row + row) * buckets
        for i in range(values.size):
            bits, value, cells = words[i] >> offset, values[i], table[slots[i]]
            _add_entry(cells, first, bits, value, bucket, sign)
            bits >>= step
            _add_entry(cells, first + buckets, bits, value, bucket, sign)
            bits >>= step
            _add_entry(cells, first + buckets + buckets, bits, value, bucket, sign)
            bits >>= step
            _add_entry(cells, first + buckets + buckets + buckets, bits, value, bucket, sign)
        row += 4
    while row < n_rows:
        offset, first = np.uint64(row * width), np.uint64(first_row + row) * buckets
        for i in range(values.size):
            _add_entry(table[slots[i]], first, words[i] >> offset, values[i], bucket, sign)
        row += 1


@kernel
def sjlt_scatter(
    table: Ints,
    slots: Ints,
    keys: Words,
    values: Ints,
    coefficients: Words,
    rows: int,
    width: int,
    rows_per_word: int,
) -> None:
    """Add item i's column times ``values[i]`` to ``table[slots[i]]``, for every i; keys are in range."""
    word_block = np.empty(_BLOCK, dtype=np.uint64)
    for start in range(0, keys.size, _BLOCK):
        key_block = keys[start : start + _BLOCK]
        value_block, slot_block = values[start : start + _BLOCK], slots[start : start + _BLOCK]
        words = word_block[: key_block.size]
        largest = np.uint64(0)
        for i in range(key_block.size):
            largest = max(largest, key_block[i])
        for word in range(coefficients.shape[0]):
            if largest < _LIMIT_32:
                horner_narrow(key_block, coefficients[word], words)
            else:
                horner_wide(key_block, coefficients[word], words)
            first_row = word * rows_per_word
            _scatter_word_to_rows(
                table, slot_block, words, value_block, first_row, min(rows_per_word, rows - first_row), width
            )


@kernel
def graph_scatter(table: Ints, slots: Ints, keys: Words, values: Ints, coefficients: Words) -> None:
    """Add item i's graph-construction column times ``values[i]`` to ``table[slots[i]]``; keys are in range.

    Entry r reads one word: bit 60 is its sign, the low 40 bits draw a row of the first k - s + r + 1. A row drawn
    before gives way to the last one allowed: Floyd's algorithm, under which every set of s rows is equally likely,
    up to 2^-16 for k = 2^24.
    """
    sparsity, cells = coefficients.shape[0], table.shape[1]
    words = np.empty((sparsity, _BLOCK), dtype=np.uint64)
    rows = np.empty(sparsity, dtype=np.int64)
    for start in range(0, keys.size, _BLOCK):
        key_block = keys[start : start + _BLOCK]
        for entry in range(sparsity):
            horner_wide(key_block, coefficients[entry], words[entry, : key_block.size])
        for i in range(key_block.size):
            value, row_cells = values[start + i], table[slots[start + i]]
            for entry in range(sparsity):
                last = cells - sparsity + entry
                # k ≤ 2^24, so the product is below 2^64
                row = np.int64(((words[entry, i] & _LOW_40) * np.uint64(last + 1)) >> _40)
                for earlier in range(entry):
                    if rows[earlier] == row:
                        row = last
                        break
                rows[entry] = row
                row_cells[row] += -value if words[entry, i] >> _60 else value


@kernel
def add_masses(masses: Ints, slots: Ints, values: Ints) -> None:
    """Add |values[i]| to ``masses[slots[i]]``; 2^63 - 1 stands for that and more."""
    for i in range(slots.size):
        added = MOST_MASS if values[i] < -MOST_MASS else abs(values[i])
        masses[slots[i]] += min(added, MOST_MASS - masses[slots[i]])
