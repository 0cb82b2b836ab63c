"""What the releases of a report guarantee."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from streamsketch.errors import InvalidInputError
from streamsketch.explanation import (
    Explanation,
    JointExplanation,
    budget_text,
    explain_jointly,
    format_rounded_up,
    one_release,
)
from streamsketch.privacy import Guarantee
from streamsketch.release import PrivateSketch, PrivateTable, Verdict
from streamsketch.report.text import shorten

_LONGEST = 20_000  # characters of text that may quote an untrusted file


def guarantees(
    releases: Mapping[str, PrivateSketch], published: Mapping[str, PrivateSketch | PrivateTable]
) -> dict[str, Any]:
    """Return what the releases guarantee one by one, and what those published guarantee together."""
    groups: dict[Explanation, list[str]] = {}
    for name, release in releases.items():
        groups.setdefault(release.explain(), []).append(name)
    verdicts = Counter(one.check.verdict for one, names in groups.items() for _ in names)
    return {
        "short": verdicts["too little"],
        "checked": _by_themselves(verdicts),
        "groups": [_guarantee(one, names, alone=len(groups) == 1) for one, names in groups.items()],
        "together": _together(published, verdicts),
    }


def _by_themselves(verdicts: Mapping[Verdict, int]) -> str:
    """Return what the checks of the releases found."""
    wrong, unchecked = verdicts["too little"], verdicts["not checked"]
    everything = sum(verdicts.values())
    found = []
    if unchecked:
        whose = "any of the releases" if unchecked == everything else f"{unchecked} of the releases"
        found.append(f"Whether {whose} have enough noise for their guarantee was not checked, for the reasons below.")
    if not wrong and not unchecked:
        found.append("Each release states enough noise for its guarantee, which then holds whatever else is known.")
    elif wrong + unchecked < everything:
        found.append("The others state enough noise for their guarantee, which then holds whatever else is known.")
    return " ".join(found)


def _only_if_enough(verdicts: Mapping[Verdict, int]) -> str:
    if verdicts["too little"]:
        return " As too little noise is stated, this does not hold."
    if verdicts["not checked"]:
        return " As not all noise was checked, this holds only if it is enough."
    return ""


def _guarantee(explanation: Explanation, names: Sequence[str], *, alone: bool) -> dict[str, Any]:
    first, *rest = explanation.sections
    return {
        "whose": "Every release" if alone else ", ".join(map(shorten, names)),
        "guarantee": " ".join(first[1]),
        "sections": [(label, " ".join(sentences)) for label, sentences in rest],
        "not_protected": explanation.not_protected,
        "warning": explanation.check.verdict == "too little",
    }


def _together(published: Mapping[str, PrivateSketch | PrivateTable], verdicts: Mapping[Verdict, int]) -> str:
    try:
        joint = explain_jointly(list(published.values()))
    except InvalidInputError as error:
        if len({release.guarantee.neighbours for release in published.values()}) > 1:
            return "They have different neighbour relations, so their ε do not add up."
        return f"No joint guarantee can be stated: {shorten(error, _LONGEST)}."
    over = joint.guarantee
    only_if = f" Only if: {shorten('; '.join(over.conditions), _LONGEST)}." if over.conditions else ""
    finer = ""
    if joint.finer is not None:
        epsilon = format_rounded_up(joint.finer.epsilon)
        finer = f", with tighter accounting ε\u00a0=\u00a0{epsilon} (budgets fixed beforehand)"
    apart, in_all = (_apart(published, joint), " if one may be in all") if len(published) > 1 else ("", "")
    text = f"Together: {apart}{_budget(over)}{finer}{in_all}.{only_if}"
    if any(isinstance(release, PrivateTable) for release in published.values()):
        text += f" {one_release(over.neighbours)}"
    return text + _only_if_enough(verdicts)


def _apart(published: Mapping[str, PrivateSketch | PrivateTable], joint: JointExplanation) -> str:
    """Return what holds for disjoint populations, unless releases share data."""
    if joint.sharing:
        names = list(published)
        first, second = (shorten(names[place]) for place in joint.sharing[0])
        return f"{first} and {second} share data, so populations are not disjoint: "
    apart = explain_jointly(list(published.values()), populations="disjoint").guarantee
    return f"{_budget(apart)} if no {shorten(apart.neighbours.unit)} is in two of the streams, and "


def _budget(guarantee: Guarantee) -> str:
    epsilon, delta = guarantee.epsilon, guarantee.delta
    return budget_text(epsilon, delta).replace(" = ", "\u00a0=\u00a0")
