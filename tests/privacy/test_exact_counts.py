"""The privacy loss of cells and counts as one draw, enumerated under each relation that counts units.

What one unit may change is enumerated as the relation states it, not as the library clips it: under `L1` every integer
vector of absolute sum up to the bound, in every choice of keys; under `SketchL2` every change of the cells of all keys
of length up to the bound. Losses are those of the exact laws of noise (`tests.privacy.test_exact_privacy`).
"""

import functools
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.accounting.sensitivity import most_in_a_cell, sensitivity_of
from streamsketch.privacy import Budget, Counting, Neighbours
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace, laplace_divergence
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.noise import Sensitivity
from streamsketch.release import AdditiveNoise
from tests.audit.record import judged
from tests.oracles.naive_noise import lattice_delta

Change = tuple[int, ...]
"""By how much one unit moves each published number: of every key its cells, then its counts."""


class Case(NamedTuple):
    """A release of one or two keys with counts."""

    projection: ss.projections.Projection
    neighbours: Neighbours
    counting: Counting

    @property
    def sensitivity(self) -> Sensitivity:
        return sensitivity_of(self.projection, self.neighbours, Layout(self.counting))

    def noise(self, mechanism: str, epsilon: float, delta: float = 0.0) -> Any:
        """Return the noise of a release."""
        how: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "mechanism": mechanism}
        publisher = AdditiveNoise(**how, neighbours=self.neighbours, counting=self.counting)
        return publisher.calibrated(self.projection).noise


ONE_CELL = ss.CountSketch(dim=2, sketch_dim=1, seed=1)
TWO_CELLS = ss.CountSketch(dim=3, sketch_dim=2, seed=5)
TWO_ROWS = ss.SJLT(dim=3, sketch_dim=4, sparsity=2, seed=3)
FOUR_ROWS = ss.SJLT(dim=2, sketch_dim=4, sparsity=4, seed=3)
DENSE = ss.projections.Rademacher(dim=2, sketch_dim=3, seed=1)
ROUNDED = ss.projections.GaussianProjection(dim=2, sketch_dim=2, seed=1, fraction_bits=2)

BY_L1 = [
    Case(projection, ss.L1(2, unit="user", max_keys=keys), Counting(units, slack))
    for projection in (ONE_CELL, TWO_ROWS, FOUR_ROWS, DENSE, ROUNDED)
    for keys in (1, 2)
    for units, slack in ((1, 0), (3, math.isqrt(projection.l2_sensitivity_squared)))
]
BY_SKETCH = [
    Case(projection, ss.SketchL2(bound, unit="user", max_keys=keys), Counting(units))
    for projection, bound in ((ONE_CELL, 4), (TWO_CELLS, 2), (ss.CountSketch(dim=9, sketch_dim=4, seed=1), 2))
    for keys in (1, 2)
    for units in (1, 3)
]
CASES = BY_L1 + BY_SKETCH


def name(case: Case) -> str:
    (relation, keys), counting = (type(case.neighbours).__name__, case.neighbours.max_keys), case.counting
    return f"{case.projection.kind}-{relation}-{keys}-{counting.units}-{counting.slack}"


each = pytest.mark.parametrize("case", CASES, ids=name)


def in_one_key(case: Case, bound: int) -> list[Change]:
    """Return what a unit in one key may change there, under `L1`."""
    found = []
    for vector in itertools.product(range(-bound, bound + 1), repeat=case.projection.dim):
        if (size := sum(map(abs, vector))) <= bound:
            cells = case.projection.columns(np.arange(case.projection.dim)) @ vector
            counts = case.counting.weighted(np.array([[1, size]]), bound)[0]
            found.append((*cells.tolist(), *counts.tolist()))
    return found


def by_l1(case: Case, *, keys: int | None = None) -> Iterator[Change]:
    """Yield what a unit may change in ``keys`` keys, by default as many as are allowed, each bounded by itself."""
    one_key = in_one_key(case, int(case.neighbours.bound))
    for parts in itertools.product(one_key, repeat=keys or case.neighbours.max_keys):
        yield tuple(itertools.chain(*parts))


def by_sketch(case: Case, *, keys: int | None = None) -> Iterator[Change]:
    """Yield what a unit may change in keys that share one bound, in sketch space, up to signs."""
    keys = keys or case.neighbours.max_keys
    size = case.projection.sketch_dim
    squared = int(Fraction(case.neighbours.bound) ** 2)  # these maps have cells of one unit
    for cells in itertools.product(range(math.isqrt(squared) + 1), repeat=size * keys):
        if sum(y**2 for y in cells) <= squared:
            parts = (cells[at : at + size] for at in range(0, size * keys, size))
            yield tuple(itertools.chain(*((*part, case.counting.units) for part in parts)))


@functools.cache
def changes(case: Case) -> set[Change]:
    """Return what one unit may change, as sizes in order: losses depend on no more."""
    found = by_l1(case) if isinstance(case.neighbours, ss.L1) else by_sketch(case)
    return {tuple(sorted(abs(size) for size in change if size)) for change in found}


def length(change: Change) -> int:
    return sum(size**2 for size in change)


@each
def test_no_unit_moves_cells_and_counts_further_than_stated(case: Case) -> None:
    stated = case.sensitivity
    assert max(map(sum, changes(case))) <= stated.l1
    assert max(map(length, changes(case))) <= stated.l2_squared
    assert max(map(max, changes(case))) <= most_in_a_cell(case.projection, case.neighbours, Layout(case.counting))
    assert max(map(len, changes(case))) <= stated.moved
    if isinstance(case.neighbours, ss.SketchL2):
        assert max(map(length, changes(case))) == stated.l2_squared, "no noise is wasted"
    else:
        assert max(map(sum, changes(case))) == stated.l1


@each
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_laplace_noise_for_both_loses_at_most_epsilon(case: Case, epsilon: float) -> None:
    """The loss of a cell that moves by n is n / scale, at its ends, and cells add up."""
    loss = max(map(sum, changes(case))) / case.noise("laplace", epsilon).scale
    judged(1 - loss / Fraction(epsilon), len(changes(case)))
    assert loss <= Fraction(epsilon)


@each
def test_the_rho_of_laplace_noise_covers_every_change(case: Case) -> None:
    noise = case.noise("laplace", 1.0)
    stated = noise.rho(case.sensitivity, most_in_a_cell(case.projection, case.neighbours, Layout(case.counting)))
    spent = max(math.fsum(laplace_divergence(noise.scale, size) for size in change) for change in changes(case))
    assert spent <= stated * (1 + 1e-9)


@functools.cache
def delta_of(sigma_squared: Fraction, change: Change, epsilon: float) -> float:
    return lattice_delta(sigma_squared, change, epsilon)


def worst_delta(sigma_squared: Fraction, found: set[Change], epsilon: float) -> float:
    """Return the largest exact δ of the longest changes; shorter ones have far less."""
    least = 0.9 * max(map(length, found))
    return max(delta_of(sigma_squared, change, epsilon) for change in found if length(change) >= least)


@each
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-2), (3.0, 1e-6)])
def test_gaussian_noise_for_both_keeps_delta(case: Case, epsilon: float, delta: float) -> None:
    noise = case.noise("gaussian", epsilon, delta)
    worst = worst_delta(noise.sigma_squared, changes(case), epsilon)
    judged(1 - worst / delta, len(changes(case)))
    assert 0 < worst <= delta


# --- faults put back, which the same checks must find -------------------------------------------------------------

EPSILON, DELTA = 1.0, 1e-3


def without_counts(case: Case) -> Sensitivity:
    return sensitivity_of(case.projection, case.neighbours)


def count_of_one_key(case: Case) -> Sensitivity:
    cells, units = without_counts(case), case.counting.units
    return Sensitivity(cells.l1 + units, cells.l2_squared + units**2, cells.cells + 1)


def is_caught(stated: Sensitivity, found: set[Change]) -> tuple[bool, bool]:
    """Return whether Laplace noise calibrated to what is stated loses more than ε, and Gaussian noise more than δ."""
    scale = DiscreteLaplace.calibrated(stated, Budget(EPSILON)).scale
    sigma_squared = DiscreteGaussian.calibrated(stated, Budget(EPSILON, DELTA)).sigma_squared
    return max(map(sum, found)) / scale > EPSILON, worst_delta(sigma_squared, found, EPSILON) > DELTA


LARGE = [case for case in CASES if case.counting.units == 3]


@pytest.mark.parametrize("case", LARGE, ids=name)
def test_a_forgotten_count_is_caught(case: Case) -> None:
    by_laplace, by_gaussian = is_caught(without_counts(case), changes(case))
    # under one l2 bound for k cells, √k·C̃ may be more than what is reached
    assert by_laplace or isinstance(case.neighbours, ss.SketchL2)
    assert by_gaussian


@pytest.mark.parametrize("case", [case for case in LARGE if case.neighbours.max_keys == 2], ids=name)
def test_a_count_of_one_key_for_units_in_two_is_caught(case: Case) -> None:
    assert any(is_caught(count_of_one_key(case), changes(case)))


@pytest.mark.parametrize("case", [case for case in LARGE if case.neighbours.max_keys == 1], ids=name)
def test_a_unit_in_two_keys_where_one_is_stated_is_caught(case: Case) -> None:
    walk = by_l1 if isinstance(case.neighbours, ss.L1) else by_sketch
    found = {tuple(sorted(abs(size) for size in change if size)) for change in walk(case, keys=2)}
    assert all(is_caught(case.sensitivity, found)[int(isinstance(case.neighbours, ss.SketchL2)) :])


@pytest.mark.parametrize("case", [case for case in CASES if case.counting == Counting(1)], ids=name)
def test_a_weight_too_large_is_caught(case: Case) -> None:
    """Weights are agreed on; a release that counts by a larger one spends more."""
    heavier = case._replace(counting=Counting(8))
    assert all(is_caught(case.sensitivity, changes(heavier)))


@pytest.mark.parametrize("case", [case for case in BY_L1 if case.counting == Counting(1)], ids=name)
def test_slack_heavier_than_the_columns_is_caught(case: Case) -> None:
    free = math.isqrt(case.projection.l2_sensitivity_squared)
    heavier = case._replace(counting=Counting(1, free + 1))
    with pytest.raises(ss.InvalidInputError, match=f"at most Δ2 of the map, {free} here"):
        _ = heavier.sensitivity
    stated = case._replace(counting=Counting(1, free)).sensitivity
    assert max(map(length, changes(heavier))) > stated.l2_squared
    if case.projection.l1_sensitivity == free:  # else Δ1 leaves room that Δ2 does not
        assert max(map(sum, changes(heavier))) > stated.l1


def test_the_largest_cell_in_place_of_the_largest_count_is_caught() -> None:
    """The ρ by cells of at most c steps is (D1/c)·KL(c): a count may move further than any cell of the map."""
    case = Case(ONE_CELL, ss.L1(1, unit="user"), Counting(40))
    noise = case.noise("laplace", 8.0)
    spent = max(math.fsum(laplace_divergence(noise.scale, size) for size in change) for change in changes(case))
    assert spent <= noise.rho(case.sensitivity, most_in_a_cell(case.projection, case.neighbours, Layout(case.counting)))
    assert spent > noise.rho(case.sensitivity, most_in_a_cell(case.projection, case.neighbours))


@pytest.mark.parametrize("units", [2, 4])
def test_counts_of_parts_that_share_units_are_caught(units: int) -> None:
    """Bounds and keys add up, but a unit that is in one key of both parts counts twice there (Theory 2.3)."""
    part = Case(TWO_CELLS, ss.SketchL2(2, unit="user", max_keys=1), Counting(units))
    stated = sensitivity_of(TWO_CELLS, ss.SketchL2(4, unit="user", max_keys=2), Layout(Counting(units)))
    found = {tuple(sorted(2 * abs(size) for size in change if size)) for change in by_sketch(part)}
    assert max(map(length, found)) == 4 * (2**2 + units**2) > stated.l2_squared == 16 + 2 * units**2
