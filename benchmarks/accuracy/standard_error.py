"""Standard errors: what theory predicts beside what is observed over many projections and noises.

Observed is the root of the mean squared error about the truth, each time with another projection and other noise.
Predicted is Theory 4 with the true vectors; *stated* is what an `Estimate` says of itself, without knowing them. For
the cosine there is no closed form, only what is stated, which is meant to be on the safe side.

How it misleads: small dimensions, so that thousands of trials fit, and three pairs of vectors.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import streamsketch as ss
from benchmarks import palette, trials
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.trials import COSINE, DISTANCE, NORM, PRODUCT, Budget, Sample

DIM = 128
_LAPLACE, _GAUSSIAN = Budget(1.0, 0.0, "laplace"), Budget(1.0, 1e-6, "gaussian")
# One pair's distance is below the noise floor, one is as large as the noise's error, and one has the map's error only.
_SIZES = {"near": 1.0, "middle": 5.0, "far": 30.0}
_QUANTITIES = (DISTANCE, NORM, PRODUCT)


@dataclass(frozen=True)
class Case:
    """One setting, and what came out of it for one quantity."""

    map: str
    sketch_dim: int
    budget: Budget
    size: str
    quantity: str
    sample: Sample

    @property
    def stated(self) -> float:
        """Root of the mean stated variance over observed: above 1 is on the safe side."""
        return math.sqrt(float((self.sample.stated**2).mean())) / self.sample.observed

    def row(self) -> tuple[Any, ...]:
        """Return the table's row."""
        own = self.sample
        return (
            *(self.map, self.sketch_dim, str(self.budget), self.size, self.quantity),
            *(own.truth, own.predicted, own.observed, own.ratio, own.uncertainty, own.deviation, self.stated),
        )


_COLUMNS = (
    *("map", "k", "noise", "pair", "quantity"),
    *("truth", "predicted", "observed", "observed / predicted", "± (rel.)", "in standard errors", "stated / observed"),
)


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Simulate every map, and an SJLT over a grid of k, s, ε, δ and distance."""
    count = effort.size(1000, 3)
    by_map, grid, cosines = _maps(effort, count), _grid(effort, count), _cosines(effort, count)
    finding = _finding([*by_map, *grid], cosines)
    return Study(
        [
            Table(f"Every map, dim = {DIM}, {count} projections each", _COLUMNS, [case.row() for case in by_map]),
            Table(
                f"An SJLT over k, s, (ε, δ) and distance, {count} projections each",
                _COLUMNS,
                [case.row() for case in grid],
            ),
            Table(
                "The cosine, of which only the stated error is compared",
                ("map", "pair", "noise", "cosine", "observed", "± (rel.)", "stated / observed"),
                [
                    (
                        *(case.map, case.size, str(case.budget), case.sample.truth),
                        *(case.sample.observed, case.sample.uncertainty, case.stated),
                    )
                    for case in cosines
                ],
            ),
        ],
        finding,
        {"maps": _by_map_picture(by_map), "grid": _grid_picture(grid)},
        checks=[
            trials.as_predicted(
                "Theory 4: the standard errors of all maps and quantities",
                [case.sample.deviation for case in (*by_map, *grid)],
                data=f"{len(by_map) + len(grid)} settings",
            )
        ],
    )


def _maps(effort: Effort, count: int) -> list[Case]:
    cases = []
    for name in list(trials.MAPS)[: effort.size(120, 2)]:
        for size, budget in (("near", _LAPLACE), ("far", _GAUSSIAN)):
            cases += _cases(name, 32, functools.partial(_build, name, 32), budget, size, count)
    return cases


def _grid(effort: Effort, count: int) -> list[Case]:
    cases = []
    budgets = (Budget(0.5, 0.0, "laplace"), Budget(2.0, 0.0, "laplace"), Budget(2.0, 1e-9, "gaussian"))
    shapes = list(itertools.product((16, 64, 256), (1, 4, 16)))[: effort.size(90, 1)]
    for (k, s), budget, size in itertools.product(shapes, budgets, _SIZES):
        cases += _cases(f"SJLT, s = {s}", k, functools.partial(_sjlt, k, s), budget, size, count)
    return cases


def _cosines(effort: Effort, count: int) -> list[Case]:
    x, y = trials.pair_of("dense", DIM, _SIZES["far"])
    cases = []
    for name in ("SJLT, s = 4", "Rademacher", "Gaussian", "VerySparse, s = 8")[: effort.size(40, 1)]:
        for pair, other in {"apart": y, "alike": 20 * x + y}.items():
            sample = trials.simulate(functools.partial(_build, name, 64), x, other, _LAPLACE, count, (COSINE,))
            cases.append(Case(name, 64, _LAPLACE, pair, COSINE, sample[COSINE]))
    return cases


def _build(name: str, sketch_dim: int, seed: int) -> ss.projections.Projection:
    return trials.MAPS[name](dim=DIM, sketch_dim=sketch_dim, seed=seed)


def _sjlt(sketch_dim: int, sparsity: int, seed: int) -> ss.projections.Projection:
    return ss.SJLT(dim=DIM, sketch_dim=sketch_dim, sparsity=sparsity, seed=seed)


def _cases(name: str, k: int, make: trials.Make, budget: Budget, size: str, count: int) -> list[Case]:
    x, y = trials.pair_of("dense", DIM, _SIZES[size])
    samples = trials.simulate(make, x, y, budget, count, _QUANTITIES)
    return [Case(name, k, budget, size, quantity, sample) for quantity, sample in samples.items()]


def _finding(cases: Sequence[Case], cosines: Sequence[Case]) -> str:
    ratios = np.array([case.sample.ratio for case in cases])
    deviations = np.array([case.sample.deviation for case in cases])
    worst = max(cases, key=lambda case: abs(case.sample.deviation))
    least, most = (choose(cases, key=lambda case: case.stated) for choose in (min, max))
    return (
        "Observed over predicted, over maps, k, s, (ε, δ), distances and three quantities, lies between "
        f"{ratios.min():.3f} and {ratios.max():.3f}, with a mean of {ratios.mean():.4f}. The farthest is "
        f"{worst.map}, k = {worst.sketch_dim}, {worst.quantity} ({worst.sample.ratio:.3f}, "
        f"{worst.sample.deviation:+.1f} standard errors). Their root mean square is "
        f"{math.sqrt(float((deviations**2).mean())):.2f} standard errors, where 1 is"
        " chance; settings that share their projections are not independent.\n\n"
        "What an estimate states of itself has to make do without the true vectors, with estimated norms and the ‖z‖₄⁴ "
        "that makes the error widest: the root of the mean stated variance is between "
        f"{least.stated:.2f} ({least.map}, k = {least.sketch_dim}, {least.size}, {least.quantity}) and "
        f"{most.stated:.2f} times ({most.map}, k = {most.sketch_dim}, {most.size}, {most.quantity}) the observed error,"
        f" {np.mean([case.stated for case in cases]):.2f} on average. The cosine's is "
        f"{min(case.stated for case in cosines):.2f} to {max(case.stated for case in cosines):.2f} times the observed."
    )


def _by_map_picture(cases: Sequence[Case]) -> Figure:
    names = list(dict.fromkeys(case.map for case in cases))
    kinds = list(dict.fromkeys((case.size, str(case.budget)) for case in cases))
    figure, axes = palette.panels(1, len(kinds), width=5.6, height=5.4, sharey=True, sharex=True)
    allowed = trials.simultaneous_z(len(cases))
    for panel, (size, budget) in zip(axes[0], kinds, strict=True):
        for place, quantity in enumerate(_QUANTITIES):
            kind = (size, budget, quantity)
            own = {case.map: case for case in cases if (case.size, str(case.budget), case.quantity) == kind}
            panel.errorbar(
                [own[name].sample.ratio for name in names],
                np.arange(len(names)) + 0.22 * (place - 1),
                xerr=[allowed * own[name].sample.ratio * own[name].sample.uncertainty for name in names],
                **palette.points(place),
                label=quantity,
            )
        panel.axvline(1, color=palette.BLACK, lw=1)
        panel.set_yticks(range(len(names)), names)
        panel.set_title(f"{size} pair; {budget}", loc="left", fontsize=10)
        panel.set_xlabel("observed / predicted standard error")
    axes[0][0].invert_yaxis()
    palette.legend_below(figure, axes[0][0])
    figure.suptitle("A bar holds 1 for all of them together with 99 %, if theory is right", fontsize=11)
    return figure


def _grid_picture(cases: Sequence[Case]) -> Figure:
    figure, axes = palette.panels(1, len(_QUANTITIES), width=4.6, height=4.4, sharey=True)
    budgets = list(dict.fromkeys(str(case.budget) for case in cases))
    allowed = trials.simultaneous_z(len(cases))
    for panel, quantity in zip(axes[0], _QUANTITIES, strict=True):
        for place, budget in enumerate(budgets):
            own = [case for case in cases if case.quantity == quantity and str(case.budget) == budget]
            panel.errorbar(
                [float(case.sample.predicted or math.nan) / abs(case.sample.truth) for case in own],
                [case.sample.ratio for case in own],
                yerr=[allowed * case.sample.ratio * case.sample.uncertainty for case in own],
                **palette.points(place),
                label=budget,
            )
        panel.axhline(1, color=palette.BLACK, lw=1)
        panel.set_xscale("log")
        panel.set_xlabel("predicted standard error / truth")
        panel.set_title(quantity, loc="left", fontsize=10)
    axes[0][0].set_ylabel("observed / predicted")
    palette.legend_below(figure, axes[0][0])
    figure.suptitle("SJLT, k = 16 to 256, s = 1 to 16, three distances; bars as in the other picture", fontsize=11)
    return figure
