"""Values on the grid, exactly."""

from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streamsketch import InvalidInputError
from streamsketch.data.grid import NO_LOSS, quantise, quantise_and_tell, quantise_one
from tests.data.shared import LARGEST, floats, grids, resolutions
from tests.observables.steps import Steps
from tests.oracles import naive


@st.composite
def near_the_grid(draw: st.DrawFn) -> tuple[float, Fraction]:
    """Return a float within a few units in the last place of a grid point, where rounding would cross it."""
    resolution = draw(resolutions)
    value = float(draw(st.integers(-(2**54), 2**54)) * resolution)
    for _ in range(draw(st.integers(0, 2))):
        value = float(np.nextafter(value, draw(st.sampled_from([-np.inf, np.inf]))))
    return value, resolution


def check_quantised(values: Any, exact: list[Fraction], resolution: Fraction) -> None:
    """Compare the library with exact fractions: equal where 63 bits hold them all, an error elsewhere."""
    expected = [naive.truncated(value, resolution) for value in exact]
    if all(abs(steps) <= LARGEST for steps in expected):
        assert quantise(values, resolution).tolist() == expected
    else:
        with pytest.raises(InvalidInputError, match=r"more than 2\*\*63 grid steps"):
            quantise(values, resolution)


@settings(max_examples=2 * settings.default.max_examples)
@given(st.lists(floats, max_size=6), resolutions)
def test_any_floats_are_truncated_exactly(values: list[float], resolution: Fraction) -> None:
    check_quantised(np.array(values, dtype=float), [Fraction(value) for value in values], resolution)
    for value in values:
        check_one(value, resolution)


def check_one(value: Any, resolution: Fraction) -> None:
    steps = naive.truncated(value, resolution)
    if abs(steps) <= LARGEST:
        assert quantise_one(value, resolution) == steps
    else:
        with pytest.raises(InvalidInputError, match=r"more than 2\*\*63 grid steps"):
            quantise_one(value, resolution)


@settings(max_examples=2 * settings.default.max_examples)
@given(near_the_grid())
def test_floats_beside_a_grid_point_are_truncated_exactly(pair: tuple[float, Fraction]) -> None:
    value, resolution = pair
    check_quantised([value], [Fraction(value)], resolution)
    check_one(value, resolution)


@settings(max_examples=2 * settings.default.max_examples)
@given(st.lists(st.integers(1 - 2**63, LARGEST), max_size=6), resolutions)
def test_any_integers_are_truncated_exactly(values: list[int], resolution: Fraction) -> None:
    check_quantised(np.array(values, dtype=np.int64), [Fraction(value) for value in values], resolution)
    for value in values:
        check_one(value, resolution)


@given(st.lists(st.decimals(-(10**20), 10**20, places=9), min_size=1, max_size=6), resolutions)
def test_any_decimals_are_truncated_exactly(values: list[Decimal], resolution: Fraction) -> None:
    check_quantised(values, [Fraction(value) for value in values], resolution)
    for value in values:
        check_one(value, resolution)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=6), resolutions)
def test_single_precision_is_exact_too(values: list[float], resolution: Fraction) -> None:
    check_quantised(np.array(values, dtype=np.float32), [Fraction(value) for value in values], resolution)


@given(st.fractions(), resolutions)
def test_one_fraction_is_truncated_exactly(value: Fraction, resolution: Fraction) -> None:
    check_one(value, resolution)


@given(st.lists(floats, min_size=1, max_size=20), resolutions)
def test_the_steps_of_any_updates_sum_to_no_more_than_their_values(values: list[float], resolution: Fraction) -> None:
    total = sum(abs(Fraction(value)) for value in values)
    assume(total / resolution <= LARGEST)
    steps = quantise(values, resolution)
    assert sum(abs(int(step)) for step in steps) <= total / resolution


@given(st.lists(floats, max_size=6), grids)
def test_the_grid_is_symmetric_about_zero(values: list[float], resolution: Fraction) -> None:
    assume(all(abs(Fraction(value)) / resolution <= LARGEST for value in values))
    steps = quantise(values, resolution)
    assert (quantise([-value for value in values], resolution) == -steps).all()


def test_minus_two_to_the_63_is_read_exactly() -> None:
    lowest = np.array([-(2**63)])
    assert quantise(lowest, Fraction(1)).tolist() == [-(2**63)]
    assert quantise(lowest, Fraction(3, 2)).tolist() == [-(2**64 // 3)]
    assert quantise(lowest, Fraction(2**62 + 1)).tolist() == [-1]


def test_every_layout_of_a_value_column_is_read_alike() -> None:
    values, resolution = [1.0, -0.29, 2.999, 0.0], Fraction(1, 100)
    plain = pa.array(values)
    layouts: list[Any] = [
        values,
        tuple(values),
        np.array(values),
        np.array([*values, *values])[:4],
        np.repeat(values, 2)[::2],
        np.array(values, dtype=">f8"),
        np.array(values, dtype=object),
        pd.Series(values, index=[4, 3, 2, 1]),
        pd.Series(values, dtype="Float64"),
        plain,
        pa.chunked_array([values[:1], [], values[1:]]),
    ]
    for layout in layouts:
        assert quantise(layout, resolution).tolist() == [100, -28, 299, 0]


def test_decimal_columns_are_read_as_they_print() -> None:
    column = pa.array([Decimal("1.00"), Decimal("-0.29"), Decimal("2.99")])
    for layout in (column, pa.chunked_array([column[:2], column[2:]]), column.cast(pa.decimal256(50, 2))):
        assert quantise(layout, Fraction(1, 100)).tolist() == [100, -29, 299]


def test_integer_columns_of_every_width_are_read_alike() -> None:
    for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4"):
        assert quantise(np.array([0, 7, 127], dtype=kind), Fraction(2)).tolist() == [0, 3, 63]
        assert quantise(np.array([0, 7, 127], dtype=kind), Fraction(1)).tolist() == [0, 7, 127]


@pytest.mark.parametrize(
    "empty", [[], np.array([]), pa.array([]), pa.array([], pa.decimal128(5, 2)), pa.chunked_array([], pa.float64())]
)
def test_no_values_are_no_steps(empty: Any) -> None:
    assert quantise(empty, Fraction(1, 3)).tolist() == []


def test_decimals_of_any_exponent_are_decided_at_once() -> None:
    assert quantise_one(Decimal("1e-999999999"), Fraction(1)) == 0
    with pytest.raises(InvalidInputError, match="more than 2\\*\\*63 grid steps"):
        quantise_one(Decimal("-1e999999999"), Fraction(1))


@settings(max_examples=2 * settings.default.max_examples)
@given(
    st.lists(
        st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-(2**65), 2**65) | st.integers(-999, 999), max_size=6
    ),
    st.integers(-2, 38),
    st.sampled_from([pa.decimal128, pa.decimal256]),
    resolutions | st.sampled_from([Fraction(1, 100), Fraction(5, 2), Fraction(10**6), Fraction(1, 10**18)]),
    st.integers(0, 3),
)
def test_decimals_are_quantised_as_their_fractions(
    digits: list[int], scale: int, kind: Any, resolution: Fraction, offset: int
) -> None:
    context = Context(prec=80)
    digits = [one // 10 ** max(-scale, 0) for one in digits]  # all digits before the point are among the 38
    values = [Decimal(one).scaleb(-scale, context) for one in digits]
    exact = [int(Fraction(value) / resolution) for value in values]
    column = pa.array(values, kind(38, scale)).slice(min(offset, len(values)))
    exact = exact[offset:]
    if any(abs(one) >= 2**63 for one in exact):
        with pytest.raises(InvalidInputError, match="grid steps"):
            quantise(column, resolution)
    else:
        assert quantise(column, resolution).tolist() == exact


@pytest.mark.parametrize("resolution", ["1", "1/100", "1/4", "3/100"])
def test_decimals_are_not_read_one_by_one(resolution: str) -> None:
    """A hundred times as many rows take the same lines of the library."""
    values = [Decimal("0.29"), Decimal("-12345678901.25"), Decimal("7.5")]
    steps = [int(Fraction(value) / Fraction(resolution)) for value in values]
    lines = []
    for times in (1, 100):
        column, taken = pa.array(times * values, pa.decimal128(38, 12)), Steps()
        with taken.counted():
            found = quantise(column, resolution)
        assert found.tolist() == times * steps
        lines.append(taken.lines)
    assert lines[0] == lines[1]
    assert lines[0]


losing = st.sampled_from([Fraction(1), Fraction(1, 100), Fraction(1, 8), Fraction(3), Fraction(10**18)])


@given(st.lists(st.integers(-100, 100) | st.integers(-400, 400).map(lambda n: n / 8), max_size=8), losing)
def test_what_truncation_loses_is_told(values: list[float], resolution: Fraction) -> None:
    exact = [Fraction(value) for value in values]
    lost = sum(abs(value) - abs(naive.truncated(value, resolution)) * resolution for value in exact)
    expected = lost > Fraction(NO_LOSS) * sum(map(abs, exact))
    forms: list[Any] = [values, np.array(values, dtype=np.float64), [Decimal(value) for value in values]]
    forms.append(exact)
    for form in forms:
        steps, loses = quantise_and_tell(form, resolution)
        assert (steps.tolist(), loses) == (quantise(form, resolution).tolist(), expected)
    for value in values:
        steps, loses = quantise_and_tell(value, resolution)
        assert steps.tolist() == [quantise_one(value, resolution)]
        assert loses == (naive.truncated(Fraction(value), resolution) * resolution != Fraction(value))
