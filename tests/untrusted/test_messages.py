"""Whatever text a file brings, an error about it is the library's, and one printable line of bounded length."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.cli._layout import Table, table_lines
from streamsketch.data.readers.formats import batches, parts_of
from streamsketch.signs import SignIndex
from streamsketch.streams.state import read_state
from tests.streams.naive import AGREEMENT
from tests.tampering import rewritten
from tests.untrusted.readers import readers

MOST = 1000
HOSTILE = (
    "a\x1b[31mred\x07",
    "a\ud800b\udfff",
    "\u202e" + "x" * 10_000,
    "line\r\nGuarantee  ε = 0.1\x00\x85\u2028",
    "\ue000\U000e0041\x7f\xad",
)
JSON = (
    *("features", "agreement", "job", "projection", "mechanism", "round", "contribution", "envelope", "signatures"),
    *("claim", "messages in json"),
)


def check(error: BaseException) -> None:
    """Check the law."""
    message = str(error)
    assert message.encode().decode() == message
    assert len(message) <= MOST, message
    assert message.isprintable(), ascii(message)
    assert message


def refused(read: Callable[[bytes], Any], data: bytes) -> bool:
    """Return whether bytes were refused, by an error of the law."""
    try:
        read(data)
    except ss.StreamsketchError as error:
        check(error)
        return True
    return False


def variants(value: Any, text: str) -> Iterator[Any]:
    """Yield JSON values in which one text, number, name, or place of a list is another text."""
    yield text
    if isinstance(value, dict):
        for name, inner in value.items():
            rest = {other: one for other, one in value.items() if other != name}
            yield rest | {text: inner}
            yield value | {text: inner}
            for changed in variants(inner, text):
                yield value | {name: changed}
    if isinstance(value, list):
        yield [*value, text]
        for place, inner in enumerate(value):
            for changed in variants(inner, text):
                yield [*value[:place], changed, *value[place + 1 :]]


@pytest.mark.parametrize("name", JSON)
def test_texts_of_json(name: str) -> None:
    reader, seen = readers()[name], 0
    for sample in reader.samples[:2]:
        for text in HOSTILE:
            for changed in variants(json.loads(sample.strip().split(b"\n")[0]), text):
                seen += refused(reader.read, json.dumps(changed).encode())
    assert seen > 5 or not reader.error


def columns(names: list[str]) -> list[tuple[str, bytes]]:
    """Return files with these columns, each with what its name ends in."""
    rows = [dict.fromkeys(names, "1")] * 3
    fields = [{"name": "c" if name.isascii() and name.isidentifier() else "d", "type": "string"} for name in names]
    files = [("csv", ",".join(f'"{name}"' for name in names) + "\n" + ",".join("1" for _ in names) + "\n")]
    files += [("jsonl", "".join(json.dumps(row) + "\n" for row in rows))]
    made = [(ending, text.encode(errors="surrogatepass")) for ending, text in files]
    if not any("\ud800" in name for name in names):
        pq.write_table(pa.table({name: ["1"] * 3 for name in names}), parquet := io.BytesIO())
        made.append(("parquet", parquet.getvalue()))
    schema = {"type": "record", "name": "r", "fields": fields}
    fastavro.writer(avro := io.BytesIO(), schema, [{field["name"]: "1" for field in fields}])
    data, long = avro.getvalue(), json.dumps(names[0])[1:-1].encode()
    return [*made, ("avro", renamed(data, long))]


def renamed(data: bytes, name: bytes) -> bytes:
    """Return an Avro file in which the field c or d has another name, which fastavro would not write."""
    start = data.index(b'{"type"')
    end = data.index(b"}]", start) + 2
    end = data.index(b"}", end) + 1
    schema = data[start:end]
    changed = schema.replace(b'"name": "d"', b'"name": "' + name + b'"')
    before = data[:start]
    length = len(schema) * 2
    written = varint(length)
    assert before.endswith(written)
    return before[: -len(written)] + varint(2 * len(changed)) + changed + data[end:]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_names_of_columns(text: str) -> None:
    seen = 0
    for ending, data in columns([text]):

        def read(data: bytes, ending: str = ending) -> None:
            file, path = io.BytesIO(data), f"{text[:50]}.{ending}"
            for part in range(parts_of(file, path)):
                for _ in batches(file, path, part, AGREEMENT.names, AGREEMENT.names, any_text=True):
                    pass

        seen += refused(read, data)
    assert seen >= 3
    with pytest.raises(ss.StreamsketchError) as caught:
        AGREEMENT.projection.table().update_rows(pa.table({"é\x1b" * 5000: ["1"]}), key="k", index=text)
    check(caught.value)


def with_header(data: bytes, fields: dict[str, Any]) -> bytes:
    """Return the state of a stream with other fields in its header, and digests that fit."""
    return rewritten(data, lambda database, _: database.change("stream", database.header("stream").fields | fields))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_headers_of_states(text: str, tmp_path: Path) -> None:
    reader = readers()["state of units"]
    given: list[tuple[str, Any]] = [(text, 1), ("agreement", text), ("job", {text: text}), ("place", text)]
    given += [("parts", one) for one in ({text: text}, {"window 1": text}, {"window x": "00"}, text, [text], None, 1)]
    for name, value in given:
        changed = with_header(reader.samples[0], {name: value})
        assert refused(reader.read, changed), name
        path = tmp_path / "s.raw-stream"
        path.write_bytes(changed)
        try:
            read_state(path)
        except ss.StreamsketchError as error:
            check(error)


@pytest.mark.parametrize("text", [*HOSTILE, "Europe/Parj#", "Mars\x1b[31m", "x" * 10_000], ids=range(8))
def test_zones_and_columns_of_tables(text: str, tmp_path: Path) -> None:
    images = pq.read_table(io.BytesIO(readers()["sign table"].samples[0]))
    path = tmp_path / "signs.parquet"
    if "\ud800" in text:
        return  # Arrow has no such text
    zoned = pa.array([1, 2], pa.int64()).cast(pa.timestamp("us", text))
    for changed in (
        images.set_column(0, "key", zoned),
        images.rename_columns([text, *images.column_names[1:]]),
        images.set_column(0, "key", pa.array([text, text + "2"], pa.string())).slice(0, 0),
        images.set_column(0, "key", pa.array([text, text])),
        images.set_column(0, "key", pa.array([{text: 1}, {text: 2}])),
    ):
        pq.write_table(changed, path)
        for read in (ss.load, lambda one: SignIndex.from_files([one])):
            with pytest.raises(ss.StreamsketchError) as caught:
                read(path)
            check(caught.value)


def test_a_long_message_keeps_both_ends() -> None:
    shown = str(ss.InvalidInputError("the columns " + "x" * 5000 + "\n: pass another"))
    assert len(shown) == MOST
    assert shown.startswith("the columns xxx")
    assert shown.endswith("xxx\\n: pass another")
    wire = ss.errors.WireFormatError("a\ud800", "has \x1b[2J" + "y" * 5000, "\x07.sketch")
    assert (wire.where, wire.problem[:4], len(str(wire))) == ("a\ud800", "has ", MOST)
    check(wire)
    check(ss.errors.UnknownKeyError("no\x00key" * 1000))


def test_tables_of_the_command_cut_long_names() -> None:
    table = Table({"key": ["x" * 10_000 + "\x1b", "b"], "value": ["1", "2"]}, "signs of " + "y" * 10_000, 1)
    lines = table_lines(table, None)
    assert max(map(len, lines)) < 600
    assert any(line.rstrip().endswith("1") and "…" in line and "\\x1b" in line for line in lines)
