"""``python -m benchmarks.spark [EVENTS]``: sketches by key on Spark beside its own ``groupBy().count()``, ns an event.

Both read the same Parquet files on a cluster of this machine, two executors of one core each. *count* is Spark's own,
which never leaves the JVM. *read by Python* is the floor of any `mapInArrow`: batches go to Python's workers, which
drop them. *sketched* and *bounded* end with the exact table on the driver; the second one clips a hundred thousand
units. It needs Java and the environment of `make test-spark`.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import streamsketch as ss
from benchmarks.timing import Timings, Work, interleave
from streamsketch.spark import sketch_per_key

_FILES, _KEYS, _UNITS, _ROUNDS = 8, 100, 100_000, 5
_PROJECTION = ss.SJLT(dim=1 << 40, sketch_dim=1024, sparsity=8, seed=2024)
_AGREEMENT = ss.Agreement(_PROJECTION, key="key", index="index", value="value", missing="keep")
_BOUNDED = _AGREEMENT.replace(unit={"unit": "integer"}, neighbours=ss.L1(100, unit="unit", max_keys=20))


def write_events(folder: Path, n: int) -> None:
    """Write n events, spread evenly over keys and units, as Parquet files."""
    rng = np.random.default_rng(11)
    names = pa.array([f"key {key}" for key in range(_KEYS)])
    for number in range(_FILES):
        some = n // _FILES
        columns = {
            "key": names.take(pa.array(rng.integers(0, _KEYS, some))),
            "index": rng.integers(0, 1 << 40, some),
            "value": rng.integers(-9, 10, some),
            "unit": rng.integers(0, _UNITS, some),
        }
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")


def measure(spark: Any, folder: Path, n: int, rounds: int = _ROUNDS) -> Timings:
    """Time all of them on n events in a folder."""
    events = spark.read.parquet(str(folder))
    contenders = {
        "sketched": lambda: sketch_per_key(events, _AGREEMENT).table(),
        "count": lambda: events.groupBy("key").count().collect(),
        "read by Python": lambda: events.select("key", "index", "value").mapInArrow(_nothing, "key string").collect(),
        "bounded": lambda: sketch_per_key(events, _BOUNDED).table(),
    }
    return interleave({name: Work(call, n) for name, call in contenders.items()}, rounds)


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield from ()


def _session() -> Any:
    import pyspark  # noqa: PLC0415 - in an environment of its own
    from pyspark.sql import SparkSession  # noqa: PLC0415

    root = str(Path(__file__).resolve().parents[1])
    os.environ |= {"SPARK_HOME": str(Path(pyspark.__file__).parent), "PYSPARK_PYTHON": sys.executable}
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in {
        "spark.executorEnv.PYTHONPATH": root,
        "spark.speculation": "true",
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(n: int = 10_000_000) -> None:
    """Print a line for each contender: median ns per event, and the quartiles of its ratio to Spark's count."""
    spark = _session()
    with tempfile.TemporaryDirectory() as folder:
        write_events(Path(folder), n)
        timings = measure(spark, Path(folder), n)
    print(f"{n:,} events, {_KEYS} keys, s=8, k=1024, two executors of one core")  # noqa: T201
    for name, seconds in timings.seconds.items():
        lower, middle, upper = timings.ratios(name, "count")
        median = 1e9 * statistics.median(seconds)
        print(f"{name:15} {median:8.1f} ns  {middle:6.2f} times count ({lower:.2f}-{upper:.2f})")  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
