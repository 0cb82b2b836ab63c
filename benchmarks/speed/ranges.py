"""A stream that is released by a schedule: the next window's row, ns per cell, and a range of windows from rows, ns.

The row of a schedule stands beside a release of the same window by itself, and a range beside the sum of its separate
releases, cell by cell.
"""

import functools

import numpy as np

import streamsketch as ss
from benchmarks.rows import Effort, Row, Target, compare
from benchmarks.timing import Work
from streamsketch.continual import Factorisation, History, Releaser, Tree

_CELLS = 1024
_STEP = Target("ratio", 2.0)
_RANGE = Target("ours", 1_000_000)


def run(effort: Effort) -> list[Row]:
    """Measure a year of hours, by the square root and by a tree."""
    horizon = effort.size(8760, 40)
    projection = ss.SJLT(sketch_dim=_CELLS, sparsity=4, seed=2024)
    sketch = projection.sketch()
    sketch.update(np.arange(1000))
    privacy = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "gaussian", "neighbours": ss.L1(1)}
    alone = ss.AdditiveNoise(**privacy).calibrated(projection)  # type: ignore[arg-type]
    rows = []
    for schedule in (Factorisation(horizon=horizon), Tree(horizon=horizon)):
        publish = ss.AdditiveNoise(**privacy, schedule=schedule)  # type: ignore[arg-type]
        releaser = Releaser(publish, projection)
        history = [releaser.add(sketch) for _ in range(horizon // 2)]
        state = releaser.state

        def steps(state: object = state, publish: ss.AdditiveNoise = publish) -> None:
            again = Releaser.restored(publish, projection, state)  # type: ignore[arg-type]
            for _ in range(horizon // 10):
                again.add(sketch)

        def releases() -> None:
            for _ in range(horizon // 10):
                alone.for_data(sketch).draw()

        cells = horizon // 10 * _CELLS
        contenders = {"the next row": Work(steps, cells), "a release by itself": Work(releases, cells)}
        rows.append(compare(f"{schedule}, a step", contenders, effort, target=_STEP))
        read = History(history)
        week = min(168, read.windows)
        asked = functools.partial(read.range, read.windows - week, read.windows)
        separate = [alone.for_data(sketch).draw().values for _ in range(week)]
        added = functools.partial(np.add.reduce, separate)
        ranges = {"a range": Work(asked), "the sum of a week's separate cells": Work(added)}
        rows.append(compare(f"{schedule}, a week of {read.windows:,} windows", ranges, effort, target=_RANGE))
    return rows
