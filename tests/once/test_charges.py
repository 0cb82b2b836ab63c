"""Charges of what is about to be drawn: once for each draw, and a refusal that says nothing of the data."""

import logging
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.errors import LedgerError
from streamsketch.once.charges import LedgerCharge, check_together, draw_id
from streamsketch.once.logs import EVENT, OPERATOR
from streamsketch.release import AdditiveNoise

PROJECTION = ss.SJLT(sketch_dim=16, sparsity=4, seed=7)
GUARANTEE = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="visit")).guarantee(PROJECTION).on("enforced")


@pytest.fixture
def ledger(tmp_path: Path) -> ss.Ledger:
    found = ss.Ledger(tmp_path / "ledger.sqlite")
    found.dataset("visits", unit="visit", epsilon=2.5)
    return found


def charge_of(ledger: ss.Ledger) -> LedgerCharge:
    return LedgerCharge(ledger, "visits", PROJECTION)


def test_a_draw_is_charged_once_whoever_tries_and_a_refusal_is_logged(
    ledger: ss.Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    for once in ("a", "a", "b"):
        assert charge_of(ledger).covers(GUARANTEE, (), once, "a note", window="w")
    assert ledger.left("visits").epsilon == pytest.approx(0.5)
    assert not [record for record in caplog.records if hasattr(record, EVENT)]
    assert not charge_of(ledger).covers(GUARANTEE, (), "c", "a note", stream="shops", epoch=2, window="w")
    (record,) = [record for record in caplog.records if hasattr(record, EVENT)]
    event = getattr(record, EVENT)
    assert {name: event[name] for name in ("event", "stream", "epoch", "window", "dataset")} == {
        "event": "refused",
        "stream": "shops",
        "epoch": 2,
        "window": "w",
        "dataset": "visits",
    }
    assert record.levelno == logging.ERROR
    assert event["text"].startswith("nothing is released: ")
    assert getattr(record, OPERATOR) == {}
    with pytest.raises(LedgerError):
        charge_of(ledger)(GUARANTEE, (), "c")
    assert ledger.left("visits").epsilon == pytest.approx(0.5)


def test_a_row_is_drawn_from_one_version_of_its_window(ledger: ss.Ledger) -> None:
    first, other = (draw_id(bytes(32), version) for version in (b"one", b"other"))
    how = {"note": "", "window": "w"}
    assert [charge_of(ledger).covers(GUARANTEE, (), "a", row=(0, drawn), **how) for drawn in (first, first, other)] == [  # type: ignore[arg-type]
        True,
        True,
        False,
    ]
    assert charge_of(ledger).covers(GUARANTEE, (), "a", row=(1, other), **how)  # type: ignore[arg-type]


def test_ids_of_draws_are_of_name_and_secret() -> None:
    found = [draw_id(secret, name) for secret in (bytes(32), b"1" * 32) for name in (b"", b"a", b"b")]
    assert len(set(found)) == 6
    assert {len(bytes.fromhex(one)) for one in found} == {16}


@pytest.mark.parametrize(("ledger_at", "dataset"), [("ledger.sqlite", None), (None, "visits")])
def test_a_ledger_and_its_data_set_go_together(ledger_at: str | None, dataset: str | None) -> None:
    with pytest.raises(ss.InvalidInputError, match="pass both or neither"):
        check_together(ledger_at, dataset)
    check_together(None, None)
    check_together("ledger.sqlite", "visits")
