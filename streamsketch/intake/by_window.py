"""Rows of agreements whose windows are keys: events that are named by key and window."""

from collections import deque
from typing import Any

import numpy as np

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.casts import Rows
from streamsketch.core.libraries import pa
from streamsketch.core.numbers import Ints
from streamsketch.data.calendar import EventWindows, check_times_of_day
from streamsketch.data.windows import micros_in
from streamsketch.intake.columns import Mask, missing, salvage, without_views
from streamsketch.intake.events import Events
from streamsketch.intake.rows import Intake, OnBad, rows_from


class IntakeByWindow(Intake):
    """Reads rows as events whose keys are pairs of key and window, of the windows that are agreed.

    Only the key of a row has the agreed spelling, not the name of its window. Rows of other windows are left out, and
    do not count as read. A row whose time is missing, or is no time, is judged as any other row that lacks a value or
    is malformed.

    Parameters
    ----------
    agreement, on_bad, bounded
        As in `Intake`; an agreement with windows.
    within
        The numbers of the windows that are kept, None for all.
    """

    def __init__(
        self, agreement: Agreement, *, on_bad: OnBad = "refuse", bounded: bool = False, within: range | None
    ) -> None:
        windows: Any = agreement.windows
        super().__init__(
            agreement,
            on_bad=on_bad,
            bounded=bounded,
            time=windows.time.name,
            time_format=windows.format,
            windows=windows.of_times,
        )
        self._agreed_windows, self._within = windows, within

    def read(self, batch: "pa.RecordBatch", first: int | Rows = 1) -> Events:
        """Return the rows of a batch as events by key and window; parameters and errors as `Intake.read`."""
        batch = without_views(batch)
        kept = np.flatnonzero(self._are_kept(batch))
        whole = kept.size == batch.num_rows
        numbers = np.asarray(rows_from(first, batch))[kept]
        events = self._read_numbered(batch if whole else batch.take(pa.array(kept)), numbers)
        if self._within is not None and events.window is not None:
            # once more, by the times that name the windows: those of columns that are cast as agreed
            events = events.where((events.window >= self._within.start) & (events.window < self._within.stop))
        return self._keyed(events)

    def _keyed(self, events: Events) -> Events:
        return events.keyed_by(self._agreed_windows.of_times)

    def _are_kept(self, batch: "pa.RecordBatch") -> Mask:
        """Return which rows are not of other windows: also those whose time cannot be read."""
        within, name = self._within, self._agreed_windows.time.name
        if within is None or batch.schema.names.count(name) != 1:
            return np.ones(batch.num_rows, dtype=np.bool_)  # if there is no such column, `Intake` says so
        windows = self._agreed_windows
        timed, numbers = numbers_of(batch.column(name), name, windows.format, windows.of_times)
        return ~timed | ((numbers >= within.start) & (numbers < within.stop))


def numbers_of(times: "pa.Array", name: str, time_format: str | None, windows: EventWindows) -> tuple[Mask, Ints]:
    """Return which rows have a time that can be read, and the numbers of their windows, 0 for others.

    Parameters
    ----------
    times
        The column of times.
    name, time_format
        The name of the column, and the format of its text.
    windows
        The windows that are numbered.

    Raises
    ------
    InvalidInputError
        If the column is of a type that holds no times.
    """
    timed, numbers = ~missing(times), np.zeros(len(times), dtype=np.int64)
    places = np.flatnonzero(timed)
    present = times.take(pa.array(places))

    def read(start: int, stop: int) -> None:
        named = present.slice(start, stop - start), name, time_format
        check_times_of_day(windows, *named)
        numbers[places[start:stop]] = windows.number(micros_in(*named))

    def bad(place: int, _: Exception) -> None:
        timed[places[place]] = False

    deque(salvage(read, places.size, bad), 0)
    return timed, numbers


def intake_of(agreement: Agreement, *, on_bad: OnBad = "refuse", bounded: bool = False) -> Intake:
    """Return what reads rows by the keys of an agreement: where windows are keys, these are keys in windows.

    Parameters
    ----------
    agreement, on_bad, bounded
        As in `Intake`, with its errors.
    """
    if not isinstance(agreement, Agreement) or agreement.windows is None or not agreement.windows_are_keys:
        return Intake(agreement, on_bad=on_bad, bounded=bounded)
    return IntakeByWindow(agreement, on_bad=on_bad, bounded=bounded, within=agreement.windows.numbers)
