"""Keys of other parties in CSV files, which spreadsheets open."""

import csv
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.core.text import spreadsheet_text
from streamsketch.jobs.results import write_results


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_formulas_in_keys_are_escaped_in_csv_and_kept_in_parquet(start: str, tmp_path: Path) -> None:
    formula = f'{start}HYPERLINK("http://x")'
    table = ss.SJLT(sketch_dim=16, sparsity=4, seed=1).table()
    table.update([formula, "plain"], ["a", "b"])
    write_results(table.release(epsilon=1.0, neighbours=ss.L1(1), keys_are_public=True), str(tmp_path))
    with (tmp_path / "distances.csv").open(newline="") as file:
        _, row = csv.reader(file)
    assert row[:2] == [f"'{formula}", "plain"]
    assert pq.read_table(tmp_path / "distances.parquet").column("first").to_pylist() == [formula]
    assert spreadsheet_text(formula) == f"'{formula}"
