"""The sums that a schedule holds from window to window, and what readers make of its rows."""

from typing import Self

import numpy as np

from streamsketch.core.numbers import Ints, Numbers
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.schedules import add_blocks, solve_prefixes
from streamsketch.privacy.schedule import Schedule


class Progress:
    """The exact sums of blocks of windows that rows still need: **secret**.

    Parameters
    ----------
    schedule
        Which sums are published.
    width
        How many numbers a window has: its cells, and counts beside them.

    Examples
    --------
    >>> from streamsketch.schedules.tree import Tree
    >>> progress = Progress(Tree(horizon=4, depth=2), width=2)
    >>> [progress.step(np.array([window, 1])).tolist() for window in range(4)]
    [[0, 1], [1, 1], [3, 3], [3, 1]]
    """

    def __init__(self, schedule: Schedule, width: int) -> None:
        self.schedule = schedule
        self.window = 0
        """How many windows were added."""
        self._sums = np.zeros((1, width), dtype=np.int64)
        self._places: list[int] = []  # of the blocks that are held, oldest first, in _sums
        self._free = [0]

    @classmethod
    def restored(cls, schedule: Schedule, window: int, held: Ints) -> Self:
        """Return what `held` was taken of after so many windows.

        Raises
        ------
        InvalidInputError
            If it holds another number of blocks than the schedule then does.
        """
        progress = cls(schedule, held.shape[1])
        blocks = len(progress._starts_before(window)) if 0 <= window <= schedule.horizon else -1
        if held.dtype != np.int64 or held.shape[0] != blocks:
            raise InvalidInputError(f"{schedule} holds {blocks} sums after {window} windows, got {held.shape[0]}")
        progress.window, progress._places, progress._free = window, list(range(blocks)), [blocks]
        progress._sums = np.concatenate([held, np.zeros((1, held.shape[1]), dtype=np.int64)])
        return progress

    @property
    def held(self) -> Ints:
        """The sums, oldest block first: int64, (blocks, width). With `window`, all that a restart needs."""
        held: Ints = self._sums[self._places]
        return held

    def step(self, window: Ints) -> Ints:
        """Add the next window, and return its exact row: int64, (width,), modulo 2^64.

        Parameters
        ----------
        window
            Its exact numbers: int64, (width,).

        Raises
        ------
        InvalidInputError
            As in `row`. Nothing has changed then.
        """
        row = self.row(window)
        self.hold(window)
        return row

    def row(self, window: Ints) -> Ints:
        """Return the exact row that `step` would return, and change nothing.

        Raises
        ------
        InvalidInputError
            If all windows of the horizon were added, or this one has another width.
        """
        if self.window >= self.schedule.horizon:
            raise InvalidInputError(
                f"all {self.schedule.horizon} windows of the schedule have been added, and its noise is for no more; "
                "begin another schedule, which is charged separately"
            )
        if window.dtype != np.int64 or window.shape != self._sums.shape[1:]:
            raise InvalidInputError(
                f"a window must have {self._sums.shape[1]} int64 numbers, got {window.dtype} of shape {window.shape}"
            )
        _, factors = self.schedule.row_blocks.of_row(self.window)
        row: Ints = np.multiply(window, factors[-1])
        places = np.array([*self._places, 0])[:-1]
        add_blocks(self._sums, places, factors, row)
        return row

    def hold(self, window: Ints) -> None:
        """Add the next window, whose `row` was read, and add up the blocks that the next row takes together."""
        starts, _ = self.schedule.row_blocks.of_row(self.window)
        if not self._free:
            self._free = list(range(self._sums.shape[0], 2 * self._sums.shape[0]))
            self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])
        place = self._free.pop()
        self._sums[place] = window
        self.window += 1
        wanted = set(self._starts_before(self.window).tolist())
        kept: list[int] = []
        for start, held in zip(starts.tolist(), [*self._places, place], strict=True):
            if start in wanted:
                kept.append(held)
                continue
            if kept:
                self._sums[kept[-1]] += self._sums[held]
            self._free.append(held)
        self._places = kept

    def _starts_before(self, window: int) -> Ints:
        """Return where the blocks begin that are held after so many windows."""
        if window >= self.schedule.horizon:
            return np.zeros(0, dtype=np.int64)
        starts, _ = self.schedule.row_blocks.of_row(window)
        return starts[:-1]


def decoded(schedule: Schedule, rows: Ints) -> Numbers:
    """Return the sums of the first 0, 1, … windows that rows hold, with their noise.

    Parameters
    ----------
    schedule
        Of the rows.
    rows
        int64, (t, n), of windows 0 to t - 1.

    Returns
    -------
    ndarray
        (t + 1, n), of which differences are ranges: exact int64, modulo 2^64, for a `Schedule.scale` of 1, else
        float64, off by few units in the last place of the largest row, far below its noise.
    """
    exact = schedule.scale == 1
    numbers = rows if exact else rows.astype(np.float64)
    out = np.zeros((rows.shape[0] + 1, rows.shape[1]), dtype=numbers.dtype)
    inverse = numbers.dtype.type(1) if exact else 1 / np.float64(schedule.scale)
    solve_prefixes(numbers, *schedule.row_blocks, inverse, out)
    return out
