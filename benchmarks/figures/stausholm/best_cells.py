"""Stausholm 2021, Section 6.2.1: the number of cells k with the least variance, beside the paper's formula.

The variance of a squared distance from an SJLT is 2‖z‖⁴/k + 8E[η²]‖z‖² + 2k(E[η⁴] + E[η²]²), so the paper has
k* = Θ(‖z‖²/√(E[η⁴] + E[η²]²)), which is Θ(‖z‖²ε²/s) for Laplace noise. Here k* is searched for over all multiples of s,
with the discrete noise of this library, whose own SJLTs have s times a power of two cells. Then releases with about
k*/8, k* and 8k* cells, and the plan's choice.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

import streamsketch as ss
from benchmarks import palette, trials
from benchmarks.data import Data
from benchmarks.figures.afnnt.parts import slope
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.trials import DISTANCE, Budget, Sample
from benchmarks.verdicts import Check
from streamsketch.estimation.noise_effect import OutputNoise
from streamsketch.projections import MapVariance

EPSILONS, SPARSITIES, DISTANCES = (0.5, 1.0, 2.0, 4.0), (1, 2, 4, 8, 16), (1e3, 1e4, 1e5, 1e6)
DELTA = 1e-6
MECHANISMS = ("laplace", "gaussian")
_LEAST, _MOST = 8, 1 << 16
"""Blocks of the least k*, so that it is not a matter of rounding; the most cells."""
_FACTOR = 8
_SPREAD = 4096


@dataclass(frozen=True)
class Best:
    """The best number of cells of one setting, with its variance, and the formula's."""

    mechanism: str
    epsilon: float
    sparsity: int
    distance: float
    cells: int
    formula: float
    least: float
    planned: tuple[int, float]

    @property
    def ratio(self) -> float:
        """Found over formula."""
        return self.cells / self.formula

    @property
    def loss(self) -> float:
        """The variance with the plan's number of cells over the least."""
        return self.planned[1] / self.least


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Search for the best number of cells, and measure around one of them."""
    optima = _search(effort)
    points = _measure(effort)
    return Study(
        [
            Table(
                "The number of cells with the least variance, by search over all multiples of s",
                ("noise", "ε", "s", "‖z‖²", "k*", "formula", "k* / formula", "plan's k", "its variance / least"),
                [
                    (
                        *(optimum.mechanism, optimum.epsilon, optimum.sparsity, optimum.distance, optimum.cells),
                        *(optimum.formula, optimum.ratio, optimum.planned[0], optimum.loss),
                    )
                    for optimum in optima
                ],
            ),
            Table(
                f"Standard errors measured around k*: ‖z‖² = {_SPREAD}, s = 1, ε = 1",
                ("noise", "k", "predicted", "observed", "observed / predicted", "± (rel.)"),
                [
                    (
                        *(name, cells, sample.predicted, sample.observed),
                        *(sample.observed / float(sample.predicted or math.nan), sample.uncertainty),
                    )
                    for (name, cells), sample in points.items()
                ],
            ),
        ],
        _finding(optima),
        {"": _picture(points)},
        source="Stausholm 2021, Section 6.2.1",
        checks=_checks(optima, points),
    )


def variance(mechanism: str, epsilon: float, sparsity: int, distance: float, cells: int) -> float:
    """Return the variance of a squared distance from an SJLT of so many cells, with the library's noise."""
    law = MapVariance(norms=1 / cells, inner=1 / cells, fourth=-2 / cells)  # of an SJLT with any number of cells
    k2, k4 = _noise(mechanism, epsilon, sparsity)
    return law.of_squared_norm(distance) + OutputNoise(cells).squared_norm_variance(distance, 2 * k2, 2 * k4)


def formula(mechanism: str, epsilon: float, sparsity: int, distance: float) -> float:
    """Return ‖z‖²/√(E[η⁴] + E[η²]²)."""
    k2, k4 = _noise(mechanism, epsilon, sparsity)
    return distance / math.sqrt(k4 + 4 * k2**2)


def best(mechanism: str, epsilon: float, sparsity: int, distance: float) -> int:
    """Return the multiple of s with the least variance, which has one minimum in k."""

    def at(blocks: int) -> float:
        return variance(mechanism, epsilon, sparsity, distance, sparsity * blocks)

    low, high = 1, 4 * _MOST // sparsity
    while high > low:
        middle = (low + high) // 2
        if at(middle) <= at(middle + 1):
            high = middle
        else:
            low = middle + 1
    return sparsity * low


@functools.cache
def _noise(mechanism: str, epsilon: float, sparsity: int) -> tuple[float, float]:
    """Return K2 and K4 of the library's noise on a grid of 1/16, whose cells are so fine that k does not matter."""
    projection = ss.SJLT(dim=1 << 40, sketch_dim=64 * sparsity, sparsity=sparsity, seed=0, resolution="1/16")
    delta = DELTA if mechanism == "gaussian" else 0.0
    options = ss.accounting.mechanisms(projection, epsilon=epsilon, delta=delta, neighbours=trials.NEIGHBOURS)
    cumulants = next(option.noise.cumulants for option in options if option.mechanism == mechanism).scaled(
        projection.cell_unit
    )
    return cumulants.k2, cumulants.k4


def _search(effort: Effort) -> list[Best]:
    optima = []
    for mechanism, epsilon, sparsity, distance in itertools.product(MECHANISMS, EPSILONS, SPARSITIES, DISTANCES):
        wanted = formula(mechanism, epsilon, sparsity, distance)
        if not _LEAST * sparsity <= wanted <= _MOST or (mechanism == "gaussian" and sparsity > 1):
            continue
        setting = (mechanism, epsilon, sparsity, distance)
        cells = best(*setting)
        planned = _planned(*setting)
        optima.append(Best(*setting, cells, wanted, variance(*setting, cells), (planned, variance(*setting, planned))))
        if len(optima) >= effort.size(4000, 4):
            break
    return optima


def _planned(mechanism: str, epsilon: float, sparsity: int, distance: float) -> int:
    """Return the number of cells that a plan would choose for this mechanism and s, by the planner's own rule."""
    streams = ss.planning.StreamFacts(dim=1 << 40, squared_distances=distance, spread=int(distance))
    delta = DELTA if mechanism == "gaussian" else 0.0
    goal = ss.planning.Goal(max_cells=_MOST, max_nonzeros=sparsity)
    options = ss.plan(streams, epsilon=epsilon, delta=delta, neighbours=trials.NEIGHBOURS, goal=goal).options
    own = [option for option in options if option.mechanism == mechanism and option.nonzeros == sparsity]
    enough = 1.05 * min(option.error for option in own)
    return min(option.cells for option in own if option.error <= enough)


def _measure(effort: Effort) -> dict[tuple[str, int], Sample]:
    x, y = np.ones(_SPREAD, dtype=np.int64), np.zeros(_SPREAD, dtype=np.int64)
    samples = {}
    for mechanism in MECHANISMS[: effort.size(20, 1)]:
        wanted = 1 << round(math.log2(formula(mechanism, 1.0, 1, _SPREAD)))
        budget = Budget(1.0, DELTA if mechanism == "gaussian" else 0.0, mechanism)
        for cells in (wanted // _FACTOR, wanted, wanted * _FACTOR):
            make = functools.partial(_sketch_map, cells)
            samples[mechanism, cells] = trials.simulate(make, x, y, budget, effort.size(1000, 3), (DISTANCE,))[DISTANCE]
    return samples


def _sketch_map(cells: int, seed: int) -> ss.projections.Projection:
    return ss.SJLT(dim=_SPREAD, sketch_dim=cells, sparsity=1, seed=seed, resolution="1/16")


def _checks(optima: Sequence[Best], points: dict[tuple[str, int], Sample]) -> list[Check]:
    section, checks = "Section 6.2.1", []
    for name in dict.fromkeys(optimum.mechanism for optimum in optima):
        ratios = [optimum.ratio for optimum in optima if optimum.mechanism == name]
        for which, ratio in (("least", min(ratios)), ("largest", max(ratios))):
            checks.append(
                Check(
                    f"{section}: k* = Θ(‖z‖²/√(E[η⁴] + E[η²]²)), with the constant 1; {which} k* over it",
                    *(ratio, 0.95, 1.05),
                    data=f"{name}, {len(ratios)} settings",
                )
            )
    laplace = [optimum for optimum in optima if optimum.mechanism == "laplace"]
    powers = {"‖z‖²": ("distance", 1.0), "ε": ("epsilon", 2.0), "s": ("sparsity", -1.0)}
    for what, (name, power) in powers.items():
        fitted = _power(laplace, name)
        claim = f"{section}: k* = Θ(‖z‖²ε²/Δ1²) with Δ1² = s; power of {what}"
        checks.append(Check(claim, fitted, power - 0.05, power + 0.05, data="laplace"))
    names = list(dict.fromkeys(name for name, _ in points))
    for name in names:
        few, middle, many = (sample for (at, _), sample in points.items() if at == name)
        for what, other in ((f"k*/{_FACTOR}", few), (f"{_FACTOR}k*", many)):
            ratio = (other.observed / middle.observed) ** 2
            error = 1.96 * 2 * ratio * math.hypot(other.uncertainty, middle.uncertainty)
            claim = f"{section}: k* has the least variance; that of {what} over its own, measured"
            checks.append(Check(claim, ratio, 1.0, math.inf, error=error, data=f"{name}, ‖z‖² = {_SPREAD}, ε = 1"))
    deviations = [
        trials.deviation(sample.observed, float(sample.predicted or 0), sample.uncertainty)
        for sample in points.values()
    ]
    checks.append(trials.as_predicted("Corollary 2: variances as measured", deviations))
    worst = max((optimum.loss for optimum in optima), default=math.nan)
    return [*checks, Check("the planner's k: largest variance over the least", worst, 1.0, 1.15)]


def _power(optima: Sequence[Best], name: str) -> float:
    """Return the power of k* in one parameter: the mean over all settings of the others."""
    fits = []
    others = [parameter for parameter in ("distance", "epsilon", "sparsity") if parameter != name]
    for values in dict.fromkeys(tuple(getattr(optimum, other) for other in others) for optimum in optima):
        own = [optimum for optimum in optima if tuple(getattr(optimum, other) for other in others) == values]
        if len(own) > 1:
            fits.append(slope([getattr(optimum, name) for optimum in own], [optimum.cells for optimum in own]))
    return float(np.mean(fits)) if fits else math.nan


def _finding(optima: Sequence[Best]) -> str:
    ratios = [optimum.ratio for optimum in optima]
    laplace = [
        optimum.cells / (optimum.distance * optimum.epsilon**2 / optimum.sparsity)
        for optimum in optima
        if optimum.mechanism == "laplace"
    ]
    fewer = [optimum.planned[0] / optimum.cells for optimum in optima]
    return (
        f"The best number of cells is {min(ratios):.3f} to {max(ratios):.3f} times ‖z‖²/√(E[η⁴] + E[η²]²) in "
        f"{len(optima)} settings: the constant hidden in the paper's first Θ is 1, as the derivative in k says. That "
        f"in its second, ‖z‖²ε²/s for Laplace noise, is {min(laplace, default=math.nan):.3f} to "
        f"{max(laplace, default=math.nan):.3f}, 1/√28 = {1 / math.sqrt(28):.3f}: taken for 1, it gives five times the "
        "cells. The minimum is flat, so the planner, which takes the smallest power of two within 5 % of the least "
        f"error, has {min(fewer):.2f} to {max(fewer):.2f} times as many cells, and "
        f"{max(optimum.loss for optimum in optima):.3f} times the least variance at most."
    )


def _picture(points: dict[tuple[str, int], Sample]) -> Figure:
    figure, ((panel,),) = palette.panels(1, 1, width=7.5, height=4.4)
    for place, mechanism in enumerate(dict.fromkeys(name for name, _ in points)):
        middle = formula(mechanism, 1.0, 1, _SPREAD)
        cells = sorted({round(middle * 2 ** (step / 4)) for step in range(-18, 19)})
        line = [math.sqrt(variance(mechanism, 1.0, 1, _SPREAD, k)) / _SPREAD for k in cells]
        panel.plot(cells, line, color=palette.COLOURS[place], label=mechanism)
        panel.axvline(middle, color=palette.COLOURS[place], ls=":", label=f"formula's k*, {mechanism}")
        own = [(k, sample) for (name, k), sample in points.items() if name == mechanism]
        panel.errorbar(
            [k for k, _ in own],
            [sample.observed / _SPREAD for _, sample in own],
            yerr=[1.96 * sample.observed * sample.uncertainty / _SPREAD for _, sample in own],
            **palette.points(place),
            label="measured",
        )
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xlabel("k")
    panel.set_ylabel("standard error / ‖z‖²")
    panel.set_title(f"SJLT, s = 1, ε = 1, ‖z‖² = {_SPREAD}; Gaussian: δ = {DELTA:g}", loc="left", fontsize=10)
    palette.legend_below(figure, panel, columns=3)
    return figure
