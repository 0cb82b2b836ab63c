"""Columns of other libraries, and what is mixed in them."""

import datetime as dt
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from streamsketch import InvalidInputError
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.data.grid import quantise
from streamsketch.data.keys import index_of, indices_of


def test_series_of_objects_are_held_to_one_type_as_lists_are() -> None:
    for mixed in ([dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5)], ["a", b"b"], [1, "a"]):  # noqa: DTZ001
        with pytest.raises(InvalidInputError, match="must hold one type"):
            indices_of([pd.Series(mixed, dtype=object)], HASHED_DIM, 5)
    moment = pd.Timestamp("2020-01-01T00:00:00.123456789")
    as_series = indices_of([pd.Series([moment], dtype=object)], HASHED_DIM, 5)
    assert as_series.tolist() == indices_of([[moment]], HASHED_DIM, 5).tolist()


class OlderSeries:
    """A one-dimensional column as pandas had it before version 3: no Arrow stream, only NumPy."""

    def __init__(self, values: Any) -> None:
        self._values = np.asarray(values)
        self.shape, self.dtype = self._values.shape, self._values.dtype

    def to_numpy(self) -> Any:
        return self._values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Any:
        return iter(self._values.tolist())


class ArrowSeries:
    """A column that speaks Arrow's protocol and has a shape but no dimension count, as polars' Series."""

    def __init__(self, values: Any) -> None:
        self._array = pa.chunked_array([values])
        self.shape = (len(self._array),)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._array.__arrow_c_stream__(requested_schema)


def test_series_of_other_libraries_are_columns_too() -> None:
    assert indices_of([OlderSeries([3, 4])], 10, 5).tolist() == [3, 4]
    assert indices_of([ArrowSeries([3, 4])], 10, 5).tolist() == [3, 4]
    assert (
        indices_of([ArrowSeries(["a", "b"])], HASHED_DIM, 5).tolist()
        == indices_of([["a", "b"]], HASHED_DIM, 5).tolist()
    )
    assert quantise(ArrowSeries([0.5, 2.5]), Fraction(1, 2)).tolist() == [1, 5]


def test_messages_name_what_is_mixed_and_what_tuples_need() -> None:
    with pytest.raises(InvalidInputError, match="must hold one type, got int, str; cast them to one"):
        indices_of([[1, "a"]], HASHED_DIM, 5)
    with pytest.raises(InvalidInputError, match=r"holds tuples; pass each part as a column to projection.indices_of"):
        indices_of([[("a", 1)]], HASHED_DIM, 5)


def test_the_public_grid_takes_the_resolution_as_a_projection_does() -> None:
    assert quantise([1.5], "1/2").tolist() == quantise([1.5], 0.5).tolist() == [3]
    for wrong in (0, -1, "no"):
        with pytest.raises(InvalidInputError, match="resolution"):
            quantise([1.5], wrong)


def test_hours_and_minutes_of_numpy_are_times() -> None:
    hours = np.array(["2020-01-01T05"], dtype="datetime64[h]")
    assert (
        indices_of([hours], HASHED_DIM, 5).tolist()
        == indices_of([hours.astype("datetime64[ns]")], HASHED_DIM, 5).tolist()
    )


def test_lists_of_times_are_of_one_kind_and_keep_zone_and_nanoseconds() -> None:
    plain, zoned = dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)  # noqa: DTZ001
    stamp = pd.Timestamp(2020, 1, 1, 0, 0, 0, 5, nanosecond=7)
    for mixed in ([plain, zoned], [plain, stamp], [stamp, plain], [stamp, stamp.tz_localize("Europe/Paris")]):
        with pytest.raises(InvalidInputError, match="mixes"):
            indices_of([mixed], HASHED_DIM, 5)
    paris = stamp.tz_localize("Europe/Paris")
    assert indices_of([[paris]], HASHED_DIM, 5).tolist() == [index_of(paris, HASHED_DIM, 5)]
    assert indices_of([[stamp]], HASHED_DIM, 5).tolist() == [index_of(stamp, HASHED_DIM, 5)]


def test_foreign_dates_and_fractions_and_grids_end_in_our_own_words() -> None:
    within = pa.array([86_400_005], pa.int64()).cast(pa.date64())
    with pytest.raises(InvalidInputError, match="within a day") as caught:
        indices_of([within], HASHED_DIM, 5)
    assert "86400005" not in str(caught.value)
    assert quantise([Fraction(1, 3), Fraction(5, 3)], Fraction(1, 3)).tolist() == [1, 5]
    for wrong in (Fraction(10**400), Fraction(1, 10**400)):
        with pytest.raises(InvalidInputError, match="63-bit"):
            quantise([1.0], wrong)
    moment = np.datetime64("2020-01-01", "s")
    assert index_of(moment, HASHED_DIM, 5) == indices_of([np.array([moment])], HASHED_DIM, 5)[0]
