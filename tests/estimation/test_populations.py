"""Populations compared by features: exact without noise, unbiased and covered with it, block by block."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.errors import IncompatibleAgreementsError
from streamsketch.estimation import SecretEstimate, column_differences, describe, mmd
from streamsketch.features import Category, Embedding, Features, Number
from streamsketch.features.features import JOINT
from tests.noise import salted_rng

pytestmark = pytest.mark.rejects(1e-3)


FEATURES = Features(
    {
        "age": Number(0, 110),
        "height": Number(1.2, 2.2, moments=1),
        "ward": Category(["A", "B"], weight=2),
        "code": Category(hashed=16),
        "scan": Embedding(3, waves=4),
    },
    seed=7,
    joint=6,
)
RANDOM = salted_rng(20)


def people(count: int, first: str, wards: list[str]) -> pa.Table:
    ages = np.where(RANDOM.random(count) < 0.2, np.nan, RANDOM.normal(50, 15, count))
    return pa.table(
        {
            "patient": [f"{first}{place}" for place in range(count)],
            "age": pa.array(ages, from_pandas=True),
            "height": RANDOM.normal(1.7, 0.1, count),
            "ward": RANDOM.choice(wards, count),
            "code": RANDOM.choice(["E11", "E11", "I10", "J45"], count),
            "scan": RANDOM.normal(size=(count, 3)).tolist(),
        }
    )


def bound(rows: pa.Table, agreement: ss.Agreement) -> Any:
    return ss.bound(rows, agreement)


NORTH, SOUTH = people(600, "n", ["A", "A", "B"]), people(500, "s", ["B", "C"])
AGREEMENT = ss.agree(NORTH, features=FEATURES, unit="patient")
X, Y = bound(NORTH, AGREEMENT), bound(SOUTH, AGREEMENT)


def released(sketch: Any, epsilon: float = 1.0) -> ss.PrivateSketch:
    return sketch.release(epsilon=epsilon, delta=1e-6, neighbours=AGREEMENT.neighbours)  # type: ignore[no-any-return]


def averages() -> tuple[np.ndarray, np.ndarray]:
    north, south = (FEATURES.transform(rows).mean(axis=0) for rows in (NORTH, SOUTH))
    return north, south


def test_discrepancy_without_noise_is_that_of_the_averages() -> None:
    north, south = averages()
    found = mmd(X, Y, AGREEMENT)
    assert isinstance(found, SecretEstimate)
    assert math.isclose(found.value, ((north - south) ** 2).sum(), rel_tol=2e-3)
    assert found.noise_variance == 0 < found.projection_variance


def test_columns_are_ranked_by_their_own_discrepancy() -> None:
    north, south = averages()
    table = column_differences(X, Y, AGREEMENT)
    for name, value in zip(table["column"].to_pylist(), table["estimate"].to_pylist(), strict=True):
        block = FEATURES.block(name)
        expected = ((north - south)[block.places] ** 2).sum() / (block.amplitude / (1 << 15)) ** 2
        assert math.isclose(value, expected, rel_tol=5e-3, abs_tol=1e-6), name
    noisy = column_differences(released(X, 20.0), released(Y, 20.0), AGREEMENT)
    assert noisy["column"][0].as_py() == "ward"
    assert set(noisy["column"].to_pylist()) == {*FEATURES.columns, JOINT}
    assert noisy["low"][0].as_py() > 0


def test_columns_of_two_samples_of_one_population_do_not_differ_and_others_do() -> None:
    """Of 20 pairs at most 5 may have an interval without 0 at 95 %: more have a probability of 4e-4."""
    random, alarms, shown = salted_rng(11), 0, 0
    features = Features({"a": Number(0, 1), "b": Number(0, 1), "c": Category(["x", "y"])}, seed=3)
    schema = pa.schema({"patient": pa.int64(), "a": pa.float64(), "b": pa.float64(), "c": pa.string()})
    agreement = ss.agree(schema, features=features, unit="patient")

    def sums(count: int, shift: float) -> Any:
        """Return people who differ in one direction only, which is the least favourable case."""
        either = random.random(count) < 0.5
        columns = [np.arange(count), either * 1.0, either * (1.0 - shift), np.where(either, "x", "y")]
        return bound(pa.table(columns, schema=schema), agreement)

    for _ in range(20):
        x, same, other = sums(400, 0.0), sums(300, 0.0), sums(400, 0.6)
        alarms += (column_differences(x, same, agreement, samples=True)["low"].to_numpy() > 0).any()
        found = column_differences(x, other, agreement, samples=True).to_pylist()
        shown += [one["column"] for one in found if one["low"] > 0] == ["b"]
    assert alarms <= 5
    assert shown >= 15
    # what is shown of the people who were counted needs no such allowance
    of_people, of_populations = (
        column_differences(x, same, agreement, samples=samples)["high"].to_numpy() for samples in (False, True)
    )
    assert (of_people < of_populations).all()


def test_description_of_a_raw_sketch_is_that_of_the_people() -> None:
    table = describe(X, AGREEMENT, shares={"code": ["E11"]})
    found = {
        (column, measure): value
        for column, measure, value in zip(*(table[name].to_pylist() for name in table.column_names[:3]), strict=True)
    }
    ages = NORTH["age"].to_pandas().clip(0, 110)  # the ends of its feature, beyond which some drawn ages are
    expected = {
        ("age", "mean"): ages.mean(),
        ("age", "standard deviation"): ages.std(ddof=0),
        ("age", "missing"): ages.isna().mean(),
        ("height", "mean"): NORTH["height"].to_pandas().mean(),
        ("ward", "share of A"): (NORTH["ward"].to_pandas() == "A").mean(),
        ("ward", "others"): 0.0,
        ("scan", "missing"): 0.0,
    }
    for place, value in expected.items():
        assert math.isclose(found[place], value, rel_tol=4e-3, abs_tol=2e-3), place
    assert table.schema.metadata == {b"streamsketch.secret": b"true"}


def test_intervals_cover() -> None:
    """95 % intervals cover in 84 of 100 releases: fewer have a probability of 1e-5 each, where all is right."""
    trials, truth = 100, describe(X, AGREEMENT)
    low, high = truth["estimate"].to_numpy(), truth["estimate"].to_numpy()
    kept = [place for place, name in enumerate(truth["measure"].to_pylist()) if name != "standard deviation"]
    distance = mmd(X, Y, AGREEMENT).value
    covered, held, values = np.zeros(len(low)), 0, []
    for _ in range(trials):
        x, y = released(X, 4.0), released(Y, 4.0)
        table = describe(x, AGREEMENT)
        covered += (table["low"].to_numpy() <= low + 1e-9) & (high - 1e-9 <= table["high"].to_numpy())
        estimate = mmd(x, y, AGREEMENT)
        values.append(estimate.value)
        # the distance of these people by these features, whose only error is noise
        reach = 1.96 * math.sqrt(estimate.noise_variance)
        held += abs(estimate.value - distance) <= reach
    assert (covered[kept] >= 0.84 * trials).all(), covered / trials
    assert held >= 0.84 * trials
    assert abs(np.mean(values) - distance) <= 5 * np.std(values) / math.sqrt(trials)


def test_intervals_allow_for_few_frequencies() -> None:
    """They hold the exact kernel's discrepancy for 26 of 30 seeds; normal ones with the variance seen hold for 19."""
    random, held = salted_rng(5), 0
    sites = [random.uniform(start, start + 0.7, (12, 2)) for start in (0.0, 0.2)]
    people = np.arange(12)
    tables = [pa.table({"patient": people, "a": one[:, 0], "b": one[:, 1]}) for one in sites]

    def alike(x: np.ndarray, y: np.ndarray) -> float:
        return float(np.exp(-((x[:, None] - y) ** 2).sum(axis=2) / 2 / (2 * 0.2**2)).mean())

    truth = alike(sites[0], sites[0]) + alike(sites[1], sites[1]) - 2 * alike(*sites)
    for seed in range(30):
        columns = {name: Number(0, 1, moments=1) for name in ("a", "b")}
        features = Features(columns, seed=seed, joint=2, width=0.2 * math.sqrt(2), joint_weight=10**6)
        agreement = ss.agree(tables[0], features=features, unit="patient")
        x, y = (bound(one, agreement) for one in tables)
        low, high = mmd(x, y, agreement).interval(0.95)
        held += low <= truth <= high
    assert held >= 26, held


def test_columns_that_do_not_differ_do_not_stand_out() -> None:
    """All intervals hold 0 but for a probability of 3e-4; in 99 of 100 runs normal ones would not."""
    columns = {f"number {place}": Number(0, 1, moments=1) for place in range(40)}
    rows = pa.table({"patient": np.arange(100), **dict.fromkeys(columns, np.full(100, 0.5))})
    agreement = ss.agree(rows, features=Features(columns, seed=7), unit="patient")
    sketch = bound(rows, agreement)
    for _ in range(50):
        x, y = (sketch.release(epsilon=4.0, delta=1e-6, neighbours=agreement.neighbours) for _ in range(2))
        low = column_differences(x, y, agreement, confidence=1 - 1e-5)["low"].to_pylist()
        assert max(low) == 0


def test_numbers_that_joint_features_alone_see() -> None:
    columns = {"age": Number(0, 110, moments=0), "ward": Category(["A", "B"])}
    rows = pa.table({"patient": np.arange(60), "age": np.linspace(0, 80, 60), "ward": ["A"] * 60})
    agreement = ss.agree(rows, features=Features(columns, seed=7, joint=2), unit="patient")
    x, y = bound(rows, agreement), bound(rows.slice(30), agreement)
    found = {row["column"]: row["estimate"] for row in column_differences(x, y, agreement).to_pylist()}
    assert set(found) == {"ward", "(joint)"}
    assert found["ward"] == pytest.approx(0, abs=1e-9)
    assert mmd(x, y, agreement).value == pytest.approx(found["(joint)"] / 2, rel=1e-3)
    assert set(describe(x, agreement)["column"].to_pylist()) == {"ward"}


def test_standard_deviations_have_intervals_of_their_squares() -> None:
    table = describe(released(X, 4.0), AGREEMENT).to_pylist()
    row = next(row for row in table if row["measure"] == "standard deviation")
    assert row["low"] > 0
    assert math.isclose(row["low"] ** 2 + row["high"] ** 2, 2 * row["estimate"] ** 2, rel_tol=1e-9)
    for _ in range(10):  # estimates of shares are beyond 0 and 1
        few = describe(released(X, 0.5), AGREEMENT).to_pylist()
        assert all(0 <= row["low"] <= row["high"] or math.isnan(row["low"]) for row in few)


@pytest.mark.parametrize("beside", [{"ward": Category(["A"])}, {"lab": Number(-1, 1, moments=1, weight=8)}])
def test_nothing_is_stated_where_people_have_several_rows_that_were_not_averaged(beside: dict[str, Any]) -> None:
    """By the length of the block of a listed category; without one, by a variance below 0, as rows are lengthened."""
    random = salted_rng(3)
    for rows, known in ((1, True), (3, False)):
        ages, labs = (random.choice([-1, 1], 2000 * rows) for _ in range(2))
        named = {"patient": np.repeat(np.arange(2000), rows), "ward": ["A"] * len(ages), "lab": labs}
        table = pa.table(named | {"age": 55 + 20 * ages})
        agreement = ss.agree(
            table, features=Features({"age": Number(0, 110), **beside}, seed=7), unit="patient", clip="equal"
        )
        sketch = bound(table, agreement)
        for one in (sketch, sketch.release(epsilon=20.0, delta=1e-6, neighbours=agreement.neighbours)):
            rows_found = describe(one, agreement).to_pylist()
            found = {row["measure"]: row for row in rows_found if row["column"] == "age"}
            spread = found["standard deviation"]
            values = [spread[name] for name in ("estimate", "error", "low", "high")]
            assert np.isnan(values).all() == (not known), values
            assert not known or abs(spread["estimate"] - 20) < 1.5
            assert not known or abs(found["mean"]["estimate"] - 55) < 3
            assert known or np.isnan([row["estimate"] for row in rows_found]).all()


def test_too_few_people_are_told() -> None:
    """Noise makes them look like enough in 1 of 40 releases, and in 8 of 12 with a probability of 1e-10."""
    few, told = bound(NORTH.slice(0, 3), AGREEMENT), 0
    for _ in range(12):
        release = released(few, 0.1)
        if np.isnan(describe(release, AGREEMENT)["estimate"].to_numpy()).all():
            told += 1
            with pytest.raises(ss.InvalidInputError, match="within two standard errors"):
                mmd(release, X, AGREEMENT)
    assert told > 4


def test_other_agreements_are_refused() -> None:
    plain = ss.Agreement(ss.SJLT(sketch_dim=64, sparsity=4, seed=1), index="ward")
    with pytest.raises(ss.InvalidInputError, match="has no features"):
        mmd(X, Y, plain)
    with pytest.raises(IncompatibleAgreementsError):
        describe(X, AGREEMENT.replace(title="other"))
    with pytest.raises(TypeError):
        describe(X, FEATURES)  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInputError, match="shares must be for hashed"):
        describe(X, AGREEMENT, shares={"ward": ["A"]})
    uncounted = AGREEMENT.replace(counting=None)
    with pytest.raises(ss.InvalidInputError, match="not published"):
        mmd(released(bound(NORTH, uncounted)), bound(SOUTH, uncounted), uncounted)
