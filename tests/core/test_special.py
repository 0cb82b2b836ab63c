"""Special functions, roots and curves without SciPy agree with SciPy's."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy
from scipy import special as oracle

from streamsketch.core import special
from streamsketch.core.roots import interpolated, root_of

SHAPES = np.array([0.5, 1.0, 3.25, 11.9, 12.1, 64.0, 511.5, 4096.0])
TAILS = np.array([1e-15, 1e-9, 1e-4, 0.025, 0.3, 0.5, 0.7, 0.975, 1 - 1e-9])
REAL = np.linspace(-30, 30, 601)
CHANCES = np.concatenate([TAILS, [1e-300]])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("erf", REAL),
        ("erfcx", np.concatenate([REAL[REAL > -5], [100.0, 1e8]])),
        ("gammaln", np.concatenate([SHAPES, [1e-5, 1e9]])),
        ("ndtr", REAL),
        ("log_ndtr", np.concatenate([REAL, [-1e4]])),
        ("ndtri", CHANCES),
        ("expit", np.concatenate([REAL, [-720.0, 800.0]])),
    ],
)
def test_functions_of_one_number(name: str, values: Any) -> None:
    np.testing.assert_allclose(getattr(special, name)(values), getattr(oracle, name)(values), rtol=1e-12, atol=1e-300)


def test_normal_probabilities_have_all_their_bits_as_far_out_as_they_are_not_0_or_1() -> None:
    places = [*np.linspace(-40, -37, 301), *np.linspace(5, 10, 501), -math.inf, math.inf, math.nan]
    np.testing.assert_array_equal(special.ndtr(places), [math.erfc(-place / 2**0.5) / 2 for place in places])
    assert special.ndtr(-38.0) == special.ndtr([[-38.0]])[0, 0] > 0


def test_quantiles_of_certain_chances_are_infinite() -> None:
    assert special.ndtri([0.0, 1.0]).tolist() == [-math.inf, math.inf]
    assert special.gammaincinv(3.0, [0.0, 1.0]).tolist() == [0.0, math.inf]
    assert special.gammainccinv(3.0, [0.0, 1.0]).tolist() == [math.inf, 0.0]


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_tails_of_gamma_laws(name: str) -> None:
    """Of all three ways to compute them, and on both sides of where they meet."""
    ratios = np.array([0.0, 1e-6, 0.1, 0.29, 0.31, 0.7, 0.95, 1.0, 1.05, 1.4, 2.3, 2.4, 6.0, math.inf])
    found = getattr(special, name)(SHAPES[:, None], SHAPES[:, None] * ratios)
    np.testing.assert_allclose(found, getattr(oracle, name)(SHAPES[:, None], SHAPES[:, None] * ratios), 2e-11, 1e-290)


def test_the_lower_tail_of_a_large_shape() -> None:
    """By 40 digits: SciPy is off by 7e-6 there."""
    assert float(special.gammainc(966493.1222375376, 961928.2812380082)) == pytest.approx(
        1.65737357812874e-06, rel=2e-12
    )


@pytest.mark.parametrize("name", ["gammaincinv", "gammainccinv"])
def test_quantiles_of_gamma_laws(name: str) -> None:
    found = getattr(special, name)(SHAPES[:, None], TAILS)
    np.testing.assert_allclose(found, getattr(oracle, name)(SHAPES[:, None], TAILS), rtol=1e-12)


def test_beta_laws() -> None:
    places = np.linspace(0, 1, 41)
    for first, second in ((1.0, 1.0), (2.0, 2.0), (9.0, 4.5), (0.5, 30.0)):
        np.testing.assert_allclose(
            special.betainc(first, second, places), oracle.betainc(first, second, places), rtol=1e-12
        )
    shapes = np.array([0.5, 2.0, 30.0])[:, None]
    np.testing.assert_allclose(special.betainc(shapes, 3.5, places), oracle.betainc(shapes, 3.5, places), rtol=1e-12)
    for chance in (1e-9, 0.025, 0.6):
        assert special.betaincinv(5.0, 5.0, chance) == pytest.approx(oracle.betaincinv(5.0, 5.0, chance), rel=1e-12)


def test_bessel_functions() -> None:
    orders, sizes = np.abs(np.arange(-30, 31)), np.array([[0.0], [0.01], [3.0], [40.0]])
    np.testing.assert_allclose(special.ive(orders, sizes), oracle.ive(orders, sizes), rtol=0, atol=2e-15)
    for order in (-0.4, 0.0, 0.5, 7.5, 60.0):
        places = 10 ** np.linspace(-2, 3, 60)
        expected = np.log(oracle.kve(order, places)) - places
        np.testing.assert_allclose(special.log_kv(order, places), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("function", "low", "high"),
    [
        (lambda x: x**3 - 2, 0.0, 5.0),
        (lambda x: math.exp(-x) - x, -3.0, 9.0),
        (lambda x: math.copysign(abs(x - 0.7) ** 0.3, x - 0.7), -1.0, 4.0),
        (lambda x: x - 1.0, 1.0, 2.0),
        (lambda x: x - 2.0, 1.0, 2.0),
    ],
)
def test_roots(function: Callable[[float], float], low: float, high: float) -> None:
    assert root_of(function, low, high) == scipy.optimize.brentq(function, low, high), "by the same steps"


def test_a_root_needs_two_signs() -> None:
    with pytest.raises(ValueError, match="one sign at"):
        root_of(lambda x: x, 1.0, 2.0)


@pytest.mark.parametrize(
    "values", [[0.0, -1.0, -3.0, -3.5, -9.0], [1.0, 2.0, 0.0, 0.0, 5.0], [1.0, 1.5, 9.0, 9.5, 9.6], [2.0, -1.0]]
)
def test_curves_through_points(values: list[float]) -> None:
    knots, heights = np.array([0.0, 0.3, 1.0, 1.5, 4.0])[: len(values)], np.array(values)
    places = np.linspace(knots[0], knots[-1], 97)
    expected = scipy.interpolate.PchipInterpolator(knots, heights)(places)
    np.testing.assert_allclose(interpolated(knots, heights, places), expected, rtol=1e-12, atol=1e-12)
