"""A growing folder is a log: each file once, in order, late rows marked."""

import threading
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.utils.timestamp import MIN_TIMESTAMP

import streamsketch as ss
from streamsketch.beam.streams import DecodeMessages, PartitionClock, ReadGrowingFolder, folder
from streamsketch.beam.streams.lateness import micros_of
from tests.beam.streams.prism import BASE, MINUTE, run

SCHEMA = pa.schema({"key": pa.string(), "time": pa.timestamp("us", "UTC")})
AGREEMENT = ss.Agreement(ss.SJLT(sketch_dim=64, sparsity=4, seed=7), key="key", index="key")


def put(folder: Path, name: str, rows: list[tuple[str, int]]) -> None:
    columns = [[key for key, _ in rows], [(BASE + at) * 10**6 for _, at in rows]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), folder / f".{name}")
    (folder / f".{name}").rename(folder / name)


def rows_of(batch: pa.RecordBatch) -> list[tuple[str, int]]:
    return [(row["key"], int(row["time"].timestamp()) - BASE) for row in batch.to_pylist()]


@pytest.mark.parametrize("every", [0.2, 0.001])  # all files there are in one go, or one
def test_files_are_read_as_they_appear_and_late_rows_are_set_apart(
    every: float, prism: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    put(folder, "001.parquet", [("a", 5), ("b", 59), ("c", 61)])

    def grow() -> None:
        time.sleep(3)
        put(folder, "002.parquet", [("d", 119), ("e", 70)])
        put(folder, "003.parquet", [("late", 7), ("f", 130), ("g", 118)])  # out of order within the delay
        (folder / "_END").touch()

    def build(pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        read = ReadGrowingFolder(str(folder), SCHEMA.names, time="time", delay=15, size=MINUTE, every=every)
        log = pipeline | read
        batches, late, _ = log | DecodeMessages(AGREEMENT, time="time", size=MINUTE)
        return {"rows": batches | "A" >> beam.FlatMap(rows_of), "late": late | "B" >> beam.FlatMap(rows_of)}

    growing = threading.Thread(target=grow)
    growing.start()
    found = run(prism, build, tmp_path / "out")
    growing.join()
    assert sorted(found["rows"]) == [("a", 5), ("b", 59), ("c", 61), ("d", 119), ("e", 70), ("f", 130), ("g", 118)]
    assert found["late"] == [("late", 7)]


def test_a_time_that_is_not_read_is_refused() -> None:
    wrong: Any = "when"
    with pytest.raises(ss.InvalidInputError, match="time must be one of the columns key, time"):
        ReadGrowingFolder("folder", SCHEMA.names, time=wrong, delay=1, size=1)


@pytest.mark.parametrize("lengths", [{"delay": -1, "size": 1}, {"delay": 1, "size": 0}, {"delay": 1, "size": 1e-7}])
def test_lengths_of_time_that_are_none_are_refused(lengths: dict[str, float]) -> None:
    with pytest.raises(ss.InvalidInputError, match=r"must be a whole number of microseconds|longer than 0 seconds"):
        ReadGrowingFolder("folder", SCHEMA.names, time="time", **lengths)


def test_lengths_of_time_may_be_text() -> None:
    texts, numbers = (
        ReadGrowingFolder("folder", SCHEMA.names, time="time", delay=delay, size=size)._step._micros
        for delay, size in (("30 s", "15 min"), (30, 900))
    )
    assert texts == numbers


def judged(parts: list[tuple[Any, pa.RecordBatch]], micros: list[int]) -> tuple[list[str], list[str]]:
    """Return the keys of rows that are on time, and of late ones, by the watermark that each part has."""
    timely, late = list[str](), list[str]()
    for moment, part in parts:
        newest = None if moment == MIN_TIMESTAMP else moment.micros + micros[0]
        flags, _ = PartitionClock(*micros, newest).judge(micros_of(part.column("time"), "time"))
        for key, is_late in zip(part.column("key").to_pylist(), flags.tolist(), strict=True):
            (late if is_late else timely).append(key)
    return timely, late


@pytest.mark.parametrize("clock", ["events", "heartbeats"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_far_off_does_not_end_the_stream(unit: str, clock: Any) -> None:
    """A row of any time that Parquet holds is late or in its window; the others are where they were."""
    each = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    crowd = [
        ("a", BASE * each),
        ("b", (BASE + 59) * each + each // 2),
        (None, (BASE + 60) * each),
        ("c", (BASE + 61) * each),
    ]
    beyond = [] if unit == "ns" else [("e", (1 << 63) - 1), ("e", 1 - (1 << 63))]
    found = []
    for rows in (crowd, [*crowd[:1], ("none", None), *beyond, *crowd[1:]]):
        keys, times = zip(*rows, strict=True)
        batch = pa.RecordBatch.from_arrays(
            [pa.array(keys, pa.string()), pa.array(times, pa.timestamp(unit))], ["key", "time"]
        )
        step = folder.ReadFiles(["key", "time"], "time", [MINUTE * 10**6 * 2, MINUTE * 10**6, 0], 1.0, "_END")
        step.clock = clock
        partition = PartitionClock(*step._micros, clock=clock)
        parts = list(step._parts(batch, partition))
        timely, late = judged(parts, step._micros)
        found.append((sorted(timely, key=str), partition.newest))
        assert late == ["e"] * len(late)
        assert len(late) == (len(beyond) if len(rows) > len(crowd) else 0)
    assert found[0] == found[1]


def test_a_column_without_times_is_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"key": ["a"], "time": ["2026-11-22"]})
    step = folder.ReadFiles(["key", "time"], "time", [0, MINUTE * 10**6, 0], 1.0, "_END")
    with pytest.raises(ss.InvalidInputError, match="the column time must hold Arrow times, got string"):
        list(step._parts(batch, PartitionClock(*step._micros)))
