"""What studies of accuracy compute beside what they measure."""

import math
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.accuracy import comparison, crossover, planner


@pytest.mark.parametrize("sparsity", crossover.SPARSITIES)
@pytest.mark.parametrize("epsilon", crossover.EPSILONS)
def test_variances_are_equal_where_they_are_said_to_cross(epsilon: float, sparsity: int) -> None:
    close, distant = crossover.close_crossover(epsilon, sparsity), crossover.distant_crossover(epsilon, sparsity)
    assert crossover.relative_variance(epsilon, sparsity, close, 0.0) == pytest.approx(1, rel=1e-5)
    assert crossover.relative_variance(epsilon, sparsity, distant, 1e6) == pytest.approx(1, rel=1e-5)


def test_a_fine_lattice_crosses_where_continuous_noise_does() -> None:
    fine = crossover.lattice_crossover(1.0, 4, Fraction(1, 128))
    assert fine is not None
    assert math.log(fine) == pytest.approx(math.log(crossover.close_crossover(1.0, 4)), abs=0.01)
    coarse = crossover.lattice_crossover(1.0, 4)
    assert coarse is not None
    assert coarse > fine


def test_losses_are_those_of_the_named_mechanism_over_the_better_one() -> None:
    """At s = 4, δ = 1e-2 the rule names Laplace, whose noise is wider; a pure guarantee leaves no choice."""
    errors = planner.standard_errors(1.0, 1e-2, 4, 0.0)
    assert list(errors) == ["laplace", "gaussian"]
    assert planner.losses_of(1.0, 1e-2, 4, 0.0) == (errors["laplace"] / errors["gaussian"], 1.0)
    assert errors["laplace"] > 1.5 * errors["gaussian"]
    assert planner.losses_of(1.0, 0.0, 4, 1e3) == (1.0, 1.0)


def test_scenes_state_their_distances() -> None:
    assert [scene.squared_distance for scene in planner.SCENES] == [4_000, 4_000, 40_000, 400_000, 4_000, 405_000]


@pytest.mark.parametrize("exact", [True, False])
def test_kkmm_s_estimate_is_unbiased_with_the_variance_of_its_theorem(*, exact: bool) -> None:
    """At five standard errors and fixed seeds; over new seeds a valid one would fail with chance 2·10^-6."""
    z = np.random.default_rng(3).normal(0, 4, 64)
    pairs = np.array([comparison.kkmm_estimate(z, (2.0, 1e-3), seed, exact=exact) for seed in range(2000)])
    errors = pairs[:, 0] - z @ z
    assert abs(errors.mean()) < 5 * errors.std() / math.sqrt(2000)
    squares = errors**2
    assert abs(squares.mean() - pairs[:, 1].mean()) < 5 * squares.std() / math.sqrt(2000)
