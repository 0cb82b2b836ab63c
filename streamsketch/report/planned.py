"""What the sketches of a report can tell apart, and whether that is what was planned."""

import json
from collections.abc import Mapping
from typing import Any

from streamsketch.errors import InvalidInputError
from streamsketch.estimation import Estimate, rounded
from streamsketch.explanation import Explanation
from streamsketch.release import PrivateSketch
from streamsketch.report.parts import row, table
from streamsketch.report.text import safe

_INTRODUCTION = (
    "The standard error of an estimated squared distance, known before any data: what the map loses, and what the "
    "noise adds."
)
_HEADS = ("± s.e.", "of the map", "of the noise")


def planned(plan: Mapping[str, Any] | None, releases: Mapping[str, PrivateSketch]) -> str:
    """Return the section on the plan: the errors to expect, and those that were predicted where there was a plan.

    Raises
    ------
    InvalidInputError
        If the plan is not one, or is one of another sketch.
    """
    explained = [release.explain() for release in releases.values()]
    kinds = {(told.noise, told.noise_place, told.multiplier): told for told in explained}
    if plan is None:
        said = "".join(_expected(told) for told in kinds.values())
        return f"<h2>What these sketches can tell apart</h2><p>{_INTRODUCTION}</p>{said}"
    try:
        body = _against_plan(plan, list(kinds.values()))
    except InvalidInputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InvalidInputError(
            "the plan is not what `plan --json` prints: a field is missing or of another kind"
        ) from None
    return f"<h2>The plan</h2>{body}"


def _expected(told: Explanation) -> str:
    rows = "".join(
        row(f"{one.value:,.6g}", [rounded(part, one.standard_error) for part in _parts(one)]) for one in told.distances
    )
    return table(
        ["squared distance"], _HEADS, f"<tbody>{rows}</tbody>", safe(f"Noise: {told.guarantee.mechanism}", 400)
    )


def _parts(estimate: Estimate) -> tuple[float, float, float]:
    return estimate.standard_error, estimate.projection_variance**0.5, estimate.noise_variance**0.5


def _against_plan(plan: Mapping[str, Any], kinds: list[Explanation]) -> str:
    _check_same_sketch(plan["projection"], kinds[0])
    goal, promise = plan["goal"], plan["guarantee"]
    confidence = f"{100 * float(goal['confidence']):.10g}&nbsp;%"
    rows = ""
    for predicted in plan["chosen"]["predictions"]:
        value, error = float(predicted["squared_distance"]), float(predicted["standard_error"])
        now = max(told.at_distance(value).standard_error for told in kinds)
        reach = f"± {100 * float(predicted['relative_error']):.3g}&nbsp;%"
        rows += row(f"{value:,.6g}", [rounded(error, error), rounded(now, now), reach])
    wanted = ""
    if goal["relative_error"] is not None:
        reached = "which it reaches" if plan["reached"] else "which it does not reach"
        wanted = f" The goal was ± {100 * float(goal['relative_error']):.3g}&nbsp;% at {confidence}, {reached}."
    return (
        f"<p>Planned for ε&nbsp;=&nbsp;{float(promise['epsilon']):g}, δ&nbsp;=&nbsp;{float(promise['delta']):g} for "
        f"one {safe(promise['unit'])} of at most {safe(promise['bound'])}, by {safe(plan['chosen']['noise'])}."
        f"{wanted}</p>"
        + table(
            ["squared distance"],
            ["± s.e. planned", "± s.e. of these releases", f"planned at {confidence}"],
            f"<tbody>{rows}</tbody>",
            "Errors planned, and those that follow from the noise in the releases",
        )
        + _choices(plan, confidence)
    )


def _check_same_sketch(fields: Mapping[str, Any], told: Explanation) -> None:
    ours = json.loads(told.projection.to_json())
    differing = [name for name in sorted({*fields, *ours} - {"seed"}) if fields.get(name) != ours.get(name)]
    if differing:
        name = differing[0]
        raise InvalidInputError(
            f"the plan is one of another sketch: its {name} is {fields.get(name)}, the releases' is {ours.get(name)}. "
            f"Leave out the plan, or name the one they were made by"
        )


def _choices(plan: Mapping[str, Any], confidence: str) -> str:
    rows = ""
    for option in plan["alternatives"]:
        chosen = option["projection"] == plan["projection"] and option["mechanism"] == plan["mechanism"]
        worst = max(float(one["relative_error"]) for one in option["predictions"])
        rows += row(
            f"{'<strong>' if chosen else ''}{safe(option['projection']['kind'])}, {safe(option['mechanism'])}"
            f"{'</strong>, chosen' if chosen else ''}",
            [f"{int(option['cells']):,}", f"{int(option['nonzeros']):,}", f"± {100 * worst:.3g}&nbsp;%"],
        )
    choices = table(
        ["choice"], ["cells", "per update", f"at {confidence}"], f"<tbody>{rows}</tbody>", "What else there was"
    )
    notes = "".join(f"<li>{safe(note, 500)}</li>" for note in plan["notes"])
    return f"<details><summary>What else there was</summary>{choices}<ul>{notes}</ul></details>"
