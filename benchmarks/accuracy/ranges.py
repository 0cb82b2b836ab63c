"""Ranges of windows by schedules: the noise that is stated and observed, and the weeks of a year of hours.

Each schedule publishes windows of one map; readers solve ranges from the rows. All have the same ε and δ for a unit in
one window, and stand beside sums of separate releases, complete binary trees and the exact answers.

How it misleads: units in many windows gain less, or nothing (`streamsketch.planning.plan_schedule`).
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks import palette, trials
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from streamsketch.continual import Factorisation, History, Releaser, Schedule, Separate, Tree

HORIZONS = (30, 52, 365, 8760)
LENGTHS = (1, 7, 30)
WEEK = 168
FLIGHT = ss.L1(1, unit="flight")
WIDE = ss.L1(100)  # so that rounding to whole steps widens no noise
_FLIGHTS = "pipelines/data/flights.parquet"

Floats = NDArray[np.float64]


class Observed(NamedTuple):
    """The noise of one range."""

    schedule: str
    mechanism: str
    start: int
    stop: int
    stated: float
    """Standard deviation, in one window's noise."""
    observed: float


class Weeks(NamedTuple):
    """Estimates of 51 distances under one schedule."""

    schedule: str
    error: float
    """Root mean square, over draws and weeks."""
    covered: float
    alarms: float
    """Mean number of weeks with an alarm."""
    example: Floats
    low: Floats
    high: Floats


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Compute errors for four horizons, observe them, and compare the weeks of a year of flights."""
    cells, draws = effort.size(16_384, 64), effort.size(20, 1)
    observed = [case for schedule in _observed_schedules() for case in _observe(schedule, cells)]
    counts = _hours()
    weeks = counts[: 52 * WEEK].reshape(52, WEEK, -1).sum(axis=1)
    truth = (np.diff(weeks, axis=0) ** 2).sum(axis=1).astype(np.float64)
    by_schedule = [_weeks(name, counts, truth, draws) for name in ("separate", "tree", "square root")]
    return Study(
        [
            Table(
                "Worst noise of a range, over that of one window released alone, by horizon T (Gaussian noise)",
                ("T", "schedule", "sums kept", "prefixes", *(f"{length} in a row" for length in LENGTHS)),
                list(_errors()),
            ),
            Table(
                f"Noise of ranges, {cells:,} cells each, over that of one window",
                ("schedule", "noise", "from window", "to", "stated", "observed", "ratio"),
                [(*case, case.observed / case.stated) for case in observed],
            ),
            Table(
                f"Squared distances of consecutive weeks of flights by carrier, from hours, ε = 1, {draws} draws",
                ("schedule", "root mean square error", "covered by 95 %", "weeks with an alarm, of 51"),
                [row[:4] for row in by_schedule],
                shown=True,
            ),
        ],
        _finding(by_schedule),
        {"weeks": _picture(truth, by_schedule)},
        checks=_checks(observed, by_schedule, cells),
        source="Andersson and Pagh 2023 and 2024; Fichtenberger, Henzinger and Upadhyay 2023",
    )


def _kinds(horizon: int) -> dict[str, Schedule]:
    return {
        "separate": Separate(horizon=horizon),
        "tree": Tree(horizon=horizon),
        "square root": Factorisation(horizon=horizon),
        "square root, band of 30": Factorisation(horizon=horizon, band=30),
    }


def _errors() -> Iterator[tuple[str | int | float, ...]]:
    for horizon in HORIZONS:
        for name, schedule in _kinds(horizon).items():
            held = int(np.diff(schedule.row_blocks.offsets).max()) - 1
            sliding = [schedule.worst_error(length) if length <= horizon else math.nan for length in LENGTHS]
            yield horizon, name, held, schedule.worst_error(), *sliding
        levels = math.ceil(math.log2(horizon + 1))
        terms = max(prefix.bit_count() for prefix in range(1, horizon + 1))
        yield horizon, "complete binary tree", levels, math.sqrt(levels * terms), *[math.nan] * len(LENGTHS)


def _observed_schedules() -> list[tuple[str, Schedule]]:
    return [
        ("laplace", Tree.for_laplace(horizon=365)),
        ("gaussian", Tree(horizon=365)),
        ("gaussian", Factorisation(horizon=365)),
        ("gaussian", Factorisation(horizon=365, band=30)),
        ("gaussian", Factorisation(horizon=8760)),
    ]


def _observe(setting: tuple[str, Schedule], cells: int) -> list[Observed]:
    """Return the noise of ranges of empty windows: each cell is a draw."""
    mechanism, schedule = setting
    projection = ss.projections.Identity(dim=cells if schedule.horizon < 1000 else min(cells, 2048))
    budget = {"epsilon": 1.0, "delta": 0.0 if mechanism == "laplace" else 1e-6, "mechanism": mechanism}
    publish = ss.AdditiveNoise(**budget, neighbours=WIDE, schedule=schedule)  # type: ignore[arg-type]
    alone = ss.AdditiveNoise(**budget, neighbours=WIDE).calibrated(projection)  # type: ignore[arg-type]
    history = _history(publish, projection, [projection.sketch()] * schedule.horizon, f"noise {schedule}")
    deviation = math.sqrt(alone.noise.cumulants.k2)
    ends = [(0, schedule.horizon), (0, schedule.horizon // 3), (100, 101), (100, 107), (200, 230)]
    return [
        Observed(
            str(schedule),
            mechanism,
            start,
            stop,
            schedule.error(start, stop, laplace=mechanism == "laplace"),
            float((release.values * float(release.multiplier)).std()) / deviation,
        )
        for start, stop in ends
        for release in (history.range(start, stop),)
    ]


def _history(
    publish: ss.AdditiveNoise, projection: ss.projections.Projection, windows: list[ss.Sketch], name: str
) -> History:
    releaser, bits = Releaser(publish, projection), trials.keyed(name.encode())
    return History([releaser.add(window, bits=lambda *_: bits) for window in windows])


def _hours() -> NDArray[np.int64]:
    """Return flights of each hour of 2013 by carrier: (8760, 16)."""
    flights = pq.read_table(_FLIGHTS, columns=["carrier", "scheduled_hour"])
    hours = flights["scheduled_hour"].to_numpy().astype("datetime64[h]")
    carriers = pc.rank(flights["carrier"].cast("string"), tiebreaker="dense").to_numpy() - 1
    counts = np.zeros((8760, 16), dtype=np.int64)
    np.add.at(counts, ((hours - np.datetime64("2013-01-01T00")).astype(int), carriers), 1)
    return counts


def _weeks(name: str, counts: NDArray[np.int64], truth: Floats, draws: int) -> Weeks:
    projection = ss.projections.Identity(dim=16)
    schedule = _kinds(8760)[name]
    publish = ss.AdditiveNoise(epsilon=1.0, delta=1e-6, mechanism="gaussian", neighbours=FLIGHT, schedule=schedule)
    windows = [projection.sketch() for _ in counts]
    for window, row in zip(windows, counts, strict=True):
        window.update(np.repeat(np.arange(16), row))
    tables = [
        _history(publish, projection, windows, f"weeks {name} {draw}").changes(WEEK).table.to_pandas()
        for draw in range(draws)
    ]
    misses = np.array([table["estimate"] - truth for table in tables])
    inside = np.array([(table["low"] <= truth) & (truth <= table["high"]) for table in tables])
    alarms = float(np.mean([table["alarm"].sum() for table in tables]))
    first = [tables[0][column].to_numpy() for column in ("estimate", "low", "high")]
    return Weeks(name, math.sqrt(float((misses**2).mean())), float(inside.mean()), alarms, *first)


def _checks(observed: list[Observed], by_schedule: list[Weeks], cells: int) -> list[Check]:
    worst = max(abs(case.observed / case.stated - 1) for case in observed if "8760" not in case.schedule)
    return [
        Check(
            "observed noise is that stated; the largest relative difference",
            worst,
            0.0,
            0.02 + 3.5 / math.sqrt(2 * cells),
        ),
        *(
            Check(f"worst prefix of {horizon} windows", Factorisation(horizon=horizon).worst_error(), 0.0, most)
            for horizon, most in zip(HORIZONS, (2.3, 2.5, 3.1, 4.3), strict=True)
        ),
        Check("worst prefix of a tree of 8,760 windows", Tree(horizon=8760).worst_error(), 0.0, 10.5),
        Check("30 windows in a row, of 365", Factorisation(horizon=365, band=30).worst_error(30), 0.0, 2.6),
        *(
            Check(f"95 % intervals of weeks cover ({row.schedule})", row.covered, 0.93, 1.0, 0.02)
            for row in by_schedule
        ),
    ]


def _finding(by_schedule: list[Weeks]) -> str:
    said = "; ".join(
        f"{row.schedule}: {row.error:,.0f} (root mean square), covered in {row.covered:.1%}, {row.alarms:.1f} alarms"
        for row in by_schedule
    )
    return f"Errors of squared distances of consecutive weeks: {said}."


def _picture(truth: Floats, by_schedule: list[Weeks]) -> Figure:
    figure, axes = palette.panels(1, len(by_schedule), width=4.4, height=3.6)
    weeks = np.arange(1, truth.size + 1)
    for place, (panel, row) in enumerate(zip(axes[0], by_schedule, strict=True)):
        panel.fill_between(weeks, row.low, row.high, color=palette.COLOURS[place], alpha=0.3, linewidth=0)
        panel.plot(weeks, row.example, color=palette.COLOURS[place], linewidth=1, label="one release, 95 %")
        panel.plot(weeks, truth, "k.", markersize=4, label="truth")
        panel.set_title(row.schedule, loc="left", fontsize=10)
        panel.set_xlabel("week")
    axes[0][0].set_ylabel("squared distance from the week before")
    palette.legend_below(figure, axes[0][0])
    return figure
