"""Sums of features of rows beside NumPy's product of the same numbers with a matrix alone, ns per row.

Rows come in batches of 65,536. The product makes as many numbers of each row as there are features, in the rows' own
precision, and does nothing with them. Numbers have two moments each, and frequencies of all together. Rows of people,
one or three each, in random order, are also digested, grouped, summed and clipped; people have numbers or names.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import streamsketch as ss
from benchmarks.rows import NANOSECONDS, Effort, Row, Target, compare
from benchmarks.timing import Work
from streamsketch.features import Embedding, Features, Number

_BATCH = 1 << 16


def run(effort: Effort) -> list[Row]:
    """Measure rows of numbers and of embeddings, without people and with them; files take some 600 MB of disk."""
    few = Effort(effort.name, min(-(-effort.rounds // 5), 3), 0.0, effort.shrink)
    return [*_numbers(few), *_embeddings(few)]


def _numbers(effort: Effort) -> list[Row]:
    n, columns = effort.size(1_000_000), 30
    matrix = np.random.default_rng(1).normal(size=(n, columns))
    table = pa.table({f"x{place}": matrix[:, place] for place in range(columns)})
    features = Features({name: Number(-4, 4) for name in table.column_names}, seed=7, joint=82)
    return _rows(f"{n:,} rows of {columns} numbers", features, table, matrix, effort)


def _embeddings(effort: Effort) -> list[Row]:
    n, size = effort.size(100_000), 768
    matrix = np.random.default_rng(2).normal(size=(n, size)).astype(np.float32)
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(matrix.ravel(), size)})
    return _rows(f"{n:,} embeddings of {size}", Features({"x": Embedding(size, 127)}, seed=7), table, matrix, effort)


def _rows(name: str, features: Features, table: pa.Table, matrix: Any, effort: Effort) -> list[Row]:
    n, dense = len(matrix), np.ones((matrix.shape[1], features.dim), dtype=matrix.dtype)
    parts = [matrix[at : at + _BATCH] for at in range(0, n, _BATCH)]
    clipped: dict[str, Any] = {"neighbours": ss.SketchL2(1, unit="person"), "clip": "equal"}

    def product() -> None:
        for part in parts:
            _ = part @ dense

    def row(ours: Mapping[str, Work], what: str = "") -> Row:
        first, *others = ours.items()
        contenders = dict([first, ("NumPy's product", Work(product, n)), *others])
        named = f"{name} into {features.dim} features{what}"
        return compare(named, contenders, effort, NANOSECONDS, Target("ratio", 4))

    def bounded(people: pa.Array) -> Work:
        rows = _in_batches(table.append_column("person", people))
        agreement = ss.Agreement(features=features, unit="person", **clipped)
        return Work(lambda: ss.bound(rows, agreement), n)

    without = ss.Agreement(features=features)
    rows = _in_batches(table)
    timings = [row({"streamsketch": Work(lambda: ss.sketch(rows, without), n)})]
    for each in (1, 3):
        people = pa.array(np.random.default_rng(3).permutation(n) // each)
        names = {"streamsketch, names": bounded(people.cast(pa.string()))} if each > 1 else {}
        timings.append(row({"streamsketch": bounded(people), **names}, f", {each} a person"))
    return timings


def _in_batches(table: pa.Table) -> pa.Table:
    return pa.Table.from_batches(table.combine_chunks().to_batches(max_chunksize=_BATCH))
