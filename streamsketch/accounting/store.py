"""Where a ledger's entries are kept: one table that is only appended to, in an SQLite file or a database of a team."""

import contextlib
import datetime as dt
import os
import sqlite3
from collections.abc import Callable, Iterator
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


class DamagedLedgerError(LedgerError):
    """Entries of a ledger were changed, removed or put in another order: what is left of its budgets is not known."""

    reason = "ledger_damaged"


class LostEntriesError(DamagedLedgerError):
    """Entries that this process read or wrote are gone: an older copy was restored, or a standby lacks the newest ones.

    Only this process knows of them. Were it to end, the next one would spend their budget again: it waits for them.
    """

    reason = "ledger_lost"


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
        raise DamagedLedgerError("the ledger holds a row that is not an entry: it was changed")
    return number, previous, body, digest


class FollowedStore:
    """A store that does not go back: what was read or written through it is there in every later transaction.

    An older copy that was restored, an empty file in its place, or a standby that took over without the newest entries
    are refused. A charge that is gone could be spent again, and the next entry would follow one that is not there.

    Parameters
    ----------
    store
        Where entries are kept.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._newest: tuple[int, str] | None = None  # number and hash

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Return a transaction that excludes other writers, and keeps nothing if it ends by an exception."""
        with self._store.transaction() as transaction:
            self._check(transaction)
            followed = _FollowedTransaction(transaction, self._follow)
            yield followed
        if followed.added is not None:  # only now is it sure that it is kept
            self._follow(followed.added)

    def _check(self, transaction: Transaction) -> None:
        if self._newest is None:
            return
        number, digest = self._newest
        rows = transaction.rows(number - 1)
        if not rows or (rows[0][0], rows[0][3]) != (number, digest):
            change = "is another one now" if rows else "is gone"
            raise LostEntriesError(
                f"entry {number}, which was read or written before, {change}: an older copy was restored, or another "
                "ledger is in its place. Restore the newest copy. Only if it is lost, open the ledger again, and "
                "charge what was released since"
            )

    def _follow(self, row: Row) -> None:
        if self._newest is None or self._newest[0] < row[0]:  # of two threads, either may come first
            self._newest = row[0], row[3]


class _FollowedTransaction:
    """A transaction that tells which entries are read: they are kept, whatever becomes of it."""

    def __init__(self, transaction: Transaction, follow: Callable[[Row], None]) -> None:
        self._transaction, self._follow = transaction, follow
        self.added: Row | None = None

    def rows(self, after: int = 0) -> list[Row]:
        """Return the entries behind a number, in order."""
        rows = self._transaction.rows(after)
        if rows and self.added is None:
            self._follow(rows[-1])
        return rows

    def add(self, row: Row) -> None:
        """Append an entry."""
        self._transaction.add(row)
        self.added = row

    def now(self) -> dt.datetime:
        """Return the time, UTC, by the clock of the machine that keeps the entries."""
        return self._transaction.now()


class FileStore:
    """A file, readable by the owner alone. A copy of the file is another ledger: keep one, and back it up."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # never made by SQLite, for all to read, where it is gone; and the same file in every working directory
        self._address = f"{path.absolute().as_uri()}?mode=rw"
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Return a transaction that excludes other writers, and keeps nothing if it ends by an exception."""
        try:
            opened = sqlite3.connect(self._address, timeout=PATIENCE, isolation_level=None, uri=True)
            with contextlib.closing(opened) as connection:
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
            if not self._path.exists():
                raise LostEntriesError(
                    f"the ledger {self._path} is gone. Restore its newest copy. Only if it is lost, open a new ledger, "
                    "and charge what was released before"
                ) from None
            raise InvalidInputError(f"{self._path} is not a ledger, or cannot be written: {error}") from None
        except UnicodeDecodeError:  # of what SQLite says about a damaged schema, which it quotes
            raise InvalidInputError(
                f"{self._path} is not a valid ledger: it is damaged. Restore it from a backup"
            ) from None

    def _find_table(self, connection: sqlite3.Connection) -> None:
        """Make the table in a new file; refuse a database that holds anything else, triggers included."""
        statements = [text for (text,) in connection.execute(_TABLES)]
        if not statements:
            connection.execute(_CREATE)
        elif statements != [_CREATE]:
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
