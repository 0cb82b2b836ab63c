"""Zero-concentrated losses: Rényi divergences summed term by term, and what ρ gives at a δ."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace, laplace_divergence
from streamsketch.privacy.noise import Sensitivity
from streamsketch.privacy.zcdp import epsilon_to_rho, pure_rho, rho_to_epsilon

ORDERS = (1.001, 1.5, 2.0, 4.0, 16.0, 64.0)
REACH = 4000


def renyi(mass: NDArray[np.float64], shift: int, order: float) -> float:
    """Return D_α of a distribution on integers and its shift, summed where both have mass."""
    with np.errstate(divide="ignore"):
        here, there = np.log(mass[shift:]), np.log(mass[: len(mass) - shift])
    both = np.isfinite(here) & np.isfinite(there)
    return float(np.logaddexp.reduce(order * here[both] + (1 - order) * there[both])) / (order - 1)


def laplace(scale: float) -> NDArray[np.float64]:
    q = math.exp(-1 / scale)
    return np.asarray((1 - q) / (1 + q) * q ** np.abs(np.arange(-REACH, REACH + 1)))


def gaussian(variance: float, reach: int = 60) -> NDArray[np.float64]:
    weight = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
    return np.asarray(weight / weight.sum())


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_randomised_response_is_within_the_rho_of_a_pure_release_and_reaches_it(epsilon: float) -> None:
    mass = np.array([math.exp(epsilon), 1.0]) / (1 + math.exp(epsilon))
    found = [math.log((mass**a * mass[::-1] ** (1 - a)).sum()) / (a - 1) / a for a in ORDERS]
    assert max(found) <= pure_rho(epsilon)
    assert max(found) >= pure_rho(epsilon) * 0.99


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(40)])
@pytest.mark.parametrize("shift", [1, 2, 7])
def test_shifted_laplace_noise_is_within_its_divergence_and_reaches_it(scale: Fraction, shift: int) -> None:
    found = [renyi(laplace(float(scale)), shift, order) / order for order in ORDERS]
    assert max(found) <= laplace_divergence(scale, shift) * (1 + 1e-9)
    assert max(found) >= laplace_divergence(scale, shift) * 0.99


def test_however_a_unit_spreads_its_steps_over_cells_it_costs_no_more() -> None:
    noise, l1, cell = DiscreteLaplace(Fraction(5)), 8, 3
    allowed = noise.rho(Sensitivity(l1=l1, l2_squared=64, cells=l1), cell)
    spread = [steps for n in range(1, 9) for steps in itertools.combinations_with_replacement(range(1, cell + 1), n)]
    for steps in spread:
        if sum(steps) <= l1:
            assert all(sum(renyi(laplace(5.0), step, order) for step in steps) <= order * allowed for order in ORDERS)


@pytest.mark.parametrize("variance", [0.25, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("shares", [2, 5])
def test_gaussian_shares_cost_what_their_sum_does(variance: float, shares: int) -> None:
    one = gaussian(variance)
    total = one
    for _ in range(shares - 1):
        total = np.convolve(total, one)
    noise = DiscreteGaussian(Fraction(variance) * shares)
    unit = Sensitivity(l1=1, l2_squared=1, cells=1)
    allowed, plain = noise.rho(unit, 1, shares), noise.rho(unit, 1)
    found = max(renyi(total, 1, order) / order for order in ORDERS[:4])
    assert plain < allowed
    assert found <= allowed * (1 + 1e-9)
    if (variance, shares) == (0.25, 2):
        assert found > plain * 1.01, "as one Gaussian they would be charged too little"


@pytest.mark.parametrize("rho", [0.001, 0.1, 2.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_the_epsilon_of_a_rho_holds_for_gaussian_noise_and_is_inverted(rho: float, delta: float) -> None:
    epsilon, mu = rho_to_epsilon(rho, delta), math.sqrt(2 * rho)
    exact = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
    assert 0 < exact <= delta
    assert epsilon_to_rho(epsilon, delta) == pytest.approx(rho, rel=1e-6)
    assert rho_to_epsilon(epsilon_to_rho(epsilon, delta), delta) <= epsilon
