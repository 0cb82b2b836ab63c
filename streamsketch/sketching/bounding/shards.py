"""Events spread over shards by their units, those of a unit together, and how they travel to them: **secret** bytes.

Each shard's bytes hold a digest for each unit, the number of its rows, and then the rows: index, step and code one
after the other, each in as few bytes as the largest of them needs. Steps send these rather than the events by a coder
of ours: a runner that knows no such coder puts its own lengths around what it encodes, and copies it several times for
that. The layout is not fixed.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import kernel, read_only
from streamsketch.core.numbers import Ints
from streamsketch.data.canonical import canonical_bytes, key_of
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.kernels.hashing import Words
from streamsketch.kernels.words import bytes_at, put_word
from streamsketch.sketching.bounding.contributions import Contributions, TimedSlot, without_times
from streamsketch.sketching.bounding.runs import Runs

if TYPE_CHECKING:
    from streamsketch.core.documents import TableKey

Bytes: TypeAlias = NDArray[np.uint8]

HEADER = struct.Struct("<QQBBBB4xQ")  # events, units, bytes of a unit's number of rows, index, step and code, slots
_FEW_SLOTS, _EVENTS_A_SLOT = 32, 8  # such slots are all named, used or not
_TIMED = (1).to_bytes(8, "little")
_PAD = 8  # bytes behind rows, as words are written whole
_ODD, _1, _64 = np.uint64(0x9E37_79B9_7F4A_7C15), np.uint64(1), np.uint64(64)  # 2^64 over the golden ratio


def by_shard(parts: Sequence[Contributions], shards: int) -> Iterator[tuple[int, bytes]]:
    """Yield the events of each shard that has some, as bytes, those of a unit together, in the order they came in."""
    slots: dict[TableKey, int] = {}
    counts = np.zeros(shards, dtype=np.int64)
    index, step = 0, 0
    for part in parts:
        count_shards(part.units, counts)
        index = max(index, int(part.indices.max(initial=0)))
        step = max(step, int(part.steps.max(initial=0)), ~int(part.steps.min(initial=0)))
    names = [
        np.array([slots.setdefault(slot, len(slots)) for slot in part.timed_slots], dtype=np.int64) for part in parts
    ]
    widths = _bytes_of(index), _bytes_of(2 * step), _bytes_of(len(slots))  # a step has a sign
    width, listed = sum(widths), list(slots)
    stops = np.cumsum(counts)
    total, places = int(stops[-1]), stops - counts
    units = np.empty((total, 2), dtype=np.uint64)
    rows = np.empty(total * width + _PAD * (shards + 1), dtype=np.uint8)
    for part, renamed in zip(parts, names, strict=True):
        scatter(part.units, part.codes, read_only(part.indices), part.steps, renamed, places, *widths, units, rows)
    few = len(slots) <= np.maximum(_FEW_SLOTS, counts // _EVENTS_A_SLOT)
    digests, lengths, used = np.empty_like(units), np.empty(total, np.int64), np.empty(total, np.int64)
    packed = np.empty(total * width + _PAD, dtype=np.uint8)
    tallies = pack(units, rows, stops, width, widths[2], few, len(slots), digests, lengths, used, packed)
    all_names = _encoded_slots(listed)
    for shard in np.flatnonzero(counts).tolist():
        start, stop = int(stops[shard] - counts[shard]), int(stops[shard])
        many, n_used = tallies[shard].tolist()
        sizes = lengths[start : start + many].astype("<i8", copy=False)
        size_bytes = _bytes_of(int(sizes.max()))
        named = all_names
        if not few[shard]:
            named = _encoded_slots([listed[code] for code in used[start : start + n_used].tolist()])
        yield (
            shard,
            b"".join(
                [
                    HEADER.pack(stop - start, many, size_bytes, *widths, len(named)),
                    digests[start : start + many].astype("<u8", copy=False).data,
                    sizes.view(np.uint8).reshape(-1, 8)[:, :size_bytes].tobytes(),
                    packed[start * width : stop * width].data,
                    named,
                ]
            ),
        )


def _bytes_of(largest: int) -> int:
    """Return how many bytes hold the numbers up to the largest."""
    return max(1, -(-largest.bit_length() // 8))


@kernel
def count_shards(units: Words, counts: Ints) -> None:
    """Add the number of events of each shard, which is the first word of the unit modulo the number of shards."""
    shards = np.uint64(counts.size)
    masked = shards & (shards - _1) == 0
    for row in range(units.shape[0]):
        shard = units[row, 0] & (shards - _1) if masked else units[row, 0] % shards
        counts[shard] += 1


@kernel
def scatter(  # noqa: PLR0913, PLR0917 - columns in and out
    units: Words,
    codes: Ints,
    indices: Ints,
    steps: Ints,
    names: Ints,
    places: Ints,
    index_bytes: int,
    step_bytes: int,
    code_bytes: int,
    units_out: Words,
    rows_out: Bytes,
) -> None:
    """Write each event to the next place of its shard, its unit and its row, with its code renamed; ``places`` go on.

    Before the rows of each shard are as many pads as there are shards before it: each field is written as a whole word,
    whose upper bytes the next one or the pad takes.
    """
    shards = np.uint64(places.size)
    masked = shards & (shards - _1) == 0
    width = index_bytes + step_bytes + code_bytes
    for row in range(codes.size):
        shard = units[row, 0] & (shards - _1) if masked else units[row, 0] % shards
        place = places[shard]
        places[shard] = place + 1
        units_out[place, 0], units_out[place, 1] = units[row, 0], units[row, 1]
        at = place * width + _PAD * np.int64(shard)
        put_word(rows_out, at, np.uint64(indices[row]))
        put_word(rows_out, at + index_bytes, np.uint64(steps[row]))
        put_word(rows_out, at + index_bytes + step_bytes, np.uint64(names[codes[row]]))


@kernel
def pack(  # noqa: C901, PLR0912, PLR0913, PLR0917 - a loop over shards, columns in and out
    units: Words,
    rows: Bytes,
    stops: Ints,
    width: int,
    code_bytes: int,
    few: NDArray[np.bool_],
    n_slots: int,
    digests: Words,
    lengths: Ints,
    used: Ints,
    packed: Bytes,
) -> Ints:
    """Order each shard's rows by their units as they first occur; return how many units and how many slots it has.

    What is written of a shard begins where its rows do: the digests of its units, their numbers of rows, and for shards
    with more than ``few`` slots those that occur, which its rows' codes then count. A hash table finds a unit again.
    Digests are secret, so an attacker cannot choose units that meet in one place.
    """
    longest, start = 1, 0
    for shard in range(stops.size):
        longest = max(longest, stops[shard] - start)
        start = stops[shard]
    room = 2
    while room < 2 * longest:
        room *= 2
    table, unit_of = np.empty(room, np.int32), np.empty(longest, np.int32)
    order, ends = np.empty(longest, np.int64), np.empty(longest, np.int64)
    places = np.full(0 if few.all() else n_slots, -1, dtype=np.int64)
    tallies = np.zeros((stops.size, 2), dtype=np.int64)
    code_mask = ~np.uint64(0) >> (_64 - np.uint64(8 * code_bytes))
    start = 0
    for shard in range(stops.size):
        size, many = stops[shard] - start, 0
        room, shift = 2, np.uint64(63)
        while room < 2 * size:
            room, shift = 2 * room, shift - _1
        table[:room] = -1
        for row in range(size):
            first_word, second_word = units[start + row, 0], units[start + row, 1]
            # within a shard first words agree modulo the number of shards, so the upper bits are taken
            place = np.int64(((first_word ^ (second_word << _1)) * _ODD) >> shift)
            while table[place] >= 0:
                unit = start + table[place]
                if digests[unit, 0] == first_word and digests[unit, 1] == second_word:
                    break
                place = (place + 1) & (room - 1)
            if table[place] < 0:
                table[place] = many
                digests[start + many, 0], digests[start + many, 1], lengths[start + many] = first_word, second_word, 0
                many += 1
            unit_of[row] = table[place]
            lengths[start + table[place]] += 1
        total = 0
        for unit in range(many):
            ends[unit] = total
            total += lengths[start + unit]
        for row in range(size):
            order[ends[unit_of[row]]] = row
            ends[unit_of[row]] += 1
        first, stop, slots = start * width + _PAD * shard, stops[shard] * width + _PAD * (shard + 1), 0
        for row in range(size):
            source, target = first + order[row] * width, (start + row) * width
            for at in range(0, width, 8):
                put_word(packed, target + at, bytes_at(rows, source + at, stop))
            if not few[shard]:
                code = bytes_at(rows, source + width - code_bytes, stop) & code_mask
                if places[code] < 0:
                    places[code] = slots
                    used[start + slots] = code
                    slots += 1
                put_word(packed, target + width - code_bytes, np.uint64(places[code]))
        for slot in range(slots):
            places[used[start + slot]] = -1
        tallies[shard, 0], tallies[shard, 1] = many, slots
        start = stops[shard]
    return tallies


def decoded(parts: Iterable[bytes]) -> Runs:
    """Return the events of all parts, a run for each unit, and in it one part after the other.

    Raises
    ------
    WireFormatError
        If some bytes are not those of events.
    """
    read = [(np.frombuffer(part, dtype=np.uint8), *_header(part)) for part in parts]
    digests, lengths = [np.empty((0, 2), dtype=np.uint64)], [np.empty(0, dtype=np.int64)]
    for data, count, many, size_bytes, _ in read:
        at = HEADER.size + 16 * many
        digests.append(data[HEADER.size : at].view("<u8").reshape(-1, 2))
        wide = np.zeros((many, 8), dtype=np.uint8)
        wide[:, :size_bytes] = data[at : at + many * size_bytes].reshape(many, size_bytes)
        lengths.append(wide.view("<i8").ravel())
        if (lengths[-1] < 1).any() or int(lengths[-1].sum()) != count:
            raise WireFormatError("units", f"do not add up to {count} events")
    units, bounds, places = Runs.gathered(np.concatenate(digests), np.concatenate(lengths))
    codes, indices, steps = (np.empty(int(bounds[-1]), dtype=np.int64) for _ in range(3))
    slots: dict[TableKey, int] = {}
    codes_of: dict[bytes, Ints] = {}  # nearly all parts have the same slots
    first = 0
    for (data, count, many, size_bytes, (index, step, code)), sizes in zip(read, lengths[1:], strict=True):
        start = HEADER.size + many * (16 + size_bytes)
        named = data[start + count * (index + step + code) :].tobytes()
        if named not in codes_of:
            codes_of[named] = np.array([slots.setdefault(slot, len(slots)) for slot in _slots_of(named)], np.int64)
        where = places[first : first + many]
        if not unpack(data, start, index, step, code, sizes, where, codes_of[named], codes, indices, steps):
            raise WireFormatError("codes", "are of more slots than are named")
        first += many
    names, times = without_times(list(slots))
    return Runs(units, bounds, names, codes, indices, steps, times)


@kernel
def unpack(  # noqa: PLR0913, PLR0917 - columns in and out
    data: Bytes,
    at: int,
    index_bytes: int,
    step_bytes: int,
    code_bytes: int,
    lengths: Ints,
    places: Ints,
    names: Ints,
    codes: Ints,
    indices: Ints,
    steps: Ints,
) -> bool:
    """Write rows that begin at ``data[at]`` to the places of their runs; return whether all their codes have names."""
    no_index, no_step, no_code = (64 - 8 * index_bytes), (64 - 8 * step_bytes), (64 - 8 * code_bytes)
    for run in range(lengths.size):
        for place in range(places[run], places[run] + lengths[run]):
            code = (bytes_at(data, at + index_bytes + step_bytes, data.size) << np.uint64(no_code)) >> np.uint64(
                no_code
            )
            if code >= np.uint64(names.size):
                return False
            codes[place] = names[code]
            indices[place] = np.int64((bytes_at(data, at, data.size) << np.uint64(no_index)) >> np.uint64(no_index))
            steps[place] = np.int64(bytes_at(data, at + index_bytes, data.size) << np.uint64(no_step)) >> no_step
            at += index_bytes + step_bytes + code_bytes
    return True


def _encoded_slots(timed: Sequence[TimedSlot]) -> bytes:
    """Return slots as bytes: numbers of eight bytes each, and the keys' canonical bytes.

    The numbers are how many slots there are, 1 with times and else 0, the windows, the times, 0 without, and the
    lengths of the keys.
    """
    slots, times = without_times(timed)
    keys = [canonical_bytes(key) for key, _ in slots]
    windows = [window for _, window in slots]
    numbers = [len(keys), int(times is not None), *windows, *(times or [0] * len(keys)), *map(len, keys)]
    return np.array(numbers, dtype="<i8").tobytes() + b"".join(keys)


def _slots_of(named: bytes) -> Iterator[TimedSlot]:
    """Yield the slots that `_encoded_slots` has made these bytes of."""
    count, timed = int.from_bytes(named[:8], "little"), named[8:16] == _TIMED
    start = 16 + 24 * count
    if not len(named) >= start > 16:
        raise WireFormatError("slots", "do not fit the bytes that follow")
    numbers = np.frombuffer(named, dtype="<i8", offset=16, count=3 * count).reshape(3, count)
    windows, times, lengths = numbers.tolist()
    if min(lengths) < 1 or start + sum(lengths) != len(named):
        raise WireFormatError("slots", "do not fit the bytes that follow")
    for window, time, length in zip(windows, times, lengths, strict=True):
        try:
            yield (key_of(named[start : start + length]), window), time if timed else None
        except InvalidInputError as error:
            raise WireFormatError("slots", str(error)) from None
        start += length


def _header(part: bytes) -> tuple[int, int, int, list[int]]:
    """Return how many events and units some bytes have, the width of numbers of rows, and those of a row's fields."""
    if len(part) < HEADER.size:
        raise WireFormatError("length", f"{len(part)} bytes, events have {HEADER.size} or more")
    count, units, width, *widths, length = HEADER.unpack_from(part)
    size = HEADER.size + units * (16 + width) + count * sum(widths) + length
    if not {width, *widths} <= set(range(1, 9)) or size != len(part):
        raise WireFormatError("header", "does not fit the bytes that follow")
    return count, units, width, widths
