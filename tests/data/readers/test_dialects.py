"""CSV in other encodings, and with decimal commas: read as stated, with the same rows; else the cause is named."""

import gzip
import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.beam import read_batches
from streamsketch.data.readers.streams import Transcoded
from streamsketch.intake import BadLines, RowReader

ROWS = [("Łódź", "3,25"), ('Zürich; "alt"', "-0,5"), ("a\r\nb", "7"), ("z" * 70, ",125")] * 3
PROJECTION = ss.CountSketch(sketch_dim=256, seed=5, resolution="1/1000")
AGREEMENTS = {
    "of": ss.Agreement.of(PROJECTION, index="town", value="rate"),
    "agreed": ss.Agreement(PROJECTION, index={"town": "text", "rate": "decimal(3)"}, missing="drop"),
    "dropping": ss.Agreement(PROJECTION, index={"town": "text"}, value="rate", missing="drop"),
}


def text_of(rows: list[tuple[str, str]]) -> str:
    return "".join(f'"{town.replace(chr(34), chr(34) * 2)}";"{rate}"\r\n' for town, rate in [("town", "rate"), *rows])


def expected(agreement: ss.Agreement, rows: list[tuple[str, str]]) -> ss.Sketch:
    found = ss.Sketch(agreement)
    rates = pa.array([rate.replace(",", ".") for _, rate in rows]).cast(pa.decimal128(20, 6))
    found.update_rows(pa.table({"town": [town for town, _ in rows], "rate": rates}))
    return found


READERS = list(itertools.product(AGREEMENTS, ["rates.csv", "rates.csv.gz"], ["file", "lenient", "beam"]))


@pytest.mark.parametrize(
    ("agreement", "name", "how", "encoding"),
    [
        pytest.param(*reader, encoding, marks=[pytest.mark.long] * ((place + turn) % 4 > 0))
        for place, reader in enumerate(READERS)
        for turn, encoding in enumerate(["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "iso8859-2", "cp1250"])
    ],
)
def test_rows_are_those_of_utf8_and_points(agreement: str, encoding: str, name: str, how: str, tmp_path: Path) -> None:
    agreed = AGREEMENTS[agreement]
    data = text_of(ROWS).encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    found, written = ss.Sketch(agreed), {"delimiter": ";", "encoding": encoding, "decimal": ","}
    if how == "beam":
        for batch in read_batches([str(tmp_path / name)], agreed, **written):
            found.update_rows(batch)
    else:
        with BadLines("stop" if how == "file" else "skip") as bad:
            reader = RowReader(agreed, bad=bad, block_bytes=17, **written)  # borders lie within characters
            reader.read(tmp_path / name, lambda batch, _: found.update_rows(batch))
        assert not bad.count
    assert found == expected(agreed, ROWS)


def test_streams_are_transcoded_across_blocks() -> None:
    reader = RowReader(AGREEMENTS["of"], delimiter=";", encoding="utf-16", decimal=",")
    data = text_of(ROWS).encode("utf-16")
    found, lines = ss.Sketch(reader.agreement), reader.lines("standard input", "csv", is_whole=True)
    blocks = [*(data[start : start + 7] for start in range(0, len(data), 7)), None, b""]
    for piece in lines.pieces(reader.transcoded(iter(blocks), "standard input")):
        lines.read(piece, lambda batch, _: found.update_rows(batch))
    assert found == expected(reader.agreement, ROWS)


def number(value: str, decimal: str, mark: str) -> str:
    """Return a number as its writer groups it."""
    whole, _, places = value.partition(".")
    sign, digits = whole[:1].strip("0123456789"), whole.lstrip("-")
    groups = [digits[max(end - 3, 0) : end] for end in range(len(digits), 0, -3)][::-1]
    return sign + mark.join(groups) + (decimal + places if places else "")


VALUES = ["1234.5", "-1234567.25", "12", "999.125", "-100000", "0.5", "1000"]
WRITTEN = [
    (",", "."),
    (".", ","),
    (",", " "),
    (",", "\u202f"),
    (".", "\u00a0"),
    (".", "\u2019"),
    (",", "'"),
    (".", "_"),
]


def read_by(how: str, path: Path, agreed: Any, **written: Any) -> ss.Sketch:
    found = ss.Sketch(agreed)
    if how == "beam":
        for batch in read_batches([str(path)], agreed, **written):
            found.update_rows(batch)
        return found
    with BadLines("stop" if how == "file" else "skip") as bad:
        reader = RowReader(agreed, bad=bad, block_bytes=17, **written)
        reader.read(path, lambda batch, _: found.update_rows(batch))
    assert not bad.count
    return found


@pytest.mark.parametrize(
    ("decimal", "mark", "how"),
    [
        pytest.param(*written, how, marks=[pytest.mark.long] * (how == others))
        for written, others in zip(WRITTEN, itertools.cycle(["lenient", "beam"]))
        for how in ("file", "lenient", "beam")
    ],
)
def test_thousands_are_those_of_plain_numbers(decimal: str, mark: str, how: str, tmp_path: Path) -> None:
    thousands = {"\u202f": " ", "\u00a0": "\u00a0", "\u2019": "'"}.get(mark, mark)
    for (name, agreed), quote, delimiter in itertools.product(AGREEMENTS.items(), ['"', ""], [";", ","]):
        if not quote and delimiter in (decimal, mark):
            continue
        cells = [number(value, decimal, mark) for value in VALUES] + [VALUES[0].replace(".", decimal)]  # without marks
        rows = [f"t{place % 3}{delimiter}{quote}{cell}{quote}" for place, cell in enumerate(cells)]
        path = tmp_path / f"{name}{len(quote)}{ord(delimiter)}.csv"
        path.write_text("\n".join([f"town{delimiter}rate", *rows]) + "\n", encoding="utf-8")
        written = {"delimiter": delimiter, "decimal": decimal, "thousands": thousands}
        plain = [(f"t{place % 3}", value) for place, value in enumerate([*VALUES, VALUES[0]])]
        assert read_by(how, path, agreed, **written) == expected(agreed, plain), (name, quote, delimiter)


@pytest.mark.parametrize(
    "cell", ["1.5", "1.23", "12.34.567", "1234.567", ".123", "1..234", "1.234.", "1,234.5", "1 234"]
)
@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_a_mark_in_another_place_is_malformed(agreement: str, cell: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"town;rate\na;1.234\nb;{cell}\n")
    agreed, written = AGREEMENTS[agreement], {"delimiter": ";", "decimal": ",", "thousands": "."}
    with pytest.raises(ss.InvalidInputError, match="row") as error:
        read_by("file", tmp_path / "a.csv", agreed, **written)
    assert cell not in str(error.value)


def test_text_keeps_its_marks(tmp_path: Path) -> None:
    agreed = ss.Agreement(PROJECTION, index={"town": "text", "rate": "decimal(3)"}, missing="drop")
    (tmp_path / "a.csv").write_text("town;rate\n1.234,5;1.234,5\n")
    (batch,) = RowReader(agreed, delimiter=";", decimal=",", thousands=".").batches(tmp_path / "a.csv")
    assert batch.to_pydict() == {"town": ["1.234,5"], "rate": ["1234.5"]}


@pytest.mark.parametrize("how", ["file", "lenient", "beam"])
@pytest.mark.parametrize("thousands", [None, "."])
@pytest.mark.parametrize("agreement", ["agreed", "dropping"])
def test_null_values_are_missing(agreement: str, thousands: str | None, how: str, tmp_path: Path) -> None:
    agreed, path = AGREEMENTS[agreement], tmp_path / "a.csv"
    path.write_text('town;rate\na;1,5\nNA;2\n"-";3\nb;"-"\nc;-999\nNAN;4\nd;-9\n')
    written = {"delimiter": ";", "decimal": ",", "thousands": thousands, "null_values": ["NA", "-", "-999"]}
    assert read_by(how, path, agreed, **written) == expected(agreed, [("a", "1.5"), ("NAN", "4"), ("d", "-9")])


def test_null_values_of_columns_without_an_agreement(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("town,rate\nNA,-\nx,NA\nNA ,2\n")
    for thousands in (None, "_"):
        written: Any = {"text": ["town"], "null_values": ["NA", "-"], "thousands": thousands}
        (batch,) = read_batches([str(tmp_path / "a.csv")], ["town", "rate"], **written)
        assert batch.column("town").to_pylist() == [None, "x", "NA "]
        assert batch.column("rate").to_pylist() == [None, None, 2]


@pytest.mark.parametrize("agreement", ["of", "dropping"])
@pytest.mark.parametrize("written", [{}, {"decimal": ","}])
def test_the_option_for_grouped_numbers_is_named(written: dict[str, str], agreement: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("town;rate\na;1.234,5\n")
    with pytest.raises(ss.InvalidInputError, match="--set thousands" if written else "decimal=,"):
        read_by("file", tmp_path / "a.csv", AGREEMENTS[agreement], delimiter=";", **written)


@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_a_point_is_no_decimal_comma(agreement: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("town;rate\na;1.234\n")
    sketch = ss.Sketch(AGREEMENTS[agreement])
    with pytest.raises(ss.InvalidInputError) as error:
        RowReader(AGREEMENTS[agreement], delimiter=";", decimal=",").read(
            tmp_path / "a.csv", lambda batch, _: sketch.update_rows(batch)
        )
    assert "1.234" not in str(error.value)


@pytest.mark.parametrize(("data", "says"), [
    ("town;rate\nŁódź;1\n".encode("iso8859-2"), r"\(row 2, column town\): it is not in UTF-8, but perhaps in Latin-1"),
    ("town;rate\nx;1\n".encode("utf-16"), "is text in UTF-16, not in UTF-8; .*--set encoding=utf-16"),
    ("town;rate\nx;1\n".encode("utf-16-le"), "is text in UTF-16"),
    ("straße;town;rate\nx;y;1\n".encode("latin-1"), "is not in UTF-8, but perhaps in Latin-1"),
    (b"town;rate\nx;3,01\n", "a number has a decimal comma.*--set decimal=,"),
    (b"town;rate\n" + 9 * b"x;1\n" + b"x;secret\n", r"cannot be read as CSV \(row 11, column rate\)"),
    (b" Town ;rate\nx;1\n", "has no column town: CSV .*; a column's name differs from town in case or in blanks$"),
    (b"x;1\ny;2\n", "has no column town, rate: CSV must begin with a header line that names all columns$"),
    (b"", "is empty, without even the header line"),
    (b"PK\x03\x04\x14\0\x06\0\x08", "is a ZIP archive, as .xlsx workbooks are; export the sheet as CSV"),
    (b"PAR1\x15\x04\x15\x10", "is a Parquet file; name it .parquet"),
    (gzip.compress(b"town;rate\n", mtime=0), "is compressed by gzip; add .gz"),
])  # fmt: skip
def test_the_cause_is_named(data: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(ss.InvalidInputError, match=says) as error:
        list(RowReader(AGREEMENTS["of"], delimiter=";").batches(tmp_path / "a.csv"))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(("name", "data", "says"), [
    ("a.jsonl", b'[{"town": "x", "rate": 1}]', "is not a JSON object .*It is an array: jq -c"),
    ("a.json", b'[{"town": "x", "rate": 1}]', "not a Parquet file.*begins as a JSON array, and JSON is read"),
    ("a.xlsx", b"PK\x03\x04\x14\0", "not a Parquet file.*ZIP archive, as .xlsx"),
    ("a.parquet", b"", "not a Parquet file.*it has 0 bytes"),
    ("a.jsonl.gz", b"", "has 0 bytes, and even a compressed file without rows has some"),
    ("a.csv.zst", b"", "has 0 bytes"),
    ("a.txt.bz2", b"", "has 0 bytes"),
    ("a.jsonl", '{"town": "é", "rate": 1}'.encode("latin-1"), "is not a JSON object.*not in UTF-8, but perhaps"),
    ("a.jsonl", '{"town": "é", "rate": 1}\n{}'.encode("utf-16"), "is not a JSON object.*text in UTF-16"),
])  # fmt: skip
def test_files_of_another_kind_are_named(name: str, data: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    columns = {"index": "line"} if ".txt" in name else {"index": "town", "value": "rate"}
    agreement: Any = ss.Agreement.of(PROJECTION, **columns)
    with pytest.raises(ss.InvalidInputError, match=says):
        list(RowReader(agreement).batches(tmp_path / name))
    with pytest.raises(ss.InvalidInputError, match=says):
        list(read_batches([str(tmp_path / name)], agreement))


@pytest.mark.parametrize(("options", "says"), [
    ({"encoding": "klingon"}, "there is no encoding 'klingon'"),
    ({"encoding": "base64"}, "there is no encoding 'base64'"),
    ({"decimal": ";"}, "the decimal point of CSV must be"),
    ({"delimiter": "::"}, "the delimiter must be one ASCII character"),
    ({"thousands": ";"}, "thousands must be one of"),
    ({"thousands": ""}, "thousands must be one of"),
    ({"thousands": "."}, "thousands and decimal are both '.'"),
    ({"decimal": ",", "thousands": ","}, "thousands and decimal are both ','"),
    ({"null_values": "NA"}, "null_values must be a list"),
    ({"null_values": [""]}, "null_values must be a list"),
])  # fmt: skip
def test_what_is_no_dialect_is_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=says):
        RowReader(AGREEMENTS["of"], **options)  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInputError, match=says):
        list(read_batches(["x.csv"], ["town"], **options))


def test_another_encoding_than_the_stated_one_is_an_error_that_quotes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("town;rate\nsecret;1".encode("utf-16")[:-1])
    with pytest.raises(ss.InvalidInputError, match="is not text in the encoding utf-16; name the encoding") as error:
        list(RowReader(AGREEMENTS["of"], delimiter=";", encoding="utf-16").batches(tmp_path / "a.csv"))
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None


def test_transcoding_holds_a_few_blocks() -> None:
    class Long:
        left, most = 1 << 26, 0

        def read(self, size: int) -> bytes:
            self.most = max(self.most, size)
            size = min(size, self.left)
            self.left -= size
            return b"\xe9" * size

    stream = Long()
    reader, total = Transcoded(stream, "latin-1", "x"), 0
    while block := reader.read(1 << 16):
        assert len(block) <= 1 << 16
        assert len(reader._ready) <= 1 << 18
        total += len(block)
    assert (total, stream.most) == (1 << 27, 1 << 16)
