"""ε and δ, checked, and how they add up.

A float counts as the decimal that it prints as: 0.1 is a tenth, so ten times 0.1 are 1, as people write budgets. Noise
is calibrated to that decimal, or to the float itself where that is less (`least`, `Budget.rounded_down`), so a
guarantee holds in either reading.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from numbers import Real

from streamsketch.core import sentences
from streamsketch.core.documents import Json
from streamsketch.core.numbers import short
from streamsketch.core.text import warn_outside
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
        """Return the sums of ε and of δ, as decimals, rounded up.

        Raises
        ------
        InvalidInputError
            If the δ add up to 1 or more.
        """
        delta = rounded_up(sum(written(budget.delta) for budget in budgets))
        if delta >= 1:
            raise InvalidInputError(sentences.DELTA_ABOVE_1.format(delta=f"{delta:g}"))
        return Budget(rounded_up(sum(written(budget.epsilon) for budget in budgets)), delta)

    @staticmethod
    def largest(budgets: Sequence["Budget"]) -> "Budget":
        """Return the largest ε with the largest δ."""
        return Budget(max(budget.epsilon for budget in budgets), max(budget.delta for budget in budgets))

    def __add__(self, other: "Budget") -> "Budget":
        return Budget.total([self, other])

    def minus(self, share: "Budget | None") -> "Budget":
        """Return the rest of the budget after a share was spent, rounded down.

        Raises
        ------
        InvalidInputError
            If nothing is left.
        """
        if share is None:
            return self
        epsilon, delta = written(self.epsilon) - written(share.epsilon), written(self.delta) - written(share.delta)
        return Budget(rounded_down(epsilon), rounded_down(delta))

    def rounded_down(self) -> "Budget":
        """Return the budget to which noise is calibrated in floats: no float in it exceeds the decimal it stands for.

        Examples
        --------
        >>> Budget(0.1).rounded_down().epsilon < 0.1, Budget(0.5).rounded_down().epsilon
        (True, 0.5)
        """
        return Budget(_float_below(self.epsilon), _float_below(self.delta))

    @property
    def weaknesses(self) -> list[str]:
        """Why this budget protects hardly anyone, in sentences; empty where it protects."""
        texts = []
        if self.epsilon > _WEAK_EPSILON:
            texts.append(sentences.LARGE_EPSILON.format(epsilon=exact_text(self.epsilon), weak=_WEAK_EPSILON))
        if self.delta >= _WEAK_DELTA:
            texts.append(sentences.LARGE_DELTA.format(delta=exact_text(self.delta), units=f"{1 / self.delta:,.0f}"))
        return texts

    def warn_if_weak(self) -> "Budget":
        """Return this budget, and warn if it protects hardly anyone. For budgets that users ask for, not for sums."""
        for weakness in self.weaknesses:
            warn_outside(weakness, WeakGuaranteeWarning)
        return self

    def to_dict(self) -> Json:
        """Return ε and δ as a dict that JSON can hold."""
        return {"epsilon": self.epsilon, "delta": self.delta}

    def __str__(self) -> str:
        return sentences.BUDGET.format(epsilon=exact_text(self.epsilon), delta=exact_text(self.delta))


def written(amount: float) -> Fraction:
    """Return the decimal that a float prints as.

    Examples
    --------
    >>> written(0.1)
    Fraction(1, 10)
    """
    return Fraction(repr(float(amount)))


def least(amount: float) -> Fraction:
    """Return the lesser of a float and of the decimal that it prints as, to which exact noise is calibrated.

    Examples
    --------
    >>> least(0.1), least(0.3) == Fraction(0.3)
    (Fraction(1, 10), True)
    """
    return min(written(amount), Fraction(amount))


def less(total: float, spent: Iterable[float]) -> float:
    """Return what is left of an amount, subtracted as decimals and rounded down; never below 0.

    Examples
    --------
    >>> less(1.0, [0.1] * 9), less(0.3, [0.1, 0.2]), less(0.3, [1.0])
    (0.1, 0.0, 0.0)
    """
    exact = written(total) - sum(map(written, spent), start=Fraction(0))
    return rounded_down(max(exact, Fraction(0)))


def rounded_down(exact: Fraction) -> float:
    """Return the largest float whose decimal is at most an amount."""
    nearest = float(exact)
    return nearest if written(nearest) <= exact else math.nextafter(nearest, -math.inf)


def rounded_up(exact: Fraction | int) -> float:
    """Return the least float whose decimal is not below an amount.

    Examples
    --------
    >>> rounded_up(written(0.1) + written(0.2))
    0.3
    """
    nearest = float(exact)
    return nearest if written(nearest) >= exact else math.nextafter(nearest, math.inf)


def _is_number(value: object) -> bool:
    return type(value) is float or (isinstance(value, Real) and not isinstance(value, bool))


def exact_text(value: float) -> str:
    """Return a float's shortest exact text, so that no guarantee looks better than it is."""
    return repr(value).removesuffix(".0")


def _float_below(amount: float) -> float:
    return amount if Fraction(amount) <= written(amount) else math.nextafter(amount, 0.0)
