"""What is said of errors of Kafka's clients."""

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError, KafkaException

from streamsketch.jobs import Brokers, TopicError

FENCED = KafkaException(KafkaError(KafkaError._FENCED, "fenced by a newer instance", fatal=True))


class Replaced:
    """A producer that was replaced by another: its next call fails for that, and each later one without a word of it.

    The client learns of it between two calls, and raises the error itself when it is next polled.
    """

    def produce(self) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE))

    def poll(self, _: float) -> int:
        raise FENCED


def test_a_call_after_a_fatal_error_is_refused_with_its_cause() -> None:
    brokers, producer = Brokers("127.0.0.1:1"), Replaced()
    with pytest.raises(TopicError, match="Kafka reports: fenced by a newer instance"), brokers.errors(producer):
        producer.produce()
