"""The picture of changes over time: a curve with its band for each key, the alarm line, and the alarms."""

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from streamsketch.core.documents import Json
from streamsketch.data.windows import window_time
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.changes import Changes, changes
from streamsketch.estimation.estimate import Estimate, estimate_cells, format_value
from streamsketch.estimation.intervals import Interval
from streamsketch.estimation.measures import ENOUGH_UNITS, MEASURES, By
from streamsketch.estimation.same import OF_SHAPE
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.report.pictures import round_step, unit_of
from streamsketch.report.series import series_in
from streamsketch.report.text import shorten, templates

MOST_KEYS = 24
"""Of a picture: it has a panel for each."""
LEAST_TYPICAL = 6
"""Windows, for what is typical of a series."""
LEVEL = 0.05
"""The probability of any false alarm on a page, in all of its series together."""
_WIDTH, _LEFT, _RIGHT = 720.0, 64.0, 24.0
_TALL, _LOW = 260.0, 140.0  # heights of the plot of one key, and of several
_HEAD, _FOOT, _LEGEND = 30.0, 30.0, 46.0
_LETTER = 6.8  # width
_MOST_POINTS = 150  # that are drawn as points, too
_MOST_LABELS = 12
_NAMES = ("window", "before")


class _Step(NamedTuple):
    """A window in a panel."""

    window: str
    x: float
    value: float
    low: float
    high: float
    line: float
    alarm: bool


def picture_of_changes(series: Mapping[str, Changes]) -> str:
    """Return an SVG picture of changes, which is as public as they are.

    A panel for each key: the estimated distance of each window from the one before or from the first, with its 95 %
    intervals as a band, the alarm line (dashed), and alarms as large points.

    Parameters
    ----------
    series
        At most 24 results of `streamsketch.changes` by key, of one kind. A series without keys has the key ``""``.

    Returns
    -------
    str
        An SVG document without scripts or links.

    Raises
    ------
    InvalidInputError
        For no key, or more than 24.
    """
    if not 0 < len(series) <= MOST_KEYS:
        raise InvalidInputError(f"a picture has 1 to {MOST_KEYS} keys, got {len(series)}; choose some of them")
    return templates().get_template("changes.svg.j2").render(drawing=drawing(series), alone=True)


def picture_of_series(table: pa.Table, measure: str) -> str:
    """Return an SVG picture of a curve with its band, as `streamsketch.continual.History.series` estimates it.

    Parameters
    ----------
    table
        Of one stream: columns ``window``, ``estimate``, ``low`` and ``high``.
    measure
        What is estimated, in words.

    Returns
    -------
    str
        An SVG document without scripts or links.
    """
    rows = [{**row, "line": math.nan, "alarm": False} for row in table.to_pylist()]
    shown = _drawing({"": rows}, measure) | {"level": None, "title": measure.capitalize(), "at_once": ""}
    return templates().get_template("changes.svg.j2").render(drawing=shown, alone=True)


def drawing(series: Mapping[str, Changes], among: int = 1) -> Json:
    """Return what the template of the picture shows, with intervals that hold for ``among`` pairs at once."""
    first = next(iter(series.values()))
    picture = _drawing({key: numbered_rows(result, among) for key, result in series.items()}, MEASURES[first.by].title)
    picture["measure"] += f", from the {'window before' if first.against == 'previous' else 'first window'}"
    at_once = ", all at once" if among > 1 else ""
    return picture | {"level": f"{100 * first.level:.2g}", "title": "Changes", "at_once": at_once}


def _drawing(rows: Mapping[str, list[Json]], measure: str) -> Json:
    """Return what the template shows of curves by key."""
    tall = _TALL if len(rows) == 1 else _LOW
    largest = np.nanmax([0.0, *(abs(row["estimate"]) for row in itertools.chain(*rows.values()))])
    factor, unit = unit_of(largest / 2)
    panels = [_panel(key, windows, tall, factor) for key, windows in rows.items()]
    top = 8.0
    for panel in panels:
        panel["top"] = top
        top += _HEAD + tall + _FOOT
    return {
        "width": f"{_WIDTH:.0f}",
        "height": f"{top + _LEGEND:.0f}",
        "left": _LEFT,
        "right": _WIDTH - _RIGHT,
        "foot": _HEAD + tall,
        "legend": top + 16,
        "panels": panels,
        "measure": measure + (f", in {unit}" if unit else ""),
    }


def numbered_rows(changes: Changes, among: int = 1) -> list[Json]:
    """Return the rows of a table of changes, with NaN for the numbers of windows that have no average.

    Each interval holds by itself or, on a page of ``among`` pairs, for all of them at once: a pair has one interval.
    """
    rows = [
        {name: math.nan if value is None and name not in _NAMES else value for name, value in row.items()}
        for row in changes.table.to_pylist()
    ]
    if among > 1:
        for row, test in zip(rows, changes.tests, strict=True):
            if test is not None:
                row["low"], row["high"] = test.distance.selected_interval(among)
    return rows


def _panel(key: str, rows: Sequence[Mapping[str, Any]], tall: float, factor: float) -> dict[str, Any]:
    """Return the lines, points and labels of one key."""
    names = [str(row["window"]) for row in rows]
    numbers = [tuple(row[name] / factor for name in ("estimate", "low", "high", "line")) for row in rows]
    # intervals and lines may have no end
    finite = [number for quantities in numbers for number in quantities if math.isfinite(number)]
    bottom, ceiling = min([0.0, *finite]), max([0.0, *finite])
    ceiling += 0.08 * (ceiling - bottom) or 1.0
    across = _across(names)

    def height(value: float) -> float:
        share = (min(max(value, bottom), ceiling) - bottom) / (ceiling - bottom)
        return float(round(_HEAD + tall * (1 - share), 1))

    steps = []
    for name, x, quantities, row in zip(names, across, numbers, rows, strict=True):
        value, low, high, line = (number if math.isnan(number) else height(number) for number in quantities)
        steps.append(_Step(name, x, value, low, high, line, alarm=bool(row["alarm"])))
    ticks = round_step((ceiling - bottom) / 5)
    heights = [place * ticks for place in range(math.ceil(bottom / ticks), math.floor(ceiling / ticks) + 1)]
    alarms = [step for step in steps if step.alarm]
    return {
        "key": shorten(key, 60) if key else "",
        "alarm_names": [step.window for step in alarms],
        "grid": [(f"{value:,.4g}", height(value)) for value in heights],
        "ticks": _ticks([(step.window, step.x) for step in steps]),
        "bands": [_band(run) for run in _runs(steps, "low", "high")],
        "curves": [_line(run, "value") for run in _runs(steps, "value")],
        "lines": [_line(run, "line", reach=8.0) for run in _runs(steps, "line")],
        "points": [(step.x, step.value, step.window) for step in steps if not step.alarm and not math.isnan(step.value)]
        if len(steps) <= _MOST_POINTS
        else [],
        "alarms": [(step.x, step.value, step.window) for step in alarms],
        "labels": _labels(alarms),
    }


def _across(names: Sequence[str]) -> list[float]:
    """Return where windows are from left to right: by time, or evenly if their names state no times."""
    times = [window_time(name) for name in names]
    dated = [time for time in times if time is not None]
    places: list[float] = [*map(float, dated)] if len(dated) == len(names) else [*map(float, range(len(names)))]
    low, spread = min(places, default=0.0), max(places, default=0.0) - min(places, default=0.0)
    width = _WIDTH - _LEFT - _RIGHT - 40
    return [round(_LEFT + 20 + width * ((place - low) / spread if spread else 0.5), 1) for place in places]


def _runs(steps: Sequence[_Step], *names: str) -> Iterator[list[_Step]]:
    """Yield stretches of windows in which some numbers are known."""
    for is_complete, run in itertools.groupby(
        steps, lambda step: not any(math.isnan(getattr(step, name)) for name in names)
    ):
        if is_complete:
            yield list(run)


def _line(run: Sequence[_Step], name: str, reach: float = 0.0) -> str:
    """Return the points of a line; one point alone becomes a line of twice ``reach``."""
    points = [(step.x, getattr(step, name)) for step in run]
    if reach:
        (first, start), (last, end) = points[0], points[-1]
        points = [(first - reach, start), *points, (last + reach, end)]
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def _band(run: Sequence[_Step]) -> str:
    """Return the outline of a band; of one window alone it is a bar."""
    wide = 3.0 if len(run) == 1 else 0.0
    upper = [(run[0].x - wide, run[0].high), *((step.x, step.high) for step in run), (run[-1].x + wide, run[-1].high)]
    lower = [(run[0].x - wide, run[0].low), *((step.x, step.low) for step in run), (run[-1].x + wide, run[-1].low)]
    return " ".join(f"{x:g},{y:g}" for x, y in [*upper, *reversed(lower)])


def _has_room(first: tuple[str, float], second: tuple[str, float]) -> bool:
    return second[1] - first[1] > _LETTER * len(second[0]) + 12


def _ticks(named: Sequence[tuple[str, float]]) -> Sequence[tuple[str, float]]:
    """Return every k-th window, with the least k for which their names have room."""
    every = (named[::each] for each in range(1, len(named) + 1))
    return next((some for some in every if all(map(_has_room, some, some[1:]))), named)


def _labels(alarms: Sequence[_Step]) -> list[tuple[str, float, float]]:
    """Return the names of alarms that have room beside those before them."""
    labels: list[tuple[str, float, float]] = []
    for alarm in alarms:
        if not labels or _has_room(labels[-1][:2], (alarm.window, alarm.x)):
            labels.append((alarm.window, alarm.x, alarm.value))
    return labels[:_MOST_LABELS]


def changes_in(releases: Mapping[str, PrivateSketch], by: By, among: int) -> Json | None:
    """Return the section on changes, if releases are windows of keys by their names, some of a key with two or more.

    Compared are averages where the report does, profiles where it compares these or cosines, and sums otherwise. Where
    a key has six windows or more, an alarm is a change larger than is usual in its series, otherwise any change beyond
    the noise. The level of false alarms is that of all series together (Bonferroni), as the first sentence of the page
    counts the alarms of all. Intervals hold for ``among`` pairs at once, which are all of the page.
    """
    series = {key: windows for key, windows in series_in(releases).items() if len(windows) > 1}
    results: dict[str, Changes] = {}
    for key, windows in series.items():
        tolerance: Any = "typical" if len(windows) >= LEAST_TYPICAL else 0.0
        with contextlib.suppress(InvalidInputError):  # averages of too few units
            results[key] = changes(
                {window: releases[name] for window, name in windows.items()},
                by="profile" if by in OF_SHAPE else "mean" if MEASURES[by].needs is ENOUGH_UNITS else "distance",
                tolerance=tolerance,
                level=LEVEL / len(series),
            )
    if not results:
        return None
    shown = dict(itertools.islice(results.items(), MOST_KEYS))
    rows = [(key, step_rows(result, among)) for key, result in results.items()]
    return {
        "drawing": drawing(shown, among),
        "all_keys": len(results),
        "shown": len(shown),
        "lacking": [shorten(key) for key in series if key not in results],
        "typical": any(result.tolerance for result in results.values()),
        "level": f"{100 * LEVEL:g}",
        "measure": MEASURES[next(iter(results.values())).by].title,
        "rows": rows,
        "alarms": [f"{key} {window}".strip() for key, result in results.items() for window in result.alarms],
    }


def step_rows(changes: Changes, among: int = 1) -> list[tuple[str, list[str]]]:
    """Return the windows of a series with the cells of their numbers; see `numbered_rows`."""
    return [_row(row) for row in numbered_rows(changes, among)]


def _row(row: Mapping[str, Any]) -> tuple[str, list[str]]:
    if math.isnan(row["estimate"]):
        p_value = "" if math.isnan(row["p_value"]) else f"{row['p_value']:.2g}"
        return row["window"], ["undefined" if p_value else "no average", "", "", p_value, "", ""]
    estimate = Estimate(row["estimate"], row["error"] ** 2, 0.0)
    cells = estimate_cells(estimate, Interval(row["low"], row["high"]))
    line = format_value(row["line"], row["error"]) if math.isfinite(row["line"]) else ""
    return row["window"], [*cells, f"{row['p_value']:.2g}", line, "alarm" if row["alarm"] else ""]
