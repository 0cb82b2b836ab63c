"""A Kafka topic, or a data stream of Kinesis, that is released by an agreement and a job on one machine."""

import logging
import select
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

import streamsketch as ss
from streamsketch import jobs
from streamsketch.cli._inputs import Stop
from streamsketch.cli._jobs import decoder_of, extras, settings_in
from streamsketch.cli._saying import say
from streamsketch.cli._showing import plural, progress_bar, show_json
from streamsketch.cli._stream_dry_run import show_dry_run
from streamsketch.cli._unbounded import charge_of, dead_letters_in, slots_of, write_summary
from streamsketch.core.files import exclusive
from streamsketch.intake.files import RowReader
from streamsketch.jobs.logs import logs
from streamsketch.once.logs import log_event
from streamsketch.once.reasons import continued
from streamsketch.once.waiting import Waiting
from streamsketch.streams.dry_run import DryStream
from streamsketch.streams.job import Job
from streamsketch.streams.policy import StreamPolicy
from streamsketch.streams.stream import Stream

if TYPE_CHECKING:
    from streamsketch.core.documents import Json

_LOG = logging.getLogger(__name__)
_LOOK = 1.0  # seconds between two looks whether another process has ended


@dataclass(frozen=True, kw_only=True)
class KafkaTopic:
    """How ``streamsketch stream kafka`` is called.

    Parameters
    ----------
    agreement
        What is published.
    job
        How it is run.
    state
        The file of the state.
    once
        Whether to end once what is there is read.
    """

    agreement: ss.Agreement
    job: Job
    state: Path
    once: bool

    def try_out(self, *, as_json: bool) -> None:
        """Read what is there without a state, and show what would be dropped."""
        agreed, run_by = self.agreement, self.job
        stream = DryStream(agreed, run_by, strict=True)
        topic, form = self._connection
        with logs(run_by.log, topic=topic), ExitStack() as stack:
            log, kind = self._opened(stack)
            stop = stack.enter_context(Stop())
            counts = jobs.dry_run(stream, log, topic, form, stop, kind)
            number = stop.number
        show_dry_run(stream, counts, topic, as_json=as_json)
        if number is not None:
            raise typer.Exit(128 + number)

    @property
    def _connection(self) -> "tuple[str, Literal['arrow', 'json'] | jobs.Decoder]":
        """The topic, and what decodes its messages; mistakes in how it is reached are found here."""
        agreed, run_by = self.agreement, self.job
        run_by.need(("topic",) if self._is_kinesis else ("servers", "topic"), "`streamsketch stream kafka`")
        wrong = [
            name for name in ("servers", "token", "group") if self._is_kinesis and getattr(run_by, name) is not None
        ]
        if wrong:
            raise ss.InvalidInputError(
                f"the job has {', '.join(wrong)}, of Kafka's brokers, and its topic is a data stream of Kinesis, which "
                "needs none: credentials are those of the AWS tools"
            )
        with extras():
            settings_in(run_by)
            form = decoder_of(run_by, RowReader(agreed, StreamPolicy(agreed, run_by).time).columns)
            _ = jobs.Shards if self._is_kinesis else jobs.Partitions
        return str(run_by.topic), form

    @property
    def _is_kinesis(self) -> bool:
        """Whether the topic is an ARN; no name of a topic in Kafka has a colon."""
        return (self.job.topic or "").startswith("arn:")

    def _opened(self, stack: ExitStack) -> "tuple[jobs.Log, type[jobs.TopicStream]]":
        """Return the log, which the stack closes, and what reads it."""
        topic, run_by = str(self.job.topic), self.job
        if self._is_kinesis:
            shards = jobs.Shards(topic)
            stack.callback(shards.close)
            return shards, jobs.ShardStream
        brokers = jobs.Brokers(str(run_by.servers), settings_in(run_by))
        partitions = jobs.Partitions(brokers, topic, run_by.group or jobs.group_of(run_by.stream or topic))
        stack.callback(partitions.close)
        return partitions, jobs.TopicStream

    def _hold(self, stack: ExitStack) -> None:
        """Hold the state until the stack ends; as a standby, wait until no other process has it."""
        if not self.job.standby:
            stack.enter_context(exclusive(self.state))
            return
        is_waiting = False
        with Stop() as stop:

            def wait() -> bool:
                nonlocal is_waiting
                if not is_waiting:
                    is_waiting = True
                    text = "another process has the state; this one goes on where that ends"
                    log_event(_LOG, logging.INFO, "standby", text=text)
                select.select([stop.wakes], [], [], _LOOK)
                return not stop.is_set()

            try:
                stack.enter_context(exclusive(self.state, wait))
            except ss.InvalidInputError:
                if stop.number is None:
                    raise
                raise typer.Exit(128 + stop.number) from None
        if is_waiting:
            log_event(_LOG, logging.INFO, "took_over", text="the other process ended")

    def run(self, *, as_json: bool) -> None:
        """Read the topic until it ends, or forever; write the state and releases."""
        agreed, run_by, path = self.agreement, self.job, self.state
        StreamPolicy(agreed, run_by).publisher()  # to find mistakes before anything is written
        waiting = Waiting()
        charge, letters = charge_of(run_by, agreed, waiting), dead_letters_in(run_by)
        topic, form = self._connection
        number = None
        with logs(run_by.log, topic=topic), ExitStack() as stack:
            try:
                sink = stack.enter_context(slots_of(run_by, waiting))
                self._hold(stack)
                stream = Stream(agreed, run_by, path, charge, sink=sink, strict=True, dead_letters=letters)
                bad = stack.enter_context(jobs.Malformed(_path(run_by.malformed), jobs.malformed_size(stream)))
                log, kind = self._opened(stack)
                ahead = stack.enter_context(jobs.Readers(run_by.processes - 1, stream.windows.of, form))
                payloads = jobs.Payloads(agreed, stream.policy.time, form, bad, ahead)
                read = kind(
                    stream,
                    log,
                    topic,
                    payloads,
                    bad,
                    accept_loss=run_by.accept_loss,
                    idle_after=run_by.idle_after,
                    counts=_path(run_by.counts),
                )
                with Stop() as stop:
                    waiting.stop = stop.is_set
                    _run(read, stop, run_by, once=self.once)
                    number = stop.number
                if run_by.log == "json":
                    jobs.log_end(stopped=number is not None, finished=stream.is_finished)
            except (ss.StreamsketchError, OSError) as error:
                if run_by.log == "json":
                    jobs.log_failure(error)
                    raise typer.Exit(2) from None
                if not path.exists() or not isinstance(error, ss.StreamsketchError):
                    raise
                raise ss.InvalidInputError(continued(error, path)) from None
        if run_by.log == "json" and not as_json:  # standard error has lines of JSON alone, without counts
            raise typer.Exit(0 if number is None else 128 + number)
        if stream.is_finished and run_by.log == "text":
            say("All windows of the schedule are released. To continue, begin a new state and a new folder")
        place = run_by.database or run_by.folder
        facts = f"{plural(stream.events, 'event')}, {plural(stream.released, 'window')} released into {place}"
        if number is not None:
            if run_by.log == "text":
                say(f"Stopped: {path}, secret: {facts}. The same command continues.")
            raise typer.Exit(128 + number)
        if as_json:
            fields: Json = {"file": str(path), "secret": True, "events": stream.events}
            fields |= {"windows": stream.released, "folder": place, "malformed": stream.bad_lines}
            show_json(fields | {"agreement": agreed.fingerprint})
        else:
            say(f"{path}, secret: {facts}. Agreement {agreed.fingerprint}.")


def _path(place: str | None) -> Path | None:
    return None if place is None else Path(place)


def _run(read: "jobs.TopicStream", stop: Stop, job: Job, *, once: bool) -> None:
    def saved() -> None:
        if job.summary is not None:
            write_summary(job.summary, read.summary)

    with progress_bar(shown=job.log == "text") as progress:
        task = progress.add_task("reading", total=None, events=read.stream.events)

        def stepped() -> None:
            progress.update(task, events=read.stream.events, description=f"reading, {read.behind}")

        read.run(stop, every=job.every, once=once, on_save=saved, on_step=stepped)
