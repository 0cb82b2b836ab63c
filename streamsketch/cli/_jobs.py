"""What commands of jobs and topics have in common: options, and packages that the base does not install."""

import contextlib
import enum
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from streamsketch import jobs
from streamsketch.cli._options import option

_TAKEN = {  # what jobs import that is not in the base, and the extra with it
    "apache_beam": ("Apache Beam", "beam"),
    "confluent_kafka": ("confluent-kafka", "streams"),
    "prometheus_client": ("prometheus-client", "streams"),
}


class Form(enum.StrEnum):
    """The kind of a topic's messages."""

    arrow = "arrow"
    json = "json"


class Log(enum.StrEnum):
    """The lines of a job on standard error."""

    text = "text"
    json = "json"


AgreementFile = Annotated[
    Path,
    option("Input", "FILE", "Agreement that says what is published of each window: a JSON file.", "--agreement"),
]
JobFile = Annotated[
    Path, option("Input", "FILE", "Job that states how the stream is run: folder, clock, ledger; a JSON file.", "--job")
]
Servers = Annotated[str, option("Kafka", "HOST:PORT", "Addresses of Kafka's brokers.")]
MessageForm = Annotated[Form, option("Kafka", "arrow|json", "Format of the topic's messages.", "--format")]
ClientSettings = Annotated[
    Path | None,
    option(
        "Kafka",
        "FILE",
        "File of settings for the connection to the brokers, such as TLS and SASL: librdkafka's names, mode 0600.",
    ),
]
Database = Annotated[
    str | None,
    option(
        "Workers",
        "DATABASE",
        "Database for the releases, instead of files: sqlite:PATH, or postgresql, which takes its address from "
        "PGHOST and the like.",
    ),
]


def settings_in(path: Path | None) -> dict[str, str]:
    """Return the settings of a client in a file, if there is one."""
    return {} if path is None else jobs.client_settings(path)


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
