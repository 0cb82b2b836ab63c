"""A topic read by `streamsketch stream kafka` in one process, without Java, ns of processor time per event.

A topic of one partition is filled with Arrow batches of 20,000 rows, or with rows of JSON, one a message: ten keys,
100,000 units bounded to two keys each, 10,000 indices as text, windows of ten seconds. Processor time is that of the
process, with the threads of Kafka's client: 1,000 ns are a million events a second on one core. *Counted by key alone*
reads the same topic with the same client, decodes it by pyarrow, and counts rows by key and window in one thread.
"""

import itertools
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import streamsketch as ss
from benchmarks.rows import Effort, Row, Target
from benchmarks.streams import JARS
from streamsketch.jobs import Brokers, Malformed, Partitions, Payloads, TopicStream
from streamsketch.streams import Stream
from streamsketch.streams.job import Job
from tests.clusters.kafka import Kafka

_BASE, _SIZE, _DELAY, _WINDOWS = 1_700_000_000, 10, 5, 5  # seconds
_ROWS = 20_000
_KEYS = [f"key {number}" for number in range(10)]
_EVENTS = {"arrow": 10_000_000, "json": 500_000}
_NAMES = {"arrow": "Arrow batches of 20,000 rows", "json": "rows of JSON, one a message"}
_TARGETS = {"arrow": Target("ratio", 4.0), "json": Target("ratio", 1.5)}
_AGREEMENT = ss.Agreement(
    ss.SJLT(sketch_dim=1024, sparsity=8, seed=3),
    key="shop",
    index="item",
    unit="person",
    neighbours=ss.L1(20, max_keys=2, unit="person"),
    missing="drop",
)


class _Never:
    wakes = -1

    def is_set(self) -> bool:
        return False


def run(effort: Effort) -> list[Row]:
    """Measure Arrow batches and rows of JSON, each beside counting alone: a minute."""
    with tempfile.TemporaryDirectory() as folder, Kafka(JARS, Path(folder)) as kafka:
        return [_row(kafka, Path(folder), form, effort.size(events)) for form, events in _EVENTS.items()]


def _row(kafka: Kafka, folder: Path, form: str, events: int) -> Row:
    kafka.create(form, 1)
    with kafka.writer(form) as writer:
        for content in _messages(form, events):
            writer.write(0, _BASE * 1000, content)
        writer.write(0, (_BASE + _WINDOWS * _SIZE + _DELAY) * 1000)
    consume_topic(kafka, folder / f"{form} first", form)  # compiles
    ours = _seconds(lambda: consume_topic(kafka, folder / form, form)) / events * 1e9
    alone = _seconds(lambda: count_topic(kafka, form)) / events * 1e9
    name = f"{events:,} events, {_NAMES[form]}"
    return Row(name, "ns", ours, {"counted by key alone": alone}, ours / alone, target=_TARGETS[form])


def _seconds(work: Callable[[], None]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def _messages(form: str, events: int) -> Iterator[bytes]:
    rng, length = np.random.default_rng(1), _WINDOWS * _SIZE * 10**6
    for first in range(0, events, _ROWS):
        count = min(_ROWS, events - first)
        columns = {
            "person": [f"person {number}" for number in rng.integers(100_000, size=count).tolist()],
            "shop": rng.choice(_KEYS, size=count).tolist(),
            "item": [f"item {number}" for number in rng.integers(10_000, size=count).tolist()],
        }
        times = _BASE * 10**6 + np.arange(first, first + count) * length // events
        at = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
        batch = pa.RecordBatch.from_pydict(columns | {"at": at})
        if form == "json":
            for row in batch.to_pylist():
                yield json.dumps(row | {"at": row["at"].isoformat()}).encode()
            continue
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield sink.getvalue().to_pybytes()


def consume_topic(kafka: Kafka, folder: Path, form: str) -> None:
    """Release the windows of a topic by the command, in this process."""
    (folder / "out").mkdir(parents=True)
    windows = ss.Windows(time="at", every=_SIZE, first=f"{np.datetime64(_BASE, 's')}Z")
    agreement = _AGREEMENT.replace(terms=ss.Terms(epsilon=1), keys=_KEYS, windows=windows)
    malformed = Malformed(None)
    payloads = Payloads(agreement, "at", form, malformed)  # type: ignore[arg-type]  # one of two
    stream = Stream(agreement, Job(folder=str(folder / "out"), delay=_DELAY), folder / "s.raw-stream", strict=True)
    partitions = Partitions(Brokers(kafka.servers), form, "benchmark")
    TopicStream(stream, partitions, form, payloads, malformed).run(_Never(), every=60, once=True)
    partitions.close()
    if stream.released != _WINDOWS or malformed.rows:
        raise RuntimeError(f"{stream.released} windows were released, and {malformed.rows} rows were malformed")


def count_topic(kafka: Kafka, form: str) -> None:
    """Read a topic and count its events by key, and nothing else."""
    partitions, totals = Partitions(Brokers(kafka.servers), form, "benchmark"), Counter[tuple[str, int]]()
    partitions.assign({0: 0})
    while not partitions.ended():
        contents = [message.content for message in itertools.chain(*partitions.poll(0.1).values()) if message.content]
        for batch in map(_decoded, contents) if form == "arrow" else [_parsed(contents)] if contents else []:
            window = pc.floor(pc.divide(batch["at"].cast(pa.int64()), _SIZE * 10**6))
            table = pa.table({"shop": batch["shop"], "window": window})
            counts = table.group_by(["shop", "window"], use_threads=False).aggregate([([], "count_all")])
            for row in counts.to_pylist():
                totals[row["shop"], row["window"]] += row["count_all"]
    partitions.close()


def _decoded(content: bytes) -> pa.Table:
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()


def _parsed(contents: list[bytes]) -> pa.Table:
    import pyarrow.json as pj  # noqa: PLC0415 - Arrow's messages do without

    options = pj.ReadOptions(use_threads=False, block_size=1 << 26)
    table = pj.read_json(pa.BufferReader(b"\n".join(contents)), read_options=options)
    return table.set_column(table.schema.get_field_index("at"), "at", table["at"].cast(pa.timestamp("us", "UTC")))
