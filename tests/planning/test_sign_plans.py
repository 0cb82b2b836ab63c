"""Plans for signs: recall that comes true, and what it depends on."""

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.planning import SignPlan, plan_signs
from streamsketch.projections import OPORP, Rademacher
from streamsketch.signs import DPSignLogistic, DPSignOPORPRR, IDPSignOPORP, SignIndex

ONE = ss.OneCoordinate(1, unit="word")
MEMBERS, NEAREST = 400, 5


def planned(epsilon: float = 1.0, k: int = 64, **asked: Any) -> SignPlan:
    publish, projection = DPSignOPORPRR(epsilon=epsilon, neighbours=ONE), OPORP(dim=2_000, sketch_dim=k, seed=1)
    return plan_signs(publish, projection, **{"members": MEMBERS, "nearest": NEAREST} | asked)


def simulated(plan: SignPlan, queries: int) -> float:
    """Return the mean share of true neighbours found, from normal cells with constant flips and random ties."""
    rng = np.random.default_rng(5)
    k, wrong = plan.options[0].signs, 1 / (1 + math.exp(plan.publish.epsilon))
    near = np.repeat(plan.cosine, plan.nearest // len(plan.cosine))
    far = np.repeat(plan.rest, (plan.members - plan.nearest) // len(plan.rest))
    cosines = np.concatenate([near, far])[:, None]
    found = []
    for _ in range(queries):
        cells = rng.normal(size=k)
        positive = cosines * cells + np.sqrt(1 - cosines**2) * rng.normal(size=(cosines.size, k)) > 0
        own = (cells > 0) ^ (rng.random(k) < (0 if plan.exact_query else wrong))
        differing = (positive ^ (rng.random(positive.shape) < wrong) != own).sum(axis=1) + rng.random(cosines.size)
        found.append((np.argsort(differing)[: plan.top] < plan.nearest).mean() * plan.top / plan.nearest)
    return float(np.mean(found))


CASES: list[dict[str, Any]] = [
    {"epsilon": 1.0, "cosine": 0.9},
    {"epsilon": 4.0, "cosine": 0.8, "rest": 0.4},
    {"epsilon": 1.0, "cosine": 0.9, "exact_query": True},
    {"epsilon": 8.0, "cosine": [0.5, 0.7, 0.9, 0.6, 0.8], "rest": [0.0, 0.2, 0.1, 0.3, 0.0]},
    {"epsilon": 2.0, "cosine": 0.7, "top": 40},
    {"epsilon": 8.0, "cosine": 0.95, "rest": 0.8},
]


@pytest.mark.parametrize("case", CASES)
def test_expected_recall_comes_true(case: dict[str, Any]) -> None:
    """Within five standard errors, of a share of at most 1/2 a query."""
    plan = planned(**case)
    recall = plan.options[0].recall
    assert 0.03 < recall < 0.97
    assert simulated(plan, 60) == pytest.approx(recall, abs=5 * 0.35 / math.sqrt(60))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_expected_recall_comes_true_for_many_queries(case: dict[str, Any]) -> None:
    plan = planned(**case)
    assert simulated(plan, 3_000) == pytest.approx(plan.options[0].recall, abs=0.01 + 4 * 0.35 / math.sqrt(3_000))


@pytest.mark.long
@pytest.mark.parametrize("logistic", [False, True])
def test_expected_recall_comes_true_in_a_published_collection(logistic: bool) -> None:  # noqa: FBT001 - a case
    rng = np.random.default_rng(3)
    size, norm = 600, 2_000.0
    publish: Any = (
        DPSignLogistic(epsilon=300.0, neighbours=ss.L1(40)) if logistic else DPSignOPORPRR(epsilon=1.5, neighbours=ONE)
    )
    family: Any = Rademacher if logistic else OPORP
    asked: dict[str, Any] = {"members": MEMBERS, "nearest": NEAREST, "cosine": 0.8, "rest": 0.1, "norm": norm}
    plan = plan_signs(publish, family(dim=size, sketch_dim=128, seed=1), **asked)
    cosines = np.where(np.arange(MEMBERS) < NEAREST, 0.8, 0.1)
    found = []
    for seed in range(120):
        query = rng.normal(size=size)
        query /= np.linalg.norm(query)
        others = rng.normal(size=(MEMBERS, size))
        others -= np.outer(others @ query, query)
        others /= np.linalg.norm(others, axis=1)[:, None]
        vectors = cosines[:, None] * query + np.sqrt(1 - cosines**2)[:, None] * others
        order = rng.permutation(MEMBERS)
        rows = np.rint(np.vstack([query, vectors[order]]) * norm).astype(np.int64)
        made = publish.release_rows(family(dim=size, sketch_dim=128, seed=seed), rows)
        places = SignIndex(made[1:]).nearest(made[:1], NEAREST).places[0]
        found.append((order[places] < NEAREST).mean())
    assert np.mean(found) == pytest.approx(plan.options[0].recall, abs=0.02 + 4 * np.std(found) / math.sqrt(120))


def test_recall_grows_with_epsilon_signs_and_what_is_looked_at_and_falls_with_members() -> None:
    plan = planned(signs=[32, 64, 256], epsilons=[0.5, 1.0, 2.0])
    recalls = np.array([option.recall for option in plan.options]).reshape(3, 3)
    assert (np.diff(recalls) > 0).all()
    assert (np.diff(recalls, axis=0) > 0).all()
    assert all(option.recall < option.recall_exact for option in plan.options)
    assert [(option.signs, option.epsilon) for option in plan.options[:2]] == [(32, 0.5), (32, 1.0)]
    few, many = planned(top=5).options[0].recall, planned(top=50).options[0].recall
    assert few < many < planned(top=MEMBERS).options[0].recall + 1e-9 == pytest.approx(1, abs=1e-6)
    assert planned(members=100_000).options[0].recall < few < planned(exact_query=True).options[0].recall
    assert planned(cosine=0.5).options[0].recall < few


def test_signs_that_say_nothing_find_neighbours_by_chance() -> None:
    plan = planned(epsilon=1e-6)
    assert plan.options[0].recall == pytest.approx(NEAREST / MEMBERS, rel=0.01)


def test_enough_epsilon_is_enough() -> None:
    plan = planned(k=256)
    assert plan.enough is not None
    at = [planned(epsilon=epsilon, k=256).options[0].recall for epsilon in (plan.enough, 0.9 * plan.enough)]
    assert at[0] >= 0.9 > at[1]
    assert planned(k=16, cosine=0.3, rest=0.2).enough is None


def test_flips_that_depend_on_cells_take_a_norm() -> None:
    publish, projection = DPSignLogistic(epsilon=5.0, neighbours=ss.L1(1)), Rademacher(dim=500, sketch_dim=64, seed=1)
    with pytest.raises(ss.InvalidInputError, match="flips of DP-Sign-logistic depend on the size of cells; pass norm"):
        plan_signs(publish, projection, members=100)
    short, long = (plan_signs(publish, projection, members=100, norm=norm).options[0].recall for norm in (10, 1_000))
    assert short < long
    individual = IDPSignOPORP(epsilon=1.0, neighbours=ONE)
    assert plan_signs(individual, OPORP(dim=500, sketch_dim=64, seed=1), members=100, norm=50.0).options[0].recall > 0.5


def test_it_is_shown_in_eighty_columns_and_as_json() -> None:
    plan = planned(signs=[64, 256], epsilons=[0.1, 2.0], members=1_000_000)
    text = str(plan)
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    for part in ("5 true neighbours among the 5 of 1,000,000 members", "unknown", "one word of at most 1"):
        assert part in words
    assert f"ε = {plan.enough:g} or more finds nine in ten neighbours" in words
    fields = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert [option["recall"] for option in fields["options"]] == [option.recall for option in plan.options]
    assert "Even without flips, 16 signs find" in " ".join(str(planned(k=16, cosine=0.5)).split())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"members": 1}, "members must be an integer"),
        ({"nearest": 400}, "nearest must be an integer from 1 to 399"),
        ({"top": 401}, "top must be an integer"),
        ({"cosine": 1.0}, "cosine must lie in"),
        ({"cosine": "near"}, "cosine must be a number"),
        ({"cosine": [0.9, 0.2], "rest": 0.2}, "must exceed those of the rest, got 0.2 for a neighbour and 0.2"),
        ({"signs": []}, "signs must be a number"),
        ({"signs": 0}, "signs must be an integer from 1 to 16384"),
        ({"epsilons": [-1]}, "epsilon"),
    ],
)
def test_mistakes_are_sentences(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        planned(**asked)


def test_only_mechanisms_of_signs_are_planned() -> None:
    noise: Any = ss.AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1))
    with pytest.raises(TypeError, match=r"a mechanism of streamsketch\.signs, got a AdditiveNoise"):
        plan_signs(noise, OPORP(dim=500, sketch_dim=64, seed=1), members=9)


def test_a_plan_keeps_what_it_was_asked() -> None:
    plan = planned(epsilons=[2.0, 3.0])
    assert (plan.publish.epsilon, plan.members, plan.top) == (2.0, MEMBERS, NEAREST)
    assert dataclasses.replace(plan, options=()).options == ()
