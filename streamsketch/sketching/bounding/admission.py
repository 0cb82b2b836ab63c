"""Which units may be in a window of a schedule: each in a few windows, and in no two that are too close together."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.concealed import concealed
from streamsketch.errors import WireFormatError
from streamsketch.kernels.hashing import Words
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.schedule import Schedule

_UNIT = np.dtype("S16")  # two words as bytes, all of one length, so that NumPy sorts and compares them whole
_ROW = np.dtype([("unit", _UNIT), ("windows", "<i4"), ("last", "<i4")])


@concealed
@dataclasses.dataclass(frozen=True, eq=False)
class Admission:
    """The number of windows that each unit was in, and the last of them: **secret**.

    A unit is admitted to a window if it was admitted to fewer than ``max_windows`` windows before, and if the last of
    these was at least ``gap`` windows before. So a unit's own rows determine which of its windows count, and removing
    them changes nothing else (Theory 11.2). Windows are decided in order, each when all of its rows are there.

    Parameters
    ----------
    schedule
        The schedule of the stream.
    rows
        Digest, count and last window of each unit that a later window may have to leave out, ascending: 24 bytes each.
    windows
        The digests that were admitted to each of these windows, ascending, 16 bytes each. A state stores these, so that
        each window is written once.
    """

    schedule: Schedule
    rows: NDArray[np.void] = dataclasses.field(default_factory=lambda: np.empty(0, _ROW))
    windows: dict[int, bytes] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, layout: Layout) -> Self | None:
        """Return the admission to the first window of the rows; None where a unit may be in all windows."""
        return cls(layout.schedule) if layout.schedule is not None and layout.limits_windows else None

    def admit(self, window: int, units: Words) -> tuple[NDArray[np.bool_], int, Self]:
        """Return which rows of a window belong to admitted units, how many units are left out, and the next admission.

        Parameters
        ----------
        window
            Its number, from 0 on; earlier windows were decided.
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
        returning = places < before.size
        returning[returning] = before["unit"][places[returning]] == here[returning]
        own = places[returning]
        admitted = np.ones(here.size, dtype=bool)
        admitted[returning] = (before["windows"][own] < most) & (before["last"][own] <= window - gap)
        new = np.empty(int((~returning).sum()), _ROW)
        new["unit"], new["windows"], new["last"] = here[~returning], 1, window
        after = np.insert(before, places[~returning], new)
        # returning units have moved behind new ones before them
        again = (places + np.cumsum(~returning))[returning & admitted]
        after["windows"][again] += 1
        after["last"][again] = window
        if 1 + -(-ahead // gap) <= most:  # else too many windows are left to forget any
            # those whom no later window leaves out: it is far enough, and there are too few to exceed max_windows
            free = (after["last"] <= window + 1 - gap) & (after["windows"] + -(-ahead // gap) <= most)
            after = after[~free] if ahead else after[:0]
        held = _held(self.schedule, window + 1)
        windows = {place: units for place, units in self.windows.items() if place in held}
        if window in held:
            windows[window] = here[admitted].tobytes()
        return admitted[of], int((~admitted).sum()), dataclasses.replace(self, rows=after, windows=windows)

    def restored(self, windows: Mapping[int, Any], window: int) -> Self:
        """Return the admission with these windows; raise `WireFormatError` if no stream has them at this time."""
        schedule = self.schedule
        if set(windows) != set(_held(schedule, window)):
            raise WireFormatError("units", "are not of the windows that were released")
        parts, places = [np.empty(0, _UNIT)], list[NDArray[np.int64]]()
        for place in sorted(windows):
            data = windows[place]
            if not isinstance(data, bytes) or len(data) % _UNIT.itemsize:
                raise WireFormatError("units", "are cut")
            parts.append(part := np.frombuffer(data, _UNIT))
            places.append(np.full(part.size, place))
            if not (part[:-1] < part[1:]).all():
                raise WireFormatError("units", "are not in order")
        units = np.concatenate(parts)
        order = np.argsort(units, kind="stable")  # the windows of a unit stay in order
        of, last = units[order], np.concatenate([np.empty(0, np.int64), *places])[order]
        ends = np.flatnonzero(np.append(of[1:] != of[:-1], [True] * bool(of.size)))
        rows = np.empty(ends.size, _ROW)
        rows["unit"], rows["windows"], rows["last"] = of[ends], np.diff(ends, prepend=-1), last[ends]
        if (rows["windows"] > schedule.most).any():
            raise WireFormatError("units", "are in more windows than a schedule allows")
        return dataclasses.replace(self, rows=rows, windows=dict(windows))


def _held(schedule: Schedule, window: int) -> range:
    """Return the earlier windows that determine which units this window and later ones leave out."""
    if window >= schedule.horizon:
        return range(0)
    is_by_gap = schedule.most * schedule.gap >= schedule.horizon  # which alone keeps units to max_windows
    return range(max(0, window + 1 - schedule.gap) if is_by_gap else 0, window)
