"""Exact numbers: public parameters as fractions, integers as int64, and both as text for messages."""

import contextlib
import re
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.errors import InvalidInputError, printable

Exact: TypeAlias = int | float | str | Decimal | Fraction
Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = NDArray[np.number]
"""Integers or floats of any width."""
Cells: TypeAlias = NDArray[np.int32]
"""Features of rows in grid steps: int32, (n, D)."""

INT64_MAX = (1 << 63) - 1
_MAX_SHOWN_BITS = 200
_MEANT = re.compile(r"\s*[-+]?[0-9]{1,20}([.,][0-9]{1,20})?\s*%?\s*", re.ASCII)
MAX_EXPONENT = 40  # of decimals: "1e999999999" would be a number of a billion digits


def exact_fraction(value: Exact, name: str) -> Fraction:
    """Return ``value`` as a fraction; a float is read as the decimal it prints as, so 0.01 is 1/100.

    Raises
    ------
    InvalidInputError
        If ``value`` is not a finite number.

    Examples
    --------
    >>> exact_fraction(0.01, "resolution")
    Fraction(1, 100)
    """
    if type(value) is Fraction:  # the common case, in little time
        return value
    with contextlib.suppress(ValueError, OverflowError, ZeroDivisionError):
        if isinstance(value, float | np.floating):
            return Fraction(repr(float(value)))
        if isinstance(value, np.integer):
            return Fraction(int(value))
        if isinstance(value, Rational) and not isinstance(value, bool):
            return Fraction(value)
        if isinstance(value, Decimal) and abs(value.adjusted()) <= MAX_EXPONENT:
            return Fraction(value)
        if isinstance(value, str) and len(value) <= 2 * MAX_EXPONENT and "e" not in value.lower():
            return Fraction(value)
    raise InvalidInputError(
        f"{name} must be a finite number (int, float, Fraction, Decimal or a string such as '1/8'), got {short(value)}"
        f"{number_hint(value)}"
    )


def number_hint(value: object) -> str:
    """Return what to write instead of a text with a decimal comma or a percent sign, for errors; nothing for others.

    Examples
    --------
    >>> number_hint("0,5"), number_hint("50 %"), number_hint("many")
    (': write 0.5', ': write 0.5', '')
    """
    if not isinstance(value, str) or not _MEANT.fullmatch(value):
        return ""
    digits = value.replace(",", ".").strip()
    return f": write {Decimal(digits.rstrip(' %')) / 100 if digits.endswith('%') else digits}"


def check_int(value: object, name: str, least: int, most: int | None = None) -> int:
    """Return a public parameter that must be an integer, of Python or NumPy, from ``least`` to ``most``.

    Raises
    ------
    InvalidInputError
        For another type, bool included, or a value out of range.

    Examples
    --------
    >>> check_int(3, "max_keys", 1)
    3
    """
    is_int = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_int or value < least or (most is not None and value > most):  # type: ignore[operator]
        wanted = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InvalidInputError(f"{name} must be an integer {wanted}, got {short(value)}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def check_resolution(resolution: Fraction, name: str = "resolution") -> None:
    """Raise `InvalidInputError` unless a resolution is a positive ratio of 63-bit integers."""
    if resolution <= 0 or max(resolution.numerator, resolution.denominator) > INT64_MAX:
        raise InvalidInputError(
            f"{name} must be a positive fraction of 63-bit integers, got {short(resolution.numerator)} / "
            f"{short(resolution.denominator)}; use 1 for counts"
        )


def short(value: object) -> str:
    """Return a public parameter as short text for a message, however large it is."""
    if isinstance(value, int) and value.bit_length() > _MAX_SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"
    try:
        return printable(repr(value), _MAX_SHOWN_BITS)
    except ValueError:  # of a fraction or a list with integers of more digits than Python converts
        return f"a {type(value).__name__} with too many digits to show"
    except RecursionError:
        return f"a {type(value).__name__} nested too deeply to show"


def as_int64(array: NDArray[Any], name: str) -> Ints:
    """Return integers as C-contiguous int64; raise `InvalidInputError` for values of 2^63 and more."""
    if array.dtype == np.uint64 and array.size and int(array.max()) > INT64_MAX:
        raise InvalidInputError(f"{name} out of range: unsigned integers must be below 2**63")
    return np.ascontiguousarray(array, dtype=np.int64)
