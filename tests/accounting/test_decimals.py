"""Budgets are spent in the decimals in which people write them, and no refusal names two equal numbers."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.accounting.book import START, Book, Dataset, Entry, Spending, digest_of, spending_of
from streamsketch.accounting.sensitivity import most_in_a_cell, sensitivity_of
from streamsketch.errors import LedgerError
from streamsketch.privacy import Budget, Mechanism
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.mechanism import AddedNoise, KeySelection
from streamsketch.privacy.zcdp import pure_rho, rho_to_epsilon
from streamsketch.release.composition import compose
from tests.accounting.spending import spend
from tests.cli.running import Forks

PROJECTION = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
NEAR = ss.L1(1, unit="customer")
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")
thousandths = st.integers(1, 3000)


def opened(folder: Path, name: str, **terms: Any) -> ss.Ledger:
    ledger = ss.Ledger(folder / f"{name}.sqlite")
    ledger.dataset("sales", unit="customer", **terms)
    return ledger


@pytest.mark.parametrize("terms", [{}, {"period_days": 30}], ids=["for ever", "by period"])
@pytest.mark.parametrize(
    ("total", "parts"),
    [
        ("1", ["0.1"] * 10),
        ("0.3", ["0.1", "0.2"]),
        ("1.2", ["0.1"] * 12),
        ("1", ["0.01"] * 100),
        ("1", ["0.7", "0.1", "0.2"]),
        ("2.4", ["0.3"] * 8),
    ],
)
def test_a_budget_takes_the_parts_that_add_up_to_it(
    tmp_path: Path, total: str, parts: list[str], terms: dict[str, int]
) -> None:
    ledger = opened(tmp_path, "a", epsilon=float(total), delta=float(f"{total}e-6"), **terms)
    spent = Decimal(0)
    for part in parts:
        sketch = PROJECTION.sketch()
        spend(ledger, float(part), float(f"{part}e-6"), data_ids=sketch.data_ids)
        spent += Decimal(part)
        left = ledger.left("sales")
        assert left.epsilon == float(Decimal(total) - spent)
        assert left.delta == pytest.approx(float(Decimal(total) - spent) * 1e-6, rel=1e-12, abs=0)
    assert str(ledger.left("sales")) == "ε = 0, δ = 0"
    with pytest.raises(LedgerError):
        spend(ledger, 1e-6)


def book_of(budget: Budget, charges: list[Spending], accounting: Any = "sum") -> tuple[Book, Dataset]:
    """Return the book of a ledger with these charges, without a file."""
    book, previous = Book(), START
    at = {"at": "2026-01-01T00:00:00+00:00"}
    fields = {"unit": "customer", "accounting": accounting, "period_days": None}
    bodies: list[dict[str, Any]] = [{"kind": "dataset", "dataset": "sales", **fields, **budget.to_dict(), **at}]
    bodies += [
        {"kind": "charge", "datasets": ["sales"], **vars(one), "data_ids": [], "note": "", "once": None, **at}
        for one in charges
    ]
    for number, body in enumerate(bodies, 1):
        digest = digest_of(number, previous, body)
        book.add(Entry(number, previous, digest, body))
        previous = digest
    return book, book.datasets["sales"]


@given(st.lists(thousandths, min_size=1, max_size=40), st.integers(0, 5))
def test_any_decimals_add_up_exactly(parts: list[int], power: int) -> None:
    scale = 10 ** (3 + power % 3)
    total = Budget(sum(parts) / scale)
    charges = [Spending(float(Fraction(part, scale)), 0.0, 0.1, 0.0) for part in parts]
    book, sales = book_of(total, charges[:-1])
    book.check(sales, charges[-1], sales.opened)
    book, sales = book_of(total, charges)
    assert book.left(sales, sales.opened).epsilon == 0.0


@given(st.lists(st.floats(1e-4, 2), max_size=6), st.floats(1, 10), st.integers(0, 3))
def test_a_refusal_never_names_two_equal_numbers(parts: list[float], total: float, steps: int) -> None:
    """However close the charge is to what is left."""
    for accounting in ("sum", "filter"):
        charges = [Spending(part, 0.0, part / 100, 0.0) for part in parts]
        book, sales = book_of(Budget(total, 1e-6), charges, accounting)
        left = book.left(sales, sales.opened)
        asked = left.epsilon
        rho = left.rho if left.rho is not None else 1.0
        for _ in range(steps + 1):
            asked, rho = math.nextafter(asked, math.inf), math.nextafter(rho, math.inf)
        with pytest.raises(LedgerError) as refused:
            book.check(sales, Spending(asked, 0.0, rho, 0.0), sales.opened)
        said, _, rest = str(refused.value).partition("left of 'sales': ")
        first, second = NUMBER.findall(said), NUMBER.findall(rest)
        assert Decimal(first[0]) > Decimal(second[0]), "ε"
        if accounting == "filter":
            assert Decimal(first[2]) > Decimal(second[2]), "ρ"


def test_the_command_takes_decimals(tmp_path: Path, forks: Forks) -> None:
    for name, total, parts in (("ten", "1", ["0.1"] * 10), ("three", "0.3", ["0.1", "0.2"])):
        where = [str(tmp_path / f"{name}.db"), "--dataset", "sales"]
        forks.succeeded("ledger", "init", *where, "--unit", "customer", "--epsilon", total, cwd=tmp_path)
        for part in parts:
            spent = ["--epsilon", part, "--bound", "l1=1", "--note", "a"]
            forks.succeeded("ledger", "charge", *where, *spent, cwd=tmp_path)
        assert ss.Ledger(where[0]).left("sales").epsilon == 0


# --- what one release spends ---------------------------------------------------------------------------------------

NOISES = [DiscreteLaplace(Fraction(8)), DiscreteLaplace(Fraction(1, 2)), DiscreteGaussian(Fraction(400))]
CHOICES = [Budget(0.5, 1e-7), Budget(2.0, 1e-9), Budget(0.01, 1e-12)]


def guarantee_with(noise: Any, *choices: Budget, times: int = 1) -> ss.Guarantee:
    """Return the guarantee of a release, whose keys may be chosen privately; or of several alike ones."""
    sensitivity = sensitivity_of(PROJECTION, NEAR)
    delta = 1e-8 if isinstance(noise, DiscreteGaussian) else 0.0
    budget = Budget(noise.loss(sensitivity, Budget(1.0, delta)).epsilon, delta)
    mechanism = Mechanism((AddedNoise(noise), *(KeySelection(one) for one in choices)))
    one = ss.Guarantee.of(Budget.total([budget, *choices]), NEAR, mechanism)
    return compose([one] * times, populations="overlapping")


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_a_private_choice_of_keys_adds_its_rho(noise: Any, choice: Budget) -> None:
    alone, both = (spending_of(guarantee_with(noise, *more), PROJECTION) for more in ((), (choice,)))
    assert both.rho == pytest.approx(alone.rho + pure_rho(choice.epsilon), rel=1e-12)
    assert (both.rho_delta, alone.rho_delta) == (choice.delta, 0.0)
    assert both.epsilon >= alone.epsilon + choice.epsilon * (1 - 1e-12)
    sensitivity = sensitivity_of(PROJECTION, NEAR)
    assert alone.rho == pytest.approx(noise.rho(sensitivity, most_in_a_cell(PROJECTION, NEAR)), rel=1e-12)


@pytest.mark.parametrize("choices", [(), (CHOICES[0],)], ids=["stated keys", "chosen keys"])
@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("times", [1, 2, 7])
def test_a_composed_guarantee_spends_as_often_as_its_releases(noise: Any, choices: Any, times: int) -> None:
    """It names their one mechanism once."""
    one = spending_of(guarantee_with(noise, *choices), PROJECTION)
    found = spending_of(guarantee_with(noise, *choices, times=times), PROJECTION)
    assert found.rho >= times * one.rho * (1 - 1e-9)
    assert found.rho_delta >= times * one.rho_delta * (1 - 1e-9)
    if not choices:
        assert found.rho == pytest.approx(times * one.rho, rel=1e-9)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_a_filter_counts_no_less_than_an_independent_sum(tmp_path: Path, noise: Any) -> None:
    """Of releases with and without a choice of keys: the ρ of each noise and each choice, added up by hand."""
    ledger = opened(tmp_path, "f", epsilon=60.0, delta=1e-5, accounting="filter")
    sensitivity, choices = sensitivity_of(PROJECTION, NEAR), [(), (CHOICES[2],)]
    by_hand = deltas = 0.0
    for more in choices * 3:
        try:
            ledger.charge("sales", guarantee_with(noise, *more), projection=PROJECTION)
        except LedgerError:
            break
        by_hand += noise.rho(sensitivity, most_in_a_cell(PROJECTION, NEAR)) + sum(pure_rho(one.epsilon) for one in more)
        deltas += sum(one.delta for one in more)
    entries = [entry.body for entry in ledger.entries() if entry.body["kind"] == "charge"]
    assert len(entries) > 1
    assert sum(body["rho"] for body in entries) >= by_hand * (1 - 1e-12)
    assert sum(body["rho_delta"] for body in entries) >= deltas * (1 - 1e-12)
    assert rho_to_epsilon(by_hand, 5e-6) <= 60.0
