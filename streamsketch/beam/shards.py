"""Events spread over shards by their units, in one pass, and how they travel to them."""

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from numpy.typing import NDArray

from streamsketch.core import Ints, Words, kernel
from streamsketch.errors import WireFormatError
from streamsketch.sketching import Contributions

_HEADER = struct.Struct("<QBBB5xQ")  # events, bytes of an index, of a step, of a code, and of all slots
_SLOTS = beam.coders.FastPrimitivesCoder()
_WIDTHS = (1, 2, 4, 8)


def by_shard(parts: Sequence[Contributions], shards: int) -> Iterator[tuple[int, Contributions]]:
    """Yield the events of each shard that has some, in the order in which they came; equal units share a shard."""
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
    events = Contributions(units, list(slots), codes, indices, steps)
    for shard in np.flatnonzero(counts).tolist():
        yield shard, events.rows(slice(stops[shard] - counts[shard], stops[shard])).compact()


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


class ContributionsCoder(beam.coders.Coder):
    """Events of units between workers of one pipeline: **secret**, of no fixed layout.

    Integers take as few bytes as the largest of their column needs.
    """

    def encode(self, value: Contributions) -> bytes:
        """Return the events' bytes."""
        slots = _SLOTS.encode(value.slots)
        columns = [_narrow(column) for column in (value.indices, value.steps, value.codes)]
        header = _HEADER.pack(len(value), *(column.dtype.itemsize for column in columns), len(slots))
        return b"".join([header, value.units.astype("<u8").tobytes(), *(one.tobytes() for one in columns), slots])

    def decode(self, encoded: bytes) -> Contributions:
        """Return the events.

        Raises
        ------
        WireFormatError
            If the bytes are not those of events.
        """
        if len(encoded) < _HEADER.size:
            raise WireFormatError("length", f"{len(encoded)} bytes, events have {_HEADER.size} or more")
        count, *widths, length = _HEADER.unpack_from(encoded)
        if not set(widths) <= set(_WIDTHS) or _HEADER.size + count * (16 + sum(widths)) + length != len(encoded):
            raise WireFormatError("header", "does not fit the bytes that follow")
        units = np.frombuffer(encoded, "<u8", 2 * count, _HEADER.size).reshape(-1, 2)
        start, columns = _HEADER.size + 16 * count, []
        for width in widths:
            columns.append(np.frombuffer(encoded, f"<i{width}", count, start).astype(np.int64))
            start += width * count
        indices, steps, codes = columns
        return Contributions(units, _SLOTS.decode(encoded[start:]), codes, indices, steps)

    def to_type_hint(self) -> type[Contributions]:
        """Return the coded type."""
        return Contributions


def _narrow(column: Ints) -> NDArray[Any]:
    """Return a column in the least width that holds it, little-endian."""
    largest = max(int(column.max()), ~int(column.min())) if column.size else 0
    width = next(width for width in _WIDTHS if largest < 1 << (8 * width - 1))
    return column.astype(f"<i{width}")
