"""DP-SignRP-RR: F and N₊ against integration and simulation, the chance of a change by enumeration, and δ."""

import dataclasses
import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import streamsketch as ss
from streamsketch import signs
from streamsketch.kernels.hashing import WORD_BITS
from streamsketch.kernels.lattice import lattice_gaussian
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.mechanism import KeySelection, Mechanism
from streamsketch.signs.flip_check import check_flips
from streamsketch.signs.sign_changes import (
    binomial_count,
    chernoff_count,
    neighbourhood_change_bound,
    pair_change_bound,
)
from tests.noise import SALT, salted_rng

pytestmark = pytest.mark.rejects(1e-5)


Floats = NDArray[np.float64]
BITS = 2  # of the lattice: entries of a standard deviation of 4 steps, so that two of them can be enumerated
TABLE = lattice_gaussian(BITS)
ENTRIES = np.arange(-TABLE.last, TABLE.last + 1)
LAW = np.diff(TABLE.thresholds.astype(np.float64), append=2.0**WORD_BITS) / 2.0**WORD_BITS
JOINT = np.outer(LAW, LAW)


def change_chance(x: tuple[int, int], y: tuple[int, int]) -> float:
    """Return P(sign⟨w, x⟩ ≠ sign⟨w, y⟩) of a row of two lattice Gaussians, -, 0 and + being three signs: exactly."""

    def row_signs(vector: tuple[int, int]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.sign(vector[0] * ENTRIES[:, None] + vector[1] * ENTRIES)
        return found

    return float(JOINT[row_signs(x) != row_signs(y)].sum())


def test_the_enumerated_law_is_the_projections() -> None:
    """False rejects: 1e-6."""
    drawn = (
        ss.projections.GaussianProjection(dim=4, sketch_dim=4096, seed=5, fraction_bits=BITS)
        .columns([0, 1, 2, 3])
        .reshape(-1)
    )
    inside = np.abs(ENTRIES) <= 12
    counts = np.array([(drawn == entry).sum() for entry in ENTRIES[inside]])
    expected = drawn.size * LAW[inside]
    rest = [drawn.size - counts.sum()], [drawn.size - expected.sum()]
    observed, wanted = np.concatenate([counts, rest[0]]), np.concatenate([expected, rest[1]])
    assert stats.chisquare(observed, wanted).pvalue > 1e-6
    assert LAW.sum() == pytest.approx(1, abs=1e-12)


# --- F and N₊ -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "ratio"), [(1, 1.0), (1, 0.1), (10, 0.3), (784, 1 / 9.2), (100_000, 0.01)])
def test_f_is_the_papers_integral(dim: int, ratio: float) -> None:
    def integrand(t: mpmath.mpf) -> mpmath.mpf:
        centre = mpmath.erf(t / mpmath.sqrt(2))
        return 2 * dim * centre ** (dim - 1) * mpmath.erf(ratio * t / mpmath.sqrt(2)) * mpmath.npdf(t)

    with mpmath.workdps(20):
        wanted = mpmath.quad(integrand, [0, 0.5, 1, 2, 3, 4, 5, 6, 8, 12])
    assert neighbourhood_change_bound(dim, ratio) == pytest.approx(float(wanted), rel=1e-8)


def test_f_of_one_coordinate_is_an_arc_tangent() -> None:
    for ratio in (0.01, 0.5, 1.0):
        assert neighbourhood_change_bound(1, ratio) == pytest.approx(2 / math.pi * math.atan(ratio), rel=1e-9)


@pytest.mark.parametrize("beta", [1.0, 0.1])
@pytest.mark.parametrize("dim", [10, 100, 1000])
def test_the_papers_figure_8(dim: int, beta: float) -> None:
    """P₊ for data uniform on [-1, 1]: F holds for Gaussian rows and is close, (10) is close for Rademacher rows.

    F is exceeded by 1 to 5 % for some of the vectors of ten coordinates with β = 1, as ⟨w, x⟩ is not independent of its
    largest entries: of the vector of runs without a salt it holds.

    False rejects: 6 cases at 1e-6, the figure's own closeness aside.
    """
    rng = salted_rng(dim)
    vector, samples = rng.uniform(-1, 1, dim), 1_500_000 // dim + 15_000
    norm = float(np.linalg.norm(vector))
    gaussian, rademacher = np.zeros(2), np.zeros(2)
    for rows in itertools.repeat(1 + 4_000_000 // dim // 4, 4):
        part = rng.standard_normal((min(rows, samples), dim))
        near = beta * np.abs(part).max(axis=1) >= np.abs(part @ vector)
        gaussian += near.sum(), near.size
        near = beta >= np.abs(np.sign(part) @ vector)
        rademacher += near.sum(), near.size
    wanted = neighbourhood_change_bound(dim, beta / norm)
    found = gaussian[0] / gaussian[1]
    most = min(1.06 * wanted, 1.0) if SALT and (dim, beta) == (10, 1.0) else wanted
    assert stats.binom(int(gaussian[1]), most).sf(gaussian[0] - 1) > 1e-6
    assert found > 0.9 * wanted - 5 * math.sqrt(wanted / gaussian[1])
    clt = 2 * stats.norm.cdf(beta / norm) - 1  # accurate, the paper says, unless p is very small
    assert dim == 10 or abs(rademacher[0] / rademacher[1] - clt) < 0.05 * clt + 5 * math.sqrt(clt / rademacher[1])
    assert rademacher[0] / rademacher[1] < found + 5 * math.sqrt(wanted / gaussian[1])


def test_equation_10_is_no_bound() -> None:
    """Sixteen ones and β = 0.1: a Rademacher sum is 0 in 19.6 % of the draws, (10) says 2.0 %."""
    chance = math.comb(16, 8) / 2**16
    assert chance == pytest.approx(0.196, abs=1e-3)
    assert 2 * stats.norm.cdf(0.1 / 4) - 1 == pytest.approx(0.020, abs=1e-3)


def test_the_proof_of_lemma_4_2_multiplies_dependent_events() -> None:
    """P(max(|X₁|, |X₂|) < |Y|) is 1/3 for three independent standard normals, not the product 1/4 of the proof.

    The formula of the lemma is right for that case: 1 - F = 1/3 at r = 1. Where |Y| is |X₁| itself it is no bound for
    ≥, which Proposition 4.4 counts: u = (1, 0) and β = 1 give P₊ = 1.
    """
    rng = salted_rng(1)
    x, y = np.abs(rng.standard_normal((400_000, 2))).max(axis=1), np.abs(rng.standard_normal(400_000))
    assert abs((x < y).mean() - 1 / 3) < 5 * math.sqrt(2 / 9 / x.size)
    assert neighbourhood_change_bound(2, 1.0) == pytest.approx(2 / 3, rel=1e-9)
    w = rng.standard_normal((1000, 2))
    assert (np.abs(w).max(axis=1) >= np.abs(w @ [1, 0])).all()


@pytest.mark.parametrize(("cells", "chance", "delta"), [(512, 0.29, 1e-6), (100, 0.01, 1e-9), (7, 0.9, 0.01)])
def test_counts_keep_their_guarantee(cells: int, chance: float, delta: float) -> None:
    law = stats.binom(cells, chance)
    exact, chernoff = binomial_count(cells, chance, delta), chernoff_count(cells, chance, delta)
    assert law.sf(exact) <= delta
    assert exact == 1 or law.sf(exact - 1) > delta * (1 - 1e-5)
    assert law.sf(chernoff) <= delta
    assert exact <= chernoff <= cells
    surprise, mean = math.log(1 / delta), chance * cells
    formula = mean + (surprise + math.sqrt(surprise**2 + 8 * mean * surprise)) / 2
    assert chernoff == min(cells, math.ceil(formula))


def test_n_plus_holds_in_simulation() -> None:
    """How many of 256 Gaussian rows some neighbour could turn, 4000 times, at δ = 0.01 (false rejects 1e-6)."""
    dim, cells, repeats, delta = 30, 256, 4000, 0.01
    rng = salted_rng(2)
    vector = rng.uniform(-1, 1, dim)
    ratio = 1 / float(np.linalg.norm(vector))
    allowed = chernoff_count(cells, neighbourhood_change_bound(dim, ratio), delta)
    above = 0
    for _ in range(repeats // 100):
        rows = rng.standard_normal((100, cells, dim))
        near = np.abs(rows).max(axis=2) >= np.abs(rows @ vector)
        above += int((near.sum(axis=1) > allowed).sum())
    assert stats.binom(repeats, delta).sf(above - 1) > 1e-6


# --- two neighbours on the lattice ------------------------------------------------------------------------------


def neighbours_in_a_box(size: int, steps: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    vectors = list(itertools.product(range(-size, size + 1), repeat=2))
    return [(x, y) for x in vectors for y in vectors if x < y and 0 < abs(x[0] - y[0]) + abs(x[1] - y[1]) <= steps]


@pytest.mark.parametrize(("norm", "steps"), [(2, 2), (4, 1), (4, 3), (6, 2)])
def test_the_bound_holds_for_all_neighbours_of_a_box(norm: int, steps: int) -> None:
    bound = pair_change_bound(2, Fraction(steps, norm), BITS, TABLE.largest)
    worst = max(
        change_chance(x, y) for x, y in neighbours_in_a_box(7, steps) if min(math.hypot(*x), math.hypot(*y)) >= norm
    )
    assert worst <= bound
    assert worst > 0.15 * bound  # coarse entries cost much; fine ones, as below, little


def test_with_fine_entries_the_bound_is_the_angle() -> None:
    for ratio in (Fraction(1), Fraction(1, 3), Fraction(10, 92)):
        angle = 2 * math.asin(float(ratio) / 2)
        assert angle / math.pi < pair_change_bound(784, ratio, 12, 40_000) < 1.03 * angle / math.pi + 2e-4


@pytest.mark.parametrize("ratio", [0.05, 0.3, 1.0])
def test_gaussian_rows_change_by_the_angle(ratio: float) -> None:
    """False rejects: 3 cases at 1e-6."""
    rng = salted_rng(7)
    angle = 2 * math.asin(ratio / 2)
    rows = rng.standard_normal((400_000, 2))
    changed = int(((rows[:, 0] > 0) != (rows @ [math.cos(angle), math.sin(angle)] > 0)).sum())
    bound = pair_change_bound(2, Fraction(ratio), 12, 40_000)
    assert stats.binomtest(changed, rows.shape[0], angle / math.pi).pvalue > 1e-6
    assert changed / rows.shape[0] < bound + 5 * math.sqrt(bound / rows.shape[0])


def test_on_the_lattice_the_papers_f_is_too_small() -> None:
    """A vector (1, 1000) with a neighbour (-1, 1000): entries are 0 in 10 % of the rows, whatever the norm.

    F is 0.2 %, so N₊ of 1000 cells would be 22 where 90 signs change on average, and more than 22 always.
    """
    chance = change_chance((1, 1000), (-1, 1000))
    paper, ours = neighbourhood_change_bound(2, 2 / 1000), pair_change_bound(2, Fraction(2, 1000), BITS, TABLE.largest)
    assert paper < 0.003
    assert 0.08 < chance <= ours
    assert stats.binom(1000, chance).cdf(chernoff_count(1000, paper, 1e-6)) < 1e-15
    assert stats.binom(1000, chance).sf(binomial_count(1000, ours, 1e-6)) <= 1e-6


# --- δ of whole releases ------------------------------------------------------------------------------------------


def hockey_stick(cells: int, rate: float, epsilon: float, chances: tuple[float, float]) -> float:
    """Return the exact δ(ε) of ``cells`` published signs with the seed: ``chances`` of opposite and of half changes.

    Each cell's signs are equal, opposite (odds e^{rate} both ways) or one of them 0 (a coin against kept signs), which
    the loss in units of a fine grid, rounded up, turns into a convolution.
    """
    opposite, half = chances
    kept = math.exp(rate) / (1 + math.exp(rate))
    losses = {0.0: 1 - opposite - half}
    for loss, chance in (
        (rate, opposite * kept),
        (-rate, opposite * (1 - kept)),
        (math.log(2 * kept), half * kept),
        (math.log(2 * (1 - kept)), half * (1 - kept)),
    ):
        losses[loss] = losses.get(loss, 0.0) + chance
    step = rate / 50
    reach = 50 * cells
    one = np.zeros(101)
    for loss, chance in losses.items():
        one[math.ceil(loss / step - 1e-9) + 50] += chance
    law = np.ones(1)
    for _ in range(cells):
        law = np.convolve(law, one)
    values = step * (np.arange(law.size) - reach)
    return float((law * -np.expm1(np.minimum(epsilon - values, 0)))[values > epsilon].sum())


def kinds_of_change(x: tuple[int, int], y: tuple[int, int]) -> tuple[float, float]:
    """Return the chances of opposite signs, and of one sign that is 0."""
    one, other = (np.sign(vector[0] * ENTRIES[:, None] + vector[1] * ENTRIES) for vector in (x, y))
    return float(JOINT[one * other < 0].sum()), float(JOINT[(one != other) & (one * other == 0)].sum())


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_delta_is_kept_by_every_pair_and_broken_variants_are_caught(epsilon: float) -> None:
    norm, steps, delta, cells = 6, 2, 1e-3, 48
    projection = ss.projections.GaussianProjection(dim=2, sketch_dim=cells, seed=1, independence=4, fraction_bits=BITS)
    asked = signs.DPSignRPRR(epsilon=epsilon, delta=delta, neighbours=ss.L1(steps), norm_bound=norm)
    rate = float(asked.law(projection).rate)
    inside = [
        kinds_of_change(x, y) for x, y in neighbours_in_a_box(7, steps) if min(math.hypot(*x), math.hypot(*y)) >= norm
    ]
    most = sorted(set(inside), key=sum)[-12:]
    assert 0 < max(hockey_stick(cells, rate, epsilon, chances) for chances in most) <= delta
    count = asked.count(projection)
    assert all(stats.binom(cells, sum(chances)).sf(count) <= delta for chances in most)
    # with all of ε for each sign, or vectors shorter than the bound, δ is exceeded
    assert max(hockey_stick(cells, epsilon, epsilon, chances) for chances in most) > 10 * delta
    assert stats.binom(cells, sum(kinds_of_change((1, 0), (-1, 0)))).sf(count) > 10 * delta


# --- the mechanism ------------------------------------------------------------------------------------------------


def mechanism(**changes: object) -> signs.DPSignRPRR:
    asked = signs.DPSignRPRR(epsilon=8, delta=1e-6, neighbours=ss.OneCoordinate(1), norm_bound=30)
    return dataclasses.replace(asked, **changes)  # type: ignore[arg-type]


PROJECTION = ss.projections.GaussianProjection(dim=64, sketch_dim=256, seed=1, independence=64)


def test_every_sign_gets_its_share_of_epsilon() -> None:
    count = mechanism().count(PROJECTION)
    assert mechanism().law(PROJECTION).rate == pytest.approx(8 / count, rel=1e-6)
    assert mechanism(counting="paper").count(PROJECTION) > 2 * count
    shared = mechanism(neighbours=ss.OneCoordinate(1, max_keys=2))
    assert shared.count(PROJECTION) >= count
    assert shared.law(PROJECTION).rate == pytest.approx(4 / shared.count(PROJECTION), rel=1e-6)
    guarantee = mechanism().guarantee(PROJECTION)
    assert (guarantee.epsilon, guarantee.delta) == (8.0, 1e-6)
    assert "for norms of at least 30" in str(guarantee.mechanism)
    assert "every vector published by DP-SignRP-RR has a Euclidean norm of at least 30" in guarantee.conditions


def test_cells_within_63_bits_are_a_condition_that_first_releases_do_not_state() -> None:
    sketch = PROJECTION.sketch()
    sketch.update([3], [40])
    released = mechanism().release(sketch)
    said = "no cell of a vector published by DP-SignRP-RR exceeds 63 bits"
    assert said in released.guarantee.conditions
    assert released.explain().check.verdict == "enough"
    others = [condition for condition in released.guarantee.conditions if condition != said]
    for kept, verdict in ((others, "enough"), ([said], "too little")):
        guarantee = dataclasses.replace(released.guarantee, conditions=kept)
        assert check_flips(guarantee, PROJECTION, released.law).verdict == verdict


@pytest.mark.parametrize(("of_signs", "verdict"), [(8.0, "enough"), (8.5, "too little")])
def test_what_a_choice_of_keys_spent_is_not_spent_on_signs_as_well(of_signs: float, verdict: str) -> None:
    asked = mechanism(epsilon=of_signs)
    own = asked.guarantee(PROJECTION)
    steps = [*own.mechanism.steps, KeySelection(Budget(0.5, 1e-9))]
    guarantee = dataclasses.replace(own, epsilon=8.5, delta=1e-6 + 1e-9, mechanism=Mechanism(steps))
    assert check_flips(guarantee, PROJECTION, asked.law(PROJECTION)).verdict == verdict


@pytest.mark.parametrize("delta", [5e-324, 1e-301, 1e-300])
@pytest.mark.parametrize("keys", [1, 7, 10**9])
def test_of_shares_of_delta_without_digits_every_sign_counts(delta: float, keys: int) -> None:
    """Even of one that no float holds: the share of 5e-324 of 7 keys is 0."""
    for counting in ("pairs", "paper"):
        asked = mechanism(delta=delta, counting=counting, neighbours=ss.OneCoordinate(1, max_keys=keys))
        count = asked.count(PROJECTION)
        assert (count == PROJECTION.sketch_dim) == (delta / keys < 1e-300 or counting == "paper")
        assert count >= mechanism(delta=1e-290, counting=counting).count(PROJECTION)


@pytest.mark.parametrize(
    ("changes", "projection", "message"),
    [
        (
            {},
            ss.projections.Rademacher(dim=64, sketch_dim=8, seed=1),
            "proven for a Gaussian projection, got Rademacher",
        ),
        ({}, PROJECTION.replace(independence=63), "independence=63 and dim=64"),
        ({"norm_bound": 1}, PROJECTION.replace(resolution=2), "neighbours may differ by 2, more than norm_bound=1"),
    ],
)
def test_projections_without_the_theorem_are_refused(
    changes: dict[str, object], projection: ss.projections.Projection, message: str
) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        mechanism(**changes).law(projection)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"delta": 0.0}, "needs delta > 0"),
        ({"delta": 1.0}, "delta must be"),
        ({"norm_bound": 10**400}, "ratio of 63-bit integers, got an integer of 1329 bits"),
        ({"norm_bound": 1e300}, r"ratio of 63-bit integers, got 1e\+300"),
        ({"norm_bound": "0.9"}, "at least the neighbours' bound, got 9/10 and 1"),
        ({"counting": "guess"}, "'pairs' or 'paper'"),
    ],
)
def test_parameters_out_of_range_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        mechanism(**changes)
