"""A ledger of a data set, in a file of its own."""

from pathlib import Path

import pytest

import streamsketch as ss


@pytest.fixture
def where(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(where: Path) -> ss.Ledger:
    made = ss.Ledger(where)
    made.dataset("sales", unit="customer", epsilon=4.0, delta=1e-6)
    return made
