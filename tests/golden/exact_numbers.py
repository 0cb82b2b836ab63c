"""Numbers as WIRE.md's rule bounds them: exact values, sizes of formulas, and how far off a reader may be.

An `Expected` holds the exact results of an estimator, and how far a reader that computes in doubles may be off by the
rule that WIRE.md states. `Sized` numbers carry along the size |E| of a formula, in which every difference is a sum.
"""

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

ULP = Fraction(1, 1 << 52)


class UndefinedError(Exception):
    """There is no such estimate: a reader must refuse."""


class Sized(NamedTuple):
    """A number with its size."""

    value: Fraction
    size: Fraction

    def __add__(self, other: Any) -> "Sized":
        return Sized(self.value + other.value, self.size + other.size)

    def __sub__(self, other: Any) -> "Sized":
        return Sized(self.value - other.value, self.size + other.size)

    def __mul__(self, other: Any) -> "Sized":
        return Sized(self.value * other.value, self.size * other.size)

    def __rmul__(self, factor: Any) -> "Sized":
        return Sized(factor * self.value, abs(factor) * self.size)

    def clipped(self, low: Fraction, high: "Sized | None" = None) -> "Sized":
        """Return the number within bounds; clipping moves nothing apart."""
        value = max(self.value, low)
        if high is None:
            return Sized(value, self.size)
        return Sized(min(value, high.value), max(self.size, high.size))


class Expected(NamedTuple):
    """An estimate, and how far off readers may be."""

    value: Any
    projection_variance: Any
    noise_variance: Any
    lowest: Any
    highest: Any
    tolerances: tuple[Any, Any, Any]
    """Of the value and of both variances."""
    slope: Any = Fraction(0)
    """Of the variance, if the truth were another number."""
    curvature: Any = Fraction(0)
    kurtosis: Any = Fraction(0)
    """Excess kurtosis of the error."""
    grain: Any = None
    """Of coarse noise, a `Grain`."""
    reach: Any = None
    """How far noise of a known law moves the value, a function of the probability to be farther: width and slack."""
    alone: bool = False
    """Whether that noise is the whole error."""
    of_signs: Any = None
    """Of signs, a function of z: the ends of the interval and their tolerance."""

    def times(self, factor: int) -> "Expected":
        """Return the estimate with wider tolerances."""
        return self._replace(tolerances=tuple(factor * one for one in self.tolerances))


def sized(value: Fraction | int) -> Sized:
    """Return a number that is its own size."""
    return Sized(Fraction(value), abs(Fraction(value)))


def root(value: Fraction) -> Fraction:
    """Return the square root to 50 digits."""
    with localcontext() as context:
        context.prec = 60
        return Fraction(decimal(value).sqrt())


def root_of(number: Sized) -> Sized:
    """Return the square root with its size: what is off by a share is off by half of it."""
    found = root(max(number.value, Fraction(0)))
    return Sized(found, number.size / found if found else Fraction(0))


def smaller(one: Sized, other: Sized) -> Sized:
    """Return the smaller of two numbers, which may be either if they are close."""
    return Sized(min(one.value, other.value), max(one.size, other.size))


def total(terms: Any) -> Sized:
    """Return a sum."""
    found = sized(0)
    for term in terms:
        found += term
    return found


def decimal(number: Any) -> Decimal:
    """Return a fraction to the digits of the context."""
    if isinstance(number, Decimal | float):
        return Decimal(number)
    return Decimal(number.numerator) / Decimal(number.denominator)


def standard_error(estimate: Expected) -> tuple[Decimal, Decimal]:
    """Return the standard error and its tolerance."""
    with localcontext() as context:
        context.prec = 50
        variance = decimal(estimate.projection_variance) + decimal(estimate.noise_variance)
        near = decimal(estimate.tolerances[1]) + decimal(estimate.tolerances[2])
        error = variance.sqrt()
        return error, 2 * decimal(ULP) * error + (min(near / error, near.sqrt()) if error else near.sqrt())
