"""Whether two streams are the same: p-values against the laws that releases state, and what is refused.

The statistical test has a fixed seed. Of a right library, a fresh draw of it would fail with probability below 1e-6.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import streamsketch as ss
from streamsketch.errors import DependentNoiseError, InvalidInputError
from streamsketch.estimation import same
from streamsketch.estimation.blocks import block_of
from streamsketch.estimation.means import averages_of
from streamsketch.release.published import copy_with
from tests.counted import NEIGHBOURS, bounded, counted, customers
from tests.noise import salted_bits, salted_rng

pytestmark = pytest.mark.rejects(2e-4)


SALE = ss.L1(1, unit="sale")
PROJECTION = ss.SJLT(dim=1000, sketch_dim=32, sparsity=2, seed=7)


def raw(*, more: int = 0, projection: ss.projections.Projection = PROJECTION) -> ss.Sketch:
    sketch = projection.sketch()
    sketch.update([1, 2, 3], [1, 1, 1])
    if more:
        sketch.update([4] * more, [1] * more)
    return sketch


def release(*, epsilon: float = 1.0, **options: Any) -> ss.PrivateSketch:
    return raw(**options).release(epsilon=epsilon, delta=1e-3 if epsilon > 1 else 0, neighbours=SALE)


Pair = Callable[[], tuple[Any, Any]]
PAIRS: dict[str, Pair] = {
    "two releases": lambda: (release(), release()),
    "two noises": lambda: (release(), release(epsilon=2.0)),
    "a sum": lambda: (release().combine(release(), populations="disjoint"), release()),
    "weights": lambda: (release().scaled(Fraction(2, 3)), release()),
    "an average": lambda: (
        release().combine(release(), populations="disjoint").scaled(Fraction(1, 2)),
        release().subtract(release(epsilon=2.0), populations="disjoint").scaled(Fraction(-1, 3)),
    ),
    "one's own": lambda: (raw(), release()),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_law_has_the_noise_of_both(name: str) -> None:
    a, b = PAIRS[name]()
    found = ss.sameness(a, b)
    noise = a.noise.scaled(float(a.multiplier)) if isinstance(a, ss.PrivateSketch) else 0
    expected = 32 * (b.noise.scaled(float(b.multiplier)) + noise if noise else b.noise).k2 / 2
    mean, _ = found.law.of_noise
    assert mean == pytest.approx(expected, rel=1e-6)
    assert found.gap - found.distance.value == pytest.approx(expected, rel=1e-6)
    assert found.secret == isinstance(a, ss.Sketch)
    assert found.p_value == pytest.approx(found.law.p_value(found.gap))


def test_exact_sketches_are_the_same_or_not() -> None:
    assert ss.sameness(raw(), raw()).p_value == 1
    assert ss.sameness(raw(), raw(more=1)).p_value == 0
    assert ss.sameness(raw(), raw(more=1), 1.5).p_value > 0.5  # one item, exactly; three of them might collide
    assert ss.sameness(raw(), raw(more=3), 1.5).p_value < 0.01


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_p_values_are_uniform_if_nothing_differs(mechanism: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bits = salted_bits(mechanism.encode())
    monkeypatch.setattr("streamsketch.release.ready.SystemBits", lambda: bits)
    publish = ss.AdditiveNoise(epsilon=1, delta=1e-3, neighbours=SALE, mechanism=mechanism)
    x = raw(projection=ss.CountSketch(dim=1000, sketch_dim=8, seed=7))
    draws = 200
    found = np.array([ss.sameness(publish.release(x), publish.release(x)).p_value for _ in range(draws)])
    for level in (0.02, 0.1, 0.5):
        low, high = binom.ppf([1e-7, 1 - 1e-7], draws, level)
        assert low - 1 <= (found <= level).sum() <= high


def test_a_difference_is_found_as_often_as_stated() -> None:
    apart = ss.sameness(release(), release(more=60))
    assert apart.distance.value > apart.line(0.01)
    assert apart.p_value < 0.01
    assert apart.power(60, 0.01) > 0.99
    assert apart.power(apart.visible(0.6, 0.2), 0.2) == pytest.approx(0.6, abs=0.01)
    same_line = ss.sameness(release(), release()).line()
    assert apart.line() == pytest.approx(same_line)
    assert ss.sameness(release(), release(more=60), 60).p_value > 1e-4
    assert ss.sameness(release(), release(more=60), 600).p_value > 0.99


def test_noise_before_the_map_is_tested_too() -> None:
    projection = ss.projections.Rademacher(dim=64, sketch_dim=16, seed=7)
    rng = salted_rng(1)
    vector = rng.integers(0, 5, 64)
    options: dict[str, Any] = {"epsilon": 1, "neighbours": SALE, "noise_place": "input"}
    x, y = (ss.release.release_vector(projection, vector, **options) for _ in range(2))
    z = ss.release.release_vector(projection, vector + 40, **options)
    assert ss.sameness(x, y).p_value > 1e-4
    assert ss.sameness(x, z).p_value < 1e-4


def test_averages_of_different_numbers_of_units_are_the_same() -> None:
    x, y, z = counted(300, (1, 2)), counted(900, (1, 2)), counted(900, (3,))
    found = ss.sameness(x, y, by="mean")
    assert found.p_value > 1e-4
    assert found.law.drift
    assert ss.sameness(x, y).p_value < 1e-4
    assert ss.sameness(x, z, by="mean").p_value == 1e-9
    # customers who all buy the same are the same in every sample: it is known of few only roughly
    assert ss.sameness(x, y, by="mean", samples=True).p_value > 1e-4
    assert ss.sameness(x, z, by="mean", samples=True).p_value < 1e-4


def test_errors_of_counts_hide_no_difference_of_samples() -> None:
    """Without a draw of units, what is left of the squared distance is that of the noise of cells: to 6 errors."""
    small, large, shares = customers(300, (1, 2)), customers(500, (1, 2)), []
    for _ in range(300):
        x, y = (one.release(epsilon=2.0, delta=1e-6, neighbours=NEIGHBOURS) for one in (small, large))
        averages = averages_of(block_of([x, y]))
        (first, second), noise = averages.block.values, float(averages.block.k2.sum()) * 64
        gap = float(((first - second) ** 2).sum())
        of_counts = float(averages.spread.sum())  # averages have the length 1
        left, drift = same.without_counts(averages, gap, 0.0, of_counts)
        shares.append((gap / noise, left / noise, drift / noise))
    whole, left, drift = np.mean(shares, axis=0)
    assert whole > 1.1
    assert abs(left - 1) < 6 * math.sqrt(2 / 64 / 300)
    assert drift < 0.1


def test_a_number_of_units_that_is_too_large_is_no_difference() -> None:
    x, y = counted(24, (1, 2)), counted(900, (1, 2))
    error = x.units.standard_error
    stated = np.full(1, round(x.layout.unit_weight * (24 + 1.7 * error)))  # as in one of 11 releases, or further off
    found = ss.sameness(copy_with(x, _counts=stated), y, by="mean")
    assert found.p_value > 0.01


def test_it_is_printed_as_a_sentence_and_as_json() -> None:
    found = ss.sameness(raw(), release())
    assert str(found).startswith("It is not shown that the streams differ: p = ")
    assert "secret" in str(found)
    assert found.to_dict()["secret"] is True
    assert str(ss.sameness(raw(), raw(more=9), 1.0)).startswith("The streams are more than 1 apart: p = ")


BOTH = release()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"tolerance": -1}, InvalidInputError, "at least 0"),
        ({"tolerance": math.nan}, InvalidInputError, "finite"),
        ({"tolerance": "1"}, InvalidInputError, "data units"),
        ({"by": "size"}, InvalidInputError, "'distance', 'mean', 'profile' or 'cosine'"),
        ({"by": "cosine", "samples": True}, InvalidInputError, "by='mean'"),
        ({"samples": True}, InvalidInputError, "by='mean'"),
        ({"by": "mean"}, InvalidInputError, "number of units"),
    ],
)
def test_what_has_no_law_is_refused(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ss.sameness(BOTH, release(), **options)


def test_dependent_noise_is_refused() -> None:
    with pytest.raises(DependentNoiseError):
        ss.sameness(BOTH, BOTH.scaled(2))
    bound = ss.L1(4, unit="customer")
    agreement = ss.Agreement(PROJECTION, index="item", value="sold", unit="customer", neighbours=bound)
    publish = ss.AdditiveNoise(epsilon=9, neighbours=bound, counting=ss.privacy.Counting(1, slack=1))
    x, y = (publish.release(bounded(agreement, 300, (1, 2))) for _ in range(2))
    assert ss.sameness(x, y, by="mean").p_value > 1e-4
    with pytest.raises(InvalidInputError, match="known length"):
        ss.sameness(x, y, by="mean", samples=True)
