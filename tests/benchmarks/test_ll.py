"""What the figures of Li and Li 2023 compute with: formulas, ways to publish, and the order of the methods."""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse, stats

import streamsketch as ss
from benchmarks import sigmas
from benchmarks.data import Data, Texts
from benchmarks.figures.ll import draws, gaussian_noise, levels, sensitivity, sign_changes, variance_ratio
from benchmarks.symmetry import noisy_rows, rotated

pytest.importorskip("sklearn")

from benchmarks.figures.ll import claims, publishing, retrieval, svm


@pytest.mark.parametrize(("name", "p", "k"), [("Gaussian", 500, 64), ("very sparse, s = 10", 500, 64)])
def test_the_largest_column_is_as_predicted(name: str, p: int, k: int) -> None:
    """The median of 41 matrices of fixed seeds; one matrix's Δ2 varies by 4 to 7 %."""
    found = np.median([sensitivity.sensitivity(sensitivity.MAPS[name](p, k, seed)) for seed in range(41)])
    guess = sensitivity.predicted(name, p, k)
    assert guess is not None
    assert found == pytest.approx(guess, rel=0.05)


def test_fixed_columns_have_sensitivity_one() -> None:
    for name in ("Rademacher (s = 1)", "SJLT, 8 nonzeros"):
        assert sensitivity.sensitivity(sensitivity.MAPS[name](100, 64, 1)) == pytest.approx(1)
        assert sensitivity.predicted(name, 100, 64) == 1


def test_a_sum_of_signs_is_zero_as_often_as_enumerated() -> None:
    for p in (1, 2, 5, 8):
        sums = [sum(signs) for signs in itertools.product((-1, 1), repeat=p)]
        assert sign_changes.on_ones(p) == pytest.approx(np.mean([total == 0 for total in sums]))


def _outcomes(s: int, p: int) -> np.ndarray:
    """Return all equally likely vectors of p entries of a very sparse row: (outcomes, p)."""
    return np.array(list(itertools.product([1, -1] + [0] * (2 * s - 2), repeat=p)))


@pytest.mark.parametrize(("name", "s"), [(draws.RADEMACHER, 1), ("very sparse, s = 3", 3), ("very sparse, s = 10", 10)])
def test_chances_from_tables_are_those_enumerated(name: str, s: int) -> None:
    """Within five standard errors, for groups that do not divide p: a false alarm once in a million runs."""
    vector = np.array([0.9, -0.5, 0.3, 0.05, 0.7][: 5 if s == 1 else 3], dtype=np.float32)
    entries = _outcomes(s, vector.size)
    hit = [beta * np.abs(entries).max(axis=1) >= np.abs(entries @ vector) for beta in sign_changes.BETAS]
    count = 50_001  # no whole number of blocks
    for found, exact in zip(draws.LAWS[name](vector, count, sign_changes.BETAS, 5), map(np.mean, hit), strict=True):
        assert abs(found / count - exact) <= 5 * math.sqrt(exact * (1 - exact) / count)


@pytest.mark.parametrize("name", [draws.GAUSSIAN, "uniform"])
def test_chances_of_dense_entries_are_those_of_numpys(name: str) -> None:
    rng, count = np.random.default_rng(1), 100_001
    vector = rng.uniform(-1, 1, 20).astype(np.float32)
    shape = (count, vector.size)
    entries = rng.standard_normal(shape) if name == draws.GAUSSIAN else rng.uniform(-1, 1, shape)
    for beta, found in zip(sign_changes.BETAS, draws.LAWS[name](vector, count, sign_changes.BETAS, 5), strict=True):
        chance = float(np.mean(beta * np.abs(entries).max(axis=1) >= np.abs(entries @ vector)))
        assert abs(found / count - chance) <= 5 * math.sqrt(2 * chance * (1 - chance) / count)


def test_tables_hold_the_sums_of_all_outcomes() -> None:
    vector = np.linspace(0.1, 1.1, 11).astype(np.float32)
    sums, nonzero = draws.tables(vector, 3)
    together = round(math.log(sums.shape[1], 6))
    outcomes = _outcomes(3, together)
    assert sums.shape == nonzero.shape == (-(-11 // together), 6**together)
    assert sums[0] == pytest.approx(outcomes @ vector[:together].astype(np.float64))
    kept = 11 % together  # the last group is filled up with entries that do not count
    assert nonzero[-1].tolist() == (np.abs(outcomes[:, :kept]).max(axis=1) > 0).tolist()


def test_a_pair_changes_less_than_some_neighbour() -> None:
    for ratio in (0.01, 0.1, 1.0):
        assert sign_changes.pair(ratio) < (sign_changes.formula(draws.GAUSSIAN, 1, ratio) or 0)
    assert sign_changes.pair(1.0) == pytest.approx(1 / 3)  # two unit vectors at distance 1 are 60° apart


def test_levels_flip_half_of_the_cells_at_zero() -> None:
    own = levels.levels(levels.MAPS[levels.RADEMACHER], 100, 2)
    assert own.shape == (2 * levels.SKETCH_DIM,)
    assert own.min() >= 0
    assert levels.flipped(np.zeros(5, dtype=np.int64), 1.0) == 0.5
    assert levels.flipped(np.full(5, levels.SKETCH_DIM), math.log(3)) == pytest.approx(1 / 4)


def test_raw_noise_is_even_with_projections_at_the_given_noise() -> None:
    for p, k in ((1000, 10), (1000, 500), (10_000, 100)):
        assert variance_ratio.ratio(variance_ratio.even_sigma(p, k), p, k) == pytest.approx(1)
        assert variance_ratio.ratio(1e3, p, k) == pytest.approx(p / k, rel=1e-3)


def test_vectors_of_the_variance_ratio_are_orthogonal() -> None:
    u, v = variance_ratio.orthogonal(np.random.default_rng(1), 50)
    assert [u @ u, v @ v, u @ v] == pytest.approx([1, 1, 0])


def test_noise_and_epsilon_invert_each_other() -> None:
    for epsilon in (0.1, 1.0, 30.0):
        sigma = gaussian_noise.gaussian_sigma(epsilon, gaussian_noise.DELTA)
        assert gaussian_noise.epsilon_for(sigma) == pytest.approx(epsilon)
    until = gaussian_noise.classical_until()
    for epsilon, holds in ((0.99 * until, True), (1.01 * until, False)):
        spent = gaussian_noise.gaussian_log_delta(epsilon, sigmas.classical(epsilon, gaussian_noise.DELTA))
        assert (spent <= math.log(gaussian_noise.DELTA)) is holds


def test_sampled_noise_is_optimal_but_for_three_squared_steps() -> None:
    for epsilon, steps in ((0.5, 1), (10.0, 1), (10.0, 64)):
        optimal = gaussian_noise.gaussian_sigma(epsilon, gaussian_noise.DELTA)
        assert gaussian_noise.sampled(epsilon, steps) == pytest.approx(math.sqrt(optimal**2 + 3 / steps**2), rel=1e-3)


def _point(method: str, kind: str, epsilon: float, scores: list[float]) -> svm.Point:
    return svm.Point("mails", method, kind, epsilon, np.array(scores))


def test_checks_compare_methods_on_the_same_rows() -> None:
    """Each statement holds on points made for it, and the one about ε = 10 does not."""
    kinds = {claims.RAW_SIGNS: 0.9, "iDP-SignRP-G": 0.9, claims.RAW_BINS: 0.5, "iDP-SignOPORP-G": 0.6}
    rows = np.tile([0.0, 1.0], 500)

    def at(share: float) -> list[float]:
        return list(np.clip(2 * share - 1 + rows * (2 - 2 * share), 0, 1))

    points = []
    for epsilon, noisy in ((0.02, 0.1), (5.0, 0.6), (10.0, 0.8)):
        points += [_point(name, publishing.INDIVIDUAL, epsilon, at(share)) for name, share in kinds.items()]
        points += [_point(name, publishing.NOISE, epsilon, at(noisy)) for name in (claims.BINS, claims.DENSE)]
        points += [_point(name, publishing.NOISE, epsilon, at(noisy - 0.05)) for name in ("DP-RP-G", publishing.OPT)]
        points.append(_point(publishing.RAW, publishing.NOISE, epsilon, at(noisy / 2)))
        points.append(_point(claims.SMOOTH, publishing.SIGNS, epsilon, at(0.7)))
        points.append(_point("DP-SignRP-RR-smooth", publishing.SIGNS, epsilon, at(0.3)))
    found = claims.checks(points, "mails", 1.0)
    assert len(found) == 12
    assert [check.claim for check in found if not check.holds] == [
        "DP-SignOPORP-RR-smooth outperforms DP variants based on RP at ε = 10 (abstract): less DP-OPORP"
    ]
    assert all("mails" in check.data for check in found)


def test_a_paired_gap_has_the_error_of_the_differences() -> None:
    gap = claims.Gap.of(np.array([1.0, 0.0, 1.0, 1.0]), np.array([0.5, 0.0, 0.5, 1.0]))
    assert gap.mean == pytest.approx(0.25)
    assert gap.error == pytest.approx(1.96 * np.std([0.5, 0, 0.5, 0], ddof=1) / 2)


def test_noise_on_wide_rows_has_the_inner_products_of_noise_on_every_coordinate() -> None:
    """Mean and variance of ⟨x + a, y + b⟩ and of ‖x + a‖², by Theorem C.1 and χ²; within five standard errors."""
    rows = sparse.csr_array(([3, 4, 2], ([0, 0, 1], [0, 999, 0])), shape=(2, 1000), dtype=np.int64)
    products, sigma, rng = (rows @ rows.T).toarray().astype(np.float64), 0.5, np.random.default_rng(1)
    within = rotated(products)
    assert within @ within.T == pytest.approx(products)
    drawn = [noisy_rows(within, 1000, sigma, rng) for _ in range(4000)]
    inner, norm = (np.array([own[0] @ own[which] for own in drawn]) for which in (1, 0))
    wide = sigma**2 * (25 + 4) + 1000 * sigma**4
    assert abs(inner.mean() - 6) <= 5 * math.sqrt(wide / inner.size)
    assert inner.var() == pytest.approx(wide, rel=5 * math.sqrt(2 / inner.size))
    assert abs(norm.mean() - 25 - 1000 * sigma**2) <= 5 * norm.std() / math.sqrt(norm.size)
    assert norm.var() == pytest.approx(2 * 1000 * sigma**4 + 4 * sigma**2 * 25, rel=5 * math.sqrt(2 / norm.size))


def test_columns_that_no_row_touches_count_towards_the_noise() -> None:
    """Δ2 of a wide Gaussian matrix: the largest of a hundred thousand norms, not of the one in use."""
    rows = sparse.csr_array(([1], ([0], [5])), shape=(1, 100_000), dtype=np.int64)
    wide = publishing.Vectors("wide", rows, np.array([0]), 1, (16,))
    noisy = publishing.noisy_projection(wide, rows, 1.0, 16, lambda *_: 1.0)
    bare = publishing.noisy_projection(wide, rows, 1.0, 16, lambda *_: 0.0)
    noise = np.random.default_rng(1000).standard_normal((1, 16))
    largest = float(((noisy - bare) / noise).mean()) ** 2
    assert 0.5 ** (1 / 100_000) - 4e-5 < stats.chi2.cdf(largest, 16) < 1 - 1e-8


def test_gaussian_noise_on_bins_is_for_one_moved_bin() -> None:
    mechanism = {"epsilon": 1.0, "delta": 1e-6, "neighbours": ss.OneCoordinate(255)}
    steps = np.full(3, 255)
    one, all_near = (
        math.sqrt(kind(**mechanism).noise(steps).sigma_squared) / 255
        for kind in (ss.signs.IDPSignOPORPG, ss.signs.IDPSignRPG)
    )
    assert one == pytest.approx(gaussian_noise.gaussian_sigma(1.0, 1e-6), rel=1e-4)
    assert all_near / one == pytest.approx(math.sqrt(3), rel=1e-4)


def test_texts_are_published_as_presence() -> None:
    counts = sparse.csr_matrix(np.array([[0, 3, 0, 1], [0, 0, 0, 0], [2, 0, 0, 0]]))
    vectors = publishing.of_texts(Texts("mails", counts, np.array([True, False, False])), (2,))
    assert vectors.rows.toarray().tolist() == [[0, 1, 0, 1], [1, 0, 0, 0]]
    assert vectors.labels.tolist() == [1, 0]
    assert vectors.sample(5).rows.shape == (2, 4)


def test_every_method_publishes_what_it_says() -> None:
    (digits,) = publishing.image_sets(Data(), 64)
    drawn = digits.sample(6)
    methods = publishing.methods(drawn)
    assert len({method.name for method in methods}) == 15
    for method in methods:
        found = publishing.features(method.publish(drawn.rows, 5.0, 32))
        assert found.shape == (6, 64 if method.name == "Raw-data-G-OPT" else 32)
        assert (method.kind == publishing.NOISE) == (not np.isin(found, (-1, 1)).all())
        assert (method.kind == publishing.INDIVIDUAL) == method.name.startswith("iDP")


def test_wide_vectors_leave_out_what_needs_every_coordinate() -> None:
    rows = sparse.csr_array(([1, 1, 1], ([0, 1, 1], [5, 70_000, 12])), shape=(2, 100_000), dtype=np.int64)
    wide = publishing.Vectors("wide", rows, np.array([0, 1]), 1, (16,))
    names = {method.name for method in publishing.methods(wide)}
    assert len(names) == 13
    assert not names & {"DP-SignRP-RR, paper's count", "DP-SignRP-RR"}
    assert "not run on wide" in publishing.left_out([wide])
    assert not publishing.left_out(publishing.image_sets(Data(), 64))
    found = publishing.shares(wide, 16)
    assert 29 / 32 <= found.empty <= 31 / 32  # 2 items in the bins of one, and 1 in those of the other
    assert 1 / 2 <= found.near <= 1  # a single ±1 always is, and a sum of two is if it is 0


def test_cosines_of_arrays_and_of_sparse_rows_are_equal() -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(-3, 4, (5, 7))
    rows[2] = 0
    dense = retrieval.cosine_similarity(rows[:3], rows[3:])
    assert dense == pytest.approx(retrieval.cosine_similarity(sparse.csr_array(rows[:3]), sparse.csr_array(rows[3:])))
    assert dense[2].tolist() == [0, 0]
    assert dense[0, 0] == pytest.approx(rows[0] @ rows[3] / np.linalg.norm(rows[0]) / np.linalg.norm(rows[3]))


def test_retrieval_is_in_the_papers_order() -> None:
    """On the digits: iDP-SignRP nearly flat and above the rest at small ε, SignOPORP-smooth above SignRP-RR.

    Noise is fixed; every margin is at least six standard deviations of it.
    """
    names = ["DP-SignRP-RR", "DP-SignRP-RR, paper's count", "DP-SignOPORP-RR-smooth", "DP-OPORP", "iDP-SignRP-RR"]
    (digits,) = publishing.image_sets(Data(), 64)
    points = retrieval.measure(digits, 100, 1000, [0.5, 3.0], names)
    at = {(point.method, point.epsilon): point.precision_at_10 for point in points}
    chance = retrieval.TRUTH / 1000
    assert at["iDP-SignRP-RR", 0.5] > 5 * chance  # 0.37 ± 0.02 over its noise
    assert at["iDP-SignRP-RR", 3.0] < 1.5 * at["iDP-SignRP-RR", 0.5]
    assert all(at[name, 0.5] < 3 * chance for name in names[:4])
    assert at["DP-SignOPORP-RR-smooth", 3.0] > 1.5 * max(at[name, 3.0] for name in names[:2])


def test_a_machine_learns_from_private_features() -> None:
    """With margins as above."""
    (digits,) = publishing.image_sets(Data(), 64)
    result = svm.measure(digits.sample(900), [1.0, 50.0], ["DP-OPORP", "iDP-SignRP-RR"])
    at = {(point.method, point.epsilon): point.accuracy for point in result.points}
    assert result.public > 0.9
    assert result.guessed < 0.2
    assert at["DP-OPORP", 1.0] < 0.4
    assert at["DP-OPORP", 50.0] > 0.7
    assert at["iDP-SignRP-RR", 1.0] > 0.5
