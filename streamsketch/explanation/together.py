"""What several releases promise together."""

import dataclasses
from collections.abc import Iterable
from typing import Any, TypeAlias

from streamsketch.errors import InvalidInputError
from streamsketch.explanation.base import Explained
from streamsketch.explanation.check import key_selection_in
from streamsketch.privacy.accounting import Accounted, Spent, account
from streamsketch.privacy.guarantee import Guarantee, Neighbours, Populations, compose
from streamsketch.release import PrivateSketch
from streamsketch.signs.sketch import IndividualSignSketch, SignSketch

Explainable: TypeAlias = PrivateSketch | SignSketch

INDIVIDUAL = "individual differential privacy is not differential privacy and composes with nothing"

_ROUNDING = 1e-12  # of sums


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
        How many of them spend anything: a copy does not, nor a part of a merge whose promise has room for it, nor a
        merge whose promise has not, if all of its parts are there.
    guarantee
        Their composition by `streamsketch.compose`: the sums of ε and of δ, or the largest.
    delta
        The δ at which a smaller ε was looked for.
    finer
        A smaller ε for overlapping populations, and how it was found; None where only the sum is known.

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

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as what JSON can hold: numbers, text, lists and objects."""
        from streamsketch.explanation.report import joint_as_dict  # noqa: PLC0415 - reports know explanations

        return joint_as_dict(self)

    def __str__(self) -> str:
        from streamsketch.explanation.report import joint_as_text  # noqa: PLC0415 - as above

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
        At least one, private sketches and published signs as they come; a release that is there twice, or also within
        a merge, counts once.
    populations
        ``"overlapping"`` if a privacy unit may be in several of the streams, ``"disjoint"`` if none is.
    delta
        The δ at which to account; by default the sum of theirs. More than that buys a smaller ε.

    Raises
    ------
    TypeError
        If one is neither a PrivateSketch nor a SignSketch: individual differential privacy composes with nothing.
    InvalidInputError
        For no releases, different neighbour relations, a word that is neither, or a δ below the sum of theirs.
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
    spending = _spending(releases)
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
        tuple(release.explain() for release in releases), populations, len(spending), guarantee, at, finer
    )


def _spending(releases: list[Explainable]) -> list[Explainable]:
    """Leave out what is post-processing of the others.

    That is copies, parts of a merge whose promise covers them, and else a merge all parts of which are there: one that
    was made for disjoint populations does not cover their sum.
    """
    kept: dict[tuple[frozenset[bytes], Neighbours], Explainable] = {}
    for release in sorted(releases, key=lambda one: (len(_ids(one)), -one.guarantee.epsilon)):
        kept.setdefault((_ids(release), release.guarantee.neighbours), release)
    for whole in list(kept):
        parts = [part for part in kept if part[0] < whole[0] and part[1] == whole[1]]
        if not parts:
            continue
        all_there = frozenset().union(*(ids for ids, _ in parts)) == whole[0]
        if _covers(kept[whole].guarantee, [kept[part].guarantee for part in parts], all_there=all_there):
            for part in parts:
                del kept[part]
        elif all_there:
            del kept[whole]
    return list(kept.values())


def _ids(release: Explainable) -> frozenset[bytes]:
    return frozenset([release.release_id] if isinstance(release, SignSketch) else release.release_ids)


def _covers(whole: Guarantee, parts: list[Guarantee], *, all_there: bool) -> bool:
    """Return whether a merge's promise leaves room for all of its parts; those that are not there spend something."""
    epsilon, delta = sum(part.epsilon for part in parts), sum(part.delta for part in parts)
    room = 1 + _ROUNDING if all_there else 1 - _ROUNDING
    return epsilon <= whole.epsilon * room and delta <= whole.delta * (1 + _ROUNDING)


def _spent(release: Explainable) -> Spent:
    guarantee = release.guarantee
    check = release.explain().check
    # noise that also stands for a choice of keys, or is not what the file says, counts by the promise
    sigma = check.sigma if check.verdict == "enough" and key_selection_in(guarantee) is None else None
    return Spent(guarantee.epsilon, guarantee.delta, sigma)
