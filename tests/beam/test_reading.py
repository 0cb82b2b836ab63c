"""Files as record batches."""

import datetime as dt
import gzip
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch import formats
from streamsketch.beam import ReadColumns, SketchPerKey, read_batches
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
    (folder / "text.data").write_text("hello")
    with pytest.raises(ss.InvalidInputError, match="is not a Parquet file"):
        list(read_batches([str(folder / "text.data")], COLUMNS))


def test_files_without_rows_have_no_rows(tmp_path: Path) -> None:
    pq.ParquetWriter(tmp_path / "none.parquet", TABLE.schema).close()  # no row group at all
    pq.write_table(TABLE[:0], tmp_path / "empty.parquet")
    (tmp_path / "empty.csv").write_text("key,index,value\n")
    (tmp_path / "empty.txt").write_text("")
    for name, columns in [("none.parquet", COLUMNS), ("empty.parquet", COLUMNS), ("empty.csv", COLUMNS)]:
        assert rows(list(read_batches([str(tmp_path / name)], columns))) == []
    assert list(read_batches([str(tmp_path / "empty.txt")], ["line"])) == []


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


AVRO_FIELDS = [
    {"name": "key", "type": "string"},
    {"name": "index", "type": ["null", "string"]},
    {"name": "value", "type": "double"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "paid", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "nested", "type": {"type": "array", "items": "int"}},
]
NOON = dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)


def write_avro(path: Path, codec: str = "null") -> None:
    records = [{**row, "at": NOON, "paid": Decimal("1.25"), "nested": [1]} for row in TABLE.select(COLUMNS).to_pylist()]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "sale", "fields": AVRO_FIELDS}, records, codec=codec)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_avro_records_are_columns(codec: str, tmp_path: Path) -> None:
    write_avro(tmp_path / "sales.avro", codec)
    found = list(read_batches([str(tmp_path / "sales.avro")], [*COLUMNS, "at", "paid"]))
    assert rows(found) == TABLE.select(COLUMNS).to_pylist()
    (batch,) = found
    assert batch.schema.field("paid").type == pa.decimal128(9, 2)
    assert batch.column("at").to_pylist() == [NOON] * 3
    piped, _ = run(lambda pipeline: pipeline | ReadColumns([str(tmp_path / "*.avro")], COLUMNS), tmp_path)
    assert rows(piped) == TABLE.select(COLUMNS).to_pylist()


def test_avro_mistakes_are_named(tmp_path: Path) -> None:
    write_avro(tmp_path / "sales.avro")
    with pytest.raises(ss.InvalidInputError, match="has no column price, only key, index"):
        list(read_batches([str(tmp_path / "sales.avro")], ["price"]))
    with pytest.raises(ss.InvalidInputError, match=r"the field 'nested' of .* is neither text"):
        list(read_batches([str(tmp_path / "sales.avro")], ["nested"]))
    whole = (tmp_path / "sales.avro").read_bytes()
    for place, broken in enumerate((b"", b"hello", whole[:-20], whole[:-1] + b"x")):
        (tmp_path / f"{place}.avro").write_bytes(broken)
        with pytest.raises(ss.InvalidInputError, match="is not a sound Avro file"):
            list(read_batches([str(tmp_path / f"{place}.avro")], COLUMNS))


@pytest.mark.parametrize("name", ["words.txt", "words.log", "words.txt.gz"])
def test_lines_are_columns(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_READ_BYTES", 5)
    text = "one\n\ntwo words\r\nßß\nno end".encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    table = pa.Table.from_batches(read_batches([str(path)], ["line", "file"]))
    assert table.column("line").to_pylist() == ["one", "", "two words", "ßß", "no end"]
    assert set(table.column("file").to_pylist()) == {str(path)}


def test_lines_are_sketched_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\ny\nx\n")
    projection = ss.SJLT(dim=ss.HASHED_DIM, sketch_dim=32, sparsity=4, seed=11)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        lines = pipeline | ReadColumns([str(tmp_path / "*.txt")], ["file", "line"])
        return lines | SketchPerKey(projection, key="file", index="line", value=None)

    expected = projection.sketch()
    expected.update(projection.indices_of(["x", "y", "x"]))
    assert run(build, tmp_path)[0] == [(str(tmp_path / "a.txt"), expected)]


def test_lines_that_are_no_text_are_refused_without_a_word_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"secret\n\xff\n")
    with pytest.raises(ss.InvalidInputError, match="has a line that is not UTF-8") as caught:
        list(read_batches([str(tmp_path / "a.txt")], ["line"]))
    assert "secret" not in str(caught.value)
    with pytest.raises(ss.InvalidInputError, match="has no column key, only file, line"):
        list(read_batches([str(tmp_path / "a.txt")], ["key"]))


@pytest.mark.parametrize("name", ["sales.jsonl", "sales.ndjson.gz"])
def test_lines_of_json_are_exact_columns(name: str, tmp_path: Path) -> None:
    lines = b'{"key": "a", "index": 7, "value": 0.29, "more": {}}\n\r\n{"value": -1e-2, "index": "x", "key": ""}'
    (tmp_path / name).write_bytes(gzip.compress(lines) if name.endswith("gz") else lines)
    assert rows(list(read_batches([str(tmp_path / name)], COLUMNS, text=["key", "index"]))) == [
        {"key": "a", "index": "7", "value": Decimal("0.29")},
        {"key": "", "index": "x", "value": Decimal("-0.01")},
    ]


@pytest.mark.parametrize(
    "line",
    [
        "secret",
        "[]",
        '{"value": 1}',
        '{"key": true, "value": 1}',
        '{"key": null, "value": 1}',
        '{"key": "\\ud800", "value": 1}',
        '{"key": "a", "value": "1"}',
        '{"key": "a", "value": 1e30}',
        '{"key": "a", "value": 1e-13}',
    ],
)
def test_lines_that_are_no_such_json_are_named_by_number_alone(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"key": "a", "value": 1}\n' + line + "\n")
    with pytest.raises(ss.InvalidInputError, match=r"line 2 of .*a\.jsonl is not a JSON object") as caught:
        list(read_batches([str(tmp_path / "a.jsonl")], ["key", "value"], text=["key"]))
    assert "secret" not in str(caught.value)
