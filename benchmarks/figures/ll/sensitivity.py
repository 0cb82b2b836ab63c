"""Li and Li 2023, Figure 7: ℓ2 sensitivity of projection matrices against the dimension.

Δ2 = β·max_i ‖row i of W‖/√k, β = 1, for k = 256 and 512 and the paper's p from 10 to 1000. Each number is the exact
sensitivity that the library finds for a matrix in use, by looking at all of its columns. A prediction stands beside it
where the distribution of a column's norm is known: the median of the largest of p independent ones.
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
from benchmarks.verdicts import Check

SKETCH_DIMS = (256, 512)
DIMS = (10, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)
TOP = 1.3  # the last mark of Figure 7's vertical axes
RADEMACHER, OURS = "Rademacher (s = 1)", "SJLT, 8 nonzeros"
MAPS: Mapping[str, Callable[[int, int, int], ss.projections.Projection]] = {
    "Gaussian": lambda p, k, seed: ss.projections.GaussianProjection(dim=p, sketch_dim=k, seed=seed),
    "uniform": lambda p, k, seed: ss.projections.UniformProjection(dim=p, sketch_dim=k, seed=seed),
    "very sparse, s = 10": lambda p, k, seed: ss.projections.VerySparse(dim=p, sketch_dim=k, seed=seed, sparsity=10),
    "very sparse, s = 3": lambda p, k, seed: ss.projections.VerySparse(dim=p, sketch_dim=k, seed=seed, sparsity=3),
    RADEMACHER: lambda p, k, seed: ss.projections.Rademacher(dim=p, sketch_dim=k, seed=seed),
    OURS: lambda p, k, seed: ss.SJLT(dim=p, sketch_dim=k, seed=seed, sparsity=8),
}


def run(effort: Effort, data: Data) -> Study:
    """Find the sensitivity of each map at each dimension, for several seeds."""
    del data
    seeds = range(effort.size(5, 2))
    rows: list[tuple[Cell, ...]] = []
    for k in SKETCH_DIMS:
        for name, build in MAPS.items():
            for p in DIMS:
                sensitivities = [sensitivity(build(p, k, seed)) for seed in seeds]
                rows.append(
                    (
                        k,
                        name,
                        p,
                        float(np.mean(sensitivities)),
                        min(sensitivities),
                        max(sensitivities),
                        predicted(name, p, k),
                    )
                )
    columns = ("k", "projection", "p", "Δ2", "least of the seeds", "largest", "median predicted")
    table = Table(f"ℓ2 sensitivity, mean of {len(seeds)} matrices", columns, rows)
    return Study(
        [table],
        _finding(rows),
        {"sensitivity": _picture(rows, len(seeds))},
        source="Li and Li 2023, Figure 7",
        checks=checks(rows),
    )


def checks(rows: list[tuple[Cell, ...]]) -> list[Check]:
    """Return what Appendix B.1 says, beside the sensitivities found."""
    numbers = {row[:3]: [float(cell or 0) for cell in row[3:6]] for row in rows if row[1] != OURS}
    others = [name for name in MAPS if name not in (RADEMACHER, OURS)]
    verdicts = []
    for k in SKETCH_DIMS:
        data, last = f"k = {k}", DIMS[-1]
        ours = [numbers[k, RADEMACHER, p] for p in DIMS]
        most = max(high for _, _, high in ours)
        verdicts.append(
            Check("Rademacher's Δ2 is β, independent of p: the largest of all seeds", most, 1, 1, data=data)
        )
        margin = min(numbers[k, name, p][0] - numbers[k, RADEMACHER, p][0] for name in others for p in DIMS)
        claim = "Rademacher has the smallest sensitivity: least difference of another's mean"
        verdicts.append(Check(claim, margin, 0, math.inf, data=data))
        top = max(numbers[k, name, last][0] for name in others)
        claim = "Figure 7's axis ends at 1.3: the largest mean at p = 1000"
        verdicts.append(Check(claim, top, 1.0, TOP, data=data))
    return verdicts


def sensitivity(projection: ss.projections.Projection) -> float:
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


def _finding(rows: list[tuple[Cell, ...]]) -> str:
    at = {(k, name, p): (float(mean or 0), guess) for k, name, p, mean, _, _, guess in rows}
    off = max(abs(mean / float(guess) - 1) for mean, guess in at.values() if guess is not None)
    others = [name for name in MAPS if name not in (RADEMACHER, OURS)]
    ends = "; ".join(
        f"k = {k}: " + ", ".join(f"{name} {at[k, name, DIMS[-1]][0]:.3f}" for name in others) for k in SKETCH_DIMS
    )
    return (
        f"At p = {DIMS[-1]}: {ends}. Means are within {100 * off:.1f} % of the median predicted from the distribution "
        f"of a column's norm.\n\nNot in the paper: the SJLT of 8 nonzeros a column has Δ2 = 1 too. So it is not "
        "density that makes Rademacher's least, but columns of one length."
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
            panel.errorbar(dims, mean, (mean - low, high - mean), elinewidth=0.8, capsize=2, label=name, **style)
            if own[0][6] not in (None, 1.0):
                panel.plot(dims, [float(row[6] or 0) for row in own], ":", color="black", linewidth=1)
        panel.set_xlabel("dimension p")
    axes[0].set_ylabel("Δ2, in units of β")
    legend_below(figure, axes[0], 3)
    return figure
