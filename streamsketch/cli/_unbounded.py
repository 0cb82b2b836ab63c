"""A log by an agreement and a job: each window is released once, and the same command continues from a state."""

import dataclasses
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import typer

import streamsketch as ss
from streamsketch.cli._inputs import Snapshots, Stop
from streamsketch.cli._saying import say
from streamsketch.cli._showing import plural, progress_bar, show_json
from streamsketch.cli._sketching import tell_bad_lines
from streamsketch.cli._stream_dry_run import show_dry_run
from streamsketch.core.files import exclusive, remove_partial, write_whole
from streamsketch.data.readers.delimited import check_delimiter
from streamsketch.data.readers.formats import format_of
from streamsketch.intake.daily import DailyFiles, is_pattern
from streamsketch.intake.files import RowReader
from streamsketch.intake.lines import BadLines, LineFormat
from streamsketch.intake.log import Log
from streamsketch.intake.messages import Messages
from streamsketch.intake.rotation import LostLogError
from streamsketch.once.charges import LedgerCharge
from streamsketch.once.counts import RowCounts, RowLimits
from streamsketch.once.dead_letters import DeadLetters
from streamsketch.once.reasons import REASONS, reason_of
from streamsketch.once.sinks import Sink, sink_in
from streamsketch.once.waiting import Waiting, waiting_for
from streamsketch.streams.dry_run import DryStream
from streamsketch.streams.job import Job
from streamsketch.streams.policy import StreamPolicy
from streamsketch.streams.stream import Stream

_BRIEF = 0.05  # seconds


@dataclass(frozen=True, kw_only=True)
class UnboundedLog:
    """How `stream file` and `stream pipe` are called, for a log that is released window by window.

    Parameters
    ----------
    log
        The file of the log; None for standard input.
    agreement
        What is published.
    job
        How it is run.
    state
        The file of the state.
    """

    log: Path | None
    agreement: ss.Agreement
    job: Job
    state: Path

    def try_out(self, *, as_json: bool) -> None:
        """Read what is there without a state, and show what would be dropped."""
        agreement, job = self.agreement, dataclasses.replace(self.job, follow=False)
        form, stream = self._checked(), DryStream(agreement, job)
        with ExitStack() as stack:
            descriptor = self._descriptor(stack)
            bad, stop = stack.enter_context(BadLines("skip")), stack.enter_context(Stop())
            log = stack.enter_context(self._opened(descriptor, self._reader(stream.policy, bad), form, None))
            for piece in log.pieces(stop=stop):
                log.read(piece, stream.add)
                stream.save({})
            stream.bad_lines, number = bad.count, stop.number
        tell_bad_lines(bad)
        if bad.count and job.clock == "events" and job.bad_lines in (None, "stop"):
            say('warning: `streamsketch stream` ends at a bad line: correct them, or set "bad_lines" in the job')
        show_dry_run(stream, stream.row_counts, self._name, as_json=as_json)
        if number is not None:
            raise typer.Exit(128 + number)

    def _descriptor(self, stack: ExitStack) -> int:
        """Return the descriptor of the log, which the stack closes; -1 of several files, which are opened in turn."""
        if self._is_of_files:
            return -1
        if self.log is None:
            return sys.stdin.fileno()
        return stack.enter_context(self.log.open("rb", buffering=0)).fileno()

    def _reader(self, policy: StreamPolicy, bad: BadLines) -> RowReader:
        """Return what reads the rows of the log."""
        job = self.job
        return RowReader(
            self.agreement,
            time=policy.time,
            bad=bad,
            delimiter=check_delimiter(job.delimiter or ","),
            encoding=job.encoding,
            decimal=job.decimal or ".",
            thousands=job.thousands,
            null_values=job.missing_cells,
        )

    def run(self, *, as_json: bool) -> None:
        """Read the log until it ends, or forever; write the state and releases."""
        agreement, job = self.agreement, self.job
        policy = StreamPolicy(agreement, job)
        policy.publisher()  # to find mistakes before anything is written
        waiting = Waiting()
        form, charge = self._checked(), charge_of(job, agreement, waiting)
        dead_letters = dead_letters_in(job)
        # where units do not move the clock, no line of theirs ends the stream either
        mode = job.bad_lines or "stop"
        bad_lines = BadLines("skip" if job.clock == "heartbeats" and mode == "stop" else mode, append=True)
        with ExitStack() as stack:
            descriptor = self._descriptor(stack)
            if job.follow and descriptor >= 0 and not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ss.InvalidInputError(
                    f"{self._name} is a pipe, which is read until it ends: leave out follow in the job"
                )
            sink = stack.enter_context(slots_of(job, waiting))
            stack.enter_context(exclusive(self.state))
            bad = stack.enter_context(bad_lines)
            reader = self._reader(policy, bad)
            stream = Stream(agreement, job, self.state, charge, sink=sink, dead_letters=dead_letters)
            with Stop() as stop:
                waiting.stop = stop.is_set
                try:
                    complaints = _Complaints(job.limits, job.every)
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
            say(f"Stopped: {self.state}, secret: {facts}. The same command continues.")
            raise typer.Exit(128 + number)
        if as_json:
            fields: dict[str, Any] = {"file": str(self.state), "secret": True, "events": stream.events}
            fields |= {"windows": stream.released, "folder": job.folder, "bad_lines": stream.bad_lines}
            show_json(fields | {"agreement": agreement.fingerprint})
        else:
            say(f"{self.state}, secret: {facts}. Agreement {agreement.fingerprint}.")

    def _with_remedy(self, error: ss.StreamsketchError) -> ss.StreamsketchError:
        if not REASONS[reason_of(error)].continues:
            return error  # from which nothing goes on
        remedy = f"{self.state} holds what was read before, and continues from there"
        if isinstance(error, LostLogError) and (self._of_messages or self.log is not None):
            remedy += ". If the rest is lost, --set accept_loss=yes continues with what is there"
        return ss.InvalidInputError(f"{error}. {remedy}")

    def _opened(
        self, descriptor: int, reader: RowReader, form: LineFormat, position: dict[str, Any] | None
    ) -> AbstractContextManager[Log | Messages | DailyFiles]:
        lost = (lambda text: say(f"warning: {text}")) if self.job.accept_loss else None
        if position is not None and self._of_messages != ("next" in position):
            was, now = ("lines", "leave out") if self._of_messages else ("messages", "set")
            raise ss.InvalidInputError(f'{self.state} holds a position in {was}: {now} "format": "messages" in the job')
        if self._of_messages:
            return nullcontext(Messages(descriptor, reader, self._name, position, on_loss=lost))
        if position is not None and "files" in position and not self._is_of_files:
            raise ss.InvalidInputError(
                f"{self.state} holds a position in several files, and {self._name} is one: pass the pattern of their "
                "names"
            )
        if self._is_of_files and self.log is not None:

            def log_of(file: BinaryIO, name: str, place: dict[str, Any] | None) -> Log:
                return Log(file, reader, form, name, place)

            return DailyFiles(self.log, log_of, position, on_loss=lost)
        return Log(descriptor, reader, form, self._name, position, path=self.log, on_loss=lost)

    def _read(
        self, stream: Stream, log: Log | Messages | DailyFiles, bad: BadLines, stop: Stop, complaints: "_Complaints"
    ) -> None:
        snapshots, bad_before = Snapshots(self.job.every), stream.bad_lines
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
            if self.job.summary is not None:
                summary = stream.summary
                if self._of_messages:
                    summary |= {"last_offset": position["next"] - 1, "offsets_missing": position["missing"]}
                write_summary(self.job.summary, summary)
            complaints.look(stream.row_counts)
            snapshots.taken()

        wait = partial(_wait, stream, snapshots)
        with progress_bar() as progress:
            task = progress.add_task("sketching", total=None, events=stream.events)
            if isinstance(log, Messages):
                pieces = log.pieces(stop=stop, wait=wait)
            else:
                pieces = log.pieces(follow=self.job.follow, stop=stop, wait=wait)
            for piece in () if stream.is_finished else pieces:
                log.read(piece, stream.add)
                progress.update(task, events=stream.events)
                if not wait():
                    snapshot()
                    if stream.is_finished:  # nothing that would come is waited for
                        break
        snapshot()  # not after an error, which may have left a piece half read
        complaints.look(stream.row_counts, last=True)

    @property
    def _name(self) -> str:
        return "standard input" if self.log is None else str(self.log)

    @property
    def _is_of_files(self) -> bool:
        return self.log is not None and is_pattern(self.log)

    @property
    def _of_messages(self) -> bool:
        return self.job.format == "messages"

    def _checked(self) -> LineFormat:
        """Return the format, after a check that the log is of one that can be read line by line."""
        if self.log is None and sys.stdin is None:
            raise ss.InvalidInputError("standard input (-) is closed; there is nothing to read")
        if self._of_messages:
            if self.log is not None:
                raise ss.InvalidInputError(
                    f"messages are read from standard input, by `streamsketch stream pipe`; what is {self.log}? Set "
                    '"format" of the job to csv or jsonl'
                )
            return "jsonl"  # their payloads
        form = self.job.format or ("" if self.log is None else format_of(self.log.suffix))
        if form not in ("csv", "jsonl"):
            raise ss.InvalidInputError(
                f'state what {self._name} is, by "format" in the job: csv, with a header line, or jsonl, not '
                "compressed (--set format=csv)"
            )
        return form


def write_summary(path: str, summary: dict[str, Any]) -> None:
    """Write the counts of rows for the operator, all of them or nothing."""
    remove_partial(Path(path))
    write_whole(Path(path), json.dumps(summary, indent=2).encode() + b"\n", secret=True)


@contextmanager
def slots_of(job: Job, waiting: Waiting | None = None) -> Iterator[Sink | None]:
    """Yield the open sink of a job's stream, which waits; None for files of windows, if the stream has no name."""
    if job.stream is None:
        if job.database is not None:
            raise ss.InvalidInputError('a database goes with a job that names its stream: set "stream": "NAME"')
        Path(job.folder).mkdir(parents=True, exist_ok=True)
        yield None
        return
    try:
        with waiting_for(sink_in(job.database or job.folder), waiting or Waiting()) as sink:
            yield sink
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise ModuleNotFoundError("object stores need obstore (the extra `objects` of streamsketch)") from None


def charge_of(job: Job, agreement: ss.Agreement, waiting: Waiting) -> Any:
    """Return the object that charges each window to the job's ledger, if it has one, and the data set."""
    if job.ledger is None:
        return None
    if "://" not in job.ledger and not Path(job.ledger).is_file():
        raise ss.InvalidInputError(f"there is no ledger {job.ledger}; make it, and enter the data set's budget")
    ledger = ss.Ledger(job.ledger)
    ledger.left(job.dataset or "")

    def until(attempt: Callable[[], Any]) -> Any:
        return waiting.until("ledger", attempt)

    return LedgerCharge(ledger, job.dataset, agreement.projection, until)


def dead_letters_in(job: Job) -> DeadLetters | None:
    """Return the object that keeps the dead letters of a job, if it has a folder; refuse one that is published."""
    folder = None if job.dead_letters is None else Path(job.dead_letters)
    if folder is not None and folder.resolve().is_relative_to(Path(job.folder).resolve()):
        raise ss.InvalidInputError(
            f"dead letters are secret, and {folder} lies where releases are published: name another folder"
        )
    return None if folder is None else DeadLetters(folder)


def _wait(stream: Stream, snapshots: Snapshots) -> float:
    """Return the seconds until the next snapshot: 0 once what a window that is over needs is computed."""
    if stream.windows.is_over:
        return 0.0 if stream.prepare(_BRIEF) else _BRIEF
    return snapshots.wait()


class _Complaints:
    """Warns on standard error if more rows are dropped than a job allows, at most once in a number of seconds."""

    def __init__(self, limits: RowLimits, every: float) -> None:
        self._limits, self._every = limits, every

    def begin(self, counts: RowCounts) -> None:
        """Count from here."""
        self._before, self._at = counts, time.monotonic()

    def look(self, counts: RowCounts, *, last: bool = False) -> None:
        """Print what is wrong with rows that were read since the last check, if that was long ago."""
        seconds = time.monotonic() - self._at
        if last or seconds >= self._every:
            words = f"read in {seconds:.0f} s" if seconds >= 1 else "read"
            for sentence in counts.since(self._before).complaints(self._limits, words).values():
                say(f"warning: {sentence}")
            self.begin(counts)
