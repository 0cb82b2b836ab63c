"""Plans: the best of what is listed, honest about what cannot be reached, and readable."""

import itertools
import json
import math
from fractions import Fraction
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.projections import block_hashed, spectral

FAR = ss.planning.StreamFacts(squared_distances=4e6)
NEAR = ss.planning.StreamFacts(squared_distances=[4e3, 4e4])
ONE: dict[str, Any] = {"epsilon": 1.0, "neighbours": ss.L1(1, unit="flight")}

STREAMS = [
    NEAR,
    FAR,
    ss.planning.StreamFacts(dim=700, squared_distances=2e3),
    ss.planning.StreamFacts(dim=50_000, squared_distances=[1e3, 1e6], spread=100),
    ss.planning.StreamFacts(dim=1 << 40, squared_distances=1e5, events=10_000, step=None),
]
GOALS = [
    ss.planning.Goal(),
    ss.planning.Goal(relative_error=0.3),
    ss.planning.Goal(relative_error=0.1, confidence=0.999),
    ss.planning.Goal(max_cells=300, max_nonzeros=64),
]
BUDGETS = [(0.3, 0.0), (1.0, 1e-6), (4.0, 1e-3)]


CASES = [*itertools.product(STREAMS, GOALS, BUDGETS)]


@pytest.mark.parametrize("every", [19, pytest.param(1, marks=pytest.mark.long)])
def test_no_option_beats_the_recommended_one_on_every_count(every: int) -> None:
    """Each stream, each goal and each budget."""
    for streams, goal, budget in CASES[::every]:
        plan = ss.plan(streams, epsilon=budget[0], delta=budget[1], neighbours=ss.L1(1), goal=goal)
        assert plan.chosen in plan.options
        assert not any(option.beats(plan.chosen) for option in plan.options)
        assert plan.chosen.cells <= goal.max_cells
        assert plan.chosen.nonzeros <= goal.max_nonzeros
        if goal.relative_error is not None:
            assert plan.met == any(option.error <= goal.relative_error for option in plan.options)
        assert str(plan)


def test_a_goal_takes_the_fewest_cells_that_reach_it() -> None:
    plan = ss.plan(NEAR, goal=ss.planning.Goal(relative_error=0.25), **ONE)
    assert plan.met
    assert all(option.error > 0.25 for option in plan.options if option.cells < plan.chosen.cells)
    assert (plan.epsilon_needed, plan.cells_needed) == (None, None)


def test_an_unreached_goal_says_what_epsilon_would_do() -> None:
    goal = ss.planning.Goal(relative_error=0.1)
    plan = ss.plan(NEAR, goal=goal, **ONE)
    assert plan.met is False
    assert plan.epsilon_needed is not None
    assert f"the goal takes ε = {plan.epsilon_needed:g} instead of 1" in " ".join(str(plan).split())
    neighbours = ONE["neighbours"]
    assert ss.plan(NEAR, epsilon=plan.epsilon_needed, neighbours=neighbours, goal=goal).met
    assert not ss.plan(NEAR, epsilon=plan.epsilon_needed / 1.15, neighbours=neighbours, goal=goal).met


def test_an_unreached_goal_says_how_many_cells_would_do() -> None:
    plan = ss.plan(FAR, goal=ss.planning.Goal(relative_error=0.05, max_cells=1024), **ONE)
    assert (plan.met, plan.epsilon_needed) == (False, None)
    assert plan.cells_needed is not None
    assert ss.plan(FAR, goal=ss.planning.Goal(relative_error=0.05, max_cells=plan.cells_needed), **ONE).met
    assert not ss.plan(FAR, goal=ss.planning.Goal(relative_error=0.05, max_cells=plan.cells_needed - 1), **ONE).met


def test_what_nothing_reaches_is_said() -> None:
    goal = ss.planning.Goal(relative_error=1e-6, max_cells=64)
    text = " ".join(str(ss.plan(FAR, goal=goal, **ONE)).split())
    assert "no ε up to 100 reaches the goal with at most 64 cells" in text


def test_a_small_known_domain_needs_no_sketch() -> None:
    plan = ss.plan(ss.planning.StreamFacts(dim=300, squared_distances=4e3), **ONE)
    assert plan.chosen.is_raw
    assert "no sketch. Put noise on the raw histogram, 300 cells" in str(plan)
    assert plan.projection(seed=5) == ss.projections.Identity(dim=300)
    assert any(not option.is_raw for option in plan.alternatives())
    # a hashed domain cannot be enumerated, however few its keys
    assert ss.plan(NEAR, **ONE).raw is None


def test_the_raw_histogram_is_weighed_where_a_sketch_is_better() -> None:
    plan = ss.plan(ss.planning.StreamFacts(dim=60_000, squared_distances=4e3), **ONE)
    assert not plan.chosen.is_raw
    assert plan.raw is not None
    assert plan.raw.error > 2 * plan.chosen.error
    assert plan.raw in plan.alternatives()


def test_sparsity_is_paid_for_where_tails_matter() -> None:
    usual = ss.plan(NEAR, **ONE)
    rare = ss.plan(FAR, delta=1e-6, goal=ss.planning.Goal(max_cells=4096, confidence=1 - 1e-6), **ONE)
    assert usual.chosen.nonzeros == 1
    assert "More nonzeros do not help here" in str(usual)
    assert rare.chosen.nonzeros >= 8
    assert "gives lighter tails" in str(rare)
    # differences known to be spread over many items have no such tails
    spread = ss.planning.StreamFacts(squared_distances=4e6, spread=100_000)
    assert ss.plan(spread, goal=ss.planning.Goal(max_cells=4096, confidence=1 - 1e-6), **ONE).chosen.nonzeros == 1


def test_the_exact_choice_of_mechanism_may_differ_from_the_rule() -> None:
    goal = ss.planning.Goal(max_cells=4096, max_nonzeros=8, confidence=1 - 1e-6)
    plan = ss.plan(FAR, epsilon=0.2, delta=1e-6, neighbours=ss.L1(1), goal=goal)
    assert plan.chosen.mechanism == "gaussian"
    assert not plan.chosen.by_rule
    assert plan.chosen.nonzeros == 8
    assert plan.delta < math.exp(-8)
    assert plan.other_mechanism is not None
    assert plan.other_mechanism.by_rule
    assert plan.other_mechanism.error > plan.chosen.error
    assert "Release with mechanism='gaussian'" in " ".join(str(plan).split())


def test_a_plan_releases_what_it_says() -> None:
    plan = ss.plan(NEAR, delta=1e-6, **ONE)
    sketch = plan.projection(seed=3).sketch()
    sketch.update(["a", "b"], [3, 4])
    released = sketch.release(**plan.release_arguments)
    assert released.guarantee == plan.guarantee.on("asserted")
    assert released.noise == plan.chosen.noise.cumulants


def test_counts_on_a_finer_grid_take_less_gaussian_noise() -> None:
    streams = ss.planning.StreamFacts(squared_distances=1e4)
    plan = ss.plan(streams, epsilon=2.0, delta=0.4, neighbours=ss.L1(1), goal=ss.planning.Goal(max_cells=64))
    assert plan.chosen.mechanism == "gaussian"
    assert plan.chosen.projection.grid == Fraction(1, 16)
    on_ones = ss.accounting.mechanisms(
        plan.chosen.projection.replace(resolution=1), epsilon=2.0, delta=0.4, neighbours=ss.L1(1)
    )
    (coarse,) = [option.noise.cumulants.k2 for option in on_ones if option.mechanism == "gaussian"]
    assert plan.chosen.noise.cumulants.k2 / 16**2 < 0.5 * coarse


def test_real_values_get_a_resolution_that_hardly_truncates() -> None:
    streams = ss.planning.StreamFacts(dim=1 << 40, squared_distances=1e6, events=5_000, step=None)
    plan = ss.plan(streams, epsilon=1.0, neighbours=ss.L1("5/2"))
    step = plan.chosen.projection.grid
    assert (Fraction(5, 2) / step).denominator == 1
    lost = 2 * 5_000 * float(step)
    assert 2 * 1e3 * lost + lost**2 <= 1e-3 * 1e6
    assert streams.truncation(2 * step) > 1e-3
    assert "by at most 0.0" in " ".join(str(plan).split())


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_grid_of_real_values_leaves_every_mechanism_possible(budget: tuple[float, float]) -> None:
    # so many updates that truncation cannot be kept small: the plan says how large it may be
    streams = ss.planning.StreamFacts(dim=1 << 40, squared_distances=1.0, events=1 << 50, step=None)
    near = ss.L1("5/2", max_keys=100)
    plan = ss.plan(streams, epsilon=budget[0], delta=budget[1], neighbours=near)
    assert {option.mechanism for option in plan.options if option.nonzeros == plan.goal.max_nonzeros} == (
        {"laplace", "gaussian"} if budget[1] else {"laplace"}
    )
    assert streams.truncation(plan.chosen.projection.grid) > 1e-3


def test_values_keep_their_step() -> None:
    cents = ss.planning.StreamFacts(dim=9, squared_distances=4, step="1/100")
    assert ss.plan(cents, **ONE).chosen.projection.grid == Fraction(1, 100)
    assert cents.truncation(Fraction(1, 1600)) == 0.0


def test_events_alone_stand_for_unrelated_streams_of_counts() -> None:
    assert ss.planning.StreamFacts(dim=9, events=50).distances == (100.0,)


@pytest.mark.parametrize("confidences", [(0.95, 1 - 1e-6), pytest.param((1 - 1e-6, 0.95), marks=pytest.mark.long)])
def test_the_report_fits_a_terminal_and_the_dictionary_json(confidences: tuple[float, float]) -> None:
    first, second = confidences
    goals = ss.planning.Goal(confidence=first), ss.planning.Goal(relative_error=0.01, confidence=second)
    for (streams, goal), delta in zip(itertools.product(STREAMS, goals), itertools.cycle((0.0, 1e-6, 1e-6, 0.0))):
        plan = ss.plan(streams, delta=delta, goal=goal, **ONE)
        assert max(map(len, str(plan).splitlines())) <= 80, str(plan)
        told = json.loads(json.dumps(plan.to_dict()))
        assert told["chosen"] in told["alternatives"]
        assert (
            ss.projections.Projection.from_json(json.dumps(told["projection"] | {"seed": 0})) == plan.chosen.projection
        )


def test_hopeless_plans_fit_too() -> None:
    for epsilon, distance in ((1e-4, 4e3), (1e-3, 1.0), (1.0, 1e25)):
        streams = ss.planning.StreamFacts(squared_distances=[distance, 2 * distance])
        goal = ss.planning.Goal(relative_error=0.05, confidence=1 - 1e-6)
        plan = ss.plan(streams, epsilon=epsilon, delta=1e-6, neighbours=ss.L1(1), goal=goal)
        assert max(map(len, str(plan).splitlines())) <= 80, str(plan)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"dim": 0, "squared_distances": 1}, "dim must be an integer from 1"),
        ({"dim": 9}, "needs squared_distances"),
        ({"dim": 9, "events": 5, "step": "1/100"}, "needs squared_distances"),
        ({"dim": 9, "squared_distances": []}, "is empty"),
        ({"dim": 9, "squared_distances": -1.0}, "must be a number in"),
        ({"dim": 9, "squared_distances": [4, math.nan]}, "must be a number in"),
        ({"dim": 9, "squared_distances": "4"}, "must be a number in"),
        ({"dim": 9, "squared_distances": 4, "step": None}, "needs events"),
        ({"dim": 9, "squared_distances": 4, "spread": 1.5}, "spread must be an int"),
    ],
)
def test_facts_that_are_none_are_refused(facts: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        ss.planning.StreamFacts(**facts)


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ({"relative_error": 0}, "relative_error must lie in"),
        ({"relative_error": "0.2"}, "relative_error must lie in"),
        ({"confidence": 95}, "confidence must lie in"),
        ({"confidence": math.nan}, "confidence must lie in"),
        ({"max_cells": 0}, "max_cells must be an int"),
        ({"max_nonzeros": True}, "max_nonzeros must be an int"),
    ],
)
def test_goals_that_are_none_are_refused(goal: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        ss.planning.Goal(**goal)


@pytest.mark.parametrize("squared_distance", [1e-60, 1e30])
def test_the_least_and_the_largest_distances_are_planned_for_in_finite_numbers(squared_distance: float) -> None:
    for epsilon, delta in ((1e-6, 0.0), (1.0, 1e-9), (1e6, 0.0)):
        streams = ss.planning.StreamFacts(squared_distances=squared_distance)
        plan = ss.plan(streams, epsilon=epsilon, delta=delta, neighbours=ss.L1(1))
        json.dumps(plan.to_dict(), allow_nan=False)
        assert "inf" not in str(plan).split()
    for beyond in (1e-61, 1e-300, 1.01e30):
        with pytest.raises(ss.InvalidInputError, match=r"squared distance must be a number in \[1e-60, 1e\+30\], got"):
            ss.planning.StreamFacts(squared_distances=[squared_distance, beyond])


def test_plans_that_cannot_be_are_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match="epsilon"):
        ss.plan(NEAR, epsilon=0, neighbours=ss.L1(1))
    with pytest.raises(ss.InvalidInputError, match="below one grid step"):
        ss.plan(NEAR, epsilon=1, neighbours=ss.L1("1/2"))
    with pytest.raises(ss.InvalidInputError, match="at most 4 cells"):
        ss.plan(NEAR, goal=ss.planning.Goal(max_cells=4), **ONE)
    with pytest.raises(TypeError, match="streams must be a StreamFacts"):
        ss.plan({"dim": 9}, **ONE)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="neighbours must be a Neighbours"):
        ss.plan(NEAR, epsilon=1, neighbours=1)  # type: ignore[arg-type]


def test_plans_for_whole_vectors_expect_norms_of_large_maps_and_find_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound on such a norm takes up to seconds, and depends on a seed that is chosen later."""
    found = spectral.block_bound

    def quick(projection: ss.projections.Projection, sparsity: int) -> int:
        assert projection.sketch_dim <= 256 or sparsity == 1
        return found(projection, sparsity)

    monkeypatch.setattr(block_hashed, "block_bound", quick)
    goal = ss.planning.Goal(max_cells=2048, max_nonzeros=4)
    streams = ss.planning.StreamFacts(dim=3000, squared_distances=1e4)
    plan = ss.plan(streams, epsilon=1.0, delta=1e-6, neighbours=ss.L2(1), goal=goal)
    assert any(one.cells == 2048 and one.nonzeros == 4 for one in plan.options)
    assert str(plan)


@pytest.mark.parametrize("sparsity", [4, 16])
def test_norms_are_about_what_plans_expect(sparsity: int) -> None:
    projection = ss.SJLT(dim=4000, sketch_dim=512, sparsity=sparsity, seed=3)
    assert projection.spectral_bound == pytest.approx(projection.expected_spectral_bound, rel=0.04)
    for other in (projection.replace(sketch_dim=4096), projection.replace(dim=1 << 40)):
        assert other.expected_spectral_bound is None
