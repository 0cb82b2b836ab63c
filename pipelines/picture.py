"""The results of the demonstration as a picture."""

import io
from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

import streamsketch as ss
from pipelines.tables import Results
from streamsketch.estimation.groups import similarity_order

_HIDDEN: dict[str, Any] = {"facecolor": "#ececec", "edgecolor": "#b5b5b5", "hatch": "////", "linewidth": 0}


def heat_map(results: Results, labels: Mapping[str, str]) -> bytes:
    """Return a PNG of all pairs, similar keys adjacent, with the number of units of each beside.

    Below the diagonal are estimated cosines, hatched where the interval contains 0, above it the 95 % intervals.
    Streams below the noise floor, which have no cosines, are not drawn.
    """
    every = ss.pairwise(list(results.releases.values()), by="cosine")
    lost = np.isnan(np.diagonal(every.value))
    drawn = {name: release for (name, release), gone in zip(results.releases.items(), lost, strict=True) if not gone}
    cosines = ss.pairwise(list(drawn.values()), by="cosine")
    order = similarity_order(2 - 2 * cosines.value)
    lows, highs = cosines.interval(0.95)
    value, low, high = (matrix[np.ix_(order, order)] for matrix in (cosines.value, lows, highs))
    names = [list(drawn)[place] for place in order]
    titles = [labels[name] for name in names]

    side = 0.48 * len(names) + 1.8
    figure = Figure(figsize=(side + 2.2, side + 0.4), layout="constrained")
    axes, beside = figure.subplots(1, 2, width_ratios=[6, 1])
    clear = np.tril(low > 0, -1)
    image = axes.imshow(np.where(clear, value, np.nan), cmap=mpl.colormaps["viridis_r"], vmin=0, vmax=1)
    axes.set_xticks(range(len(names)), titles, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), titles)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for i, j in np.argwhere(np.tril(np.ones_like(clear), -1)):
        if not clear[i, j]:
            axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, **_HIDDEN))
        colour = "white" if clear[i, j] and value[i, j] > 0.5 else "black"
        text = f"{value[i, j]:.2f}".replace("-0.00", "0.00")
        axes.text(j, i, text, ha="center", va="center", fontsize=8.5, color=colour)
        ends = f"{low[i, j]:.1f}\n{high[i, j]:.1f}".replace("-0.0", "0.0")
        shade = "black" if clear[i, j] else "#8a8a8a"
        axes.text(i, j, ends, ha="center", va="center", fontsize=7.5, linespacing=1.0, color=shade)
    guarantee = results.releases.guarantee
    figure.suptitle(
        "Which destinations are served alike, by airline, airport of departure and week?\n"
        f"Private cosines: one aircraft with all its flights of the year is protected with ε = {guarantee.epsilon:g}.\n"
        "Below the diagonal: estimates. Above: their 95 % intervals.",
        fontsize=11, x=0.01, ha="left",
    )  # fmt: skip
    figure.legend(
        handles=[Patch(**_HIDDEN, label="cannot be distinguished from 0")], loc="outside lower left", frameon=False
    )
    figure.colorbar(image, ax=axes, label="cosine", shrink=0.7, location="left", pad=0.02)
    _draw_counts(beside, [drawn[name].units for name in names])
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=150)
    return content.getvalue()


def _draw_counts(axes: Axes, counts: list[ss.estimation.Estimate | None]) -> None:
    """Draw numbers of units as bars, with 95 % intervals, in the rows of the heat map."""
    for row, count in enumerate(counts):
        if count is not None:
            low, high = count.interval(0.95)
            spread = [[count.value - low], [high - count.value]]
            axes.barh(row, count.value, xerr=spread, color="#39568c", error_kw={"linewidth": 1})
    axes.set_ylim(len(counts) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_title("aircraft", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
