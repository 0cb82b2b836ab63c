"""Budgets: checked once, added up without a rounding that would look better than it is."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsketch.errors import InvalidInputError
from streamsketch.privacy import Budget
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.noise import Sensitivity

ZERO = 0.0
budgets = st.builds(Budget, st.floats(1e-6, 100), st.floats(0, 0.01))


def decimal(amount: float) -> Fraction:
    return Fraction(format(Decimal(repr(amount)), "f"))


@given(st.lists(budgets, min_size=1, max_size=20))
def test_sums_are_the_least_decimals_that_are_no_less(given_: list[Budget]) -> None:
    total = Budget.total(given_)
    for name in ("epsilon", "delta"):
        exact, found = sum(decimal(getattr(one, name)) for one in given_), getattr(total, name)
        assert decimal(math.nextafter(found, -math.inf)) < exact <= decimal(found)
    assert Budget.largest(given_).epsilon == max(one.epsilon for one in given_)


@given(budgets, budgets)
def test_what_was_added_can_be_taken_off(one: Budget, other: Budget) -> None:
    left = (one + other).minus(other)
    assert left.epsilon == pytest.approx(one.epsilon, rel=1e-9, abs=1e-12)
    assert left.delta == pytest.approx(one.delta, abs=1e-15)
    assert one.minus(None) == one


@given(budgets, st.integers(1, 12))
def test_noise_is_calibrated_to_no_more_than_the_decimal_or_the_float(one: Budget, digits: int) -> None:
    """Whether a reader takes ε for the decimal that is printed or for the double that is stored, noise is enough."""
    for budget in (one, Budget(round(one.epsilon, digits) or 1.0, round(one.delta, digits))):
        floats = budget.rounded_down()
        scale = DiscreteLaplace.calibrated(Sensitivity(3, 3, 8), budget).scale
        for name, spent in (
            ("epsilon", Fraction(floats.epsilon)),
            ("delta", Fraction(floats.delta)),
            ("epsilon", 3 / scale),
        ):
            assert spent <= min(decimal(getattr(budget, name)), Fraction(getattr(budget, name)))


def test_budgets_in_decimals_add_up_as_they_are_written() -> None:
    assert Budget.total([Budget(0.1, 1e-6)] * 10) == Budget(1.0, 1e-5)
    assert Budget(0.1) + Budget(0.2) == Budget(0.3)
    assert Budget(1.0, 1e-5).minus(Budget(0.1, 1e-6)) == Budget(0.9, 9e-6)


def test_a_budget_is_plain() -> None:
    assert str(Budget(2, 1e-9)) == "ε = 2, δ = 1e-09"
    assert str(Budget(0.5)) == "ε = 0.5, δ = 0"
    assert Budget(1, -0.0) == Budget(1.0, 0.0)
    assert math.copysign(1, Budget(1, -0.0).delta) == 1
    assert Budget(Fraction(1, 2)).to_dict() == {"epsilon": 0.5, "delta": 0.0}  # type: ignore[arg-type]
    assert Budget.largest([Budget(1.0, 0.5), Budget(2.0, 0.25)]) == Budget(2.0, 0.5)


@pytest.mark.parametrize(
    "refused",
    [
        *((epsilon, ZERO) for epsilon in (0, 1e-7, 1e7, math.nan, math.inf, -1, "1", None, True)),
        *((1.0, delta) for delta in (-1e-9, 1, math.nan, "0", None, False, 1 - Fraction(1, 10**20))),
    ],
    ids=str,
)
def test_what_is_no_budget_is_refused(refused: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidInputError, match="epsilon must be" if refused[1] is ZERO else "delta must be"):
        Budget(*refused)


def test_nothing_is_left_of_a_share_too_large() -> None:
    for share in (Budget(1.0), Budget(2.0), Budget(0.5, 0.2)):
        with pytest.raises(InvalidInputError):
            Budget(1.0, 0.1).minus(share)
    with pytest.raises(InvalidInputError, match="add up to 1: together they guarantee nothing"):
        Budget.total([Budget(1.0, 0.5)] * 2)
