"""Compare what a stream published with its log, by bytes and by exact sums."""

import dataclasses
import tempfile
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.transforms.window import IntervalWindow, TimestampedValue

from streamsketch.beam.streams.lateness import PartitionClock
from streamsketch.beam.streams.slots import slot_of
from streamsketch.core.numbers import Ints
from streamsketch.data.windows import micros_in, window_time
from streamsketch.errors import InvalidInputError
from streamsketch.jobs.run import beam_options
from streamsketch.jobs.stream import StreamJob
from streamsketch.jobs.topics import Record
from streamsketch.sketching.sketch import Sketch


class Replay(NamedTuple):
    """How many slots were published, and how many of them agree with the log.

    Parameters
    ----------
    slots
        Slots that were published.
    same_bytes
        Slots whose bytes an independent computation reproduces.
    same_sums
        Slots whose exact sums, before noise, equal those of a plain loop over the rows that were read. The loop does
        not clip, so slots in which a unit was clipped are not counted.
    missing
        Slots not published, in windows up to the last published one.
    """

    slots: int
    same_bytes: int
    same_sums: int
    missing: int


def replay(job: StreamJob, log: Iterable[Record]) -> Replay:
    """Process a log again, in this process and with the stream's own secrets. For its operator only.

    Parameters
    ----------
    job
        The job, with the epoch that published; its releases must be in a folder.
    log
        All records of its topic, each partition's in order.

    Raises
    ------
    InvalidInputError
        If the folder has no releases, or the job's secrets are not those of the stream.
    """
    policy, published = job.policy, _files(Path(job.job.folder), "*.sketch")
    if not published:
        raise InvalidInputError(
            f"there are no releases in {job.job.folder} to compare with the log; use the job whose folder holds them"
        )
    windows = policy.of_one_length
    timing = policy.delay_micros, windows.size, windows.offset
    clocks: dict[int, PartitionClock] = defaultdict(
        lambda: PartitionClock(*timing, clock=policy.clock, limit=policy.limit)
    )
    elements = []
    for record in log:
        clock = clocks[record.partition]
        elements.append(TimestampedValue(record.element, clock.timestamp))
        clock.is_late(record.timestamp * 1000, heartbeat=record.is_beat)
    last = max(name.split("/")[1] for name in published)
    stop = (window_time(last) or windows.start(policy.first)) + windows.size
    stop = min(stop, policy.stop_micros or stop)
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        again = dataclasses.replace(job.job, folder=f"{folder}/out", database=None, dead_letters=None)
        computed = dataclasses.replace(job, job=again, stop=int(stop))
        with beam.Pipeline(options=beam_options([])) as pipeline:
            computed.configure(pipeline)
            steps = computed.build(pipeline | beam.Create(elements, reshuffle=False).with_output_types(Any), again=True)
            steps["sketches"] | "Keep sums" >> beam.Map(_keep_sums, job.stream, folder)
            steps["batches"] | "Keep rows" >> beam.Map(_keep_rows, folder)
        expected = _files(Path(again.folder), "*.sketch")
        sums = {name: np.frombuffer(cells, dtype=np.int64) for name, cells in _files(Path(folder), "*.sums").items()}
        plain = _plain_sums(job, Path(folder))
    nothing = job.agreement.projection.sketch().state()
    names = [name.removesuffix(".sketch") for name in published]
    return Replay(
        len(published),
        sum(expected.get(name) == image for name, image in published.items()),
        sum(np.array_equal(sums.get(f"{name}.sums", nothing), plain.get(name, nothing)) for name in names),
        sum(name not in published for name in expected if name.split("/")[1] <= last),
    )


def _files(folder: Path, pattern: str) -> dict[str, bytes]:
    paths = (path for path in folder.rglob(pattern) if not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _keep_sums(
    keyed: tuple[str, Sketch], stream: str, folder: str, window: IntervalWindow = beam.DoFn.WindowParam
) -> None:
    slot = slot_of(stream, keyed[0], window)
    path = Path(folder) / slot.stream / slot.window / f"{slot.file}.sums"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(keyed[1].state().tobytes())


def _keep_rows(batch: pa.RecordBatch, folder: str) -> None:
    pq.write_table(pa.Table.from_batches([batch]), Path(folder) / f"{uuid.uuid4().hex}.rows")


def _plain_sums(job: StreamJob, folder: Path) -> dict[str, Ints]:
    """Return the sums of each slot, by a plain loop over rows that were cast to the agreement's types."""
    agreement, policy = job.agreement, job.policy
    counts: Counter[tuple[int, object, tuple[object, ...]]] = Counter()
    for path in folder.glob("*.rows"):
        table = pq.read_table(path)
        starts = policy.windows.start_of(micros_in(table.column(policy.time).combine_chunks(), policy.time))
        for start, row in zip(starts.tolist(), table.to_pylist(), strict=True):
            index = tuple(row[column.name] for column in agreement.index)
            counts[start, row[agreement.key.name], index] += 1 if agreement.value is None else row[agreement.value]
    sketches: dict[tuple[int, object], Sketch] = {}
    for (start, key, index), count in counts.items():
        sketch = sketches.setdefault((start, key), agreement.projection.sketch())
        sketch.update(index[0] if len(index) == 1 else index, count)
    sums = {}
    for (start, key), sketch in sketches.items():
        window = IntervalWindow(start / 10**6, (start + policy.of_one_length.size) / 10**6)
        slot = slot_of(job.stream, key, window)
        sums[f"{slot.stream}/{slot.window}/{slot.file}"] = sketch.state()
    return sums
