"""The picture of a plan of bounds: bias, noise and error of a squared distance, over the bound."""

import math

from streamsketch.planning.bounds import BoundPlan
from streamsketch.report.text import templates

_WIDTH, _HEIGHT = 640.0, 400.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 70.0, 70.0, 20.0, 50.0
_LEAST = 1e-4  # of the distance: what is below is drawn there
_COLOURS = {"bias": "#b35900", "noise": "#1f5fa8", "error": "#222222"}


def picture_of(plan: BoundPlan) -> str:
    """Return an SVG picture of a plan, which is **as secret as the plan**.

    Bias, noise and error of a squared distance over the bound, as shares of it, on logarithmic axes; a dashed line
    marks the bound of least error.

    Parameters
    ----------
    plan
        From `streamsketch.bounding.plan_bounds`.

    Returns
    -------
    str
        An SVG document without scripts or links.
    """
    across = _places([math.log(float(option.bound)) for option in plan.options])
    curves = {name: [getattr(option, name) / plan.squared_distance for option in plan.options] for name in _COLOURS}
    powers = {name: [math.log10(max(share, _LEAST)) for share in shares] for name, shares in curves.items()}
    low, high = math.floor(min(map(min, powers.values()))), math.ceil(max(map(max, powers.values())))

    def height(power: float) -> float:
        share = (power - low) / max(1, high - low)
        return round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM), 2)

    return (
        templates()
        .get_template("bounds.svg.j2")
        .render(
            width=_WIDTH,
            height=_HEIGHT,
            left=_LEFT,
            right=_WIDTH - _RIGHT,
            top=_TOP,
            bottom=_HEIGHT - _BOTTOM,
            lines=[
                (name, list(zip(across, map(height, powers[name]), strict=True)), colour)
                for name, colour in _COLOURS.items()
            ],
            shares=[(f"{100 * 10.0**power:g} %", height(power)) for power in range(low, high + 1)],
            ticks=_ticks([str(option.bound) for option in plan.options], across),
            marked=across[plan.options.index(plan.least)],
            plan=plan,
        )
    )


def _places(values: list[float]) -> list[float]:
    """Return where values are from left to right."""
    low, spread = min(values), max(values) - min(values)
    return [
        round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * ((value - low) / spread if spread else 0.5), 2) for value in values
    ]


def _ticks(names: list[str], across: list[float]) -> list[tuple[str, float]]:
    """Return the bounds that have room for their names."""
    ticks: list[tuple[str, float]] = []
    for name, x in zip(names, across, strict=True):
        if not ticks or x - ticks[-1][1] > 8 * (len(name) + 1):
            ticks.append((name, x))
    return ticks
