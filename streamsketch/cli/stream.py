"""``streamsketch stream``: windows of a log, a topic or a folder, each released once, and watched."""

import contextlib
import json
import time
from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch import jobs
from streamsketch.cli._inputs import STDIN, BadLinesOption, Decimal, Delimiter, Encoding, Format
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
from streamsketch.cli._kafka import KafkaTopic
from streamsketch.cli._options import option
from streamsketch.cli._saying import say
from streamsketch.cli._showing import Json, plural, show_json, show_result
from streamsketch.cli._unbounded import UnboundedLog
from streamsketch.data.readers.delimited import check_delimiter
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
StreamKey = Annotated[
    Path, option("Workers", "FILE", "File on every worker that holds a key of 32 bytes, mode 0600.", "--root-key")
]
Claims = Annotated[
    str, option("Workers", "DIR", "Folder shared by all workers, for epochs and alarms. Keep it private.")
]


Follow = Annotated[
    bool,
    option("Input", "", "Wait for lines that are appended. Continue with the next file after a rotation.", "--follow"),
]
AcceptLoss = Annotated[
    bool,
    option("Input", "", "If lines or records were lost, continue with those that remain.", "--accept-loss"),
]
DeadLetterFolder = Annotated[
    Path | None,
    option(
        "Output",
        "DIR",
        "Folder for rows that are late, too far ahead or malformed: secret. By default, they are only counted.",
        "--dead-letters",
    ),
]
State = Annotated[Path, option("Output", "FILE", "State of the stream, .raw-stream: secret.", "--output", "-o")]
EverySeconds = Annotated[float, option("Output", "SECONDS", "Seconds between two saves of the state.", "--every")]
Counts = Annotated[
    Path | None,
    option(
        "Output", "FILE", "Write the counts of rows that were read and dropped to a JSON file: secret.", "--summary"
    ),
]
LineForm = Annotated[
    Format | None,
    option("Input", "csv|jsonl", "Format of the lines. By default, it follows from the file name.", "--format"),
]


def file(  # noqa: PLR0913 - a command's options are its parameters
    log: Annotated[Path, typer.Argument(help="A log of CSV with a header line, or of JSON lines.", metavar="LOG")],
    *,
    output: State,
    agreement: AgreementFile,
    job: JobFile,
    follow: Follow = False,
    accept_loss: AcceptLoss = False,
    dead_letters: DeadLetterFolder = None,
    form: LineForm = None,
    delimiter: Delimiter = ",",
    encoding: Encoding = None,
    decimal: Decimal = ".",
    bad_lines: BadLinesOption = "stop",
    every: EverySeconds = 60.0,
    summary: Counts = None,
    as_json: Json = False,
) -> None:
    """Release each window of a log once, when it is over.

    The output is a state. Run the same command again to continue. The log must be the same from its start, or a file in
    which the command can seek. A unit's events in a window are clipped as the agreement states.

    A line break always ends a row, so that text of one person makes or hides no row of another: write cells with line
    breaks as JSON lines. SIGINT and SIGTERM save and end. Lines that --bad-lines leaves out are counted by reason.

    $ streamsketch stream file sales.csv --agreement agreement.json --job job.json -o sales.raw-stream
    """
    UnboundedLog(
        [str(log)],
        output,
        agreement,
        job,
        form,
        check_delimiter(delimiter),
        bad_lines,
        every,
        summary,
        follow=follow,
        accept_loss=accept_loss,
        messages=False,
        dead_letters=dead_letters,
        encoding=encoding,
        decimal=decimal,
    ).run(as_json=as_json)


def pipe(  # noqa: PLR0913 - a command's options are its parameters
    *,
    output: State,
    agreement: AgreementFile,
    job: JobFile,
    messages: Annotated[
        bool, option("Input", "", "Read Kafka messages with their offsets, as `kcat -J` prints them.", "--messages")
    ] = False,
    accept_loss: AcceptLoss = False,
    dead_letters: DeadLetterFolder = None,
    form: LineForm = None,
    delimiter: Delimiter = ",",
    encoding: Encoding = None,
    decimal: Decimal = ".",
    bad_lines: BadLinesOption = "stop",
    every: EverySeconds = 60.0,
    summary: Counts = None,
    as_json: Json = False,
) -> None:
    """Release each window of standard input once, when it is over.

    As `stream file`, for a log that comes through a pipe. If the command is run again, the pipe must begin where the
    state ends: with the same log from its start, or with --messages, whose offsets say where they are.

    $ streamsketch stream pipe --format csv --agreement agreement.json --job job.json -o sales.raw-stream
    """
    UnboundedLog(
        [STDIN],
        output,
        agreement,
        job,
        form,
        check_delimiter(delimiter),
        bad_lines,
        every,
        summary,
        follow=False,
        accept_loss=accept_loss,
        messages=messages,
        dead_letters=dead_letters,
        encoding=encoding,
        decimal=decimal,
    ).run(as_json=as_json)


def kafka(  # noqa: PLR0913 - a command's options are its parameters
    *,
    agreement: AgreementFile,
    job: JobFile,
    servers: Servers,
    topic: Annotated[str, option("Kafka", "TOPIC", "Kafka topic. All of its partitions are read.")],
    client_settings: ClientSettings = None,
    form: MessageForm = Form.arrow,
    state: Annotated[
        Path | None,
        option(
            "Workers",
            "FILE",
            "File of the sums and offsets, .raw-stream: secret. By default, it is next to the job and has its name.",
        ),
    ] = None,
    malformed: Annotated[
        Path | None, option("Output", "FILE", "File for messages with rows that cannot be read: secret.")
    ] = None,
    dead_letters: Annotated[
        Path | None, option("Output", "DIR", "Folder for late rows: secret. By default, late rows are only counted.")
    ] = None,
    summary: Annotated[
        Path | None,
        option("Output", "FILE", "File for the counts of rows that were read and dropped, as JSON: secret."),
    ] = None,
    accept_loss: Annotated[
        bool,
        option(
            "Kafka", "", "Continue without the records that retention removed before they were read.", "--accept-loss"
        ),
    ] = False,
    idle_after: Annotated[
        float | None,
        option(
            "Kafka",
            "SECONDS",
            "Seconds without progress after which a partition that was read to its end no longer holds windows back. "
            "By default, it always does. The guarantee then states a condition.",
        ),
    ] = None,
    every: Annotated[
        float, option("Output", "SECONDS", "Seconds between two saves of the state while no window ends.")
    ] = 60.0,
    once: Annotated[bool, option("Kafka", "", "Read what is there, and end.", "--once")] = False,
    database: Database = None,
    counts: Annotated[
        Path | None,
        option("Output", "DIR", "Folder for the counts of rows, which `stream watch --counts` reads: secret."),
    ] = None,
    group: Annotated[
        str | None,
        option(
            "Kafka",
            "GROUP",
            "Consumer group to which offsets are committed, for monitoring only. By default streamsketch-STREAM or "
            "streamsketch-TOPIC.",
        ),
    ] = None,
    log: Annotated[
        Log, option("Output", "text|json", "text, for the operator only, or json: lines without private values.")
    ] = Log.text,
    as_json: Json = False,
) -> None:
    """Release each window of a Kafka topic once, on one machine and without Java.

    Agreement and job are those of `stream file`. All partitions are read. Each partition has its own clock,
    which decides whether a row is late. So the content of a window depends on the topic alone, unless windows end
    without idle partitions (--idle-after): the guarantee then states a condition. Sums and offsets are saved together:
    if the command is killed, run it again, and it continues and publishes the same bytes. SIGINT and SIGTERM save and
    end.

    A message is an Arrow IPC stream of rows. With --format json, a message is one JSON object, or several objects, one
    a line. A message without key and content is a heartbeat: its timestamp advances the clock of its partition. One
    with a key and no content deletes something, and counts as malformed. Rows that cannot be read are dropped, one by
    one, and counted in --summary.

    Releases are files of whole windows. If the job names its stream, each key is released by itself, as by `stream
    beam`: into the job's folder, a place such as s3://bucket/releases, or a database. `stream watch` and
    `stream publish` read folders and databases.

    $ streamsketch stream kafka --agreement agreement.json --job job.json --servers localhost:9092 --topic sales
    """
    KafkaTopic(
        agreement=agreement,
        job=job,
        servers=servers,
        topic=topic,
        client_settings=client_settings,
        form=form,
        state=state,
        malformed=malformed,
        dead_letters=dead_letters,
        summary=summary,
        accept_loss=accept_loss,
        idle_after=idle_after,
        every=every,
        once=once,
        database=database,
        counts=counts,
        group=group,
        log=log,
    ).run(as_json=as_json)


def beam(  # noqa: PLR0913 - a command's options are its parameters
    options: BeamOptions = None,
    *,
    agreement: AgreementFile,
    job: JobFile,
    servers: Annotated[str | None, option("Kafka", "HOST:PORT", "Addresses of Kafka's brokers.")] = None,
    topic: Annotated[str | None, option("Kafka", "TOPIC", "Kafka topic.")] = None,
    expansion: Annotated[
        str | None, option("Kafka", "HOST:PORT", "Beam's expansion service, with the connector of pipelines/flink.")
    ] = None,
    client_settings: ClientSettings = None,
    form: MessageForm = Form.arrow,
    folder: Annotated[
        str | None, option("Input", "DIR", "Growing folder of Parquet files, instead of a topic.")
    ] = None,
    root_key: StreamKey,
    claims: Claims,
    epoch: Annotated[
        int | None, option("Workers", "NUMBER", "Epoch of a job that is restored. A new launch claims the next.")
    ] = None,
    database: Database = None,
    log: Annotated[
        Log,
        option(
            "Output",
            "text|json",
            "text, with all messages of Beam, for the operator only, or json: lines without private values.",
        ),
    ] = Log.text,
    dead_letters: Annotated[
        str | None,
        option(
            "Output",
            "DIR",
            "Folder for rows that are late or too far ahead, and for messages that cannot be read: secret. By "
            "default, they are only counted.",
        ),
    ] = None,
    dead_letters_bytes: Annotated[int, option("Output", "BYTES", "Maximum size of that folder.")] = 1 << 30,
    count_private_data: Annotated[
        bool, option("Workers", "", "Count late rows as Beam metrics, for the operator only.", "--count-private-data")
    ] = False,
    as_json: Json = False,
) -> None:
    r"""Release each window of a topic or a growing folder once, on a cluster.

    Agreement and job are those of `stream file`. The job of a cluster names the stream. Options after -- are Apache
    Beam's.

    $ streamsketch stream beam --agreement agreement.json --job job.json --folder incoming --root-key root.key \
        --claims /shared/claims -- --runner=FlinkRunner
    """
    of_topic = {"--servers": servers, "--topic": topic, "--expansion": expansion}
    given, missing = ([name for name, value in of_topic.items() if (value is None) == gone] for gone in (False, True))
    if folder is None and missing:
        raise ss.InvalidInputError(
            f"the stream comes from --folder, or from {', '.join(of_topic)}; {', '.join(missing)} is missing"
        )
    given += [] if client_settings is None else ["--client-settings"]
    if folder is not None and (given or form is not Form.arrow):
        raise ss.InvalidInputError(
            f"the stream comes from --folder, of Parquet files; leave out {', '.join(given) or '--format'}"
        )
    with extras():
        settings_in(client_settings)  # finds mistakes in this machine's file
        reached = None if client_settings is None else str(client_settings.absolute())
        source = jobs.Topic(str(servers), str(topic), str(expansion), form.value, reached) if folder is None else None
        made = jobs.StreamJob(
            agreement=ss.Agreement.load(agreement),
            job=Job.load(job),
            source=source or jobs.GrowingFolder(str(folder)),
            root_key=root_key,
            claims=claims,
            epoch=epoch,
            database=database,
            dead_letters=dead_letters,
            dead_letters_bytes=dead_letters_bytes,
            count_private_data=count_private_data,
        )
    status = made.run(options or [], log=log.value)
    if as_json:
        show_json({"stream": made.stream, "status": status})
    raise typer.Exit(status)


def watch(  # noqa: PLR0913 - a command's options are its parameters
    *,
    agreement: AgreementFile,
    job: JobFile,
    database: Database = None,
    alarms: Annotated[
        Path | None, option("Monitoring", "DIR", "Folder of alarms, which are counted: CLAIMS/STREAM.alarms.")
    ] = None,
    counts: Annotated[
        Path | None,
        option(
            "Monitoring",
            "DIR",
            "Folder of the workers' counts, CLAIMS/STREAM.counts, which shows why rows were dropped. Private: for the "
            "operator only.",
        ),
    ] = None,
    port: Annotated[int, option("Monitoring", "PORT", "Port on 127.0.0.1. 0 takes any free port.")] = 9100,
    health: Annotated[Path | None, option("Monitoring", "FILE", "File to which the line of health is written.")] = None,
    stale_after: Annotated[
        float | None,
        option(
            "Monitoring",
            "SECONDS",
            "Seconds without a release after which the stream counts as stale. By default three windows.",
        ),
    ] = None,
    every: Annotated[float, option("Monitoring", "SECONDS", "Seconds between two checks.")] = 5.0,
    flink: Annotated[
        str | None,
        option(
            "Monitoring",
            "URL",
            "Flink's REST interface, http://HOST:PORT. Health then reports restarts and failed checkpoints.",
        ),
    ] = None,
    job_id: Annotated[
        str | None, option("Monitoring", "ID", "Id of the job on Flink. By default, the only one that runs.")
    ] = None,
    servers: Annotated[
        str | None, option("Kafka", "HOST:PORT", "Addresses of Kafka's brokers. Health then reports silent partitions.")
    ] = None,
    topic: Annotated[str | None, option("Kafka", "TOPIC", "Topic that the job reads.")] = None,
    client_settings: ClientSettings = None,
    silent_after: Annotated[
        float | None,
        option(
            "Monitoring",
            "SECONDS",
            "Seconds without a record after which a partition counts as silent. By default one window.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Serve metrics and health of a stream on 127.0.0.1, from what it has published alone.

    /metrics is for Prometheus. /health is one line of JSON with status 200 or 503. The command reads the releases,
    which are public, and counts the alarms. It never reads the job's data or its key. With --flink and --servers,
    health also names problems of the job and of the topic; no record is read.

    $ streamsketch stream watch --agreement agreement.json --job job.json --port 9100
    """
    if (servers is None) != (topic is None) or (job_id is not None and flink is None):
        raise ss.InvalidInputError("--servers and --topic go together, and --job-id with --flink")
    if client_settings is not None and servers is None:
        raise ss.InvalidInputError("--client-settings go with --servers and --topic")
    agreed, run_by = ss.Agreement.load(agreement), Job.load(job)
    with extras():
        causes: list[jobs.Cause] = [] if flink is None else [jobs.FlinkJob(flink, job_id)]
        if counts is not None:
            causes.append(jobs.DroppedRows(counts, run_by.max_dropped))
        if servers is not None:
            silent = StreamPolicy(agreed, run_by).of_one_length.size / 10**6 if silent_after is None else silent_after
            reached = settings_in(client_settings)
            causes.append(jobs.SilentPartitions(servers, str(topic), silent, reached))
            causes.append(jobs.PartitionLag(servers, str(topic), jobs.group_of(str(run_by.stream)), reached))
        watched = jobs.Watch(
            agreed,
            run_by,
            causes=causes,
            database=database,
            stale_after=stale_after,
            patience=60 + 3 * every,
            alarms=alarms,
        )
        serve = jobs.Server
    watched.look()
    with contextlib.suppress(SystemExit), serve(watched, port) as server:  # it is ended by a signal
        url = f"http://127.0.0.1:{server.server_port}"
        fields = {"metrics": f"{url}/metrics", "health": f"{url}/health"}
        typer.echo(json.dumps(fields) if as_json else f"{url}/metrics and /health")
        server.keep_on(every, health)


def publish(
    *,
    job: JobFile,
    servers: Servers,
    topic: Annotated[str, option("Kafka", "TOPIC", "Kafka topic. It is created if it does not exist.")],
    client_settings: ClientSettings = None,
    every: Annotated[float, option("Kafka", "SECONDS", "Seconds between two checks.")] = 1.0,
    once: Annotated[bool, option("Kafka", "", "Publish what is there, and end.", "--once")] = False,
    as_json: Json = False,
) -> None:
    """Publish a stream's releases to a Kafka topic, each once.

    The command runs until a signal ends it. A later publisher of the same stream and topic ends an earlier one.

    $ streamsketch stream publish --job job.json --servers localhost:9092 --topic releases
    """
    place = Job.load(job)
    if place.stream is None:
        raise ss.InvalidInputError(f'{job} names no stream, so no cluster follows it: set "stream": "NAME"')
    with extras():
        publisher = jobs.Publisher(servers, topic, place.stream, settings_in(client_settings))
    with contextlib.suppress(SystemExit):  # it is ended by a signal
        while True:
            count = publisher.publish(jobs.slots_in(Path(place.folder), place.stream))
            if count:
                typer.echo(json.dumps({"published": count}) if as_json else f"published {plural(count, 'slot')}")
            if once:
                return
            time.sleep(every)


def replay(  # noqa: PLR0913 - a command's options are its parameters
    *,
    agreement: AgreementFile,
    job: JobFile,
    servers: Servers,
    topic: Annotated[str, option("Kafka", "TOPIC", "Topic that the job read.")],
    client_settings: ClientSettings = None,
    form: MessageForm = Form.arrow,
    root_key: StreamKey,
    claims: Claims,
    epoch: Annotated[int, option("Workers", "NUMBER", "Epoch of the launch that published.")],
    as_json: Json = False,
) -> None:
    r"""Compute a topic once more in this process, and compare: each release must have the same bytes.

    The command needs the root key, and what it reads is secret: it is for the operator only. The exit status is 1 if a
    release differs or is missing. If a unit exceeded its bounds, the release is clipped, so it does not have the sums
    of the log.

    $ streamsketch stream replay --agreement agreement.json --job job.json --servers localhost:9092 \
        --topic sales --root-key root.key --claims /shared/claims --epoch 1
    """
    with extras():
        made = jobs.StreamJob(
            agreement=ss.Agreement.load(agreement),
            job=Job.load(job),
            source=jobs.Topic(servers, topic, "", form.value),
            root_key=root_key,
            claims=claims,
            epoch=epoch,
        )
        found = jobs.replay(made, jobs.records(servers, topic, settings_in(client_settings)))
    facts = {
        "releases": f"{found.slots:,}, and {found.missing:,} missing",
        "same bytes": f"{found.same_bytes:,}",
        "sums of the log": f"{found.same_sums:,}",
    }
    show_result(f"{made.stream}, epoch {epoch}", facts, found._asdict(), as_json=as_json)
    if found.missing or found.same_bytes < found.slots:
        say("The replay fails: the log was changed, or a release was computed from other data.", note=False)
        raise typer.Exit(1)
