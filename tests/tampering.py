"""Releases that say of themselves what is not so, and raw files of any parts."""

import contextlib
import dataclasses
import json
import random
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamsketch.privacy import Mechanism
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.storage import load_raw, save_raw
from streamsketch.storage.database import Database, Row
from streamsketch.storage.sketches import RawSketch
from tests.untrusted.mutations import changed_bytes, changed_json


def tampered(release: PrivateSketch, **changes: Any) -> PrivateSketch:
    """Return a release with another guarantee or noise than it has; of a mechanism in text, with that text alone."""
    if isinstance(changes.get("mechanism"), str):
        changes["mechanism"] = Mechanism.stated(changes["mechanism"])
    return PrivateSketch(
        release.projection,
        release.values,
        changes.pop("noise", release.noise),
        dataclasses.replace(release.guarantee, **changes),
        noise_place=release.noise_place,
        release_ids=release.release_ids,
    )


def raw_bytes(raw: RawSketch) -> bytes:
    """Return the file of a raw sketch."""
    with tempfile.TemporaryDirectory() as folder:
        save_raw(raw, path := Path(folder) / "a.raw-sketch")
        return path.read_bytes()


def raw_from_bytes(data: bytes) -> RawSketch:
    """Return what is in a file."""
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "a.raw-sketch").write_bytes(data)
        return load_raw(path)


def rewritten(data: bytes, change: Callable[[Database, sqlite3.Connection], object]) -> bytes:
    """Return an SQLite file of secrets after a change of what is in it."""
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "a").write_bytes(data)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("BEGIN")
            change(Database(connection), connection)
            connection.execute("COMMIT")
        return path.read_bytes()


def executed(data: bytes, statement: str) -> bytes:
    """Return an SQLite file of secrets after a statement of SQL."""
    return rewritten(data, lambda _, connection: connection.execute(statement))


def with_fields(data: bytes, **changes: Any) -> bytes:
    """Return a raw file with other fields in its header, and a digest that fits."""
    return rewritten(data, lambda database, _: database.change("sketch", database.header("sketch").fields | changes))


def resealed(data: bytes, chance: random.Random) -> bytes:
    """Return an SQLite file of secrets in which a row says something else, with digests that fit."""

    def change(database: Database, connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT part, key, number, data FROM rows ORDER BY id").fetchall()
        part, key, number, content = chance.choice(rows)
        fields, rows_in_part, total = database.header(part)
        if key:
            number = chance.choice((number, number, -1, 0, 1 << 62))
            row = Row(key, number, changed_bytes(content, chance))
            database.change(part, fields, [row], (lambda _, new: new) if chance.random() < 0.9 else None)
        else:
            nested = [name for name, value in fields.items() if isinstance(value, str | dict)]
            if nested and chance.random() < 0.5:
                name = chance.choice(nested)
                text = fields[name] if isinstance(fields[name], str) else json.dumps(fields[name])
                changed = changed_json(text.encode(), chance).decode(errors="replace")
                with contextlib.suppress(ValueError, RecursionError):
                    fields[name] = changed if isinstance(fields[name], str) else json.loads(changed)
                text = json.dumps(fields).encode()
            else:
                text = changed_json(json.dumps(fields).encode(), chance)
            rows_in_part = chance.choice((rows_in_part, rows_in_part, -1, 0, 5, 1 << 62))
            database._put(part, Row(b"", rows_in_part, b"[" + text + b',"%x"]' % total))
        digests = dict(connection.execute("SELECT part, hex(digest) FROM rows WHERE key = x''"))
        if "stream" in digests and part != "stream":
            fields = database.header("stream").fields
            fields["parts"][part] = digests[part].lower()
            database.change("stream", fields)

    with contextlib.suppress(sqlite3.IntegrityError):
        return rewritten(data, change)
    return data
