"""A log by an agreement and a job: each window is released once, and the same command continues from a state."""

import json
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

import streamsketch as ss
from streamsketch.cli._inputs import STDIN, Format, Snapshots, Stop
from streamsketch.cli._saying import say
from streamsketch.cli._showing import plural, progress_bar, show_json
from streamsketch.cli._sketching import tell_bad_lines
from streamsketch.core.files import exclusive, remove_partial, write_whole
from streamsketch.data.readers.formats import format_of
from streamsketch.intake.files import RowReader
from streamsketch.intake.lines import BadLines, LineFormat
from streamsketch.intake.log import Log
from streamsketch.intake.messages import Messages
from streamsketch.intake.rotation import LostLogError
from streamsketch.once.charges import LedgerCharge
from streamsketch.once.counts import MAX_DROPPED, RowCounts
from streamsketch.once.dead_letters import DeadLetters
from streamsketch.once.rows import OtherRowsError
from streamsketch.once.sinks import Sink, sink_in
from streamsketch.streams.job import Job
from streamsketch.streams.policy import StreamPolicy
from streamsketch.streams.state import STREAM_SUFFIX
from streamsketch.streams.stream import Stream


@dataclass(frozen=True)
class UnboundedLog:
    """The options of `stream file` and `stream pipe` for a log that is released window by window."""

    inputs: list[str]
    output: Path
    agreement: Path
    job: Path
    form: Format | None
    delimiter: str
    bad_lines: str
    every: float
    summary: Path | None
    follow: bool
    accept_loss: bool
    messages: bool
    dead_letters: Path | None
    encoding: str | None = None
    decimal: str = "."

    def run(self, *, as_json: bool) -> None:
        """Read the log until it ends, or forever; write the state and releases."""
        agreement, job = ss.Agreement.load(self.agreement), Job.load(self.job)
        policy = StreamPolicy(agreement, job)
        policy.publisher()  # to find mistakes before anything is written
        form, charge = self._checked(), charge_of(job, agreement)
        dead_letters = dead_letters_in(self.dead_letters, job)
        # where units do not move the clock, no line of theirs ends the stream either
        mode = "skip" if job.clock == "heartbeats" and self.bad_lines == "stop" else self.bad_lines
        bad_lines = BadLines(mode, append=True)
        with ExitStack() as stack:
            descriptor = sys.stdin.fileno()
            if self.inputs != [STDIN]:
                descriptor = stack.enter_context(Path(self.inputs[0]).open("rb", buffering=0)).fileno()
            if self.follow and not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ss.InvalidInputError(f"{self._name} is a pipe, which is read until it ends: leave out --follow")
            sink = stack.enter_context(slots_of(job))
            stack.enter_context(exclusive(self.output))
            bad = stack.enter_context(bad_lines)
            written: dict[str, Any] = {"delimiter": self.delimiter, "encoding": self.encoding, "decimal": self.decimal}
            reader = RowReader(agreement, time=policy.time, bad=bad, **written)
            stream = Stream(agreement, job, self.output, charge, sink=sink, dead_letters=dead_letters)
            with Stop() as stop:
                try:
                    complaints = _Complaints(job.max_dropped, self.every)
                    with self._opened(descriptor, reader, form, stream.position) as log:
                        stream.require(log.conditions)
                        self._read(stream, log, bad, stop, complaints)
                except ss.StreamsketchError as error:
                    raise self._with_remedy(error) from None
                number = stop.number
        tell_bad_lines(bad)
        if job.clock == "heartbeats" and (dropped := stream.windows.counts.bounding.rows_malformed):
            say(f"{plural(dropped, 'malformed row')} dropped since the stream began")
        if stream.is_finished:
            say("All windows of the agreement are released. To continue, begin a new state and a new folder")
        facts = f"{plural(stream.events, 'event')}, {plural(stream.released, 'window')} released into {job.folder}"
        if number is not None:
            say(f"Stopped: {self.output}, secret: {facts}. The same command continues.")
            raise typer.Exit(128 + number)
        if as_json:
            fields: dict[str, Any] = {"file": str(self.output), "secret": True, "events": stream.events}
            fields |= {"windows": stream.released, "folder": job.folder, "bad_lines": stream.bad_lines}
            show_json(fields | {"agreement": agreement.fingerprint})
        else:
            say(f"{self.output}, secret: {facts}. Agreement {agreement.fingerprint}.")

    def _with_remedy(self, error: ss.StreamsketchError) -> ss.StreamsketchError:
        if isinstance(error, OtherRowsError):
            return error  # from which nothing goes on
        remedy = f"{self.output} holds what was read before, and continues from there"
        if isinstance(error, LostLogError) and (self.messages or self.inputs != [STDIN]):
            remedy += ". If the rest is lost, --accept-loss continues with what is there"
        return ss.InvalidInputError(f"{error}. {remedy}")

    def _opened(
        self, descriptor: int, reader: RowReader, form: LineFormat, position: dict[str, Any] | None
    ) -> AbstractContextManager[Log | Messages]:
        lost = (lambda text: say(f"warning: {text}")) if self.accept_loss else None
        if position is not None and self.messages != ("next" in position):
            raise ss.InvalidInputError(
                f"{self.output} holds a position in {'lines' if self.messages else 'messages'}: "
                f"{'leave out' if self.messages else 'give'} --messages"
            )
        if self.messages:
            return nullcontext(Messages(descriptor, reader, self._name, position, on_loss=lost))
        path = None if self.inputs == [STDIN] else Path(self.inputs[0])
        return Log(descriptor, reader, form, self._name, position, path=path, on_loss=lost)

    def _read(self, stream: Stream, log: Log | Messages, bad: BadLines, stop: Stop, complaints: "_Complaints") -> None:
        snapshots, bad_before = Snapshots(self.every), stream.bad_lines
        complaints.begin(stream.row_counts)

        def snapshot() -> None:
            stream.bad_lines = bad_before + bad.count
            position = log.position
            if position is None:  # no message has come yet
                snapshots.taken()
                return
            for alarm in stream.save(position):
                name = stream.sink.name(alarm.slot)
                say(f"warning: {name} was there already, of another state, and stays; this state releases none for it")
            if self.summary is not None:
                remove_partial(self.summary)
                summary = stream.summary
                if self.messages:
                    summary |= {"last_offset": position["next"] - 1, "offsets_missing": position["missing"]}
                write_whole(self.summary, json.dumps(summary, indent=2).encode() + b"\n", secret=True)
            complaints.look(stream.row_counts)
            snapshots.taken()

        with progress_bar() as progress:
            task = progress.add_task("sketching", total=None, events=stream.events)
            options: dict[str, Any] = {} if isinstance(log, Messages) else {"follow": self.follow}
            for piece in () if stream.is_finished else log.pieces(**options, stop=stop, wait=snapshots.wait):
                log.read(piece, stream.add)
                progress.update(task, events=stream.events)
                if stream.windows.is_over or not snapshots.wait():
                    snapshot()
                    if stream.is_finished:  # nothing that would come is waited for
                        break
        snapshot()  # not after an error, which may have left a piece half read
        complaints.look(stream.row_counts, last=True)

    @property
    def _name(self) -> str:
        return "standard input" if self.inputs == [STDIN] else self.inputs[0]

    def _checked(self) -> LineFormat:
        """Return the format, after a check that the options fit together."""
        if not 0 < self.every < float("inf"):
            raise ss.InvalidInputError(f"--every must be a number of seconds > 0, got {self.every:g}")
        if self.inputs == [STDIN] and sys.stdin is None:
            raise ss.InvalidInputError("standard input (-) is closed; there is nothing to read")
        if self.messages and (self.inputs != [STDIN] or self.form not in (None, "jsonl")):
            raise ss.InvalidInputError("--messages are read from standard input (-), and their payloads are JSON")
        form = (
            self.form
            or ("jsonl" if self.messages else "")
            or ("" if self.inputs == [STDIN] else format_of(Path(self.inputs[0]).suffix))
        )
        if form not in ("csv", "jsonl"):
            raise ss.InvalidInputError(
                f"state what {self._name} is: --format csv, with a header line, or --format jsonl, not compressed"
            )
        if self.output.suffix != STREAM_SUFFIX or not self.output.parent.is_dir():
            raise ss.InvalidInputError(
                f"the state of a stream is written to a file named *{STREAM_SUFFIX} in an existing folder, got "
                f"{self.output}"
            )
        if self.summary is not None and (self.summary.suffix != ".json" or not self.summary.parent.is_dir()):
            raise ss.InvalidInputError(f"a summary is written to a file named *.json, got {self.summary}")
        return form


@contextmanager
def slots_of(job: Job, database: str | None = None) -> Iterator[Sink | None]:
    """Yield the open sink of a job's stream; None for files of windows, if the stream has no name."""
    if job.stream is None:
        if database is not None:
            raise ss.InvalidInputError('--database goes with a job that names its stream: set "stream": "NAME"')
        Path(job.folder).mkdir(parents=True, exist_ok=True)
        yield None
        return
    try:
        with sink_in(database or job.folder) as sink:
            yield sink
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise ModuleNotFoundError("object stores need obstore (the extra `objects` of streamsketch)") from None


def charge_of(job: Job, agreement: ss.Agreement) -> Any:
    """Return the object that charges each window to the job's ledger, if it has one, and the data set."""
    if job.ledger is None:
        return None
    if not Path(job.ledger).is_file():
        raise ss.InvalidInputError(f"there is no ledger {job.ledger}; make it, and enter the data set's budget")
    ledger = ss.Ledger(job.ledger)
    ledger.left(job.dataset or "")

    return LedgerCharge(ledger, job.dataset, agreement.projection)


def dead_letters_in(folder: Path | None, job: Job) -> DeadLetters | None:
    """Return the object that keeps dead letters in a folder, if there is one; refuse a folder that is published."""
    if folder is not None and folder.resolve().is_relative_to(Path(job.folder).resolve()):
        raise ss.InvalidInputError(
            f"dead letters are secret, and {folder} lies where releases are published: name another folder"
        )
    return None if folder is None else DeadLetters(folder)


class _Complaints:
    """Warns on standard error if more rows are dropped than a job allows, at most once in a number of seconds."""

    def __init__(self, most: float | None, every: float) -> None:
        self._most, self._every = MAX_DROPPED if most is None else most, every

    def begin(self, counts: RowCounts) -> None:
        """Count from here."""
        self._before, self._at = counts, time.monotonic()

    def look(self, counts: RowCounts, *, last: bool = False) -> None:
        """Print what is wrong with rows that were read since the last check, if that was long ago."""
        seconds = time.monotonic() - self._at
        if last or seconds >= self._every:
            words = f"read in {seconds:.0f} s" if seconds >= 1 else "read"
            for sentence in counts.since(self._before).complaints(self._most, words):
                say(f"warning: {sentence}")
            self.begin(counts)
