"""Clipping in sketch space: what units add to cells, netted, and brought to an l2 bound over all slots of a unit."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from streamsketch.core import Ints
from streamsketch.projections import Projection
from streamsketch.sketching.bounding.cell_kernels import clip_cells, entries_to_cells, rows_to_cells
from streamsketch.sketching.bounding.clip import Bounded, Draws, Sums, summed
from streamsketch.sketching.bounding.contributions import Contributions
from streamsketch.sketching.bounding.runs import Runs

_PART = 1 << 17  # cells that are clipped at a time: arrays of this size are used again by the allocator
_CELLS_A_SLOT = 8  # or more, as adding a part takes a while for each slot
_PIECE = 1 << 15  # of them, those that are found at a time: they stay in the L2 cache


def bounded_cells(
    events: Contributions | Runs, *, projection: Projection, max_keys: int, limit: int, secret: bytes, equal: bool
) -> Iterator[Bounded]:
    """Yield what is left of each unit in cells: Σ cells² ≤ limit² over all its slots, whatever its rows hold.

    A unit's events are summed, and its slots chosen, as by `bounded`. Then they become cells, sums modulo 2^64, which
    `clip_cells` scales together. That depends on the unit alone, not on other units or the order of events.

    Parameters
    ----------
    events, max_keys, secret
        As in `bounded`.
    projection
        The map that makes cells.
    limit
        The bound in grid steps of a cell, 0 < limit < 2^31.
    equal
        Whether units below the bound are lengthened to it.

    Yields
    ------
    Bounded
        In cells: those of units in turn, some 2^17 cells or those of one unit. Its tally has norms.
    """
    slots = events.slots
    sums = summed(events, max_keys, Draws(slots, secret), totals=False)
    if not sums.unit_ends.size:
        return
    finder, tally = _CellFinder(sums, projection), sums.tally
    unit_starts = np.append(0, sums.unit_ends[:-1])
    most = max(_PART, _CELLS_A_SLOT * len(slots))
    for start, stop in _spans(np.add.reduceat(finder.most, unit_starts), most):
        pairs = slice(unit_starts[start], sums.unit_ends[stop - 1])
        cells, steps, ends = finder.cells_of(pairs)
        found = clip_cells(steps, ends[sums.unit_ends[start:stop] - 1 - pairs.start], limit, equal)
        codes = np.repeat(sums.pair_codes[pairs], np.diff(ends, prepend=0))
        left = np.flatnonzero(steps)
        if left.size < steps.size:
            codes, cells, steps = codes[left], cells[left], steps[left]
        units_of = np.bincount(sums.pair_codes[pairs], minlength=len(slots))
        yield Bounded(slots, codes, cells, steps, units_of, tally.normed(*found), in_cells=True)
        tally = dataclasses.replace(tally, units=0, units_over_keys=0)


class _CellFinder:
    """Finds the cells of pairs of a unit and a slot, in a scratch as wide as a sketch."""

    def __init__(self, sums: Sums, projection: Projection) -> None:
        self._sums, self._projection = sums, projection
        self._starts = np.append(0, sums.pair_ends[:-1])
        rows, width = sums.pair_ends - self._starts, projection.sketch_dim
        few = projection.sparse_entries(np.empty(0, dtype=np.int64))
        entries = rows * (width if few is None else few[0].shape[1])
        self.most = np.minimum(entries, width)
        """How many cells of each pair are not zero, at most."""
        self._work = np.full(rows.size, width) if few is None else entries
        self._scratch = np.zeros(width, dtype=np.int64)
        self._owners = np.full(width, -1, dtype=np.int64)

    def cells_of(self, pairs: slice) -> tuple[Ints, Ints, Ints]:
        """Return the cells of pairs that are not zero, what is in them, and where those of each pair end."""
        room = int(self.most[pairs].sum()) + 1  # each kernel writes one further before it decides
        cells, steps = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
        ends, at = np.empty(pairs.stop - pairs.start, dtype=np.int64), 0
        for first, last in _spans(self._work[pairs], _PIECE):
            piece = slice(pairs.start + first, pairs.start + last)
            at = self._write(piece, cells, steps, at, ends[first:last])
        return cells[:at], steps[:at], ends

    def _write(self, pairs: slice, cells: Ints, steps: Ints, at: int, ends: Ints) -> int:
        sums = self._sums
        starts, stops = self._starts[pairs], sums.pair_ends[pairs]
        start, stop = int(starts[0]), int(stops[-1])
        indices, values = sums.indices[start:stop], sums.steps[start:stop]
        fits = self._work[pairs.start] <= _PIECE  # if not, it is one pair of many rows
        if (found := self._projection.sparse_entries(indices) if fits else None) is not None:
            scratch = self._scratch, self._owners
            return entries_to_cells(
                starts - start, stops - start, *found, values, *scratch, pairs.start, cells, steps, at, ends
            )
        table = np.zeros((starts.size, self._projection.sketch_dim), dtype=np.int64)
        self._projection.add_to_rows(table, np.repeat(np.arange(starts.size), stops - starts), indices, values)
        return rows_to_cells(table, cells, steps, at, ends)


def _spans(sizes: Ints, most: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive ranges whose sizes sum to at most ``most``; one that is larger is alone."""
    ends, start = np.cumsum(sizes), 0
    while start < sizes.size:
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield start, stop
        start = stop
