"""Interval coverage of all pairs at once: how often every one of the intervals holds, by streams, cells and noise.

Each trial draws an SJLT and noise, and asks whether the intervals of `Estimates.interval` with ``level="all"`` hold all
distances, or all cosines, together; beside them are intervals at Bonferroni's normal quantile, of distances.

How it misleads: streams have many coordinates of equal size. The noise has about the size of the cells.
"""

import math

import numpy as np
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from streamsketch.estimation.blocks import Block
from streamsketch.estimation.measures import By, compare_blocks
from streamsketch.estimation.noise_effect import effect_of

DIM, SIZE = 256, 8
NOISES = ("none", "Gaussian", "Laplace")
_MEASURES: tuple[By, ...] = ("distance", "cosine")

Ints = NDArray[np.int64]


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Count over numbers of streams and cells, and noises."""
    count = effort.size(2000, 3)
    rows = [
        (by, streams, cells, noise, *_covered(by, streams, cells, noise, count))
        for by in _MEASURES
        for streams in (5, 40)[: effort.size(20, 1)]
        for cells in (32, 256, 1024)[: effort.size(30, 1)]
        for noise in NOISES
    ]
    of_distances = [row for row in rows if row[0] == "distance"]
    of_cosines = [row[4] for row in rows if row[0] == "cosine"]
    usual = [row[4] for row in of_distances if row[3] != "Laplace"]
    heavy = [row[4] for row in of_distances if row[3] == "Laplace"]
    error = 1.96 * math.sqrt(0.95 * 0.05 / count)
    return Study(
        [
            Table(
                f"Share of trials in which all 95 % intervals hold, {count} projections and noises each",
                ("by", "streams", "k", "noise", 'level="all"', "normal quantile"),
                rows,
            )
        ],
        f"All squared distances are held together in {100 * min(usual):.1f} to {100 * max(usual):.1f} % of trials "
        f"without noise or with Gaussian noise, and in {100 * min(heavy):.1f} to {100 * max(heavy):.1f} % with Laplace "
        "noise, whose tails are heavier than those of χ² that the quantile is from. Normal quantiles hold them in "
        f"{100 * min(row[5] for row in of_distances):.1f} % at worst. All cosines are held in "
        f"{100 * min(of_cosines):.1f} to {100 * max(of_cosines):.1f} %. One standard error of a share is "
        f"{100 * error / 1.96:.1f} %.",
        checks=[
            Check("all distances are held in 93 % of trials or more, but with Laplace noise", min(usual), 0.93, 1.0),
            Check("all distances are held in 93 % of trials or more, with Laplace noise", min(heavy), 0.93, 1.0),
        ],
    )


def _covered(by: By, streams: int, cells: int, noise: str, count: int) -> tuple[float, float]:
    rng = np.random.default_rng(cells)
    values: Ints = rng.choice([-SIZE, SIZE], size=(streams, DIM))
    products = (values @ values.T).astype(np.float64)
    norms = np.diag(products)
    truth = products / np.sqrt(np.outer(norms, norms))
    if by == "distance":
        truth = norms[:, None] + norms - 2 * products
    pairs = np.triu_indices(streams, 1)
    held = np.zeros(2)
    for seed in range(count):
        projection = ss.SJLT(dim=DIM, sketch_dim=cells, sparsity=8, seed=seed)
        state, unit = projection.transform(values, exact=True), projection.cell_unit
        spread = 0.0 if noise == "none" else SIZE * math.sqrt(DIM / cells) / unit * (cells / 32) ** -0.25
        law = rng.laplace if noise == "Laplace" else rng.normal
        state = state + np.rint(law(0, spread / math.sqrt(2 if noise == "Laplace" else 1), state.shape)).astype(
            np.int64
        )
        k2 = np.full(streams, (spread * unit) ** 2)
        k4 = 3 * k2**2 if noise == "Laplace" else np.zeros(streams)
        effect = effect_of(projection, "output")
        block = Block(state, np.full(streams, unit), k2, k4, projection.variance, effect)
        estimates = compare_blocks(block, block, by, same=True)
        for place, ends in enumerate((estimates.interval(level="all"), estimates.interval(1 - 0.05 / len(pairs[0])))):
            low, high = (end[pairs] for end in ends)
            defined = ~np.isnan(low)
            held[place] += ((low <= truth[pairs]) & (truth[pairs] <= high))[defined].all()
    return float(held[0] / count), float(held[1] / count)
