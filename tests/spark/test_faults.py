"""On a cluster of two processes: what is killed, slow or tried again changes no bit and no byte."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.spark.sketches import Work
from streamsketch.streams import FileSink
from tests.spark.cluster import ROOT, SparkCluster
from tests.spark.driver import KEYS, TWENTY, publishing
from tests.spark.frames import LocalFrame
from tests.spark.rows import SECRET, agreed, bounded, sales

ROWS = sales(2000)


def once(folder: str, what: Callable[[], None]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a step that passes rows on, and in the middle of one partition does something the first time."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext  # noqa: PLC0415 - in a worker of Spark

        context: Any = TaskContext.get()
        with Path(folder, f"{context.partitionId()} {context.attemptNumber()}").open("x"):
            pass
        rows = pa.Table.from_batches(batches)
        yield from rows[: len(rows) // 2].to_batches()
        # not at attempt 0, which may be lost with an executor that was just killed, before it is here
        if context.partitionId() == 1:
            with suppress(FileExistsError):
                Path(folder, "struck").touch(exist_ok=False)
                what()
        yield from rows[len(rows) // 2 :].to_batches()

    return work


def kill_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_executor() -> None:
    """Kill the JVM above the daemon of Python's workers."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text(encoding="utf-8")
    os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)


def be_slow() -> None:
    time.sleep(600)


@pytest.mark.parametrize("what", [kill_worker, kill_executor, be_slow])
def test_a_task_that_is_killed_or_slow_is_tried_again_and_changes_no_bit(
    spark: Any, tmp_path: Path, what: Callable[[], None]
) -> None:
    frame = spark.createDataFrame(ROWS).repartition(4)
    faulty = frame.mapInArrow(once(str(tmp_path), what), frame.schema)
    agreement = agreed(TWENTY)
    assert Work(agreement, shards=4).sketches(faulty, SECRET).table() == bounded(ROWS, agreement)
    assert len(list(tmp_path.glob("1 *"))) > 1, "the task was tried again"


def test_a_killed_driver_publishes_the_same_bytes_and_a_changed_batch_nothing(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    parts = [ROWS[:700], ROWS[700:1500], ROWS[1500:]]
    for number, part in enumerate(parts):
        pq.write_table(part, tmp_path / "in" / f"{number}.parquet")
        os.utime(tmp_path / "in" / f"{number}.parquet", (1000 + number, 1000 + number))
    pq.write_table(ROWS[:1], tmp_path / "schema.parquet")
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("sales", unit="customer", epsilon=9.0, delta=0.0)

    def drive(puts: int) -> int:
        command = [sys.executable, "-m", "tests.spark.driver", str(tmp_path), str(puts), cluster.url]
        with (tmp_path / "log").open("a") as log:
            return subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, check=False).returncode  # noqa: S603

    def published(folder: str = "out") -> dict[str, bytes]:
        found = (tmp_path / folder).rglob("*.sketch")
        return {str(path.relative_to(tmp_path / folder)): path.read_bytes() for path in found}

    for number, part in enumerate(parts):
        publishing(FileSink(tmp_path / "expected"))(LocalFrame.of(part, 3), number)
    expected = published("expected")
    first, second, third = (f"sales/1970-01-01T00-00-0{number}Z" for number in range(3))
    assert drive(2) == -signal.SIGKILL  # all of batch 0 is put, and the query does not know
    assert published() == {name: expected[name] for name in expected if name.startswith(first)}
    assert drive(1) == -signal.SIGKILL  # nothing of batch 0, which is published, and one key of batch 1
    half = {name: expected[name] for name in expected if name.startswith(first)}
    half[f"{second}/{KEYS[0]}.sketch"] = expected[f"{second}/{KEYS[0]}.sketch"]
    assert published() == half
    pq.write_table(ROWS[700:1400], tmp_path / "in" / "1.parquet")  # other rows than before
    os.utime(tmp_path / "in" / "1.parquet", (1001, 1001))
    assert drive(0) == 0
    assert published() == half | {name: expected[name] for name in expected if name.startswith(third)}
    alarms = (tmp_path / "alarms").read_text(encoding="utf-8").splitlines()
    window = second.partition("/")[2]
    assert alarms == [f"{window} N sketch", f"{window} S withheld"]
    assert sum(entry.body["kind"] == "charge" for entry in ledger.entries()) == 3, "a claimed window is not drawn again"
    shutil.rmtree(tmp_path / "checkpoint")  # so Spark counts batches from 0 again
    before = published()
    assert drive(0) == 1
    assert "the query's checkpoint was lost" in (tmp_path / "log").read_text(encoding="utf-8")
    assert published() == before
    assert sum(entry.body["kind"] == "charge" for entry in ledger.entries()) == 3
