"""ε and δ, checked, and how they add up."""

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Real
from typing import Any

from streamsketch.core import short, warn_outside
from streamsketch.errors import InvalidInputError, WeakGuaranteeWarning

_MIN_EPSILON, _MAX_EPSILON = 1e-6, 1e6  # beyond these a guarantee is noise or nothing
_WEAK_EPSILON, _WEAK_DELTA = 20, 1e-3


@dataclasses.dataclass(frozen=True)
class Budget:
    """A limit on privacy loss: ε, and the probability δ with which it may be exceeded.

    Parameters
    ----------
    epsilon
        In nats, from 1e-6 to 1e6.
    delta
        In [0, 1).

    Raises
    ------
    InvalidInputError
        For a number out of range.

    Examples
    --------
    >>> print(Budget(1.0, 1e-9) + Budget(0.5))
    ε = 1.5, δ = 1e-09
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        epsilon, delta = self.epsilon, self.delta
        if not (_is_number(epsilon) and _MIN_EPSILON <= epsilon <= _MAX_EPSILON):
            raise InvalidInputError(
                f"epsilon must be a finite number > 0, from {_MIN_EPSILON:g} to {_MAX_EPSILON:g}, got "
                f"{short(epsilon)}; 0.1 to 10 is usual"
            )
        if not (_is_number(delta) and 0 <= delta < 1 and float(delta) < 1):  # a fraction may be rounded up to 1
            raise InvalidInputError(
                f"delta must be a number in [0, 1), got {short(delta)}; far below 1 / number of units"
            )
        object.__setattr__(self, "epsilon", float(epsilon))
        object.__setattr__(self, "delta", float(delta) + 0.0)  # no negative zero

    @staticmethod
    def total(budgets: Sequence["Budget"]) -> "Budget":
        """Return the sums of ε and of δ, rounded up.

        Raises
        ------
        InvalidInputError
            If the δ add up to 1 or more.
        """
        delta = _sum_rounded_up([one.delta for one in budgets])
        if delta >= 1:
            raise InvalidInputError(f"the δ of these releases add up to {delta:g}: together they guarantee nothing")
        return Budget(_sum_rounded_up([one.epsilon for one in budgets]), delta)

    @staticmethod
    def largest(budgets: Sequence["Budget"]) -> "Budget":
        """Return the largest ε with the largest δ."""
        return Budget(max(one.epsilon for one in budgets), max(one.delta for one in budgets))

    def __add__(self, other: "Budget") -> "Budget":
        return Budget.total([self, other])

    def minus(self, share: "Budget | None") -> "Budget":
        """Return the rest of the budget after a share was spent.

        Raises
        ------
        InvalidInputError
            If nothing is left.
        """
        return self if share is None else Budget(self.epsilon - share.epsilon, self.delta - share.delta)

    @property
    def weaknesses(self) -> list[str]:
        """Why this budget protects hardly anyone, in sentences; empty where it protects."""
        found = []
        if self.epsilon > _WEAK_EPSILON:
            found.append(
                f"ε = {_exact(self.epsilon)} hardly protects anybody: an attacker's odds that a unit is in the data "
                f"may change by a factor of e^ε, and e^{_WEAK_EPSILON} is 485 million. 0.1 to 10 is usual"
            )
        if self.delta >= _WEAK_DELTA:
            found.append(
                f"δ = {_exact(self.delta)} permits a release that reveals one unit in {1 / self.delta:,.0f} outright. "
                "Choose a δ far below 1 / number of units, such as 1e-9"
            )
        return found

    def warn_if_weak(self) -> "Budget":
        """Return this budget, and warn if it protects hardly anyone. For budgets that users ask for, not for sums."""
        for weakness in self.weaknesses:
            warn_outside(weakness, WeakGuaranteeWarning)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return ε and δ as a dict that JSON can hold."""
        return {"epsilon": self.epsilon, "delta": self.delta}

    def __str__(self) -> str:
        return f"ε = {_exact(self.epsilon)}, δ = {_exact(self.delta)}"


def _is_number(value: object) -> bool:
    return type(value) is float or (isinstance(value, Real) and not isinstance(value, bool))


def _exact(value: float) -> str:
    """Return a float's shortest exact text, so that no guarantee looks better than it is."""
    return repr(value).removesuffix(".0")


def _sum_rounded_up(values: list[float]) -> float:
    exact = sum(map(Fraction, values))
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
