"""Parquet to released sketches through Apache Beam's in-process runner, ns per event; 100 ns are 10 million a second.

All contenders read the same Parquet columns and end with one release a key. *Columns* is `ReadColumns` into
`SketchPerKey` and `ReleasePerKey`; *rows* is Beam's own row reader into the same, on a twentieth of the events; the
*plain CombineFn* updates a sketch in ``add_input``, element by element, as one would write it first, on the same
twentieth. *Bounded* adds `BoundContributions` to the columns, with a hundred thousand units, and *in sketch space* does
so by `SketchL2` and equal weights, with counts of units. Rows alone, to sketches
and with the garbage collector on as in a job, stand beside the floor: the same rows only read, by the runner itself.
The runner's fixed cost, some tenths of a second, weighs more on the smaller inputs and on ``--quick``.
"""

import contextlib
import dataclasses
import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import streamsketch as ss
from benchmarks.rows import NANOSECONDS, Effort, Row, Target, compare
from benchmarks.timing import Work
from streamsketch.beam import BoundContributions, MergeSketches, ReadColumns, ReleasePerKey, RowsToBatches, SketchPerKey
from streamsketch.release import AdditiveNoise

_KEYS = 100
_UNITS = 100_000
_COLUMNS = ["key", "index", "value"]
_FEWER = 20
_PROJECTION = ss.SJLT(dim=1 << 40, sketch_dim=1024, sparsity=8, seed=2024)
_AGREEMENT = ss.Agreement(_PROJECTION, key="key", index="index", value="value", missing="keep")
_NEIGHBOURS = ss.L1(100, unit="unit", max_keys=20)
_BOUNDED = _AGREEMENT.replace(unit={"unit": "integer"}, neighbours=_NEIGHBOURS)
_FINE, _CELLS = _PROJECTION.replace(resolution="1/16384"), ss.SketchL2(1, unit="unit", max_keys=20)
_WEIGHED = _BOUNDED.replace(
    projection=_FINE, neighbours=_CELLS, clip="equal", counting=ss.privacy.Counting.of(_FINE, _CELLS, delta=1e-6)
)


def run(effort: Effort) -> list[Row]:
    """Measure 100 keys; the file of ten million events takes some 170 MB of disk."""
    n = effort.size(10_000_000)
    fewer = max(1, n // _FEWER)
    rounds = Effort(effort.name, min(-(-effort.rounds // 3), 5), 0.0, effort.shrink)
    with tempfile.TemporaryDirectory() as folder, _collecting():  # which what waits must not slow down
        whole, part = (Path(folder) / f"{name}.parquet" for name in ("whole", "part"))
        write_events(whole, n, _KEYS)
        write_events(part, fewer, _KEYS)
        released = compare(
            f"{n:,} events, {_KEYS} keys, s=8, k=1024",
            {
                "columns": Work(lambda: run_pipeline(read_and_sketch(whole), release()), n),
                "plain CombineFn": Work(
                    lambda: run_pipeline(_rows(part), beam.CombinePerKey(_ByElement(_PROJECTION)), release()), fewer
                ),
                "rows": Work(lambda: run_pipeline(_sketched_rows(part), release()), fewer),
            },
            rounds,
            NANOSECONDS,
            Target("ours", 50),
        )
        cut = compare(
            f"the same, {_UNITS:,} units bounded",
            {
                "bounded": Work(lambda: run_pipeline(read_and_sketch(whole, bounded=True), release(bounded=True)), n),
                "columns": Work(lambda: run_pipeline(read_and_sketch(whole), release()), n),
            },
            rounds,
            target=Target("ours", 200),
        )
        cells = compare(
            "the same, in sketch space",
            {
                "in sketch space": Work(
                    lambda: run_pipeline(_bounded(whole, agreement=_WEIGHED), _release(_WEIGHED)), n
                ),
                "bounded": Work(lambda: run_pipeline(_bounded(whole, agreement=_BOUNDED), _release(_BOUNDED)), n),
            },
            rounds,
            target=Target("ratio", 1.5),
        )
        rows = compare(
            f"{fewer:,} rows (key, (index, value)), {_KEYS} keys",
            {
                "rows": Work(lambda: run_pipeline(_sketched_rows(part)), fewer),
                "only read": Work(lambda: run_pipeline(_rows(part)), fewer),
                "and an identity": Work(lambda: run_pipeline(_rows(part), beam.Map(_itself)), fewer),
            },
            rounds,
            target=Target("ours", 1500),
        )
        beside = dataclasses.replace(
            released, name="the same, beside the plain CombineFn", others={}, target=Target("ratio", 1 / 8)
        )
        return [released, beside, cut, cells, rows]


@contextlib.contextmanager
def _collecting() -> Iterator[None]:
    """Leave the garbage collector on, as in a job: the timer turns it off and what waits would cost nothing."""
    disable, gc.disable = gc.disable, lambda: None
    try:
        yield
    finally:
        gc.disable = disable


def _itself(element: Any) -> Any:
    return element


@beam.typehints.with_input_types(tuple[int, int])
@beam.typehints.with_output_types(ss.Sketch)
class _ByElement(MergeSketches):
    """A sketch per key, updated one element at a time."""

    def add_input(self, mutable_accumulator: ss.Sketch, element: Any) -> ss.Sketch:
        index, value = element
        mutable_accumulator.update(index, value)
        return mutable_accumulator


def write_events(path: Path, n: int, keys: int) -> None:
    """Write a Parquet file of n events spread evenly over the keys."""
    rng = np.random.default_rng(11)
    names = pa.array([f"key {key}" for key in range(keys)])
    codes = pa.array(rng.integers(0, keys, n).astype(np.int32))
    columns = {
        "key": pa.DictionaryArray.from_arrays(codes, names),
        "index": rng.integers(0, 1 << 40, n),
        "value": rng.integers(-9, 10, n),
        "unit": rng.integers(0, _UNITS, n),
    }
    pq.write_table(pa.table(columns), path, row_group_size=1 << 20)


def read_and_sketch(*paths: Path, bounded: bool = False) -> beam.PTransform:
    """Return what makes files' sketches by columns."""
    names = [str(path) for path in paths]
    if not bounded:
        return ReadColumns(names, _AGREEMENT) | SketchPerKey(_AGREEMENT)
    return _bounded(*paths, agreement=_BOUNDED)


def _bounded(*paths: Path, agreement: ss.Agreement) -> beam.PTransform:
    names = [str(path) for path in paths]
    return ReadColumns(names, agreement) | BoundContributions(agreement) | SketchPerKey(agreement)


def _rows(path: Path) -> beam.PTransform:
    event = beam.Map(lambda row: (row["key"], (row["index"], row["value"])))
    return beam.io.ReadFromParquet(str(path), columns=_COLUMNS) | event.with_output_types(tuple[str, tuple[int, int]])


def _sketched_rows(path: Path) -> beam.PTransform:
    rows = beam.Map(lambda row: (row["key"], row["index"], row["value"])).with_output_types(tuple[str, int, int])
    return (
        beam.io.ReadFromParquet(str(path), columns=_COLUMNS)
        | rows
        | RowsToBatches(_AGREEMENT)
        | SketchPerKey(_AGREEMENT)
    )


def release(*, bounded: bool = False) -> beam.PTransform:
    """Return what releases the sketches, each key once."""
    return _release(_BOUNDED if bounded else _AGREEMENT.replace(neighbours=ss.L1(9)))


def _release(agreement: ss.Agreement) -> beam.PTransform:
    keys = [f"key {key}" for key in range(_KEYS)]
    neighbours: Any = agreement.neighbours
    delta = 1e-6 if isinstance(neighbours, ss.SketchL2) else 0.0
    noise = AdditiveNoise(epsilon=1.0, delta=delta, neighbours=neighbours)
    return ReleasePerKey(noise, public_keys=keys, projection=agreement.projection)


def run_pipeline(*steps: beam.PTransform) -> None:
    """Run steps in Beam's in-process runner."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    output = pipeline
    for step in steps:
        output |= step
    pipeline.run().wait_until_finish()
