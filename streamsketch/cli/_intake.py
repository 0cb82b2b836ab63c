"""Batches of events into a sketch, and what the operator should know of them."""

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

import streamsketch as ss
from streamsketch.cli._events import Columns, add_events
from streamsketch.data import NO_LOSS
from streamsketch.privacy import UNKNOWN
from streamsketch.storage import RawHead, RawSketch, State, emptied


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
