"""Sums of features of rows beside NumPy's product of the same numbers with a matrix alone, ns per row.

Rows come in batches of 65,536. The product makes as many numbers of each row as there are features, in the rows' own
precision, and does nothing with them. Numbers have two moments each, and frequencies of all together. Rows of people,
two each, are also digested, grouped, summed and clipped; beside them, the same rows without bounds.
"""

from typing import Any

import numpy as np
import pyarrow as pa

import streamsketch as ss
from benchmarks.rows import NANOSECONDS, Effort, Row, Target, compare
from benchmarks.timing import Work
from streamsketch.features import Embedding, Features, Number

_BATCH = 1 << 16


def run(effort: Effort) -> list[Row]:
    """Measure rows of numbers, of embeddings, and of people."""
    few = Effort(effort.name, min(-(-effort.rounds // 3), 5), 0.0, effort.shrink)
    return [_numbers(few), _embeddings(few), _people(few)]


def _numbers(effort: Effort) -> Row:
    n, columns = effort.size(1_000_000), 30
    matrix = np.random.default_rng(1).normal(size=(n, columns))
    table = pa.table({f"x{place}": matrix[:, place] for place in range(columns)})
    features = Features({name: Number(-4, 4) for name in table.column_names}, seed=7, joint=82)
    return _row(f"{n:,} rows of {columns} numbers", features, table, matrix, effort)


def _embeddings(effort: Effort) -> Row:
    n, size = effort.size(100_000), 768
    matrix = np.random.default_rng(2).normal(size=(n, size)).astype(np.float32)
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(matrix.ravel(), size)})
    return _row(f"{n:,} embeddings of {size}", Features({"x": Embedding(size, 127)}, seed=7), table, matrix, effort)


def _row(name: str, features: Features, table: pa.Table, matrix: Any, effort: Effort) -> Row:
    agreement, dense = ss.Agreement(features=features), np.ones((matrix.shape[1], features.dim), dtype=matrix.dtype)
    table = pa.Table.from_batches(table.to_batches(max_chunksize=_BATCH))
    parts = [matrix[at : at + _BATCH] for at in range(0, len(matrix), _BATCH)]

    def product() -> None:
        for part in parts:
            _ = part @ dense

    contenders = {
        "streamsketch": Work(lambda: ss.sketch(table, agreement), len(matrix)),
        "NumPy's product": Work(product, len(matrix)),
    }
    return compare(f"{name} into {features.dim} features", contenders, effort, NANOSECONDS, Target("ratio", 4))


def _people(effort: Effort) -> Row:
    n, columns = effort.size(100_000), 10
    matrix = np.random.default_rng(3).normal(size=(n, columns))
    table = pa.table({f"x{place}": matrix[:, place] for place in range(columns)})
    features = Features({name: Number(-4, 4) for name in table.column_names}, seed=7, joint=16)
    table = table.append_column("person", pa.array(np.arange(n) // 2))
    one = ss.SketchL2(1, unit="person")
    agreement = ss.Agreement(features=features, unit="person", neighbours=one, clip="equal")
    contenders = {
        "bounded": Work(lambda: ss.bound(table, agreement), n),
        "without bounds": Work(lambda: ss.sketch(table, agreement), n),
    }
    return compare(f"{n:,} rows of {columns} numbers into {features.dim} features", contenders, effort, NANOSECONDS)
