"""Simulated estimates: their predictions against formulas written out, and their bookkeeping."""

import math

import numpy as np
import pytest

import streamsketch as ss
from benchmarks import trials
from benchmarks.accuracy import coverage
from benchmarks.trials import COSINE, DISTANCE, NORM, PRODUCT, Budget, Sample
from streamsketch.privacy.noise import NoiseMoments

X, Y = np.array([3, -2, 0, 5]), np.array([1, 1, 4, 0])


def test_predictions_are_the_sheets_formulas_averaged_over_noises() -> None:
    """Theory 4 for independent signs, κ = 1: V = (2‖z‖⁴ - 2‖z‖₄⁴)/k, W = (‖x‖²‖y‖² + ⟨x,y⟩² - 2Σx²y²)/k."""
    k, noises = 8, [NoiseMoments(2.0, 12.0), NoiseMoments(4.0, 20.0)]
    projection = ss.projections.Rademacher(dim=4, sketch_dim=k, seed=1)
    z2, z4 = 4 + 9 + 16 + 25, 16 + 81 + 256 + 625
    parts = [4 * 2 * one.k2 * z2 + k * 2 * one.k4 + 2 * k * (2 * one.k2) ** 2 for one in noises]
    expected = (2 * z2**2 - 2 * z4) / k + sum(parts) / 2
    assert trials.predicted_variance(DISTANCE, projection, X, Y, noises) == pytest.approx(expected)
    x2, x4 = 38, 81 + 16 + 625
    parts = [4 * one.k2 * x2 + k * one.k4 + 2 * k * one.k2**2 for one in noises]
    assert trials.predicted_variance(NORM, projection, X, Y, noises) == pytest.approx(
        (2 * x2**2 - 2 * x4) / k + sum(parts) / 2
    )
    parts = [one.k2 * (x2 + 18) + k * one.k2**2 for one in noises]
    own = (x2 * 18 + 1 - 2 * (9 + 4)) / k
    assert trials.predicted_variance(PRODUCT, projection, X, Y, noises) == pytest.approx(own + sum(parts) / 2)
    assert trials.predicted_variance(COSINE, projection, X, Y, noises) is None


def test_a_sample_is_the_same_each_time_and_near_its_prediction() -> None:
    """At six standard errors: a valid prediction would fail for one choice of seeds in 10^8."""
    first, again = (
        trials.simulate(_sjlt, X * 20, Y * 20, Budget(1.0, 0.0, "laplace"), 400, (DISTANCE,))[DISTANCE]
        for _ in range(2)
    )
    assert np.array_equal(first.values, again.values)
    assert first.truth == 400 * 54
    assert first.predicted is not None
    assert abs(first.observed / first.predicted - 1) < 6 * first.uncertainty
    assert first.refused == 0


def _sjlt(seed: int) -> ss.projections.Projection:
    return ss.SJLT(dim=4, sketch_dim=16, sparsity=4, seed=seed)


def _sparse(seed: int) -> ss.projections.Projection:
    return ss.projections.VerySparse(dim=4, sketch_dim=2, sparsity=8, seed=seed)


def test_coverage_and_error_count_against_the_truth() -> None:
    values = np.array([9.0, 11.0, 13.0, 10.0])
    sample = Sample(10.0, values, np.ones(4), values - 2, values + 2, 1.5)
    assert sample.coverage == 0.75
    assert sample.observed == pytest.approx(math.sqrt(11 / 4))


def test_empty_sketches_have_no_cosine_and_are_counted() -> None:
    one = np.eye(4, dtype=np.int64)[1]
    samples = trials.simulate(_sparse, one, one, None, 50, (COSINE,))
    assert 0 < samples[COSINE].refused == 50 - samples[COSINE].values.size


def test_the_band_is_wider_for_more_and_holds_all_with_its_level() -> None:
    assert trials.simultaneous_z(1) == pytest.approx(2.5758, abs=1e-4)
    z = trials.simultaneous_z(100)
    assert math.erf(z / math.sqrt(2)) ** 100 == pytest.approx(0.99)


def test_pairs_have_their_length_and_sparsity() -> None:
    for kind, most in (("dense", 128), ("four items", 4), ("one item", 2)):
        for vector in trials.pair_of(kind, 128):
            assert abs(np.linalg.norm(vector) / (10 * math.sqrt(128)) - 1) < 0.01
            assert np.count_nonzero(vector) <= most
    with pytest.raises(ValueError, match="got 'sparse'"):
        trials.pair_of("sparse", 128)


def test_the_computed_coverage_of_one_nonzero_is_a_sum_over_cells_met() -> None:
    """For k = 2, s = 2: no cell met, a quarter of the time, states 0 ± 0; for the others the library is asked."""
    projection = ss.projections.VerySparse(dim=1, sketch_dim=2, sparsity=2, seed=0)
    found = 0.0
    for met, chance in ((0, 0.25), (1, 0.5), (2, 0.25)):
        sketch = ss.Sketch.from_state(projection, np.array([met > 0, met > 1]).astype(np.int64), 1)
        low, high = ss.squared_norm(sketch).interval()
        found += chance * (low - 1e-9 <= 1 <= high + 1e-9)
    assert coverage.one_nonzero_coverage(2, 2) == pytest.approx(found)
    assert found < 1


def test_the_chi_square_coverage_is_that_of_simulated_intervals() -> None:
    """At five standard errors and a fixed seed."""
    estimates = np.random.default_rng(7).chisquare(32, 100_000) / 32
    reach = 1.96 * math.sqrt(2 / 32)
    for expected, errors in ((coverage.chi_square_coverage(32), 1.0), (coverage.plain_coverage(32), estimates)):
        covered = np.abs(estimates - 1) <= reach * errors
        assert abs(covered.mean() - expected) < 5 * math.sqrt(0.08 * 0.92 / 100_000)
    assert coverage.plain_coverage(32) < 0.93
    assert 0.95 < coverage.chi_square_coverage(32) < 0.96
    assert coverage.chi_square_coverage(1 << 20) == pytest.approx(0.95, abs=1e-3)


def test_a_deviation_counts_standard_errors_of_the_mean_square() -> None:
    """Standard normal errors about 0, predicted at 1: the mean of n squares has the standard error √(2/n)."""
    values = np.random.default_rng(1).normal(size=10_000)
    observed, uncertainty = trials.observed_error(values, 0.0), trials.uncertainty_of_error(values, 0.0)
    expected = (float((values**2).mean()) - 1) / math.sqrt(2 / values.size)
    assert trials.deviation(observed, 1.0, uncertainty) == pytest.approx(expected, rel=0.05)
    assert trials.deviation(3.0, 3.0, 0.0) == 0.0
