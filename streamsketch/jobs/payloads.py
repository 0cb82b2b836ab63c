"""Messages of a topic as rows, in JSON or Arrow; each row is checked by itself, and malformed ones are set aside."""

import base64
import json
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.concealed import concealed
from streamsketch.core.files import open_secret, write_all
from streamsketch.core.limits import current_limits
from streamsketch.core.numbers import Ints
from streamsketch.data.arrow_messages import message_batches, most_unpacked, unpacked_size
from streamsketch.data.readers.json_lines import json_batch
from streamsketch.data.readers.rows import LONGEST_ROW
from streamsketch.errors import InvalidInputError
from streamsketch.intake.columns import add_readable, single_value, with_row
from streamsketch.intake.files import RowReader
from streamsketch.intake.framing import are_rows, heartbeat, is_heartbeat, json_rows
from streamsketch.jobs.decoders import Decoder
from streamsketch.streams.open_windows import ReadRows

Format: TypeAlias = Literal["arrow", "json"]
Add: TypeAlias = Callable[..., Any]
"""Called with rows and their numbers, and with what another process read of them (`ReadRows`), if one did."""

_TOGETHER = 1 << 16  # rows that are added at once
_BYTES = 1 << 26  # or their bytes, once they are unpacked
_LEAST, _CHUNK = 1 << 14, 1 << 22  # bytes of messages that another process decodes at once
_MESSAGE = "the message"
_LINE = re.compile(rf"^line [\d,]+ of {_MESSAGE}")
_ANY = Exception
"""What reading a row may raise: libraries raise many types, and one not caught would stop the stream."""


@concealed
class Message(NamedTuple):
    """A message of one partition: its offset, its timestamp in milliseconds after 1970, its content, and its key."""

    offset: int
    timestamp: int
    content: bytes
    key: bytes | None = None

    @property
    def is_beat(self) -> bool:
        """Whether it is a heartbeat, which has neither content nor a key, and so no one's data."""
        return is_heartbeat(self.key, self.content)


class Malformed:
    """Messages with rows that cannot be read, which are counted and, with a path, kept in a file.

    Each line of the file is a JSON object with partition, offset, the reason and the message in base64. The file is as
    secret as the data, and only its owner can read it.

    Parameters
    ----------
    path
        The file to append to; None to count only.
    size
        Size of the file, in bytes, when the state was saved. What follows is removed, because it is written again.
    """

    def __init__(self, path: Path | None, size: int = 0) -> None:
        self.path, self._saved_size = path, size
        self.rows = 0
        """How many rows could not be read, apart from those of messages that could not be decoded."""
        self.messages = self.undecodable = 0
        """How many messages with content were read, and how many of them could not be decoded at all."""

    def __enter__(self) -> Self:
        if self.path is not None:
            self._file = open_secret(self.path)
            if self._file.tell() > self._saved_size:
                self._file.truncate(self._saved_size)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path is not None:
            is_empty = not self.size
            self._file.close()
            if is_empty:
                self.path.unlink(missing_ok=True)

    @property
    def size(self) -> int:
        """Size of the file, in bytes."""
        return self._saved_size if self.path is None else os.fstat(self._file.fileno()).st_size

    def take(self, partition: int, message: Message, why: str) -> None:
        """Keep a message with rows that cannot be read."""
        if self.path is None:
            return
        content = base64.b64encode(message.content).decode()
        line = {"partition": partition, "offset": message.offset, "why": why, "message": content}
        write_all(self._file, json.dumps(line).encode() + b"\n")


@concealed
class Refused(NamedTuple):
    """A message of some that were read together which cannot be decoded: its place among them, and why."""

    place: int
    why: str


@concealed
class DecodedRows(NamedTuple):
    """Rows of some messages that were read together.

    Parameters
    ----------
    batch
        The rows that could be decoded: n of them.
    numbers
        Their numbers among all rows of these messages, from 1 on: int64, (n,), or None if these are all rows.
    places
        Which message each of all rows is from, ascending: int32, (m,).
    before
        How many rows of the first message were before these.
    reasons
        Why rows could not be decoded, by their numbers.
    is_valid
        Whether the contents of all columns are known to be valid.
    """

    batch: pa.RecordBatch
    numbers: Ints | None
    places: NDArray[np.int32]
    before: int
    reasons: dict[int, str]
    is_valid: bool

    @property
    def decoded_numbers(self) -> Ints:
        """The numbers of the rows that could be decoded: int64, (n,)."""
        return np.arange(1, self.batch.num_rows + 1) if self.numbers is None else self.numbers

    def row(self, number: int) -> int:
        """Return the place in its message of the row with a number, from 1 on."""
        place = self.places[number - 1]
        first = int(np.searchsorted(self.places, place))
        return number - first + (self.before if first == 0 else 0)


class MessageDecoder:
    """Decode the rows of messages; it depends on nothing that was read before.

    Parameters
    ----------
    agreement, time, form
        As of `Payloads`.
    """

    def __init__(self, agreement: Agreement, time: str, form: Format | Decoder) -> None:
        reader = RowReader(agreement, time)
        self.names, self.form = reader.columns, form
        """The columns that are read, and what the messages are."""
        options = reader.options
        self._batch_of = partial(
            json_batch,
            columns=options["columns"],
            text=options["text"],
            any_text=options["any_text"],
            lenient=options["lenient"],
        )

    def decode(self, contents: Sequence[bytes]) -> Iterator[Refused | DecodedRows]:
        """Yield the rows of messages with content, in order, and those that cannot be decoded."""
        yield from self._from_json(contents) if self.form == "json" else self._from_batches(contents)

    # --- batches --------------------------------------------------------------------------------------------

    def _from_batches(self, contents: Sequence[bytes]) -> Iterator[Refused | DecodedRows]:
        waiting: list[_Part] = []
        rows = size = 0
        for place, content in enumerate(contents):
            if size + len(content) > _BYTES:  # before the next is unpacked
                yield from _joined(waiting)
                waiting, rows, size = [], 0, 0
            try:
                batches = list(self._unpacked(content))
            except _ANY as error:
                if callable(self.form):
                    _raise_if_of_the_machine(error)
                yield Refused(place, _why(error))
                continue
            before = 0
            for batch in batches:
                if waiting and (batch.schema != waiting[0].rows.schema or rows + batch.num_rows > _TOGETHER):
                    yield from _joined(waiting)
                    waiting, rows, size = [], 0, 0
                waiting.append(_Part(batch, place, before))
                before += batch.num_rows
                rows += batch.num_rows
                size += unpacked_size(batch)
            if size > _BYTES:
                yield from _joined(waiting)
                waiting, rows, size = [], 0, 0
        yield from _joined(waiting)

    def _unpacked(self, content: bytes) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a message; raise unless each is there once."""
        batches: Iterable[pa.RecordBatch]
        if callable(self.form):
            batches = [self.form(content)]
            schema = batches[0].schema
        else:
            schema, batches = message_batches(content, most_unpacked(len(content), current_limits().max_bytes))
        for name in self.names:
            if schema.names.count(name) != 1:
                raise InvalidInputError(f"there is no column {name!r}, or more than one")
        for batch in batches:
            yield batch.select(self.names).replace_schema_metadata(None)

    # --- JSON -----------------------------------------------------------------------------------------------

    def _from_json(self, contents: Sequence[bytes]) -> Iterator[Refused | DecodedRows]:
        if are_rows(contents) and sum(map(len, contents)) <= LONGEST_ROW:
            yield self._rows(list(contents), np.arange(len(contents), dtype=np.int32), 0)
            return
        lines, places = list[bytes](), list[int]()
        for place, content in enumerate(contents):
            rows = json_rows(content)
            if not rows:
                yield Refused(place, "a message of white space has no row")
            lines += rows
            places += [place] * len(rows)
        start = size = 0
        for stop, line in enumerate([*lines[1:], None], 1):
            size += len(lines[stop - 1]) if lines else 0
            if lines and (line is None or size + len(line) > LONGEST_ROW):
                before = start - bisect_left(places, places[start])
                yield self._rows(lines[start:stop], np.array(places[start:stop], dtype=np.int32), before)
                start, size = stop, 0

    def _rows(self, lines: list[bytes], places: NDArray[np.int32], before: int) -> DecodedRows:
        reasons = {
            number: f"line {number} of {_MESSAGE} is longer than {LONGEST_ROW:,} bytes, the limit"
            for number, line in enumerate(lines if len(lines) == 1 else [], 1)  # one that is longer is alone
            if len(line) > LONGEST_ROW
        }
        if reasons:  # one alone
            lines = []
        batch = self._batch_of(lines, _MESSAGE, first=1, on_bad=reasons.__setitem__)
        numbers = None
        if reasons:
            numbers = np.delete(np.arange(1, places.size + 1), np.array([*reasons]) - 1)
        return DecodedRows(batch, numbers, places, before, reasons, is_valid=True)


class Asked(Protocol):
    """Messages that another process decodes."""

    @property
    def is_answered(self) -> bool:
        """Whether it is known what is decoded."""

    def result(self) -> "Steps | None":
        """Wait for what is decoded; None if this process has to do that itself."""


Steps: TypeAlias = Iterable[tuple[Refused | DecodedRows, ReadRows | None]]
"""What was decoded of messages, in order, each with what was read of its rows."""


class Ahead(Protocol):
    """Other processes that decode messages and read their rows (`Readers`)."""

    @property
    def is_alive(self) -> bool:
        """Whether one of them still runs."""

    def submit(self, contents: Sequence[bytes]) -> Asked:
        """Let one of them decode messages."""

    def help(self) -> bool:
        """Decode in this process what none of them has begun; return whether there was something."""


Begun: TypeAlias = list[tuple[Sequence[Message], Asked | None]]
"""Messages with content, and what decodes them, or one message without content."""


class Payloads:
    """Add the rows of messages to a stream, in order.

    Parameters
    ----------
    agreement
        The columns of the messages; others are ignored.
    time
        Column of times.
    form
        ``"arrow"``: a message is an Arrow IPC stream. ``"json"``: a message is a JSON object, or one per line. Or a
        function that returns the rows of a message (`Decoder`). If it raises, the message cannot be decoded; but an
        OSError, as of a registry that does not answer, is raised.
    malformed
        Keeps messages that cannot be read.
    ahead
        Other processes that decode and read messages before they are added; by default, this process alone does.

    Examples
    --------
    >>> from streamsketch import SJLT, Agreement
    >>> agreement = Agreement.of(SJLT(sketch_dim=64, sparsity=4, seed=7), index="item")
    >>> malformed = Malformed(None)
    >>> messages = [Message(0, 0, b'{"item": "tea", "at": "2026-11-22T00:10:00Z"}'), Message(1, 0, b"tea")]
    >>> found = []
    >>> payloads = Payloads(agreement, "at", "json", malformed)
    >>> payloads.add(0, messages, lambda rows, _: found.append(rows.num_rows))
    >>> found, malformed.rows, malformed.undecodable
    ([1], 1, 0)
    """

    def __init__(
        self, agreement: Agreement, time: str, form: Format | Decoder, malformed: Malformed, ahead: Ahead | None = None
    ) -> None:
        self._decoder, self._time, self._malformed = MessageDecoder(agreement, time, form), time, malformed
        self._ahead = ahead

    @property
    def is_ahead(self) -> bool:
        """Whether other processes decode messages."""
        return self._ahead is not None and self._ahead.is_alive

    def add(self, partition: int, messages: Iterable[Message], add: Add) -> None:
        """Pass rows to ``add``, in batches, with their numbers among those read together, and heartbeats as rows.

        What is kept of a malformed row names its place in its message. A row for which ``add`` raises is left out, and
        its message set aside. It must raise before it changes anything. So is a message without content that has a key:
        it deletes something, and is no heartbeat.

        An OSError or a MemoryError of ``add`` does not make a row malformed. It is raised.
        """
        self.finish(partition, self.begin(messages), add)

    def begin(self, messages: Iterable[Message]) -> Begun:
        """Let other processes decode messages, if there are any, and return what `finish` adds."""
        begun: Begun = []
        run: list[Message] = []
        for message in messages:
            if message.content:
                run.append(message)
                continue
            begun += self._chunks(run)
            begun.append(([message], None))
            run = []
        return begun + self._chunks(run)

    def _chunks(self, run: list[Message]) -> Begun:
        if not self.is_ahead or self._ahead is None:
            return [(run, None)] if run else []
        chunks: Begun = []
        start = size = 0
        for stop, message in enumerate(run, 1):
            size += len(message.content)
            if stop == len(run) or size >= _CHUNK:
                part = run[start:stop]
                asked = self._ahead.submit([message.content for message in part]) if size >= _LEAST else None
                chunks.append((part, asked))
                start, size = stop, 0
        return chunks

    def finish(self, partition: int, begun: Begun, add: Add) -> None:
        """Add what was begun, in order; as `add`."""
        for messages, asked in begun:
            if not messages[0].content:
                self._add_empty(partition, messages[0], add)
                continue
            self._malformed.messages += len(messages)
            while self._ahead is not None and asked is not None and not asked.is_answered and self._ahead.help():
                pass
            steps = None if asked is None else asked.result()
            if steps is None:
                contents = [message.content for message in messages]
                steps = ((step, None) for step in self._decoder.decode(contents))
            for step, read in steps:
                if isinstance(step, Refused):
                    self._refuse_whole(partition, messages[step.place], step.why)
                else:
                    self._add_rows(partition, messages, step, read, add)

    def _add_empty(self, partition: int, message: Message, add: Add) -> None:
        if not message.is_beat:
            self._malformed.messages += 1
            self._refuse_whole(partition, message, "a message with a key and no content has no row")
            return
        try:
            add(heartbeat(self._decoder.names, self._time, message.timestamp), 1)
        except InvalidInputError as error:  # too far ahead
            self._refuse(partition, message, str(error))

    def _refuse_whole(self, partition: int, message: Message, why: str) -> None:
        self._malformed.undecodable += 1
        self._malformed.take(partition, message, why)

    def _refuse(self, partition: int, message: Message, why: str, *, again: bool = False) -> None:
        self._malformed.rows += 1
        if not again:
            self._malformed.take(partition, message, why)

    def _add_rows(
        self, partition: int, messages: Sequence[Message], rows: DecodedRows, read: ReadRows | None, add: Add
    ) -> None:
        reasons = dict(rows.reasons)
        numbers = rows.decoded_numbers

        def read_rows(batch: pa.RecordBatch, places: Ints) -> None:
            valid = batch if rows.is_valid else _checked(batch)
            if read is not None and batch is rows.batch:
                add(valid, numbers, read=read)
            else:
                add(valid, numbers[places])

        def refuse(place: int, error: Exception) -> None:
            _raise_if_of_the_machine(error)
            reasons[int(numbers[place])] = _why(error)

        try:
            if rows.batch.num_rows:
                add_readable(read_rows, rows.batch, refuse, InvalidInputError if self._decoder.form == "json" else _ANY)
        except _ANY as error:  # in every row, as a column of another type is
            if self._decoder.form == "json":
                raise
            _raise_if_of_the_machine(error)
            for place in np.unique(rows.places).tolist():
                self._refuse_whole(partition, messages[place], _why(error))
            return
        refused = -1
        for number in sorted(reasons):
            place, row = int(rows.places[number - 1]), rows.row(number)
            why = with_row(_LINE.sub(f"line {row:,} of {_MESSAGE}", reasons[number]), row)
            self._refuse(partition, messages[place], why, again=place == refused)
            refused = place


@concealed
class _Part(NamedTuple):
    """Rows of a message that were decoded together, the message's place, and how many of its rows were before them."""

    rows: pa.RecordBatch
    place: int
    before: int


def _joined(waiting: Sequence[_Part]) -> Iterator[DecodedRows]:
    """Yield decoded batches as one, or one by one if they cannot be joined, as with invalid codes of dictionaries."""
    if not waiting:
        return
    try:
        batch = waiting[0].rows if len(waiting) == 1 else pa.concat_batches([part.rows for part in waiting])
    except _ANY:
        for part in waiting:
            yield from _joined([part])
        return
    try:
        batch.validate(full=True)
        is_valid = True
    except _ANY:
        is_valid = False
    each = np.array([part.place for part in waiting], dtype=np.int32)
    places = np.repeat(each, [part.rows.num_rows for part in waiting])
    yield DecodedRows(batch, None, places, waiting[0].before, {}, is_valid)


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch after a check of its contents: anyone may have sent it, and Arrow's kernels check nothing."""
    if batch.num_rows == 1:
        batch = pa.RecordBatch.from_pydict({name: single_value(batch.column(name)) for name in batch.schema.names})
    batch.validate(full=True)
    return batch


def _raise_if_of_the_machine(error: Exception) -> None:
    """Raise an error of the machine, such as a full disk, which does not mean that a row is malformed."""
    if isinstance(error, OSError | MemoryError):
        raise error


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, InvalidInputError) else type(error).__name__
