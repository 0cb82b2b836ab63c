"""Charges to a ledger, by one process and by eight at once."""

import multiprocessing
from pathlib import Path

import streamsketch as ss
from streamsketch.accounting import Receipt
from streamsketch.errors import LedgerError
from streamsketch.privacy import Mechanism
from tests.patience import PATIENCE

CUSTOMER = ss.L1(30, unit="customer")
FORK = multiprocessing.get_context("fork")


def spend(ledger: ss.Ledger, epsilon: float = 1.0, delta: float = 0.0, **more: object) -> Receipt:
    guarantee = ss.Guarantee(epsilon, delta, CUSTOMER, Mechanism.stated("anything"))
    return ledger.charge("sales", guarantee, **more)  # type: ignore[arg-type] # tests pass any field


def _charge_until_refused(where: str, epsilon: float, queue: "multiprocessing.Queue[int]") -> None:
    ledger, count = ss.Ledger(where), 0
    try:
        while True:
            spend(ledger, epsilon)
            count += 1
    except LedgerError:
        queue.put(count)


def charged_at_once(where: Path | str, epsilon: float) -> list[int]:
    """Return how many charges each of eight processes makes until one is refused."""
    queue: multiprocessing.Queue[int] = FORK.Queue()
    workers = [FORK.Process(target=_charge_until_refused, args=(str(where), epsilon, queue)) for _ in range(8)]
    for worker in workers:
        worker.start()
    counts = [queue.get(timeout=PATIENCE) for _ in workers]
    for worker in workers:
        worker.join()
    return counts
