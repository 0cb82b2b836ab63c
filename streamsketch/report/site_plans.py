"""The picture of a plan for sites: how often a shift is found, by how many units a site has."""

import math

import numpy as np

from streamsketch.planning.site_plans import SiteOption, SitePlan
from streamsketch.report.text import templates

_WIDTH, _HEIGHT = 720.0, 420.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 20.0, 64.0, 78.0
_POINTS = 41
_REACH = 8.0  # times as few and as many units, at least
_COLOURS = "#1f5fa8", "#b35900", "#3b7d4f"


def picture_of_sites(plan: SitePlan) -> str:
    """Return an SVG picture of how often the shift of a plan is found, which is as public as the plan.

    A line for the chosen features and for up to two others: those that show the single columns, or not, and find most;
    over the number of units a site, on a logarithmic axis. Marks are the number of units and the power asked for.

    Parameters
    ----------
    plan
        From `plan_sites`.

    Returns
    -------
    str
        An SVG document without scripts or links.
    """
    middle, low, high = math.sqrt(plan.units[0] * plan.units[1]), min(plan.units), max(plan.units)
    if plan.units_needed is not None:
        high = max(high, float(plan.units_needed))
    low, high = max(low / _REACH, 1.0), high * (_REACH if high <= middle * 2 else 3.0)

    def across(units: float) -> float:
        return round(_LEFT + math.log(units / low) / math.log(high / low) * (_WIDTH - _LEFT - _RIGHT), 1)

    def down(power: float) -> float:
        return round(_TOP + (1 - power) * (_HEIGHT - _TOP - _BOTTOM), 1)

    units = np.geomspace(low, high, _POINTS).tolist()
    lines = [
        (
            _name(option),
            colour,
            " ".join(f"{across(number)},{down(plan.power_at(number, option))}" for number in units),
            f"{100 * option.prediction.power:.0f} %",
        )
        for option, colour in zip(_options(plan), _COLOURS, strict=False)
    ]
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    round_numbers = [times * 10**power for power in powers for times in (1, 2, 5) if low <= times * 10**power <= high]
    return (
        templates()
        .get_template("sites.svg.j2")
        .render(
            width=_WIDTH, height=_HEIGHT, left=_LEFT, right=_WIDTH - _RIGHT, top=_TOP, bottom=_HEIGHT - _BOTTOM,
            lines=lines, ticks=[(f"{number:,}", across(number)) for number in round_numbers],
            levels=[(f"{level} %", down(level / 100)) for level in (0, 20, 40, 60, 80, 100)],
            goal=down(plan.power), marks=[across(number) for number in dict.fromkeys(plan.units)],
            plan=plan, shift=str(plan.shift),
        )
    )  # fmt: skip


def _options(plan: SitePlan) -> list[SiteOption]:
    """Return the chosen option, and the best of each kind that is another."""
    options = [plan.chosen]
    for shows in (False, True):
        own = [option for option in plan.options if option.shows_columns is shows]
        options += sorted(own, key=lambda option: -option.prediction.power)[:1]
    return list({id(option): option for option in options}.values())


def _name(option: SiteOption) -> str:
    waves = f"{option.waves} frequencies" if option.waves else "categories"
    own = f", moments={option.moments}" if option.moments else ", no features of each number"
    return f"{waves}{own if option.features.joint else ''}: {option.features.dim:,} features"
