"""Messages of a log as Arrow record batches: many rows in one element."""

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from streamsketch.beam.events import column_of
from streamsketch.beam.keys import METRICS
from streamsketch.beam.once import LATE
from streamsketch.errors import InvalidInputError

Format: TypeAlias = Literal["arrow", "json"]

MALFORMED = "malformed"


class DecodeMessages(beam.PTransform):
    """Decode messages that sources marked as on time or late: ``PCollection[bytes] → (batches, late, malformed)``.

    A message holds rows of one window; its own timestamp is the earliest of them, or any of that window. An empty
    message is a heartbeat. Rows whose time is in a window before their message's are late, as their message was too
    late for them. A message that cannot be decoded is set aside, as stopping for it would stop the stream for good.

    The second and third outputs are **secret**, for monitoring alone: batches of late rows, and messages as they came.

    Parameters
    ----------
    schema
        Columns of the batches, all of which the messages have; others are dropped.
    time
        Column of Arrow times, of which windows are made.
    size, offset
        Length and start of the windows in seconds, as in `TumblingWindows`.
    format
        ``"arrow"``: an Arrow IPC stream a message, the fast way. ``"json"``: a JSON object, or one a line; times are
        numbers of the column's unit since 1970, or text in ISO 8601.
    count_private_data
        Count late rows and malformed messages as Beam metrics (``rows_late``, ``messages_malformed``): data without
        noise, for the operator's eyes only.

    Raises
    ------
    InvalidInputError
        For another format, or a time column that is not one of times.
    """

    def __init__(
        self,
        schema: pa.Schema,
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
        if time not in schema.names or not pa.types.is_timestamp(schema.field(time).type):
            raise InvalidInputError(f"the schema needs a column {time!r} of Arrow timestamps, got {schema.names}")
        self._step = _Decode(schema, time, (round(size * 10**6), round(offset * 10**6)), format, count_private_data)

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


class _Decode(beam.DoFn):
    def __init__(self, schema: pa.Schema, time: str, window: tuple[int, int], format: Format, count: bool) -> None:  # noqa: A002, FBT001
        self._schema, self._time, self._window, self._format, self._count = schema, time, window, format, count

    def process(self, message: bytes, moment: Timestamp = beam.DoFn.TimestampParam) -> Iterator[Any]:
        if not message:
            return
        try:
            batches = [self._shaped(batch) for batch in self._decoded(message)]
        except (pa.ArrowException, InvalidInputError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            self._add(f"messages_{MALFORMED}", 1)
            yield beam.pvalue.TaggedOutput(MALFORMED, TimestampedValue(message, MIN_TIMESTAMP))
            return
        for batch in batches:
            on_time, late = self._split(batch, moment.micros)
            if on_time.num_rows:
                yield on_time
            if late.num_rows:
                self._add("rows_late", late.num_rows)
                yield beam.pvalue.TaggedOutput(LATE, TimestampedValue(late, MIN_TIMESTAMP))

    def _decoded(self, message: bytes) -> list[pa.RecordBatch]:
        if self._format == "arrow":
            with pa.ipc.open_stream(message) as reader:
                return list(reader)
        rows = [json.loads(line) for line in message.decode().splitlines() if line.strip()]
        return [pa.RecordBatch.from_pylist([self._row(row) for row in rows], self._schema)]

    def _row(self, row: Any) -> Mapping[str, Any]:
        if not isinstance(row, dict):
            raise TypeError("a row must be a JSON object")
        moment = row.get(self._time)
        return row | {self._time: dt.datetime.fromisoformat(moment)} if isinstance(moment, str) else row

    def _shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = []
        for field in self._schema:
            column = column_of(batch, field.name)
            is_coded = pa.types.is_dictionary(column.type) and column.type.value_type == field.type
            columns.append(column if is_coded else column.cast(field.type))
        found = pa.RecordBatch.from_arrays(columns, names=self._schema.names)
        found.validate(full=True)  # it may come from anybody
        return found

    def _split(self, batch: pa.RecordBatch, moment: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        if moment <= MIN_TIMESTAMP.micros:
            return batch.slice(0, 0), batch
        size, offset = self._window
        start = pa.scalar((moment - offset) // size * size + offset, pa.timestamp("us"))
        column = batch.column(self._time)
        plain = column.cast(pa.timestamp(column.type.unit))  # moments, whatever time zone they are shown in
        late = pc.fill_null(pc.less(plain, start), False)  # noqa: FBT003 - Arrow's signature
        return batch.filter(pc.invert(late)), batch.filter(late)

    def _add(self, name: str, count: int) -> None:
        if self._count:
            Metrics.counter(METRICS, name).inc(count)
