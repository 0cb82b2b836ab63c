"""The helpers behind the figures of Asi et al. 2023: their statistics, their vectors, and the cut-off of times."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.figures.afnnt import budget, costs, haar, parts, running_time, tradeoffs
from benchmarks.rows import TINY
from benchmarks.symmetry import gaussian_rows
from streamsketch.local import PrivHS, ProjUnit


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


@pytest.mark.parametrize(
    ("dim", "k", "people", "shared"),
    [
        (24, 5, 4, True),
        *(pytest.param(*case, marks=pytest.mark.long) for case in [(24, 5, 4, False), (12, 12, 1, False)]),
    ],
)
def test_errors_by_symmetry_are_those_of_explicit_rotations(dim: int, k: int, people: int, *, shared: bool) -> None:
    """In distribution, by Kolmogorov and Smirnov's test, and in the mean; false rejects below 10^-4 of other seeds."""
    runs = 300
    seeds = range(runs if shared else 1)  # a shared rotation is fresh in each run
    explicit = np.concatenate(
        [
            parts.squared_errors(
                ProjUnit(dim=dim, epsilon=4.0, sketch_dim=k, rotation="haar", shared=shared, seed=seed),
                *(people, runs // len(seeds), seed),
            )
            for seed in seeds
        ]
    )
    mechanism = ProjUnit(dim=dim, epsilon=4.0, sketch_dim=k, rotation="haar")
    drawn = haar.by_symmetry(mechanism, people, 3000, seed=1, shared=shared)
    assert stats.ks_2samp(explicit, drawn).pvalue > 1e-4
    apart = math.hypot(explicit.std() / math.sqrt(explicit.size), drawn.std() / math.sqrt(drawn.size))
    assert abs(explicit.mean() - drawn.mean()) < 4 * apart


def test_errors_by_symmetry_have_the_closed_form_at_the_papers_size() -> None:
    found = haar.errors(parts.PROJ_UNIT, 1 << 15, 10.0, 1000, people=20, runs=20, seed=1)
    assert parts.Estimate.of(found.measured, found.expected).chance > 1e-4


def test_shared_haar_rotations_have_the_librarys_closed_form() -> None:
    library = ProjUnit(dim=64, epsilon=4.0, sketch_dim=8, rotation="haar", shared=True)
    found = haar.errors(parts.PROJ_UNIT_CORR, 64, 4.0, 8, people=7, runs=2, seed=1)
    assert found.expected == pytest.approx(library.expected_squared_error(7))
    assert found.limiting == pytest.approx(library.limiting_squared_error)


@pytest.mark.parametrize("dim", [3, 5, 40])
def test_fewer_numbers_have_the_inner_products_of_gaussian_vectors(dim: int) -> None:
    """Mean, variance and covariance of squared lengths and products, within five standard errors."""
    rng = np.random.default_rng(1)
    rows = np.array([gaussian_rows(5, dim, rng) for _ in range(4000)])
    products = rows @ rows.transpose(0, 2, 1)
    for i, j in itertools.combinations_with_replacement(range(5), 2):
        mean, variance = (dim, 2 * dim) if i == j else (0, dim)
        found = products[:, i, j]
        assert abs(found.mean() - mean) < 5 * math.sqrt(variance / found.size)
        assert abs(found.var() - variance) < 5 * ((found - mean) ** 2).std() / math.sqrt(found.size)


def test_algorithm_6_takes_its_delta() -> None:
    """At the library's 10⁻⁶ it is the library's, and a larger δ costs less."""
    library = ProjUnit(dim=1 << 10, epsilon=4.0, sketch_dim=100, unbiased=True)
    same, larger = (
        budget.Completed(dim=1 << 10, epsilon=4.0, sketch_dim=100, bias_probability=chance) for chance in (1e-6, 1e-2)
    )
    assert same.norm_bound == pytest.approx(library.norm_bound)
    assert same.expected_squared_error(9) == pytest.approx(library.expected_squared_error(9))
    errors = parts.Estimate.of(parts.squared_errors(larger, 10, 60, seed=4), larger.expected_squared_error(10))
    assert errors.chance > 1e-4
    assert larger.norm_bound < same.norm_bound
    assert errors.expected < library.expected_squared_error(10)


def test_shared_rotations_err_between_their_bounds() -> None:
    panel = budget.Panel.measure(64, 20, (1, 32), (parts.FAST_CORR,), runs=40)
    most, found = panel.errors["FastProjUnit-corr", 1].expected, panel.measured["FastProjUnit-corr", 1]
    assert found.expected <= most
    assert min(point.chance for point in panel.measured.values()) > 1e-4
    assert panel.optimum < panel.errors["FastProjUnit-corr", 32].expected < most


def test_a_mechanism_ends_at_the_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, dims = (parts.PRIV_HS, parts.PRIV_UNIT_G), [16, 32, 64]
    monkeypatch.setattr(costs, "tried", lambda mechanism, *_: 9.0 if mechanism.kind == "priv-hs" else 0.0)
    found = costs.sweep(lines, dims, 2.0, 8, TINY, people=2, limit=9.0)
    assert costs.dims_of(found, "PrivHS") == []
    assert costs.dims_of(found, "PrivUnitG") == dims
    assert all(cost.client > 0 and cost.add > 0 and cost.finish > 0 for cost in found.values())
    assert costs.exponent(found, "PrivHS", "total") is None


def test_a_mechanism_that_would_exceed_the_cut_off_by_growing_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def half(mechanism: PrivHS, *_: object) -> float:
        tried.append(mechanism.dim)
        return 4.0

    monkeypatch.setattr(costs, "tried", half)
    found = costs.sweep((parts.PRIV_HS,), [16, 64], 2.0, 8, TINY, people=2, limit=8.0)
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

    def missed(fast: float) -> list[str]:
        found = running_time.checks(dict.fromkeys(running_time.EPSILONS, sweep(fast)))
        return [check.claim.partition(":")[0] for check in found if not check.holds]

    assert missed(0.05) == []
    assert missed(0.5) == ["for large ε and d compressed PrivUnitG becomes too costly compared to our algorithms"]
    slow = missed(99.0)
    assert "FastProjUnit is substantially faster than ProjUnit" in slow
    assert "FastProjUnit has a comparable run-time to PrivUnitG (no more than twice)" in slow


def test_what_the_cut_off_leaves_out_is_costed() -> None:
    """PrivHS ends at 32: ten runs at 64 by two, at 128 an hour."""
    sweep = {("PrivHS", 32): costs.Cost(100.0, 0.0, 0.0), ("PrivUnitG", 128): costs.Cost(1.0, 0.0, 0.0)}
    text = running_time.shortened({10.0: sweep}, [32, 64, 128], 200.0)
    assert "2 points" in text
    assert f"{(2000 + 3600) / 3600:.1f} hours" in text
