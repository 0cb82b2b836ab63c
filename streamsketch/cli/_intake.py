"""Batches of events into a sketch, and what the operator should know of them."""

import contextlib
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import streamsketch as ss
from streamsketch.agreement import Events
from streamsketch.data import NO_LOSS
from streamsketch.intake import times_in, window_names
from streamsketch.privacy import UNKNOWN
from streamsketch.storage import RawHead, RawSketch, State, check_size, emptied


@dataclass(frozen=True)
class Columns:
    """Which columns hold the events."""

    agreement: ss.Agreement
    time: str | None = None
    time_format: str | None = None
    window: float | None = None
    """In seconds: each key's events in each window are a stream of their own."""

    def events(self, batch: pa.RecordBatch, first: int) -> Events:
        """Return the events of a batch that was cast, its rows counted from ``first``; windows are part of their keys.

        A key in a window is their names with a space between; without a key it is that of the window.
        """
        events = self.agreement.events(batch, first)
        if self.window is None:
            return events
        keys: pa.Array = window_names(times_in(batch.column(self.time), str(self.time), self.time_format), self.window)
        if events.keys is not None:
            keys = pc.binary_join_element_wise(events.keys.cast(pa.string()), keys.cast(pa.string()), " ")
        return events._replace(keys=keys)


def add_events(state: State, events: Events, there: RawHead) -> None:
    """Add a batch of events; after an error the state is as it was.

    ``there`` is what is known of the file that the state will be added to.
    """
    if isinstance(state, ss.Sketch):
        state.add_steps(events.indices, events.steps)
        return
    keys: Any = events.keys if pa.types.is_dictionary(events.keys.type) else events.keys.dictionary_encode()  # type: ignore[union-attr]
    _check_room(state, there, keys.unique().to_pylist())
    state.add_events(events._replace(keys=keys))


def _check_room(state: ss.SketchTable, there: RawHead, keys: list[Any]) -> None:
    """Raise, before memory is filled with what no file holds, if a table with these keys too is too large for one."""
    with contextlib.suppress(ss.InvalidInputError):
        check_size(state.projection, len(state) + there.most_keys + len(keys))
        return
    new = sum(key not in state for key in (there.keys or frozenset()).union(keys))
    try:
        check_size(state.projection, len(state) + new)
    except ss.InvalidInputError as error:
        raise ss.StreamsketchError(str(error)) from None  # which is no fault of a line


@dataclass
class Intake:
    """Events that are not in the file yet, and what is known of the file."""

    columns: Columns
    there: RawHead
    dropped: int = 0
    """Rows left out, as something in them is missing."""
    _given: float = 0.0
    _kept: float = 0.0
    state: State = field(init=False)
    events: int = field(init=False)

    def __post_init__(self) -> None:
        self.start(self.there)

    def start(self, there: RawHead) -> None:
        """Go on without events, once what there was is in the file: other processes may have added to it, too."""
        # nothing clips them: the file's bounds end with or without rows, as one unit's may be the only ones
        self.there, self.state, self.events = there, emptied(there.empty, bounds=UNKNOWN), 0

    @property
    def raw(self) -> RawSketch:
        """The events as what can be appended to the file."""
        return RawSketch(self.state, self.events)

    def add(self, batch: pa.RecordBatch, first: int) -> None:
        """Add a batch, its rows counted from ``first``; after an error all is as it was."""
        agreement = self.columns.agreement
        found = agreement.cast(batch, first, beside=self.columns.time)
        add_events(self.state, self.columns.events(found, first), self.there)
        self.events += found.num_rows
        self.dropped += batch.num_rows - found.num_rows
        if agreement.value is not None and found.num_rows:
            self._given += pc.sum(pc.abs(found.column(agreement.value).cast(pa.float64(), safe=False))).as_py()

    def flush(self, there: RawHead) -> None:
        """Go on without events, which are in the file now."""
        masses = self.state.masses if isinstance(self.state, ss.SketchTable) else [self.state.mass]
        self._kept += float(sum(map(int, masses)) * self.state.projection.grid)
        self.start(there)

    @property
    def warning(self) -> str:
        """What truncation lost of the values, for the operator; nothing if all is kept."""
        lost, name = self._given - self._kept, self.columns.agreement.value
        if lost <= NO_LOSS * self._given:
            return ""
        return (
            f"warning: of --value {name} {100 * lost / self._given:.2g} % is lost: absolute values "
            f"sum to {self._given:,.6g}, and to {self._kept:,.6g} in the sketch, since each is truncated to a multiple "
            f"of the resolution, {self.state.projection.grid}. A finer one, such as 1/100, keeps it; all parties "
            f"must agree on it"
        )
