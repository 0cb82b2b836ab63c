"""Noise is as wide as the guarantee needs, by exact and high-precision oracles, and hardly wider."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from dp_accounting import gaussian_mechanism
from hypothesis import given, settings
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import Budget, Mechanism, calibration
from streamsketch.privacy.gaussian import DiscreteGaussian, gaussian_sigma
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.noise import Sensitivity
from tests.oracles.naive_noise import as_mpf, gaussian_pmf, lattice_delta

EPSILONS = [1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.3, 1, 2, 3, 5, 8, 10, 20, 30, 50]
DELTAS = [1e-300, 1e-200, 1e-100, 1e-50, 1e-30, 1e-20, 1e-15, 1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3]
DELTAS += [0.01, 0.1, 0.2, 0.5, 0.7, 0.9]


def in_cells(squared: int, cells: int = 64) -> Sensitivity:
    """Return the sensitivity of a unit that moves the cells by integer vectors of squared norm ≤ ``squared``."""
    return Sensitivity(l1=squared, l2_squared=squared, cells=cells)


# --- Laplace --------------------------------------------------------------------------------------------------


@settings(max_examples=2 * settings.default.max_examples)
@given(st.integers(1, 1 << 20), st.floats(1e-3, 50))
def test_a_laplace_scale_is_never_below_the_sensitivity_over_epsilon_and_hardly_above(l1: int, epsilon: float) -> None:
    exact = Fraction(l1) / Fraction(epsilon)
    scale = DiscreteLaplace.calibrated(Sensitivity(l1, l1, 8), Budget(epsilon)).scale
    assert exact <= scale <= exact * (1 + Fraction(1, 1 << 20))


@pytest.mark.parametrize(
    ("l1", "epsilon", "scale"),
    [(8, 1.0, Fraction(8)), (1, 3, Fraction(1, 3)), (8, 0.5, Fraction(16)), (3, 0.25, Fraction(12))],
)
def test_a_laplace_scale_that_has_few_digits_is_exact(l1: int, epsilon: float, scale: Fraction) -> None:
    assert DiscreteLaplace.calibrated(Sensitivity(l1, l1, 8), Budget(epsilon)).scale == scale


@pytest.mark.parametrize("epsilon", [1e6, 123456.789, 7 * 2.0**16])
def test_a_laplace_scale_for_absurdly_weak_guarantees_is_still_not_below_what_they_need(epsilon: float) -> None:
    assert DiscreteLaplace.calibrated(Sensitivity(7, 7, 8), Budget(epsilon)).scale >= 7 / Fraction(epsilon)


# --- the continuous Gaussian, in high precision ----------------------------------------------------------------


def exact_delta(epsilon: float, sigma: mpmath.mpf) -> mpmath.mpf:
    """Φ(1/(2σ) - εσ) - e^ε Φ(-1/(2σ) - εσ) to 60 digits (Balle and Wang 2018, Theorem 8)."""
    exact = mpmath.mpf(epsilon)
    near, far = (exact * sigma - 1 / (2 * sigma), exact * sigma + 1 / (2 * sigma))
    return mpmath.erfc(near / mpmath.sqrt(2)) / 2 - mpmath.exp(exact) * mpmath.erfc(far / mpmath.sqrt(2)) / 2


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_analytic_sigma_keeps_delta_and_wastes_less_than_a_millionth(epsilon: float) -> None:
    for delta in DELTAS:
        sigma = mpmath.mpf(gaussian_sigma(epsilon, delta))
        assert exact_delta(epsilon, sigma * (1 + mpmath.mpf(10) ** -9)) <= delta
        assert exact_delta(epsilon, sigma * (1 - mpmath.mpf(10) ** -6)) > delta


@settings(max_examples=2 * settings.default.max_examples)
@given(st.floats(-5, 1.7), st.floats(-300, -0.05))
def test_the_analytic_sigma_keeps_delta_anywhere(log_epsilon: float, log_delta: float) -> None:
    epsilon, delta = 10**log_epsilon, 10**log_delta
    sigma = mpmath.mpf(gaussian_sigma(epsilon, delta))
    assert exact_delta(epsilon, sigma * (1 + mpmath.mpf(10) ** -9)) <= delta
    assert exact_delta(epsilon, sigma * (1 - mpmath.mpf(10) ** -6)) > delta


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 4.0, 10.0, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-5, 1e-2, 0.1])
def test_the_analytic_sigma_agrees_with_dp_accounting(epsilon: float, delta: float) -> None:
    expected = gaussian_mechanism.get_sigma_gaussian(epsilon, delta)
    assert gaussian_sigma(epsilon, delta) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 1.0, 8.0, 50.0])
@pytest.mark.parametrize("delta", [1e-100, 1e-9, 0.3])
@pytest.mark.parametrize("l2_squared", [1, 8, 4 * 10**6])
def test_the_lattice_variance_is_the_analytic_one_plus_three_and_hardly_more(
    epsilon: float, delta: float, l2_squared: int
) -> None:
    sigma = mpmath.findroot(
        lambda x: mpmath.log(exact_delta(epsilon, mpmath.exp(x))) - mpmath.log(mpmath.mpf(delta)),
        mpmath.log(gaussian_sigma(epsilon, delta)),
    )
    needed = mpmath.exp(2 * sigma) * l2_squared + 3
    if needed > 1 << 48:
        with pytest.raises(InvalidInputError, match="coarser resolution"):
            DiscreteGaussian.calibrated(Sensitivity(l2_squared, l2_squared, 1 << 24), Budget(epsilon, delta))
        return
    noise = DiscreteGaussian.calibrated(Sensitivity(l2_squared, l2_squared, 1 << 24), Budget(epsilon, delta))
    excess = as_mpf(noise.sigma_squared) - needed
    assert 0 <= excess <= needed * mpmath.mpf("1e-6") + (1 if needed > 1 << 16 else mpmath.mpf(1) / 256)


def test_the_rounding_argument_has_the_eta_it_claims() -> None:
    """Per cell the rounded Gaussian is within e^{±η} of the discrete one, η = ln((1+β)/(1-β)) at τ² = 3."""
    tail = mpmath.fsum(mpmath.exp(-2 * mpmath.pi**2 * 3 * j**2) for j in range(1, 20))
    eta = mpmath.log((1 + 2 * tail) / (1 - 2 * tail))
    assert mpmath.mpf("7.6e-26") < eta <= mpmath.mpf("7.7e-26")
    # β bounds how far Σ_y exp(-(y - x)²/2τ²), the rounding's normaliser, strays from τ√(2π)
    for place in (mpmath.mpf(0), mpmath.mpf("0.25"), mpmath.mpf("0.5")):
        summed = mpmath.fsum(mpmath.exp(-((y - place) ** 2) / 6) for y in range(-60, 61))
        assert abs(summed / mpmath.sqrt(6 * mpmath.pi) - 1) <= 2 * tail * (1 + mpmath.mpf(10) ** -20)


# --- the discrete Gaussian, exactly ----------------------------------------------------------------------------


def shifts(squared: int, cells: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Every integer vector of squared norm ≤ ``squared`` in ``cells`` cells, up to order, signs and zeros."""
    yield ()
    if cells:
        top = min(math.isqrt(squared), largest or squared)
        for entry in range(1, top + 1):
            for rest in shifts(squared - entry**2, cells - 1, entry):
                yield (entry, *rest)


def worst_ratio(sigma_squared: Fraction, squared: int, cells: int, epsilon: float, delta: float) -> float:
    """Return the largest true δ over all shifts a unit can cause, as a multiple of the δ guaranteed."""
    return max(lattice_delta(sigma_squared, shift, epsilon) for shift in shifts(squared, cells) if shift) / delta


LATTICE_CASES = list(itertools.product((0.1, 0.5, 1.0, 3.0, 8.0), (0.3, 1e-2, 1e-5, 1e-9)))


@pytest.mark.parametrize(("squared", "cells"), [(1, 1), (2, 2), (3, 3), (4, 1), (4, 4), (5, 2), (8, 8), (9, 3)])
def test_the_released_lattice_vector_keeps_delta_for_every_shift_a_unit_can_cause(squared: int, cells: int) -> None:
    ratios = []
    for epsilon, delta in LATTICE_CASES:
        noise = DiscreteGaussian.calibrated(in_cells(squared, cells), Budget(epsilon, delta))
        ratios.append(worst_ratio(noise.sigma_squared, squared, cells, epsilon, delta))
    assert max(ratios) <= 1
    assert max(ratios) > 0.9  # and the noise is not far wider than it needs to be


@pytest.mark.parametrize(("squared", "excess"), [(1, 2.5), (2, 1.5), (4, 1.5), (8, 1.1)])
def test_the_same_check_catches_the_continuous_sigma_used_verbatim_on_the_lattice(squared: int, excess: float) -> None:
    ratios = [
        worst_ratio(Fraction(gaussian_sigma(epsilon, delta) ** 2 * squared), squared, squared, epsilon, delta)
        for epsilon, delta in LATTICE_CASES
    ]
    assert max(ratios) > excess


def test_the_same_check_catches_the_classical_formula_at_large_epsilon() -> None:
    """σ = Δ2·√(2 ln(1.25/δ))/ε is proven for ε < 1; at δ = 1e-5 it fails above ε = 8.42 (Theory 3)."""
    delta = 1e-5
    for epsilon, holds in ((0.9, True), (8.0, True), (9.0, False), (12.0, False)):
        classical = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        assert (exact_delta(epsilon, mpmath.mpf(classical)) <= delta) == holds
        step = 60  # a shift so long that the lattice is as good as continuous
        ratio = lattice_delta(Fraction((classical * step) ** 2), (step,), epsilon) / delta
        assert (ratio <= 1) == holds
        noise = DiscreteGaussian.calibrated(in_cells(step**2), Budget(epsilon, delta))
        assert 0.9 < lattice_delta(noise.sigma_squared, (step,), epsilon) / delta <= 1


def test_the_enumeration_is_the_sheets_formula_in_high_precision() -> None:
    sigma_squared, shift = Fraction(7, 2), (2, 1)
    half = mpmath.mpf(5) / 2
    for epsilon in (0.5, 2.0):
        tails = [mpmath.mpf(0), mpmath.mpf(0)]
        for first, second in itertools.product(range(-40, 41), repeat=2):
            total = 2 * first + second
            mass = gaussian_pmf(sigma_squared, first) * gaussian_pmf(sigma_squared, second)
            for side, bound in enumerate((epsilon * mpmath.mpf("3.5") - half, epsilon * mpmath.mpf("3.5") + half)):
                if total > bound:
                    tails[side] += mass
        expected = tails[0] - mpmath.exp(epsilon) * tails[1]
        assert lattice_delta(sigma_squared, shift, epsilon) == pytest.approx(float(expected), rel=1e-12)


# --- which mechanism ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparsity", [1, 2, 4, 8, 16])
def test_the_automatic_choice_changes_at_delta_e_to_minus_s(sparsity: int) -> None:
    projection = ss.SJLT(dim=100, sketch_dim=64, sparsity=sparsity, seed=1)
    boundary = math.exp(-sparsity)
    for delta, first in ((boundary * (1 - 1e-9), "laplace"), (boundary * (1 + 1e-9), "gaussian")):
        options = ss.accounting.mechanisms(projection, epsilon=1.0, delta=delta, neighbours=ss.L1(3))
        assert options[0].mechanism == first
        assert {option.mechanism for option in options} == {"laplace", "gaussian"}
        released = projection.sketch().release(epsilon=1.0, delta=delta, neighbours=ss.L1(3))
        assert released.guarantee.mechanism == Mechanism.of_noise(options[0].noise)
        assert released.guarantee.delta == (0.0 if first == "laplace" else delta)


def test_a_count_sketch_takes_laplace_noise_for_every_delta_below_one_over_e() -> None:
    projection = ss.CountSketch(dim=100, sketch_dim=64, seed=1)
    for delta, first in ((1e-9, "laplace"), (0.367, "laplace"), (0.368, "gaussian"), (0.9, "gaussian")):
        assert ss.accounting.mechanisms(projection, epsilon=1.0, delta=delta, neighbours=ss.L1(1))[0].mechanism == first


def test_pure_privacy_knows_laplace_noise_only() -> None:
    projection = ss.SJLT(dim=100, sketch_dim=64, sparsity=8, seed=1)
    (option,) = ss.accounting.mechanisms(projection, epsilon=1.0, neighbours=ss.L1(1))
    assert option.mechanism == "laplace"
    assert option.noise == DiscreteLaplace(Fraction(8))


@pytest.mark.parametrize(
    ("sparsity", "delta", "automatic", "least"),
    [
        (1, 1e-9, "laplace", "laplace"),
        (8, 1e-3, "gaussian", "gaussian"),
        (8, 1e-6, "laplace", "gaussian"),  # the rule ignores constants
        (8, 1e-100, "laplace", "laplace"),
    ],
)
def test_the_least_variance_is_chosen_when_asked_for(sparsity: int, delta: float, automatic: str, least: str) -> None:
    projection = ss.SJLT(dim=100, sketch_dim=64, sparsity=sparsity, seed=1)
    options = ss.accounting.mechanisms(projection, epsilon=1.0, delta=delta, neighbours=ss.L1(1))
    by_name = {option.mechanism: option for option in options}
    assert options[0].mechanism == automatic
    assert min(options, key=lambda option: option.variance).mechanism == least
    for mechanism, expected in (("auto", automatic), ("least-variance", least), ("laplace", "laplace")):
        released = projection.sketch().release(epsilon=1.0, delta=delta, neighbours=ss.L1(1), mechanism=mechanism)
        assert released.guarantee.mechanism == Mechanism.of_noise(by_name[expected].noise)
        assert released.noise == by_name[expected].noise.cumulants


def test_a_candidates_variance_is_the_noise_part_of_a_squared_distance_between_close_streams() -> None:
    projection = ss.SJLT(dim=100, sketch_dim=64, sparsity=4, seed=1)
    for option in ss.accounting.mechanisms(projection, epsilon=0.1, delta=1e-9, neighbours=ss.L1(1)):
        noise = option.noise.cumulants
        in_grid_steps = 64 * (2 * noise.k4 + 8 * noise.k2**2)
        assert option.variance == pytest.approx(in_grid_steps * projection.cell_unit**4, rel=1e-12)
        one, other = (
            projection.sketch().release(epsilon=0.1, delta=1e-9, neighbours=ss.L1(1), mechanism=option.mechanism)
            for _ in range(2)
        )
        noise_alone = ss.squared_distance(one, other).noise_variance
        assert noise_alone >= option.variance * (1 - 1e-12), "and more where the estimate came out positive"
    laplace = ss.accounting.mechanisms(projection, epsilon=0.1, neighbours=ss.L1(1))[0]
    assert laplace.variance == pytest.approx(56 * 64 * 20**4, rel=1e-3)  # 56·k·b⁴, b = √s/ε: Theory 4.1


def test_the_sensitivity_grows_with_the_bound_and_the_columns() -> None:
    projection = ss.SJLT(dim=100, sketch_dim=64, sparsity=4, seed=1, resolution="1/10")
    (option,) = ss.accounting.mechanisms(projection, epsilon=2.0, neighbours=ss.L1("0.35"))
    assert option.noise == DiscreteLaplace(Fraction(4 * 3, 2))
    (option,) = ss.accounting.mechanisms(projection, epsilon=2.0, neighbours=ss.OneCoordinate("0.35"))
    assert option.noise == DiscreteLaplace(Fraction(4 * 4, 2))
    gaussian = calibration.choose(Sensitivity(l1=12, l2_squared=4 * 3**2, cells=64), Budget(2.0, 1e-6), "gaussian")
    assert isinstance(gaussian, DiscreteGaussian)
    expected = gaussian_sigma(2.0, 1e-6) ** 2 * 36 + 3
    assert float(gaussian.sigma_squared) == pytest.approx(expected, abs=1 / 128)


# --- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0, 0.0, -1.0, math.nan, math.inf, -math.inf, "1", True, 1 + 0j])
def test_an_epsilon_that_is_no_finite_positive_number_is_refused(epsilon: float) -> None:
    basket = ss.SJLT(dim=100, sketch_dim=8, sparsity=2, seed=1).sketch()
    for mechanism in calibration.mechanism_names():
        with pytest.raises(InvalidInputError, match="epsilon must be a finite number > 0"):
            basket.release(epsilon=epsilon, delta=1e-9, neighbours=ss.L1(1), mechanism=mechanism)
    with pytest.raises(InvalidInputError, match="epsilon"):
        ss.accounting.mechanisms(basket.projection, epsilon=epsilon, neighbours=ss.L1(1))


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2, math.nan, math.inf, -math.inf, "0"])
def test_a_delta_outside_zero_to_one_is_refused(delta: float) -> None:
    basket = ss.SJLT(dim=100, sketch_dim=8, sparsity=2, seed=1).sketch()
    for mechanism in calibration.mechanism_names():
        with pytest.raises(InvalidInputError, match=r"delta must be a number in \[0, 1\)"):
            basket.release(epsilon=1.0, delta=delta, neighbours=ss.L1(1), mechanism=mechanism)


def test_gaussian_noise_without_delta_is_refused_with_the_remedy() -> None:
    basket = ss.SJLT(dim=100, sketch_dim=8, sparsity=2, seed=1).sketch()
    with pytest.raises(InvalidInputError, match=r"set delta .* or use mechanism='laplace'"):
        basket.release(epsilon=1.0, neighbours=ss.L1(1), mechanism="gaussian")


@pytest.mark.parametrize("mechanism", ["Laplace", "none", "", "geometric"])
def test_an_unknown_mechanism_is_refused_with_the_known_ones(mechanism: str) -> None:
    basket = ss.SJLT(dim=100, sketch_dim=8, sparsity=2, seed=1).sketch()
    with pytest.raises(InvalidInputError, match="auto, laplace, gaussian, least-variance"):
        basket.release(epsilon=1.0, neighbours=ss.L1(1), mechanism=mechanism)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "auto"])
def test_a_resolution_far_finer_than_the_noise_is_refused_with_the_remedy(mechanism: str) -> None:
    basket = ss.SJLT(dim=100, sketch_dim=8, sparsity=2, seed=1, resolution="1/1000000000000").sketch()
    with pytest.raises(InvalidInputError, match="coarser resolution"):
        basket.release(epsilon=1.0, delta=1e-3, neighbours=ss.L1(1), mechanism=mechanism)


def test_neighbours_of_another_type_are_refused() -> None:
    basket = ss.SJLT(dim=100, sketch_dim=8, sparsity=2, seed=1).sketch()
    with pytest.raises(TypeError, match=r"L2\(bound\) or OneCoordinate\(bound\), got a int"):
        basket.release(epsilon=1.0, neighbours=1)  # type: ignore[arg-type]


def test_a_map_that_no_unit_moves_publishes_nothing() -> None:
    """Its noise was a division by zero, or a Gaussian of variance 3."""
    empty = next(
        projection
        for projection in (
            ss.projections.VerySparse(dim=1, sketch_dim=1, sparsity=1000, seed=seed) for seed in range(50)
        )
        if projection.l1_sensitivity == 0
    )
    for delta in (0.0, 1e-6):
        with pytest.raises(ss.InvalidInputError, match=r"l1=0 and l2²=0.*another seed"):
            empty.sketch().release(epsilon=1, delta=delta, neighbours=ss.L1(1))
        with pytest.raises(ss.InvalidInputError, match="nothing to publish"):
            ss.accounting.mechanisms(empty, epsilon=1, delta=delta, neighbours=ss.L1(1))
    with pytest.raises(ss.InvalidInputError, match="nothing to publish"):
        empty.sketch().release(epsilon=1, delta=1e-6, neighbours=ss.L1(1), mechanism="gaussian")


def test_the_automatic_choice_calibrates_no_other_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> DiscreteGaussian:
        raise AssertionError("a noise was calibrated that nobody asked for")

    monkeypatch.setattr(DiscreteGaussian, "calibrated", refuse)
    projection = ss.CountSketch(dim=100, sketch_dim=64, seed=1)
    released = projection.sketch().release(epsilon=1.0, delta=1e-9, neighbours=ss.L1(1))
    assert released.guarantee.mechanism == Mechanism.of_noise(DiscreteLaplace(Fraction(1)))


def test_the_automatic_choice_falls_back_to_a_noise_that_can_be_drawn() -> None:
    wide = Sensitivity(l1=1 << 36, l2_squared=1 << 36, cells=64)
    assert isinstance(calibration.choose(wide, Budget(1.0, 1e-100), "auto"), DiscreteGaussian)


# --- each summand of each calibration, where it is at least a hundredth of the result ------------------------------


@pytest.mark.parametrize(("power", "layers"), [(36, 1), (38, 1), (77, 1), (76, 2), (78, 1)])
@pytest.mark.parametrize("delta", [1e-6, 1e-12])
@pytest.mark.parametrize("l2_squared", [1, 100, 1 << 20])
def test_what_rounding_spends_is_in_the_variance(power: int, layers: int, delta: float, l2_squared: int) -> None:
    """A lattice Gaussian of σ² is (ε + 2nη, e^{nη}δ)-DP where N(0, σ² - 3) is (ε, δ)-DP (Theory 3 and 9.2).

    η is 7.7e-26 a moved cell and layer; and 6e-13 more if the noise is drawn in shares, as at 2^36 cells here.
    """
    epsilon, moved = 1.0, 1 << power
    sensitivity = Sensitivity(l2_squared, l2_squared, 1 << 20, layers, moved)
    in_shares = power < 60
    calibrated = DiscreteGaussian.calibrated_in_shares if in_shares else DiscreteGaussian.calibrated
    more: tuple[Any, ...] = (3,) if in_shares else ()
    lost = mpmath.mpf("7.7e-26") * layers * moved + (mpmath.mpf("6e-13") * moved if in_shares else 0)
    if 2 * lost > 0.1:
        with pytest.raises(InvalidInputError, match="rounding the noise in so many of them"):
            calibrated(sensitivity, Budget(epsilon, delta), *more)
        return
    assert 2 * lost >= 0.01, "so that the test can fail"
    noise = calibrated(sensitivity, Budget(epsilon, delta), *more)
    wide = as_mpf(noise.sigma_squared)
    left, room = mpmath.mpf(epsilon) - 2 * lost, delta * mpmath.exp(-lost)

    def spent(variance: mpmath.mpf) -> mpmath.mpf:
        return exact_delta(left, mpmath.sqrt((variance - 3) / l2_squared))  # type: ignore[arg-type]

    assert spent(wide) <= room
    slack = mpmath.mpf(3) / 256 if wide < 1 << 16 else mpmath.mpf(3)
    assert spent(wide * (1 - mpmath.mpf("1e-5")) - slack) > room, "and hardly more"


@pytest.mark.parametrize("shares", [1, 2, 7, 50])
def test_shares_have_the_least_variance_that_their_theorem_needs(shares: int) -> None:
    """Each share has 3 grid steps² or more, however little noise is needed in all."""
    noise = DiscreteGaussian.calibrated_in_shares(in_cells(1), Budget(20.0, 1e-3), shares)
    assert noise.sigma_squared / shares >= 3
    whole = DiscreteGaussian.calibrated(in_cells(1), Budget(20.0, 1e-3))
    assert noise.sigma_squared >= whole.sigma_squared
    assert noise.sigma_squared <= max(whole.sigma_squared, 3 * shares) + Fraction(shares, 256)
