"""Values that are refused, without telling one."""

import contextlib
import datetime as dt
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from streamsketch import InvalidInputError
from streamsketch.data.grid import quantise, quantise_one
from tests.data.shared import PRIVATE_NAME, PRIVATE_NUMBER, shown

BAD_VALUES = [
    [1.0, float("nan")],
    [float("inf")],
    [-float("inf")],
    [PRIVATE_NUMBER, None],
    [PRIVATE_NUMBER, PRIVATE_NAME],
    [PRIVATE_NUMBER, True],
    [True],
    [1j],
    [2**70],
    [2**53 + 1, 0.5],
    [[1, 2]],
    [Decimal("NaN")],
    [Decimal("Infinity")],
    [dt.date(2000, 1, 1)],
    [dt.timedelta(1)],
    PRIVATE_NAME,
    np.array([True]),
    np.array([np.nan, PRIVATE_NUMBER]),
    np.array([np.nan], dtype=np.float32),
    np.array([[1.0]]),
    np.array(1.0),
    np.array([1], dtype="timedelta64[s]"),
    np.array([2**63 + PRIVATE_NUMBER], dtype=np.uint64),
    np.array([1e300 + PRIVATE_NUMBER]),
    pa.array([1.0, None]),
    pa.array(["1"]),
    pa.chunked_array([[1.0], [None]]),
    pa.chunked_array([[1.0], [float("nan")]]),
    pd.Series([1.0, None]),
    pd.Series([1, None], dtype="Int64"),
    {"a": 1}.values,
]


@pytest.mark.parametrize("resolution", [Fraction(1), Fraction(1, 100), Fraction(7)])
@pytest.mark.parametrize("values", BAD_VALUES)
def test_bad_columns_of_values_are_refused_without_telling_a_value(values: Any, resolution: Fraction) -> None:
    with pytest.raises(InvalidInputError) as error:
        quantise(values, resolution)
    assert PRIVATE_NAME not in shown(error)
    assert str(PRIVATE_NUMBER) not in shown(error)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        np.float32("-inf"),
        Decimal("NaN"),
        Decimal("Infinity"),
        True,
        np.True_,
        None,
        PRIVATE_NAME,
        1j,
        PRIVATE_NUMBER + 2**70,
        -(2**70),
        1e300,
        [1],
        dt.date(2000, 1, 1),
    ],
    ids=repr,
)
def test_one_bad_value_is_refused_without_being_told(value: Any) -> None:
    with pytest.raises(InvalidInputError) as error:
        quantise_one(value, Fraction(1))
    assert PRIVATE_NAME not in shown(error)
    assert "9876543" not in shown(error)


MISREAD_VALUES: dict[str, Any] = {
    "bytes": b"abc",
    "mutable bytes": bytearray(b"abc"),
    "a set": {1, 2, 3},
    "a mapping": {1: 2},
    "masked integers": np.ma.masked_array([1, 2], mask=[False, True]),
}


@pytest.mark.parametrize("values", MISREAD_VALUES.values(), ids=MISREAD_VALUES.keys())
def test_values_that_would_be_misread_are_refused(values: Any) -> None:
    with pytest.raises(InvalidInputError):
        quantise(values, Fraction(1))


@pytest.mark.parametrize("value", [1.7e308, -1.7e308])
def test_a_quotient_beyond_floating_point_is_an_error_and_no_warning(value: float) -> None:
    with pytest.raises(InvalidInputError, match=r"more than 2\*\*63 grid steps"):
        quantise([value], Fraction(1, 100))


BELOW_THREE = np.nextafter(np.longdouble(3), np.longdouble(0))


def test_extended_precision_is_never_rounded_away_from_zero() -> None:
    with contextlib.suppress(InvalidInputError):  # to refuse them would do
        assert quantise(np.array([BELOW_THREE]), Fraction(1)).tolist() == [2]


@pytest.mark.parametrize("value", [BELOW_THREE, Decimal("sNaN")], ids=["long double", "signalling NaN"])
def test_one_odd_number_is_truncated_or_refused(value: Any) -> None:
    with contextlib.suppress(InvalidInputError):
        assert quantise_one(value, Fraction(1)) == 2
