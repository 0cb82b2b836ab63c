"""Exact sketches of rows by windows of time, as an agreement states them: one a window, or one of all."""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.windows import Windows
from streamsketch.core.libraries import pa
from streamsketch.core.numbers import Ints
from streamsketch.data.calendar import check_times_of_day
from streamsketch.data.tables import batches_of
from streamsketch.data.windows import micros_in
from streamsketch.errors import InvalidInputError
from streamsketch.intake.columns import Mask, missing, without_views
from streamsketch.intake.events import Events
from streamsketch.intake.rows import Intake, blank
from streamsketch.sketching.bounding.admission import Admission
from streamsketch.sketching.bounding.contributions import NO_KEY, WHOLE, Contributions
from streamsketch.sketching.bounding.grouping import GroupedEvents
from streamsketch.sketching.bounding.summary import BoundingSummary, check_summary
from streamsketch.sketching.bounding.units import SECRET_BYTES, UnitBounds, bound_batches
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable


def sketch_by_windows(
    rows: object,
    agreement: Agreement,
    *,
    summary: BoundingSummary | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> SketchTable:
    """Return the exact, **secret** table of rows whose keys are windows, or pairs of key and window.

    Units are clipped over all windows together, to the agreement's ``max_keys``.

    Parameters
    ----------
    rows, summary, folder
        As in `bound`.
    agreement
        An agreement with windows that are keys.

    Raises
    ------
    TypeError, InvalidInputError
        As in `bound`.
    """
    check_summary(summary)
    windows, keys = windows_in(agreement), agreement.published_keys
    listed = keys if isinstance(keys, tuple) else None
    timed: dict[str, Any] = {"time": windows.time.name, "time_format": windows.format, "windows": windows.of_times}
    intake, counts = Intake(agreement, **timed), BoundingSummary()
    within = windows.numbers
    timely = (
        (batch, numbers) if within is None else _where(batch, numbers, _flags_in(agreement, batch, within, counts))
        for batch, numbers in _timed(rows, agreement, intake, counts)
    )

    def read(reader: Intake) -> Iterator[Events]:
        return (events for batch, numbers in timely for events in reader.parts(batch, numbers))

    if agreement.unit is not None and agreement.neighbours is not None:
        bounds: dict[str, Any] = {"public_keys": listed, "summary": counts, "folder": folder}
        table = bound_batches(read, agreement, **bounds, **timed)
    else:
        table = SketchTable(agreement)
        for events in read(intake):
            table.add_events(events.keyed_by(windows.of_times))
    if summary is not None:
        summary.merge(counts)
    return table  # type: ignore[return-value] # windows are keys


def sketch_windows(
    rows: object,
    agreement: Agreement,
    *,
    summary: BoundingSummary | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> dict[int, Sketch | SketchTable]:
    """Return the exact, **secret** sketch of each window from the first to the last, by their numbers, in order.

    Units are clipped in each window by itself. With a schedule they are also kept to as many windows as it allows, by
    `Admission`, as in a stream.

    Parameters
    ----------
    rows, summary, folder
        As in `bound`.
    agreement
        An agreement with windows that are releases, with a first and a last one.

    Raises
    ------
    TypeError, InvalidInputError
        As in `bound`; if nobody says which windows there are.
    """
    check_summary(summary)
    windows, numbers = windows_in(agreement), windows_of(agreement)
    intake = Intake(agreement, bounded=agreement.unit is not None, time=windows.time.name)
    counts = BoundingSummary()
    kept: Any = _Clipped(agreement, folder) if agreement.unit is not None else _Sums(agreement)
    with kept:
        for batch, row_numbers in _timed(rows, agreement, intake, counts):
            cast, present = intake.cast_rows(batch, row_numbers)
            counts.rows_blank += batch.num_rows - cast.num_rows
            counts.rows_read += batch.num_rows - cast.num_rows
            places = _numbers(agreement, cast)
            for number in np.unique(places).tolist():
                if number in numbers:
                    kept.add(number, *_where(cast, np.asarray(present), places == number), counts)
            outside = int(((places < numbers.start) | (places >= numbers.stop)).sum())
            counts.rows_read += outside
            counts.rows_of_other_keys += outside
        sketches = kept.sketches(numbers, counts)
    if summary is not None:
        summary.merge(counts)
    return {
        number: table if agreement.key is not None else table.sketch_of(NO_KEY) for number, table in sketches.items()
    }


def windows_in(agreement: Agreement) -> Windows:
    """Return the windows of an agreement; raise `InvalidInputError` if it has none."""
    if agreement.windows is None:
        raise InvalidInputError("the agreement has no windows: agree on windows=streamsketch.Windows(time=…, every=…)")
    return agreement.windows


def windows_of(agreement: Agreement) -> range:
    """Return the numbers of all windows that a release of rows has.

    Raises
    ------
    InvalidInputError
        If the agreement does not state them: which windows have data is private.
    """
    windows = agreement.windows
    if windows is not None and windows.first_number is not None:
        end = windows.end_of(agreement.layout)
        if end is not None:
            return range(windows.first_number, end)
    raise InvalidInputError(
        "which windows have data is private: state the first and the last of the agreement's windows, or follow a log "
        "window by window (streamsketch.streams.Stream), which needs the first alone"
    )


class _Clipped:
    """Rows of units, which are clipped in each window; in temporary files beyond a million."""

    def __init__(self, agreement: Agreement, folder: str | os.PathLike[str] | None) -> None:
        neighbours: Any = agreement.neighbours
        if neighbours is None:
            raise InvalidInputError("the agreement has no bound (neighbours=L1(…)), so no bound on one unit is known")
        listed = agreement.keys if isinstance(agreement.keys, tuple) else None
        self._agreement, self._intake = agreement, Intake(agreement, bounded=True)
        options: dict[str, Any] = {"clip": agreement.clip_of(), "public_keys": listed, "rows": agreement.rows_rule}
        self._bounds = UnitBounds(agreement.projection, neighbours, **options)
        self._secret, self._events = os.urandom(SECRET_BYTES), GroupedEvents(folder)

    def __enter__(self) -> None:
        self._events.__enter__()

    def __exit__(self, *_: object) -> None:
        self._events.__exit__()

    def add(self, number: int, batch: "pa.RecordBatch", rows: Ints, summary: BoundingSummary) -> None:
        for part in self._bounds.read(self._intake.parts(batch, rows), self._secret, summary):
            self._events.add(_in_slots(part, number))

    def sketches(self, numbers: range, summary: BoundingSummary) -> dict[int, SketchTable]:
        tables = {number: SketchTable(self._agreement) for number in numbers}
        for group in self._events.groups():  # whole units, which are admitted each by itself
            admission = Admission.of(self._agreement.layout)
            window_of = np.array([number for _, number in group.slots], dtype=np.int64)[group.codes]
            for place, number in enumerate(numbers):
                events = group.rows(window_of == number)
                if admission is not None:
                    admitted, left_out, admission = admission.admit(place, events.units)
                    summary.units_over_windows += left_out
                    events = events if admitted.all() else events.rows(admitted)
                if len(events):
                    self._bounds.add_to(tables[number], _in_slots(events.compact(), WHOLE), self._secret, summary)
        for table in tables.values():
            self._bounds.mark(table, self._intake.conditions)
        return tables


def _in_slots(events: Contributions, window: int) -> Contributions:
    """Return the same events, all of one window."""
    slots = [(key, window) for key, _ in events.slots]
    return dataclasses.replace(events, slots=slots)


class _Sums:
    """Sums of rows that are asserted to keep to the bounds, window by window."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement, self._intake, self._tables = agreement, Intake(agreement), dict[int, SketchTable]()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def add(self, number: int, batch: "pa.RecordBatch", rows: Ints, summary: BoundingSummary) -> None:
        table = self._tables.setdefault(number, SketchTable(self._agreement))
        for events in self._intake.parts(batch, rows):
            keys = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(events), np.int32)), pa.array([NO_KEY]))
            table.add_events(events if events.keys is not None else dataclasses.replace(events, keys=keys))
        summary.rows_read += batch.num_rows

    def sketches(self, numbers: range, _: BoundingSummary) -> dict[int, SketchTable]:
        return {number: self._tables.get(number, SketchTable(self._agreement)) for number in numbers}


def _timed(
    rows: object, agreement: Agreement, intake: Intake, summary: BoundingSummary
) -> Iterator[tuple["pa.RecordBatch", Ints]]:
    """Yield the rows that have a time, and their numbers; the others are left out if the agreement drops them."""
    windows: Any = agreement.windows
    name, stop = windows.time.name, 1
    for batch in map(without_views, batches_of(rows, intake.names, lenient=intake.lenient)):
        numbers = np.arange(stop, stop + batch.num_rows)
        stop += batch.num_rows
        untimed = missing(batch.column(name))
        if not untimed.any():
            yield batch, numbers
            continue
        if agreement.missing == "refuse" or (agreement.missing == "keep" and agreement.unit is None):
            raise InvalidInputError(blank(name, numbers[untimed.argmax()]))
        summary.rows_read += int(untimed.sum())
        summary.rows_blank += int(untimed.sum())
        yield _where(batch, numbers, ~untimed)


def _where(batch: "pa.RecordBatch", numbers: Ints, flags: Mask) -> tuple["pa.RecordBatch", Ints]:
    """Return the rows with a flag, and their numbers."""
    return batch.filter(pa.array(flags)), numbers[flags]


def _numbers(agreement: Agreement, batch: "pa.RecordBatch") -> Any:
    """Return the number of the window that each row is in: int64, (n,)."""
    windows: Any = agreement.windows
    named = batch.column(windows.time.name), windows.time.name, windows.format
    check_times_of_day(windows.of_times, *named)
    return windows.of_times.number(micros_in(*named))


def _flags_in(agreement: Agreement, batch: "pa.RecordBatch", within: range, summary: BoundingSummary) -> Any:
    """Return which rows are in windows from the first to the last; count the others."""
    places = _numbers(agreement, batch)
    flags = (places >= within.start) & (places < within.stop)
    summary.rows_read += int((~flags).sum())
    summary.rows_of_other_keys += int((~flags).sum())
    return flags
