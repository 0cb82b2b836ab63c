"""Numbers that machines agree on: exact where they are computed, and unmoved where libraries differ in last digits."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsketch.local import CompPrivUnitG, MeanAggregator, PrivUnit, PrivUnitG, ProjUnit, parameters
from streamsketch.local.aggregation import step_exponent_of
from streamsketch.local.mechanism import Mechanism
from streamsketch.local.portable_floats import ROOT_PI, gamma_ratio, power_below, round_portably
from tests.local.directions import bits, directions, repeated

pytestmark = pytest.mark.rejects(0)


@pytest.mark.parametrize("x", [0.5, 1, 1.5, 2, 10, 23.5, 24, 24.5, 100, 1000.5, 2**20, 2**23 + 0.5])
def test_ratios_of_gamma_functions_hold_to_the_last_digits(x: float) -> None:
    """A difference of log-gammas in doubles is off by 1e-9 at 2^23."""
    with mpmath.workdps(50):
        exact = mpmath.exp(mpmath.loggamma(mpmath.mpf(x) + 0.5) - mpmath.loggamma(x))
        assert abs(gamma_ratio(x) / exact - 1) < 1e-15
        assert mpmath.sqrt(mpmath.pi) == pytest.approx(ROOT_PI, rel=1e-16)


@given(st.floats(1e-30, 1e30))
def test_agreed_numbers_have_32_bits_and_are_near(value: float) -> None:
    found = round_portably(value)
    assert abs(found / value - 1) <= 2.0**-32
    assert math.ldexp(math.frexp(found)[0], 32).is_integer()
    assert round_portably(found) == found


@given(st.integers(-90, 90))
def test_powers_of_two_are_powers_of_two_but_for_rounding(exponent: int) -> None:
    exact = 2.0**exponent
    assert {power_below(value) for value in (exact, math.nextafter(exact, 0), math.nextafter(exact, 1e99))} == {
        exponent
    }
    assert power_below(exact * 1.9) == exponent
    assert power_below(exact * 0.9) == exponent - 1


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the libraries' last digits differ: the minimum by 1e-8, quantiles by some ulp."""
    sought, quantile = parameters.optimize.minimize_scalar, parameters.scipy_special.ndtri_exp

    def other_minimum(*arguments: Any, **options: Any) -> Any:
        found = sought(*arguments, **options)
        found.x *= 1 + 1e-8
        return found

    monkeypatch.setattr(parameters.optimize, "minimize_scalar", other_minimum)
    monkeypatch.setattr(parameters.scipy_special, "ndtri_exp", lambda value: quantile(value) * (1 + 1e-15))
    parameters.gaussian_cap.cache_clear()
    parameters.sphere_cap.cache_clear()


def compressed() -> list[Mechanism]:
    return [
        CompPrivUnitG(dim=16, epsilon=3.0, seed=1),
        ProjUnit(dim=40, sketch_dim=6, epsilon=1.5, compressed=True, shared=True, seed=1),
        ProjUnit(dim=40, sketch_dim=6, epsilon=0.01, compressed=True, unbiased=True, seed=1),
    ]


def test_totals_are_the_same_where_libraries_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    here = []
    for mechanism in compressed():
        vectors = repeated(directions(mechanism.dim)["gaussian"], 50)
        reports = mechanism.randomize_many(vectors, bits=bits("agreed"))
        server = MeanAggregator(mechanism)
        server.add(reports)
        here.append((reports, server))
    elsewhere(monkeypatch)
    for mechanism, (reports, server) in zip(compressed(), here, strict=True):
        again = MeanAggregator(mechanism)
        for report in reports:  # as they arrive there
            again.add(type(report)(mechanism, report.seed, report.values))
        assert again == server
    parameters.gaussian_cap.cache_clear()


def test_caps_and_steps_are_the_same_where_libraries_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> list[object]:
        pairs = [(dim, epsilon) for dim in (2, 64, 1 << 20) for epsilon in (2.0**-10, 1.0, 10.0, 20.0, 256.0)]
        scales = [parameters.gaussian_cap(*pair).scale for pair in pairs if pair[1] <= 20]  # servers see no others
        steps = [
            step_exponent_of(family(dim=dim, epsilon=epsilon))
            for family in (PrivUnit, PrivUnitG)
            for dim, epsilon in pairs
        ]
        return [*scales, *steps]

    here = found()
    elsewhere(monkeypatch)
    assert found() == here
    parameters.gaussian_cap.cache_clear()
    parameters.sphere_cap.cache_clear()


@pytest.mark.parametrize("epsilon", [20.0, 64.0, 200.0])
def test_the_error_of_priv_unit_in_the_plane_is_not_lost_to_cancellation(epsilon: float) -> None:
    """By its cap in fifty digits: angles are uniform, so E⟨V, v⟩ in the cap is sin θ/θ. 1/m² - 1 in doubles is 0."""
    cap = PrivUnit(dim=2, epsilon=epsilon).cap
    with mpmath.workdps(250):
        mass = mpmath.mpf(cap.mass)
        outside = 1 - mpmath.mpf(cap.inside)
        angle = mpmath.pi * mass
        m = mpmath.sin(angle) * ((1 - outside) / angle - outside / (mpmath.pi - angle))
        exact = float(1 / m**2 - 1)
    assert exact > 0
    assert PrivUnit(dim=2, epsilon=epsilon).expected_squared_error(1) == pytest.approx(exact, rel=1e-9)


def test_what_float16_adds_is_a_share_of_the_squared_length() -> None:
    """Not of the error, which is a thousandth of it at ε = 200 in the plane."""
    vectors = repeated(directions(3)["gaussian"], 20000)
    coarse, fine = (
        PrivUnitG(dim=3, epsilon=200.0, precision=precision).randomize_many(vectors, bits=bits("float16")).values
        for precision in ("float16", "float32")
    )
    added = ((coarse.astype(np.float64) - fine) ** 2).sum(axis=1).mean()
    error = PrivUnitG(dim=3, epsilon=200.0).squared_error
    assert 2.0**-21 * error < added < 2.0**-21 * (error + 1)
