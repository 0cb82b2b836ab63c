"""The ledger of a team, on a real PostgreSQL server: ``make test-postgres``."""

import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.errors import LedgerError
from tests.accounting.spending import CUSTOMER, charged_at_once, spend
from tests.cli.running import Forks
from tests.patience import PATIENCE
from tests.postgres import NO_SERVER, programs, server

sqlalchemy = pytest.importorskip("sqlalchemy")
pytest.importorskip("psycopg")

PROJECTION = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
FORK = multiprocessing.get_context("fork")


@pytest.fixture(scope="module")
def socket() -> Iterator[Path]:
    found = programs()
    if found is None:
        pytest.skip(NO_SERVER)
    with server(found) as folder:
        yield folder


def run(address: str, *statements: str) -> None:
    """Run statements as somebody who bypasses the ledger."""
    engine = sqlalchemy.create_engine(address, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(sqlalchemy.text(statement))


@pytest.fixture
def address(socket: Path, request: pytest.FixtureRequest) -> str:
    """Return the address of a new database."""
    name = f"ledger_{abs(hash(request.node.name))}"
    run(f"postgresql+psycopg://owner@/postgres?host={socket}", f"CREATE DATABASE {name}")
    return f"postgresql+psycopg://owner@/{name}?host={socket}"


@pytest.fixture
def where(address: str) -> str:
    return address


def test_releases_are_charged_and_refused_as_with_a_file(ledger: ss.Ledger, address: str) -> None:
    sketch = PROJECTION.sketch()
    sketch.release(epsilon=3.0, neighbours=CUSTOMER, ledger=ledger, dataset="sales")
    with pytest.raises(LedgerError, match="left of 'sales': ε = 1, δ = 1e-06"):
        sketch.copy().release(epsilon=2.0, neighbours=CUSTOMER, ledger=ledger)
    other = pickle.loads(pickle.dumps(ss.Ledger(address)))  # noqa: S301 - our own bytes
    receipt = spend(other, once="job")
    assert spend(ledger, once="job") == receipt
    assert ledger.left("sales").epsilon == 0.0
    other.refund(receipt, nothing_was_published="says Ada")
    assert ledger.left("sales").epsilon == 1.0
    assert ledger.audit(receipt) == 4


def test_eight_processes_that_charge_at_once_never_overspend(ledger: ss.Ledger, address: str) -> None:
    counts = charged_at_once(address, 0.0625)
    assert sum(counts) == 64
    assert sum(map(bool, counts)) > 1, "they took turns"
    assert ledger.left("sales").epsilon == 0.0
    assert ledger.audit() == 65, "one chain of hashes"


def enter_at_once(address: str, place: int, queue: "multiprocessing.Queue[int]") -> None:
    ss.Ledger(address).dataset(f"data {place}", unit="customer", epsilon=1.0)
    queue.put(place)


def test_the_table_is_made_once_by_eight_at_once(address: str) -> None:
    queue: multiprocessing.Queue[int] = FORK.Queue()
    workers = [FORK.Process(target=enter_at_once, args=(address, place, queue)) for place in range(8)]
    for worker in workers:
        worker.start()
    assert sorted(queue.get(timeout=PATIENCE) for _ in workers) == [*range(8)]
    for worker in workers:
        worker.join()
    assert ss.Ledger(address).audit() == 8


def hold_a_charge(address: str, held: Any) -> None:
    from streamsketch.accounting.database import DatabaseStore  # noqa: PLC0415 - an extra

    with DatabaseStore(address).transaction() as transaction:
        (*_, last) = transaction.rows()
        transaction.add((last[0] + 1, last[3], "{}", "x"))
        held.set()
        time.sleep(600)


def test_a_writer_that_is_killed_leaves_no_entry_and_no_lock(ledger: ss.Ledger, address: str) -> None:
    held = FORK.Event()
    worker = FORK.Process(target=hold_a_charge, args=(address, held))
    worker.start()
    assert held.wait(timeout=PATIENCE)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    spend(ledger)
    assert ledger.audit() == 2


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE streamsketch_ledger SET body = replace(body, '0.5', '0.1') WHERE number = 2", "entry 2 was changed"),
        ("DELETE FROM streamsketch_ledger WHERE number = 2", "entries are missing"),
        ("UPDATE streamsketch_ledger SET number = 9 WHERE number = 2", "entries are missing"),
    ],
)
def test_an_audit_finds_what_was_changed_or_removed(ledger: ss.Ledger, address: str, statement: str, said: str) -> None:
    for _ in range(2):
        spend(ledger, 0.5)
    run(address, statement)
    with pytest.raises(LedgerError, match=said):
        ss.Ledger(address)
    with pytest.raises(LedgerError, match=said):
        ledger.audit()


@pytest.mark.parametrize("kept", [2, 1])
def test_a_standby_that_took_over_without_the_newest_entries_is_refused(
    ledger: ss.Ledger, address: str, kept: int
) -> None:
    spend(ledger)
    spend(ss.Ledger(address))
    if kept == 2:
        ledger.left("sales")  # what others wrote was read
    run(address, f"DELETE FROM streamsketch_ledger WHERE number > {kept}")  # noqa: S608 - a number of this test
    with pytest.raises(LedgerError, match="which was read or written before, is gone"):
        spend(ledger)
    assert ss.Ledger(address).audit() == kept


def test_times_are_the_servers(ledger: ss.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = sqlalchemy.text("SELECT clock_timestamp() + INTERVAL '100 years'")
    monkeypatch.setattr("streamsketch.accounting.database._NOW", asked)
    spend(ledger)
    (*_, newest) = ledger.entries()
    assert newest.body["at"].startswith("21")
    assert newest.body["at"].endswith("+00:00")


def test_a_role_that_may_only_append_can_charge(ledger: ss.Ledger, address: str) -> None:
    run(
        address,
        "DROP ROLE IF EXISTS analyst",
        "CREATE ROLE analyst LOGIN",
        "GRANT SELECT, INSERT ON streamsketch_ledger TO analyst",
    )
    theirs = address.replace("owner@", "analyst@")
    spend(ss.Ledger(theirs))
    assert ledger.left("sales").epsilon == 3.0
    with pytest.raises(sqlalchemy.exc.ProgrammingError, match="permission denied"):
        run(theirs, "DELETE FROM streamsketch_ledger")


def test_a_table_of_something_else_is_no_ledger(address: str) -> None:
    run(address, "CREATE TABLE streamsketch_ledger (id integer)")
    with pytest.raises(ss.InvalidInputError, match='cannot be used as a ledger: column "number" does not exist'):
        ss.Ledger(address)


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(ss.InvalidInputError, match="cannot be used as a ledger: connection failed") as refused:
        ss.Ledger("postgresql+psycopg://ada:secret@127.0.0.1:1/privacy?sslpassword=secret")
    assert "secret" not in str(refused.value)
    assert "postgresql+psycopg://ada:***@127.0.0.1:1/privacy" in str(refused.value)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("mysql://ada:secret@localhost/privacy", "a ledger's database is PostgreSQL"),
        ("postgresql+none://ada:secret@localhost/privacy", "cannot be used as a ledger"),
        ("://", "cannot be used as a ledger"),
    ],
)
def test_an_address_that_is_none_is_refused(address: str, said: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=said) as refused:
        ss.Ledger(address)
    assert "secret" not in str(refused.value)


def test_commands_take_an_address(address: str, tmp_path: Path, forks: Forks) -> None:
    init = ["ledger", "init", address, "--dataset", "sales", "--unit", "customer", "--epsilon", "2"]
    forks.succeeded(*init, cwd=tmp_path)
    ss.storage.save_raw(PROJECTION.sketch(), tmp_path / "a.raw-sketch")
    release = ["release", "a.raw-sketch", "--l1", "2", "--unit", "customer", "--ledger", address, "--dataset", "sales"]
    forks.succeeded(*release, "--epsilon", "1.5", "-o", "one.sketch", cwd=tmp_path)
    assert "does not fit" in forks.refused(*release, "--again", "--epsilon", "1", "-o", "two.sketch", cwd=tmp_path)
    assert "sales" in forks.succeeded("ledger", "show", address, cwd=tmp_path)
