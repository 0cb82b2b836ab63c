"""A growing folder is a log: each file once, in order, late rows marked."""

import threading
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.beam.streams import DecodeMessages, ReadGrowingFolder
from tests.beam.streams.prism import BASE, MINUTE, run

SCHEMA = pa.schema({"key": pa.string(), "time": pa.timestamp("us", "UTC")})


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
        batches, late, _ = log | DecodeMessages(SCHEMA, time="time", size=MINUTE)
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
