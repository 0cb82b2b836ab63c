"""Li and Li 2023, Figure 7: ℓ2 sensitivity of projection matrices against the dimension.

Δ2 = β·max_i ‖row i of W‖/√k, β = 1, for k = 256 and 512. Each number is the exact sensitivity that the library finds
for a matrix in use, by looking at all of its columns. A prediction stands beside it where the law of a column's norm
is known: the median of the largest of p independent ones.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

import streamsketch as ss
from benchmarks.data import Data
from benchmarks.figures.ll.drawing import legend_below, look, panels
from benchmarks.rows import Effort
from benchmarks.study import Cell, Study, Table

SKETCH_DIMS = (256, 512)
MAPS: Mapping[str, Callable[[int, int, int], ss.Projection]] = {
    "Gaussian": lambda p, k, seed: ss.Gaussian(dim=p, sketch_dim=k, seed=seed),
    "uniform": lambda p, k, seed: ss.Uniform(dim=p, sketch_dim=k, seed=seed),
    "very sparse, s = 10": lambda p, k, seed: ss.VerySparse(dim=p, sketch_dim=k, seed=seed, sparsity=10),
    "very sparse, s = 3": lambda p, k, seed: ss.VerySparse(dim=p, sketch_dim=k, seed=seed, sparsity=3),
    "Rademacher (s = 1)": lambda p, k, seed: ss.Rademacher(dim=p, sketch_dim=k, seed=seed),
    "SJLT, 8 nonzeros": lambda p, k, seed: ss.SJLT(dim=p, sketch_dim=k, seed=seed, sparsity=8),
}


def run(effort: Effort, data: Data) -> Study:
    """Find the sensitivity of each map at each dimension, for several seeds."""
    del data
    dims = [p for p in (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000) if p <= effort.size(100_000, 100)]
    seeds = range(effort.size(5, 2))
    rows: list[tuple[Cell, ...]] = []
    for k in SKETCH_DIMS:
        for name, build in MAPS.items():
            for p in dims:
                found = [sensitivity(build(p, k, seed)) for seed in seeds]
                rows.append((k, name, p, float(np.mean(found)), min(found), max(found), predicted(name, p, k)))
    columns = ("k", "projection", "p", "Δ2", "least of the seeds", "largest", "median predicted")
    table = Table(f"ℓ2 sensitivity, mean of {len(seeds)} matrices", columns, rows)
    return Study([table], _finding(rows, dims), {"sensitivity": _picture(rows, len(seeds))})


def sensitivity(projection: ss.Projection) -> float:
    """Return Δ2 in data units: how far a change of 1 in one coordinate moves the published vector."""
    return math.sqrt(projection.scale_squared * projection.l2_sensitivity_squared)


def predicted(name: str, p: int, k: int) -> float | None:
    """Return the median of the largest of p independent column norms; None where their law is not at hand."""
    level = 0.5 ** (1 / p)
    if name == "Gaussian":
        return math.sqrt(float(stats.chi2.ppf(level, k)) / k)
    if name.startswith("very sparse"):
        s = int(name.rpartition(" ")[2])
        return math.sqrt(s * float(stats.binom.ppf(level, k, 1 / s)) / k)
    return None if name == "uniform" else 1.0


def _finding(rows: list[tuple[Cell, ...]], dims: list[int]) -> str:
    at = {(k, name, p): (float(mean or 0), guess) for k, name, p, mean, _, _, guess in rows}
    others = [name for name in MAPS if not name.startswith(("Rademacher", "SJLT"))]
    least = all(at[k, name, p][0] >= 1 for k in SKETCH_DIMS for name in others for p in dims)
    flat = all(at[k, "Rademacher (s = 1)", p][0] == 1 for k in SKETCH_DIMS for p in dims)
    rising = all(at[k, name, dims[-1]][0] > at[k, name, dims[0]][0] for k in SKETCH_DIMS for name in others)
    narrower = all(at[512, name, dims[-1]][0] < at[256, name, dims[-1]][0] for name in others)
    off = max(abs(mean / float(guess) - 1) for mean, guess in at.values() if guess is not None)
    top = ", ".join(f"{name} {at[256, name, dims[-1]][0]:.3f}" for name in others)
    agrees = least and flat and rising and narrower
    return (
        f"{'Agrees with' if agrees else 'Differs from'} the paper: the Rademacher projection has Δ2 = 1 "
        f"{'at every p' if flat else 'not at every p'}, "
        f"{'no other map is below it' if least else 'another map is below it'}, and the others "
        f"{'grow' if rising else 'do not all grow'} with p and are "
        f"{'smaller' if narrower else 'not all smaller'} at k = 512. At p = {dims[-1]:,} and k = 256: {top}. "
        f"Means are within {100 * off:.1f} % of the median predicted from the law of a column's norm.\n\n"
        "Not in the paper: the SJLT of 8 nonzeros a column has Δ2 = 1 too. So it is not density that makes "
        "Rademacher's least, but columns of one length. The paper's text does not say which p it draws."
    )


def _picture(rows: list[tuple[Cell, ...]], seeds: int) -> Figure:
    title = f"ℓ2 sensitivity of projection matrices, β = 1: mean and range of {seeds} matrices (dots: predicted)"
    figure, axes = panels(title, [f"k = {k}" for k in SKETCH_DIMS])
    for panel, k in zip(axes, SKETCH_DIMS, strict=True):
        for place, name in enumerate(MAPS):
            own = [row for row in rows if row[:2] == (k, name)]
            dims, mean, low, high = (np.array([row[i] for row in own], dtype=float) for i in (2, 3, 4, 5))
            style = look(place)
            if name.startswith("SJLT"):  # over Rademacher's line
                style = look(6, marker="", linestyle="--", linewidth=2)
            panel.plot(dims, mean, label=name, **style)
            panel.fill_between(dims, low, high, color=style["color"], alpha=0.2, linewidth=0)
            if own[0][6] not in (None, 1.0):
                panel.plot(dims, [float(row[6] or 0) for row in own], ":", color="black", linewidth=1)
        panel.set_xscale("log")
        panel.set_xlabel("dimension p")
    axes[0].set_ylabel("Δ2, in units of β")
    legend_below(figure, axes[0], 3)
    return figure
