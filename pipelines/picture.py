"""The results of the demonstration as a picture."""

import io

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import streamsketch as ss
from pipelines.tables import Results
from streamsketch.estimation import similarity_order


def heat_map(results: Results, title: str) -> bytes:
    """Return a PNG of all pairs, similar keys adjacent, with the sizes of the streams beside.

    Estimated cosines are below the diagonal, and above it their standard errors. Streams below the noise floor, which
    have no cosines, are named and not drawn.
    """
    drawn = {name: release for name, release in results.releases.items() if name not in results.below_noise}
    cosines = ss.pairwise(list(drawn.values()), by="cosine")
    order = similarity_order(2 - 2 * cosines.value)
    value, error = (one[np.ix_(order, order)] for one in (cosines.value, cosines.standard_error))
    names = [list(drawn)[place] for place in order]

    side = 0.55 * len(names) + 2.5
    figure = Figure(figsize=(side + 3, side), layout="constrained")
    axes, beside = figure.subplots(1, 2, width_ratios=[5, 1])
    apart = ~np.eye(len(names), dtype=bool)
    low, high = value[apart].min(), min(1.0, value[apart].max())
    colours = mpl.colormaps["viridis"].with_extremes(bad="white")
    image = axes.imshow(np.where(apart, value, np.nan), cmap=colours, vmin=low, vmax=high)
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(length=0)
    for i, j in np.argwhere(apart):
        colour = "white" if value[i, j] < (low + high) / 2 else "black"
        text = f"{(value if i > j else error)[i, j]:.2f}"
        axes.text(j, i, text, ha="center", va="center", fontsize=7.5, color=colour)
    parts = "below the diagonal: estimate; above: its standard error"
    below = f"\nnot drawn, as below the noise floor: {', '.join(results.below_noise)}" if results.below_noise else ""
    figure.suptitle(f"{title}\n{parts}{below}", fontsize=11, x=0.01, ha="left")
    figure.colorbar(image, ax=axes, label="estimated cosine", shrink=0.8)
    _draw_sizes(beside, [ss.squared_norm(drawn[name]) for name in names])
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120)
    return content.getvalue()


def _draw_sizes(axes: Axes, sizes: list[ss.Estimate]) -> None:
    """Draw Euclidean norms as bars, with 95 % intervals, in the rows of the heat map."""
    ends = np.sqrt([one.interval(0.95) for one in sizes])
    norms = np.sqrt(np.array([max(one.value, 0.0) for one in sizes]))
    spread = np.abs(np.where(np.isfinite(ends), ends, norms[:, None]).T - norms)  # an end may be missing
    axes.barh(range(len(sizes)), norms, xerr=spread, color="#39568c", error_kw={"linewidth": 1})
    axes.set_ylim(len(sizes) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_title("size (norm)", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
