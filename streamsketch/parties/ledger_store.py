"""Where a ledger's entries are kept: a table that is only appended to, in an SQLite file."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from streamsketch.errors import InvalidInputError

_CREATE = (
    "CREATE TABLE IF NOT EXISTS streamsketch_ledger (number BIGINT PRIMARY KEY, previous TEXT NOT NULL, "
    "body TEXT NOT NULL, hash TEXT NOT NULL UNIQUE)"
)
_READ = "SELECT number, previous, body, hash FROM streamsketch_ledger WHERE number > ? ORDER BY number"
_ADD = "INSERT INTO streamsketch_ledger (number, previous, body, hash) VALUES (?, ?, ?, ?)"
_PATIENCE = 60.0  # seconds that a writer waits for others

Row = tuple[int, str, str, str]


class Transaction:
    """A view of the table in which nobody else writes until it ends."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, after: int = 0) -> list[Row]:
        """Return the entries behind a number, in order."""
        found = self._connection.execute(_READ, (after,)).fetchall()
        return [(int(number), str(previous), str(body), str(digest)) for number, previous, body, digest in found]

    def add(self, row: Row) -> None:
        """Append an entry; it is there for others once the transaction has ended."""
        self._connection.execute(_ADD, row)


class Store:
    """A file, readable by the owner alone. A copy of the file is another ledger: keep one, and back it up."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with self.transaction():
            pass

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Return a transaction that excludes other writers, and keeps nothing if it ends by an exception."""
        try:
            connection = sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None)
        except sqlite3.Error as error:
            raise InvalidInputError(f"{self._path} cannot be opened as a ledger: {error}") from None
        try:
            try:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_CREATE)
            except sqlite3.DatabaseError as error:
                raise InvalidInputError(f"{self._path} is no ledger, or is locked: {error}") from None
            try:
                yield Transaction(connection)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        finally:
            connection.close()
