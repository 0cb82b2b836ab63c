"""E[s s'] by Price's theorem, against closed forms and simulation."""

import math

import numpy as np
import pytest

from streamsketch.core.numbers import Floats
from streamsketch.signs.sign_curve import sign_curve
from tests.noise import salted_rng

pytestmark = pytest.mark.rejects(1e-6)


def test_plain_signs_agree_as_the_angle_says() -> None:
    curve = sign_curve([(np.sign, np.sign)])
    assert np.abs(curve.mean - (1 - 2 * curve.angles / math.pi)).max() < 1e-12
    assert curve.most == pytest.approx(1.0, abs=1e-12)
    assert curve.angle(0.0) == pytest.approx(math.pi / 2, abs=1e-12)
    assert curve.angle(2.0) == pytest.approx(0.0)
    assert curve.angle(-2.0) == pytest.approx(math.pi)
    assert curve.cosine(0.5, 0.1) == pytest.approx(math.cos(math.pi / 4), abs=1e-12)


def test_cosines_go_on_beyond_one_along_the_last_chord() -> None:
    curve = sign_curve([(linear, linear)])
    assert curve.most == pytest.approx(1.0, abs=2e-3)
    for mean in (-1.4, -0.7, 0.0, 0.3, 1.2):
        assert curve.cosine(mean, 0.5) == pytest.approx(mean, abs=3e-3)
        assert curve.cosine(mean, 100.0) == pytest.approx(mean, abs=3e-3)
    signs = sign_curve([(np.sign, np.sign)])
    assert signs.cosine(1.1, 0.1) == pytest.approx(2 - math.cos(0.1 * math.pi / 2))
    assert signs.cosine(-1.1, 0.1) == -signs.cosine(1.1, 0.1)


def linear(cells: Floats) -> Floats:
    return cells


def test_linear_gains_have_the_mean_of_the_cosine() -> None:
    """E[Y Y'] = cos θ, but for what lies beyond six standard deviations."""
    curve = sign_curve([(linear, linear)])
    inside = (curve.angles > 0.05) & (curve.angles < math.pi - 0.05)
    assert np.abs(curve.mean - np.cos(curve.angles))[inside].max() < 2e-3


def test_the_average_over_rows_is_the_average_of_curves() -> None:
    def steep(cells: Floats) -> Floats:
        return np.tanh(5 * cells)

    both = sign_curve([(steep, steep), (np.sign, np.sign)])
    apart = (sign_curve([(steep, steep)]).mean + sign_curve([(np.sign, np.sign)]).mean) / 2
    assert np.allclose(both.mean, apart)


@pytest.mark.parametrize("theta", [0.2, 1.0, 2.0])
def test_uneven_gains_agree_as_in_simulation(theta: float) -> None:
    """A z test at six standard errors, 1 million pairs, beyond the grid's 1e-3."""

    def stairs(cells: Floats) -> Floats:
        return np.sign(cells) * np.tanh(np.ceil(np.abs(cells) / 0.7) / 3)

    def smooth(cells: Floats) -> Floats:
        return np.tanh(cells / 2)

    rng = salted_rng(1)
    x, fresh = rng.standard_normal((2, 1_000_000))
    products = stairs(x) * smooth(math.cos(theta) * x + math.sin(theta) * fresh)
    curve = sign_curve([(stairs, smooth)])
    found = float(np.interp(theta, curve.angles, curve.mean))
    assert abs(products.mean() - found) < 6 * products.std() / 1000 + 1e-3
    assert curve.angle(found) == pytest.approx(theta, abs=1e-9)
