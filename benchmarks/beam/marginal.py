"""What each further event costs on Beam's in-process runner, ns: the start-up of a job left out.

The file of ten million events is read once, and then several times in one job; the difference of both times is divided
by the events between them. It is what a user with much data pays. One round: 110 million events by columns, fifty
million bounded.
"""

import tempfile
import time
from pathlib import Path

from benchmarks.beam.ingest import read_and_sketch, release, run_pipeline, write_events
from benchmarks.rows import Effort, Row, Target

_KEYS = 100


def run(effort: Effort) -> list[Row]:
    """Measure 100 keys, with and without bounds."""
    n = effort.size(10_000_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        write_events(path, n, _KEYS)
        return [
            Row(
                f"{what}, from {n:,} events to {times * n:,}",
                "ns",
                _marginal(path, times, bounded=bounded) / n,
                {},
                target=target,
            )
            for what, times, bounded, target in (
                ("columns", 10, False, Target("ours", 50)),
                ("bounded", 4, True, Target("ours", 200)),
            )
        ]


def _marginal(path: Path, times: int, *, bounded: bool) -> float:
    """Return the nanoseconds of each further reading of a file."""
    processor_seconds(path, 1, bounded=bounded)  # which loads the kernels
    once = min(processor_seconds(path, 1, bounded=bounded) for _ in range(2))
    return (processor_seconds(path, times, bounded=bounded) - once) / (times - 1) * 1e9


def processor_seconds(path: Path, times: int, *, bounded: bool) -> float:
    """Return the processor time of a job that reads a file so many times."""
    start = time.process_time()
    run_pipeline(read_and_sketch(*[path] * times, bounded=bounded), release(bounded=bounded))
    return time.process_time() - start
