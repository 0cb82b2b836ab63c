"""Closing a window of `streamsketch stream kafka`, µs of processor time per key, all threads.

The window is read before, four rows a key, and is over: measured is `Stream.save`, which sums and bounds the window,
draws its release, writes the state, and publishes the release as a Parquet file. *Noise alone* draws the exact
Laplace noise of all keys' cells in one call.
"""

import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

import streamsketch as ss
from benchmarks.rows import MICROSECONDS, Effort, Row, Target
from benchmarks.timing import Timings
from streamsketch.privacy.samplers import SystemBits, discrete_laplace
from streamsketch.streams import Stream
from streamsketch.streams.job import Job

_BASE, _SIZE = 1_700_000_000, 10  # seconds
_PER_KEY = 4
_ROWS = 1 << 20  # of a batch: a batch's rows are numbered and bounded together
_SETTINGS = [(64, 100_000), (1024, 10_000)]
"""Cells of a sketch, and keys."""
_SCALE = Fraction(160)  # of an L1 bound of 20 in eight cells, ε = 1
GOAL = 100.0  # µs a key: 100,000 keys in 10 s


def run(effort: Effort) -> list[Row]:
    """Measure sketches of 64 and 1,024 cells, of 100,000 and 10,000 keys: two minutes."""
    rounds = max(1, effort.rounds // 5)
    return [_row(dim, effort.size(keys, 10), rounds) for dim, keys in _SETTINGS]


def _row(dim: int, keys: int, rounds: int) -> Row:
    ours, alone = list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        close_window(Path(folder) / "first", dim, min(keys, 1_000))  # compiles
        for number in range(rounds):
            ours.append(close_window(Path(folder) / str(number), dim, keys) / keys)
            alone.append(_seconds(lambda: discrete_laplace(_SCALE, keys * dim, SystemBits())) / keys)
    timings = Timings({"ours": ours, "noise alone": alone})
    lower, ratio, upper = timings.ratios("ours", "noise alone")
    others = {"noise alone": MICROSECONDS.of(timings.median("noise alone"))}
    name, closing = f"{keys:,} keys of {dim:,} cells", MICROSECONDS.of(timings.median("ours"))
    return Row(name, MICROSECONDS.label, closing, others, ratio, (lower, upper), Target("ours", GOAL))


def close_window(folder: Path, dim: int, keys: int) -> float:
    """Return the processor time, in seconds, of the save that publishes a window of ``keys`` keys."""
    folder.mkdir()
    names = [f"key {number}" for number in range(keys)]
    agreement = ss.Agreement(
        ss.SJLT(sketch_dim=dim, sparsity=8, seed=3),
        key="shop",
        index="item",
        unit="person",
        neighbours=ss.L1(20, max_keys=2, unit="person"),
        missing="drop",
        terms=ss.Terms(epsilon=1),
        keys=names,
        windows=ss.Windows(time="at", every=_SIZE, first=f"{np.datetime64(_BASE, 's')}Z"),
    )
    stream = Stream(agreement, Job(folder=str(folder), delay=0), folder / "s.raw-stream", strict=True)
    rng, rows = np.random.default_rng(1), keys * _PER_KEY
    shops = rng.permutation(rows) % keys
    for first in range(0, rows, _ROWS):
        stream.add(_batch(names, shops[first : first + _ROWS], first), first)
    stream.add(_batch(names, np.zeros(1, int), rows, seconds=_SIZE), rows)
    seconds = _seconds(lambda: stream.save({"row": rows + 1}))
    if stream.released != 1:
        raise RuntimeError(f"{stream.released} windows were released")
    return seconds


def _batch(names: list[str], shops: np.ndarray, first: int, seconds: int = 1) -> pa.RecordBatch:
    people = np.arange(first, first + len(shops)) // 2  # two rows a person
    at = pa.array(np.full(len(shops), (_BASE + seconds) * 10**6), pa.int64()).cast(pa.timestamp("us", "UTC"))
    columns = {
        "person": [f"person {number}" for number in people.tolist()],
        "shop": pa.array(names).take(pa.array(shops)),
        "item": [f"item {number}" for number in (people * 7919 % 10_000).tolist()],
        "at": at,
    }
    return pa.RecordBatch.from_pydict(columns)


def _seconds(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before
