"""A report of releases: one page that needs no network, no script and no other file."""

from collections.abc import Mapping, Sequence
from importlib.resources import files

import numpy as np

from streamsketch.errors import InvalidInputError
from streamsketch.estimate import Estimates, rounded
from streamsketch.estimators import pairwise
from streamsketch.privacy.guarantee import Guarantee, compose
from streamsketch.release import PrivateSketch
from streamsketch.report.pictures import heat_map, map_of
from streamsketch.report.scaling import Scaling, classical_scaling, like_beside_like
from streamsketch.report.text import in_words, interval, safe

MOST = 150
_NEIGHBOURS = 3


def page_of(releases: Mapping[str, PrivateSketch], *, title: str) -> str:
    """Return a report of all pairs of releases, as HTML.

    It holds what anyone could compute from the releases, so it is as public as they are.

    Parameters
    ----------
    releases
        2 to 150 releases of one projection, with independent noises, by name.
    title
        The page's heading.

    Raises
    ------
    InvalidInputError
        For more or fewer.
    IncompatibleProjectionsError, DependentNoiseError
        As `streamsketch.pairwise`.
    """
    if len(releases) > MOST:
        raise InvalidInputError(f"a report shows at most {MOST} releases, got {len(releases)}; choose some of them")
    distances = pairwise(releases.values())
    names = list(releases)
    order = like_beside_like(distances.value)
    scaling = classical_scaling(distances)
    projection = next(iter(releases.values())).projection
    style = files("streamsketch.report").joinpath("page.css").read_text(encoding="utf-8")
    sections = [
        _promises(releases),
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


# --- what is promised -------------------------------------------------------------------------------------------------


def _promises(releases: Mapping[str, PrivateSketch]) -> str:
    by_promise: dict[Guarantee, list[str]] = {}
    for name, release in releases.items():
        by_promise.setdefault(release.guarantee, []).append(name)
    items = "".join(
        f"<li>{in_words(guarantee)}: {'all of them' if len(by_promise) == 1 else ', '.join(map(safe, names))}.</li>"
        for guarantee, names in by_promise.items()
    )
    return (
        f"<h2>What is promised</h2><p>Each release keeps its promise by itself, whatever else is known:</p>"
        f"<ul>{items}</ul><p>{_together([release.guarantee for release in releases.values()])}</p>"
    )


def _together(guarantees: Sequence[Guarantee]) -> str:
    try:
        apart, over = (compose(guarantees, populations=populations) for populations in ("disjoint", "overlapping"))
    except InvalidInputError:
        return "They are promised for different relations, so their sum has no short form."
    unit = safe(apart.neighbours.unit)
    return (
        f"Together: ε&nbsp;=&nbsp;{apart.epsilon:g}, δ&nbsp;=&nbsp;{apart.delta:g} if no {unit} is in two of the "
        f"streams, and ε&nbsp;=&nbsp;{over.epsilon:g}, δ&nbsp;=&nbsp;{over.delta:g} if one may be in all. The numbers "
        f"below are computed from the releases alone and cost nothing more."
    )


# --- tables -----------------------------------------------------------------------------------------------------------


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
        rows = [_pair_cells(names[j], distances, i, j) for j in others]
        head = f'<th scope="rowgroup" class="name" rowspan="{len(rows)}">{safe(names[i])}</th>'
        groups.append(f'<tbody class="group"><tr>{head}{"</tr><tr>".join(rows)}</tr></tbody>')
    return (
        f"<h2>Nearest neighbours</h2><p>By estimated squared distance. Where intervals overlap, noise decides who "
        f"comes first, and the least of many estimates is biased down.</p>"
        f"{_table(['stream', 'neighbour'], ''.join(groups), 'The nearest of each stream')}"
    )


def _all_pairs(names: Sequence[str], distances: Estimates) -> str:
    first, second = np.triu_indices(len(names), 1)
    by_distance = np.argsort(distances.value[first, second], kind="stable")
    rows = "".join(
        f'<tr><th scope="row" class="name">{safe(names[i])}</th>{_pair_cells(names[j], distances, i, j)}</tr>'
        for i, j in zip(first[by_distance].tolist(), second[by_distance].tolist(), strict=True)
    )
    table = _table(["stream", "other"], f"<tbody>{rows}</tbody>", "All pairs, nearest first")
    return f"<h2>All pairs</h2><details><summary>{len(first):,} estimates with their errors</summary>{table}</details>"


def _pair_cells(other: str, distances: Estimates, i: int, j: int) -> str:
    estimate = distances[i, j]
    return (
        f'<td class="name">{safe(other)}</td><td>{rounded(estimate.value, estimate.standard_error)}</td>'
        f"<td>{rounded(estimate.standard_error, estimate.standard_error)}</td><td>{interval(estimate)}</td>"
    )


def _table(left: Sequence[str], bodies: str, caption: str) -> str:
    heads = "".join(f'<th scope="col" class="name">{name}</th>' for name in left)
    heads += "".join(f'<th scope="col">{name}</th>' for name in ("squared distance", "± s.e.", "95&nbsp;% interval"))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table class="plain">'
        f"<caption>{caption}</caption><thead><tr>{heads}</tr></thead>{bodies}</table></div>"
    )


# --- the map ----------------------------------------------------------------------------------------------------------


def _map(names: Sequence[str], scaling: Scaling) -> str:
    errors = np.sqrt(np.diagonal(scaling.covariances, axis1=1, axis2=2))
    rows = "".join(
        f'<tr><th scope="row" class="name">{safe(name)}</th><td>{rounded(x, dx)}</td><td>{rounded(dx, dx)}</td>'
        f"<td>{rounded(y, dy)}</td><td>{rounded(dy, dy)}</td></tr>"
        for name, (x, y), (dx, dy) in zip(names, scaling.places.tolist(), errors.tolist(), strict=True)
    )
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("across", "± s.e.", "up", "± s.e."))
    return (
        f'<h2>Map</h2><figure><div class="scroll" tabindex="0" role="region" aria-label="Map">'
        f"{map_of(names, scaling)}</div><figcaption>Classical scaling of the estimates: near points, near streams. "
        f"Lengths are distances, not squared. The two axes carry {100 * scaling.share:.0f}&nbsp;% of what sets the "
        f"streams apart. In an ellipse its stream lies with about 95&nbsp;% confidence, the others standing still."
        f"</figcaption></figure><details><summary>The map's numbers</summary>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="Places on the map"><table class="plain">'
        f'<caption>Places on the map</caption><thead><tr><th scope="col" class="name">stream</th>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></details>"
    )
