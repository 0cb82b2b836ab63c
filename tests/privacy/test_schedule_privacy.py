"""The privacy of all rows of a schedule together, by the exact laws of their noise: short streams of one cell."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.privacy import Counting, Neighbours
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.noise import Sensitivity
from streamsketch.privacy.schedule import Schedule
from streamsketch.schedules.factorisation import Factorisation
from streamsketch.schedules.progress import Progress
from streamsketch.schedules.separate import Separate
from streamsketch.schedules.tree import Tree
from tests.audit.record import judged
from tests.noise import salted_rng
from tests.oracles.naive_noise import gaussian_masses, lattice_delta

pytestmark = pytest.mark.rejects(0)


CELL = ss.projections.Identity(dim=1)
EPSILON, DELTA = 1.0, 1e-4
SCHEDULES: list[Schedule] = [
    Separate(horizon=3),
    Separate(horizon=3, max_windows=2, gap=2),
    Tree(horizon=4, depth=2),
    Tree(horizon=4, depth=2, max_windows=2),
    Factorisation(horizon=4, bits=1),
    Factorisation(horizon=4, blocks=2, bits=1),
    Factorisation(horizon=4, band=2, bits=1),
    Factorisation(horizon=4, bits=1, max_windows=2, gap=2),
    Factorisation(horizon=3, bits=1, max_windows=3),
]
delta_of = functools.cache(lattice_delta)


def placings(schedule: Schedule) -> Iterator[tuple[int, ...]]:
    """Yield in which windows a unit may be."""
    for count in range(1, schedule.most + 1):
        for chosen in itertools.combinations(range(schedule.horizon), count):
            if all(later - earlier >= schedule.gap for earlier, later in itertools.pairwise(chosen)):
                yield chosen


def moves(schedule: Schedule, bound: int, placed: Any = placings) -> set[tuple[int, ...]]:
    """Return how far the rows of a stream with a unit and one without are apart, for each unit of up to the bound."""
    base = salted_rng(1).integers(-9, 9, schedule.horizon)
    found = set()
    for windows in placed(schedule):
        for values in itertools.product([one for one in range(-bound, bound + 1) if one], repeat=len(windows)):
            other = base.copy()
            other[list(windows)] += values
            apart = np.array(rows_of(schedule, other)) - rows_of(schedule, base)
            found.add(tuple(sorted(np.abs(apart[apart != 0]).tolist())))  # laws are symmetric, and rows alike
    return found - {()}


def rows_of(schedule: Schedule, windows: Any) -> list[int]:
    progress = Progress(schedule, 1)
    return [int(progress.step(np.array([window]))[0]) for window in windows]


def noise_of(schedule: Schedule, neighbours: Neighbours, mechanism: str) -> Any:
    delta = DELTA if mechanism == "gaussian" else 0.0
    publish = ss.AdditiveNoise(
        epsilon=EPSILON, delta=delta, neighbours=neighbours, mechanism=mechanism, schedule=schedule
    )
    return publish.calibrated(CELL).noise


def spent(noise: Any, apart: set[tuple[int, ...]]) -> float:
    """Return what the worst unit spends, over what it may: the exact δ at ε, or the exact ε at δ = 0."""
    if isinstance(noise, DiscreteLaplace):
        return max(sum(move) / float(noise.scale) for move in apart) / EPSILON
    return max(delta_of(noise.sigma_squared, move, EPSILON) for move in apart) / DELTA


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_rows_together_keep_to_the_guarantee(schedule: Schedule, mechanism: str) -> None:
    found = list(moves(schedule, 2))
    share = spent(noise_of(schedule, ss.L1(2), mechanism), found)
    judged(1 - share, len(found))
    assert share <= 1 + 1e-12
    if schedule.most == 1:  # where norms are exact, and the noise is no larger than it must be
        assert share > (0.99 if mechanism == "laplace" else 0.3)


@pytest.mark.parametrize("schedule", [one for one in SCHEDULES if one.most > 1], ids=str)
def test_windows_bounded_together_keep_to_the_guarantee(schedule: Schedule) -> None:
    units = {
        move
        for windows in placings(schedule)
        for values in itertools.product(range(-3, 4), repeat=len(windows))
        if sum(one**2 for one in values) <= 9
        for move in _moved(schedule, windows, values)
    }
    assert spent(noise_of(schedule, ss.SketchL2(3), "gaussian"), units) <= 1
    laplace = sensitivity_of(CELL, ss.SketchL2(3, max_keys=1), Layout(schedule=schedule))
    assert max(map(sum, units)) <= laplace.l1


def _moved(schedule: Schedule, windows: tuple[int, ...], values: tuple[int, ...]) -> set[tuple[int, ...]]:
    shift = np.zeros(schedule.horizon, dtype=np.int64)
    shift[list(windows)] = values
    found = np.abs(schedule.matrix() @ shift)
    return {tuple(sorted(found[found != 0].tolist()))} - {()}


def test_a_share_left_out_of_the_norm_is_caught() -> None:
    """A node of a tree, a coefficient of a band, and a unit in more windows than stated."""
    tree, band = Tree(horizon=4, depth=2), Factorisation(horizon=4, band=2, bits=2)
    fewer = sensitivity_of(CELL, ss.L1(2), Layout(schedule=tree))
    fewer = dataclasses.replace(fewer, l1=fewer.l1 // 2, l2_squared=fewer.l2_squared // 2)
    for noise in _calibrated(fewer):
        assert spent(noise, moves(tree, 2)) > 1.2
    column = band.norms.l2_squared
    assert column == 4**2 + 2**2
    smaller = Sensitivity(2 * (4 + 1), 2**2 * (4**2 + 1**2), 1)  # ½ for ¼
    for noise in _calibrated(smaller):
        assert spent(noise, moves(band, 2)) > 1.1
    for schedule in (tree, Factorisation(horizon=4, bits=1)):
        twice = moves(schedule, 2, lambda one: placings(dataclasses.replace(one, max_windows=2)))
        for mechanism in ("laplace", "gaussian"):
            assert spent(noise_of(schedule, ss.L1(2), mechanism), twice) > 1.2
    near = Factorisation(horizon=4, bits=1, max_windows=2, gap=2)
    closer = moves(near, 2, lambda one: placings(dataclasses.replace(one, gap=1)))
    assert spent(noise_of(near, ss.L1(2), "gaussian"), closer) > 1


def _calibrated(sensitivity: Sensitivity) -> list[Any]:
    return [
        DiscreteLaplace.calibrated(sensitivity, ss.privacy.Budget(EPSILON)),
        DiscreteGaussian.calibrated(sensitivity, ss.privacy.Budget(EPSILON, DELTA)),
    ]


@pytest.mark.parametrize(
    "schedule", [Tree(horizon=2, depth=2, max_windows=2), Factorisation(horizon=2, bits=1, max_windows=2)], ids=str
)
def test_a_unit_whose_second_window_depends_on_the_first_row_spends_no_more(schedule: Schedule) -> None:
    """All pairs of rows are enumerated: the second window is added with the sign that the first row says, or not."""
    noise = DiscreteGaussian.calibrated(
        sensitivity_of(CELL, ss.L1(1), Layout(schedule=schedule)), ss.privacy.Budget(1.0, 0.01)
    )
    support, masses = gaussian_masses(noise.sigma_squared)
    law = np.zeros(support[-1] * 2 + 33)
    middle = law.size // 2
    law[middle - support[-1] : middle + support[-1] + 1] = masses
    scale, below = schedule.matrix()[0, 0], schedule.matrix()[1, 0]
    first = np.arange(law.size)
    for chosen in (np.sign(first - middle), (first > middle).astype(int), first % 3 - 1):
        second = scale * chosen + below  # how far the second row moves, once the first is seen
        without = law[:, None] * law[None, :]
        shifted = np.roll(law, scale)[:, None] * np.array([np.roll(law, move) for move in second.tolist()])
        for one, other in ((without, shifted), (shifted, without)):
            assert np.maximum(one - math.e * other, 0).sum() <= 0.01


def test_the_sensitivity_of_rows_with_counts() -> None:
    """A count moves by its weight in each window, whatever the cells' bound over all of them."""
    schedule, projection = Tree(horizon=4, depth=2, max_windows=2), ss.SJLT(sketch_dim=8, sparsity=2, seed=1)
    norms, counting = schedule.norms, Counting(5)
    apart = sensitivity_of(projection, ss.L1(3, max_keys=2), Layout(counting))
    rows = sensitivity_of(projection, ss.L1(3, max_keys=2), Layout(counting, schedule))
    assert (rows.l1, rows.l2_squared) == (norms.l1 * apart.l1, norms.l2_squared * apart.l2_squared)
    assert rows.moved == min(2 * schedule.horizon * apart.moved, rows.l2_squared)
    keys = ss.SketchL2(3, max_keys=2)
    together = sensitivity_of(projection, keys, Layout(counting, schedule))
    cells = sensitivity_of(projection, keys)
    assert together.l2_squared == norms.together * cells.l2_squared + norms.l2_squared * 2 * 5**2
    worst = 0.0
    for windows in placings(schedule):  # all of the bound in one window, or the same in each
        for shares in ([1.0] + [0.0] * (len(windows) - 1), [1 / len(windows)] * len(windows)):
            columns = schedule.matrix()[:, list(windows)]
            moved = float(cells.l2_squared) * np.linalg.norm(columns @ np.sqrt(shares)) ** 2
            worst = max(worst, float(moved + 2 * 5**2 * np.linalg.norm(columns.sum(axis=1)) ** 2))
    assert worst <= together.l2_squared


@pytest.mark.parametrize(
    "neighbours", [ss.L1(2), ss.L2(2), ss.OneCoordinate(2), ss.SketchL2(2, max_keys=1), ss.SketchL2(2)], ids=repr
)
@pytest.mark.parametrize("schedule", [one for one in SCHEDULES if one.most > 1], ids=str)
def test_rows_move_in_the_keys_of_all_windows_of_a_unit(schedule: Schedule, neighbours: Neighbours) -> None:
    """A unit may be in another key in each window: rows and keys are enumerated, each key of one cell."""
    stated, moved, squared, l1 = sensitivity_of(CELL, neighbours, Layout(schedule=schedule)), 0, 0, 0
    for windows in placings(schedule):
        together = isinstance(neighbours, ss.SketchL2) and len(windows) > 1  # a norm of 2 over all of them
        apart = np.zeros((schedule.horizon, len(windows)), dtype=np.int64)
        apart[list(windows), range(len(windows))] = 1 if together else 2
        rows = schedule.matrix() @ apart
        moved, squared = max(moved, int(np.count_nonzero(rows))), max(squared, int((rows**2).sum()))
        l1 = max(l1, int(np.abs(rows).sum()))
    assert moved <= stated.moved
    assert squared <= stated.l2_squared
    assert neighbours == ss.SketchL2(2) or l1 <= stated.l1


def test_widths_beyond_the_sampler_are_refused_before_data() -> None:
    fine = ss.SJLT(sketch_dim=8, sparsity=2, seed=1, resolution=Fraction(1, 1 << 15))
    with pytest.raises(ss.InvalidInputError, match="too wide"):
        ss.AdditiveNoise(
            epsilon=0.1, delta=1e-9, neighbours=ss.SketchL2(1000), schedule=Factorisation(horizon=365, bits=12)
        ).calibrated(fine)


def small_schedules(kind: str) -> Iterator[Schedule]:
    """Yield every schedule of a few windows, with every number of a unit's windows and every gap that fits."""
    for horizon, most, gap in itertools.product(range(1, 9), range(1, 5), range(1, 4)):
        if (most - 1) * gap >= horizon:
            continue
        known = {"horizon": horizon, "max_windows": most, "gap": gap}
        if kind == "tree":
            yield from (Tree(depth=depth, **known) for depth in range(1, min(horizon, 4) + 1))
        elif kind == "separate":
            yield Separate(**known)
        else:
            yield from (Factorisation(bits=1, blocks=blocks, **known) for blocks in (2, 3))
            yield from (Factorisation(bits=1, band=band, **known) for band in (1, 2) if band <= horizon)


@pytest.mark.parametrize("kind", ["separate", "tree", "factorisation"])
def test_no_choice_of_windows_moves_the_rows_further_than_the_norms(kind: str) -> None:
    for schedule in small_schedules(kind):
        weights = np.zeros((schedule.horizon, schedule.horizon), dtype=np.int64)  # of each window in each row
        for row, (starts, factors) in enumerate(schedule.rows()):
            for start, stop, factor in zip(starts, np.append(starts[1:], row + 1), factors, strict=True):
                weights[row, start:stop] = factor
        moved = [weights[:, list(chosen)].sum(axis=1) for chosen in placings(schedule)]
        norms = schedule.largest_norms()
        judged(1 - max(float((one**2).sum()) for one in moved) / norms.l2_squared, len(moved))
        assert max(int(one.sum()) for one in moved) <= norms.l1, schedule
        assert max(int((one**2).sum()) for one in moved) <= norms.l2_squared, schedule
