"""Partial sketches of keys: made of some of the rows, and sent between the workers of one job. **Secret** bytes."""

import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamsketch.core.numbers import Ints
from streamsketch.errors import InvalidInputError, SketchOverflowError, WireFormatError
from streamsketch.kernels.slots import Codes
from streamsketch.projections.base import Projection, check_entries
from streamsketch.sketching.exact import ExactSums
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable

if TYPE_CHECKING:
    from streamsketch.core.documents import TableKey

# bytes of projection JSON, of a cell, of a place (0: all cells follow), of counts behind the cells, mass
_HEADER = struct.Struct("<IBBB16s")
_COUNT_BYTES = 16
_WIDTHS = (1, 2, 4, 8)
_NO_MASS = bytes(16)
_EVENT_BYTES = 24  # of an event that waits: place of its key, index and steps
_NO_UNITS, _MOST = (0, 0), (1 << 64) - 1


class PartialSketches:
    """Sketches of a bundle's keys: as one table while they are few, beyond that from events sorted by key.

    A table of all keys would take 8·k bytes a key at once, or be flushed again and again with hardly an event in each
    sketch. So events of keys for which the table has no room wait in a list, 24 bytes each.

    Parameters
    ----------
    projection
        The public map.
    most_keys
        How many keys the table may hold.
    """

    def __init__(self, projection: Projection, most_keys: int) -> None:
        self._projection, self._most_keys = projection, most_keys
        self._counts: dict[TableKey, tuple[int, int]] = {}  # of units, by key
        self._start()

    def _start(self) -> None:
        self._table = SketchTable(self._projection)
        self._codes: dict[TableKey, int] = {}  # of keys whose events wait
        self._waiting: dict[bool, list[tuple[Ints, Ints, Ints]]] = {False: [], True: []}  # events, and cells
        self._events = 0

    @property
    def nbytes(self) -> int:
        """Memory in use, in bytes, without the keys themselves and spare rows of the table."""
        return 8 * self._projection.sketch_dim * len(self._table) + _EVENT_BYTES * self._events

    def add(
        self, distinct: Sequence[object], codes: Codes, indices: Ints, steps: Ints, *, in_cells: bool = False
    ) -> None:
        """Add events on the grid, or cells; parameters and errors as `SketchTable.add_steps` and `add_cells`."""
        add = _adding(self._table, in_cells=in_cells)
        if len(self._table) + len(distinct) <= self._most_keys:
            add(distinct, codes, indices, steps)  # which looks at the codes itself
            return
        held = np.array([key in self._table for key in distinct], dtype=bool)
        new = np.zeros(len(distinct), dtype=bool)
        new[codes] = True
        new &= ~held
        if len(self._table) + int(new.sum()) <= self._most_keys:
            add(distinct, codes, indices, steps)
            return
        places = np.full(len(distinct), -1, dtype=np.int64)
        for place in np.flatnonzero(new).tolist():
            places[place] = self._codes.setdefault(distinct[place], len(self._codes))
        waits = new[codes]
        if not waits.all():
            add(distinct, codes[~waits], indices[~waits], steps[~waits])
        self._waiting[in_cells].append((places[codes[waits]], indices[waits], steps[waits]))
        self._events += int(waits.sum())

    def count(self, distinct: Sequence[object], counts: Ints) -> None:
        """Add counts of units whose rows are also added; parameters as `SketchTable.add_counts`."""
        held = self._counts
        for key, units, total in zip(distinct, *counts.T.tolist(), strict=True):  # numbers of Python: slots are many
            if units:
                before = held.get(key, _NO_UNITS)
                held[key] = before[0] + units, before[1] + total

    def take(self) -> Iterator[tuple[Any, Sketch]]:
        """Yield each key's sketch and start anew."""
        table, keys, waiting = self._table, list(self._codes), self._waiting
        self._start()
        yield from self._counted(table)
        ordered = {in_cells: _by_key(parts) for in_cells, parts in waiting.items() if parts}
        for first in range(0, len(keys), self._most_keys):
            part = SketchTable(self._projection)
            for in_cells, (codes, indices, steps) in ordered.items():
                rows = slice(*np.searchsorted(codes, [first, first + self._most_keys]))
                add = _adding(part, in_cells=in_cells)
                add(keys[first : first + self._most_keys], codes[rows] - first, indices[rows], steps[rows])
            yield from self._counted(part)

    def _counted(self, table: SketchTable) -> Iterator[tuple[Any, Sketch]]:
        """Yield a table's sketches with the counts of their units; counts of other keys keep waiting."""
        if counts := {key: self._counts.pop(key) for key in table if key in self._counts}:
            numbers = [[number & _MOST for number in each] for each in counts.values()]  # modulo 2^64, as cells are
            table.add_counts(list(counts), np.array(numbers, dtype=np.uint64).view(np.int64))
        yield from table.items()


def _adding(table: SketchTable, *, in_cells: bool) -> Callable[..., None]:
    return table.add_cells if in_cells else table.add_steps


def _by_key(parts: list[tuple[Ints, Ints, Ints]]) -> list[Ints]:
    """Return codes, indices and steps of all parts in the order of the codes, and clear the list of parts."""
    codes, indices, steps = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    parts.clear()
    order = np.argsort(codes, kind="stable")
    return [codes[order], indices[order], steps[order]]


def encode_partial(sketch: Sketch) -> bytes:
    """Return a sketch as bytes that depend only on its projection, stream and counts of units; no fixed layout.

    Each cell takes as few bytes as the largest one needs. If most cells are 0, only the others are stored, with their
    places. Counts of units, if any, are at the end. Whether they are complete and which bounds hold is known elsewhere.

    Raises
    ------
    InvalidInputError
        If the sketch was bounded before it entered the job, since the bytes do not hold the bounds.
    """
    if sketch.bounds.neighbours is not None:
        raise InvalidInputError(
            f"this sketch was bounded to {sketch.bounds.neighbours}, but the workers of a job do not keep these "
            "bounds; release it where it was bounded, or let the job bound its rows"
        )
    agreement = sketch.projection.to_json().encode()
    if not sketch.mass:  # an empty sketch, as of a public key without data
        place_width = _width(sketch.projection.sketch_dim - 1, signed=False)
        return _HEADER.pack(len(agreement), 1, place_width, 0, _NO_MASS) + agreement
    sums = sketch.sums()
    (state,) = sums.cells
    # ufuncs and not methods: where most sketches hold few events, these lines are most of a job
    width = _width(max(int(np.maximum.reduce(state)), -int(np.minimum.reduce(state)) - 1), signed=True)
    place_width = _width(state.size - 1, signed=False)
    if int(np.count_nonzero(state)) * (width + place_width) >= state.size * width:
        place_width = 0
        body = state.astype(f"<i{width}").tobytes()
    else:
        (places,) = state.nonzero()
        body = state[places].astype(f"<i{width}").tobytes() + places.astype(f"<u{place_width}").tobytes()
    behind = sums.counts.astype("<i8").tobytes() if sums.counts.any() else b""
    header = _HEADER.pack(len(agreement), width, place_width, len(behind), sketch.mass.to_bytes(16, "little"))
    return b"".join([header, agreement, body, behind])


def decode_partial(encoded: bytes) -> Sketch:
    """Return the sketch of which `encode_partial` made these bytes.

    Raises
    ------
    WireFormatError
        If the bytes are not those of a sketch.
    """
    if len(encoded) < _HEADER.size:
        raise WireFormatError("length", f"{len(encoded)} bytes, a raw sketch has {_HEADER.size} or more")
    length, width, place_width, behind, mass = _HEADER.unpack_from(encoded)
    start, stop = _HEADER.size + length, len(encoded) - behind
    widths = width in _WIDTHS and place_width in (0, *_WIDTHS[:-1]) and behind in (0, _COUNT_BYTES)
    if start > stop or not widths:
        raise WireFormatError("header", "does not fit the bytes that follow")
    count, rest = divmod(stop - start, width + place_width)
    projection = _projection(bytes(encoded[_HEADER.size : start]))
    if rest or count > projection.sketch_dim or (not place_width and count < projection.sketch_dim):
        raise WireFormatError("cells", f"{stop - start} bytes, of a sketch of {projection.sketch_dim} cells")
    if not count and mass == _NO_MASS:
        return Sketch(projection)
    cells = np.frombuffer(encoded, dtype=f"<i{width}", offset=start, count=count)
    if place_width:
        places = np.frombuffer(encoded, dtype=f"<u{place_width}", offset=start + count * width, count=count)
        if count and not (int(places[-1]) < projection.sketch_dim and (places[1:] > places[:-1]).all()):
            raise WireFormatError("places", f"do not ascend within a sketch of {projection.sketch_dim} cells")
        state = np.zeros(projection.sketch_dim, dtype=np.int64)
        state[places] = cells
    else:
        state = cells.astype(np.int64)
    try:
        counts = np.frombuffer(encoded, dtype="<i8", offset=stop).astype(np.int64) if behind else None
        return Sketch.from_state(projection, ExactSums.of(state, counts), int.from_bytes(mass, "little"))
    except (InvalidInputError, SketchOverflowError):
        # never their values
        raise WireFormatError("cells", "do not belong together with the mass and the projection") from None


def _width(largest: int, *, signed: bool) -> int:
    bits = largest.bit_length() + signed
    return 1 if bits <= 8 else 2 if bits <= 16 else 4 if bits <= 32 else 8


@functools.lru_cache(maxsize=64)
def _projection(agreement: bytes) -> Projection:
    try:
        projection = Projection.from_json(agreement)
        check_entries(projection, "largest entry", raw=True)
    except InvalidInputError as error:
        raise WireFormatError("projection", str(error)) from None
    return projection
