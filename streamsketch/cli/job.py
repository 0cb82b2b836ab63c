"""``streamsketch job``: Apache Beam jobs on files and streams, and commands that watch and check them."""

import contextlib
import json
import logging
import time
from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch import jobs
from streamsketch.cli._inputs import Decimal, Delimiter, Encoding
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
from streamsketch.cli._showing import Json, guarantee_fields, plural, show_json, show_result
from streamsketch.core.text import names_given
from streamsketch.estimation.blocks import block_of
from streamsketch.estimation.cosines import below_noise_floor
from streamsketch.privacy.calibration import mechanism_names
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
RootKey = Annotated[
    Path | None,
    typer.Option(help="File on every worker that holds a key of 32 bytes, mode 0600.", show_default=False),
]
StreamKey = Annotated[
    Path, typer.Option("--root-key", help="File on every worker that holds a key of 32 bytes, mode 0600.")
]
Claims = Annotated[str, typer.Option(help="Folder shared by all workers, for epochs and alarms. Keep it private.")]


def files(  # noqa: PLR0913 - a command's options are its parameters
    beam: BeamOptions = None,
    *,
    pattern: Annotated[
        list[str], typer.Option("--input", help="File, or glob of files: Parquet, CSV, JSON lines or Avro. Repeatable.")
    ],
    agreement: AgreementFile,
    output: Annotated[str, typer.Option("--output", "-o", help="Folder for the results, shared by all workers.")],
    epsilon: Annotated[float, typer.Option(help="Privacy loss ε, > 0, for all keys together.")],
    delta: Annotated[float, typer.Option(help="Probability δ in [0, 1) with which the bound ε may fail.")] = 0.0,
    mechanism: Annotated[str, typer.Option(help=f"Kind of noise: {', '.join(mechanism_names())}.")] = "auto",
    public_key: Annotated[
        list[str] | None,
        typer.Option(
            help="Keys to release, separated by commas or one by one. Name them without looking at the "
            "data. With --window, a key is 'KEY 2024-05-31'.",
            show_default=False,
        ),
    ] = None,
    keys_are_public: Annotated[
        bool,
        typer.Option(
            "--keys-are-public", help="Release all keys in the data, because it is no secret which keys are in it."
        ),
    ] = False,
    clip: Annotated[
        str | None,
        typer.Option(
            help=(
                "What to do with a unit beyond the bound, unless the agreement states it: scale (the default), cut, "
                "equal, or none, if units keep to the bound."
            ),
            show_default=False,
        ),
    ] = None,
    delimiter: Delimiter = ",",
    encoding: Encoding = None,
    decimal: Decimal = ".",
    window: Annotated[
        str | None,
        typer.Option(
            help="Make one stream for each key and window: of a length, such as '1 day', or a calendar's "
            "day, week or month.",
            show_default=False,
        ),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(help="Time zone of the calendar, such as Europe/Berlin. By default UTC.", show_default=False),
    ] = None,
    time: Annotated[str | None, typer.Option(help="Column of times, for --window.", show_default=False)] = None,
    time_format: Annotated[
        str | None,
        typer.Option(help="Format of times in text, as for strptime. By default ISO 8601.", show_default=False),
    ] = None,
    claims: Annotated[
        str | None,
        typer.Option(
            help="Folder shared by all workers, for the secret of each run. Required on Flink and Spark.",
            show_default=False,
        ),
    ] = None,
    run_id: Annotated[
        str | None, typer.Option(help="Name of this run in --claims. By default, a random one.", show_default=False)
    ] = None,
    root_key: RootKey = None,
    as_json: Json = False,
) -> None:
    r"""Sketch files on a cluster, release each key once, and compare all releases.

    The command writes sketches.parquet, sketches/KEY.sketch, and cosines and distances as Parquet and CSV into the
    output folder. Units are clipped if the agreement names them, unless --clip none asserts that they keep to the
    bound. If the agreement counts units, the command also writes means, the distances of averages.

    $ streamsketch job files --agreement agreement.json --input 'sales/*.parquet' --epsilon 1 --delta 1e-6 \
        --keys-are-public -o out
    """
    if bool(public_key) == keys_are_public:
        raise ss.InvalidInputError(
            "state which keys are released: --public-key NAMES, or --keys-are-public; one of both"
        )
    with extras():
        job = jobs.FilesJob(
            patterns=pattern,
            agreement=ss.Agreement.load(agreement),
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            output=output,
            public_keys=names_given(public_key, "--public-key") if public_key else None,
            clip=clip,  # type: ignore[arg-type] # checked there
            delimiter=delimiter,
            encoding=encoding,
            decimal=decimal,
            window=window,
            time=time,
            time_format=time_format,
            zone=zone,
            secrets=jobs.RunSecrets(claims, run_id, root_key),
        )
    runners = logging.getLogger("apache_beam.runners")
    level = runners.level
    runners.setLevel(logging.CRITICAL)  # a worker's exception comes back, and becomes a sentence
    try:
        releases = job.run(beam or [])
    finally:
        runners.setLevel(level)
    lost = below_noise_floor(block_of(list(releases.values())), len(releases))
    below = sorted(str(key) for key, gone in zip(releases, lost, strict=True) if gone)
    guarantee = next(iter(releases.values())).guarantee
    facts = {"releases": plural(len(releases), "key"), "guarantee": str(guarantee)}
    facts |= {"below the noise floor": ", ".join(below)} if below else {}
    facts["files"] = "sketches.parquet, sketches/*.sketch, cosines.parquet, distances.parquet, both as .csv"
    fields = {"folder": output, "keys": len(releases), "below_noise": below, **guarantee_fields(guarantee)}
    show_result(output, facts, fields, as_json=as_json)


def stream(  # noqa: PLR0913 - a command's options are its parameters
    beam: BeamOptions = None,
    *,
    agreement: AgreementFile,
    job: JobFile,
    servers: Annotated[str | None, typer.Option(help="Addresses of Kafka's brokers.", show_default=False)] = None,
    topic: Annotated[str | None, typer.Option(help="Kafka topic.", show_default=False)] = None,
    expansion: Annotated[
        str | None,
        typer.Option(help="Beam's expansion service, with the connector of pipelines/flink.", show_default=False),
    ] = None,
    client_settings: ClientSettings = None,
    form: MessageForm = Form.arrow,
    folder: Annotated[
        str | None, typer.Option(help="Growing folder of Parquet files, instead of a topic.", show_default=False)
    ] = None,
    root_key: StreamKey,
    claims: Claims,
    epoch: Annotated[
        int | None,
        typer.Option(help="Epoch of a job that is restored. A new launch claims the next.", show_default=False),
    ] = None,
    database: Database = None,
    log: Annotated[
        Log,
        typer.Option(
            help="text, with all messages of Beam, for the operator only, or json: lines without private values."
        ),
    ] = Log.text,
    dead_letters: Annotated[
        str | None,
        typer.Option(
            help="Folder for rows that are late or too far ahead, and for messages that cannot be read: "
            "secret. By default, they are only counted.",
            show_default=False,
        ),
    ] = None,
    dead_letters_bytes: Annotated[int, typer.Option(help="Maximum size of that folder.")] = 1 << 30,
    count_private_data: Annotated[
        bool, typer.Option("--count-private-data", help="Count late rows as Beam metrics, for the operator only.")
    ] = False,
    as_json: Json = False,
) -> None:
    r"""Release each window of an unbounded stream once, from a Kafka topic or a folder that grows.

    Agreement and job are those of `sketch --job`. The job of a cluster names the stream.

    $ streamsketch job stream --agreement agreement.json --job job.json --folder incoming --root-key root.key \
        --claims /shared/claims -- --runner=FlinkRunner
    """
    options = {"--servers": servers, "--topic": topic, "--expansion": expansion}
    given, missing = ([name for name, value in options.items() if (value is None) == gone] for gone in (False, True))
    if folder is None and missing:
        raise ss.InvalidInputError(
            f"the stream comes from --folder, or from {', '.join(options)}; {', '.join(missing)} is missing"
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
    status = made.run(beam or [], log=log.value)
    if as_json:
        show_json({"stream": made.stream, "status": status})
    raise typer.Exit(status)


def watch(  # noqa: PLR0913 - a command's options are its parameters
    *,
    agreement: AgreementFile,
    job: JobFile,
    database: Database = None,
    alarms: Annotated[
        Path | None, typer.Option(help="Folder of alarms, which are counted: CLAIMS/STREAM.alarms.", show_default=False)
    ] = None,
    counts: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Folder of the workers' counts, CLAIMS/STREAM.counts, which shows why rows were dropped. Private: for "
                "the operator only."
            ),
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1. 0 takes any free port.")] = 9100,
    health: Annotated[
        Path | None, typer.Option(help="File to which the line of health is written.", show_default=False)
    ] = None,
    stale_after: Annotated[
        float | None,
        typer.Option(
            help="Seconds without a release after which the stream counts as stale. By default three windows."
        ),
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between two checks.")] = 5.0,
    flink: Annotated[
        str | None,
        typer.Option(
            help="Flink's REST interface, http://HOST:PORT. Health then reports restarts and failed checkpoints.",
            show_default=False,
        ),
    ] = None,
    job_id: Annotated[
        str | None, typer.Option(help="Id of the job on Flink. By default, the only one that runs.", show_default=False)
    ] = None,
    servers: Annotated[
        str | None,
        typer.Option(help="Addresses of Kafka's brokers. Health then reports silent partitions.", show_default=False),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Topic that the job reads.", show_default=False)] = None,
    client_settings: ClientSettings = None,
    silent_after: Annotated[
        float | None,
        typer.Option(
            help="Seconds without a record after which a partition counts as silent. By default one window.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Serve metrics and health of a stream on 127.0.0.1, from what it has published alone.

    /metrics is for Prometheus. /health is one line of JSON with status 200 or 503. The command reads the releases,
    which are public, and counts the alarms. It never reads the job's data or its key. With --flink and --servers,
    health also names problems of the job and of the topic; no record is read.

    $ streamsketch job watch --agreement agreement.json --job job.json --port 9100
    """
    if (servers is None) != (topic is None) or (job_id is not None and flink is None):
        raise ss.InvalidInputError("--servers and --topic go together, and --job-id with --flink")
    if client_settings is not None and servers is None:
        raise ss.InvalidInputError("--client-settings go with --servers and --topic")
    run_by = Job.load(job)
    agreed = ss.Agreement.load(agreement)
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
    topic: Annotated[str, typer.Option(help="Kafka topic. It is created if it does not exist.")],
    client_settings: ClientSettings = None,
    every: Annotated[float, typer.Option(help="Seconds between two checks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Publish what is there, and end.")] = False,
    as_json: Json = False,
) -> None:
    """Publish a stream's releases to a Kafka topic, each once.

    The command runs until a signal ends it. A later publisher of the same stream and topic ends an earlier one.

    $ streamsketch job publish --job job.json --servers localhost:9092 --topic releases
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
    topic: Annotated[str, typer.Option(help="Topic that the job read.")],
    client_settings: ClientSettings = None,
    form: MessageForm = Form.arrow,
    root_key: StreamKey,
    claims: Claims,
    epoch: Annotated[int, typer.Option(help="Epoch of the launch that published.")],
    as_json: Json = False,
) -> None:
    r"""Compute a topic once more in this process, and compare: each release must have the same bytes.

    The command needs the root key, and what it reads is secret: it is for the operator only. The exit status is 1 if a
    release differs or is missing. If a unit exceeded its bounds, the release is clipped, so it does not have the sums
    of the log.

    $ streamsketch job replay --agreement agreement.json --job job.json --servers localhost:9092 --topic sales \
        --root-key root.key --claims /shared/claims --epoch 1
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
