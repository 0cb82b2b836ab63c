"""Messages of a topic as rows, in JSON or Arrow; each row is checked by itself, and malformed ones are set aside."""

import base64
import json
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.casts import Rows
from streamsketch.core.concealed import concealed
from streamsketch.core.files import open_secret, write_all
from streamsketch.core.limits import current_limits
from streamsketch.core.numbers import Ints
from streamsketch.data.arrow_messages import message_batches, most_unpacked, unpacked_size
from streamsketch.errors import InvalidInputError
from streamsketch.intake.columns import add_readable, single_value, with_row
from streamsketch.intake.files import RowReader
from streamsketch.intake.framing import heartbeat, is_heartbeat, json_rows
from streamsketch.intake.lines import BadLines, Lines
from streamsketch.jobs.decoders import Decoder

Format: TypeAlias = Literal["arrow", "json"]
Add: TypeAlias = Callable[[pa.RecordBatch, int | Rows], Any]

_TOGETHER = 1 << 16  # rows that are added at once
_BYTES = 1 << 26  # or their bytes, once they are unpacked
_MESSAGES = "the messages"
_LINE = re.compile(rf"^line [\d,]+ of {_MESSAGES}")
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
        self.path, self._known = path, size
        self.rows = 0
        """How many rows could not be read, apart from those of messages that could not be decoded."""
        self.messages = self.undecodable = 0
        """How many messages with content were read, and how many of them could not be decoded at all."""

    def __enter__(self) -> Self:
        if self.path is not None:
            self._file = open_secret(self.path)
            if self._file.tell() > self._known:
                self._file.truncate(self._known)
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
        return self._known if self.path is None else os.fstat(self._file.fileno()).st_size

    def take(self, partition: int, message: Message, why: str) -> None:
        """Keep a message with rows that cannot be read."""
        if self.path is None:
            return
        content = base64.b64encode(message.content).decode()
        line = {"partition": partition, "offset": message.offset, "why": why, "message": content}
        write_all(self._file, json.dumps(line).encode() + b"\n")


@concealed
class _Part(NamedTuple):
    """Rows of a message that were decoded together, and how many rows of the message were before them."""

    rows: pa.RecordBatch
    message: Message
    before: int


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

    def __init__(self, agreement: Agreement, time: str, form: Format | Decoder, malformed: Malformed) -> None:
        self._reader, self._form, self._malformed = RowReader(agreement, time), form, malformed
        self._names, self._time = self._reader.columns, time

    def add(self, partition: int, messages: Iterable[Message], add: Add) -> None:
        """Pass rows to ``add``, in batches, with their numbers among those read together, and heartbeats as rows.

        What is kept of a malformed row names its place in its message.

        A row for which ``add`` raises is left out, and its message set aside. It must raise before it changes anything.
        So is a message without content that has a key: it deletes something, and is no heartbeat.

        An OSError or a MemoryError of ``add`` does not make a row malformed. It is raised.
        """
        run: list[Message] = []
        for message in messages:
            if not message.is_beat:
                self._malformed.messages += 1
            if message.content:
                run.append(message)
                continue
            if not message.is_beat:
                self._refuse_whole(partition, message, "a message with a key and no content has no row")
                continue
            self._add_rows(partition, run, add)
            run = []
            try:
                add(heartbeat(self._names, self._time, message.timestamp), 1)
            except InvalidInputError as error:  # too far ahead
                self._refuse(partition, message, str(error))
        self._add_rows(partition, run, add)

    def _add_rows(self, partition: int, messages: Sequence[Message], add: Add) -> None:
        if messages:
            (self._add_json if self._form == "json" else self._add_batches)(partition, messages, add)

    def _refuse_whole(self, partition: int, message: Message, why: str) -> None:
        self._malformed.undecodable += 1
        self._malformed.take(partition, message, why)

    def _refuse(self, partition: int, message: Message, why: str, *, again: bool = False) -> None:
        self._malformed.rows += 1
        if not again:
            self._malformed.take(partition, message, why)

    # --- batches --------------------------------------------------------------------------------------------

    def _add_batches(self, partition: int, messages: Sequence[Message], add: Add) -> None:
        waiting: list[_Part] = []
        rows = size = 0
        for message in messages:
            if size + len(message.content) > _BYTES:  # before the next is unpacked
                self._add_together(partition, waiting, add)
                waiting, rows, size = [], 0, 0
            try:
                batches = list(self._decoded(message.content))
            except _ANY as error:
                if callable(self._form):
                    _raise_if_of_the_machine(error)
                self._refuse_whole(partition, message, _why(error))
                continue
            before = 0
            for batch in batches:
                if waiting and (batch.schema != waiting[0].rows.schema or rows + batch.num_rows > _TOGETHER):
                    self._add_together(partition, waiting, add)
                    waiting, rows, size = [], 0, 0
                waiting.append(_Part(batch, message, before))
                before += batch.num_rows
                rows += batch.num_rows
                size += unpacked_size(batch)
            if size > _BYTES:
                self._add_together(partition, waiting, add)
                waiting, rows, size = [], 0, 0
        self._add_together(partition, waiting, add)

    def _decoded(self, content: bytes) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a message; raise unless each is there once."""
        batches: Iterable[pa.RecordBatch]
        if callable(self._form):
            batches = [self._form(content)]
            schema = batches[0].schema
        else:
            schema, batches = message_batches(content, most_unpacked(len(content), current_limits().max_bytes))
        for name in self._names:
            if schema.names.count(name) != 1:
                raise InvalidInputError(f"there is no column {name!r}, or more than one")
        for batch in batches:
            yield batch.select(self._names).replace_schema_metadata(None)

    def _add_together(self, partition: int, waiting: Sequence["_Part"], add: Add) -> None:
        if not waiting:
            return
        try:
            joined = waiting[0].rows if len(waiting) == 1 else pa.concat_batches([part.rows for part in waiting])
        except _ANY:  # such as dictionaries with invalid codes
            for one in waiting:
                self._add_together(partition, [one], add)
            return
        ends = np.cumsum([part.rows.num_rows for part in waiting])
        refused = -1

        def read(rows: pa.RecordBatch, places: Ints) -> None:
            add(_checked(rows), places + 1)

        def drop(place: int, error: Exception) -> None:
            nonlocal refused
            _raise_if_of_the_machine(error)
            at = int(np.searchsorted(ends, place, "right"))
            part, message = waiting[at], waiting[at].message
            row = part.before + place - int(ends[at]) + part.rows.num_rows + 1  # of the message
            self._refuse(partition, message, with_row(_why(error), row), again=message.offset == refused)
            refused = message.offset

        try:
            add_readable(read, joined, drop, _ANY)
        except _ANY as error:  # in every row, as a column of another type is
            _raise_if_of_the_machine(error)
            for message in dict.fromkeys(part.message for part in waiting):
                self._refuse_whole(partition, message, _why(error))

    # --- JSON -----------------------------------------------------------------------------------------------

    def _add_json(self, partition: int, messages: Sequence[Message], add: Add) -> None:
        lines, offsets = list[bytes](), list[int]()
        for place, message in enumerate(messages):
            found = json_rows(message.content)
            if not found:
                self._refuse_whole(partition, message, "a message of white space has no row")
            lines += found
            offsets += [place] * len(found)
        refused = -1

        def drop(reason: str) -> None:
            nonlocal refused
            line = rows.position[0]
            place = offsets[line - 1]
            row = line - bisect_left(offsets, place)  # of the message
            why = with_row(_LINE.sub(f"line {row:,} of the message", reason), row)
            self._refuse(partition, messages[place], why, again=place == refused)
            refused = place

        if not lines:
            return
        reader = RowReader(self._reader.agreement, self._time, bad=_BadRows(drop))
        rows: Lines = reader.lines(_MESSAGES, "jsonl")
        rows.read(b"\n".join(lines) + b"\n", add)


class _BadRows(BadLines):
    """Leaves out rows of JSON that cannot be read, and reports why."""

    def __init__(self, drop: Callable[[str], None]) -> None:
        super().__init__("skip")
        self._drop = drop

    def take(self, line: bytes, reason: str, header: bytes = b"") -> None:  # noqa: ARG002 - as `BadLines`
        self._drop(reason)


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
