"""Publish what a stream's folder holds to a Kafka topic, each slot once: a publisher beside the job, for one machine.

    python -m pipelines.publish --output /shared/out --stream flights --servers broker:9092 --topic releases

A topic cannot refuse a second image of a slot, as a folder can, so the job writes files and this publishes them. A
record is the release, its key the slot's window and name, ``2013-01-01T05-00-00Z/AA``. Records are written in
transactions: consumers with ``isolation.level=read_committed`` see each slot once, whatever is killed and restarted,
and whichever launch of the job released it. The topic itself says what was published, so it has to keep its keys:
``cleanup.policy=compact``, which is what it is created with.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic  # type: ignore[attr-defined]  # as documented

_SECONDS = 30.0  # that a broker has for an answer
_SUFFIX = ".sketch"


class PublishingError(RuntimeError):
    """A topic that slots cannot be published to once."""


class Publisher:
    """Publishes slots to a topic; a later publisher of the same stream and topic ends an earlier one.

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
    PublishingError
        If the topic forgets old keys.
    """

    def __init__(self, servers: str, topic: str, stream: str) -> None:
        self._servers: dict[str, str | int | float | bool] = {"bootstrap.servers": servers}
        self._topic = topic
        self._ensure_topic()
        settings = {"transactional.id": f"streamsketch {stream} {topic}", "enable.idempotence": True}
        self._producer = Producer(self._servers | settings)
        self._producer.init_transactions(_SECONDS)  # from here on an earlier publisher can commit nothing more
        self._published = set(self._keys())

    def publish(self, slots: dict[str, Path]) -> int:
        """Publish those that are not in the topic, in the order of their names; return how many they were."""
        fresh = sorted(slots.keys() - self._published)
        if fresh:
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
            raise PublishingError(
                f"the topic {self._topic} has cleanup.policy={policy}: it would forget what was published, and slots "
                f"would be published again. Set cleanup.policy=compact, or name another topic"
            )

    def _keys(self) -> Iterator[str]:
        settings = {"group.id": "streamsketch", "enable.auto.commit": False, "isolation.level": "read_committed"}
        consumer = Consumer(self._servers | settings | {"enable.partition.eof": True})
        try:
            partitions = consumer.list_topics(self._topic, _SECONDS).topics[self._topic].partitions
            consumer.assign([TopicPartition(self._topic, number, 0) for number in partitions])
            unread = set(partitions)
            while unread:
                record = consumer.poll(_SECONDS)
                if record is None:
                    raise PublishingError(f"the topic {self._topic} cannot be read: no answer in {_SECONDS:g} s")
                error = record.error()
                key = record.key()
                if error is None and key is not None:
                    yield key.decode()
                elif error is None:
                    continue  # somebody else's
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so it is documented
                    unread.discard(record.partition())
                else:
                    raise KafkaException(error)
        finally:
            consumer.close()


def slots_in(folder: Path, stream: str) -> dict[str, Path]:
    """Return the files of a stream's releases by window and key, such as ``2013-01-01T05-00-00Z/AA``."""
    found = (folder / stream).glob(f"*/[!.]*{_SUFFIX}")
    return {f"{path.parent.name}/{path.name.removesuffix(_SUFFIX)}": path for path in found}


def main(arguments: Sequence[str] | None = None) -> int:
    """Publish until interrupted, or once; return the exit status."""
    known = _parser().parse_args(arguments)
    try:
        publisher = Publisher(known.servers, known.topic, known.stream)
        while True:
            count = publisher.publish(slots_in(known.output, known.stream))
            if count:
                print(f"published {count} slots", flush=True)  # noqa: T201 - what operators watch
            if known.once:
                return 0
            time.sleep(known.every)
    except KeyboardInterrupt:
        return 0
    except (PublishingError, KafkaException) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.publish", description="Publish a stream's releases to a Kafka topic, each slot once."
    )
    parser.add_argument("--output", required=True, type=Path, metavar="DIR", help="the job's folder of results")
    parser.add_argument("--stream", required=True, metavar="NAME", help="name of the stream")
    parser.add_argument("--servers", required=True, metavar="HOST:PORT", help="Kafka's brokers")
    parser.add_argument("--topic", required=True, help="Kafka's topic, created if it does not exist")
    parser.add_argument("--every", default=1.0, type=float, metavar="SECONDS", help="between two looks (default 1)")
    parser.add_argument("--once", action="store_true", help="publish what is there, and end")
    return parser


if __name__ == "__main__":
    sys.exit(main())
