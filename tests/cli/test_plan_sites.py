"""``streamsketch plan --sites``, through the real executable."""

import json
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.planning import MeanShift, plan_sites
from tests.cli.running import Forks

COLUMNS = [
    {"name": "age", "kind": "number", "low": 0, "high": 110},
    {"name": "sex", "kind": "category", "values": ["F", "M"]},
]
ASKED = ("plan", "--sites", "--units", 3000, "--epsilon", 1, "--unit", "patient")


def write(folder: Path, **more: int) -> Path:
    path = folder / "columns.json"
    path.write_text(json.dumps({"columns": COLUMNS, **more}))
    return path


def test_a_plan_of_sites_makes_features_and_an_agreement(forks: Forks, tmp_path: Path) -> None:
    made, picture = tmp_path / "features.json", tmp_path / "power.svg"
    files = ("--write-features", made, "--picture", picture, "--seed", 5)
    done = forks.succeeded(*ASKED, "--features", write(tmp_path), "--shift", 0.5, *files)
    features = ss.Features.from_json(made.read_text())
    plan = plan_sites(features, units=3000, shift=MeanShift(0.5), epsilon=1.0, unit="patient")
    assert done == f"{plan}\n"
    assert features == plan.features(5)
    svg = picture.read_text()
    assert svg.startswith("<svg")
    assert "patients a site" in svg
    agreement = tmp_path / "agreement.json"
    forks.succeeded("agree", "--features", made, "--unit-column", "patient", "-o", agreement)
    assert ss.Agreement.load(agreement).features == features


def test_a_goal_that_is_missed_writes_no_features(forks: Forks, tmp_path: Path) -> None:
    made, columns = tmp_path / "features.json", write(tmp_path, seed=9)
    asked = ("plan", "--sites", "--units", "40,50", "--features", columns, "--shift", 0.5, "--epsilon", 1)
    done = forks.run(*asked, "--write-features", made)
    assert done.returncode == 1
    assert "is not reached" in done.stdout
    assert "features.json is not written: it takes" in done.stderr
    assert not made.exists()
    forks.succeeded(*asked, "--write-features", made, "--accept")
    assert ss.Features.from_json(made.read_text()).seed == 9


def test_a_plan_of_sites_in_json(forks: Forks) -> None:
    plan = json.loads(forks.succeeded("plan", "--sites", "--numbers", 5, "--units", 4000, "--times", 2, "--json"))
    assert plan["question"] == "sites"
    assert plan["guarantee"]["epsilon"] < 1
    assert plan["chosen"]["power"] >= 0.8


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--shift", 0.5), "state what is compared"),
        (("--numbers", 3), "state one difference to be found"),
        (("--numbers", 3, "--shift", 1, "--moved", 0.1), "state one difference"),
        (("--numbers", 3, "--shift", 1, "--class-share", 0.1), "--class-share does not apply to --shift"),
        (("--numbers", 3, "--shift", 1, "--items", 3), "--items: not an option for --sites"),
        (("--numbers", 3, "--shift", 0.9, "--write-features", "x.json"), "which --numbers does not"),
        (("--numbers", 3, "--shift", 0.5, "--units", "few"), "takes one number or two"),
    ],
)
def test_mistakes_are_named(forks: Forks, tmp_path: Path, options: tuple[Any, ...], words: str) -> None:
    assert words in forks.refused(*ASKED, *options, cwd=tmp_path)


def test_options_of_sites_need_sites(forks: Forks, tmp_path: Path) -> None:
    asked = "plan", "--squared-distance", 4000
    assert "give --sites, too" in forks.refused(*asked, "--epsilon", 1, "--moved", 0.1, cwd=tmp_path)
    assert "state how much privacy" in forks.refused(*asked, cwd=tmp_path)
