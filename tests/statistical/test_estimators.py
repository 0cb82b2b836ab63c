"""Estimates over many projections: unbiased, with the predicted variance, and intervals that cover.

Projections are those of seeds 0, 1, 2, … and noise has fixed secrets, so each test gives the same result for ever.
Had both been drawn anew, a valid library would fail a test with probability below 10^-6: each compares a mean or a
variance of at least 500 estimates with its prediction, at five standard errors. `make test-long` takes 4,000 of every
map, direction and noise; `make test` takes every direction, every map and, of releases, every map with every noise. Its
1,000 see a variance that is predicted half too large or too small, and a mean off by 0.2 standard deviations; 500 raw
sketches, sums and multiples see one that is predicted 60 % too large.
tests/statistical/test_maps.py has the maps' own variance in four directions for every map.
"""

import functools
import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import streamsketch as ss
from streamsketch.accounting.sensitivity import guarantee_of, sensitivity_of
from streamsketch.estimation.estimators import Estimate
from streamsketch.privacy import Budget, Mechanism, calibration
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.noise import Noise, NoiseMoments
from streamsketch.release.additive_noise import CalibratedNoise
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.sketching.sketch import Sketch
from tests.audit.record import judged
from tests.noise import SALT, salted_bits, salted_rng

pytestmark = pytest.mark.rejects(1e-4)


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SECRET = b"the same noise in each test run!"
DIM = 24
CELLS = 16
SEEDS, MANY_SEEDS = 1000, 4000
HALF = SEEDS // 2  # of raw sketches, and where sums and units in themselves are tested elsewhere, exactly

MAPS: dict[str, Callable[[int], ss.projections.Projection]] = {
    "CountSketch": lambda seed: ss.CountSketch(dim=DIM, sketch_dim=CELLS, seed=seed),
    "SJLT s=4": lambda seed: ss.SJLT(dim=DIM, sketch_dim=CELLS, sparsity=4, seed=seed),
    "SJLT s=8, t=4": lambda seed: ss.SJLT(dim=DIM, sketch_dim=CELLS, sparsity=8, seed=seed, independence=4),
}

_generator = salted_rng(20240229)


def _basis(place: int) -> Ints:
    return np.eye(DIM, dtype=np.int64)[place]


DIRECTIONS: dict[str, tuple[Ints, Ints]] = {
    "all ones": (3 * np.ones(DIM, dtype=np.int64), np.ones(DIM, dtype=np.int64)),
    "a basis vector": (7 * _basis(3), 2 * _basis(3)),
    "sparse": (4 * _basis(1) - 3 * _basis(9), 2 * _basis(9) + _basis(17)),
    "dense": (
        np.rint(_generator.normal(0, 4, DIM)).astype(np.int64),
        np.rint(_generator.normal(1, 3, DIM)).astype(np.int64),
    ),
    "one heavy, a light tail": (20 * _basis(0) + 1, (-1) ** np.arange(DIM)),
}

NOISES: dict[str, tuple[Noise, Noise]] = {
    "Laplace": (DiscreteLaplace(Fraction(4)), DiscreteLaplace(Fraction(13, 2))),
    "Gaussian": (DiscreteGaussian(Fraction(40)), DiscreteGaussian(Fraction(193, 2))),
}
GUARANTEE = ss.Guarantee(1.0, 0.0, ss.L1(1), Mechanism.stated("noise of a test"))

RAW = [
    ("SJLT s=8, t=4", "all ones", HALF),
    ("CountSketch", "a basis vector", HALF),
    ("SJLT s=4", "sparse", HALF),
    ("SJLT s=8, t=4", "dense", HALF),
    ("SJLT s=4", "one heavy, a light tail", HALF),
    *(pytest.param(*case, MANY_SEEDS, marks=pytest.mark.long) for case in itertools.product(MAPS, DIRECTIONS)),
]
RELEASED = [
    *(
        (name, direction, noise, SEEDS)
        for (name, noise), direction in zip(itertools.product(MAPS, NOISES), itertools.cycle(DIRECTIONS), strict=False)
    ),
    *(pytest.param(*case, MANY_SEEDS, marks=pytest.mark.long) for case in itertools.product(MAPS, DIRECTIONS, NOISES)),
]


@functools.cache
def family(name: str, count: int) -> tuple[list[ss.projections.Projection], Ints]:
    """Return the projections of so many seeds, and their matrices: (seeds, cells, dim)."""
    if count == HALF:
        projections, matrices = family(name, SEEDS)
        return projections[:HALF], matrices[:HALF]
    projections = [MAPS[name](seed) for seed in range(count)]
    return projections, np.array([projection.columns(np.arange(DIM)) for projection in projections])


def sketches(name: str, vector: Ints, count: int = SEEDS) -> list[Sketch]:
    projections, matrices = family(name, count)
    mass = int(np.abs(vector).sum())
    states = matrices @ vector
    return [Sketch.from_state(*parts, mass) for parts in zip(projections, states, strict=True)]


def releases(name: str, vector: Ints, noise: Noise, context: str, count: int = SEEDS) -> list[PrivateSketch]:
    bits = salted_bits(context.encode(), SECRET)
    return [
        CalibratedNoise(sketch.projection, GUARANTEE, noise).for_data(sketch).draw(bits)
        for sketch in sketches(name, vector, count)
    ]


def assert_unbiased(values: Floats, truth: float) -> None:
    error = values.std(ddof=1) / values.size**0.5
    assert abs(values.mean() - truth) <= 5 * error + 1e-9 * abs(truth)


def assert_variance(values: Floats, predicted: float) -> None:
    centred = values - values.mean()
    variance = float((centred**2).mean())
    error = ((centred**4).mean() - variance**2) ** 0.5 / values.size**0.5
    assert abs(variance - predicted) <= 5 * error + 1e-9 * predicted + 1e-24 * values.mean() ** 2


def norm(vector: Ints, power: int = 2) -> float:
    return float((vector**power).sum())


def predicted_norm_variance(projection: ss.projections.Projection, vector: Ints, noise: NoiseMoments) -> float:
    """Theory 4: V_S(z) + 4·K2·‖z‖² + k·K4 + 2k·K2², with the true norms."""
    cells = projection.sketch_dim
    own = projection.variance.of_squared_norm(norm(vector), norm(vector, 4))
    return own + 4 * noise.k2 * norm(vector) + cells * noise.k4 + 2 * cells * noise.k2**2


def predicted_product_variance(
    projection: ss.projections.Projection, x: Ints, y: Ints, noise_x: NoiseMoments, noise_y: NoiseMoments
) -> float:
    """Theory 4: W_S(x, y) + K2y·‖x‖² + K2x·‖y‖² + k·K2x·K2y, with the true norms."""
    own = projection.variance.of_inner_product(norm(x), norm(y), float(x @ y), norm(x * y))
    return own + noise_y.k2 * norm(x) + noise_x.k2 * norm(y) + projection.sketch_dim * noise_x.k2 * noise_y.k2


def values_of(estimates: list[Estimate]) -> Floats:
    return np.array([estimate.value for estimate in estimates])


# --- raw sketches ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "direction", "count"), RAW)
def test_estimates_from_raw_sketches_are_unbiased_with_the_predicted_variance(
    name: str, direction: str, count: int
) -> None:
    x, y = DIRECTIONS[direction]
    of_x, of_y = sketches(name, x, count), sketches(name, y, count)
    none = NoiseMoments()
    projection = of_x[0].projection

    distances = values_of(list(map(ss.squared_distance, of_x, of_y)))
    assert_unbiased(distances, norm(x - y))
    assert_variance(distances, predicted_norm_variance(projection, x - y, none))

    norms = values_of(list(map(ss.squared_norm, of_x)))
    assert_unbiased(norms, norm(x))
    assert_variance(norms, predicted_norm_variance(projection, x, none))

    products = values_of(list(map(ss.inner_product, of_x, of_y)))
    assert_unbiased(products, float(x @ y))
    assert_variance(products, predicted_product_variance(projection, x, y, none, none))


def test_the_fourth_power_term_is_needed() -> None:
    """Without -‖z‖₄⁴ the variance would be predicted too large where few coordinates dominate."""
    x, y = DIRECTIONS["sparse"]
    distances = values_of(list(map(ss.squared_distance, sketches("SJLT s=4", x), sketches("SJLT s=4", y))))
    with pytest.raises(AssertionError):
        assert_variance(distances, MAPS["SJLT s=4"](0).variance.of_squared_norm(norm(x - y)))


# --- private sketches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "direction", "noise", "count"), RELEASED)
def test_estimates_from_releases_are_unbiased_with_the_predicted_variance(
    name: str, direction: str, noise: str, count: int
) -> None:
    x, y = DIRECTIONS[direction]
    of_x, of_y = (
        releases(name, vector, law, f"{name} {direction} {place}", count)
        for place, (vector, law) in enumerate(zip((x, y), NOISES[noise], strict=True))
    )
    projection = of_x[0].projection
    noise_x, noise_y = (law.cumulants.scaled(projection.cell_unit) for law in NOISES[noise])

    distances = values_of(list(map(ss.squared_distance, of_x, of_y)))
    assert_unbiased(distances, norm(x - y))
    assert_variance(distances, predicted_norm_variance(projection, x - y, noise_x + noise_y))

    norms = values_of(list(map(ss.squared_norm, of_y)))
    assert_unbiased(norms, norm(y))
    assert_variance(norms, predicted_norm_variance(projection, y, noise_y))

    products = values_of(list(map(ss.inner_product, of_x, of_y)))
    assert_unbiased(products, float(x @ y))
    assert_variance(products, predicted_product_variance(projection, x, y, noise_x, noise_y))


def test_a_raw_and_a_private_sketch_compare_without_bias() -> None:
    x, y = DIRECTIONS["dense"]
    law = DiscreteLaplace(Fraction(4))
    private, raw = releases("SJLT s=4", x, law, "mixed"), sketches("SJLT s=4", y)
    distances = values_of(list(map(ss.squared_distance, private, raw)))
    projection = raw[0].projection
    assert_unbiased(distances, norm(x - y))
    assert_variance(distances, predicted_norm_variance(projection, x - y, law.cumulants.scaled(projection.cell_unit)))


def test_the_resolution_and_real_values_come_back_in_data_units() -> None:
    """Multiples of 1/4 on a grid of 1/8: twice the integers, half the unit."""
    x, y = DIRECTIONS["dense"]
    values = []
    bits = salted_bits(b"resolution", SECRET)
    law = DiscreteLaplace(Fraction(20))
    for seed in range(HALF):
        projection = ss.SJLT(dim=DIM, sketch_dim=CELLS, sparsity=4, seed=seed, resolution="1/8")
        pair = []
        for vector in (x, y):
            sketch = projection.sketch()
            sketch.update(np.arange(DIM), vector / 4)
            pair.append(CalibratedNoise(sketch.projection, GUARANTEE, law).for_data(sketch).draw(bits))
        values.append(ss.squared_distance(*pair).value)
    noise = law.cumulants.scaled(projection.cell_unit)
    assert_unbiased(np.array(values), norm(x - y) / 16)
    own = projection.variance.of_squared_norm(norm(x - y) / 16, norm(x - y, 4) / 256)
    both = noise + noise
    assert_variance(np.array(values), own + 4 * both.k2 * norm(x - y) / 16 + CELLS * (both.k4 + 2 * both.k2**2))


def test_laplace_noise_is_debiased_by_4ks_over_epsilon_squared_not_by_the_papers_2ks() -> None:
    """Erratum 1 of Theory 8 (Stausholm 2021, Theorem 3): Lap(b) has E[η²] = 2b², not b²."""
    x, y = DIRECTIONS["dense"]
    sparsity, epsilon = 4, 0.25
    projection = MAPS["SJLT s=4"](0)
    law = calibration.choose(sensitivity_of(projection, ss.L1(1)), Budget(epsilon, 0.0), "laplace")
    assert law == DiscreteLaplace(Fraction(16))  # s/ε: so wide that the lattice hardly matters
    of_x, of_y = (releases("SJLT s=4", vector, law, f"debias {vector.sum()}") for vector in (x, y))
    debiased = values_of(list(map(ss.squared_distance, of_x, of_y)))
    gaps = np.array([one.values - other.values for one, other in zip(of_x, of_y, strict=True)])
    plain = (gaps**2).sum(axis=1) / sparsity
    right, papers = (factor * CELLS * sparsity / epsilon**2 for factor in (4, 2))
    assert plain - debiased == pytest.approx(right, rel=1e-3)
    assert_unbiased(debiased, norm(x - y))
    assert_unbiased(plain - right, norm(x - y))
    with pytest.raises(AssertionError):
        assert_unbiased(plain - papers, norm(x - y))
    assert_unbiased(plain - papers, norm(x - y) + papers)  # off by 2ks/ε²
    noise_part = 56 * CELLS * sparsity**2 / epsilon**4 + 16 * sparsity * norm(x - y) / epsilon**2  # Theory 4.1
    own = projection.variance.of_squared_norm(norm(x - y), norm(x - y, 4))
    assert_variance(debiased, noise_part + own)


# --- sums, differences, multiples -------------------------------------------------------------------------------

Combination = Callable[[PrivateSketch, PrivateSketch], PrivateSketch]
COMBINATIONS: dict[str, tuple[Combination, Fraction, Fraction]] = {
    "merge": (lambda a, b: a.combine(b, populations="disjoint"), Fraction(1), Fraction(1)),
    "subtract": (lambda a, b: a.subtract(b, populations="overlapping"), Fraction(1), Fraction(-1)),
    "multiple": (lambda a, _: a.scaled(Fraction(-3, 2)), Fraction(-3, 2), Fraction(0)),
    "mean": (
        lambda a, b: a.combine(b, populations="overlapping").scaled(Fraction(1, 2)),
        Fraction(1, 2),
        Fraction(1, 2),
    ),
    "weighted": (
        lambda a, b: a.scaled("1/2").subtract(b.scaled("1/3"), populations="disjoint"),
        Fraction(1, 2),
        Fraction(-1, 3),
    ),
}


COMBINED = [
    *zip(COMBINATIONS, itertools.cycle(NOISES), strict=False),
    *(pytest.param(*case, marks=pytest.mark.long) for case in itertools.product(COMBINATIONS, NOISES)),
]


@functools.cache
def releases_to_combine(noise: str) -> list[list[PrivateSketch]]:
    pairs = zip(DIRECTIONS["dense"], NOISES[noise], strict=True)
    return [releases("SJLT s=4", vector, law, f"to combine {place}", HALF) for place, (vector, law) in enumerate(pairs)]


@pytest.mark.parametrize(("combination", "noise"), COMBINED)
def test_combined_releases_estimate_the_combined_streams_without_bias(combination: str, noise: str) -> None:
    combine, *weights = COMBINATIONS[combination]
    x, y = DIRECTIONS["dense"]
    combined = list(map(combine, *releases_to_combine(noise)))
    first = combined[0]
    truth = float(weights[0]) * x + float(weights[1]) * y
    shares = [
        law.cumulants.scaled(float(weight) * first.projection.cell_unit)
        for weight, law in zip(weights, NOISES[noise], strict=True)
    ]
    total = shares[0] + shares[1]
    in_data_units = first.noise.scaled(first.cell_unit)
    assert in_data_units.k2 == pytest.approx(total.k2, rel=1e-12)
    assert in_data_units.k4 == pytest.approx(total.k4, rel=1e-12, abs=1e-12)
    norms = values_of(list(map(ss.squared_norm, combined)))
    assert_unbiased(norms, norm(truth))
    assert_variance(norms, predicted_norm_variance(first.projection, truth, total))


def test_the_mean_of_releases_has_less_noise() -> None:
    x, _ = DIRECTIONS["dense"]
    law = DiscreteLaplace(Fraction(16))
    parts = [releases("SJLT s=4", x, law, f"mean {place}", HALF) for place in range(3)]
    means = [
        a.combine(b, populations="overlapping").combine(c, populations="overlapping").scaled(Fraction(1, 3))
        for a, b, c in zip(*parts, strict=True)
    ]
    single = values_of(list(map(ss.squared_norm, parts[0])))
    averaged = values_of(list(map(ss.squared_norm, means)))
    assert_unbiased(averaged, norm(x))
    assert averaged.var() < single.var() / 3
    assert means[0].noise.scaled(means[0].cell_unit).k2 == pytest.approx(
        parts[0][0].noise.scaled(parts[0][0].cell_unit).k2 / 3
    )


# --- intervals at the size of real use ----------------------------------------------------------------------------

TRIALS, MANY_TRIALS = 300, 4000


@functools.cache
def at_real_size(mechanism: str, trials: int) -> tuple[Ints, Ints, list[tuple[PrivateSketch, PrivateSketch]]]:
    """Pairs of releases at k = 1024, each of a fresh projection with fresh noise."""
    generator = salted_rng(11)
    x = generator.poisson(6, 400).astype(np.int64)
    y = x + generator.integers(-9, 10, 400)
    bits = salted_bits(mechanism.encode(), SECRET)
    pairs = []
    maps = [ss.SJLT(dim=400, sketch_dim=1024, sparsity=4, seed=seed) for seed in range(trials)]
    law = calibration.choose(sensitivity_of(maps[0], ss.L1(1)), Budget(1.0, 1e-3), mechanism)
    guarantee = guarantee_of(law, Budget(1.0, 1e-3), ss.L1(1))
    for projection in maps:
        pair = []
        for vector in (x, y):
            sketch = projection.sketch()
            sketch.update(np.arange(400), vector)
            pair.append(CalibratedNoise(sketch.projection, guarantee, law).for_data(sketch).draw(bits))
        pairs.append((pair[0], pair[1]))
    return x, y, pairs


QUANTITIES: dict[str, tuple[Callable[[PrivateSketch, PrivateSketch], Estimate], Callable[[Ints, Ints], float]]] = {
    "squared distance": (ss.squared_distance, lambda x, y: norm(x - y)),
    "squared norm": (lambda one, _: ss.squared_norm(one), lambda x, _: norm(x)),
    "inner product": (ss.inner_product, lambda x, y: float(x @ y)),
    "cosine": (ss.cosine, lambda x, y: float(x @ y) / (norm(x) * norm(y)) ** 0.5),
    "profile distance": (ss.profile_distance, lambda x, y: 2 - 2 * float(x @ y) / (norm(x) * norm(y)) ** 0.5),
}


@functools.cache
def estimates_at_real_size(mechanism: str, quantity: str, trials: int) -> tuple[float, list[Estimate]]:
    """Return the exact quantity, and its estimate from each pair."""
    x, y, pairs = at_real_size(mechanism, trials)
    estimate, exact = QUANTITIES[quantity]
    return exact(x, y), list(itertools.starmap(estimate, pairs))


at_each_size = pytest.mark.parametrize("trials", [TRIALS, pytest.param(MANY_TRIALS, marks=pytest.mark.long)])
each_mechanism = pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
each_quantity = pytest.mark.parametrize("quantity", QUANTITIES)


@at_each_size
@each_mechanism
@each_quantity
def test_intervals_cover_as_often_as_they_say(mechanism: str, quantity: str, trials: int) -> None:
    """Within five standard errors of a share: 6.3 points of 95 % in 300 trials, which see 85 % for it."""
    truth, estimates = estimates_at_real_size(mechanism, quantity, trials)
    for confidence in (0.9, 0.95):
        covered = np.mean([low <= truth <= high for low, high in (e.interval(confidence) for e in estimates)])
        allowed = 5 * (confidence * (1 - confidence) / trials) ** 0.5
        judged(allowed - abs(covered - confidence), trials)
        assert abs(covered - confidence) < allowed
        safe = [e.interval(confidence, method="chebyshev") for e in estimates]
        assert np.mean([low <= truth <= high for low, high in safe]) >= confidence


@at_each_size
@each_mechanism
@each_quantity
def test_standard_errors_are_the_spread_of_the_estimates(mechanism: str, quantity: str, trials: int) -> None:
    """Within five standard errors of a standard deviation, and a hundredth as the plug-in ignores ‖z‖₄⁴.

    Cosines state the error of the least cosine that is not contradicted: with other data 6 to 13 % above the spread.
    """
    truth, estimates = estimates_at_real_size(mechanism, quantity, trials)
    values = values_of(estimates)
    error = values.std() / trials**0.5
    # a ratio of unbiased estimates is itself biased by O(1/k)
    bias = {"cosine": 2 / 1024, "profile distance": 4 / 1024}.get(quantity, 0.0)
    assert abs(values.mean() - truth) < 5 * error + bias
    typical = np.mean([e.variance for e in estimates]) ** 0.5
    careful = 1.13 if SALT and quantity in {"cosine", "profile distance"} else 1.0
    slack = 5 / (2 * trials) ** 0.5 + 0.01
    assert values.std() * (1 - slack) <= typical <= careful * values.std() * (1 + slack)


def test_an_interval_without_the_noise_would_not_cover() -> None:
    truth, estimates = estimates_at_real_size("laplace", "squared distance", TRIALS)
    blind = [Estimate(e.value, e.projection_variance, 0.0, lowest=0.0).interval(0.95) for e in estimates]
    assert np.mean([low <= truth <= high for low, high in blind]) < 0.7


# --- pairwise -------------------------------------------------------------------------------------------------


def test_pairwise_is_squared_distance_for_all_pairs() -> None:
    generator = salted_rng(3)
    projection = ss.SJLT(dim=DIM, sketch_dim=CELLS, sparsity=4, seed=1, resolution="1/3")
    bits = salted_bits(b"pairwise", SECRET)
    mixed: list[Sketch | PrivateSketch] = []
    for place in range(7):
        sketch = projection.sketch()
        sketch.update(np.arange(DIM), generator.integers(-50, 50, DIM))
        law: Noise = NOISES["Laplace"][place % 2] if place < 3 else NOISES["Gaussian"][place % 2]
        released = CalibratedNoise(sketch.projection, GUARANTEE, law).for_data(sketch).draw(bits)
        mixed.append(sketch if place == 5 else released.scaled("3/7") if place == 6 else released)
    together = ss.pairwise(mixed)
    for fields in (together.value, together.projection_variance, together.noise_variance):
        assert fields.shape == (7, 7)
        assert fields.dtype == np.float64
        assert not np.diagonal(fields).any()
        assert np.allclose(fields, fields.T, rtol=1e-13)
    low, high = together.interval(0.9)
    for i, j in itertools.permutations(range(7), 2):
        single = ss.squared_distance(mixed[i], mixed[j])
        assert together.value[i, j] == pytest.approx(single.value, rel=1e-12)
        assert together.projection_variance[i, j] == pytest.approx(single.projection_variance, rel=1e-12)
        assert together.noise_variance[i, j] == pytest.approx(single.noise_variance, rel=1e-12)
        assert together.standard_error[i, j] == pytest.approx(single.standard_error, rel=1e-12)
        assert (low[i, j], high[i, j]) == pytest.approx(single.interval(0.9), rel=1e-12)
