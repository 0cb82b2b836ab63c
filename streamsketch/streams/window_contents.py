"""What an open window of a stream holds: events of units until it closes, or sums by key."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.casts import Rows
from streamsketch.core.limits import current_limits
from streamsketch.core.numbers import Ints
from streamsketch.data.arrow_messages import message_batches
from streamsketch.data.columns import key_column
from streamsketch.errors import WireFormatError
from streamsketch.intake.events import Events
from streamsketch.intake.rows import Intake, chosen
from streamsketch.sketching.bounding.admission import Admission
from streamsketch.sketching.bounding.contributions import NO_KEY, WHOLE, Contributions, concatenated
from streamsketch.sketching.bounding.runs import Runs
from streamsketch.sketching.bounding.summary import BoundingSummary
from streamsketch.sketching.bounding.units import UnitBounds
from streamsketch.sketching.table import SketchTable
from streamsketch.storage.sketches import RawSketch
from streamsketch.streams.state import Chunks, Content, new_chunk

_LONG = 1 << 20  # events of a chunk that is not written again: 40 MB
_EVENT = ("unit_1", "unit_2", "key", "index", "steps")


class UnitsWindow:
    """A window of events with their units, which are clipped when the window closes.

    An event takes 40 bytes, or 24 bytes and 4 more for each feature.

    Parameters
    ----------
    agreement, bounds
        The agreement and the bounds of the stream.
    """

    def __init__(self, agreement: Agreement, bounds: UnitBounds) -> None:
        self._agreement, self._bounds, self._intake = agreement, bounds, Intake(agreement, bounded=True)
        self._chunks: dict[int, Contributions] = {}  # what states hold, the longest first
        self._parts: list[Contributions] = []  # the rest

    def read(self, rows: pa.RecordBatch, numbers: Rows, secret: bytes, summary: BoundingSummary) -> list[Contributions]:
        """Return what is to be added of these rows, which were cast and have these numbers."""
        # without the names of keys that are not public, and without the messages that indices may be part of
        return [
            dataclasses.replace(part.compact(), indices=part.indices.copy())
            for part in self._bounds.read([self._intake.read(rows, numbers)], secret, summary)
        ]

    def read_runs(
        self, rows: pa.RecordBatch, numbers: Rows, ends: Ints, secrets: Sequence[bytes]
    ) -> list[tuple[list[Contributions], BoundingSummary]] | None:
        """Return what `read` returns of each run of rows, and its summary; None if that needs each run by itself.

        ``ends`` and ``secrets`` are as in `UnitBounds.read_runs`.
        """
        summaries = [BoundingSummary() for _ in secrets]
        parts = self._bounds.read_runs(self._intake.read(rows, numbers), ends, secrets, summaries)
        if parts is None:
            return None
        return [([part.compact()], summary) for part, summary in zip(parts, summaries, strict=True)]

    def add(self, parts: list[Contributions]) -> None:
        """Add what a window of the same stream has read; it cannot fail."""
        self._parts += parts

    def closed(
        self, secret: bytes, summary: BoundingSummary, admission: Admission | None = None, place: int = 0
    ) -> tuple[SketchTable, Admission | None]:
        """Return the window's table, bounded as by `bound` with this secret, and the admission to the next window.

        With ``admission``, rows are left out if their units are not admitted to the window, which is number ``place``.
        """
        parts = [*self._chunks.values(), *self._parts]
        if admission is not None:
            events = concatenated(parts)
            admitted, left_out, admission = admission.admit(place, events.units)
            summary.units_over_windows += left_out
            parts = [events if admitted.all() else events.rows(admitted)]
        table = SketchTable(self._agreement)
        has_features = any(part.features is not None for part in parts)
        self._bounds.add_to(table, concatenated(parts) if has_features else Runs.of(*parts), secret, summary)
        self._bounds.mark(table)
        return table, admission

    def __len__(self) -> int:
        return sum(map(len, itertools.chain(self._chunks.values(), self._parts)))

    @property
    def content(self) -> Chunks:
        """The events as a state stores them: those that were added since the last time are one chunk more.

        It takes the place of the chunks before it that are neither long nor twice as long as it. So chunks are few, and
        each event is written a few times, however often a window is saved.
        """
        if self._parts or not self._chunks:
            chunks, latest = dict(self._chunks), concatenated(self._parts)
            while chunks and len(chunks[last := next(reversed(chunks))]) < min(2 * len(latest), _LONG):
                latest = concatenated([chunks.pop(last), latest])
            self._chunks, self._parts = chunks | {new_chunk(): latest}, []
        return _Encoded(self._chunks)

    @classmethod
    def from_content(cls, content: Content, agreement: Agreement, bounds: UnitBounds) -> Self:
        """Return the window with this `content`; raise `WireFormatError` if it is not one of a window of units."""
        if isinstance(content, RawSketch):
            raise WireFormatError("window", "holds sums, but no events")
        window = cls(agreement, bounds)
        chunks = {number: _decoded(chunk, bounds) for number, chunk in content.items()}
        window._chunks = dict(sorted(chunks.items(), key=lambda chunk: -len(chunk[1])))
        return window


class _Encoded(Mapping[int, memoryview]):
    """Chunks of events in Arrow's stream format, each encoded when it is asked for."""

    def __init__(self, chunks: dict[int, Contributions]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[int]:
        return iter(self._chunks)

    def __len__(self) -> int:
        return len(self._chunks)

    def __getitem__(self, number: int) -> memoryview:
        events = self._chunks[number].one_by_one()
        keys = pa.array([], pa.string()) if not events.slots else key_column([key for key, _ in events.slots], "key")
        start = str(events.slots[0][1] if events.slots else 0)
        columns = [
            *(pa.array(np.ascontiguousarray(events.units[:, word])) for word in (0, 1)),
            pa.DictionaryArray.from_arrays(pa.array(events.codes), keys),
            *map(pa.array, (events.indices, events.steps)),
        ]
        batch = pa.RecordBatch.from_arrays(columns, names=list(_EVENT))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema.with_metadata({"moment": start})) as writer:
            writer.write_batch(batch)
        return memoryview(sink.getvalue())


def _decoded(chunk: bytes | memoryview, bounds: UnitBounds) -> Contributions:
    """Return the events of a chunk; raise `WireFormatError` if no stream writes it."""
    try:
        schema, (batch,) = message_batches(chunk, current_limits().max_raw_bytes)
        batch.validate(full=True)
        start, keys = int(schema.metadata[b"moment"]), batch.column("key")
        units, rest = ([batch.column(name) for name in names] for names in (_EVENT[:2], _EVENT[3:]))
        kinds = [*(column.type for column in (*units, *rest)), keys.type.index_type]
        valid = kinds == [*[pa.uint64()] * 2, *[pa.int64()] * 3]
        valid &= batch.schema.names == list(_EVENT) and start in (0, WHOLE)
        valid &= not any(column.null_count for column in (*batch.columns, keys.dictionary))
        indices, steps = (column.to_numpy() for column in rest)
        most = int(np.iinfo(np.int64).max) >> 1
        valid &= bool(np.all((indices >= 0) & (indices < bounds.indices) & (np.abs(steps) <= most)))
        names = keys.dictionary.to_pylist()
        events = Contributions(
            np.stack([column.to_numpy() for column in units], axis=1),
            [(name, start) for name in names],
            keys.indices.to_numpy(),
            indices,
            steps,
        )
    except Exception as error:  # noqa: BLE001 - damaged bytes make Arrow raise many kinds of errors
        raise WireFormatError("window", f"is not valid ({type(error).__name__})") from None
    if not valid or len(set(names)) < len(names):
        raise WireFormatError("window", "does not hold events as a stream writes them")
    return events


class SumsWindow:
    """A window of sums by key, for rows that are asserted to keep to the bounds.

    Parameters
    ----------
    agreement
        The agreement of the stream.
    public
        The stream's public keys as an Arrow array; None if it has no keys.
    tolerant
        Whether a row that cannot be added is dropped and counted. Otherwise it raises an error.
    """

    def __init__(self, agreement: Agreement, public: pa.Array | None, *, tolerant: bool) -> None:
        self._agreement, self._public = agreement, public
        self._intake = Intake(agreement, on_bad="drop" if tolerant else "refuse")
        self._table, self._events = SketchTable(agreement), 0

    def read(self, rows: pa.RecordBatch, numbers: Rows, _: bytes, summary: BoundingSummary) -> Events:
        """Return what is to be added of these rows, which were cast and have these numbers."""
        summary.rows_read += rows.num_rows
        listed = self._listed(rows)
        if listed is not None:
            kept = listed.to_numpy(zero_copy_only=False)
            summary.rows_of_other_keys += rows.num_rows - int(kept.sum())
            rows, numbers = rows.filter(listed), chosen(numbers, kept)
        events = self._intake.read(rows, numbers)
        summary.rows_malformed += events.malformed
        return events

    def read_runs(
        self, rows: pa.RecordBatch, numbers: Rows, ends: Ints, _: Sequence[bytes]
    ) -> list[tuple[Events, BoundingSummary]] | None:
        """Return what `read` returns of each run of rows, and its summary; as `UnitsWindow.read_runs`."""
        many, listed = np.diff(ends, prepend=0), self._listed(rows)
        if listed is not None:
            kept = listed.to_numpy(zero_copy_only=False)
            rows, numbers, ends = rows.filter(listed), chosen(numbers, kept), np.append(0, np.cumsum(kept))[ends]
        runs = self._intake.read(rows, numbers).by_rows(ends)
        if runs is None:
            return None
        others = (many - np.diff(ends, prepend=0)).tolist()
        return [
            (run, BoundingSummary(rows_read=count, rows_of_other_keys=other, rows_malformed=run.malformed))
            for run, count, other in zip(runs, many.tolist(), others, strict=True)
        ]

    def _listed(self, rows: pa.RecordBatch) -> pa.Array | None:
        """Return which rows have a public key: bool, (n,); None if the stream has none."""
        if self._public is None or self._agreement.key is None:
            return None
        return pc.is_in(rows.column(self._agreement.key.name), value_set=self._public)

    def add(self, events: Events) -> None:
        """Add what a window of the same stream has read; it cannot fail."""
        if events.keys is None:
            keys = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(events), np.int32)), pa.array([NO_KEY]))
            self._table.add_events(dataclasses.replace(events, keys=keys))
        else:
            self._table.add_events(events)
        self._events += len(events)

    def closed(
        self, _: bytes, __: BoundingSummary, admission: Admission | None = None, ___: int = 0
    ) -> tuple[SketchTable, Admission | None]:
        """Return the sums and the same admission, because it is asserted that units keep to their windows."""
        return self._table, admission

    def __len__(self) -> int:
        return self._events

    @property
    def content(self) -> RawSketch:
        """The sums, as a state stores them."""
        return RawSketch(self._table, self._events)

    @classmethod
    def from_content(cls, content: Content, agreement: Agreement, public: pa.Array | None, *, tolerant: bool) -> Self:
        """Return the window with this `content`; raise `WireFormatError` if it is not one of a window of sums."""
        window = cls(agreement, public, tolerant=tolerant)
        if not isinstance(content, RawSketch) or not isinstance(content.state, SketchTable):
            raise WireFormatError("window", "holds no table")
        if content.agreement != agreement or content.releases:
            raise WireFormatError("window", "holds no table under the stream's agreement")
        window._table, window._events = content.state, content.events
        return window
