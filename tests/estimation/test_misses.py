"""Intervals far out: among 10⁹ candidates, and for the highest confidence that a float holds."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.estimation.cell_law import CellLaw
from streamsketch.estimation.differences import differences_of
from streamsketch.estimation.estimate_arrays import Estimates
from streamsketch.estimation.intervals import miss_of, quantile
from streamsketch.estimation.items import Groups
from streamsketch.estimation.points import points_of

HIGHEST = 1 - 2.0**-53
MOST = 10**9
candidates = st.integers(2, MOST)  # of squared quantities, one has the normal law of `interval`
confidences = st.one_of(st.floats(0.5, HIGHEST), st.integers(2, 53).map(lambda bits: 1 - 2.0**-bits))
Ends = Callable[[int, float], tuple[float, float]]


def sketches(projection: ss.projections.Projection) -> list[ss.Sketch]:
    x, y = projection.sketch(), projection.sketch()
    x.update(np.arange(60), np.r_[400, np.arange(1, 60)])
    y.update(np.arange(60), np.r_[40, np.arange(60, 1, -1)])
    return [x, y]


def signs_of() -> list[ss.Sketch | ss.signs.SignSketch]:
    x, y = sketches(ss.projections.OPORP(dim=64, sketch_dim=64, seed=7))
    publish = ss.signs.DPSignOPORPRR(epsilon=4, neighbours=ss.OneCoordinate(1))
    return [x, publish.release(x), publish.release(y)]


def ends_of(found: ss.estimation.Estimate) -> Ends:
    return found.selected_interval


def all_ends() -> dict[str, Ends]:
    """Return each way to an interval among candidates whose ends are finite."""
    hashed, single = (
        sketches(ss.SJLT(dim=64, sketch_dim=256 * sparsity, sparsity=sparsity, seed=7)) for sparsity in (3, 1)
    )
    even = sketches(ss.SJLT(dim=64, sketch_dim=512, sparsity=4, seed=7))
    x, y = hashed
    own, first, second = signs_of()
    laplace = ss.estimation.Estimate(5.0, 0.0, 2.0, kurtosis=3.0)
    distance = ss.squared_distance(x, y)
    together = ss.pairwise([x, y], by="distance")
    items = np.arange(60)
    groups = Groups(items, items, np.repeat([0, 1], 30), pa.array(["a", "b"]))

    def of_points(sketch: ss.Sketch, estimator: str) -> Ends:
        points = points_of(sketch, items, estimator)  # type: ignore[arg-type]
        return lambda among, confidence: tuple(float(end[0]) for end in points.interval(confidence, among))  # type: ignore[return-value]

    def of_differences(pair: list[ss.Sketch], estimator: str, of: Groups | None) -> Ends:
        found = differences_of(pair[0], pair[1], items, of, "distance", estimator)  # type: ignore[arg-type]
        return lambda among, confidence: tuple(float(end[0]) for end in found.interval(confidence, among))  # type: ignore[return-value]

    def of_table(among: int, confidence: float) -> tuple[float, float]:
        low, high = together.selected_interval(among, confidence)
        return float(low[0, 1]), float(high[0, 1])

    return {
        "a distance": ends_of(distance),
        "a cosine": ends_of(ss.cosine(x, y)),
        "a product": ends_of(ss.inner_product(x, y)),
        "a count": ends_of(laplace),
        "a median": ends_of(ss.frequency(x, 3, estimator="median")),
        "a median of an even number": ends_of(ss.frequency(even[0], 3, estimator="median")),
        "a mean": ends_of(ss.frequency(x, 3, estimator="mean")),
        "an angle": ends_of(ss.signs.angle(first, second)),
        "an angle of one's own": ends_of(ss.signs.angle(own, second)),
        "all pairs": of_table,
        **{
            f"{what} by the {estimator}, {cells}": ends
            for estimator, (cells, pair) in itertools.product(
                ("mean", "median"), (("one cell", single), ("three cells", hashed), ("four cells", even))
            )
            for what, ends in (
                ("items", of_points(pair[0], estimator)),
                ("differences", of_differences(pair, estimator, None)),
                ("differences of groups", of_differences(pair, estimator, groups)),
            )
        },
    }


ENDS = all_ends()


@pytest.mark.parametrize("name", sorted(ENDS))
@given(among=candidates, more=candidates, confidence=confidences)
def test_ends_are_finite_and_move_outwards_with_the_candidates(
    name: str, among: int, more: int, confidence: float
) -> None:
    few, many = sorted((among, more))
    low, high = ENDS[name](few, confidence)
    lower, higher = ENDS[name](many, confidence)
    assert -math.inf < lower <= low + 1e-9 * abs(low)
    assert math.inf > higher >= high - 1e-9 * abs(high)
    assert low <= high


@pytest.mark.parametrize("name", sorted(ENDS))
def test_the_highest_confidence_among_the_most_candidates_reaches_farther_than_usual(name: str) -> None:
    (low, high), (lower, higher) = ENDS[name](1, 0.95), ENDS[name](MOST, HIGHEST)
    assert -math.inf < lower <= low <= high <= higher < math.inf
    assert higher - lower > high - low


@given(among=candidates, confidence=confidences)
def test_a_miss_is_what_the_candidates_share(among: int, confidence: float) -> None:
    miss = miss_of(confidence, among)
    assert miss * among == pytest.approx(1 - confidence, rel=1e-15)
    assert 0 < quantile(miss, "normal") < 12
    assert 0 < quantile(miss, "chebyshev") < math.inf


@pytest.mark.parametrize(
    "confidence", [Fraction(10**20 - 1, 10**20), Fraction(1, 10**400), np.longdouble("0.9999999999999999999")]
)
@pytest.mark.parametrize("method", ["normal", "chebyshev"])
def test_a_confidence_that_is_0_or_1_as_a_float_is_refused(confidence: float, method: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=r"confidence must lie in \(0, 1\)"):
        ss.estimation.Estimate(5.0, 0.0, 2.0).interval(confidence, method)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(ENDS))
def test_more_candidates_than_a_miss_can_be_shared_by_are_refused(name: str) -> None:
    assert np.isfinite(ENDS[name](2**64, HIGHEST)).all()
    for among in (0, 2**64 + 1, 10**400):
        with pytest.raises(ss.InvalidInputError, match="candidates must be an integer from 1 to 18446744073709551616"):
            ENDS[name](among, HIGHEST)


@pytest.mark.parametrize("method", ["normal", "chebyshev"])
def test_all_intervals_of_a_large_table_hold_together(method: str) -> None:
    value = np.zeros(1000)
    table = Estimates(value, value + 1, value + 1)
    ends = table.interval(HIGHEST, method, level="all")  # type: ignore[arg-type]
    usual = table.interval(HIGHEST, method)  # type: ignore[arg-type]
    assert np.isfinite(ends).all()
    assert (ends[0] < usual.low).all()
    assert (ends[1] > usual.high).all()


@pytest.mark.parametrize("number", [2, 7, 100])
def test_reaches_of_sums_go_on_where_their_law_is_lost_in_rounding(number: int) -> None:
    """A sum of signs has a binomial law, known in exact arithmetic; grids place its values to a hundredth."""
    law = CellLaw.of(np.array([-1.0, 1.0]), 1)
    reaches = [float(law.reach_of_sums(np.array([number]), 10.0**-place)[0]) for place in range(1, 27)]
    assert reaches == sorted(reaches)
    for place, reach in enumerate(reaches, 1):
        least = (number + max(math.floor(1.01 * reach), 0)) // 2 + 1
        beyond = 2 * sum(math.comb(number, up) for up in range(least, number + 1)) / 2**number
        assert beyond <= 10.0**-place
