"""All squared distances between n releases, µs per pair.

`pairwise` returns estimates with error bars; scipy's `cdist` gets bare float64 rows and returns distances only,
without the noise's share removed. Both fill n by n matrices, so pairs count as n², each of k = 1024 cells.
"""

import itertools

import numpy as np
from scipy.spatial.distance import cdist

import streamsketch as ss
from benchmarks.rows import MICROSECONDS, Effort, Row, Target, compare
from benchmarks.timing import Work


def run(effort: Effort) -> list[Row]:
    """Measure 32 releases against a loop of `squared_distance`, 1000 and 2000 against `cdist`, 1000 with intervals."""
    against_cdist = [_against_cdist(effort.size(n, least=2), effort) for n in (1000, 2000)]
    return [_against_loop(32, effort), *against_cdist, _with_intervals(effort.size(1000, least=2), effort)]


def _releases(n: int) -> list[ss.PrivateSketch]:
    rng = np.random.default_rng(4)
    projection = ss.SJLT(dim=1 << 32, sketch_dim=1024, sparsity=8, seed=2024)
    releases = []
    for _ in range(n):
        sketch = projection.sketch()
        sketch.update(rng.integers(0, 1 << 32, 1000), rng.integers(-9, 10, 1000))
        releases.append(sketch.release(epsilon=1.0, neighbours=ss.L1(1)))
    return releases


def _against_loop(n: int, effort: Effort) -> Row:
    releases = _releases(n)

    def loop() -> None:
        for first, second in itertools.combinations(releases, 2):
            ss.squared_distance(first, second)

    return compare(
        f"{n} releases, k=1024",
        {
            "pairwise": Work(lambda: ss.pairwise(releases), n * (n - 1) // 2),
            "loop of squared_distance": Work(loop, n * (n - 1) // 2),
        },
        effort,
        MICROSECONDS,
    )


def _against_cdist(n: int, effort: Effort) -> Row:
    releases = _releases(n)
    rows = np.stack([release.cell_unit * release.values for release in releases])
    return compare(
        f"{n:,} releases, k=1024",
        {
            "pairwise": Work(lambda: ss.pairwise(releases), n * n),
            "scipy cdist": Work(lambda: cdist(rows, rows, "sqeuclidean"), n * n),
        },
        effort,
        MICROSECONDS,
    )


def _with_intervals(n: int, effort: Effort) -> Row:
    """Measure distances and cosines with intervals that all hold together; two seconds are 2 µs for 1000 releases."""
    releases = _releases(n)
    rows = np.stack([release.cell_unit * release.values for release in releases])

    def both() -> None:
        for measure in ("distance", "cosine"):
            ss.pairwise(releases, by=measure).interval(0.95, level="all")

    return compare(
        f"{n:,} releases, k=1024, distances and cosines with 95 % intervals",
        {
            "pairwise": Work(both, n * n),
            "scipy cdist": Work(lambda: cdist(rows, rows, "sqeuclidean"), n * n),
        },
        effort,
        MICROSECONDS,
        Target("ours", 2),
    )
