"""Budgets: checked once, added up without a rounding that would look better than it is."""

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsketch.errors import InvalidInputError
from streamsketch.privacy import Budget

ZERO = 0.0
budgets = st.builds(Budget, st.floats(1e-6, 100), st.floats(0, 0.01))


@given(st.lists(budgets, min_size=1, max_size=20))
def test_sums_are_the_least_floats_that_are_no_less(given_: list[Budget]) -> None:
    total = Budget.total(given_)
    for name in ("epsilon", "delta"):
        exact, found = sum(Fraction(getattr(one, name)) for one in given_), getattr(total, name)
        assert Fraction(math.nextafter(found, -math.inf)) < exact <= Fraction(found)
    assert Budget.largest(given_).epsilon == max(one.epsilon for one in given_)


@given(budgets, budgets)
def test_what_was_added_can_be_taken_off(one: Budget, other: Budget) -> None:
    left = (one + other).minus(other)
    assert left.epsilon == pytest.approx(one.epsilon, rel=1e-9, abs=1e-12)
    assert left.delta == pytest.approx(one.delta, abs=1e-15)
    assert one.minus(None) == one


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
