"""A stream on Flink: rows through Kafka, each image that is released noted, the same log computed again in batch."""

import contextlib
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

import streamsketch as ss
from streamsketch.beam import BoundContributions, ReleasePerKey, SketchPerKey, TumblingWindows
from streamsketch.beam.streams import (
    DecodeMessages,
    PartitionClock,
    ReadGrowingFolder,
    ReadTopic,
    WriteDeadLetters,
    WriteOnce,
    configure_stream,
    encoded_batch,
)
from streamsketch.beam.streams.slots import slot_of
from streamsketch.continual import Schedule
from streamsketch.intake.clock import ClockKind
from streamsketch.jobs import Record
from streamsketch.jobs.run import beam_options
from streamsketch.once.slots import VERSION
from streamsketch.release import AdditiveNoise
from streamsketch.streams import FileSink, Slot
from tests.beam.rows import agreement_of
from tests.clusters.cluster import FlinkCluster
from tests.clusters.kafka import Kafka
from tests.clusters.steps import write
from tests.patience import wait_until

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=11)
KEYS = ["AA", "UA", "empty"]
BASE = 1_356_998_400  # 2013-01-01
MINUTE, DELAY = 60, 5
TEXT, TIME = pa.string(), pa.timestamp("us", "UTC")
SCHEMA = pa.schema({"unit": TEXT, "key": TEXT, "index": TEXT, "value": pa.int64(), "time": TIME})
MAX_KEYS, L1 = 2, 20


def rows(minute: int, count: int, *, seed: int = 0, value: int = 1) -> pa.RecordBatch:
    """Return events of a minute: the heaviest units are over their bounds."""
    rng = np.random.default_rng([seed, minute])
    moments = (BASE + MINUTE * minute) * 10**6 + rng.integers(MINUTE * 10**6, size=count)
    columns = [
        [f"unit {number}" for number in rng.geometric(0.05, size=count)],
        rng.choice(["AA", "UA", "DL", "not public"], size=count).tolist(),
        [f"index {number}" for number in rng.integers(1000, size=count)],
        np.full(count, value),
        moments,
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class Log:
    """A topic of two partitions, with heartbeats: a window's results leave when the log goes on.

    Attributes
    ----------
    partitions
        How many have heartbeats.
    """

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self.kafka, self.topic = kafka, topic
        self.partitions = 2
        kafka.create(topic, self.partitions)
        self._newest, self._lock, self._over = BASE * 1000, threading.Lock(), threading.Event()

    def __enter__(self) -> Self:
        self._open = contextlib.ExitStack()
        self._writer = self._open.enter_context(self.kafka.writer(self.topic))
        self._beats = threading.Thread(target=self._beat, daemon=True)
        self._beats.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._beats.join()
        self._open.close()

    def put(self, minutes: Iterable[int], *, count: int = 300, seed: int = 0) -> None:
        """Write minutes of events to the partitions in turn, and let these minutes end."""
        for minute in minutes:
            self.write(minute % 2, minute, rows(minute, count, seed=seed))
            self.end(minute)

    def end(self, minute: int) -> None:
        """Let a minute end, by heartbeats in all partitions."""
        self._newest = max(self._newest, (BASE + MINUTE * (minute + 1) + DELAY + 1) * 1000)
        self._write_beats()

    def write(self, partition: int, minute: int, batch: pa.RecordBatch | bytes, *, after: float = 0) -> None:
        """Write a batch of a minute, in one message sent so many seconds after its start, or one of other content."""
        content = batch if isinstance(batch, bytes) else encoded_batch(batch)
        with self._lock:
            self._writer.write(partition, round((BASE + MINUTE * minute + after) * 1000), content)
            self._writer.flush()

    def source(self, clock: ClockKind) -> beam.PTransform:
        """Return what reads the topic."""
        times: dict[str, Any] = {"delay": DELAY, "size": MINUTE, "offset": 0, "clock": clock}
        return ReadTopic(self.kafka.servers, self.topic, expansion=self.kafka.expansion, **times)

    def elements(self, clock: ClockKind) -> Iterator[TimestampedValue]:
        """Yield what a source has to give of the topic."""
        micros = DELAY * 10**6, MINUTE * 10**6
        clocks: dict[int, PartitionClock] = defaultdict(lambda: PartitionClock(*micros, clock=clock))
        for record in self.read():
            yield _as_read(record, clocks[record.partition])

    def read(self) -> Iterator[Record]:
        """Yield all that is in the topic."""
        return self.kafka.read(self.topic)

    def _beat(self) -> None:
        while not self._over.wait(0.3):
            self._newest += 1
            self._write_beats()

    def _write_beats(self) -> None:
        with self._lock:
            for partition in range(self.partitions):
                self._writer.write(partition, self._newest)
            self._writer.flush()


class Files:
    """A folder that grows: a file of rows for each minute, in which the last row is a heartbeat."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self._count = folder, 0

    def put(self, minutes: Iterable[int], *, count: int = 300) -> None:
        """Write minutes of events, and let these minutes end."""
        for minute in minutes:
            self.write(rows(minute, count), BASE + MINUTE * (minute + 1) + DELAY + 1)

    def write(self, batch: pa.RecordBatch, beat: int) -> None:
        """Let a file with rows and a heartbeat, in seconds since 1970, appear whole."""
        last = pa.RecordBatch.from_pylist([{"time": beat * 10**6}], schema=SCHEMA)
        self._count += 1
        name = f"{self._count:05d}.parquet"
        pq.write_table(pa.Table.from_batches([batch, last]), self.folder / f".{name}")
        (self.folder / f".{name}").rename(self.folder / name)

    def source(self, clock: ClockKind) -> beam.PTransform:
        """Return what reads the folder."""
        times: dict[str, Any] = {"time": "time", "delay": DELAY, "size": MINUTE, "clock": clock}
        return ReadGrowingFolder(str(self.folder), SCHEMA.names, every=0.2, **times)

    def elements(self, clock: ClockKind) -> Iterator[TimestampedValue]:
        """Yield what a source has to give of the folder, row by row; with heartbeats, the same windows."""
        own = PartitionClock(DELAY * 10**6, MINUTE * 10**6, clock=clock)
        for path in sorted(self.folder.glob("*.parquet")):
            for batch in pq.read_table(path).to_batches():
                for row in range(batch.num_rows):
                    moment, is_beat = batch.column("time")[row].value, not batch.column("unit")[row].is_valid
                    if not is_beat:
                        yield TimestampedValue(encoded_batch(batch.slice(row, 1)), own.timestamp)
                    own.is_late(moment, heartbeat=is_beat)


class Folder:
    """What a stream leaves behind: its key, claims, slots, and every image that any worker released."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.path, self.root_key, self.claims = folder, folder / "key", str(folder / "claims")
        self.root_key.write_bytes(bytes(range(32)))
        self.root_key.chmod(0o600)
        for name in ("images", "sketches", "refused"):
            (folder / name).mkdir()

    def slots(self) -> dict[str, bytes]:
        """Return what the sink holds, by window and key."""
        found = (self.path / "out").rglob("*.sketch")
        return {f"{path.parent.name} {path.stem}": path.read_bytes() for path in found if path.name[0] != "."}

    def images(self, name: str = "images") -> dict[str, set[bytes]]:
        """Return all that came for each slot, however often it was computed."""
        found = defaultdict(set)
        for path in (self.path / name).iterdir():
            if path.name[0] != ".":
                found[path.name.partition("~")[0]].add(path.read_bytes())
        return dict(found)

    def windows(self) -> list[str]:
        """Return the windows of which every key is there."""
        names = sorted({name.split(" ")[0] for name in self.slots()})
        return [name for name in names if all(f"{name} {key}" in self.slots() for key in KEYS)]


def build(  # noqa: PLR0913 - a stream, and what is changed of it
    pipeline: beam.Pipeline,
    messages: beam.PCollection,
    folder: Folder,
    *,
    epoch: int | None = None,
    stop: int | None = None,
    late_by_runner: bool = False,
    clock: ClockKind = "events",
    ledger: Path | None = None,
    schedule: Schedule | None = None,
    dead_letters: Path | None = None,
) -> int:
    """Release the messages' rows in windows, and note all that is released on the way; return the epoch."""
    secrets: dict[str, Any] = {"root_key": folder.root_key, "claims": folder.claims, "clock": clock}
    found = configure_stream(pipeline, stream="test", epoch=epoch, **secrets)
    if late_by_runner:  # as without a log's clock: what is late depends on how far the others are
        messages |= "Forget marks" >> beam.Map(_stamped).with_output_types(Any)
    neighbours = ss.L1(L1, unit="unit", max_keys=MAX_KEYS)
    agreement = agreement_of(PROJECTION, unit="unit", neighbours=neighbours)
    batches, *dropped = messages | DecodeMessages(agreement, time="time", size=MINUTE)
    if dead_letters is not None:
        tuple(dropped) | WriteDeadLetters(str(dead_letters))
    sketches = (
        batches
        | TumblingWindows(MINUTE, column="time")
        | BoundContributions(agreement, public_keys=KEYS)
        | SketchPerKey(agreement)
    )
    sketches | "Note sketches" >> beam.Map(note, str(folder.path / "sketches"))
    end = None if stop is None else BASE + MINUTE * stop
    place = {} if ledger is None else {"ledger": ledger, "dataset": "test"}
    release = ReleasePerKey(
        AdditiveNoise(epsilon=1.0, neighbours=neighbours, schedule=schedule),
        public_keys=KEYS,
        public_windows=(BASE, end),
        **place,
    )
    if ledger is None:
        releases = sketches | release
    else:
        releases, refused = sketches | release.with_refused()
        refused | "Note refused" >> beam.Map(note_refused, str(folder.path / "refused"))
    # beside the sink, which takes the output of ReleasePerKey itself: only that says of which version it is
    releases | "Note releases" >> beam.Map(note, str(folder.path / "images"))
    releases | WriteOnce(_NotedFiles(str(folder.path / "out"), str(folder.path / "images")), "test")
    assert isinstance(found, int)
    return found


class _NotedFiles(FileSink):
    """Files once, of which each image is noted before it may be published: a job may end between the two."""

    def __init__(self, folder: str, images: str) -> None:
        super().__init__(folder)
        self._images = images

    def put(self, slot: Slot, content: bytes) -> bytes | None:
        """Note a release, and write it."""
        if slot.kind != VERSION:
            write(Path(self._images) / f"{slot.window} {slot.file}~{uuid.uuid4().hex}", content)
        return super().put(slot, content)


def _stamped(found: bytes | list[bytes]) -> TimestampedValue:
    message = found if isinstance(found, bytes) else found[0]  # of several in one window
    if not message:
        return TimestampedValue(found, BASE)
    with pa.ipc.open_stream(message) as reader:
        first = pa.compute.min(reader.read_next_batch().column("time")).value
    return TimestampedValue(found, first / 10**6)


def note(keyed: tuple[Any, Any], folder: str, window: Any = beam.DoFn.WindowParam) -> tuple[Any, Any]:
    """Keep each result that comes, repetitions as well."""
    slot = slot_of("test", keyed[0], window)
    content = keyed[1].state().tobytes() if isinstance(keyed[1], ss.Sketch) else keyed[1].to_bytes()
    write(Path(folder) / f"{slot.window} {slot.file}~{uuid.uuid4().hex}", content)
    return keyed


def note_refused(key: str, folder: str, window: Any = beam.DoFn.WindowParam) -> None:
    """Keep the name of a slot that the ledger did not cover."""
    slot = slot_of("test", key, window)
    write(Path(folder) / f"{slot.window} {slot.file}", b"")


class Job:
    """A job on a cluster, cancelled at the end of the block."""

    def __init__(self, cluster: FlinkCluster, log: "Log | Files", folder: Folder, *options: str, **how: Any) -> None:
        self._cluster = cluster
        before = set(self._ids())
        given = [*cluster.stream_options(**how.pop("stream", {})), *options]
        pipeline = beam.Pipeline(options=beam_options(given, streaming=True))
        self.epoch = build(pipeline, pipeline | log.source(how.get("clock", "events")), folder, **how)
        self._result = pipeline.run()
        self.wait_for(lambda: set(self._ids()) - before, "the job")
        (self.id,) = set(self._ids()) - before

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.state() not in {"FINISHED", "CANCELED", "FAILED"}:
            self.cancel()

    def state(self) -> str:
        return str(self._cluster.rest(f"/jobs/{self.id}")["state"])

    def checkpoints(self) -> int:
        return int(self._cluster.rest(f"/jobs/{self.id}/checkpoints")["counts"]["completed"])

    def failures(self) -> int:
        return len(self._cluster.rest(f"/jobs/{self.id}/exceptions")["exceptionHistory"]["entries"])

    def cancel(self) -> str | None:
        """Cancel the job without a savepoint; return where its last checkpoint is, if there is one."""
        self._cluster.call(f"/jobs/{self.id}?mode=cancel", "PATCH")
        self.wait_for(lambda: self.state() in {"CANCELED", "FAILED", "FINISHED"}, "the end of the job")
        latest = self._cluster.rest(f"/jobs/{self.id}/checkpoints")["latest"]["completed"]
        return None if latest is None else str(latest["external_path"])

    def end_with_savepoint(self, folder: Path) -> str:
        """Cancel the job, and return where its state is; Flink's own stop would release what is in open windows."""
        asked = {"target-directory": f"file://{folder}", "cancel-job": True}
        trigger = self._cluster.call(f"/jobs/{self.id}/savepoints", "POST", asked)["request-id"]
        answer: dict[str, Any] = {}

        def is_done() -> bool:
            answer.update(self._cluster.rest(f"/jobs/{self.id}/savepoints/{trigger}"))
            return bool(answer["status"]["id"] == "COMPLETED")

        self.wait_for(is_done, "the savepoint")
        assert "location" in answer["operation"], answer
        return str(answer["operation"]["location"])

    wait_for = staticmethod(wait_until)

    def _ids(self) -> Iterator[str]:
        yield from (job["id"] for job in self._cluster.rest("/jobs")["jobs"])


def replayed(
    log: Log | Files,
    folder: Folder,
    scratch: Path,
    epoch: int,
    stop: int,
    *,
    only: set[int] | None = None,
    clock: ClockKind = "events",
    schedule: Schedule | None = None,
) -> Folder:
    """Compute what a log holds once more, in batch and in this process, with the secrets of an epoch."""
    elements = list(log.elements(clock))
    if only is not None:
        starts = [(BASE + MINUTE * minute) for minute in only]
        clocks = [max(one.timestamp, Timestamp(BASE)) for one in elements]  # the first messages have none before them
        elements = [
            one
            for one, clock_before in zip(elements, clocks, strict=True)
            if any(start <= clock_before < start + MINUTE for start in starts)
        ]
    again = Folder(scratch)
    again.claims = folder.claims
    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
        messages = pipeline | beam.Create(elements, reshuffle=False).with_output_types(bytes)
        build(pipeline, messages, again, epoch=epoch, stop=stop, clock=clock, schedule=schedule)
    return again


def assert_once(folder: Folder) -> None:
    """Check that whatever was computed again was computed alike, and is what the sink holds."""
    slots = folder.slots()
    assert folder.images().keys() >= slots.keys()
    assert {name: {image} for name, image in slots.items()} == {name: folder.images()[name] for name in slots}


def assert_is_the_log(
    log: Log | Files,
    folder: Folder,
    scratch: Path,
    epoch: int,
    stop: int,
    clock: ClockKind = "events",
    schedule: Schedule | None = None,
) -> None:
    """Check bytes, and the sums before the noise, against a replay of the log in batch."""
    again = replayed(log, folder, scratch, epoch, stop, clock=clock, schedule=schedule)
    slots, expected = folder.slots(), again.slots()
    windows = folder.windows()
    assert windows == again.windows()[: len(windows)]
    assert slots == {name: expected[name] for name in slots}
    exact = again.images("sketches")
    noted = {name: sums for name, sums in folder.images("sketches").items() if name.split(" ")[0] in windows}
    assert noted == {name: sums for name, sums in exact.items() if name.split(" ")[0] in windows}


def _as_read(record: Record, clock: PartitionClock) -> TimestampedValue:
    before = clock.timestamp
    clock.is_late(record.timestamp * 1000, heartbeat=record.is_beat)
    return TimestampedValue(record.element, before)
