"""What the releases of a report guarantee."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from streamsketch.core import sentences
from streamsketch.core.documents import Json
from streamsketch.errors import InvalidInputError
from streamsketch.explanation.alone import one_release
from streamsketch.explanation.base import budget_text, format_rounded_up
from streamsketch.explanation.joint import JointExplanation, explain_jointly
from streamsketch.explanation.release import Explanation
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.release.checking.noise import Verdict
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.release.private_table import PrivateTable
from streamsketch.report.series import series_in
from streamsketch.report.text import plain_unit, shorten

_ANY_READER = "The guarantee does not depend on what a reader already knows."
_PLAIN = 10.0  # of ε, up to which its factor means something
_LONGEST = 20_000  # characters of text that may quote an untrusted file


def guarantees(releases: Mapping[str, PrivateSketch], published: Mapping[str, PrivateSketch | PrivateTable]) -> Json:
    """Return what the releases guarantee one by one, and what those published guarantee together."""
    groups: dict[Explanation, list[str]] = {}
    for name, release in releases.items():
        groups.setdefault(release.explain(), []).append(name)
    verdicts = Counter(explanation.check.verdict for explanation, names in groups.items() for _ in names)
    return {
        "short": verdicts["too little"],
        "checked": _by_themselves(verdicts),
        "brief": _brief(list(groups)),
        "meaning": "" if verdicts["too little"] else _meaning([explanation.guarantee for explanation in groups]),
        "asserted": _asserted([(explanation.guarantee, len(names)) for explanation, names in groups.items()]),
        "groups": [_guarantee(explanation, names, alone=len(groups) == 1) for explanation, names in groups.items()],
        "together": _together(published, verdicts, releases),
    }


def _meaning(guarantees: Sequence[Guarantee | IndividualGuarantee]) -> str:
    """Return what ε of the release that guarantees least means, in one plain sentence, and what several add up to."""
    worst = max(guarantees, key=lambda guarantee: guarantee.epsilon)
    delta = max(guarantee.delta for guarantee in guarantees)
    units = {plain_unit(guarantee.neighbours.unit) for guarantee in guarantees}
    unit = units.pop() if len(units) == 1 else "unit"
    large = worst.epsilon >= _PLAIN
    factor = sentences.LARGE_FACTOR if large else f"{math.ceil(10 * math.exp(worst.epsilon)) / 10:,.1f}"
    unless = sentences.UNLESS.format(delta=f"{delta:g}") if delta else ""
    epsilon = format_rounded_up(worst.epsilon)
    return sentences.FACTOR.format(unit=unit, factor=factor, unless=unless, epsilon=epsilon)


def _asserted(guarantees: Sequence[tuple[Guarantee | IndividualGuarantee, int]]) -> list[str]:
    """Return which bounds were not enforced when data were read, in sentences: the guarantee rests on them."""
    every = sum(count for _, count in guarantees)
    counts: dict[str, int] = {}
    for guarantee, count in guarantees:
        if guarantee.basis == "enforced":
            continue
        bound = shorten(guarantee.neighbours.bound)
        whether = "" if guarantee.basis == "asserted" else sentences.NOT_SAID
        unit = plain_unit(guarantee.neighbours.unit)
        text = sentences.ASSERTED_BOUND.format(unit=unit, bound=bound, whether=whether)
        counts[text] = counts.get(text, 0) + count
    return [
        text if count == every else sentences.IN_SOME.format(count=count, releases=every, text=text)
        for text, count in counts.items()
    ]


def _brief(explanations: Sequence[Explanation]) -> str:
    """Return the budget and the unit of all releases, or the largest, in a few words."""
    guarantees = [explanation.guarantee for explanation in explanations]
    units = {shorten(guarantee.neighbours.unit) for guarantee in guarantees}
    most = _budget_of(
        max(guarantee.epsilon for guarantee in guarantees), max(guarantee.delta for guarantee in guarantees)
    )
    if len(units) > 1:
        return f"{most} at most, {sentences.FOR_DIFFERENT_UNITS}"
    whose = sentences.FOR_UNITS.format(unit=units.pop())
    alike = len({(guarantee.epsilon, guarantee.delta) for guarantee in guarantees}) == 1
    return f"{most} {whose}" if alike else f"{most} at most, {whose}"


def _by_themselves(verdicts: Mapping[Verdict, int]) -> str:
    """Return what the checks of the releases found."""
    wrong, unchecked = verdicts["too little"], verdicts["not checked"]
    everything = sum(verdicts.values())
    texts = []
    if unchecked:
        whose = "any of the releases" if unchecked == everything else f"{unchecked} of the releases"
        texts.append(f"Whether {whose} have enough noise for their guarantee was not checked, for the reasons below.")
    if not wrong and not unchecked:
        texts.append(f"The noise that each release states is enough for its guarantee. {_ANY_READER}")
    elif wrong + unchecked < everything:
        texts.append(f"The noise that the others state is enough for their guarantee. {_ANY_READER}")
    return " ".join(texts)


def _only_if_enough(verdicts: Mapping[Verdict, int]) -> str:
    if verdicts["too little"]:
        return " Too little noise is stated, so this does not hold."
    if verdicts["not checked"]:
        return " Not all noise was checked, so this holds only if it is enough."
    return ""


def _guarantee(explanation: Explanation, names: Sequence[str], *, alone: bool) -> Json:
    first, *rest = explanation.sections
    return {
        "whose": sentences.EVERY_RELEASE if alone else ", ".join(map(shorten, names)),
        "guarantee": " ".join(first[1]),
        "sections": [(label, " ".join(paragraphs)) for label, paragraphs in rest],
        "not_protected": explanation.not_protected,
        "warning": explanation.check.verdict == "too little",
    }


def _together(
    published: Mapping[str, PrivateSketch | PrivateTable],
    verdicts: Mapping[Verdict, int],
    releases: Mapping[str, PrivateSketch],
) -> str:
    try:
        joint = explain_jointly(list(published.values()))
        if (windows := _over_windows(releases, joint)) is not None:
            return f"Together: {windows}{_conditions(joint)}{_only_if_enough(verdicts)}"
    except InvalidInputError as error:
        if len({release.guarantee.neighbours for release in published.values()}) > 1:
            return "They have different neighbour relations, so their ε do not add up."
        return f"No joint guarantee can be stated: {shorten(error, _LONGEST)}."
    over = joint.guarantee
    finer = ""
    if joint.finer is not None:
        epsilon = format_rounded_up(joint.finer.epsilon)
        finer = f", with tighter accounting ε\u00a0=\u00a0{epsilon} (budgets fixed beforehand)"
    apart, in_all = (_apart(published, joint), " if one may be in all") if len(published) > 1 else ("", "")
    text = f"Together: {apart}{_budget(over)}{finer}{in_all}.{_conditions(joint)}"
    if any(isinstance(release, PrivateTable) for release in published.values()):
        text += f" {one_release(over.neighbours)}"
    return text + _only_if_enough(verdicts)


def _conditions(joint: JointExplanation) -> str:
    conditions = joint.guarantee.conditions
    return f" Only if: {shorten('; '.join(conditions), _LONGEST)}." if conditions else ""


def _over_windows(releases: Mapping[str, PrivateSketch], joint: JointExplanation) -> str | None:
    """Return what one unit spends over the windows of a stream; None if the releases are not windows.

    Most units are in many windows, so the guarantee of one window alone says little about them.
    """
    neighbours = joint.guarantee.neighbours
    series = [[releases[name] for name in windows.values()] for windows in series_in(releases).values()]
    count = max(map(len, series), default=0)
    who, within, _ = neighbours.unit.partition(" in one ")
    if count < 2 or neighbours.any_keys or (neighbours.max_keys > 1 and not within) or joint.sharing:
        return None
    if " in at most " in neighbours.unit:
        return None
    who = shorten(who)
    each = [explain_jointly(windows, populations="overlapping").guarantee for windows in series]
    longest = max(each, key=lambda guarantee: (guarantee.epsilon, guarantee.delta))
    every = [release for windows in series for release in windows]
    single = explain_jointly(every, populations="disjoint").guarantee
    text = f"{_budget(single)} for what one {who} does in one window{' of one key' if len(series) > 1 else ''}"
    among = f"all {count} windows" if len(series) == 1 else f"all {count} windows of one key"
    text += f", and {_budget(longest)} for a {who} who is in {among}"
    if len(series) > 1 and neighbours.max_keys == 1:
        everything = explain_jointly(every, populations="overlapping").guarantee
        text += f", and {_budget(everything)} for one who is in all windows of all {len(series)} keys"
    return f"{text}. A {who} in n windows spends n times the ε of one."


def _apart(published: Mapping[str, PrivateSketch | PrivateTable], joint: JointExplanation) -> str:
    """Return what holds for disjoint populations, unless releases share data."""
    if joint.sharing:
        names = list(published)
        first, second = (shorten(names[place]) for place in joint.sharing[0])
        return f"{first} and {second} share data, so populations are not disjoint: "
    apart = explain_jointly(list(published.values()), populations="disjoint").guarantee
    return f"{_budget(apart)} if no {shorten(apart.neighbours.unit)} is in two of the streams, and "


def _budget(guarantee: Guarantee) -> str:
    return _budget_of(guarantee.epsilon, guarantee.delta)


def _budget_of(epsilon: float, delta: float) -> str:
    return budget_text(epsilon, delta).replace(" = ", "\u00a0=\u00a0")
