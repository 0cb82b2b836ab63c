"""Numba kernels that add a sparse projection of a batch to integer state.

Cells are sums modulo 2^64, as int64 addition computes them (Theory 1, "Overflow").
"""

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import kernel, read_only
from streamsketch.core.numbers import Ints
from streamsketch.kernels.carryless import TILE
from streamsketch.kernels.hashing import Words, evaluate
from streamsketch.kernels.tiles import tile_starts

Places: TypeAlias = NDArray[np.int32]
Signs: TypeAlias = NDArray[np.int8]
Codes: TypeAlias = NDArray[np.int32] | Ints

MOST_MASS = (1 << 63) - 1
_BLOCK = 256  # items hashed at a time: they stay in the L1 cache
_ORDERED = 1 << 16  # items sorted at a time: they stay in the L2 cache
_ITEMS_A_ROW = 128  # put in parts at a time for each row: enough that a row is read and written for many items
_PART_BITS = 8  # rows of a part: where their items end is in the L1 cache
_PART = 1 << _PART_BITS
_LOW_32, _LOW_63 = np.uint64((1 << 32) - 1), np.uint64((1 << 63) - 1)
_0, _1, _31, _32, _63 = np.uint64(0), np.uint64(1), np.uint64(31), np.uint64(32), np.uint64(63)


@kernel
def _add_entry(
    cells: Ints, first: np.uint64, bits: np.uint64, value: np.int64, bucket: np.uint64, sign: np.uint64
) -> None:
    """Add ±``value`` to the cell, counted from ``first``, that is given by the lowest field of ``bits``."""
    # (value ^ -1) - -1 = -value: no branch, which random signs would mispredict
    minus = -np.int64((bits >> sign) & _1)
    cells[first + (bits & bucket)] += (value ^ minus) - minus


@kernel
def _scatter_word_to_rows(
    table: Ints, slots: Ints, words: Words, values: Ints, first_row: int, n_rows: int, width: int
) -> None:
    """Add item i's entries, signed, to ``table[slots[i]]``."""
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
def add_to_slots(
    table: Ints, slots: Ints, keys: Words, values: Ints, coefficients: Words, rows: int, width: int, rows_per_word: int
) -> None:
    """Add item i's column times ``values[i]`` to ``table[slots[i]]``, for every i; keys are in range."""
    word_block = np.empty(_BLOCK, dtype=np.uint64)
    for start in range(0, keys.size, _BLOCK):
        key_block = keys[start : start + _BLOCK]
        value_block, slot_block = values[start : start + _BLOCK], slots[start : start + _BLOCK]
        words = word_block[: key_block.size]
        for word in range(coefficients.shape[0]):
            evaluate(key_block, coefficients[word], words)
            first_row = word * rows_per_word
            _scatter_word_to_rows(
                table, slot_block, words, value_block, first_row, min(rows_per_word, rows - first_row), width
            )


@kernel
def put_in_order(
    codes: Codes, indices: Ints, values: Ints, counts: Ints, masses: Ints, ordered_indices: Ints, ordered_values: Ints
) -> Ints:
    """Write items sorted by code, each code padded with zeros to whole tiles; return the starts of codes and the end.

    ``counts`` and ``masses`` have an element for each code. Counts are overwritten; Σ|values| are added to masses,
    modulo 2^64. The outputs have room for 15 more items of each code.
    """
    counts[:] = 0
    for i in range(codes.size):
        counts[codes[i]] += 1
    starts = tile_starts(counts)
    places = starts[:-1].copy()
    for i in range(codes.size):
        place = places[codes[i]]
        places[codes[i]] = place + 1
        ordered_indices[place], ordered_values[place] = indices[i], values[i]
    for code in range(places.size):
        for place in range(places[code], starts[code + 1]):
            ordered_indices[place], ordered_values[place] = 0, 0
        mass = np.int64(0)
        for place in range(starts[code], starts[code + 1]):
            mass += abs(ordered_values[np.uint64(place)])  # an unsigned index compiles to vector code
        masses[code] += mass
    return starts


@kernel
def put_in_parts(
    codes: Codes, indices: Ints, values: Ints, starts: Ints, part_codes: Ints, part_indices: Ints, part_values: Ints
) -> None:
    """Write items by the part of their code, 256 codes each, and the code within; and where parts start and end.

    ``starts`` has an element for each part and one more.
    """
    starts[:] = 0
    for i in range(codes.size):
        starts[(codes[i] >> _PART_BITS) + 1] += 1
    for number in range(1, starts.size):
        starts[number] += starts[number - 1]
    places = starts[:-1].copy()
    for i in range(codes.size):
        number = codes[i] >> _PART_BITS
        place = places[number]
        places[number] = place + 1
        part_codes[place] = codes[i] & (_PART - 1)
        part_indices[place], part_values[place] = indices[i], values[i]


def add_in_order(
    table: Ints, rows: Ints, codes: Codes, indices: Ints, values: Ints, add_runs: Callable[..., None], *more: Any
) -> Ints:
    """Add item i's column times ``values[i]`` to ``table[rows[codes[i]]]``, row by row; return Σ|values| of each code.

    It is faster than `add_to_slots` if each row gets many items. Many rows are first put in parts, so that the items of
    a part, and the places where its rows end, stay in caches while they are sorted and added. Sums are modulo 2^64.
    ``more`` are the arguments of ``add_runs`` between the targets and the table.
    """
    masses = np.zeros(len(rows), dtype=np.int64)
    if len(rows) <= _PART:
        _add_part(table, masses, rows, codes, indices, values, add_runs, *more)
        return masses
    chunk = _ITEMS_A_ROW * len(rows)
    room = min(chunk, indices.size)
    starts = np.empty(-(-len(rows) // _PART) + 1, dtype=np.int64)
    parted = np.empty(room, dtype=codes.dtype), np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    its_codes, its_indices, its_values = (read_only(array) for array in parted)
    for first in range(0, indices.size, chunk):
        taken = slice(first, first + chunk)
        put_in_parts(codes[taken], indices[taken], values[taken], starts, *parted)
        for number, (start, end) in enumerate(itertools.pairwise(starts.tolist())):
            part, its = slice(number << _PART_BITS, number + 1 << _PART_BITS), slice(start, end)
            columns = its_codes[its], its_indices[its], its_values[its]
            _add_part(table, masses[part], rows[part], *columns, add_runs, *more)
    return masses


def _add_part(
    table: Ints,
    masses: Ints,
    rows: Ints,
    codes: Codes,
    indices: Ints,
    values: Ints,
    add_runs: Callable[..., None],
    *more: Any,
) -> None:
    room = min(_ORDERED, indices.size) + (TILE - 1) * min(len(rows), indices.size)
    ordered = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    counts = np.empty(len(rows), dtype=np.int64)
    for first in range(0, indices.size, _ORDERED):
        taken = slice(first, first + _ORDERED)
        starts = put_in_order(codes[taken], indices[taken], values[taken], counts, masses, *ordered)
        end = starts[-1]
        add_runs(ordered[0][:end], ordered[1][:end], starts, rows, *more, table)


def check_codes(codes: Codes, size: int) -> None:
    """Raise `IndexError` unless all codes are below ``size`` and none is negative."""
    unsigned = codes.view(np.uint32 if codes.dtype == np.int32 else np.uint64)  # where negative ones are huge
    if codes.size and unsigned.max() >= size:
        raise IndexError("the index of a key lies outside the list of keys")


@kernel
def _seen(codes: Codes, size: int) -> NDArray[np.bool_]:
    flags = np.zeros(size, dtype=np.bool_)
    for i in range(codes.size):
        flags[codes[i]] = True
    return flags


def seen(codes: Codes, size: int) -> NDArray[np.bool_]:
    """Return which numbers below ``size`` occur in ``codes``; raise `IndexError` for codes out of range."""
    check_codes(codes, size)
    return _seen(codes, size)


@kernel
def looked_up(table: Ints, codes: Codes) -> Ints:
    """Return ``table[codes]``."""
    values = np.empty(codes.size, dtype=np.int64)
    for i in range(codes.size):
        values[i] = table[codes[i]]
    return values


@kernel
def graph_scatter(table: Ints, slots: Ints, keys: Words, values: Ints, coefficients: Words) -> None:
    """Add item i's graph-construction column times ``values[i]`` to ``table[slots[i]]``; keys are in range."""
    places = np.empty((_BLOCK, coefficients.shape[0]), dtype=np.int32)
    signs = np.empty((_BLOCK, coefficients.shape[0]), dtype=np.int8)
    for start in range(0, keys.size, _BLOCK):
        key_block = keys[start : start + _BLOCK]
        graph_entries(key_block, coefficients, table.shape[1], places, signs)
        for i in range(key_block.size):
            value, cells = values[start + i], table[slots[start + i]]
            for entry in range(coefficients.shape[0]):
                cells[places[i, entry]] += signs[i, entry] * value


@kernel
def graph_entries(keys: Words, coefficients: Words, sketch_dim: int, cells: Places, signs: Signs) -> None:
    """Write where item i's graph-construction column has its entries, and which: (n or more, s) both.

    Entry r reads one word: the top bit is its sign, the others draw one of the first k - s + r + 1 rows. A row drawn
    before is replaced by the last of these. By this (Floyd's) algorithm every set of s rows is equally likely, up to
    2^-39 for k = 2^24.
    """
    sparsity = coefficients.shape[0]
    words = np.empty((sparsity, _BLOCK), dtype=np.uint64)
    rows = np.empty(sparsity, dtype=np.int64)
    for start in range(0, keys.size, _BLOCK):
        key_block = keys[start : start + _BLOCK]
        for entry in range(sparsity):
            evaluate(key_block, coefficients[entry], words[entry, : key_block.size])
        for i in range(key_block.size):
            for entry in range(sparsity):
                last = sketch_dim - sparsity + entry
                drawn, choices = words[entry, i] & _LOW_63, np.uint64(last + 1)
                # ⌊drawn · choices / 2^63⌋; k ≤ 2^24, so the products stay below 2^56
                row = np.int64(((drawn >> _32) * choices + (((drawn & _LOW_32) * choices) >> _32)) >> _31)
                for earlier in range(entry):
                    if rows[earlier] == row:
                        row = last
                        break
                rows[entry] = row
                cells[start + i, entry] = row
                signs[start + i, entry] = -1 if words[entry, i] >> _63 else 1


@kernel
def block_entries(
    keys: Words, coefficients: Words, rows: int, width: int, rows_per_word: int, cells: Places, signs: Signs
) -> None:
    """Write where item i's column of a block-hashed map has its entries, and which: (n, s) both; keys are in range."""
    block = np.empty(_BLOCK, dtype=np.uint64)
    buckets = np.uint64(1 << (width - 1))
    for start in range(0, keys.size, _BLOCK):
        key_block = keys[start : start + _BLOCK]
        words = block[: key_block.size]
        for word in range(coefficients.shape[0]):
            evaluate(key_block, coefficients[word], words)
            first = word * rows_per_word
            for i in range(words.size):
                bits = words[i]
                for row in range(first, min(first + rows_per_word, rows)):
                    cells[start + i, row] = np.uint64(row) * buckets + (bits & (buckets - _1))
                    signs[start + i, row] = 1 - 2 * np.int64((bits & buckets) != _0)
                    bits >>= np.uint64(width)


@kernel
def add_to_cells(table: Ints, masses: Ints, rows: Ints, cells: Ints, steps: Ints) -> None:
    """Add ``steps[i]`` to ``table[rows[i], cells[i]]``, modulo 2^64, and |steps[i]| to ``masses[rows[i]]``.

    Cells are in range. A mass saturates at 2^63 - 1.
    """
    start = 0
    while start < rows.size:  # a run of one row at a time: its mass stays in a register
        row, i = rows[start], start
        mass = masses[row]
        while i < rows.size and rows[i] == row:
            step = steps[i]
            table[row, cells[i]] += step
            added = MOST_MASS if step < -MOST_MASS else abs(step)
            mass += min(added, MOST_MASS - mass)
            i += 1
        masses[row], start = mass, i


@kernel
def add_dense(table: Ints, masses: Ints, slots: Ints, rows: NDArray[np.int32] | Ints) -> int:
    """Add each row, (n, k), to ``table[slots[i]]``, and Σ|entries| to ``masses[slots[i]]``; return the largest |entry|.

    Sums of a row stay below 2^31 · 2^24. A mass saturates at 2^63 - 1.
    """
    largest = np.int64(0)
    for i in range(slots.size):
        slot, mass = slots[i], np.int64(0)
        for cell in range(rows.shape[1]):
            step = np.int64(rows[i, cell])
            table[slot, cell] += step
            mass += abs(step)
            largest = max(largest, abs(step))
        masses[slot] += min(mass, MOST_MASS - masses[slot])
    return int(largest)


@kernel
def add_masses(masses: Ints, slots: Ints, values: Ints) -> None:
    """Add |values[i]| to ``masses[slots[i]]``, saturating at 2^63 - 1."""
    for i in range(slots.size):
        added = MOST_MASS if values[i] < -MOST_MASS else abs(values[i])
        masses[slots[i]] += min(added, MOST_MASS - masses[slots[i]])
