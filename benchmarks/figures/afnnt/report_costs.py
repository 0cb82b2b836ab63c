"""What the reports themselves would cost in ten epochs of 60,000 people, where sums are drawn for a block at once."""

import time
from collections.abc import Callable

import numpy as np

from benchmarks.figures.afnnt.networks import CODE, TABLE
from benchmarks.rows import Effort
from benchmarks.study import Table
from streamsketch.local import SQKR, CompPrivUnitG, MeanAggregator, Mechanism, PrivHS, PrivUnitG, ProjUnit

EPSILON, REPORTS = 10.0, 600_000
SKETCH_DIM = 1000

BUILDS: dict[str, Callable[[int], Mechanism]] = {
    "PrivUnitG": lambda d: PrivUnitG(dim=d, epsilon=EPSILON, ball=True),
    "FastProjUnit-corr": lambda d: ProjUnit(
        dim=d, epsilon=EPSILON, sketch_dim=min(d // 4, SKETCH_DIM), shared=True, ball=True
    ),
    "ProjUnit": lambda d: ProjUnit(
        dim=d, epsilon=EPSILON, sketch_dim=min(d // 4, SKETCH_DIM), rotation="haar", ball=True
    ),
    "CompPrivUnitG": lambda d: CompPrivUnitG(dim=d, epsilon=EPSILON, ball=True),
    "SQKR, uniform directions": lambda d: SQKR(dim=d, epsilon=EPSILON, ball=True),
    "SQKR, Kashin's frame": lambda d: SQKR(dim=d, epsilon=EPSILON, rotation="hadamard", ball=True),
    "PrivHS": lambda d: PrivHS(dim=d, epsilon=EPSILON, ball=True),
}


def table(effort: Effort) -> Table:
    """Return the seconds of one report, made and added, and the hours of a run's, on one core."""
    rows = []
    for network in (TABLE, CODE):
        dim = effort.size(network.dim, 64)
        for name, build in BUILDS.items():
            seconds = seconds_of(build(dim), dim)
            rows.append((name, dim, 1000 * seconds, REPORTS * seconds / 3600))
    columns = ("mechanism", "d", "ms a report, made and added", "hours of a core for 600,000")
    return Table(f"What single reports would cost, ε = {EPSILON:g}", columns, rows)


def seconds_of(mechanism: Mechanism, dim: int) -> float:
    """Return the seconds of one report."""
    vector, server = np.full(dim, 0.9 / np.sqrt(dim)), MeanAggregator(mechanism)
    small = type(mechanism) is ProjUnit and mechanism.rotation == "haar"
    if not small:  # the first call compiles; a Haar rotation takes seconds, beside which that is little
        server.add(mechanism.randomize(vector))
    start = time.process_time()
    server.add(mechanism.randomize(vector))
    return time.process_time() - start
