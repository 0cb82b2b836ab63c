"""What the pictures of this folder share: panels, and colours that colour-blind readers can tell apart."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.palette import COLOURS, MARKERS


def panels(title: str, names: Sequence[str], *, rows: int = 1, below: float = 0.0) -> tuple[Figure, list[Axes]]:
    """Return a figure with a panel for each name, in ``rows`` equal rows, and ``below`` inches more for legends."""
    columns = len(names) // rows
    figure = Figure(figsize=(1.0 + 4.2 * columns, 0.9 + 3.4 * rows + below), layout="constrained")
    figure.suptitle(title, fontsize=11)
    axes: list[Axes] = list(figure.subplots(rows, columns, sharey=True, squeeze=False).ravel())
    for panel, name in zip(axes, names, strict=True):
        panel.set_title(name, fontsize=10, loc="left")
        panel.grid(visible=True, linewidth=0.3)
    return figure, axes


def look(place: int, **more: Any) -> dict[str, Any]:
    """Return how curve number ``place`` is drawn: a colour and a marker of its own."""
    plain = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}
    return plain | {"markersize": 4, "linewidth": 1.3} | more


def legend_below(figure: Figure, axes: Axes, columns: int) -> None:
    """Put the legend of one panel's curves below all panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def legend_under(panel: Axes) -> None:
    """Put a panel's own legend under it, in two columns."""
    panel.legend(loc="upper left", bbox_to_anchor=(-0.05, -0.16), ncols=2, frameon=False, fontsize=8)
