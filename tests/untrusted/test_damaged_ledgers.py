"""Ledgers whose pages were damaged: refused in a sentence."""

from pathlib import Path

import pytest

import streamsketch as ss


@pytest.mark.parametrize(
    ("was", "now"), [(b"CREATE TABLE", b"CREATE TA\x80LE"), (b"(number BIGINT", b"(numb\xff\xfeBIGINT")]
)
def test_a_ledger_whose_schema_is_damaged_is_refused(was: bytes, now: bytes, tmp_path: Path) -> None:
    """SQLite quotes the schema, which need not be UTF-8, in what it says; Python then fails to read that."""
    path = tmp_path / "ledger.sqlite"
    ss.Ledger(path).dataset("sales", unit="event", epsilon=1.0)
    assert was in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(was, now))
    with pytest.raises(ss.InvalidInputError, match=r"is not a (valid )?ledger"):
        ss.Ledger(path).audit()
