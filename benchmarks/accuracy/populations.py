"""Populations compared by features: bias, error and coverage, false alarms and power, beside tests of other kinds.

Discrepancies are held against the exact kernel, the expected one over seeds, in kernels of numbers, embeddings and
hashed categories, with few and many frequencies. Each trial draws a seed, and for each size of population noises at
ε = 1, δ = 1e-6. Descriptions are of people with one row, against what their rows hold, and of people with several, as
few as three standard errors of their count. Tests and reference points take samples of scikit-learn's table of 569
patients with 30 numbers, with replacement; one site has more of one class. Beside them are logistic regression without
privacy, whose cross-validated share of right guesses is tested against one half, and a release of all columns as
histograms of eight bins at the same ε and δ: by the same test, and by χ² of each column, the least p-value times 30.

How it misleads: 100 distinct people stand for populations of more, each as often as is needed, and sizes share seeds.
Ranges of the patients' numbers are those of the table. The guesses of one fold share a fit, so their binomial law is
not exact. χ² of histograms takes noise and sampling as normal.
"""

import math
from typing import Any

from matplotlib.figure import Figure

from benchmarks import palette, trials
from benchmarks.accuracy.descriptions import DESCRIBED, descriptions
from benchmarks.accuracy.discrepancies import KINDS, LEAST_WAVES, PEOPLE, Case, discrepancies
from benchmarks.accuracy.intervals import COLUMNS, CONFIDENCES
from benchmarks.accuracy.patients import FEWER, LEVELS, POINTS, TESTED, TESTS, WAVES, points_of, tests_of
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Simulate discrepancies, descriptions, tests and reference points."""
    count, kept = effort.size(1000, 2), effort.size(2000, 1)
    cases = [case for kind in KINDS[:kept] for case in discrepancies(*kind, count)]
    described = [row for case in DESCRIBED[:kept] for row in descriptions(*case, count)]
    tests = [tests_of(*case, count) for case in TESTED[:kept]]
    points = [row for waves in WAVES[:kept] for row in points_of(waves, count)]
    return Study(
        [
            Table(
                f"Discrepancies against the exact kernel, {count} seeds and noises each, ε = 1",
                (
                    *("columns", "dimension", "frequencies", "people", "exact", "refused"),
                    *("bias, in its standard errors", "root mean square error", "stated", *COLUMNS),
                    "all columns together, 95 %",
                ),
                [(*case[:9], *map(float, case.covered), case.together) for case in cases],
            ),
            Table(
                f"What columns hold, {count} noises each, ε = 1",
                (
                    *("people", "rows a person", "measure", "share undefined", "largest bias, in stated errors"),
                    *COLUMNS,
                ),
                described,
            ),
            Table(
                f"Share of draws in which samples of patients are said to differ, by the classifier of one in {FEWER}",
                (
                    *("people", "class, times as frequent", "draws"),
                    *(f"{name}, {level:.0%}" for name in TESTS for level in LEVELS),
                ),
                tests,
                shown=True,
            ),
            Table(
                "Reference points: discrepancy over its standard deviation under noise alone",
                ("people", "class, times as frequent", "frequencies", "mean", "deviation over seeds"),
                points,
            ),
        ],
        _finding(cases, tests, points),
        {"coverage": _picture(cases)},
        checks=_checks(cases, described, tests, points),
        source="Theory 10",
    )


def _checks(cases: list[Case], described: list[Any], tests: list[Any], points: list[Any]) -> list[Check]:
    fair = [case for case in cases if not case.few] or cases
    many = [case for case in cases if case.people > PEOPLE[0]] or cases
    draws = min(row[2] for row in tests)
    z = trials.simultaneous_z(2 * len(tests), 0.99)
    return [
        Check(
            f"no discrepancy of {PEOPLE[1]:,} people and more is biased; the largest bias, in its standard errors",
            max(abs(case.bias) for case in many),
            0.0,
            trials.simultaneous_z(len(many), 0.99),
        ),
        Check(
            f"the bias for {PEOPLE[0]} people, some six errors of their count, in root mean square errors",
            max(
                abs(case.bias) / math.sqrt(max(tests[0][2] - case.refused, 1))
                for case in cases
                if case.people == PEOPLE[0]
            ),
            0.0,
            0.2,
        ),
        Check(
            f"95 % intervals cover 90 % and more from {LEAST_WAVES} frequencies; the least",
            min(float(case.covered[2]) for case in fair),
            0.9,
            1.0,
        ),
        Check(
            "95 % intervals of what columns hold cover, of standard deviations from 1,000 people; the least",
            min(row[-2] for row in described if not math.isnan(row[-2]) and (row[2][:8] != "standard" or row[0] > 999)),
            0.93,
            1.0,
        ),
        *(
            Check(
                f"no more than {level:.0%} false alarms of samples of one population",
                max(row[3 + place] for row in tests if row[1] == 1),
                0.0,
                level + z * math.sqrt(level / draws) + z**2 / draws,
            )
            for place, level in enumerate(LEVELS)
        ),
        *(
            Check(
                f"{people:,} patients a site, one class times {times:g}: z",
                max((row[3] for row in points if row[:2] == (people, times)), default=math.nan),
                least,
                math.inf,
            )
            for people, times, least in POINTS
        ),
    ]


def _finding(cases: list[Case], tests: list[Any], points: list[Any]) -> str:
    parts = []
    for says, few in ((f"from {LEAST_WAVES} frequencies", False), ("with fewer", True)):
        shares = [float(case.covered[2]) for case in cases if case.few is few]
        if shares:
            parts.append(f"{min(shares):.1%} to {max(shares):.1%} {says}")
    alike = ", ".join(f"{row[3]:.1%} of {row[0]:,}" for row in tests if row[1] == 1)
    reached = ", ".join(f"{row[3]:.1f} ({row[0]:,}, times {row[1]:g}, {row[2]} frequencies)" for row in points)
    return (
        f"95 % intervals of discrepancies hold the exact kernel's in {' and '.join(parts)}. Samples of one population "
        f"are said to differ at 5 % in {alike}. Discrepancies over the deviation of noise: {reached}."
    )


def _picture(cases: list[Case]) -> Figure:
    figure, axes = palette.panels(1, len(CONFIDENCES), width=3.0, height=6.0, sharey=True)
    names = list(dict.fromkeys((case.kind, case.dim, case.waves) for case in cases))
    for place, (confidence, panel) in enumerate(zip(CONFIDENCES, axes[0], strict=True)):
        for number, people in enumerate(PEOPLE):
            own = [case for case in cases if case.people == people]
            panel.plot(
                [100 * case.covered[place] for case in own],
                [names.index((case.kind, case.dim, case.waves)) for case in own],
                linestyle="",
                marker=palette.MARKERS[number],
                markersize=4,
                color=palette.COLOURS[number],
                label=f"{people:,} people",
            )
        panel.axvline(100 * confidence, color=palette.BLACK, lw=0.8)
        panel.set_yticks(range(len(names)), [f"{kind}, {dim}; {waves}" for kind, dim, waves in names], fontsize=7)
        panel.set_xlabel(f"% covered at {100 * confidence:g} %")
    axes[0][0].invert_yaxis()
    palette.legend_below(figure, axes[0][0])
    return figure
