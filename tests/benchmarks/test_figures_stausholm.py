"""Stausholm 2021: closed forms of its constructions, crossovers, best numbers of cells, and the map of winners."""

import math

import pytest

from benchmarks.figures.stausholm import best_cells, input_noise, winners
from benchmarks.figures.stausholm import constructions as of
from benchmarks.figures.stausholm.constructions import LEAST, OWN, PAPER, Setting

AT = Setting(dim=1024, cells=256, sparsity=4, epsilon=0.5, delta=1e-6, squared_distance=100.0)


def test_variances_are_those_of_the_paper() -> None:
    laplace = 2 / 256 * 1e4 + 16 * 4 * 100 / 0.25 + 56 * 256 * 16 / 0.5**4
    assert of.variance(of.SJLT_LAPLACE, AT, PAPER) == pytest.approx(laplace)
    sigma2 = 2 * math.log(1.25 / 1e-6) / 0.25
    gaussian = 8 * sigma2 * 100 + 8 * 256 * sigma2**2
    assert of.noise_variance(of.SJLT_GAUSSIAN, AT, PAPER) == pytest.approx(gaussian)
    moved = of.sensitivity(of.KKMM, 1024, 256)
    assert 1.1 < moved < 1.25
    kkmm = 8 * moved**2 * sigma2 * 100 + 8 * 256 * moved**4 * sigma2**2
    assert of.noise_variance(of.KKMM, AT, PAPER) == pytest.approx(kkmm)
    any_matrix2 = 16 * math.log(1e6) / 0.25
    whatever = 8 * any_matrix2 * 100 + 8 * 256 * any_matrix2**2
    assert of.noise_variance(of.KKMM, AT, OWN) == pytest.approx(whatever)


def test_the_counterexample_of_theory_8_20() -> None:
    near, far = (Setting(dim, 256, 1, 1.0, 1e-6) for dim in (1024, 4096))
    assert of.noise_variance(of.KKMM, near, OWN) == pytest.approx(1.0e8, rel=0.01)
    assert of.noise_variance(of.FJLT_INPUT, near, OWN) == pytest.approx(3.8e7, rel=0.01)
    assert of.noise_variance(of.KKMM, far, OWN) == pytest.approx(1.0e8, rel=0.01)
    assert of.noise_variance(of.FJLT_INPUT, far, OWN) == pytest.approx(5.3e8, rel=0.01)


def test_noise_on_the_raw_histogram_is_the_better_of_two() -> None:
    low, high = (Setting(64, 256, 1, 1.0, delta) for delta in (1e-12, 0.5))
    assert of.noise_variance(of.NO_MAP, low, LEAST) == pytest.approx(56 * 64)
    assert of.noise_variance(of.NO_MAP, high, LEAST) < 56 * 64


@pytest.mark.parametrize("shape", [(1024, 1024, 16), (256, 256, 64)])
def test_variances_are_equal_where_they_cross(shape: tuple[int, int, int]) -> None:
    found = input_noise.crossing(shape)
    for minus_log, distance, calibration in (
        (found.close, 0.0, PAPER),
        (found.close_least, 0.0, LEAST),
        (found.distant, input_noise.FAR, PAPER),
    ):
        assert minus_log is not None
        at = Setting(*shape, 1.0, math.exp(-minus_log), distance)
        fjlt, sjlt = (of.noise_variance(name, at, calibration) for name in (of.FJLT_INPUT, of.SJLT_LAPLACE))
        assert fjlt == pytest.approx(sjlt, rel=1e-6)


def test_there_may_be_no_crossing() -> None:
    assert input_noise.crossing((1 << 14, 64, 16)).close is None


def test_break_even_is_between_the_powers_of_two_around_one() -> None:
    assert input_noise.break_even([64.0, 16.0, 4.0, 1 / 4, 1 / 16, 1 / 64]) == pytest.approx(math.sqrt(32))


@pytest.mark.parametrize("mechanism", best_cells.MECHANISMS)
def test_the_search_finds_the_least_variance(mechanism: str) -> None:
    setting = (mechanism, 1.0, 4, 3000.0)
    every = {k: best_cells.variance(*setting, k) for k in range(4, 4000, 4)}
    found = best_cells.best(*setting)
    assert found == min(every, key=lambda k: every[k])
    assert found == pytest.approx(best_cells.formula(*setting), abs=4)


@pytest.mark.parametrize(
    ("dim", "sparsity", "delta", "name"),
    [(1 << 12, 1, 1e-9, of.SJLT_LAPLACE), (1 << 12, 16, 1e-3, of.SJLT_GAUSSIAN), (64, 1, 1e-3, of.NO_MAP)],
)
def test_the_planner_and_the_closed_forms_name_the_same(dim: int, sparsity: int, delta: float, name: str) -> None:
    found = winners.point(Setting(dim, 256, sparsity, 1.0, delta, 1000.0))
    assert found.winner == found.planned == name
    assert found.agrees
    assert found.planned_loss == 1.0
    assert found.chosen <= 1.1 * found.least[name]
