"""The privacy loss of published signs, enumerated: every neighbouring pair in a box, every output, exact chances.

Levels and rates are the library's own, out of exact cells of real projections; the chance of a flip is the law's, to
60 digits, which `tests/privacy/test_flips.py` and the last test here hold the sampler to. Signs are independent given
the cells, so the largest loss over all outputs is the sum of the cells' largest losses.
"""

import functools
import itertools
import math
from collections.abc import Callable, Collection
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import streamsketch as ss
from streamsketch import signs
from streamsketch.core.numbers import Ints
from streamsketch.privacy import Neighbours
from streamsketch.release.ready import ReadyRows
from streamsketch.signs.publishers import SignMechanism
from streamsketch.signs.sign_changes import FlipLaw, cell_steps
from tests.audit.record import judged
from tests.noise import salted_bits
from tests.oracles import naive_signs

pytestmark = pytest.mark.rejects(1e-7)


ROUNDING = mpmath.mpf(10) ** -50
BOX = np.array(list(itertools.product(range(-3, 4), repeat=3)))

Cells = tuple[int, ...]
LevelsOf = Callable[[Ints], Ints]

MAPS: list[ss.projections.Projection] = [
    ss.projections.Rademacher(dim=3, sketch_dim=4, seed=1),
    ss.SJLT(dim=3, sketch_dim=4, sparsity=2, seed=3),
    ss.CountSketch(dim=3, sketch_dim=4, seed=5),
    ss.projections.OPORP(dim=3, sketch_dim=2, seed=1),
    ss.projections.OPORP(dim=3, sketch_dim=3, seed=2),
    ss.projections.Achlioptas(dim=3, sketch_dim=5, seed=1),
    ss.projections.GaussianProjection(dim=3, sketch_dim=3, seed=2, fraction_bits=2),
    ss.projections.UniformProjection(dim=3, sketch_dim=3, seed=1, fraction_bits=2),
    ss.projections.SRHT(dim=3, sketch_dim=3, seed=1),
    ss.projections.FJLT(dim=3, sketch_dim=2, seed=2, density="1/2", fraction_bits=2),
    ss.projections.Rotation(dim=3, sketch_dim=2, seed=1, fraction_bits=2),
    ss.projections.Identity(dim=3),
]
EVERY_MAP: list[type[SignMechanism]] = [signs.DPSignRPRRSmooth, signs.DPSignLogistic]
OPORP_ONLY: list[type[SignMechanism]] = [signs.DPSignOPORPRR, signs.DPSignOPORPRRSmooth]
CASES = [(mechanism, projection) for mechanism in EVERY_MAP for projection in MAPS]
CASES += [(mechanism, projection) for mechanism in OPORP_ONLY for projection in MAPS if projection.kind == "oporp"]
NAMES = [f"{mechanism.name}-{projection.kind}-{projection.sketch_dim}" for mechanism, projection in CASES]
FEW = {"rademacher", "sjlt-block", "oporp", "gaussian"}
"""Kinds of cells: one step for all, several items in a cell, bins, and entries of several steps."""


@functools.cache
def neighbouring_cells(projection: ss.projections.Projection, neighbours: Neighbours) -> set[tuple[Cells, Cells]]:
    """Return the cells of all pairs of vectors in the box that are neighbours, each pair both ways round."""
    steps = neighbours.grid_steps(projection.grid)
    cells = BOX @ projection.columns(np.arange(3)).T
    gaps = np.abs(BOX[:, None] - BOX)
    near = gaps.sum(axis=2) <= steps
    if isinstance(neighbours, ss.OneCoordinate):
        near &= (gaps > 0).sum(axis=2) <= 1
    rows = list(map(tuple, cells.tolist()))
    return {(rows[i], rows[j]) for i, j in np.argwhere(near).tolist()}


def worst_loss(pairs: Collection[tuple[Cells, Cells]], levels_of: LevelsOf, rate: Fraction) -> mpmath.mpf:
    """Return the largest loss over all pairs and all output vectors."""
    every = sorted({cells for pair in pairs for cells in pair})
    levels = dict(zip(every, levels_of(np.array(every)).tolist(), strict=True))
    chances: dict[tuple[int, bool], tuple[mpmath.mpf, mpmath.mpf]] = {}

    def plus(cell: int, level: int) -> tuple[mpmath.mpf, mpmath.mpf]:
        """Return ln P(+) and ln P(-)."""
        kind = (level, cell > 0)
        if kind not in chances:
            wrong = naive_signs.flip_chance(level, rate)
            right = (mpmath.log(1 - wrong), mpmath.log(wrong))
            chances[kind] = right if cell > 0 else right[::-1]
        return chances[kind]

    @functools.cache
    def most(cell: int, level: int, cell_2: int, level_2: int) -> mpmath.mpf:
        here, there = plus(cell, level), plus(cell_2, level_2)
        return max(here[0] - there[0], here[1] - there[1])

    worst = mpmath.mpf(0)
    seen = set()
    for one, other in pairs:
        key = tuple(sorted(zip(one, levels[one], other, levels[other], strict=True)))
        if key in seen:
            continue
        seen.add(key)
        worst = max(worst, mpmath.fsum(itertools.starmap(most, key)))
    return worst


def loss_of(mechanism: SignMechanism, projection: ss.projections.Projection) -> mpmath.mpf:
    law, steps = mechanism.law(projection), cell_steps(projection, mechanism.neighbours)
    pairs = neighbouring_cells(projection, mechanism.neighbours)
    return worst_loss(pairs, lambda cells: law.levels(cells, steps), law.rate)


@pytest.mark.parametrize(
    ("mechanism", "projection", "relation"),
    [
        pytest.param(
            mechanism, projection, relation, marks=[pytest.mark.long] * later, id=f"{name}-{relation.__name__}"
        )
        for (mechanism, projection), name in zip(CASES, NAMES, strict=True)
        for relation, later in ((ss.OneCoordinate, False), (ss.L1, projection.kind not in FEW))
    ],
)
def test_no_output_of_any_neighbours_loses_more_than_epsilon(
    mechanism: type[SignMechanism], projection: ss.projections.Projection, relation: type[Neighbours]
) -> None:
    if mechanism in OPORP_ONLY and relation is ss.L1:
        with pytest.raises(ss.InvalidInputError, match="one coordinate, which meets one bin"):
            mechanism(epsilon=1.0, neighbours=relation(1))
        return
    for epsilon, bound in ((3.0, 1), (1.0, 2)):
        loss = loss_of(mechanism(epsilon=epsilon, neighbours=relation(bound)), projection)
        judged((epsilon - loss) / epsilon, len(list(neighbouring_cells(projection, relation(bound)))))
        assert 0 < loss <= epsilon + ROUNDING


@pytest.mark.parametrize("mechanism", EVERY_MAP)
def test_the_share_of_a_unit_in_several_keys_is_a_share(mechanism: type[SignMechanism]) -> None:
    projection = MAPS[0]
    several = mechanism(epsilon=3.0, neighbours=ss.L1(1, max_keys=3)).law(projection)
    assert several == mechanism(epsilon=1.0, neighbours=ss.L1(1)).law(projection)


def moved_in_sketch_space(size: int, squared: int, base: range) -> set[tuple[Cells, Cells]]:
    """Return pairs of cells of all keys whose squared distance is at most so much, each pair both ways round."""
    reach = range(-math.isqrt(squared), math.isqrt(squared) + 1)
    moves = [move for move in itertools.product(reach, repeat=size) if sum(step**2 for step in move) <= squared]
    pairs = {
        (cells, tuple(cell + step for cell, step in zip(cells, move, strict=True)))
        for cells in itertools.product(base, repeat=size)
        for move in moves
    }
    return pairs | {(other, one) for one, other in pairs}


@pytest.mark.parametrize(("keys", "stated", "is_safe"), [(1, 1, True), (2, 2, True), (2, 1, False)])
def test_logistic_flips_hide_what_one_unit_moves_in_sketch_space(keys: int, stated: int, *, is_safe: bool) -> None:
    """They rest on D1 over all cells of all keys; that of one key does not do for a unit in two."""
    projection = ss.projections.Identity(dim=2)
    law = signs.DPSignLogistic(epsilon=1.0, neighbours=ss.SketchL2(2, max_keys=stated)).law(projection)
    pairs = moved_in_sketch_space(2 * keys, 4, range(-1, 2))
    loss = worst_loss(pairs, lambda cells: law.levels(cells, np.ones(1, dtype=np.int64)), law.rate)
    assert (0.5 < loss <= 1 + ROUNDING) == is_safe


def test_the_largest_loss_over_outputs_is_the_sum_over_cells() -> None:
    rate, one, other = Fraction(1, 3), (2, 0, -1), (1, -1, 1)

    def chance(output: tuple[bool, ...], cells: Cells) -> mpmath.mpf:
        plus = [naive_signs.plus_chance("levels", rate, cell, 1) for cell in cells]
        return mpmath.fprod(p if bit else 1 - p for p, bit in zip(plus, output, strict=True))

    outputs = list(itertools.product([True, False], repeat=3))
    assert abs(mpmath.fsum(chance(output, one) for output in outputs) - 1) < ROUNDING
    brute = max(mpmath.log(chance(output, one) / chance(output, other)) for output in outputs)
    assert abs(brute - worst_loss([(one, other)], np.abs, rate)) < ROUNDING


# --- sums are modulo 2^64, and the sign of a cell changes at 2^63 as at 0 ---------------------------------------------

BEYOND = [1 << 62, 1 << 63, 5 << 61]  # what all three coordinates hold beside a vector of the box


def beyond(projection: ss.projections.Projection, neighbours: Neighbours, held: int) -> set[tuple[Cells, Cells]]:
    """Return the cells of neighbours in the box to which the same large vector was added, as int64 holds them."""
    pairs = np.array(list(neighbouring_cells(projection, neighbours)), dtype=np.int64)
    with np.errstate(over="ignore"):
        pairs += projection.columns(np.arange(3)) @ np.full(3, held, dtype=np.uint64).view(np.int64)
    return {(tuple(one), tuple(other)) for one, other in pairs.tolist()}


@pytest.mark.parametrize(
    ("mechanism", "projection", "held"),
    [
        pytest.param(*case, held, marks=[pytest.mark.long] * later, id=f"{name}-{held:#x}")
        for case, name in zip(CASES, NAMES, strict=True)
        for held, later in ((each, each != 1 << 63 or case[1].kind not in FEW) for each in BEYOND)
    ],
)
def test_no_sum_is_too_large_for_epsilon(
    mechanism: type[SignMechanism], projection: ss.projections.Projection, held: int
) -> None:
    neighbours = ss.OneCoordinate(2) if mechanism in OPORP_ONLY else ss.L1(2)
    asked = mechanism(epsilon=3.0, neighbours=neighbours)
    law, steps = asked.law(projection), cell_steps(projection, neighbours)
    pairs = beyond(projection, neighbours, held)
    assert worst_loss(pairs, lambda cells: law.levels(cells, steps), law.rate) <= 3 + ROUNDING


def test_levels_that_end_at_63_bits_are_caught() -> None:
    neighbours, projection = ss.L1(1), ss.projections.Identity(dim=3)
    law = signs.DPSignLogistic(epsilon=1.0, neighbours=neighbours).law(projection)
    pairs = beyond(projection, neighbours, 1 << 63)
    assert any(1 << 63 in map(abs, one) for one, _ in pairs)
    assert worst_loss(pairs, lambda cells: np.minimum(np.abs(cells.astype(object)), 1 << 62), law.rate) > 1e18


def test_one_event_does_not_turn_the_sign_of_the_largest_sum() -> None:
    """False rejects: 2 cells at 1e-8."""
    projection, repeats = ss.projections.Identity(dim=1), 200
    asked = signs.DPSignLogistic(epsilon=0.1, neighbours=ss.L1(1)).calibrated(projection)
    for events, chance in (((1 << 63) - 1,), 1 / (1 + np.exp(-0.1))), (((1 << 63) - 1, 1), 0.5):
        sketch = projection.sketch()
        sketch.update([0] * len(events), events)
        positive = sum(asked.for_data(sketch).draw().signs[0] > 0 for _ in range(repeats))
        assert stats.binomtest(int(positive), repeats, chance).pvalue > 1e-8


# --- the same check catches broken variants ---------------------------------------------------------------------


def test_epsilon_that_is_not_divided_by_k_is_caught() -> None:
    projection, neighbours = MAPS[0], ss.OneCoordinate(1)
    steps = cell_steps(projection, neighbours)
    undivided = FlipLaw("levels", Fraction(1))
    pairs = neighbouring_cells(projection, neighbours)
    assert worst_loss(pairs, lambda cells: undivided.levels(cells, steps), undivided.rate) > 2


@pytest.mark.parametrize("broken", ["step of one entry", "unrounded levels", "zero keeps its sign"])
def test_wrong_levels_are_caught(broken: str) -> None:
    projection, neighbours = MAPS[6], ss.OneCoordinate(1)  # Gaussian entries, of several grid steps
    law, steps = signs.DPSignRPRRSmooth(epsilon=1.0, neighbours=neighbours).law(projection), None
    steps = cell_steps(projection, neighbours)
    assert steps.min() > 1

    def levels(cells: Ints) -> Ints:
        if broken == "step of one entry":
            return law.levels(cells, np.ones_like(steps))
        if broken == "unrounded levels":
            return 1 + 2 * (np.abs(cells) // steps)
        return np.where(cells == 0, 9, law.levels(cells, steps))

    assert worst_loss(neighbouring_cells(projection, neighbours), levels, law.rate) > 1.001


@pytest.mark.parametrize("mechanism", OPORP_ONLY)
def test_two_coordinates_of_an_oporp_are_caught(mechanism: type[SignMechanism]) -> None:
    projection = MAPS[4]
    law = mechanism(epsilon=1.0, neighbours=ss.OneCoordinate(1)).law(projection)
    steps = cell_steps(projection, ss.OneCoordinate(1))
    pairs = neighbouring_cells(projection, ss.L1(2))
    assert worst_loss(pairs, lambda cells: law.levels(cells, steps), law.rate) > 1.2


def test_the_steps_of_the_continuous_ideal_are_caught() -> None:
    """A change of 0.9 on a grid of 1/2 may move two grid steps, not 1.8."""
    neighbours = ss.OneCoordinate("0.9")
    projection = ss.projections.Rademacher(dim=3, sketch_dim=4, seed=1, resolution="1/2")
    assert neighbours.grid_steps(projection.grid) == 2
    law = signs.DPSignRPRRSmooth(epsilon=1.0, neighbours=neighbours).law(projection)
    steps = cell_steps(projection, neighbours)
    assert steps.tolist() == [2] * 4
    pairs = neighbouring_cells(projection, neighbours)
    assert worst_loss(pairs, lambda cells: law.levels(cells, steps), law.rate) <= 1
    ideal = worst_loss(pairs, lambda cells: np.ceil(np.abs(cells) / 1.8).astype(np.int64), law.rate)
    assert ideal > 1.001


# --- and the sampler draws these laws ---------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [*EVERY_MAP, *OPORP_ONLY])
def test_published_signs_are_as_often_plus_as_was_enumerated(mechanism: type[SignMechanism]) -> None:
    """False rejects: 4 tests of 7 cells at 1e-8."""
    projection, repeats = ss.projections.OPORP(dim=7, sketch_dim=7, seed=1), 10_000
    asked = mechanism(epsilon=1.5, neighbours=ss.OneCoordinate(2))
    cells = np.array([-7, -1, 0, 3, (1 << 63) - 1, -(1 << 63), 2 - (1 << 63)])
    law, steps = asked.law(projection), cell_steps(projection, asked.neighbours)
    bits = salted_bits(mechanism.name.encode())
    drawn = ReadyRows(asked.calibrated(projection), np.tile(cells, (repeats, 1))).draw(bits)
    counts = sum((release.signs > 0).astype(np.int64) for release in drawn)
    for cell, step, count in zip(cells.tolist(), steps.tolist(), counts.tolist(), strict=True):
        chance = naive_signs.plus_chance(law.shape, law.rate, cell, step)
        assert stats.binomtest(count, repeats, float(chance)).pvalue > 1e-8
