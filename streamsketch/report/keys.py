"""The picture of the keys of a plan: how many units each has, and how likely it is below the noise floor."""

import math

import numpy as np

from streamsketch.errors import InvalidInputError
from streamsketch.planning.noise_floor import NoiseFloor
from streamsketch.planning.unit_keys import PlannedKey
from streamsketch.planning.unit_plans import UnitPlan
from streamsketch.report.text import shorten, templates

_WIDTH, _ROW = 720.0, 18.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 170.0, 90.0, 46.0, 62.0
_MOST_KEYS = 60
_LETTERS = 24
_LOST, _CLEAR = (200, 204, 210), (31, 95, 168)  # colours at probability 1 and 0
_MOST_TICKS = 7


def picture_of_keys(plan: UnitPlan) -> str:
    """Return an SVG picture of the keys of a plan, which is as public as the plan.

    A bar for each key, largest first, of how many units it has, on a logarithmic axis. Its colour and the number beside
    it are the probability that its release is below the noise floor, or has no average. Lines mark how many units it
    takes to be below in half of all cases and in 5 %. Of more than 60 keys, 60 are shown, evenly chosen by size.

    Parameters
    ----------
    plan
        From `plan_units`.

    Returns
    -------
    str
        An SVG document without scripts or links.

    Raises
    ------
    InvalidInputError
        For a plan of squared distances or of single items, in which no key is lost.
    """
    if plan.question not in ("cosine", "mean"):
        raise InvalidInputError(
            f"keys are lost for cosines and averages, and this plan is for a {plan.question}: plan with "
            f"question='cosine' or 'mean'"
        )
    ordered = sorted(plan.keys, key=lambda key: -key.units)
    places = np.linspace(0, len(ordered) - 1, min(len(ordered), _MOST_KEYS)).round().astype(int)
    keys = [ordered[place] for place in places]
    marks = [
        (units, words)
        for units, words in (
            (plan.least_units(), "even odds"),
            (plan.least_units(NoiseFloor.sure), f"{100 * NoiseFloor.sure:.0f} %"),
        )
        if math.isfinite(units)
    ]
    low = 10 ** math.floor(math.log10(min([keys[-1].units, *(units for units, _ in marks)])))
    high = max([keys[0].units, *(units for units, _ in marks)]) * 1.1

    def across(units: float) -> float:
        share = math.log(units / low) / math.log(high / low)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    bottom = _TOP + _ROW * len(keys)
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    powers = powers[:: -(-len(powers) // _MOST_TICKS)]
    return (
        templates()
        .get_template("keys.svg.j2")
        .render(
            width=_WIDTH,
            height=bottom + _BOTTOM,
            left=_LEFT,
            right=_WIDTH - _RIGHT,
            top=_TOP,
            bottom=bottom,
            row=_ROW,
            keys=[(shorten(key.key, _LETTERS), across(key.units), _colour(key), _percent(key)) for key in keys],
            ticks=[(f"{10**power:,}", across(10**power)) for power in powers],
            marks=[(across(units), words) for units, words in marks],
            some=f"{len(keys)} of {len(ordered):,} keys" if len(keys) < len(ordered) else f"{len(keys)} keys",
            lost="without an average" if plan.question == "mean" else "below the noise floor",
            plan=plan,
        )
    )


def _colour(key: PlannedKey) -> str:
    mixed = (round(clear + key.below * (lost - clear)) for lost, clear in zip(_LOST, _CLEAR, strict=True))
    return f"rgb({', '.join(map(str, mixed))})"


def _percent(key: PlannedKey) -> str:
    return f"{100 * key.below:.0f} %"
