"""Times of INT96, as Spark 2, Hive and Impala write them, are those that were written, in every reader of Parquet."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.beam import read_batches
from streamsketch.data.readers.parquet import read_parquet
from streamsketch.intake import RowReader

AGREEMENT = ss.Agreement(ss.CountSketch(sketch_dim=256, seed=11), index={"ends": "timestamp"})
FAR = [dt.datetime(2024, 1, 1), dt.datetime(9999, 12, 31), dt.datetime(1600, 1, 1), None, dt.datetime(1, 1, 1)]  # noqa: DTZ001
NEAR = [1_704_067_200_000_000_001, -9_000_000_000_000_000_999, None, 5]
BORDER = [(1 << 63) - 1, -(1 << 63) + 808, 0]


def rows_of(path: Path) -> list[Any]:
    found: list[Any] = []
    RowReader(AGREEMENT).read(path, lambda batch, _: found.append(batch.column("ends")))
    return _numbers(found)


def beam_of(path: Path) -> list[Any]:
    return _numbers([batch.column(0) for batch in read_batches([str(path)], ["ends"])])


def table_of(path: Path) -> list[Any]:
    return _numbers(read_parquet(path, ["ends"]).column("ends").chunks)


def _numbers(columns: list[Any]) -> list[Any]:
    """Return times in nanoseconds since 1970, as Python's integers."""
    unit = {"us": 1000, "ns": 1, "ms": 10**6}
    return [
        None if count is None else count * unit[column.type.unit]
        for column in columns
        for count in column.cast(pa.int64()).to_pylist()
    ]


READERS = pytest.mark.parametrize("read", [rows_of, beam_of, table_of])


@READERS
@pytest.mark.parametrize("group", [2, 100])
def test_years_beyond_those_of_nanoseconds_are_read(
    read: Callable[[Path], list[Any]], group: int, tmp_path: Path
) -> None:
    rows = pa.table({"shop": list("abcde"), "ends": pa.array(FAR, pa.timestamp("us"))})
    pq.write_table(rows, tmp_path / "old.parquet", use_deprecated_int96_timestamps=True, row_group_size=group)
    pq.write_table(rows, tmp_path / "new.parquet", row_group_size=group)
    assert read(tmp_path / "old.parquet") == read(tmp_path / "new.parquet")
    assert read(tmp_path / "old.parquet")[1] == 253_402_214_400_000_000_000


@READERS
@pytest.mark.parametrize("times", [NEAR, BORDER])
def test_nanoseconds_are_kept(read: Callable[[Path], list[Any]], times: list[Any], tmp_path: Path) -> None:
    rows = pa.table({"ends": pa.array(times, pa.timestamp("ns"))})
    pq.write_table(rows, tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    assert read(tmp_path / "old.parquet") == times


@READERS
def test_both_together_are_refused_by_name(read: Callable[[Path], list[Any]], tmp_path: Path) -> None:
    far = pa.table({"ends": pa.array(FAR, pa.timestamp("us"))})
    pq.write_table(far, tmp_path / "far.parquet", use_deprecated_int96_timestamps=True)
    both = pa.table({"ends": pa.array([dt.datetime(9999, 12, 31), dt.datetime(2024, 1, 1)], pa.timestamp("us"))})  # noqa: DTZ001
    path = tmp_path / "both.parquet"
    pq.write_table(both, path, use_deprecated_int96_timestamps=True, use_dictionary=False, compression="none")
    data = path.read_bytes()
    plain = (0).to_bytes(8, "little") + (2_460_311).to_bytes(4, "little")  # midnight of the second day
    assert data.count(plain) >= 1
    path.write_bytes(data.replace(plain, (7).to_bytes(8, "little") + plain[8:]))  # seven nanoseconds later
    with pytest.raises(ss.InvalidInputError, match=r"the column ends of .* has times of INT96 with nanoseconds"):
        read(path)


def test_sketches_are_those_of_microseconds(tmp_path: Path) -> None:
    rows = pa.table({"ends": pa.array([one for one in FAR if one], pa.timestamp("us"))})
    pq.write_table(rows, tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    found, true = ss.Sketch(AGREEMENT), ss.Sketch(AGREEMENT)
    RowReader(AGREEMENT).read(tmp_path / "old.parquet", lambda batch, _: found.update_rows(batch))
    true.update_rows(rows)
    assert found == true
