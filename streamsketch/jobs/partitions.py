"""All partitions of a topic, read by one process that assigns them itself, each from its own offset."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka import Message as Received
from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]  # as documented

from streamsketch.jobs.brokers import Brokers, TopicError
from streamsketch.jobs.payloads import Message

_SECONDS = 30.0  # in which a broker must answer
_LOOK_SECONDS = 5.0  # the same, while records are read
_MOST = 4096  # messages at once
_KILOBYTES = 1 << 15  # size of messages that wait to be read
_ENDS = {  # errors of records after which no later record can be read
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - so it is documented
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
}


class Bounds(NamedTuple):
    """The first available offset of a partition, the one after its last, and the one after the last that is committed.

    Between the last two, a transaction is open: its records cannot be read yet. None if there are no transactions.
    """

    first: int
    end: int
    committed: int | None = None


class LostOffsetsError(TopicError):
    """The offset to read next is no longer in the topic."""

    reason = "retention"


class Log(Protocol):
    """The partitions of a topic; your own class needs the same members."""

    @property
    def identity(self) -> str | None:
        """An id that distinguishes the topic from another of the same name; None if the brokers have none."""

    @property
    def is_compacted(self) -> bool:
        """Whether the topic keeps only the newest record of each key, so that rows may be gone before they are read."""

    def bounds(self) -> Mapping[int, "Bounds | tuple[int, int]"]:
        """Return the bounds of each partition."""

    def assign(self, offsets: Mapping[int, int]) -> None:
        """Read partitions from these offsets on, and no others."""

    def poll(self, seconds: float) -> dict[int, list[Message]]:
        """Return the next messages by partition, in order, after at most so many seconds."""

    def ended(self) -> dict[int, int]:
        """Return the partitions of which all was read that is committed, and the offset after it."""

    def trouble(self) -> str | None:
        """Return why the brokers cannot be reached now, in words; None if they can."""

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Show monitors how far partitions were read; a restart does not use these offsets."""

    def close(self) -> None:
        """Stop reading and send pending commits."""


class Partitions:
    """The partitions of a Kafka topic: a `Log`.

    Parameters
    ----------
    brokers
        The brokers.
    topic
        Name of the topic.
    group
        Consumer group to which offsets are committed, for monitors.
    """

    def __init__(self, brokers: Brokers, topic: str, group: str) -> None:
        self._brokers, self._topic = brokers, topic
        self._ended: dict[int, int] = {}
        self.commit_error: str | None = None
        """Why the last commit of offsets failed, in words; None if it did not."""
        self._consumer = brokers.consumer(
            group_id=group,
            auto_offset_reset="error",
            enable_auto_offset_store=False,
            isolation_level="read_committed",
            enable_partition_eof=True,
            queued_max_messages_kbytes=_KILOBYTES,
            on_commit=self._committed,
        )
        # whose ends are those of the partitions: a client that waits for transactions does not see behind open ones
        self._watcher = brokers.consumer(
            group_id=group, isolation_level="read_uncommitted", enable_auto_offset_store=False
        )

    @property
    def identity(self) -> str | None:
        """The topic's id; a topic that is created again has another."""
        admin = self._brokers.admin()
        self._brokers.partitions(admin, self._topic, _SECONDS)  # whose errors name the topic
        with self._brokers.errors(admin):
            (future,) = admin.describe_topics(TopicCollection([self._topic]), request_timeout=_SECONDS).values()
            return str(future.result().topic_id)

    @property
    def is_compacted(self) -> bool:
        """Whether the topic's ``cleanup.policy`` has ``compact``; False if the configuration may not be read."""
        admin = self._brokers.admin()
        resource = ConfigResource(ConfigResource.Type.TOPIC, self._topic)
        (future,) = admin.describe_configs([resource], request_timeout=_SECONDS).values()
        try:
            return "compact" in future.result()["cleanup.policy"].value
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return False
            with self._brokers.errors(admin):
                raise

    def bounds(self) -> dict[int, Bounds]:
        """Return the bounds of each partition; raise `TopicError` if the brokers do not answer."""
        numbers = self._brokers.partitions(self._consumer, self._topic, _LOOK_SECONDS)
        self._brokers.partitions(self._watcher, self._topic, _LOOK_SECONDS)  # each client learns of new ones by itself
        bounds = {}
        for number in numbers:
            with self._brokers.errors():
                place = TopicPartition(self._topic, number)
                first, committed = self._consumer.get_watermark_offsets(place, _LOOK_SECONDS)
                _, end = self._watcher.get_watermark_offsets(place, _LOOK_SECONDS)
                bounds[number] = Bounds(first, max(committed, end), committed)
        self._brokers.forget()
        return bounds

    def assign(self, offsets: Mapping[int, int]) -> None:
        """Read these partitions."""
        self._ended = {}
        with self._brokers.errors():
            self._consumer.assign([TopicPartition(self._topic, number, offset) for number, offset in offsets.items()])

    def poll(self, seconds: float) -> dict[int, list[Message]]:
        """Return the next messages.

        Raises
        ------
        LostOffsetsError
            If an offset is not in the topic any more.
        TopicError
            If the topic cannot be read any more.
        """
        messages: dict[int, list[Message]] = defaultdict(list)
        with self._brokers.errors():
            received = self._consumer.consume(_MOST, seconds)
        for record in received:
            error, number = record.error(), int(record.partition() or 0)
            if error is not None:
                self._take_error(record, error)
                continue
            self._ended.pop(number, None)
            content, time = record.value() or b"", record.timestamp()[1]
            messages[number].append(Message(record.offset() or 0, time, content, record.key()))
        if received:
            self._brokers.forget()
        return messages

    def _take_error(self, record: Received, error: KafkaError) -> None:
        code, number = error.code(), int(record.partition() or 0)
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001
            self._ended[number] = int(record.offset() or 0)
        elif code == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            raise LostOffsetsError(f"partition {number} of {self._topic}: {error.str()}")
        elif code in _ENDS or error.fatal():
            raise TopicError(f"the topic {self._topic} cannot be read: {self._brokers.because(error)}")
        else:
            self._brokers.note(error)

    def ended(self) -> dict[int, int]:
        """Return those at their end."""
        return dict(self._ended)

    def trouble(self) -> str | None:
        """Return why no broker answers."""
        return self._brokers.trouble

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit offsets in the background."""
        places = [TopicPartition(self._topic, number, offset) for number, offset in offsets.items()]
        with self._brokers.errors():
            self._consumer.commit(offsets=places, asynchronous=True)

    def _committed(self, error: KafkaError | None, _: list[TopicPartition]) -> None:
        self.commit_error = None if error is None else error.str()

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()
        self._watcher.close()
