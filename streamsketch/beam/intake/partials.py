"""Partial sketches of many keys, in bounded memory however many keys there are."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.projections import Projection
from streamsketch.sketching import Sketch, SketchTable

_EVENT_BYTES = 24


class PartialSketches:
    """Sketches of a bundle's keys: as one table while they are few, beyond that from events sorted by key.

    A table of all keys would take 8·k bytes a key at once, or be flushed again and again with hardly an event in each
    sketch. So keys that have no more room in the table have their events wait, 24 bytes each.

    Parameters
    ----------
    projection
        The public map.
    most_keys
        How many keys the table may hold.
    """

    def __init__(self, projection: Projection, most_keys: int) -> None:
        self._projection, self._most_keys = projection, most_keys
        self._start()

    def _start(self) -> None:
        self._table = SketchTable(self._projection)
        self._codes: dict[Any, int] = {}  # of keys whose events wait
        self._waiting: list[tuple[Ints, Ints, Ints]] = []
        self._events = 0

    @property
    def nbytes(self) -> int:
        """Memory in use, in bytes, but for the keys' own and spare rows of the table."""
        return 8 * self._projection.sketch_dim * len(self._table) + _EVENT_BYTES * self._events

    def add(self, distinct: Sequence[Any], codes: NDArray[Any], indices: Ints, steps: Ints) -> None:
        """Add events on the grid; parameters and errors as `SketchTable.add_steps`."""
        if len(self._table) + len(distinct) <= self._most_keys:
            self._table.add_steps(distinct, codes, indices, steps)  # which looks at the codes itself
            return
        held = np.array([key in self._table for key in distinct], dtype=bool)
        new = np.zeros(len(distinct), dtype=bool)
        new[codes] = True
        new &= ~held
        if len(self._table) + int(new.sum()) <= self._most_keys:
            self._table.add_steps(distinct, codes, indices, steps)
            return
        places = np.full(len(distinct), -1, dtype=np.int64)
        for place in np.flatnonzero(new).tolist():
            places[place] = self._codes.setdefault(distinct[place], len(self._codes))
        waits = new[codes]
        if not waits.all():
            self._table.add_steps(distinct, codes[~waits], indices[~waits], steps[~waits])
        self._waiting.append((places[codes[waits]], indices[waits], steps[waits]))
        self._events += int(waits.sum())

    def take(self) -> Iterator[tuple[Any, Sketch]]:
        """Yield each key's sketch and start anew."""
        table, keys, waiting = self._table, list(self._codes), self._waiting
        self._start()
        yield from _sketches(table)
        if not waiting:
            return
        codes, indices, steps = (np.concatenate(parts) for parts in zip(*waiting, strict=True))
        waiting.clear()
        order = np.argsort(codes, kind="stable")
        codes, indices, steps = codes[order], indices[order], steps[order]
        for first in range(0, len(keys), self._most_keys):
            rows = slice(*np.searchsorted(codes, [first, first + self._most_keys]))
            part = SketchTable(self._projection)
            part.add_steps(keys[first : first + self._most_keys], codes[rows] - first, indices[rows], steps[rows])
            yield from _sketches(part)


def _sketches(table: SketchTable) -> Iterator[tuple[Any, Sketch]]:
    for key in table:
        if not isinstance(key, str | bytes | int):  # Beam has no deterministic bytes for others
            raise InvalidInputError(f"keys must be text, bytes or integers, got a {type(key).__name__}; cast them")
        yield key, table[key]
