"""Killed between charge and release, or at any time: budget may be lost, privacy never."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.accounting.store import FileTransaction, Row
from streamsketch.privacy.laplace import DiscreteLaplace
from tests.patience import PATIENCE

PROJECTION = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
SALE = ss.L1(1, unit="sale")
FORK = multiprocessing.get_context("fork")
STEP = 1 / 64


@pytest.fixture
def ledger(tmp_path: Path) -> ss.Ledger:
    made = ss.Ledger(tmp_path / "ledger.sqlite")
    made.dataset("sales", unit="sale", epsilon=64.0)
    return made


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def publish(folder: Path, count: int) -> None:
    """Release a sketch and write the release, again and again."""
    ledger = ss.Ledger(folder / "ledger.sqlite")
    for number in range(count):
        release = PROJECTION.sketch().release(epsilon=STEP, neighbours=SALE, ledger=ledger, dataset="sales")
        release.save(folder / f"{number}.sketch")


def killed(work: Callable[..., None], *arguments: Any) -> None:
    worker = FORK.Process(target=work, args=arguments)
    worker.start()
    worker.join(PATIENCE)
    assert worker.exitcode == -signal.SIGKILL


def charged(ledger: ss.Ledger) -> int:
    """Return how many charges there are, once all entries are known to be sound."""
    ledger.audit()
    return ledger.left("sales").charges


def test_killed_between_charge_and_release_the_budget_is_spent(
    ledger: ss.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DiscreteLaplace, "sample", die)
    killed(publish, tmp_path, 1)
    assert not list(tmp_path.glob("*.sketch"))
    assert (charged(ledger), ledger.left("sales").epsilon) == (1, 64.0 - STEP)
    monkeypatch.undo()
    publish(tmp_path, 1)  # nothing is locked
    assert charged(ledger) == 2


def test_killed_before_the_charge_is_kept_nothing_was_released(
    ledger: ss.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = FileTransaction.add

    def add_and_die(self: FileTransaction, row: Row) -> None:
        add(self, row)
        die()

    monkeypatch.setattr(FileTransaction, "add", add_and_die)
    killed(publish, tmp_path, 1)
    monkeypatch.undo()
    assert not list(tmp_path.glob("*.sketch"))
    assert charged(ledger) == 0


def test_killed_at_any_time_there_is_a_charge_for_each_release(ledger: ss.Ledger, tmp_path: Path) -> None:
    before = 0
    for least in (1, 3, 5, 9):
        worker = FORK.Process(target=publish, args=(tmp_path, 4000))
        worker.start()
        end = time.monotonic() + PATIENCE
        while len(list(tmp_path.glob("*.sketch"))) < least and time.monotonic() < end:
            time.sleep(0.003 * least)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        files = list(tmp_path.glob("*.sketch"))
        spent = charged(ledger) - before
        assert least <= len(files) <= spent <= len(files) + 1
        before += spent
        for file in files:
            file.unlink()
