"""Plans for comparing sites: predictions against closed forms and simulations, choices, and what would be enough."""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.estimation import NoiseTerm, gap_law
from streamsketch.features import Category, Embedding, Features, Number
from streamsketch.features.features import JOINT
from streamsketch.planning import ClassShift, MeanShift, ShareShift, SitePlan, SiteShift, plan_sites
from streamsketch.planning.site_facts import block_means
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.projections import Identity

DEVIATION = 0.12
SHIFTS: dict[str, SiteShift] = {
    "means": MeanShift(0.8, columns=2),
    "a class": ClassShift(2.0, share=0.3, deviations=1.5, columns=2),
    "shares": ShareShift(0.2),
}


def people(shift: SiteShift, *, second: bool, count: int, numbers: int, rng: np.random.Generator) -> pa.Table:
    """Return people as a plan takes them to be."""
    values, chances = rng.normal(0.5, DEVIATION, (count, numbers)), np.full(4, 0.25)
    if isinstance(shift, MeanShift):
        values[:, : shift.columns] += second * shift.deviations * DEVIATION
    elif isinstance(shift, ClassShift):
        share = shift.other_share if second else shift.share
        values[rng.permutation(count) < share * count, : shift.columns] += shift.deviations * DEVIATION
    else:
        chances[:2] += [-second * shift.moved, second * shift.moved]
    columns = {f"number {place}": column for place, column in enumerate(values.T)}
    return pa.table({"person": np.arange(count), **columns, "ward": rng.choice(list("ABCD"), count, p=chances)})


def features(moments: int, *, waves: int = 16, numbers: int = 3, seed: int = 0) -> Features:
    columns: dict[str, Any] = {f"number {place}": Number(0, 1, moments=moments) for place in range(numbers)}
    return Features(columns | {"ward": Category(list("ABCD"))}, seed=seed, joint=waves)


@pytest.mark.parametrize("moments", [0, 1, 3])
@pytest.mark.parametrize("shift", SHIFTS.values(), ids=SHIFTS)
def test_expected_discrepancies_are_those_of_many_people(shift: SiteShift, moments: int) -> None:
    """With 256 frequencies and 2,000 people: squared lengths to 0.03, discrepancies of blocks to 15 % and 0.0015."""
    rng, by = np.random.default_rng(1), features(moments, waves=256)
    found = [
        by.transform(people(shift, second=second, count=2000, numbers=3, rng=rng)).mean(axis=0)
        for second in (False, True)
    ]
    for name, means in block_means(by, shift, DEVIATION).items():
        x, y = (one[by.block(name).places] for one in found)
        assert means.first == pytest.approx(float(x @ x), abs=0.03)
        assert means.apart == pytest.approx(float((x - y) @ (x - y)), rel=0.15, abs=1.5e-3)


def test_lines_are_those_of_the_exact_law() -> None:
    from streamsketch.planning import site_power  # noqa: PLC0415 - what the plan does not show

    noisy = site_power.Noisy((300.0, 300.0), 1.0, 1e-6)
    of_cell, of_count = noisy.variances(32)
    noise = NoiseTerm(NoiseMoments(of_cell / 300**2), 1.0)
    test = site_power.test_of(0.4, 32, noisy)
    drift = next(  # that of which the line is made
        one for one in np.geomspace(1e-4, 1, 4000)
        if site_power.tail_of(test.line, 0.0, test.noise + one, 0.0, test.noise, 32) >= 0.05
    )  # fmt: skip
    law = gap_law(Identity(dim=32), (noise, noise), "output", 0.0, (NoiseTerm(NoiseMoments(float(drift)), 1.0),))
    assert test.line == pytest.approx(law.line(0.05), rel=5e-3)
    assert drift > 0.6 / 150
    assert of_count == pytest.approx(17.63**2, rel=1e-2)


@functools.cache
def planned(units: float = 400.0, epsilon: float | None = 1.0, **options: Any) -> SitePlan:
    asked: dict[str, Any] = {"shift": MeanShift(0.5), "unit": "patient"} | options
    return plan_sites(10, units=units, epsilon=epsilon, **asked)


def test_more_people_a_larger_epsilon_and_a_larger_shift_are_found_more_often() -> None:
    plan = planned()
    powers = [plan.power_at(units) for units in (50.0, 200.0, 400.0, 800.0, 5000.0)]
    assert powers == sorted(powers)
    assert powers[0] < 0.1
    assert powers[-1] > 0.9
    assert planned(epsilon=2.0).chosen.prediction.power > planned().chosen.prediction.power
    assert planned(shift=MeanShift(0.5, columns=3)).chosen.prediction.power > planned().chosen.prediction.power


def test_the_smaller_site_has_the_larger_error_whichever_it_is() -> None:
    shift = MeanShift(0.3)
    small, mixed, other, large = (
        planned((*units,), shift=shift).chosen.prediction.error  # type: ignore[arg-type]
        for units in ((500, 500), (500, 4000), (4000, 500), (4000, 4000))
    )
    assert mixed == pytest.approx(other, rel=0.1)
    assert small > 1.1 * mixed
    assert mixed > 1.5 * large


def test_what_is_enough_is_enough() -> None:
    plan = planned(200.0)
    assert not plan.reached
    assert plan.units_needed is not None
    assert max(plan.power_at(plan.units_needed, one) for one in plan.options) >= 0.8
    assert max(plan.power_at(0.9 * plan.units_needed, one) for one in plan.options) < 0.8
    wide = MeanShift(0.4, columns=3)
    wider = planned(450.0, 0.4, shift=wide)
    assert wider.epsilon_needed is not None
    assert planned(450.0, wider.epsilon_needed, shift=wide).reached
    assert wider.visible is not None
    assert planned(450.0, 0.4, shift=wider.visible).reached


def test_too_few_for_any_epsilon() -> None:
    plan = planned(12.0, None)
    assert not plan.reached
    assert plan.units_needed
    assert plan.epsilon_needed is None
    assert "no ε up to 20 is enough" in str(plan).replace("\n", " ")


def test_laplace_noise_of_few_features_hides_more_of_averages() -> None:
    """Errors of counts are then not taken out of the test."""
    from streamsketch.planning import site_power  # noqa: PLC0415 - as above

    few = plan_sites({"ward": Category(list("AB"))}, units=300, shift=ShareShift(0.1), epsilon=1.0)
    assert few.guarantee.budget.delta == 0
    noisy = site_power.Noisy((300.0, 300.0), 1.0, 1e-6)
    assert site_power.test_of(0.5, 4, noisy).kept == 1
    assert site_power.test_of(0.5, 32, noisy).kept < 0.5


def test_columns_have_features_where_there_are_enough_people() -> None:
    assert planned(5000.0).chosen.shows_columns
    assert planned(5000.0).chosen.moments == 2
    few, showing = planned(), planned(columns=True)
    assert not few.chosen.shows_columns
    assert showing.chosen.shows_columns
    assert not planned(5000.0, columns=False).chosen.shows_columns
    assert few.chosen.prediction.power >= showing.chosen.prediction.power


def test_features_are_those_of_the_columns() -> None:
    columns: dict[str, Any] = {"age": Number(0, 110), "scan": Embedding(8), "ward": Category(hashed=16)}
    plan = plan_sites(columns, units=5000, shift=ShareShift(0.3), epsilon=1.0)
    made = plan.features(seed=9)
    assert made.seed == 9
    assert list(made.columns) == list(columns)
    assert made.columns["ward"] == columns["ward"]
    agreement = ss.agree(pa.table({"person": ["p"], "age": [3], "scan": [[1.0] * 8], "ward": ["A"]}), features=made,
                         unit="person")  # fmt: skip
    assert agreement.neighbours == plan.neighbours
    assert made.block(JOINT).cells == 2 * plan.chosen.waves


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shift": MeanShift(1.0, columns=11)}, "in 11 columns of numbers, but there are only 10"),
        ({"shift": ShareShift(0.1)}, "no column is a category"),
        ({"units": 0.0}, "units must be between 1 and"),
        ({"units": (1, 2, 3)}, "one number for both sites, or two numbers"),
        ({"power": 1.0}, "power must lie in"),
        ({"deviation": 0.0}, "deviation must lie in"),
        ({"epsilon": -1.0}, "epsilon"),
    ],
)
def test_mistakes_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        planned(**options)


@pytest.mark.parametrize("wrong", [{"times": 1.0}, {"times": 2.0, "share": 1.0}, {"times": math.nan}])
def test_shifts_that_are_none_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ss.InvalidInputError):
        ClassShift(**wrong)


def test_a_plan_fits_eighty_columns_and_json() -> None:
    for plan in (planned(), planned(5000.0), planned(12.0, None)):
        assert max(map(len, str(plan).splitlines())) <= 80
        fields = plan.to_dict()
        assert fields["reached"] == plan.reached
        assert Features.from_dict(fields["features"] | {"seed": 3}) == plan.features(3)
        assert fields["chosen"]["power"] == plan.chosen.prediction.power


@pytest.mark.long
@pytest.mark.parametrize("moments", [0, 2])
@pytest.mark.parametrize("shift", SHIFTS.values(), ids=SHIFTS)
def test_power_is_as_predicted(shift: SiteShift, moments: int) -> None:
    """To 0.12, and 3.5 standard errors of 100 draws."""
    by, count, rng, found = features(moments), 300, np.random.default_rng(3), 0
    plan = plan_sites(by, units=count, shift=shift, epsilon=1.0, delta=1e-6, deviation=DEVIATION)
    option = next(
        one for one in plan.options
        if (one.waves, one.moments) == (16, moments) and one.features.joint_weight == by.joint_weight
    )  # fmt: skip
    power = option.prediction.power
    for seed in range(100):
        tables = [people(shift, second=second, count=count, numbers=3, rng=rng) for second in (False, True)]
        agreement = ss.agree(tables[0], features=dataclasses.replace(by, seed=seed), unit="person")
        x, y = (ss.bound(one, agreement).release(**plan.release_arguments) for one in tables)
        assert isinstance(x, ss.PrivateSketch)
        assert isinstance(y, ss.PrivateSketch)
        found += ss.sameness(x, y, by="mean", samples=True).p_value <= 0.05
    assert abs(found / 100 - power) < 0.12 + 3.5 * math.sqrt(max(power * (1 - power), 0.02) / 100)


@pytest.mark.long
@pytest.mark.parametrize(("count", "times", "least"), [(2800, 1.4, 9.0), (280, 2.0, 2.0)])
def test_reference_points_of_patients(count: int, times: float, least: float) -> None:
    """569 patients with 30 numbers, one class more frequent: z, and power to 0.15 and 3.5 errors of 40 draws."""
    datasets = pytest.importorskip("sklearn.datasets")
    values, classes = datasets.load_breast_cancer(return_X_y=True)
    shares = (values - values.min(axis=0)) / (values.max(axis=0) - values.min(axis=0))
    columns = {f"number {place}": Number(0, 1) for place in range(30)}
    shift = ClassShift(times, share=float((classes == 0).mean()), deviations=1.2)
    plan = plan_sites(columns, units=count, shift=shift, epsilon=1.0, delta=1e-6, unit="person", deviation=DEVIATION)
    rng, zs, found = np.random.default_rng(4), [], 0
    for seed in range(40):
        tables = []
        for weight in (1.0, times):
            chances = np.where(classes == 0, weight, 1.0)
            drawn = shares[rng.choice(len(shares), count, p=chances / chances.sum())]
            tables.append(pa.table({"person": np.arange(count), **dict(zip(columns, drawn.T, strict=True))}))
        agreement = ss.agree(tables[0], features=plan.features(seed), unit="person")
        x, y = (ss.bound(one, agreement).release(**plan.release_arguments) for one in tables)
        assert isinstance(x, ss.PrivateSketch)
        assert isinstance(y, ss.PrivateSketch)
        zs.append(ss.estimation.mmd(x, y, agreement).value / plan.chosen.prediction.noise)
        found += ss.sameness(x, y, by="mean", samples=True).p_value <= 0.05
    power = plan.chosen.prediction.power
    assert np.mean(zs) >= least
    assert abs(found / 40 - power) < 0.15 + 3.5 * math.sqrt(power * (1 - power) / 40), (found, np.mean(zs))
