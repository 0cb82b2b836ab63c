"""The helpers behind the figures of Asi et al. 2023: their statistics, their vectors, and the cut-off of times."""

import math

import numpy as np
import pytest

from benchmarks.figures.afnnt import budget, costs, parts, running_time, tradeoffs
from benchmarks.rows import TINY
from streamsketch.local import PrivHS


def test_vectors_are_unit_and_share_half_their_squared_length() -> None:
    vectors = parts.synthetic(40, 4096, np.random.default_rng(1))
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-12
    products = vectors @ vectors.T
    apart = products[~np.eye(40, dtype=bool)]
    assert abs(apart.mean() - 0.5) < 0.01  # ⟨v, v'⟩ of N(μ, I/d) at length 1
    assert apart.std() < 0.05


def test_estimate_is_a_mean_with_students_interval() -> None:
    estimate = parts.Estimate.of(np.array([1.0, 2.0, 3.0]), expected=2.0)
    assert estimate.mean == 2.0
    assert estimate.half == pytest.approx(2.92 / math.sqrt(3), rel=1e-3)  # t of 2 degrees of freedom, table value
    assert estimate.covers
    assert estimate.chance == pytest.approx(1.0)
    assert not parts.Estimate.of(np.array([1.0, 2.0, 3.0]), expected=4.0).covers


def test_intervals_cover_as_often_as_they_say() -> None:
    rng = np.random.default_rng(2)
    inside = sum(parts.Estimate.of(rng.normal(7.0, 2.0, size=5), expected=7.0).covers for _ in range(2000))
    assert 1742 < inside < 1858  # 1800 ± 4.3 standard deviations: false rejects below 2e-5


def test_a_wrong_closed_form_is_called_wrong() -> None:
    rng = np.random.default_rng(3)
    errors = rng.normal(100.0, 5.0, size=(10, 40))
    assert "all as chance has it" in parts.against_theory([parts.Estimate.of(row, 100.0) for row in errors])
    assert "more than chance explains" in parts.against_theory([parts.Estimate.of(row, 90.0) for row in errors])


def test_squared_errors_are_those_of_the_mechanism_and_come_out_again() -> None:
    mechanism = PrivHS(dim=64, epsilon=3.0)
    errors = parts.squared_errors(mechanism, people=20, runs=60, seed=5)
    assert np.array_equal(errors, parts.squared_errors(mechanism, people=20, runs=60, seed=5))
    assert not np.array_equal(errors, parts.squared_errors(mechanism, people=20, runs=60, seed=6))
    estimate = parts.Estimate.of(errors, mechanism.expected_squared_error(20))
    assert estimate.chance > 1e-4  # the false-reject rate, had the seed not been fixed


def test_slope_is_the_exponent() -> None:
    assert parts.slope([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2.0)


def test_powers_of_two_and_lists() -> None:
    assert [parts.power_of_two(size) for size in (1, 2, 3, 1023, 1024)] == [1, 2, 2, 512, 1024]
    assert [parts.listed(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_shared_rotations_err_between_their_bounds() -> None:
    panel = budget.Panel.measure(64, 20, (1, 32), (parts.FAST_CORR,), runs=40)
    most, found = panel.expected["FastProjUnit-corr", 1], panel.measured["FastProjUnit-corr", 1]
    assert found.expected <= most
    assert min(point.chance for point in panel.measured.values()) > 1e-4
    assert panel.optimum < panel.expected["FastProjUnit-corr", 32] < most


def test_a_mechanism_ends_at_the_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, dims = (parts.PRIV_HS, parts.PRIV_UNIT_G), [16, 32, 64]
    monkeypatch.setattr(costs, "_tried", lambda mechanism, *_: 9.0 if mechanism.kind == "priv-hs" else 0.0)
    found = costs.sweep(lines, dims, 2.0, 8, TINY, people=2, limit=9.0)
    assert costs.dims_of(found, "PrivHS") == []
    assert costs.dims_of(found, "PrivUnitG") == dims
    assert all(cost.client > 0 and cost.add > 0 and cost.finish > 0 for cost in found.values())
    assert costs.exponent(found, "PrivHS", "total") is None


def test_a_mechanism_that_would_exceed_the_cut_off_by_growing_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    monkeypatch.setattr(costs, "_tried", lambda mechanism, *_: float(tried.append(mechanism.dim) or 0.0))
    found = costs.sweep((parts.PRIV_HS,), [16, 32], 2.0, 8, TINY, people=2, limit=1e-9)
    assert tried == [16]
    assert costs.dims_of(found, "PrivHS") == [16]


def test_exponents_are_those_of_the_largest_dimensions() -> None:
    found = {("a", dim): costs.Cost(dim**2.0, 1.0, 3.0) for dim in (2, 4, 8)} | {("a", 1): costs.Cost(99.0, 1.0, 3.0)}
    assert costs.exponent(found, "a", "client") == pytest.approx(2.0)
    assert costs.exponent(found, "a", "add") == pytest.approx(0.0)
    assert costs.exponent(found, "b", "add") is None
    assert found["a", 2].total == 8.0


def test_terms_have_their_exponents() -> None:
    assert tradeoffs.of_term(lambda d: 5 * d, [2, 8, 16, 32]) == pytest.approx(1.0)
    assert tradeoffs.of_term(lambda d: d * math.log(d), [1 << 10, 1 << 11, 1 << 12]) == pytest.approx(1.13, abs=0.01)
    assert tradeoffs.of_term(lambda d: d, [2, 4]) is None


@pytest.mark.parametrize("ends", [{}, {"PrivUnitG": 8, "FastProjUnit": 8}, {"PrivUnitG": 8, "ProjUnit": 4}])
def test_a_slow_machine_makes_no_error(ends: dict[str, int]) -> None:
    one = costs.Cost(1.0, 1.0, 1.0)
    sweep = {(name, dim): one for name, end in ends.items() for dim in (2, 4, 8) if dim <= end}
    text = running_time.finding(dict.fromkeys(running_time.EPSILONS, sweep), [2, 4, 8], k=2, limit=1.0)
    assert "nothing to compare" in text


def test_orderings_are_read_off_the_times() -> None:
    def sweep(fast: float) -> costs.Costs:
        seconds = {line.name: 1.0 for line in running_time.LINES} | {"ProjUnit": 50.0, "FastProjUnit": fast}
        return {(name, dim): costs.Cost(dim * time, 0.0, 0.0) for name, time in seconds.items() for dim in (32, 64)}

    def finding(fast: float) -> str:
        return running_time.finding(dict.fromkeys(running_time.EPSILONS, sweep(fast)), [32, 64], k=2, limit=1.0)

    assert finding(0.1).startswith("**Agrees.**")
    assert "10.0 times as long" in finding(0.1)
    assert "Not found here: FastProjUnit takes no longer than PrivUnitG." in finding(9.0)
    assert "Not found here: FastProjUnit is faster than ProjUnit" in finding(99.0)
