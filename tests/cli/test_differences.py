"""compare --why and --together: what separates two streams, as a table, as JSON and as a picture."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.storage import save_raw
from streamsketch.storage.sketches import RawSketch
from tests.cli.running import ENVIRONMENT, Forks
from tests.counted import AGREEMENT, shops

HASHED = ss.SJLT(sketch_dim=320, sparsity=5, seed=3)
SOLD = {
    "north": {"tea": 900, "jam": 300, "salt": 5},
    "south": {"tea": 850, "jam": 320, "salt": 5},
    "east": {"tea": 100, "jam": 4000, "<b>": 70},
}
WORDS = pa.table({"kind": ["drink", "food", "food", "food"], "word": ["tea", "jam", "salt", "<b>"]})
AGREED = ss.Agreement(HASHED, index=[("shop", "text"), ("week", "integer")], value="sold")


def stream(name: str) -> ss.Sketch:
    sketch = HASHED.sketch()
    sketch.update(list(SOLD[name]), list(SOLD[name].values()))
    return sketch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of releases, with the same noise each time, and of one dictionary in every format."""
    publish = ss.AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="sale")).calibrated(HASHED)
    bits = KeyedBits(bytes(32), b"differences")
    found = {name: publish.for_data(stream(name)).draw(bits) for name in SOLD}
    ss.PrivateTable(found).save(tmp_path / "all.parquet")
    for name, release in found.items():
        release.save(tmp_path / f"{name}.sketch")
    pq.write_table(WORDS, tmp_path / "words.parquet")
    rows = WORDS.to_pylist()
    (tmp_path / "words.csv").write_text("kind,word\n" + "".join(f"{row['kind']},{row['word']}\n" for row in rows))
    (tmp_path / "words.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "words.txt").write_text("\n".join(WORDS["word"].to_pylist()) + "\n")
    return tmp_path


def asked(forks: Forks, folder: Path, *arguments: object) -> Any:
    return json.loads(forks.run("compare", *arguments, "--json", cwd=folder).stdout)


def rows_of(found: ss.estimation.Differences) -> list[dict[str, Any]]:
    return [
        {"item": row["item"], "estimate": row["estimate"], "standard_error": row["error"]}
        | {"low": row["low"], "high": row["high"], "separated": row["low"] > 0 or row["high"] < 0}
        for row in found.table.to_pylist()
    ]


@pytest.mark.parametrize("name", ["words.txt", "words.csv", "words.jsonl", "words.parquet"])
def test_two_streams_are_told_apart_as_by_the_library(name: str, folder: Path, forks: Forks) -> None:
    index = [] if name == "words.txt" else ["--set", "index=word"]
    options = ["--why", name, *index, "--top", "3", "--confidence", "0.9"]
    found = asked(forks, folder, "north.sketch", "east.sketch", *options)
    x, y = (ss.load(folder / f"{one}.sketch") for one in ("north", "east"))
    expected = ss.top_differences(x, y, WORDS["word"], 3, confidence=0.9)
    assert found == {
        "first": "north",
        "second": "east",
        "by": "distance",
        "items": rows_of(expected),
        "confidence": 0.9,
        "candidates": 4,
        "separated": expected.n_separated,
    }
    assert [row["item"] for row in found["items"]][:2] == ["jam", "tea"]


def test_categories_are_a_column_of_the_dictionary(folder: Path, forks: Forks) -> None:
    x, y = (ss.load(folder / f"{one}.sketch") for one in ("north", "east"))
    expected = ss.top_differences(x, y, WORDS["word"], category=WORDS["kind"])
    for name in ("words.csv", "words.jsonl"):
        options = ["--why", name, "--set", "index=word", "--set", "category=kind"]
        assert asked(forks, folder, "north.sketch", "east.sketch", *options)["items"] == rows_of(expected)
    done = forks.run("compare", "north.sketch", "east.sketch", *options, cwd=folder)
    assert "kind" in done.stdout
    assert "2 of 2 categories are separated" in done.stderr


def test_where_nothing_is_separated_the_narrowest_interval_is_printed(folder: Path, forks: Forks) -> None:
    """As where noise hides everything: a reader learns how large a difference may still be."""
    x, y = (ss.load(folder / f"{name}.sketch") for name in ("north", "east"))
    (folder / "rare.csv").write_text("word\nnobody buys this\nnor this\n")
    rows = ss.top_differences(x, y, ["nobody buys this", "nor this"], confidence=0.99999).table.to_pylist()
    narrowest = min(max(row["high"], -row["low"]) for row in rows)
    options = ["--why", "rare.csv", "--set", "index=word", "--confidence", "0.99999"]
    done = forks.run("compare", "north.sketch", "east.sketch", *options, cwd=folder)
    said = " ".join(done.stderr.split())
    assert "0 of 2 items are separated" in said
    reach = re.search(r"The narrowest of these intervals reaches ([\d,.]+), so", said)
    assert reach is not None
    assert float(reach[1].replace(",", "")) == pytest.approx(narrowest, rel=0.05)


def test_of_many_streams_the_pair_farthest_apart_is_shown_or_the_one_that_is_named(folder: Path, forks: Forks) -> None:
    table = ss.load(folder / "all.parquet")
    squares = {pair: ss.squared_distance(table[pair[0]], table[pair[1]]).value for pair in ALL}
    options = ["all.parquet", "--why", "words.txt"]
    done = forks.run("compare", *options, cwd=folder)
    farthest = max(squares, key=lambda pair: squares[pair])
    assert f"{farthest[0]} – {farthest[1]}: differences of sums" in done.stdout
    assert "Of 3 pairs this is the one farthest apart; --only names another." in done.stderr
    named = asked(forks, folder, *options, "--only", "north", "--only", "south")
    assert {named["first"], named["second"]} == {"north", "south"}


ALL = [("north", "south"), ("east", "north"), ("east", "south")]


def test_the_table_says_who_has_more_and_fits_a_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, forks: Forks
) -> None:
    monkeypatch.setitem(ENVIRONMENT, "COLUMNS", "80")
    monkeypatch.setitem(ENVIRONMENT, "FORCE_COLOR", "1")
    shown = forks.run("compare", "north.sketch", "east.sketch", "--why", "words.txt", cwd=folder).stdout
    lines = [line for line in shown.splitlines() if " … " in line]
    assert len(lines) == 4, "none is folded"
    more = {line.split()[0]: line.split()[-1] for line in lines}
    assert more == {"jam": "east", "tea": "north", "<b>": more["<b>"], "salt": "either"}


def test_a_picture_has_a_bar_for_each_row_and_runs_nothing(folder: Path, forks: Forks) -> None:
    forks.run("compare", "north.sketch", "east.sketch", "--why", "words.txt", "--set", "picture=a.svg", cwd=folder)
    text = (folder / "a.svg").read_text()
    root = ET.fromstring(text)  # noqa: S314 - our own picture
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    kinds = [one.get("class") for one in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert kinds.count("first") + kinds.count("second") + kinds.count("neither") == 3 + 4, "a key, and the bars"
    said = "".join(root.itertext())
    assert "more in north" in said
    assert "<b>" in said
    assert "<b>" not in text
    assert "script" not in text
    options = ["--why", "words.txt", "--set", "picture=a.svg"]
    assert "already exists" in forks.refused("compare", "north.sketch", "east.sketch", *options, cwd=folder)


def test_averages_differ_where_units_were_counted(tmp_path: Path, forks: Forks) -> None:
    found = shops()
    ss.PrivateTable(found).save(tmp_path / "shops.parquet")
    AGREEMENT.save(tmp_path / "agreed.json")
    (tmp_path / "items.csv").write_text("item\n1\n2\n3\n4\n")
    options = ["shops.parquet", "--by", "mean", "--why", "items.csv", "--agreement", "agreed.json"]
    named = ["--only", "north", "--only", "east"]
    rows = asked(forks, tmp_path, *options, *named)
    expected = ss.top_differences(found["east"], found["north"], [1, 2, 3, 4], by="mean", agreement=AGREEMENT)
    assert [row["estimate"] for row in rows["items"]] == expected.table["estimate"].to_pylist()
    assert rows["by"] == "mean"
    assert "differences of averages" in forks.run("compare", *options, cwd=tmp_path).stdout, "of pairs that have one"
    assert "give --agreement FILE" in forks.refused("compare", *options[:5], *named, cwd=tmp_path)
    assert "kiosk" in forks.refused("compare", *options, "--only", "north", "--only", "kiosk", cwd=tmp_path)


def test_one_s_own_sketch_is_told_apart_in_secret(folder: Path, forks: Forks) -> None:
    save_raw(RawSketch(stream("south")), folder / "mine.raw-sketch")
    arguments = ["north.sketch", "mine.raw-sketch", "--why", "words.txt"]
    assert "give --raw" in forks.refused("compare", *arguments, cwd=folder)
    done = forks.run("compare", *arguments, "--raw", "--json", cwd=folder)
    assert json.loads(done.stdout)["secret"] is True
    assert "as secret as they are" in done.stderr


def test_mistakes_are_sentences(folder: Path, forks: Forks) -> None:
    for arguments, message in [
        (["--why", "words.csv"], "words.csv has 2 columns that may hold the items"),
        (["--why", "words.txt", "--set", "category=kind"], "the lines of words.txt are items, and have no column kind"),
        (["--why", "words.csv", "--set", "index=word", "--set", "category=word"], "cannot be their category"),
        (["--why", "words.csv", "--set", "index=word", "--set", "category=colour"], "colour"),
        (["--why", "nowhere.csv", "--set", "index=word"], "nowhere.csv does not exist"),
        (["--why", "words.txt", "--by", "cosine"], "streams do not differ in items by cosine"),
        (["--why", "words.txt", "--by", "mean"], "number of units"),
        (["--why", "words.txt", "--top", "0"], "--top must be at least 1, got 0"),
        (["--why", "words.txt", "--set", "picture=a.png"], "named *.svg"),
        (["--why", "words.txt", "--together"], "leave out --together"),
        (["--set", "category=kind"], "--set category is for what separates two streams: give --why DICTIONARY"),
        (["--set", "picture=a.svg"], "--set picture is for what separates two streams"),
        (["--set", "index=word"], "--set index is for what separates two streams"),
        (["--agreement", "a.json"], "a.json does not exist"),
    ]:
        assert message in forks.refused("compare", "north.sketch", "east.sketch", *arguments, cwd=folder)


def test_published_signs_do_not_say_what_differs(tmp_path: Path, forks: Forks) -> None:
    projection = ss.projections.OPORP(dim=256, sketch_dim=64, seed=3)
    for name in ("a", "b"):
        sketch = projection.sketch()
        sketch.update([1, 2], [500, 700])
        publisher = ss.signs.DPSignOPORPRR(epsilon=2.0, neighbours=ss.OneCoordinate(1))
        publisher.release(sketch).save(tmp_path / f"{name}.signs")
    (tmp_path / "items.txt").write_text("1\n")
    refused = forks.refused("compare", "a.signs", "b.signs", "--why", "items.txt", cwd=tmp_path)
    assert "published signs do not show in which items" in refused


# --- intervals of all pairs at once -----------------------------------------------------------------------------------


def test_intervals_of_all_pairs_hold_together_whichever_are_shown(folder: Path, forks: Forks) -> None:
    table = ss.load(folder / "all.parquet")
    everything = ss.pairwise(table.values())
    low, high = everything.interval(0.9, level="all")
    first, second = np.triu_indices(3, 1)
    options = ["all.parquet", "--by", "distance", "--together", "--confidence", "0.9"]
    rows = asked(forks, folder, *options)
    assert sorted(row["low"] for row in rows) == pytest.approx(sorted(low[first, second]))
    assert sorted(row["high"] for row in rows) == pytest.approx(sorted(high[first, second]))
    assert {row["candidates"] for row in rows} == {3}
    assert asked(forks, folder, *options, "--top", "1") == rows[:1], "also if fewer are shown"
    shown = forks.run("compare", *options, cwd=folder).stdout
    assert "90 % interval" in shown
    assert "cosine" not in shown
