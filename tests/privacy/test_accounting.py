"""Finer composition: right beside closed forms and dp-accounting, and honest without it."""

import math
import sys

import pytest
from dp_accounting.pld import privacy_loss_distribution

import streamsketch as ss
from streamsketch.privacy.accounting import Spent, account, gaussian_epsilon
from streamsketch.privacy.calibration import gaussian_log_delta, gaussian_sigma


@pytest.mark.parametrize(("sigma", "count", "delta"), [(5.5, 4, 1e-9), (20.0, 100, 1e-6), (1.0, 2, 1e-3)])
def test_gaussians_compose_as_by_dp_accounting(sigma: float, count: int, delta: float) -> None:
    found = account([Spent(1.0, delta, sigma)] * count, delta)
    assert found is not None
    theirs = privacy_loss_distribution.from_gaussian_mechanism(sigma).self_compose(count).get_epsilon_for_delta(delta)
    assert found.epsilon == pytest.approx(theirs, rel=1e-3)
    assert gaussian_log_delta(found.epsilon, sigma / math.sqrt(count)) <= math.log(delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-6), (1.0, 1e-9), (8.0, 0.01)])
def test_the_epsilon_of_a_sigma_inverts_its_calibration(epsilon: float, delta: float) -> None:
    sigma = gaussian_sigma(epsilon, delta)
    assert gaussian_epsilon(sigma, delta) == pytest.approx(epsilon, rel=1e-5)
    assert gaussian_log_delta(gaussian_epsilon(sigma, delta), sigma) <= math.log(delta)
    assert gaussian_epsilon(sigma, 0.999) == 0.0


def optimal_delta(epsilon: float, count: int, steps: int) -> float:
    """Return δ of ``count`` pure ε-DP releases at (count - 2·steps)ε: Kairouz, Oh and Viswanath 2015, Theorem 3.3."""
    terms = (
        math.comb(count, other)
        * (math.exp((count - other) * epsilon) - math.exp((count - 2 * steps + other) * epsilon))
        for other in range(steps)
    )
    return sum(terms) / (1 + math.exp(epsilon)) ** count


def test_pure_releases_compose_optimally() -> None:
    epsilon, count, steps = 0.1, 60, 15
    delta = optimal_delta(epsilon, count, steps)
    found = account([Spent(epsilon, 0.0)] * count, delta)
    assert found is not None
    exact = (count - 2 * steps) * epsilon
    assert exact * (1 - 1e-9) <= found.epsilon <= exact * 1.005
    assert found.by.startswith("privacy loss distributions, dp-accounting ")


def test_mixtures_are_no_better_than_the_best_they_could_hide() -> None:
    mixed = account([Spent(1.0, 0.0), Spent(1.0, 1e-6, sigma=4.3)], 1e-6)
    assert mixed is not None
    assert 1.5 < mixed.epsilon < 2.0


def test_what_cannot_be_accounted_for_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert account([Spent(1.0, 0.0)] * 3, 0.0) is None
    assert account([Spent(40.0, 1e-6)] * 2, 1e-5) is None
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    assert account([Spent(1.0, 1e-6)] * 3, 1e-5) is None
    assert account([Spent(1.0, 1e-6, sigma=5.0)] * 3, 1e-5) is not None
    sketch = ss.SJLT(dim=9, sketch_dim=64, sparsity=4, seed=7).sketch()
    joint = ss.explain_together(
        [sketch.release(epsilon=0.1, neighbours=ss.L1(1)) for _ in range(30)], populations="overlapping", delta=1e-6
    )
    assert joint.finer is None
    assert "with streamsketch[accounting] installed" in " ".join(str(joint).split())


def test_mistakes_are_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match="no release"):
        account([], 1e-6)
    with pytest.raises(ss.InvalidInputError, match="delta"):
        account([Spent(1.0, 0.0)], 1.0)
