"""``streamsketch stream``: windows of a log, a topic or a folder, each released once, and watched."""

import contextlib
import json
import time
from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch import jobs
from streamsketch.cli._jobs import (
    AgreementFile,
    Epoch,
    JobFile,
    Settings,
    extras,
    job_of,
    settings_in,
    state_of,
    topic_of,
    tried_job_of,
)
from streamsketch.cli._kafka import KafkaTopic
from streamsketch.cli._options import option
from streamsketch.cli._saying import say
from streamsketch.cli._showing import AsJson, plural, show_json, show_result
from streamsketch.cli._unbounded import UnboundedLog
from streamsketch.streams.job import Job
from streamsketch.streams.policy import StreamPolicy

BeamOptions = Annotated[
    list[str] | None,
    typer.Argument(
        help="Options of Apache Beam after --, such as --runner=FlinkRunner. By default, the job runs in this process.",
        metavar="[-- BEAM OPTION...]",
        show_default=False,
    ),
]
Once = Annotated[bool, option("Input", "", "Read what is there, and end.", "--once")]


def file(
    log: Annotated[
        Path,
        typer.Argument(
            help="A log of CSV with a header line, or of JSON lines; or a pattern of names, in quotes: 'sales-*.csv'.",
            metavar="LOG",
        ),
    ],
    *,
    agreement: AgreementFile,
    job: JobFile,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Release each window of a log once, when it is over.

    The job keeps a state: run the same command again to continue. The log must be the same from its start, or a file in
    which the command can seek. A unit's events in a window are clipped as the agreement states.

    A line break always ends a row, so that text of one person makes or hides no row of another: write cells with line
    breaks as JSON lines. SIGINT and SIGTERM save and end. Lines that bad_lines of the job leaves out are counted by
    reason. With follow, the command waits for lines that are appended. Files of a pattern, such as one for each day,
    are read as one log, in the order of their names: a file is complete once a later one is there. With --set
    dry_run=yes, it shows how many rows of each window would be dropped, for the operator alone, and releases, writes
    and charges nothing.

    $ streamsketch stream file sales.csv --agreement agreement.json --job job.json
    """
    _follow(log, agreement, job, settings, as_json=as_json)


def pipe(*, agreement: AgreementFile, job: JobFile, settings: Settings = None, as_json: AsJson = False) -> None:
    """Release each window of standard input once, when it is over.

    As `stream file`, for a log that comes through a pipe. The job says its format. If the command is run again, the
    pipe must begin where the state ends: with the same log from its start, or with format messages, whose offsets say
    where they are: those of Kafka, as `kcat -J` prints them. With --set dry_run=yes, nothing is released.

    $ streamsketch stream pipe --agreement agreement.json --job job.json --set format=csv
    """
    _follow(None, agreement, job, settings, as_json=as_json)


def _follow(log: Path | None, agreement: Path, job: Path, settings: list[str] | None, *, as_json: bool) -> None:
    run_by, is_dry = tried_job_of(job, settings)
    state = state_of(run_by, job)
    asked = UnboundedLog(log=log, agreement=ss.Agreement.load(agreement), job=run_by, state=state)
    (asked.try_out if is_dry else asked.run)(as_json=as_json)


def kafka(
    *, agreement: AgreementFile, job: JobFile, settings: Settings = None, once: Once = False, as_json: AsJson = False
) -> None:
    """Release each window of a Kafka topic once, on one machine and without Java.

    The job names servers and topic, whose partitions are all read. Each partition has its own clock, which decides
    whether a row is late. So the content of a window depends on the topic alone, unless windows end without idle
    partitions (idle_after): the guarantee then states a condition. Sums and offsets are saved together: if the command
    is killed, run it again, and it continues and publishes the same bytes. SIGINT and SIGTERM save and end.

    A message is an Arrow IPC stream of rows. With format json, a message is one JSON object, or several objects, one a
    line. A message without key and content is a heartbeat: its timestamp advances the clock of its partition. One with
    a key and no content deletes something, and counts as malformed. Rows that cannot be read are dropped, one by one,
    and counted in the summary.

    A topic that is an ARN is a data stream of Amazon Kinesis, which needs no servers. Its shards are partitions. After
    a split or a merge, the command continues with the shards that follow.

    Releases are files of whole windows. If the job names its stream, each key is released by itself, as by `stream
    beam`: into the job's folder, a place such as s3://bucket/releases, or a database. `stream watch` and
    `stream publish` read folders and databases. With --set dry_run=yes, the command shows how many rows of each window
    would be dropped, for the operator alone, and releases, writes, commits and charges nothing.

    $ streamsketch stream kafka --agreement agreement.json --job job.json
    """
    run_by, is_dry = tried_job_of(job, settings)
    state = state_of(run_by, job)
    asked = KafkaTopic(agreement=ss.Agreement.load(agreement), job=run_by, state=state, once=once)
    (asked.try_out if is_dry else asked.run)(as_json=as_json)


def beam(
    options: BeamOptions = None,
    *,
    agreement: AgreementFile,
    job: JobFile,
    settings: Settings = None,
    epoch: Epoch = None,
    as_json: AsJson = False,
) -> None:
    r"""Release each window of a topic or a growing folder once, on a cluster.

    The job names the stream, root_key and claims, and the log: servers, topic and expansion, or incoming, a growing
    folder of Parquet files. Options after -- are Apache Beam's. --epoch restores a job.

    $ streamsketch stream beam --agreement agreement.json --job job.json -- --runner=FlinkRunner
    """
    agreed, run_by = ss.Agreement.load(agreement), job_of(job, settings)
    with extras():
        made = jobs.StreamJob(agreement=agreed, job=run_by, source=_source_of(run_by), epoch=epoch)
    status = made.run(options or [], log=run_by.log)
    if as_json:
        show_json({"stream": made.stream, "status": status})
    raise typer.Exit(status)


def _source_of(job: Job) -> "jobs.Source":
    """Return the log that a job on a cluster reads."""
    if job.incoming is None:
        if job.servers is None and job.topic is None:
            raise ss.InvalidInputError(
                "the job does not say where rows come from: set incoming, a growing folder; or servers, topic and "
                "expansion"
            )
        job.need(("servers", "topic", "expansion"), "a topic on a cluster")
        return topic_of(job, str(job.expansion))
    if job.topic is not None:
        raise ss.InvalidInputError("the job has both incoming and topic, and a stream has one log: leave out one")
    if job.format is not None:
        raise ss.InvalidInputError("a growing folder has Parquet files; leave out format in the job")
    return jobs.GrowingFolder(job.incoming)


def watch(*, agreement: AgreementFile, job: JobFile, settings: Settings = None, as_json: AsJson = False) -> None:
    """Serve metrics and health of a stream, from what it has published alone.

    /metrics is for Prometheus. /health is one line of JSON with status 200 or 503. The command reads the releases,
    which are public, and counts the alarms, if the job names their folder. It never reads the job's data or its key. If
    the job has flink, or servers and topic, health also names problems of the job on Flink and of the topic; no record
    is read. With counts, it says why rows were dropped.

    The address is 127.0.0.1, or that of the job. If other machines reach it, such as 0.0.0.0, only public facts are
    served, without what flink, topic and counts add; the file health has all of it.

    $ streamsketch stream watch --agreement agreement.json --job job.json --set port=9100
    """
    agreed, run_by = ss.Agreement.load(agreement), job_of(job, settings)
    every = run_by.check_every or 5.0
    with extras():
        causes: list[jobs.Cause] = [] if run_by.flink is None else [jobs.FlinkJob(run_by.flink, run_by.flink_job)]
        if run_by.counts is not None:
            causes.append(jobs.DroppedRows(Path(run_by.counts), run_by.limits))
        if run_by.servers is not None and run_by.topic is not None:
            silent = run_by.silent_after or StreamPolicy(agreed, run_by).of_one_length.size / 10**6
            reached = settings_in(run_by)
            group = run_by.group or jobs.group_of(str(run_by.stream))
            causes.append(jobs.SilentPartitions(run_by.servers, run_by.topic, silent, reached))
            causes.append(jobs.PartitionLag(run_by.servers, run_by.topic, group, reached))
        watched = jobs.Watch(agreed, run_by, causes=causes, patience=60 + 3 * every)
        serve = jobs.Server
    watched.look()
    # it is ended by a signal
    with contextlib.suppress(SystemExit), serve(watched, run_by.port, run_by.address) as server:
        fields = {"metrics": f"{server.url}/metrics", "health": f"{server.url}/health"}
        typer.echo(json.dumps(fields) if as_json else f"{server.url}/metrics and /health")
        server.keep_on(every, None if run_by.health is None else Path(run_by.health))


def publish(*, job: JobFile, settings: Settings = None, once: Once = False, as_json: AsJson = False) -> None:
    """Publish a stream's releases to a Kafka topic, each once.

    The job names servers and releases_topic, which is created if it does not exist. The command runs until a signal
    ends it. A later publisher of the same stream and topic ends an earlier one.

    $ streamsketch stream publish --job job.json --set releases_topic=releases
    """
    run_by = job_of(job, settings)
    if run_by.stream is None:
        raise ss.InvalidInputError(f'{job} names no stream, so no cluster follows it: set "stream": "NAME"')
    run_by.need(("servers", "releases_topic"), "`streamsketch stream publish`")
    with extras():
        reached = settings_in(run_by)
        publisher = jobs.Publisher(str(run_by.servers), str(run_by.releases_topic), run_by.stream, reached)
    with contextlib.suppress(SystemExit):  # it is ended by a signal
        while True:
            count = publisher.publish(jobs.slots_in(Path(run_by.folder), run_by.stream))
            if count:
                typer.echo(json.dumps({"published": count}) if as_json else f"published {plural(count, 'slot')}")
            if once:
                return
            time.sleep(run_by.check_every or 1.0)


def replay(
    *, agreement: AgreementFile, job: JobFile, settings: Settings = None, epoch: Epoch = None, as_json: AsJson = False
) -> None:
    r"""Compute a topic once more in this process, and compare: each release must have the same bytes.

    The job is the one that published, and --epoch that of its launch. The command needs the root key, and what it reads
    is secret: it is for the operator only. The exit status is 1 if a release differs or is missing. If a unit exceeded
    its bounds, the release is clipped, so it does not have the sums of the log.

    $ streamsketch stream replay --agreement agreement.json --job job.json --epoch 1
    """
    agreed, run_by = ss.Agreement.load(agreement), job_of(job, settings)
    if epoch is None:
        raise ss.InvalidInputError("state which launch published: --epoch NUMBER")
    with extras():
        topic = topic_of(run_by)
        made = jobs.StreamJob(agreement=agreed, job=run_by, source=topic, epoch=epoch)
        comparison = jobs.replay(made, jobs.records(topic.servers, topic.topic, settings_in(run_by)))
    facts = {
        "releases": f"{comparison.slots:,}, and {comparison.missing:,} missing",
        "same bytes": f"{comparison.same_bytes:,}",
        "sums of the log": f"{comparison.same_sums:,}",
    }
    show_result(f"{made.stream}, epoch {epoch}", facts, comparison._asdict(), as_json=as_json)
    if comparison.missing or comparison.same_bytes < comparison.slots:
        say("The replay fails: the log was changed, or a release was computed from other data.", note=False)
        raise typer.Exit(1)
