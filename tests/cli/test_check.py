"""``check`` says what to know of rows before a release; ``compare --set dictionary``, whether releases spell alike."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from tests.cli.running import Forks

ROWS = "customer,item\nAnn,tea\nAnn,Tea\nNULL,Cafe\u0301\nBob, jam\nBob,NA\n,tea\n" + "Cleo,tea\n" * 30


def agree(forks: Forks, folder: Path, *more: str) -> None:
    columns = ["--index", "item:text", "--unit-column", "customer:text", *more]
    forks.succeeded("agree", *columns, "--missing", "drop", "-o", "a.json", cwd=folder)


def findings(forks: Forks, folder: Path, *more: str) -> dict[tuple[str, str], int]:
    said = json.loads(forks.succeeded("check", "rows.csv", "--agreement", "a.json", "--json", *more, cwd=folder))
    return {(one["column"], one["kind"]): one["rows"] for one in said["findings"]}


def test_it_counts_what_is_odd_and_what_is_dropped(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "list.txt").write_text("tea\njam\n")
    agree(forks, tmp_path)
    assert findings(forks, tmp_path, "--set", "dictionary=list.txt") == {
        ("item", "not in NFC"): 1,
        ("item", "blanks"): 1,
        ("item", "looks missing"): 1,
        ("item", "several spellings"): 33,
        ("item", "not listed"): 3,
        ("customer", "looks missing"): 1,
        ("customer", "missing"): 1,
        ("customer", "rows of units"): 30,
    }
    shown = forks.run("check", "rows.csv", "--agreement", "a.json", cwd=tmp_path)
    assert "for the operator alone" in shown.stdout
    assert "these rows are dropped" in shown.stdout


def test_a_rule_that_folds_leaves_fewer_spellings(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    agree(forks, tmp_path, "--set", "text=NFC,trim,fold")
    assert ("item", "several spellings") not in findings(forks, tmp_path)


def test_swapped_columns_are_seen_by_a_public_list(forks: Forks, tmp_path: Path) -> None:
    lines = "".join(f"item {n % 4},c{n}\n" for n in range(99))
    (tmp_path / "rows.csv").write_text(f"customer,item\n{lines}")
    (tmp_path / "list.txt").write_text("item 0\nitem 1\nitem 2\nitem 3\n")
    agree(forks, tmp_path)
    found = findings(forks, tmp_path, "--set", "dictionary=list.txt")
    assert found["item", "swapped"] == 99
    assert found["customer", "swapped"] == 99


def test_rows_that_a_release_refuses_are_a_no(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("item\ntea\n\xa0\n")
    forks.succeeded("agree", "--index", "item:text", "-o", "a.json", cwd=tmp_path)
    done = forks.run("check", "rows.csv", "--agreement", "a.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "would be refused" in done.stderr
    (tmp_path / "good.csv").write_text("item\ntea\njam\n")
    good = forks.run("check", "good.csv", "--agreement", "a.json", cwd=tmp_path)
    assert (good.returncode, good.stdout, good.stderr) == (0, "", "Nothing to say of 2 rows.\n")
    (tmp_path / "none.csv").write_text("item\n")
    assert "no rows" in forks.refused("check", "none.csv", "--agreement", "a.json", cwd=tmp_path)
    (tmp_path / "latin.csv").write_bytes("item\nGröße\n".encode("cp1252"))
    assert "--set encoding=cp1252" in forks.refused("check", "latin.csv", "--agreement", "a.json", cwd=tmp_path)
    forks.succeeded("check", "latin.csv", "--agreement", "a.json", "--set", "encoding=cp1252", cwd=tmp_path)


@pytest.fixture
def spelt(tmp_path: Path) -> Path:
    names = [f"{colour} {thing}" for colour in ("green", "black", "white") for thing in ("tea", "rice", "bread")]
    agreement = ss.Agreement(ss.CountSketch(sketch_dim=512, seed=7), index="item", text=None)
    agreement.save(tmp_path / "a.json")
    (tmp_path / "names.txt").write_text("\n".join(names))
    for name, texts in {"north": names, "south": [text.upper() for text in names], "west": names}.items():
        sketch: Any = ss.sketch(pa.table({"item": texts * 500}), agreement)
        sketch.release(epsilon=5, neighbours=ss.L1(1, unit="row")).save(tmp_path / f"{name}.sketch")
    return tmp_path


def test_compare_says_who_spells_otherwise(spelt: Path, forks: Forks) -> None:
    files = ["north.sketch", "south.sketch", "west.sketch"]
    how: list[Any] = ["--set", "dictionary=names.txt", "--agreement", "a.json"]
    said = json.loads(forks.succeeded("compare", *files, *how, "--json", cwd=spelt))
    assert said["names"] == 9
    assert said["explained"]["north"]["share"] > 0.9
    assert said["explained"]["south"]["share"] < 0.1
    assert {(one["first"], one["second"], one["way"]) for one in said["otherwise"]} == {
        ("north", "south", "upper case"),
        ("west", "south", "upper case"),
    }
    shown = forks.run("compare", *files, *how, cwd=spelt)
    assert "warning: south seems to have upper case, and north has not" in shown.stderr
    alike = forks.run("compare", *files, *how, "--only", "north", "--only", "west", cwd=spelt)
    assert "No two streams look like" in alike.stderr


@pytest.mark.parametrize("more", [["--by", "cosine"], ["--top", "3"], ["--why", "names.txt"], ["--together"]])
def test_a_dictionary_excludes_other_questions(spelt: Path, forks: Forks, more: list[str]) -> None:
    how = ["--set", "dictionary=names.txt", "--agreement", "a.json"]
    assert "--set dictionary shows whether" in forks.refused(
        "compare", "north.sketch", "south.sketch", *how, *more, cwd=spelt
    )


def test_a_row_that_is_refused_is_counted_with_all_others(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("customer,item,sold\nAnn,tea,5 pcs\nBob,tea,2\nCleo,jam,many\n")
    agree(forks, tmp_path, "--value", "sold", "--epsilon", "1", "--delta", "1e-6")
    said = forks.refused("release", "rows.csv", "--agreement", "a.json", "-o", "a.sketch", cwd=tmp_path)
    assert "in row 2 a text that is not a plain decimal number" in said
    assert "leave it out; `streamsketch check FILE --agreement FILE` counts all such rows" in said
    done = forks.run("check", "rows.csv", "--agreement", "a.json", "--json", cwd=tmp_path)
    checked = json.loads(done.stdout)
    assert (done.returncode, checked["refused"]) == (1, True)
    assert [one["rows"] for one in checked["findings"] if one["kind"] == "malformed"] == [2]
    assert "--missing drop" not in done.stderr, "it is agreed on, and mends nothing"


def test_times_of_windows_are_looked_at(forks: Forks, tmp_path: Path) -> None:
    lines = ["customer,item,at", "Ann,tea,2025-01-01", "Bob,tea,", "Cleo,jam,2025-02-01", "Dan,jam,2025-02-02"]
    (tmp_path / "good.csv").write_text("\n".join(lines))
    (tmp_path / "bad.csv").write_text("\n".join([*lines, "Eve,jam,31.01.2025", "Fay,jam,01.02.2025"]))
    windows = ["--window", "month", "--time", "at", "--first", "2025-01", "--set", "last=2025-02"]
    agree(forks, tmp_path, "--epsilon", "1", "--delta", "1e-6", *windows, "--set", "windows=keys")
    for name, status, kinds in (("good", 0, {"missing": 1}), ("bad", 1, {"missing": 1, "malformed": 2})):
        done = forks.run("check", f"{name}.csv", "--agreement", "a.json", "--json", cwd=tmp_path)
        found = {one["kind"]: one["rows"] for one in json.loads(done.stdout)["findings"] if one["kind"] in kinds}
        assert (done.returncode, found) == (status, kinds)
    forks.succeeded("release", "good.csv", "--agreement", "a.json", "-o", "good.parquet", cwd=tmp_path)
    said = forks.refused("release", "bad.csv", "--agreement", "a.json", "-o", "bad.parquet", cwd=tmp_path)
    assert "in row 6 a text that is not a time in ISO 8601" in said
    assert "state the format of times (agree --set time-format); `streamsketch check" in said
