"""A topic released by an agreement and a job on one machine, with rows and offsets saved together."""

import contextlib
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from streamsketch.core.documents import Json
from streamsketch.core.files import write_whole
from streamsketch.errors import InvalidInputError, with_reason
from streamsketch.intake.framing import idle_after as idle_condition
from streamsketch.intake.lines import Stop
from streamsketch.intake.rotation import LostLogError, digest
from streamsketch.jobs.brokers import TopicError, UnreachableError
from streamsketch.jobs.decoders import Decoder
from streamsketch.jobs.logs import causes_of
from streamsketch.jobs.partitions import Bounds, Log, LostOffsetsError
from streamsketch.jobs.payloads import Begun, Format, Malformed, Message, Payloads
from streamsketch.once.counts import RowAlarms, RowCounts
from streamsketch.once.logs import log_event
from streamsketch.once.reasons import public_text, reason_of
from streamsketch.streams.dry_run import DryStream
from streamsketch.streams.stream import Stream

_LOG = logging.getLogger(__name__)
_POLL = 0.1  # seconds
_POLLS = 16  # of one step, if other processes decode messages
_BEGUN = 4  # partitions' messages that they may have, and their bytes
_BYTES = 1 << 25
_SOONEST = 1.0  # seconds between two saves
_LOOK = 10.0  # seconds between looks at partitions and their ends
_SILENT = 60.0  # seconds after which a clock that stands still is logged
_LARGEST = 10**129  # Kinesis allows for sequence numbers of 129 digits
_NEW = "begin a new state and a new folder, with a start after what was released"


class TopicStream:
    """Release each window of a topic once, from all of its partitions.

    Partitions are assigned, not shared in a group. Each is read in order, and its own clock decides which of its rows
    are late, so without ``idle_after`` the content of a window is a function of the partitions' logs. The state holds
    the next offset of each partition beside the sums and is saved in one transaction. If the process is killed at any
    point, a later one continues from there and publishes the same bytes. Offsets are committed to Kafka afterwards, for
    monitors only.

    A partition that is added to the topic is read from its beginning. A window is released only after the partitions
    were listed once more after its end.

    Parameters
    ----------
    stream
        A ``strict`` stream; the caller holds its state.
    log
        The partitions. They never end; `ShardStream` reads those that do.
    topic
        Name of the topic.
    payloads, malformed
        What reads messages, and what keeps those that cannot be read.
    accept_loss
        Whether to continue if the topic no longer holds offsets that were not read yet.
    idle_after
        Seconds after which a partition that was read to its end, and whose clock stands still, no longer holds windows
        back; None for never. Which rows are late then depends on when the partitions were read, not on the logs alone.
        One unit's rows may keep a partition from its end, so the guarantee states a condition
        (`streamsketch.intake.framing.idle_after`).
    counts
        Folder of counts of rows read and dropped, for `DroppedRows`; None to write none.
    clock
        Function that returns the time in seconds; for tests.

    Raises
    ------
    InvalidInputError
        If the state belongs to another log or topic.
    LostLogError
        If offsets are lost and ``accept_loss`` is False.
    TopicError
        If the brokers do not answer, or the topic is compacted.
    """

    def __init__(  # noqa: PLR0913 - keyword-only where there are many
        self,
        stream: Stream,
        log: Log,
        topic: str,
        payloads: Payloads,
        malformed: Malformed,
        *,
        accept_loss: bool = False,
        idle_after: float | None = None,
        counts: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stream, self._log, self._topic = stream, log, topic
        self._payloads, self._malformed, self._accept_loss = payloads, malformed, accept_loss
        self._idle_after, self._clock, self._silent = idle_after, clock, set[int]()
        self._alarms = RowAlarms(stream.policy.job.limits)
        self._bad_before, self._missing = stream.bad_lines, 0
        self._counts, self._counted, self._complains = counts, self.row_counts, frozenset[str]()
        self._closed = stream.windows.next
        self._next, self._bounds = dict[int, int](), dict[int, Bounds]()
        self._last, self._checking = dict[int, tuple[int, str]](), set[int]()
        self._marks, self._heard = dict[int, int | None](), dict[int, float]()
        self._looked, self._saved, self._asked = clock(), -_SOONEST, -_SOONEST
        self._unreachable: str | None = None
        self._identity = log.identity
        if idle_after is not None:
            stream.require([idle_condition(idle_after)])
        if log.is_compacted:
            text = (
                f"the topic {topic} is compacted: brokers remove all but the newest record of each key, also before it "
                "is read. Set cleanup.policy=delete, or read another topic"
            )
            raise with_reason(TopicError(text), "compacted")
        is_new = stream.position is None
        if stream.position is not None:
            self._restore(stream.position)
        self._look(is_new=is_new)
        self._assign()
        self._save()  # with the secrets, before anything is read

    def _restore(self, position: Mapping[str, Any]) -> None:
        if not _is_position(position):
            text = f"the state has no offsets of a topic, so it belongs to another log; pass its own state, or {_NEW}"
            raise with_reason(InvalidInputError(text), "other_topic")
        for what, ours, held in (("topic", self._topic, position["topic"]), ("id", self._identity, position["id"])):
            if None not in (ours, held) and ours != held:
                text = (
                    f"the state belongs to a topic with the {what} {held}, but this topic has {ours}; read that "
                    f"topic, or {_NEW}"
                )
                raise with_reason(InvalidInputError(text), "other_topic")
        self._next = {int(number): offset for number, offset in position["partitions"].items()}
        self._missing = position["missing"]
        last = position.get("last", {})  # which states of earlier versions lack
        self._last = {int(number): (int(offset), str(digest)) for number, (offset, digest) in last.items()}

    # --- partitions -----------------------------------------------------------------------------------------

    def source(self, partition: int) -> str:
        """Return the name that a partition has in the stream."""
        return f"{self._topic}/{partition}"

    @property
    def offsets(self) -> dict[int, int]:
        """The next offset of each partition."""
        return dict(self._next)

    @property
    def lag(self) -> int:
        """How many offsets were unread when the partitions were last listed."""
        return sum(max(0, bounds.end - self._next[number]) for number, bounds in self._bounds.items())

    @property
    def behind(self) -> str:
        """How far the reading was behind, in words."""
        return f"{self.lag:,} message{'' if self.lag == 1 else 's'} behind"

    def _look(self, *, is_new: bool = False) -> bool:
        """List the partitions; return whether some have to be assigned again."""
        bounds = {number: Bounds(*offsets) for number, offsets in self._log.bounds().items()}
        self._looked = self._clock()
        if gone := sorted(self._next.keys() - bounds.keys()):
            text = f"partitions {_listed(gone)} of {self._topic} are gone, so it is another topic"
            raise with_reason(TopicError(f"{text}; read the topic of the state, or {_NEW}"), "other_topic")
        self._bounds = bounds
        moved = False
        for number, (first, end, _) in sorted(bounds.items()):
            expected = self._next.get(number)
            if expected is None:
                if not is_new:
                    self._tell(logging.WARNING, "partition_added", f"partition {number} was added", partition=number)
                expected = self._next[number] = first if is_new else 0
                moved = True
            if expected < first:
                self._lose(number, expected, first)
                moved = True
            elif expected > end:
                text = (
                    f"partition {number} of {self._topic} ends at offset {end:,}, but {expected:,} is to be read "
                    f"next, so records were removed at its end, or it is another topic; {_NEW}"
                )
                raise with_reason(TopicError(text), "truncated")
            self._heard.setdefault(number, self._looked)
        self.stream.add_sources(map(self.source, sorted(bounds)))
        return moved

    def _lose(self, number: int, expected: int, first: int) -> None:
        why = (
            f"partition {number} of {self._topic} begins at offset {first:,}, but {expected:,} is to be read next: "
            f"retention removed {first - expected:,} offsets before they were read"
        )
        self._note_loss(number, why, first - expected)
        self._next[number] = first

    def _note_loss(self, number: int, why: str, missing: int) -> None:
        """Count offsets that were removed before they were read; raise `LostLogError` unless the job accepts that."""
        if not self._accept_loss:
            raise LostLogError(f"{why}. Set accept_loss in the job to continue without them (--set accept_loss=yes)")
        self._tell(logging.WARNING, "lost", why, partition=number)
        self._missing += missing

    def _look_again(self) -> bool:
        """List the partitions while the stream runs; return whether the brokers answered."""
        try:
            if self._look():
                self._assign()
        except UnreachableError as error:
            self._tell_unreachable(str(error))
            return False
        self._tell_unreachable(None)
        return True

    # --- reading --------------------------------------------------------------------------------------------

    def run(
        self,
        stop: Stop,
        *,
        every: float,
        once: bool = False,
        on_save: Callable[[], None] = lambda: None,
        on_step: Callable[[], None] = lambda: None,
    ) -> None:
        """Read until stopped or until a schedule is finished; save after each window and at the end.

        Parameters
        ----------
        stop
            Ends the reading.
        every
            Seconds between two saves while no window ends.
        once
            Whether to stop once all partitions are read to their end.
        on_save, on_step
            Called after each save, and after each step.

        Raises
        ------
        StreamsketchError
            As in the class and in `Stream.save`. What was saved before stays.
        """
        while not (stop.is_set() or self.stream.is_finished):
            self.step(_POLL)
            due = min(every, _SOONEST) if self.stream.windows.is_over else every
            if self._clock() - self._saved >= due and self.stream.prepare(_POLL) and self.save():
                on_save()
            on_step()
            if once and self._log.ended().keys() == self._next.keys():
                break
        while not self.save() and not stop.is_set():  # nothing is released until partitions were looked up
            self.step(_POLL)
        on_save()

    def step(self, seconds: float) -> None:
        """Add the messages that arrive within so many seconds."""
        is_silent = True
        waiting: deque[tuple[int, list[Message], Begun]] = deque()
        try:
            for batch in self._polled(seconds):
                is_silent = False
                waiting.append(batch)
                if len(waiting) > _BEGUN:  # other processes read the next ones meanwhile
                    self._add(*waiting.popleft())
            self._add_all(waiting)
        except LostOffsetsError:
            self._add_all(waiting)
            if not self._look():
                raise
            self._assign()
        now = self._clock()
        ended = self._log.ended()
        for number, end in ended.items():
            self._next[number] = max(self._next[number], end)  # behind the last record there may be marks
        self._silence(ended, now)
        trouble = self._log.trouble()
        if trouble is not None and is_silent:
            self._tell_unreachable(trouble)
        if now - self._looked >= _LOOK:
            self._looked = now
            self._look_again()

    def _polled(self, seconds: float) -> Iterator[tuple[int, list[Message], Begun]]:
        """Yield the messages that arrive by partition, begun; with other processes as many as are there, to a limit."""
        size = 0
        for count in range(_POLLS if self._payloads.is_ahead else 1):
            polled = self._log.poll(0.0 if count else seconds)
            for number, messages in sorted(polled.items()):
                unread = self._unread(number, messages)
                yield number, unread, self._payloads.begin(unread)
                size += sum(len(message.content) for message in unread)
            if not polled or size >= _BYTES:
                return

    def _add_all(self, waiting: deque[tuple[int, list[Message], Begun]]) -> None:
        while waiting:
            self._add(*waiting.popleft())

    def _add(self, number: int, messages: list[Message], begun: Begun) -> None:
        """Add the messages of a partition, which were begun."""
        if not messages:
            return
        self._payloads.finish(number, begun, partial(self.stream.add, source=self.source(number)))
        self._next[number] = messages[-1].offset + 1
        self._last[number] = messages[-1].offset, _digest(messages[-1])

    def _unread(self, number: int, messages: list[Message]) -> list[Message]:
        """Return messages without the last one that was read before; raise `TopicError` unless it is the same one.

        It is read once more after each start and after each new assignment. So a log that lost its end, and grew again
        beyond it, is noticed.
        """
        last = self._last.get(number)
        if number not in self._checking or last is None:
            return messages
        self._checking.discard(number)
        offset, digest = last
        if messages[0].offset == offset and _digest(messages[0]) == digest:
            return messages[1:]
        if messages[0].offset > offset and self._bounds[number].first > offset:
            return messages  # retention removed it, after it was read
        text = (
            f"partition {number} of {self._topic} has another record at offset {offset:,} than the one that was read "
            f"there, so the end of its log was lost and replaced; {_NEW}"
        )
        raise with_reason(TopicError(text), "truncated")

    def _assign(self) -> None:
        """Read each partition from its next offset, with the last record that was read before, if it is there still."""
        self._checking = {number for number, (offset, _) in self._last.items() if offset >= self._bounds[number].first}
        starts = {
            number: self._last[number][0] if number in self._checking else at for number, at in self._next.items()
        }
        self._log.assign(starts)

    def _silence(self, ended: Collection[int], now: float) -> None:
        """Let windows end without idle partitions, and log which partitions windows wait for.

        A partition is idle by the time when its clock last moved, not by its records: if heartbeats move the clock, a
        row at its end must not make windows wait, because others would see that. Records that were not read yet do:
        a backlog, and those of an open transaction.
        """
        marks = self.stream.watermarks
        for number in self._next:
            mark = marks[self.source(number)]
            if mark != self._marks.get(number):
                self._marks[number], self._heard[number] = mark, now
        after = _SILENT if self._idle_after is None else self._idle_after
        quiet = {number for number in ended if now - self._heard[number] >= after}
        marks, idle = self.stream.watermarks, self.stream.idle
        waits, silent = quiet - self._silent, self._silent & quiet
        if self._idle_after is not None:
            # the newest holds nothing back: without it, no window would end in a pause of all
            newest = max((mark for mark in marks.values() if mark is not None), default=None)
            waits = {
                number for number in quiet if marks[self.source(number)] != newest and self.source(number) not in idle
            }
        # what is written there now decides, also what a transaction keeps back
        if waits and now - self._asked >= _SOONEST:
            self._asked = now
            if self._look_again():
                silent |= self._judge_silent(waits, after)
        self._silent = silent

    def _judge_silent(self, numbers: Collection[int], after: float) -> set[int]:
        """Let windows end without partitions that are at their end, if they may; return those they wait for, logged."""
        waiting = set()
        for number in sorted(numbers):
            behind = self._behind_transaction(number)
            if self._idle_after is not None and not behind:
                if self._next[number] >= self._bounds[number].end:
                    self.stream.set_idle(self.source(number))
                    self._tell(logging.INFO, "idle", "windows no longer wait for it", partition=number)
                continue
            waiting.add(number)
            if number not in self._silent:
                why, remedy = "its clock stood still", "Write heartbeats, or set idle_after in the job"
                if behind:
                    why = f"it is behind an open transaction of {behind:,} offsets, and its clock stood still"
                    remedy = "Its producer has to commit or abort it; heartbeats do not help"
                text = f"{why} for {after:.0f} s, and all windows wait for it. {remedy}"
                reason = "transaction_open" if behind else None
                self._tell(logging.WARNING, "silent", text, partition=number, reason=reason)
        return waiting

    def _behind_transaction(self, number: int) -> int:
        """Return how many offsets of a partition waited for a transaction when the partitions were listed last."""
        _, end, committed = self._bounds[number]
        return 0 if committed is None else end - committed

    # --- saving ---------------------------------------------------------------------------------------------

    def save(self) -> bool:
        """Save, and publish windows that are over; return False if that has to wait until the brokers answer."""
        if self.stream.windows.is_over and not self._look_again():
            return False
        self._save()
        return True

    def _save(self) -> None:
        stream, before = self.stream, self.stream.released
        stream.bad_lines = self._bad_before + self._malformed.rows + self._malformed.undecodable
        stream.save(self._position)  # which logs alarms of slots that hold other bytes
        self._count()
        if (count := stream.released - before) and stream.newest_released is not None:
            newest = stream.policy.windows.name(stream.newest_released)
            self._tell(logging.INFO, "released", None, windows=count, newest=newest)
        self._saved = self._clock()
        with contextlib.suppress(TopicError):  # the offsets are for monitors only
            self._log.commit(self._next)

    @property
    def row_counts(self) -> RowCounts:
        """How many rows and messages were read and dropped, each in its unit; messages since this process began."""
        bad = self._malformed
        stream = self.stream.row_counts
        unreadable = self._bad_before + bad.rows - self.stream.bad_lines  # which counts messages as well
        return stream._replace(
            read=stream.read + unreadable,
            malformed=stream.malformed + unreadable,
            messages=bad.messages,
            undecodable=bad.undecodable,
        )

    def _count(self, *, last: bool = False) -> None:
        """Log what is wrong with the rows since the last window that ended, and write the counts to a file."""
        rows, closed = self.row_counts, self.stream.windows.next - self._closed
        complaints = self._alarms.look(rows.since(self._counted), "since the last look", closed)
        for code in sorted(complaints.keys() - self._complains):
            self._tell(logging.WARNING, code, complaints[code])
        if closed or complaints or last:
            self._counted, self._closed = rows, self.stream.windows.next
            self._complains = frozenset(complaints)
        if self._counts is not None:
            self._counts.mkdir(parents=True, exist_ok=True)
            write_whole(self._counts / "consume.json", json.dumps(rows._asdict()).encode() + b"\n", secret=True)

    @property
    def _position(self) -> Json:
        return {
            "topic": self._topic,
            "id": self._identity,
            "partitions": {str(number): offset for number, offset in sorted(self._next.items())},
            "last": {str(number): [*last] for number, last in sorted(self._last.items())},
            "missing": self._missing,
            "malformed": self._malformed.size,
        }

    @property
    def summary(self) -> Json:
        """What was read and dropped, and up to which offset. Secret."""
        marks, idle = self.stream.watermarks, self.stream.idle
        partitions = {
            str(number): {
                "next": offset,
                "end": max(offset, self._bounds[number].end),
                "behind_transaction": self._behind_transaction(number),
                "watermark_micros": marks.get(self.source(number)),
                "idle": self.source(number) in idle,
            }
            for number, offset in sorted(self._next.items())
        }
        return self.stream.summary | {"offsets_missing": self._missing, "partitions": partitions}

    def _tell(self, level: int, event: str, text: str | None, **fields: Any) -> None:
        log_event(_LOG, level, event, **fields, text=text)

    def _tell_unreachable(self, why: str | None) -> None:
        if why is not None and self._unreachable is None:
            self._tell(logging.WARNING, "unreachable", f"{why}; trying again")
        if why is None and self._unreachable is not None:
            self._tell(logging.INFO, "reached", "the topic can be read again")
        self._unreachable = why


def dry_run(
    stream: DryStream, log: Log, topic: str, form: Format | Decoder, stop: Stop, kind: "type[TopicStream]" = TopicStream
) -> RowCounts:
    """Read what a topic holds into a strict stream that releases nothing, and return its counts of rows. Secret.

    Nothing is written, and no offsets are committed.

    Parameters
    ----------
    stream
        The stream.
    log, topic
        The partitions, and the name of the topic.
    form
        How messages are decoded, as by `Payloads`.
    stop
        Ends the reading.
    kind
        What reads the log.

    Raises
    ------
    TopicError
        If the brokers do not answer, or the topic is compacted.
    """
    bad, job = Malformed(None), stream.policy.job
    payloads = Payloads(stream.policy.agreement, stream.policy.time, form, bad)
    kept = cast("Log", _Uncommitted(log))
    read = kind(stream, kept, topic, payloads, bad, accept_loss=True, idle_after=job.idle_after)
    read.run(stop, every=job.every, once=True)
    return read.row_counts


class _Uncommitted:
    """A log whose offsets are not committed."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Do nothing."""


def log_end(*, stopped: bool, finished: bool) -> None:
    """Log that a command ended: by a signal, after a schedule's last window, or at the end of what was there."""
    log_event(_LOG, logging.INFO, "ended", state="STOPPED" if stopped else "FINISHED" if finished else "DONE")


def log_failure(error: Exception) -> None:
    """Log that a stream failed: the code of the reason, the names of the errors, and what is public of their text."""
    named = {"error": type(error).__name__, "cause": causes_of(error)}
    log_event(_LOG, logging.ERROR, "failed", reason=reason_of(error), **named, text=public_text(error))


def malformed_size(stream: Stream) -> int:
    """Return how many bytes of malformed messages were kept when the state was saved."""
    position = stream.position
    return 0 if position is None or not _is_position(position) else int(position["malformed"])


def _listed(numbers: Collection[int]) -> str:
    return ", ".join(map(str, numbers))


def _is_position(position: Mapping[str, Any]) -> bool:
    """Return whether a position is one of a `TopicStream`."""
    partitions = position.get("partitions")
    return (
        isinstance(position.get("topic"), str)
        and isinstance(position.get("id"), str | None)
        and all(_is_number(position.get(name)) for name in ("missing", "malformed"))
        and isinstance(partitions, dict)
        and all(name.isdecimal() and _is_number(offset) for name, offset in partitions.items())
        and isinstance(last := position.get("last", {}), dict)
        and all(name in partitions and _is_last(record) for name, record in last.items())
    )


def _is_last(value: Any) -> bool:
    """Return whether it is the offset and the digest of a record."""
    return isinstance(value, list) and len(value) == 2 and _is_number(value[0]) and isinstance(value[1], str)


def _digest(message: Message) -> str:
    """Return by what a record is recognised; it is in the state alone, which is secret."""
    key = b"-" if message.key is None else b"%d " % len(message.key) + message.key
    return digest(b"%d %b " % (message.timestamp, key) + message.content)


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST
