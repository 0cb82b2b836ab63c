"""Clipping units in sketch space beside clipping their rows by an ℓ1 bound, ns per event; both end in tables by key.

All that `bound_units` does to rows of 100,000 units is in it: units are digested, rows grouped by unit, netted and
clipped, and tables are made. The ℓ1 bound clips about half of the units in their main key. In sketch space, *scale*
clips about half of them too, and *equal* all. Half of a unit's 40 rows are of one key, the others of up to 20; their
3,000 items are of skewed frequency.
"""

from typing import Any

import numpy as np
import pyarrow as pa

import streamsketch as ss
from benchmarks.rows import NANOSECONDS, Effort, Row, Target, compare
from benchmarks.timing import Work

_UNITS, _ROWS, _KEYS, _ITEMS = 100_000, 40, 20, 3000
_BATCH = 1 << 18
_SHAPES = ((1, 256), (1, 1024), (4, 256), (4, 1024), (8, 256), (8, 1024))


def run(effort: Effort) -> list[Row]:
    """Measure sparsities 1, 4 and 8 with 256 and 1024 cells; four million events take some 160 MB of disk."""
    batches = events(effort.size(_UNITS))
    n = sum(len(values) for _, _, values, _ in batches)
    rounds = Effort(effort.name, min(-(-effort.rounds // 3), 5), 0.0, effort.shrink)
    return [_row(s, k, batches, n, rounds) for s, k in _SHAPES]


def _row(sparsity: int, sketch_dim: int, batches: list[tuple[Any, ...]], n: int, effort: Effort) -> Row:
    projection = ss.SJLT(dim=1 << 40, sketch_dim=sketch_dim, sparsity=sparsity, seed=2024, resolution="1/4096")

    def bounded(neighbours: Any, clip: Any) -> Work:
        return Work(lambda: ss.bounding.bound_units(batches, projection, neighbours=neighbours, clip=clip), n)

    contenders = {
        "sketch space, scale": bounded(ss.SketchL2(14, max_keys=_KEYS), "scale"),
        "l1": bounded(ss.L1(42, max_keys=_KEYS), "scale"),
        "sketch space, equal": bounded(ss.SketchL2(14, max_keys=_KEYS), "equal"),
    }
    return compare(f"{n:,} events, s={sparsity}, k={sketch_dim}", contenders, effort, NANOSECONDS, Target("ratio", 1.5))


def events(units: int) -> list[tuple[Any, ...]]:
    """Return batches of keys, indices, values and units, rows in random order."""
    rng = np.random.default_rng(4)
    n = units * _ROWS
    owners = rng.integers(0, units, n)
    keys = (owners + rng.integers(0, _KEYS, n) * rng.integers(0, 2, n)) % 100
    names = pa.array([f"key {code}" for code in range(100)])
    columns: list[Any] = [
        keys.astype(np.int32),
        (_ITEMS * rng.random(n) ** 2).astype(np.int64),
        rng.integers(1, 4, n),
        owners,
    ]
    parts = (tuple(column[at : at + _BATCH] for column in columns) for at in range(0, n, _BATCH))
    return [(pa.DictionaryArray.from_arrays(part[0], names), *part[1:]) for part in parts]
