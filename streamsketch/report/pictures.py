"""The report's pictures: a heat map as a table, and a map of the plane as SVG."""

import math
from collections.abc import Sequence
from html import unescape

import numpy as np

from streamsketch.estimation import Estimates, rounded
from streamsketch.report.scaling import Floats, Scaling
from streamsketch.report.text import safe, with_error

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
_REACH = 2.447746830680816  # of a 95 % ellipse in standard deviations: √χ²(0.95) of two degrees of freedom
_LETTER, _LINE = 7.2, 15.0  # about the width and height of a label's letters
_LABEL = 18
_TAB_STOPS = 20  # streams; beyond, the tables below serve those who have no pointer


def heat_map(names: Sequence[str], distances: Estimates, order: Sequence[int]) -> str:
    """Return all squared distances as a coloured table; a cell says its error bar under the pointer or a finger."""
    value, error = distances.value, distances.standard_error
    apart = ~np.eye(len(names), dtype=bool)
    # colours below the least standard error would show noise alone
    low = max(float(error[apart].min()), float(value.max()) / 1e6, 1e-12)
    high = max(float(value.max()), 10 * low)
    factor, unit = next((pair for pair in _SCALES if np.median(np.abs(value[apart])) >= pair[0]), (1.0, ""))
    heads = "".join(f'<th scope="col"><span>{safe(names[j], _LABEL)}</span></th>' for j in order)
    rows = []
    for i in order:
        cells = "".join(_cell(names, distances, i, j, (low, high), factor) for j in order)
        rows.append(f'<tr><th scope="row">{safe(names[i], _LABEL)}</th>{cells}</tr>')
    in_units = f", in {unit}" if unit else ""
    return (
        f'<table class="heat"><caption>Squared distances{in_units}. Like streams are side by side; the same pair '
        f"stands on both sides of the diagonal.</caption><thead><tr><td></td>{heads}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>{_colour_key(low, high, factor)}"
    )


def _cell(names: Sequence[str], distances: Estimates, i: int, j: int, ends: tuple[float, float], factor: float) -> str:
    if i == j:
        return '<td class="none"></td>'
    estimate = distances[i, j]
    colour = _colour(estimate.value, *ends)
    shown = rounded(estimate.value / factor, estimate.standard_error / factor)
    tip = f"{safe(names[i])} – {safe(names[j])}: {with_error(estimate)}"
    stop = 0 if len(names) <= _TAB_STOPS else -1
    return (
        f'<td tabindex="{stop}" style="background:rgb{colour};color:{_readable_on(colour)}">{shown}'
        f'<span class="tip">{tip}</span></td>'
    )


def _colour(value: float, low: float, high: float) -> tuple[int, int, int]:
    """Return a colour of a logarithmic scale, light for near."""
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
    """Return black or white: one of the two has a contrast of 4.5 or more on any colour."""
    bright = luminance(colour)
    return "#000" if (bright + 0.05) / 0.05 >= 1.05 / (bright + 0.05) else "#fff"


def _colour_key(low: float, high: float, factor: float) -> str:
    steps = [low * (high / low) ** (step / 4) for step in range(5)]
    items = "".join(
        f'<li><i style="background:rgb{_colour(step, low, high)}"></i>{"≤ " if step == low else ""}'
        f"{step / factor:{',.0f' if step >= 100 * factor else '.2g'}}</li>"
        for step in steps
    )
    return f'<ul class="key" aria-label="Colours">{items}</ul>'


def map_of(names: Sequence[str], scaling: Scaling) -> str:
    """Return the plane as SVG: a point, a 95 % ellipse and a name for each stream, and a grid that gives the scale."""
    radii, angles = _ellipses(scaling.covariances)
    reach = radii.max(axis=1)[:, None]
    # room for an ellipse larger than the map itself would shrink the map to a dot
    reach = np.minimum(reach, np.ptp(scaling.places, axis=0).max() or 1.0)
    low, high = (scaling.places - reach).min(axis=0), (scaling.places + reach).max(axis=0)
    spread = np.maximum(high - low, 1e-12)
    scale = float(min((_WIDTH - 2 * _MARGIN) / spread[0], (_HEIGHT - 2 * _MARGIN) / spread[1]))
    middle = (low + high) / 2
    points = np.array([_WIDTH / 2, _HEIGHT / 2]) + (scaling.places - middle) * scale * np.array([1.0, -1.0])
    step = _round_step(120 / scale)
    parts = [_grid(step * scale, step)]
    for i, (x, y) in enumerate(points):
        rx, ry = radii[i] * scale
        parts.append(
            f'<ellipse class="reach" cx="{x:.1f}" cy="{y:.1f}" rx="{max(rx, 1):.1f}" ry="{max(ry, 1):.1f}" '
            f'transform="rotate({-angles[i]:.1f} {x:.1f} {y:.1f})"><title>{safe(names[i])}</title></ellipse>'
        )
    parts += [f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points]
    parts += _labels([safe(name, _LABEL) for name in names], points)
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" aria-labelledby="map-title map-text">'
        f'<title id="map-title">Map of the streams</title><desc id="map-text">Streams that are near one another have '
        f"near points; ellipses are where they may be. The table below holds the same numbers.</desc>"
        f"{''.join(parts)}</svg>"
    )


def _ellipses(covariances: Floats) -> tuple[Floats, Floats]:
    """Return half axes (n, 2) and angles in degrees (n,) of 95 % ellipses."""
    values, vectors = np.linalg.eigh(covariances)
    radii = _REACH * np.sqrt(np.maximum(values[:, ::-1], 0.0))
    return radii, np.degrees(np.arctan2(vectors[:, 1, 1], vectors[:, 0, 1]))


def _round_step(length: float) -> float:
    power = 10.0 ** math.floor(math.log10(length))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= length * (1 - 1e-9))


def _grid(step: float, length: float) -> str:
    lines = [f'<path class="grid" d="M{x:.1f} 0V{_HEIGHT:.0f}"/>' for x in np.arange(step, _WIDTH, step)]
    lines += [f'<path class="grid" d="M0 {y:.1f}H{_WIDTH:.0f}"/>' for y in np.arange(step, _HEIGHT, step)]
    return "".join(lines) + f'<text class="measure" x="8" y="{_HEIGHT - 8:.0f}">a square is {length:,g} wide</text>'


def _labels(names: Sequence[str], points: Floats) -> list[str]:
    """Return labels beside their points, where possible over no point and no other label."""
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    parts = []
    for name, (x, y) in zip(names, points, strict=True):
        width = _LETTER * len(unescape(name))
        boxes = [_box(x, y, angle, far, width) for far in (9.0, 24.0, 42.0) for angle in range(0, 360, 45)]
        box = min(boxes, key=lambda box: _clutter(box, taken))
        taken.append(box)
        if max(box[0] - x, x - box[2], box[1] - y, y - box[3]) > 15:
            end_x, end_y = min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])
            parts.append(f'<path class="leader" d="M{x:.1f} {y:.1f}L{end_x:.1f} {end_y:.1f}"/>')
        parts.append(f'<text x="{box[0]:.1f}" y="{box[3] - 4:.1f}">{name}</text>')
    return parts


def _box(x: float, y: float, angle: int, far: float, width: float) -> tuple[float, float, float, float]:
    across, up = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    middle_x, middle_y = x + across * (far + width / 2), y - up * (far + _LINE / 2)
    return middle_x - width / 2, middle_y - _LINE / 2, middle_x + width / 2, middle_y + _LINE / 2


def _clutter(box: tuple[float, float, float, float], taken: Sequence[tuple[float, float, float, float]]) -> float:
    """Return the area of a box that is taken or outside the picture."""
    left, top, right, bottom = box
    over = sum(
        max(0.0, min(right, other[2]) - max(left, other[0])) * max(0.0, min(bottom, other[3]) - max(top, other[1]))
        for other in taken
    )
    outside = max(0.0, -left) + max(0.0, right - _WIDTH) + max(0.0, -top) + max(0.0, bottom - _HEIGHT)
    return over + 100 * outside
