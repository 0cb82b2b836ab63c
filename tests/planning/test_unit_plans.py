"""Plans for units: errors that come true, the best of what is compared, and why, in words."""

import functools
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.planning import TypicalUnit, UnitOption, UnitPlan, UnitSample, plan_units

ROOT = Path(__file__).resolve().parents[2]
KEYS, ITEMS = 4, 300
PRIVACY: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "unit": "customer", "max_nonzeros": 1}


@functools.cache
def invented() -> pa.Table:
    """Return what 600 customers of four shops bought: sizes with a long tail, tastes that differ by shop."""
    rng = np.random.default_rng(5)
    popular = 1 / (np.arange(ITEMS) + 5.0)
    tastes = [0.5 * popular + 0.5 * rng.permutation(popular) for _ in range(KEYS)]
    rows = []
    for customer in range(600):
        shops = rng.choice(KEYS, 1 + customer % 2, replace=False)
        size = 3 + rng.geometric(1 / (60 if customer % 20 == 0 else 12))
        rows += [
            (f"c{customer}", f"s{shop}", int(item))
            for shop in shops
            for item in rng.choice(ITEMS, size, p=tastes[shop] / tastes[shop].sum())
        ]
    who, shop, item = zip(*rows, strict=True)
    return pa.table({"who": who, "shop": shop, "item": item})


@functools.cache
def sample() -> UnitSample:
    return UnitSample.of(invented(), unit="who", key="shop", index="item")


@functools.cache
def planned(question: Any) -> UnitPlan:
    return plan_units(sample(), question=question, units=6_000, **PRIVACY)


def vectors() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a row for each customer and shop: whose it is, of which shop, and counts of items; by the plain way."""
    table = invented()
    who = np.unique(table["who"].to_numpy(zero_copy_only=False), return_inverse=True)[1]
    shop = np.unique(table["shop"].to_numpy(zero_copy_only=False), return_inverse=True)[1]
    pairs, row = np.unique(who * KEYS + shop, return_inverse=True)
    counts = np.zeros((pairs.size, ITEMS))
    np.add.at(counts, (row, table["item"].to_numpy()), 1.0)
    return pairs // KEYS, pairs % KEYS, counts


def test_sums_of_a_sample_are_those_of_its_rows() -> None:
    """By brute force over pairs of units, also for twice as many units and where a unit keeps a key by chance."""
    owner, shop, counts = vectors()
    pieces = counts.sum(axis=1)
    sizes = sample().sizes
    assert sorted(sizes.squares) == sorted((counts**2).sum(axis=1))
    assert np.bincount(sizes.keys.astype(int)).tolist() == [0, 300, 600]
    assert sum(sample().units) == owner.size
    ours, kept = 5 / sizes.pieces, np.where(sizes.pieces > 10, 0.5, 1.0)
    weights, chance = 5 / pieces, np.where(pieces > 10, 0.5, 1.0)
    found = sample().sums([2 * units for units in sample().units], ours, kept)
    own = owner[:, None] == owner
    pairs = np.where(own, 2 * np.sqrt(chance[:, None] * chance), 4 * chance[:, None] * chance)
    clipped = weights[:, None] * counts
    expected = np.zeros((KEYS, KEYS))
    np.add.at(expected, (shop[:, None], shop), clipped @ clipped.T * pairs)
    assert sorted(np.diagonal(found.products)) == pytest.approx(sorted(np.diagonal(expected)))
    assert found.products.sum() == pytest.approx(expected.sum())
    assert sorted(found.units) == pytest.approx(sorted(2 * np.bincount(shop, chance)))


def simulated(option: UnitOption, question: str, trials: int) -> float:
    """Return the root mean square error of answers from clipped units under fresh maps and noises, in floats."""
    rng = np.random.default_rng(7)
    owner, shop, counts = vectors()
    cells, noise = option.cells, option.noise.cumulants.scaled(option.projection.cell_unit)
    bound, squares = float(option.bound), 0.0
    one, other = np.triu_indices(KEYS, 1)

    def answers(sums: np.ndarray, bias: float) -> Any:
        gram = sums @ sums.T - bias * np.eye(KEYS)
        x, y, product = gram[one, one], gram[other, other], gram[one, other]
        return product / np.sqrt(x * y) if question == "cosine" else x + y - 2 * product

    exact = answers(np.array([counts[shop == key].sum(axis=0) for key in range(KEYS)]), 0.0)
    for _ in range(trials):
        image = np.zeros((ITEMS, cells))
        image[np.arange(ITEMS), rng.integers(0, cells, ITEMS)] = rng.choice([-1.0, 1.0], ITEMS)
        rows = counts @ image
        if isinstance(option.neighbours, ss.L1):
            weights = np.minimum(1, bound / counts.sum(axis=1))
        else:
            weights = bound / np.sqrt(np.maximum(np.bincount(owner, (rows**2).sum(axis=1)), 1e-9))[owner]
            weights = weights if option.clip == "equal" else np.minimum(1, weights)
        sums = np.array([(weights[:, None] * rows)[shop == key].sum(axis=0) for key in range(KEYS)])
        drawn = rng.laplace(size=sums.shape) / np.sqrt(2) if noise.k4 else rng.normal(size=sums.shape)
        errors = answers(sums + np.sqrt(noise.k2) * drawn, cells * noise.k2) - exact
        squares += float(np.mean((errors if question == "cosine" else errors / exact) ** 2))
    return float(np.sqrt(squares / trials))


@pytest.mark.parametrize("most", [2, pytest.param(None, marks=pytest.mark.long)])
@pytest.mark.parametrize("question", ["cosine", "distance"])
def test_predicted_errors_come_true(question: Any, most: int | None) -> None:
    """Of the best options of two kinds, or of each, and of one that clips much; a shop has 200 customers or more."""
    plan = plan_units(sample(), question=question, max_cells=128, max_nonzeros=1, epsilon=10.0, delta=1e-6)
    strict = min(plan.options, key=lambda one: (one.bound, one.mechanism != "laplace", -one.cells))
    found = [one for one in plan.alternatives() if one.error < 0.5]
    assert len(found) >= 3
    for option in [*found[:most], strict]:
        assert simulated(option, question, 20) == pytest.approx(option.error, rel=0.35), option


def test_no_option_is_much_better_than_the_recommended_one() -> None:
    for question in ("cosine", "distance", "mean", "point"):
        plan = planned(question)
        assert plan.chosen.error <= 1.03 * min(one.error for one in plan.options)
        assert plan.chosen is plan.alternatives()[0]


def test_what_a_person_adds_decides_between_laplace_and_gaussian_noise() -> None:
    """Below some ten items (at δ = 1e-6), an L1 bound with Laplace noise is better; above, a bound on sketches."""
    few, many = (plan_units(TypicalUnit(items=items), units=2_000, **PRIVACY) for items in (4, 40))
    assert (few.neighbours.kind, few.chosen.mechanism) == ("l1", "laplace")
    assert (many.neighbours.kind, many.chosen.mechanism, many.clip) == ("sketch-l2", "gaussian", "equal")
    best = {one.neighbours.kind: one.error for one in reversed(many.alternatives())}
    assert many.chosen.error < 0.5 * best["l1"]
    pure = plan_units(TypicalUnit(items=40), units=2_000, epsilon=1.0)
    assert {one.mechanism for one in pure.options} == {"laplace"}


def test_shapes_want_small_bounds_and_sizes_large_ones() -> None:
    cosine, distance = (planned(question) for question in ("cosine", "distance"))
    laplace = {
        plan.question: next(
            one for one in plan.alternatives() if one.mechanism == "laplace" and one.neighbours.kind == "l1"
        )
        for plan in (cosine, distance)
    }
    assert laplace["cosine"].bound < laplace["distance"].bound
    assert distance.clip == "scale"
    assert distance.chosen.bound > 1


def test_the_closest_keys_make_the_largest_errors_of_distances() -> None:
    def error(cosine: Any) -> float:
        found = plan_units(TypicalUnit(items=20, cosine=cosine), units=[900, 3_000], question="distance", **PRIVACY)
        return found.chosen.error

    far, close = error(0.3), error(0.95)
    assert far < error([0.3, 0.95]) < close
    assert error([0.3, 0.3]) == pytest.approx(far)


def test_shares_say_how_frequent_sizes_are() -> None:
    asked: dict[str, Any] = {"units": 2_000, "question": "distance", "bounds": [5, 10, 20], **PRIVACY}

    def errors(**sizes: Any) -> list[float]:
        return [one.error for one in plan_units(TypicalUnit(**sizes), **asked).options]

    three_to_one = errors(items=[5, 300], shares=[0.75, 0.25])
    assert three_to_one == pytest.approx(errors(items=[5, 5, 5, 300]))
    assert three_to_one != pytest.approx(errors(items=[5, 300]))


def test_equal_weights_are_for_shapes_where_sizes_are_assumed() -> None:
    """The bias of sizes, which is that of one unit too short and another too long, cancels by chance otherwise."""
    plan = plan_units(TypicalUnit(items=[5, 20, 80]), units=5_000, question="distance", **PRIVACY)
    assert plan.clip == "scale"
    assert any(one.clip == "equal" for one in plan.alternatives())


def test_more_units_and_more_privacy_loss_make_smaller_errors() -> None:
    typical = TypicalUnit(items=[5, 20, 60], keys=2)
    errors = [plan_units(typical, units=units, **PRIVACY).chosen.error for units in (300, 1_000, 10_000)]
    assert errors == sorted(errors, reverse=True)
    # of keys of several sizes, the smallest makes most of the error
    mixed = plan_units(typical, units=[300, 10_000], **PRIVACY)
    assert errors[2] < mixed.chosen.error < errors[0]
    assert plan_units(typical, units=300, **PRIVACY | {"epsilon": 4.0}).chosen.error < errors[0]


def test_a_plan_releases_what_it_says() -> None:
    plan = plan_units(TypicalUnit(items=40), units=500, count=False, **PRIVACY)
    projection = plan.projection(seed=3)
    assert (projection.seed, projection.sketch_dim) == (3, plan.chosen.cells)
    released = projection.sketch().release(**plan.release_arguments)
    assert released.noise == plan.chosen.noise.cumulants
    assert (released.guarantee.budget, released.guarantee.neighbours) == (
        plan.guarantee.budget,
        plan.guarantee.neighbours,
    )


def test_its_pieces_make_an_agreement() -> None:
    for question in ("cosine", "distance", "mean", "point"):
        plan = planned(question)
        columns: dict[str, Any] = {"index": "item", "key": "shop", "unit": "who"}
        agreement = ss.Agreement(plan.projection(1), **columns, **plan.agreement_arguments)
        assert ss.Agreement.from_json(agreement.to_json()) == agreement


def test_it_is_shown_in_eighty_columns_and_as_json() -> None:
    for question in ("cosine", "distance", "mean", "point"):
        plan = planned(question)
        text = str(plan)
        assert max(map(len, text.splitlines())) <= 80
        assert "For comparison: " in text
        assert "Assumed: a public sample of 600 customers" in text
        fields = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
        assert fields["chosen"]["error"] == plan.chosen.error
        assert ss.projections.Projection.from_json(json.dumps(fields["projection"] | {"seed": 1})) == plan.projection(1)
    text = str(plan_units(TypicalUnit(items=40), units=2_000, **PRIVACY))
    assert "each customer counts the same" in text
    assert "There is no bound to choose" in " ".join(text.split())
    assert "one customer that adds more makes it larger" in " ".join(str(planned("distance")).split())


def test_a_small_known_domain_needs_no_sketch() -> None:
    asked: dict[str, Any] = {"question": "distance", "units": 2_000, **PRIVACY}
    few, many = (plan_units(TypicalUnit(items=40), dim=dim, **asked) for dim in (50, 60_000))
    assert few.chosen.is_raw
    assert few.projection(seed=5) == few.chosen.projection
    assert "so a sketch has no advantage" in str(few)
    assert max(map(len, str(few).splitlines())) <= 80
    assert not many.chosen.is_raw
    assert "Noise on the raw histogram of 60,000 cells would leave ±" in " ".join(str(many).split())
    assert not any(one.is_raw for one in plan_units(TypicalUnit(items=40), **asked).options)


def test_hopeless_plans_say_so() -> None:
    plan = plan_units(TypicalUnit(items=5), units=2, **PRIVACY)
    assert plan.chosen.error > 0.5
    assert "below the noise floor" in " ".join(str(plan).split())


def test_a_unit_may_be_in_more_keys_than_a_typical_one() -> None:
    typical = TypicalUnit(items=40, keys=3)
    assert plan_units(typical, units=500, **PRIVACY).neighbours.max_keys == 3
    assert plan_units(typical, units=500, max_keys=24, **PRIVACY).neighbours.max_keys == 24
    assert plan_units(typical, units=500, max_keys=2, **PRIVACY).neighbours.max_keys == 2


def test_units_of_one_size_are_not_clipped_for_sizes() -> None:
    for items, pieces in ((40, 40), (7, 1_234_567)):
        typical = TypicalUnit(items=items, pieces=pieces)
        plan = plan_units(typical, units=500, question="distance", **PRIVACY)
        kept = [one for one in plan.options if one.clip == "scale"]
        assert {one.bias for one in kept} == {0.0}
        assert all(float(one.bound) < 1.01 * typical.sizes.pieces.max() for one in kept)
        assert "/" not in str(plan).partition("Choices")[0].partition("resolution")[0]


def test_bounds_may_be_given() -> None:
    plan = plan_units(TypicalUnit(items=40), units=500, bounds=["5/2", 7], question="distance", **PRIVACY)
    assert {one.bound for one in plan.options} == {Fraction(5, 2), Fraction(7)}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"question": "median"}, "question must be one of .*, got 'median'"),
        ({"question": "mean", "count": False}, "question='mean' needs the number of units"),
        ({"units": None}, "the number of units in a key is missing"),
        ({"units": 0}, "units must be a number from 1"),
        ({"units": []}, "units must be a number from 1"),
        ({"units": "many"}, "units must be a number from 1"),
        ({"bounds": "125"}, "bounds must be several numbers"),
        ({"bounds": [0]}, "must be positive"),
        ({"bounds": []}, "bounds is empty"),
        ({"epsilon": 0}, "epsilon"),
        ({"max_keys": 0}, "max_keys must be an int"),
        ({"max_cells": 8}, "at most 8 cells; raise max_cells to 16"),
    ],
)
def test_mistakes_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        plan_units(TypicalUnit(items=40), **PRIVACY | {"units": 500} | changed)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"items": 0}, r"items must lie in \[1"),
        ({"items": []}, "items must be a number, or up to"),
        ({"items": "7"}, "items must be a number, or up to"),
        ({"items": [1, 2], "keys": [1, 2, 3]}, "items must have 1 number or 3"),
        ({"items": [1, 9], "shares": [0.5]}, "shares must be 2 numbers above 0"),
        ({"items": [1, 9], "shares": [0.5, 0]}, "shares must be 2 numbers above 0"),
        ({"items": 9, "pieces": 3}, "pieces must be at least items"),
        ({"items": 9, "keys": 1.5}, "keys must be whole numbers"),
        ({"items": 9, "match": 0}, "match must be a probability"),
        ({"items": 9, "cosine": 1}, r"cosine must lie in \[-1, 1\)"),
        ({"items": 9, "cosine": []}, "cosine must be a number, or up to"),
    ],
)
def test_facts_that_are_none_are_refused(facts: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        TypicalUnit(**facts)


def test_samples_that_are_none_are_refused() -> None:
    with pytest.raises(TypeError, match="facts must be a TypicalUnit or a UnitSample"):
        plan_units(40, units=9, epsilon=1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="rows must be a data frame"):
        UnitSample.of([1], unit="who", index="item")
    with pytest.raises(ss.InvalidInputError, match="must have the column when exactly once"):
        UnitSample.of(invented(), unit="who", index="when")
    with pytest.raises(ss.InvalidInputError, match="no row of the sample names its who"):
        UnitSample.of(invented().slice(0, 0), unit="who", index="item")
    alone = UnitSample.of(invented(), unit="who", index="item")
    with pytest.raises(ss.InvalidInputError, match="the sample has one; name the column of keys"):
        plan_units(alone, epsilon=1.0)
    assert plan_units(alone, question="point", **PRIVACY).chosen.error > 0


def test_what_a_sample_does_not_name_is_left_out() -> None:
    rows = pa.table({"who": ["a", "a", None, "b", "b"], "item": [1, 1, 1, 2, None], "paid": [2.5, -2.5, 9.0, 4.0, 1.0]})
    assert UnitSample.of(rows, unit="who", index="item", value="paid").sizes.pieces.tolist() == [5.0]
    assert sorted(UnitSample.of(rows, unit="who", index="item").sizes.pieces) == [2.0, 2.0]


def test_keys_that_are_compared_together_want_four_times_the_cells_within_the_limits() -> None:
    typical = TypicalUnit(items=40, catalogue=1000)
    free, limited, of_distances = (
        plan_units(typical, units=500, **(PRIVACY | options))
        for options in ({}, {"max_cells": 2048}, {"question": "distance"})
    )
    assert free.cells_together == 4 * free.chosen.cells
    assert limited.cells_together == 2048 < 4 * limited.chosen.cells
    assert of_distances.cells_together == of_distances.chosen.cells
    raw = plan_units(typical, units=500, dim=64, **(PRIVACY | {"epsilon": 8.0}))
    assert raw.chosen.is_raw
    assert raw.cells_together == raw.chosen.cells


def test_four_times_the_cells_are_nearly_best_in_the_kept_study() -> None:
    """At most 21 % above the least joint error in each setting, 5 % on average; the cells of pairs alone are not."""
    study = json.loads((ROOT / "benchmarks/results/accuracy-together-months.json").read_text(encoding="utf-8"))
    best, every = (table["rows"] for table in study["tables"])
    together = {(shop, epsilon, cells): error for shop, epsilon, cells, _, error in every}
    most = max(cells for _, _, cells in together)
    ratios = np.array(
        [
            [together[shop, epsilon, min(times * cells, most)] / least for times in (1, 4)]
            for shop, epsilon, cells, _, _, least, *_ in best
        ]
    )
    same, four = ratios.T
    assert four.max() <= 1.21
    assert four.mean() <= 1.05 < same.mean()
