"""The least squared norm: below its exact law, for every signal, and near enough to it to find what is missing."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

import streamsketch as ss
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.noise import Noise
from streamsketch.release.checking.norm import FALSE_ALARMS, RATES, CellNoise, chernoff_bound, least_squared_norm
from streamsketch.release.checking.release import check_release, impossible_norm

NOISES: dict[str, list[CellNoise]] = {
    "Laplace": [CellNoise(DiscreteLaplace(Fraction(4)), 1.0, 1)],
    "narrow Laplace": [CellNoise(DiscreteLaplace(Fraction(1, 2)), 1.0, 1)],
    "Gaussian": [CellNoise(DiscreteGaussian(Fraction(20)), 1.0, 1)],
    "narrow Gaussian": [CellNoise(DiscreteGaussian(Fraction(1)), 1.0, 1)],
    "pan-private": [CellNoise(DiscreteLaplace(Fraction(3)), 1.0, 2)],
    "sum": [CellNoise(DiscreteLaplace(Fraction(2)), 3.0, 1), CellNoise(DiscreteGaussian(Fraction(4)), 2.0, 2)],
}
SUPPORT = np.arange(-400, 401)


def pmf(noise: Noise) -> np.ndarray:
    if isinstance(noise, DiscreteLaplace):
        weights = np.exp(-np.abs(SUPPORT) / float(noise.scale))
    else:
        weights = np.exp(-(SUPPORT**2) / (2 * float(noise.sigma_squared)))
    return np.asarray(weights / weights.sum())


def law(noises: list[CellNoise]) -> np.ndarray:
    """Return the probabilities of -400 … 400 of a cell's noise, by convolution."""
    whole = (SUPPORT == 0).astype(float)
    for part in noises:
        one = np.zeros(SUPPORT.size)
        factor = int(part.factor)
        near = np.abs(SUPPORT * factor) <= 400
        one[SUPPORT[near] * factor + 400] = pmf(part.noise)[near]
        for _ in range(part.draws):
            whole = np.convolve(whole, one, mode="same")
    return whole


@pytest.mark.parametrize("name", NOISES)
def test_no_signal_makes_the_bound_wrong(name: str) -> None:
    """The slow twin: E exp(-λ(η + s)²) summed over the law, at the λ in use, for whole signals s and fractions."""
    noises, probabilities = NOISES[name], law(NOISES[name])
    variance = float(probabilities @ SUPPORT**2)
    assert variance == pytest.approx(sum(part.draws * part.factor**2 * part.noise.cumulants.k2 for part in noises))
    cells = 100
    for relative in RATES[::8]:
        bound, rate = chernoff_bound(noises, cells, float(relative)), relative / variance
        moment = np.exp((np.log(FALSE_ALARMS) - rate * bound) / cells)  # M(λ), as the bound has it
        direct = [float(probabilities @ np.exp(-rate * (SUPPORT + s) ** 2)) for s in (0, 0.5, 1, 2, 3, 5, 8, 30)]
        assert direct[0] == pytest.approx(moment, rel=1e-6)
        assert max(direct) <= moment * (1 + 1e-9)


@pytest.mark.parametrize("cells", [16, 64, 1024, 1 << 20])
def test_the_bound_is_below_the_exact_quantile_and_near_it(cells: int) -> None:
    wide = CellNoise(DiscreteGaussian(Fraction(10_000)), 1.0, 1)  # as good as continuous: ‖η‖² is σ² times χ²
    bound, exact = least_squared_norm((wide,), cells) / 10_000, chi2.ppf(FALSE_ALARMS, cells)
    assert 0.6 * exact < bound < exact
    assert cells - bound < 1.2 * (cells - exact)


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("cells", [1, 2, 16, 1024, 1 << 20])
def test_the_bound_is_the_largest_of_the_list(name: str, cells: int) -> None:
    """The search by halving rests on bounds that rise and then fall along the list."""
    noises = tuple(NOISES[name])
    each = [chernoff_bound(noises, cells, float(rate)) for rate in RATES]
    assert least_squared_norm(noises, cells) == max(each)


def test_a_cell_alone_tells_nothing() -> None:
    assert least_squared_norm(tuple(NOISES["Laplace"]), 1) <= 0


def test_honest_releases_of_nothing_are_possible() -> None:
    """600 draws: one is below with a chance of 6e-4 at most."""
    near = ss.L1(1)
    for projection in (
        ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=1),
        ss.CountSketch(dim=1000, sketch_dim=256, seed=1),
    ):
        sketch = projection.sketch()
        for _ in range(100):
            laplace = sketch.release(epsilon=1.0, neighbours=near)
            gaussian = sketch.release(epsilon=1.0, delta=1e-6, neighbours=near, mechanism="gaussian")
            both = laplace.scaled(3).subtract(gaussian, populations="overlapping")
            assert [impossible_norm(one) for one in (laplace, gaussian, both)] == [None] * 3


def test_noise_before_the_map_is_left_out() -> None:
    projection = ss.projections.FJLT(dim=100, sketch_dim=64, seed=1)
    release = ss.release.release_vector(projection, [0] * 100, epsilon=1.0, neighbours=ss.L1(2), noise_place="input")
    nothing = ss.PrivateSketch(
        projection, release.values * 0, release.noise, release.guarantee, noise_place="input", release_ids=[b"01234567"]
    )
    assert impossible_norm(nothing) is None
    for check in (check_release(nothing), nothing.explain().check):
        assert check.verdict == "enough"
        assert "cells were not compared with that noise" in check.reason, "nobody shall take it for checked"
    sketch = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=1).sketch()
    assert "not compared" not in check_release(sketch.release(epsilon=1.0, neighbours=ss.L1(1))).reason
