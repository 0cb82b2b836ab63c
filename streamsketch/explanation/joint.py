"""What several releases promise together."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias, get_args

from streamsketch.errors import InvalidInputError
from streamsketch.explanation.facts import Explained
from streamsketch.explanation.text import joint_as_dict, joint_as_text
from streamsketch.privacy import Accounted, Guarantee, Neighbours, Populations, Spent, account, compose
from streamsketch.release import PrivateSketch, Verdict
from streamsketch.signs import IndividualSignSketch, SignSketch

Explainable: TypeAlias = PrivateSketch | SignSketch

_Column: TypeAlias = tuple[Neighbours, bytes]
_Row: TypeAlias = dict[_Column, Fraction]

INDIVIDUAL = "individual differential privacy is not differential privacy and composes with nothing"


@dataclasses.dataclass(frozen=True)
class JointExplanation:
    """What several releases promise to somebody who may be in all of them, or in one at most.

    Parameters
    ----------
    each
        The explanations of the releases, in order.
    populations
        ``"overlapping"`` or ``"disjoint"``.
    counted
        How many of them spend anything: a copy does not, nor a merge beside all of its parts, nor what else can be
        computed from the others.
    guarantee
        Their composition by `streamsketch.compose`: the sums of ε and of δ, or the largest.
    delta
        The δ at which a smaller ε was looked for.
    finer
        A smaller ε for overlapping populations, and how it was found; None where only the sum is known.
    sharing
        Pairs of releases, by place in ``each``, of which both count and hold some of the same data: their populations
        are not disjoint.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> sketch = SJLT(dim=1 << 40, sketch_dim=64, sparsity=16, seed=7).sketch()
    >>> gaussian = {"epsilon": 1.0, "delta": 1e-6, "neighbours": L1(1), "mechanism": "gaussian"}
    >>> joint = explain_together([sketch.release(**gaussian) for _ in range(4)], populations="overlapping")
    >>> joint.guarantee.epsilon, round(joint.finer.epsilon, 2), joint.finer.delta
    (4.0, 1.98, 4e-06)
    """

    each: tuple[Explained, ...]
    populations: Populations
    counted: int
    guarantee: Guarantee
    delta: float
    finer: Accounted | None
    sharing: tuple[tuple[int, int], ...] = ()

    @property
    def verdicts(self) -> Mapping[Verdict, int]:
        """How many of the releases have enough noise, too little, or noise that was not checked."""
        found = [one.check.verdict for one in self.each]
        return {verdict: found.count(verdict) for verdict in get_args(Verdict)}

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as what JSON can hold: numbers, text, lists and objects."""
        return joint_as_dict(self)

    def __str__(self) -> str:
        return joint_as_text(self)


def explain_together(
    releases: Iterable[Explainable], *, populations: Populations, delta: float | None = None
) -> JointExplanation:
    """Return what several releases promise together.

    For disjoint populations the worst guarantee holds for all. For overlapping ones ε and δ add up (Dwork and Roth
    2014, Theorem 3.16), which is loose for many releases: where a smaller ε is known at the same δ, it is told too,
    with how it was found.

    Parameters
    ----------
    releases
        At least one, private sketches and published signs as they come; a release that is there twice counts once, and
        so does a merge beside all of its parts.
    populations
        ``"overlapping"`` if a privacy unit may be in several of the streams, ``"disjoint"`` if none is.
    delta
        The δ at which to account; by default the sum of theirs. More than that buys a smaller ε.

    Raises
    ------
    TypeError
        If one is neither a PrivateSketch nor a SignSketch: individual differential privacy composes with nothing.
    InvalidInputError
        For no releases, different neighbour relations, another value of ``populations``, a δ below the sum of theirs,
        or releases of the same data whose populations are said to be disjoint.
    """
    releases = list(releases)
    for release in releases:
        if isinstance(release, IndividualSignSketch):
            raise TypeError(f"{INDIVIDUAL}: explain an IndividualSignSketch by itself")
        if not isinstance(release, PrivateSketch | SignSketch):
            raise TypeError(
                f"only a PrivateSketch or a SignSketch explains itself, got a {type(release).__name__}. Call release() "
                f"first"
            )
    counting = places_that_count(releases)
    spending = [releases[place] for place in counting]
    sharing = tuple((counting[i], counting[j]) for i, j in sharing_data([[release] for release in spending]))
    if populations == "disjoint" and sharing:
        raise InvalidInputError(
            f"releases {sharing[0][0] + 1} and {sharing[0][1] + 1} of {len(releases)} hold some of the same data, so "
            f"their populations are not disjoint. Use populations='overlapping'"
        )
    guarantee = compose([release.guarantee for release in spending], populations=populations)
    if delta is not None and not guarantee.delta <= delta < 1:
        raise InvalidInputError(
            f"delta={delta} must be below 1 and at least what the releases spend together, {guarantee.delta:g}"
        )
    at = guarantee.delta if delta is None else delta
    finer = None
    if populations == "overlapping" and len(spending) > 1:
        finer = account([_spent(release) for release in spending], at)
        if finer is not None and finer.epsilon >= guarantee.epsilon:
            finer = None
    return JointExplanation(
        tuple(release.explain() for release in releases), populations, len(spending), guarantee, at, finer, sharing
    )


def sharing_data(groups: Sequence[Iterable[Explainable]]) -> list[tuple[int, int]]:
    """Return the pairs of groups of releases of which two hold some of the same data, by place.

    A release that is in two groups, or twice in one, shares nothing by that: it is published once. A group in which two
    releases do is paired with itself.
    """
    holders: dict[bytes, dict[frozenset[bytes], int]] = {}
    for place, group in enumerate(groups):
        for release in group:
            for one in release.data_ids:
                holders.setdefault(one, {}).setdefault(_ids(release), place)
    found: dict[tuple[int, int], None] = {}
    for holding in holders.values():
        first, *others = holding.values()
        found.update(dict.fromkeys((first, other) for other in others))
    return sorted(found)


def places_that_count(releases: Sequence[Explainable]) -> list[int]:
    """Return the places of releases from which the others can be computed, so that those are post-processing.

    Each is taken as the sum of those with one id. What is a linear combination of others spends nothing more: a copy, a
    merge beside all of its parts, or the last part beside the merge and the other parts. Those of fewest parts come
    first, and of these the largest promise, so that no forged promise of a merge or a copy takes the place of a larger.
    """
    kept: list[int] = []
    pivots: dict[_Column, _Row] = {}
    for place in sorted(range(len(releases)), key=lambda place: _parts_and_promise(releases[place])):
        release = releases[place]
        row = _reduced({(release.guarantee.neighbours, one): Fraction(1) for one in _ids(release)}, pivots)
        if row:
            kept.append(place)
            first, leading = next(iter(row.items()))
            pivots[first] = {column: value / leading for column, value in row.items()}
    return sorted(kept)


def _parts_and_promise(release: Explainable) -> tuple[int, float, float]:
    return len(_ids(release)), -release.guarantee.epsilon, -release.guarantee.delta


def _reduced(row: _Row, pivots: dict[_Column, _Row]) -> _Row:
    """Return what Gaussian elimination leaves of a row: nothing of a combination of those before it."""
    while (pivot := next((column for column in row if column in pivots), None)) is not None:
        factor = row[pivot]
        for column, value in pivots[pivot].items():
            left = row.get(column, Fraction(0)) - factor * value
            if left:
                row[column] = left
            else:
                del row[column]
    return row


def _ids(release: Explainable) -> frozenset[bytes]:
    return frozenset([release.release_id] if isinstance(release, SignSketch) else release.release_ids)


def _spent(release: Explainable) -> Spent:
    guarantee = release.guarantee
    check = release.explain().check
    # noise that also stands for a choice of keys, or is not what the file says, counts by the promise
    sigma = check.sigma if check.verdict == "enough" and guarantee.mechanism.keys is None else None
    return Spent(guarantee.epsilon, guarantee.delta, sigma)
