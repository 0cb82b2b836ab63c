"""A report of releases: one page without network access, scripts or other files."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamsketch.errors import InvalidInputError
from streamsketch.estimation import Estimates, pairwise, rounded
from streamsketch.release import PrivateSketch, PrivateTable
from streamsketch.report.guarantees import guarantees
from streamsketch.report.pictures import heat_map, map_of
from streamsketch.report.planned import against_plan, expected
from streamsketch.report.scaling import Scaling, classical_scaling, like_beside_like
from streamsketch.report.text import cells, short, templates

_MAX_RELEASES = 150
_NEIGHBOURS = 3


def page_of(
    releases: Mapping[str, PrivateSketch],
    published: Mapping[str, PrivateSketch | PrivateTable] | None = None,
    *,
    title: str,
    plan: Mapping[str, Any] | None = None,
) -> str:
    """Return a report of all pairs of releases, as HTML.

    It contains only what anyone could compute from the releases, so it is as public as they are.

    Parameters
    ----------
    releases
        2 to 150 releases of one projection, with independent noises, by name.
    published
        The releases as published, with tables as one release each; by default ``releases``.
    title
        The page's heading.
    plan
        Their plan, as returned by `Plan.to_dict`.

    Raises
    ------
    InvalidInputError
        For fewer than 2 releases or more than 150, or a plan that is malformed or for another sketch.
    IncompatibleProjectionsError, DependentNoiseError
        If the projections differ, or two releases share noise.
    """
    if len(releases) > _MAX_RELEASES:
        raise InvalidInputError(
            f"a report shows at most {_MAX_RELEASES} releases, got {len(releases)}; choose some of them"
        )
    distances = pairwise(releases.values())
    names = [short(name) for name in releases]
    order = like_beside_like(distances.value)
    scaling = classical_scaling(distances)
    projection = next(iter(releases.values())).projection
    return (
        templates()
        .get_template("page.html.j2")
        .render(
            title=title,
            releases=len(releases),
            projection=projection,
            cells=f"{projection.sketch_dim:,}",
            guarantees=guarantees(releases, published or releases),
            planned=None if plan is None else against_plan(plan, releases),
            expected=expected(releases),
            heat=heat_map(names, distances, order),
            map=map_of(names, scaling),
            places=_places(names, scaling),
            nearest=_nearest(names, distances, order),
            pairs=_all_pairs(names, distances),
        )
    )


def _places(names: Sequence[str], scaling: Scaling) -> list[tuple[str, list[str]]]:
    errors = np.sqrt(np.diagonal(scaling.covariances, axis1=1, axis2=2))
    return [
        (name, [rounded(x, dx), rounded(dx, dx), rounded(y, dy), rounded(dy, dy)])
        for name, (x, y), (dx, dy) in zip(names, scaling.places.tolist(), errors.tolist(), strict=True)
    ]


def _nearest(names: Sequence[str], distances: Estimates, order: Sequence[int]) -> list[tuple[str, list[Any]]]:
    """Return the nearest neighbours of each stream, with intervals that allow for their selection."""
    groups = []
    for i in order:
        others = [int(j) for j in np.argsort(distances.value[i], kind="stable") if j != i][:_NEIGHBOURS]
        estimates = [distances[i, j] for j in others]
        ends = [estimate.selected_interval(len(names) - 1) for estimate in estimates]
        rows = [(names[j], cells(one, end)) for j, one, end in zip(others, estimates, ends, strict=True)]
        groups.append((names[i], rows))
    return groups


def _all_pairs(names: Sequence[str], distances: Estimates) -> list[tuple[str, str, tuple[str, str, str]]]:
    first, second = np.triu_indices(len(names), 1)
    by_distance = np.argsort(distances.value[first, second], kind="stable")
    pairs = zip(first[by_distance].tolist(), second[by_distance].tolist(), strict=True)
    return [(names[i], names[j], cells(distances[i, j])) for i, j in pairs]
