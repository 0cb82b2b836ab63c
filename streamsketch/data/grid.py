"""Quantise real values to integers on a public grid.

Values are truncated toward zero in exact rational arithmetic, so the sum of |q| over any updates is at most the sum of
|v| / resolution. The sensitivities rest on this bound (Theory 2).
"""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.libraries import pa
from streamsketch.core.numbers import INT64_MAX, MAX_EXPONENT, Exact, Ints, as_int64, check_resolution, exact_fraction
from streamsketch.core.text import warn_outside
from streamsketch.data.columns import number_column
from streamsketch.errors import InvalidInputError, TruncationWarning

NO_LOSS = 1e-9
"""Relative error that sums of floats may have."""

_NOT_FINITE = "values must be finite, got NaN or infinity; drop or fill them first"


def quantise(values: Any, resolution: Exact) -> Ints:
    """Return trunc(values / resolution), exactly: int64, (n,).

    Parameters
    ----------
    values
        One-dimensional integers, floats, decimals or fractions: NumPy array, list, Series or Arrow array.
    resolution
        The grid step, in units of the values.

    Raises
    ------
    InvalidInputError
        For NaN, infinities, nulls, other types, more than one dimension, or a quotient outside 63 bits.

    Examples
    --------
    >>> quantise([1.0, -0.29, 2.999], "1/100")  # the float 0.29 is a little less than 0.29
    array([100, -28, 299])
    >>> quantise([Decimal("1"), Decimal("-0.29")], "1/100")
    array([100, -29])
    """
    if type(values) is np.ndarray and values.ndim == 1 and values.dtype == np.int64 and resolution == 1:
        return np.ascontiguousarray(values)
    resolution = exact_fraction(resolution, "resolution")
    check_resolution(resolution)
    return _steps(number_column(values), resolution)


def quantise_and_tell(values: Any, resolution: Fraction) -> tuple[Ints, bool]:
    """Return what `quantise` returns, and whether truncation loses more of the values than rounding of floats."""
    if not hasattr(values, "__len__"):
        step = quantise_one(values, resolution)
        return np.array([step], dtype=np.int64), abs(float(values) - step * resolution) > NO_LOSS * abs(float(values))
    array = number_column(values)
    steps = _steps(array, resolution)
    is_whole = isinstance(array, np.ndarray) and array.dtype.kind in "iu"
    if is_whole and resolution.numerator == 1:
        return steps, False
    amounts = array.cast(pa.float64()).to_numpy() if isinstance(array, pa.Array) else array.astype(np.float64)
    total, kept = np.abs(amounts).sum(), np.abs(steps.astype(np.float64)).sum() * float(resolution)
    return steps, bool(total - kept > NO_LOSS * total)


def _steps(array: Any, resolution: Fraction) -> Ints:
    if isinstance(array, pa.Array):
        return _quantise_decimals(array, resolution)
    if array.dtype.kind == "O":
        return _quantise_exactly([Fraction(value) for value in array.tolist()], resolution)
    if array.dtype.kind == "f":
        return _quantise_floats(array, resolution)
    integers = as_int64(array, "value")
    return integers if resolution == 1 else _quantise_ints(integers, resolution)


def warn_of_truncation(grid: Fraction) -> None:
    """Warn the operator that truncation loses part of the values; the text is the same for all, so it is shown once."""
    warn_outside(
        f"values are truncated to multiples of the resolution, {grid}, so part of them is lost. A finer resolution, "
        f"such as {grid / 100}, keeps that part, and so do integers in a smaller unit, such as cents. A float counts "
        "at its exact binary value; an agreement or a Decimal takes the decimal number that is printed. This warning "
        "depends on the data: do not publish it",
        TruncationWarning,
    )


def quantise_one(value: Any, resolution: Fraction) -> int:
    """Return trunc(value / resolution) of one number, exactly; raises what `quantise` raises."""
    plain = value.item() if isinstance(value, np.integer | np.floating) else value
    if isinstance(plain, int | float | Fraction | Decimal) and not isinstance(plain, bool):
        if isinstance(plain, Decimal) and plain.is_finite() and abs(plain.adjusted()) > MAX_EXPONENT:
            plain = 0 if plain.adjusted() < 0 else INT64_MAX**2  # below any grid step, or beyond any grid
        if not (plain.is_finite() if isinstance(plain, Decimal) else math.isfinite(plain)):
            raise InvalidInputError(_NOT_FINITE)
        return _trunc(Fraction(plain), resolution)
    raise InvalidInputError(
        f"a value must be an integer, a float, a Fraction or a Decimal, got a {type(value).__name__}"
    )


def _quantise_ints(values: Ints, resolution: Fraction) -> Ints:
    # Python's abs: -2^63 has no int64 absolute value
    largest = max(abs(int(values.min())), abs(int(values.max()))) if values.size else 0
    if largest * resolution.denominator <= INT64_MAX:
        quantised: Ints = np.abs(values)
        quantised *= resolution.denominator
        quantised //= resolution.numerator
        return np.negative(quantised, out=quantised, where=values < 0)
    return _quantise_exactly([Fraction(value) for value in values.tolist()], resolution)


def _quantise_decimals(values: "pa.Array", resolution: Fraction) -> Ints:
    """Divide the decimals' own integers where these are of 64 bits, and the others one by one.

    A decimal is m / 10^scale, and the resolution a / (b 10^scale), so the quotient is trunc(m b / a).
    """
    units = resolution * Fraction(10) ** values.type.scale  # a / b
    if pa.types.is_decimal128(values.type) and units.numerator <= INT64_MAX:
        words = _decimal_words(values)
        if (words[:, 1] == words[:, 0] >> 63).all():
            return _quantise_ints(np.ascontiguousarray(words[:, 0], dtype=np.int64), units)
    if units.denominator == 1:  # of a = 10^places c, trunc(m / a) is trunc(trunc(m / 10^places) / c)
        places = _tens(units.numerator, values.type.scale)
        values, units = _without_places(values, places), units / 10**places
    result = np.zeros(len(values), dtype=np.int64)
    if pa.types.is_decimal128(values.type):
        words = _decimal_words(values)
        small = words[:, 1] == words[:, 0] >> 63
        if units.numerator <= INT64_MAX:
            result[small] = _quantise_ints(words[small, 0].astype(np.int64, copy=False), units)
            values = values.filter(pa.array(~small))
        else:
            small[:] = False
    else:
        small = np.zeros(len(values), dtype=bool)
    if len(values):
        result[~small] = _quantise_exactly([Fraction(value) for value in values.to_pylist()], resolution)
    return result


def _decimal_words(values: "pa.Array") -> NDArray[np.int64]:
    """Return the lower and upper halves of decimals of 128 bits: int64, (n, 2)."""
    return np.frombuffer(values.buffers()[1], dtype="<i8")[2 * values.offset :][: 2 * len(values)].reshape(-1, 2)


def _tens(number: int, most: int) -> int:
    """Return how often ten divides a number, at most so often."""
    count = 0
    while count < most and number % 10 ** (count + 1) == 0:
        count += 1
    return count


def _without_places(values: "pa.Array", places: int) -> "pa.Array":
    """Return decimals of up to 128 bits with fewer places, truncated toward zero; return others unchanged."""
    if pa.types.is_decimal256(values.type):
        return values
    return values.cast(pa.decimal128(38, values.type.scale - places), safe=False)


def _quantise_floats(values: NDArray[np.float64], resolution: Fraction) -> Ints:
    """Divide in floating point, then decide exactly wherever the rounding could have crossed an integer."""
    if not np.isfinite(values).all():
        raise InvalidInputError(_NOT_FINITE)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        quotients = values / float(resolution)
        # float(resolution) and the division each err by at most 2^-53, relatively
        doubtful = np.abs(quotients - np.rint(quotients)) <= np.abs(quotients) * 2.0**-51
    doubtful &= np.abs(quotients) >= 0.5  # below 0.5 the quotient is certainly less than one
    doubtful |= ~np.isfinite(quotients)
    result = np.trunc(np.where(doubtful, 0.0, quotients)).astype(np.int64)
    if doubtful.any():
        distinct, places = np.unique(values[doubtful], return_inverse=True)
        exact = _quantise_exactly([Fraction(value) for value in distinct.tolist()], resolution)
        result[doubtful] = exact[places]
    return result


def _quantise_exactly(values: list[Fraction], resolution: Fraction) -> Ints:
    return np.array([_trunc(value, resolution) for value in values], dtype=np.int64)


def _trunc(value: Fraction, resolution: Fraction) -> int:
    quotient = int(value / resolution)
    if abs(quotient) > INT64_MAX:
        raise InvalidInputError(
            f"a value is more than 2**63 grid steps of {resolution}; use a coarser resolution, or clip the values first"
        )
    return quotient
