"""Sinks and ledgers that cannot be reached are waited for; what lasts ends a stream with a sentence."""

import contextlib
import json
import logging
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.accounting.store import DamagedLedgerError, LostEntriesError, UnreachableLedgerError
from streamsketch.errors import LedgerError
from streamsketch.once.charges import LedgerCharge
from streamsketch.once.databases import connection
from streamsketch.once.reasons import public_text, reason_of
from streamsketch.once.sinks import DatabaseSink, FileSink, NamedObjects
from streamsketch.once.waiting import UnreachableSinkError, Waiting, WaitingSink, is_away, waiting_for
from streamsketch.streams import Slot

SLOT = Slot("sales", 0, "text", "north")


class Store(NamedObjects):
    """An object store in memory that fails as told: before a put, or after it, as where its answer is lost."""

    def __init__(self) -> None:
        super().__init__("releases", "sketch")
        self.objects: dict[str, bytes] = {}
        self.before: list[Exception] = []
        self.after: list[Exception] = []
        self.opened = 0

    def open(self) -> None:
        self.opened += 1

    def create(self, name: str, content: bytes) -> bool:
        if self.before:
            raise self.before.pop()
        is_new = name not in self.objects
        self.objects.setdefault(name, content)
        if self.after:
            raise self.after.pop()
        return is_new

    def read(self, name: str) -> bytes | None:
        if self.before:
            raise self.before.pop()
        return self.objects.get(name)


def obstore_errors() -> list[Exception]:
    exceptions = pytest.importorskip("obstore.exceptions")
    names = ("GenericError", "PermissionDeniedError", "UnauthenticatedError")
    return [getattr(exceptions, name)("503 Slow Down") for name in names]


def at_once(pauses: list[float] | None = None) -> Waiting:
    """Return what waits without losing time, and notes for how long it would."""
    return Waiting(sleep=([] if pauses is None else pauses).append)


def test_a_store_that_is_down_is_waited_for_and_the_wait_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "streamsketch")
    for errors in ([ConnectionRefusedError(), TimeoutError()], obstore_errors()):
        caplog.clear()
        store, pauses = Store(), list[float]()
        sink = waiting_for(store, at_once(pauses))
        with sink:
            store.before = list(errors)
            assert sink.put(SLOT, b"one") is None
            store.before = list(errors)
            assert sink.get(SLOT) == b"one"
        events = [json.loads(text)["event"] for text in caplog.messages]
        assert events == ["sink_unreachable", "sink_reached"] * 2
        assert store.opened == 1 + 2 * len(errors), "by a new connection each time"
        assert sum(pauses) > 0
        assert "503" not in caplog.text, "of a driver's text nothing is public"


def test_an_answer_that_was_lost_publishes_nothing_twice() -> None:
    store = Store()
    with waiting_for(store, at_once()) as sink:
        store.after = [ConnectionResetError()]
        assert sink.put(SLOT, b"one") == b"one", "the second attempt finds the bytes of the first"
        store.after = [ConnectionResetError()]
        assert sink.put(SLOT, b"other") == b"one"
    assert [*store.objects.values()] == [b"one"]


def test_a_stop_ends_the_wait_with_a_sentence() -> None:
    store, waiting = Store(), at_once()
    with waiting_for(store, waiting) as sink:
        store.before = [ConnectionRefusedError("nobody")] * 9
        waiting.stop = lambda: len(store.before) < 5
        with pytest.raises(
            UnreachableSinkError, match="the sink cannot be used: ConnectionRefusedError: nobody"
        ) as caught:
            sink.put(SLOT, b"one")
    assert reason_of(caught.value) == "sink_unreachable"
    assert "nobody" not in public_text(caught.value)


def test_what_another_attempt_does_not_change_is_not_waited_for(tmp_path: Path) -> None:
    sink = waiting_for(DatabaseSink(connection(f"sqlite:{tmp_path / 'releases.sqlite'}")), at_once())
    with sink:
        with contextlib.closing(
            sqlite3.connect(tmp_path / "releases.sqlite")
        ) as other:  # at once, not by the collector
            other.execute("DROP TABLE releases")
        with pytest.raises(UnreachableSinkError, match="no such table"):
            sink.put(SLOT, b"one")
    with pytest.raises(UnreachableSinkError, match="unable to open"):
        waiting_for(DatabaseSink(connection("sqlite:/nowhere/at/all")), at_once()).open()
    files = FileSink(tmp_path)
    assert waiting_for(files, at_once()) is files


def test_a_database_that_is_locked_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "releases.sqlite"
    blocker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    tried: list[float] = []

    def release(seconds: float) -> None:
        tried.append(seconds)
        if blocker.in_transaction:
            blocker.execute("COMMIT")

    sink = WaitingSink(DatabaseSink(lambda: sqlite3.connect(path, timeout=0.01)), Waiting(sleep=release))
    with sink:
        blocker.execute("BEGIN EXCLUSIVE")
        assert sink.put(SLOT, b"one") is None
        assert sink.get(SLOT) == b"one"
    blocker.close()
    assert tried


def test_a_ledger_is_waited_for_and_charged_once(tmp_path: Path) -> None:
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("sales", unit="person", epsilon=3.0)
    projection = ss.SJLT(sketch_dim=16, sparsity=2, seed=7)
    agreement = ss.Agreement(projection, index="item", unit="person", neighbours=ss.L1(1, unit="person"))
    guarantee = ss.AdditiveNoise(epsilon=1, neighbours=agreement.neighbours).calibrated(projection).guarantee
    left = [2]

    def until(attempt: Callable[[], Any]) -> Any:
        def tried() -> Any:
            found = attempt()  # the charge is made, and its answer is lost
            if left[0]:
                left[0] -= 1
                raise UnreachableLedgerError("the server went away")
            return found

        return at_once().until("ledger", tried)

    LedgerCharge(ledger, "sales", projection, until)(guarantee, [b"\0" * 16], "window 1")
    assert ledger.left("sales").epsilon == pytest.approx(2.0), "charged once"
    with pytest.raises(LedgerError, match="does not fit"):  # noqa: PT012 - the ninth does not fit
        for number in range(9):
            LedgerCharge(ledger, "sales", projection, lambda attempt: at_once().until("ledger", attempt))(
                guarantee, [bytes([number + 1]) * 16], f"window {number + 2}"
            )


def test_a_ledger_that_lost_entries_is_waited_for_until_they_are_restored(tmp_path: Path) -> None:
    """The process that waits is the only one that knows of them."""
    where, newest = tmp_path / "ledger.sqlite", tmp_path / "newest"
    ledger = ss.Ledger(where)
    ledger.dataset("sales", unit="person", epsilon=3.0)
    older = shutil.copy(where, tmp_path / "older")
    projection = ss.SJLT(sketch_dim=16, sparsity=2, seed=7)
    guarantee = ss.AdditiveNoise(epsilon=1, neighbours=ss.L1(1, unit="person")).guarantee(projection).on("enforced")
    waits: list[float] = []

    def restore(seconds: float) -> None:
        waits.append(seconds)
        shutil.copy(newest, where)

    waiting = Waiting(sleep=restore)
    charge = LedgerCharge(ledger, "sales", projection, lambda attempt: waiting.until("ledger", attempt))
    charge(guarantee, [b"\0" * 16], "window 1")
    shutil.copy(where, newest)
    for lost in (lambda: shutil.copy(older, where), where.unlink):
        lost()
        waits.clear()
        assert charge.covers(guarantee, [b"\0" * 16], "window 1", "")
        assert waits
    assert ledger.left("sales").epsilon == pytest.approx(2.0)
    shutil.copy(older, where)
    waiting.stop = lambda: True
    with pytest.raises(LostEntriesError) as ended:
        charge.covers(guarantee, [b"\1" * 16], "window 2", "")
    assert reason_of(ended.value) == "ledger_lost"


def test_a_damaged_ledger_ends_a_stream_and_refuses_no_window(tmp_path: Path) -> None:
    where = tmp_path / "ledger.sqlite"
    ss.Ledger(where).dataset("sales", unit="person", epsilon=3.0)
    ledger = ss.Ledger(where)
    ss.Ledger(where).dataset("visits", unit="person", epsilon=3.0)
    projection = ss.SJLT(sketch_dim=16, sparsity=2, seed=7)
    guarantee = ss.AdditiveNoise(epsilon=1, neighbours=ss.L1(1, unit="person")).guarantee(projection).on("enforced")
    with contextlib.closing(sqlite3.connect(where)) as connection:
        connection.execute("UPDATE streamsketch_ledger SET previous = hash WHERE number = 2")
        connection.commit()
    charge = LedgerCharge(ledger, "sales", projection, lambda attempt: at_once().until("ledger", attempt))
    with pytest.raises(DamagedLedgerError, match="does not follow") as ended:
        charge.covers(guarantee, [b"\0" * 16], "window 1", "")
    assert reason_of(ended.value) == "ledger_damaged"


def test_errors_of_this_library_are_not_waited_for() -> None:
    assert not any(map(is_away, [ss.InvalidInputError("x"), LedgerError("x"), ModuleNotFoundError("x"), TypeError()]))
    assert is_away(UnreachableLedgerError("x"))
