"""Public numbers are the decimals they print as."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsketch import InvalidInputError
from streamsketch.core.numbers import exact_fraction


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.01, Fraction(1, 100)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.5), Fraction(1, 2)),
        (1e-3, Fraction(1, 1000)),
        (3, Fraction(3)),
        (np.int32(-3), Fraction(-3)),
        ("1/3", Fraction(1, 3)),
        ("0.25", Fraction(1, 4)),
        (Decimal("0.30"), Fraction(3, 10)),
        (Decimal("1e40"), Fraction(10**40)),
        (Fraction(2, 6), Fraction(1, 3)),
    ],
)
def test_public_numbers_are_the_decimals_they_print_as(value: Any, expected: Fraction) -> None:
    assert exact_fraction(value, "resolution") == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_public_float_is_the_decimal_it_prints_as(value: float) -> None:
    assert exact_fraction(value, "resolution") == Fraction(Decimal(repr(value)))


@pytest.mark.parametrize(
    "value",
    [
        True,
        None,
        float("nan"),
        float("inf"),
        np.float64("nan"),
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("-Infinity"),
        Decimal("1e999999999"),
        Decimal("1e-999999999"),
        "1e999999999",
        "1/0",
        "nan",
        "",
        "one",
        "1" * 100,
        1j,
        [1],
        {},
    ],
    ids=repr,
)
def test_what_is_no_finite_number_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="resolution must be a finite number"):
        exact_fraction(value, "resolution")
