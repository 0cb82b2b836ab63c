"""Parquet tables of releases."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss

PROJECTION = ss.CountSketch(dim=1000, sketch_dim=64, seed=3)


def release(projection: ss.projections.Projection = PROJECTION) -> ss.PrivateSketch:
    return projection.sketch().release(epsilon=1.0, neighbours=ss.L1(1))


@pytest.mark.parametrize("keys", [["a", "ü"], [1, 2], [b"\0", b"\1"]])
def test_tables_round_trip_with_their_keys(tmp_path: Path, keys: list[object]) -> None:
    sketches = {key: release() for key in keys}
    ss.PrivateTable(sketches).save(tmp_path / "table.parquet")
    assert ss.load(tmp_path / "table.parquet", expect=PROJECTION) == sketches


def test_any_parquet_reader_finds_the_guarantee_and_the_projection(tmp_path: Path) -> None:
    ss.PrivateTable({"a": release()}).save(tmp_path / "table.parquet")
    table = pq.read_table(tmp_path / "table.parquet")
    (row,) = table.to_pylist()
    assert (row["epsilon"], row["delta"], row["unit"]) == (1.0, 0.0, "event")
    assert row["mechanism"] == "discrete Laplace, scale 1"
    assert table.schema.metadata[b"streamsketch.projection"].decode() == PROJECTION.to_json()


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    with pytest.raises(TypeError, match=r"Call release\(\) first"):
        ss.PrivateTable({"a": PROJECTION.sketch()}).save(path)  # type: ignore[dict-item]
    with pytest.raises(ss.InvalidInputError, match="at least one release, got none"):
        ss.PrivateTable({}).save(path)
    with pytest.raises(ss.errors.IncompatibleProjectionsError, match="seed"):
        ss.PrivateTable({"a": release(), "b": release(PROJECTION.replace(seed=4))}).save(path)
    with pytest.raises(ss.InvalidInputError, match="must hold one type, got int, str"):
        ss.PrivateTable({"a": release(), 1: release()}).save(path)
    assert not path.exists()


def test_invalid_tables_raise_the_one_error_that_says_where(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    good = release().to_bytes()

    def where(table: pa.Table) -> str:
        pq.write_table(table, path)
        with pytest.raises(ss.errors.WireFormatError) as caught:
            ss.load(path)
        return caught.value.where

    assert where(pa.table({"key": ["a", "b"], "sketch": [good, good[:-1]]})) == "row 1, bytes 9-16"
    assert where(pa.table({"key": ["a"], "sketch": pa.array([None], pa.binary())})) == "row 0"
    assert where(pa.table({"key": ["a", "a"], "sketch": [good, good]})) == "row 1"
    assert where(pa.table({"key": [["a"]], "sketch": [good]})) == "key"
    assert where(pa.table({"key": pa.array(["a", None]), "sketch": [good, good]})) == "key"
    stranger = release(PROJECTION.replace(seed=4)).to_bytes()
    assert where(pa.table({"key": ["a", "b"], "sketch": [good, stranger]})) == "row 1, projection"
    assert where(pa.table({"key": ["a"], "sketch": ["text"]})) == "columns"
    assert where(pa.table({"name": ["a"]})) == "columns"
    path.write_bytes(b"PAR1 no more")
    with pytest.raises(ss.errors.WireFormatError, match="does not end as a Parquet file"):
        ss.load(path)


def test_limits_hold_before_anything_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    ss.PrivateTable({"a": release()}).save(path)
    with pytest.raises(ss.errors.WireFormatError, match="over the limit of 100"):
        ss.load(path, max_bytes=100)
    bomb = tmp_path / "bomb.parquet"
    padded = pa.DictionaryArray.from_arrays(pa.array([0] * 2000), [release().to_bytes() + bytes(50_000)])
    pq.write_table(pa.table({"key": range(2000), "sketch": padded.cast(pa.binary())}), bomb)
    assert bomb.stat().st_size < 100_000
    with pytest.raises(ss.errors.WireFormatError):
        ss.load(bomb, max_bytes=1_000_000)


def test_many_rows_of_one_large_sketch_stop_at_the_limit(tmp_path: Path) -> None:
    large = release(PROJECTION.replace(sketch_dim=1 << 12)).to_bytes()
    pq.write_table(pa.table({"key": range(300), "sketch": [large] * 300}), tmp_path / "table.parquet")
    assert (tmp_path / "table.parquet").stat().st_size < 10 * len(large)
    memory = 300 * (8 << 12)
    with pytest.raises(ss.errors.WireFormatError, match="unpacked"):
        ss.load(tmp_path / "table.parquet", max_bytes=memory)
    assert len(ss.load(tmp_path / "table.parquet", max_bytes=memory + 300 * 2000)) == 300


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    ss.PrivateTable({"a": release()}).save(path)
    before = path.read_bytes()
    with pytest.raises(ss.InvalidInputError):
        ss.PrivateTable({"a": release(), b"b": release()}).save(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "keys",
    [
        ["b", "", "a", "\U0001f600", "\uffff", "Z"],
        [b"b", b"", b"\xff", b"a"],
        [3, -1, 2**40, 0],
        [dt.date(2020, 1, 2), dt.date(1950, 1, 1), dt.date(2020, 1, 1)],
    ],
    ids=["text", "bytes", "integers", "dates"],
)
def test_rows_are_in_an_order_of_the_keys_alone(keys: list[Any], tmp_path: Path) -> None:
    released = release()
    tables = []
    for number, order in enumerate((keys, keys[::-1], sorted(keys))):
        path = tmp_path / f"{number}.parquet"
        ss.PrivateTable(dict.fromkeys(order, released)).save(path)
        assert list(ss.load(path)) == sorted(keys), "text by code point, as UTF-8 is ordered"
        tables.append(path.read_bytes())
    assert len(set(tables)) == 1
