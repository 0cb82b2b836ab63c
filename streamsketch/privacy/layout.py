"""Which numbers are published of a key, as one vector: the cells, and what is counted beside them."""

import dataclasses
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Self

import numpy as np

from streamsketch.core.documents import Json
from streamsketch.core.numbers import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.counting import Counting
from streamsketch.privacy.neighbours import Moved, Neighbours
from streamsketch.privacy.noise import NoiseMoments, Sensitivity
from streamsketch.privacy.schedule import Schedule
from streamsketch.privacy.schedule_kinds import schedule_of


@dataclasses.dataclass(frozen=True)
class Layout:
    """The layout of what is published of each key: one int64 vector, of one window or of a sum of several.

    The cells come first, and the weighted counts of units behind them. Noise is drawn for the whole vector. What is
    between the exact sums and the readers of a release hands on this vector, and asks the layout where a part begins.

    Parameters
    ----------
    counting
        The weights of what is counted beside the cells; None where nothing is.
    schedule
        By which the vectors of several windows are added up, with weights, before they are published; None where each
        is published by itself.

    Examples
    --------
    >>> import numpy as np
    >>> from streamsketch import L1
    >>> layout = Layout(Counting(1024, slack=2))
    >>> layout.width(64)
    66
    >>> exact = np.array([[5, -5, 0, 1, 7]])  # three cells, one unit and its total
    >>> vector = layout.weighted(exact, L1(100), Fraction(1))
    >>> vector.tolist()
    [[5, -5, 0, 1024, 186]]
    >>> [part.tolist() for part in layout.split(vector[0], 3)]
    [[5, -5, 0], [1024, 186]]
    """

    counting: Counting | None = None
    schedule: Schedule | None = None

    @classmethod
    def counted(cls, projection: Moved, neighbours: Neighbours, *, delta: float) -> Self:
        """Return a layout with counts of the default weights (`Counting.of`), with the same errors."""
        return cls(Counting.of(projection, neighbours, delta=delta))

    @property
    def is_counted(self) -> bool:
        """Whether there are counts behind the cells."""
        return self.counting is not None

    @property
    def beside(self) -> int:
        """How many numbers are behind the cells."""
        return 0 if self.counting is None else self.counting.numbers

    def width(self, cells: int) -> int:
        """Return how many numbers the vector of so many cells has."""
        return cells + self.beside

    @property
    def by_rows(self) -> bool:
        """Whether rows are published, each a sum of several windows."""
        return self.schedule is not None

    @property
    def horizon(self) -> int | None:
        """How many rows are published at most; None where each window is published by itself."""
        return None if self.schedule is None else self.schedule.horizon

    @property
    def limits_windows(self) -> bool:
        """Whether a unit may be in some windows of the rows only (`Schedule.limits_windows`)."""
        return self.schedule is not None and self.schedule.limits_windows

    @property
    def of_one_window(self) -> "Layout":
        """The layout of what each window adds to rows."""
        return self if self.schedule is None else dataclasses.replace(self, schedule=None)

    @property
    def of_cells(self) -> "Layout":
        """The layout without what is beside the cells."""
        return dataclasses.replace(self, counting=None)

    @property
    def most_blocks(self) -> int:
        """A bound on the number of blocks of windows in all rows together, which is the cost of enumerating them."""
        return 0 if self.schedule is None else self.schedule.most_blocks

    # --- vectors --------------------------------------------------------------------------------------------

    def weighted(self, exact: Ints, neighbours: Neighbours, grid: Fraction) -> Ints:
        """Return the vectors before noise, int64 of shape (n, `width`), modulo 2^64 as cells are.

        Parameters
        ----------
        exact
            Exact sums of each key, as in `streamsketch.sketching.exact.Exact.rows`: int64, (n, cells + 2), with the
            number of units and their total at the end.
        neighbours
            Of the release.
        grid
            The size of a grid step.
        """
        cells, counts = exact[:, :-COUNTS], exact[:, -COUNTS:]
        if self.counting is None:
            return cells
        bound = neighbours.grid_steps(grid) if self.counting.slack else 0
        return np.concatenate([cells, self.counting.weighted(counts, bound)], axis=1)

    def split(self, numbers: Ints, cells: int) -> tuple[Ints, Ints | None]:
        """Return the cells of vectors, (…, cells), and the counts behind them, None where nothing is counted.

        Raises
        ------
        InvalidInputError
            If the vector has another length.
        """
        self.check_width(numbers, cells)
        return numbers[..., :cells], numbers[..., cells:] if self.is_counted else None

    def check_width(self, numbers: Ints, cells: int) -> None:
        """Raise `InvalidInputError` unless vectors, int64 of shape (…, n), have the length for so many cells."""
        size, width = numbers.shape[-1], self.width(cells)
        if numbers.dtype != np.int64 or size != width:
            raise InvalidInputError(
                f"with {self}, a key of {cells:,} cells has {width:,} numbers of int64, and these are {size:,} of "
                f"{numbers.dtype}: pass numbers of the same map, and with the same counts"
            )

    # --- guarantees -----------------------------------------------------------------------------------------

    def neighbours_of_rows(self, neighbours: Neighbours) -> Neighbours:
        """Return the relation on all windows that a unit may be in, for one on each of them (Theory 11.2)."""
        return neighbours if self.schedule is None else neighbours.over_rows(self.schedule.most)

    def check_for(self, neighbours: Neighbours) -> None:
        """Raise `InvalidInputError` for neighbours for which the counts are not proven (`Counting.check_for`)."""
        if self.counting is not None:
            self.counting.check_for(neighbours)

    def is_known(self, bounds: Bounds, neighbours: Neighbours) -> bool:
        """Return whether data with these bounds have all that is published of them for these neighbours."""
        return self.counting is None or bounds.counts_for(neighbours)

    def sensitivity(self, projection: Moved, neighbours: Neighbours) -> Sensitivity:
        """Return how far one unit can move all vectors together, of all keys and, by a schedule, of all its rows.

        Raises
        ------
        InvalidInputError
            If the weights do not fit the map or the neighbours.
        """
        window = neighbours.sensitivity(projection)
        if self.counting is not None:
            self.counting.check_free(projection)
            window = self.counting.beside(window, neighbours)
        if self.schedule is None:
            return window
        return neighbours.sensitivity_of_rows(projection, window, self.schedule)

    def most_in_a_cell(self, projection: Moved, neighbours: Neighbours) -> int:
        """Return how far one unit can move one number at most, in grid steps; of a row, in all its windows."""
        most = neighbours.most_in_a_cell(projection)
        if self.counting is not None:
            most = max(most, self.counting.most_steps(neighbours, projection.grid))
        return most if self.schedule is None else self.schedule.scale * self.schedule.most * most

    @property
    def unit_weight(self) -> int:
        """How far one unit moves the count of units; 0 where it is not published."""
        return 0 if self.counting is None else self.counting.units

    def units_deviation(self, noise: NoiseMoments) -> float:
        """Return the standard error of the number of units, under this noise; 0 where it is not published."""
        return 0.0 if self.counting is None else math.sqrt(noise.k2) / self.counting.units

    def is_unit(self, text: str) -> bool:
        """Return whether a text names a unit to which the noise of these rows is calibrated (`Schedule.is_unit`)."""
        return self.schedule is None or self.schedule.is_unit(text)

    def unit_text(self, unit: str) -> str:
        """Return a unit in words, in as many windows as the noise is for (`Schedule.unit_text`)."""
        return unit if self.schedule is None else self.schedule.unit_text(unit)

    @property
    def scale(self) -> int:
        """The number by which rows are multiplied so that their weights are whole; 1 without rows."""
        return 1 if self.schedule is None else self.schedule.scale

    @property
    def many_windows(self) -> bool:
        """Whether a unit may be in more than one window of the rows."""
        return self.schedule is not None and self.schedule.most > 1

    # --- as JSON and in words ---------------------------------------------------------------------------------

    def to_dict(self) -> Json:
        """Return the parts that are there as a dict that JSON can hold."""
        parts = {"counting": self.counting, "schedule": self.schedule}
        return {name: part.to_dict() for name, part in parts.items() if part is not None}

    @classmethod
    def from_dict(cls, fields: Mapping[str, object]) -> Self:
        """Return the layout that `to_dict` wrote among other fields; `InvalidInputError` for parts of other kinds."""
        counting, schedule = fields.get("counting"), fields.get("schedule")
        return cls(
            None if counting is None else Counting.from_dict(counting),
            None if schedule is None else schedule_of(schedule),
        )

    @property
    def words(self) -> str:
        """What a mechanism's text says behind its noise; empty for `CELLS`."""
        rows = "" if self.schedule is None else f", over {self.schedule.in_words}"
        return rows if self.counting is None else f"{rows}, with {self.counting}"

    def __str__(self) -> str:
        return "cells alone" if self.counting is None else f"cells and {self.counting}"


COUNTS = 2
"""How many numbers are counted beside the exact cells of a key: the units, and their total."""

CELLS = Layout()
"""Cells alone, of one window."""
