"""history: ranges of windows, as the library reads them."""

import json
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.continual import Factorisation, History
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.release import PrivateSketch, PrivateTable
from streamsketch.schedules.releaser import Releaser
from tests.cli.running import Forks

NAMES = [f"2024-01-{day:02}" for day in range(1, 32)] + [f"2024-02-{day:02}" for day in range(1, 10)]
PROJECTION = ss.SJLT(sketch_dim=32, sparsity=4, seed=3)


@pytest.fixture(scope="module")
def rows() -> list[PrivateSketch]:
    """Return the rows of forty days, with more tea from February on."""
    secret = KeyedBits(bytes(32), b"history")
    publish = ss.AdditiveNoise(epsilon=5.0, delta=1e-6, neighbours=ss.L1(1), schedule=Factorisation(horizon=366))
    releaser, found = Releaser(publish, PROJECTION, history=b"8 bytes."), []
    for name in NAMES:
        sketch = PROJECTION.sketch()
        for thing in ["tea"] * (3 if name < "2024-02" else 12) + ["jam"] * 5:
            sketch.update(thing)
        found.append(releaser.add(sketch, bits=lambda *_: secret))
    return found  # type: ignore[return-value]


@pytest.fixture
def folder(rows: list[PrivateSketch], tmp_path: Path) -> Path:
    """Return a folder as a policy leaves it."""
    for name, row in zip(NAMES, rows, strict=True):
        row.save(tmp_path / f"{name}.sketch")
    return tmp_path


def asked(forks: Forks, folder: Path, *arguments: object) -> Any:
    return json.loads(forks.succeeded("history", folder, *arguments, "--json", cwd=folder))


def test_ranges_are_those_of_the_library(forks: Forks, folder: Path, rows: list[PrivateSketch]) -> None:
    history = History(rows, names=NAMES)
    found = asked(forks, folder, "--range", "2024-01", "--range", "2024-02-01..2024-02-10", "--range", "0..9")
    assert [(one["start"], one["stop"]) for one in found["ranges"]] == [(0, 31), (31, 40), (0, 9)]
    assert found["ranges"][0]["squared_norm"] == ss.squared_norm(history.range("2024-01")).value
    assert [one["range"] for one in found["comparisons"]][1:] == [
        ["2024-01", "0..9"],
        ["2024-02-01..2024-02-10", "0..9"],
    ]
    assert found["comparisons"][2]["squared_distance"] == history.squared_distance((31, 40), (0, 9)).value
    assert found["comparisons"][2]["p_value"] == history.sameness((31, 40), (0, 9)).p_value < 0.001
    shown = forks.succeeded("history", folder, "--range", "2024-01", "--range", "2024-01-05", cwd=folder)
    assert "2024-01-05" in shown
    assert "31" in shown


def test_a_range_is_written_for_other_commands(forks: Forks, folder: Path, rows: list[PrivateSketch]) -> None:
    forks.succeeded("history", folder, "--range", "2024-01", "-o", folder / "january.sketch", cwd=folder)
    assert ss.load(folder / "january.sketch") == History(rows).range(0, 31)
    assert "windows 0 to 30" in forks.succeeded("explain", folder / "january.sketch", cwd=folder)


def test_changes_of_a_length_are_those_of_the_library(forks: Forks, folder: Path, rows: list[PrivateSketch]) -> None:
    found = asked(forks, folder, "--length", 7, "--set", f"picture={folder / 'weeks.svg'}")
    changes = History(rows, names=NAMES).changes(7)
    assert found["alarms"] == changes.alarms == ["2024-01-29"]
    assert [row["p_value"] for row in found["windows"]] == changes.table["p_value"].to_pylist()
    assert (folder / "weeks.svg").read_text().startswith("<svg")
    shown = forks.succeeded("history", folder, "--length", 7, cwd=folder)
    assert "alarm" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_mix_of_ranges_of_unlike_lengths_is_compared(forks: Forks, folder: Path, rows: list[PrivateSketch]) -> None:
    history = History(rows, names=NAMES)
    found = asked(forks, folder, "--range", "0..10", "--range", "31..40", "--set", "by=profile")["comparisons"][0]
    expected = history.sameness((0, 10), (31, 40), by="profile")
    assert (found["profile_distance"], found["p_value"]) == (expected.distance.value, expected.p_value)
    weeks = asked(forks, folder, "--length", 7, "--set", "by=cosine")
    changes = history.changes(7, by="cosine")
    assert (weeks["by"], weeks["alarms"]) == ("cosine", changes.alarms)
    assert [row["cosine"] for row in weeks["windows"]] == changes.table["estimate"].to_pylist()
    assert "cosine" in forks.succeeded("history", folder, "--length", 7, "--set", "by=cosine", cwd=folder)
    shown = forks.succeeded(
        "history", folder, "--range", "0..10", "--range", "31..40", "--set", "by=profile", cwd=folder
    )
    assert "profile distance" in shown
    refused = forks.refused("history", folder, "--length", 7, "--set", "by=mean", cwd=folder)
    assert "by='mean'" in refused


def test_a_curve_of_ranges_is_that_of_the_library(forks: Forks, folder: Path, rows: list[PrivateSketch]) -> None:
    found = asked(
        forks,
        folder,
        "--length",
        10,
        "--set",
        "every=5",
        "--set",
        "of=squared_norm",
        "--set",
        f"picture={folder / 'norm.svg'}",
    )
    expected = History(rows, names=NAMES).series(10, 5)
    assert found["ranges"] == expected.to_pylist()
    picture = (folder / "norm.svg").read_text()
    assert "Squared norm over time" in picture
    assert "Dashed" not in picture
    assert "2024-01-06" in forks.succeeded(
        "history", folder, "--length", 10, "--set", "every=5", "--set", "of=squared_norm"
    )
    assert "no count of units" in forks.refused("history", folder, "--length", 10, "--set", "of=units", cwd=folder)


def test_without_options_the_schedule_is_shown(forks: Forks, folder: Path) -> None:
    found = asked(forks, folder)
    assert (found["windows"], found["first"], found["last"]) == (40, NAMES[0], NAMES[-1])
    assert found["schedule"]["horizon"] == 366
    assert [one["windows"] for one in found["ranges"]] == [1, 7, 24, 30, 40]
    shown = forks.succeeded("history", folder, cwd=folder)
    assert "40 of 366" in shown


def test_a_key_of_tables_is_named(forks: Forks, tmp_path: Path) -> None:
    secret = KeyedBits(bytes(32), b"tables")
    publish = ss.AdditiveNoise(epsilon=5.0, delta=1e-6, neighbours=ss.L1(1), schedule=Factorisation(horizon=3))
    releaser = Releaser(publish, PROJECTION)
    for name in NAMES[:3]:
        table = PROJECTION.table()
        table.update(["north", "south"], ["tea", "jam"], [1, 1])
        row = releaser.add(table, public_keys=["north", "south"], bits=lambda *_: secret)
        assert isinstance(row, PrivateTable)
        row.save(tmp_path / f"{name}.parquet")
    assert asked(forks, tmp_path, "--key", "south", "--range", "0..3")["ranges"][0]["stop"] == 3
    assert "name one by --key" in forks.refused("history", tmp_path, cwd=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--range", "2024-03"], "not published in full"),
        (["--range", "0..99"], "0 to 40"),
        (["--range", "May"], "not the name of a window"),
        (["--range", "0..3", "--length", "7"], "one at a time"),
        (["--set", "every=3"], "--set every goes with --length"),
        (["--key", "north"], "no key north"),
        (["-o", "a.sketch"], "--range once"),
        (["--range", "0..3", "-o", "a.csv"], ".sketch"),
    ],
    ids=str,
)
def test_mistakes_are_explained(forks: Forks, folder: Path, arguments: list[str], words: str) -> None:
    assert words in forks.refused("history", folder, *arguments, cwd=folder)


@pytest.mark.parametrize(
    "wanted",
    ["May", "2010-12-01/2010-12-07", "2024-03", "0..99", "5..5", "2024-13", "2024-02-31", "a..b", "-1..3", "..", "5"],
)
def test_a_refused_range_comes_with_the_form_of_ranges(forks: Forks, folder: Path, wanted: str) -> None:
    refused = forks.refused("history", folder, f"--range={wanted}", cwd=folder)
    assert f"on the command line {NAMES[0]}..{NAMES[-1]} or 0..40; or as a year, month or day, such as 2024-" in refused
