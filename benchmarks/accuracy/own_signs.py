"""Angles between one's own exact sketch and published signs, beside signs on both sides: error and coverage.

Each trial draws an OPORP and flips. An own sketch takes the norm of its cells, or the exact one. Estimates between
signs are clipped to [0, π], as those by maximum likelihood are.

How it misleads: bins of eight coordinates each, of dense vectors, are nearly normal. Sparse ones are not.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks import palette, trials
from benchmarks.accuracy import intervals
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check

DIM, CELLS, SIZE = 2048, 256, 2000
ONE = ss.OneCoordinate(100)
MECHANISMS: dict[str, Any] = {
    "randomised response, ε = 4": ss.signs.DPSignOPORPRR(epsilon=4, neighbours=ONE),
    "randomised response, ε = 2": ss.signs.DPSignOPORPRR(epsilon=2, neighbours=ONE),
    "randomised response, ε = 1": ss.signs.DPSignOPORPRR(epsilon=1, neighbours=ONE),
    "smooth, ε = 2": ss.signs.DPSignOPORPRRSmooth(epsilon=2, neighbours=ONE),
    "logistic, ε = 1": ss.signs.DPSignLogistic(epsilon=1, neighbours=ss.L1(100)),
    "individual, Gaussian, ε = 2": ss.signs.IDPSignOPORPG(epsilon=2, delta=1e-6, neighbours=ONE),
}
ANGLES = (0.03, 0.1, 0.3, 0.6, 1.2, math.pi / 2)
BOTH, OWN, EXACT = "signs on both sides", "own sketch", "own sketch, exact norm"

Floats = NDArray[np.float64]


class Case(NamedTuple):
    """One mechanism at one angle, by one method."""

    mechanism: str
    angle: float
    method: str
    bias: float
    error: float
    """Root mean square, of values clipped to [0, π]."""
    stated: float
    covered: tuple[float, ...]
    """By `intervals.CONFIDENCES`."""
    gain: float
    """The mean square error of `BOTH` over this one."""


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Simulate every mechanism at each angle."""
    count = effort.size(1000, 3)
    cases = [
        case
        for name in list(MECHANISMS)[: effort.size(60, 1)]
        for theta in ANGLES[: effort.size(60, 2)]
        for case in _trials(name, theta, count)
    ]
    return Study(
        [
            Table(
                f"Angles in radians, OPORP of {CELLS} bins, {count} projections and flips each",
                (
                    *("flips", "angle", "method", "bias", "root mean square error", "stated"),
                    *intervals.COLUMNS,
                    "mean square error of signs on both sides / this",
                ),
                [(*case[:6], *case.covered, case.gain) for case in cases],
            )
        ],
        _finding(cases),
        {"gain": _picture(cases)},
        checks=_checks(cases, count),
        source="Li and Li 2023, published signs",
    )


def _vectors(theta: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rng = np.random.default_rng(20230101)
    x, other = rng.standard_normal((2, DIM))
    x /= np.linalg.norm(x)
    other -= other @ x * x
    y = math.cos(theta) * x + math.sin(theta) * other / np.linalg.norm(other)
    return np.rint(SIZE * x).astype(np.int64), np.rint(SIZE * y).astype(np.int64)


def _trials(name: str, theta: float, count: int) -> list[Case]:
    x, y = _vectors(theta)
    norms = float(np.linalg.norm(x)), float(np.linalg.norm(y))
    truth = math.acos(float(x @ y) / norms[0] / norms[1])
    rows: dict[str, list[tuple[float, ...]]] = {BOTH: [], OWN: [], EXACT: []}
    for seed in range(count):
        projection = ss.projections.OPORP(dim=DIM, sketch_dim=CELLS, seed=seed)
        own, theirs = projection.sketch(), projection.sketch()
        own.update(np.arange(DIM), x)
        theirs.update(np.arange(DIM), y)
        publisher = MECHANISMS[name].calibrated(projection)
        bits = trials.keyed(f"own signs {name} {theta} {seed}".encode())
        mine, release = publisher.for_data(own).draw(bits), publisher.for_data(theirs).draw(bits)
        for method, side, norm in ((BOTH, mine, norms[0]), (OWN, own, None), (EXACT, own, norms[0])):
            estimate = ss.signs.angle(side, release, norm_x=norm, norm_y=norms[1])
            holds = [low <= truth <= high for low, high in map(estimate.interval, intervals.CONFIDENCES)]
            rows[method].append((min(max(estimate.value, 0.0), math.pi) - truth, estimate.variance, *holds))
    errors = {method: np.array(own, dtype=np.float64) for method, own in rows.items()}
    squares = {method: float((own[:, 0] ** 2).mean()) for method, own in errors.items()}
    return [
        Case(
            name,
            truth,
            method,
            float(own[:, 0].mean()),
            math.sqrt(squares[method]),
            math.sqrt(float(own[:, 1].mean())),
            tuple(map(float, own[:, 2:].mean(axis=0))),
            squares[BOTH] / squares[method] if squares[method] else 1.0,
        )
        for method, own in errors.items()
    ]


def _checks(cases: list[Case], count: int) -> list[Check]:
    own = [case for case in cases if case.method == OWN]
    worst = min(case.gain for case in own)
    return [
        Check("own data make the error less; the least ratio of mean squares", worst, 1.0, math.inf, 2 / count**0.5),
        intervals.least("95 % intervals with own data cover; the least share", own, 0.93, count),
    ]


def _finding(cases: list[Case]) -> str:
    own = [case for case in cases if case.method == OWN]
    exact = [case for case in cases if case.method == EXACT]
    most = max(own, key=lambda case: abs(case.bias) / case.error)
    return (
        f"With an own sketch, the mean square error of angles is {min(case.gain for case in own):.1f} to "
        f"{max(case.gain for case in own):.1f} times less than of signs on both sides; with the exact norm "
        f"{min(case.gain for case in exact):.1f} to {max(case.gain for case in exact):.1f} times. Intervals by the "
        f"likelihood cover: {intervals.ranges(own)}. The largest bias is {most.bias:+.3f} radians, "
        f"{most.bias / most.error:+.2f} root mean square errors ({most.mechanism}, angle {most.angle:.2f})."
    )


def _picture(cases: list[Case]) -> Figure:
    figure, axes = palette.panels(1, 2, width=4.8, height=4.0)
    for place, name in enumerate(dict.fromkeys(case.mechanism for case in cases)):
        own = [case for case in cases if (case.mechanism, case.method) == (name, OWN)]
        for panel, values in zip(
            axes[0], ([case.gain for case in own], [case.covered[2] for case in own]), strict=True
        ):
            panel.plot(
                [case.angle for case in own],
                values,
                marker=palette.MARKERS[place],
                color=palette.COLOURS[place],
                label=name,
            )
            panel.set_xlabel("angle (radians)")
    axes[0][0].set_yscale("log")
    axes[0][0].set_ylabel("mean square error of signs / of own sketch")
    axes[0][1].axhline(0.95, color=palette.BLACK, lw=1)
    axes[0][1].set_ylabel("coverage of 95 % intervals")
    palette.legend_below(figure, axes[0][0])
    return figure
