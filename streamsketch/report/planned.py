"""The expected errors of the sketches of a report, compared with the plan."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import block_of
from streamsketch.estimation.cosines import below_noise_floor
from streamsketch.estimation.estimate import format_value
from streamsketch.estimation.means import few_units
from streamsketch.explanation.release import Explanation
from streamsketch.release.private_sketch import PrivateSketch

Row = tuple[str, list[str]]


def expected_errors(releases: Mapping[str, PrivateSketch]) -> list[tuple[str, list[Row]]]:
    """Return the expected errors for each kind of noise."""
    return [
        (
            str(explanation.guarantee.mechanism),
            [
                (f"{distance.value:,.6g}", [format_value(part, distance.standard_error) for part in distance.errors])
                for distance in explanation.distances
            ],
        )
        for explanation in _kinds(releases)
    ]


def _kinds(releases: Mapping[str, PrivateSketch]) -> list[Explanation]:
    explanations = [release.explain() for release in releases.values()]
    return list(
        {
            (explanation.noise, explanation.noise_place, explanation.multiplier): explanation
            for explanation in explanations
        }.values()
    )


def against_plan(plan: Mapping[str, Any], releases: Mapping[str, PrivateSketch]) -> dict[str, Any]:
    """Return the plan compared with the releases.

    Raises
    ------
    InvalidInputError
        If the plan is malformed, for another sketch, for signs (`plan_signs`) or for features (`plan_sites`).
    """
    kinds = _kinds(releases)
    others = {"neighbours": "published signs", "sites": "features of people"}
    if (question := plan.get("question")) in others:
        raise InvalidInputError(f"the plan is for {others[question]}, and a report shows sketches: leave the plan out")
    try:
        _check_same_sketch(plan["projection"], kinds[0])
        return _against_unit_plan(plan, releases) if "question" in plan else _against_plan(plan, kinds)
    except InvalidInputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InvalidInputError(
            "the plan is not what `plan --json` prints: a field is missing or of another type"
        ) from None


def _against_plan(plan: Mapping[str, Any], kinds: list[Explanation]) -> dict[str, Any]:
    goal, guarantee = plan["goal"], plan["guarantee"]
    errors = []
    for predicted in plan["chosen"]["predictions"]:
        value, error = float(predicted["squared_distance"]), float(predicted["standard_error"])
        now = max(explanation.at_distance(value).standard_error for explanation in kinds)
        errors.append((f"{value:,.6g}", [format_value(error, error), format_value(now, now), _percent(predicted)]))
    return {
        "epsilon": f"{float(guarantee['epsilon']):g}",
        "delta": f"{float(guarantee['delta']):g}",
        "unit": guarantee["unit"],
        "bound": guarantee["bound"],
        "noise": plan["chosen"]["noise"],
        "goal": None if goal["relative_error"] is None else _percent(goal),
        "confidence": f"{100 * float(goal['confidence']):.10g}\u00a0%",
        "reached": plan["reached"],
        "errors": errors,
        "choices": [_choice(option, plan) for option in plan["alternatives"]],
        "notes": list(plan["notes"]),
    }


def _against_unit_plan(plan: Mapping[str, Any], releases: Mapping[str, PrivateSketch]) -> dict[str, Any]:
    """Return which keys were expected below the noise floor, and which are."""
    guarantee, averages = plan["guarantee"], plan["question"] == "mean"
    block = block_of(list(releases.values()))
    counted = block.units is not None and not np.isnan(block.units.number).any()
    lost = few_units(block) if averages and counted else below_noise_floor(block, len(releases))
    is_lost = dict(zip(releases, lost.tolist(), strict=True))
    words = {True: "no average" if averages else "below", False: "stands out", None: "not released"}
    keys = [
        (
            str(key["key"]),
            [
                f"{float(key['units']):,.6g}",
                f"{float(key['length']):,.3g}",
                f"{100 * float(key['below']):.0f}\u00a0%",
                f"± {format_value(float(key['cosine_error']), float(key['cosine_error']))}",
                words[is_lost.get(str(key["key"]))],
            ],
        )
        for key in plan["keys"]
    ]
    return {
        "epsilon": f"{float(guarantee['epsilon']):g}",
        "delta": f"{float(guarantee['delta']):g}",
        "unit": guarantee["unit"],
        "bound": guarantee["bound"],
        "noise": plan["chosen"]["noise"],
        "keys": keys,
        "averages": averages,
        "notes": list(plan["notes"]),
    }


def _choice(option: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    worst = max(option["predictions"], key=lambda prediction: float(prediction["relative_error"]))
    return {
        "kind": option["projection"]["kind"],
        "mechanism": option["mechanism"],
        "chosen": option["projection"] == plan["projection"] and option["mechanism"] == plan["mechanism"],
        "cells": [f"{int(option['cells']):,}", f"{int(option['nonzeros']):,}", _percent(worst)],
    }


def _percent(predicted: Mapping[str, Any]) -> str:
    return f"± {100 * float(predicted['relative_error']):.3g}\u00a0%"


def _check_same_sketch(fields: Mapping[str, Any], explanation: Explanation) -> None:
    ours = json.loads(explanation.projection.to_json())
    differing = [name for name in sorted({*fields, *ours} - {"seed"}) if fields.get(name) != ours.get(name)]
    if differing:
        name = differing[0]
        raise InvalidInputError(
            f"the plan is for another sketch: its {name} is {fields.get(name)}, the releases' is {ours.get(name)}. "
            "Leave out the plan, or pass the plan of these releases"
        )
