"""Two processes beside one: columns to released sketches through Beam's in-process runner, ns per event.

Each of two processes reads half the files and releases each key, as two workers without a shuffle between them would.
Both have run a job before. What keeps two below twice as fast is in the README: each starts a job of its own, and one
process alone already lets Arrow decode on another core.
"""

import functools
import tempfile
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.beam.ingest import read_and_sketch, release, run_pipeline, write_events
from benchmarks.rows import NANOSECONDS, Effort, Row, Target, compare
from benchmarks.timing import Work

_KEYS = 100
_TO_ONE = Target("ratio", 1 / 1.8)


def run(effort: Effort) -> list[Row]:
    """Measure ten and forty million events."""
    n = effort.size(5_000_000)
    rounds = Effort(effort.name, min(effort.rounds, 5), 0.0, effort.shrink)
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2, get_context("spawn")) as pool:
        path = Path(folder) / "half.parquet"
        write_events(path, n, _KEYS)
        _run(pool, path, [1, 1])  # which loads the kernels
        return [
            compare(
                f"two processes, {2 * times * n:,} events",
                {
                    "two processes": Work(functools.partial(_run, pool, path, [times, times]), 2 * times * n),
                    "one process": Work(functools.partial(_run, pool, path, [2 * times]), 2 * times * n),
                },
                rounds,
                NANOSECONDS,
                _TO_ONE,
            )
            for times in (1, 4)
        ]


def _run(pool: Executor, path: Path, readings: list[int]) -> None:
    """Run a job for each number in a process of its own; it reads the file so many times."""
    list(pool.map(functools.partial(_job, path), readings))


def _job(path: Path, times: int) -> None:
    run_pipeline(read_and_sketch(*[path] * times), release())
