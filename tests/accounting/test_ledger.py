"""The ledger: charged before a release, never overspent, and every change to it found."""

import concurrent.futures
import contextlib
import functools
import itertools
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.accounting.book import digest_of, text_of
from streamsketch.accounting.store import FileStore
from streamsketch.errors import LedgerError
from streamsketch.parties import Key, Round
from streamsketch.privacy.composition import PrivacyCost, account
from streamsketch.privacy.zcdp import epsilon_to_rho, pure_rho, rho_to_epsilon
from tests.accounting.spending import CUSTOMER, charged_at_once, spend
from tests.powered import synchronised_connect

PROJECTION = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)


def test_a_release_is_charged_before_noise_is_drawn(ledger: ss.Ledger) -> None:
    sketch = PROJECTION.sketch()
    for left in (3.0, 2.0, 1.0, 0.0):
        sketch.release(epsilon=1.0, neighbours=CUSTOMER, ledger=ledger, dataset="sales")
        assert ledger.left("sales").epsilon == left
    with pytest.raises(LedgerError, match=r"ε = 1, δ = 0 does not fit into what is left of 'sales': ε = 0, δ = 1e-06"):
        sketch.release(epsilon=1.0, neighbours=CUSTOMER, ledger=ledger, dataset="sales")


def test_a_refused_release_draws_nothing_and_charges_nothing(
    ledger: ss.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("noise was drawn")

    monkeypatch.setattr("streamsketch.privacy.laplace.DiscreteLaplace.sample", never)
    for changes in ({"epsilon": 5.0}, {"dataset": "other"}, {"neighbours": ss.L1(1, unit="event")}, {"dataset": None}):
        arguments = {"epsilon": 1.0, "neighbours": CUSTOMER, "dataset": "sales"} | changes
        with pytest.raises(LedgerError):
            PROJECTION.sketch().release(ledger=ledger, **arguments)  # type: ignore[arg-type]
    assert ledger.audit() == 1


def test_all_that_releases_can_be_charged(ledger: ss.Ledger) -> None:
    table = PROJECTION.table()
    table.update(["a", "b"], [1, 2])
    table.release(epsilon=0.5, neighbours=CUSTOMER, keys_are_public=True, ledger=ledger, dataset="sales")
    assert ledger.left("sales").epsilon == 3.5, "a table is one release"
    one = ss.signs.DPSignOPORPRR(epsilon=0.5, neighbours=ss.OneCoordinate(1, unit="customer"))
    one.release(ss.projections.OPORP(dim=1 << 10, sketch_dim=64, seed=1).sketch(), ledger=ledger, dataset="sales")
    keys = [Key.generate(), Key.generate()]
    agreed = Round(PROJECTION, epsilon=1.0, neighbours=CUSTOMER, parties=[key.public for key in keys])
    agreed.contribute(PROJECTION.sketch(), keys[0], ledger=ledger, dataset="sales")
    assert ledger.left("sales").epsilon == 2.0
    with pytest.raises(ss.InvalidInputError, match="has already contributed to round"):
        agreed.contribute(PROJECTION.sketch(), keys[0], ledger=ledger, dataset="sales")
    assert ledger.left("sales").epsilon == 2.0, "what is refused is not charged"


def test_vectors_rows_raw_files_and_pan_private_sketches_are_charged(ledger: ss.Ledger, tmp_path: Path) -> None:
    to: dict[str, Any] = {"epsilon": 0.25, "neighbours": CUSTOMER, "ledger": ledger, "dataset": "sales"}
    small = ss.projections.FJLT(dim=64, sketch_dim=16, seed=1)
    for place in ("output", "input", "hadamard"):
        ss.release.release_vector(small, [1] * 64, noise_place=place, delta=1e-8, **to)
    assert ledger.left("sales").epsilon == 3.25
    publish = ss.release.PrivateProjection(projection=small, epsilon=0.25, neighbours=CUSTOMER)
    publish.release(np.ones((5, 64), dtype=int), ledger=ledger, dataset="sales")
    assert ledger.left("sales").epsilon == 3.0, "the rows are different people's: one release"
    signs = ss.signs.DPSignOPORPRR(epsilon=0.5, neighbours=ss.OneCoordinate(1, unit="customer"))
    rows = np.ones((5, 64), dtype=int)
    signs.release_rows(ss.projections.OPORP(dim=64, sketch_dim=16, seed=1), rows, ledger=ledger, dataset="sales")
    assert ledger.left("sales").epsilon == 2.5
    path = tmp_path / "a.raw-sketch"
    ss.storage.save_raw(PROJECTION.sketch(), path)
    ss.storage.release_raw(path, **to)
    ss.storage.release_raw(path, again=True, **(to | {"dataset": None}))
    assert ledger.left("sales").epsilon == 2.0, "a raw file keeps where its data come from"
    counter = ss.release.PanPrivateSketch(PROJECTION, **to)
    assert ledger.left("sales").epsilon == 1.75, "an intruder may come before the release"
    counter.release()
    assert ledger.left("sales").epsilon == 1.75


@pytest.mark.parametrize("what", ["vector", "before the map", "rows", "raw file", "pan-private"])
def test_what_does_not_fit_is_not_drawn(
    ledger: ss.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("noise was drawn")

    ss.storage.save_raw(PROJECTION.sketch(), tmp_path / "a.raw-sketch")
    small = ss.projections.FJLT(dim=64, sketch_dim=16, seed=1)
    to: dict[str, Any] = {"ledger": ledger, "dataset": "sales"}
    privacy: dict[str, Any] = {"epsilon": 5.0, "neighbours": CUSTOMER}
    releases: dict[str, Any] = {
        "vector": lambda: ss.release.release_vector(small, [1] * 64, **to, **privacy),
        "before the map": lambda: ss.release.release_vector(small, [1] * 64, noise_place="hadamard", **to, **privacy),
        "rows": lambda: ss.release.PrivateProjection(projection=small, **privacy).release([[1] * 64], **to),
        "raw file": lambda: ss.storage.release_raw(tmp_path / "a.raw-sketch", **to, **privacy),
        "pan-private": lambda: ss.release.PanPrivateSketch(PROJECTION, **to, **privacy),
    }
    monkeypatch.setattr("streamsketch.privacy.laplace.DiscreteLaplace.sample", never)
    with pytest.raises(LedgerError, match="does not fit"):
        releases[what]()
    assert ledger.audit() == 1
    assert not ss.storage.load_raw(tmp_path / "a.raw-sketch").releases
    to["ledger"] = None
    with pytest.raises(ss.InvalidInputError, match="pass ledger= as well"):
        releases[what]()


def test_individual_guarantees_are_not_charged(ledger: ss.Ledger) -> None:
    sketch = ss.projections.OPORP(dim=64, sketch_dim=16, seed=1).sketch()
    publish = ss.signs.IDPSignOPORP(epsilon=1.0, neighbours=ss.OneCoordinate(1, unit="customer"))
    with pytest.raises(TypeError, match="individual guarantees do not add up"):
        publish.release(sketch, ledger=ledger, dataset="sales")


def test_sums_are_exact_and_never_rounded_to_the_good(ledger: ss.Ledger) -> None:
    for _ in range(39):
        spend(ledger, 0.1)
    spend(ledger, ledger.left("sales").epsilon)
    assert ledger.left("sales").epsilon == 0.0
    with pytest.raises(LedgerError):
        spend(ledger, 1e-6)


def test_a_filter_takes_more_small_releases_than_the_sum(where: Path) -> None:
    ledger = ss.Ledger(where)
    ledger.dataset("sales", unit="customer", epsilon=4.0, delta=1e-6, accounting="filter")
    sketch, count, neighbours = PROJECTION.sketch(), 0, ss.L1(1, unit="customer")
    while ledger.left("sales").rho > 0.0052:  # what one release takes is 0.005
        sketch.release(epsilon=0.2, neighbours=neighbours, ledger=ledger, dataset="sales")
        count += 1
    with pytest.raises(LedgerError, match=r"or ρ = "):
        spend(ledger, 0.5)
    assert count > 35, "20 by the sum"
    rho = sum(entry.body["rho"] for entry in ledger.entries() if entry.body["kind"] == "charge")
    assert rho_to_epsilon(rho, 5e-7) <= 4.0
    large = ss.Ledger(where.with_name("second"))
    large.dataset("sales", unit="customer", epsilon=4.0, delta=1e-6, accounting="filter")
    spend(large, 4.0)  # pure, and the whole of the sum
    with pytest.raises(LedgerError):
        spend(large, 0.5)


def test_releases_with_a_delta_of_their_own_use_the_filters_half(where: Path) -> None:
    ledger = ss.Ledger(where)
    ledger.dataset("sales", unit="customer", epsilon=4.0, delta=1e-6, accounting="filter")
    spend(ledger, 0.1, 5e-7)
    with pytest.raises(LedgerError):
        spend(ledger, 0.1, 1e-9)
    spend(ledger, 0.1)


def test_a_budget_stays_as_it_was_entered(ledger: ss.Ledger) -> None:
    ledger.dataset("sales", unit="customer", epsilon=4.0, delta=1e-6)
    assert ledger.audit() == 1
    for changes in ({"epsilon": 5.0}, {"unit": "event"}, {"accounting": "filter"}, {"period_days": 1}):
        with pytest.raises(LedgerError, match="cannot change"):
            ledger.dataset("sales", **({"unit": "customer", "epsilon": 4.0, "delta": 1e-6} | changes))  # type: ignore[arg-type]


TAMPERINGS: list[tuple[str, str]] = [
    ("UPDATE streamsketch_ledger SET body = replace(body, '0.5', '0.1') WHERE number = 3", "entry 3 was changed"),
    ("UPDATE streamsketch_ledger SET hash = 'x' || hash WHERE number = 3", "entry 3 was changed"),
    ("DELETE FROM streamsketch_ledger WHERE number = 2", "entries are missing"),
    ("UPDATE streamsketch_ledger SET number = CASE number WHEN 2 THEN 30 ELSE number END", "entries are missing"),
    ("UPDATE streamsketch_ledger SET number = 5 - number WHERE number > 1", "does not follow|was changed|missing"),
]


@pytest.mark.parametrize(("statement", "said"), TAMPERINGS)
def test_an_audit_finds_what_was_changed_removed_or_reordered(
    ledger: ss.Ledger, where: Path, statement: str, said: str
) -> None:
    for _ in range(2):
        spend(ledger, 0.5)
    spend(ledger)
    assert ledger.audit() == 4
    with contextlib.closing(sqlite3.connect(where)) as connection, connection:
        if "5 - number" in statement:  # a swap, past the primary key
            connection.execute("UPDATE streamsketch_ledger SET number = -number WHERE number IN (2, 3)")
            connection.execute("UPDATE streamsketch_ledger SET number = 5 + number WHERE number < 0")
        else:
            connection.execute(statement)
    with pytest.raises(LedgerError, match=said):
        ss.Ledger(where)
    with pytest.raises(LedgerError, match=said):
        ledger.audit()


def test_a_receipt_shows_that_the_newest_entries_were_cut_off(ledger: ss.Ledger, where: Path) -> None:
    receipt = spend(ledger)
    assert ledger.audit(receipt) == 2
    with contextlib.closing(sqlite3.connect(where)) as connection, connection:
        connection.execute("DELETE FROM streamsketch_ledger WHERE number = 2")
    with pytest.raises(LedgerError, match="entry 2 in the ledger differs"):
        ss.Ledger(where).audit(receipt)


def test_the_file_is_the_owners_alone_and_something_else_is_no_ledger(where: Path, ledger: ss.Ledger) -> None:
    assert where.stat().st_mode & 0o777 == 0o600
    other = where.with_name("notes.txt")
    other.write_text("hello " * 200)
    with pytest.raises(ss.InvalidInputError, match=r"notes\.txt is not a ledger"):
        ss.Ledger(other)
    assert ledger.datasets[0].name == "sales"


def test_a_charge_survives_a_power_failure(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is synchronised after the journal was removed, which would undo the charge."""
    monkeypatch.setattr(sqlite3, "connect", synchronised_connect)
    with FileStore(where).transaction() as transaction:
        assert transaction._connection.execute("PRAGMA synchronous").fetchone() == (3,)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE places (id INTEGER)",
        "CREATE TABLE streamsketch_ledger (number INTEGER)",
        "CREATE VIEW v AS SELECT 1",
    ],
)
def test_a_database_of_something_else_is_left_as_it_is(where: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(where)) as connection, connection:
        connection.execute(statement)
    before = where.read_bytes()
    with pytest.raises(
        ss.InvalidInputError, match=r"ledger\.sqlite is not a ledger: it is a database of another program"
    ):
        ss.Ledger(where)
    assert where.read_bytes() == before


def test_a_trigger_put_beside_the_entries_is_refused(ledger: ss.Ledger, where: Path) -> None:
    with contextlib.closing(sqlite3.connect(where)) as connection, connection:
        connection.execute(
            "CREATE TRIGGER forget AFTER INSERT ON streamsketch_ledger BEGIN "
            "DELETE FROM streamsketch_ledger WHERE number = new.number; END"
        )
    with pytest.raises(ss.InvalidInputError, match="another program"):
        spend(ledger)


FORGERIES: list[dict[str, Any]] = [
    {"kind": "dataset", "dataset": "sales", "unit": "customer", "epsilon": 9.0, "delta": 0.0},
    {"kind": "dataset", "dataset": "x", "unit": "customer", "epsilon": -1.0, "delta": 0.0},
    {"kind": "charge", "datasets": ["sales"], "epsilon": -1.0},
    {"kind": "charge", "datasets": ["other"], "epsilon": 1.0},
    {"kind": "charge", "datasets": "sales", "epsilon": 1.0},
    {"kind": "charge", "datasets": ["sales"], "epsilon": "1"},
    {"kind": "charge", "datasets": ["sales"], "epsilon": 1.0, "at": "2025-01-01"},
    {"kind": "refund", "charge": 1},
    {"kind": "gift"},
    {},
]


@pytest.mark.parametrize("body", FORGERIES, ids=str)
def test_an_entry_that_no_ledger_writes_is_refused_though_its_hash_fits(
    ledger: ss.Ledger, where: Path, body: dict[str, Any]
) -> None:
    last = ledger.newest
    assert last is not None
    usual = {"accounting": "sum", "period_days": None, "delta": 0.0, "rho": 0.0, "rho_delta": 0.0, "data_ids": []}
    full = {"at": "2025-01-01T00:00:00+00:00", "once": None} | usual | body
    with contextlib.closing(sqlite3.connect(where)) as connection, connection:
        row = (2, last.digest, text_of(full), digest_of(2, last.digest, full))
        connection.execute("INSERT INTO streamsketch_ledger VALUES (?, ?, ?, ?)", row)
    with pytest.raises(LedgerError, match="entry 2 is not an entry that a ledger writes"):
        ss.Ledger(where)


def test_an_entry_depends_on_what_was_asked_for_and_not_on_the_data(where: Path) -> None:
    told = []
    for name, count in (("without", 0), ("with", 1000)):
        ledger = ss.Ledger(where.with_name(name))
        ledger.dataset("sales", unit="customer", epsilon=4.0)
        sketch, table = PROJECTION.sketch(), PROJECTION.table()
        sketch.update(range(count), 30)
        table.update(["a"] * count, range(count))
        sketch.release(epsilon=1.0, neighbours=CUSTOMER, ledger=ledger, dataset="sales")
        table.release(epsilon=1.0, neighbours=CUSTOMER, public_keys=["a", "b"], ledger=ledger, dataset="sales")
        bodies = [entry.body for entry in ledger.entries()]
        assert {len(body["data_ids"]) for body in bodies[1:]} == {16}
        told.append([{key: body[key] for key in body if key not in {"at", "data_ids"}} for body in bodies])
    assert told[0] == told[1]


def test_threads_share_a_ledger(ledger: ss.Ledger) -> None:
    def charge_and_look(_: int) -> float:
        spend(ledger, 0.125)
        return ledger.left("sales").epsilon

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert min(pool.map(charge_and_look, range(32))) == 0.0
    assert ledger.audit() == 33


def test_processes_that_charge_at_once_never_overspend(ledger: ss.Ledger, where: Path) -> None:
    counts = charged_at_once(where, 0.125)
    assert sum(counts) == 32
    assert ledger.left("sales").epsilon == 0.0
    assert ledger.audit() == 33


def test_no_adaptive_choice_of_releases_spends_more_than_the_filter_allows() -> None:
    """The adversary of theory: releases of randomised response, chosen after the ones before; exact over all paths.

    The worst δ at the filter's ε, over all strategies with steps of a grid, is found by dynamic programming.
    """
    epsilon, delta, steps = 2.0, 0.01, (0.25, 0.5, 1.0)
    allowed = epsilon_to_rho(epsilon, delta)

    @functools.cache
    def worst(room: float, spent: float = 0.0, loss: float = 0.0) -> float:
        """Return the largest E_P[(1 - e^(ε - L))⁺] from here on, by strategies within a filter."""
        best = max(0.0, -np.expm1(epsilon - loss))
        for step in steps:
            if spent + pure_rho(step) <= room:
                up = 1 / (1 + np.exp(-step))
                found = up * worst(room, spent + pure_rho(step), loss + step)
                best = max(best, found + (1 - up) * worst(room, spent + pure_rho(step), loss - step))
        return best

    assert 0 < worst(allowed) <= delta
    assert worst(1.5 * allowed) > delta, "a filter that allowed half more would fail"


def test_composed_losses_are_no_filter_and_the_ledger_does_not_use_them(where: Path) -> None:
    """The tree of Theory 9.4: after a small release, two large ones or ten small ones, by its outcome."""
    up, down = [0.1, *[0.968] * 2], [0.1, *[0.29] * 10]

    def mass(path: list[float], first: int) -> float:
        """Return E_P[(1 - e^(ε - L))⁺] over the outcomes of randomised responses of which the first is given."""
        found = 0.0
        for signs in itertools.product((1, -1), repeat=len(path) - 1):
            losses = np.array(path) * [first, *signs]
            found += np.prod(1 / (1 + np.exp(-losses))) * max(0.0, -np.expm1(2.0 - losses.sum()))
        return found

    for path in (up, down):
        composed = account([PrivacyCost(step, 0.0) for step in path], 0.01)
        assert composed is not None
        assert composed.epsilon <= 2.0
        assert mass(path, 1) + mass(path, -1) <= 0.01
    assert mass(up, 1) + mass(down, -1) > 0.013
    for accounting in ("sum", "filter"):
        ledger = ss.Ledger(where.with_name(accounting))
        ledger.dataset("sales", unit="customer", epsilon=2.0, delta=0.01, accounting=accounting)
        spend(ledger, up[0])
        spend(ledger, up[1])
        with pytest.raises(LedgerError, match="does not fit"):
            spend(ledger, up[2])
