"""Quantiles with the same work for every argument, against solvers."""

import mpmath
import numpy as np
import pytest
from scipy.special import betaincinv

from streamsketch.local import PrivUnit, random_words
from streamsketch.local.baselines.priv_unit import InverseBeta
from streamsketch.local.parameters import sphere_cap
from tests.noise import salted_rng

pytestmark = pytest.mark.rejects(0)


@pytest.mark.parametrize("half", [0.5, 1.0, 1.5, 5.5, 499.5, 2.0**23])
@pytest.mark.parametrize("least", [2.0**-53, 1e-140])
def test_quantiles_of_the_beta_are_the_solvers(half: float, least: float) -> None:
    powers = salted_rng(1).uniform(np.log2(least), -1, 2000)
    given = np.concatenate([2.0**powers, [least, 0.25, 0.5, np.nextafter(0.5, 0)]])
    assert InverseBeta(half, least)(given) == pytest.approx(betaincinv(half, half, given), rel=2e-12)


@pytest.mark.parametrize(("dim", "epsilon"), [(2, 2.0**-10), (2, 20.0), (12, 4.0), (1000, 256.0), (1 << 24, 8.0)])
def test_both_sides_of_the_cap_are_the_solvers(dim: int, epsilon: float) -> None:
    mechanism, half, cap = PrivUnit(dim=dim, epsilon=epsilon), (dim - 1) / 2, sphere_cap(dim, epsilon)
    places = np.concatenate([salted_rng(2).uniform(size=2000), [2.0**-53, 0.5, 1 - 2.0**-53]])
    inside, outside = (mechanism._below(np.full(places.size, coin), places) for coin in (0.0, 1.0))
    assert inside == pytest.approx(betaincinv(half, half, cap.mass * places), rel=2e-12)
    assert outside == pytest.approx(1 - betaincinv(half, half, (1 - cap.mass) * places), abs=1e-12)
    assert (1 - 2 * inside >= cap.threshold - 1e-12).all()
    assert (1 - 2 * outside <= cap.threshold + 1e-12).all()


def test_normal_quantiles_are_right_to_the_last_digits() -> None:
    given = [1e-130, 1e-20, 0.07, 0.3, 0.5, 0.50000001, 0.8, 0.999, 1 - 2.0**-53]
    found = np.empty(len(given))
    random_words.quantiles(np.array(given), found)
    with mpmath.workdps(150):
        for p, z in zip(given, found.tolist(), strict=True):
            exact, density = mpmath.ncdf(mpmath.mpf(z)), mpmath.npdf(mpmath.mpf(z))
            assert abs(exact - mpmath.mpf(p)) / density < 1e-15 * max(1, abs(z)) + 2.0**-53 * min(p, 1) / density * 1.1
