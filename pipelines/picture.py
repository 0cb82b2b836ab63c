"""The job's results as a picture."""

import io
import warnings

import matplotlib as mpl
import numpy as np
import pyarrow as pa
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from streamsketch.report.scaling import like_beside_like

_LONGEST_LABEL = 20
_READABLE = 24  # more keys than this leave no room for numbers in the cells


def heat_map(distances: pa.Table, title: str) -> bytes:
    """Return a PNG of all pairs, similar keys adjacent: estimates below the diagonal, relative errors above."""
    rows = distances.to_pylist()
    names = sorted({row[end] for row in rows for end in ("first", "second")})
    place = {name: i for i, name in enumerate(names)}
    value, error = np.zeros((2, len(names), len(names)))
    for row in rows:
        i, j = place[row["first"]], place[row["second"]]
        value[i, j] = value[j, i] = row["squared_distance"]
        error[i, j] = error[j, i] = row["standard_error"]
    order = like_beside_like(value)
    value, error = value[np.ix_(order, order)], error[np.ix_(order, order)]
    names = [names[i] for i in order]

    shown = value.copy()
    np.fill_diagonal(shown, np.nan)
    off_diagonal = ~np.eye(len(names), dtype=bool)
    # colours below the smallest standard error would show noise alone
    low = max(error[off_diagonal].min(), value.max() / 1e6, 1e-12)
    high = max(value.max(), 10 * low)
    side = max(5.0, min(14.0, 0.55 * len(names) + 2.5))
    figure = Figure(figsize=(side + 1, side), layout="constrained")
    axes = figure.subplots()
    colours = mpl.colormaps["viridis_r"].with_extremes(bad="white")
    image = axes.imshow(np.maximum(shown, low), cmap=colours, norm=LogNorm(low, high))
    labels = [name if len(name) <= _LONGEST_LABEL else name[: _LONGEST_LABEL - 1] + "…" for name in names]
    axes.set_xticks(range(len(names)), labels, parse_math=False)
    axes.set_yticks(range(len(names)), labels, parse_math=False)
    axes.tick_params(length=0)
    axes.set_title(
        f"{title}\nbelow the diagonal: estimate in thousands; above: its relative standard error",
        fontsize=11,
        loc="left",
        parse_math=False,
    )
    figure.colorbar(image, label="estimated squared distance", shrink=0.8)
    if len(names) <= _READABLE:
        for i in range(len(names)):
            for j in range(len(names)):
                if i == j:
                    continue
                if i > j:
                    text = f"{value[i, j] / 1000:,.1f}"
                elif error[i, j] >= value[i, j]:
                    text = ">100%"
                else:
                    text = f"{100 * error[i, j] / value[i, j]:.0f}%"
                dark = value[i, j] > (low * high) ** 0.5  # past the middle of the logarithmic scale
                axes.text(j, i, text, ha="center", va="center", fontsize=7.5, color="white" if dark else "black")
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # scripts that the font lacks are drawn as boxes
        figure.savefig(content, format="png", dpi=120)
    return content.getvalue()
