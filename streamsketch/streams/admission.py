"""Which units may add to a window of a schedule: each to a few windows, and none to two that are too close."""

import dataclasses
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamsketch.errors import WireFormatError
from streamsketch.kernels import Words
from streamsketch.schedules import Schedule

_UNIT = np.dtype("S16")  # two words as bytes, all of one length, so that NumPy sorts and compares them whole
_ROW = np.dtype([("unit", _UNIT), ("windows", "<i4"), ("last", "<i4")])


@dataclasses.dataclass(frozen=True, eq=False)
class Admission:
    """In how many windows each unit was, and in which one last: **secret**.

    A unit is admitted to a window if it was admitted to fewer than ``max_windows`` before it, the last of them ``gap``
    or more before. So which of its windows count depends on this unit's rows alone, and removing them changes nothing
    else (THEORY.md 11.2). Windows are decided in their order, once all rows of a window are there.

    Parameters
    ----------
    schedule
        Of the stream.
    rows
        Digest, count and last window of each unit that a later window may have to leave out, ascending: 24 bytes each.
    """

    schedule: Schedule
    rows: NDArray[np.void] = dataclasses.field(default_factory=lambda: np.empty(0, _ROW))

    @staticmethod
    def is_needed(schedule: Schedule) -> bool:
        """Return whether a schedule leaves out any unit: unless units may be in all windows."""
        return schedule.most < schedule.horizon

    def __len__(self) -> int:
        return self.rows.size

    def admit(self, window: int, units: Words) -> tuple[NDArray[np.bool_], int, Self]:
        """Return which rows of a window are of admitted units, how many units are left out, and what is known then.

        Parameters
        ----------
        window
            Its number, from 0 on, after those that were decided.
        units
            The digest of each row's unit, by one secret in all windows: uint64, (n, 2).

        Returns
        -------
        tuple
            Flags, (n,); a number; and the admission to the next window. This one has not changed.
        """
        most, gap, ahead = self.schedule.most, self.schedule.gap, self.schedule.horizon - window - 1
        here, of = np.unique(np.ascontiguousarray(units).view(_UNIT).ravel(), return_inverse=True)
        before = self.rows
        places = np.searchsorted(before["unit"], here)
        known = places < before.size
        known[known] = before["unit"][places[known]] == here[known]
        own = places[known]
        admitted = np.ones(here.size, dtype=bool)
        admitted[known] = (before["windows"][own] < most) & (before["last"][own] <= window - gap)
        new = np.empty(int((~known).sum()), _ROW)
        new["unit"], new["windows"], new["last"] = here[~known], 1, window
        kept = before.copy()
        again = own[admitted[known]]
        kept["windows"][again] += 1
        kept["last"][again] = window
        after = np.insert(kept, places[~known], new)
        # those whom no later window leaves out: it is far enough, and there are too few to exceed max_windows
        free = (after["last"] <= window + 1 - gap) & (after["windows"] + -(-ahead // gap) <= most)
        rows = after[~free] if ahead else after[:0]
        return admitted[of], int((~admitted).sum()), dataclasses.replace(self, rows=rows)

    @property
    def content(self) -> bytes:
        """What a state holds."""
        return self.rows.tobytes()

    @classmethod
    def from_content(cls, content: Any, schedule: Schedule, window: int) -> Self:
        """Return what `content` was taken of before a window; raise `WireFormatError` for anything else."""
        if not isinstance(content, bytes) or len(content) % _ROW.itemsize:
            raise WireFormatError("units", "are cut")
        rows = np.frombuffer(content, _ROW)
        if not all(_valid(rows, schedule, window)):
            raise WireFormatError("units", "are not what a stream writes")
        return cls(schedule, rows)


def _valid(rows: NDArray[np.void], schedule: Schedule, window: int) -> Iterator[bool]:
    yield bool((rows["unit"][:-1] < rows["unit"][1:]).all())
    yield bool(((rows["windows"] >= 1) & (rows["windows"] <= schedule.most)).all())
    yield bool(((rows["last"] >= 0) & (rows["last"] < window)).all())
