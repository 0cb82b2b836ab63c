"""An endless job at a steady rate: how late its windows are released, and whether anything grows.

A producer writes Arrow batches at half the rate at which a backlog is worked off on two cores, for twelve minutes;
``make soak`` does it for an hour. Checkpoints are a second apart. A window's delay is from its end, and the allowed
delay of its events, to the release of its last key; windows before the job has caught up with its start do not count.
Memory is resident memory of the task manager, Python's workers and the broker.
"""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks import palette
from benchmarks.rows import Effort
from benchmarks.streams import JARS
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from tests.clusters.feed import WINDOW
from tests.clusters.soak import FLAT, soak

_RATE = 750_000  # events a second


def run(effort: Effort) -> Study:
    """Measure for twelve minutes; for two if not in full."""
    minutes = 12.0 if effort.name == "full" else 2.0
    return study(soak(JARS, Console(), minutes=minutes, rate=_RATE))


def study(record: dict[str, Any]) -> Study:
    """Return what `soak` found as tables, checks and a picture."""
    samples = record["samples"]
    trends = [
        (name, trend["mean"], trend["slope"], trend["low"], trend["high"], trend["verdict"])
        for name, trend in record["trends"].items()
    ]
    return Study(
        [
            Table(
                "Growth an hour, with a 95 % interval", ("", "mean", "an hour", "from", "to", ""), trends, shown=True
            ),
            Table(
                "Samples",
                ("minute", "events", "windows", *(f"{name}, MB" for name in samples[0]["memory_mb"]), "checkpoint, kB"),
                [
                    (
                        *(sample["minutes"], sample["events"], sample["windows"]),
                        *(round(value) for value in sample["memory_mb"].values()),
                        sample["checkpoint_kb"],
                    )
                    for sample in samples
                ],
            ),
        ],
        _finding(record),
        {"lines": _picture(record)},
        checks=_checks(record),
    )


def _finding(record: dict[str, Any]) -> str:
    if not record["windows"]:
        return "The run was too short for a window after the start."
    last = record["samples"][-1]
    return (
        f"{record['rate']:,} events a second for {last['minutes']:.0f} minutes, {last['events']:,} in all. Half of "
        f"{record['windows']} windows were released within {record['p50_seconds']:.2f} s, 99 % within "
        f"{record['p99_seconds']:.2f} s, which are {record['p99_intervals']:.2f} checkpoint intervals."
    )


def _checks(record: dict[str, Any]) -> list[Check]:
    late = np.nan if record["p99_intervals"] is None else record["p99_intervals"]
    checks = [Check("99 % of windows are released within two checkpoint intervals", late, 0, 2, unit="intervals")]
    for name, trend in record["trends"].items():
        share = 100 / trend["mean"] if trend["mean"] else np.nan
        half = (trend["high"] - trend["low"]) / 2
        checks.append(
            Check(f"flat: {name}", trend["slope"] * share, -np.inf, 100 * FLAT, error=half * share, unit="% an hour")
        )
    return checks


def _picture(record: dict[str, Any]) -> Figure:
    figure, axes = palette.panels(1, 3, 3.6, 3.2)
    memory, checkpoints, delays = axes[0]
    minutes = [sample["minutes"] for sample in record["samples"]]
    for place, name in enumerate(record["samples"][0]["memory_mb"]):
        values = [sample["memory_mb"][name] for sample in record["samples"]]
        memory.plot(minutes, values, color=palette.COLOURS[place], label=name)
    memory.set_title("resident memory, MB", fontsize=9, loc="left")
    memory.legend(frameon=False, fontsize=8)
    checkpoints.plot(minutes, [sample["checkpoint_kb"] for sample in record["samples"]], color=palette.BLUE)
    checkpoints.set_title("checkpoint, mean of ten, kB", fontsize=9, loc="left")
    moments = [WINDOW * number / 60 for number in range(len(record["delays"]))]
    delays.plot(moments, record["delays"], ".", markersize=3, color=palette.BLUE)
    delays.set_title("delay of each window, s", fontsize=9, loc="left")
    for panel in axes[0]:
        panel.set_ylim(bottom=0)
        panel.set_xlabel("minutes", fontsize=8)
    return figure
