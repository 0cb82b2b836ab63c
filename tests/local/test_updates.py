"""Updates of a model as local reports: cut to a length, the same whatever is wrong with them, charged before drawn."""

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsketch import L2, Ledger, compose
from streamsketch.errors import InvalidInputError, LedgerError
from streamsketch.local import CompPrivUnitG, GaussianMechanism, ModelUpdates, PrivUnitG, ProjUnit
from tests.local.directions import bits

pytestmark = pytest.mark.rejects(1e-6)


DIM = 6
EXACT = PrivUnitG(dim=DIM, epsilon=256.0, ball=True)  # hardly any noise
SMALL = ProjUnit(dim=DIM, sketch_dim=4, epsilon=4.0, ball=True, shared=True, seed=7)


def average_of(updates: ModelUpdates, update: object) -> np.ndarray:
    many = [updates.estimate(updates.report(update))[0] for _ in range(40)]
    return np.mean(many, axis=0)


@pytest.mark.parametrize("length", [0.0, 1e-300, 0.5, 2.0, 7.0, 1e300])
def test_updates_are_reported_up_to_their_clip(length: float) -> None:
    updates, direction = ModelUpdates(mechanism=EXACT, clip=2.0), np.array([3.0, 0, 0, 0, -4.0, 0]) / 5
    estimate = average_of(updates, length * direction)
    assert np.allclose(estimate, min(length, 2.0) * direction, atol=0.35)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble, ">f8"])
@pytest.mark.parametrize("size", ["largest", "smallest", "infinite"])
def test_no_warning_tells_how_large_an_update_was(kind: Any, size: str) -> None:
    """Of any floating type, also one with numbers beyond float64, where warnings are errors."""
    limits = np.finfo(np.dtype(kind))
    value = {"largest": limits.max, "smallest": limits.smallest_subnormal, "infinite": np.inf}[size]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ModelUpdates(mechanism=SMALL, clip=2.0).report([np.full(DIM - 1, value, kind), np.array(value, kind)])


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_an_update_that_is_not_finite_is_reported_as_zero(wrong: float) -> None:
    updates = ModelUpdates(mechanism=SMALL, clip=1.0)
    seen, zero = (updates.report(one, bits=bits("same")) for one in (np.array([1.0, wrong, 0, 0, 0, 0]), np.zeros(DIM)))
    assert seen == zero


def test_arrays_are_laid_end_to_end_and_come_back_in_their_shapes() -> None:
    updates, arrays = ModelUpdates(mechanism=SMALL, clip=1.0), [np.full((2, 2), 0.1, np.float32), np.array([0.2, 0.3])]
    report = updates.report(arrays, bits=bits("same"))
    assert report == updates.report(np.concatenate([part.ravel() for part in arrays]), bits=bits("same"))
    parts = updates.estimate(report, like=arrays)
    assert [part.shape for part in parts] == [(2, 2), (2,)]
    assert np.array_equal(np.concatenate([part.ravel() for part in parts]), updates.estimate(report)[0])


def test_the_mean_of_estimates_errs_as_expected() -> None:
    updates, update = ModelUpdates(mechanism=SMALL, clip=3.0), np.array([1.0, -2, 0, 0, 1, 0])
    errors = [
        ((np.mean([updates.estimate(updates.report(update))[0] for _ in range(10)], axis=0) - update) ** 2).sum()
        for _ in range(40)
    ]
    expected = 9 * SMALL.expected_squared_error(10)
    assert 0.6 * expected < np.mean(errors) < 1.5 * expected  # 400 reports: false alarms below 1 in 1,000


@pytest.mark.parametrize(
    ("mechanism", "delta", "conditions"),
    [
        (SMALL, 0.0, 1),
        (CompPrivUnitG(dim=DIM, epsilon=4.0, ball=True), 0.0, 0),
        (GaussianMechanism(dim=DIM, epsilon=4.0, ball=True, delta=1e-6), 1e-6, 0),
    ],
)
def test_the_guarantee_is_for_any_two_updates_of_one_client(mechanism: object, delta: float, conditions: int) -> None:
    guarantee = ModelUpdates(mechanism=mechanism, clip=0.5, unit="phone").guarantee
    assert (guarantee.epsilon, guarantee.delta, guarantee.neighbours) == (4.0, delta, L2(1, unit="phone"))
    assert (len(guarantee.conditions), guarantee.basis) == (conditions, "enforced")


def test_rounds_add_up_and_end_with_the_budget(tmp_path: Path) -> None:
    updates, ledger = ModelUpdates(mechanism=SMALL, clip=1.0, unit="phone"), Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("updates", unit="phone", epsilon=8.0)
    for _ in range(2):
        updates.report(np.zeros(DIM), ledger=ledger, dataset="updates")
    assert (
        ledger.left("updates").epsilon == 0 == 8 - compose([updates.guarantee] * 2, populations="overlapping").epsilon
    )
    spent = bits("unused")
    with pytest.raises(LedgerError, match="updates"):
        updates.report(np.zeros(DIM), ledger=ledger, dataset="updates", bits=spent)
    assert updates.report(np.zeros(DIM), bits=spent) == updates.report(np.zeros(DIM), bits=bits("unused"))


@pytest.mark.parametrize("update", [np.zeros(DIM + 1), [], [np.zeros(2), np.zeros(3)]])
def test_updates_of_another_size_are_refused_before_they_are_charged(tmp_path: Path, update: object) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("updates", unit="client", epsilon=8.0)
    with pytest.raises(InvalidInputError, match="dim=6"):
        ModelUpdates(mechanism=SMALL, clip=1.0).report(update, ledger=ledger, dataset="updates")
    assert ledger.left("updates").epsilon == 8.0


def test_what_no_honest_client_sends_is_refused() -> None:
    updates = ModelUpdates(mechanism=SMALL, clip=1.0)
    report = updates.report(np.zeros(DIM))
    with pytest.raises(InvalidInputError, match="length"):
        updates.estimate(type(report)(SMALL, report.seed, report.values * 1000))
    with pytest.raises(InvalidInputError, match="7 parameters"):
        updates.estimate(report, like=[np.zeros(7)])


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"mechanism": ProjUnit(dim=DIM, sketch_dim=4, epsilon=4.0)}, "ball=True"),
        *[({"clip": clip}, "positive") for clip in (0, -1.0, math.inf, math.nan, True, "1")],
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        ModelUpdates(**{"mechanism": SMALL, "clip": 1.0} | fields)


def test_a_mechanism_is_needed() -> None:
    with pytest.raises(TypeError, match="Mechanism"):
        ModelUpdates(mechanism="proj-unit", clip=1.0)


COUNTERS = [np.array(40), np.array([7, -7], np.int8), np.array([True, False]), np.zeros((0,), np.int32)]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_counters_take_nothing_of_the_clip_and_stay_as_they_are(kind: type) -> None:
    """A count of batches that grew by 40 would otherwise shorten weights that moved by 0.3 to 0.004."""
    updates, weights = ModelUpdates(mechanism=SMALL, clip=0.5), np.array([[0.1, 0.2], [-0.1, 0.1]], kind)
    rest = np.array([0.1, 0.0], kind)
    for places in ([0, 1, 2, 3], [3, 3, 0]):
        beside = [weights, *(COUNTERS[place] for place in places), rest, COUNTERS[1]]
        assert updates.report(beside, bits=bits("same")) == updates.report([weights, rest], bits=bits("same"))
        report = updates.report(beside)
        found, alone = updates.estimate(report, like=beside), updates.estimate(report, like=[weights, rest])
        assert [part.shape for part in found] == [part.shape for part in beside]
        assert np.array_equal(found[0], alone[0])
        assert np.array_equal(found[-2], alone[1])
        for part, counter in zip([*found[1:-2], found[-1]], [*beside[1:-2], beside[-1]], strict=True):
            assert part.dtype == counter.dtype
            assert not part.any()


@pytest.mark.parametrize("wrong", [np.zeros(2, complex), np.array(["a", "b"]), np.array([None, 1])])
def test_what_is_not_real_is_refused_by_its_place(wrong: Any) -> None:
    updates = ModelUpdates(mechanism=SMALL, clip=0.5)
    with pytest.raises(InvalidInputError, match=f"array 2 of the update holds {wrong.dtype}"):
        updates.report([np.zeros(4), wrong])
    with pytest.raises(InvalidInputError, match="array 1 of the update"):
        updates.estimate(updates.report(np.zeros(DIM)), like=[wrong, np.zeros(DIM)])


def test_a_size_that_counts_integers_is_explained() -> None:
    with pytest.raises(InvalidInputError, match=r"5 parameters and 1 integers or booleans, which are not reported"):
        ModelUpdates(mechanism=SMALL, clip=0.5).report([np.zeros(5), np.array(3)])
