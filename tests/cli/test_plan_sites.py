"""``streamsketch plan sites``, through the real executable."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.cli._features import load_features
from streamsketch.planning import MeanShift, plan_sites
from tests.cli.running import Forks

COLUMNS = [
    {"name": "age", "kind": "number", "low": 0, "high": 110},
    {"name": "sex", "kind": "category", "values": ["F", "M"]},
]
ASKED = ("plan", "sites", "--units", 3000, "--epsilon", 1, "--unit", "patient")


def write(folder: Path, **more: int) -> Path:
    path = folder / "columns.json"
    path.write_text(json.dumps({"columns": COLUMNS, **more}))
    return path


def test_a_plan_of_sites_makes_an_agreement(forks: Forks, tmp_path: Path) -> None:
    made, picture = tmp_path / "agreement.json", tmp_path / "power.svg"
    columns = write(tmp_path, seed=5)
    done = forks.succeeded(*ASKED, "--features", columns, "--shift", 0.5, "-o", made, "--set", f"picture={picture}")
    features = load_features(columns, None)
    plan = plan_sites(features, units=3000, shift=MeanShift(0.5), epsilon=1.0, unit="patient")
    assert done == f"{plan}\n"
    svg = picture.read_text()
    assert svg.startswith("<svg")
    assert "patients a site" in svg
    agreed = ss.Agreement.load(made)
    assert agreed.features == plan.features(5)
    assert agreed.terms == ss.Terms(epsilon=plan.epsilon, delta=plan.delta)
    rows = pa.table({"patient": ["a", "b"], "age": [40, 50], "sex": ["F", "M"]})
    assert agreed.release(rows).guarantee.neighbours.unit == "patient"


@pytest.mark.parametrize(
    ("stated", "keys"),
    [
        ("public-key=a,b", ("a", "b")),
        ("keys-are-public=yes", "public"),
        ("select-keys=0.1,0.0000001", ss.Selected(epsilon="0.1", delta="0.0000001")),
    ],
)
def test_an_agreement_of_sites_with_keys_is_complete(stated: str, keys: Any, forks: Forks, tmp_path: Path) -> None:
    asked = (*ASKED, "--features", write(tmp_path, seed=5), "--shift", 0.5, "--set", "key=ward", "-o", "a.json")
    assert "which keys have data is private" in forks.refused(*asked, cwd=tmp_path)
    forks.succeeded(*asked, "--delta", 1e-6, "--set", stated, cwd=tmp_path)
    agreed = ss.Agreement.load(tmp_path / "a.json")
    assert (agreed.terms, agreed.keys) == (ss.Terms(epsilon=1, delta=1e-6), keys)
    rows = pa.table({"patient": range(999), "age": [40] * 999, "sex": ["F"] * 999, "ward": ["a"] * 999})
    assert agreed.release(rows).guarantee.epsilon == 1
    if isinstance(keys, ss.Selected):
        (tmp_path / "a.json").unlink()
        assert "state both" in forks.refused(*asked, "--set", stated, cwd=tmp_path)


def test_a_goal_that_is_missed_writes_no_agreement(forks: Forks, tmp_path: Path) -> None:
    made, columns = tmp_path / "agreement.json", write(tmp_path, seed=9)
    asked = ("plan", "sites", "--units", "40,50", "--features", columns, "--shift", 0.5, "--epsilon", 1)
    done = forks.run(*asked, "--unit", "patient", "-o", made)
    assert done.returncode == 1
    assert "is not reached" in done.stdout
    assert "agreement.json is not written: it takes" in done.stderr
    assert not made.exists()
    forks.succeeded(*asked, "--unit", "patient", "-o", made, "--set", "accept=yes")
    agreed = ss.Agreement.load(made).features
    assert agreed is not None
    assert agreed.seed == 9


def test_a_plan_of_sites_in_json(forks: Forks) -> None:
    plan = json.loads(forks.succeeded("plan", "sites", "--features", 5, "--units", 4000, "--set", "times=2", "--json"))
    assert plan["question"] == "sites"
    assert plan["guarantee"]["epsilon"] < 1
    assert plan["chosen"]["power"] >= 0.8


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--shift", 0.5), "Missing option '--features'"),
        (("--features", 3), "state one difference to be found"),
        (("--features", 3, "--shift", 1, "--set", "moved=0.1"), "state one difference"),
        (("--features", 3, "--set", "moved=0.1", "--set", "in-columns=2"), "--set in-columns does not apply to moved"),
        (("--features", 3, "--shift", 1, "--items", 3), "No such option: --items"),
        (("--features", 3, "--shift", 0.9, "-o", "x.json"), "which a number of them does not"),
        (("--features", 3, "--shift", 0.5, "--units", "few"), "takes one number or two"),
    ],
)
def test_mistakes_are_named(forks: Forks, tmp_path: Path, options: tuple[Any, ...], words: str) -> None:
    assert words in forks.refused(*ASKED, *options, cwd=tmp_path)
