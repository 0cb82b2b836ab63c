"""A producer for a stream's topic: rows with their own times, and heartbeats that never overtake them.

    python -m pipelines.producer --agreement flights.json --job job.json --servers broker:9092 --topic flights < rows

Rows are JSON objects, one per line, with the agreement's column of times. Each becomes a message with the row's time as
its timestamp. Every second, each partition gets a heartbeat, a message without key and content. Its timestamp is that
of the oldest row that waits to be sent, or the current time. So if this is the only producer, no row is late, however
long it waits here. If there are several, the job's ``delay`` must cover how far one is behind the others.

After a silence that was longer than the job's ``max_ahead``, ``--catch-up TIME`` first writes heartbeats from that
time up to now, each within ``max_ahead`` of the one before. Without them, the stream drops all later rows.
"""

import argparse
import datetime as dt
import json
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from streamsketch.agreement import Agreement
from streamsketch.streams.job import Job
from streamsketch.streams.policy import StreamPolicy

Send = Callable[[int, int, bytes], None]
"""Sends a message: its partition, its timestamp in milliseconds, and its content."""


class LogWriter:
    """Writes rows and heartbeats to the partitions of a topic.

    Parameters
    ----------
    send
        Sends a message. Messages of a partition must arrive in the order in which they were sent.
    partitions
        How many partitions there are.
    now
        Returns the time in seconds since 1970.
    """

    def __init__(self, send: Send, partitions: int, now: Callable[[], float] = time.time) -> None:
        self._send, self._partitions, self._now = send, partitions, now
        self._waiting: list[tuple[float, bytes]] = []
        self._newest = 0
        self._lock = threading.Lock()

    def take(self, at: float, content: bytes) -> None:
        """Take a row of a time, in seconds since 1970, which the next `flush` sends."""
        with self._lock:
            self._waiting.append((at, content))

    def flush(self, *, most: int | None = None) -> None:
        """Send rows that wait, the oldest first, then a heartbeat to each partition."""
        with self._lock:
            self._waiting.sort(key=lambda row: row[0])
            sent, self._waiting = self._waiting[:most], self._waiting[len(self._waiting[:most]) :]
            for at, content in sent:
                self._send(zlib.crc32(content) % self._partitions, round(at * 1000), content)
            # rows that wait are sent later, and must not be behind a heartbeat
            oldest = min(self._now(), *(at for at, _ in self._waiting[:1]), float("inf"))
            self._newest = max(self._newest, int(oldest * 1000))
            self.beat(self._newest)

    def beat(self, timestamp: int) -> None:
        """Send a heartbeat to each partition, at a time in milliseconds."""
        for partition in range(self._partitions):
            self._send(partition, timestamp, b"")


def steps(since: float, until: float, length: float) -> Iterator[int]:
    """Yield times in milliseconds, each at most ``length`` seconds after the one before; the last is ``until``."""
    at = since
    while at + length < until:
        at += length
        yield int(at * 1000)
    yield int(until * 1000)


def seconds_of(value: Any) -> float:
    """Return a time in JSON, text of ISO 8601 or microseconds since 1970, in seconds; in UTC if it has no zone."""
    if not isinstance(value, str):
        return float(value) / 10**6
    timestamp = dt.datetime.fromisoformat(value)
    return (timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=dt.UTC)).timestamp()


def write(lines: Iterable[bytes], column: str, writer: LogWriter, every: float) -> None:
    """Write the rows in lines of JSON, and heartbeats every so many seconds, until the lines end."""
    over = threading.Event()

    def keep_on() -> None:
        while not over.wait(every):
            writer.flush()

    beats = threading.Thread(target=keep_on, daemon=True)
    beats.start()
    try:
        for line in filter(bytes.strip, lines):
            writer.take(seconds_of(json.loads(line)[column]), line.strip())
    finally:
        over.set()
        beats.join()
        writer.flush()


def main(arguments: list[str] | None = None) -> int:
    """Run the producer; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.producer", description=__doc__)
    parser.add_argument("--agreement", type=Path, required=True)
    parser.add_argument("--job", type=Path, required=True)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="between heartbeats (default 1)")
    parser.add_argument("--catch-up", metavar="TIME", help="when the log fell silent, as ISO 8601 has it")
    options = parser.parse_args(arguments)
    policy = StreamPolicy(Agreement.load(options.agreement), Job.load(options.job))

    from confluent_kafka import Producer  # noqa: PLC0415 - of the extra streams

    settings: dict[str, Any] = {"bootstrap.servers": options.servers, "acks": "all"}
    producer = Producer(settings | {"enable.idempotence": True})  # which keeps the order of each partition
    partitions = len(producer.list_topics(options.topic, 30).topics[options.topic].partitions)

    def send(partition: int, timestamp: int, content: bytes) -> None:
        while True:
            try:
                producer.produce(options.topic, content, partition=partition, timestamp=timestamp)
            except BufferError:  # it sends slower than rows come
                producer.poll(1)
            else:
                producer.poll(0)
                return

    writer = LogWriter(send, partitions)
    if options.catch_up is not None:
        windows = policy.of_one_length
        length = policy.limit.most * windows.size / 10**6
        for timestamp in steps(seconds_of(options.catch_up), time.time(), length):
            writer.beat(timestamp)
    write(sys.stdin.buffer, policy.time, writer, options.every)
    producer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
