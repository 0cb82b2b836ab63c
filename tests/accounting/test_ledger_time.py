"""A ledger's time: it goes on, whatever its machine's clock does, so that no period's budget is opened twice."""

import contextlib
import dataclasses
import datetime as dt
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.accounting.book import START, digest_of, text_of
from streamsketch.accounting.store import FileTransaction
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.errors import LedgerError
from streamsketch.privacy import Mechanism
from streamsketch.schedules.releaser import Releaser
from streamsketch.schedules.tree import Tree
from streamsketch.streams import Stream
from tests.streams.agreed import split

START_OF_2026 = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
GUARANTEE = ss.Guarantee(1.0, 0.0, ss.L1(1), Mechanism.stated("a count"))


class Clock:
    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = START_OF_2026
        patch.setattr(FileTransaction, "now", lambda _: self.now)

    def set(self, days: float) -> None:
        self.now = START_OF_2026 + dt.timedelta(days=days)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def ledger_in(folder: Path) -> ss.Ledger:
    made = ss.Ledger(folder / "ledger.sqlite")
    made.dataset("sales", unit="event", epsilon=1.0, period_days=30)
    return made


def fits(ledger: ss.Ledger) -> bool:
    try:
        ledger.charge("sales", GUARANTEE)
    except LedgerError:
        return False
    return True


def test_a_period_renews_the_budget(tmp_path: Path, clock: Clock) -> None:
    ledger = ledger_in(tmp_path)
    assert fits(ledger)
    clock.set(30 - 1 / 24)
    with pytest.raises(LedgerError, match="renewed at 2026-01-31 00:00 UTC"):
        ledger.charge("sales", GUARANTEE)
    clock.set(30)
    assert fits(ledger)
    assert not fits(ledger)


@pytest.mark.parametrize("kind", ["history", "one draw", "stream"])
def test_what_is_published_in_a_later_period_is_charged_in_it(tmp_path: Path, clock: Clock, kind: str) -> None:
    """Once in each period in which rows are published: within one they cost nothing more."""
    unit, neighbours = "event in one of 64 windows" if kind == "history" else "event", ss.L1(1)
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("sales", unit=unit, epsilon=1.0, period_days=30)
    noise = ss.AdditiveNoise(epsilon=0.75, neighbours=neighbours, schedule=Tree(horizon=64))
    projection = ss.SJLT(dim=HASHED_DIM, sketch_dim=16, sparsity=4, seed=7)
    releaser = Releaser(noise, projection)
    stream = stream_in(tmp_path, ledger, projection) if kind == "stream" else None

    def of(epsilon: float) -> ss.Guarantee:
        return dataclasses.replace(GUARANTEE, epsilon=epsilon, neighbours=ss.L1(1, unit=unit))

    def publish(day: int) -> None:
        if stream is not None:
            at = [(START_OF_2026 + dt.timedelta(days=day, hours=1)).isoformat()]
            stream.add(pa.RecordBatch.from_pydict({"at": at, "item": ["tea"]}), 1)
            stream.save({})
        elif kind == "history":
            releaser.add(projection.sketch(), ledger=ledger, dataset="sales")
        else:
            ledger.charge("sales", of(0.75), once="one")

    for day in (1, 2, 29, 31, 32, 65):
        clock.set(day)
        publish(day)
        assert ledger.left("sales").epsilon == 0.25, day
        with pytest.raises(LedgerError, match=r"left of 'sales': ε = 0\.25"):
            ledger.charge("sales", of(0.5))
    clock.set(95)
    ledger.charge("sales", of(0.5))
    with pytest.raises(LedgerError, match=r"left of 'sales': ε = 0\.5"):
        publish(95)
    assert ss.Ledger(tmp_path / "ledger.sqlite").left("sales").epsilon == 0.5, "as others read it"


def stream_in(folder: Path, ledger: ss.Ledger, projection: ss.projections.Projection) -> Stream:
    """Return a stream that publishes a row of a history each day."""
    (folder / "out").mkdir()
    agreement, job = split(
        ss.Agreement(projection, index="item", neighbours=ss.L1(1)),
        time="at",
        window="1 day",
        start="2025-12-31",
        delay=0,
        epsilon=0.75,
        folder=str(folder / "out"),
        schedule=Tree(horizon=256),
    )

    def charge(guarantee: ss.Guarantee, ids: Any, once: str) -> Any:
        same = dataclasses.replace(guarantee, neighbours=dataclasses.replace(guarantee.neighbours, unit="event"))
        return ledger.charge("sales", same, projection=projection, data_ids=ids, once=once)

    return Stream(agreement, job, folder / "s.raw-stream", charge)


def test_data_sets_with_and_without_periods_share_a_history(tmp_path: Path, clock: Clock) -> None:
    ledger = ledger_in(tmp_path)
    ledger.dataset("all", unit="event", epsilon=1.0)
    ids = ss.SJLT(dim=64, sketch_dim=16, sparsity=4, seed=7).sketch().data_ids
    ledger.charge("all", dataclasses.replace(GUARANTEE, epsilon=0.125), data_ids=ids)
    small = dataclasses.replace(GUARANTEE, epsilon=0.25)
    first = ledger.charge("sales", small, data_ids=ids, once="h")
    assert first.datasets == ("all", "sales")
    clock.set(31)
    second = ledger.charge("sales", small, data_ids=ids, once="h")
    assert second.number > first.number
    assert (ledger.left("sales").epsilon, ledger.left("all").epsilon) == (0.75, 0.375)
    assert ledger.charge("sales", small, data_ids=ids, once="h") == second
    ledger.refund(second, nothing_was_published="a test")
    assert ledger.charge("sales", small, data_ids=ids, once="h").number > second.number


def test_a_clock_that_is_set_back_opens_no_budget(tmp_path: Path, clock: Clock) -> None:
    ledger = ledger_in(tmp_path)
    assert fits(ledger)
    for days in (0, -1, -31, -61, -10_000, 29):
        clock.set(days)
        assert not fits(ledger), days
        for book in (ledger, ss.Ledger(tmp_path / "ledger.sqlite")):
            left = book.left("sales")
            assert (left.epsilon, left.renewed) == (0.0, START_OF_2026 + dt.timedelta(days=30))
    clock.set(31)
    assert fits(ledger)
    clock.set(0)  # back into the period before, whose budget is spent as well
    assert not fits(ledger)
    at = [dt.datetime.fromisoformat(entry.body["at"]) for entry in ledger.entries()]
    assert at == sorted(at)
    clock.set(61)
    assert fits(ledger), "once the clock is right again, so are the periods"


def test_entries_written_while_the_clock_was_set_back_count_where_the_ledger_was(tmp_path: Path, clock: Clock) -> None:
    """As ledgers of before hold them: charged 31 days back, after a charge of today."""
    ledger = ledger_in(tmp_path)
    assert fits(ledger)
    clock.set(31)
    body = next(entry.body for entry in ledger.entries() if entry.body["kind"] == "charge")
    append(tmp_path / "ledger.sqlite", body | {"at": (START_OF_2026 + dt.timedelta(days=32)).isoformat()})
    append(tmp_path / "ledger.sqlite", body | {"at": (START_OF_2026 - dt.timedelta(days=31)).isoformat()})
    assert (ledger.left("sales").epsilon, ledger.left("sales").charges) == (0.0, 2)


@pytest.mark.parametrize("year", [1, 1970, 1999, 3001, 9999])
def test_an_entry_of_any_year_can_be_read(tmp_path: Path, clock: Clock, year: int) -> None:
    """One that was written by a clock without a battery, say, before such were refused."""
    path = tmp_path / "ledger.sqlite"
    ss.Ledger(path)
    terms = {"unit": "event", "epsilon": 1.0, "delta": 0.0, "accounting": "sum", "period_days": 30}
    append(path, {"kind": "dataset", "dataset": "sales", "at": f"{year:04}-06-01T00:00:00+00:00"} | terms)
    ledger = ss.Ledger(path)
    assert (ledger.left("sales").epsilon, ledger.audit()) == (1.0, 1)
    if year < 2000:
        assert fits(ledger)
        assert not fits(ledger)
        clock.set(30)
        assert fits(ledger)


@pytest.mark.parametrize("year", [1970, 1999, 3001, 9999])
def test_a_clock_that_is_wrong_by_centuries_writes_nothing(tmp_path: Path, clock: Clock, year: int) -> None:
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    clock.now = dt.datetime(year, 1, 1, tzinfo=dt.UTC)
    with pytest.raises(LedgerError, match=rf"shows {year}-01-01.*correct it"):
        ledger.dataset("sales", unit="event", epsilon=1.0)
    assert ledger.audit() == 0
    clock.set(0)
    ledger.dataset("sales", unit="event", epsilon=1.0, period_days=30)
    clock.now = dt.datetime(year, 1, 1, tzinfo=dt.UTC)
    assert ledger.left("sales").epsilon == 1.0
    assert fits(ledger) is (year < 2000), "a clock that is behind is passed over"
    clock.set(1)
    assert fits(ledger) is (year > 2000)


def append(path: Path, body: dict[str, Any]) -> None:
    """Append an entry as a ledger of any version would."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        found = connection.execute("SELECT number, hash FROM streamsketch_ledger ORDER BY number DESC").fetchone()
        number, previous = (0, START) if found is None else found
        row = (number + 1, previous, text_of(body), digest_of(number + 1, previous, body))
        connection.execute("INSERT INTO streamsketch_ledger VALUES (?, ?, ?, ?)", row)
