"""Event files in Parquet that are damaged, or were made to look so: refused in one way, and never misread."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.data.readers.formats import batches, parts_of
from streamsketch.intake import Intake
from tests.cli.running import Forks

ROWS, WORDS = 64, ["tea", "jam", "gin"]
PROJECTION = ss.SJLT(sketch_dim=16, sparsity=4, seed=7)
AGREEMENT = ss.Agreement(PROJECTION, index="item", key="shop", unit="customer", neighbours=ss.L1(9, unit="customer"))


def parquet(**options: Any) -> bytes:
    """Return events whose words are numbered 0, 1, 2, 0, …, in runs of two bits."""
    names = ["item", "shop", "customer"]
    words = pa.array([WORDS[row % 3] for row in range(ROWS)])
    schema = pa.schema([pa.field(name, pa.string(), nullable=False) for name in names])
    sink = io.BytesIO()
    table = pa.Table.from_arrays([words] * 3, schema=schema)
    pq.write_table(table, sink, compression="none", use_dictionary=True, **options)
    return sink.getvalue()


def with_codes(data: bytes, width: int, code: int) -> bytes:
    """Return the file with one run of a code of so many bits in place of those of the first column."""
    bits = np.unpackbits(np.array([[row % 3] for row in range(ROWS)], np.uint8), axis=1, bitorder="little")[:, :2]
    packed = np.packbits(bits.reshape(-1), bitorder="little").tobytes()
    place = data.index(packed) - 2
    assert data[place : place + 2] == bytes([2, ROWS // 8 << 1 | 1])
    run = bytes([width, ROWS << 1 & 0x7F | 0x80, ROWS << 1 >> 7]) + code.to_bytes(-(-width // 8), "little")
    return data[:place] + run + data[place + len(run) :]


def read(data: bytes, columns: list[str]) -> list[pa.RecordBatch]:
    file = io.BytesIO(data)
    parts = range(parts_of(file, "events.parquet"))
    return [batch for part in parts for batch in batches(file, "events.parquet", part, columns, columns)]


@pytest.mark.parametrize(("width", "code"), [(2, 3), (8, 255), (32, (1 << 32) - 1), (32, 1 << 31), (32, 3)])
def test_a_code_without_a_word_is_refused(width: int, code: int) -> None:
    """-1 would be the last word to whoever indexes an array with it."""
    (batch,) = read(with_codes(parquet(), 2, 1), ["item"])
    assert set(batch.column("item").to_pylist()) == {"jam"}
    with pytest.raises(ss.InvalidInputError, match="not a valid Parquet file"):
        read(with_codes(parquet(), width, code), ["item"])


def test_text_in_delta_encodings_is_read() -> None:
    """Which Arrow does not read as dictionaries."""
    for encoding in ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"):
        table = pa.table({"item": WORDS * 3, "n": range(9)})
        pq.write_table(table, sink := io.BytesIO(), use_dictionary=False, column_encoding={"item": encoding})
        found = pa.Table.from_batches(read(sink.getvalue(), ["item", "n"]))
        assert found.to_pydict() == table.to_pydict()


def test_the_command_names_the_file(tmp_path: Path, forks: Forks) -> None:
    (tmp_path / "events.parquet").write_bytes(with_codes(parquet(), 32, (1 << 32) - 1))
    AGREEMENT.save(tmp_path / "agreement.json")
    for how in (["--agreement", "agreement.json"], ["--index", "item", "--key", "shop", "--projection", "p.json"]):
        (tmp_path / "p.json").write_text(PROJECTION.to_json())
        said = forks.refused("sketch", "events.parquet", *how, "-o", "o.raw-sketch", cwd=tmp_path)
        assert "events.parquet is not a valid Parquet file" in said
    assert not (tmp_path / "o.raw-sketch").exists()


def coded(code: int) -> pa.Array:
    indices = pa.array([0, code, 1], pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(WORDS), safe=False)


INTO: dict[str, Callable[[pa.Array], Any]] = {
    "sketch": lambda column: PROJECTION.sketch().update(column),
    "sketch in chunks": lambda column: PROJECTION.sketch().update(pa.chunked_array([coded(1), column])),
    "table, keys": lambda column: PROJECTION.table().update(column, ["a"] * 3),
    "table, indices": lambda column: PROJECTION.table().update(["a"] * 3, column),
    "rows": lambda column: list(Intake(AGREEMENT).batches(pa.table([column] * 3, ["item", "shop", "customer"]))),
    "bound": lambda column: ss.bound(pa.table([column] * 3, ["item", "shop", "customer"]), AGREEMENT),
    "bound_units": lambda column: ss.bounding.bound_units(
        [(None, column, None, column)], PROJECTION, neighbours=ss.L1(1)
    ),
    "indices": lambda column: PROJECTION.indices_of(column, column),
}


@pytest.mark.parametrize("code", [-1, 3, -(1 << 31), (1 << 31) - 1])
@pytest.mark.parametrize("into", INTO)
def test_arrow_columns_with_such_a_code_are_refused(into: str, code: int) -> None:
    INTO[into](coded(2))
    with pytest.raises(ss.InvalidInputError, match=rf"codes from .*{code}|codes from 0 to {code}"):
        INTO[into](coded(code))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-9],
        lambda data: data[:-8] + b"\xff\xff\xff\x7fPAR1",
        lambda data: data.replace(b"item", b"\xff\xfe\xff\xfe"),  # a name that is not UTF-8
        lambda data: data.replace(b"shop", b"sho\xff"),
        lambda data: data.replace(b"item", b"name"),
        lambda data: data[:4] + bytes(200) + data[204:],
        lambda data: data.replace(b"jam", b"ja\xff"),
        lambda data: data[:4],
    ],
)
def test_a_damaged_file_is_refused_without_its_contents(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ss.InvalidInputError, match=r"events\.parquet (is not|has no column)") as caught:
        read(damage(parquet()), ["item", "shop"])
    assert not any(word in str(caught.value) for word in WORDS)
