"""Tables of the conformance kit: Parquet files of the pure writer, and two that this library wrote once."""

import datetime as dt
from typing import Any

from tests.golden import parquet, reader, table_reader
from tests.golden.kit_releases import Message, ids, load
from tests.golden.parquet import SNAPPY, UNCOMPRESSED, Column

SCHEMA = {"sketch": "PrivateSketch", "signs": "SignSketch"}
DAY = 86_400 * 10**9


def tables(made: dict[str, Message], signs: dict[str, Message]) -> list[Message]:
    """Return all cases."""
    parts = [made[f"a part, {name}"]["message"] for name in "xyz"]
    both = [made[f"a table of keys, {name}"]["message"] for name in "ab"]
    pairs = [signs[f"rademacher, linear, {name}"]["message"] for name in "xy"]
    cases: list[tuple[str, str, Column, list[Message], int]] = [
        ("of text", "sketch", Column("text", ["", "a\u0000b", "Ä \U0001f511"]), parts, SNAPPY),
        ("of bytes, of units in several keys", "sketch", Column("bytes", [b"", b"\xff"]), both, UNCOMPRESSED),
        ("of integers", "sketch", Column("integer", [-1, 0, 2**62 + 1]), parts, UNCOMPRESSED),
        ("of dates", "sketch", Column("date", [-1, 0, 20_000]), parts, SNAPPY),
        ("of times", "sketch", Column("time", [-1000, 0, 20_000 * DAY + 123_456_000]), parts, SNAPPY),
        ("of signs", "signs", Column("text", ["x", "y"]), pairs, SNAPPY),
        ("of one row", "signs", Column("integer", [7]), pairs[:1], UNCOMPRESSED),
    ]
    made_here = [(name, written(column, keys, releases, codec)) for name, column, keys, releases, codec in cases]
    return [
        _case(name, data)
        for name, data in made_here + [(one["name"], bytes.fromhex(one["bytes"])) for one in load("tables")]
    ]


def written(column: str, keys: Column, releases: list[Message], codec: int = SNAPPY) -> bytes:
    """Return a table as bytes."""
    rows = [reader.write(SCHEMA[column], one) for one in releases]
    said = releases[0]["guarantee"] if releases else {"neighbours": {"unit": ""}, "mechanism": ""}
    columns = {
        "key": keys,
        column: Column("bytes", rows),
        "unit": Column("text", [said["neighbours"]["unit"]] * len(rows)),
        "mechanism": Column("text", [said["mechanism"]] * len(rows)),
    }
    return parquet.write_table(columns, codec=codec)


def _case(name: str, data: bytes) -> Message:
    table = table_reader.read_table(data)
    return {
        "name": name,
        "kind": table.kind,
        "column": table.column,
        "keys": keys_of(table.keys),
        "rows": [row.hex() for row in table.rows],
        "bytes": data.hex(),
    }


def keys_of(keys: Column) -> Message:
    """Return keys as JSON."""
    shown: dict[str, Any] = {"text": str, "bytes": bytes.hex, "integer": str, "time": str, "date": date}
    kind = "nanoseconds" if keys.kind == "time" else keys.kind
    return {"type": kind, "items": [shown[keys.kind](one) for one in keys.values]}


def date(days: int) -> str:
    """Return days since 1970 as a date."""
    return (dt.date(1970, 1, 1) + dt.timedelta(days)).isoformat()


def refused_tables(made: dict[str, Message]) -> list[Message]:
    """Return tables that every reader must refuse: kind, name of the change, reason, bytes."""
    parts = [made[f"a part, {name}"]["message"] for name in "xyz"]
    both = [made[f"a table of keys, {name}"]["message"] for name in "ab"]
    keys = Column("text", ["a", "b", "c"])
    other = [parts[0], parts[1] | {"guarantee": parts[1]["guarantee"] | {"epsilon": 2.0}}, parts[2]]
    under = [one | {"agreement": bytes(range(16))} for one in parts[:2]]
    same = [parts[0], parts[1] | {"data_ids": parts[0]["data_ids"]}, parts[2]]
    days = [made[f"row {t} of tree"]["message"] | {"data_ids": ids(f"of day {t}", 16)} for t in range(3)]
    whole = written("sketch", keys, parts)
    rows = Column("bytes", [reader.write("PrivateSketch", one) for one in parts])
    damaged = Column("bytes", [rows.values[0], rows.values[1][:-1], rows.values[2]])
    cases: list[tuple[str, str, bytes]] = [
        ("a table of no rows", "there is at least one row", written("sketch", Column("text", []), [])),
        ("a key twice", "each key is there once", written("sketch", Column("text", ["a", "b", "a"]), parts)),
        ("another guarantee", "a table has one guarantee", written("sketch", keys, other)),
        (
            "another projection",
            "a table has one projection",
            written("sketch", keys, [*parts[:2], made["identity, x"]["message"]]),
        ),
        ("another agreement", "a table has one agreement", written("sketch", keys, [*under, parts[2]])),
        ("the same data in two keys", "a unit is in one key at most", written("sketch", keys, same)),
        ("two windows of a history", "all rows are of one part of a history", written("sketch", keys, days)),
        ("a table without keys", "there is a column of keys", parquet.write_table({"sketch": rows})),
        ("a table without releases", "there is a column of releases", parquet.write_table({"key": keys})),
        ("a damaged row", "the checksum does not match", parquet.write_table({"key": keys, "sketch": damaged})),
        ("a table cut by a byte", "it ends as a Parquet file does", whole[:-1]),
        ("a table cut in two", "it ends as a Parquet file does", whole[: len(whole) // 2]),
        ("releases as signs", "a private sketch is no sign sketch", parquet.write_table({"key": keys, "signs": rows})),
    ]
    assert both[0]["guarantee"]["neighbours"]["max_keys"] > 1
    return [
        {
            "kind": "SignTable" if name == "releases as signs" else "PrivateTable",
            "name": name,
            "reason": why,
            "bytes": data.hex(),
        }
        for name, why, data in cases
    ]
