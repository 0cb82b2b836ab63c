"""Keys of other parties in CSV files, which spreadsheets open."""

import csv
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.jobs.results import spreadsheet_text, write_comparisons


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_formulas_in_keys_are_escaped_in_csv_and_kept_in_parquet(start: str, tmp_path: Path) -> None:
    formula = f'{start}HYPERLINK("http://x")'
    write_comparisons([((formula, "plain"), ss.Estimate(1.0, 1.0, 0.0))], str(tmp_path), "a guarantee", "distance")
    with (tmp_path / "distances.csv").open(newline="") as file:
        _, row = csv.reader(file)
    assert row[:2] == [f"'{formula}", "plain"]
    assert pq.read_table(tmp_path / "distances.parquet").column("first").to_pylist() == [formula]
    assert spreadsheet_text(formula) == f"'{formula}"
