"""A ledger of a team: the table of entries in a PostgreSQL database."""

import contextlib
import datetime as dt
import functools
from collections.abc import Iterator

from streamsketch.accounting.store import COLUMNS, PATIENCE, Row, Transaction, UnreachableLedgerError, check_row
from streamsketch.errors import InvalidInputError

try:
    import sqlalchemy
    from sqlalchemy.exc import InterfaceError, InternalError, OperationalError, SQLAlchemyError
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "a ledger in a database needs SQLAlchemy and psycopg (the extra `postgres` of streamsketch)"
    ) from None

_LOCK = int.from_bytes(b"ssledger")  # what writers wait for; unlike the table's own lock, it takes no more than INSERT
_BEGIN = (
    f"SET LOCAL lock_timeout = '{PATIENCE}s'",
    "SET LOCAL synchronous_commit = on",  # a charge is on disk before anything is released
    f"SELECT pg_advisory_xact_lock({_LOCK})",
)
_FIND = sqlalchemy.text("SELECT to_regclass('streamsketch_ledger')")
_CREATE = sqlalchemy.text(f"CREATE TABLE streamsketch_ledger {COLUMNS}")
_NOW = sqlalchemy.text("SELECT clock_timestamp()")
_READ = sqlalchemy.text(
    "SELECT number, previous, body, hash FROM streamsketch_ledger WHERE number > :after ORDER BY number"
)
_ADD = sqlalchemy.text(
    "INSERT INTO streamsketch_ledger (number, previous, body, hash) VALUES (:number, :previous, :body, :hash)"
)


class DatabaseStore:
    """A table in the first schema of the search path. Its users need SELECT and INSERT; grant no more."""

    def __init__(self, address: str) -> None:
        self._address = address  # and no engine: a store may be pickled

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Return a transaction that excludes other writers, and keeps nothing if it ends by an exception."""
        try:
            with _engine(self._address).begin() as connection:
                for statement in _BEGIN:
                    connection.execute(sqlalchemy.text(statement))
                if connection.scalar(_FIND) is None:
                    connection.execute(_CREATE)
                yield _DatabaseTransaction(connection)
        except SQLAlchemyError as error:
            cause = " ".join(str(getattr(error, "orig", None) or error).split())
            # down, too busy, or a standby, which is read-only
            away = isinstance(error, OperationalError | InterfaceError | InternalError)
            kind = UnreachableLedgerError if away else InvalidInputError
            raise kind(f"{_shown(self._address)} cannot be used as a ledger: {cause}") from None


class _DatabaseTransaction:
    def __init__(self, connection: sqlalchemy.Connection) -> None:
        self._connection = connection

    def rows(self, after: int = 0) -> list[Row]:
        """Return the entries behind a number, in order."""
        return [check_row(row) for row in self._connection.execute(_READ, {"after": after})]

    def add(self, row: Row) -> None:
        """Append an entry."""
        self._connection.execute(_ADD, dict(zip(("number", "previous", "body", "hash"), row, strict=True)))

    def now(self) -> dt.datetime:
        """Return the server's time, UTC: a team's machines may have other clocks."""
        time: dt.datetime = self._connection.execute(_NOW).scalar_one()
        return time.astimezone(dt.UTC)


@functools.cache
def _engine(address: str) -> sqlalchemy.Engine:
    url = sqlalchemy.make_url(address)
    if url.get_backend_name() != "postgresql":
        raise InvalidInputError(f"a ledger's database is PostgreSQL, postgresql+psycopg://…, got {_shown(address)}")
    try:
        # a connection for each transaction: those of a pool would be shared with processes that are forked
        return sqlalchemy.create_engine(
            url, poolclass=sqlalchemy.NullPool, isolation_level="READ COMMITTED", hide_parameters=True
        )
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            f"there is no driver for {_shown(address)}: {error}. Use postgresql+psycopg://…, which needs "
            f"psycopg (the extra `postgres` of streamsketch)"
        ) from None


def _shown(address: str) -> str:
    """Return an address without its password, and without options, which may hold one too."""
    try:
        return sqlalchemy.make_url(address).set(query={}).render_as_string(hide_password=True)
    except SQLAlchemyError:
        return "this address"
