"""Exact clipping in sketch space: the cells that one unit adds to all its slots, brought to an l2 bound by integers.

No map and no rows are assumed: what is bounded is what is added, after all collisions (Theory 2.2).
"""

import math

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import kernel
from streamsketch.core.numbers import Ints
from streamsketch.kernels.hashing import Words
from streamsketch.kernels.slots import Places, Signs
from streamsketch.sketching.bounding.clip_kernels import magnitude
from streamsketch.sketching.bounding.contributions import FeatureRows

SHIFTS = 64
_0, _1, _2, _32 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(32)
_2_24, _2_31 = np.uint64(1 << 24), np.uint64(1 << 31)
_2_60, _2_62 = np.uint64(1 << 60), np.uint64(1 << 62)
_MANY = 1 << 14  # cells: so many squares of numbers below 2^24 sum to less than 2^62


@kernel
def entries_to_cells(  # noqa: PLR0913, PLR0917 - columns and places
    starts: Ints,
    stops: Ints,
    entries: Places,
    signs: Signs,
    steps: Ints,
    scratch: Ints,
    met: Ints,
    out_cells: Ints,
    out_steps: Ints,
    at: int,
    ends: Ints,
) -> int:
    """Write the cells of each pair of a unit and a slot that are not zero; return where the next ones go.

    Cells are sums modulo 2^64, as those of sketches, so they do not depend on the order of rows.

    Parameters
    ----------
    starts, stops
        Where each pair's rows begin and end, (p,).
    entries, signs
        Those of each row: (n, s).
    steps
        Of each row, not zero: (n,).
    scratch
        k zeros, which are left as such.
    met
        Room for the entries of one pair, and one more.
    out_cells, out_steps, at
        Where to write, from which place on.
    ends
        For where each pair's cells end, (p,).
    """
    for pair in range(starts.size):
        many = 0
        for row in range(starts[pair], stops[pair]):
            step = steps[row]
            for entry in range(entries.shape[1]):
                cell = entries[row, entry]
                met[many] = cell  # a second time if it was zero again in between
                many += scratch[cell] == 0
                scratch[cell] += signs[row, entry] * step
        for place in range(many):
            cell = met[place]
            out_cells[at], out_steps[at] = cell, scratch[cell]
            at += scratch[cell] != 0
            scratch[cell] = 0  # so a cell that was met twice is written once
        ends[pair] = at
    return at


@kernel
def rows_to_cells(table: Ints, out_cells: Ints, out_steps: Ints, at: int, ends: Ints) -> int:
    """Write the cells of each row of a table that are not zero, as `entries_to_cells` does."""
    for pair in range(table.shape[0]):
        for cell in range(table.shape[1]):
            out_cells[at], out_steps[at] = cell, table[pair, cell]
            at += table[pair, cell] != 0
        ends[pair] = at
    return at


@kernel
def sum_features(features: FeatureRows, rows: Ints, starts: Ints, stops: Ints, out: Ints) -> None:
    """Write the sum of the features of each pair's rows, of which there is one or more.

    Features are at most 2^31 in absolute value, so sums of fewer than 2^32 rows fit.

    Parameters
    ----------
    features
        Of all rows, (n, D).
    rows, starts, stops
        Places of rows, and where those of each pair begin and end among them.
    out
        (p, D), a row for each pair.
    """
    for pair in range(starts.size):
        total, first = out[pair], features[rows[starts[pair]]]
        for cell in range(total.size):
            total[cell] = first[cell]
        for i in range(starts[pair] + 1, stops[pair]):
            row = features[rows[i]]
            for cell in range(total.size):
                total[cell] += row[cell]


@kernel
def average_rows(sums: Ints, out: Ints) -> None:
    """Write the average of some rows, from their sums and their number, which is in the last column.

    Parameters
    ----------
    sums
        (p, D + 1).
    out
        (p, D).
    """
    for pair in range(sums.shape[0]):
        for cell in range(out.shape[1]):
            out[pair, cell] = quotient(sums[pair, cell], sums[pair, out.shape[1]])


@kernel
def average_sums(
    starts: Ints, stops: Ints, indices: Ints, steps: Ints, width: int, out_cells: Ints, out_steps: Ints, ends: Ints
) -> int:
    """Write the averages that `average_rows` does from sums one by one; return how many are not zero.

    Parameters
    ----------
    starts, stops
        Where each pair's sums begin and end, (p,).
    indices, steps
        Cells, and sums that are not zero; the cell ``width`` has the number of rows.
    out_cells, out_steps
        As many, and one more.
    ends
        For where each pair's cells end, (p,).
    """
    at = 0
    for pair in range(starts.size):
        rows = 0
        for i in range(starts[pair], stops[pair]):
            rows = steps[i] if indices[i] == width else rows
        for i in range(starts[pair], stops[pair]):
            out_cells[at], out_steps[at] = indices[i], quotient(steps[i], rows)
            at += indices[i] != width and out_steps[at] != 0
        ends[pair] = at
    return at


@kernel
def quotient(step: int, rows: int) -> np.int64:
    """Return step / rows, rounded to the nearest integer, halves away from zero; 0 if there are no rows."""
    if rows <= 0:
        return np.int64(0)
    size, many = magnitude(step), np.uint64(rows)
    whole, rest = size // many, size % many
    whole += np.uint64(rest >= many - rest)
    return np.int64(whole) if step > 0 else -np.int64(whole)


@kernel
def not_zero(table: Ints) -> NDArray[np.bool_]:
    """Return which rows have an entry that is not zero."""
    flags = np.zeros(table.shape[0], dtype=np.bool_)
    for row in range(table.shape[0]):
        for entry in table[row]:
            if entry != 0:
                flags[row] = True
                break
    return flags


@kernel
def clip_cells(
    steps: Ints,
    stops: Ints,
    limit: int,
    equal: bool,  # noqa: FBT001 - Numba compiles no keywords
) -> tuple[int, int, float, float, float]:
    """Bring the cells of each unit to Σ steps² ≤ limit² in place: scaled, and rounded towards zero.

    Units of N = Σ steps² > limit² are shortened and, if ``equal``, those of N > 0 below it lengthened. Each |step| is
    shifted to a number a, so that N' = Σ a² lies in [2^60, 2^62), and becomes ⌊a·r / 2^32⌋ for
    r = ⌊2^32·limit / ⌈√N'⌉⌋. So Σ steps² ≤ (r / 2^32)²·N' ≤ limit², whatever the steps are. Shifts to the left are
    exact; a shift to the right, for N of 2^62 or more, is the same for all cells of a unit and only shortens.

    Parameters
    ----------
    steps
        Of all cells, unit by unit.
    stops
        Where each unit's cells end.
    limit
        The bound, 1 to 2^31 - 1.
    equal
        Whether to lengthen.

    Returns
    -------
    tuple
        How many units were shortened and lengthened, Σ√N before and after, and the largest √N before.
    """
    shorter, longer, before, after, largest, start = 0, 0, 0.0, 0.0, 0.0, 0
    squares, square = np.empty(SHIFTS, dtype=np.uint64), np.uint64(limit) * np.uint64(limit)
    for stop in stops:
        cells = steps[start:stop]
        total, bits, high = _0, _0, _0
        for i in range(cells.size):
            bits |= magnitude(cells[i])
        if bits < _2_24 and cells.size <= _MANY:  # nearly always: a loop that vectors do
            for i in range(cells.size):
                size = magnitude(cells[i])
                total += size * size
        else:
            for i in range(cells.size):
                size = magnitude(cells[i])
                total += size * size  # of those below 2^31, as long as it is not too large: below 2^63
                high |= total
        squares[0] = total if bits < _2_31 and high < _2_62 else _2_62
        if squares[0] == _2_62:
            squares[:] = _0
            add_squares(cells, squares)
        norm = kept = norm_of(squares)
        above = squares[0] > square
        if above or (equal and squares[0] > _0):
            shift, ratio = ratio_of(squares, limit)
            kept = math.sqrt(float(scale_cells(cells, shift, ratio)))
            shorter += 1 if above else 0
            longer += 1 if squares[0] < square else 0
        before += norm
        after += kept
        largest = max(largest, norm)
        start = stop
    return shorter, longer, before, after, largest


@kernel
def add_squares(steps: Ints, squares: Words) -> None:
    """Add Σ(|steps| >> t)² to the t-th sum, for every t; a sum is 2^62 once it is as large, or if a term is.

    So the cells of a unit can be measured in several calls, before any is scaled.
    """
    least = 0
    for i in range(steps.size):
        size = magnitude(steps[i])
        while least < SHIFTS and squares[least] == _2_62:
            least += 1
        for shift in range(least, SHIFTS):
            shifted = size >> np.uint64(shift)
            if shifted == _0:
                break
            if shifted >= _2_31 or squares[shift] + shifted * shifted >= _2_62:  # sums stay below 2^63
                squares[shift] = _2_62
            else:
                squares[shift] += shifted * shifted


@kernel
def norm_of(squares: Words) -> float:
    """Return √N of a unit with these sums, as by `add_squares`, rounded."""
    shift = least_shift(squares)
    return math.sqrt(float(squares[shift])) * 2.0**shift


@kernel
def ratio_of(squares: Words, limit: int) -> tuple[int, np.uint64]:
    """Return by how many bits `clip_cells` shifts a unit with these sums, to the left or if negative to the right; r.

    Without cells r is 0.
    """
    right, left = least_shift(squares), 0
    total = squares[right]
    if total == _0:
        return 0, _0
    while right == 0 and total < _2_60:
        total <<= _2
        left += 1
    return left - right, (np.uint64(limit) << _32) // root_above(total)


@kernel
def least_shift(squares: Words) -> int:
    """Return after how many bits the steps of a unit are below 2^31 and their squares sum to less than 2^62."""
    shift = 0
    while squares[shift] == _2_62:  # shifted by 63 bits, cells are 0 or 1, and there are fewer than 2^60
        shift += 1
    return shift


@kernel
def scale_cells(steps: Ints, shift: int, ratio: np.uint64) -> np.uint64:
    """Scale cells of a unit in place by what `ratio_of` returns; return Σ steps² then."""
    left, right, after = np.uint64(max(shift, 0)), np.uint64(max(-shift, 0)), _0
    for i in range(steps.size):
        size = ((magnitude(steps[i]) >> right << left) * ratio) >> _32  # |step| · ratio ≤ 2^32 · limit < 2^63
        after += size * size
        steps[i] = np.int64(size) if steps[i] > 0 else -np.int64(size)
    return after


@kernel
def root_above(number: np.uint64) -> np.uint64:
    """Return ⌈√number⌉ of a number in [1, 2^62)."""
    root = np.uint64(math.sqrt(float(number)))  # off by one at most, whichever way the machine rounds
    while root * root < number:
        root += _1
    while (root - _1) * (root - _1) >= number:
        root -= _1
    return root


@kernel
def with_codes(pair_codes: Ints, ends: Ints, cells: Ints, steps: Ints) -> tuple[Ints, int]:
    """Return the code of each cell's pair, and how many cells are not zero; those are moved to the front, with ends."""
    codes, at, start = np.empty(cells.size, dtype=np.int64), 0, 0
    for pair in range(ends.size):
        for i in range(start, ends[pair]):
            codes[at], cells[at], steps[at] = pair_codes[pair], cells[i], steps[i]
            at += steps[i] != 0
        start, ends[pair] = ends[pair], at
    return codes, at
