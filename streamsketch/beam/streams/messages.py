"""Messages of a log as Arrow record batches, with many rows in one element."""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from streamsketch.agreement.agreement import Agreement
from streamsketch.beam.intake.keys import METRICS
from streamsketch.beam.intake.rows import alike_rows, feature_columns
from streamsketch.beam.intake.windows import LATE, column_of
from streamsketch.beam.streams.lateness import PartitionClock, micros_of
from streamsketch.core.documents import TableKey
from streamsketch.core.limits import current_limits
from streamsketch.data.arrow_messages import message_batches, most_unpacked
from streamsketch.data.columns import is_text_type, key_column
from streamsketch.data.formats import times_of_text
from streamsketch.data.lenient import decimal_text, lenient_column, lenient_json
from streamsketch.data.windows import Tumbling, microseconds
from streamsketch.errors import InvalidInputError
from streamsketch.intake.clock import AheadLimit
from streamsketch.intake.columns import missing, plain, salvage, single_value
from streamsketch.intake.framing import json_rows
from streamsketch.intake.rows import Intake
from streamsketch.once.counts import RowCounts, Tally

Format: TypeAlias = Literal["arrow", "json"]

MALFORMED = "malformed"
_WAITING_BYTES = 1 << 22  # size of waiting messages with one watermark at which they are read
_ROWS = 8192  # number of such messages at which they are read
_LONGEST_LINE = 4000  # bytes of a row: Python reads no longer numbers
_ODD = (b"\r", b"\0", b"[", b"NaN", b"Inf")
_GROUP = 4096  # messages that are read together
_TIME = pa.timestamp("us", "UTC")
_MICROS = {"s": (10**6, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}  # factor and divisor
_ANY = Exception
"""What reading a message may raise: libraries raise many types, and one not caught would stop the stream."""


class DecodeMessages(beam.PTransform):
    """Decode messages and judge their rows by the log's clock: ``PCollection[bytes] → (batches, late, malformed)``.

    An element is a message, or a list of messages, which is faster for small ones. Its timestamp is the watermark of
    its partition before it, as sources set it (`PartitionClock.timestamp`). An empty element is a heartbeat. An empty
    message in a list is not: it has a key, deletes something, and counts as malformed, as a blank one does. A row is
    late if its window was over at that watermark; the time of its message and other rows do not matter. A row that
    cannot be decoded, or is too far ahead of the watermark, is dropped by itself, so that one unit's rows cannot remove
    those of others. It goes to an output of its own, because an error would stop the stream for good.

    The second and third outputs are **secret** and for monitoring only. The second has batches of late rows. The third
    has the original messages of which rows could not be decoded, and batches of rows that are too far ahead.

    Parameters
    ----------
    agreement
        The columns of the messages and their types; other columns are dropped. A row that does not fit is treated as
        one that cannot be decoded. Pass the same to `BoundContributions` and `SketchPerKey`.
    time
        Column of event times, as Arrow times; one of the agreed columns, or a further one.
    size, offset
        Length and start of the windows, as in `TumblingWindows`.
    format
        ``"arrow"``: each message is an Arrow IPC stream, which is the faster format. ``"json"``: each message is one
        JSON object, or one per line; times are numbers since 1970 in the column's unit, or text in ISO 8601. A value
        that does not fit a column of features counts as missing, and its row is kept.
    delay
        How far messages of a partition may be out of order, in seconds or as text. Pass the same to the source.
    limit
        How far a row may be ahead of the newest time in its partition, such as `StreamPolicy.limit`; by default there
        is no limit. Pass the same to the source.
    counts
        A local or mounted folder in which each worker keeps a file with the numbers of rows that it read and dropped
        (`streamsketch.streams.RowCounts`). The counts have no noise and are **secret**.
    first, public_keys
        The start of the first window, in microseconds after 1970, and the listed keys, to count rows that are before it
        or of other keys. They stay in the batches.
    count_private_data
        Count rows that are late or too far ahead, and messages that cannot be decoded, as Beam metrics (``rows_late``,
        ``rows_ahead``, ``messages_malformed``). These counts have no noise, so they are for the operator only.

    Raises
    ------
    InvalidInputError
        If ``format`` is unknown, a length is not valid, or the time column is an agreed column of another type than
        ``timestamp``.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import SJLT, Agreement
    >>> agreement = Agreement.of(SJLT(sketch_dim=64, sparsity=4, seed=7), key="shop", index="item", value="sold")
    >>> message = b'{"shop": "north", "item": "tea", "sold": 3, "time": "2024-05-31T09:00:00Z"}'
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     messages = pipeline | beam.Create([message])
    ...     batches, late, malformed = messages | DecodeMessages(agreement, time="time", size="1 hour", format="json")
    """

    def __init__(  # noqa: PLR0913 - what a stream's windows are belongs together
        self,
        agreement: Agreement,
        *,
        time: str,
        size: float | str,
        offset: float = 0,
        format: Format = "arrow",  # noqa: A002 - what it is called everywhere
        delay: float | str = 0,
        limit: AheadLimit | None = None,
        counts: str | None = None,
        first: int | None = None,
        public_keys: Iterable[TableKey] | None = None,
        count_private_data: bool = False,
    ) -> None:
        super().__init__()
        if format not in ("arrow", "json"):
            raise InvalidInputError(f"format must be 'arrow' or 'json', got {format!r}")
        agreed = _types(agreement)
        if agreed.get(time, "timestamp") != "timestamp" or time == agreement.value:
            raise InvalidInputError(
                f"the column {time!r} must hold times, but its type in the agreement is "
                f"{agreed.get(time, 'values')!r}; use the type 'timestamp', or another column"
            )
        windows = Tumbling(microseconds(size, "size"), round(offset * 10**6))
        waits = microseconds(delay, "delay", least=0)
        self._step = _Decode(agreement, time, PartitionClock(waits, *windows, limit=limit), format, count_private_data)
        self._step.counts, self._step.first = counts, first
        if public_keys is not None and agreement.key is not None:
            self._step.public = agreement.key.name, key_column(public_keys, "key")

    def expand(self, messages: beam.PCollection) -> Any:
        """Apply the transform."""
        step = beam.ParDo(self._step).with_output_types(pa.RecordBatch)
        outputs = messages | "Decode" >> step.with_outputs(LATE, MALFORMED, main="batches")
        return outputs.batches, outputs[LATE], outputs[MALFORMED]


def encoded_batch(batch: pa.RecordBatch) -> bytes:
    """Return a batch as the Arrow IPC stream that `DecodeMessages` reads.

    Examples
    --------
    >>> import pyarrow as pa
    >>> message = encoded_batch(pa.RecordBatch.from_pydict({"shop": ["north"], "sold": [3]}))
    >>> pa.ipc.open_stream(message).read_all().to_pylist()
    [{'shop': 'north', 'sold': 3}]
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def _types(agreement: Agreement) -> dict[str, str]:
    columns = (agreement.key, *agreement.index, agreement.unit)
    return {column.name: column.type for column in columns if column is not None}


class _Decode(beam.DoFn):
    def __init__(
        self,
        agreement: Agreement,
        time: str,
        clock: PartitionClock,
        format: Format,  # noqa: A002
        count: bool,  # noqa: FBT001
    ) -> None:
        self._time, self._clock, self._format, self._count = time, clock, format, count
        self._intake = Intake(agreement, bounded=agreement.unit is not None, time=time)
        self._names = list(dict.fromkeys([*agreement.names, time]))
        self._plain = plain_types(agreement, time)
        self._features = {name: lists for name, lists in feature_columns(agreement).items() if name != time}
        self._texts = {column.name for column in agreement.columns if column.type == "text"}
        self._keeps = agreement.missing == "keep"
        self._lenient = [place for place, name in enumerate(self._names) if name in self._features]
        self.counts: str | None = None
        self.first: int | None = None
        self.public: tuple[str, pa.Array] | None = None
        self._judged: int | None = None
        self._on_time = 0, 0

    def start_bundle(self) -> None:
        self._counts, self._blank = RowCounts(), 0
        self._waiting: dict[int, list[bytes]] = {}
        self._bytes = 0

    def process(self, messages: bytes | list[bytes], timestamp: Timestamp = beam.DoFn.TimestampParam) -> Iterable[Any]:
        payloads = [messages] if isinstance(messages, bytes) else list(messages)
        if payloads == [b""] and isinstance(messages, bytes):
            return ()
        if self._format == "arrow":
            return self._outputs(itertools.chain.from_iterable(map(self._decoded, payloads)), timestamp.micros)
        # rows wait for others that are judged alike: one by one they would cost many times as much
        watermark = self._clock.floor(timestamp.micros)
        waiting = self._waiting.setdefault(watermark, [])
        waiting += payloads
        self._bytes += sum(map(len, payloads))
        if len(waiting) < _ROWS and self._bytes < _WAITING_BYTES:
            return ()
        self._bytes = 0
        return self._outputs(self._read_lines(self._waiting.pop(watermark)), watermark)

    def finish_bundle(self) -> Iterator[Any]:
        for watermark, messages in self._waiting.items():
            for output in self._outputs(self._read_lines(messages), watermark):
                tag, timestamped = (output.tag, output.value) if isinstance(output, TaggedOutput) else (None, output)
                windowed = WindowedValue(timestamped.value, timestamped.timestamp, (GlobalWindow(),))
                yield windowed if tag is None else TaggedOutput(tag, windowed)
        if self.counts is not None:
            tally = Tally.of(self.counts)
            tally.add(self._counts.plus(RowCounts(read=self._blank, blank=self._blank)))
            tally.flush()

    def teardown(self) -> None:
        if self.counts is not None:
            Tally.of(self.counts).flush(now=True)

    def _outputs(self, decoded: Iterable[pa.RecordBatch | bytes], watermark: int) -> Iterator[Any]:
        """Yield valid rows, late rows, rows too far ahead, and each message with other rows, once."""
        malformed: set[int] = set()
        for item in decoded:
            if isinstance(item, bytes):
                if not item or id(item) not in malformed:  # by id, as two messages may have the same bytes
                    malformed.add(id(item))
                    self._add(f"messages_{MALFORMED}", 1)
                    yield TaggedOutput(MALFORMED, TimestampedValue(item, MIN_TIMESTAMP))
                continue
            on_time, late, ahead = self._split(item, watermark)
            self._counts = self._counts.plus(RowCounts(item.num_rows, late.num_rows, ahead.num_rows))
            self._counts = self._counts.plus(self._lost_later(on_time))
            if on_time.num_rows:
                yield TimestampedValue(on_time, Timestamp(micros=watermark))
            for tag, name, rows in ((LATE, "rows_late", late), (MALFORMED, "rows_ahead", ahead)):
                if rows.num_rows:
                    self._add(name, rows.num_rows)
                    yield TaggedOutput(tag, TimestampedValue(rows, MIN_TIMESTAMP))

    def _lost_later(self, rows: pa.RecordBatch) -> RowCounts:
        """Return how many rows are on time, but before the first window or of keys that are not listed."""
        early = other = 0
        if self.first is not None and rows.num_rows:
            early = int((micros_of(rows.column(self._time).drop_null(), self._time) < self.first).sum())
        if self.public is not None and rows.num_rows:
            name, keys = self.public
            column = rows.column(name)
            column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            other = rows.num_rows - (pc.sum(pc.is_in(column, value_set=keys.cast(column.type))).as_py() or 0)
        return RowCounts(early=early, other_keys=other)

    def _count_bad(self, *, rows: int = 0, messages: int = 0) -> None:
        self._counts = self._counts.plus(RowCounts(read=rows, malformed=rows, undecodable=messages))

    def _decoded(self, message: bytes) -> Iterator[pa.RecordBatch | bytes]:
        """Yield the valid rows of an Arrow message, and the message if some are not valid."""
        self._counts = self._counts.plus(RowCounts(messages=1))
        try:
            schema, batches = message_batches(message, most_unpacked(len(message), current_limits().max_bytes))
            self._shaped(pa.RecordBatch.from_pylist([], schema=schema))  # faults of the whole message
        except _ANY:
            self._count_bad(messages=1)
            yield message
            return
        for batch in batches:
            bad: list[int] = []

            def read(start: int, stop: int, batch: pa.RecordBatch = batch) -> pa.RecordBatch:
                return self._shaped(batch.slice(start, stop - start)) if start < stop else batch

            yield from salvage(read, batch.num_rows, lambda place, _, bad=bad: bad.append(place), _ANY)  # type: ignore[misc]
            if bad:
                self._count_bad(rows=len(bad))
                yield message

    def _read_lines(self, messages: list[bytes]) -> Iterator[pa.RecordBatch | bytes]:
        """Yield the valid rows of JSON messages, and each message with a row that is not valid."""
        self._counts = self._counts.plus(RowCounts(messages=len(messages)))
        columns: list[list[Any]] = [[] for _ in [*self._names, "message"]]
        for first in range(0, len(messages), _GROUP):
            group = messages[first : first + _GROUP]
            together = self._read_plain(group)
            if together is not None:
                yield together
                continue
            for message in group:
                lines = json_rows(message)
                if not lines:
                    self._count_bad(messages=1)
                    yield message
                for line in lines:
                    try:
                        row = [*self._row(line.decode()), message]
                    except _ANY:
                        self._count_bad(rows=1)
                        yield message
                        continue
                    for column, field in zip(columns, row, strict=True):
                        column.append(field)
        for *fields, own in alike_rows(columns, self._lenient):
            bad: list[int] = []

            def read(start: int, stop: int, fields: list[list[Any]] = fields) -> pa.RecordBatch:
                return self._typed([column[start:stop] for column in fields]) if start < stop else None

            yield from salvage(read, len(own), lambda place, _, bad=bad: bad.append(place), _ANY)  # type: ignore[misc]
            self._count_bad(rows=len(bad))
            yield from (own[place] for place in bad)

    def _read_plain(self, messages: list[bytes]) -> pa.RecordBatch | None:
        try:
            batch = None if self._plain is None else read_plain(messages, self._plain)
            return None if batch is None else self._shaped(batch)
        except _ANY:
            return None

    def _row(self, line: str) -> Sequence[Any]:
        row = lenient_json(line) if self._features else json.loads(line, parse_float=Decimal)
        if not isinstance(row, dict):
            raise TypeError("a row must be a JSON object")
        return [row.get(name) if name in self._features else self._cell(name, row.get(name)) for name in self._names]

    def _cell(self, name: str, field: Any) -> Any:
        """Return a field as other readers of JSON do: decimals exactly, and booleans as text where text is agreed."""
        if isinstance(field, Decimal):
            return float(field) if self._keeps else decimal_text(field)  # kept values are cast by nobody
        return str(field).lower() if isinstance(field, bool) and name in self._texts else field

    def _typed(self, columns: list[list[Any]]) -> pa.RecordBatch:
        arrays = [
            # given the type, it would truncate fractions
            lenient_column(column, lists=self._features[name]) if name in self._features else pa.array(column)
            for name, column in zip(self._names, columns, strict=True)
        ]
        texts = [column.cast(pa.string()) if pa.types.is_null(column.type) else column for column in arrays]
        return self._shaped(pa.RecordBatch.from_arrays(texts, names=self._names))

    def _shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = {name: column_of(batch, name) for name in self._names}
        if batch.num_rows == 1:
            columns = {name: single_value(column) for name, column in columns.items()}
        for column in columns.values():
            column.validate(full=True)  # anyone may have sent it, and Arrow's kernels do not check their input
        columns = {name: plain(column) for name, column in columns.items()}
        if self._time not in self._intake.agreement.names:
            times = columns[self._time]
            columns[self._time] = (times_of_text(times) if is_text_type(times.type) else times).cast(_TIME)
        # without the message's own schema, which might state that it was cast already
        cast = self._intake.cast(pa.RecordBatch.from_pydict(columns))
        if cast.num_rows < batch.num_rows:
            agreed = [missing(column) for name, column in columns.items() if name != self._time]
            beats = int(np.logical_and.reduce(agreed).sum()) if agreed else 0  # which have nothing but a time
            self._blank += batch.num_rows - cast.num_rows - beats
        return cast

    def _split(self, batch: pa.RecordBatch, watermark: int) -> tuple[pa.RecordBatch, pa.RecordBatch, pa.RecordBatch]:
        """Return the rows that are on time, late, and too far ahead."""
        none, column = batch.slice(0, 0), batch.column(self._time)
        if watermark != self._judged:
            self._clock.newest = None if watermark <= MIN_TIMESTAMP.micros else watermark + self._clock.delay
            self._judged, self._on_time = watermark, self._clock.on_time()
        ends, (low, high) = pc.min_max(column), self._on_time
        if not ends["min"].is_valid:
            return batch, none, none
        multiply, divide = _MICROS[column.type.unit]
        if low <= ends["min"].value * multiply // divide and ends["max"].value * multiply // divide < high:
            return batch, none, none  # nearly always
        timed = column.is_valid()
        late, ahead = self._clock.judge(micros_of(pc.fill_null(column, ends["min"]), self._time))
        late, ahead = (pc.and_(pa.array(flags), timed) for flags in (late, ahead))
        return batch.filter(pc.invert(pc.or_(late, ahead))), batch.filter(late), batch.filter(ahead)

    def _add(self, name: str, count: int) -> None:
        if self._count:
            Metrics.counter(METRICS, name).inc(count)


def plain_types(agreement: Agreement, time: str) -> pa.Schema | None:
    """Return the JSON types of columns, or None if some may not be text or integers, such as features.

    Times are numbers here, and agreed values are integers. Rows with other types are read one by one.
    """
    kinds = {name: {"text": pa.string(), "integer": pa.int64()}.get(kind) for name, kind in _types(agreement).items()}
    kinds |= {} if agreement.value is None else {agreement.value: pa.int64()}
    kinds[time] = pa.int64()
    return None if agreement.features is not None or None in kinds.values() else pa.schema(kinds)


def read_plain(messages: Sequence[bytes], types: pa.Schema) -> pa.RecordBatch | None:
    """Return the rows of messages of JSON lines, or None unless all are plain objects of these types.

    A row counts as plain if Arrow's parser and Python's agree about it, whatever the other rows hold. Arrow's parser
    reads object by object, not line by line. So each line must begin with its only opening brace, and end with a
    closing one. Then no object continues in the next line. If there are as many objects as lines, each line is one
    object.
    """
    data = b"\n".join(messages)
    rows = data.count(b"\n") + 1
    lines = data.startswith(b"{") and data.endswith(b"}") and data.count(b"}\n{") == rows - 1 == data.count(b"{") - 1
    if not lines or any(odd in data for odd in _ODD) or _longest(data) > _LONGEST_LINE:
        return None
    try:
        data.decode()
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(explicit_schema=types, unexpected_field_behavior="ignore"),
        )
    except (UnicodeDecodeError, pa.ArrowException):
        return None
    if table.num_rows != rows:
        return None
    return table.combine_chunks().to_batches()[0]


def _longest(data: bytes) -> int:
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    return int(np.diff(ends, prepend=-1, append=len(data)).max())
