"""Every estimator where its noise has the fewest values: a step or two wide, on histograms of one entry and more.

Rates are of fixed draws. A table of simulated intervals has about 500 cells; a cell fails at 5 standard errors of its
rate, so a right library fails the table in one of 5,000 draws. What is enumerated does not depend on draws.
"""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.core.numbers import Floats
from streamsketch.estimation import Estimates, GapLaw, NoiseTerm
from streamsketch.estimation.blocks import Block, Units, block_of
from streamsketch.estimation.cosines import cosines_between, profiles_from
from streamsketch.estimation.distances import distances_between, norms_of, products_between
from streamsketch.estimation.means import mean_distances_between, mean_norms_of, mean_products_between
from streamsketch.estimation.whole_steps import longest_vectors, vector_of_alike
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.noise import Noise
from streamsketch.projections import Identity
from streamsketch.signs.angles import angle_at, cosine_of
from tests.noise import SALT, salted_rng

pytestmark = pytest.mark.rejects(3e-4)


TRIALS = 500
CONFIDENCES = (0.5, 0.9, 0.95, 0.99)
EPSILONS = (1.0, 2.0, 2.58, 3.0, 4.0)
LAPLACE = {f"Laplace, ε = {epsilon:g}": DiscreteLaplace(1 / Fraction(str(epsilon))) for epsilon in EPSILONS}
GAUSSIAN = {f"Gaussian, σ² = {variance}": DiscreteGaussian(Fraction(variance)) for variance in ("1/2", "1", "4")}
NOISES: dict[str, Noise] = {**LAPLACE, **GAUSSIAN}


def law_of(noise: Noise) -> tuple[Floats, Floats]:
    points = np.arange(-60.0, 61.0)
    weights = np.exp(np.asarray(noise.log_weights(points)))
    return points, weights / weights.sum()


def block(rows: Floats, noise: Noise, rng: np.random.Generator, units: float | None = None) -> Block:
    """Return histograms with noise as one block: of all of TRIALS at once, as their releases would be."""
    points, weights = law_of(noise)
    cells = rows + rng.choice(points, rows.shape, p=weights)
    k2, k4 = noise.cumulants.k2, noise.cumulants.k4
    count, projection = len(rows), Identity(dim=rows.shape[1])
    template = block_of([projection.sketch()])
    numbers = None
    if units is not None:
        numbers = Units(units + rng.choice(points, count, p=weights), np.full(count, k2))
    return template._replace(
        cells=cells.astype(np.int64), cell_units=np.ones(count), k2=np.full(count, k2), k4=np.full(count, k4),
        steps=np.ones(count), units=numbers,
    )  # fmt: skip


def held(estimates: Estimates, truth: float, confidence: float, candidates: int | None) -> Any:
    """Return whether intervals hold what is true; an estimate that is refused does not miss."""
    if candidates is None:
        low, high = estimates.interval(confidence)
    else:
        low, high = estimates.selected_interval(candidates, 1 - (1 - confidence) * candidates)
    slack = 1e-9 * max(abs(truth), 1.0)
    return np.isnan(estimates.value) | ((low <= truth + slack) & (truth - slack <= high))


def check(estimates: list[Estimates], truth: float, label: str) -> None:
    for confidence, candidates in itertools.product(CONFIDENCES, (None, 7)):
        if candidates is not None and (1 - confidence) * candidates >= 1:
            continue
        rate = float(np.mean([held(one, truth, confidence, candidates) for one in estimates]))
        error = math.sqrt(confidence * (1 - confidence) / TRIALS)
        assert rate >= confidence - 0.004 - 5 * error, (label, confidence, candidates, rate)


STREAMS = {
    "empty": np.zeros,
    "one entry": lambda dim: np.eye(dim)[0],
    "even": np.ones,
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("dim", [1, 2, 16])
def test_norms_and_distances_of_histograms_hold(dim: int, noise: str) -> None:
    rng = salted_rng([dim, *noise.encode()])
    for kind, size in itertools.product(STREAMS, (1, 7, 1000)):
        x = size * STREAMS[kind](dim)
        one = block(np.tile(x, (TRIALS, 1)), NOISES[noise], rng)
        check([norms_of(one)], float(x @ x), f"norm, {kind}, {size}")
        other = block(np.zeros((1, dim)), NOISES[noise], rng)
        fresh = block(np.zeros((TRIALS, dim)), NOISES[noise], rng)
        both = one._replace(cells=one.cells - fresh.cells, k2=2 * one.k2, k4=2 * one.k4)
        nothing = other._replace(
            cells=np.zeros((1, dim), dtype=np.int64), k2=np.zeros(1), k4=np.zeros(1), steps=np.zeros(1)
        )
        check([distances_between(both, nothing, same=False)], float(x @ x), f"distance, {kind}, {size}")


@pytest.mark.parametrize(
    "noise",
    [
        *(pytest.param(f"Laplace, ε = {epsilon}", marks=pytest.mark.long) for epsilon in (1, 4)),
        "Laplace, ε = 2.58",
        "Gaussian, σ² = 1/2",
    ],
)
def test_products_and_cosines_of_histograms_hold(noise: str) -> None:
    rng = salted_rng(list(noise.encode()))
    for dim, size in ((2, 100), (16, 30)):
        basis = np.eye(dim)
        for x, y in ((basis[0], basis[0]), (basis[0], basis[1]), (basis[0], 5 * basis[0] + 2 * basis[1])):
            first, second = (block(np.tile(size * one, (TRIALS, 1)), NOISES[noise], rng) for one in (x, y))
            pairs = [(first.only(place), second.only(place)) for place in range(TRIALS)]
            products = [products_between(*pair) for pair in pairs]
            check([joined(products)], float(size**2 * (x @ y)), f"product of {x} and {y}, {size}")
            cosines = joined([cosines_between(*pair, same=False) for pair in pairs])
            cosine = float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))
            check([cosines], cosine, f"cosine of {x} and {y}, {size}")
            check([profiles_from(cosines)], 2 - 2 * cosine, f"profile distance of {x} and {y}, {size}")


@pytest.mark.parametrize(
    "noise", ["Laplace, ε = 2.58", pytest.param("Laplace, ε = 4", marks=pytest.mark.long), "Gaussian, σ² = 1/2"]
)
def test_averages_of_histograms_hold(noise: str) -> None:
    """Of so many units that their number is known: the noise of the cells is what is coarse."""
    rng = salted_rng(list(noise.encode()))
    units, dim = 500.0, 4
    x, y = units * np.eye(dim)[0], units * np.eye(dim)[1]
    first, second = (block(np.tile(one, (TRIALS, 1)), NOISES[noise], rng, units) for one in (x, y))
    check([mean_norms_of(first)], 1.0, "norm")
    pairs = [(first.only(place), second.only(place)) for place in range(TRIALS)]
    check([joined([mean_distances_between(*pair, same=False) for pair in pairs])], 2.0, "distance")
    check([joined([mean_products_between(*pair) for pair in pairs])], 0.0, "product")


def joined(estimates: list[Estimates]) -> Estimates:
    parts = zip(*(one.parts() for one in estimates), strict=True)
    return estimates[0].with_parts(*(np.concatenate([np.ravel(one) for one in part]) for part in parts))


def release(projection: ss.projections.Projection, epsilon: float, **options: Any) -> ss.PrivateSketch:
    sketch = projection.sketch()
    sketch.update([3], [10])
    return sketch.release(epsilon=epsilon, neighbours=ss.L1(1, unit="event"), **options)


@pytest.mark.filterwarnings("ignore::streamsketch.errors.WeakGuaranteeWarning")
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 1.5, 2.58, 3.0, 4.0, 6.0])
def test_points_are_the_least_whole_steps_that_hold(epsilon: float, confidence: float) -> None:
    """By the law of the noise, P(|η| > m) = 2rᵐ⁺¹/(1 + r): for one item, one of many, and differences."""
    ratio = math.exp(-epsilon)

    def missed(steps: float) -> float:
        return 2 * ratio ** (math.floor(steps + 1e-9) + 1) / (1 + ratio)

    one, other = release(Identity(dim=50), epsilon), release(Identity(dim=50), epsilon)
    for found, miss in (
        (ss.frequency(one, 3).interval(confidence), 1 - confidence),
        (ss.frequency(one, 3).selected_interval(9, confidence), (1 - confidence) / 9),
        (one_row(ss.frequency(one, [3], confidence=confidence)), 1 - confidence),
        (one_row(ss.top(one, range(50), 1, confidence=confidence).table), (1 - confidence) / 50),
    ):
        half = (found[1] - found[0]) / 2
        assert half >= 0.5
        assert missed(half) <= miss * (1 + 1e-6)
        assert half <= 0.5 + 1e-6 or missed(half - 1) > miss * (1 - 1e-6), "not the least"
    points, weights = law_of(DiscreteLaplace(1 / Fraction(str(epsilon))))
    both = np.convolve(weights, weights)
    for miss, table in (
        (1 - confidence, ss.top_differences(one, other, [3], confidence=confidence).table),
        ((1 - confidence) / 50, ss.top_differences(one, other, range(50), confidence=confidence).table),
    ):
        low, high = one_row(table)
        steps = math.floor((high - low) / 2 + 1e-9)
        assert 1 - both[120 - steps : 121 + steps].sum() <= miss * (1 + 1e-6) + 1e-9
    assert points.size == 121


def one_row(table: Any) -> tuple[float, float]:
    row = table.slice(0, 1).to_pylist()[0]
    return row["low"], row["high"]


@pytest.mark.parametrize("epsilon", [1.0, 2.58, 4.0])
def test_numbers_of_units_hold(epsilon: float) -> None:
    """Units and totals are of counts with noise of the same law, in steps of one over a weight."""
    projection = ss.CountSketch(sketch_dim=16, seed=1)
    rows = pa.table({"item": ["tea"] * 40, "customer": [f"c{i}" for i in range(40)]})
    agreement = ss.agree(rows, projection, index="item", unit="customer")
    found = ss.bound(rows, agreement).release(epsilon=epsilon, delta=1e-6, neighbours=agreement.neighbours)
    noise: Any = found.guarantee.mechanism.the_noise
    points, weights = law_of_wide(noise.noise)
    for confidence in (0.5, 0.9, 0.95, 0.99):
        high = found.units.interval(confidence).high - max(found.units.value, 0.0)
        steps = math.floor(high * found.layout.unit_weight + 1e-6)
        share = float(weights[np.abs(points) <= steps].sum())
        assert share >= confidence
        less = steps - 1 - math.sqrt(noise.noise.cumulants.k2) / 30  # of wide noise the law is on a coarser grid
        assert steps < 1 or float(weights[np.abs(points) <= less].sum()) < confidence


def law_of_wide(noise: Noise) -> tuple[Floats, Floats]:
    reach = math.ceil(14 * math.sqrt(noise.cumulants.k2))
    points = np.arange(-reach, reach + 1.0)
    weights = np.exp(np.asarray(noise.log_weights(points)))
    return points, weights / weights.sum()


@pytest.mark.parametrize(
    ("k", "kept"),
    [
        pytest.param(k, kept, marks=[pytest.mark.long] * (place != turn))
        for place, k in enumerate((64, 128, 256))
        for turn, kept in enumerate((1.0, 0.8, 0.4))
    ],
)
def test_angles_of_signs_hold_where_four_or_more_differ(k: int, kept: float) -> None:
    """Exactly, over the binomial law of how many signs differ: 90 and 95 % intervals miss by 2.5 points at most."""
    for theta in (0.05, 0.1, 0.2, 0.32, 0.6, 1.2, 2.9):
        p = (1 - kept * (1 - 2 * theta / math.pi)) / 2
        if min(p, 1 - p) * k < 4:
            continue
        number = np.arange(k + 1)
        logs = np.array([math.lgamma(k + 1) - math.lgamma(n + 1) - math.lgamma(k - n + 1) for n in number])
        chances = np.exp(logs + number * math.log(p) + (k - number) * math.log1p(-p))
        for confidence, slack in ((0.9, 0.025), (0.95, 0.025), (0.99, 0.006)):
            rates = [0.0, 0.0]
            for differing, chance in enumerate(chances):
                if chance < 1e-9:
                    continue
                mean = 1 - 2 * differing / k
                for place, (found, truth) in enumerate(
                    ((angle_at(mean, k, kept), theta), (cosine_of(mean, k, kept), math.cos(theta)))
                ):
                    low, high = found.interval(confidence)
                    wide = found.selected_interval(5, confidence)
                    assert low < high
                    assert wide.low <= low <= high <= wide.high
                    rates[place] += chance if low <= truth <= high else 0.0
            assert min(rates) >= confidence - slack, (theta, confidence, rates)


@pytest.mark.parametrize(("expected", "least"), [(0.05, 0.83), (0.17, 0.83), (0.2, 0.83), (1.0, 0.915), (2.0, 0.915)])
def test_angles_of_signs_of_which_few_differ_hold_as_often_as_is_stated(expected: float, least: float) -> None:
    k = 64
    theta = math.pi * expected / k
    ends = [angle_at(1 - 2 * differing / k, k, 1.0).interval(0.95) for differing in range(12)]
    chances = [math.comb(k, n) * (expected / k) ** n * (1 - expected / k) ** (k - n) for n in range(12)]
    covered = sum(chance for chance, (low, high) in zip(chances, ends, strict=True) if low <= theta <= high)
    assert covered >= least


@pytest.mark.parametrize(("cells", "sparsity"), [(64, 1), (256, 1), (128, 4)])
@pytest.mark.parametrize("stream", ["popular", "one heavy", "two heavy"])
def test_errors_of_popular_items_under_hashed_maps_are_tighter_and_hold(stream: str, cells: int, sparsity: int) -> None:
    """95 % intervals hold in 92 % of 600 maps or more, with an error smaller than that of many items.

    Collisions of heavy items are so rare that the spread of 600 estimates is up to a third off: with other maps errors
    are compared with the spread of all maps.
    """
    rng = salted_rng([cells, *stream.encode()])
    many = np.ones(300)
    x = {"popular": 1000 / np.arange(1, 301) ** 1.1, "one heavy": np.r_[20, many], "two heavy": np.r_[15, 15, many]}[
        stream
    ]
    x = np.rint(100 * x)
    trials, width = 600, cells // sparsity
    sketches = np.zeros((trials, cells))
    for slot in range(sparsity):
        places = slot * width + rng.integers(0, width, (trials, x.size)) + cells * np.arange(trials)[:, None]
        signs = rng.choice([-1.0, 1.0], places.shape)
        sketches += np.bincount(places.ravel(), (signs * x).ravel(), trials * cells).reshape(trials, cells)
    projection = ss.SJLT(dim=x.size, sketch_dim=cells, sparsity=sparsity, seed=1)
    template = block_of([projection.sketch()])
    found = norms_of(
        template._replace(
            cells=sketches.astype(np.int64), cell_units=np.full(trials, projection.cell_unit),
            k2=np.zeros(trials), k4=np.zeros(trials), steps=np.zeros(trials),
        )
    )  # fmt: skip
    low, high = found.interval(0.95)
    truth = float(x @ x)
    assert np.mean((low <= truth) & (truth <= high)) >= 0.92
    largest = np.sqrt(2 / cells) * np.maximum(found.value, 0.0)
    assert np.median(found.standard_error / largest) < 0.97
    assert found.standard_error.min() > (0.6 if SALT else 0.7) * largest.min()
    spread = math.sqrt(2 / cells * (truth**2 - float((x**4).sum())))  # 2/k · Σ_{i≠j} x_i²x_j²
    assert np.median(found.standard_error) > 0.9 * (spread if SALT else found.value.std())


@pytest.mark.parametrize("cells", [2, 8])
@pytest.mark.parametrize("tolerance", [0.2, 0.3, 0.6])
def test_no_difference_raises_no_more_alarms_than_stated_by_a_tolerance_below_a_step(
    cells: int, tolerance: float
) -> None:
    """Small differences split sums such as ±1, of which no difference has both: it is less favourable."""
    noise = NOISES["Laplace, ε = 2.58"]
    law = GapLaw(ss.CountSketch(sketch_dim=cells, seed=7), (NoiseTerm(noise, 1.0),), tolerance=tolerance)
    values, tails = law_of_squares(noise, (0,) * cells)
    for value, tail in zip(values.tolist(), tails.tolist(), strict=True):
        if tail < 1e-4:
            break
        assert law.p_value(value) >= tail * 0.999, value


def law_of_squares(noise: Noise, difference: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return the values of ‖z + η‖², and the probability of each or a larger one."""
    points, weights = law_of(noise)
    values, chances = np.zeros(1, dtype=np.int64), np.ones(1)
    for entry in difference:
        sums = values[:, None] + ((points + entry) ** 2).astype(np.int64)
        of_all = np.bincount(sums.ravel(), np.outer(chances, weights).ravel())
        values = np.flatnonzero(of_all)
        chances = of_all[values]
    return values.astype(np.float64), np.cumsum(chances[::-1])[::-1]


@pytest.mark.parametrize("name", ["Laplace, ε = 1", "Laplace, ε = 2.58", "Laplace, ε = 4", "Gaussian, σ² = 1/2"])
@pytest.mark.parametrize(
    ("cells", "tolerance"),
    [(1, 0.5), (1, 1.0), (1, 1.5), (1, 5.0), (1, 300.0), (2, 1.0), (2, 1.5), (2, 3.0), (3, 0.7), (3, 1.8), (3, 2.3)],
)
def test_p_values_on_histograms_of_few_cells_are_the_largest_over_all_differences_within_a_tolerance(
    name: str, cells: int, tolerance: float
) -> None:
    noise = NOISES[name]
    law = GapLaw(Identity(dim=cells), (NoiseTerm(noise, 1.0),), tolerance=tolerance)
    entries = range(math.floor(tolerance) + 1) if cells > 1 else [math.floor(tolerance)]
    ascending = (z for z in itertools.product(entries, repeat=cells) if list(z) == sorted(z))
    within = [z for z in ascending if math.hypot(*z) <= tolerance]
    laws = [law_of_squares(noise, z) for z in within]
    values = np.unique(np.concatenate([one[0] for one in laws]))
    tails = np.array([np.append(t, 0.0)[np.searchsorted(v, values)] for v, t in laws]).max(axis=0)
    for value, tail in zip(values.tolist(), tails.tolist(), strict=True):
        if tail > 1e-9:
            assert law.p_value(value) == pytest.approx(tail, rel=1e-3), value
        if tail < 1e-9:
            break
    for level in (0.2, 0.05, 1e-3):
        beyond = tails[values >= law.line(level) * (1 - 1e-9)]
        assert beyond.size == 0 or beyond[0] <= level * 1.001, level


@pytest.mark.parametrize("squares", [0, 1, 5, 9, 30])
@pytest.mark.parametrize("cells", [1, 2, 3, 4])
def test_longest_vectors_are_those_that_none_other_exceeds(squares: int, cells: int) -> None:
    every = range(math.isqrt(squares) + 1)
    within = {z for z in itertools.product(every, repeat=cells) if sum(entry**2 for entry in z) <= squares}
    longer = [[tuple(np.add(z, step)) for step in np.eye(cells, dtype=int).tolist()] for z in within]
    wanted = {
        tuple(sorted(filter(None, z), reverse=True))
        for z, others in zip(within, longer, strict=True)
        if within.isdisjoint(others)
    }
    found = longest_vectors(squares, cells, 100)
    assert found is not None
    assert len(found) == len(wanted)
    assert set(found) == wanted
    assert longest_vectors(squares, cells, len(wanted)) == found
    assert longest_vectors(squares, cells, len(wanted) - 1) is None


@pytest.mark.parametrize("cells", [4, 5])
@pytest.mark.parametrize("squares", [1, 7, 30, 43])
def test_vectors_of_alike_entries_are_the_largest_of_those_within_a_tolerance(squares: int, cells: int) -> None:
    every = range(math.isqrt(squares), -1, -1)
    within = [
        z
        for z in itertools.combinations_with_replacement(every, cells)  # each descending
        if sum(entry**2 for entry in z) <= squares
    ]
    for number in range(1, cells + 1):
        alike = [z for z in within if z[0] - z[number - 1] <= 1]
        assert vector_of_alike(squares, number, cells) == tuple(filter(None, max(alike))), number


def squares_from(weights: Floats, difference: tuple[int, ...], squares: int) -> float:
    """Return P(Σ(z + n)² ≥ squares), by adding up positive numbers alone."""
    half, below, beyond = weights.size // 2, np.zeros(squares), 0.0
    below[0] = 1.0
    for entry in difference:
        longer = np.zeros(squares)
        for n, chance in zip(range(entry - half, entry + half + 1), weights.tolist(), strict=True):
            kept = max(squares - n * n, 0)
            longer[squares - kept :] += chance * below[:kept]
            beyond += chance * float(below[kept:].sum())
        below = longer
    return beyond


@pytest.mark.parametrize("name", ["Laplace, ε = 2", "Gaussian, σ² = 4"])
@pytest.mark.parametrize(("cells", "tolerance"), [(4, 3.0), (6, 57.5), pytest.param(6, 597.5, marks=pytest.mark.long)])
def test_tails_far_out_are_those_of_sums_of_positive_numbers(cells: int, tolerance: float, name: str) -> None:
    noise = NOISES[name]
    weights = law_of(noise)[1][40:81]  # 20 steps, beyond which are less than 1e-16
    law = GapLaw(Identity(dim=cells), (NoiseTerm(noise, 1.0),), tolerance=tolerance)
    squares = math.floor(tolerance**2)
    numbers = [number for number in (1, 2, 3, 5, 8, 12) if number < cells]
    vectors = longest_vectors(squares, cells, 24) or [vector_of_alike(squares, n, cells) for n in (*numbers, cells)]
    for reach in (2.0, 9.0, 13.0):
        value = math.ceil((tolerance + reach) ** 2)
        exact = max(squares_from(weights, (*z, *[0] * (cells - len(z))), value) for z in vectors)
        found = law.p_value(float(value))
        assert found >= exact * (1 - 1e-9), reach
        assert found <= max(exact, 1e-15) * 1.001, reach


@pytest.mark.parametrize("tolerance", [1e5, 3e6])
def test_tails_of_very_many_steps_are_not_too_small(tolerance: float) -> None:
    """They are on a coarser grid than that of the noise."""
    noise = NOISES["Laplace, ε = 4"]
    law = GapLaw(Identity(dim=4), (NoiseTerm(noise, 1.0),), tolerance=tolerance)
    points, weights = (one[54:67] for one in law_of(noise))
    for number in (1, 2, 4):
        z = (*vector_of_alike(math.floor(tolerance**2), number, 4), 0, 0, 0)[:4]
        sums, chances = np.zeros(1), np.ones(1)
        for entry in z:
            sums = np.add.outer(sums, points * (points + 2 * entry)).ravel()  # beyond the square of the entry
            chances = np.outer(chances, weights).ravel()
        order = np.argsort(sums)
        tails = np.cumsum(chances[order][::-1])[::-1]
        length = float(sum(entry**2 for entry in z))
        for tail in (0.3, 0.05, 1e-3, 1e-9):
            place = int(np.searchsorted(-tails, -tail))
            assert law.p_value(length + float(sums[order][place])) >= tails[place] * (1 - 1e-6), (number, tail)
        assert law.line(0.01) < (tolerance + 8) ** 2


UNEVEN = {
    "multiples of 1 and 3": (("Laplace, ε = 2.58", 1.0), ("Laplace, ε = 2.58", 3.0)),
    "multiples of 2 and 5": (("Gaussian, σ² = 1", 2.0), ("Gaussian, σ² = 1/2", 5.0)),
}


@pytest.mark.parametrize("terms", UNEVEN)
@pytest.mark.parametrize(
    ("cells", "tolerance"),
    [
        (1, 2.0),
        (1, 8.0),
        (2, 3.0),
        *(pytest.param(*one, marks=pytest.mark.long) for one in ((1, 100.0), (2, 12.5), (4, 4.0))),
    ],
)
def test_noise_in_several_steps_has_no_smaller_p_value_than_any_difference_within_a_tolerance(
    cells: int, tolerance: float, terms: str
) -> None:
    """Its law does not fall: a smaller difference may be less favourable than a larger one."""
    noise = tuple(NoiseTerm(NOISES[name], step) for name, step in UNEVEN[terms])
    law = GapLaw(Identity(dim=cells), noise, tolerance=tolerance)
    weights = np.ones(1)
    for name, step in UNEVEN[terms]:
        wide = np.zeros(40 * int(step) + 1)
        wide[:: int(step)] = law_of(NOISES[name])[1][40:81]
        weights = np.convolve(weights, wide)
    every = itertools.combinations_with_replacement(range(math.floor(tolerance), -1, -1), cells)
    within = [z for z in every if math.hypot(*z) <= tolerance]
    for reach in (1, 4, 15):
        value = round((tolerance + reach) ** 2)
        exact = max(squares_from(weights, z, value) for z in within[:: max(len(within) // 60, 1)])
        found = law.p_value(float(value))
        assert found >= exact * (1 - 1e-6), (reach, found, exact)
        if cells == 1:
            assert found == pytest.approx(exact, rel=1e-3, abs=1e-13), reach


@pytest.mark.parametrize("level", [0.05, 0.01, 0.001])
@pytest.mark.parametrize(
    ("cells", "tolerance"),
    [(6, 9.2), *(pytest.param(*one, marks=pytest.mark.long) for one in ((4, 14.7), (6, 12.3), (8, 10.5)))],
)
@pytest.mark.parametrize("name", ["Laplace, ε = 4", "Gaussian, σ² = 4"])
def test_alarms_of_many_vectors_on_more_cells_are_at_most_1_3_times_as_many_as_stated(
    name: str, cells: int, tolerance: float, level: float
) -> None:
    """Of all vectors of whole steps that none within the tolerance exceeds, more than the law has."""
    noise = NOISES[name]
    law = GapLaw(Identity(dim=cells), (NoiseTerm(noise, 1.0),), tolerance=tolerance)
    vectors = longest_vectors(math.floor(tolerance**2), cells, 10_000)
    assert vectors is not None
    assert len(vectors) > 24
    line, weights = round(law.line(level)), law_of(noise)[1][45:76]
    rates = [squares_from(weights, (*z, *[0] * (cells - len(z))), line) for z in vectors]
    assert max(rates) <= 1.3 * level
