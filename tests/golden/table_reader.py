"""Parquet tables of releases, written from WIRE.md alone: no library. A part of ``reader.py``."""

import hashlib
from collections import defaultdict
from typing import Any, NamedTuple

from tests.golden import parquet, reader
from tests.golden.mechanisms import need

KINDS = {"sketch": ("PrivateTable", "PrivateSketch"), "signs": ("SignTable", "SignSketch")}
ENTRY = b"streamsketch.signature"


class Table(NamedTuple):
    """A table: its class, its column of releases, its keys, and the releases' bytes in the order of the keys."""

    kind: str
    column: str
    keys: parquet.Column
    rows: list[bytes]


def read_table(data: bytes) -> Table:
    """Return a table, checked."""
    columns = parquet.read_columns(data)
    column = next((name for name in KINDS if name in columns), "")
    need("key" in columns and column != "", "no column of keys, or of releases")
    kind, message = KINDS[column]
    keys, rows = columns["key"], columns[column].values
    need(len(rows) > 0, "a table without a row")
    need(columns[column].kind == "bytes", "releases that are no bytes")
    need(None not in keys.values and None not in rows, "a null")
    need(len(set(keys.values)) == len(keys.values), "a key that is there twice")
    releases = [reader.read(message, row) for row in rows]
    for name in ("projection", "guarantee", "agreement", "history"):
        need(all(one.get(name) == releases[0].get(name) for one in releases), f"releases of another {name}")
    check_keys(releases)
    return Table(kind, column, keys, rows)


def check_keys(releases: list[dict[str, Any]]) -> None:
    """Refuse the same data in more releases than one guarantee covers."""
    found: dict[bytes, set[bytes]] = defaultdict(set)
    for release in releases:
        ids = release.get("release_ids") or [release["release_id"]]
        for one in release["data_ids"]:
            found[one].update(ids)
    most = releases[0]["guarantee"]["neighbours"]["max_keys"] or 1
    need(all(len(ids) <= most for ids in found.values()), "the same data in more keys than the guarantee covers")


def signature_inside(data: bytes) -> tuple[bytes, str]:
    """Return the line in a table's footer, and the SHA-256 of the file with spaces in its place."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    need(data.count(ENTRY, start) == 1, "an entry that is not there, or twice")
    entries = {entry[1]: entry[2] for entry in parquet.read_footer(data).get(5, [])}
    need(ENTRY in entries, "no signature inside")
    line = entries[ENTRY]
    need(data.count(line, start) == 1, "a value that is there twice")
    return line, hashlib.sha256(data.replace(line, b" " * len(line))).hexdigest()
