"""Files as record batches."""

import datetime as dt
import gzip
import io
import random
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.beam import ReadColumns, read_batches
from streamsketch.data.grid import quantise
from streamsketch.data.readers import formats, opening
from tests.beam.rows import sketch_rows
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
    with pytest.raises(ss.InvalidInputError, match="has no column price; the names of its other columns are not shown"):
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
    (batch,) = read_batches([str(tmp_path / "money.csv")], COLUMNS, text=["key", "index"], multiline=True)
    assert quantise(batch.column("value"), Fraction(1, 100)).tolist() == [29]
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
    {"name": "nested", "type": {"type": "array", "items": {"type": "array", "items": "int"}}},
]
NOON = dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)


def write_avro(path: Path, codec: str = "null") -> None:
    records = [
        {**row, "at": NOON, "paid": Decimal("1.25"), "nested": [[1]]} for row in TABLE.select(COLUMNS).to_pylist()
    ]
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
    with pytest.raises(ss.InvalidInputError, match="has no column price; the names of its other columns are not shown"):
        list(read_batches([str(tmp_path / "sales.avro")], ["price"]))
    with pytest.raises(ss.InvalidInputError, match=r"the field 'nested' of .* must be of one type: text"):
        list(read_batches([str(tmp_path / "sales.avro")], ["nested"]))
    whole = (tmp_path / "sales.avro").read_bytes()
    for place, broken in enumerate((b"", b"hello", whole[:-20], whole[:-1] + bytes([whole[-1] ^ 1]))):
        (tmp_path / f"{place}.avro").write_bytes(broken)
        with pytest.raises(ss.InvalidInputError, match="is not a valid Avro file"):
            list(read_batches([str(tmp_path / f"{place}.avro")], COLUMNS))


def avro_column(path: Path, kinds: list[object], values: list[object]) -> pa.ChunkedArray:
    """Return the last of some fields of the file; all have one value in each record."""
    fields = [{"name": f"field {place}", "type": kind} for place, kind in enumerate(kinds)]
    names = [str(field["name"]).replace(" ", "_") for field in fields]
    fields = [field | {"name": name} for field, name in zip(fields, names, strict=True)]
    with path.open("wb") as file:
        schema = {"type": "record", "name": "row", "namespace": "of.a.shop", "fields": fields}
        fastavro.writer(file, schema, [dict.fromkeys(names, value) for value in values])
    return pa.Table.from_batches(read_batches([str(path)], names)).column(names[-1])


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ({"type": "int", "logicalType": "date"}, [2**31 - 1, -(2**31)], pa.date32()),
        ({"type": "long", "logicalType": "timestamp-millis"}, [2**62, -(2**63)], pa.timestamp("ms", tz="UTC")),
        ({"type": "long", "logicalType": "timestamp-micros"}, [2**62, 0], pa.timestamp("us", tz="UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, [2**62, 0], pa.timestamp("ms")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, [-(2**62), 0], pa.timestamp("us")),
        ({"type": "int", "logicalType": "timestamp-millis"}, [7, 0], pa.int64()),  # which is none
    ],
    ids=str,
)
def test_times_that_python_cannot_hold_are_read(
    kind: object, values: list[object], expected: pa.DataType, tmp_path: Path
) -> None:
    found = avro_column(tmp_path / "times.avro", [["null", kind]], [*values, None])
    assert found.type == expected
    stored = found.cast(pa.int32() if expected == pa.date32() else pa.int64())
    assert stored.to_pylist() == [*values, None]


def test_uuids_and_types_that_are_named_again_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    word = "2f2d6c7e-3b1c-4f57-9d57-1d3f9e3b1c4f"
    assert avro_column(path, [{"type": "string", "logicalType": "uuid"}], [word, "none"]).to_pylist() == [word, "none"]
    enum = {"type": "enum", "name": "Size", "symbols": ["S", "M"]}
    assert avro_column(path, [enum, ["null", "Size"]], ["M", "S"]).to_pylist() == ["M", "S"]
    price = {"type": "fixed", "name": "Price", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 2}
    prices: list[object] = [Decimal("-1.25"), Decimal("99.99")]
    assert avro_column(path, [price, "Price"], prices).to_pylist() == prices


def test_avro_types_that_are_not_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    with pytest.raises(ss.InvalidInputError, match=r"'field_0' of .* holds times of day \(time-micros\)"):
        avro_column(path, [{"type": "long", "logicalType": "time-micros"}], [dt.time(1, 2)])
    with pytest.raises(ss.InvalidInputError, match="holds decimals of 50 digits; at most 38"):
        avro_column(path, [{"type": "bytes", "logicalType": "decimal", "precision": 50}], [Decimal(1)])
    with pytest.raises(ss.InvalidInputError, match=r"'field_0' of .* must be of one type: text"):
        avro_column(path, [["string", "long"]], [7])


def test_decimals_with_too_many_digits_are_not_rounded(tmp_path: Path) -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    with pytest.raises(ss.InvalidInputError, match="is not a valid Avro file"):
        avro_column(tmp_path / "a.avro", [decimal], [(123_456).to_bytes(3)])


PERSON = "Evelyn"
AVRO_OF_ALL_KINDS: list[tuple[object, object]] = [
    ("string", PERSON),
    (["null", "long"], 5),
    ("double", 0.5),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("1.25")),
    ({"type": "int", "logicalType": "date"}, 7),
    ({"type": "long", "logicalType": "timestamp-micros"}, 7),
    ({"type": "string", "logicalType": "uuid"}, PERSON),
    ({"type": "enum", "name": "E", "symbols": ["A", PERSON]}, PERSON),
    ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_broken_avro_files_are_refused_without_a_word_of_them(codec: str) -> None:
    names = [f"f{place}" for place in range(len(AVRO_OF_ALL_KINDS))]
    fields = [{"name": name, "type": kind} for name, (kind, _) in zip(names, AVRO_OF_ALL_KINDS, strict=True)]
    record = {name: value for name, (_, value) in zip(names, AVRO_OF_ALL_KINDS, strict=True)}
    whole = io.BytesIO()
    fastavro.writer(whole, {"type": "record", "name": "r", "fields": fields}, [record] * 5, codec=codec)
    chance = random.Random(7)  # noqa: S311 - no secret
    refused = []
    for _ in range(500):
        broken = bytearray(whole.getvalue())
        for _ in range(chance.choice([1, 1, 3])):
            place, length = chance.randrange(len(broken)), chance.choice([0, 1, 1, 1, 20])
            broken[place : place + length] = chance.randbytes(chance.choice([0, 1, 1, 1, 4]))
        try:
            list(formats.batches(io.BytesIO(broken), "broken.avro", 0, names, []))
        except ss.InvalidInputError as error:
            refused.append(str(error))
    assert len(refused) > 250
    assert not any(PERSON in message for message in refused)


def test_codecs_that_need_a_package_name_it(tmp_path: Path) -> None:
    write_avro(tmp_path / "sales.avro")
    whole = (tmp_path / "sales.avro").read_bytes()
    assert whole.count(b"\x08null") == 1
    (tmp_path / "sales.avro").write_bytes(whole.replace(b"\x08null", b"\x06lz4"))
    with pytest.raises(ss.InvalidInputError, match="or the package lz4 for its lz4 blocks is not installed"):
        list(read_batches([str(tmp_path / "sales.avro")], COLUMNS))


@pytest.mark.parametrize("name", ["words.txt", "words.log", "words.txt.gz"])
def test_lines_are_columns(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_READ_BYTES", 5)
    text = "one\n\ntwo words\r\nßß\nno end".encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    table = pa.Table.from_batches(read_batches([str(path)], ["line", "file"]))
    assert table.column("line").to_pylist() == ["one", "", "two words", "ßß", "no end"]
    assert set(table.column("file").to_pylist()) == {str(path)}


@pytest.mark.parametrize("block", [2, 5, 1 << 20])
@pytest.mark.parametrize("name", ["words.txt", "words.log.gz", "words.csv", "words.csv.gz"])
def test_a_byte_order_mark_is_no_text(name: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_READ_BYTES", block)
    text = b"\xef\xbb\xbfline\nfour\n"
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    table = pa.Table.from_batches(read_batches([str(tmp_path / name)], ["line"], text=["line"]))
    assert table.column("line").to_pylist() == (["four"] if "csv" in name else ["line", "four"])


@pytest.mark.parametrize("name", ["words.txt.gz", "words.csv.gz", "words.csv.bz2", "words.log.zst"])
@pytest.mark.parametrize("kept", [40, -3])
def test_compressed_files_that_are_cut_off_are_refused(name: str, kept: int, tmp_path: Path) -> None:
    text = b"line\n" + b"".join(b"%d\n" % number for number in range(100_000))
    codec = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}[name.rsplit(".", 1)[-1]]
    with pa.CompressedOutputStream(tmp_path / name, codec) as stream:
        stream.write(text)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:kept])
    with pytest.raises(ss.InvalidInputError, match="cut off"):
        list(read_batches([str(tmp_path / name)], ["line"], text=["line"]))


def test_errors_of_the_file_system_stay_what_they_are() -> None:
    class Unreachable(io.BytesIO):
        def read(self, _: int | None = -1) -> bytes:
            raise ConnectionResetError(104, "reset")

    for name in ("a.txt", "a.txt.gz", "a.csv", "a.avro"):
        with pytest.raises(ConnectionResetError):
            list(formats.batches(Unreachable(), name, 0, ["line"], []))


def test_lines_are_sketched_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\ny\nx\n")
    projection = ss.SJLT(sketch_dim=32, sparsity=4, seed=11)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        lines = pipeline | ReadColumns([str(tmp_path / "*.txt")], ["file", "line"])
        return lines | sketch_rows(projection, key="file", index="line", value=None)

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
