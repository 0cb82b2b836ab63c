"""Points of one release: how often a million items occur, with error bars and intervals, ns per item.

The peer is DataSketches' count-min sketch, which answers with a bound, knows no noise, and is asked item by item from
Python. The least that an answer needs is an item's index, so hashing text alone stands beside it.
"""

import functools
from typing import Literal

import datasketches
import numpy as np
import pyarrow as pa

import streamsketch as ss
from benchmarks.rows import Effort, Row, Target, compare
from benchmarks.timing import Work

_SECOND = Target("ours", 1000)  # for a million items


def run(effort: Effort) -> list[Row]:
    """Measure integers and text, the mean and the median of five cells."""
    n = effort.size(1_000_000)
    rng = np.random.default_rng(7)
    integers, text = np.arange(n), pa.array([f"item {number}" for number in range(n)])
    projection = ss.SJLT(sketch_dim=10_240, sparsity=5, seed=2024)
    sketch, counts = projection.sketch(), datasketches.count_min_sketch(5, 2048)
    frequent = rng.zipf(1.2, effort.size(100_000)) % (1 << 40)
    sketch.update(frequent, np.ones(frequent.size, dtype=np.int64))
    for index in frequent[:1000].tolist():
        counts.update(index)
    release = sketch.release(epsilon=1.0, neighbours=ss.L1(1))
    few = integers[: effort.size(10_000)].tolist()

    def ask_each() -> None:
        for index in few:
            counts.get_estimate(index)

    rows = []
    estimators: tuple[Literal["mean", "median"], ...] = ("mean", "median")
    for estimator in estimators:
        for name, items in (("integers", integers), ("text", text)):
            contenders = {
                "frequency": Work(functools.partial(ss.frequency, release, items, estimator=estimator), n),
                "DataSketches count-min 5 by 2048": Work(ask_each, len(few)),
            }
            if name == "text":
                contenders["indices alone"] = Work(lambda: projection.indices_of(text), n)
            rows.append(compare(f"{n:,} {name}, {estimator}, s=5", contenders, effort, target=_SECOND))
    return rows
