"""Files as record batches."""

import gzip
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.beam import ReadColumns, read_batches
from tests.beam.running import run

TABLE = pa.table({"key": ["a", "b", "a"], "index": ["007", "8", "007"], "value": [1.5, 2.0, -3.0], "other": [0, 0, 0]})
CSV = "other,key,index,value\n0,a,007,1.5\n0,b,8,2.0\n0,a,007,-3.0\n"
COLUMNS = ["key", "index", "value"]


def rows(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.select(COLUMNS).to_pylist()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(TABLE, tmp_path / "one.parquet", row_group_size=1)
    pq.write_table(TABLE, tmp_path / "two.parquet")
    (tmp_path / "one.csv").write_text(CSV)
    (tmp_path / "two.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    return tmp_path


@pytest.mark.parametrize("name", ["one.parquet", "two.parquet", "one.csv", "two.csv.gz"])
def test_files_of_either_kind_give_the_same_rows(folder: Path, name: str) -> None:
    found = rows(list(read_batches([str(folder / name)], COLUMNS, text=["key", "index"])))
    assert found == TABLE.select(COLUMNS).to_pylist()


def test_a_pipeline_reads_what_the_iterator_reads(folder: Path) -> None:
    pattern = str(folder / "*.parquet")
    found, _ = run(lambda pipeline: pipeline | ReadColumns([pattern], COLUMNS), folder)
    expected = rows(list(read_batches([pattern], COLUMNS)))
    assert sorted(map(str, rows(found))) == sorted(map(str, expected))
    assert len(expected) == 6


def test_text_columns_of_parquet_come_as_dictionaries(folder: Path) -> None:
    (batch,) = read_batches([str(folder / "two.parquet")], COLUMNS)
    assert pa.types.is_dictionary(batch.schema.field("key").type)


def test_missing_files_and_columns_are_named(folder: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match="no file matches"):
        list(read_batches([str(folder / "three.parquet")], COLUMNS))
    with pytest.raises(ss.InvalidInputError, match="has no column price, only key, index, value, other"):
        list(read_batches([str(folder / "one.parquet")], ["price"]))
    with pytest.raises(ss.InvalidInputError, match="price"):
        list(read_batches([str(folder / "one.csv")], ["price"]))
    (folder / "text.txt").write_text("hello")
    with pytest.raises(ss.InvalidInputError, match="is not a Parquet file"):
        list(read_batches([str(folder / "text.txt")], COLUMNS))


def test_patterns_are_a_list() -> None:
    with pytest.raises(ss.InvalidInputError, match="a list"):
        ReadColumns("data.parquet", COLUMNS)


def test_decimals_of_csv_files_are_exact(tmp_path: Path) -> None:
    (tmp_path / "money.csv").write_text('key,index,value\na,"x\ny",0.29\n')
    (batch,) = read_batches([str(tmp_path / "money.csv")], COLUMNS, text=["key", "index"])
    assert ss.quantise(batch.column("value"), Fraction(1, 100)).tolist() == [29]
    assert batch.column("index").to_pylist() == ["x\ny"]


def test_numbers_of_csv_files_are_read_alike_however_late_their_decimals(tmp_path: Path) -> None:
    lines = ["key,index,value", *(f"a,{number},1" for number in range(200_000)), "a,b,2.5"]
    (tmp_path / "late.csv").write_text("\n".join(lines))
    batches = list(read_batches([str(tmp_path / "late.csv")], COLUMNS, text=["key", "index"]))
    assert sum(len(batch) for batch in batches) == 200_001
    assert batches[-1].column("value")[-1].as_py() == Decimal("2.5")


def test_errors_of_csv_files_do_not_quote_them(tmp_path: Path) -> None:
    (tmp_path / "broken.csv").write_text("key,index,value\na,b,secret\n")
    with pytest.raises(ss.InvalidInputError, match="cannot be read as CSV") as caught:
        list(read_batches([str(tmp_path / "broken.csv")], COLUMNS, text=["key", "index"]))
    assert "secret" not in str(caught.value)
