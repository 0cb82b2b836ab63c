"""What separates streams: bars with intervals around zero, as a picture of their own and in the report."""

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.documents import Json
from streamsketch.errors import printable
from streamsketch.estimation.blocks import block_of
from streamsketch.estimation.differences import (
    DifferenceBy,
    Differences,
    differences_from_others,
    differences_of_pairs,
    top_differences,
)
from streamsketch.estimation.estimate import Estimate, estimate_cells
from streamsketch.estimation.intervals import Interval
from streamsketch.estimation.means import few_units
from streamsketch.estimation.measures import By
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.report.pictures import round_step
from streamsketch.report.text import shorten, templates

_WIDTH, _LEFT, _RIGHT = 720.0, 210.0, 700.0
_TOP, _BOTTOM, _ROW, _BAR = 46.0, 34.0, 24.0, 12.0
_NAME = 26  # letters
_STREAM = 22
_TICKS = 6
_OF_PAIR, _OF_EACH = 10, 5  # bars
_MOST_CHARTS = 40
_MOST_PAIRED = 40  # streams, whose pairs add about 150 kB to a page
_COLOURS = {"first": "#1f5fa8", "second": "#b35900", "neither": "#8a9199"}


def picture_of_differences(differences: Differences, first: str, second: str) -> str:
    """Return an SVG picture of what separates two streams; **as secret as a raw sketch** if one took part.

    A bar for each row of the table, from zero to the estimate, with its interval. Bars are blue where the first stream
    has more, orange where the second one has, and grey where the interval holds zero.

    Parameters
    ----------
    differences
        From `streamsketch.top_differences`.
    first, second
        Names of the streams.

    Returns
    -------
    str
        An SVG document without scripts or links.
    """
    return templates().get_template("differences.svg.j2").render(bars=bars_of(differences, first, second), alone=True)


class Dictionary(NamedTuple):
    """What may occur in streams, as `streamsketch.top_differences` takes it."""

    items: Any
    category: Any = None
    agreement: Agreement | None = None


def separated(releases: Mapping[str, PrivateSketch], why: Dictionary, asked: By | None) -> Json:
    """Return what the section on differences shows.

    Each of several streams is compared with the average of the others, not with each other one: these n figures
    show what is special about each stream, where n(n - 1)/2 would repeat it. Averages over units are compared where all
    units were counted, as sums measure size, unless distances of sums were ``asked`` for; else sums.
    """
    names, sketches = list(releases), list(releases.values())
    by = _differences_by(sketches, asked)
    options: dict[str, Any] = {"by": by, "category": why.category, "agreement": why.agreement}
    if len(names) == 2:
        pair = top_differences(sketches[0], sketches[1], why.items, _OF_PAIR, **options)
        shown = [("0 1", f"{shorten(names[0])} – {shorten(names[1])}", names[0], names[1], pair)]
    else:
        differences = differences_from_others(sketches, why.items, _OF_EACH, **options)
        shown = [
            (str(place), shorten(name), name, "the others", difference)
            for place, (name, difference) in enumerate(zip(names, differences, strict=True))
        ]
        shown.sort(key=lambda chart: -chart[4].n_separated)
    return {
        "pair": len(names) == 2,
        "category": why.category is not None,
        "of": "averages" if by == "mean" else "sums",
        "candidates": f"{shown[0][4].candidates:,}",
        "left_out": max(len(shown) - _MOST_CHARTS, 0),
        "charts": [
            (
                places,
                title,
                f"{difference.n_separated:,}",
                bars_of(difference, first, second),
                [(shorten(item_text(row["item"])), row_cells(row)) for row in difference.table.to_pylist()],
            )
            for places, title, first, second, difference in shown[:_MOST_CHARTS]
        ],
    }


def _differences_by(sketches: Sequence[PrivateSketch], asked: By | None) -> DifferenceBy:
    block = block_of(sketches)
    counted = block.units is not None and not np.isnan(block.units.number).any() and not few_units(block).any()
    return "mean" if counted and asked != "distance" else "distance"


def pair_facts(releases: Mapping[str, PrivateSketch], why: Dictionary, asked: By | None) -> Json | None:
    """Return what separates each pair of several streams, for a script; None for two, or for more than 40.

    ``base64`` is that of a zlib stream of bytes, a row for each of ``rows`` items of each pair i < j, row by row: items
    as places in ``items`` (uint32), then estimates, errors, lows and highs (float32), each the first bytes of all its
    numbers, little-endian, then the second ones and so on. ``separated`` counts the items of each pair whose interval
    leaves out 0. The intervals of one pair hold at once.
    """
    sketches = list(releases.values())
    if not 2 < len(sketches) <= _MOST_PAIRED:
        return None
    by = _differences_by(sketches, asked)
    options: dict[str, Any] = {"by": by, "category": why.category, "agreement": why.agreement}
    pairs = list(differences_of_pairs(sketches, why.items, _OF_PAIR, **options))
    places: dict[str, int] = {}
    for pair in pairs:
        for item in pair.table["item"].to_pylist():
            places.setdefault(shorten(item_text(item)), len(places))
    shown = [places[shorten(item_text(item))] for pair in pairs for item in pair.table["item"].to_pylist()]
    columns = [np.array(shown, dtype="<u4")] + [
        np.concatenate([pair.table[name].to_numpy() for pair in pairs]).astype("<f4")
        for name in ("estimate", "error", "low", "high")
    ]
    planes = b"".join(column.view(np.uint8).reshape(-1, 4).T.tobytes() for column in columns)
    return {
        "of": "averages" if by == "mean" else "sums",
        "candidates": pairs[0].candidates,
        "separated": [pair.n_separated for pair in pairs],
        "items": list(places),
        "rows": len(pairs[0].table),
        "base64": base64.b64encode(zlib.compress(planes, 9)).decode(),
    }


def bars_of(differences: Differences, first: str, second: str) -> Json:
    """Return what the template of the bars needs: places in pixels, and texts."""
    rows = differences.table.to_pylist()
    ends = [end for row in rows for end in (row["estimate"], row["low"], row["high"]) if math.isfinite(end)]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    if low == high:
        low, high = -1.0, 1.0
    step = round_step((high - low) / _TICKS)

    def across(value: float) -> float:
        inside = min(max(value, low), high)
        return float(round(_LEFT + (_RIGHT - _LEFT) * (inside - low) / (high - low), 1))

    height = _TOP + _ROW * len(rows) + _BOTTOM
    return {
        "width": _WIDTH,
        "height": height,
        "top": _TOP - 6,
        "bottom": height - _BOTTOM,
        "left": _LEFT,
        "right": _RIGHT,
        "zero": across(0.0),
        "first": shorten(first, _STREAM),
        "second": shorten(second, _STREAM),
        "colours": _COLOURS,
        "of": "averages" if differences.by == "mean" else "sums",
        "confidence": f"{100 * differences.confidence:g}\u00a0%",
        "secret": differences.secret,
        "ticks": [
            (f"{place * step:,g}", across(place * step))
            for place in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        ],
        "rows": [
            {
                "name": shorten(item_text(row["item"]), _NAME),
                "text": row_text(row),
                "more": more_in(row),
                "y": round(_TOP + _ROW * (place + 0.5), 1),
                "bar": round(_TOP + _ROW * (place + 0.5) - _BAR / 2, 1),
                "thick": _BAR,
                "x": min(across(0.0), across(row["estimate"])),
                "long": round(abs(across(row["estimate"]) - across(0.0)), 1),
                "low": across(row["low"]),
                "high": across(row["high"]),
            }
            for place, row in enumerate(rows)
        ],
    }


def more_in(row: Json) -> str:
    """Return which stream has more of a row's item: "first", "second", or "neither" if its interval holds 0."""
    return "first" if row["low"] > 0 else "second" if row["high"] < 0 else "neither"


def row_text(row: Json) -> str:
    """Return a row in words."""
    value, error, interval = row_cells(row)
    return f"{item_text(row['item'])}: {value} ± {error}, {interval}"


def row_cells(row: Json) -> tuple[str, str, str]:
    """Return a row's estimate, standard error and interval."""
    return estimate_cells(Estimate(row["estimate"], row["error"] ** 2, 0.0), Interval(row["low"], row["high"]))


def item_text(item: object) -> str:
    """Return an item, or a category, as text: the parts of a tuple with commas between them."""
    if isinstance(item, dict):
        return ", ".join(map(item_text, item.values()))
    return "(missing)" if item is None else printable(item.hex() if isinstance(item, bytes) else str(item))
