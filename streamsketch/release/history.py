"""Which part of a history a release is: a row of its schedule, or a range of windows that readers solved for."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from streamsketch.core import sentences
from streamsketch.core.numbers import Floats, check_int, short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.privacy.schedule import Schedule

HISTORY_ID_BYTES = 8
_MOST = (1 << 32) - 1  # what the exchange format carries


@dataclasses.dataclass(frozen=True)
class HistoryPart:
    """The part of a history that a release is. A history consists of rows by one schedule, under one guarantee.

    Parameters
    ----------
    id
        The history's 8 random bytes, which all its rows, keys and ranges share.
    start, stop
        The windows, counted from 0, without ``stop``. A row has one, the newest window in it.
    is_row
        Whether it is a published row: a weighted sum of windows up to ``start`` with its own noise, which is not a
        stream. Otherwise it is the stream of the windows from ``start`` to ``stop``, solved from rows.
    minus
        For a difference of two ranges, the windows that were subtracted.

    Raises
    ------
    InvalidInputError
        If the id has another length, the range is empty, a range is subtracted from itself, or a row has several
        windows.
    """

    id: bytes
    start: int
    stop: int
    is_row: bool = False
    minus: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, bytes) or len(self.id) != HISTORY_ID_BYTES:
            raise InvalidInputError(f"the id of a history is {HISTORY_ID_BYTES} bytes, got {short(self.id)}")
        for start, stop in ((self.start, self.stop), *([] if self.minus is None else [self.minus])):
            check_int(start, "the first window of a range", 0, _MOST)
            check_int(stop, "the end of a range of windows", 0, _MOST)
            if start >= stop:
                raise InvalidInputError(f"a range of windows must not be empty, got {start} to {stop}")
        if self.minus == (self.start, self.stop):
            raise InvalidInputError(
                f"a range of windows cannot be subtracted from itself, got {self.start} to {self.stop - 1} twice"
            )
        if type(self.is_row) is not bool:
            raise InvalidInputError(f"is_row must be True or False, got {short(self.is_row)}")
        if self.is_row and (self.stop != self.start + 1 or self.minus is not None):
            raise InvalidInputError(f"a row is of one window, got {self.start} to {self.stop}")

    @property
    def last(self) -> int:
        """How many of the history's rows are needed to compute this."""
        return self.stop if self.minus is None else max(self.stop, self.minus[1])

    def weights(self, layout: Layout) -> Floats:
        """Return the factors of the rows, float64 of shape (`last`,).

        Parameters
        ----------
        layout
            Of the history's rows.
        """
        schedule = _schedule_of(layout)
        weights: Floats = np.zeros(self.last)
        if self.is_row:
            weights[self.start] = 1.0
            return weights
        weights[: self.stop] = schedule.weights(self.start, self.stop)
        if self.minus is not None:
            weights[: self.minus[1]] -= schedule.weights(*self.minus)
        return weights

    def noise(self, layout: Layout, row: NoiseMoments) -> NoiseMoments:
        """Return the cumulants of the noise, in grid steps of the rows.

        Parameters
        ----------
        layout
            Of the history's rows.
        row
            Cumulants of one noise in a row.
        """
        squares = self.weights(layout) ** 2
        return NoiseMoments(row.k2 * float(squares.sum()), row.k4 * float((squares**2).sum()))

    def check_within(self, layout: Layout) -> None:
        """Raise `InvalidInputError` unless this is part of a history whose rows have this layout."""
        schedule = _schedule_of(layout)
        if self.last > schedule.horizon:
            raise InvalidInputError(f"windows up to {self.last} are beyond the {schedule.horizon} of the schedule")

    def __str__(self) -> str:
        if self.is_row:
            return sentences.ROW.format(window=self.start)
        less = "" if self.minus is None else sentences.LESS_WINDOWS.format(windows=_range_text(*self.minus))
        return f"{_range_text(self.start, self.stop)}{less}"


def _schedule_of(layout: Layout) -> Schedule:
    if layout.schedule is None:
        raise InvalidInputError("a part of a history needs a guarantee whose mechanism states the schedule")
    return layout.schedule


def _range_text(start: int, stop: int) -> str:
    if stop == start + 1:
        return sentences.WINDOW.format(window=start)
    return sentences.WINDOWS.format(first=start, last=stop - 1)


def check_streams(releases: Iterable[Any]) -> None:
    """Raise `InvalidInputError` if one of the releases is a row of a schedule, from which no estimate is made."""
    for release in releases:
        part = release.history
        if part is not None and part.is_row:
            raise InvalidInputError(
                f"{part} of a schedule is not a stream but a weighted sum of windows up to {part.start}; read ranges "
                "of windows from all rows, with streamsketch.continual.History(rows).range(start, stop)"
            )
