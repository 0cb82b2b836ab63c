"""Kafka topics, read with watermarks that depend on the log only."""

import itertools
from typing import Any

import apache_beam as beam
from apache_beam.transforms.external import JavaExternalTransform

from streamsketch.beam.streams.lateness import agree_on_clock
from streamsketch.intake.clock import AheadLimit, Clock, ClockKind

_ANY = -(1 << 63)  # Java's least number: the first record may be at any time
_FAR = 1 << 62  # windows


class ReadTopic(beam.PTransform):
    """Read messages of a Kafka topic with ``ReadLog`` of ``pipelines/flink``, and their partition's watermark.

    Elements are messages, or lists of small consecutive messages, as `DecodeMessages` takes them.

    Parameters
    ----------
    servers
        Addresses of the brokers.
    topic
        Name of the topic.
    delay
        How far messages of a partition may be out of order, in seconds.
    size, offset
        Length and start of the windows in seconds, which decide which rows are late. Pass the same to `DecodeMessages`.
    expansion
        Address of the expansion service.
    clock
        What moves a partition's watermark: every record (``"events"``), or only records without content and key
        (``"heartbeats"``). Pass the same to `configure_stream`.
    group
        Consumer group to which offsets are committed once a checkpoint holds them. Monitors read it; a restored job
        continues from its checkpoint.
    client_settings
        Name of a file of connection settings on every machine of the runner, in the format of
        `streamsketch.jobs.client_settings`.
    limit
        How far a message may be ahead; one further ahead does not move the watermark. By default there is no limit.

    Examples
    --------
    A pipeline applies it as ``pipeline | read`` where the expansion service runs:

    >>> times = {"delay": 60.0, "size": 3600.0, "offset": 0.0}
    >>> read = ReadTopic("broker:9092", "flights", **times, expansion="127.0.0.1:8097")
    """

    def __init__(  # noqa: PLR0913 - keyword-only where there are many
        self,
        servers: str,
        topic: str,
        *,
        delay: float,
        size: float,
        offset: float,
        expansion: str,
        clock: ClockKind = "events",
        group: str = "streamsketch",
        client_settings: str | None = None,
        limit: AheadLimit | None = None,
    ) -> None:
        super().__init__()
        Clock(0, clock)  # which knows the kinds
        self._group, self._client_settings = group, client_settings or ""
        self._servers, self._topic, self._expansion, self._clock = servers, topic, expansion, clock
        self._times = [round(seconds * 1000) for seconds in (delay, size, offset)]
        most, first = (_FAR, None) if limit is None else (limit.most, limit.first)
        self._limit = most, _ANY if first is None else first

    def expand(self, start: Any) -> beam.PCollection:
        """Apply the transform to a pipeline."""
        agree_on_clock(start.pipeline, self._clock)
        read = JavaExternalTransform("ReadLog", self._expansion).topic(
            *(self._servers, self._topic, self._group, self._client_settings),
            *self._times,
            self._clock == "heartbeats",
            *self._limit,
        )
        return start | "Read the log" >> read | "Contents" >> beam.MapTuple(content_of).with_output_types(Any)


def content_of(value: bytes | None, lengths: bytes | None) -> bytes | list[bytes]:
    """Return a message, or those that were joined; one without content that has a key is joined alone."""
    if not lengths:
        return value or b""  # Java's type allows for none
    joined, stops = value or b"", list(itertools.accumulate(memoryview(lengths).cast("I")))
    return [joined[start:stop] for start, stop in itertools.pairwise([0, *stops])]
