"""The least of each unit's slots, and the sums of its rows in them: unit by unit, in buffers that the caches hold.

A unit's slots are chosen before its rows are summed, so rows of other slots are read once and then left out. Sums are
found again by a hash table, and what is hashed is multiplied by the unit's own digest first, which is secret: nobody
can choose indices that meet in one place (Dietzfelbinger et al. 1997).
"""

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import kernel
from streamsketch.core.numbers import Ints
from streamsketch.kernels.carryless import TILE
from streamsketch.kernels.hashing import MAX_KEY, Words, evaluate

Flags = NDArray[np.bool_]

_MOST_BITS = 16
_KEY_BITS = np.uint64(MAX_KEY)
_1, _64 = np.uint64(1), np.uint64(64)


@kernel
def sum_chosen(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one loop over units
    units: Words,
    bounds: Ints,
    codes: Ints,
    indices: Ints,
    steps: Ints,
    n_slots: int,
    words: Words,
    coefficients: Words,
    most: int,
    totals: bool,  # noqa: FBT001 - Numba compiles no keywords
    out_codes: Ints,
    out_indices: Ints,
    out_steps: Ints,
    pair_codes: Ints,
    pair_ends: Ints,
    unit_ends: Ints,
) -> tuple[int, int, int, float, float]:
    """Write the sums of each unit's rows by slot and index, modulo 2^64, for the ``most`` slots of least rank.

    Sums come unit by unit and in it slot by slot, those that are 0 left out; a slot whose sums are all 0 is a pair of
    unit and slot all the same. Returns the number of sums, of pairs, and of units that lost a slot; with ``totals``
    also Σ|sum| of all slots, lost ones too, and the largest of one unit, else 0. If ``words`` is empty and a unit has
    more slots, the number of sums is -1, and nothing else counts.

    Parameters
    ----------
    units, bounds, codes, indices, steps
        Those of `Runs`.
    n_slots
        The number of slots.
    words
        A secret number for each slot, which also breaks ties.
    coefficients
        A slot's rank is the value of this polynomial at the unit's first word plus the slot's.
    out_codes, out_indices, out_steps
        Room for as many sums as there are rows.
    pair_codes, pair_ends
        As large, for the slot of each pair and where its sums end.
    unit_ends
        For where each unit's pairs end.
    """
    longest = 0
    for unit in range(units.shape[0]):
        longest = max(longest, bounds[unit + 1] - bounds[unit])
    room = 2
    while room < 2 * longest:
        room *= 2
    widest = min(longest, n_slots)
    tiled = (widest + TILE - 1) // TILE * TILE
    table = np.empty(room, dtype=np.int64)
    pair_of = np.full(n_slots, -1, dtype=np.int64)  # of the unit at hand, plus `base`
    slots, numbered = np.empty(widest + 1, dtype=np.int64), np.empty(widest, dtype=np.int64)
    keys, ranks, ties = np.zeros(tiled, np.uint64), np.empty(tiled, np.uint64), np.empty(widest, np.uint64)
    kept, scratch = np.empty(widest, dtype=np.bool_), np.empty(max(2 * widest, 2), dtype=np.int64)
    rows, pairs = np.empty(longest + 1, dtype=np.int64), np.empty(longest + 1, dtype=np.int64)
    sums, sum_index, sum_pair = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(longest, np.int64)
    places = np.empty(widest, dtype=np.int64)
    at, n_pairs, losing, total, largest, base = 0, 0, 0, 0.0, 0.0, 0
    for unit in range(units.shape[0]):
        width = 0
        for row in range(bounds[unit], bounds[unit + 1]):  # its slots, without a branch that nobody can predict
            code = codes[row]
            pair = pair_of[code]
            is_new = pair < base
            slots[width] = code
            pair_of[code] = base + width if is_new else pair
            width += is_new
        first_word, second_word = units[unit, 0], units[unit, 1]
        left = width
        if width > most:
            if not words.size:
                return -1, 0, 0, 0.0, 0.0
            losing += 1
            for pair in range(width):
                ties[pair] = words[slots[pair]]
                keys[pair] = (first_word + ties[pair]) & _KEY_BITS
            whole = (width + TILE - 1) // TILE * TILE
            evaluate(keys[:whole], coefficients, ranks[:whole])
            keep_least(ranks[:width], ties[:width], most, kept, scratch)
            left = 0
            for pair in range(width):
                numbered[left] = slots[pair]
                pair_of[slots[pair]] = base + left if kept[pair] else -1
                left += kept[pair]
            others = left
            for pair in range(width):
                if totals and not kept[pair]:
                    numbered[others] = slots[pair]
                    pair_of[slots[pair]] = base + others
                    others += 1
        else:
            for pair in range(width):
                numbered[pair] = slots[pair]
        size = 0
        for row in range(bounds[unit], bounds[unit + 1]):  # the rows of its pairs
            pair = pair_of[codes[row]] - base
            rows[size], pairs[size] = row, pair
            size += pair >= 0
        n_sums, room, shift = 0, 2, np.uint64(63)
        while room < 2 * size:
            room, shift = 2 * room, shift - _1
        for empty in range(room):
            table[empty] = -1
        for i in range(size):
            pair, index = pairs[i], indices[rows[i]]
            slot = np.int64((np.uint64(index + 1) * (second_word | _1) + np.uint64(pair) * (first_word | _1)) >> shift)
            while table[slot] >= 0:
                if sum_index[table[slot]] == index and sum_pair[table[slot]] == pair:
                    break
                slot = (slot + 1) & (room - 1)
            if table[slot] < 0:
                table[slot] = n_sums
                sum_pair[n_sums], sum_index[n_sums], sums[n_sums] = pair, index, steps[rows[i]]
                n_sums += 1
            else:
                sums[table[slot]] += steps[rows[i]]
        for pair in range(left):
            places[pair] = 0
        weight = 0.0
        for i in range(n_sums):
            if sum_pair[i] < left:
                places[sum_pair[i]] += sums[i] != 0
            if totals:
                weight += abs(float(sums[i]))
        total += weight
        largest = max(largest, weight)
        for pair in range(left):  # from how many sums a pair has to where they begin
            size = places[pair]
            places[pair] = at
            at += size
            pair_codes[n_pairs], pair_ends[n_pairs] = numbered[pair], at
            n_pairs += 1
        unit_ends[unit] = n_pairs
        for i in range(n_sums):
            pair = sum_pair[i]
            if pair < left and sums[i] != 0:
                place = places[pair]
                places[pair] = place + 1
                out_codes[place], out_indices[place], out_steps[place] = numbered[pair], sum_index[i], sums[i]
        base += width
    return at, n_pairs, losing, total, largest


@kernel
def keep_least(ranks: Words, ties: Words, most: int, kept: Flags, scratch: Ints) -> None:
    """Write to ``kept`` which rows are the ``most`` least, by rank and then by tie, of more than so many.

    Ranks are secret and as good as uniform, so they are counted by their upper bits, and only the few that share the
    upper bits of the last one kept are compared. ``scratch`` has room for two numbers a row.
    """
    bits = 1
    while bits < _MOST_BITS and 2 << bits <= ranks.size:
        bits += 1
    shift = _64 - np.uint64(bits)
    counts, border = scratch[: 1 << bits], scratch[1 << bits :]
    counts[:] = 0
    for row in range(ranks.size):
        counts[ranks[row] >> shift] += 1
    last, below = np.uint64(0), 0
    while below + counts[last] < most:
        below += counts[last]
        last += _1
    many = 0
    for row in range(ranks.size):
        kept[row] = ranks[row] >> shift < last
        if ranks[row] >> shift == last:
            border[many] = row
            many += 1
    for taken in range(most - below):
        least = taken
        for i in range(taken + 1, many):
            candidate, best = border[i], border[least]
            if ranks[candidate] < ranks[best] or (ranks[candidate] == ranks[best] and ties[candidate] < ties[best]):
                least = i
        row = border[least]
        border[least] = border[taken]
        kept[row] = True
