"""``streamsketch consume``: a Kafka topic released by an agreement and a job, without Java."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch import jobs
from streamsketch.cli._inputs import Stop
from streamsketch.cli._jobs import (
    AgreementFile,
    ClientSettings,
    Database,
    Form,
    JobFile,
    Log,
    MessageForm,
    Servers,
    extras,
    settings_in,
)
from streamsketch.cli._saying import say
from streamsketch.cli._showing import Json, plural, progress_bar, show_json
from streamsketch.cli._unbounded import charge_of, dead_letters_in, slots_of
from streamsketch.core.files import exclusive, remove_partial, write_whole
from streamsketch.once.rows import OtherRowsError
from streamsketch.streams.job import Job
from streamsketch.streams.policy import StreamPolicy
from streamsketch.streams.state import STREAM_SUFFIX
from streamsketch.streams.stream import Stream


def consume(  # noqa: PLR0913 - a command's options are its parameters
    *,
    agreement: AgreementFile,
    job: JobFile,
    servers: Servers,
    topic: Annotated[str, typer.Option(help="Kafka topic. All of its partitions are read.")],
    client_settings: ClientSettings = None,
    form: MessageForm = Form.arrow,
    state: Annotated[
        Path | None,
        typer.Option(
            help=(
                "File of the sums and offsets, .raw-stream: secret. By default, it is next to the job and has its name."
            ),
            show_default=False,
        ),
    ] = None,
    malformed: Annotated[
        Path | None,
        typer.Option(help="File for messages with rows that cannot be read: secret.", show_default=False),
    ] = None,
    dead_letters: Annotated[
        Path | None,
        typer.Option(help="Folder for late rows: secret. By default, late rows are only counted.", show_default=False),
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option(
            help="File for the counts of rows that were read and dropped, as JSON: secret.", show_default=False
        ),
    ] = None,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss", help="Continue without the records that retention removed before they were read."
        ),
    ] = False,
    idle_after: Annotated[
        float | None,
        typer.Option(
            help="Seconds without progress after which a partition that was read to its end no longer holds windows "
            "back. By default, it always does. The guarantee then states a condition.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between two saves of the state while no window ends.")] = 60.0,
    once: Annotated[bool, typer.Option("--once", help="Read what is there, and end.")] = False,
    database: Database = None,
    counts: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the counts of rows, which `job watch --counts` reads: secret.", show_default=False
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Consumer group to which offsets are committed, for monitoring only. By default "
            "streamsketch-STREAM or streamsketch-TOPIC.",
            show_default=False,
        ),
    ] = None,
    log: Annotated[
        Log, typer.Option(help="text, for the operator only, or json: lines without private values.")
    ] = Log.text,
    as_json: Json = False,
) -> None:
    """Release each window of a Kafka topic once, by an agreement, on one machine and without Java.

    Agreement and job are those of `sketch --job`. All partitions are read. Each partition has its own clock,
    which decides whether a row is late. So the content of a window depends on the topic alone, unless windows end
    without idle partitions (--idle-after): the guarantee then states a condition. Sums and offsets are saved together:
    if the command is killed, run it again, and it continues and publishes the same bytes. SIGINT and SIGTERM save and
    end.

    A message is an Arrow IPC stream of rows. With --format json, a message is one JSON object, or several objects, one
    a line. A message without key and content is a heartbeat: its timestamp advances the clock of its partition. One
    with a key and no content deletes something, and counts as malformed. Rows that cannot be read are dropped, one by
    one, and counted in --summary.

    Releases are files of whole windows. If the job names its stream, each key is released by itself, as by `job
    stream`: into the job's folder, a place such as s3://bucket/releases, or a database. `job watch` and `job
    publish` read folders and databases.

    $ streamsketch consume --agreement agreement.json --job job.json --servers localhost:9092 --topic sales
    """
    agreed, run_by = ss.Agreement.load(agreement), Job.load(job)
    StreamPolicy(agreed, run_by).publisher()  # to find mistakes before anything is written
    path = job.with_suffix(STREAM_SUFFIX) if state is None else state
    _check(path, summary, every, idle_after)
    charge, letters = charge_of(run_by, agreed), dead_letters_in(dead_letters, run_by)
    with extras():
        brokers = jobs.Brokers(servers, settings_in(client_settings))
    number = None
    from streamsketch.jobs.logs import logs  # noqa: PLC0415 - as other jobs, when one is run

    with logs(log.value, topic=topic), ExitStack() as stack:
        try:
            sink = stack.enter_context(slots_of(run_by, database))
            stack.enter_context(exclusive(path))
            stream = Stream(agreed, run_by, path, charge, sink=sink, strict=True, dead_letters=letters)
            bad = stack.enter_context(jobs.Malformed(malformed, jobs.malformed_size(stream)))
            partitions = jobs.Partitions(brokers, topic, group or jobs.group_of(run_by.stream or topic))
            stack.callback(partitions.close)
            payloads = jobs.Payloads(agreed, stream.policy.time, form.value, bad)
            read = jobs.TopicStream(
                stream,
                partitions,
                topic,
                payloads,
                bad,
                accept_loss=accept_loss,
                idle_after=idle_after,
                counts=counts,
            )
            with Stop() as stop:
                _run(read, stop, every, once=once, summary=summary, shown=log is Log.text)
                number = stop.number
            if log is Log.json:
                jobs.log_end(stopped=number is not None, finished=stream.is_finished)
        except ss.StreamsketchError as error:
            if log is Log.json:
                jobs.log_failure(error)
                raise typer.Exit(2) from None
            if isinstance(error, OtherRowsError) or not path.exists():
                raise
            remedy = f"{path} holds what was read before, and the same command continues"
            raise ss.InvalidInputError(f"{error}. {remedy}") from None
    if log is Log.json and not as_json:  # standard error has lines of JSON alone, without counts
        raise typer.Exit(0 if number is None else 128 + number)
    if stream.is_finished and log is Log.text:
        say("All windows of the schedule are released. To continue, begin a new state and a new folder")
    place = database or run_by.folder
    facts = f"{plural(stream.events, 'event')}, {plural(stream.released, 'window')} released into {place}"
    if number is not None:
        if log is Log.text:
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
