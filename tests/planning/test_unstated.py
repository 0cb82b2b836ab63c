"""What plans assume where nobody stated it: they choose for a range, say what the answer hangs on, and name it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.planning import TypicalUnit, plan_sizes, plan_units
from tests.cli.running import Forks

MONTHS = [900, 780, 800, 1000, 900, 1080, 1050, 990, 980, 1300, 1400, 1700, 680]
ASKED: dict[str, Any] = {"units": MONTHS, "delta": 1e-6, "unit": "customer", "max_keys": 13}
SHOP: dict[str, Any] = {"items": 18, "keys": 3}


def kind(option: Any) -> tuple[Any, ...]:
    return option.neighbours, option.clip, option.mechanism, option.cells, option.nonzeros


def errors_with(match: float, epsilon: float, **more: Any) -> dict[Any, float]:
    plan = plan_units(TypicalUnit(**SHOP, match=match), epsilon=epsilon, **ASKED | more)
    return {kind(one): one.error for one in plan.options}


@pytest.mark.parametrize(
    ("known", "epsilon"),
    [
        pytest.param(known, epsilon, marks=[pytest.mark.long] * ((place + turn) % 2))
        for place, known in enumerate(({}, {"catalogue": 300}, {"catalogue": 20_000}))
        for turn, epsilon in enumerate((4.0, 0.5))
    ],
)
def test_the_choice_has_nearly_the_least_worst_regret(known: dict[str, Any], epsilon: float) -> None:
    typical = TypicalUnit(**SHOP, **known)
    plan = plan_units(typical, epsilon=epsilon, **ASKED)
    tables = [errors_with(typical.likely_match * factor, epsilon) for factor in (1, 1 / 3, 3)]
    regret = {one: max(table[one] / min(table.values()) for table in tables) for one in tables[0]}
    assert regret[kind(plan.chosen)] <= 1.0601 * min(regret.values())
    assert [outlook.error for outlook in plan.outlooks.values()] == [
        pytest.approx(table[kind(plan.chosen)]) for table in tables[1:]
    ]
    assert [outlook.best.error for outlook in plan.outlooks.values()] == [
        pytest.approx(min(table.values())) for table in tables[1:]
    ]


@pytest.mark.parametrize(
    ("match", "epsilon"),
    [
        pytest.param(
            match, epsilon, marks=[pytest.mark.long] * ((match, epsilon) not in {(0.00097, 0.5), (0.00145, 2.0)})
        )
        for match in (0.00097, 0.00145)
        for epsilon in (0.5, 1.0, 2.0)
    ],
)
def test_a_shop_of_thousands_of_items_gets_a_size_that_fits_it(match: float, epsilon: float) -> None:
    """Of 13 months of a real shop of 3,680 items Σp² is in this range."""
    table = errors_with(match, epsilon)
    for known in ({}, {"catalogue": 3_700}):
        plan = plan_units(TypicalUnit(**SHOP, **known), epsilon=epsilon, **ASKED)
        assert table[kind(plan.chosen)] <= 1.2 * min(table.values())
        assert 0.75 < plan.chosen.error / table[kind(plan.chosen)] < 1.35


def test_a_match_that_is_stated_decides_alone_and_others_are_told() -> None:
    plan = plan_units(TypicalUnit(**SHOP, match=0.0012, cosine=0.7), epsilon=1.0, **ASKED)
    assert plan.chosen.error <= 1.06 * min(one.error for one in plan.options)
    text = " ".join(str(plan).split())
    assert "Not stated" not in text
    assert "- If match is a third, 0.0004: ± " in text
    assert "- If match is three times as large, 0.0036: ± " in text
    assert " by how often pieces match" not in text


def test_what_was_not_stated_is_named() -> None:
    for facts, names in (
        ({"items": 18}, {"match", "cosine"}),
        ({"items": [3, 18]}, {"match", "cosine", "shares"}),
        ({"items": [3, 18], "shares": [1, 2], "catalogue": 500, "cosine": 0.5}, {"match"}),
        ({"items": [3, 18], "shares": [1, 2], "match": 0.1, "cosine": 0.5}, set()),
    ):
        typical = TypicalUnit(**facts)  # type: ignore[arg-type]
        assert typical.unstated.keys() == names
        plan = plan_units(typical, units=900, epsilon=1.0, delta=1e-6)
        assert ("Not stated, and so assumed: " in " ".join(str(plan).split())) == bool(names)
        assert plan.to_dict()["unstated"].keys() == names
        assert len(plan.to_dict()["outlooks"]) == 2
    text = " ".join(str(plan_units(TypicalUnit(items=18), units=900, epsilon=1.0, delta=1e-6)).split())
    assert "by how often pieces match" in text


def test_a_catalogue_is_one_or_more_items_and_excludes_a_match() -> None:
    assert TypicalUnit(items=1, catalogue=2).likely_match == 1.0
    assert TypicalUnit(items=1, catalogue=8_000).likely_match == 0.0005
    for wrong, message in (
        ({"catalogue": 0}, "catalogue must lie in"),
        ({"catalogue": 100, "match": 0.01}, "match and catalogue both say"),
        ({"match": 0}, "match must be a probability"),
    ):
        with pytest.raises(ss.InvalidInputError, match=message):
            TypicalUnit(items=1, **wrong)  # type: ignore[arg-type]


# --- agreements ---------------------------------------------------------------------------------------------------

ROWS = pa.table({"shop": ["UK"], "item": ["tea"], "customer": ["Ann"]})
COUNTRIES = {"UK": 3_900, "DE": 95, "FR": 87, "Spain": 30}


def agreed(cells: int, **changes: Any) -> ss.Agreement:
    columns: dict[str, Any] = {"index": "item", "key": "shop", "unit": "customer", "max_keys": 1}
    return ss.agree(ROWS, ss.CountSketch(sketch_dim=cells, seed=1), **columns | changes)


def test_the_size_of_an_agreement_is_compared_with_the_planned_one() -> None:
    typical = TypicalUnit(items=60, catalogue=3_700)
    large, best = plan_sizes(agreed(1024), typical, units=COUNTRIES)
    again, _ = plan_sizes(agreed(best.chosen.cells), typical, units=COUNTRIES)
    assert (large.chosen.cells, again.chosen.error) == (1024, pytest.approx(best.chosen.error, rel=0.3))
    assert best.chosen.error < 0.8 * large.chosen.error
    assert sum(key.below > 0.5 for key in large.keys) > sum(key.below > 0.5 for key in best.keys)
    assert any("keys will probably be below the noise floor" in one and "DE" in one for one in large.standing)
    for wrong in (
        agreed(64, neighbours=ss.L1(5, unit="customer"), max_keys=None),
        agreed(64, unit=None, max_keys=None),
    ):
        with pytest.raises(ss.InvalidInputError, match="clipped in sketch space"):
            plan_sizes(wrong, typical, units=COUNTRIES)


AGREE = ("agree", "--index", "item:text", "--key", "shop:text", "--unit-column", "customer:text", "--max-keys", 1)


def test_agree_plans_the_size_and_names_the_keys_that_drown(tmp_path: Path, forks: Forks) -> None:
    units = ",".join(f"{name}={number}" for name, number in COUNTRIES.items())
    asked = ("--units", units, "--set", "items=60", "--set", "catalogue=3_700")
    planned = forks.run(*AGREE, *asked, "-o", "planned.json", cwd=tmp_path)
    stated = forks.run(*AGREE, *asked, "--set", "sketch-dim=1024", "-o", "stated.json", cwd=tmp_path)
    silent = forks.run(*AGREE, "-o", "silent.json", cwd=tmp_path)
    cells = [
        ss.Agreement.load(tmp_path / f"{name}.json").projection.sketch_dim for name in ("planned", "stated", "silent")
    ]
    assert cells[0] < 512
    assert cells[1:] == [1024, 1024]
    for done in (planned, stated):
        text = " ".join(done.stderr.split())
        assert "Assumed, at ε = 1: one customer adds 60 items" in text
        assert "If match is a third, " in text
        assert "keys will probably be below the noise floor at ε = 1" in text
        assert "Spain" in text
    assert f"with k = {cells[0]:,} they would be ± " in " ".join(stated.stderr.split())
    assert "Assumed: 2,000 customers in a key" in " ".join(silent.stderr.split())
    events = ("agree", "--index", "item:text", "--l1", 1, "--set", "items=3", "-o", "a.json")
    assert "items and catalogue go with --units" in forks.refused(*events, cwd=tmp_path)
    refused = forks.refused(*AGREE, "--units", "many", "-o", "a.json", cwd=tmp_path)
    assert refused.endswith("take numbers with commas, such as 500,3000 or DE=95,UK=3900, got 'many'\n")
