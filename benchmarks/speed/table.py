"""SketchTable.update for many keys, ns per event.

The loop is what one would write without a table: sort the batch by key with numpy, cut it, and give each key's
part to that key's own Sketch. Keys come in random order, evenly spread, as an Arrow dictionary column; real keys
are skewed, which favours both. The *additions alone* are those of as many events to one sketch, their cells given: see
`update`. Beyond a few thousand keys a batch reads and writes more cells of the table than it adds to.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks.rows import Effort, Row, Target, compare_each
from benchmarks.speed.limits import additions_only, given_cells
from benchmarks.timing import Work
from streamsketch.core.numbers import Ints

_LIMIT = "additions alone"
_TO_LIMIT = {100: Target("ratio", 4.5), 10_000: Target("ratio", 9)}


def run(effort: Effort) -> list[Row]:
    """Measure 1, 100 and 10,000 keys; the last needs 80 MB of cells, twice."""
    return [row for keys in (1, 100, 10_000) for row in _rows(keys, effort)]


def _rows(keys: int, effort: Effort) -> list[Row]:
    targets = {_LIMIT: _TO_LIMIT[keys]} if keys in _TO_LIMIT else {}
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
    cells, size = given_cells(projection, indices)
    return compare_each(
        f"{keys:,} key{'s' * (keys > 1)}, {n:,} events, s=8, k=1024",
        {
            "SketchTable.update": Work(lambda: table.update(column, indices, values), n),
            "groupby loop": Work(lambda: update_by_key(sketches, codes, indices, values), n),
            _LIMIT: Work(lambda: additions_only(cells, values, size), n),
        },
        effort,
        targets,
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
