"""Sketch.update one event at a time, ns per event.

A loop over (index, value) pairs of Python integers calls the method; the loop itself is part of every figure,
so an empty method shows what Python alone costs. A count-min sketch answers other questions; it stands
here as the usual sketch one feeds event by event from Python, with as many rows and buckets.
"""

from collections.abc import Callable

import datasketches
import numpy as np

import streamsketch as ss
from benchmarks.rows import Effort, Row, Target, compare_each
from benchmarks.timing import Work

_TARGETS = {"DataSketches count-min 8 by 1024": Target("ratio", 1.0), "empty method": Target("ratio", 3.2)}


class _Empty:
    def update(self, index: int, value: int) -> None:
        """Do nothing."""


def run(effort: Effort) -> list[Row]:
    """Measure narrow and wide indices."""
    return [row for bits in (32, 60) for row in _rows(bits, effort)]


def _rows(bits: int, effort: Effort) -> list[Row]:
    rng = np.random.default_rng(2)
    n = effort.size(100_000)
    indices = rng.integers(0, 1 << bits, n).tolist()
    events = list(zip(indices, rng.integers(-9, 10, n).tolist(), strict=True))
    counts = list(zip(indices, [1] * n, strict=True))  # a count-min sketch takes positive weights

    def feed(update: Callable[[int, int], None], pairs: list[tuple[int, int]]) -> Work:
        def loop() -> None:
            for index, value in pairs:
                update(index, value)

        return Work(loop, n)

    sketch = ss.SJLT(dim=1 << bits, sketch_dim=1024, sparsity=8, seed=2024).sketch()
    return compare_each(
        f"one event, s=8, k=1024, index < 2^{bits}",
        {
            "Sketch.update": feed(sketch.update, events),
            "DataSketches count-min 8 by 1024": feed(datasketches.count_min_sketch(8, 1024).update, counts),
            "empty method": feed(_Empty().update, events),
        },
        effort,
        _TARGETS,
    )
