"""The page of a federation: readable by a board, without network or other files, and complete without its script."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from streamsketch.core.documents import Json
from streamsketch.estimation.estimate import Estimate, estimate_cells, format_value
from streamsketch.estimation.estimate_arrays import Estimates
from streamsketch.estimation.groups import ordered_tree
from streamsketch.estimation.intervals import Interval
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.release.private_table import PrivateTable
from streamsketch.report.changes import MOST_KEYS, drawing, step_rows
from streamsketch.report.federation import Federation, column_words, differing_words, listed
from streamsketch.report.guarantees import guarantees
from streamsketch.report.page import made
from streamsketch.report.pairs import Pairs, pairs_of
from streamsketch.report.pictures import colour_key, display_unit, map_of, round_step, scale_of
from streamsketch.report.scaling import classical_scaling
from streamsketch.report.script import comparison_facts, facts_as_json, script, script_digest, tree_facts
from streamsketch.report.text import shorten, templates

if TYPE_CHECKING:
    from streamsketch.estimation.sites import SiteComparison

_MOST_MEASURES = 6  # of one column, in the table of all sites
_NAMED = 6  # sites; of more, only the number is said
_ACROSS = 6  # columns of numbers, which fit the width of a sheet of paper
_ONE_IN = 1_000_000
_UNKNOWN = "unknown"
_MEAN, _SHARE = "mean", "share of "


def page_of_federation(
    federation: Federation, published: Mapping[str, PrivateSketch | PrivateTable] | None = None, *, title: str
) -> str:
    """Return the report of a federation, as HTML.

    It contains only what anyone could compute from the releases, so it is as public as they are.

    Parameters
    ----------
    federation
        From `federation_of`.
    published
        The releases as published, with tables as one release each; by default each by itself.
    title
        The page's heading.
    """
    comparison = federation.comparison
    promised = guarantees(federation.releases, published or federation.releases)
    order = _order(federation)
    return (
        templates()
        .get_template("federation.html.j2")
        .render(
            title=title,
            answer=federation.answer,
            unit=federation.unit,
            releases=len(federation.releases),
            cells=f"{next(iter(federation.releases.values())).projection.sketch_dim:,}",
            sites=None if comparison is None else _sites(federation),
            differing=[] if comparison is None else _differing(federation),
            map=None if order is None else _map(federation, order),
            live=None if order is None else _live(federation, order, title, promised["brief"]),
            script=script(),
            script_digest=script_digest(),
            people=_people(federation),
            tables=_tables(federation),
            drift=_drift(federation),
            pairs=_pairs(federation),
            absent=federation.absent,
            guarantees=promised,
        )
    )


def _root(value: float) -> float:
    return math.sqrt(max(value, 0.0))


def _track(value: float, low: float, high: float, end: float) -> dict[str, str]:
    """Return where a bar's parts are, in percent."""
    value, low, high = (min(number, end) / end * 100 for number in (value, low, high))
    return {"low": f"{low:.2f}", "wide": f"{max(high - low, 0.4):.2f}", "at": f"{value:.2f}"}


def _sites(federation: Federation) -> Json:
    """Return how far each site is from the others, farthest first: lengths, not squared."""
    comparison = cast("SiteComparison", federation.comparison)  # asked for only where there is one
    rows = sorted(comparison.sites.to_pylist(), key=lambda row: (not row["stands_out"], -row["estimate"]))
    end, ticks = _scale([_root(row["estimate"]) * 1.15 for row in rows] + [_root(row["high"]) for row in rows])
    return {
        "ticks": ticks,
        "others": _others(comparison.others),
        "level": f"{100 * comparison.level:g}",
        "p_level": f"{comparison.level:g}",
        "tolerance": f"{comparison.tolerance:g}" if comparison.tolerance else "",
        "rows": [
            {
                "name": shorten(row["site"]),
                "out": row["stands_out"],
                "chance": _chance(row["p_value"]) if row["stands_out"] else "",
                "window": federation.windows.get(row["site"], ""),
                "track": _track(_root(row["estimate"]), _root(row["low"]), _root(row["high"]), end),
                "cells": [*_cells(row), "surely above" if row["p_value"] is None else f"{row['p_value']:.2g}"],
            }
            for row in rows
        ],
    }


def _others(names: Sequence[str]) -> str:
    return listed([shorten(name) for name in names]) if len(names) <= _NAMED else f"{len(names)} sites"


def _scale(values: Sequence[float]) -> tuple[float, list[tuple[str, str]]]:
    """Return the end of an axis from 0 and its ticks, each with its place in percent."""
    most = max([*values, 1e-6])
    step = round_step(most / 4)
    end = step * math.ceil(most / step - 1e-9)
    return end, [(f"{place * step:g}", f"{100 * place * step / end:.2f}") for place in range(round(end / step) + 1)]


def _chance(p_value: float | None) -> str:
    """Return how likely a result as large is by chance, at most, in words."""
    if p_value is None:
        return ""
    if p_value < 1 / _ONE_IN:
        return f"less than 1 in {_ONE_IN:,}"
    rounded = float(f"{1 / p_value:.1g}")
    return f"about 1 in {rounded:,.0f}"


def _cells(row: Mapping[str, Any]) -> tuple[str, str, str]:
    if math.isnan(row["estimate"]):
        return _UNKNOWN, "", ""
    return estimate_cells(Estimate(row["estimate"], row["error"] ** 2, 0.0), Interval(row["low"], row["high"]))


def _lengths(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return a distance and its interval, not squared."""
    value, low, high = (_root(row[name]) for name in ("estimate", "low", "high"))
    error = (high - low) / 4
    return format_value(value, error), f"{format_value(low, error)} … {format_value(high, error)}"


def _differing(federation: Federation) -> list[Json]:
    """Return, for each site that stands out, the columns that differ, with what they hold here and elsewhere."""
    comparison = cast("SiteComparison", federation.comparison)  # asked for only where there is one
    others = _described(comparison.of_others.to_pylist())
    every = comparison.columns.to_pylist()
    here: dict[str, list[Json]] = {}
    for row in comparison.description.to_pylist():
        here.setdefault(row["site"], []).append(row)
    sites = []
    for site in comparison.outstanding:
        columns = [row for row in every if row["site"] == site]
        own = _described(here[site])
        clear = [row for row in columns if row["differs"]]
        sites.append(
            {
                "name": shorten(site),
                "words": listed(differing_words(comparison, site), len(clear) or 1) or "no single column clearly",
                "rows": [
                    (column_words(row["column"]), _most_different(own, others, row["column"]), _lengths(row))
                    for row in clear
                ],
                "rest": [(column_words(row["column"]), _lengths(row)) for row in columns if not row["differs"]],
            }
        )
    return sites


def _described(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Mapping[str, Any]]]:
    measures: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        measures.setdefault(row["column"], {})[row["measure"]] = row
    return measures


def _most_different(
    own: Mapping[str, Mapping[str, Mapping[str, Any]]],
    others: Mapping[str, Mapping[str, Mapping[str, Any]]],
    column: str,
) -> list[tuple[str, str, str]]:
    """Return the measures of a column in which a site differs most: name, here, elsewhere."""
    measures = [
        (measure, row, others[column][measure])
        for measure, row in own.get(column, {}).items()
        if measure in others.get(column, {}) and not math.isnan(row["estimate"])
    ]
    measures = [pair for pair in measures if not math.isnan(pair[2]["estimate"])]

    def clear(pair: tuple[str, Mapping[str, Any], Mapping[str, Any]]) -> float:
        _, here, elsewhere = pair
        return abs(float(here["estimate"] - elsewhere["estimate"])) / (
            math.hypot(here["error"], elsewhere["error"]) or 1.0
        )

    largest = sorted((pair for pair in measures if clear(pair) > 3), key=lambda pair: -clear(pair))[:2]
    return [(measure, _value(here), _value(elsewhere)) for measure, here, elsewhere in largest]


def _value(row: Mapping[str, Any] | None) -> str:
    """Return an estimate with its error; a share in percent, cut to 0 to 100 %."""
    if row is None or math.isnan(row["estimate"]):
        return _UNKNOWN
    of_number = row["measure"] in (_MEAN, "standard deviation")
    factor, unit = (1.0, "") if of_number else (100.0, "\u00a0%")
    value, error = row["estimate"] if of_number else min(max(row["estimate"], 0.0), 1.0), row["error"]
    return f"{format_value(factor * value, factor * error)}{unit} ± {format_value(factor * error, factor * error)}"


def _order(federation: Federation) -> list[int] | None:
    """Return the sites in the order of the map, None of fewer than three: those that stand out are labelled first."""
    comparison = federation.comparison
    if comparison is None or comparison.sites.num_rows < 3:
        return None
    order: list[int] = np.argsort(~comparison.sites["stands_out"].to_numpy(), kind="stable").tolist()
    return order


def _map(federation: Federation, order: Sequence[int]) -> Json:
    comparison = cast("SiteComparison", federation.comparison)
    names = comparison.sites["site"].to_pylist()
    scaling = classical_scaling(comparison.distances)
    scaling = scaling._replace(places=scaling.places[order], covariances=scaling.covariances[order])
    picture = map_of([shorten(names[place]) for place in order], scaling)
    return picture | {"out": {shorten(site) for site in comparison.outstanding}}


def _live(federation: Federation, order: Sequence[int], title: str, guarantee: str) -> Json:
    """Return the facts for the script, and the colours of its heat map: sites in the order of the map."""
    comparison = cast("SiteComparison", federation.comparison)
    chosen = np.ix_(order, order)
    distances = _taken(comparison.distances, chosen)
    names = [shorten(comparison.sites["site"][place].as_py()) for place in order]
    units = [federation.sites[comparison.sites["site"][place].as_py()].units for place in order]
    cells = [estimate_cells(estimate) for estimate in units]
    tree, similar = ordered_tree(distances.value)
    pairs: Pairs = pairs_of(distances)
    scale, unit = scale_of(pairs, "mean"), display_unit(pairs, "mean")
    facts = {
        "title": shorten(title, 200),
        "made": made(),
        "guarantee": guarantee,
        "ranked": True,
        "size": f"number of {federation.unit}",
        "sizes": [
            (float(estimate.value), f"{value} ± {error}, 95\u00a0% interval {ends}")
            for estimate, (value, error, ends) in zip(units, cells, strict=True)
        ],
        **comparison_facts(names, pairs, "mean", scale, unit, together=False),
        **tree_facts(tree, similar, []),
    }
    return {"facts": facts_as_json(facts), "key": colour_key(scale, unit[0]), "unit": unit[1]}


def _taken(distances: Estimates, chosen: Any) -> Estimates:
    return dataclasses.replace(
        distances,
        value=distances.value[chosen],
        projection_variance=distances.projection_variance[chosen],
        noise_variance=distances.noise_variance[chosen],
    )


def _people(federation: Federation) -> Json:
    """Return the numbers of units: of the sites that are clear, and of those that are not."""
    rows = []
    for site, release in federation.sites.items():
        estimate = release.units
        few = federation.comparison is not None and site in federation.comparison.unclear["site"].to_pylist()
        rows.append((shorten(site), federation.windows.get(site, ""), estimate_cells(estimate), few))
    total = sum(release.units.value for release in federation.sites.values())
    return {
        "rows": rows,
        "total": f"{max(float(f'{total:.2g}'), 0.0):,.0f}",
        "few": [name for name, _, _, few in rows if few],
    }


def _tables(federation: Federation) -> list[Json]:
    """Return tables of sites and measures: means and shares, then deviations and what is missing."""
    comparison = federation.comparison
    if comparison is None:
        return []
    others = _described(comparison.of_others.to_pylist())
    own: dict[str, list[Any]] = {}
    for row in comparison.description.to_pylist():
        own.setdefault(row["site"], []).append(row)
    described = {site: _described(rows) for site, rows in own.items()}
    kinds: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    for column, measures in others.items():
        main = [name for name in measures if name == _MEAN or name.startswith(_SHARE)]
        main.sort(key=lambda name: -(measures[name]["estimate"] if not math.isnan(measures[name]["estimate"]) else 0))
        shown = set(main[:_MOST_MEASURES])
        kinds[True] += [(column, name) for name in measures if name in shown]
        kinds[False] += [(column, name) for name in measures if name not in shown]
    names = ["Means and shares", "Spread, missing values and the rest"]
    return [
        {
            "caption": caption,
            "heads": [(column_words(column), name.removeprefix(_SHARE)) for column, name in kinds[main]],
            "rows": [
                (
                    shorten(site),
                    [
                        (_value(of_site.get(column, {}).get(name)), column in comparison.differing(site))
                        for column, name in kinds[main]
                    ],
                )
                for site, of_site in described.items()
            ],
            "others": [_value(others[column][name]) for column, name in kinds[main]],
            "parts": parts_of_table([column for column, _ in kinds[main]]),
        }
        for caption, main in zip(names, (True, False), strict=True)
        if kinds[main]
    ]


def parts_of_table(columns: Sequence[str]) -> list[tuple[int, int]]:
    """Return where a table of all sites is cut, so that each part fits a page: between columns, if it can."""
    parts: list[tuple[int, int]] = []
    start = place = 0
    for _, group in itertools.groupby(columns):
        size = len(list(group))
        if place > start and place + size - start > _ACROSS:
            parts.append((start, place))
            start = place
        place += size
        while place - start > _ACROSS:
            parts.append((start, start + _ACROSS))
            start += _ACROSS
    return [*parts, (start, place)]


def _drift(federation: Federation) -> Json | None:
    """Return the section on changes: sites that differ now come first."""
    if not federation.drifts:
        return None
    ordered = sorted(federation.drifts.items(), key=lambda item: (item[1].since is None, not item[1].changes.alarms))
    shown = {site: drift.changes for site, drift in ordered[:MOST_KEYS]}
    return {
        "drawing": drawing(shown),
        "left_out": len(ordered) - len(shown),
        "rows": [
            (
                shorten(site),
                drift.since or "",
                listed([column_words(column) for column in drift.columns], 4),
                listed([str(alarm) for alarm in drift.changes.alarms], 6),
            )
            for site, drift in ordered
        ],
        "numbers": [(shorten(site), step_rows(drift.changes)) for site, drift in ordered],
    }


def _pairs(federation: Federation) -> list[tuple[str, str, tuple[str, str, str], str]]:
    comparison = federation.comparison
    if comparison is None or "Pairs" in federation.absent:
        return []
    return [
        (
            shorten(row["first"]),
            shorten(row["second"]),
            _cells(row),
            f"differ ({_chance(row['p_value'])})" if row["differ"] else "no difference shown",
        )
        for row in comparison.pairs.to_pylist()
    ]
