"""frequency: items from options and files, of one release or many, on the screen, as JSON and as files."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.storage import save_raw
from streamsketch.storage.sketches import RawSketch
from tests.cli.running import ENVIRONMENT, Forks

HASHED = ss.SJLT(sketch_dim=320, sparsity=5, seed=3)
SOLD = {"tea": 900, "jam, red": 300, "=1+1": 70, "salt": 5}
AGREED = ss.Agreement(HASHED, index=[("shop", "text"), ("week", "integer")], value="sold")


def release(factor: int = 1) -> ss.PrivateSketch:
    sketch = HASHED.sketch()
    sketch.update(list(SOLD), [factor * sold for sold in SOLD.values()])
    return sketch.release(epsilon=1.0, neighbours=ss.L1(3000, unit="shop"))


def visits() -> ss.Sketch:
    found = ss.sketch(pa.table({"shop": ["x", "y"], "week": [2, 10], "sold": [900, 400]}), AGREED)
    assert isinstance(found, ss.Sketch)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of releases, an agreement, and one dictionary in every format."""
    release().save(tmp_path / "one.sketch")
    ss.PrivateTable({"north": release(), "south": release(3)}).save(tmp_path / "both.parquet")
    visits().release(epsilon=1.0, neighbours=ss.L1(1000)).save(tmp_path / "visits.sketch")
    AGREED.save(tmp_path / "agreed.json")
    words = pa.table({"price": [1, 2, 3, 4], "word": list(SOLD)})
    pq.write_table(words, tmp_path / "words.pq")
    (tmp_path / "words.txt").write_text("\n".join(SOLD) + "\n\n")
    (tmp_path / "words.csv").write_text('word,price\ntea,1\n"jam, red",2\n=1+1,3\nsalt,4\n')
    (tmp_path / "words.jsonl").write_text("".join(json.dumps({"word": word}) + "\n" for word in SOLD))
    return tmp_path


def rows_of(found: pa.Table) -> list[dict[str, Any]]:
    return [
        {"item": row["item"], "estimate": row["estimate"], "standard_error": row["error"]}
        | {end: row[end] for end in ("low", "high")}
        for row in found.to_pylist()
    ]


def asked(forks: Forks, folder: Path, *arguments: object) -> Any:
    return json.loads(forks.run("frequency", *arguments, "--json", cwd=folder).stdout)


def test_items_of_an_option_are_estimated_as_by_the_library(folder: Path, forks: Forks) -> None:
    options = ["--items", 'tea, salt,"jam, red"', "--items", "milk", "--confidence", "0.9", "--set", "estimator=mean"]
    (found,) = asked(forks, folder, "one.sketch", *options)
    expected = ss.frequency(
        ss.load(folder / "one.sketch"), ["tea", "salt", "jam, red", "milk"], confidence=0.9, estimator="mean"
    )
    assert found == {"of": "one", "items": rows_of(expected), "confidence": 0.9}


@pytest.mark.parametrize("name", ["words.txt", "words.csv", "words.jsonl", "words.pq"])
def test_a_dictionary_may_be_of_any_format(name: str, folder: Path, forks: Forks) -> None:
    index = [] if name == "words.txt" else ["--set", "index=word"]
    found = asked(forks, folder, "both.parquet", "--dictionary", name, *index)
    table = ss.load(folder / "both.parquet")
    assert [(one["of"], one["items"]) for one in found] == [
        (key, rows_of(ss.frequency(table[key], list(SOLD)))) for key in ("north", "south")
    ]


def test_the_largest_come_with_what_the_dictionary_misses(folder: Path, forks: Forks) -> None:
    found = asked(forks, folder, "both.parquet", "--dictionary", "words.txt", "--top", "2", "--only", "s*")
    expected = ss.top(ss.load(folder / "both.parquet")["south"], list(SOLD), 2)
    assert [one["of"] for one in found] == ["south"]
    assert found[0]["items"] == rows_of(expected.table)
    assert found[0]["candidates"] == 4
    assert found[0]["missed"]["value"] == expected.missed.value
    assert found[0]["squared_norm"]["standard_error"] == expected.squared_norm.standard_error
    done = forks.run("frequency", "both.parquet", "--dictionary", "words.txt", "--top", "2", cwd=folder)
    assert done.stdout.count(" … ") == 4
    assert f"the 4 items of the dictionary miss {expected.missed} of the" in " ".join(done.stderr.split())


def test_a_table_fits_a_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch, forks: Forks) -> None:
    monkeypatch.setitem(ENVIRONMENT, "COLUMNS", "80")
    monkeypatch.setitem(ENVIRONMENT, "FORCE_COLOR", "1")
    for name, rows in (("one.sketch", 1), ("both.parquet", 2)):
        shown = forks.run("frequency", name, "--items", "tea", cwd=folder).stdout
        assert "95 % interval" in shown
        assert sum(" … " in line for line in shown.splitlines()) == rows, "none is folded"


def test_rows_are_written_to_files_and_formulas_do_not_run(folder: Path, forks: Forks) -> None:
    for name in ("all.parquet", "all.csv"):
        done = forks.run("frequency", "both.parquet", "--dictionary", "words.txt", "-o", name, cwd=folder)
        assert done.stderr.strip() == f"{name}: 8 estimates of 2 releases."
        assert "already exists" in forks.refused("frequency", "both.parquet", "--items", "tea", "-o", name, cwd=folder)
    written = pq.read_table(folder / "all.parquet")
    table = ss.load(folder / "both.parquet")
    assert written.to_pylist() == [
        {"key": key} | row for key in table for row in ss.frequency(table[key], list(SOLD)).to_pylist()
    ]
    with (folder / "all.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["item"].removeprefix("'") for row in read] == [*SOLD] * 2
    assert sum(row["item"] == "'=1+1" for row in read) == 2
    assert [float(row["estimate"]) for row in read] == written["estimate"].to_pylist()


def test_items_are_cast_by_the_agreement(folder: Path, forks: Forks) -> None:
    (folder / "visits.csv").write_text("week,shop\n2,x\n10,y\n")
    expected = ss.frequency(ss.load(folder / "visits.sketch"), (["x", "y"], [2, 10]), agreement=AGREED)
    numbers = [row["estimate"] for row in expected.to_pylist()]
    given = ["visits.sketch", "--agreement", "agreed.json"]
    for items in (["--items", "x,2", "--items", "y,10"], ["--dictionary", "visits.csv"]):
        (found,) = asked(forks, folder, *given, *items)
        assert [row["estimate"] for row in found["items"]] == numbers
        assert [row["item"] for row in found["items"]] == [["x", "2"], ["y", "10"]]
    forks.run("frequency", *given, "--dictionary", "visits.csv", "-o", "a.csv", cwd=folder)
    with (folder / "a.csv").open(newline="") as file:
        assert next(csv.reader(file))[:3] == ["key", "item.shop", "item.week"]
    for arguments, message in [
        (["visits.sketch", "--items", "x,2"], "give --agreement FILE"),
        ([*given, "--items", "x"], "an item has the parts shop, week, with commas between them"),
        ([*given, "--items", "x,2", "--set", "index=shop"], "where no agreement says it: leave it out"),
        ([*given, "--items", "x,soon"], "a value that is not of the agreed type integer"),
        (["one.sketch", "--agreement", "agreed.json", "--items", "x,2"], "agreement"),
    ]:
        assert message in forks.refused("frequency", *arguments, cwd=folder)


def test_without_an_agreement_indices_below_another_dim_are_integers(tmp_path: Path, forks: Forks) -> None:
    sketch = ss.CountSketch(dim=100, sketch_dim=64, seed=1).sketch()
    sketch.update([7], [50])
    sketch.release(epsilon=1.0, neighbours=ss.L1(1)).save(tmp_path / "a.sketch")
    (found,) = asked(forks, tmp_path, "a.sketch", "--items", "7,8")
    assert [row["item"] for row in found["items"]] == [7, 8]
    assert "a value that is not of the agreed type integer" in forks.refused(
        "frequency", "a.sketch", "--items", "tea", cwd=tmp_path
    )


def test_raw_sketches_are_asked_only_when_told(tmp_path: Path, forks: Forks) -> None:
    save_raw(RawSketch(visits()), tmp_path / "mine.raw-sketch")
    refused = forks.refused("frequency", "mine.raw-sketch", "--items", "x,2", cwd=tmp_path)
    assert "give --raw to read it all the same" in refused
    done = forks.run("frequency", "mine.raw-sketch", "--raw", "--items", "x,2", "--json", cwd=tmp_path)
    (found,) = json.loads(done.stdout)
    assert (found["secret"], found["items"][0]["estimate"]) == (True, 900.0)
    assert "what is printed here is as secret as they are" in done.stderr


def test_mistakes_are_sentences(folder: Path, forks: Forks) -> None:
    (folder / "many.txt").write_text("".join(f"word {number}\n" for number in range(10_001)))
    (folder / "none.txt").write_text("\n")
    for arguments, message in [
        (["--items", "tea", "--dictionary", "words.txt"], "name the items: --items tea,jam, or --dictionary FILE"),
        ([], "name the items"),
        (["--items", "tea", "--top", "0"], "--top must be at least 1, got 0"),
        (["--dictionary", "words.csv"], "words.csv has 2 columns that may hold the items"),
        (["--dictionary", "words.csv", "--set", "index=name"], "name"),
        (["--dictionary", "none.txt"], "there are no items"),
        (["--dictionary", "nowhere.csv", "--set", "index=word"], "nowhere.csv does not exist"),
        (["--dictionary", "words.txt", "--set", "index=a,b"], "the lines of words.txt are one column"),
        (["--dictionary", "many.txt"], "10,001 rows are too many for a screen"),
        (["--items", "tea", "-o", "a.txt"], "named *.parquet or *.csv"),
        (["--items", "tea", "--confidence", "95"], "confidence must lie in (0, 1), got 95.0"),
    ]:
        assert message in forks.refused("frequency", "one.sketch", *arguments, cwd=folder)


def test_frequencies_of_equal_votes_are_said_to_be_such(tmp_path: Path, forks: Forks) -> None:
    rows = pa.table({"item": ["tea", "tea", "jam"], "customer": ["Ann", "Bob", "Bob"]})
    agreed = ss.agree(rows, ss.CountSketch(sketch_dim=64, seed=7), index="item", unit="customer")
    agreed.save(tmp_path / "votes.json")
    release = ss.bound(rows, agreed).release(epsilon=1.0, delta=1e-6, neighbours=agreed.neighbours)
    release.save(tmp_path / "votes.sketch")
    done = forks.run("frequency", "votes.sketch", "--items", "tea", "--agreement", "votes.json", cwd=tmp_path)
    assert "Each customer counts the same, so frequencies are sums of votes" in " ".join(done.stderr.split())
