"""Intervals hold their level with few cells: they are found at the standard errors of the truth, not of the estimate.

Cells have independent normal entries, as those of a `GaussianProjection` have, and nearly those of any map for a vector
of many coordinates.
Draws are of fixed seeds. Were they drawn anew, each assertion would fail with probability below 10^-5.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import streamsketch as ss
from streamsketch.estimation.blocks import Block
from streamsketch.estimation.cosines import cosines
from streamsketch.estimation.distances import distances_between
from streamsketch.estimation.estimate_arrays import Estimates
from streamsketch.estimation.noise_effect import InputNoise, OutputNoise
from streamsketch.projections import MapVariance
from tests.audit.record import judged
from tests.noise import salted_rng

pytestmark = pytest.mark.rejects(1e-4)


Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]

DRAWS = 5_000
SLACK = 4.5 * math.sqrt(0.95 * 0.05 / DRAWS)  # 1.4 points
ONE = 1 << 20  # the grid on which cells are integers

# Noise of variance 1, and its fourth cumulant.
NOISES: dict[str, tuple[Draw, float]] = {
    "gaussian": (lambda rng, shape: rng.standard_normal(shape), 0.0),
    "laplace": (lambda rng, shape: rng.laplace(0, math.sqrt(0.5), shape), 3.0),
}


def cells_of(rng: np.random.Generator, cells: int, size: float, noise: str, share: float, draws: int = DRAWS) -> Floats:
    """Return draws of the cells of a vector of squared norm ``size``, with noise of ``share`` of it: (draws, cells)."""
    draw, _ = NOISES[noise]
    shape = (draws, cells)
    return math.sqrt(size / cells) * rng.standard_normal(shape) + math.sqrt(size * share / cells) * draw(rng, shape)


def norms_of(cells: Floats, size: float, noise: str, share: float) -> Estimates:
    """Return the library's estimates of squared norms, as distances from zero."""
    k = cells.shape[1]
    k2 = size * share / k
    law, effect, unit = MapVariance(1 / k, 1 / k, 0.0), OutputNoise(k), np.ones(1) / ONE

    def block(rows: Floats, k2: float, k4: float) -> Block:
        n = len(rows)
        whole = np.rint(ONE * rows).astype(np.int64)
        return Block(whole, np.repeat(unit, n), np.full(n, k2), np.full(n, k4), law, effect)

    return distances_between(block(cells, k2, NOISES[noise][1] * k2**2), block(np.zeros((1, k)), 0.0, 0.0), same=False)


def coverage(estimates: Estimates, truth: float, confidence: float = 0.95) -> float:
    low, high = estimates.interval(confidence)
    return float(((low <= truth) & (truth <= high)).mean())


def blind(estimates: Estimates) -> Estimates:
    """Return the estimates as if their variance did not change with the truth."""
    return Estimates(estimates.value, estimates.projection_variance, estimates.noise_variance, lowest=0.0)


@pytest.mark.parametrize("cells", [8, 16, 32, 128])
@pytest.mark.parametrize(("noise", "share"), [("gaussian", 0.0), ("gaussian", 1.0), ("laplace", 0.5), ("laplace", 3.0)])
def test_intervals_of_squared_norms_and_distances_cover(cells: int, noise: str, share: float) -> None:
    size = 40.0
    found = norms_of(cells_of(salted_rng(cells), cells, size, noise, share), size, noise, share)
    judged(coverage(found, size) - (0.95 - SLACK))
    assert 0.95 - SLACK < coverage(found, size) < 0.97
    if share == 0 and cells <= 32:
        assert coverage(blind(found), size) < 0.93, "the test can tell: errors of the estimate cover less"


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_other_confidences_hold_too(confidence: float) -> None:
    found = norms_of(cells_of(salted_rng(3), 32, 9.0, "gaussian", 0.3), 9.0, "gaussian", 0.3)
    assert coverage(found, 9.0, confidence) > confidence - 0.02


@pytest.mark.parametrize("cells", [1, 4, 32])
def test_chebyshev_intervals_hold_with_any_number_of_cells(cells: int) -> None:
    found = norms_of(cells_of(salted_rng(cells), cells, 9.0, "gaussian", 0.0), 9.0, "gaussian", 0.0)
    low, high = found.interval(0.95, method="chebyshev")
    assert ((low <= 9.0) & (high >= 9.0)).mean() >= 0.95
    assert np.isinf(high).all()


@pytest.mark.parametrize("cells", [8, 32])
@pytest.mark.parametrize("cosine", [0.0, 0.6, 1.0])
def test_intervals_of_inner_products_cover(cells: int, cosine: float) -> None:
    """500 draws, of which 451 to 497 cover: outside with probability below 1e-5 at a coverage of 95 %."""
    rng, draws = salted_rng(cells), 500
    projection = ss.projections.Rademacher(dim=1 << 20, sketch_dim=cells, seed=1)
    x, other = rng.standard_normal((2, draws, cells))
    y = 3 * (cosine * x + math.sqrt(1 - cosine**2) * other)
    states = [np.rint(ONE * rows).astype(np.int64) for rows in (x, y)]
    truth = 3 * cosine * float(ONE) ** 2
    covered = 0
    for pair in zip(*states, strict=True):
        product = ss.inner_product(*(ss.Sketch.from_state(projection, state, 1 << 60) for state in pair))
        low, high = product.interval()
        covered += low <= truth <= high
    assert 451 <= covered <= 497


@pytest.mark.parametrize("cells", [8, 16, 64])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("cosine", [0.0, 0.6, 0.8, 0.97])
def test_intervals_of_cosines_cover(cells: int, share: float, cosine: float) -> None:
    """Of the streams that have one: 94 % and more, less four and a half standard errors of a share."""
    rng = salted_rng(cells)
    x, other = rng.standard_normal((2, DRAWS, cells)) / math.sqrt(cells)
    y = cosine * x + math.sqrt(1 - cosine**2) * other
    noisy = [one + math.sqrt(share / cells) * rng.standard_normal(one.shape) for one in (x, y)]
    k2 = np.full(DRAWS, share / cells)
    norms = [(one**2).sum(axis=1) - share for one in noisy]
    found = cosines(
        (noisy[0] * noisy[1]).sum(axis=1),
        (norms[0], norms[1]),
        (k2, k2),
        (0 * k2, 0 * k2),
        OutputNoise(cells),
        MapVariance(1 / cells, 1 / cells, 0.0),
    )
    low, high = found.interval()
    known = ~np.isnan(found.value)
    held = ((low <= cosine) & (cosine <= high))[known]
    assert held.mean() > 0.94 - 4.5 * math.sqrt(0.06 * 0.94 / known.sum())


@pytest.mark.parametrize(
    "make", [ss.CountSketch, ss.projections.OPORP, ss.projections.Rademacher], ids=lambda one: one.__name__
)
def test_real_maps_of_few_cells_cover(make: Callable[..., ss.projections.Projection]) -> None:
    """200 maps and a vector of 256 coordinates: fewer than 175 of 200 have probability 10^-5 at 95 %."""
    x = salted_rng(1).integers(-50, 50, 256)
    covered = 0
    for seed in range(200):
        projection = make(dim=256, sketch_dim=16, seed=seed)
        low, high = ss.squared_norm(
            ss.Sketch.from_state(projection, projection.transform(x[None], exact=True)[0], 1 << 40)
        ).interval()
        covered += low <= float(x @ x) <= high
    assert covered >= 175


def test_with_many_cells_intervals_are_as_they_were() -> None:
    """With 1024 cells as wide as ± 1.96 standard errors, to 1 %, and shifted by a tenth of that."""
    found = norms_of(cells_of(salted_rng(3), 1024, 9.0, "gaussian", 0.3, draws=50), 9.0, "gaussian", 0.3)
    (low, high), (old_low, old_high) = found.interval(), blind(found).interval()
    assert (high - low) == pytest.approx(old_high - old_low, rel=0.01)
    assert (np.abs(low - old_low) < 0.06 * (high - low)).all()
    assert (low > old_low).all()
    assert (high > old_high).all()


@pytest.mark.parametrize("effect", [OutputNoise(16), InputNoise(40, MapVariance(0.1, 0.2, 0.3))])
def test_the_slope_is_that_of_the_noises_variance(effect: OutputNoise | InputNoise) -> None:
    """Exactly, in numbers that doubles hold."""
    rise = effect.squared_norm_variance(1024.0, 4.0, 0.5) - effect.squared_norm_variance(0.0, 4.0, 0.5)
    assert effect.squared_norm_slope(4.0) == pytest.approx(rise / 1024, rel=1e-12)
