"""Optimal caps: the guarantee holds with equality, nothing near errs less, and the figures of Theory 7."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from streamsketch.local.parameters import gaussian_cap, sphere_cap
from tests.golden import local_numbers

epsilons = st.floats(2.0**-10, 256)

THEORY = {  # ε: p*, g* and the errors of PrivUnitG and ProjUnit (k = 1000) at d = 32768
    1: (0.58933, 0.3975, 207423),
    2: (0.67032, 0.7865, 52975),
    4: (0.79095, 1.5156, 14265),
    8: (0.90102, 2.7429, 4355.3),
    10: (0.92467, 3.2601, 3083.2),
    16: (0.95760, 4.5613, 1575.0),
}


@pytest.mark.parametrize("epsilon", THEORY)
def test_the_figures_of_the_theory_sheet(epsilon: int) -> None:
    cap = gaussian_cap(1 << 15, float(epsilon))
    inside, threshold, error = THEORY[epsilon]
    assert cap.inside == pytest.approx(inside, abs=2e-4)  # b is on a grid of 2^-10
    assert cap.threshold == pytest.approx(threshold, abs=1e-3)
    assert cap.squared_norm(1 << 15) - 1 == pytest.approx(error, rel=5e-5)


def test_the_figure_at_ten_to_many_digits() -> None:
    """The shared sheet prints 3084.3 here: d·τ² + g·τ without the -1. The definition, in fifty digits, says 3083.2."""
    with mpmath.workdps(50):
        d, inside = 1 << 15, mpmath.mpf(gaussian_cap(1 << 15, 10.0).inside)
        mass = inside / (inside + mpmath.e**10 * (1 - inside))
        g = -mpmath.sqrt(2) * mpmath.erfinv(2 * mass - 1)
        mu = mpmath.npdf(g) * (inside / mass - (1 - inside) / (1 - mass))
        assert float(d / mu**2 + g / mu - 1) == pytest.approx(3083.18, abs=0.01)


@given(epsilons, st.integers(2, 1 << 24))
def test_the_gaussian_cap_spends_epsilon_exactly(epsilon: float, dim: int) -> None:
    cap = gaussian_cap(dim, epsilon)
    spent = math.log(cap.inside / cap.mass) + math.log1p(-cap.mass) - math.log1p(-cap.inside)
    assert spent == pytest.approx(epsilon, rel=1e-9)
    assert stats.norm.sf(cap.threshold) == pytest.approx(cap.mass, rel=1e-9)


@given(st.floats(2.0**-10, 20), st.integers(2, 1 << 20))
def test_the_spherical_cap_spends_epsilon_exactly(epsilon: float, dim: int) -> None:
    cap = sphere_cap(dim, epsilon)
    spent = math.log(cap.inside / cap.mass) + math.log1p(-cap.mass) - math.log1p(-cap.inside)
    assert spent == pytest.approx(epsilon, rel=1e-6)
    assert 0 < cap.mean <= 1


@pytest.mark.parametrize("dim", [2, 3, 10, 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_the_spherical_caps_mass_and_mean_are_those_of_its_density(dim: int, epsilon: float) -> None:
    cap = sphere_cap(dim, epsilon)

    def density(angle: float) -> float:
        return math.sin(angle) ** (dim - 2)

    whole = integrate.quad(density, 0, math.pi)[0]
    edge = math.acos(cap.threshold)
    assert integrate.quad(density, 0, edge)[0] / whole == pytest.approx(cap.mass, rel=1e-7)
    above = integrate.quad(lambda angle: math.cos(angle) * density(angle), 0, edge)[0] / whole
    mean = above * (cap.inside / cap.mass - (1 - cap.inside) / (1 - cap.mass))
    assert mean == pytest.approx(cap.mean, rel=1e-7)


@pytest.mark.parametrize("dim", [2, 64, 1 << 15])
@pytest.mark.parametrize("epsilon", [2.0**-10, 1.0, 10.0, 100.0])
def test_no_other_split_of_epsilon_errs_less(dim: int, epsilon: float) -> None:
    """By the papers' own formula for the error, on a grid of p."""
    best = gaussian_cap(dim, epsilon).squared_norm(dim) - 1
    for share in np.linspace(0.01, 0.99, 99) * epsilon:
        p, mass = 1 / (1 + math.exp(-share)), 1 / (1 + math.exp(epsilon - share))
        z = stats.norm.isf(mass)
        phi = stats.norm.pdf(z)
        m = phi * (p / mass - (1 - p) / (1 - mass))
        error = (p * (1 + z * phi / mass) + (1 - p) * (1 - z * phi / (1 - mass)) + dim - 1) / m**2 - 1
        assert error >= best * (1 - 1e-6)  # b is on a grid of 2^-10


@pytest.mark.parametrize("dim", [2, 50, 1 << 20])
@pytest.mark.parametrize("epsilon", [2.0**-10, 0.001, 0.1, 1.0, 4.0 * 4095 / 4096, 20.0])
def test_a_reader_that_searches_in_another_way_finds_the_same_scale(dim: int, epsilon: float) -> None:
    """Totals of compressed reports agree only then; where the error is flat, τ's rounding must not move the minimum."""
    assert gaussian_cap(dim, epsilon).scale == local_numbers.cap(dim, epsilon).scale


def test_priv_unit_errs_less_than_priv_unit_g_and_no_more_than_a_little() -> None:
    for dim in (4, 64, 1024):
        for epsilon in (0.5, 4.0, 16.0):
            sphere = 1 / sphere_cap(dim, epsilon).mean ** 2 - 1
            gaussian = gaussian_cap(dim, epsilon).squared_norm(dim) - 1
            assert sphere < gaussian < sphere * (1 + 12 * (1 + epsilon) / dim)
