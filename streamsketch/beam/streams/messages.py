"""Messages of a log as Arrow record batches: many rows in one element."""

import datetime as dt
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from streamsketch.agreement import Agreement
from streamsketch.beam.intake.events import ROWS, RowBuffer, column_of
from streamsketch.beam.intake.keys import METRICS
from streamsketch.beam.intake.windows import LATE
from streamsketch.beam.streams.json_lines import plain_types, read_plain
from streamsketch.core import current_limits
from streamsketch.data import message_batches
from streamsketch.errors import InvalidInputError
from streamsketch.intake import Intake, Tumbling

Format: TypeAlias = Literal["arrow", "json"]

MALFORMED = "malformed"
_WAITING_BYTES = 1 << 22  # of messages; then those of a window are read
_GROUP = 4096  # messages that are read together
_TIME = pa.timestamp("us", "UTC")
_UNSOUND = Exception
"""What reading a message may raise: libraries raise whatever there is, and one not foreseen would stop the stream."""


class DecodeMessages(beam.PTransform):
    """Decode messages that sources marked as on time or late: ``PCollection[bytes] → (batches, late, malformed)``.

    An element is a message, or a list of messages of one window: small ones cost less together. A message holds rows of
    one window; its own timestamp is the earliest of them, or any of that window. An empty message is a heartbeat. Rows
    whose time is in a window before their message's are late, as their message was too late for them. A row that cannot
    be decoded is dropped, and no other with it: what one unit wrote must not remove what others did. Its message is set
    aside, as stopping for it would stop the stream for good.

    The second and third outputs are **secret**, for monitoring alone: batches of late rows, and messages as they came
    of which rows were dropped.

    Parameters
    ----------
    schema
        Columns of the batches, all of which the messages have; others are dropped. Or an `Agreement`, which says the
        columns and casts them: a row that breaks it is as one that cannot be decoded. `SketchPerKey` takes the same.
    time
        Column of Arrow times, of which windows are made; under an agreement it may stand beside the agreed columns.
    size, offset
        Length and start of the windows in seconds, as in `TumblingWindows`.
    format
        ``"arrow"``: an Arrow IPC stream a message, the fast way. ``"json"``: a JSON object, or one a line; times are
        numbers of the column's unit since 1970, or text in ISO 8601.
    count_private_data
        Count late rows and messages set aside as Beam metrics (``rows_late``, ``messages_malformed``): data without
        noise, for the operator's eyes only.

    Raises
    ------
    InvalidInputError
        For another format, or a time column that is not one of times: agreed, it is of type ``timestamp``.
    """

    def __init__(
        self,
        schema: pa.Schema | Agreement,
        *,
        time: str,
        size: float,
        offset: float = 0,
        format: Format = "arrow",  # noqa: A002 - what it is called everywhere
        count_private_data: bool = False,
    ) -> None:
        super().__init__()
        if format not in ("arrow", "json"):
            raise InvalidInputError(f"format must be 'arrow' or 'json', got {format!r}")
        _check_time(schema, time)
        self._step = _Decode(
            schema, time, Tumbling(round(size * 10**6), round(offset * 10**6)), format, count_private_data
        )

    def expand(self, messages: beam.PCollection) -> Any:
        """Apply the transform."""
        step = beam.ParDo(self._step).with_output_types(pa.RecordBatch)
        outputs = messages | "Decode" >> step.with_outputs(LATE, MALFORMED, main="batches")
        return outputs.batches, outputs[LATE], outputs[MALFORMED]


def encoded_batch(batch: pa.RecordBatch) -> bytes:
    """Return a batch as the Arrow IPC stream that `DecodeMessages` reads."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def _check_time(schema: pa.Schema | Agreement, time: str) -> None:
    if isinstance(schema, Agreement):
        agreed = {column.name: column.type for column in (schema.key, *schema.index, schema.unit) if column is not None}
        if agreed.get(time, "timestamp") != "timestamp" or time == schema.value:
            raise InvalidInputError(
                f"the column {time!r} must hold times, and the agreement has it as {agreed.get(time, 'values')}; agree "
                f"on timestamp, or name another column"
            )
    elif time not in schema.names or not pa.types.is_timestamp(schema.field(time).type):
        raise InvalidInputError(f"the schema needs a column {time!r} of Arrow timestamps, got {schema.names}")


def _plain_if_alone(column: pa.Array) -> pa.Array:
    """Return a column of one row without its dictionary, whose other words may be unsound."""
    if len(column) != 1 or not pa.types.is_dictionary(column.type):
        return column
    column.indices.validate(full=True)
    place = column.indices[0].as_py()
    if place is None:
        return pa.nulls(1, column.type.value_type)
    if not 0 <= place < len(column.dictionary):
        raise InvalidInputError("a row names a word that its dictionary does not have")
    return column.dictionary.slice(place, 1)


def _as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    is_coded = pa.types.is_dictionary(column.type) and column.type.value_type == kind
    return column if is_coded else column.cast(kind)


class _Decode(beam.DoFn):
    def __init__(
        self,
        schema: pa.Schema | Agreement,
        time: str,
        windows: Tumbling,
        format: Format,  # noqa: A002
        count: bool,  # noqa: FBT001
    ) -> None:
        self._schema, self._time, self._windows, self._format, self._count = schema, time, windows, format, count
        self._names = list(dict.fromkeys([*schema.names, time]))
        self._plain = plain_types(schema, time)

    def start_bundle(self) -> None:
        self._waiting: dict[int, list[bytes]] = {}
        self._bytes = 0

    def process(self, messages: bytes | list[bytes], moment: Timestamp = beam.DoFn.TimestampParam) -> Iterable[Any]:
        found = [message for message in ([messages] if isinstance(messages, bytes) else messages) if message]
        if not found:
            return ()
        if self._format == "arrow":
            return self._outputs(itertools.chain.from_iterable(map(self._decoded, found)), moment.micros)
        # rows wait for others of their window: one by one they would cost many times as much
        start = self._start(moment.micros)
        waiting = self._waiting.setdefault(start, [])
        waiting += found
        self._bytes += sum(map(len, found))
        if len(waiting) < ROWS and self._bytes < _WAITING_BYTES:
            return ()
        self._bytes = 0
        return self._outputs(self._read_lines(self._waiting.pop(start)), start)

    def finish_bundle(self) -> Iterator[Any]:
        for start, messages in self._waiting.items():
            for output in self._outputs(self._read_lines(messages), start):
                tag, found = (output.tag, output.value) if isinstance(output, TaggedOutput) else (None, output)
                windowed = WindowedValue(found.value, found.timestamp, (GlobalWindow(),))
                yield windowed if tag is None else TaggedOutput(tag, windowed)

    def _outputs(self, found: Iterable[pa.RecordBatch | bytes], moment: int) -> Iterator[Any]:
        """Yield sound rows, late rows, and each message that has others, once."""
        malformed: set[int] = set()
        for one in found:
            if isinstance(one, bytes):
                if id(one) not in malformed:  # two may hold the same
                    malformed.add(id(one))
                    self._add(f"messages_{MALFORMED}", 1)
                    yield TaggedOutput(MALFORMED, TimestampedValue(one, MIN_TIMESTAMP))
                continue
            on_time, late = self._split(one, moment)
            if on_time.num_rows:
                yield TimestampedValue(on_time, Timestamp(micros=moment))
            if late.num_rows:
                self._add("rows_late", late.num_rows)
                yield TaggedOutput(LATE, TimestampedValue(late, MIN_TIMESTAMP))

    def _decoded(self, message: bytes) -> Iterator[pa.RecordBatch | bytes]:
        """Yield the rows of an Arrow message that are sound, or the message where they are not."""
        try:
            schema, batches = message_batches(message, current_limits().max_bytes)
            self._shaped(pa.RecordBatch.from_pylist([], schema=schema))  # what is wrong in every row
        except _UNSOUND:
            yield message
            return
        for batch in batches:
            for found in self._sound(batch):
                yield message if found is None else found

    def _read_lines(self, messages: list[bytes]) -> Iterator[pa.RecordBatch | bytes]:
        """Yield the rows of JSON messages that are sound, and the messages of those that are not."""
        rows = RowBuffer()
        for first in range(0, len(messages), _GROUP):
            group = messages[first : first + _GROUP]
            together = self._read_plain(group)
            if together is not None:
                yield together
                continue
            for message in group:
                for line in filter(bytes.strip, message.splitlines()):
                    try:
                        rows.add([*self._row(json.loads(line.decode())), message])
                    except _UNSOUND:
                        yield message
        yield from self._sound_groups(rows)

    def _read_plain(self, messages: list[bytes]) -> pa.RecordBatch | None:
        try:
            found = None if self._plain is None else read_plain(messages, self._plain)
            return None if found is None else self._shaped(found)
        except _UNSOUND:
            return None

    def _sound_groups(self, rows: RowBuffer) -> Iterator[pa.RecordBatch | bytes]:
        for group in rows.take():
            yield from self._sound_rows(group)

    def _sound_rows(self, rows: list[Sequence[Any]]) -> Iterator[pa.RecordBatch | bytes]:
        """Yield the rows that are sound, and the messages, their last fields, of those that are not."""
        try:
            yield self._typed([row[:-1] for row in rows])
        except _UNSOUND:
            if len(rows) == 1:
                yield rows[0][-1]
                return
            middle = len(rows) // 2
            yield from self._sound_rows(rows[:middle])
            yield from self._sound_rows(rows[middle:])

    def _row(self, row: Any) -> Sequence[Any]:
        if not isinstance(row, dict):
            raise TypeError("a row must be a JSON object")
        if isinstance(moment := row.get(self._time), str):
            given = dt.datetime.fromisoformat(moment)
            row = row | {self._time: given.astimezone(dt.UTC) if given.tzinfo else given.replace(tzinfo=dt.UTC)}
        return [row.get(name) for name in self._names]

    def _sound(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch | None]:
        try:
            yield self._shaped(rows)
        except _UNSOUND:
            if len(rows) <= 1:
                yield None
                return
            middle = len(rows) // 2
            yield from self._sound(rows[:middle])
            yield from self._sound(rows[middle:])

    def _typed(self, rows: list[Sequence[Any]]) -> pa.RecordBatch:
        arrays = [pa.array(column) for column in zip(*rows, strict=True)]  # given the type, it would truncate fractions
        texts = [column.cast(pa.string()) if pa.types.is_null(column.type) else column for column in arrays]
        return self._shaped(pa.RecordBatch.from_arrays(texts, names=self._names))

    def _shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = {name: _plain_if_alone(column_of(batch, name)) for name in self._names}
        for column in columns.values():
            column.validate(full=True)  # it may come from anybody, and Arrow's kernels trust what they get
        if isinstance(self._schema, Agreement):
            if self._time not in self._schema.names:
                columns[self._time] = columns[self._time].cast(_TIME)
            # without the message's own schema, which might say that it was cast already
            return Intake(self._schema, time=self._time).cast(pa.RecordBatch.from_pydict(columns))
        cast = [_as_type(columns[field.name], field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(cast, names=self._names)

    def _start(self, moment: int) -> int:
        """Return the start of a moment's window; the mark itself of what sources marked as late."""
        return moment if moment <= MIN_TIMESTAMP.micros else self._windows.start_of(moment)

    def _split(self, batch: pa.RecordBatch, moment: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        if moment <= MIN_TIMESTAMP.micros:
            return batch.slice(0, 0), batch
        start = pa.scalar(self._start(moment), pa.timestamp("us"))
        column = batch.column(self._time)
        plain = column.cast(pa.timestamp(column.type.unit))  # moments, whatever time zone they are shown in
        if not pc.less(pc.min(plain), start).as_py():  # nearly always; the least of nulls alone is null
            return batch, batch.slice(0, 0)
        late = pc.fill_null(pc.less(plain, start), False)  # noqa: FBT003 - Arrow's signature
        return batch.filter(pc.invert(late)), batch.filter(late)

    def _add(self, name: str, count: int) -> None:
        if self._count:
            Metrics.counter(METRICS, name).inc(count)
