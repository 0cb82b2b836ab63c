"""A ledger's ids of jobs: a retry costs nothing, and is known to be one by data set, data and guarantee."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.accounting import Receipt
from streamsketch.errors import LedgerError
from streamsketch.privacy import Mechanism

PROJECTION = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
GUARANTEE = ss.Guarantee(1.0, 0.0, ss.L1(1, unit="customer"), Mechanism.stated("a count"))


@pytest.fixture
def ledger(tmp_path: Path) -> ss.Ledger:
    made = ss.Ledger(tmp_path / "ledger.sqlite")
    for name in ("sales", "returns"):
        made.dataset(name, unit="customer", epsilon=4.0, delta=1e-6)
    return made


def charge(ledger: ss.Ledger, dataset: str | None = "sales", **more: Any) -> Receipt:
    return ledger.charge(dataset, more.pop("guarantee", GUARANTEE), once="job 1", **more)


def test_a_retry_costs_nothing_and_has_the_same_receipt(ledger: ss.Ledger) -> None:
    ids = PROJECTION.sketch().data_ids
    first = charge(ledger, data_ids=ids)
    assert charge(ledger, data_ids=ids) == charge(ledger, None, data_ids=ids) == first
    assert (ledger.left("sales").epsilon, ledger.audit()) == (3.0, 3)


def test_after_a_refund_the_job_is_charged_again(ledger: ss.Ledger) -> None:
    for left in (3.0, 3.0, 3.0):
        receipt = charge(ledger)
        assert charge(ledger) == receipt
        assert ledger.left("sales").epsilon == left
        ledger.refund(receipt, nothing_was_published="the job ended before its first step, says Ada")
        assert ledger.left("sales").epsilon == 4.0
    charge(ledger, "returns")  # the id is free again, for anything
    assert (ledger.left("sales").epsilon, ledger.left("returns").epsilon) == (4.0, 3.0)


OTHERS: dict[str, Any] = {
    "another data set": {"dataset": "returns"},
    "other data": {"data_ids": PROJECTION.sketch().data_ids},
    "data unknown": {"data_ids": ()},
    "more ε": {"guarantee": dataclasses.replace(GUARANTEE, epsilon=2.0)},
    "less ε": {"guarantee": dataclasses.replace(GUARANTEE, epsilon=0.5)},
    "more δ": {"guarantee": dataclasses.replace(GUARANTEE, delta=1e-9)},
    "another bound": {"guarantee": dataclasses.replace(GUARANTEE, neighbours=ss.L1(2, unit="customer"))},
    "another relation": {"guarantee": dataclasses.replace(GUARANTEE, neighbours=ss.L2(1, unit="customer"))},
    "another mechanism": {"guarantee": dataclasses.replace(GUARANTEE, mechanism=Mechanism.stated("a sum"))},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_something_else_under_the_same_id_is_refused(ledger: ss.Ledger, changes: dict[str, Any]) -> None:
    """Another data set is refused though the data were charged to both: one draw is from one of them."""
    first: dict[str, Any] = {"data_ids": PROJECTION.sketch().data_ids}
    receipt = charge(ledger, **first)
    with pytest.raises(LedgerError, match=r"entry 3 charged another release under the same id .*; use another id"):
        charge(ledger, **(first | changes))
    assert (ledger.left("sales").epsilon, ledger.left("returns").epsilon) == (3.0, 4.0)
    assert charge(ledger, **first) == receipt


@pytest.mark.parametrize("doing", [*itertools.product(["charge", "refund"], repeat=4)], ids="-".join)
def test_any_order_of_charges_and_refunds_leaves_what_an_account_says(
    ledger: ss.Ledger, tmp_path: Path, doing: tuple[str, ...]
) -> None:
    """The account in four lines: an id is paid for or it is not."""
    receipt, paid = None, False
    for what in doing:
        if what == "charge":
            receipt, paid = charge(ledger), True
        elif paid and receipt is not None:
            ledger.refund(receipt, nothing_was_published="a test")
            paid = False
        for book in (ledger, ss.Ledger(tmp_path / "ledger.sqlite")):
            assert book.left("sales").epsilon == (3.0 if paid else 4.0)


def test_a_refund_is_recorded_with_its_reason_and_made_once(ledger: ss.Ledger) -> None:
    receipt = charge(ledger)
    ledger.refund(receipt, nothing_was_published="the disk was full, says Ada")
    assert ledger.left("sales").epsilon == 4.0
    with pytest.raises(LedgerError, match="not a charge, or has already been refunded"):
        ledger.refund(receipt, nothing_was_published="again")
    assert [entry.body["kind"] for entry in ledger.entries()] == ["dataset", "dataset", "charge", "refund"]
