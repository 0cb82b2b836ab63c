"""Clipping in sketch space: what units add to cells, netted, and brought to an l2 bound over all slots of a unit."""

import dataclasses
import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from streamsketch.core.numbers import Ints
from streamsketch.projections.base import Projection
from streamsketch.sketching.bounding.cell_kernels import (
    SHIFTS,
    add_squares,
    average_rows,
    average_sums,
    clip_cells,
    entries_to_cells,
    norm_of,
    not_zero,
    ratio_of,
    rows_to_cells,
    scale_cells,
    sum_features,
    with_codes,
)
from streamsketch.sketching.bounding.clip import Bounded, Draws, Sums, summed
from streamsketch.sketching.bounding.contributions import Contributions, FeatureRows
from streamsketch.sketching.bounding.one_time import of_one_time
from streamsketch.sketching.bounding.runs import Runs

_PART = 1 << 17  # cells that are clipped at a time: arrays of this size are used again by the allocator
_CELLS_A_SLOT = 8  # or more, as adding a part takes a while for each slot
_LARGE = 1 << 20  # cells of one unit that are kept in memory
_PIECE = 1 << 15  # of them, those that are found at a time: they stay in the L2 cache


def bounded_cells(
    events: Contributions | Runs,
    *,
    projection: Projection,
    max_keys: int,
    limit: int,
    secret: bytes,
    equal: bool,
    averaged: bool = False,
    first: bool = False,
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
    averaged
        Whether these are features of rows with a 1 behind them, or their events. A unit's sums in each slot are then
        divided by the number of its rows there first, to the nearest integer, halves away from zero.
    first
        Of events with times, whether a unit keeps the rows of its first time in each slot, not those of the latest.

    Yields
    ------
    Bounded
        In cells, some 2^17 or more where there are many slots; those of a unit with more than 2^20 may be in several
        parts. Its tally has norms. Of features, all cells of each pair of a unit and a slot, in rows.
    """
    events = of_one_time(events, first=first)
    slots = events.slots
    summands = events if events.features is None else events.of_rows()
    sums = summed(summands, max_keys, Draws(slots, secret), totals=False)
    if not sums.unit_ends.size:
        return
    finder: _Finder
    if events.features is not None:
        finder = _FeatureFinder(sums, events.features, averaged=averaged)
    else:
        finder = _AverageFinder(sums, projection.sketch_dim) if averaged else _CellFinder(sums, projection)
    tally = sums.tally
    unit_starts = np.append(0, sums.unit_ends[:-1])
    sizes, most = np.add.reduceat(finder.most, unit_starts), max(_PART, _CELLS_A_SLOT * len(slots))
    for start, stop in _spans(sizes, most):
        pairs, stops = slice(unit_starts[start], sums.unit_ends[stop - 1]), sums.unit_ends[start:stop]
        if sizes[start] > max(most, _LARGE):
            parts = _in_turn(finder, pairs, most, limit, equal=equal)
        else:
            parts = _at_once(finder, pairs, stops, limit, equal=equal)
        for part in parts:
            pair_codes = sums.pair_codes[part.pairs]
            if events.features is None:
                codes, left = with_codes(pair_codes, part.ends, part.cells, part.steps)
                columns = codes[:left], part.cells[:left], part.steps[:left]
                held = pair_codes[np.diff(part.ends, prepend=0) > 0]
            else:
                rows = part.steps.reshape(part.ends.size, -1)
                kept = not_zero(rows)
                held, rows = (pair_codes, rows) if kept.all() else (pair_codes[kept], rows[kept])
                columns = held, part.cells, rows
            units_of, units_left = (np.bincount(owners, minlength=len(slots)) for owners in (pair_codes, held))
            norms = tally.normed(*part.norms)
            yield Bounded(slots, *columns, units_of, norms, in_cells=True, units_left=units_left)
            tally = dataclasses.replace(tally, units=0, units_over_keys=0)


class _Part(NamedTuple):
    """Clipped cells of pairs of a unit and a slot, where those of each pair end, and what `clip_cells` returned."""

    pairs: slice
    cells: Ints
    steps: Ints
    ends: Ints
    norms: tuple[int, int, float, float, float]


def _at_once(finder: "_Finder", pairs: slice, stops: Ints, limit: int, *, equal: bool) -> Iterator[_Part]:
    """Yield the cells of whole units, whose pairs end at ``stops``."""
    cells, steps, ends = finder.cells_of(pairs)
    norms = clip_cells(steps, ends[stops - 1 - pairs.start], limit, equal)
    yield _Part(pairs, cells, steps, ends, norms)


def _in_turn(finder: "_Finder", pairs: slice, most: int, limit: int, *, equal: bool) -> Iterator[_Part]:
    """Yield the cells of one unit that has too many for memory: all are found, and measured, before any is clipped."""
    pieces = [slice(pairs.start + first, pairs.start + last) for first, last in _spans(finder.most[pairs], most)]
    squares = np.zeros(SHIFTS, dtype=np.uint64)
    for piece in pieces:
        add_squares(finder.cells_of(piece)[1], squares)
    norm, above, below = norm_of(squares), squares[0] > limit**2, 0 < squares[0] < limit**2
    shift, ratio = ratio_of(squares, limit)
    kept = 0
    for piece in pieces:
        cells, steps, ends = finder.cells_of(piece)
        if above or equal:
            kept += int(scale_cells(steps, shift, np.uint64(ratio)))
        norms = 0, 0, 0.0, 0.0, 0.0
        if piece.stop == pairs.stop:
            norms = int(above), int(equal and below), norm, math.sqrt(kept) if above or equal else norm, norm
        yield _Part(piece, cells, steps, ends, norms)


class _Finder(Protocol):
    """Finds the cells of pairs of a unit and a slot."""

    most: Ints

    def cells_of(self, pairs: slice) -> tuple[Ints, Ints, Ints]: ...


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
        self._scratch, self._met = np.zeros(width, dtype=np.int64), np.empty(_PIECE + 1, dtype=np.int64)

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
        if (entries := self._projection.sparse_entries(indices) if fits else None) is not None:
            rows = starts - start, stops - start, *entries, values
            return entries_to_cells(*rows, self._scratch, self._met, cells, steps, at, ends)
        table = np.zeros((starts.size, self._projection.sketch_dim), dtype=np.int64)
        self._projection.add_to_rows(table, np.repeat(np.arange(starts.size), stops - starts), indices, values)
        return rows_to_cells(table, cells, steps, at, ends)


class _FeatureFinder:
    """Finds the cells of pairs of a unit and a slot as sums of the features of their rows: all cells, also zeros."""

    def __init__(self, sums: Sums, features: FeatureRows, *, averaged: bool) -> None:
        self._rows, self._starts, self._ends = sums.indices, np.append(0, sums.pair_ends[:-1]), sums.pair_ends
        self._features, self._averaged = features, averaged
        self.most = np.full(self._ends.size, features.shape[1] - averaged)

    def cells_of(self, pairs: slice) -> tuple[Ints, Ints, Ints]:
        """Return no cells, as all are there in their order; what is in them, and where those of each pair end."""
        table = np.empty((pairs.stop - pairs.start, self._features.shape[1]), dtype=np.int64)
        sum_features(self._features, self._rows, self._starts[pairs], self._ends[pairs], table)
        if self._averaged:
            sums, table = table, np.empty((len(table), table.shape[1] - 1), dtype=np.int64)
            average_rows(sums, table)
        return np.empty(0, dtype=np.int64), table.reshape(-1), np.arange(1, len(table) + 1) * table.shape[1]


class _AverageFinder:
    """Finds the cells of pairs of a unit and a slot as averages, of sums of features and of numbers of rows."""

    def __init__(self, sums: Sums, width: int) -> None:
        self._sums, self._starts, self._width = sums, np.append(0, sums.pair_ends[:-1]), width
        self.most = sums.pair_ends - self._starts

    def cells_of(self, pairs: slice) -> tuple[Ints, Ints, Ints]:
        """Return the cells of pairs that are not zero, what is in them, and where those of each pair end."""
        sums, starts, stops = self._sums, self._starts[pairs], self._sums.pair_ends[pairs]
        room = int(self.most[pairs].sum()) + 1  # the kernel writes one further before it decides
        cells, steps, ends = (np.empty(size, dtype=np.int64) for size in (room, room, stops.size))
        at = average_sums(starts, stops, sums.indices, sums.steps, self._width, cells, steps, ends)
        return cells[:at], steps[:at], ends


def _spans(sizes: Ints, most: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive ranges whose sizes sum to at most ``most``; one that is larger is alone."""
    ends, start = np.cumsum(sizes), 0
    while start < sizes.size:
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield start, stop
        start = stop
