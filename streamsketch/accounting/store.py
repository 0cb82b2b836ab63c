"""Where a ledger's entries are kept: one table that is only appended to, in an SQLite file or a database of a team."""

import contextlib
import datetime as dt
import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from streamsketch.errors import InvalidInputError, LedgerError

COLUMNS = "(number BIGINT PRIMARY KEY, previous TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL UNIQUE)"
PATIENCE = 60  # seconds that a writer waits for others

_CREATE = f"CREATE TABLE streamsketch_ledger {COLUMNS}"
_TABLES = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
_READ = "SELECT number, previous, body, hash FROM streamsketch_ledger WHERE number > ? ORDER BY number"
_ADD = "INSERT INTO streamsketch_ledger (number, previous, body, hash) VALUES (?, ?, ?, ?)"

Row = tuple[int, str, str, str]


class UnreachableLedgerError(InvalidInputError):
    """A ledger cannot be reached now: its server is down or a standby, or another writer holds it for long."""

    reason = "ledger_unreachable"


class Transaction(Protocol):
    """A view of the table that is locked against other writers until it ends."""

    def rows(self, after: int = 0) -> list[Row]:
        """Return the entries behind a number, in order."""

    def add(self, row: Row) -> None:
        """Append an entry; it is there for others once the transaction has ended."""

    def now(self) -> dt.datetime:
        """Return the time, UTC, by the clock of the machine that keeps the entries."""


class Store(Protocol):
    """Where entries are kept."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Return a transaction that excludes other writers, and keeps nothing if it ends by an exception."""


def check_row(row: Any) -> Row:
    """Return a row as it was read, once its cells are of the types that were written."""
    number, previous, body, digest = row
    if type(number) is not int or not all(isinstance(text, str) for text in (previous, body, digest)):
        raise LedgerError("the ledger holds a row that is not an entry: it was changed")
    return number, previous, body, digest


class FileStore:
    """A file, readable by the owner alone. A copy of the file is another ledger: keep one, and back it up."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Return a transaction that excludes other writers, and keeps nothing if it ends by an exception."""
        try:
            with contextlib.closing(sqlite3.connect(self._path, timeout=PATIENCE, isolation_level=None)) as connection:
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("PRAGMA synchronous = EXTRA")  # the end of the journal is on disk, too
                connection.execute("BEGIN IMMEDIATE")
                try:
                    self._find_table(connection)
                    yield FileTransaction(connection)
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise UnreachableLedgerError(
                    f"{self._path} has been held by another writer for {PATIENCE} s; end that one"
                ) from None
            raise InvalidInputError(f"{self._path} is not a ledger, or cannot be written: {error}") from None
        except UnicodeDecodeError:  # of what SQLite says about a damaged schema, which it quotes
            raise InvalidInputError(
                f"{self._path} is not a valid ledger: it is damaged. Restore it from a backup"
            ) from None

    def _find_table(self, connection: sqlite3.Connection) -> None:
        """Make the table in a new file; refuse a database that holds anything else, triggers included."""
        found = [text for (text,) in connection.execute(_TABLES)]
        if not found:
            connection.execute(_CREATE)
        elif found != [_CREATE]:
            raise InvalidInputError(f"{self._path} is not a ledger: it is a database of another program")


class FileTransaction:
    """A transaction on the file of a ledger."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, after: int = 0) -> list[Row]:
        """Return the entries behind a number, in order."""
        return [check_row(row) for row in self._connection.execute(_READ, (after,))]

    def add(self, row: Row) -> None:
        """Append an entry."""
        self._connection.execute(_ADD, row)

    def now(self) -> dt.datetime:
        """Return this machine's time, UTC."""
        return dt.datetime.now(dt.UTC)
