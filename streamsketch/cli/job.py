"""``streamsketch job``: Apache Beam jobs on files and streams, and what stands beside them."""

import contextlib
import logging
import time
from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch import jobs
from streamsketch.cli._jobs import (
    AgreementFile,
    ClientSettings,
    Database,
    Form,
    Log,
    MessageForm,
    PolicyFile,
    Servers,
    extras,
    settings_in,
)
from streamsketch.cli._saying import say
from streamsketch.cli._showing import Json, guarantee_fields, plural, show_result
from streamsketch.core import names_given
from streamsketch.estimation import below_noise_floor, block_of
from streamsketch.privacy import mechanism_names
from streamsketch.streams import StreamPolicy

BeamOptions = Annotated[
    list[str] | None,
    typer.Argument(
        help="After --, options of Apache Beam, such as --runner=FlinkRunner; by default it runs in this process.",
        metavar="[-- BEAM OPTION...]",
        show_default=False,
    ),
]
RootKey = Annotated[
    Path | None,
    typer.Option(help="File on every worker that holds a key of 32 bytes, mode 0600.", show_default=False),
]
StreamKey = Annotated[Path, typer.Option("--root-key", help="File on every worker: a key of 32 bytes, mode 0600.")]
Claims = Annotated[str, typer.Option(help="Folder that all workers share, for epochs and alarms. Keep it private.")]


def files(  # noqa: PLR0913 - a command's options are its parameters
    beam: BeamOptions = None,
    *,
    pattern: Annotated[
        list[str], typer.Option("--input", help="A file or glob of Parquet, CSV, JSON lines or Avro; once for each.")
    ],
    agreement: AgreementFile,
    output: Annotated[str, typer.Option("--output", "-o", help="Folder for the results, which all workers share.")],
    epsilon: Annotated[float, typer.Option(help="Privacy loss bound ε, > 0, for all keys together.")],
    delta: Annotated[float, typer.Option(help="Probability δ in [0, 1) with which it may fail.")] = 0.0,
    mechanism: Annotated[str, typer.Option(help=f"Which noise: {', '.join(mechanism_names())}.")] = "auto",
    public_key: Annotated[
        list[str] | None,
        typer.Option(
            help="Keys to release, named without a look at the data: with commas, or once for each. With --window, "
            "'KEY 2024-05-31'.",
            show_default=False,
        ),
    ] = None,
    keys_are_public: Annotated[
        bool, typer.Option("--keys-are-public", help="Release all keys in the data: who is in them is no secret.")
    ] = False,
    clip: Annotated[
        str | None,
        typer.Option(
            help="How units are clipped, unless the agreement says: scale, the default, cut, equal, or none.",
            show_default=False,
        ),
    ] = None,
    delimiter: Annotated[str, typer.Option(help="What is between the cells of CSV.")] = ",",
    window: Annotated[
        str | None,
        typer.Option(
            help="One stream for each key and window: of a length, such as '1 day', or day, week or month of the "
            "calendar.",
            show_default=False,
        ),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(help="Time zone of the calendar, such as Europe/Berlin; by default UTC.", show_default=False),
    ] = None,
    time: Annotated[str | None, typer.Option(help="Column of times, for --window.", show_default=False)] = None,
    time_format: Annotated[
        str | None, typer.Option(help="How text says times, as of strptime; by default, ISO 8601.", show_default=False)
    ] = None,
    claims: Annotated[
        str | None,
        typer.Option(
            help="Folder that all workers share, for the secret of each run; needed on Flink and Spark.",
            show_default=False,
        ),
    ] = None,
    run_id: Annotated[
        str | None, typer.Option(help="Name of this run in --claims; by default a random one.", show_default=False)
    ] = None,
    root_key: RootKey = None,
    as_json: Json = False,
) -> None:
    """Sketch files on a cluster, release each key once, and compare all releases.

    The folder gets sketches.parquet, sketches/KEY.sketch, and cosines and distances as Parquet and CSV. Units are
    clipped where the agreement names them, unless --clip none says that they keep to the bound. Where the agreement
    counts them, the folder also gets means, the distances of averages.
    """
    if bool(public_key) == keys_are_public:
        raise ss.InvalidInputError("say which keys are released: --public-key NAMES, or --keys-are-public; one of both")
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
    lost = below_noise_floor(block_of(list(releases.values())))
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
    policy: PolicyFile,
    servers: Annotated[str | None, typer.Option(help="Kafka's brokers, HOST:PORT.", show_default=False)] = None,
    topic: Annotated[str | None, typer.Option(help="Kafka's topic.", show_default=False)] = None,
    expansion: Annotated[
        str | None,
        typer.Option(help="Beam's expansion service with the connector of pipelines/flink.", show_default=False),
    ] = None,
    client_settings: ClientSettings = None,
    form: MessageForm = Form.arrow,
    folder: Annotated[
        str | None, typer.Option(help="Folder of Parquet files that grows, instead of a topic.", show_default=False)
    ] = None,
    root_key: StreamKey,
    claims: Claims,
    epoch: Annotated[
        int | None,
        typer.Option(help="Of a job that is restored; a new launch claims the next.", show_default=False),
    ] = None,
    database: Database = None,
    log: Annotated[
        Log, typer.Option(help="text, with all that Beam says, for the operator alone, or json without private values.")
    ] = Log.text,
    dead_letters: Annotated[
        str | None,
        typer.Option(
            help="Folder for rows that are late or too far ahead and messages that cannot be read: secret. By default "
            "they are counted alone.",
            show_default=False,
        ),
    ] = None,
    dead_letters_bytes: Annotated[int, typer.Option(help="How large that folder may get.")] = 1 << 30,
    count_private_data: Annotated[
        bool, typer.Option("--count-private-data", help="Count late rows as Beam metrics, for the operator alone.")
    ] = False,
) -> None:
    """Release each window of an unbounded stream once, from a Kafka topic or a folder that grows.

    Agreement and policy are those of `sketch --policy`; the policy of a job names the stream.
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
        job = jobs.StreamJob(
            agreement=ss.Agreement.load(agreement),
            policy=StreamPolicy.load(policy),
            source=source or jobs.GrowingFolder(str(folder)),
            root_key=root_key,
            claims=claims,
            epoch=epoch,
            database=database,
            dead_letters=dead_letters,
            dead_letters_bytes=dead_letters_bytes,
            count_private_data=count_private_data,
        )
    raise typer.Exit(job.run(beam or [], log=log.value))


def watch(  # noqa: PLR0913 - a command's options are its parameters
    *,
    agreement: AgreementFile,
    policy: PolicyFile,
    database: Database = None,
    alarms: Annotated[
        Path | None, typer.Option(help="Folder of alarms, to count them: CLAIMS/STREAM.alarms.", show_default=False)
    ] = None,
    counts: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the workers' counts, CLAIMS/STREAM.counts: dropped rows say why. Private: for the operator "
            "alone.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="On 127.0.0.1; 0 is any that is free.")] = 9100,
    health: Annotated[Path | None, typer.Option(help="File to keep the line of health in.", show_default=False)] = None,
    stale_after: Annotated[
        float | None, typer.Option(help="Seconds for which nothing may come; by default three windows.")
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between two looks.")] = 5.0,
    flink: Annotated[
        str | None,
        typer.Option(
            help="Flink's REST interface, http://HOST:PORT: restarts and checkpoints say why.", show_default=False
        ),
    ] = None,
    job_id: Annotated[
        str | None, typer.Option(help="The job's id on Flink; by default the only one that runs.", show_default=False)
    ] = None,
    servers: Annotated[
        str | None, typer.Option(help="Kafka's brokers, HOST:PORT: silent partitions say why.", show_default=False)
    ] = None,
    topic: Annotated[str | None, typer.Option(help="The topic that the job reads.", show_default=False)] = None,
    client_settings: ClientSettings = None,
    silent_after: Annotated[
        float | None,
        typer.Option(
            help="Seconds without a record that a partition may have; by default one window.", show_default=False
        ),
    ] = None,
) -> None:
    """Serve metrics and health of a stream on 127.0.0.1, from what it has published alone.

    /metrics is for Prometheus, /health one line of JSON with status 200 or 503. It reads the releases, as anybody may,
    and counts the alarms; it never meets the job's data or its key. With --flink and --servers, health also says what
    is wrong with the job and the topic; no record is read.
    """
    if (servers is None) != (topic is None) or (job_id is not None and flink is None):
        raise ss.InvalidInputError("--servers and --topic go together, and --job-id with --flink")
    if client_settings is not None and servers is None:
        raise ss.InvalidInputError("--client-settings go with --servers and --topic")
    released_by = StreamPolicy.load(policy)
    with extras():
        causes: list[jobs.Cause] = [] if flink is None else [jobs.FlinkJob(flink, job_id)]
        if counts is not None:
            causes.append(jobs.DroppedRows(counts, released_by.max_dropped))
        if servers is not None:
            silent = released_by.of_one_length.size / 10**6 if silent_after is None else silent_after
            reached = settings_in(client_settings)
            causes.append(jobs.SilentPartitions(servers, str(topic), silent, reached))
            causes.append(jobs.PartitionLag(servers, str(topic), jobs.group_of(str(released_by.stream)), reached))
        watched = jobs.Watch(
            ss.Agreement.load(agreement),
            released_by,
            causes=causes,
            database=database,
            stale_after=stale_after,
            patience=60 + 3 * every,
            alarms=alarms,
        )
        serve = jobs.Server
    watched.look()
    with contextlib.suppress(SystemExit), serve(watched, port) as server:  # it is ended by a signal
        typer.echo(f"http://127.0.0.1:{server.server_port}/metrics and /health")
        server.keep_on(every, health)


def publish(
    *,
    policy: PolicyFile,
    servers: Servers,
    topic: Annotated[str, typer.Option(help="Kafka's topic, created if it does not exist.")],
    client_settings: ClientSettings = None,
    every: Annotated[float, typer.Option(help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Publish what is there, and end.")] = False,
) -> None:
    """Publish a stream's releases to a Kafka topic, each once.

    It goes on until a signal ends it. A later publisher of the same stream and topic ends an earlier one.
    """
    place = StreamPolicy.load(policy)
    if place.stream is None:
        raise ss.InvalidInputError(f'{policy} names no stream, so no job follows it: say "stream": "NAME"')
    with extras():
        publisher = jobs.Publisher(servers, topic, place.stream, settings_in(client_settings))
    with contextlib.suppress(SystemExit):  # it is ended by a signal
        while True:
            count = publisher.publish(jobs.slots_in(Path(place.folder), place.stream))
            if count:
                typer.echo(f"published {plural(count, 'slot')}")
            if once:
                return
            time.sleep(every)


def replay(  # noqa: PLR0913 - a command's options are its parameters
    *,
    agreement: AgreementFile,
    policy: PolicyFile,
    servers: Servers,
    topic: Annotated[str, typer.Option(help="The topic that the job read.")],
    client_settings: ClientSettings = None,
    form: MessageForm = Form.arrow,
    root_key: StreamKey,
    claims: Claims,
    epoch: Annotated[int, typer.Option(help="Epoch of the launch that published.")],
    as_json: Json = False,
) -> None:
    """Compute a topic once more in this process, and compare: each release must have the same bytes.

    It needs the root key, and what it reads is secret: it is for the operator alone. Ends with 1 if a release differs
    or is missing. A release with a unit that was over its bounds does not have the sums of the log, as it should be.
    """
    with extras():
        job = jobs.StreamJob(
            agreement=ss.Agreement.load(agreement),
            policy=StreamPolicy.load(policy),
            source=jobs.Topic(servers, topic, "", form.value),
            root_key=root_key,
            claims=claims,
            epoch=epoch,
        )
        found = jobs.replay(job, jobs.records(servers, topic, settings_in(client_settings)))
    facts = {
        "releases": f"{found.slots:,}, and {found.missing:,} missing",
        "same bytes": f"{found.same_bytes:,}",
        "sums of the log": f"{found.same_sums:,}",
    }
    show_result(f"{job.stream}, epoch {epoch}", facts, found._asdict(), as_json=as_json)
    if found.missing or found.same_bytes < found.slots:
        say("That is wrong: the log was changed, or a release was computed from other data.")
        raise typer.Exit(1)
