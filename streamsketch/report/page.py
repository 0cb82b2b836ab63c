"""A report of releases: one page that needs no network, no script and no other file."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from streamsketch.errors import InvalidInputError
from streamsketch.estimation import Estimates, Interval, pairwise, rounded
from streamsketch.release import PrivateSketch
from streamsketch.report.parts import table
from streamsketch.report.pictures import heat_map, map_of
from streamsketch.report.planned import planned
from streamsketch.report.promises import promises
from streamsketch.report.scaling import Scaling, classical_scaling, like_beside_like
from streamsketch.report.text import interval, safe

_MAX_RELEASES = 150
_NEIGHBOURS = 3


def page_of(releases: Mapping[str, PrivateSketch], *, title: str, plan: Mapping[str, Any] | None = None) -> str:
    """Return a report of all pairs of releases, as HTML.

    It holds what anyone could compute from the releases, so it is as public as they are.

    Parameters
    ----------
    releases
        2 to 150 releases of one projection, with independent noises, by name.
    title
        The page's heading.
    plan
        The plan they were made by, as `Plan.to_dict` returns it.

    Raises
    ------
    InvalidInputError
        For fewer than 2 releases or more than 150, or a plan that is not one, or is one of another sketch.
    IncompatibleProjectionsError, DependentNoiseError
        As `streamsketch.pairwise`.
    """
    if len(releases) > _MAX_RELEASES:
        raise InvalidInputError(
            f"a report shows at most {_MAX_RELEASES} releases, got {len(releases)}; choose some of them"
        )
    distances = pairwise(releases.values())
    names = list(releases)
    order = like_beside_like(distances.value)
    scaling = classical_scaling(distances)
    projection = next(iter(releases.values())).projection
    style = files("streamsketch.report").joinpath("page.css").read_text(encoding="utf-8")
    sections = [
        promises(releases),
        planned(plan, releases),
        _distances(names, distances, order),
        _map(names, scaling),
        _nearest(names, distances, order),
        _all_pairs(names, distances),
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{safe(title, 200)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{style}</style></head><body><main><h1>{safe(title, 200)}</h1>"
        f'<p class="soft">{len(releases)} private sketches of {projection.sketch_dim:,} cells. Projection '
        f"<code>{safe(projection.fingerprint)}</code>: <code>{safe(projection.to_json(), 1000)}</code></p>"
        f"{''.join(sections)}</main></body></html>\n"
    )


# --- distances --------------------------------------------------------------------------------------------------------


def _distances(names: Sequence[str], distances: Estimates, order: Sequence[int]) -> str:
    return (
        f"<h2>All distances</h2><p>The colour is the estimate; point at a cell for its error. An estimate may be "
        f"negative where noise dominates, and its interval is cut at zero.</p>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="Heat map">'
        f"{heat_map(names, distances, order)}</div>"
    )


def _nearest(names: Sequence[str], distances: Estimates, order: Sequence[int]) -> str:
    groups = []
    for i in order:
        others = [int(j) for j in np.argsort(distances.value[i], kind="stable") if j != i][:_NEIGHBOURS]
        ends = [distances[i, j].selected_interval(len(names) - 1) for j in others]
        rows = [_pair_cells(names[j], distances, i, j, end) for j, end in zip(others, ends, strict=True)]
        head = f'<th scope="rowgroup" class="name" rowspan="{len(rows)}">{safe(names[i])}</th>'
        groups.append(f'<tbody class="group"><tr>{head}{"</tr><tr>".join(rows)}</tr></tbody>')
    return (
        f"<h2>Nearest neighbours</h2><p>By estimated squared distance. Where intervals overlap, noise decides who "
        f"comes first, and the least of many estimates is biased down. The intervals here allow for that: those of one "
        f"stream hold together, whichever neighbours are shown.</p>"
        f"{_table(['stream', 'neighbour'], ''.join(groups), 'The nearest of each stream')}"
    )


def _all_pairs(names: Sequence[str], distances: Estimates) -> str:
    first, second = np.triu_indices(len(names), 1)
    by_distance = np.argsort(distances.value[first, second], kind="stable")
    rows = "".join(
        f'<tr><th scope="row" class="name">{safe(names[i])}</th>{_pair_cells(names[j], distances, i, j)}</tr>'
        for i, j in zip(first[by_distance].tolist(), second[by_distance].tolist(), strict=True)
    )
    pairs = _table(["stream", "other"], f"<tbody>{rows}</tbody>", "All pairs, nearest first")
    return f"<h2>All pairs</h2><details><summary>{len(first):,} estimates with their errors</summary>{pairs}</details>"


def _pair_cells(other: str, distances: Estimates, i: int, j: int, selected: Interval | None = None) -> str:
    estimate = distances[i, j]
    return (
        f'<td class="name">{safe(other)}</td><td>{rounded(estimate.value, estimate.standard_error)}</td>'
        f"<td>{rounded(estimate.standard_error, estimate.standard_error)}</td><td>{interval(estimate, selected)}</td>"
    )


def _table(left: Sequence[str], bodies: str, caption: str) -> str:
    return table([*left], ["squared distance", "± s.e.", "95&nbsp;% interval"], bodies, caption)


# --- the map ----------------------------------------------------------------------------------------------------------


def _map(names: Sequence[str], scaling: Scaling) -> str:
    errors = np.sqrt(np.diagonal(scaling.covariances, axis1=1, axis2=2))
    rows = "".join(
        f'<tr><th scope="row" class="name">{safe(name)}</th><td>{rounded(x, dx)}</td><td>{rounded(dx, dx)}</td>'
        f"<td>{rounded(y, dy)}</td><td>{rounded(dy, dy)}</td></tr>"
        for name, (x, y), (dx, dy) in zip(names, scaling.places.tolist(), errors.tolist(), strict=True)
    )
    numbers = table(["stream"], ["across", "± s.e.", "up", "± s.e."], f"<tbody>{rows}</tbody>", "Places on the map")
    return (
        f'<h2>Map</h2><figure><div class="scroll" tabindex="0" role="region" aria-label="Map">'
        f"{map_of(names, scaling)}</div><figcaption>Classical scaling of the estimates: near points, near streams. "
        f"Lengths are distances, not squared. The two axes carry {100 * scaling.share:.0f}&nbsp;% of what sets the "
        f"streams apart. In an ellipse its stream lies with about 95&nbsp;% confidence, the others standing still."
        f"</figcaption></figure><details><summary>The map's numbers</summary>"
        f"{numbers}</details>"
    )
