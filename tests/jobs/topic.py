"""A topic in memory, which is read as `streamsketch.jobs.Partitions` reads one of Kafka."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import streamsketch as ss
from streamsketch.beam.streams import encoded_batch
from streamsketch.jobs import Malformed, Message, Payloads, TopicStream, UnreachableError
from streamsketch.streams import Stream
from streamsketch.streams.policy import StreamPolicy
from tests.streams.agreed import followed

AGREEMENT = ss.Agreement(
    ss.SJLT(sketch_dim=16, sparsity=2, seed=3),
    index="item",
    key="shop",
    unit="person",
    neighbours=ss.L1(2, unit="person"),
    missing="drop",
)
BASE = 1_700_000_000 // 60 * 60  # seconds
MINUTE = 60


def policy_in(folder: Path, **changes: Any) -> StreamPolicy:
    """Return an agreement on minutes, and a job whose releases are in a folder."""
    fields: dict[str, Any] = {
        "time": "at",
        "window": MINUTE,
        "start": f"{np.datetime64(BASE, 's')}Z",
        "delay": 5,
        "epsilon": 1,
        "folder": str(folder),
        "public_keys": ["north", "south"],
    }
    return followed(AGREEMENT, **fields | changes)


def rows(minute: int, count: int = 40, *, seed: int = 0) -> pa.RecordBatch:
    """Return rows of a minute; some people are over their bounds."""
    rng = np.random.default_rng([seed, minute])
    seconds = BASE + MINUTE * minute + rng.integers(MINUTE, size=count)
    return pa.RecordBatch.from_pydict(
        {
            "person": [f"person {number}" for number in rng.integers(8, size=count)],
            "shop": rng.choice(["north", "south", "other"], size=count).tolist(),
            "item": [f"item {number}" for number in rng.integers(20, size=count)],
            "at": pa.array(np.sort(seconds) * 10**6, pa.int64()).cast(pa.timestamp("us", "UTC")),
        }
    )


def arrow(batch: pa.RecordBatch) -> bytes:
    """Return a batch as a message."""
    return encoded_batch(batch)


def as_json(batch: pa.RecordBatch) -> list[bytes]:
    """Return rows as messages, one each."""
    found = batch.to_pylist()
    return [json.dumps(row | {"at": row["at"].isoformat()}).encode() for row in found]


class Topic:
    """Partitions in memory: a `Log`. Messages may be removed from their beginnings.

    A poll returns up to ``most`` messages of a partition.
    """

    identity: str | None = "a topic"
    is_compacted = False

    def __init__(self, partitions: int, seed: int = 0, *, most: int = 4) -> None:
        self.most = most
        self.messages: dict[int, list[Message]] = {number: [] for number in range(partitions)}
        self.first = dict.fromkeys(self.messages, 0)
        self.committed: dict[int, int] = {}
        self.down: str | None = None
        self._next: dict[int, int] = {}
        self._order = np.random.default_rng(seed)

    def write(self, partition: int, *contents: bytes, second: float = 0) -> None:
        """Append messages, whose timestamps are a second after `BASE`."""
        log = self.messages[partition]
        for content in contents:
            log.append(Message(self.first[partition] + len(log), int((BASE + second) * 1000), content))

    def remove(self, partition: int, count: int) -> None:
        """Remove the first messages of a partition, as its retention does."""
        del self.messages[partition][:count]
        self.first[partition] += count

    def bounds(self) -> dict[int, tuple[int, int]]:
        if self.down is not None:
            raise UnreachableError(self.down)
        return {number: (first, self._end(number)) for number, first in self.first.items()}

    def _end(self, number: int) -> int:
        return self.first[number] + len(self.messages[number])

    def assign(self, offsets: Mapping[int, int]) -> None:
        self._next = dict(offsets)

    def poll(self, _: float) -> dict[int, list[Message]]:
        """Return some messages of some partitions, in an order that is drawn."""
        found = {}
        for number in self._order.permutation(list(self._next))[: 1 + int(self._order.integers(len(self._next)))]:
            at = self._next[int(number)]
            its = self.messages[int(number)][at - self.first[number] :][: int(self._order.integers(1, self.most + 1))]
            if its and self.down is None:
                found[int(number)] = its
                self._next[int(number)] = its[-1].offset + 1
        return found

    def ended(self) -> dict[int, int]:
        return {number: at for number, at in self._next.items() if at >= self._end(number)}

    def trouble(self) -> str | None:
        return self.down

    def commit(self, offsets: Mapping[int, int]) -> None:
        self.committed = dict(offsets)

    def close(self) -> None:
        pass


class NeverStop:
    """A stop that never comes."""

    wakes = -1

    def is_set(self) -> bool:
        return False


def reader(
    topic: Any, folder: Path, *, form: Any = "json", malformed: Malformed | None = None, **options: Any
) -> TopicStream:
    """Return what reads a topic; its state is ``s.raw-stream`` in a folder, its releases are in ``out``."""
    changes = options.pop("policy", {})
    policy = policy_in(folder / "out", **changes)
    (folder / "out").mkdir(parents=True, exist_ok=True)
    kept: dict[str, Any] = {name: options.pop(name, None) for name in ("charge", "dead_letters")}
    stream = Stream(*policy, folder / "s.raw-stream", **kept, strict=True)
    bad = malformed or Malformed(None)
    kind, name = options.pop("kind", TopicStream), options.pop("name", "sales")
    payloads = Payloads(policy.agreement, "at", form, bad, options.pop("ahead", lambda _: None)(stream))
    found: TopicStream = kind(stream, topic, name, payloads, bad, **options)
    return found


def read_to_end(topic: Any, folder: Path, **options: Any) -> TopicStream:
    """Read a topic to its end."""
    every = options.pop("every", 1e9)
    found = reader(topic, folder, **options)
    found.run(NeverStop(), every=every, once=True)
    return found


def released(folder: Path) -> dict[str, bytes]:
    """Return the releases by the names of their files."""
    return {path.name: path.read_bytes() for path in sorted((folder / "out").iterdir())}
