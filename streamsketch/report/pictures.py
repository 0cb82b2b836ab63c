"""The data of the report's figures: a heat map of all pairs, and a map of the streams with their errors."""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import sentences
from streamsketch.core.documents import Json
from streamsketch.core.numbers import Floats
from streamsketch.estimation.estimate import format_value
from streamsketch.estimation.measures import MEASURES, By
from streamsketch.report.pairs import Pairs
from streamsketch.report.scaling import Scaling
from streamsketch.report.text import shorten

Colour = tuple[int, int, int]

_VIRIDIS = np.array(
    [(253, 231, 37), (159, 218, 58), (74, 193, 109), (31, 161, 135), (39, 127, 142), (54, 92, 141), (70, 50, 127)],
    dtype=np.float64,
)
_LEAST = 0.01  # of the cosines are darker than the scale
_NARROWEST = 0.05  # of the limits, that a linear scale covers
_NOTHING = (128, 128, 128)
_SHADES = 120  # of a picture's palette
_HATCH = 0.6  # how much lighter or darker the lines of a hatched cell are
_PIXELS = 1200  # about the width of a picture
_SCALES = (
    (1e12, "trillions"),
    (1e9, "billions"),
    (1e6, "millions"),
    (1e3, "thousands"),
    (1e-3, "thousandths"),
    (1e-6, "millionths"),
)
_THOUSAND = 1e3
_PLAIN = 0.01  # the least number that is shown as it is
_WIDTH, _HEIGHT, _MARGIN = 720.0, 560.0, 40.0
_RADIUS = 2.447746830680816  # of a 95 % ellipse in standard deviations: √χ²(0.95) of two degrees of freedom
_LETTER, _LINE = 7.2, 15.0  # about the width and height of a label's letters
_LABEL = 18
NUMBERED = 20
"""The most streams of which a heat map shows numbers: with more of them it would not fit the page's width."""
_MOSTLY = 0.8  # of the differences; a map of less may show what is far apart as near
_WHOLE = 40  # streams; beyond, a map is larger than the page
_FEW = 8  # streams, of which a small screen has room for the numbers
_NAMED = 64  # streams; beyond, the whole of a heat map is shown first, without names
_DISTANCES = (9.0, 24.0, 42.0, 60.0, 80.0, 105.0, 135.0)  # of a label from its point
_CLUTTER = 0.02  # of a label's area, that others may cover
_TAB_STOPS = 8  # streams; beyond, the stops would be too many, and keyboard users have the table of all pairs


class Scale(NamedTuple):
    """What colours mean: light for the nearest, dark for the farthest."""

    nearest: float
    farthest: float
    logarithmic: bool

    def places(self, values: Floats) -> Floats:
        """Return where values lie between the nearest, 0, and the farthest, 1."""
        low, high = sorted((self.nearest, self.farthest))
        inside = np.clip(values, low, high)
        if self.logarithmic:
            places: Floats = np.log(inside / self.nearest) / math.log(self.farthest / self.nearest)
        else:
            places = (inside - self.nearest) / (self.farthest - self.nearest)
        return places

    def steps(self) -> list[float]:
        """Return five values from the nearest to the farthest, evenly spaced on the scale."""
        if self.logarithmic:
            return [self.nearest * (self.farthest / self.nearest) ** (step / 4) for step in range(5)]
        return [self.nearest + (self.farthest - self.nearest) * step / 4 for step in range(5)]


def scale_of(pairs: Pairs, by: By) -> Scale:
    """Return a scale for (n, n) estimates: linear if the measure has limits, otherwise logarithmic."""
    apart = ~np.eye(len(pairs.value), dtype=bool)
    values = pairs.value[apart]
    measure = MEASURES[by]
    if measure.limits is not None:
        low, high = measure.limits
        least = _NARROWEST * (high - low)
        if measure.sign > 0:
            nearest = max(low, float(values.min()))
            return Scale(nearest, max(min(high, float(values.max())), nearest + least), logarithmic=False)
        nearest = min(high, float(values.max()))
        # the least of many cosines shows only noise
        farthest = max(low, float(np.quantile(values, _LEAST)))
        return Scale(nearest, min(farthest, nearest - least), logarithmic=False)
    # colours below the least standard error would show only noise
    low = max(float(pairs.error[apart].min()), float(values.max()) / 1e6, 1e-12)
    return Scale(low, max(float(values.max()), 10 * low), logarithmic=True)


def colours(places: Floats) -> NDArray[np.uint8]:
    """Return colours of places from 0, the nearest, to 1, the farthest: (…, 3)."""
    along = places * (len(_VIRIDIS) - 1)
    left = np.minimum(along.astype(np.intp), len(_VIRIDIS) - 2)
    part = (along - left)[..., None]
    shades: NDArray[np.uint8] = np.rint(_VIRIDIS[left] + (_VIRIDIS[left + 1] - _VIRIDIS[left]) * part).astype(np.uint8)
    return shades


def colour(place: float) -> Colour:
    """Return the colour of one place."""
    red, green, blue = colours(np.array(place)).tolist()
    return red, green, blue


def luminance(colour: Colour) -> float:
    """Return the relative luminance of a colour (WCAG 2)."""
    linear = [(c / 255 / 12.92) if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def readable_on(colour: Colour) -> str:
    """Return black or white, whichever has a contrast of at least 4.5 on the colour."""
    bright = luminance(colour)
    return "#000" if (bright + 0.05) / 0.05 >= 1.05 / (bright + 0.05) else "#fff"


def picture(places: Floats, unclear: NDArray[np.bool_]) -> str:
    """Return (n, n) places as a PNG of a square each, base64: hatched where unclear, and grey on the diagonal."""
    n = len(places)
    size = max(2, min(8, _PIXELS // n))
    shades = np.rint(places * (_SHADES - 1)).astype(np.uint8)
    plain = colours(np.linspace(0, 1, _SHADES))
    towards = np.array([[0 if readable_on(colour(place)) == "#000" else 255] for place in np.linspace(0, 1, _SHADES)])
    hatch = np.rint((1 - _HATCH) * plain + _HATCH * towards)
    palette = np.concatenate([plain, hatch, [_NOTHING]]).astype(np.uint8)
    shades[np.eye(n, dtype=bool)] = 2 * _SHADES
    rows, columns = np.indices((size, size))
    hatched = (rows + columns) % max(2, size // 2) == 0
    cells = np.repeat(np.repeat(shades, size, axis=0), size, axis=1)
    cells[np.kron(unclear, hatched).astype(bool)] += _SHADES
    lines = b"".join(b"\0" + row.tobytes() for row in cells)
    header = struct.pack(">IIBBBBB", n * size, n * size, 8, 3, 0, 0, 0)  # 8 bits, of a palette
    chunks = [(b"IHDR", header), (b"PLTE", palette.tobytes()), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")]
    file = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in chunks)
    return base64.b64encode(file).decode()


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def heat_map(names: Sequence[str], pairs: Pairs, order: Sequence[int], by: By, scale: Scale) -> Json:
    """Return all comparisons as coloured cells: with error bars as tooltips or, of many streams, as one picture."""
    measure = MEASURES[by]
    factor, unit = display_unit(pairs, by)
    places = scale.places(pairs.value)
    unclear = pairs.unclear
    facts: Json = {
        "unit": unit,
        "names": [names[j] for j in order],
        "tab_stop": 0 if len(names) <= _TAB_STOPS else -1,
        "key": colour_key(scale, factor),
        "picture": None,
        "unclear": int(unclear.sum()) // 2,
        "many": len(names) > _FEW,
    }
    if len(names) > NUMBERED:
        chosen = np.ix_(order, order)
        inside = np.where(np.eye(len(names), dtype=bool), 0.0, places)[chosen]
        drawn = picture(inside, unclear[chosen])
        return facts | {"picture": drawn, "whole": len(names) > _NAMED, "each": -(-len(names) // _NAMED)}

    def cell(i: int, j: int) -> Json | None:
        if i == j:
            return None
        value, filling = float(pairs.value[i, j]), colour(float(places[i, j]))
        shown = f"{value:.2f}" if measure.sign < 0 else format_value(value / factor, float(pairs.error[i, j]) / factor)
        estimate, error, interval = pairs.cells(i, j)
        hatched = f"; {sentences.UNCLEAR}" if unclear[i, j] else ""
        return {
            "style": f"background-color:rgb{filling};color:{readable_on(filling)}",
            "shown": "0.00" if shown == "-0.00" else shown,
            "unclear": bool(unclear[i, j]),
            "light": readable_on(filling) == "#000",
            "tip": f"{names[i]} – {names[j]}: {estimate} ± {error}, 95\u00a0% interval {interval}{hatched}",
        }

    return facts | {"rows": [(names[i], [cell(i, j) for j in order]) for i in order]}


def display_unit(pairs: Pairs, by: By) -> tuple[float, str]:
    """Return by what to divide the numbers of a heat map, and the word for that, or ``""``."""
    measure = MEASURES[by]
    if measure.sign < 0:
        return 1.0, ""
    size = float(np.median(np.abs(pairs.value[~np.eye(len(pairs.value), dtype=bool)])))
    return unit_of(size if measure.limits is None else min(size, measure.limits[1]))


def unit_of(size: float) -> tuple[float, str]:
    """Return by what to divide numbers of a size, and the word for that, or ``""``."""
    if _PLAIN <= size < _THOUSAND:
        return 1.0, ""
    return next((pair for pair in _SCALES if size >= pair[0]), _SCALES[-1] if size > 0 else (1.0, ""))


def colour_key(scale: Scale, factor: float) -> list[tuple[Colour, str]]:
    """Return five colours of a scale and what they mean."""
    labels = [f"{step / factor:{',.0f' if step >= 100 * factor else '.2g'}}" for step in scale.steps()]
    labels[0] = f"{'≤' if scale.nearest < scale.farthest else '≥'} {labels[0]}"
    return [(colour(step / 4), label) for step, label in enumerate(labels)]


def map_of(names: Sequence[str], scaling: Scaling) -> Json:
    """Return the map: a point, a 95 % ellipse and a label for each stream, and a grid for the scale.

    Of many streams it is drawn larger, with two sets of labels: all for its full size, and large ones, as many as fit,
    for the whole of it in the width of the page.
    """
    grown = max(1.0, math.sqrt(len(names) / _WHOLE))
    width, height = _WIDTH * grown, _HEIGHT * grown
    radii, angles = _ellipses(scaling.covariances)
    reach = radii.max(axis=1)[:, None]
    # room for an ellipse larger than the map would shrink the map to a dot
    reach = np.minimum(reach, np.ptp(scaling.places, axis=0).max() or 1.0)
    low, high = (scaling.places - reach).min(axis=0), (scaling.places + reach).max(axis=0)
    spread = np.maximum(high - low, 1e-12)
    scale = float(min((width - 2 * _MARGIN) / spread[0], (height - 2 * _MARGIN) / spread[1]))
    middle = (low + high) / 2
    points = np.array([width / 2, height / 2]) + (scaling.places - middle) * scale * np.array([1.0, -1.0])
    square = round_step(120 * grown / scale)
    shapes = [*points.T, *np.maximum(radii * scale, 1).T, -angles]
    labels = [shorten(name, _LABEL) for name in names]
    return {
        "width": f"{width:.0f}",
        "height": f"{height:.0f}",
        "bottom": f"{height - 8:.0f}",
        "share": f"{math.floor(100 * scaling.share + 1e-9)}",
        "partly": scaling.share < _MOSTLY,
        "square": f"{square:,g}",
        "zoom": grown > 1,
        "radius": f"{3.5 * math.sqrt(grown):.1f}",
        "letters": f"{13 * grown:.0f}",
        "across": [f"{x:.1f}" for x in np.arange(square * scale, width, square * scale)],
        "up": [f"{y:.1f}" for y in np.arange(square * scale, height, square * scale)],
        "ellipses": [
            (name, *(f"{number:.1f}" for number in shape))
            for name, shape in zip(names, np.stack(shapes, axis=1), strict=True)
        ],
        "labels": _labels(labels, points, (width, height), 1.0),
        "large": _labels(labels, points, (width, height), grown) if grown > 1 else [],
    }


def _ellipses(covariances: Floats) -> tuple[Floats, Floats]:
    """Return half axes (n, 2) and angles in degrees (n,) of 95 % ellipses."""
    values, vectors = np.linalg.eigh(covariances)
    radii = _RADIUS * np.sqrt(np.maximum(values[:, ::-1], 0.0))
    return radii, np.degrees(np.arctan2(vectors[:, 1, 1], vectors[:, 0, 1]))


def round_step(length: float) -> float:
    """Return the least of 1, 2, 5, 10, 20 and so on that is not below a length."""
    power = 10.0 ** math.floor(math.log10(length))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= length * (1 - 1e-9))


def _labels(
    names: Sequence[str], points: Floats, size: tuple[float, float], grown: float
) -> list[tuple[int, str, str, str, str]]:
    """Return labels near their points, in free places, with lines to distant ones; without one, a label is left out.

    Of a map that is larger than the page, labels for its whole may cover points.
    """
    taken = np.hstack([points - 5, points + 5]) if grown == 1 else np.empty((0, 4))
    labels = []
    for place, (name, (x, y)) in enumerate(zip(names, points, strict=True)):
        width, line = _LETTER * grown * len(name), _LINE * grown
        distances = _DISTANCES if grown == 1 else _DISTANCES[:1]
        boxes = np.array([_box(x, y, angle, far, width, line) for far in distances for angle in range(0, 360, 30)])
        clutter = _clutter(boxes, taken, size)
        free = np.flatnonzero(clutter <= _CLUTTER * width * line)
        if not len(free):
            continue
        box = boxes[free[0]]
        taken = np.vstack([taken, box])
        leader = ""
        if max(box[0] - x, x - box[2], box[1] - y, y - box[3]) > 15:
            end_x, end_y = min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])
            leader = f"M{x:.1f} {y:.1f}L{end_x:.1f} {end_y:.1f}"
        labels.append((place, name, f"{box[0]:.1f}", f"{box[3] - 4 * grown:.1f}", leader))
    return labels


def _box(x: float, y: float, angle: int, far: float, width: float, line: float) -> tuple[float, float, float, float]:
    across, up = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    middle_x, middle_y = x + across * (far + width / 2), y - up * (far + line / 2)
    return middle_x - width / 2, middle_y - line / 2, middle_x + width / 2, middle_y + line / 2


def _clutter(boxes: Floats, taken: Floats, size: tuple[float, float]) -> Floats:
    """Return the area of each box that is taken or outside the picture."""
    over = np.minimum(boxes[:, None, 2:], taken[:, 2:]) - np.maximum(boxes[:, None, :2], taken[:, :2])
    outside = np.hstack([-boxes[:, :2], boxes[:, 2:] - size])
    clutter: Floats = over.clip(0).prod(axis=2).sum(axis=1) + 100 * outside.clip(0).sum(axis=1)
    return clutter
