"""Whether streams are proportional: p-values against exact enumerations, their false alarms and their power.

The statistical tests have fixed seeds. Of a right library, a fresh draw of one would fail with probability below 1e-5.
"""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2

import streamsketch as ss
from streamsketch.errors import DependentNoiseError, InvalidInputError
from streamsketch.estimation.noise_law import NoiseTerm, lattice_of
from streamsketch.estimation.proportional import NoiseOf, proportional
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.noise import Noise
from tests.noise import salted_bits, salted_rng

pytestmark = pytest.mark.rejects(2e-4)

SALE = ss.L1(1, unit="sale")
PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
_LOST = 2e-4  # of the noise that is enumerated
_REACH = 5


def noise_of(first: Noise, second: Noise, ratio: float = 1.0) -> NoiseOf:
    """Return the noise of two streams, the second with steps of ``ratio``."""
    terms = NoiseTerm(first, 1.0), NoiseTerm(second, ratio)

    def of(s: float, t: float) -> tuple[NoiseTerm, ...]:
        return tuple(term.scaled(factor) for term, factor in zip(terms, (s, t), strict=True) if factor)

    return of


def p_value(x: Any, y: Any, noise: NoiseOf, tolerance: float = 0.0) -> float:
    cells = np.asarray(x, np.float64), np.asarray(y, np.float64)
    projection = ss.projections.Identity(dim=cells[0].size)
    return proportional(projection, "output", cells, noise, tolerance).p_value


def all_noises(noise: Noise, step: float = 1.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return all noises of two cells, but for few, and their probabilities."""
    steps = np.arange(-_REACH, _REACH + 1, dtype=np.float64)
    log = noise.log_weights(steps)
    assert log is not None
    chances = np.exp(log - log.max())
    chances /= chances.sum()
    return step * np.array([*itertools.product(steps, steps)]), np.outer(chances, chances).ravel()


@pytest.mark.parametrize(("factor", "ratio"), [(0.0, 1.0), (0.5, 1.0), (1.0, 1.0), (3.0, 1.0), (1.0, 2.0), (0.3, 0.5)])
@pytest.mark.parametrize("lost", [2e-3, pytest.param(2e-4, marks=pytest.mark.long)])
def test_no_more_p_values_are_small_than_stated(factor: float, ratio: float, lost: float) -> None:
    """By enumeration of all noises of two cells in few steps but for some, and for every level."""
    law = DiscreteLaplace(Fraction(1, 2))
    y = np.array([30.0, 10.0])
    noises, chances = all_noises(law)
    keep = chances > lost / 20
    noises, chances = noises[keep], chances[keep]
    noise = noise_of(law, law, ratio)
    pairs = [
        (p_value(factor * y + e, y + ratio * f, noise), a * b)
        for (e, a), (f, b) in itertools.product(zip(noises, chances, strict=True), repeat=2)
    ]
    values, weights = np.array(sorted(pairs)).T
    assert weights.sum() > 1 - lost
    assert (np.cumsum(weights) <= values + 1e-9).all()


def test_it_is_at_least_the_tail_of_every_factor() -> None:
    """Against the enumerated tails at 400 factors, for noise of few steps and of unlike sizes."""
    rng = salted_rng(5)
    for scale in (Fraction(1, 2), Fraction(2, 3)):
        law, other = DiscreteLaplace(scale), DiscreteLaplace(Fraction(1, 2))
        (e, a), (f, b) = all_noises(law), all_noises(other)
        noise = noise_of(law, other)
        for _ in range(12):
            y = rng.integers(1, 90, 2)
            x = np.rint(rng.random() * y) + rng.integers(-3, 4, 2)
            found = p_value(x, y, noise)
            nearest = float(x @ y) / float(y @ y)
            places = nearest + np.linspace(-0.05, 0.05, 60)
            for s, t in [(1.0, t) for t in places if 0 <= t <= 1] + [(s, 1.0) for s in np.linspace(0, 1, 20)]:
                longest = ((s * x - t * y) ** 2).sum() * (1 - 1e-12)
                lengths = ((s * e[:, None] - t * f) ** 2).sum(axis=2)
                assert found >= a @ (lengths >= longest) @ b - _LOST


@pytest.mark.parametrize("cells", [2, 16, 300])
def test_under_wide_gaussian_noise_it_is_the_largest_of_chi_squared_laws(cells: int) -> None:
    """The supremum has a closed form there: the least ‖x - c·y‖² / (σ_x² + c²·σ_y²)."""
    rng = salted_rng(cells)
    for second in (2000, 700):
        noise = noise_of(DiscreteGaussian(Fraction(2000) ** 2), DiscreteGaussian(Fraction(second) ** 2))
        for factor in (0.0, 0.37, 1.0, 4.0):
            y = 20_000 * rng.random(cells)
            x = factor * y + 2000 * rng.normal(size=cells)
            y += second * rng.normal(size=cells)
            c = np.concatenate([np.linspace(0, 2, 20_001), np.linspace(2, 60, 20_001)])
            squares = x @ x - 2 * c * (x @ y) + c**2 * (y @ y)
            least = min((squares / (2000.0**2 + c**2 * second**2)).min(), y @ y / second**2)
            exact = chi2.sf(least, cells)
            found = p_value(x, y, noise)
            assert found >= exact * (1 - 1e-3)
            assert found <= 2 * exact + 1e-14 or exact > 0.15


def test_it_is_hardly_too_large_where_noises_differ_in_size() -> None:
    """A coarse search would bound it at up to 60 times the largest of chi-squared laws."""
    rng, cells, sizes = salted_rng(4), 16, (2000, 700)
    noise = noise_of(*(DiscreteGaussian(Fraction(size) ** 2) for size in sizes))
    c = np.linspace(3, 5, 10_001)
    for longer in np.linspace(1.3, 2.1, 16):
        y = 20_000 * rng.random(cells)
        x = 4 * y + longer * sizes[0] * rng.normal(size=cells) * 1.5
        y += sizes[1] * rng.normal(size=cells)
        squares = x @ x - 2 * c * (x @ y) + c**2 * (y @ y)
        exact = chi2.sf((squares / (sizes[0] ** 2 + c**2 * sizes[1] ** 2)).min(), cells)
        assert exact * (1 - 1e-3) <= p_value(x, y, noise) <= 2.5 * exact + 1e-8 or exact > 0.15


@pytest.mark.parametrize("factor", [0.5, 1 / 3, 1.0])
@pytest.mark.parametrize("law", [DiscreteLaplace(Fraction(4)), DiscreteGaussian(Fraction(9))], ids=str)
def test_false_alarms_are_as_rare_as_stated_and_hardly_rarer(law: Noise, factor: float) -> None:
    rng, draws, cells = salted_rng(int(60 * factor)), 400, 256
    places = lattice_of((NoiseTerm(law, 1.0),))
    noise = noise_of(law, law)
    y = 12 * np.rint(200 * rng.random(cells) ** 3)
    found = []
    for _ in range(draws):
        e, f = rng.choice(places.points, (2, cells), p=places.weights / places.weights.sum())
        found.append(p_value(factor * y + e, y + f, noise))
    for level in (0.02, 0.1):
        alarms = int((np.array(found) <= level).sum())
        assert alarms <= binom.ppf(1 - 1e-7, draws, level)
        assert alarms >= binom.ppf(1e-7, draws, level / (2 if factor != 1 / 3 else 4))


def raw(*counts: int) -> ss.Sketch:
    sketch = PROJECTION.sketch()
    sketch.update(list(range(1, 1 + len(counts))), counts)
    return sketch


def month(*counts: int, epsilon: float = 2.0) -> ss.PrivateSketch:
    return raw(*counts).release(epsilon=epsilon, neighbours=SALE)


@pytest.fixture(autouse=True)
def _the_same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = salted_bits(b"proportional")
    monkeypatch.setattr("streamsketch.release.ready.SystemBits", lambda: bits)


PAIRS: dict[str, Any] = {
    "halves": lambda: (month(3000, 400), month(1500, 200)),
    "two noises": lambda: (month(3000, 400, epsilon=0.5), month(1500, 200)),
    "sums": lambda: (month(3000, 400).combine(month(3000, 400), populations="disjoint"), month(3000, 400)),
    "weights": lambda: (month(3000, 400).scaled(Fraction(2, 3)), month(900, 120)),
    "one's own": lambda: (raw(30_000, 4000), month(300, 40)),
    "nothing": lambda: (month(0, 0), month(3000, 400)),
    "nothing of one's own": lambda: (raw(0, 0), month(3000, 400)),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("by", ["profile", "cosine"])
def test_sizes_do_not_count_and_order_neither(name: str, by: Any) -> None:
    a, b = PAIRS[name]()
    found, other = ss.sameness(a, b, by=by), ss.sameness(b, a, by=by)
    assert found.p_value > 1e-4
    assert min(found.p_value, other.p_value) > 0.15 or other.p_value == pytest.approx(found.p_value, rel=0.3)
    assert found.secret == isinstance(a, ss.Sketch)
    changed = ss.sameness(a, month(400, 3000), by=by)
    assert changed.p_value < 1e-6 or name.startswith("nothing")


def test_exact_streams_are_proportional_or_not() -> None:
    assert ss.sameness(raw(3000, 400), raw(1500, 200), by="profile").p_value == 1
    assert ss.sameness(raw(3000, 400), raw(1500, 201), by="profile").p_value == 0
    assert ss.sameness(raw(3000, 400), raw(-1500, -200), by="profile").p_value == 0


def test_a_changed_mix_is_found_as_often_as_stated() -> None:
    """At the distance of the profiles that is said to be found in 80 % of cases, under many maps."""
    found, draws = 0, 100
    for seed in range(draws):
        projection = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=seed)

        def release(mix: Any, projection: Any = projection) -> ss.PrivateSketch:
            sketch = projection.sketch()
            sketch.update(list(range(40)), [round(one) for one in mix])
            return sketch.release(epsilon=2.0, neighbours=SALE)

        rng = salted_rng(seed)
        y = 300 + 200 * rng.random(40)
        visible = ss.sameness(release(y / 2), release(y), by="profile").visible()
        across = rng.normal(size=40)
        across -= y * (across @ y) / (y @ y)
        x = y / 2 + math.tan(2 * math.asin(visible / 2)) * np.linalg.norm(y / 2) * across / np.linalg.norm(across)
        found += ss.sameness(release(x), release(y), by="profile").p_value <= 0.05
    assert binom.ppf(1e-6, draws, 0.65) <= found <= binom.ppf(1 - 1e-6, draws, 0.85)


def test_lines_are_where_alarms_begin() -> None:
    others = [month(1500, 200), month(1500, 215), month(1000, 140), month(0, 40)]
    for other, by in itertools.product(others, ("profile", "cosine")):
        found = ss.sameness(month(3000, 400), other, by=by)  # type: ignore[arg-type]
        around = [found.p_value * share for share in (0.97, 1.03) if 1e-6 < found.p_value * share < 1]
        for level in (0.9, 0.5, 0.05, 1e-3, 1e-5, *around):
            apart, line = found.distance.value, found.line(level)
            assert (apart <= line if by == "cosine" else apart >= line) == (found.p_value <= level)
        if 1e-6 < found.p_value < 0.9:  # what the search adds to a p-value keeps no line where it is
            lines = [found.line(found.p_value * share) for share in (0.99, 0.98, 0.97)]
            assert len({*lines}) == len(lines)
            assert lines == sorted(lines, reverse=by == "cosine")


@pytest.mark.parametrize("tolerance", [0.0, 40.0])
def test_below_the_least_p_value_no_estimate_is_an_alarm(tolerance: float) -> None:
    found = ss.sameness(month(3000, 400), month(400, 3000), tolerance, by="profile")
    assert found.p_value == 1e-9
    assert found.line(1.1e-9) < found.distance.value
    assert found.line(0.9e-9) == math.inf
    assert ss.sameness(month(3000, 400), month(400, 3000), tolerance, by="cosine").line(1e-12) == -math.inf
    series = ss.changes([month(3000, 400), month(400, 3000)], by="profile", level=1e-12)
    assert series.alarms == []
    assert series.table["line"].to_pylist() == [None]
    assert "profile" in str(series)


def test_what_is_within_the_tolerance_of_a_multiple_is_no_alarm() -> None:
    a, b = month(3000, 400), month(1500, 300)
    assert ss.sameness(a, b, by="profile").p_value < 1e-4
    assert ss.sameness(a, b, 110.0, by="profile").p_value > 0.01
    assert ss.sameness(a, month(1500, 600), 110.0, by="profile").p_value < 1e-4
    assert "whatever their size" in str(ss.sameness(a, b, 110.0, by="profile"))


@pytest.mark.rejects(0.05)  # an empty stream is above the noise floor as often
def test_what_has_no_estimate_is_said_without_numbers() -> None:
    found = ss.sameness(month(0), month(3000, 400), by="cosine")
    assert "nan" not in str(found)
    assert found.to_dict()["cosine"] is None
    assert found.visible() == math.inf


def test_shared_noise_and_noise_before_the_map_are_refused() -> None:
    one = month(3000, 400)
    with pytest.raises(DependentNoiseError):
        ss.sameness(one, one.combine(month(3000, 400), populations="disjoint"), by="profile")
    projection = ss.projections.Rademacher(dim=64, sketch_dim=16, seed=7)
    options: dict[str, Any] = {"epsilon": 1, "neighbours": SALE, "noise_place": "input"}
    x, y = (ss.release.release_vector(projection, np.arange(64), **options) for _ in range(2))
    with pytest.raises(InvalidInputError, match="before the map"):
        ss.sameness(x, y, by="profile")
