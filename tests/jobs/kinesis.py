"""A data stream of Kinesis in memory, behind HTTP: what Amazon documents of the four requests that `Shards` makes.

A split or a merge closes shards, whose records stay in them; others go on. Closed shards are listed until their last
record is removed. Only sequence numbers of records begin an iterator, and one at a record that was removed finds
nothing, as users report. kinesalite, an emulator in JavaScript, answers the same in `tests/jobs/test_kinesalite.py`.
"""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import boto3
import numpy as np
from botocore.config import Config

from streamsketch.jobs.shards import HEARTBEAT
from tests.jobs.topic import BASE
from tests.serving import Page, serving_pages

ARN = "arn:aws:kinesis:eu-central-1:000000000000:stream/sales"
START = float(BASE)  # seconds after 1970
FIVE_MINUTES = 300.0
_KEYS = 1 << 128
_STEP = 7  # between two sequence numbers, so that the next one is no record's


class RefusedError(Exception):
    """An answer with an error."""

    def __init__(self, code: str, text: str = "", status: int = 400) -> None:
        super().__init__(code)
        self.code, self.text, self.status = code, text, status


class Record(NamedTuple):
    sequence: int
    arrived: float
    key: str
    data: bytes


class Part:
    """A shard."""

    def __init__(self, first: int, last: int, parents: tuple[int, ...] = ()) -> None:
        self.first, self.last, self.parents = first, last, parents
        self.records: list[Record] = []
        self.closed: float | None = None


class DataStream:
    """A data stream, whose time the test sets (`now`)."""

    def __init__(self, shards: int = 1, *, hours: float = 24, seed: int = 0) -> None:
        edges = [_KEYS * number // shards for number in range(shards + 1)]
        self.parts = {number: Part(edges[number], edges[number + 1] - 1) for number in range(shards)}
        self.now, self.hours, self.created = START, hours, START - 1
        self.errors: list[RefusedError] = []
        """Errors of the next requests for records."""
        self.most = 4
        """The most records of an answer."""
        self.asked: list[str] = []
        """The requests that were made."""
        self._sequence, self._random = 1 << 180, np.random.default_rng(seed)
        self._lock = threading.Lock()

    # --- what producers and operators do ---------------------------------------------------------------------

    def write(self, number: int, *contents: bytes, key: str = "somebody") -> None:
        """Append records to an open shard."""
        part = self.parts[number]
        assert part.closed is None, "no record goes to a closed shard"
        for content in contents:
            self._sequence += _STEP
            part.records.append(Record(self._sequence, self.now, key, content))

    def beat(self, number: int) -> None:
        """Write a heartbeat."""
        self.write(number, b"", key=HEARTBEAT)

    def split(self, number: int) -> tuple[int, int]:
        """Split a shard in the middle; return the two that go on from it."""
        part, new = self.parts[number], len(self.parts)
        middle = (part.first + part.last) // 2
        part.closed = self.now
        self.parts[new] = Part(part.first, middle, (number,))
        self.parts[new + 1] = Part(middle + 1, part.last, (number,))
        return new, new + 1

    def merge(self, number: int, adjacent: int) -> int:
        """Merge two shards; return the one that goes on from them."""
        one, other, new = self.parts[number], self.parts[adjacent], len(self.parts)
        one.closed = other.closed = self.now
        self.parts[new] = Part(one.first, other.last, (number, adjacent))
        return new

    # --- what readers ask ------------------------------------------------------------------------------------

    def answer(self, request: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request."""
        with self._lock:
            self.asked.append(request)
            if request == "GetRecords" and self.errors:
                raise self.errors.pop(0)
            if given.get("StreamARN") != ARN:
                raise RefusedError("ResourceNotFoundException", f"Stream {given.get('StreamName')} not found.")
            return getattr(self, f"_{request}")(given)

    @property
    def _horizon(self) -> float:
        return self.now - self.hours * 3600

    def _DescribeStreamSummary(self, _: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - as the request
        found = {"StreamCreationTimestamp": self.created, "RetentionPeriodHours": self.hours, "StreamARN": ARN}
        return {"StreamDescriptionSummary": found}

    def _ListShards(self, given: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - as the request
        assert ("NextToken" in given) != ("StreamName" in given), "Kinesis refuses both together"
        listed = [one for one in self.parts if (end := self.parts[one].closed) is None or end > self._horizon]
        at = int(given.get("NextToken", 0))
        page = {"Shards": [self._described(one) for one in listed[at : at + 3]]}
        return page | ({"NextToken": str(at + 3)} if len(listed) > at + 3 else {})

    def _described(self, number: int) -> dict[str, Any]:
        part = self.parts[number]
        sequences = {"StartingSequenceNumber": "1"} | ({} if part.closed is None else {"EndingSequenceNumber": "2"})
        names = dict(zip(("ParentShardId", "AdjacentParentShardId"), map(_name, part.parents), strict=False))
        keys = {"StartingHashKey": str(part.first), "EndingHashKey": str(part.last)}
        return {"ShardId": _name(number), "HashKeyRange": keys, "SequenceNumberRange": sequences, **names}

    def _GetShardIterator(self, given: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - as the request
        number, kind = int(given["ShardId"].removeprefix("shardId-")), given["ShardIteratorType"]
        records = self.parts[number].records
        if kind == "TRIM_HORIZON":
            return {"ShardIterator": self._iterator(number, 0)}
        sequences = [one.sequence for one in records]
        sequence = int(given["StartingSequenceNumber"])
        if sequence not in sequences:
            raise RefusedError("InvalidArgumentException", f"StartingSequenceNumber {sequence} is invalid.")
        place = sequences.index(sequence)
        if records[place].arrived <= self._horizon:
            return {"ShardIterator": self._iterator(number, -1)}
        return {"ShardIterator": self._iterator(number, place + (kind == "AFTER_SEQUENCE_NUMBER"))}

    def _iterator(self, number: int, place: int) -> str:
        return json.dumps([number, place, self.now])

    def _GetRecords(self, given: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - as the request
        number, place, made = json.loads(given["ShardIterator"])
        if self.now - made > FIVE_MINUTES:
            raise RefusedError("ExpiredIteratorException", "Iterator expired.")
        part = self.parts[number]
        if place < 0:  # for ever
            return {
                "Records": [],
                "NextShardIterator": self._iterator(number, place),
                "MillisBehindLatest": int(self.hours * 3600_000),
            }
        while place < len(part.records) and part.records[place].arrived <= self._horizon:
            place += 1
        records = part.records[place : place + int(self._random.integers(self.most + 1))]
        place += len(records)
        behind = self.now - part.records[place].arrived if place < len(part.records) else 0
        found: dict[str, Any] = {"Records": [_as_json(one) for one in records]}
        found["MillisBehindLatest"] = round(behind * 1000) + (place < len(part.records))
        is_over = part.closed is not None and place == len(part.records)
        return found | ({} if is_over else {"NextShardIterator": self._iterator(number, place)})


def _name(number: int) -> str:
    return f"shardId-{number:012}"


def _as_json(record: Record) -> dict[str, Any]:
    return {
        "SequenceNumber": str(record.sequence),
        "ApproximateArrivalTimestamp": record.arrived,
        "PartitionKey": record.key,
        "Data": base64.b64encode(record.data).decode(),
    }


@contextmanager
def served(stream: DataStream) -> Iterator[str]:
    """Serve a data stream; yield the address."""

    class Requests(Page):
        def respond(self) -> None:
            try:
                request = self.headers["X-Amz-Target"].partition(".")[2]
                status, answer = 200, stream.answer(request, json.loads(self.body))
            except RefusedError as error:
                status, answer = error.status, {"__type": error.code, "message": error.text}
            self.answer_json(status, answer, "application/x-amz-json-1.1")

    with serving_pages(Requests) as address:
        yield address


def client(address: str, region: str) -> Any:
    """Return a client without retries of its own."""
    return boto3.client(
        "kinesis",
        endpoint_url=address,
        region_name=region,
        aws_access_key_id="somebody",
        aws_secret_access_key="secret",  # noqa: S106 - of nobody
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=10),
    )
