"""Connections to Kafka's brokers: addresses, a file of settings for TLS and SASL, and errors as sentences."""

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from streamsketch.core.limits import current_limits, read_bounded
from streamsketch.errors import InvalidInputError, StreamsketchError

C = TypeVar("C")
GROUP = "streamsketch"
Token: TypeAlias = Callable[[str], tuple[Any, ...]]
"""Returns a token and when it expires, in seconds after 1970, from the text of ``sasl.oauthbearer.config``."""

_OAUTH = "OAUTHBEARER"
_EXPIRED = "-", 1.0  # which librdkafka refuses; an exception would end its client
_GIVES = "it takes a text and returns a token and when it expires, in seconds after 1970"
_ALLOWED = re.compile(
    r"(security\.protocol|(ssl|sasl|enable\.ssl|https)\..+|enable\.sasl\..+|client\.(id|rack|dns\.lookup)"
    r"|broker\.address\.(family|ttl)|socket\..+|fetch\..+|receive\.message\.max\.bytes|queued\.max\..+"
    r"|(reconnect|retry)\.backoff\.(max\.)?ms|connections\.max\.idle\.ms|api\.version\.request|debug|schema\.registry\.basic\.auth\.user\.info)"
)
_JAVA = {  # settings that have other names in Java than in librdkafka
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
    """A topic that cannot be read, or to which slots cannot be published exactly once."""

    reason: str | None = "topic"


class UnreachableError(TopicError):
    """Brokers that do not answer; a later try may succeed."""

    reason = "brokers_unreachable"


def client_settings(path: str | os.PathLike[str]) -> dict[str, str]:
    r"""Return the settings of a Kafka client from a file: how it connects to brokers by TLS and logs in by SASL.

    A line is ``name=value``, with the names of librdkafka, most of which equal those of Java's ``client.properties``.
    Empty lines and lines that begin with ``#`` are skipped. Settings that decide which records are read or written are
    refused, because the command sets them.

    Parameters
    ----------
    path
        The file. It may hold a password, so only its owner may have access (mode 0600).

    Returns
    -------
    dict
        The value of each setting by its name.

    Raises
    ------
    InvalidInputError
        If others have access to the file, or a line is not a setting, names a setting that is not for connections, or
        repeats one.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "client.properties"
    >>> _ = path.write_text("security.protocol=SASL_SSL\n# the login\nsasl.username=streams\n")
    >>> path.chmod(0o600)
    >>> client_settings(path)
    {'security.protocol': 'SASL_SSL', 'sasl.username': 'streams'}
    """
    if Path(path).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidInputError(
            f"other users have access to {Path(path)}, which may hold a password; run chmod 600 {Path(path)}"
        )
    text = read_bounded(path, current_limits().max_json_bytes, "max_json_bytes").decode(errors="replace")
    settings: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not name or name.startswith("#"):
            continue
        where = f"line {number} of {Path(path)}"
        if not equals:
            raise InvalidInputError(f"{where} is not a setting; write NAME=VALUE")
        if name in _JAVA:
            raise InvalidInputError(f"{where} has {name}, a setting of Java clients; use {_JAVA[name]}")
        if not _ALLOWED.fullmatch(name):
            raise InvalidInputError(
                f"{where} sets {name!a:.80}, which is not a setting of connections; leave it out, and use "
                "security.protocol, ssl.*, sasl.*, socket.* and schema.registry.basic.auth.user.info only"
            )
        if name in settings:
            raise InvalidInputError(f"{where} sets {name} again")
        settings[name] = value
    return settings


def with_token(settings: Mapping[str, Any], token: Token) -> dict[str, Any]:
    """Return settings of a connection that logs in by a function, as confluent_kafka's ``oauth_cb``.

    Parameters
    ----------
    settings
        Settings with ``sasl.mechanism=OAUTHBEARER``, as `client_settings` returns them.
    token
        The function. It is called when a client connects, and again before a token expires.

    Raises
    ------
    InvalidInputError
        If the settings log in by another mechanism, or by OpenID Connect, which needs no function.

    Examples
    --------
    >>> settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    >>> sorted(with_token(settings, lambda config: ("a token", 2e9)))
    ['oauth_cb', 'sasl.mechanism', 'security.protocol']
    """
    mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms"))
    if mechanism != _OAUTH or settings.get("sasl.oauthbearer.method", "default") != "default":
        raise InvalidInputError(
            f"a function for tokens goes with sasl.mechanism={_OAUTH} in client_settings, without "
            f"sasl.oauthbearer.method, and the settings have {'none' if mechanism is None else mechanism}"
        )
    return {**settings, "oauth_cb": token}


class Brokers:
    """Kafka's brokers.

    Parameters
    ----------
    servers
        Addresses of the brokers, ``HOST:PORT``, separated by commas.
    settings
        Settings of the connection, as `client_settings` and `with_token` return them; by default without TLS and login.
    token
        A function that returns a token, with which each client logs in (`with_token`).

    Examples
    --------
    A broker is not contacted until a client asks for something.

    >>> brokers = Brokers("broker-1:9092,broker-2:9092")
    >>> brokers.trouble is None
    True
    """

    def __init__(self, servers: str, settings: Mapping[str, Any] | None = None, *, token: Token | None = None) -> None:
        stated = dict(settings or {}) if token is None else with_token(settings or {}, token)
        self._token: Token | None = stated.pop("oauth_cb", None)
        self.servers, self._settings = servers, stated
        if self._token is not None:
            self._settings["oauth_cb"] = self._fetch
        self._causes: dict[int, str] = {}  # errors of connections, by their codes
        self._no_token: str | None = None
        self._first: tuple[Any, ...] | None = None  # the token of the client that is being made

    def consumer(self, **settings: Any) -> Consumer:
        """Return a consumer that does not commit by itself; settings have names such as ``group_id``."""
        return self._made(Consumer, {"group_id": GROUP, "enable_auto_commit": False} | settings)

    def admin(self) -> AdminClient:
        """Return a client of the brokers' administration."""
        return self._made(AdminClient, {})

    def producer(self, **settings: Any) -> Producer:
        """Return a producer; settings have names such as ``transactional_id``."""
        return self._made(Producer, settings)

    def _made(self, kind: Callable[[dict[str, Any]], C], settings: Mapping[str, Any]) -> C:
        """Return a client, with a token that is there before it is made: it would wait ten seconds for one."""
        if self._token is not None:
            self._first = self._fetch(self._settings.get("sasl.oauthbearer.config"))
            if self._no_token is not None:
                raise UnreachableError(self._no_token)
        try:
            with self.errors():
                return kind(self._with(settings))
        finally:
            self._first = None

    def partitions(self, client: Consumer | AdminClient, topic: str, seconds: float) -> list[int]:
        """Return the numbers of a topic's partitions, ascending.

        Raises
        ------
        TopicError
            If there is no such topic, or the brokers do not answer within ``seconds``.
        """
        with self.errors(client):
            metadata = client.list_topics(topic, seconds).topics[topic]
        if metadata.error is not None:
            raise _kind(metadata.error)(f"the topic {topic} cannot be read: {metadata.error.str()}")
        if not metadata.partitions:
            raise TopicError(f"the topic {topic} has no partitions")
        return sorted(metadata.partitions)

    @contextlib.contextmanager
    def errors(self, client: Any = None) -> Iterator[None]:
        """Turn the client's errors into `TopicError`, with a fatal error or that of its connections as the cause."""
        try:
            yield
        except (KafkaException, SystemError) as error:  # the latter if a client was not made, for want of a token
            if self._no_token is not None:
                raise UnreachableError(self._no_token) from None
            if isinstance(error, SystemError):
                raise
            cause = error.args[0]
            if client is not None:
                try:
                    client.poll(0)  # calls `note`
                except KafkaException as fatal:  # after which all calls fail, without a word of it
                    cause = fatal.args[0]
            raise _kind(cause)(f"Kafka reports: {self.because(cause)}") from error

    def because(self, error: Any) -> str:
        """Return an error in words, with the error of the connections if the brokers cannot be reached."""
        if not isinstance(error, KafkaError):
            return str(error)
        text = str(error.str())
        cause = next((self._causes[code] for code in _CAUSES if code in self._causes), None)
        if cause is None and error.code() in _NO_ANSWER:
            cause = "no broker answers; check the address, and whether the broker needs TLS or a login"
        return text if cause is None or cause in text else f"{cause} ({text})"

    @property
    def trouble(self) -> str | None:
        """Why no broker can be reached, in words; None as long as one can."""
        if KafkaError._ALL_BROKERS_DOWN not in self._causes and KafkaError._AUTHENTICATION not in self._causes:  # noqa: SLF001
            return None
        return next((self._causes[code] for code in _CAUSES if code in self._causes), "no broker answers")

    def note(self, error: KafkaError) -> None:
        """Record the error of a connection."""
        text = _WHERE.sub("", error.str())
        if error.code() == KafkaError._AUTHENTICATION and self._no_token is not None:  # noqa: SLF001 - as above
            text = self._no_token
        self._causes[error.code()] = text

    def _fetch(self, config: Any) -> tuple[Any, ...]:
        """Return a token; if there is none, note why and return one that is refused, so that it is asked for again."""
        if self._token is None:
            return _EXPIRED
        first, self._first = self._first, None
        if first is not None:
            return first
        try:
            text, expires, *more = self._token(config)
            token = (text + "", float(expires), *more)  # which raise for other types
        except Exception as error:  # noqa: BLE001 - of a function of the user; its text may hold the token
            self._no_token = f"the function for tokens raised {type(error).__name__}; {_GIVES}"
            return _EXPIRED
        if not token[1] > (now := time.time()):
            self._no_token = (
                f"the function for tokens returned one that expired at {token[1]:.0f}, and it is {now:.0f}; {_GIVES}"
            )
            return _EXPIRED
        self._no_token = None
        return token

    def forget(self) -> None:
        """Forget the errors of connections once they work again."""
        self._causes.clear()

    def _with(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        ours = {name if name == "on_commit" else name.replace("_", "."): value for name, value in settings.items()}
        # librdkafka would print on standard error what is in the errors
        return {"log_level": 0, **self._settings, "bootstrap.servers": self.servers, **ours, "error_cb": self.note}


def _kind(error: Any) -> type[TopicError]:
    """Return what kind of error it is: whether the same may work later."""
    later = isinstance(error, KafkaError) and (error.code() in (*_CAUSES, *_NO_ANSWER) or error.retriable())
    return UnreachableError if later else TopicError
