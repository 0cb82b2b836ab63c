"""What commands of jobs and topics have in common: options, and packages that the base does not install."""

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import streamsketch as ss
from streamsketch import jobs
from streamsketch.cli._options import option
from streamsketch.streams.job import Job
from streamsketch.streams.state import STREAM_SUFFIX

_TAKEN = {  # what jobs import that is not in the base, and the extra with it
    "apache_beam": ("Apache Beam", "beam"),
    "boto3": ("boto3", "kinesis"),
    "confluent_kafka": ("confluent-kafka", "streams"),
    "fastavro": ("fastavro", "beam"),
    "prometheus_client": ("prometheus-client", "streams"),
}

_LOGIN = "schema.registry.basic.auth.user.info"

AgreementFile = Annotated[
    Path, option("Input", "FILE", "Agreement that says what is published of each window: a JSON file.", "--agreement")
]
JobFile = Annotated[
    Path,
    option("Input", "FILE", "Job that says how the stream is run: folder, clock, log, sinks; a JSON file.", "--job"),
]
Settings = Annotated[
    list[str] | None,
    option(
        "Input",
        "NAME=VALUE",
        "A field of the job, in place of what its file says: --set topic=sales. Repeat it for several fields.",
        "--set",
    ),
]
Epoch = Annotated[int | None, option("Workers", "NUMBER", "Epoch of a launch. A new launch claims the next.")]


def job_of(path: Path, settings: list[str] | None) -> Job:
    """Return the job in a file, with the fields that ``--set`` states; refuse one that is only to be tried."""
    job, is_dry = tried_job_of(path, settings)
    if is_dry:
        raise ss.InvalidInputError(
            "only `streamsketch stream file`, `pipe` and `kafka` make a dry run: leave out dry_run in the job"
        )
    return job


def tried_job_of(path: Path, settings: list[str] | None) -> tuple[Job, bool]:
    """Return a job as `job_of`, and whether it is only to be tried: ``dry_run``, which is then left out."""
    job = Job.load(path).with_settings(settings or [])
    return dataclasses.replace(job, dry_run=False), job.dry_run


def state_of(job: Job, path: Path) -> Path:
    """Return the file of a stream's state, by default next to the job; refuse other names, and wrong summaries."""
    state = path.with_suffix(STREAM_SUFFIX) if job.state is None else Path(job.state)
    if state.suffix != STREAM_SUFFIX or not state.parent.is_dir():
        raise ss.InvalidInputError(
            f"the state of a stream is written to a file named *{STREAM_SUFFIX} in an existing folder, got {state}"
        )
    if job.summary is not None and (not job.summary.endswith(".json") or not Path(job.summary).parent.is_dir()):
        raise ss.InvalidInputError(f"a summary is written to a file named *.json, got {job.summary}")
    return state


def message_form(job: Job) -> Literal["arrow", "json"]:
    """Return the format of a topic's messages."""
    if job.decoder is not None or job.format in ("avro", "debezium"):
        what = "decoder" if job.decoder is not None else f'"format": "{job.format}"'
        raise ss.InvalidInputError(
            f"the job has {what}, which `streamsketch stream kafka` reads, on one machine; on a cluster, decode "
            "messages in a step of your own before streamsketch.beam.streams"
        )
    if job.format is None or job.format == "arrow":
        return "arrow"
    if job.format != "json":
        raise ss.InvalidInputError(
            f"the messages of a topic are arrow or json, on one machine also avro or debezium, and the job has "
            f'"format": "{job.format}": --set format=json'
        )
    return "json"


def decoder_of(job: Job, columns: list[str]) -> "Literal['arrow', 'json'] | jobs.Decoder":
    """Return what decodes the messages of a topic on one machine."""
    if job.decoder is not None:
        if job.format is not None:
            raise ss.InvalidInputError(f'the job has a decoder and "format": "{job.format}": leave out one')
        return jobs.imported(job.decoder)
    if job.format == "debezium":
        return jobs.debezium_rows
    if job.format == "avro":
        job.need(("registry",), "a topic of Avro")
        settings = {} if job.client_settings is None else jobs.client_settings(job.client_settings)
        return jobs.avro_rows(jobs.Registry(str(job.registry), settings.get(_LOGIN)), columns)
    return message_form(job)


def topic_of(job: Job, expansion: str = "") -> "jobs.Topic":
    """Return the topic of a job, whose settings of the connection are right on this machine."""
    if (job.topic or "").startswith("arn:"):
        raise ss.InvalidInputError(
            "the job's topic is a data stream of Kinesis, which `streamsketch stream kafka` alone reads, on one machine"
        )
    job.need(("servers", "topic"), "a topic")
    if job.token is not None:
        raise ss.InvalidInputError(
            "the job has a token, which is a function of Python, and a cluster reads the topic in Java: log in by "
            "client_settings"
        )
    settings_in(job)
    reached = None if job.client_settings is None else str(Path(job.client_settings).absolute())
    return jobs.Topic(str(job.servers), str(job.topic), expansion, message_form(job), reached)


def settings_in(job: Job) -> dict[str, Any]:
    """Return the settings of a client of a job's brokers: those in its file, and the function for tokens."""
    stated = {} if job.client_settings is None else jobs.client_settings(job.client_settings)
    settings = {name: value for name, value in stated.items() if name != _LOGIN}
    if job.token is None:
        return settings
    purpose = "of a text that returns a token and when it expires, in seconds after 1970"
    return jobs.with_token(settings, jobs.imported(job.token, "token", purpose))


def _is_wanted(record: logging.LogRecord) -> bool:
    """Omit Beam's warning on import that Google's BigQuery client is missing: jobs do not use it."""
    return "apitools" not in record.getMessage()


@contextlib.contextmanager
def extras() -> Iterator[None]:
    """Load a package that jobs need and the base does not install; if it is missing, the error names the extra."""
    logging.getLogger().addFilter(_is_wanted)
    try:
        yield
    except ModuleNotFoundError as error:
        taken: Any = _TAKEN.get((error.name or "").partition(".")[0])
        if taken is None:
            raise
        name, extra = taken
        raise ModuleNotFoundError(f"this job needs {name} (the extra `{extra}` of streamsketch)") from None
