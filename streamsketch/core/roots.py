"""Roots of functions of one variable, and a curve through points, without SciPy, which takes half a second to load."""

import math
from collections.abc import Callable

import numpy as np

from streamsketch.core.numbers import Floats

_STEPS = 100


def root_of(
    function: Callable[[float], float], low: float, high: float, *, xtol: float = 2e-12, rtol: float = 4 * 2.0**-52
) -> float:
    """Return where a continuous function is 0, between two places at which its signs differ.

    Brent's method with the steps of `scipy.optimize.brentq`: at most ``xtol + rtol * |root|`` off.

    Raises
    ------
    ValueError
        If the signs do not differ.
    """
    before, now, block = low, high, 0.0
    at_before, at_now, at_block = function(before), function(now), 0.0
    if at_before == 0:
        return before
    if at_now == 0:
        return now
    if (at_before > 0) == (at_now > 0):
        raise ValueError(f"the function has one sign at {low} and {high}")
    last = step = 0.0
    for _ in range(_STEPS):
        if at_before != 0 and (at_before > 0) != (at_now > 0):
            block, at_block = before, at_before
            last = step = now - before
        if abs(at_block) < abs(at_now):
            before, now, block = now, block, now
            at_before, at_now, at_block = at_now, at_block, at_now
        tolerance, half = (xtol + rtol * abs(now)) / 2, (block - now) / 2
        if at_now == 0 or abs(half) < tolerance:
            return now
        trial = math.inf
        if abs(last) > tolerance and abs(at_now) < abs(at_before):
            trial = _step((before, at_before), (now, at_now), (block, at_block))
        if 2 * abs(trial) < min(abs(last), 3 * abs(half) - tolerance):
            last, step = step, trial
        else:
            last = step = half
        before, at_before = now, at_now
        now += step if abs(step) > tolerance else math.copysign(tolerance, half)
        at_now = function(now)
    return now


def _step(before: tuple[float, float], now: tuple[float, float], block: tuple[float, float]) -> float:
    """Return the step of a line through two places, or of inverse quadratic interpolation through three."""
    (x, y), (x_now, y_now), (x_block, y_block) = before, now, block
    if x == x_block:
        return -y_now * (x_now - x) / (y_now - y)
    first, second = (y - y_now) / (x - x_now), (y_block - y_now) / (x_block - x_now)
    return -y_now * (y_block * second - y * first) / (second * first * (y_block - y))


def interpolated(knots: Floats, values: Floats, places: Floats) -> Floats:
    """Return a monotone cubic curve through points, where the points are monotone, at places between the knots.

    The curve of Fritsch and Butland 1984, as `scipy.interpolate.PchipInterpolator` draws it.
    """
    steps, rises = np.diff(knots), np.diff(values) / np.diff(knots)
    slopes = np.full(knots.size, rises[0])
    if knots.size > 2:
        first, second = 2 * steps[1:] + steps[:-1], steps[1:] + 2 * steps[:-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            means = (first + second) / (first / rises[:-1] + second / rises[1:])
        slopes[1:-1] = np.where(rises[:-1] * rises[1:] > 0, means, 0.0)
        slopes[0] = _end_slope(steps[0], steps[1], rises[0], rises[1])
        slopes[-1] = _end_slope(steps[-1], steps[-2], rises[-1], rises[-2])
    at = np.clip(np.searchsorted(knots, places, side="right") - 1, 0, knots.size - 2)
    x, step = places - knots[at], steps[at]
    square = (3 * rises[at] - 2 * slopes[at] - slopes[at + 1]) / step
    cube = (slopes[at] + slopes[at + 1] - 2 * rises[at]) / step**2
    curve: Floats = values[at] + x * (slopes[at] + x * (square + x * cube))
    return curve


def _end_slope(step: float, other: float, rise: float, next_rise: float) -> float:
    slope = ((2 * step + other) * rise - step * next_rise) / (step + other)
    if slope * rise <= 0:
        return 0.0
    return 3 * rise if rise * next_rise <= 0 and abs(slope) > 3 * abs(rise) else slope
