"""The shards of a data stream of Amazon Kinesis, read by one process, each from its own record: a `Log`."""

import math
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeAlias

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from streamsketch.errors import InvalidInputError
from streamsketch.jobs.brokers import TopicError, UnreachableError
from streamsketch.jobs.partitions import Bounds
from streamsketch.jobs.payloads import Message

HEARTBEAT = "streamsketch-heartbeat"
"""The partition key of heartbeats, which have no data."""

_ARN = re.compile(r"arn:[\w-]+:kinesis:([\w-]+):\d{12}:stream/([\w.-]{1,128})")
_SHARD = "shardId-"
_TOGETHER = 8  # requests at once, each of which may return 10 MB
_EVERY = 1.0  # seconds between two reads of a shard; Kinesis allows five a second, to all readers together
_AGAIN = 0.2  # the same, as long as there is more to read
_MARGIN = 60.0  # seconds by which clocks may differ
_LATER = {  # codes of errors after which the same request may succeed
    "InternalFailure",
    "InternalFailureException",
    "KMSThrottlingException",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "ServiceUnavailable",
    "ThrottlingException",
}
_CREDENTIALS = {  # codes of errors after which it may succeed with other credentials
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
}
_SERVER_ERROR = 500

Connect: TypeAlias = Callable[[str], Any]
"""Returns a client of Kinesis in a region, as boto3's."""


class Shard(NamedTuple):
    """A shard of a data stream.

    Parameters
    ----------
    parents
        The shards that were split or merged into it.
    is_open
        Whether it still takes records.
    first, last
        The hash keys that it has.
    """

    parents: tuple[int, ...]
    is_open: bool
    first: int
    last: int


def kinesis_client(region: str) -> Any:
    """Return a client of Kinesis with the credentials of this process, which boto3 finds and renews."""
    limits = Config(retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=5, read_timeout=30)
    return boto3.session.Session().client("kinesis", region_name=region, config=limits)


class Shards:
    """The shards of a data stream of Amazon Kinesis: a `Log`, of which `ShardStream` follows splits and merges.

    A partition is the number of a shard, and an offset the sequence number of a record. The timestamp of a message is
    when Kinesis received it, and its key is the partition key; a heartbeat has none: it is a record without data, whose
    partition key is `HEARTBEAT`.

    Parameters
    ----------
    topic
        The ARN of the data stream.
    connect
        Function that returns a client. It is called again if the credentials are refused.
    every
        Seconds between two reads of a shard.
    now
        Function that returns the time in seconds after 1970; for tests.

    Raises
    ------
    InvalidInputError
        If it is no ARN of a data stream.

    Examples
    --------
    Kinesis is not contacted until something is asked for:

    >>> from streamsketch.jobs import Shards
    >>> shards = Shards("arn:aws:kinesis:eu-central-1:123456789012:stream/sales")
    >>> shards.trouble() is None
    True
    """

    is_compacted = False
    """Kinesis keeps every record."""

    def __init__(
        self,
        topic: str,
        connect: Connect = kinesis_client,
        *,
        every: float = _EVERY,
        now: Callable[[], float] = time.time,
    ) -> None:
        match = _ARN.fullmatch(topic)
        if match is None:
            raise InvalidInputError(
                f"a data stream of Kinesis is named by its ARN, arn:aws:kinesis:REGION:ACCOUNT:stream/NAME, got "
                f"{topic!a:.200}"
            )
        self._region, self._name = match[1], match[2]
        self._topic, self._connect, self._every, self._now = topic, connect, every, now
        self._client: Any = None
        self._retention = math.inf
        self._offsets = dict[int, int]()  # where the next read of each shard begins
        # the same for a new iterator: its kind, a sequence number, and when its record arrived
        self._starts = dict[int, tuple[str, int, float]]()
        self._iterators, self._due = dict[int, str](), dict[int, float]()
        self._troubles, self._behind = dict[int, str](), dict[int, int]()
        self._tips, self._finished = dict[int, float](), set[int]()
        self._pool = ThreadPoolExecutor(_TOGETHER, thread_name_prefix="kinesis")

    @property
    def identity(self) -> str:
        """When the data stream was created, which tells it from a later one of the same name."""
        created = self._summary()["StreamCreationTimestamp"]
        return str(round(created.timestamp()))

    @property
    def horizon(self) -> float:
        """The time before which records may have been removed, in milliseconds, as of the last `shards`."""
        return (self._now() + _MARGIN - self._retention) * 1000

    @property
    def tips(self) -> dict[int, float]:
        """When the end of a shard was read, in milliseconds, of those that are at their end."""
        return dict(self._tips)

    def shards(self) -> dict[int, Shard]:
        """Return the shards that the stream lists: open ones, and closed ones until their last record is removed."""
        self._retention = float(self._summary()["RetentionPeriodHours"]) * 3600
        listed, more = [], {"StreamName": self._name}
        while True:
            answer = self._ask("list_shards", StreamARN=self._topic, **more)
            listed += answer["Shards"]
            if not answer.get("NextToken"):
                break
            more = {"NextToken": answer["NextToken"]}
        return {_number(each["ShardId"]): _shard(each) for each in listed}

    def bounds(self) -> dict[int, Bounds]:
        """Return the bounds of shards, as far as Kinesis tells them: whether there is a later record."""
        return {number: Bounds(0, at + (number not in self._tips)) for number, at in self._offsets.items()}

    def assign(self, offsets: Mapping[int, int]) -> None:
        """Read shards from these records on, or from their beginning for offset 0, and no others."""
        for number in set(self._offsets):
            self.forget(number)
        for number, at in offsets.items():
            self.begin(number, at)

    def begin(self, number: int, at: int = 0) -> None:
        """Read a shard as well."""
        self._offsets[number], self._due[number] = at, 0.0
        self._starts[number] = ("AT_SEQUENCE_NUMBER", at, math.inf) if at else ("TRIM_HORIZON", 0, math.inf)

    def forget(self, number: int) -> None:
        """Stop reading a shard."""
        for each in (self._offsets, self._due, self._starts, self._iterators, self._troubles, self._tips, self._behind):
            each.pop(number, None)
        self._finished.discard(number)

    def poll(self, seconds: float) -> dict[int, list[Message]]:
        """Return the next messages of some shards, and wait only if no shard is due.

        Raises
        ------
        TopicError
            If the stream cannot be read any more.
        """
        now = self._now()
        due = sorted((at, number) for number, at in self._due.items() if at <= now)[:_TOGETHER]
        if not due:
            time.sleep(max(0.0, min([seconds, *(at - now for at in self._due.values())])))
            return {}
        numbers = [number for _, number in due]
        polled = zip(numbers, self._pool.map(self._read, numbers), strict=True)
        return {number: messages for number, messages in polled if messages}

    def ended(self) -> dict[int, int]:
        """Return the open shards at their end."""
        return {number: self._offsets[number] for number in self._tips}

    @property
    def behind(self) -> float:
        """How many seconds the shard that is furthest behind was behind its end, when it was read last."""
        return max(self._behind.values(), default=0) / 1000

    def finished(self) -> set[int]:
        """Return the closed shards of which all was read: others go on from them."""
        return set(self._finished)

    def trouble(self) -> str | None:
        """Return why Kinesis does not answer."""
        return next(iter(self._troubles.values()), None)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Do nothing: Kinesis keeps no offsets, and CloudWatch has the age of what is read."""

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    # --- requests -------------------------------------------------------------------------------------------

    def _read(self, number: int) -> list[Message]:
        """Return the next messages of a shard, in a thread; note why there are none."""
        self._tips.pop(number, None)
        asked = self._now()
        try:
            answer = self._records(number)
        except UnreachableError as error:
            self._troubles[number], self._due[number] = str(error), asked + self._every
            return []
        self._troubles.pop(number, None)
        self._behind[number] = int(answer.get("MillisBehindLatest") or 0)
        messages = [message for message in map(_message, answer["Records"]) if message.offset >= self._offsets[number]]
        if messages:
            last = messages[-1]
            self._offsets[number] = last.offset + 1
            self._starts[number] = "AFTER_SEQUENCE_NUMBER", last.offset, last.timestamp
        iterator = answer.get("NextShardIterator")
        if iterator is None:
            self._finished.add(number)
            self._due.pop(number)
            return messages
        self._iterators[number] = iterator
        # an answer with records may say that it is at the end although there are more
        is_tip = not self._behind[number] and not answer["Records"]
        self._due[number] = asked + (self._every if is_tip else min(_AGAIN, self._every))
        if is_tip:
            self._tips[number] = asked * 1000
        return messages

    def _records(self, number: int) -> Any:
        """Return an answer of GetRecords; an iterator that was not used for five minutes is replaced."""
        try:
            return self._ask("get_records", ShardIterator=self._iterators[number], StreamARN=self._topic)
        except (KeyError, _ExpiredIteratorError):
            self._iterators[number] = self._iterator(number)
        return self._ask("get_records", ShardIterator=self._iterators[number], StreamARN=self._topic)

    def _iterator(self, number: int) -> str:
        kind, sequence, arrived = self._starts[number]
        if arrived < self.horizon:
            kind, sequence = "TRIM_HORIZON", 0  # an iterator at a record that was removed may find nothing
        where = {"StartingSequenceNumber": str(sequence)} if sequence else {}
        shard = {"StreamName": self._name, "StreamARN": self._topic, "ShardId": f"{_SHARD}{number:012}"}
        answer = self._ask("get_shard_iterator", **shard, ShardIteratorType=kind, **where)
        return str(answer["ShardIterator"])

    def _summary(self) -> Any:
        answer = self._ask("describe_stream_summary", StreamName=self._name, StreamARN=self._topic)
        return answer["StreamDescriptionSummary"]

    def _ask(self, request: str, **parameters: Any) -> Any:
        """Return the answer to a request.

        Raises
        ------
        UnreachableError
            If the same request may succeed later: throttled, without an answer, with credentials that are refused.
        TopicError
            If it will not.
        """
        try:
            if self._client is None:
                self._client = self._connect(self._region)
            return getattr(self._client, request)(**parameters)
        except ClientError as error:
            raise self._as_error(error) from error
        except BotoCoreError as error:
            self._client = None  # which reads credentials again
            raise UnreachableError(f"Kinesis cannot be asked: {str(error).rstrip('.')}") from error

    def _as_error(self, error: ClientError) -> Exception:
        """Return an error of Kinesis as one of ours."""
        code = str(error.response["Error"].get("Code"))
        text = f"{code}: {str(error.response['Error'].get('Message', '')).rstrip('.')}"
        if code == "ExpiredIteratorException":
            return _ExpiredIteratorError()
        if code in _CREDENTIALS:
            self._client = None
            return UnreachableError(f"Kinesis refuses the credentials, so renew them ({text})")
        if code in _LATER or int(error.response["ResponseMetadata"]["HTTPStatusCode"]) >= _SERVER_ERROR:
            return UnreachableError(f"Kinesis reports {text}")
        return TopicError(f"the data stream {self._topic} cannot be read ({text})")


class _ExpiredIteratorError(Exception):
    """An iterator is too old."""


def _number(shard: str) -> int:
    return int(shard.removeprefix(_SHARD))


def _shard(listed: Mapping[str, Any]) -> Shard:
    parents = [listed[name] for name in ("ParentShardId", "AdjacentParentShardId") if listed.get(name)]
    keys = listed["HashKeyRange"]
    is_open = "EndingSequenceNumber" not in listed["SequenceNumberRange"]
    return Shard(tuple(map(_number, parents)), is_open, int(keys["StartingHashKey"]), int(keys["EndingHashKey"]))


def _message(record: Mapping[str, Any]) -> Message:
    """Return a record as a message."""
    key, arrived = record["PartitionKey"], record["ApproximateArrivalTimestamp"]
    return Message(
        int(record["SequenceNumber"]),
        round(arrived.timestamp() * 1000),
        record["Data"],
        None if key == HEARTBEAT else key.encode(),
    )
