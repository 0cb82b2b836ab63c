"""What the figures of Li and Li 2023 compute with: formulas, ways to publish, and the order of the methods."""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse

from benchmarks import sigmas
from benchmarks.data import Data, Texts
from benchmarks.figures.ll import gaussian_noise, levels, sensitivity, sign_changes, variance_ratio
from benchmarks.figures.ll.claims import Claim, Pair, above, table, told

pytest.importorskip("sklearn")

from benchmarks.figures.ll import publishing, retrieval, svm


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


def test_simulated_chances_are_those_enumerated() -> None:
    """Within five standard errors: a false alarm once in a million runs."""
    vector = np.array([0.9, -0.5, 0.3, 0.05], dtype=np.float32)
    rng = np.random.default_rng(1)
    found = sign_changes.simulated(sign_changes.LAWS[sign_changes.RADEMACHER], vector, 20_000, rng)
    sums = np.array([abs(np.dot(signs, vector)) for signs in itertools.product((-1, 1), repeat=4)])
    for beta, chance in zip(sign_changes.BETAS, found, strict=True):
        exact = float(np.mean(sums <= beta))
        assert abs(chance - exact) <= 5 * math.sqrt(exact * (1 - exact) / 20_000)


@pytest.mark.parametrize("name", list(sign_changes.LAWS))
def test_simulated_entries_have_their_law(name: str) -> None:
    """Mean 0 and the second moment of the law, within five standard errors."""
    second = {"uniform": 1 / 3, "very sparse, s = 10": 1 / 10, "very sparse, s = 3": 1 / 3}.get(name, 1.0)
    entries = sign_changes.LAWS[name](np.random.default_rng(1), (1000, 100)).astype(np.float64)
    for values, mean in ((entries, 0.0), (entries**2, second)):
        assert abs(values.mean() - mean) <= 5 * max(values.std() / math.sqrt(entries.size), 1e-12)


def test_a_pair_changes_less_than_some_neighbour() -> None:
    for ratio in (0.01, 0.1, 1.0):
        assert sign_changes.pair(ratio) < (sign_changes.formula(sign_changes.GAUSSIAN, 1, ratio) or 0)
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


def test_claims_are_told_with_where_they_hold() -> None:
    claims = [
        Claim("a > b", "digits", numbers="2, 1", holds=True),
        Claim("a > b", "mails", numbers="1, 2", holds=False),
    ]
    assert told(claims) == "- a > b: holds on digits (2, 1), does not hold on mails (1, 2)."
    assert table(claims).rows[1] == ("a > b", "mails", False, "1, 2")


def test_a_claim_within_the_error_cannot_be_told() -> None:
    clear, close = Pair(5.0, (0.8, 0.03), (0.7, 0.04)), Pair(10.0, (0.8, 0.06), (0.71, 0.08))
    below = Pair(20.0, (0.6, 0.03), (0.7, 0.04))
    assert above("a > b", "digits", [clear]).holds is True
    assert above("a > b", "digits", [clear, close]).holds is None
    assert above("a > b", "digits", [clear, close, below]).holds is False
    assert above("a > b", "digits", [clear]).numbers == "0.80 against 0.70 at ε = 5"


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
    assert len({method.name for method in methods}) == 13
    for method in methods:
        found = publishing.features(method.publish(drawn.rows, 5.0, 32))
        assert found.shape == (6, 64 if method.name == "Raw-data-G-OPT" else 32)
        assert (method.kind == publishing.NOISE) == (not np.isin(found, (-1, 1)).all())
        assert (method.kind == publishing.INDIVIDUAL) == method.name.startswith("iDP")


def test_wide_vectors_leave_out_what_needs_every_coordinate() -> None:
    rows = sparse.csr_array(([1, 1, 1], ([0, 1, 1], [5, 70_000, 12])), shape=(2, 100_000), dtype=np.int64)
    wide = publishing.Vectors("wide", rows, np.array([0, 1]), 1, (16,))
    names = {method.name for method in publishing.methods(wide)}
    assert len(names) == 9
    assert not names & {"Raw-data-G-OPT", "DP-RP-G-OPT", "DP-SignRP-RR"}
    assert "not run on wide" in publishing.left_out([wide])
    assert not publishing.left_out(publishing.image_sets(Data(), 64))
    found = publishing.shares(wide, 16)
    assert 29 / 32 <= found.empty <= 31 / 32  # 2 items in the bins of one, and 1 in those of the other
    assert 1 / 2 <= found.near <= 1  # a single ±1 always is, and a sum of two is if it is 0


def test_short_vectors_are_blamed_only_where_they_are_shorter() -> None:
    near = {"digits": 0.2, "MNIST": 0.08}
    assert "not flat on digits" in publishing.told_near(near, ["MNIST"])
    assert "not flat" not in publishing.told_near(near, ["digits"])
    assert "not flat" not in publishing.told_near(near, ["digits", "MNIST"])


def test_cosines_of_arrays_and_of_sparse_rows_are_equal() -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(-3, 4, (5, 7))
    rows[2] = 0
    dense = retrieval.cosine_similarity(rows[:3], rows[3:])
    assert dense == pytest.approx(retrieval.cosine_similarity(sparse.csr_array(rows[:3]), sparse.csr_array(rows[3:])))
    assert dense[2].tolist() == [0, 0]
    assert dense[0, 0] == pytest.approx(rows[0] @ rows[3] / np.linalg.norm(rows[0]) / np.linalg.norm(rows[3]))


@pytest.mark.usefixtures("fixed_noise")
def test_retrieval_is_in_the_papers_order() -> None:
    """On the digits: iDP-SignRP nearly flat and above the rest at small ε, SignOPORP-smooth above SignRP-RR.

    Noise is fixed; every margin is at least six standard deviations of it.
    """
    names = ["DP-SignRP-RR", "DP-SignRP-RR, paper's count", "DP-SignOPORP-RR-smooth", "DP-OPORP", "iDP-SignRP-RR"]
    (digits,) = publishing.image_sets(Data(), 64)
    points = retrieval.measure(digits, 100, 1000, [0.5, 3.0], names)
    at = {(point.method, point.epsilon): point.precision_at_10 for point in points}
    chance = retrieval.TRUTH / 1000
    assert at["iDP-SignRP-RR", 0.5] > 0.35
    assert at["iDP-SignRP-RR", 3.0] < 1.5 * at["iDP-SignRP-RR", 0.5]
    assert all(at[name, 0.5] < 3 * chance for name in names[:4])
    assert at["DP-SignOPORP-RR-smooth", 3.0] > 1.5 * max(at[name, 3.0] for name in names[:2])


@pytest.mark.usefixtures("fixed_noise")
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
