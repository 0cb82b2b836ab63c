"""Group events by unit in bounded memory, in temporary files without names, which vanish with the process.

A unit's digest determines which of 64 files its events go to, and files that are still too large are split again. So
all events of a unit are in one group, and memory does not grow with the number of events.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import IO, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.numbers import Ints
from streamsketch.sketching.bounding.contributions import Contributions, TimedSlot, without_times

ROWS = 1 << 20
"""How many events are in memory at a time."""

SPLIT_BITS = 6
_MOST_LEVELS = 4
_HEAD_BYTES, _EVENT_BYTES = 24, 40  # two words of the unit and the code; with index and steps
_HEAD_WORDS = _HEAD_BYTES // 2
_LARGEST = 1 << 15  # of features, a rest of a whole row, wraps around in int16; the least is 1 - 2^15

File: TypeAlias = IO[bytes]
Table: TypeAlias = NDArray[Any]
"""Rows of int64: two words of the unit, code, index and steps; or of int16, with features behind the code."""


class GroupedEvents:
    """Events added in any order and read group by group; a context that closes, and so deletes, its files.

    Parameters
    ----------
    folder
        Where to put files; by default where the system keeps temporary ones. Only their owner can read them (mode
        0600), and they have no names, so that nothing is left behind even if the process is killed.
    rows
        How many events may be in memory, or features that take as much. Fewer than that never reach a file. A unit with
        more different pairs of key and index takes more.
    split_bits
        How many bits of a unit's digest name the file of its events, where they are in files.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, rows: int = ROWS, split_bits: int = SPLIT_BITS
    ) -> None:
        self._folder, self._rows, self._split_bits = folder, rows, split_bits
        self._features = 0  # of a row
        self._slots: dict[TimedSlot, int] = {}
        self._waiting: list[Table] = []
        self._files: list[File] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting = []
        self._stack.close()

    def add(self, events: Contributions) -> None:
        """Add events; either all that are added are of features, as many each, or none are."""
        if not len(events):
            return
        places = np.array(
            [self._slots.setdefault(slot, len(self._slots)) for slot in events.timed_slots], dtype=np.int64
        )
        columns: list[Any] = [events.units.view(np.int64), places[events.codes]]
        if events.features is None:
            table = np.column_stack([*columns, events.indices, events.steps])
        else:
            self._features = events.features.shape[1]
            table = np.empty((len(events), self._row_bytes // 2), dtype=np.int16)
            table[:, :_HEAD_WORDS] = np.column_stack(columns).view(np.int16)
            table[:, _HEAD_WORDS:] = events.features
        self._waiting.append(table)
        if sum(map(len, self._waiting)) > self._most:
            self._write()

    def groups(self) -> Iterator[Contributions]:
        """Yield the events of all units, those of one unit in one group; call it once."""
        slots = list(self._slots)  # with times
        if not self._files:
            yield _contributions(_joined(self._waiting), slots)
            return
        self._write()
        for file in self._files:
            yield from self._groups_in(file, 1, slots)

    @property
    def _row_bytes(self) -> int:
        return _HEAD_BYTES + 2 * self._features if self._features else _EVENT_BYTES

    @property
    def _most(self) -> int:
        """How many rows may be in memory."""
        return max(1, self._rows * _EVENT_BYTES // self._row_bytes)

    def _write(self) -> None:
        if not self._files:
            self._files = self._new_files(self._stack)
        for table in self._waiting:
            _split(table, self._files, 0)
        self._waiting = []

    def _groups_in(self, file: File, level: int, slots: list[TimedSlot]) -> Iterator[Contributions]:
        """Yield the events in a file, which is closed afterwards; one that is too large is split first."""
        with file:
            if file.tell() <= self._most * self._row_bytes:
                events = _joined(list(self._parts(file, self._most)))
            elif level == _MOST_LEVELS:  # it is one unit, or few: only sums are needed of it
                events = _joined([])
                for part in self._parts(file, max(1, self._rows // max(1, self._features))):
                    events = _sums(_joined([events, _of_events(part)]))
            else:
                with contextlib.ExitStack() as stack:
                    files = self._new_files(stack)
                    for part in self._parts(file, self._most):
                        _split(part, files, level)
                    file.truncate(0)
                    for child in files:
                        yield from self._groups_in(child, level + 1, slots)
                return
        yield _contributions(events, slots)

    def _new_files(self, stack: contextlib.ExitStack) -> list[File]:
        return [stack.enter_context(tempfile.TemporaryFile(dir=self._folder)) for _ in range(1 << self._split_bits)]

    def _parts(self, file: File, rows: int) -> Iterator[Table]:
        """Yield what a file holds, so many rows at a time."""
        file.seek(0)
        while data := file.read(rows * self._row_bytes):
            words = np.frombuffer(data, dtype=np.int16 if self._features else np.int64)
            yield words.reshape(-1, self._row_bytes // words.itemsize)


def _split(table: Table, files: list[File], level: int) -> None:
    """Append each row to the file, of a power of two, that some bits of its unit's digest name."""
    bits = (len(files) - 1).bit_length()
    names = ((table[:, 0] >> (bits * level)) & (len(files) - 1)).astype(np.uint8)
    order = np.argsort(names, kind="stable")
    stops = np.searchsorted(names[order], np.arange(len(files)), side="right")
    for file, rows in zip(files, np.split(order, stops[:-1]), strict=True):
        file.write(table.take(rows, axis=0).data)  # many times as fast as table[rows]


def _joined(tables: list[Table]) -> Table:
    if len(tables) == 1:
        return tables[0]
    return np.concatenate(tables or [np.empty((0, _EVENT_BYTES // 8), dtype=np.int64)])


def _contributions(table: Table, timed: list[TimedSlot]) -> Contributions:
    slots, times = without_times(timed)
    head = table if table.dtype == np.int64 else np.ascontiguousarray(table[:, :_HEAD_WORDS]).view(np.int64)
    units, codes = np.ascontiguousarray(head[:, :2]).view(np.uint64), np.ascontiguousarray(head[:, 2])
    if table.dtype == np.int64:
        indices, steps = np.ascontiguousarray(table[:, 3]), np.ascontiguousarray(table[:, 4])
        return Contributions(units, slots, codes, indices, steps, times=times).compact()
    none, features = np.empty(0, dtype=np.int64), np.ascontiguousarray(table[:, _HEAD_WORDS:])
    if features.min(initial=0) == -_LARGEST:
        features = np.where(features == -_LARGEST, np.int32(_LARGEST), features)
    return Contributions(units, slots, codes, none, none, features, times).compact()


def _of_events(table: Table) -> Table:
    """Return a row for each event where there is one for the features of several."""
    if table.dtype == np.int64:
        return table
    events = _contributions(table, []).one_by_one()
    return np.column_stack([events.units.view(np.int64), events.codes, events.indices, events.steps])


def _sums(table: Ints) -> Ints:
    """Return one row for each unit, code and index, with the sum of its steps modulo 2^64."""
    table = table.take(np.lexsort(table[:, :-1].T), axis=0)
    new = np.ones(len(table), dtype=bool)
    new[1:] = (table[1:, :-1] != table[:-1, :-1]).any(axis=1)
    starts = np.flatnonzero(new)
    sums = table[starts]
    sums[:, -1] = np.add.reduceat(table[:, -1], starts)
    return sums
