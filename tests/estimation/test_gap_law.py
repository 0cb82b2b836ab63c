"""The law of the squared distance of two sketches' cells, against enumeration and laws known in closed form."""

import dataclasses
import itertools
import math
import weakref
from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, ncx2, norm

import streamsketch as ss
from streamsketch.errors import InvalidInputError
from streamsketch.estimation import GapLaw, NoiseTerm
from streamsketch.estimation.noise_law import lattice_of
from streamsketch.estimation.signal_squares import of_blocks, of_entries, of_even
from streamsketch.estimation.square_sums import Squares
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.mechanism import NoisePlace
from streamsketch.privacy.noise import Noise, NoiseMoments
from streamsketch.projections import Identity, Projection, Rademacher
from tests.crossed import crossed
from tests.noise import salted_rng

pytestmark = pytest.mark.rejects(0.02)


Law = Mapping[float, float]

LAPLACE, GAUSSIAN = DiscreteLaplace(Fraction(1, 2)), DiscreteGaussian(Fraction(3, 2))
WIDE = NoiseTerm(DiscreteGaussian(Fraction(10**6)), 1e-3)  # of variance 1


def count_sketch(cells: int) -> Projection:
    return ss.SJLT(sketch_dim=cells, sparsity=1, seed=7)


def law_of(noise: Noise, step: float) -> Law:
    places = np.arange(-22.0, 23)
    weights = np.exp(np.asarray(noise.log_weights(places)))
    return dict(zip((places * step).tolist(), (weights / weights.sum()).tolist(), strict=True))


def total(*laws: Law) -> Law:
    found = {0.0: 1.0}
    for law in laws:
        longer: dict[float, float] = defaultdict(float)
        for (x, p), (y, q) in itertools.product(found.items(), law.items()):
            longer[round(x + y, 9)] += p * q
        found = {x: p for x, p in longer.items() if p > 1e-18}
    return found


def squares(law: Law, shift: float = 0.0) -> Law:
    found: dict[float, float] = defaultdict(float)
    for x, p in law.items():
        found[round((x + shift) ** 2, 9)] += p
    return found


def tail(law: Law, value: float) -> float:
    return math.fsum(p for x, p in law.items() if x >= value - 1e-7)


def test_squares_on_a_grid_are_never_below_0() -> None:
    """Where squares are no whole steps of a grid, the least of two cells is all that is at 0."""
    terms = [NoiseTerm(DiscreteGaussian(Fraction(size**2)), step / size) for size, step in ((100, 1.0), (133, 0.8))]
    law, variance = GapLaw(Identity(dim=2), tuple(terms)), 1 + 0.8**2
    (squares_of,) = [each for each in law.laws if isinstance(each, Squares)]
    assert not squares_of.exact
    for value in (1e-12, *(squares_of.step * np.array([0.1, 0.25, 0.5, 0.75, 1, 2, 7]))):
        exact = math.exp(-value / (2 * variance))
        found = squares_of.tail(value), squares_of.rough_tail(value), float(squares_of.rough_tails(np.array(value)))
        assert found == pytest.approx((exact,) * 3, abs=1e-3)
    for miss in (1e-3, 1e-2):
        assert squares_of.tail(squares_of.line(1 - miss)) == pytest.approx(1 - miss, abs=1e-3)


@pytest.mark.parametrize(
    ("first", "second", "step"), [(LAPLACE, LAPLACE, 1.0), (LAPLACE, GAUSSIAN, 0.5), (GAUSSIAN, GAUSSIAN, 1 / 3)]
)
def test_the_law_of_pure_noise_is_that_of_enumeration_far_out(first: Noise, second: Noise, step: float) -> None:
    cell = squares(total(law_of(first, 1.0), law_of(second, step)))
    exact = total(cell, cell)
    law = GapLaw(count_sketch(2), (NoiseTerm(first, 1.0), NoiseTerm(second, step)))
    values = [value for value in sorted(exact) if tail(exact, value) > 1e-12]
    for value in values[:: 1 + len(values) // 20]:
        assert law.p_value(value) == pytest.approx(tail(exact, value), rel=1e-3), value
    for level in (0.2, 0.05, 1e-3):
        assert tail(exact, law.line(level)) <= level < tail(exact, law.line(level) - 1.001 * min(step, 1) ** 2)


@pytest.mark.parametrize("cells", [2, 8, 64, 1024])
def test_under_wide_gaussian_noise_it_is_chi_squared(cells: int) -> None:
    law = GapLaw(count_sketch(cells), (WIDE, WIDE))
    for chance in (0.9, 0.05, 1e-6, 1e-12):
        assert law.p_value(2 * chi2.isf(chance, cells)) == pytest.approx(chance, rel=1e-3)
    assert law.line(0.01) == pytest.approx(2 * chi2.isf(0.01, cells), rel=1e-3)
    assert law.p_value(1e9) == 1e-15


def test_a_difference_adds_its_square_to_normal_cells() -> None:
    law = GapLaw(count_sketch(64), (WIDE,), tolerance=16.0)  # of variance 1 + 16²/64 a cell, for many items
    assert law.power(16.0, 0.01) == pytest.approx(chi2.sf(law.line(0.01) / 5, 64), rel=1e-3)
    assert GapLaw(count_sketch(64), tolerance=2.0)._at(2.0).tail(6.0) == pytest.approx(chi2.sf(96, 64), rel=1e-9)


@pytest.mark.parametrize(("blocks", "items"), [(1, 1), (1, 3), (2, 2), (4, 1)])
def test_few_items_collide_as_enumerated(blocks: int, items: int) -> None:
    block: dict[float, float] = defaultdict(float)
    buckets = 8 // blocks
    for places in itertools.product(range(buckets), repeat=items):
        for signs in itertools.product((-1, 1), repeat=items):
            signals = np.zeros(buckets)
            np.add.at(signals, list(places), signs)
            block[float(signals @ signals)] += (2 * buckets) ** -items
    exact = total(*[block] * blocks)  # of ‖S z‖² · items · blocks / ‖z‖²
    law = GapLaw(ss.SJLT(sketch_dim=8, sparsity=blocks, seed=7), tolerance=3.0)._of(3.0, items)
    for value in exact:
        assert law.tail(value * 9 / items / blocks) == pytest.approx(tail(exact, value), rel=1e-6)


def test_noise_is_added_to_what_collides() -> None:
    noise, size = law_of(GAUSSIAN, 1.0), 1.5 / math.sqrt(2)
    none, one, two = (squares(noise, shift) for shift in (0.0, size, 2 * size))
    cells = [total(one, one), total(none, none), total(two, none)]  # two items apart, or in one cell
    law = GapLaw(count_sketch(2), (NoiseTerm(GAUSSIAN, 1.0),), tolerance=1.5)._of(1.5, 2)
    for value in (2.1, 7.1, 15.1, 30.1, 60.1):
        exact = [tail(cell, value) for cell in cells]
        assert law.tail(value) == pytest.approx(exact[0] / 2 + exact[1] / 4 + exact[2] / 4, rel=0.01)


def test_two_items_without_noise_collide_in_one_of_k_cases() -> None:
    law = GapLaw(count_sketch(128), tolerance=1.0)
    assert law.p_value(1.0) > 0.5
    assert law.p_value(1.9) == pytest.approx(1 / 256, rel=0.7)  # both signs alike; normal cells have 1e-9
    assert law.p_value(0.0) == 1


def test_without_noise_or_difference_only_equal_cells_are_likely() -> None:
    law = GapLaw(count_sketch(8))
    assert (law.p_value(0.0), law.p_value(1e-9), law.visible()) == (1.0, 0.0, 0.0)
    exact = GapLaw(Identity(dim=4), tolerance=2.0)
    assert (exact.p_value(4.0), exact.p_value(4.1)) == (1.0, 0.0)


def test_noise_before_a_map_is_stretched_with_its_vector() -> None:
    law = GapLaw(Rademacher(dim=16, sketch_dim=8, seed=7), (WIDE,), "input")
    factors = np.linspace(1e-4, 12, 100_000)
    for chance in (0.5, 0.05, 1e-4, 1e-9):
        value = law.line(chance)  # of χ²_16 · χ²_8 / 8
        exact = np.trapezoid(chi2.sf(value / factors, 16) * chi2.pdf(8 * factors, 8) * 8, factors)
        assert chance == pytest.approx(float(exact), rel=0.01)
        assert law.p_value(value) == pytest.approx(chance, rel=1e-3)


def test_unknown_noise_has_the_law_of_sums_of_laplace_noises_with_its_cumulants() -> None:
    two = NoiseTerm(DiscreteLaplace(Fraction(300)), 1.0, Fraction(2))
    known, stated = (GapLaw(count_sketch(16), (term,)) for term in (two, NoiseTerm(two.moments, 1.0)))
    for level in (0.05, 1e-6):
        assert stated.p_value(known.line(level)) == pytest.approx(level, rel=0.01)
    with pytest.raises(InvalidInputError, match="finite"):
        known.power(math.inf)


def test_drift_along_the_difference_is_mixed_over() -> None:
    normal = NoiseTerm(NoiseMoments(4.0), 1.0)
    steps = NoiseTerm(DiscreteGaussian(Fraction(40**2)), 1 / 40)  # not so wide that it counts as normal
    law = GapLaw(Identity(dim=8), (steps,), drift=(normal,))
    # a normal multiple of a fixed direction beside χ²_8: one cell of variance 5
    value = 30.0
    roots = np.linspace(0, 9, 20_001)
    exact = np.trapezoid(2 * norm.pdf(roots) * chi2.sf(value - 5 * roots**2, 7), roots)
    assert law._at(0.0).tail(value) == pytest.approx(float(exact), rel=0.02)
    few = GapLaw(count_sketch(8), (WIDE,), tolerance=5.0, drift=(normal,))
    assert few.p_value(90) > GapLaw(count_sketch(8), (WIDE,), tolerance=5.0).p_value(90) > few.p_value(900) > 0


@pytest.mark.parametrize("cells", [1, 2, 9])
@pytest.mark.parametrize("tolerance", [0.0, 3.0])
def test_under_wide_gaussian_noise_the_identity_has_the_law_of_normal_vectors(cells: int, tolerance: float) -> None:
    law = GapLaw(Identity(dim=cells), (WIDE,), "output", tolerance)
    drifting = dataclasses.replace(law, drift=(NoiseTerm(NoiseMoments(4.0), 1.0),))
    for value in (0.5 * cells, 2.0 * cells + 10, 4.0 * cells + 50):
        assert law.p_value(value) == pytest.approx(ncx2.sf(value, cells, tolerance**2), rel=1e-3)
        # one cell of variance 5
        roots = (tolerance + math.sqrt(5) * np.linspace(-9, 9, 20_001)) ** 2
        tails = chi2.sf(value - roots, cells - 1) if cells > 1 else roots >= value
        expected = np.trapezoid(norm.pdf(np.linspace(-9, 9, 20_001)) * tails, np.linspace(-9, 9, 20_001))
        assert drifting.p_value(value) == pytest.approx(float(expected), rel=5e-3)
    assert law.power(6.0, 0.01) == pytest.approx(ncx2.sf(law.line(0.01), cells, 36), rel=1e-3)
    mean, deviation = drifting._at(tolerance).moments
    assert mean == pytest.approx(cells + 4 + tolerance**2)
    assert deviation**2 == pytest.approx(2 * (cells - 1) + 50 + 20 * tolerance**2)


def test_drift_with_a_long_tail_is_mixed_over_in_fine_classes() -> None:
    """Averages of few units under Laplace noise: coarse classes gave a p-value of half the truth.

    The share of 400,000 draws has a relative standard error of 0.02.
    """
    cells, draws, random = 64, 400_000, salted_rng(3)
    wide = NoiseTerm(DiscreteLaplace(Fraction(70_000)), 9.3e-7)
    law = GapLaw(Rademacher(dim=1000, sketch_dim=cells, seed=1), (WIDE.scaled(0.013),), "output", 0.0, (wide,))
    value = 0.107
    drifts = random.laplace(size=draws) * 70_000 * 9.3e-7
    # of normal cells: a distance d moves the sum of their squares to χ² of k degrees, (0.013² + d²/k) times as large
    share = float(np.mean(chi2.sf(value / (0.013**2 + drifts**2 / cells), cells)))
    assert math.isclose(law.p_value(value), share, rel_tol=0.05)


@pytest.mark.parametrize("distance", [0.0, 10.0])
def test_the_distance_that_is_visible_is_found_with_that_power(distance: float) -> None:
    law = GapLaw(count_sketch(256), (WIDE, WIDE), tolerance=distance)
    assert law.power(law.visible(0.8, 0.01), 0.01) == pytest.approx(0.8, abs=0.002)
    assert law.power(distance, 0.01) <= 0.0101


def test_a_long_series_does_not_keep_all_of_its_laws() -> None:
    series = [GapLaw(count_sketch(4), tolerance=float(tolerance)) for tolerance in range(1, 41)]
    before, laws = [], list[weakref.ref[object]]()
    for law in series:
        before.append(law.p_value(9.0))
        laws += map(weakref.ref, law.laws)
    assert 0 < sum(each() is not None for each in laws) < len(laws)
    assert [law.p_value(9.0) for law in series] == before


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(40)])
def test_lines_of_small_levels_are_safe_and_close(scale: Fraction) -> None:
    """They are read from the law as it is down to 1e-9, and there is none below the least p-value."""
    law = GapLaw(count_sketch(64), (NoiseTerm(DiscreteLaplace(scale), 1.0),) * 2)
    for level in (1e-6, 1e-7, 1e-8, 1.01e-9, 0.99e-9, 1e-12):
        assert law.p_value(law.line(level) * (1 + 1e-9)) <= level * (1 + 1e-4)
        assert law.p_value(law.line(level) * 0.98) > level
    assert law.line(1e-16) == math.inf
    assert law.visible(level=1e-16) == math.inf


@crossed(
    noise=[DiscreteLaplace(Fraction(1, 4)), DiscreteGaussian(Fraction(1, 2))],
    step=[97 / 89, 1001 / 1000, 97 / 8900, 1 / 64],
    cells=[1, 2],
)
def test_noise_of_few_steps_on_two_grids_raises_no_more_false_alarms_than_stated(
    noise: Noise, step: float, cells: int
) -> None:
    """Nor are p-values larger than those of values a little less: such noise has values close together, in lumps."""
    cell = {x: p for x, p in squares(total(law_of(noise, 1.0), law_of(noise, step))).items() if p > 1e-5}
    exact = {x: p for x, p in total(*[cell] * cells).items() if p > 1e-4}
    law = GapLaw(Identity(dim=cells), (NoiseTerm(noise, 1.0), NoiseTerm(noise, step)))
    for value in exact:
        stated = law.p_value(value - 1e-8)
        assert tail(exact, value) <= stated <= tail(exact, 0.99 * value - 1e-3) + 5e-3
    assert len(exact) > 4


@pytest.mark.parametrize("tolerance", [0.3, 1.0, 100.0])
def test_a_difference_within_the_tolerance_raises_no_more_either(tolerance: float) -> None:
    noise, step = DiscreteLaplace(Fraction(1, 4)), 97 / 89
    exact = squares(total(law_of(noise, 1.0), law_of(noise, step)), tolerance)
    law = GapLaw(Identity(dim=1), (NoiseTerm(noise, 1.0), NoiseTerm(noise, step)), tolerance=tolerance)
    likely = [value for value, chance in exact.items() if chance > 1e-4]
    assert all(tail(exact, value) <= law.p_value(value - 1e-7) + 1e-9 for value in likely)


def _collisions(items: int, cells: int) -> Mapping[int, float]:
    """Return the law of the squared norm of items of size 1, each with a random sign in one of the cells."""
    found: dict[int, float] = defaultdict(float)
    for places in itertools.product(range(items), repeat=items):  # a cell is named by the first item in it
        if any(place > number or places[place] != place for number, place in enumerate(places)):
            continue
        apart = len({*places})
        chance = math.prod((cells - i) / cells for i in range(apart)) / cells ** (items - apart)
        for signs in itertools.product((1, -1), repeat=items):
            sums: dict[int, int] = defaultdict(int)
            for place, sign in zip(places, signs, strict=True):
                sums[place] += sign
            found[sum(one**2 for one in sums.values())] += chance / 2**items
    return found


@pytest.mark.parametrize("tolerance", [30.0, 100.0, 300.0, 1000.0])
@pytest.mark.parametrize("cells", [8, 64])
def test_tails_of_items_that_meet_in_cells_are_exact_far_beyond_the_noise(cells: int, tolerance: float) -> None:
    """At the squares that meetings make, where tails fall by as much as the noise is wide."""
    law = GapLaw(count_sketch(cells), (WIDE,), tolerance=tolerance)
    laws = dict(zip((1, 2, 3), law.laws[1:4], strict=True))  # behind that of many items
    for items in (1, 2, 3):
        met = _collisions(items, cells)
        assert sum(met.values()) == pytest.approx(1)
        for square, z in itertools.product(sorted(met.keys() - {0}), (-1, 0, 1, 2, 3)):
            value = (tolerance * math.sqrt(square / items) + z) ** 2
            chances = {one: ncx2.sf(value, cells, max(tolerance**2 * one / items, 1e-12)) for one in met}
            expected = sum(chance * chances[one] for one, chance in met.items())
            if expected > 1e-9:
                assert laws[items].tail(value) == pytest.approx(expected, rel=0.03), (items, square, z)
                assert law.p_value(value) >= 0.97 * expected


@pytest.mark.parametrize("tolerance", [1e4, 1e6, 1e8])
@pytest.mark.parametrize("cells", [1, 2, 64])
def test_a_tolerance_far_beyond_the_noise_leaves_the_law_of_the_noise(cells: int, tolerance: float) -> None:
    """T is then ``tolerance``² + 2·``tolerance``·Z, Z normal: no grid from 0 on has room for both."""
    noise = lattice_of((WIDE,))
    for law in (of_even(noise, cells, tolerance), of_entries(noise, cells, 1, tolerance)):
        for z in (-2.0, 0.0, 1.0, 2.0, 3.0, 5.0):
            value = (tolerance + z) ** 2 + (cells - 1)
            assert law.tail(value) == pytest.approx(norm.sf(z), rel=0.03)


@pytest.mark.parametrize("items", [1, 2, 5])
def test_items_that_meet_far_beyond_the_noise_have_the_lengths_of_their_meetings(items: int) -> None:
    noise, size = lattice_of((WIDE,)), 1e6
    law = of_blocks(noise, 64, items, 1, size * math.sqrt(items))
    met = _collisions(items, 64)
    for square in sorted(met.keys() - {0}):
        for z in (-1.0, 0.0, 2.0):
            value = (size * math.sqrt(square) + z) ** 2 + 63
            expected = sum(chance for one, chance in met.items() if one > square) + met[square] * norm.sf(z)
            if expected > 1e-9:
                assert law.tail(value) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("place", ["output", "input"])
@pytest.mark.parametrize("tolerance", [0.0, 1.0, 1e4])
def test_no_difference_at_all_has_a_p_value_of_1(place: NoisePlace, tolerance: float) -> None:
    for projection in (Identity(dim=1), Identity(dim=3), count_sketch(8)):
        for noise in (DiscreteLaplace(Fraction(4)), DiscreteLaplace(Fraction(400)), DiscreteGaussian(Fraction(10**6))):
            law = GapLaw(projection, (NoiseTerm(noise, projection.cell_unit),), place, tolerance)
            assert law.p_value(0.0) == 1
            assert law.p_value(1e-12) > 0.99


def test_a_small_square_of_one_cell_has_the_p_value_of_its_root() -> None:
    law, ratio = GapLaw(Identity(dim=1), (NoiseTerm(DiscreteLaplace(Fraction(400)), 1.0),)), math.exp(-1 / 400)
    for size in (1, 5, 20, 100, 400, 2000, 9000):
        assert law.p_value((size - 0.5) ** 2) == pytest.approx(2 * ratio**size / (1 + ratio), rel=3e-3)


@pytest.mark.parametrize("level", [0.9, 0.99, 0.999, 0.9999])
@pytest.mark.parametrize("cells", [1, 2, 4])
def test_a_line_is_no_less_than_0(cells: int, level: float) -> None:
    noise = NoiseTerm(DiscreteLaplace(Fraction(1000)), 1.0)
    law = GapLaw(ss.SJLT(sketch_dim=cells, sparsity=1, seed=7), (noise, noise))
    assert law.line(level) >= 0
