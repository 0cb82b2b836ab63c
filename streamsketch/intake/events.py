"""Events: rows of any source as integers, ready to be added to a sketch."""

import dataclasses
import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.concealed import concealed
from streamsketch.core.libraries import pa, pc
from streamsketch.core.numbers import Cells, Ints
from streamsketch.data.calendar import EventWindows

KEPT, BLANK, MALFORMED = range(3)
"""What becomes of a row that is read."""


@concealed
@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Events:
    """A batch of n rows that `Intake` has read, with values on the projection's grid. Secret.

    Parameters
    ----------
    keys
        Keys of the agreed type (text, integers, bytes or dates), plain or dictionary-encoded. None without a key
        column.
    units
        Privacy units. None without a unit column.
    indices
        Indices in [0, dim): int64, (n,).
    steps
        Values in grid steps: int64, (n,).
    window
        Numbers of the windows that the rows' times fall into (`Tumbling.number`): int64, (n,). None without windows.
    amounts
        The values as they were read, as an array or a list of numbers. None if each row counts 1.
    truncated
        Whether truncation to the grid lost part of a value, beyond floating-point rounding. Always False for rows that
        are to be bounded; `BoundingSummary` counts those one by one.
    rows
        Number of rows that were read.
    blank
        Number of rows that were left out because a field is missing. All others that were left out were malformed.
    features
        Features of each row, if the agreement has `Features`: int32, (n, D). ``indices`` and ``steps`` are then empty.
    times
        Times by which a unit's latest or first row is chosen, if the agreement says so (`RowsOfUnit`), in microseconds
        since 1970, or as integers: int64, (n,).
    fates
        What became of each row that was read, `KEPT`, `BLANK` or `MALFORMED`: uint8, (rows,). None if all were kept, or
        if it is not known which were left out.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import SJLT, Agreement
    >>> from streamsketch.intake import Intake
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> intake = Intake(Agreement(projection, index="item", key="shop", value="sold", missing="drop"))
    >>> batch = pa.record_batch({"shop": ["N", "S"], "item": ["tea", ""], "sold": [3, 2]})
    >>> events = intake.read(batch)
    >>> len(events), events.steps, events.keys.to_pylist(), events.blank
    (1, array([3]), ['N'], 1)
    """

    keys: "pa.Array | None"
    units: "pa.Array | None"
    indices: Ints
    steps: Ints
    window: Ints | None = None
    amounts: Any = None
    truncated: bool = False
    rows: int = 0
    blank: int = 0
    features: Cells | None = None
    times: Ints | None = None
    fates: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return self.steps.size if self.features is None else len(self.features)

    @property
    def malformed(self) -> int:
        """The number of rows that were left out because they were malformed, not because a field is missing."""
        return self.rows - self.blank - len(self)

    def one_by_one(self) -> "Events":
        """Return one event per index if these are features: a row of D features becomes at most D events."""
        if self.features is None:
            return self
        rows, indices = np.nonzero(self.features)
        steps = self.features[rows, indices].astype(np.int64)
        keys, units = (
            None if column is None else _encoded(column).take(pa.array(rows)) for column in (self.keys, self.units)
        )
        window = None if self.window is None else self.window[rows]
        return Events(keys, units, indices, steps, window, rows=steps.size)

    def by_rows(self, ends: Ints) -> "list[Events] | None":
        """Return the events of each run of the rows that were read, without copying; None if some fates are not known.

        Parameters
        ----------
        ends
            Where the runs end among these rows, ascending, and the last one at the last row: int64, (k,).
        """
        places = self.places(ends)
        if places is None:
            return None
        blank = None if self.fates is None else np.append(0, np.cumsum(self.fates == BLANK))
        columns = ("keys", "units", "indices", "steps", "window", "amounts", "features", "times")
        runs, before = list[Events](), 0
        for end, (start, stop) in zip(ends.tolist(), itertools.pairwise(places.tolist()), strict=True):
            some: Any = {name: getattr(self, name) for name in columns}
            some = {name: None if column is None else column[start:stop] for name, column in some.items()}
            some["fates"] = None if self.fates is None else self.fates[before:end]
            lost = 0 if blank is None else int(blank[end] - blank[before])
            runs.append(dataclasses.replace(self, **some, rows=end - before, blank=lost))
            before = end
        return runs

    def places(self, ends: Ints) -> Ints | None:
        """Return where the events of runs of the rows that were read begin, and the end of the last: int64, (k + 1,).

        None if some fates are not known. ``ends`` is as in `by_rows`.
        """
        if self.fates is None:
            return np.append(0, ends) if len(self) == self.rows else None
        places: Ints = np.append(0, np.cumsum(self.fates == KEPT))[np.append(0, ends)]
        return places

    def where(self, flags: NDArray[np.bool_]) -> "Events":
        """Return the events with a flag: bool, (n,). The others do not count as read."""
        if flags.all():
            return self
        kept, one_by_one = pa.array(flags), self.features is None
        keys, units = (None if column is None else column.filter(kept) for column in (self.keys, self.units))
        window, times = (None if column is None else column[flags] for column in (self.window, self.times))
        amounts = self.amounts
        if amounts is not None:
            amounts = (
                amounts.filter(kept) if isinstance(amounts, pa.Array) else list(itertools.compress(amounts, flags))
            )
        return Events(
            keys,
            units,
            self.indices[flags] if one_by_one else self.indices,
            self.steps[flags] if one_by_one else self.steps,
            window,
            amounts,
            self.truncated,
            self.rows - int((~flags).sum()),
            self.blank,
            None if self.features is None else self.features[flags],
            times,
        )

    def keyed_by(self, windows: EventWindows) -> "Events":
        """Return the same events with keys of key and window (``KEY 2024-05-31``), or of the window alone."""
        if self.window is None:
            return self
        keys = windows.names(self.window)
        if self.keys is not None:
            keys = pc.binary_join_element_wise(self.keys.cast(pa.string()), keys.cast(pa.string()), " ")
        return dataclasses.replace(self, keys=keys)


def _encoded(column: "pa.Array") -> "pa.Array":
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
