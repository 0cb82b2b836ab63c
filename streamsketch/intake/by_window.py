"""Rows of agreements whose windows are keys: events that are named by key and window."""

import dataclasses
from typing import Any

import numpy as np

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.libraries import pa
from streamsketch.data.calendar import check_times_of_day
from streamsketch.data.windows import micros_in
from streamsketch.errors import InvalidInputError
from streamsketch.intake.columns import missing
from streamsketch.intake.events import Events
from streamsketch.intake.rows import Intake, OnBad


class IntakeByWindow(Intake):
    """Reads rows as events whose keys are pairs of key and window, of the windows that are agreed.

    Only the key of a row has the agreed spelling, not the name of its window. Rows of other windows are left out, and
    do not count as read.

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

    def read(self, batch: "pa.RecordBatch", first: int = 1) -> Events:
        """Return the rows of a batch as events by key and window; parameters and errors as `Intake.read`."""
        timed, blank = self._timed(batch)
        events = super().read(timed, first)
        events = dataclasses.replace(events, rows=events.rows + blank, blank=events.blank + blank)
        return self._keyed(events)

    def _keyed(self, events: Events) -> Events:
        return events.keyed_by(self._agreed_windows.of_times)

    def _timed(self, batch: "pa.RecordBatch") -> tuple["pa.RecordBatch", int]:
        """Return the rows of the windows that are kept, and how many rows were dropped as they have no time."""
        windows = self._agreed_windows
        name = windows.time.name
        if batch.schema.names.count(name) != 1:
            return batch, 0  # `Intake` says so
        untimed = missing(batch.column(name))
        if untimed.any():
            agreement = self.agreement
            if agreement.missing == "refuse" or (agreement.missing == "keep" and agreement.unit is None):
                raise InvalidInputError(
                    f"the column {name} is null or blank in a row, and the agreement refuses missing values; drop such "
                    "rows"
                )
            batch = batch.filter(pa.array(~untimed))
        if self._within is not None:
            named = batch.column(name), name, windows.format
            check_times_of_day(windows.of_times, *named)
            numbers = windows.of_times.number(micros_in(*named))
            kept = np.logical_and(numbers >= self._within.start, numbers < self._within.stop)
            batch = batch.filter(pa.array(kept))
        return batch, int(untimed.sum())


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
