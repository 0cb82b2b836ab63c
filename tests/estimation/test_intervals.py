"""Intervals against their definition: all t from which the value is at most g standard errors away, those at t."""

import itertools
import math

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.estimation.estimate import Estimates

GRID = np.linspace(-1000.0, 1000.0, 20_001)
STEP = GRID[1] - GRID[0]
CASES = [
    ss.Estimate(value, projection, noise, lowest=lowest, slope=slope, curvature=curvature)
    for value, (projection, noise), lowest, slope, curvature in itertools.product(
        (-40.0, -3.0, 0.0, 25.0),
        ((9.0, 16.0), (0.0, 4.0), (0.0, 0.0)),
        (0.0, -math.inf),
        (-6.0, 0.0, 1.0, 8.0),
        (0.0, 0.1, 0.3),
    )
]


def twin(estimate: ss.Estimate, confidence: float) -> tuple[float, float]:
    """Return the ends on a grid, infinite beyond it; the nearest possible point if there is no such t."""
    reach = {0.95: 1.959964, 0.5: 0.67449}[confidence]
    anchor = max(estimate.value, estimate.lowest)
    if estimate.variance == 0 and anchor == estimate.value:
        return anchor, anchor
    variance = estimate.variance + estimate.slope * (GRID - anchor) + estimate.curvature * (GRID - anchor) ** 2
    held = ((estimate.value - GRID) ** 2 <= reach**2 * variance) & (estimate.lowest <= GRID)
    if not held.any():
        return anchor, anchor
    # the piece nearest to the anchor
    start = int(np.flatnonzero(held)[np.argmin(np.abs(GRID[held] - anchor))])
    gaps = np.flatnonzero(~held)
    below, above = gaps[gaps < start], gaps[gaps > start]
    low = GRID[below[-1] + 1] if below.size else -math.inf
    high = GRID[above[0] - 1] if above.size else math.inf
    return low, high


@pytest.mark.parametrize("confidence", [0.95, 0.5])
def test_intervals_are_those_of_the_definition(confidence: float) -> None:
    kinds = set()
    for estimate in CASES:
        low, high = twin(estimate, confidence)
        found = estimate.interval(confidence)
        for end, expected in ((found.low, low), (found.high, high)):
            assert np.clip(end, GRID[0], GRID[-1]) == pytest.approx(np.clip(expected, GRID[0], GRID[-1]), abs=2 * STEP)
        kinds.add((math.isfinite(found.low), math.isfinite(found.high), found.low == found.high))
    assert len(kinds) >= (4 if confidence == 0.95 else 2)


def test_many_intervals_are_those_of_each() -> None:
    for lowest in (0.0, -math.inf):
        some = [case for case in CASES if case.lowest == lowest]
        parts = np.array([[c.value, c.projection_variance, c.noise_variance, c.slope, c.curvature] for c in some]).T
        value, projection, noise, slope, curvature = parts
        many = Estimates(value, projection, noise, lowest=lowest, slope=slope, curvature=curvature)
        for place, one in enumerate(some):
            assert many[place] == one
            for ends, alone in (
                (many.interval(0.9), one.interval(0.9)),
                (many.selected_interval(9), one.selected_interval(9)),
            ):
                assert (ends.low[place], ends.high[place]) == pytest.approx(alone, rel=1e-12)


def test_scaling_an_estimate_scales_its_interval() -> None:
    for case in CASES:
        low, high = case.interval()
        assert tuple(case.scaled(0.25).interval()) == pytest.approx((low / 4, high / 4))


def test_selected_intervals_are_those_at_bonferronis_quantile() -> None:
    for case in CASES:
        assert case.selected_interval(1, 0.95) == case.interval(0.95)
        assert tuple(case.selected_interval(10, 0.9)) == pytest.approx(tuple(case.interval(0.99)))
