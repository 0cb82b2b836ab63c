"""Intervals against their definition: all t from which the value is at most g standard errors away, those at t.

A value outside the range counts as the nearest end of the range.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2

import streamsketch as ss
from streamsketch.core.numbers import Floats
from streamsketch.estimation.cosines import cosines as cosines_of
from streamsketch.estimation.estimate import Estimate, format_value
from streamsketch.estimation.estimate_arrays import Estimates
from streamsketch.estimation.noise_effect import OutputNoise
from streamsketch.projections import MapVariance

GRID = np.linspace(-1000.0, 1000.0, 20_001)
STEP = GRID[1] - GRID[0]
CASES = [
    ss.estimation.Estimate(value, projection, noise, lowest=lowest, slope=slope, curvature=curvature)
    for value, (projection, noise), lowest, slope, curvature in itertools.product(
        (-40.0, -3.0, 0.0, 25.0),
        ((9.0, 16.0), (0.0, 4.0), (0.0, 0.0)),
        (0.0, -math.inf),
        (-6.0, 0.0, 1.0, 8.0),
        (0.0, 0.1, 0.3),
    )
]


def twin(estimate: ss.estimation.Estimate, confidence: float) -> tuple[float, float]:
    """Return the ends on a grid, infinite beyond it."""
    reach = {0.95: 1.959964, 0.5: 0.67449}[confidence]
    anchor = max(estimate.value, estimate.lowest)
    if estimate.variance == 0:
        return anchor, anchor
    variance = estimate.variance + estimate.slope * (GRID - anchor) + estimate.curvature * (GRID - anchor) ** 2
    held = ((anchor - GRID) ** 2 <= reach**2 * variance) & (estimate.lowest <= GRID)
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


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_no_interval_has_an_error_and_no_width(level: float) -> None:
    """However far outside its range noise puts an estimate, for one of many, too, and for every range."""
    ranges = ((0.0, math.inf), (-math.inf, 0.0), (-1.0, 1.0), (0.0, math.pi), (0.0, 4.0))
    for (lowest, highest), value, slope in itertools.product(ranges, (-1e9, -4.0, 0.0, 4.0, 1e9), (0.0, 1.0)):
        one = ss.estimation.Estimate(value, 0.5, 0.5, lowest, highest, slope)
        for low, high in (one.interval(level), one.interval(level, "chebyshev"), one.selected_interval(9, level)):
            assert lowest <= low < high <= highest
        many = Estimates(*np.array([[value], [0.5], [0.5]]), lowest=lowest, highest=highest)
        for each in (many.interval(level), many.interval(level, level="all"), many.selected_interval(9, level)):
            assert (each.low < each.high).all()


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
        if case.lowest < 0 or not case.curvature:
            assert tuple(case.selected_interval(10, 0.9)) == pytest.approx(tuple(case.interval(0.99)))


def test_selected_intervals_of_squares_are_at_the_quantiles_of_chi_square() -> None:
    """All t that the value differs from by no more than χ² of 2 / curvature degrees of freedom does, either way."""
    found = 0
    for case in CASES:
        if case.lowest < 0 or case.slope < 0 or not case.curvature or not case.variance:
            continue
        anchor, law = max(case.value, 0.0), chi2(2 / case.curvature)
        grid = GRID[GRID >= 0]
        variance = case.variance + case.slope * (grid - anchor) + case.curvature * (grid - anchor) ** 2
        if variance.min() < 0:
            continue
        error = np.sqrt(variance)
        above, below = ((law.isf(tail) - law.mean()) / law.std() for tail in (0.005, 0.995))
        held = grid[(anchor - grid <= above * error) & (grid - anchor <= -below * error)]
        low, high = case.selected_interval(10, 0.9)
        assert (low, min(high, GRID[-1])) == pytest.approx((held[0], held[-1]), abs=2 * STEP)
        found += 1
    assert found > 20


def of_streams(gaps: Floats, error: float) -> Estimates:
    """Return the estimates of all pairs that `pairwise` would return, of this standard error."""
    apart = 1.0 - np.eye(len(gaps))
    return Estimates(gaps, 0.5 * error**2 * apart, 0.5 * error**2 * apart, lowest=0.0)


def test_intervals_of_all_pairs_allow_for_each_pair_once() -> None:
    pairs = of_streams(np.array([[0.0, 50, 90], [50, 0, 70], [90, 70, 0]]), 5.0)
    assert pairs.distinct == 3
    for together, alone in (
        (pairs.interval(0.95, level="all"), pairs.interval(1 - 0.05 / 3)),
        (pairs.interval(0.95, "chebyshev", level="all"), pairs.interval(1 - 0.05 / 3, "chebyshev")),
    ):
        assert together.low == pytest.approx(alone.low)
        assert together.high == pytest.approx(alone.high)
    between = Estimates(np.array([[50.0, 90.0]]), np.ones((1, 2)), np.ones((1, 2)))
    assert between.distinct == 2
    assert Estimates(np.arange(9.0).reshape(3, 3), np.ones((3, 3)), np.ones((3, 3))).distinct == 9
    with pytest.raises(ss.InvalidInputError, match="'each' or 'all', got 'both'"):
        pairs.interval(level="both")  # type: ignore[arg-type]


def test_extremes_and_ranks_are_what_simultaneous_intervals_leave_open() -> None:
    """By enumeration: of every way to place the quantities at the ends of their intervals."""
    gaps = np.array([[0.0, 50, 90, 51], [50, 0, 70, 30], [90, 70, 0, 45], [51, 30, 45, 0]])
    for error in (0.1, 2.0, 8.0, 40.0):
        pairs = of_streams(gaps, error)
        first, second = np.triu_indices(4, 1)
        ends = pairs.interval(0.9, level="all")
        corners = list(itertools.product(*zip(ends.low[first, second], ends.high[first, second], strict=True)))
        assert pairs.smallest(0.9) == (min(map(min, corners)), max(map(min, corners)))
        assert pairs.largest(0.9) == (min(map(max, corners)), max(map(max, corners)))
        for level in ("each", "all"):
            ends = pairs.selected_interval(3, 0.9) if level == "each" else ends
            ranks = pairs.ranks(0.9, level=level)
            for i in range(4):
                others = [j for j in range(4) if j != i]
                found = [
                    [sum(b < a for b in corner) + 1 for a in corner]
                    for corner in itertools.product(*((ends.low[i, j], ends.high[i, j]) for j in others))
                ]
                assert ranks.low[i, others].tolist() == np.min(found, axis=0).tolist()
                assert ranks.high[i, others].tolist() == np.max(found, axis=0).tolist()
                assert ranks.low[i, i] == ranks.high[i, i] == 0


def test_what_is_not_known_may_have_any_rank() -> None:
    some = Estimates(np.array([1.0, np.nan, 100.0]), np.ones(3), np.array([0.0, np.nan, 0.0]), lowest=0.0)
    low, high = some.ranks()
    assert (low.tolist(), high.tolist()) == ([1, 1, 2], [2, 3, 3])
    assert some.smallest().low == 0.0
    assert some.largest().high == math.inf
    assert some.smallest().high == pytest.approx(some.interval(level="all").high[0])
    with pytest.raises(ss.InvalidInputError, match="at least two streams"):
        of_streams(np.zeros((1, 1)), 1.0).smallest()
    with pytest.raises(ss.InvalidInputError, match="these have 3"):
        Estimates(cube := np.zeros((1, 1, 1)), cube, cube).ranks()


@pytest.mark.parametrize("noise", [1e-6, 1e-4, 1e-2, 0.3])
@pytest.mark.parametrize("candidates", [1, 5, 190])
def test_the_lower_end_of_a_cosines_interval_never_falls_as_the_estimate_rises(noise: float, candidates: int) -> None:
    """Also beyond 1: a pair that is more alike is not stated to be less so."""
    values = np.linspace(0.6, 1.2, 601)
    one, k2 = np.ones_like(values), np.full_like(values, noise / 256)
    cosines = cosines_of(
        values, (one, one), (k2, k2), (0 * k2, 0 * k2), OutputNoise(256), MapVariance(1 / 256, 1 / 256, 0)
    )
    low = cosines.selected_interval(candidates).low
    assert (np.diff(low) >= -1e-3 * (values - low)[1:]).all()
    assert low[-1] > 0.9 or noise > 1e-3


def test_an_estimate_without_error_is_shown_with_all_whole_digits() -> None:
    assert str(Estimate(1234567.0, 0.0, 0.0)) == "1,234,567 ± 0"
    assert [format_value(value, 0.0) for value in (123456.0, 99999.96, 1e15)] == ["123,456", "100,000", "1e+15"]
