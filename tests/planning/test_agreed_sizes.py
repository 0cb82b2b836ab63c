"""`agree` with a number of units takes the map, its size and its grid from the plan, and says what it assumed."""

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.errors import PlanAssumedWarning
from streamsketch.planning import TypicalUnit, plan_sizes
from tests.cli.running import Forks

ROWS = pa.table({"shop": ["Wien"], "item": ["tea"], "who": ["Ann"], "sold": [3]})
STATED: dict[str, Any] = {"items": 12, "catalogue": 3200, "seed": 7}


def agreed(**fields: Any) -> ss.Agreement:
    """Return an agreement on tea, planned for 2,000 units unless said otherwise."""
    known: dict[str, Any] = {"index": "item", "unit": "who", "epsilon": 1, "delta": 1e-6, "units": 2000, **STATED}
    return ss.agree(ROWS, **{name: value for name, value in (known | fields).items() if value is not None})


COLUMNS = ("--index", "item:text", "--unit-column", "who:text")
KEYED: dict[str, Any] = {"key": "shop", "max_keys": 1, "keys": "public"}


@pytest.mark.parametrize("epsilon", [0.1, 1, 8])
@pytest.mark.parametrize(
    ("units", "fields"), [(200, {}), (20_000, {}), ({"Wien": 900, "Graz": 90}, KEYED), ([50, 5000], KEYED)]
)
def test_the_map_is_that_of_the_plan_at_the_terms_budget(units: Any, fields: dict[str, Any], epsilon: float) -> None:
    agreement = agreed(units=units, epsilon=epsilon, **fields)
    facts = TypicalUnit(items=12, catalogue=3200)
    kept, best = plan_sizes(agreement, facts, units=units, epsilon=epsilon, delta=1e-6)
    assert agreement.projection == best.projection(7)
    assert kept.chosen.error == best.chosen.error
    assert agreement.neighbours is not None
    assert agreement.counting == ss.privacy.Counting.of(
        agreement.projection, agreement.neighbours, delta=1e-6, mechanism="gaussian"
    )
    if fields == {}:
        assert agreement.release(ROWS).guarantee.epsilon == epsilon


def test_size_follows_units_and_budget() -> None:
    cells = [agreed(units=units).projection.sketch_dim for units in (100, 1000, 10_000)]
    assert cells == sorted(cells)
    assert cells[0] < cells[-1]
    assert agreed(epsilon=0.1).projection.sketch_dim < agreed(epsilon=8).projection.sketch_dim


def test_a_private_choice_of_keys_leaves_less_for_the_plan() -> None:
    chosen = ss.Selected(epsilon=0.9, delta=5e-7)
    selected = agreed(keys=chosen, key="shop", max_keys=1)
    spent = plan_sizes(selected, TypicalUnit(items=12, catalogue=3200), units=2000, epsilon=0.1, delta=5e-7)[1]
    assert selected.projection == spent.projection(7)
    assert selected.projection.sketch_dim < agreed(**KEYED).projection.sketch_dim


def test_laplace_noise_is_planned_where_it_is_agreed() -> None:
    laplace = agreed(mechanism="laplace", delta=0)
    assert (
        plan_sizes(laplace, TypicalUnit(items=12, catalogue=3200), units=2000, delta=0.0)[0].chosen.mechanism
        == "laplace"
    )
    assert laplace.projection.sketch_dim < agreed().projection.sketch_dim
    assert laplace.release(ROWS).guarantee.delta == 0


@pytest.mark.parametrize("missing", [["items"], ["catalogue"], ["items", "catalogue"]])
def test_what_was_assumed_is_said(missing: list[str]) -> None:
    with pytest.warns(PlanAssumedWarning, match="k = .* ± .*at ε = 1.*Assumed: one who adds") as caught:
        agreed(**dict.fromkeys(missing))
    text = str(caught[0].message)
    assert text.endswith(f"State {' and '.join(f'{name}=…' for name in missing)}")
    assert caught[0].filename == __file__


def test_without_terms_the_budget_is_assumed() -> None:
    with pytest.warns(PlanAssumedWarning, match="at ε = 1 .no terms are stated"):
        free = agreed(epsilon=None, delta=None, items=None)
    assert free.terms is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert agreed(items=10).projection == free.projection


def test_a_seed_is_drawn_unless_stated() -> None:
    first, second = (agreed(seed=None).projection for _ in range(2))
    assert first != second
    assert first.sketch_dim == second.sketch_dim
    assert agreed().fingerprint == agreed().fingerprint


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"projection": ss.CountSketch(sketch_dim=64, seed=7)}, "projection and units, items, catalogue, seed both"),
        ({"features": ss.Features({"sold": ss.features.Number(0, 20)}, seed=7), "index": None}, "features and units, "),
        ({"neighbours": ss.L1(3, unit="who"), "unit": "who", "delta": None}, "clipped in sketch space"),
        ({"unit": None, "epsilon": None, "delta": None}, "SketchL2"),
        (
            {"units": None, "projection": ss.CountSketch(sketch_dim=64, seed=7)},
            "the projection and items, catalogue, s",
        ),
        (
            {"units": None, "mechanism": "sign_gauss", "delta": None, "items": None, "catalogue": None},
            "pass a projection",
        ),
        ({"units": "many"}, "units must be a number"),
        ({"units": -5}, "units must be a number"),
        ({"items": "ten"}, "items"),
        ({"catalogue": 0}, "catalogue"),
        ({"seed": -1}, "seed"),
        ({"schedule": ss.continual.Tree(horizon=30)}, "schedule"),
        ({"mechanism": "sign_gauss", "delta": None}, "signs"),
    ],
)
def test_what_cannot_be_planned_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=words):
        agreed(**fields)


def test_without_units_or_a_map_a_number_of_units_is_assumed_and_said() -> None:
    with pytest.warns(PlanAssumedWarning, match=r"Assumed: 2,000 who[s] in a key; one who adds 12 items") as caught:
        assumed = agreed(units=None)
    assert str(caught[0].message).endswith("State units=…")
    assert caught[0].filename == __file__
    assert assumed == agreed(units=2000)
    with pytest.warns(PlanAssumedWarning, match=r"State units=…, items=… and catalogue=…$"):
        shortest = ss.agree(ROWS, index="item", unit="who", epsilon=1, delta=1e-6)
    assert shortest.release(ROWS).guarantee.epsilon == 1


UNPLANNED: list[dict[str, Any]] = [
    {"unit": None},
    {"neighbours": ss.L1(3, unit="who")},
    {"neighbours": ss.L1(3), "unit": None, "epsilon": 1, "delta": 1e-6},
    {
        "schedule": ss.continual.Tree(horizon=30),
        "epsilon": 1,
        "delta": 1e-6,
        "windows": ss.Windows(time=("item", "date"), every="day", first="2026-01-01"),
    },
]


@pytest.mark.parametrize("fields", UNPLANNED, ids=["no unit", "a unit by L1", "events by L1", "a schedule"])
def test_where_no_plan_fits_the_usual_map_is_assumed_and_said(fields: dict[str, Any]) -> None:
    known: dict[str, Any] = {"index": "item", "unit": "who", "seed": 7} | fields
    with pytest.warns(PlanAssumedWarning, match="SJLT of k = 1,024 cells .s = 4., whose errors.*Pass a projection"):
        assumed = ss.agree(ROWS, **known)
    assert assumed == ss.agree(ROWS, ss.SJLT(sketch_dim=1024, sparsity=4, seed=7), **(known | {"seed": None}))


@pytest.mark.parametrize("fields", UNPLANNED, ids=["no unit", "a unit by L1", "events by L1", "a schedule"])
def test_facts_that_no_plan_uses_are_refused(fields: dict[str, Any]) -> None:
    known: dict[str, Any] = {"index": "item", "unit": "who", "catalogue": 9} | fields
    with pytest.raises(ss.InvalidInputError, match="pass a projection"):
        ss.agree(ROWS, **known)


def test_the_command_and_python_assume_alike(tmp_path: Path, forks: Forks) -> None:
    done = forks.run(
        "agree", *COLUMNS, "--epsilon", 1, "--delta", 1e-6, "--set", "seed=7", "-o", "a.json", cwd=tmp_path
    )
    with pytest.warns(PlanAssumedWarning) as caught:
        assumed = ss.agree(ROWS, index="item", unit="who", epsilon=1, delta=1e-6, seed=7)
    assert ss.Agreement.load(tmp_path / "a.json") == assumed
    facts, _, python = str(caught[0].message).rpartition(" State ")
    assert python == "units=…, items=… and catalogue=…"
    assert done.stderr == (f"warning: {facts} State --units NUMBERS, --set items=NUMBERS and --set catalogue=NUMBER\n")


def test_the_command_plans_at_the_budget_of_the_terms(tmp_path: Path, forks: Forks) -> None:
    facts = ("--units", 2000, "--set", "items=12", "--set", "catalogue=3200", "--set", "seed=7", "--delta", 1e-6)
    forks.succeeded("agree", *COLUMNS, *facts, "--epsilon", 0.1, "-o", "a.json", cwd=tmp_path)
    assert ss.Agreement.load(tmp_path / "a.json") == agreed(epsilon=0.1)


def test_the_command_assumes_no_size_that_is_stated(tmp_path: Path, forks: Forks) -> None:
    assert forks.run("agree", *COLUMNS, "--set", "sketch-dim=64", "-o", "a.json", cwd=tmp_path).stderr == ""


@pytest.mark.parametrize("stated", ["sparsity=2", "resolution=1/8"])
def test_half_a_map_leaves_the_size_to_be_assumed(stated: str, tmp_path: Path, forks: Forks) -> None:
    done = forks.run("agree", *COLUMNS, "--set", stated, "-o", "a.json", cwd=tmp_path)
    assert "nobody stated the size of a sketch. Assumed: SJLT of k = 1,024 cells" in done.stderr
    assert "State it by --set sketch-dim=NUMBER" in done.stderr
