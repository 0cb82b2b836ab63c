"""changes: releases that are windows by their names, in every form, as the library compares them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.release import PrivateSketch
from tests.cli.running import Forks

PROJECTION = ss.SJLT(sketch_dim=32, sparsity=4, seed=3)
NEAR = ss.L1(1, unit="sale")
WINDOWS = [f"2024-{month:02}" for month in range(1, 7)]


def release(tea: int) -> PrivateSketch:
    sketch = PROJECTION.sketch()
    sketch.update(["tea", "salt"], [tea, 40])
    return sketch.release(epsilon=10.0, neighbours=NEAR)


@pytest.fixture(scope="module", autouse=True)
def _the_same_noise() -> Iterator[None]:
    """Draw the same noise each time, as 5 % of series have a false alarm."""
    bits = KeyedBits(bytes(32), b"changes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamsketch.release.ready.SystemBits", lambda: bits)
        yield


@pytest.fixture(scope="module")
def series(_the_same_noise: None) -> dict[str, dict[str, PrivateSketch]]:
    """Return the months of two shops, of which one sells less tea from April on."""
    return {
        "north": {window: release(90 if window < "2024-04" else 50) for window in WINDOWS},
        "south": {window: release(70) for window in WINDOWS},
    }


@pytest.fixture
def folder(series: dict[str, Any], tmp_path: Path) -> Path:
    """Return a folder with the tables of a policy, one for each month."""
    for window in WINDOWS:
        ss.PrivateTable({key: windows[window] for key, windows in series.items()}).save(tmp_path / f"{window}.parquet")
    return tmp_path


def asked(forks: Forks, folder: Path, *arguments: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(forks.run("changes", *arguments, "--json", cwd=folder).stdout)
    return found


def fields_of(key: str, windows: dict[str, PrivateSketch], **options: Any) -> dict[str, Any]:
    """Return a series as the command says it."""
    names = {"estimate": "squared_distance", "error": "standard_error"}
    found = ss.changes(windows, **options)
    rows = [{names.get(name, name): value for name, value in row.items()} for row in found.table.to_pylist()]
    return {"key": key} | found.to_dict() | {"windows": rows, "gaps": []}


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, []),
        ({"tolerance": "typical", "control": "rate"}, ["--tolerance", "typical", "--set", "control=rate"]),
        (
            {"against": "first", "tolerance": 10.0, "level": 0.01},
            ["--set=against=first", "--tolerance=10", "--level=0.01"],
        ),
    ],
)
def test_windows_are_compared_as_by_the_library(
    options: dict[str, Any], arguments: list[str], series: dict[str, Any], folder: Path, forks: Forks
) -> None:
    expected = [fields_of(key, windows, **options) for key, windows in series.items()]
    assert asked(forks, folder, ".", *arguments) == expected
    assert expected[0]["alarms"] == (["2024-04", "2024-05", "2024-06"] if "against" in options else ["2024-04"])
    assert asked(forks, folder, ".", "--key", "south", *arguments) == expected[1:]


def test_names_of_all_kinds_are_of_the_same_windows(series: dict[str, Any], folder: Path, forks: Forks) -> None:
    expected = asked(forks, folder, ".", "--key=north")
    alone = [{name: value for name, value in one.items() if name != "key"} for one in expected]
    for name in ("one", "stream", "files", "keys"):
        (folder / name).mkdir()
    months = {f"north {window}": one for window, one in series["north"].items()}
    ss.PrivateTable(months).save(folder / "keys/months.parquet")
    for place, (window, one) in enumerate(series["north"].items()):
        one.save(folder / f"one/{window}.sketch")
        one.save(folder / f"files/north%20{window}.sketch")
        (folder / f"stream/2024-01-0{place + 1}T12-00-00Z").mkdir()
        one.save(folder / f"stream/2024-01-0{place + 1}T12-00-00Z/north.sketch")
    assert asked(forks, folder, "keys") == asked(forks, folder, "files") == expected
    assert asked(forks, folder, "one") == alone
    backwards = sorted((folder / "one").iterdir(), reverse=True)
    assert asked(forks, folder, *backwards) == alone
    (hours,) = asked(forks, folder, "stream")
    assert hours["windows"][0]["before"] == "2024-01-01T12-00-00Z"
    forks.succeeded("report", "stream", "-o", "r.html", cwd=folder)
    assert "<strong>Alarm:</strong> north 2024-01-04T12-00-00Z." in (folder / "r.html").read_text()
    distances = [[row["squared_distance"] for row in one["windows"]] for one in (hours, *expected)]
    assert distances[0] == distances[1]


def test_people_see_alarms_and_what_is_left_out(series: dict[str, Any], folder: Path, forks: Forks) -> None:
    series["south"]["2024-01"].save(folder / "all.sketch")
    ss.PrivateTable({"west": release(7)}).save(folder / "2024-09.parquet")
    (folder / "b.raw-sketch").write_bytes(b"secret")
    done = forks.run("changes", ".", "--set", "picture=p.svg", cwd=folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    (line,) = [line for line in lines if "alarm" in line and "2024" in line]
    assert line.split()[0] == "2024-04"
    said = " ".join(done.stderr.split())
    assert "Left out, as secret: b.raw-sketch." in said
    assert "Left out, as their names are not those of windows: all." in said
    assert "Left out, with fewer than 2 windows: west." in said
    assert "1 alarm: north 2024-04." in said
    typical = forks.run("changes", ".", "--tolerance", "typical", cwd=folder)
    assert "Typical distances, in data units: north " in typical.stderr
    picture = (folder / "p.svg").read_text()
    assert "north: alarms in 2024-04. south: no alarm." in picture
    again = forks.refused("changes", ".", "--set", "picture=p.svg", cwd=folder)
    assert "p.svg already exists" in again


@pytest.mark.parametrize(
    ("windows", "gaps", "said"),
    [
        (["2024-11", "2024-12", "2025-01"], [], ""),
        (["2024-11", "2024-12", "2025-03"], [("2024-12", "2025-03", 2)], "2 windows between 2024-12 and 2025-03"),
        (["2024-01", "2024-04", "2024-10"], [("2024-04", "2024-10", 1)], "1 window between 2024-04 and 2024-10"),
        (["2024-05-01", "2024-05-15", "2024-05-22"], [("2024-05-01", "2024-05-15", 1)], "1 window between 2024-05-01"),
        (["2024-05-01", "2024-05-12", "2024-05-19"], [], ""),
        (["2024-05", "2024-09"], [], ""),
    ],
)
def test_missing_windows_are_said(
    windows: list[str],
    gaps: list[tuple[str, str, int]],
    said: str,
    series: dict[str, Any],
    tmp_path: Path,
    forks: Forks,
) -> None:
    for window, one in zip(windows, series["south"].values(), strict=False):
        one.save(tmp_path / f"{window}.sketch")
    (found,) = asked(forks, tmp_path, ".")
    assert [tuple(gap.values()) for gap in found["gaps"]] == gaps
    done = forks.run("changes", ".", cwd=tmp_path)
    assert ("Missing: " in done.stderr) == bool(gaps)
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--key", "nort"], "there is no key nort; keys are north, south. Did you mean north?"),
        (["--tolerance", "some"], "--tolerance must be a number, or typical, got some"),
        (["--set", "picture=p.png"], "a picture is written to a file named *.svg, got p.png"),
        (["2024-01.parquet"], "both have the window 2024-01 of north; give each once"),
        (["days"], "the windows of north are of several lengths, such as"),
        (
            ["alone", "--key", "north"],
            "changes needs at least 2 windows of one key, got 1. Windows are recognised by name",
        ),
        (["alone", "--tolerance", "typical"], "typical changes need at least 6 windows of one key, got 1"),
    ],
)
def test_mistakes_are_sentences(
    arguments: list[str], message: str, series: dict[str, Any], folder: Path, forks: Forks
) -> None:
    for name in ("days", "alone"):
        (folder / name).mkdir()
    ss.PrivateTable({"north": release(1)}).save(folder / "days/2024-05-01.parquet")
    ss.PrivateTable({"north": series["north"]["2024-01"]}).save(folder / "alone/2024-01.parquet")
    places = [] if arguments[0] == "alone" else ["."]
    assert message in forks.refused("changes", *places, *arguments, cwd=folder)
