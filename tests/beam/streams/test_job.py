"""`pipelines.stream_distances` from end to end, on a folder that grows while the job runs."""

import json
import re
import time
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from pipelines.stream_distances import main
from pipelines.watching import Watch, sink_of
from tests.beam.streams.job import KEYS, Row, end, options, published, put, run
from tests.beam.streams.prism import BASE, MINUTE

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
    sketch = ss.SJLT(sketch_dim=64, sparsity=4, seed=2013).sketch()
    for carrier, route, _, at in FIRST + THEN:
        if carrier == key and at // MINUTE == minute and route != "late":
            sketch.update(route, 1)
    return [int(cell) for cell in sketch.state()]


@pytest.fixture(params=["FnApiRunner", "Prism"])
def runner(request: pytest.FixtureRequest) -> list[str]:
    if request.param == "Prism":
        found: list[str] = request.getfixturevalue("prism")
        return found
    return ["--runner=FnApiRunner"]


@pytest.mark.filterwarnings("ignore::streamsketch.errors.NoiseMismatchWarning")  # sums without noise
@pytest.mark.usefixtures("no_noise", "root_key")
def test_each_window_of_a_growing_folder_is_released_and_compared_once(runner: list[str], tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    assert run(tmp_path, runner, lambda: grow(tmp_path)) == 0
    windows = [time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime(BASE + MINUTE * minute)) for minute in range(3)]
    found = published(tmp_path)
    expected = {f"{window}/{key}.sketch" for window in windows for key in KEYS}
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
    (row,) = json.loads(found[f"{windows[0]}/pairs.json"])
    assert (row["first"], row["second"]) == tuple(KEYS)

    restored = run(tmp_path, runner, lambda: None, output=tmp_path / "restored", epoch=1)
    assert restored == 0
    again = {path.name: path.read_bytes() for path in (tmp_path / "restored/flights" / windows[0]).iterdir()}
    assert again == {name.split("/")[1]: content for name, content in found.items() if name.startswith(windows[0])}

    assert run(tmp_path, runner, lambda: None) == 0, "a new epoch, whose releases are refused"
    assert published(tmp_path) == found
    assert len(list((tmp_path / "claims").glob("flights.*.epoch"))) == 2


@pytest.mark.usefixtures("root_key")
def test_nothing_is_computed_from_a_release_that_was_refused(tmp_path: Path) -> None:
    """A comparison with it would publish it, and the window would have been released twice."""
    put(tmp_path / "log", "001.parquet", FIRST + THEN[:-1])
    end(tmp_path / "log")
    local, ends = ["--runner=FnApiRunner"], [f"{datetime.fromtimestamp(BASE + MINUTE * n, UTC)}" for n in (1, 2)]
    first = tmp_path / "out/flights"
    assert run(tmp_path, local, lambda: None, stop=ends[0]) == 0
    assert run(tmp_path, local, lambda: None, stop=ends[1]) == 0
    before, after = sorted(path.name for path in first.iterdir())
    assert {path.name for path in (first / after).iterdir()} == {"AA.sketch", "UA.sketch", "pairs.json"}
    assert {path.name for path in (first / before).iterdir()} == {"AA.sketch", "UA.sketch", "pairs.json"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"folder": None}, "comes from --folder, or from --servers, --topic, --expansion; .* is missing"),
        ({"folder": None, "servers": "a:1", "topic": "b"}, "--expansion is missing"),
        ({"topic": "b"}, "leave out --topic"),
        ({"format": "json"}, "--format is of Kafka's messages"),
    ],
)
def test_a_stream_has_one_source(
    changed: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(options(tmp_path, **changed))
    assert re.search(message, capsys.readouterr().err)


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
    agreement.save(tmp_path / "agreement.json")
    put(tmp_path / "log", "001.parquet", BOUGHT, AGREED)
    end(tmp_path / "log")
    said: dict[str, Any] = dict.fromkeys(["key", "index", "unit-column", "l1", "sketch-dim"])
    said |= {"agreement": tmp_path / "agreement.json", "public-keys": "7,8"}
    said |= {"stop": datetime.fromtimestamp(BASE + MINUTE, UTC).isoformat()}
    assert run(tmp_path, ["--runner=FnApiRunner"], lambda: None, **said) == 0
    (window,) = (tmp_path / "out/flights").iterdir()
    assert {path.name for path in window.iterdir()} == {"=7.sketch", "=8.sketch", "pairs.json"}
    watched = Watch(sink_of(str(tmp_path / "out"), None, "flights"), [7, 8], start=BASE, size=MINUTE, stale_after=60)
    watched.look()
    assert watched.seen is not None
    assert watched.seen.releases == 2
    for key, item, cents in ((7, "a", 125), (8, "b", 50)):
        release = ss.load(window / f"={key}.sketch")
        sketch = projection.sketch()
        sketch.update(item, Fraction(cents, 100))
        assert release.values.tolist() == sketch.state().tolist()
        assert release.agreement == agreement.fingerprint
        assert release.guarantee.neighbours == ss.L1(5, unit="sale" if unit is None else "sale in one window of 60 s")


def test_an_agreement_stands_beside_no_option_that_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(options(tmp_path, agreement=tmp_path / "agreement.json"))
    assert "leave out --key, --index, --unit-column, --l1, --sketch-dim" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(options(tmp_path, key=None))
    assert "required: --key, or --agreement" in capsys.readouterr().err
