"""What the releases of a report promise, in words."""

from collections.abc import Mapping, Sequence

from streamsketch.errors import InvalidInputError
from streamsketch.explanation.one import Explanation
from streamsketch.explanation.report import rounded_up, said_of
from streamsketch.explanation.together import explain_together
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.release import PrivateSketch
from streamsketch.report.text import safe

_LONGEST = 20_000  # characters of what is said, which may quote a stranger's words


def promises(releases: Mapping[str, PrivateSketch]) -> str:
    """Return the section on who is protected, how, and from what not."""
    groups: dict[Explanation, list[str]] = {}
    for name, release in releases.items():
        groups.setdefault(release.explain(), []).append(name)
    told = "".join(_promise(one, names, alone=len(groups) == 1) for one, names in groups.items())
    short = sum(len(names) for one, names in groups.items() if one.check.verdict == "too little")
    return (
        f"<h2>What is promised</h2><p>{_by_itself(short)}</p>{told}<p>{_together(list(releases.values()))}"
        f"{' As too little noise is stated, this does not hold.' if short else ''} The numbers below are computed from "
        f"the releases alone and cost nothing more.</p>"
    )


def _by_itself(short: int) -> str:
    """Say what each release promises; ``short`` is how many state too little noise for it."""
    if not short:
        return "Each release keeps its promise by itself, whatever else is known."
    return f"<strong>Warning: {short} of the releases state too little noise for their promise.</strong>"


def _promise(told: Explanation, names: Sequence[str], *, alone: bool) -> str:
    whose = "Every release" if alone else ", ".join(map(safe, names))
    first, *rest = said_of(told)
    items = "".join(f"<dt>{label}</dt><dd>{safe(' '.join(said), _LONGEST)}</dd>" for label, said in rest)
    beyond = "".join(f"<li>{safe(said, _LONGEST)}</li>" for said in told.not_protected)
    warning = ' class="warning"' if told.check.verdict == "too little" else ""
    return (
        f"<section{warning}><p><strong>{whose}</strong>: {safe(' '.join(first[1]), _LONGEST)}</p>"
        f"<details{' open' if warning else ''}><summary>In full</summary><dl>{items}"
        f"<dt>Not protected</dt><dd><ul>{beyond}</ul></dd></dl></details></section>"
    )


def _together(releases: Sequence[PrivateSketch]) -> str:
    try:
        apart = explain_together(releases, populations="disjoint").guarantee
        joint = explain_together(releases, populations="overlapping")
    except InvalidInputError as error:
        if len({release.guarantee.neighbours for release in releases}) > 1:
            return "They are promised for different relations, so their sum has no short form."
        return f"Together they promise nothing that can be said in short: {safe(error, _LONGEST)}."
    over, unit = joint.guarantee, safe(apart.neighbours.unit)
    only_if = f" Only if: {safe('; '.join(over.conditions), _LONGEST)}." if over.conditions else ""
    finer = ""
    if joint.finer is not None:
        finer = f", accounted more finely ε&nbsp;=&nbsp;{rounded_up(joint.finer.epsilon)}"
    return (
        f"Together: {_budget(apart)} if no {unit} is in two of the streams, and {_budget(over)}{finer} if one may be "
        f"in all.{only_if}"
    )


def _budget(promise: Guarantee) -> str:
    return f"ε&nbsp;=&nbsp;{rounded_up(promise.epsilon)}, δ&nbsp;=&nbsp;{rounded_up(promise.delta)}"
