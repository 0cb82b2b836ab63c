"""A Kafka topic that is released by an agreement and a job on one machine, without Java."""

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

import streamsketch as ss
from streamsketch import jobs
from streamsketch.cli._inputs import Stop
from streamsketch.cli._jobs import Form, Log, extras, settings_in
from streamsketch.cli._saying import say
from streamsketch.cli._showing import plural, progress_bar, show_json
from streamsketch.cli._unbounded import charge_of, dead_letters_in, slots_of
from streamsketch.core.files import exclusive, remove_partial, write_whole
from streamsketch.jobs.logs import logs
from streamsketch.once.rows import OtherRowsError
from streamsketch.streams.job import Job
from streamsketch.streams.policy import StreamPolicy
from streamsketch.streams.state import STREAM_SUFFIX
from streamsketch.streams.stream import Stream


@dataclass(frozen=True, kw_only=True)
class KafkaTopic:
    """How ``streamsketch stream kafka`` is called; its options are explained there."""

    agreement: Path
    job: Path
    servers: str
    topic: str
    client_settings: Path | None
    form: Form
    state: Path | None
    malformed: Path | None
    dead_letters: Path | None
    summary: Path | None
    accept_loss: bool
    idle_after: float | None
    every: float
    once: bool
    database: str | None
    counts: Path | None
    group: str | None
    log: Log

    def run(self, *, as_json: bool) -> None:
        """Read the topic until it ends, or forever; write the state and releases."""
        agreed, run_by = ss.Agreement.load(self.agreement), Job.load(self.job)
        StreamPolicy(agreed, run_by).publisher()  # to find mistakes before anything is written
        path = self.job.with_suffix(STREAM_SUFFIX) if self.state is None else self.state
        _check(path, self.summary, self.every, self.idle_after)
        charge, letters = charge_of(run_by, agreed), dead_letters_in(self.dead_letters, run_by)
        with extras():
            brokers = jobs.Brokers(self.servers, settings_in(self.client_settings))
        number = None
        with logs(self.log.value, topic=self.topic), ExitStack() as stack:
            try:
                sink = stack.enter_context(slots_of(run_by, self.database))
                stack.enter_context(exclusive(path))
                stream = Stream(agreed, run_by, path, charge, sink=sink, strict=True, dead_letters=letters)
                bad = stack.enter_context(jobs.Malformed(self.malformed, jobs.malformed_size(stream)))
                partitions = jobs.Partitions(
                    brokers, self.topic, self.group or jobs.group_of(run_by.stream or self.topic)
                )
                stack.callback(partitions.close)
                payloads = jobs.Payloads(agreed, stream.policy.time, self.form.value, bad)
                read = jobs.TopicStream(
                    stream,
                    partitions,
                    self.topic,
                    payloads,
                    bad,
                    accept_loss=self.accept_loss,
                    idle_after=self.idle_after,
                    counts=self.counts,
                )
                with Stop() as stop:
                    _run(read, stop, self.every, once=self.once, summary=self.summary, shown=self.log is Log.text)
                    number = stop.number
                if self.log is Log.json:
                    jobs.log_end(stopped=number is not None, finished=stream.is_finished)
            except ss.StreamsketchError as error:
                if self.log is Log.json:
                    jobs.log_failure(error)
                    raise typer.Exit(2) from None
                if isinstance(error, OtherRowsError) or not path.exists():
                    raise
                remedy = f"{path} holds what was read before, and the same command continues"
                raise ss.InvalidInputError(f"{error}. {remedy}") from None
        if self.log is Log.json and not as_json:  # standard error has lines of JSON alone, without counts
            raise typer.Exit(0 if number is None else 128 + number)
        if stream.is_finished and self.log is Log.text:
            say("All windows of the schedule are released. To continue, begin a new state and a new folder")
        place = self.database or run_by.folder
        facts = f"{plural(stream.events, 'event')}, {plural(stream.released, 'window')} released into {place}"
        if number is not None:
            if self.log is Log.text:
                say(f"Stopped: {path}, secret: {facts}. The same command continues.")
            raise typer.Exit(128 + number)
        if as_json:
            fields: dict[str, Any] = {"file": str(path), "secret": True, "events": stream.events}
            fields |= {"windows": stream.released, "folder": place, "malformed": stream.bad_lines}
            show_json(fields | {"agreement": agreed.fingerprint})
        else:
            say(f"{path}, secret: {facts}. Agreement {agreed.fingerprint}.")


def _run(read: "jobs.TopicStream", stop: Stop, every: float, *, once: bool, summary: Path | None, shown: bool) -> None:
    def saved() -> None:
        if summary is not None:
            remove_partial(summary)
            write_whole(summary, json.dumps(read.summary, indent=2).encode() + b"\n", secret=True)

    with progress_bar(shown=shown) as progress:
        task = progress.add_task("reading", total=None, events=read.stream.events)

        def stepped() -> None:
            behind = f"reading, {plural(read.lag, 'message')} behind"
            progress.update(task, events=read.stream.events, description=behind)

        read.run(stop, every=every, once=once, on_save=saved, on_step=stepped)


def _check(path: Path, summary: Path | None, every: float, idle_after: float | None) -> None:
    for name, seconds in (("--every", every), ("--idle-after", idle_after)):
        if seconds is not None and not 0 < seconds < float("inf"):
            raise ss.InvalidInputError(f"{name} must be a number of seconds > 0, got {seconds:g}")
    if path.suffix != STREAM_SUFFIX or not path.parent.is_dir():
        raise ss.InvalidInputError(
            f"the state of a stream is written to a file named *{STREAM_SUFFIX} in an existing folder, got {path}"
        )
    if summary is not None and (summary.suffix != ".json" or not summary.parent.is_dir()):
        raise ss.InvalidInputError(f"a summary is written to a file named *.json, got {summary}")
