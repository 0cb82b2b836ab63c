"""Events of files and streams on their way into a raw file, and what the operator should know of them."""

import dataclasses
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import streamsketch as ss
from streamsketch.data import NO_LOSS
from streamsketch.intake import Events, Intake, Tumbling
from streamsketch.privacy import UNKNOWN
from streamsketch.storage import RawHeader, RawSketch, State, check_size


class Pending:
    """Events that are not in a raw file yet.

    Parameters
    ----------
    intake
        How rows are read.
    header
        What is known of the file.
    windows
        Where given, each key's events in each of them are a stream of their own.
    """

    def __init__(self, intake: Intake, header: RawHeader, windows: Tumbling | None) -> None:
        self._intake, self._windows = intake, windows
        self.dropped = 0
        """Rows left out, as something in them is missing."""
        self._given = self._kept = 0.0
        self.start(header)

    def start(self, header: RawHeader) -> None:
        """Go on without events, once those before are in the file: other processes may have added to it, too."""
        # nothing clips them: the file's bounds end with or without rows, as one unit's may be the only ones
        self.header = header
        self._state: State = header.empty(UNKNOWN)
        self.events = 0

    @property
    def raw(self) -> RawSketch:
        """The events as what can be appended to the file."""
        return RawSketch(self._state, self.events)

    def add(self, batch: pa.RecordBatch, first: int) -> None:
        """Add a batch, its rows counted from ``first``; after an error all is as it was."""
        events = self._intake.read(batch, first)
        if isinstance(self._state, ss.Sketch):
            self._state.add_steps(events.indices, events.steps)
        else:
            keys = self._keys(events)
            _check_room(self._state, keys.unique().to_pylist())
            self._state.add_events(dataclasses.replace(events, keys=keys))
        self.events += len(events)
        self.dropped += events.blank
        if events.amounts is not None and len(events):
            self._given += pc.sum(pc.abs(events.amounts.cast(pa.float64(), safe=False))).as_py()

    def _keys(self, events: Events) -> pa.DictionaryArray:
        """Return the keys of events; with windows, their texts with a space between, without a key that of windows."""
        keys: Any = events.keys
        if self._windows is not None and events.window is not None:
            names = self._windows.names(events.window)
            keys = names if keys is None else pc.binary_join_element_wise(_text(keys), _text(names), " ")
        found: pa.DictionaryArray = keys if pa.types.is_dictionary(keys.type) else keys.dictionary_encode()
        return found

    def flush(self, header: RawHeader) -> None:
        """Go on without events, which are in the file now."""
        masses = self._state.masses if isinstance(self._state, ss.SketchTable) else [self._state.mass]
        self._kept += float(sum(map(int, masses)) * self._state.projection.grid)
        self.start(header)

    @property
    def warning(self) -> str:
        """What truncation lost of the values, for the operator; nothing if all is kept."""
        lost, name = self._given - self._kept, self._intake.agreement.value
        if lost <= NO_LOSS * self._given:
            return ""
        return (
            f"warning: of --value {name} {100 * lost / self._given:.2g} % is lost: absolute values "
            f"sum to {self._given:,.6g}, and to {self._kept:,.6g} in the sketch, since each is truncated to a multiple "
            f"of the resolution, {self._state.projection.grid}. A finer one, such as 1/100, keeps it; all parties "
            f"must agree on it"
        )


def _text(keys: Any) -> pa.Array:
    return keys.cast(pa.string())


def _check_room(state: ss.SketchTable, keys: list[Any]) -> None:
    """Raise, before memory is filled with what no file holds, if a table with these keys too is too large for one."""
    try:
        check_size(state.projection, len(state) + sum(key not in state for key in keys))
    except ss.InvalidInputError as error:
        raise ss.StreamsketchError(str(error)) from None  # which is no fault of a line
