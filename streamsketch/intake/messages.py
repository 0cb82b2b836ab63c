"""Read the messages of one partition of a Kafka topic from a pipe, and resume by their offsets."""

import json
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

from streamsketch.core.documents import Json
from streamsketch.data.readers.rows import LONGEST_ROW
from streamsketch.errors import InvalidInputError
from streamsketch.intake.files import RowReader
from streamsketch.intake.framing import heartbeat, is_heartbeat, json_rows
from streamsketch.intake.lines import Add, Stop, pipe_blocks
from streamsketch.intake.rotation import LostLogError, digest

_LARGEST = 1 << 62
_PLACE = re.compile(
    rb'\s*{\s*"topic"\s*:\s*"([\w.-]*)"\s*,\s*"partition"\s*:\s*(\d{1,18})\s*,\s*"offset"\s*:\s*(\d{1,18})\s*,'
)  # where kcat has them


class Messages:
    r"""Messages of one partition of a topic, as `kcat -J` prints them: lines of JSON, each with a JSON row as payload.

    Lines have the fields ``topic``, ``partition``, ``offset`` and ``payload``. A payload is one row, which may be
    printed over several lines. A message without payload and ``key`` is a heartbeat (`is_heartbeat`) at its ``ts``, in
    milliseconds since 1970; without a ``ts`` it says nothing. One with a key and no payload has no row, and counts as
    bad. So does a message that is too long. It is left out up to its newline.

    Offsets ascend. `position` holds the next offset. A later pipe may begin at any offset up to it: what was read
    before is skipped, and the first and last messages are compared if the pipe delivers them again. Offsets within a
    pipe may be missing, as in transactions and compacted topics; they are counted.

    Parameters
    ----------
    source
        A pipe or file open for reading, or its file descriptor.
    reader
        The `RowReader` that reads the rows.
    name
        Name of the pipe in error messages.
    position
        The `position` of an earlier `Messages`, to resume from.
    on_loss
        A function that is called with a message if the pipe begins after the next offset; reading goes on. Without a
        function, this is an error.
    longest
        Bytes of the longest line that is read.

    Raises
    ------
    InvalidInputError
        If the position is not valid.

    Examples
    --------
    >>> from streamsketch import Agreement, CountSketch, Sketch
    >>> agreement = Agreement(CountSketch(sketch_dim=64, seed=7), index="item")
    >>> path, sketch = getfixture("tmp_path") / "messages", Sketch(agreement)
    >>> line = '{"topic": "sales", "partition": 0, "offset": 41, "payload": "{\\"item\\": \\"milk\\"}"}\n'
    >>> _ = path.write_text(line)
    >>> with path.open("rb") as pipe:
    ...     messages = Messages(pipe, RowReader(agreement))
    ...     for piece in messages.pieces():
    ...         messages.read(piece, lambda batch, first: sketch.update_rows(batch))
    >>> sketch.mass, messages.position["next"]
    (1, 42)
    """

    def __init__(
        self,
        source: BinaryIO | int,
        reader: RowReader,
        name: str = "the pipe",
        position: Json | None = None,
        *,
        on_loss: Callable[[str], None] | None = None,
        longest: int = LONGEST_ROW,
    ) -> None:
        if position is not None and not _is_position(position):
            raise InvalidInputError(
                "the saved position does not record up to which offset messages were read; restore the state from a "
                "backup"
            )
        self._descriptor = source if isinstance(source, int) else source.fileno()
        self._name, self._on_loss, self._longest = name, on_loss, longest
        reader.check_utf8(name)
        self.conditions: tuple[str, ...] = ()
        """As `Log.conditions`: none, since payloads are JSON."""
        self._columns, self._time = reader.columns, reader.time
        self._lines = reader.lines(name, "jsonl")
        self._at = dict(position) if position is not None else None
        self._lines.go_on(1 if position is None else position["line"], b"")
        self._before = -1  # the last offset in this pipe

    @property
    def position(self) -> Json | None:
        """How far the topic was read, as a dictionary that JSON can hold; None if nothing was read. Secret."""
        return None if self._at is None else self._at | {"line": self._lines.position[0]}

    def pieces(self, *, stop: Stop | None = None, wait: Callable[[], float | None] = lambda: None) -> Iterator[bytes]:
        """Yield the rows of messages as they arrive, for `read`; empty bytes after ``wait()`` seconds without messages.

        Parameters
        ----------
        stop
            A request to stop, which ends the reading.
        wait
            A function that returns how many seconds to wait for messages, or None to wait for ever.

        Raises
        ------
        LostLogError
            If the pipe begins after the next offset.
        InvalidInputError
            If the pipe delivers another topic or partition, offsets that do not ascend, or messages that differ from
            those that were read before, or if it ends before the next offset.
        """
        rest = left_out = b""
        for block in pipe_blocks(self._descriptor, stop, wait):
            if block is None:
                yield b""
                continue
            *whole, rest = (rest + block).split(b"\n")
            if left_out and whole:
                whole[0], left_out = left_out, b""
            if left_out or len(rest) > self._longest:
                left_out, rest = left_out or rest[: self._longest + 1], b""
            rows: list[bytes] = []
            for line in filter(None, whole):
                row = self._row(line)
                if isinstance(row, _Beat):
                    yield from _together(rows)
                    yield row
                    rows = []
                elif row is not None:
                    rows.append(row)
            yield from _together(rows)
            if not block and self._at is not None and 0 <= self._before < self._at["next"] - 1:
                raise InvalidInputError(
                    f"{self._name} ended at offset {self._before:,}, but messages up to {self._at['next'] - 1:,} were "
                    "read before; pass the same partition"
                )

    def read(self, piece: bytes, add: Add) -> None:
        """Pass the rows of a piece to ``add`` in batches, without bad lines, as in `RowReader.read`."""
        if not isinstance(piece, _Beat):
            self._lines.read(piece, add)
            return
        try:
            add(heartbeat(self._columns, piece.time, piece.millis), self._lines.position[0])
        except InvalidInputError as error:  # too far ahead
            self._lines.refuse(piece, f"a heartbeat of {self._name}: {error}")

    def _row(self, line: bytes) -> "bytes | _Beat | None":
        """Return the row of a message that was not read before; None if there is none."""
        if len(line) > self._longest:
            self._leave_out(line[: self._longest + 1])
            return None
        try:
            message = json.loads(line)
            topic, partition, offset, payload = (message[name] for name in ("topic", "partition", "offset", "payload"))
            key, millis = message.get("key"), message.get("ts")
            numbers = all(_is_number(number) and number < _LARGEST for number in (partition, offset))
            if not (isinstance(topic, str) and numbers and isinstance(payload, str | None)):
                raise ValueError  # noqa: TRY301 - as what json raises
        except (ValueError, KeyError, TypeError, RecursionError):
            why = (
                f"{self._name} has a line that is not a message as printed by kcat -J, with topic, partition and offset"
            )
            self._lines.refuse(line, why)
            return None
        content = "" if payload is None else payload
        if not self._is_new(topic, partition, offset, digest(content.encode(errors="surrogatepass"))):
            return None
        if is_heartbeat(key, payload):
            return None if self._time is None or not _is_number(millis) else _Beat.at(self._time, millis)
        rows = json_rows(content.encode(errors="surrogatepass"))
        if len(rows) != 1:
            what = "a message with a key and no payload" if not payload else "a payload that is not one row of JSON"
            self._lines.refuse(line, f"{self._name} has {what}")
            return None
        return rows[0]

    def _leave_out(self, start: bytes) -> None:
        """Count a message that is too long, unless it was read before."""
        place = _PLACE.match(start)
        if place and not self._is_new(place[1].decode(), int(place[2]), int(place[3]), digest(start)):
            return
        self._lines.refuse(start, f"{self._name} has a message longer than {self._longest:,} bytes, the limit")

    def _is_new(self, topic: str, partition: int, offset: int, content: str) -> bool:
        """Return whether a message was not read before, and note that it is read."""
        begins = self._before < 0
        if not begins and offset <= self._before:
            raise InvalidInputError(
                f"{self._name} has offset {offset:,} after {self._before:,}; pass one partition in its order, with "
                f"kcat -p {partition}"
            )
        at = self._at
        if at is None:
            at = {"topic": topic, "partition": partition, "first": [offset, content], "missing": 0, "next": offset}
        if (topic, partition) != (at["topic"], at["partition"]):
            raise InvalidInputError(
                f"{self._name} has messages of partition {partition} of {topic!a:.80}, but earlier ones were of "
                f"partition {at['partition']} of {at['topic']!a:.80}; pass only that partition, or begin a new state"
            )
        if begins and offset < at["first"][0]:
            raise InvalidInputError(
                f"{self._name} begins at offset {offset:,}, but reading began at {at['first'][0]:,}. Begin there; for "
                "another topic of this name, or to begin earlier, begin a new state and a new folder"
            )
        for past_offset, past_content in (at["first"], at.get("last", at["first"])):
            if offset == past_offset and content != past_content:
                raise InvalidInputError(
                    f"the message of {self._name} at offset {offset:,} differs from the one read before; pass the "
                    "same topic, or begin a new state and a new folder"
                )
        gap: int = offset - at["next"]
        if begins and gap > 0:
            self._lose(offset, at["next"])
        self._before = offset
        if gap >= 0:
            self._at = at | {"next": offset + 1, "last": [offset, content], "missing": at["missing"] + gap}
        return gap >= 0

    def _lose(self, offset: int, expected: int) -> None:
        why = f"{self._name} begins at offset {offset:,}, but messages were read only up to {expected - 1:,}"
        if self._on_loss is None:
            raise LostLogError(f"{why}; begin at {expected - 1:,} or before, with kcat -o {expected - 1}")
        self._on_loss(f"{why}; the messages in between are lost")


class _Beat(bytes):
    """A piece that is a heartbeat."""

    time: str
    millis: int

    @classmethod
    def at(cls, time: str, millis: int) -> "_Beat":
        """Return a heartbeat at a time, in milliseconds since 1970, in the column of times."""
        beat = cls(b"{}")
        beat.time, beat.millis = time, millis
        return beat


def _together(rows: list[bytes]) -> Iterator[bytes]:
    if rows:
        yield b"\n".join(rows) + b"\n"


def _is_position(position: Json) -> bool:
    """Return whether a position is one that `Messages.position` gave."""
    numbers, ends = ("partition", "missing", "next", "line"), ("first", "last")
    return (
        isinstance(position.get("topic"), str)
        and all(_is_number(position.get(name)) for name in numbers)
        and all(isinstance(position.get(name), list) and len(position[name]) == 2 for name in ends)
        and all(_is_number(position[name][0]) and isinstance(position[name][1], str) for name in ends)
    )


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST
