"""Sums over entries of noisy histograms, by exact enumeration of the noise, and what is refused."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.core.numbers import Floats
from streamsketch.estimation import SecretEstimate, histograms
from streamsketch.projections import Identity
from tests.noise import salted_bits
from tests.oracles import naive_histograms as naive

pytestmark = pytest.mark.rejects(2e-4)


DIM = 60
NORM, NUMBER, ENTROPY = ss.estimation.l1_norm, ss.estimation.distinct, ss.estimation.entropy
ENTRIES = np.arange(-6, 7)
PLAIN: dict[str, tuple[Any, Any]] = {
    "norm": (np.abs, ENTRIES),
    "number": (histograms.is_not_zero, ENTRIES),
    "number, not negative": (histograms.is_positive, ENTRIES[ENTRIES >= 0]),
    "sizes": (histograms.size_log, ENTRIES),
    "sizes, not negative": (histograms.positive_log, ENTRIES[ENTRIES >= 0]),
}


def sketch_of(values: list[int], resolution: Fraction | int = 1) -> ss.Sketch:
    sketch = Identity(dim=DIM, resolution=resolution).sketch()
    sketch.update(np.arange(len(values)), np.array(values) * float(resolution))
    return sketch


def released(sketch: ss.Sketch, epsilon: float = 1.0, seed: int = 0, **options: Any) -> ss.PrivateSketch:
    publisher = ss.AdditiveNoise(epsilon=epsilon, neighbours=ss.L1(sketch.projection.resolution), **options)
    return publisher.calibrated(sketch.projection).for_data(sketch).draw(salted_bits(b"%d" % seed))


def law_of(release: ss.PrivateSketch) -> Floats:
    """Return the probabilities of -700 … 700 steps of the noise in a cell of a release: one Laplace noise a part."""
    found = np.ones(1)
    for part in release.as_parts():
        mechanism = part.guarantee.mechanism.the_noise
        assert mechanism is not None
        rate = 1 / float(mechanism.noise.amount)
        steps = int(Fraction(part.multiplier) / release.multiplier)
        weights = np.where(np.arange(-350, 351) % steps, 0.0, np.exp(-np.abs(np.arange(-350, 351)) / steps * rate))
        for _ in range(part.count):
            found = np.convolve(found, weights / weights.sum())
    return found


@pytest.fixture(scope="module", params=["one", "two alike", "two unlike", "weighted"])
def release(request: pytest.FixtureRequest) -> ss.PrivateSketch:
    first, second = (released(sketch_of([1, 0, 3]), epsilon, seed) for seed, epsilon in enumerate((1.0, 0.6)))
    return {
        "one": first,
        "two alike": first.combine(released(sketch_of([1]), 1.0, 7), populations="disjoint"),
        "two unlike": first.subtract(second, populations="overlapping"),
        "weighted": first.scaled(2).combine(second.scaled(3), populations="disjoint"),
    }[request.param]


@pytest.mark.parametrize("name", PLAIN)
def test_the_expectation_over_the_noise_is_the_sum_itself(release: ss.PrivateSketch, name: str) -> None:
    function, entries = PLAIN[name]
    _, _, unit = histograms.histogram_of(release)
    taken_out, law = histograms.taken_out_of(release, unit, "f"), law_of(release)
    noise = np.arange(law.size) - law.size // 2
    for entry in entries.tolist():
        found = taken_out.of(function, (entry + noise).astype(np.float64))
        estimates = taken_out.estimates(found)
        truth = float(function(np.array([float(entry)]))[0])
        assert law @ estimates == pytest.approx(truth, abs=1e-6)
        spread = float(law @ (estimates - truth) ** 2)
        assert law @ taken_out.covariances(found, found) == pytest.approx(spread, rel=1e-6)


def test_the_covariance_of_two_sums_is_unbiased() -> None:
    release = released(sketch_of([1]))
    _, _, unit = histograms.histogram_of(release)
    taken_out, law = histograms.taken_out_of(release, unit, "f"), law_of(release)
    noise = (np.arange(law.size) - law.size // 2).astype(np.float64)
    pair = [taken_out.of(function, noise + 2) for function in (np.abs, histograms.size_log)]
    one, other = map(taken_out.estimates, pair)
    assert law @ taken_out.covariances(*pair) == pytest.approx(law @ (one * other) - (law @ one) * (law @ other))


VALUES = [40, 30, 20, -10, 5, 5, 1, -1] + [0] * 20


@pytest.mark.parametrize(
    ("estimator", "nonnegative"),
    [
        pytest.param(estimator, nonnegative, marks=[pytest.mark.long] * ((place + turn) % 2))
        for place, estimator in enumerate([NORM, NUMBER, ENTROPY])
        for turn, nonnegative in enumerate([False, True])
    ],
)
def test_estimates_are_unbiased_with_the_error_that_they_state(estimator: Any, *, nonnegative: bool) -> None:
    """Of 150 draws: each assertion fails for other seeds with a probability below 10^-4."""
    values = [abs(value) for value in VALUES] if nonnegative else VALUES
    sketch = sketch_of(values)
    truth = estimator(sketch).value
    found = [estimator(released(sketch, 2.0, seed), nonnegative=nonnegative) for seed in range(150)]
    errors = np.array([one.value - truth for one in found])
    stated = float(np.mean([one.variance for one in found]))
    assert abs(errors.mean()) < 4 * math.sqrt(stated / 150)
    assert float((errors**2).mean()) == pytest.approx(stated, rel=0.5)
    covered = np.mean([low <= truth <= high for low, high in (one.interval(0.9) for one in found)])
    assert 0.8 < covered < 0.99


@pytest.mark.parametrize("epsilon", [2.0, 0.25, 0.02])
@pytest.mark.parametrize("twice", [False, True])
def test_estimates_are_those_of_the_slow_twin(epsilon: float, *, twice: bool) -> None:
    """Also where the error comes from the noise's law, as it is wide for so few entries."""
    release = released(sketch_of([2000, 1500, 700, 30] + [0] * 20), epsilon)
    draws = [(1 / epsilon, 2)] if twice else [(1 / epsilon, 1)]
    if twice:
        release = release.scaled(2).combine(released(sketch_of([500]), 1.0, 1), populations="disjoint")
        draws.append((1.0, 1))
    entries = release.values.tolist()
    for nonnegative in (False, True):
        size, log = (naive.itself, naive.positive_log) if nonnegative else (naive.size, naive.size_log)
        sizes = naive.sums(entries, draws, size, log)
        counts = naive.sums(entries, draws, *[naive.is_positive if nonnegative else naive.is_not_zero] * 2)
        expected = {NORM: (sizes[0], sizes[2]), NUMBER: (counts[0], counts[2])}
        if sizes[0] > 2 * math.sqrt(sizes[2]):
            expected[ENTROPY] = naive.entropy(*sizes)
        else:
            with pytest.raises(ss.InvalidInputError, match="the entropy is undefined"):
                ENTROPY(release, nonnegative=nonnegative)
        if nonnegative:
            expected[NORM] = (float(sum(entries)), DIM * release.noise.k2)
        for estimator, (value, variance) in expected.items():
            found = estimator(release, nonnegative=nonnegative)
            assert found.value == pytest.approx(value, rel=1e-2 if estimator is ENTROPY else 1e-9, abs=1e-6)
            assert found.variance == pytest.approx(variance, rel=1e-2)


def test_own_histograms_are_exact_and_secret() -> None:
    sketch = sketch_of(VALUES, Fraction(1, 4))
    sizes = np.abs(np.array(VALUES)[np.array(VALUES) != 0])
    shares = sizes / sizes.sum()
    assert NORM(sketch).value == sizes.sum() / 4
    assert NUMBER(sketch).value == 8
    assert ENTROPY(sketch).value == pytest.approx(-float(shares @ np.log(shares)))
    for estimator in (NORM, NUMBER, ENTROPY):
        assert isinstance(estimator(sketch), SecretEstimate)
        assert estimator(sketch).variance == 0
        assert not estimator(released(sketch)).secret


def test_units_of_the_data_scale_the_norm_alone() -> None:
    release = released(sketch_of(VALUES))
    scaled = release.scaled(-3)
    assert NORM(scaled).value == pytest.approx(3 * NORM(release).value)
    assert NORM(scaled).standard_error == pytest.approx(3 * NORM(release).standard_error)
    assert NORM(scaled, nonnegative=True).value == pytest.approx(-3 * NORM(release, nonnegative=True).value)
    for estimator in (NUMBER, ENTROPY):
        assert estimator(scaled).value == pytest.approx(estimator(release).value)
        assert estimator(scaled).variance == pytest.approx(estimator(release).variance)


def test_entries_that_are_not_negative_have_less_error() -> None:
    """Their noise is the quantiles of its law: where it happens to be unusual, the variances estimated may be, too."""
    drawn = released(sketch_of([abs(value) for value in VALUES]))
    law = law_of(drawn)
    noise = np.searchsorted(law.cumsum(), (np.arange(DIM) + 0.5) / DIM) - law.size // 2
    spread = noise[np.arange(DIM) * 7 % DIM]  # of all sizes for entries of all sizes
    cells = np.abs(VALUES + [0] * (DIM - len(VALUES))) + spread
    release = ss.PrivateSketch(drawn.projection, cells, drawn.noise, drawn.guarantee, release_ids=drawn.release_ids)
    for estimator in (NORM, NUMBER, ENTROPY):
        assert estimator(release, nonnegative=True).variance < 0.8 * estimator(release).variance
    gaussian = released(sketch_of(VALUES), delta=1e-6, mechanism="gaussian")
    assert NORM(gaussian, nonnegative=True).variance == pytest.approx(DIM * gaussian.noise.k2)


@pytest.mark.parametrize("seed", range(4))
def test_rare_entries_at_zero_are_in_the_error_though_none_is_there(seed: int) -> None:
    """Of 60 noisy entries, 0.3 are expected at 0, where the estimate of the norm subtracts 20,000."""
    release = released(sketch_of([0] * DIM), 0.01, seed)
    q = release.noise.k2 / 2
    at_zero = math.tanh(0.005)
    variance = DIM * (2 * q + 4 * q**2 * at_zero)
    assert NORM(release).variance == pytest.approx(variance, rel=0.25)
    assert NUMBER(release).variance == pytest.approx(DIM * 6 * q**2 * at_zero, rel=0.25)
    assert NUMBER(release, nonnegative=True).variance == pytest.approx(DIM * 2 * q**2 * at_zero, rel=0.25)


def test_large_entries_cost_no_digits() -> None:
    sketch = sketch_of([10**9] * DIM)
    for estimator in (NORM, NUMBER):
        found = estimator(released(sketch))
        assert found.value == pytest.approx(estimator(sketch).value, abs=8 * found.standard_error + 1e-9)
        assert found.variance == pytest.approx(2 * 0.9207 * DIM if estimator is NORM else 0.0, rel=1e-3)
    assert ENTROPY(released(sketch)).value == pytest.approx(math.log(DIM), abs=1e-7)


def test_large_histograms_are_summed_in_tiles() -> None:
    """Of 66,000 entries, in two tiles of 65,536 at most: twice the sums of a half, which is in one."""
    small = released(sketch_of(VALUES))

    def repeated(times: int) -> ss.PrivateSketch:
        values = np.tile(small.values, times)
        return ss.PrivateSketch(
            Identity(dim=values.size), values, small.noise, small.guarantee, release_ids=small.release_ids
        )

    half, whole = repeated(550), repeated(1100)
    for estimator in (NORM, NUMBER):
        assert estimator(whole).value == pytest.approx(2 * estimator(half).value)
        assert estimator(whole).variance == pytest.approx(2 * estimator(half).variance)
    # the bias of second order, which it removes, is less of more entries
    assert ENTROPY(whole).value == pytest.approx(ENTROPY(half).value + math.log(2), abs=1e-4)
    assert ENTROPY(whole).variance == pytest.approx(ENTROPY(half).variance / 2, rel=1e-3)


def test_a_published_total_makes_entropy_more_accurate() -> None:
    rows = pa.table({"customer": [f"c{n % 40}" for n in range(400)], "item": [n % 7 for n in range(400)]})
    neighbours = ss.L1(20, unit="customer")
    projection = Identity(dim=4000, resolution="1/64")
    bounded = ss.bound(rows, ss.Agreement(projection, index="item", unit="customer", neighbours=neighbours))
    assert isinstance(bounded, ss.Sketch)
    counting = ss.privacy.Counting.of(projection, neighbours, delta=0)
    publisher = ss.AdditiveNoise(epsilon=99, neighbours=neighbours, counting=counting).calibrated(projection)
    release = publisher.for_data(bounded).draw(salted_bits(b"total"))
    alone = ss.PrivateSketch(
        projection, release.values, release.noise, release.guarantee, release_ids=release.release_ids
    )
    with_total, without = ENTROPY(release, nonnegative=True), ENTROPY(alone, nonnegative=True)
    assert with_total.variance < without.variance
    assert abs(with_total.value - math.log(7)) < 4 * with_total.standard_error


def test_what_has_no_such_sum_is_refused() -> None:
    sketched = ss.SJLT(dim=100, sketch_dim=16, sparsity=4, seed=1).sketch()
    gaussian = released(sketch_of(VALUES), delta=1e-6, mechanism="gaussian")
    sums = [released(sketch_of(VALUES), seed=seed) for seed in range(5)]
    many = list(itertools.accumulate(sums, lambda a, b: a.combine(b, populations="overlapping")))[-1]
    for estimator in (NORM, NUMBER, ENTROPY):
        with pytest.raises(ss.InvalidInputError, match=r"need a histogram, .*SJLT.* squared_norm"):
            estimator(sketched)
        with pytest.raises(ss.InvalidInputError, match=r"no unbiased estimate .*Gaussian.* no delta"):
            estimator(gaussian)
        with pytest.raises(ss.InvalidInputError, match="a sum of at most 4 such noises"):
            estimator(many)
        with pytest.raises(TypeError, match="got a str"):
            estimator("x")  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInputError, match="or pass nonnegative=True"):
        NORM(gaussian)
    with pytest.raises(ss.InvalidInputError, match="the entropy is undefined"):
        ENTROPY(released(sketch_of([1]), 0.01))
    with pytest.raises(ss.InvalidInputError, match="the entropy is undefined"):
        ENTROPY(sketch_of([0]))
