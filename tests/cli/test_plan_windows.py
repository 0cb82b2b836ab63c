"""plan windows: the schedule that the library chooses, in words, as JSON and as a file."""

import json
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.continual import schedule_from_json
from streamsketch.planning import plan_schedule
from tests.cli.running import Forks
from tests.streams.agreed import followed

HOURS = ["--windows", "720", "--window", "1 hour", "--range", "1 day", "--range", "prefix", "--delta", "1e-6"]


def test_the_plan_is_that_of_the_library(forks: Forks, tmp_path: Path) -> None:
    expected = plan_schedule(720, [24, "prefix"], delta=1e-6)
    out = tmp_path / "schedule.json"
    assert (
        json.loads(forks.succeeded("plan", "windows", *HOURS, "-o", out, "--json", cwd=tmp_path)) == expected.to_dict()
    )
    assert schedule_from_json(out.read_text()) == expected.chosen.schedule
    shown = forks.succeeded("plan", "windows", *HOURS, cwd=tmp_path)
    assert shown.splitlines()[0] == f"Publish with a {expected.chosen.schedule}, for a unit in one of 720 windows."
    assert "each by itself" in shown.splitlines()[-1]


def test_units_in_every_window_are_released_window_by_window(forks: Forks, tmp_path: Path) -> None:
    shown = forks.succeeded(
        "plan", "windows", "--windows", "52", "--max-windows", "all", "--delta", "1e-6", cwd=tmp_path
    )
    assert shown.startswith("Release each window by itself: for a unit in at most 52 of 52 windows")
    apart = forks.succeeded(
        "plan", "windows", "--windows", "52", "--max-windows", "all", "--gap", "13", "--delta", "1e-6", cwd=tmp_path
    )
    assert "a unit in at most 4 of 52 windows, 13 apart" in apart


@pytest.mark.parametrize("epsilon", ["0.02", "1"])
@pytest.mark.parametrize("resolution", [1 << 14, 1 << 20])
def test_what_is_written_works_in_an_agreement(resolution: int, epsilon: str, forks: Forks, tmp_path: Path) -> None:
    """Where there is no schedule whose noise can be drawn, the plan says so."""
    bounded = ss.SketchL2(1, unit="person", max_keys=1)
    projection = ss.CountSketch(sketch_dim=256, seed=7, resolution=f"1/{resolution}")
    agreement = ss.Agreement(projection, index="item", unit="person", neighbours=bounded)
    agreement.save(tmp_path / "agreed.json")
    days = ["--windows", "365", "--range", "7", "--delta", "1e-6", "--epsilon", epsilon, "--agreement", "agreed.json"]
    done = forks.run("plan", "windows", *days, "-o", "days.json", cwd=tmp_path)
    if done.returncode:
        assert "coarser resolution" in done.stderr
        assert not (tmp_path / "days.json").exists()
        return
    schedule = json.loads((tmp_path / "days.json").read_text())
    times: dict[str, Any] = {"time": "at", "window": "1 day", "start": "2026-11-22", "delay": "5 min", "folder": "out"}
    policy = followed(agreement, **times, epsilon=float(epsilon), delta=1e-6, schedule=schedule)
    guarantee = policy.publisher().guarantee
    assert (guarantee.delta, guarantee.mechanism.the_noise.noise.name) == (1e-6, "gaussian")
    assert guarantee.mechanism.layout.schedule == schedule_from_json(json.dumps(schedule))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--windows", "9", "--items", "4"], "No such option: --items"),
        (["--range", "7", "--epsilon", "1"], "Missing option '--windows'"),
        (["--windows", "9", "--range", "1 day"], "with --window, a length"),
        (["--windows", "9", "--window", "1 hour", "--range", "90 min"], "multiple of --window"),
        (["--windows", "9", "--max-windows", "some"], "--max-windows takes a number, or all"),
        (["--windows", "9", "--range", "10"], "from 1 to 9"),
        (["--windows", "9", "--epsilon", "1"], "agreement and epsilon: pass both"),
    ],
    ids=str,
)
def test_mistakes_are_explained(forks: Forks, tmp_path: Path, arguments: list[str], words: str) -> None:
    assert words in forks.refused("plan", "windows", *arguments, cwd=tmp_path)
