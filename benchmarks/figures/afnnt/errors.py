"""Asi et al. 2023, Figure 1: squared error of one report against ε, by mechanism.

The paper's d = 2^15, n = 1, 50 runs, k = 1000 for ProjUnit and FastProjUnit, k = ⌊ε⌋ for SQKR and R = ⌊ε/2⌋ for
RePrivHS. Lines are the closed forms of `expected_squared_error`, markers are means of runs with 90 % intervals. The
errors of ProjUnit by Haar rotations are drawn from their distribution (`haar`), as a rotation takes seconds.
"""

import math

import numpy as np
from matplotlib.figure import Figure

from benchmarks.data import Data
from benchmarks.figures.afnnt import haar, parts
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from streamsketch.local.baselines.kashin import LEVEL

EPSILONS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0)
LINES = (
    parts.PRIV_UNIT_G,
    parts.PROJ_UNIT,
    parts.FAST,
    parts.SQKR_LINE,
    parts.RE_PRIV_HS,
    parts.PRIV_HS,
)
OPTIMAL, OTHERS = LINES[:3], LINES[3:]
COMMON = 4.0
"""Section 1: "The values of ε are often in the range 4-12 or more"."""

Points = dict[tuple[str, float], parts.Estimate]


def run(effort: Effort, data: Data) -> Study:
    """Compute, measure and draw."""
    del data  # the paper's vectors are synthetic
    dim = parts.power_of_two(effort.size(1 << 15, least=256))
    k, runs = effort.size(1000, least=64), effort.size(50, least=10)
    expected: dict[tuple[str, float], float] = {}
    points: Points = {}
    for line in LINES:
        for epsilon in EPSILONS:
            error = haar.errors(line, dim, epsilon, k, 1, runs, seed=1)
            expected[line.name, epsilon] = error.expected
            points[line.name, epsilon] = parts.Estimate.of(error.measured, error.expected)
    rows = [
        (
            *(*at, expected[at], point.mean, point.half),
            expected[at] / expected["PrivUnitG", at[1]],
        )
        for at, point in points.items()
    ]
    columns = ("mechanism", "ε", "expected squared error", "measured", "± (90 %)", "expected, of PrivUnitG's")
    return Study(
        [Table(f"Squared error of one report, d = {dim}, k = {k}, {runs} runs", columns, rows)],
        finding(expected, points, dim, k),
        {"": picture(expected, points, dim, k)},
        source="Asi et al. 2023, Figure 1",
        checks=checks(expected, points),
    )


def checks(expected: dict[tuple[str, float], float], points: Points) -> list[Check]:
    """Return what the paper says of the figure, beside the ratios of measured errors to PrivUnitG's closed form."""

    def ratio(name: str, epsilon: float) -> tuple[float, float]:
        best = expected["PrivUnitG", epsilon]
        return points[name, epsilon].mean / best, points[name, epsilon].half_95 / best

    unit = "of PrivUnitG's"
    verdicts = []
    for line in OPTIMAL[1:]:
        most, error = max(ratio(line.name, epsilon) for epsilon in EPSILONS)
        claim = f"{line.name} and PrivUnitG are almost identical (caption): the largest ratio"
        verdicts.append(Check(claim, most, 0.95, 1.05, error, unit, "all ε"))
    for line in OTHERS:
        least, error = min(ratio(line.name, epsilon) for epsilon in EPSILONS if epsilon >= COMMON)
        place = "O(OPT), Table 1" if line is parts.RE_PRIV_HS else "Section 4.1"
        claim = f"{line.name} is significantly worse than PrivUnitG ({place}): the least ratio"
        verdicts.append(Check(claim, least, 1.5, math.inf, error, unit, f"ε ≥ {COMMON:g}"))
    return verdicts


def finding(expected: dict[tuple[str, float], float], points: Points, dim: int, k: int) -> str:
    """Return what the figure shows beyond the checks."""
    best = [expected["PrivUnitG", epsilon] for epsilon in EPSILONS]
    extra = max(
        expected[line.name, epsilon] / least - 1
        for line in OPTIMAL
        for epsilon, least in zip(EPSILONS, best, strict=True)
    )
    worse = {line.name: points[line.name, 10.0].mean / expected["PrivUnitG", 10.0] for line in OTHERS}
    allowed = max((epsilon + np.log(k)) / k for epsilon in EPSILONS)
    others = parts.listed([f"{ratio:.1f} ({name})" for name, ratio in worse.items()])
    text = (
        f"At d = {dim} and k = {k} the closed forms of PrivUnitG, ProjUnit and FastProjUnit are at most "
        f"{100 * extra:.1f} % apart at any ε of the grid; (ε + ln k)/k, the order of Theorem 1's term, is up to "
        f"{100 * allowed:.1f} %. At ε = 10 the measured errors are {others} times PrivUnitG's. "
    )
    near = max(points[line.name, EPSILONS[0]].mean for line in OTHERS[1:]) / best[0]
    text += (
        f"At ε = {EPSILONS[0]:g}, below the paper's range, RePrivHS and PrivHS err at most {near:.2f} times as much as "
        "PrivUnitG. "
    )
    crossed = [epsilon for epsilon in EPSILONS if expected["SQKR", epsilon] > expected["RePrivHS", epsilon]]
    if crossed:
        at = parts.listed([f"{epsilon:g}" for epsilon in crossed])
        text += f"At ε = {at} SQKR errs more than RePrivHS: it pays for the Kashin level, K² = {LEVEL**2:.2f}. "
    return (
        text
        + parts.against_theory(list(points.values()))
        + " The errors of Haar rotations come from their exact distribution, which takes k random numbers a report. "
        "The paper gives this plot without numbers, so that only its order and its top three can be compared."
    )


def picture(expected: dict[tuple[str, float], float], points: Points, dim: int, k: int) -> Figure:
    """Return errors on a log axis, and as multiples of PrivUnitG's."""
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for place, line in enumerate(LINES):
        curve = np.array([expected[line.name, epsilon] for epsilon in EPSILONS])
        least = np.array([expected["PrivUnitG", epsilon] for epsilon in EPSILONS])
        left.plot(EPSILONS, curve, color=line.colour, linewidth=1.2)
        right.plot(EPSILONS, curve / least, color=line.colour, linewidth=1.2)
        drawn = [points[line.name, epsilon] for epsilon in EPSILONS]
        means, halves = np.array([point.mean for point in drawn]), np.array([point.half for point in drawn])
        aside = np.array(EPSILONS) + 0.12 * (place - 1) * (place < 3)  # the three that lie on each other
        style = {"color": line.colour, "marker": line.marker, "markersize": 5, "linestyle": "none", "capsize": 2}
        left.errorbar(aside, means, halves, label=line.name, **style)
        right.errorbar(aside, means / least, halves / least, **style)
    left.set(yscale="log", xlabel="ε of one report", ylabel="squared error of one report")
    right.set(yscale="log", xlabel="ε of one report", ylabel="squared error / PrivUnitG's closed form")
    for panel in (left, right):
        parts.plain_ticks(panel.yaxis)
        panel.grid(visible=True, which="major", linewidth=0.3)
    left.legend(frameon=False, fontsize=8)
    figure.suptitle(
        f"Squared error against ε, d = {dim}, k = {k} (lines: closed forms; markers: measured, 90 %)", fontsize=11
    )
    return figure
