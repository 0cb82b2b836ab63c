"""Counts of units by the command: agreed on, kept in raw files and sums of them, and published."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.storage import load_raw
from tests.cli.running import Forks

PEOPLE = {"north": {"jan": 40, "feb": 30}, "south": {"jan": 20, "feb": 0}}
"""How many people bought, in each file and month."""
RELEASE = ["--epsilon", 1000, "--delta", 1e-6, "--public-key", "jan", "--public-key", "feb", "--public-key", "mar"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Path:
    tmp_path = tmp_path_factory.mktemp("counts")
    for place, months in PEOPLE.items():
        rows = [f"{month},{item},{place}{one}" for month, n in months.items() for one in range(n) for item in (1, 7)]
        (tmp_path / f"{place}.csv").write_text("\n".join(["month,item,customer", *rows, ""]))
    columns = ["--index", "item", "--key", "month", "--unit-column", "customer", "--max-keys", 2]
    forks.succeeded("agree", "-o", "all.json", *columns, "--set", "seed=7", cwd=tmp_path)
    for place in PEOPLE:
        sketch = ["sketch", f"{place}.csv", "--agreement", "all.json", "-o", f"{place}.raw-sketch"]
        forks.succeeded(*sketch, cwd=tmp_path)
    return tmp_path


def test_what_was_agreed_on_is_counted_and_published(folder: Path, forks: Forks) -> None:
    agreement = ss.Agreement.load(folder / "all.json")
    assert agreement.counting is not None
    assert "a count of units" in forks.succeeded("release", "north.raw-sketch", "-o", "n.parquet", *RELEASE, cwd=folder)
    table = ss.PrivateTable.from_bytes((folder / "n.parquet").read_bytes())
    for key, count in {**PEOPLE["north"], "mar": 0}.items():
        assert table[key].layout.counting == agreement.counting
        assert abs(table[key].units.value - count) < 6 * table[key].units.standard_error < 3
        assert table[key].clip == "equal"
    shown = pq.read_table(folder / "n.parquet")
    assert shown.column_names[-2:] == ["units", "units_error"]
    assert shown["units"].to_pylist() == [one.units.value for one in table.values()]
    assert "the number of customers: ± 0." in forks.succeeded("explain", "n.parquet", cwd=folder)
    (past,) = load_raw(folder / "north.raw-sketch").releases
    assert past.guarantee.mechanism.layout.counting == agreement.counting
    rows = json.loads(forks.succeeded("explain", "n.parquet", "--json", cwd=folder))["files"][0]["releases"]
    assert [row["units"]["value"] for row in rows] == [table[row["key"]].units.value for row in rows]
    assert str(table["jan"].units) in forks.succeeded("explain", "n.parquet", cwd=folder)
    forks.succeeded("report", "n.parquet", "-o", "n.html", cwd=folder)
    assert "Numbers of customers" in (folder / "n.html").read_text()


@pytest.mark.parametrize("disjoint", [True, False])
def test_sums_of_raw_files_count_people_who_are_in_one_of_them(
    disjoint: bool,  # noqa: FBT001 - a case
    folder: Path,
    forks: Forks,
) -> None:
    parts = ["north.raw-sketch", "south.raw-sketch"]
    name = f"both-{disjoint}"
    merge = ["merge", *parts, "-o", f"{name}.raw-sketch", *["--populations=disjoint"][: int(disjoint)]]
    said = forks.run(*merge, cwd=folder).stderr
    assert ("now: one customer of at most 2 in at most 4 keys together" in said) is not disjoint
    forks.succeeded("release", f"{name}.raw-sketch", "-o", f"{name}.parquet", *RELEASE, "--again", cwd=folder)
    table = ss.PrivateTable.from_bytes((folder / f"{name}.parquet").read_bytes())
    if not disjoint:
        assert [one.counts for one in table.values()] == [None] * 3
        assert [one.clip for one in table.values()] == [None] * 3
        return
    for key, count in {"jan": 60, "feb": 30, "mar": 0}.items():
        assert abs(table[key].units.value - count) < 6 * table[key].units.standard_error < 3


def test_rows_that_were_not_clipped_are_not_counted(folder: Path, forks: Forks) -> None:
    sketch = ["sketch", "north.csv", "--agreement", "all.json", "-o", "plain.raw-sketch", "--assert-bounds"]
    forks.succeeded(*sketch, cwd=folder)
    forks.succeeded("release", "plain.raw-sketch", "-o", "plain.parquet", *RELEASE, "--assert-bounds", cwd=folder)
    table = ss.PrivateTable.from_bytes((folder / "plain.parquet").read_bytes())
    assert [one.counts for one in table.values()] == [None] * 3
