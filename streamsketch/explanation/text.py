"""Explanations as text of 80 columns, and as JSON-serialisable objects."""

import decimal
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamsketch.core import aligned, filled
from streamsketch.estimation import rounded
from streamsketch.explanation.facts import Explained
from streamsketch.release import NoisePart, Verdict

if TYPE_CHECKING:
    from streamsketch.explanation.joint import JointExplanation
    from streamsketch.explanation.release import Explanation

_LABELS = 11  # columns
_LONG = 1e10
_SHOWN_PAIRS = 5
_SUMS = 1e-12  # what sums of floats are off
_UP = decimal.Context(prec=6, rounding=decimal.ROUND_CEILING)
_VERDICTS: dict[Verdict, str] = {"too little": "WARNING", "not checked": "Not checked"}
_NOT_SHOWN = "No file can show that the noise was drawn so and the bound enforced: for that you trust its maker."


def said_of(told: Explained) -> list[tuple[str, list[str]]]:
    """Return the guarantee as sentences under short headings."""
    conditions = [f"{condition}." for condition in told.guarantee.conditions]
    verdict = _VERDICTS.get(told.check.verdict, told.enough)
    return [
        ("Guarantee", [f"{told.guarantee}."]),
        ("Protected", [f"{told.who}."]),
        *([("Only if", conditions)] if conditions else []),
        ("Meaning", [f"{told.meaning}."]),
        ("How", told.how),
        ("Theorem", [f"{theorem}." for theorem in told.theorems] or ["none is known for a mechanism given as text."]),
        ("Check", [f"{verdict}: {told.check.reason}.", _NOT_SHOWN]),
        ("Noise", told.amount),
        ("Estimates", [f"assume that {told.assumed[0]}", *(f"They assume that {one}" for one in told.assumed[1:])]),
    ]


def one_as_text(told: "Explanation") -> str:
    """Return the explanation as text."""
    rows = [
        ("squared distance", "± s.e.", "of the map", "of the noise"),
        *(
            (
                f"{one.value:,.6g}",
                *(
                    f"{part:.3g}" if part >= _LONG else rounded(part, one.standard_error)
                    for part in (one.standard_error, one.projection_variance**0.5, one.noise_variance**0.5)
                ),
            )
            for one in told.distances
        ),
    ]
    return text_of(told, "Distances  to another release with the same noise:", rows)


def text_of(told: Explained, heading: str, rows: Sequence[Sequence[str]]) -> str:
    """Return the sentences, a table under its heading if there is one, and what is not protected."""
    lines = [filled(" ".join(said), first=label.ljust(_LABELS), indent=" " * _LABELS) for label, said in said_of(told)]
    if rows:
        lines.append(heading)
        lines += [f"{' ' * _LABELS}{line}" for line in aligned(rows, left=0).splitlines()]
    lines.append("Not protected")
    lines += [filled(said, first="- ", indent="  ") for said in told.not_protected]
    return "\n".join(lines)


def joint_as_text(told: "JointExplanation") -> str:
    """Return what the releases guarantee together as text, without the explanation of each."""
    title = f"Together, {_count(told)}:"
    unit, budget = told.guarantee.neighbours.unit, _budget(told.guarantee.epsilon, told.guarantee.delta)
    if told.populations == "disjoint":
        said = [f"if no {unit} is in two of the streams, the largest guarantee holds: {budget} (parallel composition)."]
    else:
        said = [f"if one {unit} may be in all of them, ε and δ add up to {budget} (Dwork and Roth 2014, Theorem 3.16)."]
        if told.finer is not None:
            budget = _budget(told.finer.epsilon, told.finer.delta)
            said.append(f"Tighter accounting gives {budget}, by {told.finer.by}, if the budgets were fixed beforehand.")
        elif told.counted > 1:
            said.append(_why_no_finer(told))
    if told.guarantee.conditions:
        said.append(f"Only if: {'; '.join(told.guarantee.conditions)}.")
    said += verdicts_said(told.verdicts)
    if told.sharing:
        pairs = ", ".join(f"{first + 1} and {second + 1}" for first, second in told.sharing[:_SHOWN_PAIRS])
        more = ", …" if len(told.sharing) > _SHOWN_PAIRS else ""
        said.append(f"The releases {pairs}{more} share data, so their populations are not disjoint.")
    return filled(" ".join([title, *said]))


def verdicts_said(verdicts: Mapping[Verdict, int]) -> list[str]:
    """Return sentences on what the checks of several releases mean for their composition."""
    said = []
    if short := verdicts["too little"]:
        said.append(f"WARNING: {short} of them state too little noise for their guarantee, so this does not hold.")
    if unchecked := verdicts["not checked"]:
        said.append(f"The noise of {unchecked} of them was not checked: this holds only if it is enough.")
    return said


def _why_no_finer(told: "JointExplanation") -> str:
    if told.delta == 0:
        return "No smaller ε is known at δ = 0; a larger δ may allow one."
    return "No tighter accounting was found."


def _count(told: "JointExplanation") -> str:
    given, counted = len(told.each), told.counted
    text = "1 release" if given == 1 else f"{given} releases"
    if given == counted:
        return text
    verb = "counts" if counted == 1 else "count"
    return f"{text}, of which {counted} {verb} (a copy, or a sum beside its parts, spends nothing more)"


def one_as_dict(told: "Explanation") -> dict[str, Any]:
    """Return the explanation as JSON-serialisable objects."""
    return fields_of(told) | {
        "noise": {
            "place": told.noise_place,
            "deviation": told.noise_deviation,
            "k2": told.noise.k2,
            "k4": told.noise.k4,
            "multiplier": str(told.multiplier),
            "better": None if told.better_noise is None else told.better_noise._asdict(),
        },
        "releases": told.releases,
        "composition": told.composition,
        "parts": [_part(part) for part in told.parts],
        "distances": [one.to_dict("squared_distance") for one in told.distances],
        "not_protected": told.not_protected,
    }


def fields_of(told: Explained) -> dict[str, Any]:
    """Return the common fields of all explanations, except ``not_protected``, which comes last."""
    return {
        "guarantee": told.guarantee.to_dict(),
        "protected": told.who,
        "meaning": told.meaning,
        "how": told.how,
        "theorems": told.theorems,
        "check": {"verdict": told.check.verdict, "reason": told.check.reason},
        "assumed": told.assumed,
        "projection": json.loads(told.projection.to_json()),
    }


def _part(part: NoisePart) -> dict[str, Any]:
    return {
        "count": part.count,
        "multiplier": str(part.multiplier),
        "k2": part.noise.k2,
        "k4": part.noise.k4,
        "guarantee": part.guarantee.to_dict(),
    }


def joint_as_dict(told: "JointExplanation") -> dict[str, Any]:
    """Return what the releases guarantee together as JSON-serialisable objects, with the explanation of each."""
    finer = told.finer
    return {
        "each": [one.to_dict() for one in told.each],
        "populations": told.populations,
        "counted": told.counted,
        "checks": dict(told.verdicts),
        "sharing": [list(pair) for pair in told.sharing],
        "guarantee": told.guarantee.to_dict(),
        "delta": told.delta,
        "finer": None if finer is None else {"epsilon": finer.epsilon, "delta": finer.delta, "by": finer.by},
    }


def _budget(epsilon: float, delta: float) -> str:
    return f"ε = {rounded_up(epsilon)}, δ = {rounded_up(delta)}"


def rounded_up(budget: float) -> str:
    """Return an ε or δ with up to six digits, rounded up, so that no guarantee looks better than it is.

    Examples
    --------
    >>> rounded_up(0.1 + 0.2), rounded_up(1.234561)
    ('0.3', '1.23457')
    """
    text = f"{budget:.6g}"
    if float(text) >= budget * (1 - _SUMS):
        return text
    return f"{float(_UP.create_decimal_from_float(budget)):.6g}"
