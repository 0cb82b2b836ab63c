"""What a stream published, held against its log: the same bytes when it is computed again, and the log's own sums."""

import argparse
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP

import streamsketch as ss
from pipelines.stream_distances import build, projection_of, schema_of
from streamsketch.beam.streams import PartitionClock, configure_stream
from streamsketch.beam.streams.slots import slot_of
from streamsketch.intake import Tumbling
from tests.clusters.kafka import Record


class Check(NamedTuple):
    """How many slots there are, and how many of them hold what they should.

    Parameters
    ----------
    slots
        Slots that were published.
    same_bytes
        Those whose bytes a computation of its own gives again.
    same_sums
        Those whose exact sums, before the noise, are those of a plain loop over the log.
    missing
        Slots of windows before the last that are not there.
    """

    slots: int
    same_bytes: int
    same_sums: int
    missing: int


def check(arguments: argparse.Namespace, epoch: int, log: Iterable[Record]) -> Check:
    """Compute a log once more, in batch and in this process, with the stream's own secrets: for its operator alone.

    The plain loop knows no bounds, so its sums are those of the stream where no unit was over its bounds.
    """
    clocks: dict[int, PartitionClock] = defaultdict(lambda: _clock(arguments))
    elements, batches = [], []
    for record in log:
        late = clocks[record.partition].is_late(record.timestamp * 1000, heartbeat=not record.content)
        elements.append(TimestampedValue(record.content, MIN_TIMESTAMP if late else record.timestamp / 1000))
        if record.content and not late:
            with pa.ipc.open_stream(record.content) as reader:
                batches.append(reader.read_all())
    table = pa.concat_tables(batches).select(schema_of(arguments).names)
    published = _files(Path(arguments.output))
    last = max(name.split("/")[1] for name in published)
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        again = argparse.Namespace(**{**vars(arguments), "output": f"{folder}/out", "stop": _end(table, arguments)})
        with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
            secrets = {"stream": again.stream, "root_key": again.root_key, "claims": again.claims}
            configure_stream(pipeline, **secrets, epoch=epoch, clock=again.clock)
            steps = build(again, pipeline | beam.Create(elements, reshuffle=False).with_output_types(bytes))
            steps["sketches"] | "Keep sums" >> beam.Map(_keep_sums, again.stream, folder)
        expected, sums = _files(Path(again.output)), _files(Path(folder), "*.sums")
    plain = _plain_sums(table, arguments)
    empty = np.zeros(arguments.sketch_dim, dtype=np.int64)
    named = {
        slot.removesuffix(".sketch"): np.frombuffer(sums[f"{slot.removesuffix('.sketch')}.sums"], dtype=np.int64)
        if f"{slot.removesuffix('.sketch')}.sums" in sums
        else empty
        for slot in published
    }
    before_last = [name for name in expected if name.split("/")[1] <= last]
    return Check(
        len(published),
        sum(expected.get(name) == image for name, image in published.items()),
        sum(np.array_equal(cells, plain.get(name, empty)) for name, cells in named.items()),
        sum(name not in published for name in before_last),
    )


def _clock(arguments: argparse.Namespace) -> PartitionClock:
    micros = (round(seconds * 10**6) for seconds in (arguments.delay, arguments.window, arguments.offset))
    return PartitionClock(*micros, clock=arguments.clock)


def _end(table: pa.Table, arguments: argparse.Namespace) -> float:
    """Return a time past the last window that has data."""
    newest = int(pa.compute.max(table.column(arguments.time)).value)
    return newest / 10**6 + float(arguments.window)


def _files(folder: Path, pattern: str = "*.sketch") -> dict[str, bytes]:
    found = (path for path in folder.rglob(pattern) if not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def _keep_sums(
    keyed: tuple[str, ss.Sketch],
    stream: str,
    folder: str,
    window: beam.transforms.window.IntervalWindow = beam.DoFn.WindowParam,
) -> None:
    slot = slot_of(stream, keyed[0], window)
    path = Path(folder) / slot.stream / slot.window / f"{slot.file}.sums"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(keyed[1].state().tobytes())


def _plain_sums(
    table: pa.Table, arguments: argparse.Namespace
) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the sums of each slot by a plain loop over the rows that name a unit."""
    projection = projection_of(arguments)
    counts: Counter[tuple[int, str, tuple[str, ...]]] = Counter()
    windows = Tumbling(*(round(seconds * 10**6) for seconds in (arguments.window, arguments.offset)))
    rows = zip(*(table.column(name).to_pylist() for name in table.schema.names if name != arguments.time), strict=True)
    names = [name for name in table.schema.names if name != arguments.time]
    moments = table.column(arguments.time).cast(pa.int64()).to_pylist()
    for moment, values in zip(moments, rows, strict=True):
        row = dict(zip(names, values, strict=True))
        if arguments.unit_column is None or row[arguments.unit_column] is not None:
            start = windows.start_of(moment)
            index = tuple(row[name] for name in arguments.index)
            counts[start, row[arguments.key], index] += row[arguments.value] if arguments.value else 1
    sketches: dict[tuple[int, str], ss.Sketch] = {}
    for (start, key, index), count in counts.items():
        sketch = sketches.setdefault((start, key), projection.sketch())
        sketch.update(index[0] if len(index) == 1 else index, count)
    found = {}
    for (start, key), sketch in sketches.items():
        window = beam.transforms.window.IntervalWindow(start / 10**6, start / 10**6 + arguments.window)
        slot = slot_of(arguments.stream, key, window)
        found[f"{slot.stream}/{slot.window}/{slot.file}"] = sketch.state()
    return found
