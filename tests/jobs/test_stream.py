"""The job on a stream from end to end, on a folder that grows while it runs."""

import json
import re
import shutil
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.jobs import Watch
from tests.beam.streams.prism import BASE, MINUTE
from tests.beam.streams.test_charges import ROWS, charges, ledger_of
from tests.jobs.job import AGREEMENT, KEYS, PROJECTION, Row, at, end, job_of, options, policy_of, published, put, run
from tests.jobs.running import command

VERSION_FILE = "=sketch.version"  # the claim of a window's version, which lies beside its releases
FIRST: list[Row] = [("AA", "JFK-LAX", "N1", 5), ("UA", "EWR-SFO", "N2", 30), ("UA", "EWR-SFO", "N2", 61)]
THEN: list[Row] = [("AA", "JFK-SFO", "N3", 70), ("AA", "JFK-LAX", "N4", 130), ("AA", "late", "N5", 6)]


def grow(folder: Path) -> None:
    put(folder / "log", "001.parquet", FIRST)
    time.sleep(1.5)
    put(folder / "log", "002.parquet", THEN[:1])
    put(folder / "log", "003.parquet", THEN[1:])
    time.sleep(0.5)
    end(folder / "log")


def sums_of(key: str, minute: int) -> list[int]:
    """Return the sums of a key's rows in a minute, but for the late one."""
    sketch = PROJECTION.sketch()
    for carrier, route, _, second in FIRST + THEN:
        if carrier == key and second // MINUTE == minute and route != "late":
            sketch.update(route, 1)
    return [int(cell) for cell in sketch.state()]


@pytest.mark.filterwarnings("ignore::streamsketch.errors.NoiseMismatchWarning")  # sums without noise
@pytest.mark.usefixtures("no_noise", "root_key")
def test_each_window_of_a_growing_folder_is_released_and_compared_once(runner: list[str], tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    assert run(tmp_path, runner, lambda: grow(tmp_path)) == 0
    windows = [time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime(BASE + MINUTE * minute)) for minute in range(3)]
    found = published(tmp_path)
    expected = {f"{window}/{VERSION_FILE}" for window in windows}
    expected |= {f"{window}/{key}.sketch" for window in windows for key in KEYS}
    expected |= {f"{window}/{key}.change" for window in windows[1:] for key in KEYS}
    expected |= {f"{window}/pairs.json" for window in windows}
    assert found.keys() == expected

    releases = {name: ss.load(tmp_path / "out/flights" / name) for name in found if name.endswith(".sketch")}
    assert {str(one.guarantee.neighbours) for one in releases.values()} == {
        str(ss.L1(10, unit="aircraft in one window of 60 s", max_keys=1))
    }
    sums = {name: release.values.tolist() for name, release in releases.items()}
    assert sums == {
        f"{window}/{key}.sketch": sums_of(key, minute) for minute, window in enumerate(windows) for key in KEYS
    }
    for key in KEYS:
        change = json.loads(found[f"{windows[1]}/{key}.change"])
        pair = [releases[f"{window}/{key}.sketch"] for window in windows[:2]]
        assert change["squared_distance"] == pytest.approx(ss.squared_distance(*pair).value)
        assert change["p_value"] == pytest.approx(ss.sameness(*pair).p_value, rel=1e-2)
    (row,) = json.loads(found[f"{windows[0]}/pairs.json"])
    assert (row["first"], row["second"]) == tuple(KEYS)

    restored = run(tmp_path, runner, folder=str(tmp_path / "restored"), epoch=1)
    assert restored == 0
    again = {path.name: path.read_bytes() for path in (tmp_path / "restored/flights" / windows[0]).iterdir()}
    before = {name.split("/")[1]: content for name, content in found.items() if name.startswith(windows[0])}
    assert again.pop(VERSION_FILE) != before.pop(VERSION_FILE), "claims are sealed with salts of their own"
    assert again == before

    assert run(tmp_path, runner) == 0, "a new epoch, whose releases are refused"
    assert published(tmp_path) == found
    assert len(list((tmp_path / "claims").glob("flights.*.epoch"))) == 2


@pytest.mark.usefixtures("root_key")
def test_nothing_is_computed_from_a_release_that_was_refused(tmp_path: Path) -> None:
    """A comparison with it would publish it, and the window would have been released twice."""
    put(tmp_path / "log", "001.parquet", FIRST + THEN[:-1])
    end(tmp_path / "log")
    first = tmp_path / "out/flights"
    assert run(tmp_path, [], last=at(0)) == 0
    assert run(tmp_path, [], last=at(1)) == 0
    before, after = sorted(path.name for path in first.iterdir())
    assert {path.name for path in (first / after).iterdir()} == {"AA.sketch", "UA.sketch", "pairs.json", VERSION_FILE}
    assert {path.name for path in (first / before).iterdir()} == {"AA.sketch", "UA.sketch", "pairs.json", VERSION_FILE}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"incoming": None}, "set incoming, a growing folder; or servers, topic and expansion"),
        ({"incoming": None, "servers": "a:1", "topic": "b"}, "needs expansion in the job"),
        ({"topic": "b"}, "both incoming and topic"),
        ({"format": "json"}, "leave out format"),
        ({"root_key": None}, "a cluster needs root_key in the job"),
    ],
)
def test_a_stream_has_one_source(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        command(*options(tmp_path, **changed))


@pytest.mark.usefixtures("root_key")
def test_the_command_runs_the_job(tmp_path: Path) -> None:
    put(tmp_path / "log", "001.parquet", FIRST)
    end(tmp_path / "log")
    assert command(*options(tmp_path), "--", "--runner=FnApiRunner") == 0
    assert len([name for name in published(tmp_path) if name.endswith(".sketch")]) == 3 * len(KEYS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"stream": None}, 'set "stream": "NAME"'),
        ({"time_format": "%d.%m.%Y"}, "messages have Arrow times"),
        ({"period": 180, "clip": "none"}, "the agreement names no units"),
        ({"public_keys": "public"}, "has public keys: list the keys"),
        ({"comparisons": "mean"}, "averages need the number of units"),
        (
            {"window": "month", "start": "2026-11", "last": None},
            "a job on a cluster needs windows of one length, such as",
        ),
    ],
)
def test_what_a_job_cannot_follow_is_refused_before_it_runs(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        job_of(tmp_path, **changed)


AGREED = pa.schema(
    {
        "shop": pa.int64(),
        "item": pa.string(),
        "paid": pa.string(),
        "buyer": pa.string(),
        "time": pa.timestamp("us", "UTC"),
    }
)
BOUGHT = [  # one row breaks the agreement, and in two something is missing
    (7, "a", "1.25", "Ann", 5),
    (8, "b", "0.50", "Bob", 6),
    (7, "b", "much", "Cyd", 7),
    (8, "b", None, "Dan", 8),
    (8, "", "0.33", "Eve", 9),
    (8, "a", "2.00", "Fay", 61),
]


@pytest.mark.filterwarnings("ignore::streamsketch.errors.NoiseMismatchWarning")  # sums without noise
@pytest.mark.usefixtures("no_noise", "root_key")
@pytest.mark.parametrize("unit", ["buyer", None])
def test_a_job_follows_an_agreement(unit: str | None, tmp_path: Path) -> None:
    projection = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution="1/100")
    agreement = ss.Agreement(
        projection,
        key={"shop": "integer"},
        index="item",
        value="paid",
        unit=unit,
        neighbours=ss.L1(5, unit="sale"),
        missing="drop",
    )
    put(tmp_path / "log", "001.parquet", BOUGHT, AGREED)
    end(tmp_path / "log")
    given: dict[str, Any] = {"public_keys": [7, 8], "last": at(0), "clip": "scale" if unit else "none"}
    assert run(tmp_path, [], agreement=agreement, **given) == 0
    (window,) = (tmp_path / "out/flights").iterdir()
    assert {path.name for path in window.iterdir()} == {"=7.sketch", "=8.sketch", "pairs.json", VERSION_FILE}
    agreed, job = policy_of(tmp_path, agreement, **given)
    watched = Watch(agreed, job)
    watched.look()
    assert watched.seen is not None
    assert watched.seen.releases == 2
    for key, item, cents in ((7, "a", 125), (8, "b", 50)):
        release = ss.load(window / f"={key}.sketch")
        sketch = projection.sketch()
        sketch.update(item, Fraction(cents, 100))
        assert release.values.tolist() == sketch.state().tolist()
        assert release.agreement == agreed.fingerprint
        assert release.guarantee.neighbours == ss.L1(5, unit="sale" if unit is None else "sale in one window of 60 s")


@pytest.mark.usefixtures("root_key")
@pytest.mark.parametrize(("period", "within"), [({}, "window of 60 s"), ({"period": 180}, "period of 180 s")])
def test_a_job_counts_people_and_publishes_the_same_bytes_after_a_restore(
    period: dict[str, Any], within: str, tmp_path: Path
) -> None:
    """Both aircraft of the first minute weigh the same; one that came before in its period is dropped."""
    projection = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution="1/8192")
    near = ss.SketchL2(1, unit="aircraft", max_keys=2)
    counting = ss.privacy.Counting.of(projection, near, delta=1e-6)
    people = AGREEMENT.replace(projection=projection, neighbours=near, clip="equal", counting=counting)
    rows = [("AA", "x", "N1", 5), ("AA", "x", "N1", 6), ("AA", "y", "N2", 7), ("UA", "x", "N1", 70)]
    put(tmp_path / "log", "001.parquet", rows)
    end(tmp_path / "log")
    found = []
    for epoch in (None, 1):
        changed: dict[str, Any] = {"agreement": people, "epsilon": 5e5, "delta": 1e-6, "comparisons": "mean"}
        changed["epoch"] = epoch
        assert run(tmp_path, [], **changed, **period) == 0
        # claims are sealed with salts, so that two of the same rows do not show it
        found.append({name: data for name, data in published(tmp_path).items() if not name.endswith(VERSION_FILE)})
        shutil.rmtree(tmp_path / "out")
    assert found[0] == found[1]
    releases = [ss.PrivateSketch.from_bytes(data) for name, data in found[0].items() if name.endswith(".sketch")]
    assert {(one.guarantee.neighbours, one.clip) for one in releases} == {
        (ss.SketchL2(1, unit=f"aircraft in one {within}", max_keys=2), "equal")
    }
    pairs = [json.loads(data) for name, data in found[0].items() if name.endswith("pairs.json")]
    assert ["mean_distance" in row for window in pairs for row in window] == [True] * 3
    assert sorted(round(one.units.value) for one in releases) == [0, 0, 0, 0, *([0, 2] if period else [1, 2])]


@pytest.mark.usefixtures("root_key")
def test_a_job_releases_what_its_ledger_covers_and_raises_an_alarm_for_the_rest(
    runner: list[str], tmp_path: Path
) -> None:
    path = ledger_of(tmp_path, 2.0)
    put(tmp_path / "log", "001.parquet", ROWS)
    end(tmp_path / "log")
    found = []
    for epoch in (None, 1):  # the second is a restore, which computes all again
        assert run(tmp_path, runner, ledger=str(path), dataset="flights", epoch=epoch) == 0
        assert charges(path) == [1.0, 1.0], "once for both keys, and nothing for what was not released"
        released = {name.split("/")[0] for name in published(tmp_path)}
        assert {name for name in published(tmp_path) if name.endswith(".sketch")} == {
            f"{name}/{key}.sketch" for name in released for key in KEYS
        }
        alarms = sorted((tmp_path / "claims/flights.alarms").iterdir())
        assert len(released) == 2
        assert [alarm.name.split(" ", 1)[1] for alarm in alarms] == [f"{key}.refused.json" for key in KEYS]
        assert not {alarm.name.split(" ")[0] for alarm in alarms} & released
        assert json.loads(alarms[0].read_bytes())["held"] is None
        # claims are sealed with salts, so that two of the same rows do not show it
        found.append({name: data for name, data in published(tmp_path).items() if not name.endswith(VERSION_FILE)})
    assert found[0] == found[1]


@pytest.mark.usefixtures("root_key")
def test_a_job_with_a_period_is_charged_once_for_it(tmp_path: Path) -> None:
    path = ledger_of(tmp_path, 1.0)
    put(tmp_path / "log", "001.parquet", ROWS)
    end(tmp_path / "log")
    within = {"period": 3 * MINUTE, "max_windows": 2, "ledger": str(path), "dataset": "flights"}
    assert run(tmp_path, [], **within) == 0
    assert charges(path) == [1.0]
    assert len({name.split("/")[0] for name in published(tmp_path)}) == 3


@pytest.mark.parametrize(
    ("dataset", "unit", "message"),
    [
        ("others", "aircraft", "'others' is not in it"),
        ("flights", "tail", "the ledger for one tail, .* for one aircraft"),
    ],
)
@pytest.mark.usefixtures("root_key")
def test_a_ledger_that_would_refuse_every_window_fails_before_the_job_runs(
    dataset: str, unit: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ledger_of(tmp_path, 1.0)
    agreement = AGREEMENT.replace(neighbours=ss.L1(10, unit=unit))
    assert run(tmp_path, [], agreement=agreement, ledger=str(path), dataset=dataset) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "claims").exists(), "no epoch is claimed"


# --- schedules --------------------------------------------------------------------------------------------------

FOUR = {"kind": "tree", "horizon": 4, "depth": 2, "max_windows": 2, "gap": 1}


@pytest.mark.usefixtures("root_key")
def test_a_schedule_is_followed_under_one_charge_and_restored(runner: list[str], tmp_path: Path) -> None:
    path = ledger_of(tmp_path, 1.0)
    put(tmp_path / "log", "001.parquet", [*FIRST, *(("AA", "JFK-LAX", "N1", 70 + 60 * minute) for minute in range(3))])
    end(tmp_path / "log")
    budget: dict[str, Any] = {"ledger": str(path), "dataset": "flights", "schedule": FOUR, "last": at(3)}
    assert run(tmp_path, runner, **budget) == 0
    drawn = [1.0] + 4 * [0.0]  # one charge, and the entry of each row's draw, for all keys
    assert charges(path) == drawn
    found = {name: data for name, data in published(tmp_path).items() if not name.endswith(VERSION_FILE)}
    assert len(found) == 4 * len(KEYS) == sum(name.endswith(".sketch") for name in found)
    rows = [ss.load(tmp_path / "out/flights" / name) for name in sorted(found) if name.endswith("AA.sketch")]
    history = ss.continual.History(rows)
    assert history.guarantee.neighbours == ss.L1(10, unit="aircraft in at most 2 of 4 windows of 60 s")
    assert history.range(0, 4).guarantee.basis == "enforced"
    assert run(tmp_path, runner, folder=str(tmp_path / "restored"), epoch=1, **budget) == 0
    home = tmp_path / "restored/flights"
    assert {str(file.relative_to(home)): file.read_bytes() for file in home.rglob("*.sketch")} == found
    assert charges(path) == drawn, "the same rows are not entered again"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"comparisons": "cosine"}, "rows of a schedule are weighted sums"),
        ({"period": "2 min"}, "leave out period and max_windows"),
        ({"schedule": {**FOUR, "gap": 2}}, "does not keep a unit's windows apart, but the schedule has gap=2"),
        ({"last": at(5)}, "the schedule has 4 windows"),
    ],
)
def test_what_a_job_does_not_do_with_a_schedule_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        job_of(tmp_path, **{"schedule": FOUR} | changes)
