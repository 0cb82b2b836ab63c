"""plan windows: the schedule that the library chooses, in words, as JSON and as a file."""

import json
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.planning import plan_schedule
from streamsketch.privacy.schedule_kinds import schedule_of
from streamsketch.streams.job import Job
from streamsketch.streams.policy import StreamPolicy
from tests.cli.running import Forks

HOURS = ["--windows", "720", "--window", "1 hour", "--range", "1 day", "--range", "prefix", "--delta", "1e-6"]


def test_the_plan_is_that_of_the_library(forks: Forks, tmp_path: Path) -> None:
    expected = plan_schedule(720, [24, "prefix"], delta=1e-6)
    made = forks.succeeded("plan", "windows", *HOURS, "--json", cwd=tmp_path)
    assert json.loads(made) == expected.to_dict()
    shown = forks.succeeded("plan", "windows", *HOURS, cwd=tmp_path)
    words = " ".join(shown.split())
    assert words.startswith(f"Plan: a {expected.chosen.schedule}, for a unit in one of 720 windows.")
    assert "each by itself" in shown.splitlines()[-1]


def test_units_in_every_window_are_released_window_by_window(forks: Forks, tmp_path: Path) -> None:
    shown = forks.succeeded(
        "plan", "windows", "--windows", "52", "--set", "max-windows=all", "--delta", "1e-6", cwd=tmp_path
    )
    assert shown.startswith("Plan: each window by itself, for a unit in at most 52 of 52 windows")
    apart = forks.succeeded(
        "plan",
        "windows",
        "--windows",
        "52",
        "--set",
        "max-windows=all",
        "--set",
        "gap=13",
        "--delta",
        "1e-6",
        cwd=tmp_path,
    )
    assert "a unit in at most 4 of 52 windows, 13 apart" in " ".join(apart.split())


@pytest.mark.parametrize("epsilon", ["0.02", "1"])
@pytest.mark.parametrize("resolution", [1 << 14, 1 << 20])
def test_what_is_written_works_in_an_agreement(resolution: int, epsilon: str, forks: Forks, tmp_path: Path) -> None:
    """Where there is no schedule whose noise can be drawn, the plan says so."""
    bounded = ss.SketchL2(1, unit="person", max_keys=1)
    projection = ss.CountSketch(sketch_dim=256, seed=7, resolution=f"1/{resolution}")
    agreement = ss.Agreement(projection, index="item", unit="person", neighbours=bounded)
    agreement.save(tmp_path / "agreed.json")
    days = ["--windows", "365", "--range", "7", "--delta", "1e-6", "--epsilon", epsilon, "--agreement", "agreed.json"]
    days += ["--window", "1 day", "--time", "at", "--first", "2026-11-22"]
    done = forks.run("plan", "windows", *days, "-o", "days.json", "--json", cwd=tmp_path)
    if done.returncode:
        assert "coarser resolution" in done.stderr
        assert not (tmp_path / "days.json").exists()
        return
    planned = ss.Agreement.load(tmp_path / "days.json")
    chosen = json.loads(done.stdout)["options"][0]["schedule"]
    windows = ss.Windows(time="at", every="1 day", first="2026-11-22")
    terms = ss.Terms(epsilon=epsilon, delta="1e-6")
    assert planned == agreement.replace(terms=terms, windows=windows, schedule=schedule_of(chosen))
    guarantee = StreamPolicy(planned, Job(folder="out", delay="5 min")).publisher().guarantee
    assert (guarantee.delta, guarantee.mechanism.the_noise.noise.name) == (1e-6, "gaussian")
    assert guarantee.mechanism.layout.schedule == planned.schedule
    again = ["plan", "windows", "--windows", "365", "--range", "7", "--agreement", "days.json"]
    forks.succeeded(*again, "-o", "again.json", cwd=tmp_path)  # which says all of it already
    assert ss.Agreement.load(tmp_path / "again.json") == planned


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--windows", "9", "--items", "4"], "No such option: --items"),
        (["--range", "7", "--epsilon", "1"], "Missing option '--windows'"),
        (["--windows", "9", "--range", "1 day"], "with --window, a length"),
        (["--windows", "9", "--window", "1 hour", "--range", "90 min"], "multiple of --window"),
        (["--windows", "9", "--set", "max-windows=some"], "--set max-windows takes a number, or all"),
        (["--windows", "9", "--range", "10"], "from 1 to 9"),
        (["--windows", "9", "-o", "days.json"], "an agreement has columns and a bound"),
        (["--windows", "9", "--first", "2026-01-01"], "--window LENGTH --time COLUMN"),
        (["--windows", "9", "--epsilon", "1"], "with --epsilon, give --agreement"),
    ],
    ids=str,
)
def test_mistakes_are_explained(forks: Forks, tmp_path: Path, arguments: list[str], words: str) -> None:
    assert words in forks.refused("plan", "windows", *arguments, cwd=tmp_path)
