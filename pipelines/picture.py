"""The results of the demonstration as a picture."""

import io
import warnings
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

import streamsketch as ss
from pipelines.tables import Results
from streamsketch.report.pictures import similarity_order

Floats = NDArray[np.float64]

_LONGEST_LABEL = 20
_READABLE = 24  # more keys than this leave no room for numbers in the cells
_BARS = "#39568c"


def heat_map(results: Results, title: str) -> bytes:
    """Return a PNG of all pairs, similar keys adjacent, with the sizes of the streams beside.

    Estimated cosines are below the diagonal, and above it their standard errors. Keys without cosines, since they are
    below the noise floor, are named and not drawn, unless fewer than two others are left.

    Parameters
    ----------
    results
        What the job estimated.
    title
        Goes above.
    """
    names, value, error = _square(results.cosines.to_pylist())
    kept, left_out = drawn_of(names, results.below_noise)
    names = [names[i] for i in kept]
    value, error = value[np.ix_(kept, kept)], error[np.ix_(kept, kept)]
    order = similarity_order(np.nan_to_num(2 - 2 * value, nan=2.0))
    value, error = value[np.ix_(order, order)], error[np.ix_(order, order)]
    names = [names[i] for i in order]

    side = max(5.0, min(14.0, 0.55 * len(names) + 2.5))
    figure = Figure(figsize=(side + 3, side), layout="constrained")
    axes, beside = figure.subplots(1, 2, width_ratios=[5, 1])
    norm = _norm(value)
    colours = mpl.colormaps["viridis"].with_extremes(bad="white")
    inside = np.clip(value, norm.vmin, norm.vmax)
    shown = inside.copy()
    np.fill_diagonal(shown, np.nan)
    image = axes.imshow(shown, cmap=colours, norm=norm)
    labels = [name if len(name) <= _LONGEST_LABEL else name[: _LONGEST_LABEL - 1] + "…" for name in names]
    axes.set_xticks(range(len(names)), labels, parse_math=False)
    axes.set_yticks(range(len(names)), labels, parse_math=False)
    axes.tick_params(length=0)
    parts = "below the diagonal: estimate; above: its standard error"
    figure.suptitle(f"{title}\n{parts}{left_out}", fontsize=11, x=0.01, ha="left", parse_math=False)
    figure.colorbar(image, ax=axes, label="estimated cosine", shrink=0.8)
    if len(names) <= _READABLE:
        for i, j in np.argwhere(~np.eye(len(names), dtype=bool) & ~np.isnan(value)):
            place = float(norm(inside[i, j]))  # 0 to 1 on the scale of colours
            text, colour = f"{(value if i > j else error)[i, j]:.2f}", "white" if place < 0.5 else "black"
            axes.text(j, i, text, ha="center", va="center", fontsize=7.5, color=colour)
    _draw_sizes(beside, [results.sizes[name] for name in names])
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # scripts that the font lacks are drawn as boxes
        figure.savefig(content, format="png", dpi=120)
    return content.getvalue()


def drawn_of(names: list[str], below: list[str]) -> tuple[list[int], str]:
    """Return the places of the keys to draw, and a line on those ``below`` the noise floor, empty if there are none.

    All are drawn if fewer than two would be left.
    """
    kept = [i for i, name in enumerate(names) if name not in below]
    enough = len(kept) >= 2
    more = f" and {len(below) - _READABLE} more" if len(below) > _READABLE else ""
    line = f"{'not drawn, as ' if enough else ''}below the noise floor: {', '.join(below[:_READABLE])}{more}"
    return kept if enough else list(range(len(names))), f"\n{line}" if below else ""


def _square(rows: list[dict[str, Any]]) -> tuple[list[str], Floats, Floats]:
    names = sorted({row[end] for row in rows for end in ("first", "second")})
    place = {name: i for i, name in enumerate(names)}
    value, error = np.zeros((2, len(names), len(names)))
    for row in rows:
        i, j = place[row["first"]], place[row["second"]]
        value[i, j] = value[j, i] = np.nan if row["cosine"] is None else row["cosine"]
        error[i, j] = error[j, i] = np.nan if row["cosine"] is None else row["standard_error"]
    return names, value, error


def _norm(value: Floats) -> Normalize:
    apart = ~np.eye(len(value), dtype=bool) & ~np.isnan(value)
    low, high = (value[apart].min(), value[apart].max()) if apart.any() else (0.0, 1.0)
    high = min(1.0, float(high))
    return Normalize(min(max(float(low), -1.0), high - 0.1), high)


def _draw_sizes(axes: Axes, sizes: list[ss.Estimate]) -> None:
    """Draw Euclidean norms as bars, with 95 % intervals, in the rows of the heat map."""
    ends = np.sqrt([one.interval(0.95) for one in sizes])
    norms = np.sqrt(np.array([max(one.value, 0.0) for one in sizes]))
    spread = np.abs(np.where(np.isfinite(ends), ends, norms[:, None]).T - norms)  # an end may be missing
    axes.barh(range(len(sizes)), norms, xerr=spread, color=_BARS, error_kw={"linewidth": 1})
    axes.set_ylim(len(sizes) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_title("size (norm)", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
