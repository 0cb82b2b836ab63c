"""``agree`` with an agreement as its sample adds to it, and ``explain`` says in what two agreements differ."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import streamsketch as ss
from tests.cli.running import Forks

PEOPLE = ["--index", "item:text", "--unit-column", "who:text", "--missing", "drop", "--set", "sketch-dim=64"]
SPENT = ["--epsilon", "1", "--delta", "1e-6"]


def test_terms_are_replaced_one_by_one(forks: Forks, tmp_path: Path) -> None:
    forks.succeeded("agree", *PEOPLE, *SPENT, "-o", "a.json", cwd=tmp_path)
    forks.succeeded("agree", "a.json", "--epsilon", "2", "-o", "b.json", cwd=tmp_path)
    forks.succeeded("agree", "a.json", "--delta", "1e-9", "-o", "c.json", cwd=tmp_path)
    terms = [ss.Agreement.load(tmp_path / f"{name}.json").terms for name in "bc"]
    assert terms == [ss.Terms(epsilon="2", delta="1e-6"), ss.Terms(epsilon="1", delta="1e-9")]


def test_windows_are_replaced_field_by_field(forks: Forks, tmp_path: Path) -> None:
    windows = ["--window", "month", "--time", "at"]
    keyed = ["--set", "windows=keys", "--first", "2025-01", "--set", "last=2025-06"]
    forks.succeeded("agree", *PEOPLE, *SPENT, *windows, *keyed, "-o", "a.json", cwd=tmp_path)
    for name, more in (("b", []), ("c", windows)):
        forks.succeeded("agree", "a.json", *more, "--set", "time-format=%d.%m.%Y", "-o", f"{name}.json", cwd=tmp_path)
        agreed = ss.Agreement.load(tmp_path / f"{name}.json").windows
        assert agreed is not None
        assert (agreed.are, agreed.first, agreed.last, agreed.format) == ("keys", "2025-01", "2025-06", "%d.%m.%Y")


def test_two_agreements_are_compared(forks: Forks, tmp_path: Path) -> None:
    forks.succeeded("agree", *PEOPLE, *SPENT, "--set", "seed=7", "-o", "a.json", cwd=tmp_path)
    forks.succeeded("agree", *PEOPLE, *SPENT, "--set", "seed=7", "--set", "text=NFC,fold", "-o", "b.json", cwd=tmp_path)
    forks.succeeded("agree", *PEOPLE, *SPENT, "--set", "seed=8", "-o", "c.json", cwd=tmp_path)
    said = forks.run("explain", "a.json", "b.json", "c.json", cwd=tmp_path).stderr
    assert "a.json and b.json: the agreements differ: text (NFC, collapse here, NFC, fold there)" in said
    assert "a.json and c.json: the sketches were made with different projections: seed (7 here, 8 there)" in said
    assert forks.run("explain", "a.json", "a.json", cwd=tmp_path).stderr == ""


def test_rows_are_no_table_of_releases(forks: Forks, tmp_path: Path) -> None:
    pq.write_table(pa.table({"Item": ["tea"], "private-column": ["x"]}), tmp_path / "rows.parquet")
    said = forks.refused("compare", "rows.parquet", cwd=tmp_path)
    assert "To release its rows: streamsketch release rows.parquet --agreement FILE" in said
    assert "private-column" not in said
    said = forks.refused("agree", "rows.parquet", "--index", "item", "-o", "a.json", cwd=tmp_path)
    assert "a column's name differs from item in case or in blanks" in said
