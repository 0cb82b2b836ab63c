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
        ({"question": "sum"}, "question must be one of cosine, distance, mean, point"),
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
