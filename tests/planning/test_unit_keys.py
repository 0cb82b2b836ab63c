"""Which keys stand out: probabilities that come true, what would lift keys, and that the plan says so."""

import dataclasses
import functools
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.estimation import NoiseTerm, gap_law
from streamsketch.estimation.blocks import block_of
from streamsketch.estimation.cosines import below_noise_floor
from streamsketch.estimation.means import few_units
from streamsketch.planning import NoiseFloor, TypicalUnit, UnitOption, UnitPlan, UnitSample, plan_units

SIZES = {"Ada": 120, "Bex": 50, "Cley": 32, "Deal": 22, "Eye": 14, "Fowey": 5}
PRIVACY: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "unit": "customer"}
OPTIONS = [("sketch-l2", "equal"), ("sketch-l2", "scale"), ("l1", "scale")]


@functools.cache
def bought() -> pa.Table:
    """Return what customers of six towns bought: mostly the same items."""
    rng = np.random.default_rng(5)
    popular = 1 / (np.arange(200) + 5.0)
    rows = [
        (f"{town} {customer}", town, int(item))
        for town, customers in SIZES.items()
        for customer in range(customers)
        for item in rng.choice(200, 4 + rng.geometric(1 / 8), p=popular / popular.sum())
    ]
    who, town, item = zip(*rows, strict=True)
    return pa.table({"who": who, "town": town, "item": item})


@functools.cache
def planned(question: Any = "cosine") -> UnitPlan:
    sample = UnitSample.of(bought(), unit="who", key="town", index="item")
    return plan_units(sample, question=question, max_cells=64, max_nonzeros=1, **PRIVACY)


def with_option(kind: str, clip: str, question: str = "cosine") -> UnitPlan:
    """Return the plan with the best option of 64 cells of a kind instead of its own."""
    plan = planned(question)
    found = [one for one in plan.options if (one.neighbours.kind, one.clip, one.cells) == (kind, clip, 64)]
    return dataclasses.replace(plan, chosen=min(found, key=lambda one: one.error))


def released(option: UnitOption, releases: int, decide: Any) -> dict[str, float]:
    """Return how often each key is lost, of so many releases with fresh maps and noises."""
    lost = np.zeros(len(SIZES))
    for seed in range(releases):
        agreement = ss.Agreement(
            option.projection.replace(seed=seed),
            index="item",
            key="town",
            unit="who",
            neighbours=option.neighbours,
            clip=option.clip,
            counting=option.layout.counting,
        )
        sketched = ss.bound(bought(), agreement)
        assert isinstance(sketched, ss.SketchTable)
        made = sketched.release(
            epsilon=1.0, delta=1e-6, neighbours=option.neighbours, mechanism=option.mechanism, keys_are_public=True
        )
        lost += decide(block_of([made[key] for key in SIZES]))
    return dict(zip(SIZES, (lost / releases).tolist(), strict=True))


def simulated(option: UnitOption, releases: int) -> dict[str, float]:
    """Return how often each key is below the noise floor, in floats."""
    rng = np.random.default_rng(7)
    table = bought()
    names, who = np.unique(table["who"].to_numpy(zero_copy_only=False), return_inverse=True)
    counts = np.zeros((names.size, 200))
    np.add.at(counts, (who, table["item"].to_numpy()), 1.0)
    towns = np.array([[name.startswith(town) for name in names] for town in SIZES], dtype=float)
    k, noise, bound = option.cells, option.noise.cumulants.scaled(option.projection.cell_unit), float(option.bound)
    floor, lost = 2 * np.sqrt(k * noise.k4 + 2 * k * noise.k2**2), np.zeros(len(SIZES))
    for _ in range(releases):
        image = np.zeros((200, k))
        image[np.arange(200), rng.integers(0, k, 200)] = rng.choice([-1.0, 1.0], 200)
        rows = counts @ image
        sizes = counts.sum(axis=1) if isinstance(option.neighbours, ss.L1) else np.sqrt((rows**2).sum(axis=1))
        weights = bound / sizes if option.clip == "equal" else np.minimum(1, bound / sizes)
        sums = towns @ (weights[:, None] * rows)
        drawn = rng.laplace(scale=np.sqrt(0.5), size=sums.shape) if noise.k4 > noise.k2 else rng.normal(size=sums.shape)
        lost += ((sums + np.sqrt(noise.k2) * drawn) ** 2).sum(axis=1) - k * noise.k2 <= floor
    return dict(zip(SIZES, (lost / releases).tolist(), strict=True))


@pytest.mark.parametrize(("kind", "clip"), OPTIONS)
def test_predicted_probabilities_come_true(kind: str, clip: str) -> None:
    """Within the gamma law's error and four standard errors of 150 releases: no false alarm in 99.9 % of seeds."""
    plan = with_option(kind, clip)
    found = simulated(plan.chosen, 150)
    assert {key.key: key.below for key in plan.keys} == pytest.approx(found, abs=0.03 + 4 * np.sqrt(0.25 / 150))
    assert min(found.values()) < 0.3
    assert max(found.values()) > 0.7


@pytest.mark.long
@pytest.mark.parametrize(("kind", "clip"), OPTIONS)
def test_predicted_probabilities_come_true_in_releases(kind: str, clip: str) -> None:
    plan = with_option(kind, clip)
    found = released(plan.chosen, 400, below_noise_floor)
    assert {key.key: key.below for key in plan.keys} == pytest.approx(found, abs=0.03 + 4 * np.sqrt(0.25 / 400))


def test_keys_without_an_average_are_those_with_few_units() -> None:
    plan = with_option("sketch-l2", "equal", "mean")
    error = np.sqrt(plan.chosen.noise.cumulants.k2) / plan.chosen.layout.unit_weight
    counts = np.array(list(SIZES.values())) + error * np.random.default_rng(3).normal(size=(4_000, len(SIZES)))
    assert [key.below for key in plan.keys] == pytest.approx((counts <= 2 * error).mean(axis=0), abs=0.04)
    assert "without an average" in str(plan)


@pytest.mark.long
def test_keys_without_an_average_are_those_with_few_units_in_releases() -> None:
    plan = with_option("sketch-l2", "equal", "mean")
    found = released(plan.chosen, 400, few_units)
    assert {key.key: key.below for key in plan.keys} == pytest.approx(found, abs=4 * np.sqrt(0.25 / 400))


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("cells", [16, 256])
def test_the_law_of_a_norm_is_nearly_a_gamma_law(cells: int, laplace: bool) -> None:  # noqa: FBT001 - a case
    """Cells are normal over the draw of the map, with noise on each."""
    rng = np.random.default_rng(2)
    floor = NoiseFloor(cells, k2=1.0, k4=3.0 if laplace else 0.0, map_variance=2 / cells)
    for share in (0.0, 0.5, 1.0, 2.0):
        size = (1000, cells)
        noise = rng.laplace(scale=np.sqrt(0.5), size=size) if laplace else rng.normal(size=size)
        exact = rng.normal(scale=np.sqrt(share * floor.squared_norm / cells), size=size)
        below = (((exact + noise) ** 2).sum(axis=1) - cells <= floor.squared_norm).mean()
        assert float(floor.chance(share * floor.squared_norm)) == pytest.approx(
            below, abs=0.03 + 4 * np.sqrt(0.25 / 1000)
        )


def test_a_length_is_where_its_probability_is() -> None:
    floor = NoiseFloor(64, 2.0, 0.0, 2 / 64)
    for chance in (0.9, 0.5, 0.05, 1e-6):
        assert float(floor.chance(floor.length(chance) ** 2)) == pytest.approx(chance, rel=1e-6)
    assert floor.length(0.5) ** 2 == pytest.approx(floor.squared_norm, rel=0.1)
    assert floor.length(0.99) == 0
    for chance in (0, 1.0, float("nan")):
        with pytest.raises(ss.InvalidInputError, match="a chance must lie in"):
            floor.length(chance)


@pytest.mark.parametrize("kind", ["sketch-l2", pytest.param("l1", marks=pytest.mark.long)])
def test_visible_distances_are_those_of_the_test(kind: str) -> None:
    plan = with_option(kind, "scale")
    projection, noise = plan.chosen.projection, plan.chosen.noise
    law = gap_law(projection, (NoiseTerm(noise, projection.cell_unit, Fraction(2)),))
    assert {key.visible_distance for key in plan.keys} == {plan.noise_floor.visible_distance()}
    assert plan.noise_floor.visible_distance() == pytest.approx(law.visible(), rel=0.01)
    assert plan.noise_floor.visible_distance(0.95, 0.01) == pytest.approx(law.visible(0.95, 0.01), rel=0.02)


def test_visible_distances_of_averages_count_the_error_of_the_number_of_units() -> None:
    """Simulated, for keys whose sums are their number of units times one vector and a difference."""
    plan = planned("mean")
    plan = dataclasses.replace(plan, chosen=min(plan.options, key=lambda one: (one.cells != 16, one.error)))
    key, option = plan.keys[0], plan.chosen
    assert key.visible_distance * key.units > plan.noise_floor.visible_distance()
    rng, k = np.random.default_rng(4), option.cells
    noise, error = np.sqrt(plan.noise_floor.k2), np.sqrt(option.noise.cumulants.k2) / option.layout.unit_weight
    gaps = []
    for apart in (0.0, key.visible_distance * key.units):
        moved = rng.normal(size=(4_000, 2)) * error * key.length / key.units
        distance = np.sqrt(apart**2 + (moved[:, 0] - moved[:, 1]) ** 2)
        exact = distance[:, None] * rng.normal(size=(4_000, k)) / np.sqrt(k)
        gaps.append(((exact + np.sqrt(2) * noise * rng.normal(size=(4_000, k))) ** 2).sum(axis=1))
    assert (gaps[1] > np.quantile(gaps[0], 0.95)).mean() == pytest.approx(0.8, abs=0.05)


def test_without_noise_all_stand_out_and_units_of_measure_do_not_matter() -> None:
    silent = NoiseFloor(64, 0.0, 0.0, 2 / 64)
    assert silent.chance([0.0, 1e-300]).tolist() == [1, 0]
    assert (silent.length(), silent.visible_distance()) == (0, 0)
    floor = NoiseFloor(64, 2.0, 12.0, 2 / 64)
    for unit in (1e-40, 1e40):
        other = NoiseFloor(64, 2.0 * unit**2, 12.0 * unit**4, 2 / 64)
        assert other.length() == pytest.approx(floor.length() * unit)
        assert other.visible_distance() == pytest.approx(floor.visible_distance() * unit)


def test_more_units_more_epsilon_and_fewer_cells_lift_keys() -> None:
    typical = TypicalUnit(items=20, match=0.004)
    plan = plan_units(typical, units=SIZES, max_cells=64, **PRIVACY)
    chances = [key.below for key in plan.keys]
    assert chances == sorted(chances)
    assert [key.key for key in plan.keys] == list(SIZES)
    assert [key.units for key in plan.keys] == list(SIZES.values())
    wider = plan_units(typical, units=SIZES, max_cells=64, **PRIVACY | {"epsilon": 0.3})
    assert all(one.below < other.below for one, other in zip(plan.keys, wider.keys, strict=True))
    even, sure = plan.least_units(), plan.least_units(0.05)
    assert plan_units(typical, units=[even, sure, 900], max_cells=64, **PRIVACY).keys[0].below == pytest.approx(0.5)
    assert even < sure


def test_remedies_keep_what_they_promise() -> None:
    plan = plan_units(TypicalUnit(items=20, match=0.004), units=SIZES, max_cells=64, **PRIVACY | {"epsilon": 0.5})
    below = [key.units for key in plan.keys if key.below >= 0.5]
    epsilon, merged = (next(one for one in plan.remedies if getattr(one, name)) for name in ("epsilon", "merged"))
    again = plan_units(
        TypicalUnit(items=20, match=0.004), units=SIZES, max_cells=64, **PRIVACY | {"epsilon": epsilon.epsilon}
    )
    kept = next(one for one in again.options if (one.cells, one.clip) == (plan.chosen.cells, plan.clip))
    lifted = [key.below < 0.5 for key in dataclasses.replace(again, chosen=kept).keys]
    assert sum(lifted) == epsilon.standing > len(SIZES) - len(below)
    middle = float(np.median(below))
    assert merged.merged is not None
    assert middle * (merged.merged - 1) < plan.least_units() <= middle * merged.merged


def test_an_option_in_which_more_keys_stand_out_is_named() -> None:
    plan = planned()
    worse = dataclasses.replace(plan, chosen=max(plan.options, key=lambda one: one.error))
    option = next(one.option for one in worse.remedies if one.option is not None)
    best = dataclasses.replace(plan, chosen=option)
    assert sum(key.below < 0.5 for key in best.keys) > sum(key.below < 0.5 for key in worse.keys)
    assert f"a bound of {float(option.bound):g} and k = {option.cells}" in " ".join(str(worse).split())


def test_errors_of_cosines_are_those_of_the_plan_for_keys_of_one_size() -> None:
    for units in (200.0, 5_000.0):
        plan = plan_units(TypicalUnit(items=20, match=0.004, cosine=[0.3, 0.7]), units=[units, units], **PRIVACY)
        assert plan.keys[0].cosine_error == pytest.approx(plan.chosen.error, rel=0.02)


def test_a_plan_says_which_keys_stand_out() -> None:
    plan = plan_units(TypicalUnit(items=20, match=0.004), units=SIZES, max_cells=64, **PRIVACY | {"epsilon": 0.5})
    text = str(plan)
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    below = [key.key for key in plan.keys if key.below >= 0.5]
    assert f"{len(below)} of 6 keys will probably be below the noise floor at ε = 0.5: " in words
    assert f"{', '.join(below[:-1])} and {below[-1]}." in words
    assert "of 6 would stand out" in words
    fields = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert [key["below"] for key in fields["keys"]] == [key.below for key in plan.keys]
    assert fields["least_units"]["0.5"] == plan.least_units()
    assert [one["epsilon"] for one in fields["remedies"]] == [one.epsilon for one in plan.remedies]
    many = str(plan_units(TypicalUnit(items=20, match=0.004), units=[5_000.0, 6_000.0], **PRIVACY))
    assert "All 2 keys will probably stand out from the noise" in " ".join(many.split())


def test_many_keys_are_shown_in_part_and_planned_all() -> None:
    units = {f"town {place}": float(3 * place) for place in range(1, 201)}
    plan = plan_units(TypicalUnit(items=20, match=0.004), units=units, max_cells=64, **PRIVACY)
    assert len(plan.keys) == 200
    text = str(plan)
    assert "(12 of 200)" in text
    assert "town 200 " in text
    assert max(map(len, text.splitlines())) <= 80
    unnamed = " ".join(
        str(plan_units(TypicalUnit(items=20, match=0.004), units=list(units.values()), **PRIVACY)).split()
    )
    assert "those of" in unnamed
    assert "customers or fewer" in unnamed


def test_a_sample_knows_its_keys_and_stands_for_others() -> None:
    plan = planned()
    assert [key.key for key in plan.keys] == list(SIZES)
    assert [key.units for key in plan.keys] == list(SIZES.values())
    other = plan_units(plan.facts, units={"new": 120.0, "newer": 500.0}, max_cells=64, max_nonzeros=1, **PRIVACY)
    ours = dataclasses.replace(other, chosen=plan.chosen).keys
    assert ours[0].length == pytest.approx(plan.keys[0].length, rel=0.1)
    assert ours[1].length == pytest.approx(plan.keys[0].length * 500 / 120, rel=0.15)


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ({"a": 0.5}, "units must be a number from 1"),
        ({}, "units must be"),
        ({"": 5.0}, "a key"),
        ([1.0] * 70_000, "up to"),
    ],
)
def test_keys_that_are_none_are_refused(units: Any, message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        plan_units(TypicalUnit(items=20, match=0.004), units=units, **PRIVACY)
