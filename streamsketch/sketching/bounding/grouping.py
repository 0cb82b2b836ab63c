"""Events grouped by unit in bounded memory: in files without names, which are gone when the process is.

A unit's digest says which of 64 files its events go to, and files that are still too large are split again. So every
unit is whole in one group, and what is in memory does not grow with the number of events.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import IO, Self, TypeAlias

import numpy as np

from streamsketch.core import Ints
from streamsketch.sketching.bounding.contributions import Contributions, Slot

ROWS = 1 << 20
"""How many events are in memory at a time."""

_SPLIT_BITS, _MOST_LEVELS = 6, 4
_COLUMNS = 5  # two words of the unit, code, index, steps
_ROW_BYTES = 8 * _COLUMNS

File: TypeAlias = IO[bytes]


class GroupedEvents:
    """Events added in any order and read group by group; a context that closes, and so deletes, its files.

    Parameters
    ----------
    folder
        Where to put files; by default where the system keeps temporary ones. Only their owner can read them (mode
        0600), and they have no names, so that nothing is left behind even if the process is killed.
    rows
        How many events may be in memory. Fewer than that never reach a file. A unit with more different pairs of key
        and index takes more.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, rows: int = ROWS) -> None:
        self._folder, self._rows = folder, rows
        self._slots: dict[Slot, int] = {}
        self._waiting: list[Ints] = []
        self._files: list[File] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting = []
        self._stack.close()

    def add(self, events: Contributions) -> None:
        """Add events."""
        places = np.array([self._slots.setdefault(slot, len(self._slots)) for slot in events.slots], dtype=np.int64)
        table = np.empty((len(events), _COLUMNS), dtype=np.int64)
        table[:, :2] = events.units.view(np.int64)
        table[:, 2] = places[events.codes]
        table[:, 3], table[:, 4] = events.indices, events.steps
        self._waiting.append(table)
        if sum(map(len, self._waiting)) > self._rows:
            self._write()

    def groups(self) -> Iterator[Contributions]:
        """Yield the events of all units, those of one unit in one group; call it once."""
        slots = list(self._slots)
        if not self._files:
            yield self._contributions(_joined(self._waiting), slots)
            return
        self._write()
        for file in self._files:
            yield from self._groups_in(file, 1, slots)

    def _write(self) -> None:
        if not self._files:
            self._files = _new_files(self._stack, self._folder)
        _split(_joined(self._waiting), self._files, 0)
        self._waiting = []

    def _groups_in(self, file: File, level: int, slots: list[Slot]) -> Iterator[Contributions]:
        """Yield the events in a file, which is closed afterwards; one that is too large is split first."""
        with file:
            if file.tell() <= self._rows * _ROW_BYTES:
                found = _joined(list(_parts(file, self._rows)))
            elif level == _MOST_LEVELS:  # it is one unit, or few: only sums are needed of it
                found = np.empty((0, _COLUMNS), dtype=np.int64)
                for part in _parts(file, self._rows):
                    found = _sums(_joined([found, part]))
            else:
                with contextlib.ExitStack() as stack:
                    files = _new_files(stack, self._folder)
                    for part in _parts(file, self._rows):
                        _split(part, files, level)
                    file.truncate(0)
                    for one in files:
                        yield from self._groups_in(one, level + 1, slots)
                return
        yield self._contributions(found, slots)

    @staticmethod
    def _contributions(table: Ints, slots: list[Slot]) -> Contributions:
        units, codes, indices, steps = table[:, :2], *(np.ascontiguousarray(table[:, at]) for at in (2, 3, 4))
        return Contributions(np.ascontiguousarray(units).view(np.uint64), slots, codes, indices, steps).compact()


def _new_files(stack: contextlib.ExitStack, folder: str | os.PathLike[str] | None) -> list[File]:
    return [stack.enter_context(tempfile.TemporaryFile(dir=folder)) for _ in range(1 << _SPLIT_BITS)]


def _split(table: Ints, files: list[File], level: int) -> None:
    """Append each row to the file that six bits of its unit's digest name."""
    names = (table[:, 0] >> (_SPLIT_BITS * level)) & (len(files) - 1)
    order = np.argsort(names, kind="stable")
    stops = np.searchsorted(names[order], np.arange(len(files)), side="right")
    for file, rows in zip(files, np.split(order, stops[:-1]), strict=True):
        file.write(table[rows].tobytes())


def _parts(file: File, rows: int) -> Iterator[Ints]:
    """Yield what a file holds, so many rows at a time."""
    file.seek(0)
    while data := file.read(rows * _ROW_BYTES):
        yield np.frombuffer(data, dtype=np.int64).reshape(-1, _COLUMNS)


def _joined(tables: list[Ints]) -> Ints:
    return np.concatenate([np.empty((0, _COLUMNS), dtype=np.int64), *tables])


def _sums(table: Ints) -> Ints:
    """Return one row for each unit, code and index, with the sum of its steps modulo 2^64."""
    table = table[np.lexsort(table[:, :-1].T)]
    new = np.ones(len(table), dtype=bool)
    new[1:] = (table[1:, :-1] != table[:-1, :-1]).any(axis=1)
    starts = np.flatnonzero(new)
    sums = table[starts]
    sums[:, -1] = np.add.reduceat(table[:, -1], starts)
    return sums
