"""What studies of accuracy compute beside what they measure."""

import math
from fractions import Fraction

import numpy as np
import pytest

import streamsketch as ss
from benchmarks.accuracy import comparison, crossover, feature_releases, patients, people_grid, planner
from benchmarks.accuracy.people_grid import EQUAL, GAUSSIAN, LAPLACE, QUESTIONS, SCALE, Choice, People
from streamsketch.estimation.blocks import block_of
from streamsketch.features import Category, Features
from streamsketch.sketching.bounding.units import bound_units


@pytest.mark.parametrize("sparsity", crossover.SPARSITIES)
@pytest.mark.parametrize("epsilon", crossover.EPSILONS)
def test_variances_are_equal_where_they_are_said_to_cross(epsilon: float, sparsity: int) -> None:
    close, distant = crossover.close_crossover(epsilon, sparsity), crossover.distant_crossover(epsilon, sparsity)
    assert crossover.relative_variance(epsilon, sparsity, close, 0.0) == pytest.approx(1, rel=1e-5)
    assert crossover.relative_variance(epsilon, sparsity, distant, 1e6) == pytest.approx(1, rel=1e-5)


def test_a_fine_lattice_crosses_where_continuous_noise_does() -> None:
    fine = crossover.lattice_crossover(1.0, 4, Fraction(1, 128))
    assert fine is not None
    assert math.log(fine) == pytest.approx(math.log(crossover.close_crossover(1.0, 4)), abs=0.01)
    coarse = crossover.lattice_crossover(1.0, 4)
    assert coarse is not None
    assert coarse > fine


def test_losses_are_those_of_the_named_mechanism_over_the_better_one() -> None:
    """At s = 4, δ = 1e-2 the rule names Laplace, whose noise is wider; a pure guarantee leaves no choice."""
    errors = planner.standard_errors(1.0, 1e-2, 4, 0.0)
    assert list(errors) == ["laplace", "gaussian"]
    assert planner.losses_of(1.0, 1e-2, 4, 0.0) == (errors["laplace"] / errors["gaussian"], 1.0)
    assert errors["laplace"] > 1.5 * errors["gaussian"]
    assert planner.losses_of(1.0, 0.0, 4, 1e3) == (1.0, 1.0)


def test_scenes_state_their_distances() -> None:
    assert [scene.squared_distance for scene in planner.SCENES] == [4_000, 4_000, 40_000, 400_000, 4_000, 405_000]


@pytest.mark.parametrize("exact", [True, False])
def test_kkmm_s_estimate_is_unbiased_with_the_variance_of_its_theorem(*, exact: bool) -> None:
    """At five standard errors and fixed seeds; over new seeds a valid one would fail with chance 2·10^-6."""
    z = np.random.default_rng(3).normal(0, 4, 64)
    pairs = np.array([comparison.kkmm_estimate(z, (2.0, 1e-3), seed, exact=exact) for seed in range(2000)])
    errors = pairs[:, 0] - z @ z
    assert abs(errors.mean()) < 5 * errors.std() / math.sqrt(2000)
    squares = errors**2
    assert abs(squares.mean() - pairs[:, 1].mean()) < 5 * squares.std() / math.sqrt(2000)


def few_people() -> People:
    """Return 60 people in up to three keys, with three items on average in each."""
    rng = np.random.default_rng(5)
    rows = np.unique(rng.integers(0, (60, 3, 20), (600, 3)), axis=0)
    people, keys, items = rows[rng.random(len(rows)) < 0.8].T
    return People("few", people, keys, items, 1 + rng.integers(0, 3, people.size), (2, 60), (1, 20), (None, 1, 3))


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "choice",
    [
        Choice(LAPLACE, 0, 1, 60),
        Choice(LAPLACE, 0, 1, 60, 3),
        Choice(GAUSSIAN, 0, 1, 60, 3),
        Choice(SCALE, 0, 1, 20),
        Choice(SCALE, 0, 1, 20, 3),
    ],
    ids=str,
)
def test_wide_bounds_with_little_noise_leave_the_raw_answers(choice: Choice, *, exact: bool) -> None:
    found = people_grid.measure(few_people(), {choice: (1e6,)}, range(2), exact=exact)
    assert {question for question, *_ in found} == {*QUESTIONS} - (
        {QUESTIONS[2]} if "together" in str(choice) else set()
    )
    assert max(errors.rmse for errors in found.values()) < 0.02
    assert not any(errors.undefined_share for errors in found.values())


@pytest.mark.parametrize("protection", [SCALE, EQUAL])
def test_releases_of_people_are_the_library_s(protection: str) -> None:
    people, choice = few_people(), Choice(protection, 64, 4, 3)
    projection, relation = choice.projection(people, 7), choice.neighbours(people)
    sums, counts = people.sums(choice, projection, 64)
    rows = [people.table[name] for name in ("key", "item", "value", "person")]
    table = bound_units([tuple(rows)], projection, neighbours=relation, clip=choice.clip)
    assert np.array_equal(table.cells, sums)
    assert counts.tolist() == [np.unique(people.people[people.keys == key]).size for key in range(3)]
    counting = choice.counting(people, projection)
    publisher = ss.release.AdditiveNoise(epsilon=20.0, neighbours=relation, delta=1e-6, counting=counting)
    released = publisher.release_table(table, public_keys=range(3))
    keys = [released[key] for key in range(3)]
    block = block_of(keys)
    assert block.units is not None
    given = people_grid.answers(block.values @ block.values.T, block.squared_norms, block.units, people.pairs)
    expected = (ss.pairwise(keys, by="cosine"), ss.pairwise(keys, by="distance"), ss.pairwise(keys, by="mean"))
    for question, found in zip(QUESTIONS, expected, strict=True):
        assert given[question] == pytest.approx(found.value[people.pairs], rel=1e-9, nan_ok=True)


def test_sums_of_drawn_people_are_those_that_are_bounded() -> None:
    held = patients.patient_map(4, seed=1)
    drawn = np.array([0, 3, 3, 7])
    rows = patients.patient_table(binned=False).take(drawn).set_column(0, "person", [np.arange(4)])
    found = feature_releases.sums_of(held.cells, np.bincount(drawn, minlength=569), held.agreement)
    expected = feature_releases.bound_of(rows, held.agreement)
    assert np.abs(found.state() - expected.state()).max() <= drawn.size  # steps, to which rows are lengthened
    assert found.counts is not None
    assert found.counts.tolist() == [4, 0]
    assert found.bounds == expected.bounds


@pytest.mark.parametrize(("times", "expected"), [(1.0, 1.0), (3.0, 1e-6)])
def test_histograms_and_classifiers_find_what_differs(times: float, expected: float) -> None:
    features = {f"number {place}": Category([str(one) for one in range(patients.BINS)]) for place in range(30)}
    held = patients.PatientMap.of(Features(features, seed=0), binned=True)
    random = np.random.default_rng(2)
    samples = patients.sample_of(20_000, 1.0, random), patients.sample_of(20_000, times, random)
    p_values = (
        patients.p_of_histograms(*held.released(samples, f"{times}"), Features(features, seed=0)),
        patients.p_of_classifier(*samples, 1),
    )
    assert all(one > 0.01 if expected == 1 else one < expected for one in p_values), p_values
