"""Parquet to sketches through Apache Beam's in-process runner, ns per event; 100 ns are 10 million a second.

All contenders read the same Parquet file and end with one exact sketch per key. *Columns* is `ReadColumns` into
`SketchPerKey`; *rows* is Beam's own row reader into `SketchPerKey`, on a twentieth of the events; the *plain
CombineFn* updates a sketch in ``add_input``, element by element, as one would write it first, on the same twentieth.
The runner's fixed cost, some tenths of a second, weighs more on the smaller inputs and on ``--quick``.
"""

import tempfile
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import streamsketch as ss
from benchmarks.rows import NANOSECONDS, Effort, Row, Target, compare
from benchmarks.timing import Work
from streamsketch.beam import MergeSketches, ReadColumns, SketchPerKey

_KEYS = 100
_COLUMNS = ["key", "index", "value"]
_FEWER = 20


def run(effort: Effort) -> list[Row]:
    """Measure 100 keys; the file of ten million events takes some 130 MB of disk."""
    projection = ss.SJLT(dim=1 << 40, sketch_dim=1024, sparsity=8, seed=2024)
    n = effort.size(10_000_000)
    fewer = max(1, n // _FEWER)
    with tempfile.TemporaryDirectory() as folder:
        whole, part = Path(folder) / "whole.parquet", Path(folder) / "part.parquet"
        _write(whole, n)
        _write(part, fewer)
        row = compare(
            f"{n:,} events, {_KEYS} keys, s=8, k=1024",
            {
                "columns": Work(lambda: _run(ReadColumns([str(whole)], _COLUMNS), SketchPerKey(projection)), n),
                "plain CombineFn": Work(lambda: _run(_rows(part), beam.CombinePerKey(_ByElement(projection))), fewer),
                "rows": Work(lambda: _run(_rows(part), SketchPerKey(projection)), fewer),
            },
            Effort(effort.name, min(effort.rounds, 5), 0.0, effort.shrink),
            NANOSECONDS,
            Target("ours", 100),
        )
    return [row]


@beam.typehints.with_input_types(tuple[int, int])
@beam.typehints.with_output_types(ss.Sketch)
class _ByElement(MergeSketches):
    """A sketch per key, updated one element at a time."""

    def add_input(self, mutable_accumulator: ss.Sketch, element: Any) -> ss.Sketch:
        index, value = element
        mutable_accumulator.update(index, value)
        return mutable_accumulator


def _write(path: Path, n: int) -> None:
    rng = np.random.default_rng(11)
    names = pa.array([f"key {key}" for key in range(_KEYS)])
    keys = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, _KEYS, n).astype(np.int32)), names)
    table = pa.table({"key": keys, "index": rng.integers(0, 1 << 40, n), "value": rng.integers(-9, 10, n)})
    pq.write_table(table, path, row_group_size=1 << 20)


def _rows(path: Path) -> beam.PTransform:
    event = beam.Map(lambda row: (row["key"], (row["index"], row["value"])))
    return beam.io.ReadFromParquet(str(path)) | event.with_output_types(tuple[str, tuple[int, int]])


def _run(read: beam.PTransform, sketch: beam.PTransform) -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    pipeline | read | sketch | beam.combiners.Count.Globally()
    pipeline.run().wait_until_finish()
