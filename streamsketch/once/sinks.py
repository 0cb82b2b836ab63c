"""Sinks with one slot for each key and window, which is filled once, however often and by whomever it is written."""

import contextlib
import importlib
import os
import pickle
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from streamsketch.core.files import create_file, sweep_earlier, write_new
from streamsketch.data.calendar import EventWindows
from streamsketch.errors import InvalidInputError
from streamsketch.once.databases import connection
from streamsketch.once.slots import VERSION, Slot

_PUBLIC = 0o644  # for releases, which readers of other accounts may read
_VERSIONS = "_versions"  # the end of the name of a table of claims
_LONGEST_TABLE = 63 - len(_VERSIONS)  # PostgreSQL cuts longer names
_SLOT = "stream, window_start, kind, key"
_ONCE = f"ON CONFLICT ({_SLOT}) DO NOTHING"  # an error where no key or index lets the table hold a slot once
_PATIENCE = (0.1, 0.3, 1.0, 3.0)  # seconds between attempts at an object that another writer is putting


class Sink:
    """The place where releases of a stream are published. Each has a slot, which is filled once.

    Extend it for a sink of your own. Besides a slot for each key, every window has one of kind ``version``, which is
    filled first. It holds the claim of the window for one version of its rows, some 120 bytes that reveal nothing, and
    no release: keep it where readers of releases do not look for these. `get` should return what slots hold, as all
    sinks of the library do. Then a window that was claimed for another version is neither charged nor drawn.

    A sink is opened before it is written to, and is a context manager that opens and
    closes itself. Copies that are pickled are not open.

    Examples
    --------
    >>> from streamsketch.streams import FileSink, Slot
    >>> with FileSink(getfixture("tmp_path")) as sink:
    ...     first = sink.put(Slot("flights", 0, "text", "AA"), b"a release")
    ...     again = sink.put(Slot("flights", 0, "text", "AA"), b"another")
    >>> first, again
    (None, b'a release')
    """

    result = "release"
    """The name of the slots' content in alarms: the suffix of a file, or the name of a table."""

    def open(self) -> None:
        """Connect."""

    def close(self) -> None:
        """Disconnect; without a connection do nothing."""

    @abstractmethod
    def put(self, slot: Slot, content: bytes) -> bytes | None:
        """Fill a slot if it is empty, atomically.

        Parameters
        ----------
        slot
            The slot.
        content
            The bytes for the slot.

        Returns
        -------
        bytes or None
            None if the slot was empty and now holds the content. Otherwise the bytes that it holds.
        """

    def put_all(self, contents: Sequence[tuple[Slot, bytes]]) -> list[bytes | None]:
        """Fill slots in this order, and return what `put` returns for each; a sink may do so in one write.

        If it fails, the slots before some place are filled, or none is: the same call then continues.
        """
        return [self.put(slot, content) for slot, content in contents]

    def get(self, slot: Slot) -> bytes | None:
        """Return the bytes in a slot; None if it is empty, or if the sink cannot find out, as here."""
        del slot
        return None

    def name(self, slot: Slot) -> str:
        """Return the name of a slot's place, for people."""
        return str(slot)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileSink(Sink):
    """Files that are created once: ``FOLDER/STREAM/2013-01-01T05-00-00Z/KEY.sketch``, by any number of writers.

    A file appears whole or not at all. Its name is that of `Slot.file`. The claim of a window's version is
    ``=sketch.version`` beside them, for files that end with ``.sketch``.

    A release that is not published yet is not in the folder: it is written to ``.NAME.unfinished.UID`` beside the
    folder, with mode 0700, and is for its owner alone until it gets its name. That folder is gone after each write.
    What a killed process left there is removed by the next. If it cannot be made there, as beside the root of a mounted
    file system, it is in the folder. So serve the folder and not the one above it, and do not copy hidden names.

    Parameters
    ----------
    folder
        A folder on a local or mounted file system with hard links. It is made if it does not exist.
    suffix
        End of the files' names.

    Examples
    --------
    >>> from streamsketch.streams import Slot
    >>> sink, slot = FileSink(getfixture("tmp_path")), Slot("flights", 0, "text", "AA")
    >>> with sink:
    ...     print(sink.put(slot, b"first"), sink.put(slot, b"second"))
    None b'first'
    """

    def __init__(self, folder: str | os.PathLike[str], suffix: str = "sketch") -> None:
        self.folder, self.result = os.fspath(folder), suffix

    def path(self, slot: Slot) -> Path:
        """Return the file of a slot."""
        return Path(self.folder, slot.stream, slot.window, _name(slot, self.result))

    def put(self, slot: Slot, content: bytes) -> bytes | None:
        """Create the file of a slot, unless it is there; see `Sink.put`.

        Raises
        ------
        InvalidInputError
            If the file system takes the name for that of another slot, which differs in capital letters.
        OSError
            If the file cannot be written or read.
        """
        path = self.path(slot)
        if slot.kind == VERSION:
            sweep_earlier(path.parent)
        if create_file(path, content, mode=_PUBLIC, published=Path(self.folder)):
            return None
        held, name = path.read_bytes(), _name(slot, self.result)
        if held != content and name not in os.listdir(path.parent):  # noqa: PTH208 - paths of Windows are equal then
            raise InvalidInputError(
                f"the file system of {self.folder} takes the name {name} for another file, which differs in capital "
                "letters, so two keys would share a file: release into a folder where such names differ, or into a "
                "database"
            )
        return held

    def get(self, slot: Slot) -> bytes | None:
        """Return what the file of a slot holds; see `Sink.get`."""
        return _content(self.path(slot))

    def name(self, slot: Slot) -> str:
        """Return the path of a slot's file."""
        return str(self.path(slot))


class WindowFiles(Sink):
    """Files of whole windows that are created once: ``FOLDER/2013-01-01T05-00Z.parquet``, by one writer at a time.

    A file shows when its window ends, and not when it was written.

    Parameters
    ----------
    folder
        Where they are.
    windows
        The windows, which name them.
    suffix
        End of their names.
    """

    def __init__(self, folder: str | os.PathLike[str], windows: EventWindows, suffix: str) -> None:
        self._folder, self._windows, self.result = Path(folder), windows, suffix

    def path(self, slot: Slot) -> Path:
        """Return the file of a window."""
        return self._folder / f"{self._windows.name(self._windows.number(slot.start))}.{self.result}"

    def put(self, slot: Slot, content: bytes) -> bytes | None:
        """Create the file of a window; see `Sink.put`."""
        path, end = self.path(slot), self._windows.start(self._windows.number(slot.start) + 1)
        is_new = write_new(path, content, modified=end / 10**6, published=self._folder)
        return None if is_new else path.read_bytes()

    def get(self, slot: Slot) -> bytes | None:
        """Return what the file of a window holds; see `Sink.get`."""
        return _content(self.path(slot))

    def name(self, slot: Slot) -> str:
        """Return the name of a window's file."""
        return self.path(slot).name


class DatabaseSink(Sink):
    """Rows of an SQL table, of SQLite or PostgreSQL, that ``INSERT … ON CONFLICT DO NOTHING`` adds.

    Once a window is claimed, its rows are added in one transaction.

    If the server has closed the connection, the sink connects once more. The table is created if it does not exist::

        stream TEXT, window_start BIGINT (microseconds), kind TEXT, key TEXT, release BLOB or BYTEA,
        PRIMARY KEY (stream, window_start, kind, key)

    The claims of windows' versions are in a table of the same columns, whose name ends with ``_versions``.

    Parameters
    ----------
    connect
        Function without arguments that opens a DB-API 2 connection. Read the password there: the function may be
        pickled. For SQLite, let it execute ``PRAGMA synchronous = EXTRA``, or a power failure may undo the last row.
    table
        Name of the table, of at most 54 characters.

    Raises
    ------
    InvalidInputError
        If the table's name is longer, or has characters other than letters, digits and ``_``.

    Examples
    --------
    >>> import functools, sqlite3
    >>> from streamsketch.streams import DatabaseSink, Slot
    >>> with DatabaseSink(functools.partial(sqlite3.connect, getfixture("tmp_path") / "releases.sqlite")) as sink:
    ...     first = sink.put(Slot("flights", 0, "integer", "7"), b"a release")
    ...     again = sink.put(Slot("flights", 0, "integer", "7"), b"another")
    >>> first, again
    (None, b'a release')
    """

    _MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s"}  # noqa: RUF012 - never changed

    def __init__(self, connect: Callable[[], Any], table: str = "releases") -> None:
        if not (table.isascii() and table.isidentifier()):
            raise InvalidInputError(f"table must be letters, digits and '_', got {table!r:.80}")
        if len(table) > _LONGEST_TABLE:
            raise InvalidInputError(f"table must have at most {_LONGEST_TABLE} characters, got {len(table)}")
        self._connect, self.result = connect, table
        self._connection: Any = None
        self._mark = ""

    def __getstate__(self) -> dict[str, Any]:
        return {"connect": self._dumps(self._connect), "table": self.result}

    def __setstate__(self, state: dict[str, Any]) -> None:
        DatabaseSink.__init__(self, self._loads(state["connect"]), state["table"])

    # where an engine brings a pickler that takes local functions, its sink uses that
    _dumps = staticmethod(pickle.dumps)
    _loads = staticmethod(pickle.loads)

    def open(self) -> None:
        """Connect, and make the table if there is none.

        Raises
        ------
        InvalidInputError
            If the driver's parameter style is not that of SQLite or PostgreSQL, or a table that is there may hold a
            slot twice.
        """
        self._connection = self._connect()
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        driver = _driver_of(self._connection)
        if driver.paramstyle not in self._MARKS:
            raise InvalidInputError(
                f"the driver's paramstyle {driver.paramstyle!r} is not supported; use a driver with {list(self._MARKS)}"
            )
        self._mark = self._MARKS[driver.paramstyle]
        bytes_type = "BLOB" if driver.__name__ == "sqlite3" else "BYTEA"
        for table in (self.result, self.result + _VERSIONS):
            create = (
                f"CREATE TABLE IF NOT EXISTS {table} (stream TEXT, window_start BIGINT, kind TEXT, key TEXT, "
                f"release {bytes_type} NOT NULL, PRIMARY KEY ({_SLOT}))"
            )
            self._run((create,))
            self._check_slots(table)

    def _check_slots(self, table: str) -> None:
        """Raise `InvalidInputError` if a table that was there takes a slot twice, by a plan that runs nothing."""
        nothing = f"SELECT {_SLOT}, release FROM {table} WHERE 1 = 0"  # noqa: S608 - a checked name
        try:
            self._run((f"EXPLAIN INSERT INTO {table} ({_SLOT}, release) {nothing} {_ONCE}",))
        except Exception as error:
            if "ON CONFLICT" not in str(error):
                raise
            raise InvalidInputError(
                f"the table {table} may hold several rows of one slot, so a window could be published twice; give it "
                f"PRIMARY KEY ({_SLOT}), or name another table"
            ) from error

    def _table(self, slot: Slot) -> str:
        return self.result + _VERSIONS if slot.kind == VERSION else self.result

    def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def put(self, slot: Slot, content: bytes) -> bytes | None:
        """Insert the row of a slot, unless it is there; see `Sink.put`.

        Other errors are those of the driver. Nothing is inserted then.

        Raises
        ------
        InvalidInputError
            If the table neither takes the row nor shows one.
        """
        return self.put_all([(slot, content)])[0]

    def put_all(self, contents: Sequence[tuple[Slot, bytes]]) -> list[bytes | None]:
        """Insert the rows of slots in one transaction; see `Sink.put_all`. Errors are as in `put`."""
        marks = ", ".join([self._mark] * 5)
        insert = f"INSERT INTO {{}} ({_SLOT}, release) VALUES (" + marks + f") {_ONCE}"  # noqa: S608 - of checked names
        cursors = self._run(*((insert.format(self._table(slot)), *slot, content) for slot, content in contents))
        counts = [cursor.rowcount for cursor in cursors]
        return [None if count == 1 else self._held(slot) for count, (slot, _) in zip(counts, contents, strict=True)]

    def _held(self, slot: Slot) -> bytes:
        """Return what the row holds that kept another one out: none that is hidden is taken for an empty slot."""
        held = self.get(slot)
        if held is None:
            raise InvalidInputError(
                f"the table {self._table(slot)} neither takes the row of {slot} nor shows one, so it is not known what "
                "is published: a trigger, a rule or a policy of rows keeps it out or hides it, or it was just deleted. "
                "Let this user insert and select all rows of the table"
            )
        return held

    def get(self, slot: Slot) -> bytes | None:
        """Return what the row of a slot holds; see `Sink.get`."""
        where = " AND ".join(f"{name} = {self._mark}" for name in ("stream", "window_start", "kind", "key"))
        select = f"SELECT release FROM {self._table(slot)} WHERE {where}"  # noqa: S608 - as above
        row = self._run((select, *slot))[0].fetchone()
        return None if row is None else bytes(row[0])

    def _run(self, *statements: tuple[object, ...]) -> list[Any]:
        """Run statements with their values in one transaction, on a new connection if this was lost: perhaps twice.

        Returns
        -------
        list
            The cursor of each.
        """
        try:
            return self._try(statements)
        except Exception:
            if not getattr(self._connection, "closed", False):  # SQLite's connections are never lost
                raise
        self._connection = self._connect()
        return self._try(statements)

    def _try(self, statements: Sequence[tuple[object, ...]]) -> list[Any]:
        cursors = [self._connection.cursor() for _ in statements]
        try:
            for cursor, (statement, *values) in zip(cursors, statements, strict=True):
                cursor.execute(statement, tuple(values))
            self._connection.commit()
        except BaseException:
            with contextlib.suppress(Exception):  # a connection that is lost cannot, and has nothing to
                self._connection.rollback()
            raise
        return cursors


class NamedObjects(Sink):
    """Objects of a store by name, each of which is put once: ``PREFIX/STREAM/2013-01-01T05-00-00Z/KEY.sketch``.

    Extend it for a store. It creates an object only if there is none (`create`), and reads it (`read`).

    Parameters
    ----------
    prefix, suffix
        Beginning and end of all names.
    """

    def __init__(self, prefix: str, suffix: str) -> None:
        self._prefix, self.result = prefix.strip("/"), suffix

    @abstractmethod
    def create(self, name: str, content: bytes) -> bool:
        """Put an object in one step unless there is one; return whether there was none."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Return an object's content; None if there is no object."""

    def name(self, slot: Slot) -> str:
        """Return the name of a slot's object."""
        return self._named(slot.stream, slot.window, _name(slot, self.result))

    def _named(self, *parts: str) -> str:
        return "/".join(part for part in (self._prefix, *parts) if part)

    def put(self, slot: Slot, content: bytes) -> bytes | None:
        """Put the object of a slot, if there is none; see `Sink.put`. Errors are those of the store."""
        for patience in _PATIENCE:
            if self.create(self.name(slot), content):
                return None
            if (held := self.get(slot)) is not None:
                return held
            time.sleep(patience)  # another put of it is not complete
        raise OSError(
            f"{self.name(slot)} cannot be read or written, because another writer has not finished; try again"
        )

    def get(self, slot: Slot) -> bytes | None:
        """Return what the object of a slot holds; see `Sink.get`."""
        return self.read(self.name(slot))


class ObjectSink(NamedObjects):
    """Objects in S3, Google Cloud Storage, Azure and similar stores, written by conditional puts.

    Their names are ``PREFIX/STREAM/2013-01-01T05-00-00Z/KEY.sketch``, as those of `FileSink`. Needs the extra
    ``objects``.

    Parameters
    ----------
    store
        A store of `obstore.store`, such as ``S3Store("bucket", region="eu-central-1")`` or ``from_url("gs://bucket")``.
    prefix
        Beginning of all names.
    suffix
        End of the names.

    Examples
    --------
    >>> import pytest
    >>> stores = pytest.importorskip("obstore.store")
    >>> from streamsketch.streams import ObjectSink, Slot
    >>> with ObjectSink(stores.MemoryStore(), "releases") as sink:
    ...     first = sink.put(Slot("flights", 0, "text", "AA"), b"a release")
    ...     again = sink.put(Slot("flights", 0, "text", "AA"), b"another")
    >>> first, again
    (None, b'a release')
    """

    def __init__(self, store: object, prefix: str = "", suffix: str = "sketch") -> None:
        super().__init__(prefix, suffix)
        self._store = store

    def open(self) -> None:
        """Check with an object ``PREFIX/.streamsketch`` that the store refuses a second put.

        Raises
        ------
        InvalidInputError
            If the store has no conditional puts, or replaces an object nevertheless, as some stores with S3's protocol
            do. Nothing of the stream is written then.
        ImportError
            Without the extra ``objects``.
        """
        probe = self._named(".streamsketch")
        try:
            refuses = not self.create(probe, b"streamsketch\n") or not self.create(probe, b"streamsketch\n")
        except (NotImplementedError, importlib.import_module("obstore.exceptions").NotSupportedError):
            refuses = False
        if not refuses:
            raise InvalidInputError(
                "the store replaces existing objects, so a window could be published twice; use one with conditional "
                f"puts (If-None-Match), got {type(self._store).__name__}"
            )

    def read(self, name: str) -> bytes | None:
        """Return an object's content; see `NamedObjects.read`."""
        try:
            return bytes(importlib.import_module("obstore").get(self._store, name).bytes())
        except FileNotFoundError:
            return None

    def create(self, name: str, content: bytes) -> bool:
        """Return whether an object was not there; a put whose answer was lost is tried again, and then it was."""
        obstore, exceptions = (importlib.import_module(module) for module in ("obstore", "obstore.exceptions"))
        try:
            obstore.put(self._store, name, content, mode="create", use_multipart=False)
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
            return False
        return True


def sink_in(place: str) -> Sink:
    """Return the sink that a text names.

    Parameters
    ----------
    place
        A folder; ``sqlite:PATH``, or ``postgresql`` with libpq's environment variables; or the URL of a place in an
        object store, such as ``s3://bucket/releases``, whose region and credentials are in the environment as obstore
        reads it (``AWS_REGION``, ``AWS_ACCESS_KEY_ID``, …).

    Raises
    ------
    InvalidInputError
        If the URL is of an unknown store.
    ImportError
        For an object store, without the extra ``objects``.

    Examples
    --------
    >>> sink_in("releases").name(Slot("flights", 0, "text", "AA"))
    'releases/flights/1970-01-01T00-00-00Z/AA.sketch'
    """
    if place == "postgresql" or place.startswith("sqlite:"):
        return DatabaseSink(connection(place))
    if "://" not in place:
        return FileSink(place)
    stores, exceptions = (importlib.import_module(module) for module in ("obstore.store", "obstore.exceptions"))
    try:
        return ObjectSink(stores.from_url(place))
    except (exceptions.BaseError, ValueError) as error:
        raise InvalidInputError(f"{place} is not a valid place in an object store: {error}") from None


def _driver_of(connection: Any) -> Any:
    """Return the module of the driver of a connection, which may be of a class of the user's that extends its own."""
    for kind in type(connection).__mro__:
        driver = importlib.import_module(kind.__module__.partition(".")[0])
        if hasattr(driver, "paramstyle"):
            return driver
    name = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise InvalidInputError(f"connect must return a connection of a driver of Python's DB-API, got {name}")


def _name(slot: Slot, suffix: str) -> str:
    """Return the name of a slot's file; that of a window's claim does not end as those of releases do."""
    return f"={suffix}.{VERSION}" if slot.kind == VERSION else f"{slot.file}.{suffix}"


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
