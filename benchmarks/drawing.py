"""Pictures of rows of times."""

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

_COLOURS = ("#31688e", "#b5651d", "#6a8f3c", "#7d5a9b", "#a63d57", "#4c9a8f")
_NO_TIMES = ("bytes", "GB")
_TITLE_WIDTH = 130  # characters


def speed_ups(title: str, rows: Sequence[dict[str, Any]]) -> Figure | None:
    """Return bars of how many times as long each other takes as we do; None where nothing is compared."""
    bars: list[tuple[str, float, int]] = []
    colours: dict[str, int] = {}
    named = None
    for row in rows:
        if row["unit"] in _NO_TIMES:
            continue
        for other, value in row["others"].items():
            label = f"beside {other}" if row["name"] == named else f"{row['name']}\nbeside {other}"
            named = row["name"]
            bars.append((label, _times(row, value), colours.setdefault(other, len(colours))))
    return bar_chart(title, bars) if bars else None


def bar_chart(title: str, bars: Sequence[tuple[str, float, int]]) -> Figure:
    """Return horizontal bars (label, times, place of its colour) from 1 on, on a logarithmic scale."""
    figure = Figure(figsize=(8, 1.1 + 0.3 * len(bars)), layout="constrained")
    axes = figure.subplots()
    for place, (_, times, colour) in enumerate(bars):
        axes.barh(place, times - 1, left=1, color=_COLOURS[colour % len(_COLOURS)], height=0.7)
        axes.annotate(
            f" {times:.3g} ",
            (times, place),
            va="center",
            ha="left" if times >= 1 else "right",
            fontsize=8,
        )
    axes.set_yticks(range(len(bars)), [label for label, _, _ in bars], fontsize=7)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xscale("log")
    least, most = min(0.5, *(times for _, times, _ in bars)), max(2.0, *(times for _, times, _ in bars))
    room = (most / least) ** 0.15  # for the figures beside the bars
    axes.set_xlim(least / max(2.0, room), most * max(2.5, room))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("times as long as ours takes (to the right of 1: ours is faster)", fontsize=8)
    figure.suptitle(textwrap.fill(title, _TITLE_WIDTH), fontsize=9, x=0.01, ha="left")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _times(row: dict[str, Any], other: float) -> float:
    """Return the other's time over ours."""
    return float(row["ours"] / other if row["unit"].endswith("/s") else other / row["ours"])
