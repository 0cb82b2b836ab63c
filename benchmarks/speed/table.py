"""SketchTable.update for many keys, million events per second.

The loop is what one would write without a table: sort the batch by key with numpy, cut it, and give each key's
part to that key's own Sketch. Keys come in random order, evenly spread, as an Arrow dictionary column; real keys
are skewed, which favours both.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks.rows import MILLIONS_PER_SECOND, Effort, Row, compare
from benchmarks.timing import Work
from streamsketch.core.numbers import Ints


def run(effort: Effort) -> list[Row]:
    """Measure 1, 100 and 10,000 keys; the last needs 80 MB of cells, twice."""
    return [_row(keys, effort) for keys in (1, 100, 10_000)]


def _row(keys: int, effort: Effort) -> Row:
    rng = np.random.default_rng(3)
    n = effort.size(1_000_000)
    keys = min(keys, n)
    codes = rng.integers(0, keys, n)
    names = pa.array([f"key {code}" for code in range(keys)])
    column = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), names)
    indices, values = rng.integers(0, 1 << 32, n), rng.integers(-9, 10, n)
    projection = ss.SJLT(dim=1 << 32, sketch_dim=1024, sparsity=8, seed=2024)
    table = projection.table()
    sketches = [projection.sketch() for _ in range(keys)]
    return compare(
        f"{keys:,} key{'s' * (keys > 1)}, {n:,} events, s=8, k=1024",
        {
            "SketchTable.update": Work(lambda: table.update(column, indices, values), n),
            "groupby loop": Work(lambda: update_by_key(sketches, codes, indices, values), n),
        },
        effort,
        MILLIONS_PER_SECOND,
    )


def update_by_key(sketches: list[ss.Sketch], codes: NDArray[np.int64], indices: Ints, values: Ints) -> None:
    """Update ``sketches[codes[i]]`` with event i, by sorting the batch."""
    order = np.argsort(codes, kind="stable")
    distinct, starts = np.unique(codes[order], return_index=True)
    parts = zip(
        distinct.tolist(),
        np.split(indices[order], starts[1:]),
        np.split(values[order], starts[1:]),
        strict=True,
    )
    for code, index_part, value_part in parts:
        sketches[code].update(index_part, value_part)
