"""A report of releases: one page without network access or other files."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamsketch._version import __version__
from streamsketch.core.documents import Json
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.counts import published_counts
from streamsketch.estimation.estimate import estimate_cells, format_value
from streamsketch.estimation.estimators import squared_norm
from streamsketch.estimation.groups import ordered_tree
from streamsketch.estimation.measures import MEASURES, By
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.release.private_table import PrivateTable
from streamsketch.report.changes import changes_in
from streamsketch.report.choice import Chosen, choose, order_of
from streamsketch.report.differences import Dictionary, pair_facts, separated
from streamsketch.report.guarantees import guarantees
from streamsketch.report.pairs import Pairs
from streamsketch.report.pictures import display_unit, heat_map, map_of, scale_of
from streamsketch.report.planned import against_plan, expected_errors
from streamsketch.report.scaling import Scaling, classical_scaling
from streamsketch.report.script import comparison_facts, facts_as_json, script, script_digest, tree_facts
from streamsketch.report.series import in_time_order, series_in
from streamsketch.report.spelling import spelling_section, unlike_all
from streamsketch.report.standing import answer, groups_in
from streamsketch.report.text import shorten, templates

_MAX_RELEASES = 1000
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_MAX_PAIRS = 1000
_NEIGHBOURS = 3


def page_of(  # noqa: PLR0913 - what a page may show
    releases: Mapping[str, PrivateSketch],
    published: Mapping[str, PrivateSketch | PrivateTable] | None = None,
    *,
    title: str,
    plan: Mapping[str, object] | None = None,
    by: By | None = None,
    why: Dictionary | None = None,
    on: dt.date | None = None,
    together: bool = False,
    dictionary: Dictionary | None = None,
) -> str:
    """Return a report of all pairs of releases, as HTML.

    It contains only what anyone could compute from the releases, so it is as public as they are. It is complete without
    a script, and has one that makes no requests: the page forbids them.

    A pair has one interval on the page. All of them hold at once with 95 %, for all pairs of the releases given:
    also of those below the noise floor, as noise decides which of many small streams are above.

    Parameters
    ----------
    releases
        2 to 1,000 releases of one projection, with independent noises, by name. If all names are of windows, ``KEY
        2024-05-01`` or ``2024-05-01`` alone, they are shown by key and in time order, otherwise similar ones side by
        side.
    published
        The releases as published, with tables as one release each; by default ``releases``.
    title
        The page's heading.
    plan
        Their plan, as returned by `Plan.to_dict`.
    by
        What to compare streams by, as in `streamsketch.pairwise`. By default cosines, if they tell streams apart, and
        distances if not, as `streamsketch.report.choice.choose` describes. Streams below the noise floor are named
        and not drawn.
    why
        Items, of which the report shows those that differ most, as in `streamsketch.top_differences`: between two
        streams, or between each of several and the average of the others.
    on
        The day that the page states it was made, by default today (UTC).
    together
        Whether to show joint estimates, as `streamsketch.pairwise` makes them with ``together=True``, of the streams
        that are drawn: in the order of time, if they are all windows of one stream. The page marks them as such.
        Intervals are those of each pair alone, and tests of change stay as they are.
    dictionary
        Public names, by which the page says whether the streams spell alike, as `streamsketch.spelling` does. Without
        it, the page asks for one if a stream has next to nothing in common with any other.

    Raises
    ------
    InvalidInputError
        For fewer than 2 releases or more than 1,000, a plan that is malformed or for another sketch, another ``by``,
        cosines of releases with noise added before the map, or a dictionary that cannot be read.
    IncompatibleProjectionsError, DependentNoiseError
        If the projections differ, or two releases share noise.
    """
    page, _ = page_with_facts(
        releases, published, title=title, plan=plan, by=by, why=why, on=on, together=together, dictionary=dictionary
    )
    return page


def page_with_facts(  # noqa: PLR0913 - what a page may show
    releases: Mapping[str, PrivateSketch],
    published: Mapping[str, PrivateSketch | PrivateTable] | None = None,
    *,
    title: str,
    plan: Mapping[str, object] | None = None,
    by: By | None = None,
    why: Dictionary | None = None,
    on: dt.date | None = None,
    together: bool = False,
    dictionary: Dictionary | None = None,
) -> tuple[str, Json]:
    """Return a report as `page_of` does, and the facts that it holds as JSON."""
    if len(releases) > _MAX_RELEASES:
        raise InvalidInputError(
            f"a report shows at most {_MAX_RELEASES:,} releases, got {len(releases):,}; choose some of them"
        )
    releases = {name: releases[name] for name in in_time_order(releases)}
    chosen = choose(list(releases.values()), by, together=together, order=order_of(releases) if together else None)
    everything = [shorten(name) for name in releases]
    names = [everything[place] for place in chosen.kept]
    drawn = len(chosen.kept) < len(releases) or not chosen.below_noise_floor
    by_time = bool(series_in(releases))
    tree, similar = ordered_tree(chosen.squares.value)
    order = similar if drawn and not by_time else list(range(len(names)))
    groups = groups_in(chosen, tree)
    changed = changes_in(releases, chosen.by, chosen.among)
    pairs = chosen.pairs
    scale = scale_of(pairs, chosen.by)
    scaling = classical_scaling(chosen.squares)
    heat = heat_map(names, pairs, order, chosen.by, scale)
    promised = guarantees(releases, published or releases)
    sizes = [
        (name, estimate_cells(squared_norm(release)))
        for name, release in zip(everything, releases.values(), strict=True)
    ]
    facts = {
        "title": shorten(title, 200),
        "made": made(on),
        "guarantee": promised["brief"],
        "ranked": drawn,
        "sizes": [_size(release, cells) for release, cells in _of_kept(releases, sizes, chosen)],
        **comparison_facts(names, pairs, chosen.by, scale, display_unit(pairs, chosen.by), together=True),
        "quantity": chosen.quantity,
        "joint": None if chosen.joint is None else chosen.joint.to_dict(),
        **tree_facts(tree, similar, groups.groups),
        "differing": None if why is None else pair_facts(_kept(releases, chosen), why, by),
    }
    spelt = None if dictionary is None else spelling_section(_kept(releases, chosen), dictionary)
    facts["spelling"] = None if spelt is None else spelt["otherwise"]
    projection = next(iter(releases.values())).projection
    page = (
        templates()
        .get_template("page.html.j2")
        .render(
            title=title,
            releases=len(releases),
            projection=projection,
            cells=f"{projection.sketch_dim:,}",
            made=made(on),
            answer=answer(names, chosen, groups, drawn=drawn, alarms=None if changed is None else changed["alarms"]),
            usual_error=_usual_error(pairs),
            guarantees=promised,
            facts=facts_as_json(facts),
            script=script(),
            script_digest=script_digest(),
            planned=None if plan is None else against_plan(plan, releases),
            expected=expected_errors(releases) if chosen.by == "distance" else [],
            by=chosen.by,
            measure=MEASURES[chosen.by],
            of_what=MEASURES[MEASURES[chosen.by].squares or chosen.by].of_what,
            quantity=chosen.quantity,
            joint=chosen.joint,
            precise_for={
                measure: round(share * len(names)) for measure, share in chosen.distinguishable_shares.items()
            },
            compared=len(names),
            asked=by is not None,
            floor=chosen.floor,
            below_noise_floor=[everything[place] for place in chosen.below_noise_floor],
            drawn=drawn,
            by_time=by_time,
            heat=heat,
            spelling=spelt,
            unlike_all=[]
            if by_time or spelt is not None
            else unlike_all(names, list(_kept(releases, chosen).values()), chosen),
            separated=None if why is None else separated(_kept(releases, chosen), why, by),
            map=map_of(names, scaling) if drawn and len(names) > 2 else None,
            places=_places(names, scaling),
            sizes=sizes,
            changes=changed,
            counts=_counts(everything, list(releases.values())),
            nearest=_nearest(names, chosen, pairs, order) if drawn and len(names) > 2 else [],
            pairs=_pairs(names, chosen, pairs, ranked=drawn),
            all_pairs=len(names) * (len(names) - 1) // 2,
        )
    )
    return page, facts


def _of_kept(
    releases: Mapping[str, PrivateSketch], sizes: Sequence[tuple[str, tuple[str, str, str]]], chosen: Chosen
) -> list[tuple[PrivateSketch, tuple[str, str, str]]]:
    every = list(releases.values())
    return [(every[place], sizes[place][1]) for place in chosen.kept]


def _size(release: PrivateSketch, cells: tuple[str, str, str]) -> tuple[float, str]:
    """Return a stream's size, to sort by, and in words."""
    return float(squared_norm(release).value), f"{cells[0]} ± {cells[1]}, 95\u00a0% interval {cells[2]}"


def made(on: dt.date | None = None) -> str:
    """Return by what version a page was made, and on which day, by default today (UTC)."""
    day = dt.datetime.now(dt.UTC).date() if on is None else on
    return f"streamsketch {__version__}, {day.day} {_MONTHS[day.month - 1]} {day.year}"


def _usual_error(pairs: Pairs) -> str:
    apart = ~np.eye(len(pairs.value), dtype=bool)
    error = float(np.median(pairs.error[apart]))
    return format_value(error, error)


def _places(names: Sequence[str], scaling: Scaling) -> list[tuple[str, list[str]]]:
    errors = np.sqrt(np.diagonal(scaling.covariances, axis1=1, axis2=2))
    return [
        (name, [format_value(x, dx), format_value(dx, dx), format_value(y, dy), format_value(dy, dy)])
        for name, (x, y), (dx, dy) in zip(names, scaling.places.tolist(), errors.tolist(), strict=True)
    ]


def _counts(names: Sequence[str], releases: Sequence[PrivateSketch]) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Return tables of the numbers of units and of totals, where some were published, under their captions."""
    units = shorten(releases[0].guarantee.neighbours.units)
    captions = {"units": f"Numbers of {units}", "total": f"Totals of what is left of all {units}"}
    estimates = [published_counts(release) for release in releases]
    tables = []
    for kind, caption in captions.items():
        rows = [
            (name, estimate_cells(counts[kind]))
            for name, counts in zip(names, estimates, strict=True)
            if kind in counts
        ]
        tables += [(caption, rows)] if rows else []
    return tables


class _Nearest(NamedTuple):
    """The nearest neighbours of one stream."""

    name: str
    others: list[tuple[str, tuple[str, str, str]]]
    hidden: bool
    """Whether no other stream is shown to be nearer than another, so that these are not said to be."""


def _nearest(names: Sequence[str], chosen: Chosen, pairs: Pairs, order: Sequence[int]) -> list[_Nearest]:
    """Return the nearest neighbours of each stream."""
    compared = chosen.tells_apart
    groups = []
    for i in order:
        others = [int(j) for j in chosen.nearest_first(chosen.estimates.value[i]) if j != i][:_NEIGHBOURS]
        cells = [pairs.cells(i, j) for j in others]
        groups.append(_Nearest(names[i], list(zip([names[j] for j in others], cells, strict=True)), not compared[i]))
    return groups


def _kept(releases: Mapping[str, PrivateSketch], chosen: Chosen) -> dict[str, PrivateSketch]:
    """Return the releases of streams that are drawn."""
    every = list(releases.items())
    return dict(every[place] for place in chosen.kept)


def _pairs(
    names: Sequence[str], chosen: Chosen, pairs: Pairs, *, ranked: bool
) -> list[tuple[str, str, tuple[str, str, str]]]:
    """Return the nearest pairs, nearest first, or the first ones if noise decides which are nearest."""
    first, second = np.triu_indices(len(names), 1)
    values = pairs.value[first, second]
    order = (chosen.nearest_first(values) if ranked else np.arange(len(values)))[:_MAX_PAIRS]
    shown = zip(first[order].tolist(), second[order].tolist(), strict=True)
    return [(names[i], names[j], pairs.cells(i, j)) for i, j in shown]
