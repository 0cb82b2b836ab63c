"""One agreement of features gives the same sketches on every path, whatever rows hold."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to

import streamsketch as ss
from streamsketch.beam import BoundContributions, SketchPerKey
from streamsketch.features import Category, Embedding, Features, Number
from streamsketch.storage import load_raw
from tests.cli.running import Forks

COLUMNS: dict[str, Any] = {"age": Number(0, 110), "ward": Category(["A", "B"]), "code": Category(hashed=4)}
FEATURES = Features(COLUMNS, seed=7, joint=2)
ONE = ss.SketchL2(1, unit="patient", max_keys=1)
AGREEMENT = ss.Agreement(features=FEATURES, key="site", unit="patient", neighbours=ONE, clip="equal")
ROWS = pa.table(
    {
        "site": ["N", "S", "N", "S", "N"],
        "patient": ["Ann", "Bob", "Cid", "Dee", "Eve"],
        "age": [47.5, 110.0, None, -3.0, 18.25],
        "ward": ["A", None, "B", "C", "A"],
        "code": ["E11", "I10", None, "é", "E11"],
    }
)


def states(table: Any) -> dict[Any, list[int]]:
    return {key: sketch.state().tolist() for key, sketch in table.items()}


def expected(rows: pa.Table) -> dict[Any, list[int]]:
    """Return sums of the features of rows, each for itself."""
    cells = (FEATURES.transform(rows) * (1 << 15)).astype(int)
    sites = np.array(rows["site"])
    return {site: cells[sites == site].sum(axis=0).tolist() for site in ("N", "S")}


def forms(folder: Path) -> dict[str, Any]:
    pq.write_table(ROWS, folder / "rows.parquet")
    pa_csv.write_csv(ROWS, folder / "rows.csv")
    return {
        "Arrow": ROWS,
        "dictionaries": pa.table(
            {name: column.dictionary_encode() for name, column in zip(ROWS.column_names, ROWS, strict=True)}
        ),
        "batches": pa.Table.from_batches(ROWS.to_batches(max_chunksize=2)),
        "polars": pl.from_arrow(ROWS),
        "pandas": ROWS.to_pandas(),
        "DuckDB": duckdb.from_arrow(ROWS),
    }


def test_every_table_gives_the_sums_of_its_rows(tmp_path: Path) -> None:
    for name, rows in forms(tmp_path).items():
        assert states(ss.sketch(rows, AGREEMENT)) == expected(ROWS), name
        assert states(ss.bound(rows, AGREEMENT)) == expected(ROWS), name


def test_command_reads_features_from_files(tmp_path: Path, forks: Forks) -> None:
    forms(tmp_path)
    AGREEMENT.save(tmp_path / "agreement.json")
    for suffix in ("csv", "parquet"):
        raw = tmp_path / f"{suffix}.raw-sketch"
        rows = ["sketch", f"rows.{suffix}", "--agreement", "agreement.json"]
        forks.succeeded(*rows, "-o", raw.name, cwd=tmp_path)
        assert states(load_raw(raw).state) == expected(ROWS), suffix


def test_beam_sums_features() -> None:
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        batches = pipeline | beam.Create(ROWS.to_batches(max_chunksize=2))
        for name, read in (("sums", beam.Map(lambda batch: batch)), ("bounded", BoundContributions(AGREEMENT))):
            found = batches | name >> read | f"{name} by site" >> SketchPerKey(AGREEMENT)
            shown = found | f"{name} shown" >> beam.MapTuple(lambda key, sketch: (key, sketch.state().tolist()))
            assert_that(shown, equal_to(list(expected(ROWS).items())), label=name)


def test_people_of_several_rows_count_once() -> None:
    rows = pa.concat_tables([ROWS.slice(0, 1)] * 7 + [ROWS.slice(1)])
    found, once = states(ss.bound(rows, AGREEMENT)), expected(ROWS)
    assert all(np.abs(np.subtract(found[site], once[site])).max() <= 2 for site in once)  # of 2^15, by rounding
    assert states(ss.sketch(rows, AGREEMENT)) != once


def test_no_row_is_refused_for_its_features() -> None:
    rows = ROWS.slice(0, 2).set_column(2, "age", pa.array(["old", "1e999"]))
    assert states(ss.sketch(rows, AGREEMENT)) == expected(rows)
    assert states(ss.bound(rows, AGREEMENT)) == expected(rows)


def test_command_reads_embeddings_from_parquet(tmp_path: Path, forks: Forks) -> None:
    features = Features({"scan": Embedding(2, waves=2)}, seed=3)
    agreement = ss.Agreement(features=features)
    agreement.save(tmp_path / "agreement.json")
    scans = pa.table({"scan": [[1, 2.5], [0.5], None]})
    pq.write_table(scans, tmp_path / "rows.parquet")
    rows = ["sketch", "rows.parquet", "--agreement", "agreement.json", "-o", "out.raw-sketch"]
    forks.succeeded(*rows, cwd=tmp_path)
    assert load_raw(tmp_path / "out.raw-sketch").state == ss.sketch(scans, agreement)


LINES = b"""
{"patient": "Ann", "age": 47.5, "scan": [1, 2.5], "more": {}}
{"patient": "Bob", "age": null, "scan": [0.5]}
{"patient": "Cid", "age": [3], "scan": "[-1, 4e0]"}
{"patient": "Dee"}
{"patient": "Eve", "age": NaN, "scan": [1, "x"]}
{"patient": "Fay", "age": {"x": 1}, "scan": [[1, 2]]}
{"patient": "Guy", "age": -Infinity, "scan": [1, null]}
"""


@pytest.mark.parametrize("missing", ["refuse", "drop", "keep"])
def test_command_reads_whatever_features_hold_in_json_lines(missing: Any, tmp_path: Path, forks: Forks) -> None:
    features = Features({"age": Number(0, 110), "scan": Embedding(2, waves=2)}, seed=3)
    agreement = ss.Agreement(features=features, unit="patient", neighbours=ONE, clip="equal", missing=missing)
    agreement.save(tmp_path / "agreement.json")
    (tmp_path / "rows.jsonl").write_bytes(LINES)
    rows = ["sketch", "rows.jsonl", "--agreement", "agreement.json", "-o", "out.raw-sketch"]
    forks.succeeded(*rows, cwd=tmp_path)
    people = {
        "patient": ["Ann", "Bob", "Cid", "Dee", "Eve", "Fay", "Guy"],
        "age": [47.5, None, None, None, None, None, -np.inf],
        "scan": [[1, 2.5], [0.5], [-1, 4], None, None, None, [1, None]],
    }
    assert load_raw(tmp_path / "out.raw-sketch").state == ss.bound(pa.table(people), agreement)


@pytest.mark.parametrize("line", [b"[1]", b'{"patient": [1]}', b'{"age": 1}', b'{"patient": NaN}', b'{"patient": "A"'])
def test_other_columns_of_json_lines_are_refused_as_ever(line: bytes, tmp_path: Path, forks: Forks) -> None:
    AGREEMENT.replace(key=None).save(tmp_path / "agreement.json")
    (tmp_path / "rows.jsonl").write_bytes(line)
    rows = ["sketch", "rows.jsonl", "--agreement", "agreement.json", "-o", "out.raw-sketch"]
    assert "line 1 of rows.jsonl is not a JSON object" in forks.refused(*rows, cwd=tmp_path)


def test_agreement_returns_from_json() -> None:
    again = ss.Agreement.from_json(AGREEMENT.to_json())
    assert again == AGREEMENT
    assert again.projection == FEATURES.projection
    assert AGREEMENT.replace(title="x").features == FEATURES


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"index": "code"}, "features, or an index"),
        ({"value": "age"}, "features, or an index"),
        ({"key": "ward"}, "cannot be the key"),
        ({"unit": "code"}, "cannot be the key or the unit"),
        ({"projection": ss.SJLT(sketch_dim=8, sparsity=2, seed=1)}, "leave out projection"),
    ],
)
def test_agreements_of_features_take_no_index(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        AGREEMENT.replace(**fields)
