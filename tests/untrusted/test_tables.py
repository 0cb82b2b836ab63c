"""Parquet tables of other parties: bounded before Arrow unpacks anything, and refused in sentences."""

import datetime as dt
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.wire.parquet_pages import check_footer, measure
from streamsketch.wire.registry import kind_of

PROJECTION = ss.CountSketch(dim=1000, sketch_dim=64, seed=3)
LONG, ROWS = 1 << 20, 12

# of a process of its own, as a memory pool remembers its peak; the limit is 2 MB. What an error's traceback holds of
# one file is freed before the next is read, which Python 3.13 puts off.
CHILD = """
import gc, sys
import pyarrow as pa
import streamsketch as ss
for path in sys.argv[1:]:
    gc.collect()
    try:
        ss.load(path, max_bytes=1 << 21)
    except ss.errors.WireFormatError as error:
        print(f"{type(error)(error.where, error.problem)} / {pa.default_memory_pool().max_memory()}")
    else:
        print("read / 0")
"""


def release() -> bytes:
    return PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.L1(1)).to_bytes()


def bombs(folder: Path) -> list[Path]:
    """Write files of some kilobytes that unpack to many megabytes."""
    image = release()
    long = ["k" * LONG + str(row) for row in range(ROWS)]
    tables: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "repeated": ({"key": pa.array([long[0]] * ROWS), "sketch": [image] * ROWS}, {}),
        "prefixes": (
            {"key": long, "sketch": [image] * ROWS},
            {"use_dictionary": False, "column_encoding": {"key": "DELTA_BYTE_ARRAY"}, "data_page_size": 1 << 12},
        ),
        "page": ({"key": [1], "sketch": pa.array([bytes(ROWS * LONG)], pa.binary())}, {"use_dictionary": False}),
        "fixed": ({"key": pa.array([b"k" * LONG] * 64, pa.binary(LONG)), "sketch": [image] * 64}, {}),
        "rows": ({"key": pa.repeat(pa.scalar(1, pa.int8()), 3 << 20), "sketch": pa.repeat(b"", 3 << 20)}, {}),
        "nested": ({"key": [["k"] * (1 << 20)], "sketch": [image]}, {}),
    }
    paths = []
    for name, (columns, options) in tables.items():
        paths.append(folder / f"{name}.parquet")
        pq.write_table(pa.table(columns), paths[-1], **({"compression": "zstd"} | options))
        assert paths[-1].stat().st_size < 1 << 16, name
    return paths


def test_small_files_do_not_unpack_to_more_than_the_limit(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, *map(str, bombs(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    told = [line.rpartition(" / ") for line in done.stdout.splitlines()]
    assert len(told) == 6
    for message, _, peak in told:
        assert message.startswith(
            ("length: over the limit", "length: 3145728 rows", "key must be", "row 1 has a key")
        ), message
        assert int(peak) < 6 << 20, message


def test_a_raised_limit_reads_long_keys_of_every_encoding(tmp_path: Path) -> None:
    keys = ["k" * 1000 + str(row) for row in range(50)]
    table = pa.table({"key": keys, "sketch": [release() for _ in keys]})
    for encoding in ("PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", None):
        options: dict[str, Any] = {"use_dictionary": True} if encoding is None else {"use_dictionary": False}
        columns = {} if encoding is None else {"column_encoding": {"key": encoding, "sketch": encoding}}
        for version in ("1.0", "2.0"):
            path = tmp_path / "table.parquet"
            pq.write_table(table, path, data_page_version=version, row_group_size=20, **options, **columns)
            assert list(ss.load(path)) == sorted(keys)
            if encoding == "PLAIN":
                with path.open("rb") as file:
                    metadata = pq.ParquetFile(file).metadata
                    with pytest.raises(ss.errors.WireFormatError, match="over the limit of 20000 bytes unpacked"):
                        measure(file, path.stat().st_size, metadata, ["key"], 20000)


@pytest.mark.parametrize("place", range(4, 30))
def test_a_page_header_that_is_not_as_arrow_writes_it_is_refused_or_bounded(place: int, tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"key": ["a"], "sketch": [release()]}), path)
    sound = path.read_bytes()
    for value in (0, 0x0C, 0x15, 0x7F, 0xFF):
        path.write_bytes(sound[:place] + bytes([value]) + sound[place + 1 :])
        with path.open("rb") as file:
            metadata = pq.ParquetFile(file).metadata
            try:
                found = measure(file, len(sound), metadata, ["key", "sketch"], 10000)
            except ss.errors.WireFormatError:
                continue
            assert found.longest <= found.total <= 10000


def test_a_long_footer_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"key": ["a"], "sketch": [release()]}), path)
    with (
        path.open("rb") as file,
        pytest.raises(ss.errors.WireFormatError, match=r"footer of .* bytes, over the limit of 100"),
    ):
        check_footer(file, path.stat().st_size, 100)
    path.write_bytes(path.read_bytes()[:-8] + (1 << 31).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ss.errors.WireFormatError, match="does not end as a Parquet file does"):
        ss.load(path)


def test_names_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"key": ["a"], "sketch": [release()], "zzz": [1]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"zzz", b"\xff\xfe\xff"))
    for read in (ss.load, kind_of):
        with pytest.raises(ss.errors.WireFormatError, match="columns have names that are not UTF-8"):
            read(path)


@pytest.mark.parametrize("zone", ["No/Such", "../../etc/passwd", "x" * 300, "+99:99", ""])
def test_unknown_time_zones_are_refused(zone: str, tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"key": pa.array([1], pa.timestamp("us", zone)), "sketch": [release()]}), path)
    try:
        (key,) = ss.load(path)
    except ss.errors.WireFormatError as error:
        assert "time zone" in str(error)  # noqa: PT017
    else:
        assert not zone  # without a name there is no zone
        assert key == dt.datetime(1970, 1, 1, 0, 0, 0, 1)  # noqa: DTZ001


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris", "+05:30"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_come_back_as_they_were_with_and_without_pandas(
    unit: str, zone: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.parquet"
    count = 1_700_000_000 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    pq.write_table(pa.table({"key": pa.array([count], pa.timestamp(unit, zone)), "sketch": [release()]}), path)
    moment = dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)
    wanted = moment if zone else moment.replace(tzinfo=None)
    (with_pandas,) = ss.load(path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    (without,) = ss.load(path)
    assert with_pandas == without == wanted
    assert without.utcoffset() == with_pandas.utcoffset()


def test_nanoseconds_are_exact_with_pandas_and_refused_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"key": pa.array([1234567], pa.timestamp("ns", "UTC")), "sketch": [release()]}), path)
    (key,) = ss.load(path)
    assert key.value == 1234567
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        ss.errors.WireFormatError, match="times finer than microseconds need pandas, which is not installed"
    ):
        ss.load(path)


@pytest.mark.parametrize("keys", [pa.array([1 << 62], pa.timestamp("us")), pa.array([2**31 - 1], pa.date32())])
def test_years_that_python_does_not_have_are_refused(keys: pa.Array, tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"key": keys, "sketch": [release()]}), path)
    with pytest.raises(ss.errors.WireFormatError, match="key"):
        ss.load(path)


def test_more_rows_than_the_limit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"key": ["a", "b"], "sketch": [release(), release()]}), path)
    with (
        ss.limits.reading_limits(max_keys=1),
        pytest.raises(ss.errors.WireFormatError, match="2 rows, over the limit of 1; raise"),
    ):
        ss.load(path)
    assert len(ss.load(path)) == 2


def test_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"key": ["a"], "sketch": [release()]}).slice(0, 0), path)
    with pytest.raises(ss.errors.WireFormatError, match="a table without a row"):
        ss.load(path)


def test_a_pipe_is_no_table(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(b"PAR1 and more"))
    writer.start()
    with pytest.raises(ss.errors.WireFormatError, match="not a regular file"):
        ss.load(tmp_path / "pipe")
    writer.join()
    with pytest.raises(ss.errors.WireFormatError, match="bytes 0-7 are not there"):
        ss.load("/dev/null")
