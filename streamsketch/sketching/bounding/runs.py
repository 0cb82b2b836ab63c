"""Events of units brought together: runs of rows of one unit, found again in linear time.

Runs, or rows where they are short, are spread over buckets that fit the caches by their units' digests, which are
secret, and found again within a bucket by a hash table. So an attacker cannot choose units that meet in one place.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from streamsketch.core.concealed import concealed
from streamsketch.core.documents import TableKey
from streamsketch.core.jit import kernel, read_only
from streamsketch.core.numbers import Ints
from streamsketch.kernels.hashing import Words
from streamsketch.sketching.bounding.contributions import Contributions, shared_slots

_BUCKET_RUNS, _BUCKET_ROWS = 256, 2048  # on average
_LONG = 4  # rows of a run, from which on runs are brought together, not rows
_MOST_BITS = 16
_ODD = np.uint64(0x9E37_79B9_7F4A_7C15)  # 2^64 over the golden ratio
_1, _64 = np.uint64(1), np.uint64(64)
_ROW_WORDS = 5  # two words of the unit, code, index and steps


@concealed
@dataclasses.dataclass(frozen=True, eq=False)
class Runs:
    """Events of many units, as `Contributions` with the rows of each unit in one run.

    Parameters
    ----------
    units
        The units' digests: uint64, (n_units, 2).
    bounds
        Where the units' rows begin, and the end of the last: int64, (n_units + 1,).
    slots, codes, indices, steps, times
        As in `Contributions`.
    """

    units: Words
    bounds: Ints
    slots: list[TableKey]
    codes: Ints
    indices: Ints
    steps: Ints
    times: list[int] | None = None
    features: ClassVar[None] = None

    def __len__(self) -> int:
        return self.codes.size

    @staticmethod
    def of(*parts: Contributions) -> "Runs":
        """Return the events of all parts, none of features, with the rows of each unit together, in their order."""
        if len(parts) != 1:
            return Runs._spread(parts)
        (events,) = parts
        starts = run_starts(read_only(events.units))
        if _LONG * starts.size > len(events):
            return Runs._spread(parts)
        units, bounds, places = Runs.gathered(events.units.take(starts, axis=0), np.diff(starts, append=len(events)))
        columns = [np.empty(len(events), dtype=np.int64) for _ in range(3)]
        for column, source in zip(columns, (events.codes, events.indices, events.steps), strict=True):
            move_runs(starts, places, read_only(source), column)
        codes, indices, steps = columns
        return Runs(units, bounds, events.slots, codes, indices, steps, events.times)

    @staticmethod
    def _spread(parts: Sequence[Contributions]) -> "Runs":
        (slots, times), places = shared_slots(parts)
        size = sum(map(len, parts))
        bits = min(_MOST_BITS, max(1, (size // _BUCKET_ROWS).bit_length()))
        counts = np.zeros(1 << bits, dtype=np.int64)
        for part in parts:
            count_rows(read_only(part.units), bits, counts)
        rows, stops = np.empty((size, _ROW_WORDS), dtype=np.uint64), np.cumsum(counts) - counts
        for part, its in zip(parts, places, strict=True):
            columns = read_only(part.codes), its, read_only(part.indices), read_only(part.steps)
            spread_rows(read_only(part.units), *columns, bits, stops, rows)
        units, bounds = np.empty((size, 2), dtype=np.uint64), np.empty(size + 1, dtype=np.int64)
        codes, indices, steps = (np.empty(size, dtype=np.int64) for _ in range(3))
        many = group_rows(rows, stops, units, bounds, codes, indices, steps)
        return Runs(units[:many].copy(), bounds[: many + 1].copy(), slots, codes, indices, steps, times)

    @staticmethod
    def gathered(units: Words, lengths: Ints) -> tuple[Words, Ints, Ints]:
        """Return units and bounds with one run for each unit of some runs, and where the rows of each of those go."""
        order, ends = by_unit(units)
        places, bounds = place_runs(order, ends, lengths)
        return units[order[ends - 1]], bounds, places


def by_unit(units: Words) -> tuple[Ints, Ints]:
    """Return an order of runs in which those of a unit follow each other, and where each unit's end in it."""
    return group_runs(units, min(_MOST_BITS, max(1, (len(units) // _BUCKET_RUNS).bit_length())))


@kernel
def run_starts(units: Words) -> Ints:
    """Return where another unit begins than in the row before."""
    starts, count = np.empty(units.shape[0], dtype=np.int64), 0
    for row in range(units.shape[0]):
        starts[count] = row
        count += row == 0 or units[row, 0] != units[row - 1, 0] or units[row, 1] != units[row - 1, 1]
    return starts[:count]


@kernel
def place_runs(order: Ints, ends: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Return where the rows of each run go, and the bounds of units' rows, from what `by_unit` returns."""
    places, bounds = np.empty_like(lengths), np.zeros(ends.size + 1, dtype=np.int64)
    place, at = 0, 0
    for unit in range(ends.size):
        for i in range(place, ends[unit]):
            places[order[i]] = at
            at += lengths[order[i]]
        place, bounds[unit + 1] = ends[unit], at
    return places, bounds


@kernel
def move_runs(starts: Ints, places: Ints, column: Ints, out: Ints) -> None:
    """Write the rows of runs, which begin at ``starts``, to where they go."""
    for run in range(starts.size):
        stop = starts[run + 1] if run + 1 < starts.size else column.size
        shift = places[run] - starts[run]
        for row in range(starts[run], stop):
            out[row + shift] = column[row]


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
def room_for(stops: Ints) -> tuple[int, int]:
    """Return the length of the longest bucket, at least 1, and the room of its hash table: twice that, or more."""
    longest, start, room = 1, 0, 2
    for bucket in range(stops.size):
        longest = max(longest, stops[bucket] - start)
        start = stops[bucket]
    while room < 2 * longest:
        room *= 2
    return longest, room


@kernel
def group_runs(units: Words, bits: int) -> tuple[Ints, Ints]:
    """Return what `by_unit` does, with 2^bits buckets; units are in the order they first occur in a bucket."""
    order, stops = in_buckets(units, bits)
    longest, room = room_for(stops)
    table, unit_of, many = np.empty(room, np.int64), np.empty(longest, np.int64), np.empty(longest, np.int64)
    low, high, runs = np.empty(longest, np.uint64), np.empty(longest, np.uint64), np.empty(longest, np.int64)
    first, second, hashed = np.empty_like(low), np.empty_like(low), np.empty_like(runs)
    unit_ends = np.empty(units.shape[0], dtype=np.int64)
    start, n_units = 0, 0
    for bucket in range(stops.size):
        size, distinct = stops[bucket] - start, 0
        room, shift = 2, np.uint64(63)
        while room < 2 * size:
            room, shift = 2 * room, shift - _1
        table[:room] = -1
        for i in range(size):  # by itself, as misses of the caches then overlap
            runs[i] = order[start + i]
            first[i], second[i] = units[runs[i], 0], units[runs[i], 1]
            hashed[i] = np.int64(((first[i] ^ (second[i] << _1)) * _ODD) >> shift)
        for i in range(size):
            first_word, second_word, place = first[i], second[i], hashed[i]
            while table[place] >= 0:
                unit = table[place]
                if low[unit] == first_word and high[unit] == second_word:
                    break
                place = (place + 1) & (room - 1)
            if table[place] < 0:
                table[place] = distinct
                low[distinct], high[distinct], many[distinct] = first_word, second_word, 0
                distinct += 1
            unit_of[i] = table[place]
            many[table[place]] += 1
        total = start
        for unit in range(distinct):  # from how many runs a unit has to where they begin
            total += many[unit]
            many[unit] = total - many[unit]
            unit_ends[n_units] = total
            n_units += 1
        for i in range(size):
            order[many[unit_of[i]]] = runs[i]
            many[unit_of[i]] += 1
        start = stops[bucket]
    return order, unit_ends[:n_units]


@kernel
def count_rows(units: Words, bits: int, counts: Ints) -> None:
    """Add how many rows each of 2^bits buckets gets, by the upper bits of their units' hash."""
    shift = _64 - np.uint64(bits)
    for row in range(units.shape[0]):
        counts[(units[row, 0] * _ODD) >> shift] += 1


@kernel
def spread_rows(
    units: Words, codes: Ints, slots: Ints, indices: Ints, steps: Ints, bits: int, places: Ints, out: Words
) -> None:
    """Write rows to their buckets, each from its place on, which moves on; codes become numbers of shared slots.

    A row is written as a whole, or each bucket would need room in the caches for five columns.
    """
    shift = _64 - np.uint64(bits)
    for row in range(units.shape[0]):
        bucket = (units[row, 0] * _ODD) >> shift
        place = places[bucket]
        places[bucket] = place + 1
        out[place, 0], out[place, 1] = units[row, 0], units[row, 1]
        out[place, 2], out[place, 3] = np.uint64(slots[codes[row]]), np.uint64(indices[row])
        out[place, 4] = np.uint64(steps[row])


@kernel
def group_rows(rows: Words, stops: Ints, units: Words, bounds: Ints, codes: Ints, indices: Ints, steps: Ints) -> int:
    """Write rows in buckets, which end at ``stops``, unit by unit, with where units begin; return how many there are.

    Units are in the order they first occur in a bucket. ``bounds`` has room for one more than the rows, and the other
    columns for as many.
    """
    longest, room = room_for(stops)
    table, unit_of, many = np.empty(room, np.int64), np.empty(longest, np.int64), np.empty(longest, np.int64)
    start, n_units, bounds[0] = 0, 0, 0
    for bucket in range(stops.size):
        size, first = stops[bucket] - start, n_units
        room, shift = 2, np.uint64(63)
        while room < 2 * size:
            room, shift = 2 * room, shift - _1
        table[:room] = -1
        for i in range(size):
            first_word, second_word = rows[start + i, 0], rows[start + i, 1]
            place = np.int64(((first_word ^ (second_word << _1)) * _ODD) >> shift)
            while table[place] >= 0:
                unit = first + table[place]
                if units[unit, 0] == first_word and units[unit, 1] == second_word:
                    break
                place = (place + 1) & (room - 1)
            if table[place] < 0:
                table[place] = n_units - first
                units[n_units, 0], units[n_units, 1], many[n_units - first] = first_word, second_word, 0
                n_units += 1
            unit_of[i] = table[place]
            many[table[place]] += 1
        total = start
        for unit in range(n_units - first):  # from how many rows a unit has to where they begin
            total += many[unit]
            many[unit] = total - many[unit]
            bounds[first + unit + 1] = total
        for i in range(size):
            place = many[unit_of[i]]
            many[unit_of[i]] = place + 1
            codes[place], indices[place] = np.int64(rows[start + i, 2]), np.int64(rows[start + i, 3])
            steps[place] = np.int64(rows[start + i, 4])
        start = stops[bucket]
    return n_units
