"""The data of the report's figures: a heat map and a map of the plane."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamsketch.estimation import Estimates, rounded
from streamsketch.report.scaling import Floats, Scaling
from streamsketch.report.text import interval, short

_VIRIDIS = (
    (253, 231, 37),
    (159, 218, 58),
    (74, 193, 109),
    (31, 161, 135),
    (39, 127, 142),
    (54, 92, 141),
    (70, 50, 127),
)
_SCALES = (
    (1e12, "millions of millions"),
    (1e9, "thousands of millions"),
    (1e6, "millions"),
    (1e3, "thousands"),
    (1.0, ""),
)
_WIDTH, _HEIGHT, _MARGIN = 720.0, 560.0, 40.0
_RADIUS = 2.447746830680816  # of a 95 % ellipse in standard deviations: √χ²(0.95) of two degrees of freedom
_LETTER, _LINE = 7.2, 15.0  # about the width and height of a label's letters
_LABEL = 18
_TAB_STOPS = 20  # streams; beyond, keyboard users have the tables below


def heat_map(names: Sequence[str], distances: Estimates, order: Sequence[int]) -> dict[str, Any]:
    """Return all squared distances as coloured cells, with error bars as tooltips."""
    value, error = distances.value, distances.standard_error
    apart = ~np.eye(len(names), dtype=bool)
    # colours below the least standard error would show only noise
    low = max(float(error[apart].min()), float(value.max()) / 1e6, 1e-12)
    high = max(float(value.max()), 10 * low)
    factor, unit = next((pair for pair in _SCALES if np.median(np.abs(value[apart])) >= pair[0]), (1.0, ""))

    def cell(i: int, j: int) -> tuple[str, str, str] | None:
        if i == j:
            return None
        estimate = distances[i, j]
        colour = _colour(estimate.value, low, high)
        style = f"background:rgb{colour};color:{_readable_on(colour)}"
        shown = rounded(estimate.value / factor, estimate.standard_error / factor)
        return style, shown, f"{names[i]} – {names[j]}: {estimate}, 95\u00a0% interval {interval(estimate)}"

    return {
        "unit": unit,
        "names": [names[j] for j in order],
        "rows": [(names[i], [cell(i, j) for j in order]) for i in order],
        "tab_stop": 0 if len(names) <= _TAB_STOPS else -1,
        "key": _colour_key(low, high, factor),
    }


def _colour(value: float, low: float, high: float) -> tuple[int, int, int]:
    """Return a colour on a logarithmic scale, light for near."""
    place = math.log(min(max(value, low), high) / low) / math.log(high / low) * (len(_VIRIDIS) - 1)
    left = min(int(place), len(_VIRIDIS) - 2)
    first, second = _VIRIDIS[left], _VIRIDIS[left + 1]
    red, green, blue = (round(a + (b - a) * (place - left)) for a, b in zip(first, second, strict=True))
    return red, green, blue


def luminance(colour: tuple[int, int, int]) -> float:
    """Return the relative luminance of a colour (WCAG 2)."""
    linear = [(c / 255 / 12.92) if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _readable_on(colour: tuple[int, int, int]) -> str:
    """Return black or white, whichever has a contrast of at least 4.5 on the colour."""
    bright = luminance(colour)
    return "#000" if (bright + 0.05) / 0.05 >= 1.05 / (bright + 0.05) else "#fff"


def _colour_key(low: float, high: float, factor: float) -> list[tuple[tuple[int, int, int], str]]:
    steps = [low * (high / low) ** (step / 4) for step in range(5)]
    labels = [f"{step / factor:{',.0f' if step >= 100 * factor else '.2g'}}" for step in steps]
    labels[0] = f"≤ {labels[0]}"
    return [(_colour(step, low, high), label) for step, label in zip(steps, labels, strict=True)]


def map_of(names: Sequence[str], scaling: Scaling) -> dict[str, Any]:
    """Return the map: a point, a 95 % ellipse and a label for each stream, and a grid for the scale."""
    radii, angles = _ellipses(scaling.covariances)
    reach = radii.max(axis=1)[:, None]
    # room for an ellipse larger than the map would shrink the map to a dot
    reach = np.minimum(reach, np.ptp(scaling.places, axis=0).max() or 1.0)
    low, high = (scaling.places - reach).min(axis=0), (scaling.places + reach).max(axis=0)
    spread = np.maximum(high - low, 1e-12)
    scale = float(min((_WIDTH - 2 * _MARGIN) / spread[0], (_HEIGHT - 2 * _MARGIN) / spread[1]))
    middle = (low + high) / 2
    points = np.array([_WIDTH / 2, _HEIGHT / 2]) + (scaling.places - middle) * scale * np.array([1.0, -1.0])
    square = _round_step(120 / scale)
    shapes = [*points.T, *np.maximum(radii * scale, 1).T, -angles]
    return {
        "width": f"{_WIDTH:.0f}",
        "height": f"{_HEIGHT:.0f}",
        "bottom": f"{_HEIGHT - 8:.0f}",
        "share": f"{100 * scaling.share:.0f}",
        "square": f"{square:,g}",
        "across": [f"{x:.1f}" for x in np.arange(square * scale, _WIDTH, square * scale)],
        "up": [f"{y:.1f}" for y in np.arange(square * scale, _HEIGHT, square * scale)],
        "ellipses": [
            (name, *(f"{number:.1f}" for number in shape))
            for name, shape in zip(names, np.stack(shapes, axis=1), strict=True)
        ],
        "labels": _labels([short(name, _LABEL) for name in names], points),
    }


def _ellipses(covariances: Floats) -> tuple[Floats, Floats]:
    """Return half axes (n, 2) and angles in degrees (n,) of 95 % ellipses."""
    values, vectors = np.linalg.eigh(covariances)
    radii = _RADIUS * np.sqrt(np.maximum(values[:, ::-1], 0.0))
    return radii, np.degrees(np.arctan2(vectors[:, 1, 1], vectors[:, 0, 1]))


def _round_step(length: float) -> float:
    power = 10.0 ** math.floor(math.log10(length))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= length * (1 - 1e-9))


def _labels(names: Sequence[str], points: Floats) -> list[tuple[str, str, str, str]]:
    """Return labels near their points, avoiding points and other labels if possible, with lines to distant ones."""
    taken = np.hstack([points - 5, points + 5])
    labels = []
    for name, (x, y) in zip(names, points, strict=True):
        width = _LETTER * len(name)
        boxes = np.array([_box(x, y, angle, far, width) for far in (9.0, 24.0, 42.0) for angle in range(0, 360, 45)])
        box = boxes[_clutter(boxes, taken).argmin()]
        taken = np.vstack([taken, box])
        leader = ""
        if max(box[0] - x, x - box[2], box[1] - y, y - box[3]) > 15:
            end_x, end_y = min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])
            leader = f"M{x:.1f} {y:.1f}L{end_x:.1f} {end_y:.1f}"
        labels.append((name, f"{box[0]:.1f}", f"{box[3] - 4:.1f}", leader))
    return labels


def _box(x: float, y: float, angle: int, far: float, width: float) -> tuple[float, float, float, float]:
    across, up = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    middle_x, middle_y = x + across * (far + width / 2), y - up * (far + _LINE / 2)
    return middle_x - width / 2, middle_y - _LINE / 2, middle_x + width / 2, middle_y + _LINE / 2


def _clutter(boxes: Floats, taken: Floats) -> Floats:
    """Return the area of each box that is taken or outside the picture."""
    over = np.minimum(boxes[:, None, 2:], taken[:, 2:]) - np.maximum(boxes[:, None, :2], taken[:, :2])
    outside = np.hstack([-boxes[:, :2], boxes[:, 2:] - (_WIDTH, _HEIGHT)])
    clutter: Floats = over.clip(0).prod(axis=2).sum(axis=1) + 100 * outside.clip(0).sum(axis=1)
    return clutter
