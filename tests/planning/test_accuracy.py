"""A bound chosen for the accuracy of answers, from noisy counts of units by size."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.bounding import Accuracy, choose_bound

PROJECTION = ss.CountSketch(sketch_dim=256, seed=7)
GRID = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
RELEASES: dict[str, Any] = {
    "projection": PROJECTION,
    "neighbours": ss.L1(1, unit="customer"),
    "epsilon": 1.0,
    "units": 1_000,
    "match": 0.004,
}


def totals(most: float) -> Any:
    """Return totals with a tail: half of 20,000 customers buy ten pieces or fewer, few buy thousands."""
    return np.minimum(5 + np.random.default_rng(3).pareto(1.2, 20_000) * 6, most)


def chosen(question: Any, found: Any, **changed: Any) -> float:
    wanted = Accuracy(question=question, **RELEASES | changed)
    return float(choose_bound(found, GRID, epsilon=0.5, accuracy=wanted).bound)


def test_shapes_take_a_small_bound_where_the_share_kept_takes_a_large_one() -> None:
    found = totals(3000)
    by_share = choose_bound(found, GRID, epsilon=10.0, share=0.95).bound
    wanted = Accuracy(question="cosine", **RELEASES)
    by_accuracy = choose_bound(found, GRID, epsilon=0.5, accuracy=wanted)
    assert by_accuracy.bound < by_share / 5
    errors = dict(zip(map(Fraction, GRID), by_accuracy.errors, strict=True))
    assert errors[by_accuracy.bound] < 0.5 * errors[by_share]


def test_sizes_take_a_bound_that_leaves_most_of_them() -> None:
    found = totals(3000)
    bounds = [chosen(question, found) for question in ("cosine", "distance", "point")]
    assert bounds[0] < bounds[1]
    assert bounds[0] < bounds[2]
    # units who add less want a smaller bound, and so does more noise
    assert chosen("distance", found / 10) < bounds[1]
    assert chosen("point", found, epsilon=0.05) < bounds[2]


def test_bounds_on_sketches_are_chosen_from_norms() -> None:
    norms = np.sqrt(totals(3000))
    releases = {"neighbours": ss.SketchL2(1, unit="customer", max_keys=2), "delta": 1e-6}
    for question in ("distance", "mean"):
        bound = chosen(question, norms, **releases)
        assert np.quantile(norms, 0.8) < bound < 5 * np.quantile(norms, 0.99)


def test_where_nothing_is_known_there_is_a_bound_all_the_same() -> None:
    for found in ([], [3.0]):
        assert choose_bound(found, GRID, epsilon=0.1, accuracy=Accuracy(question="distance", **RELEASES)).bound in GRID


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"question": "sum"}, "question must be one of "),
        ({"neighbours": ss.OneCoordinate(1)}, "bounds are chosen for L1"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"units": 0}, "units must be a number from 1"),
        ({"items": 0}, "items must lie in"),
        ({"match": 2}, "match must be a probability"),
    ],
)
def test_mistakes_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        Accuracy(**{"question": "cosine"} | RELEASES | changed)


@pytest.mark.parametrize("question", ["cosine", "distance", "mean", "point"])
@pytest.mark.parametrize("units", [0, 3, 40, 3_000])
def test_noise_in_counts_is_not_taken_for_units(question: Any, units: int) -> None:
    """Of few units most counts are noise: some tens of units in each size, the largest too, who are not there."""
    wanted = Accuracy(question=question, **RELEASES | {"units": None})
    bounds, deviation = list(map(Fraction, GRID)), 20.0
    counts = np.zeros(len(GRID) + 1, dtype=int)
    counts[4] = units
    clean = wanted.errors(bounds, (counts * (units > 9.3 * deviation)).tolist(), deviation)
    for seed in range(5):
        noise = np.random.default_rng(seed).laplace(scale=deviation / 2**0.5, size=counts.size).round().astype(int)
        noise[np.abs(noise) > 6 * deviation] = 0
        noise[4] = 0
        assert wanted.errors(bounds, (counts + noise).tolist(), deviation) == clean
    large = counts.copy()
    large[-1] = 10 * deviation
    assert wanted.errors(bounds, large.tolist(), deviation) != clean


def test_few_units_do_not_get_the_bound_of_noise() -> None:
    """Two hundred people of 20 pieces: a bound for sizes that noise alone has would be 10 times as large."""
    wanted = Accuracy(question="distance", **RELEASES)
    for _ in range(10):
        assert choose_bound([20.0] * 400, GRID, epsilon=0.3, accuracy=wanted).bound <= 50


def test_bounds_allow_for_matches_that_are_not_stated() -> None:
    """The error that is stated is that of the likely match, times the worst regret over the range."""
    known = {name: value for name, value in RELEASES.items() if name != "match"}
    bounds, counts = list(map(Fraction, GRID)), [0, 500, 900, 800, 600, 400, 200, 100, 0, 0, 0]
    found = Accuracy(question="cosine", **known, catalogue=2_000).errors(bounds, counts, 1.0)
    tables = np.array(
        [
            Accuracy(question="cosine", **known, match=match).errors(bounds, counts, 1.0)
            for match in (0.002, 0.002 / 3, 0.006)
        ]
    )
    regrets = (tables / tables.min(axis=1, keepdims=True)).max(axis=0)
    assert found == pytest.approx((regrets * tables[0].min()).tolist())
