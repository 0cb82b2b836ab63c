"""Colours that stay apart for colour-blind eyes and in grey, and what all pictures of studies share."""

from typing import Any

from matplotlib.figure import Figure

# Okabe and Ito's, without their yellow, which is too light for lines
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#000000",
)
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, RED, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def panels(rows: int, columns: int, width: float = 5.0, height: float = 4.0, **shared: Any) -> tuple[Figure, Any]:
    """Return a figure and its (rows, columns) array of axes, with a light grid; sizes in inches a panel."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **shared)
    for panel in axes.flat:
        panel.grid(visible=True, linewidth=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, axes


def points(place: int) -> dict[str, Any]:
    """Return the style of the ``place``-th series of points with error bars."""
    return {
        "color": COLOURS[place],
        "marker": MARKERS[place],
        "markersize": 4.5,
        "linestyle": "",
        "elinewidth": 1.0,
        "capsize": 0,
    }


def legend_below(figure: Figure, panel: Any, columns: int = 4) -> None:
    """Put a panel's legend below all panels, where it hides nothing."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
