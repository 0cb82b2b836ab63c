"""Counts beside the cells: how far one unit moves both together, and which weights widen the noise by how much."""

import dataclasses
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.accounting.sensitivity import most_in_a_cell, sensitivity_of
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import Budget, Counting, calibration
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.noise import Sensitivity
from streamsketch.projections.transform import transform_read

SMALL = ss.SJLT(dim=5, sketch_dim=4, sparsity=2, seed=11)


def moved(counting: Counting, bound: int) -> np.ndarray:
    """Return what each possible unit changes: its cells, the count, and the slack."""
    units = [unit for unit in itertools.product(range(-bound, bound + 1), repeat=5) if sum(map(abs, unit)) <= bound]
    cells = transform_read(SMALL, np.array(units), exact=True)
    counts = np.array([(1, sum(map(abs, unit))) for unit in units])
    return np.hstack([cells, counting.weighted(counts, bound)])


@pytest.mark.parametrize(("bound", "counting"), [(3, Counting(1)), (3, Counting(2, 1)), (2, Counting(7, 1))])
def test_no_unit_moves_cells_and_counts_further_than_stated_and_one_that_far(bound: int, counting: Counting) -> None:
    """All units of a small domain; a unit of one item at the bound reaches the ends."""
    stated = sensitivity_of(SMALL, ss.L1(bound), Layout(counting))
    rows = moved(counting, bound)
    assert np.abs(rows).sum(axis=1).max() == stated.l1
    assert (rows**2).sum(axis=1).max() == stated.l2_squared
    assert np.abs(rows).max() <= most_in_a_cell(SMALL, ss.L1(bound), Layout(counting))
    assert rows.shape[1] == stated.moved


def test_slack_beyond_the_map_would_move_further() -> None:
    """The check that refuses it is needed: a unit without any value moves such a slack further than the cells."""
    rows = moved(Counting(1, 3), bound=3)
    without = sensitivity_of(SMALL, ss.L1(3), Layout(Counting(1)))
    assert np.abs(rows).sum(axis=1).max() > without.l1
    with pytest.raises(InvalidInputError, match="at most Δ2 of the map, 1 here"):
        sensitivity_of(SMALL, ss.L1(3), Layout(Counting(1, 3)))


def test_a_unit_counts_in_each_of_its_keys() -> None:
    alone, both = (sensitivity_of(SMALL, ss.L1(3, max_keys=keys), Layout(Counting(5, 1))) for keys in (1, 4))
    assert both == alone.over_keys(4)


@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-2])
@pytest.mark.parametrize("neighbours", [ss.L1(100), ss.L1(100, max_keys=7)])
@pytest.mark.parametrize(
    "projection",
    [SMALL, ss.CountSketch(dim=50, sketch_dim=8, seed=4), ss.projections.Rademacher(dim=50, sketch_dim=70, seed=5)],
    ids=lambda one: one.kind,
)
def test_default_weights_widen_the_noise_by_three_percent_at_most(
    projection: ss.projections.Projection, neighbours: ss.L1, delta: float
) -> None:
    counting, budget = Counting.of(projection, neighbours, delta=delta), Budget(1.0, delta)
    plain, counted = sensitivity_of(projection, neighbours), sensitivity_of(projection, neighbours, Layout(counting))
    for kind in {type(calibration.choose(one, budget, "auto")) for one in (plain, counted)}:
        narrow, wide = (kind.calibrated(one, budget).cumulants.k2 for one in (plain, counted))
        assert 1 < math.sqrt(wide / narrow) < 1.031


@pytest.mark.parametrize("keys", [1, 13, 4000])
@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_default_weights_in_sketch_space_widen_the_noise_by_nearly_three_percent(delta: float, keys: int) -> None:
    projection, neighbours = dataclasses.replace(SMALL, resolution="1/16384"), ss.SketchL2(1, max_keys=keys)
    counting, budget = Counting.of(projection, neighbours, delta=delta), Budget(1.0, delta)
    assert counting.slack == 0
    plain, counted = (sensitivity_of(projection, neighbours, Layout(one)) for one in (None, counting))
    narrow, wide = (calibration.choose(one, budget, "auto").cumulants.k2 for one in (plain, counted))
    assert 1.027 < math.sqrt(wide / narrow) <= 1.03 * (1 + 1e-9)
    assert Counting.of(projection, neighbours, delta=1e-9, epsilon=1, tolerance=7 * math.sqrt(keys)).units > 1


@pytest.mark.parametrize(
    ("neighbours", "message"),
    [(ss.SketchL2(1), "may be in any number of keys"), (ss.SketchL2(1, max_keys=1 << 30), "max_keys")],
)
def test_too_many_keys_a_unit_are_refused(neighbours: ss.SketchL2, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Counting.of(dataclasses.replace(SMALL, resolution="1/4096"), neighbours, delta=1e-9)
    with pytest.raises(InvalidInputError, match="leave it out"):
        Counting(1, 1).check_for(ss.SketchL2(1, max_keys=2))


@pytest.mark.parametrize("keys", [1, 3])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_a_tolerance_is_met_by_the_least_weight(delta: float, keys: int) -> None:
    projection, neighbours = ss.SJLT(sketch_dim=64, sparsity=4, seed=1), ss.L1(500, max_keys=keys)
    found = Counting.of(projection, neighbours, delta=delta, epsilon=1.0, tolerance=25)

    def error(counting: Counting) -> float:
        noise = calibration.choose(sensitivity_of(projection, neighbours, Layout(counting)), Budget(1.0, delta), "auto")
        return math.sqrt(noise.cumulants.k2) / counting.units

    assert error(found) <= 25 < error(dataclasses.replace(found, units=found.units - 1))


@pytest.mark.parametrize("neighbours", [ss.L1(1), ss.L1(32), ss.L1(1, max_keys=1000)])
def test_a_grid_too_coarse_for_the_share_is_refused(neighbours: ss.L1) -> None:
    with pytest.raises(InvalidInputError, match="finer resolution"):
        Counting.of(ss.CountSketch(sketch_dim=64, seed=1), neighbours, delta=0)


@pytest.mark.parametrize(
    ("neighbours", "message"),
    [
        (ss.L2(1), "under L1"),
        (ss.OneCoordinate(1), "under L1"),
    ],
)
def test_other_neighbours_are_refused(neighbours: ss.L2, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Counting.of(SMALL, neighbours, delta=0)
    with pytest.raises(InvalidInputError, match=message):
        Counting(1).beside(Sensitivity(1, 1, 1), neighbours)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": 10}, "pass epsilon"),
        ({"tolerance": 0, "epsilon": 1}, "positive number"),
        ({"tolerance": math.nan, "epsilon": 1}, "positive number"),
        ({"tolerance": "10", "epsilon": 1}, "positive number"),
        ({"mechanism": "gauss"}, "mechanism must be one of"),
        ({"mechanism": "gaussian"}, "delta"),
        ({"tolerance": 1, "epsilon": 1}, "more than double the noise"),
    ],
)
def test_tolerances_that_no_weight_meets_and_unknown_noise_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Counting.of(SMALL, ss.L1(50), delta=0, **options)


@pytest.mark.parametrize("weights", [(0,), (1, -1), (1 << 31,), (1, 1 << 31), (True,), (1.5,)])
def test_weights_out_of_range_are_refused(weights: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError):
        Counting(*weights)


def test_json_brings_weights_back() -> None:
    assert Counting.from_dict(Counting(3, 2).to_dict()) == Counting(3, 2)
    for fields in [{}, {"units": 1}, {"units": 1, "slack": 0, "more": 0}, [1, 0], {"units": "1", "slack": 0}]:
        with pytest.raises(InvalidInputError):
            Counting.from_dict(fields)


def test_numbers_count_modulo_a_word() -> None:
    """As cells do: no total is refused, as one event would then decide whether there is a release."""
    counts = np.array([[1 << 62, (1 << 63) - 1], [3, 7]], dtype=np.int64)
    found = Counting(4, 2).weighted(counts, steps=5)
    exact = [[4 * int(n), 2 * (5 * int(n) - int(total))] for n, total in counts.tolist()]
    assert ((found.astype(object) - np.array(exact, dtype=object)) % (1 << 64) == 0).all()
    assert Fraction(found[1, 1].item(), 2) == 5 * 3 - 7
