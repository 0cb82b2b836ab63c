"""All pairs of n published sign sketches, ns per pair.

`hamming_distances` counts differing bits of packed signs; the others are squared distances of float32 rows of as many
cells by one matrix product: in place, as fast as NumPy writes them, and the bare product without the distances.
Both use all cores.
"""

import numpy as np
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks.rows import NANOSECONDS, Effort, Row, Target, compare
from benchmarks.timing import Work
from streamsketch.signs.hamming import distances_between

_CELLS = 1024


def run(effort: Effort) -> list[Row]:
    """Measure 10,000 sketches of 1024 cells, and what it costs to publish and to search them."""
    n = effort.size(10_000, least=2)
    words = np.random.default_rng(1).integers(0, 1 << 63, (n, _CELLS // 64), dtype=np.int64).view(np.uint64)
    rows = np.random.default_rng(2).standard_normal((n, _CELLS), dtype=np.float32)
    against = compare(
        f"{n:,} sketches, k={_CELLS}",
        {
            "hamming_distances": Work(lambda: distances_between(words, words), n * n),
            "float32 BLAS distances": Work(lambda: _squared_distances(rows), n * n),
            "float32 BLAS product alone": Work(lambda: rows @ rows.T, n * n),
        },
        effort,
        NANOSECONDS,
        Target("ratio", 0.2),
    )
    return [against, _publishing(effort)]


def _squared_distances(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    squares = np.einsum("ij,ij->i", rows, rows)
    gaps: NDArray[np.float32] = rows @ rows.T
    gaps *= -2
    gaps += squares
    gaps += squares[:, None]
    return gaps


def _publishing(effort: Effort) -> Row:
    n = effort.size(1000)
    projection = ss.Rademacher(dim=784, sketch_dim=_CELLS, seed=1)
    matrix = np.random.default_rng(3).integers(0, 10, (n, 784))
    signs = ss.signs.DPSignRPRRSmooth(epsilon=1.0, neighbours=ss.OneCoordinate(1))
    cells = ss.PrivateProjection(projection=projection, epsilon=1.0, delta=1e-6, neighbours=ss.OneCoordinate(1))
    return compare(
        f"publish {n:,} rows of 784, per cell",
        {
            "DPSignRPRRSmooth": Work(lambda: signs.release_rows(projection, matrix), n * _CELLS),
            "PrivateProjection": Work(lambda: cells.release(matrix), n * _CELLS),
        },
        effort,
        NANOSECONDS,
    )
