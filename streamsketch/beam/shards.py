"""Events spread over shards by their units, those of a unit together, and how they travel to them."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from numpy.typing import NDArray

from streamsketch.core import Ints, Words, kernel
from streamsketch.errors import WireFormatError
from streamsketch.sketching import Contributions

_HEADER = struct.Struct("<QQBBBB4xQ")  # events, runs of one unit, bytes of a run's length, index, step and code, slots
_SLOTS = beam.coders.FastPrimitivesCoder()
_FEW_SLOTS = 32  # which all shards may name, used or not
_PLANES = {1: ["i1"], 2: ["<i2"], 3: ["<u2", "i1"], 4: ["<i4"], 5: ["<u4", "i1"], 6: ["<u4", "<i2"], 8: ["<i8"]}
"""The columns' integers by their bytes: the low parts of all, then the high ones."""
_ODD, _1 = np.uint64(0x9E37_79B9_7F4A_7C15), np.uint64(1)  # 2^64 over the golden ratio


def by_shard(parts: Sequence[Contributions], shards: int) -> Iterator[tuple[int, bytes]]:
    """Yield the events of each shard that has some, `encoded`, those of a unit together, in the order they came in."""
    slots: dict[Any, int] = {}
    counts = np.zeros(shards, dtype=np.int64)
    for part in parts:
        count_shards(part.units, counts)
    stops = np.cumsum(counts)
    total = int(stops[-1])
    units = np.empty((total, 2), dtype=np.uint64)
    codes, indices, steps = (np.empty(total, dtype=np.int64) for _ in range(3))
    places = stops - counts
    for part in parts:
        names = np.array([slots.setdefault(slot, len(slots)) for slot in part.slots], dtype=np.int64)
        scatter(part.units, part.codes, part.indices, part.steps, names, places, units, codes, indices, steps)
    bring_together(units, codes, indices, steps, stops)
    events = Contributions(units, list(slots), codes, indices, steps)
    few = len(slots) <= _FEW_SLOTS
    columns = _columns_of(events if few else events.rows(slice(0)))  # for all shards at once: each may have few events
    for shard in np.flatnonzero(counts).tolist():
        rows = slice(stops[shard] - counts[shard], stops[shard])
        yield shard, _joined(columns, rows) if few else encoded(events.rows(rows).compact())


@kernel
def count_shards(units: Words, counts: Ints) -> None:
    """Add the number of events of each shard, which is the first word of the unit modulo the number of shards."""
    shards = np.uint64(counts.size)
    for row in range(units.shape[0]):
        counts[units[row, 0] % shards] += 1


@kernel
def scatter(  # noqa: PLR0913, PLR0917 - columns in and out
    units: Words,
    codes: Ints,
    indices: Ints,
    steps: Ints,
    names: Ints,
    places: Ints,
    units_out: Words,
    codes_out: Ints,
    indices_out: Ints,
    steps_out: Ints,
) -> None:
    """Write each event to the next place of its shard, with its code renamed; ``places`` go on."""
    shards = np.uint64(places.size)
    for row in range(codes.size):
        shard = units[row, 0] % shards
        place = places[shard]
        places[shard] = place + 1
        units_out[place, 0], units_out[place, 1] = units[row, 0], units[row, 1]
        codes_out[place], indices_out[place], steps_out[place] = names[codes[row]], indices[row], steps[row]


@kernel
def bring_together(units: Words, codes: Ints, indices: Ints, steps: Ints, stops: Ints) -> None:  # noqa: C901 - a hash table
    """Order each shard's rows by their units as they first occur, in place; ``stops`` holds the shards' ends.

    A hash table finds a unit again. Digests are secret, so nobody can choose units that meet in one place.
    """
    longest, start = 1, 0
    for shard in range(stops.size):
        longest = max(longest, stops[shard] - start)
        start = stops[shard]
    room = 2
    while room < 2 * longest:
        room *= 2
    table, unit_of, ends = np.empty(room, np.int32), np.empty(longest, np.int32), np.empty(longest, np.int64)
    first, old_units, old = np.empty(longest, np.int64), np.empty((longest, 2), np.uint64), np.empty(longest, np.int64)
    start = 0
    for shard in range(stops.size):
        size, found = stops[shard] - start, 0
        room, shift = 2, np.uint64(63)
        while room < 2 * size:
            room, shift = 2 * room, shift - _1
        table[:room] = -1
        for row in range(size):
            one, two = units[start + row, 0], units[start + row, 1]
            # within a shard first words agree modulo the number of shards, so the upper bits are taken
            place = np.int64(((one ^ (two << _1)) * _ODD) >> shift)
            while table[place] >= 0:
                unit = table[place]
                if units[first[unit], 0] == one and units[first[unit], 1] == two:
                    break
                place = (place + 1) & (room - 1)
            if table[place] < 0:
                table[place], first[found], ends[found] = found, start + row, 0
                found += 1
            unit_of[row] = table[place]
            ends[table[place]] += 1
        total = start
        for unit in range(found):
            many = ends[unit]
            ends[unit] = total
            total += many
        old_units[:size] = units[start : start + size]
        for row in range(size):
            place = ends[unit_of[row]]
            ends[unit_of[row]] = place + 1
            units[place, 0], units[place, 1] = old_units[row, 0], old_units[row, 1]
            unit_of[row] = place - start  # from here on, where the row goes
        for column in (codes, indices, steps):  # one after another, which the caches hold
            old[:size] = column[start : start + size]
            for row in range(size):
                column[start + unit_of[row]] = old[row]
        start = stops[shard]


@kernel
def run_starts(units: Words) -> Ints:
    """Return where another unit begins than in the row before."""
    starts, found = np.empty(units.shape[0], dtype=np.int64), 0
    for row in range(units.shape[0]):
        starts[found] = row
        found += row == 0 or units[row, 0] != units[row - 1, 0] or units[row, 1] != units[row - 1, 1]
    return starts[:found]


def encoded(events: Contributions) -> bytes:
    """Return events as bytes: **secret**, of no fixed layout.

    A unit's digest is written once for rows that follow each other, and integers take as few bytes as the largest of
    their column needs. Steps send these rather than the events by a coder of ours: a runner that knows no such coder
    puts its own lengths around what it encodes, and copies it several times for that.
    """
    return _joined(_columns_of(events), slice(0, len(events)))


class _Columns(NamedTuple):
    """Events as they are encoded: where runs of one unit start, and the width and the planes of each column."""

    starts: Ints
    units: Words
    lengths: tuple[int, list[NDArray[Any]]]
    rows: list[tuple[int, list[NDArray[Any]]]]
    names: bytes


def _columns_of(events: Contributions) -> _Columns:
    starts = run_starts(events.units)
    lengths = np.diff(starts, append=len(events))
    rows = [_planes(column) for column in (events.indices, events.steps, events.codes)]
    return _Columns(starts, events.units[starts].astype("<u8"), _planes(lengths), rows, _SLOTS.encode(events.slots))


def _joined(columns: _Columns, rows: slice) -> bytes:
    """Return the bytes of some rows, which begin and end with runs of one unit."""
    runs = slice(*np.searchsorted(columns.starts, [rows.start, rows.stop]).tolist())
    width, lengths = columns.lengths
    widths = [width for width, _ in columns.rows]
    sizes = rows.stop - rows.start, runs.stop - runs.start
    header = _HEADER.pack(*sizes, width, *widths, len(columns.names))
    planes = [plane[rows].data for _, column in columns.rows for plane in column]
    return b"".join(
        [header, columns.units[runs].data, *(plane[runs].data for plane in lengths), *planes, columns.names]
    )


def decoded(parts: Iterable[bytes]) -> Contributions:
    """Return the events of all parts, one part after the other.

    Raises
    ------
    WireFormatError
        If some bytes are not those of events.
    """
    read = [(part, *_header(part)) for part in parts]
    total = sum(count for _, count, *_ in read)
    units = np.empty((total, 2), dtype=np.uint64)
    codes, indices, steps = (np.empty(total, dtype=np.int64) for _ in range(3))
    slots: dict[Any, int] = {}
    known: dict[bytes, Ints] = {}  # nearly all parts have the same slots
    first = 0
    for part, count, runs, run_width, widths in read:
        rows, at = slice(first, first + count), _HEADER.size + 16 * runs
        lengths = np.empty(runs, dtype=np.int64)
        at = _unpack(part, run_width, at, lengths)
        if (lengths < 1).any() or int(lengths.sum()) != count:
            raise WireFormatError("runs", f"do not add up to {count} events")
        units[rows] = np.repeat(np.frombuffer(part, "<u8", 2 * runs, _HEADER.size).reshape(-1, 2), lengths, axis=0)
        for width, column in zip(widths, (indices, steps, codes), strict=True):
            at = _unpack(part, width, at, column[rows])
        names = part[at:]
        if names not in known:
            known[names] = np.array([slots.setdefault(slot, len(slots)) for slot in _SLOTS.decode(names)], np.int64)
        codes[rows] = known[names][codes[rows]]
        first = rows.stop
    return Contributions(units, list(slots), codes, indices, steps)


def _header(part: bytes) -> tuple[int, int, int, list[int]]:
    """Return how many events and runs some bytes have, the width of runs' lengths, and the widths of the columns."""
    if len(part) < _HEADER.size:
        raise WireFormatError("length", f"{len(part)} bytes, events have {_HEADER.size} or more")
    count, runs, run_width, *widths, length = _HEADER.unpack_from(part)
    size = _HEADER.size + runs * (16 + run_width) + count * sum(widths) + length
    if not {run_width, *widths} <= _PLANES.keys() or size != len(part):
        raise WireFormatError("header", "does not fit the bytes that follow")
    return count, runs, run_width, widths


def _planes(column: Ints) -> tuple[int, list[NDArray[Any]]]:
    """Return the least width that holds a column, and its planes."""
    largest = max(int(column.max()), ~int(column.min())) if column.size else 0
    width = next(width for width in _PLANES if largest < 1 << (8 * width - 1))
    low, *high = map(np.dtype, _PLANES[width])
    return width, [column.astype(low), *((column >> 8 * low.itemsize).astype(one) for one in high)]


def _unpack(part: bytes, width: int, at: int, column: Ints) -> int:
    """Read the planes of a column; return where they end."""
    low, *high = map(np.dtype, _PLANES[width])
    column[:] = np.frombuffer(part, low, column.size, at)
    for one in high:
        upper = np.frombuffer(part, one, column.size, at + column.size * low.itemsize)
        column |= upper.astype(np.int64) << 8 * low.itemsize
    return at + width * column.size
