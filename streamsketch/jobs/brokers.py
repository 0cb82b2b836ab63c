"""Kafka's brokers as a client reaches them: addresses, a file of settings for TLS and SASL, and errors as sentences."""

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from streamsketch.core import current_limits, read_bounded
from streamsketch.errors import InvalidInputError, StreamsketchError

GROUP = "streamsketch"
_ALLOWED = re.compile(
    r"(security\.protocol|(ssl|sasl|enable\.ssl|https)\..+|enable\.sasl\..+|client\.(id|rack|dns\.lookup)"
    r"|broker\.address\.(family|ttl)|socket\..+|fetch\..+|receive\.message\.max\.bytes|queued\.max\..+"
    r"|(reconnect|retry)\.backoff\.(max\.)?ms|connections\.max\.idle\.ms|api\.version\.request|debug)"
)
_JAVA = {  # names that Java has for what librdkafka calls otherwise
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location, a file of certificates in PEM",
    "ssl.truststore.password": "ssl.ca.location, a file of certificates in PEM",
    "ssl.truststore.type": "ssl.ca.location, a file of certificates in PEM",
    "ssl.keystore.type": "ssl.certificate.location and ssl.key.location, files in PEM",
}
_CAUSES = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE, KafkaError._TRANSPORT)  # noqa: SLF001 - so they are documented
_NO_ANSWER = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)  # noqa: SLF001 - as above
_WHERE = re.compile(r"^(?:\w+://)?[^\s]*?/(?:bootstrap|\d+): | \(after \d+ms in state \w+\)")


class TopicError(StreamsketchError):
    """A topic that cannot be read, or to which slots cannot be published once."""


class UnreachableError(TopicError):
    """Brokers that do not answer now; they may later."""


def client_settings(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the settings of a Kafka client in a file: how it reaches brokers by TLS, and logs in by SASL.

    A line is ``name=value``, with the names of librdkafka, most of which are those of Java's ``client.properties``.
    Empty lines and those that begin with ``#`` are left out. Settings that decide which records are read or written
    are refused: they are the command's.

    Parameters
    ----------
    path
        The file. It may hold a password, so nobody but its owner may read it (mode 0600).

    Raises
    ------
    InvalidInputError
        For a file that others can read, and for a line that is none.
    OSError
        If the file cannot be read.
    """
    if Path(path).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidInputError(f"others can read {Path(path)}, which may hold a password: chmod 600 {Path(path)}")
    text = read_bounded(path, current_limits().max_json_bytes, "max_json_bytes").decode(errors="replace")
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not name or name.startswith("#"):
            continue
        where = f"line {number} of {Path(path)}"
        if not equals:
            raise InvalidInputError(f"{where} is no setting, which is NAME=VALUE")
        if name in _JAVA:
            raise InvalidInputError(f"{where} has Java's setting {name}: say {_JAVA[name]}")
        if not _ALLOWED.fullmatch(name):
            raise InvalidInputError(
                f"{where} sets {name!a:.80}, and client settings say how brokers are reached: security.protocol, "
                f"ssl.*, sasl.*, socket.*"
            )
        if name in found:
            raise InvalidInputError(f"{where} sets {name} again")
        found[name] = value
    return found


class Brokers:
    """Kafka's brokers.

    Parameters
    ----------
    servers
        Their addresses, ``HOST:PORT``, with commas between them.
    settings
        How a client reaches them, as `client_settings` returns it; by default without TLS and a login.
    """

    def __init__(self, servers: str, settings: Mapping[str, str] | None = None) -> None:
        self.servers, self._settings = servers, dict(settings or {})
        self._causes: dict[int, str] = {}  # what connections said, by the codes of their errors

    def consumer(self, **settings: Any) -> Consumer:
        """Return a consumer that commits nothing by itself; settings are in Python's names, ``group_id``."""
        with self.errors():
            return Consumer(self._with({"group_id": GROUP, "enable_auto_commit": False} | settings))

    def admin(self) -> AdminClient:
        """Return a client of the brokers' administration."""
        with self.errors():
            return AdminClient(self._with({}))

    def producer(self, **settings: Any) -> Producer:
        """Return a producer; settings are in Python's names."""
        with self.errors():
            return Producer(self._with(settings))

    def partitions(self, client: Consumer | AdminClient, topic: str, seconds: float) -> list[int]:
        """Return the numbers of a topic's partitions, ascending.

        Raises
        ------
        TopicError
            If there is no such topic, or the brokers do not answer in so many seconds.
        """
        with self.errors(client):
            found = client.list_topics(topic, seconds).topics[topic]
        if found.error is not None:
            raise _kind(found.error)(f"the topic {topic} cannot be read: {found.error.str()}")
        if not found.partitions:
            raise TopicError(f"the topic {topic} has no partitions")
        return sorted(found.partitions)

    @contextlib.contextmanager
    def errors(self, client: Any = None) -> Iterator[None]:
        """Turn the client's errors into `TopicError`, with what its connections said if that is why."""
        try:
            yield
        except KafkaException as error:
            if client is not None:
                client.poll(0)  # calls `note`
            raise _kind(error.args[0])(f"Kafka says: {self.because(error.args[0])}") from error

    def because(self, error: Any) -> str:
        """Return an error in words, with what the connections said if the brokers cannot be reached."""
        if not isinstance(error, KafkaError):
            return str(error)
        text = str(error.str())
        cause = next((self._causes[code] for code in _CAUSES if code in self._causes), None)
        if cause is None and error.code() in _NO_ANSWER:
            cause = "no broker answers; does one listen at this address, for TLS or a login?"
        return text if cause is None or cause in text else f"{cause} ({text})"

    @property
    def trouble(self) -> str | None:
        """Why no broker can be reached, in words; None as long as one can."""
        if KafkaError._ALL_BROKERS_DOWN not in self._causes and KafkaError._AUTHENTICATION not in self._causes:  # noqa: SLF001
            return None
        return next((self._causes[code] for code in _CAUSES if code in self._causes), "no broker answers")

    def note(self, error: KafkaError) -> None:
        """Note what a connection said."""
        self._causes[error.code()] = _WHERE.sub("", error.str())

    def forget(self) -> None:
        """Forget what connections said: they work again."""
        self._causes.clear()

    def _with(self, given: Mapping[str, Any]) -> dict[str, Any]:
        ours = {name if name == "on_commit" else name.replace("_", "."): value for name, value in given.items()}
        # librdkafka would print on standard error what is in the errors
        return {"log_level": 0, **self._settings, "bootstrap.servers": self.servers, **ours, "error_cb": self.note}


def _kind(error: Any) -> type[TopicError]:
    """Return what kind of error it is: whether the same may work later."""
    later = isinstance(error, KafkaError) and (error.code() in (*_CAUSES, *_NO_ANSWER) or error.retriable())
    return UnreachableError if later else TopicError
