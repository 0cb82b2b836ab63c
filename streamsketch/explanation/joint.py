"""What several releases guarantee together."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args, overload

from streamsketch.core.documents import Json
from streamsketch.core.notebooks import ShownAsText
from streamsketch.core.text import filled
from streamsketch.core.wrong import RELEASE, wrong_type
from streamsketch.errors import InvalidInputError
from streamsketch.explanation.alone import INDIVIDUAL, TableExplanation, explain_alone
from streamsketch.explanation.base import BaseExplanation, budget_text
from streamsketch.explanation.registry import registry_entry
from streamsketch.explanation.release import Explanation
from streamsketch.privacy.assertions import apart_in_streams
from streamsketch.privacy.composition import Accounted, PrivacyCost, account
from streamsketch.privacy.guarantee import Guarantee, Populations
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.release.checking.noise import Verdict
from streamsketch.release.composition import compose
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.release.published import Published
from streamsketch.release.published_table import PublishedTable
from streamsketch.release.redundancy import non_redundant, sharing_data

_SHOWN_PAIRS = 5


@dataclasses.dataclass(frozen=True)
class JointExplanation(ShownAsText):
    """The explanation of several releases together, for overlapping or disjoint populations.

    Parameters
    ----------
    each
        The explanations of the releases and tables, in order.
    populations
        ``"overlapping"`` or ``"disjoint"``.
    counted
        The number of releases that spend budget. A release that can be computed from the others does not, such as a
        copy, or a sum beside all of its parts.
    guarantee
        Their composition by `streamsketch.compose`: the sums of ε and of δ, or the largest.
    delta
        The δ at which the smaller ε was computed.
    finer
        A smaller ε for overlapping populations and budgets fixed beforehand, and the method; None if only the sum is
        known.
    sharing
        Pairs of positions in ``each`` of releases that both count and share data: their populations are not disjoint.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> sketch = SJLT(dim=1 << 40, sketch_dim=64, sparsity=16, seed=7).sketch()
    >>> gaussian = {"epsilon": 1.0, "delta": 1e-6, "neighbours": L1(1), "mechanism": "gaussian"}
    >>> joint = explain(*(sketch.release(**gaussian) for _ in range(4)))
    >>> joint.guarantee.epsilon, round(joint.finer.epsilon, 2), joint.finer.delta
    (4.0, 1.98, 4e-06)
    """

    each: tuple[BaseExplanation | TableExplanation, ...]
    populations: Populations
    counted: int
    guarantee: Guarantee
    delta: float
    finer: Accounted | None
    sharing: tuple[tuple[int, int], ...] = ()

    @property
    def verdicts(self) -> Mapping[Verdict, int]:
        """The number of releases for each verdict on the noise."""
        verdicts = [explanation.check.verdict for explanation in self.each]
        return {verdict: verdicts.count(verdict) for verdict in get_args(Verdict)}

    def to_dict(self) -> Json:
        """Return the explanation as JSON-serialisable objects."""
        finer = self.finer
        return {
            "each": [explanation.to_dict() for explanation in self.each],
            "populations": self.populations,
            "counted": self.counted,
            "checks": dict(self.verdicts),
            "sharing": [list(pair) for pair in self.sharing],
            "guarantee": self.guarantee.to_dict(),
            "delta": self.delta,
            "finer": None if finer is None else {"epsilon": finer.epsilon, "delta": finer.delta, "by": finer.by},
        }

    def to_registry(self) -> Json:
        """Return one entry for all releases together; see `explain`."""
        explanations = [
            explanation
            for each in self.each
            for explanation in (each.explanations if isinstance(each, TableExplanation) else [each])
        ]
        return registry_entry(self.guarantee, explanations, " ".join(str(self).split()))

    def __str__(self) -> str:
        title = f"Together, {self._count}:"
        unit, budget = self.guarantee.neighbours.unit, budget_text(self.guarantee.epsilon, self.guarantee.delta)
        if self.populations == "disjoint":
            sentences = [
                f"if no {unit} is in two of the streams, the largest guarantee holds: {budget} (parallel composition)."
            ]
        else:
            sentences = [
                f"if one {unit} may be in all of them, ε and δ add up to {budget} (Dwork and Roth 2014, Theorem 3.16)."
            ]
            if self.finer is not None:
                budget = budget_text(self.finer.epsilon, self.finer.delta)
                sentences.append(
                    f"Tighter accounting gives {budget}, by {self.finer.by}, if the budgets were fixed beforehand."
                )
            elif self.counted > 1:
                sentences.append(self._why_no_finer)
        if conditions := self.further_conditions:
            sentences.append(f"Only if: {'; '.join(conditions)}.")
        sentences += _verdict_sentences(self.verdicts)
        if self.sharing:
            pairs = ", ".join(f"{first + 1} and {second + 1}" for first, second in self.sharing[:_SHOWN_PAIRS])
            more = ", …" if len(self.sharing) > _SHOWN_PAIRS else ""
            sentences.append(f"The releases {pairs}{more} share data, so their populations are not disjoint.")
        return filled(" ".join([title, *sentences]))

    @property
    def further_conditions(self) -> tuple[str, ...]:
        """The conditions of the guarantee without that of disjoint populations, which the text states first."""
        stated = {apart_in_streams(self.guarantee.neighbours.unit)} if self.populations == "disjoint" else set()
        return tuple(condition for condition in self.guarantee.conditions if condition not in stated)

    @property
    def _why_no_finer(self) -> str:
        if self.delta == 0:
            return "No smaller ε is known at δ = 0; a larger δ may allow one."
        return "No tighter accounting was found."

    @property
    def _count(self) -> str:
        releases, counted = len(self.each), self.counted
        text = "1 release" if releases == 1 else f"{releases} releases"
        if releases == counted:
            return text
        verb = "counts" if counted == 1 else "count"
        more = ", or all but one part of a history" if any(map(_is_of_history, self.each)) else ""
        return f"{text}, of which {counted} {verb} (a copy, or a sum beside its parts{more}, spends nothing more)"


def _is_of_history(explanation: BaseExplanation | TableExplanation) -> bool:
    inside = explanation.explanations if isinstance(explanation, TableExplanation) else [explanation]
    return any(isinstance(each, Explanation) and each.history is not None for each in inside)


@overload
def explain(release: PrivateSketch, /) -> Explanation: ...
@overload
def explain(release: PublishedTable[Any], /) -> TableExplanation: ...
@overload
def explain(release: Published, /) -> BaseExplanation | TableExplanation: ...
@overload
def explain(release: Published, /, *, populations: Populations = ..., delta: float) -> JointExplanation: ...
@overload
def explain(
    release: Published, other: Published, /, *more: Published, populations: Populations = ..., delta: float | None = ...
) -> JointExplanation: ...
def explain(*releases: Any, populations: Populations = "overlapping", delta: float | None = None) -> Any:
    """Explain what one or several releases guarantee: who is protected, how, by which theorem, and what is not.

    For disjoint populations, the worst guarantee holds for all. For overlapping populations, ε and δ add up (Dwork and
    Roth 2014, Theorem 3.16), which is loose for many releases. If a smaller ε is known at the same δ, it is shown too,
    with the method. It requires that budgets were fixed beforehand. If you choose a budget after seeing earlier
    releases, keep a `streamsketch.Ledger`.

    Parameters
    ----------
    *releases
        Private sketches, published signs, and tables of these. A table is one release, whose guarantee covers all of
        its keys. A release that was computed from the others spends nothing more: a release passed twice, a row beside
        its table, a sum beside all of its parts.
    populations
        ``"overlapping"`` if a privacy unit may be in several of the releases, ``"disjoint"`` if no unit is.
    delta
        The δ of the joint guarantee; by default the sum of the releases' δ. A larger δ allows a smaller ε.

    Returns
    -------
    Explanation, SignExplanation, IndividualSignExplanation or TableExplanation
        For one release without ``delta``.
    JointExplanation
        For several releases, or with ``delta``.

    Raises
    ------
    TypeError
        If an argument is not a release, or an `IndividualSignSketch` is passed with others or with ``delta``, because
        individual differential privacy does not compose.
    InvalidInputError
        If there are no releases, neighbour relations differ, ``populations`` is unknown, ``delta`` is below the sum of
        the releases' δ, populations are called disjoint although releases share data, or releases contradict their ids,
        as in `compose`.

    Notes
    -----
    ``to_registry()`` of the result is an entry of the Differential Privacy Deployments Registry, as far as
    releases know it: in the fields of its public schema, with a question to the publisher for each field that is null.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> table = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).table()
    >>> released = table.release(epsilon=1.0, neighbours=L1(1), public_keys=["AA", "UA"])
    >>> explain(released, released["AA"]).guarantee.epsilon
    1.0
    """
    for release in releases:
        if not isinstance(release, Published):
            raise wrong_type("only releases can be explained", release, RELEASE)
    if len(releases) == 1 and delta is None:
        return explain_alone(releases[0])
    return explain_jointly(releases, populations=populations, delta=delta)


def explain_jointly(
    releases: Sequence[Any], *, populations: Populations = "overlapping", delta: float | None = None
) -> JointExplanation:
    """Return what one or more releases guarantee together; it has the parameters and raises the errors of `explain`."""
    if any(isinstance(release.guarantee, IndividualGuarantee) for release in releases):
        raise TypeError(f"{INDIVIDUAL}: explain an IndividualSignSketch by itself")
    spends = non_redundant(releases)
    spending = [releases[place] for place in spends]
    sharing = tuple(sharing_data(releases))
    if populations == "disjoint" and sharing:
        raise InvalidInputError(
            f"releases {sharing[0][0] + 1} and {sharing[0][1] + 1} of {len(releases)} share data, so "
            f"their populations are not disjoint. Use populations='overlapping'"
        )
    guarantee = compose([release.guarantee for release in spending], populations=populations)
    if delta is not None and not guarantee.delta <= delta < 1:
        raise InvalidInputError(
            f"delta={delta} must be below 1 and at least the sum that the releases spend, {guarantee.delta:g}"
        )
    at = guarantee.delta if delta is None else delta
    each = tuple(map(explain_alone, releases))
    finer = None
    if populations == "overlapping" and len(spending) > 1:
        finer = account([_spent(each[place]) for place in spends], at)
        if finer is not None and finer.epsilon >= guarantee.epsilon:
            finer = None
    return JointExplanation(each, populations, len(spending), guarantee, at, finer, sharing)


def _spent(explanation: BaseExplanation | TableExplanation) -> PrivacyCost:
    guarantee, check = cast("Guarantee", explanation.guarantee), explanation.check
    # noise with a choice of keys, or noise other than stated, is accounted for by (ε, δ) alone
    sigma = check.sigma if check.verdict == "enough" and guarantee.mechanism.keys is None else None
    return PrivacyCost(guarantee.epsilon, guarantee.delta, sigma)


def _verdict_sentences(verdicts: Mapping[Verdict, int]) -> list[str]:
    """Return sentences on what the checks of several releases mean for their composition."""
    sentences = []
    if short := verdicts["too little"]:
        sentences.append(f"WARNING: {short} of them state too little noise for their guarantee, so this does not hold.")
    if unchecked := verdicts["not checked"]:
        sentences.append(f"The noise of {unchecked} of them was not checked: this holds only if it is enough.")
    return sentences
