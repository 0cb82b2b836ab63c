"""Wait for sinks and ledgers that cannot be reached, as a stream waits for its brokers."""

import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from streamsketch.accounting.store import LostEntriesError, UnreachableLedgerError
from streamsketch.errors import StreamsketchError
from streamsketch.once.logs import log_event
from streamsketch.once.sinks import DatabaseSink, NamedObjects, Sink
from streamsketch.once.slots import Slot

_LOG = logging.getLogger(__name__)
_SLICE = 0.1  # seconds between two looks whether to stop
_DRIVERS = frozenset({"psycopg", "psycopg_pool", "psycopg2", "pg8000", "sqlalchemy", "sqlite3", "obstore"})
# what another attempt does not change: of the statement, the table or the rights of its user
_LASTING = frozenset({"ProgrammingError", "DataError", "NotSupportedError", "IntegrityError", "InvalidPathError"})

Result = TypeVar("Result")
Away: TypeAlias = Literal["sink", "ledger"]


class UnreachableSinkError(StreamsketchError):
    """A sink cannot be reached, or refuses what a stream asks of it."""

    reason = "sink_unreachable"


def is_foreign(error: BaseException) -> bool:
    """Return whether an error is of a driver, of an object store or of a connection, and not of this library."""
    if isinstance(error, StreamsketchError | ImportError):
        return False
    return isinstance(error, OSError) or any(kind.__module__.split(".")[0] in _DRIVERS for kind in type(error).__mro__)


def is_away(error: BaseException) -> bool:
    """Return whether another attempt may succeed: the other end is down, full, locked, a standby, or refuses a login.

    So it is where a ledger lost entries: its newest copy may be restored.

    Examples
    --------
    >>> import sqlite3
    >>> is_away(ConnectionRefusedError()), is_away(sqlite3.OperationalError("database is locked"))
    (True, True)
    >>> is_away(sqlite3.ProgrammingError()), is_away(ValueError())
    (False, False)
    """
    if isinstance(error, UnreachableLedgerError | LostEntriesError):
        return True
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorname", "SQLITE_BUSY")
        return isinstance(error, sqlite3.OperationalError) and code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
    return is_foreign(error) and not any(kind.__name__ in _LASTING for kind in type(error).__mro__)


class Waiting:
    """Try again until a sink or a ledger answers, or until asked to stop.

    The first failure and the end of the wait are logged: ``sink_unreachable`` and ``sink_reached``, or the same of the
    ledger. The wait doubles from ``first`` seconds to ``longest``.

    Parameters
    ----------
    first, longest
        Seconds between two attempts.
    sleep
        Function that waits so many seconds; for tests.

    Examples
    --------
    >>> answers = iter([ConnectionRefusedError(), ConnectionResetError(), 7])
    >>> def ask():
    ...     answer = next(answers)
    ...     if isinstance(answer, Exception):
    ...         raise answer
    ...     return answer
    >>> Waiting(sleep=lambda seconds: None).until("sink", ask)
    7
    """

    def __init__(self, first: float = 0.5, longest: float = 30.0, sleep: Callable[[float], Any] = time.sleep) -> None:
        self._first, self._longest, self._sleep = first, longest, sleep
        self.stop: Callable[[], bool] = lambda: False
        """Whether to give up, such as after a signal."""

    def until(self, what: Away, attempt: Callable[[], Result]) -> Result:
        """Return what an attempt returns at last.

        Raises
        ------
        StreamsketchError
            If it is to stop, or the failure is a lasting one of a driver. Other errors of the attempt are raised as
            they are.
        """
        wait, failed = self._first, False
        while True:
            try:
                result = attempt()
            except Exception as error:
                if not is_away(error) or self.stop():
                    if what == "sink" and is_foreign(error):
                        raise _unusable(error) from error
                    raise
                if not failed:
                    text = f"{described(error)}; trying again"
                    log_event(_LOG, logging.WARNING, f"{what}_unreachable", error=type(error).__name__, text=text)
                failed = True
            else:
                if failed:
                    log_event(_LOG, logging.INFO, f"{what}_reached", text=f"the {what} answers again")
                return result
            slept = 0.0
            while slept < wait and not self.stop():
                self._sleep(min(_SLICE, wait - slept))
                slept += _SLICE
            wait = min(2 * wait, self._longest)


def _unusable(error: Exception) -> UnreachableSinkError:
    return UnreachableSinkError(f"the sink cannot be used: {described(error)}")


def described(error: BaseException) -> str:
    """Return the kind and the text of an error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text:.300}" if text else type(error).__name__


class WaitingSink(Sink):
    """A sink that waits until the database or the store of another one answers.

    A connection that failed is closed, and opened once more before the next attempt. So it finds the primary after a
    failover. A put whose answer was lost is tried again, and then finds its own bytes.

    Parameters
    ----------
    sink
        The other sink.
    waiting
        How it waits.
    """

    def __init__(self, sink: Sink, waiting: Waiting) -> None:
        self._sink, self._waiting, self._is_open = sink, waiting, False
        self.result = sink.result

    def open(self) -> None:
        """Connect; if that fails at once, the stream does not begin.

        Raises
        ------
        UnreachableSinkError
            If the database or the store does not answer, or refuses.
        """
        try:
            self._sink.open()
        except Exception as error:
            if not is_foreign(error):
                raise
            raise _unusable(error) from error
        self._is_open = True

    def close(self) -> None:
        """Disconnect."""
        self._is_open = False
        with contextlib.suppress(Exception):  # what is lost cannot be closed
            self._sink.close()

    def put(self, slot: Slot, content: bytes) -> bytes | None:
        """Fill a slot; see `Sink.put`."""
        return self._waiting.until("sink", lambda: self._tried(lambda: self._sink.put(slot, content)))

    def put_all(self, contents: Sequence[tuple[Slot, bytes]]) -> list[bytes | None]:
        """Fill slots; see `Sink.put_all`."""
        return self._waiting.until("sink", lambda: self._tried(lambda: self._sink.put_all(contents)))

    def get(self, slot: Slot) -> bytes | None:
        """Return what is in a slot; see `Sink.get`."""
        return self._waiting.until("sink", lambda: self._tried(lambda: self._sink.get(slot)))

    def name(self, slot: Slot) -> str:
        """Return the name of a slot's place."""
        return self._sink.name(slot)

    def _tried(self, attempt: Callable[[], Result]) -> Result:
        if not self._is_open:
            self._sink.open()
            self._is_open = True
        try:
            return attempt()
        except Exception as error:
            if is_away(error):
                self.close()
            raise


def waiting_for(sink: Sink, waiting: Waiting) -> Sink:
    """Return a sink that waits for its database or store; one of files stays as it is."""
    return WaitingSink(sink, waiting) if isinstance(sink, DatabaseSink | NamedObjects) else sink
