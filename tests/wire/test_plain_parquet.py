"""Tables read without Arrow are those that are read with it."""

import datetime as dt
import io
import json
import random
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from streamsketch.errors import WireFormatError
from streamsketch.release.published_table import sorted_keys
from streamsketch.wire import tables

KIT = {
    case["name"]: bytes.fromhex(case["bytes"])
    for case in json.loads(files("streamsketch.conformance").joinpath("tables.json").read_text(encoding="utf-8"))
}
RELEASES = [
    bytes.fromhex(case["bytes"])
    for case in json.loads(files("streamsketch.conformance").joinpath("releases.json").read_text(encoding="utf-8"))
    if case["name"].startswith("sjlt-block, ")
][:2]

Read = Callable[[bytes], Any]


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> Read:
    """Return a reader of tables without Arrow."""

    def read(data: bytes) -> Any:
        with monkeypatch.context() as without:
            without.setattr(tables, "is_installed", lambda _: False)
            assert tables.kind_of(io.BytesIO(data), len(data)) is not None
            return tables.read_table(io.BytesIO(data), len(data), None, expect=None, max_bytes=None)

    return read


def arrowly(data: bytes) -> Any:
    return tables.read_table(io.BytesIO(data), len(data), None, expect=None, max_bytes=None)


def written(keys: Any, images: Any = None, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"key": keys, "sketch": pa.array(images or RELEASES, pa.binary())}), file, **options)
    return file.getvalue()


@pytest.mark.parametrize("name", KIT)
def test_tables_of_the_kit(name: str, plainly: Read) -> None:
    found, expected = plainly(KIT[name]), arrowly(KIT[name])
    assert type(found) is type(expected)
    assert list(found.items()) == list(expected.items())


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["ä", "b"]),
        pa.array([b"\xff", b""]),
        pa.array([-(2**63), 5], pa.int64()),
        pa.array([2**32 - 1, 5], pa.uint32()),
        pa.array([2**62, 5], pa.uint64()),
        pa.array([-1, 5], pa.int8()),
        pa.array([dt.date(1969, 12, 31), dt.date(2026, 1, 2)]),
        pa.array([1_500, -1], pa.timestamp("ms")),
        pa.array([1_500, -1], pa.timestamp("us", "UTC")),
        pa.array([1_500_000, -1_000], pa.timestamp("ns")),
    ],
    ids=lambda keys: str(keys.type),
)
@pytest.mark.parametrize(
    "options", [{}, {"compression": "gzip"}, {"compression": "none", "use_dictionary": False}, {"row_group_size": 1}]
)
def test_keys_and_codecs(keys: Any, options: dict[str, Any], plainly: Read) -> None:
    data = written(keys, **options)
    assert list(plainly(data).items()) == list(arrowly(data).items())


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (written(["a", "b"], compression="zstd"), "compressed by ZSTD, which needs Arrow"),
        (written(["a", "b"], data_page_version="2.0"), "version 2, which need Arrow"),
        (written([1.5, 2.5]), "must be text, bytes, integers, dates or times"),
        (written(pa.array([1, 2], pa.timestamp("ns"))), "finer than microseconds"),
        (written(["a", "b"], [RELEASES[0], None]), "row 1 has no sketch"),
        (written(["a", "a"]), "appeared before"),
        (written(["a", None]), "must be text"),
        (KIT[next(iter(KIT))][:-9], "does not end as a Parquet file does"),
    ],
    ids=["zstd", "pages", "floats", "nanoseconds", "null", "twice", "null key", "cut"],
)
def test_what_is_refused(data: bytes, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "is_installed", lambda _: False)
    with pytest.raises(WireFormatError, match=problem):
        tables.read_table(io.BytesIO(data), len(data), None, expect=None, max_bytes=None)


def test_changed_bytes_are_refused_or_read_as_arrow_reads_them(plainly: Read) -> None:
    chosen = random.Random(4)  # noqa: S311 - which bytes to change is no secret
    data = written(["a", "b"])
    for _ in range(60):
        changed = bytearray(data)
        for _ in range(chosen.randrange(1, 3)):
            changed[chosen.randrange(len(data))] = chosen.randrange(256)
        try:
            found = plainly(bytes(changed))
        except WireFormatError:
            continue
        try:
            expected = arrowly(bytes(changed))
        except WireFormatError:  # of statistics, for example, which nothing here reads
            continue
        assert list(found.items()) == list(expected.items())


@pytest.mark.parametrize("keys", [["b", "Ä", "a\x00", "a"], [b"\xff", b""], [7, -1, 2**60], [dt.date(2026, 1, 2)]])
def test_order_of_keys_is_arrows(keys: list[Any]) -> None:
    assert sorted_keys(keys) == pa.array(keys).take(pc.sort_indices(pa.array(keys))).to_pylist()
