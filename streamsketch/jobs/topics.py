"""Kafka topics: a stream's releases published to one, each slot once, and records read from one."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic  # type: ignore[attr-defined]  # as documented

from streamsketch.errors import StreamsketchError

_SECONDS = 30.0  # a broker has to answer
_LOOK_SECONDS = 5.0
_SUFFIX = ".sketch"


class TopicError(StreamsketchError):
    """A topic that cannot be read, or to which slots cannot be published once."""


class Record(NamedTuple):
    """A record of a topic; the timestamp is in milliseconds after 1970-01-01T00:00Z."""

    partition: int
    timestamp: int
    content: bytes
    key: bytes = b""


class Publisher:
    """Publishes slots to a topic, beside the job; a later publisher of the same stream and topic ends an earlier one.

    A folder can refuse a second release of a slot, and a topic cannot. So the job writes files, and a publisher copies
    them to the topic. A record's value is the release, its key the slot's window and name,
    ``2013-01-01T05-00-00Z/AA``. Records are written in transactions: consumers with
    ``isolation.level=read_committed`` see each slot once, whatever is killed and restarted, and whichever launch of the
    job released it. The topic itself is the record of what was published. So it must keep its keys: it is created with
    ``cleanup.policy=compact``.

    Parameters
    ----------
    servers
        Addresses of the brokers.
    topic
        Name of the topic, which is created if it does not exist.
    stream
        Name of the stream.

    Raises
    ------
    TopicError
        If the topic forgets old keys, or a broker does not answer.
    """

    def __init__(self, servers: str, topic: str, stream: str) -> None:
        self._servers: dict[str, str | int | float | bool] = {"bootstrap.servers": servers}
        self._topic = topic
        settings = {"transactional.id": f"streamsketch {stream} {topic}", "enable.idempotence": True}
        with _errors():
            self._ensure_topic()
            self._producer = Producer(self._servers | settings)
            self._producer.init_transactions(_SECONDS)  # from here on, an earlier publisher can commit nothing
        # records without a key are somebody else's
        self._published = {record.key.decode() for record in records(servers, topic) if record.key}

    def publish(self, slots: dict[str, Path]) -> int:
        """Publish the slots that are not in the topic yet, in the order of their names; return their number."""
        fresh = sorted(slots.keys() - self._published)
        if fresh:
            with _errors():
                self._producer.begin_transaction()
                for name in fresh:
                    self._producer.produce(self._topic, slots[name].read_bytes(), name.encode())
                self._producer.commit_transaction(_SECONDS)
            self._published.update(fresh)
        return len(fresh)

    def _ensure_topic(self) -> None:
        admin = AdminClient(self._servers)
        topic = NewTopic(self._topic, 1, config={"cleanup.policy": "compact"})
        try:
            admin.create_topics([topic], request_timeout=_SECONDS)[self._topic].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        resource = ConfigResource(ConfigResource.Type.TOPIC, self._topic)
        (found,) = admin.describe_configs([resource], request_timeout=_SECONDS).values()
        policy = found.result()["cleanup.policy"].value
        if policy != "compact":
            raise TopicError(
                f"the topic {self._topic} has cleanup.policy={policy}: it would forget what was published, and slots "
                f"would be published again. Set cleanup.policy=compact, or name another topic"
            )


def records(servers: str, topic: str) -> Iterator[Record]:
    """Yield all records that are committed to a topic now, each partition's in order.

    Raises
    ------
    TopicError
        If a broker does not answer, or refuses.
    """
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": servers, "group.id": "streamsketch"}
    settings |= {"enable.auto.commit": False, "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer(settings)
    try:
        with _errors():
            partitions = consumer.list_topics(topic, _SECONDS).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        unread = set(partitions)
        while unread:
            with _errors():
                record = consumer.poll(_SECONDS)
            if record is None:
                raise TopicError(f"the topic {topic} cannot be read: no answer in {_SECONDS:g} s")
            error = record.error()
            if error is None:
                _, timestamp = record.timestamp()
                yield Record(record.partition() or 0, timestamp, record.value() or b"", record.key() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so it is documented
                unread.discard(record.partition())
            else:
                raise TopicError(f"the topic {topic} cannot be read: {error}")
    finally:
        consumer.close()


class SilentPartitions:
    """Which partitions of a topic have had no record for a time: each delays all windows. No record is read.

    Parameters
    ----------
    servers
        Addresses of the brokers.
    topic
        Name of the topic.
    after
        Seconds without a record after which a partition is silent; its heartbeats come more often.
    """

    def __init__(self, servers: str, topic: str, after: float) -> None:
        settings: dict[str, str | int | float | bool] = {"bootstrap.servers": servers, "group.id": "streamsketch"}
        self._consumer = Consumer(settings | {"enable.auto.commit": False})
        self._topic, self._after = topic, after
        self._known: set[int] = set()

    def look(self, now: float, stale_after: float) -> tuple[list[str], dict[str, float]]:  # noqa: ARG002
        """Return which partitions are silent, and which were added since the first look."""
        since = round((now - self._after) * 1000)
        try:
            numbers = set(self._consumer.list_topics(self._topic, _LOOK_SECONDS).topics[self._topic].partitions)
            asked = [TopicPartition(self._topic, number, since) for number in sorted(numbers)]
            found = self._consumer.offsets_for_times(asked, _LOOK_SECONDS)
        except KafkaException as error:
            return [f"Kafka cannot be asked: {error.args[0].name() if error.args else 'no answer'}"], {}
        self._known = self._known or numbers
        added, silent = sorted(numbers - self._known), [one.partition for one in found if one.offset < 0]
        wrong = []
        if silent:
            wrong.append(f"no record for {self._after:.0f} s in partitions {', '.join(map(str, silent))}")
        if added:
            wrong.append(f"partitions {', '.join(map(str, added))} were added, and a running job may not read them")
        return wrong, {"partitions": len(numbers), "partitions_silent": len(silent), "partitions_added": len(added)}


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise TopicError(f"Kafka says: {error}") from error


def slots_in(folder: Path, stream: str) -> dict[str, Path]:
    """Return the files of a stream's releases by window and key, such as ``2013-01-01T05-00-00Z/AA``."""
    found = (folder / stream).glob(f"*/[!.]*{_SUFFIX}")
    return {f"{path.parent.name}/{path.name.removesuffix(_SUFFIX)}": path for path in found}
