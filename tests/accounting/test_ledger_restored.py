"""A ledger that was replaced while it is open: by an older copy, by another ledger, or by nothing."""

import contextlib
import pickle
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.errors import LedgerError
from tests.accounting.spending import spend


def _cut(where: Path) -> None:
    with contextlib.closing(sqlite3.connect(where)) as connection, connection:
        connection.execute("DELETE FROM streamsketch_ledger WHERE number > 2")


def _empty(where: Path) -> None:
    where.write_bytes(b"")


def _older(where: Path) -> None:
    shutil.copy(where.with_name("copy"), where)


def _longer(where: Path) -> None:
    """Put an older copy in place, which another process has charged since."""
    shutil.copy(where.with_name("copy"), where)
    other = ss.Ledger(where)
    for _ in range(8):
        spend(other, 0.1)


REPLACED: dict[str, Callable[[Path], None]] = {
    "older": _older,
    "cut": _cut,
    "empty": _empty,
    "longer": _longer,
    "gone": Path.unlink,
}
USES: dict[str, Callable[[ss.Ledger], object]] = {
    "charge": spend,
    "retry": lambda ledger: spend(ledger, once="second"),
    "left": lambda ledger: ledger.left("sales"),
    "dataset": lambda ledger: ledger.dataset("visits", unit="customer", epsilon=1.0),
    "audit": lambda ledger: ledger.audit(),
    "refund": lambda ledger: ledger.refund(3, nothing_was_published="it did not start"),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("replaced", REPLACED)
@pytest.mark.parametrize("newest", ["written", "read", "read by a refused charge", "pickled"])
def test_a_ledger_that_lost_entries_is_refused(
    ledger: ss.Ledger, where: Path, newest: str, replaced: str, use: str
) -> None:
    spend(ledger, once="first")
    shutil.copy(where, where.with_name("copy"))
    spend(ss.Ledger(where) if newest.startswith("read") else ledger, once="second")
    if newest == "read":
        ledger.left("sales")
    elif newest == "read by a refused charge":
        with pytest.raises(LedgerError, match="does not fit"):
            spend(ledger, 100.0)
    elif newest == "pickled":
        ledger = pickle.loads(pickle.dumps(ledger))  # noqa: S301 - what the test itself has pickled
    REPLACED[replaced](where)
    before = where.read_bytes() if where.exists() else None
    with pytest.raises(LedgerError, match=r"entry 3.*(gone|another)|ledger.* is gone"):
        USES[use](ledger)
    assert (where.read_bytes() if where.exists() else None) == before


def test_a_newest_copy_that_is_restored_goes_on(ledger: ss.Ledger, where: Path) -> None:
    spend(ledger)
    shutil.copy(where, where.with_name("copy"))
    where.unlink()
    with pytest.raises(LedgerError, match="is gone"):
        spend(ledger)
    _older(where)
    spend(ledger)
    assert ss.Ledger(where).left("sales").epsilon == ledger.left("sales").epsilon == 2.0


def test_a_ledger_is_the_same_file_in_every_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    ledger = ss.Ledger("a ledger #1?.sqlite")
    ledger.dataset("sales", unit="customer", epsilon=4.0)
    monkeypatch.chdir(elsewhere)
    spend(ledger)
    assert not list(elsewhere.iterdir())
    assert ss.Ledger(tmp_path / "a ledger #1?.sqlite").left("sales").epsilon == 3.0
