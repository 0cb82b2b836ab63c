"""Ledgers as files of bytes: sound ones, ones whose entries say something else, and what is done with them."""

import contextlib
import json
import random
import sqlite3
import tempfile
from pathlib import Path

import streamsketch as ss
from streamsketch.accounting.book import START, digest_of, text_of
from streamsketch.privacy import Mechanism
from tests.untrusted.mutations import changed_json

_NAME = "ledger.sqlite"


def ledger_bytes() -> bytes:
    """Return a ledger with entries of every kind."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = ss.Ledger(Path(folder) / _NAME)
        ledger.dataset("sales", unit="event", epsilon=4.0)
        ledger.dataset("visits", unit="event", epsilon=4.0, delta=1e-6, accounting="filter", period_days=30)
        guarantee = ss.Guarantee(0.5, 0.0, ss.L1(1), Mechanism.stated("anything"))
        for dataset in ("sales", "visits"):
            receipt = ledger.charge(dataset, guarantee, data_ids=[bytes(16)], note="a note", once=dataset)
        ledger.refund(receipt, nothing_was_published="says Ada")
        return (Path(folder) / _NAME).read_bytes()


def resealed_entry(data: bytes, chance: random.Random) -> bytes:
    """Return a ledger of which one entry says something else, with a chain of hashes that fits."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / _NAME
        path.write_bytes(data)
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            bodies = [text for (text,) in connection.execute("SELECT body FROM streamsketch_ledger ORDER BY number")]
            place, previous = chance.randrange(len(bodies)), START
            bodies[place] = changed_json(bodies[place].encode(), chance).decode(errors="replace")
            for number, text in enumerate(bodies, 1):
                with contextlib.suppress(ValueError, RecursionError):
                    body = json.loads(text)
                    text, digest = text_of(body), digest_of(number, previous, body)  # noqa: PLW2901
                    text.encode()
                    connection.execute(
                        "UPDATE streamsketch_ledger SET previous = ?, body = ?, hash = ? WHERE number = ?",
                        (previous, text, digest, number),
                    )
                    previous = digest
        return path.read_bytes()


def read_ledger(path: Path) -> None:
    """Read a ledger, and do with it what its owner does."""
    ledger = ss.Ledger(path)
    ledger.audit()
    for each in ledger.datasets:
        left = ledger.left(each.name)
        str(left).encode()
        with contextlib.suppress(ss.StreamsketchError):
            ledger.charge(each.name, ss.Guarantee(0.5, 0.0, ss.L1(1, unit=each.unit), Mechanism.stated("anything")))
            assert ledger.left(each.name) != left
    json.dumps([entry.body for entry in ledger.entries()])
