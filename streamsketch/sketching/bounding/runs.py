"""Events of units brought together, and the least of each unit's keys: in linear time, without an object for a unit.

Rows are spread over buckets that fit the caches by their units' digests, which are secret. Within a bucket they are
found again by hash tables, and what is hashed is multiplied by the unit's own digest first, so nobody can choose keys
or indices that meet in one place (Dietzfelbinger et al. 1997).
"""

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import Ints, Words, kernel

Flags = NDArray[np.bool_]

_BUCKET_ROWS = 256  # on average
_MOST_BITS = 16
_ODD = np.uint64(0x9E37_79B9_7F4A_7C15)  # 2^64 over the golden ratio
_1, _64 = np.uint64(1), np.uint64(64)


def net(units: Words, codes: Ints, indices: Ints, steps: Ints) -> tuple[Words, Ints, Ints, Ints]:
    """Sum the rows of each unit, code and index, modulo 2^64; those of a unit come together, in it those of a code."""
    n = codes.size
    out_units, out_codes = np.empty((n, 2), dtype=np.uint64), np.empty(n, dtype=np.int64)
    out_indices, out_steps = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    units = np.ascontiguousarray(units).view()
    units.flags.writeable = False  # as those read from bytes are: the kernels are compiled once for both
    codes, indices, steps = (np.ascontiguousarray(column) for column in (codes, indices, steps))
    order, stops = in_buckets(units, min(_MOST_BITS, max(1, (n // _BUCKET_ROWS).bit_length())))
    count = sum_rows(units, codes, indices, steps, order, stops, out_units, out_codes, out_indices, out_steps)
    return out_units[:count], out_codes[:count], out_indices[:count], out_steps[:count]


@kernel
def in_buckets(units: Words, bits: int) -> tuple[Ints, Ints]:
    """Return an order of the rows by the upper bits of their units' hash, and where each bucket ends."""
    shift = _64 - np.uint64(bits)
    ends = np.zeros(1 << bits, dtype=np.int64)
    for i in range(units.shape[0]):
        ends[(units[i, 0] * _ODD) >> shift] += 1
    total = 0
    for bucket in range(ends.size):
        size = ends[bucket]
        ends[bucket] = total
        total += size
    order = np.empty(units.shape[0], dtype=np.int64)
    for i in range(units.shape[0]):
        bucket = (units[i, 0] * _ODD) >> shift
        order[ends[bucket]] = i
        ends[bucket] += 1
    return order, ends


@kernel
def sum_rows(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one loop over buckets
    units: Words,
    codes: Ints,
    indices: Ints,
    steps: Ints,
    order: Ints,
    stops: Ints,
    out_units: Words,
    out_codes: Ints,
    out_indices: Ints,
    out_steps: Ints,
) -> int:
    """Write the sums of `net` for rows that are in buckets; return how many there are.

    In a bucket each row finds its unit, then its pair (unit and code), then its sum (pair and index) by a hash table of
    its own. Numbers of units, pairs and sums are below the bucket's rows.
    """
    longest, start = 1, 0
    for bucket in range(stops.size):
        longest = max(longest, stops[bucket] - start)
        start = stops[bucket]
    room = 2
    while room < 2 * longest:
        room *= 2
    table = np.empty((3, room), dtype=np.int64)
    ones, twos = np.empty(longest, dtype=np.uint64), np.empty(longest, dtype=np.uint64)
    mine = np.empty((3, longest), dtype=np.int64)
    low, high = np.empty(longest, dtype=np.uint64), np.empty(longest, dtype=np.uint64)
    unit_pairs, pair_unit = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    pair_code, pair_sums = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    sum_pair, sum_index = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    sums, pair_at = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    at, start = 0, 0
    for bucket in range(stops.size):
        room, shift = 2, np.uint64(63)
        while room < 2 * (stops[bucket] - start):
            room, shift = 2 * room, shift - _1
        for kind in range(3):
            for empty in range(room):
                table[kind, empty] = -1
        last = room - 1
        n_units, n_pairs, n_sums, size = 0, 0, 0, stops[bucket] - start
        for j in range(size):  # the cache misses, all at once
            row = order[start + j]
            ones[j], twos[j] = units[row, 0], units[row, 1]
            mine[0, j], mine[1, j], mine[2, j] = codes[row], indices[row], steps[row]
        for j in range(size):
            one, two = ones[j], twos[j]
            if j == 0 or one != ones[j - 1] or two != twos[j - 1]:  # many rows follow one of their unit
                place = np.int64(((one ^ (two << _1)) * _ODD) >> shift)
                while table[0, place] >= 0:
                    unit = table[0, place]
                    if low[unit] == one and high[unit] == two:
                        break
                    place = (place + 1) & last
                if table[0, place] < 0:
                    table[0, place] = n_units
                    low[n_units], high[n_units], unit_pairs[n_units] = one, two, 0
                    n_units += 1
                unit = table[0, place]
            code, index, step = mine[0, j], mine[1, j], mine[2, j]
            place = np.int64((np.uint64(code + 1) * (one | _1)) >> shift)
            while table[1, place] >= 0:
                pair = table[1, place]
                if pair_code[pair] == code and pair_unit[pair] == unit:
                    break
                place = (place + 1) & last
            if table[1, place] < 0:
                table[1, place] = n_pairs
                pair_code[n_pairs], pair_unit[n_pairs], pair_sums[n_pairs] = code, unit, 0
                unit_pairs[unit] += 1
                n_pairs += 1
            pair = table[1, place]
            place = np.int64((np.uint64(index + 1) * (two | _1) + np.uint64(code) * (one | _1)) >> shift)
            while table[2, place] >= 0:
                found = table[2, place]
                if sum_index[found] == index and sum_pair[found] == pair:
                    break
                place = (place + 1) & last
            if table[2, place] < 0:
                table[2, place] = n_sums
                sum_pair[n_sums], sum_index[n_sums], sums[n_sums] = pair, index, step
                pair_sums[pair] += 1
                n_sums += 1
            else:
                sums[table[2, place]] += step
        start = stops[bucket]
        total = 0
        for unit in range(n_units):  # from how many pairs a unit has to where they begin
            many = unit_pairs[unit]
            unit_pairs[unit] = total
            total += many
        for pair in range(n_pairs):  # pairs in the order of their units
            place = unit_pairs[pair_unit[pair]]
            table[0, place] = pair
            unit_pairs[pair_unit[pair]] += 1
        total = at
        for following in range(n_pairs):
            pair = table[0, following]
            pair_at[pair] = total
            total += pair_sums[pair]
        for found in range(n_sums):
            pair = sum_pair[found]
            place = pair_at[pair]
            pair_at[pair] += 1
            out_units[place, 0], out_units[place, 1] = low[pair_unit[pair]], high[pair_unit[pair]]
            out_codes[place], out_indices[place], out_steps[place] = pair_code[pair], sum_index[found], sums[found]
        at = total
    return at


@kernel
def find_runs(units: Words, codes: Ints) -> tuple[Ints, Ints]:
    """Return where each run of rows of one unit and code ends, a pair, and where each unit's ends among the pairs."""
    pair_ends, unit_ends = np.empty(codes.size, dtype=np.int64), np.empty(codes.size, dtype=np.int64)
    pairs, many = 0, 0
    for i in range(codes.size):
        last = i + 1 == codes.size
        same = not last and units[i, 0] == units[i + 1, 0] and units[i, 1] == units[i + 1, 1]
        if same and codes[i] == codes[i + 1]:
            continue
        pair_ends[pairs] = i + 1
        pairs += 1
        if not same:
            unit_ends[many] = pairs
            many += 1
    return pair_ends[:pairs], unit_ends[:many]


@kernel
def keep_rows(
    kept: Flags, units: Words, codes: Ints, indices: Ints, steps: Ints, pair_ends: Ints, unit_ends: Ints
) -> int:
    """Move the rows of pairs that are kept, one or more of each unit, to the front; return how many there are.

    The ends of `find_runs` become those of what is left.
    """
    rows, pairs, start, first = 0, 0, 0, 0
    for unit in range(unit_ends.size):
        for pair in range(first, unit_ends[unit]):
            stop = pair_ends[pair]
            if kept[pair]:
                for i in range(start, stop):
                    units[rows, 0], units[rows, 1] = units[i, 0], units[i, 1]
                    codes[rows], indices[rows], steps[rows] = codes[i], indices[i], steps[i]
                    rows += 1
                pair_ends[pairs] = rows
                pairs += 1
            start = stop
        first = unit_ends[unit]
        unit_ends[unit] = pairs
    return rows


@kernel
def sum_units(steps: Ints, pair_ends: Ints, unit_ends: Ints, kept: Flags) -> tuple[int, float, float]:
    """Return how many units lose a pair, Σ|step| of all rows, and the largest of one unit."""
    losing, total, largest, start, first = 0, 0.0, 0.0, 0, 0
    for unit in range(unit_ends.size):
        loses, size = False, 0.0
        for pair in range(first, unit_ends[unit]):
            loses |= not kept[pair]
            for i in range(start, pair_ends[pair]):
                size += abs(float(steps[i]))
            start = pair_ends[pair]
        first = unit_ends[unit]
        losing += loses
        total += size
        largest = max(largest, size)
    return losing, total, largest


@kernel
def keep_least(ranks: Words, ties: Words, starts: Ints, most: int, kept: Flags) -> None:  # noqa: C901 - a heap
    """Clear ``kept`` for all but the ``most`` least of each run of rows, by rank and then by tie.

    ``starts`` holds the runs' beginnings and the end of the last. A heap holds the least so far, the largest on top.
    """
    longest = 0
    for run in range(starts.size - 1):
        longest = max(longest, starts[run + 1] - starts[run])
    heap = np.empty(min(most, longest), dtype=np.int64)
    for run in range(starts.size - 1):
        size = 0
        for row in range(starts[run], starts[run + 1]):
            if size < most:
                place = size
                size += 1
                while place > 0 and _is_less(ranks, ties, heap[(place - 1) >> 1], row):
                    heap[place] = heap[(place - 1) >> 1]
                    place = (place - 1) >> 1
                heap[place] = row
                continue
            if not _is_less(ranks, ties, row, heap[0]):
                kept[row] = False
                continue
            kept[heap[0]] = False
            place = 0
            while True:
                child = 2 * place + 1
                if child >= size:
                    break
                if child + 1 < size and _is_less(ranks, ties, heap[child], heap[child + 1]):
                    child += 1
                if not _is_less(ranks, ties, row, heap[child]):
                    break
                heap[place] = heap[child]
                place = child
            heap[place] = row


@kernel
def _is_less(ranks: Words, ties: Words, one: int, other: int) -> bool:
    return bool(ranks[one] < ranks[other] or (ranks[one] == ranks[other] and ties[one] < ties[other]))
