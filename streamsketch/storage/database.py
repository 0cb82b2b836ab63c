"""SQLite files of secrets: rows in named parts, changed by one transaction or not at all.

A file is readable by its owner alone, and so is the journal that SQLite keeps beside it while it writes. What is
deleted is overwritten with zeros. Nothing in a file is trusted: its schema must be ours, and each row has a digest.
"""

import contextlib
import errno
import hashlib
import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from streamsketch.core.concealed import concealed
from streamsketch.core.documents import Json, TableKey
from streamsketch.core.files import remove_partial, replacing
from streamsketch.core.limits import check_length, current_limits
from streamsketch.errors import InvalidInputError, WireFormatError, with_reason

_SCHEMA = (
    "CREATE TABLE rows /* SECRET: exact sketches of streamsketch, not to be shared */ (id INTEGER PRIMARY KEY, "
    "part TEXT NOT NULL, key BLOB NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL, digest BLOB NOT NULL, "
    "UNIQUE (part, key))"
)
_PUT = (
    "INSERT INTO rows (part, key, number, data, digest) VALUES (?, ?, ?, ?, ?) ON CONFLICT (part, key) DO UPDATE SET "
    "number = excluded.number, data = excluded.data, digest = excluded.digest "
    "WHERE (number, data, digest) IS NOT (excluded.number, excluded.data, excluded.digest)"
)
_VERSION = 3
_MOST_DATA = (1 << 27) + 16  # bytes of a row that is no header: the cells of the widest sketch, and two counts
_DIGEST_BYTES = 16
_MODULUS = 1 << 8 * _DIGEST_BYTES
_BACKUP = "fetch the file from a backup"
_CACHE = 1 << 15  # KiB, so that few transactions are written in several steps
_WAIT = 0.5  # seconds to wait for a lock before pending signals are handled
_OTHERS = 0o077  # permissions of all but the owner
_HEADER = b""  # the key of a part's header
_ERRORS = {
    sqlite3.SQLITE_BUSY: errno.EBUSY,
    sqlite3.SQLITE_LOCKED: errno.EBUSY,
    sqlite3.SQLITE_READONLY: errno.EACCES,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
}


class NotSQLiteError(Exception):
    """The file is of another format, perhaps of an earlier version."""


@concealed
class Row(NamedTuple):
    """A row of a part."""

    key: bytes
    """Not empty."""
    number: int
    data: Any
    """Bytes, or int64 cells to write."""


@concealed
class Header(NamedTuple):
    """What is known of a part without its rows."""

    fields: Json
    """JSON."""
    rows: int
    """Their number."""
    total: int
    """The sum of their digests, which a changed row updates without reading the others."""


class Database:
    """A file in a transaction; see `opened`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def size(self) -> int:
        """Bytes of the file, with what the transaction added."""
        return _pragma(self._connection, "page_count") * _pragma(self._connection, "page_size")

    def header(self, part: str, expected: str | None = None) -> Header:
        """Return the header of a part; `WireFormatError` if it is missing, or its digest is not the expected one."""
        query = "SELECT key, number, data, digest FROM rows WHERE part = ? AND key = ?"
        record = self._connection.execute(query, (part, _HEADER)).fetchone()
        if record is None or (expected is not None and record[3] != bytes.fromhex(expected)):
            raise WireFormatError(part, f"is missing, or not the one that was written; {_BACKUP}")
        (_, count, data), _ = _checked(part, *record)
        if len(data) > (most := current_limits().max_header_bytes):
            raise WireFormatError("header", f"{len(data)} bytes, over the limit of {most}; raise max_header_bytes")
        try:
            fields, total = json.loads(data)
            if isinstance(fields, dict) and 0 <= count <= self.size:
                return Header(fields, count, int(total, 16))
        except (ValueError, TypeError, RecursionError):
            pass
        raise WireFormatError("header", "is not one that this library writes")

    def digest(self, part: str) -> str | None:
        """Return the digest that `write` returned for a part, without reading it; None if it is missing."""
        query = "SELECT digest FROM rows WHERE part = ? AND key = ?"
        record = self._connection.execute(query, (part, _HEADER)).fetchone()
        return None if record is None else record[0].hex()

    def rows(self, part: str) -> Iterator[Row]:
        """Yield the rows of a part; `WireFormatError` for a changed row, and after the last one if any is missing."""
        header = self.header(part)
        count, total = 0, 0
        query = "SELECT key, number, data, digest FROM rows WHERE part = ? AND key > x'' LIMIT ?"
        for record in self._connection.execute(query, (part, header.rows + 1)):
            row, digest = _checked(part, *record)
            count, total = count + 1, total + digest
            yield row
        if (count, total % _MODULUS) != header[1:]:
            raise WireFormatError("rows", f"of the {part} are not all as they were written; {_BACKUP}")

    def write(self, part: str, fields: Json, rows: Iterable[Row] = ()) -> str:
        """Write a part, replacing the one that is there; return a digest of the whole part, in hex."""
        left = set(self._connection.execute("SELECT key FROM rows WHERE part = ? AND key > x''", (part,)))

        def written() -> Iterator[Row]:
            for row in rows:
                left.discard((row.key,))
                yield row

        digest = self._write(part, Header(fields, 0, 0), written())  # in place if the old row has the same length
        self._connection.executemany("DELETE FROM rows WHERE part = ? AND key = ?", ((part, *key) for key in left))
        return digest

    def change(
        self, part: str, fields: Json, rows: Iterable[Row] = (), add: Callable[[Row, Row], Row] | None = None
    ) -> None:
        """Replace the header of a part, and add rows; ``add(old, new)`` combines two rows of one key."""
        self._write(part, self.header(part)._replace(fields=fields), rows, add)

    def _write(
        self, part: str, header: Header, rows: Iterable[Row], add: Callable[[Row, Row], Row] | None = None
    ) -> str:
        fields, count, total = header
        query = "SELECT key, number, data, digest FROM rows WHERE part = ? AND key = ?"
        for row in rows:
            record = self._connection.execute(query, (part, row.key)).fetchone() if add is not None else None
            if add is not None and record is not None:
                old, digest = _checked(part, *record)
                row, count, total = add(old, row), count - 1, total - digest  # noqa: PLW2901
            count, total = count + 1, total + int.from_bytes(self._put(part, row))
        data = json.dumps([fields, f"{total % _MODULUS:x}"], sort_keys=True, separators=(",", ":")).encode()
        return self._put(part, Row(_HEADER, count, data)).hex()

    def _put(self, part: str, row: Row) -> bytes:
        digest = _digest(part, *row)
        self._connection.execute(_PUT, (part, *row, digest))
        return digest

    def keep(self, parts: Iterable[str]) -> None:
        """Remove all parts but these."""
        present = {part for (part,) in self._connection.execute("SELECT part FROM rows WHERE key = x''")}
        for part in present.difference(parts):
            self._connection.execute("DELETE FROM rows WHERE part = ?", (part,))


def _checked(part: str, key: TableKey, number: Any, data: Any, digest: Any) -> tuple[Row, int]:
    """Return a row and its digest as an integer; `WireFormatError` if it was changed."""
    if (type(key), type(number), type(data)) != (bytes, int, bytes) or digest != _digest(part, key, number, data):
        raise WireFormatError("checksum", f"of the {part} does not match: the bytes were changed; {_BACKUP}")
    return Row(key, number, data), int.from_bytes(digest)


def _digest(part: str, key: bytes, number: int, data: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES, person=b"streamsketch.row")
    digest.update(f"{part} {number} {len(key)} ".encode() + key)
    digest.update(data)
    return digest.digest()


# --- files --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def opened(
    path: str | os.PathLike[str], kind: bytes, *, write: bool = False, max_bytes: int | None = None
) -> Iterator[Database]:
    """Open a file for one transaction, which is committed unless the block raises.

    A writer waits for other writers, as long as it takes. Readers see the file before or after a transaction.

    Parameters
    ----------
    path
        The file, or a symbolic link to it.
    kind
        Four bytes that identify files of this kind.
    write
        Whether the block changes it. Then no other process can change it until the block ends.
    max_bytes
        Largest size of a file that is read or written; by default `Limits.max_raw_bytes`.

    Raises
    ------
    NotSQLiteError
        If it is no SQLite file.
    WireFormatError
        If it is of another kind, longer than ``max_bytes``, or damaged.
    InvalidInputError
        If writing would make it longer than ``max_bytes``, or it is to be written and has several hard links.
    OSError
        If it cannot be read or written.
    """
    status, target = Path(path).stat(), Path(path).resolve()  # of a loop of links, the first is an OSError
    most = current_limits().max_raw_bytes if max_bytes is None else max_bytes
    check_length(status.st_size, most, "max_raw_bytes")
    if not stat.S_ISREG(status.st_mode):
        raise NotSQLiteError
    if write:
        check_one_name(path)
        if stat.S_IMODE(status.st_mode) & _OTHERS:  # a copy, perhaps; the journal gets the mode of the file
            with contextlib.suppress(PermissionError):  # it may be another's, and be written by a group
                target.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)
    with _connected(path, target) as connection:
        _patiently(connection, "PRAGMA synchronous = EXTRA")
        if write:
            _patiently(connection, f"PRAGMA cache_size = -{_CACHE}")
        _patiently(connection, "BEGIN IMMEDIATE" if write else "BEGIN")
        try:
            _patiently(connection, "PRAGMA schema_version")  # acquires a read lock
            _check_schema(connection, kind)
            yield (database := Database(connection))
            if write:
                _check_size(path, database, most)
            _patiently(connection, "COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def create(
    path: str | os.PathLike[str], kind: bytes, write: Callable[[Database], object], *, page_bytes: int = 1 << 12
) -> None:
    """Create a file atomically, replacing one of an earlier version; the caller holds `locked`.

    ``page_bytes`` is the size of what SQLite reads and writes at once. Larger pages take less time where rows are long.
    """
    check_one_name(path)
    remove_partial(path)
    with replacing(path, secret=True) as partial:
        with _connected(path, partial) as connection:
            # no journal and no flush: nobody sees the file before it is complete
            version, page = f"user_version = {_VERSION}", f"page_size = {page_bytes}"
            for pragma in (page, "journal_mode = OFF", "synchronous = OFF", version):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute(f"PRAGMA application_id = {int.from_bytes(kind)}")
            connection.execute("BEGIN")
            connection.execute(_SCHEMA)
            write(database := Database(connection))
            _check_size(path, database, current_limits().max_raw_bytes)
            connection.execute("COMMIT")
        Path(f"{Path(path).resolve()}-journal").unlink(missing_ok=True)  # of a file that was deleted without it


def check_one_name(path: str | os.PathLike[str]) -> None:
    """Raise `InvalidInputError` for a file with several names (hard links)."""
    if Path(path).exists() and Path(path).stat().st_nlink > 1:
        raise InvalidInputError(
            f"{path} is one of several names of one file (hard links), and what a crash interrupts is repaired under "
            f"the name that was written only. Keep one name, and make symbolic links for others"
        )


@contextlib.contextmanager
def _connected(named: str | os.PathLike[str], path: Path) -> Iterator[sqlite3.Connection]:
    """Connect to a file; translate SQLite's errors, of the file or the disk, into the library's own."""
    try:
        url = f"{path.as_uri()}?mode=rw"
        with contextlib.closing(sqlite3.connect(url, uri=True, timeout=_WAIT, isolation_level=None)) as connection:
            limit = max(_MOST_DATA, current_limits().max_header_bytes) + (1 << 16)
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limit)
            # temporary files would hold secrets
            for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "secure_delete = ON", "temp_store = MEMORY"):
                _patiently(connection, f"PRAGMA {pragma}")
            yield connection
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            raise NotSQLiteError from None
        if code in _ERRORS:
            raise OSError(_ERRORS[code], str(error), os.fspath(named)) from error
        if code == sqlite3.SQLITE_TOOBIG:
            raise WireFormatError("header", "is over the limit; raise max_header_bytes") from None
        raise WireFormatError("pages", f"are damaged; {_BACKUP}") from None
    except UnicodeDecodeError:  # SQLite's message about a damaged schema quotes it
        raise WireFormatError("pages", f"are damaged; {_BACKUP}") from None


def _patiently(connection: sqlite3.Connection, statement: str) -> None:
    """Run a statement, once other processes let go of the file: even a pragma may read its first page."""
    while True:
        try:
            connection.execute(statement).fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
        else:
            return


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _check_schema(connection: sqlite3.Connection, kind: bytes) -> None:
    """Raise `WireFormatError` unless a file is of this kind and holds what `create` makes: no triggers, no views."""
    if _pragma(connection, "application_id") != int.from_bytes(kind):
        raise WireFormatError("first page", "is of an SQLite file of another kind")
    if (version := _pragma(connection, "user_version")) != _VERSION:
        newer = WireFormatError("version", f"{version}, but this version of streamsketch reads {_VERSION}")
        raise with_reason(newer, "state_version")
    if connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 2").fetchall() != [(_SCHEMA,)]:
        raise WireFormatError("schema", "is not one that this library writes")


def _check_size(path: str | os.PathLike[str], database: Database, most: int) -> None:
    if database.size > most:
        raise InvalidInputError(
            f"{path} would take {database.size:,} bytes, and a raw file holds at most {most:,}: use fewer cells, or "
            f"split the events by key into several files"
        )
