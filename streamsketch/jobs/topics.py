"""Kafka topics: publish each slot of a stream once, and read records."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource, NewTopic  # type: ignore[attr-defined]  # as documented

from streamsketch.intake.framing import is_heartbeat
from streamsketch.jobs.brokers import GROUP, Brokers, TopicError
from streamsketch.jobs.causes import Findings

_SECONDS = 30.0  # in which a broker must answer
_LOOK_SECONDS = 5.0
_SUFFIX = ".sketch"


class Record(NamedTuple):
    """A record of a topic; the timestamp is in milliseconds after 1970-01-01T00:00Z."""

    partition: int
    timestamp: int
    content: bytes
    key: bytes | None = None

    @property
    def is_beat(self) -> bool:
        """Whether it is a heartbeat, which has neither content nor a key."""
        return is_heartbeat(self.key, self.content)

    @property
    def element(self) -> bytes | list[bytes]:
        """The element that `streamsketch.beam.ReadTopic` makes of it, alone: empty bytes are a heartbeat."""
        return self.content if self.content or self.is_beat else [b""]


class Publisher:
    """Publish slots to a topic, beside the job. A later publisher of the same stream and topic ends an earlier one.

    A folder can refuse a second release of a slot, but a topic cannot. So the job writes files, and a publisher copies
    them to the topic. The value of a record is the release, and its key is the slot's window and name,
    ``2013-01-01T05-00-00Z/AA``. Records are written in transactions, so consumers with
    ``isolation.level=read_committed`` see each slot once, through all failures, restarts and launches of the job. Only
    the topic records what was published, so it must keep its keys: it is created with ``cleanup.policy=compact``.

    Parameters
    ----------
    servers
        Addresses of the brokers.
    topic
        Name of the topic, which is created if it does not exist.
    stream
        Name of the stream.
    settings
        How a client reaches the brokers, as `client_settings` returns it.

    Raises
    ------
    TopicError
        If the topic does not keep old keys, or a broker does not answer.
    """

    def __init__(self, servers: str, topic: str, stream: str, settings: Mapping[str, Any] | None = None) -> None:
        self._brokers, self._topic = Brokers(servers, settings), topic
        self._ensure_topic()
        self._producer = self._brokers.producer(
            transactional_id=f"streamsketch {stream} {topic}", enable_idempotence=True
        )
        with self._brokers.errors(self._producer):
            self._producer.init_transactions(_SECONDS)  # from here on, an earlier publisher can commit nothing
        # records without a key are not from a publisher
        self._published = {record.key.decode() for record in records(servers, topic, settings) if record.key}

    def publish(self, slots: dict[str, Path]) -> int:
        """Publish the slots that are not in the topic yet, in the order of their names; return their number."""
        fresh = sorted(slots.keys() - self._published)
        if fresh:
            with self._brokers.errors(self._producer):
                self._producer.begin_transaction()
                for name in fresh:
                    self._producer.produce(self._topic, slots[name].read_bytes(), name.encode())
                self._producer.commit_transaction(_SECONDS)
            self._published.update(fresh)
        return len(fresh)

    def _ensure_topic(self) -> None:
        admin = self._brokers.admin()
        topic = NewTopic(self._topic, 1, config={"cleanup.policy": "compact"})
        resource = ConfigResource(ConfigResource.Type.TOPIC, self._topic)
        with self._brokers.errors(admin):
            try:
                admin.create_topics([topic], request_timeout=_SECONDS)[self._topic].result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
            (future,) = admin.describe_configs([resource], request_timeout=_SECONDS).values()
            policy = future.result()["cleanup.policy"].value
        if policy != "compact":
            raise TopicError(
                f"the topic {self._topic} has cleanup.policy={policy}, so it would not keep what was published, and "
                "slots would be published again. Set cleanup.policy=compact, or use another topic"
            )


def records(servers: str, topic: str, settings: Mapping[str, Any] | None = None) -> Iterator[Record]:
    """Yield all records that are currently committed to a topic, each partition's in order.

    Parameters
    ----------
    servers
        Addresses of the brokers.
    topic
        Name of the topic.
    settings
        How a client reaches the brokers, as `client_settings` returns it.

    Raises
    ------
    TopicError
        If a broker does not answer or refuses the request.
    """
    brokers = Brokers(servers, settings)
    consumer = brokers.consumer(isolation_level="read_committed", enable_partition_eof=True)
    try:
        partitions = brokers.partitions(consumer, topic, _SECONDS)
        with brokers.errors(consumer):
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        unread = set(partitions)
        while unread:
            with brokers.errors():
                record = consumer.poll(_SECONDS)
            if record is None:
                raise TopicError(f"the topic {topic} cannot be read: no answer in {_SECONDS:g} s")
            error = record.error()
            if error is None:
                _, timestamp = record.timestamp()
                yield Record(record.partition() or 0, timestamp, record.value() or b"", record.key())
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so it is documented
                unread.discard(record.partition() or 0)
            else:
                raise TopicError(f"the topic {topic} cannot be read: {brokers.because(error)}")
    finally:
        consumer.close()


class SilentPartitions:
    """Partitions of a topic without a record for a time, each of which delays all windows. No record is read.

    Parameters
    ----------
    servers
        Addresses of the brokers.
    topic
        Name of the topic.
    after
        Seconds without a record after which a partition counts as silent; let heartbeats come more often.
    settings
        How a client reaches the brokers, as `client_settings` returns it.
    """

    def __init__(self, servers: str, topic: str, after: float, settings: Mapping[str, Any] | None = None) -> None:
        self._brokers = Brokers(servers, settings)
        self._consumer = self._brokers.consumer()
        self._topic, self._after = topic, after
        self._first_numbers: set[int] = set()

    def look(self, now: float, stale_after: float) -> Findings:  # noqa: ARG002
        """Return which partitions are silent, and how many were added since the first call."""
        since = round((now - self._after) * 1000)
        try:
            numbers = set(self._brokers.partitions(self._consumer, self._topic, _LOOK_SECONDS))
            asked = [TopicPartition(self._topic, number, since) for number in sorted(numbers)]
            with self._brokers.errors(self._consumer):
                places = self._consumer.offsets_for_times(asked, _LOOK_SECONDS)
        except TopicError as error:
            return [f"Kafka does not answer: {error}"], {}
        self._brokers.forget()
        self._first_numbers = self._first_numbers or numbers
        silent = [place.partition for place in places if place.offset < 0]
        wrong = []
        if silent:
            wrong.append(f"no record for {self._after:.0f} s in partitions {', '.join(map(str, silent))}")
        added = len(numbers - self._first_numbers)  # which streams read; a silent one is what is wrong
        return wrong, {"partitions": len(numbers), "partitions_silent": len(silent), "partitions_added": added}


class PartitionLag:
    """How many records of each partition a stream has not read yet, from the offsets that its group has committed.

    These offsets are for monitoring only, and a restart does not use them. No record is read.

    Parameters
    ----------
    servers
        Addresses of the brokers.
    topic
        Name of the topic.
    group
        The consumer group that commits offsets, from `group_of`.
    settings
        How a client reaches the brokers, as `client_settings` returns it.
    """

    def __init__(self, servers: str, topic: str, group: str, settings: Mapping[str, Any] | None = None) -> None:
        self._brokers = Brokers(servers, settings)
        self._consumer = self._brokers.consumer(group_id=group)
        self._topic = topic

    def look(self, now: float, stale_after: float) -> Findings:  # noqa: ARG002
        """Return the lag, in records, of each partition with a committed offset."""
        try:
            numbers = self._brokers.partitions(self._consumer, self._topic, _LOOK_SECONDS)
            asked = [TopicPartition(self._topic, number) for number in numbers]
            with self._brokers.errors(self._consumer):
                read = [place for place in self._consumer.committed(asked, _LOOK_SECONDS) if place.offset >= 0]
                ends = [self._consumer.get_watermark_offsets(place, _LOOK_SECONDS)[1] for place in read]
        except TopicError as error:
            return [f"Kafka does not answer: {error}"], {}
        self._brokers.forget()
        lags = {place.partition: float(max(0, end - place.offset)) for place, end in zip(read, ends, strict=True)}
        return [], {"partition_lag_records": lags} if lags else {}


def group_of(stream: str) -> str:
    """Return the name of the consumer group for which a stream commits its offsets in a topic.

    Examples
    --------
    >>> group_of("flights")
    'streamsketch-flights'
    """
    return f"{GROUP}-{stream}"


def slots_in(folder: Path, stream: str) -> dict[str, Path]:
    """Return the files of a stream's releases by window and key, such as ``2013-01-01T05-00-00Z/AA``.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> path = folder / "flights" / "2013-01-01T05-00-00Z" / "AA.sketch"
    >>> path.parent.mkdir(parents=True)
    >>> _ = path.write_bytes(b"")
    >>> list(slots_in(folder, "flights"))
    ['2013-01-01T05-00-00Z/AA']
    """
    paths = (folder / stream).glob(f"*/[!.]*{_SUFFIX}")
    return {f"{path.parent.name}/{path.name.removesuffix(_SUFFIX)}": path for path in paths}
