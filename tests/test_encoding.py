"""The door: keys and their fingerprints, values and the grid."""

import contextlib
import datetime as dt
import hashlib
import time
import traceback
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streamsketch import HASHED_DIM, InvalidInputError
from streamsketch.encoding import exact_fraction, fingerprint, index_of, indices_of, quantise, quantise_one
from tests import naive

SEED = 77
LARGEST = 2**63 - 1
NEW_YORK = dt.timezone(dt.timedelta(hours=-5))

texts = st.text(st.characters(exclude_categories=["Cs"]))
moments = st.datetimes(timezones=st.none() | st.timezones())
keys = texts | st.binary() | st.integers(-(2**63), 2**63 - 1) | st.dates() | moments


def hashed(column: Any) -> list[int]:
    return indices_of([column], HASHED_DIM, SEED).tolist()


# --- fingerprints -------------------------------------------------------------------------------------------


@given(keys, st.integers(0, 2**64 - 1))
def test_fingerprints_equal_their_twin(key: Any, seed: int) -> None:
    assert fingerprint(key, seed) == naive.fingerprint(key, seed)


def test_keys_of_different_types_have_different_fingerprints() -> None:
    day = dt.date(1970, 1, 2)
    midnight = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
    alike = [1, "1", b"1", "i1", b"i1", "d1", day, midnight, "", b"", 0, -1, "-1", 86_400 * 10**9]
    assert len({fingerprint(key, SEED) for key in alike}) == len(alike)


def test_a_seed_changes_every_fingerprint() -> None:
    cities = ["JFK", "LGA", "EWR"]
    assert not {fingerprint(city, 1) for city in cities} & {fingerprint(city, 2) for city in cities}


def test_numpy_scalars_have_the_fingerprints_of_what_they_hold() -> None:
    assert fingerprint(np.int8(-3), SEED) == fingerprint(-3, SEED)
    assert fingerprint(np.str_("JFK"), SEED) == fingerprint("JFK", SEED)
    assert fingerprint(np.bytes_(b"JFK"), SEED) == fingerprint(b"JFK", SEED)


@pytest.mark.parametrize("key", [True, np.True_, 1.0, None, Decimal(1), Fraction(1), (1, 2), dt.time(1)])
def test_other_types_have_no_fingerprint(key: Any) -> None:
    with pytest.raises(InvalidInputError, match=f"type {type(key).__name__} have no canonical bytes"):
        fingerprint(key, SEED)


@settings(max_examples=50)
@given(st.lists(texts) | st.lists(st.binary()) | st.lists(st.dates()) | st.lists(st.datetimes()))
def test_a_column_has_the_fingerprints_of_its_keys(column: list[Any]) -> None:
    assert hashed(column) == [naive.fingerprint(key, SEED) for key in column]


def test_dates_beyond_pythons_have_canonical_bytes_too() -> None:
    far = pa.array([10**8], pa.int32()).cast(pa.date32())
    digest = hashlib.blake2b(b"d100000000", digest_size=8, key=(5).to_bytes(8, "little"), person=b"streamsketch.key")
    expected = int.from_bytes(digest.digest(), "little") % (1 << 60)
    assert indices_of([far], HASHED_DIM, 5).tolist() == [expected]


def test_every_layout_of_a_text_column_is_hashed_alike() -> None:
    routes = ["JFK-MIA", "", "JFK-MIA", "Zü\0rich", "日本"]
    expected = [naive.fingerprint(route, SEED) for route in routes]
    plain = pa.array(routes)
    layouts = [
        routes,
        tuple(routes),
        np.array(routes, dtype=object),
        pd.Series(routes),
        pd.Series(routes, dtype="category"),
        pd.Series(routes, index=[5, 4, 3, 2, 1]),
        plain,
        plain.cast(pa.large_string()),
        plain.cast(pa.string_view()),
        plain.dictionary_encode(),
        pa.array(["unused", *routes]).dictionary_encode()[1:],
        pa.DictionaryArray.from_arrays(
            pa.array([3, 1, 3, 2, 0], pa.uint8()), ["日本", "", "Zü\0rich", "JFK-MIA", "unused"]
        ),
        pa.DictionaryArray.from_arrays([0, 1, 4, 2, 3], ["JFK-MIA", "", "Zü\0rich", "日本", "JFK-MIA"]),
        pa.chunked_array([routes[:2], [], routes[2:]]),
        pa.chunked_array([plain[:2].dictionary_encode(), plain[2:].dictionary_encode()]),
    ]
    for layout in layouts:
        assert hashed(layout) == expected


def test_numpy_text_and_bytes_are_hashed_alike() -> None:
    assert hashed(np.array(["", "JFK-MIA", "Zürich"])) == hashed(["", "JFK-MIA", "Zürich"])
    assert hashed(np.array([b"", b"\xff\x01"])) == hashed([b"", b"\xff\x01"])


@pytest.mark.parametrize("key", ["a\0b", b"a\0b"], ids=["text", "bytes"])
def test_numpy_text_and_bytes_do_not_end_at_a_nul(key: str | bytes) -> None:
    with contextlib.suppress(InvalidInputError):  # to refuse them would do
        assert hashed(np.array([key])) == [fingerprint(key, SEED)]


def test_every_layout_of_a_bytes_column_is_hashed_alike() -> None:
    column = [b"\xff\x00", b"ab", b"ab"]
    layouts = [
        column,
        pa.array(column, pa.binary(2)),
        np.array(column, dtype=object),
        pa.array(column, pa.large_binary()),
        pd.Series(column),
    ]
    for layout in layouts:
        assert hashed(layout) == [naive.fingerprint(key, SEED) for key in column]


@settings(max_examples=50)
@given(st.lists(st.integers(-(2**33), 2**33), min_size=1))
def test_times_agree_in_every_unit_and_zone(seconds: list[int]) -> None:
    expected = [naive.fingerprint_of(naive.canonical_nanoseconds(s * 10**9), SEED) for s in seconds]
    for unit, per_second in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        for zone in (None, "UTC", "America/New_York"):
            column = pa.array([s * per_second for s in seconds], pa.timestamp(unit, zone))
            assert hashed(column) == expected
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    in_new_york = [(epoch + dt.timedelta(seconds=s)).astimezone(NEW_YORK) for s in seconds]
    assert hashed(in_new_york) == expected
    assert hashed([moment.astimezone(dt.UTC).replace(tzinfo=None) for moment in in_new_york]) == expected
    assert hashed(np.array(seconds, dtype="datetime64[s]")) == expected
    assert hashed(pd.Series(np.array(seconds, dtype="datetime64[s]").astype("datetime64[ms]"))) == expected


@pytest.mark.parametrize("machine", ["America/New_York", "Asia/Tokyo"])
def test_times_without_a_zone_count_as_utc_wherever_the_machine_stands(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    naive_moment = dt.datetime(2013, 7, 4, 5, 15)  # noqa: DTZ001
    try:
        with monkeypatch.context() as patch:
            patch.setenv("TZ", machine)
            time.tzset()
            prints = [fingerprint(naive_moment, SEED), *hashed([naive_moment]), *hashed(pd.Series([naive_moment]))]
    finally:
        time.tzset()
    assert set(prints) == {naive.fingerprint(naive_moment.replace(tzinfo=dt.UTC), SEED)}


def test_a_nanosecond_makes_another_time() -> None:
    column = pa.array([0, 1, -1], pa.timestamp("ns"))
    expected = [naive.fingerprint_of(naive.canonical_nanoseconds(count), SEED) for count in (0, 1, -1)]
    assert hashed(column) == expected


def test_times_far_outside_the_range_of_nanoseconds_are_exact() -> None:
    column = pa.array([2**62], pa.timestamp("s"))
    assert hashed(column) == [naive.fingerprint_of(naive.canonical_nanoseconds(2**62 * 10**9), SEED)]


def test_dates_agree_in_every_layout() -> None:
    days = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29)]
    expected = [naive.fingerprint(day, SEED) for day in days]
    layouts = [
        days,
        pa.array(days, pa.date64()),
        np.array(days, dtype="datetime64[D]"),
        pa.array(days).dictionary_encode(),
    ]
    for layout in layouts:
        assert hashed(layout) == expected


def test_fingerprints_fill_sixty_bits_evenly() -> None:
    prints = np.array(hashed([f"key {i}" for i in range(4096)]), dtype=np.uint64)
    ones = [int((prints >> np.uint64(bit) & np.uint64(1)).sum()) for bit in range(60)]
    # each count is Binomial(4096, 1/2), of standard deviation 32: 6.1 of them leave 1e-9 a bit, 6e-8 in all
    assert max(abs(count - 2048) for count in ones) < 6.1 * 32
    assert prints.max() < 2**60


def test_pandas_times_keep_their_nanoseconds_in_lists_as_in_series() -> None:
    moments = [pd.Timestamp(1), pd.Timestamp(2)]
    assert hashed(moments) == hashed(pd.Series(moments)) == [fingerprint(moment, SEED) for moment in moments]


# --- integer indices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">i8", ">u8"])
def test_integers_of_every_width_pass_through(kind: str) -> None:
    column = np.array([0, 1, 100, 127], dtype=kind)
    assert indices_of([column], 128, SEED).tolist() == [0, 1, 100, 127]
    assert indices_of([column[::-2]], 128, SEED).tolist() == [127, 1]


def test_every_layout_of_an_integer_column_passes_through() -> None:
    column = [5, 2**40, 0, 5]
    plain = pa.array(column)
    layouts = [
        column,
        tuple(column),
        np.array(column, dtype=object),
        pd.Series(column),
        pd.Series(column, dtype="Int64"),
        pd.Series(column, dtype="category"),
        plain,
        plain.cast(pa.uint64()),
        plain.dictionary_encode(),
        pa.chunked_array([column[:1], column[1:]]),
        pa.chunked_array([plain[:1].dictionary_encode(), plain[1:].dictionary_encode()]),
    ]
    for layout in layouts:
        passed = indices_of([layout], 2**41, SEED)
        assert passed.dtype == np.int64
        assert passed.tolist() == column


@pytest.mark.parametrize(
    "empty",
    [[], (), np.array([], dtype=np.int32), pa.array([], pa.int8()), pa.chunked_array([], pa.int64())],
)
def test_an_empty_column_has_no_indices(empty: Any) -> None:
    assert indices_of([empty], 100, SEED).tolist() == []


@pytest.mark.parametrize(
    "empty", [[], pa.array([], pa.string()), pa.chunked_array([], pa.dictionary(pa.int8(), pa.string()))]
)
def test_an_empty_column_of_hashed_keys_has_no_indices(empty: Any) -> None:
    assert hashed(empty) == []
    assert indices_of([empty, empty], HASHED_DIM, SEED).tolist() == []


# --- tuples -------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.integers(0, 2**64 - 1), st.lists(st.tuples(texts, st.integers(-(2**63), LARGEST), st.dates()), min_size=1))
def test_tuples_equal_their_twin(seed: int, rows: list[tuple[str, int, dt.date]]) -> None:
    columns = list(zip(*rows, strict=True))
    expected = [naive.tuple_index([naive.fingerprint(part, seed) for part in row], seed) for row in rows]
    assert indices_of(columns, HASHED_DIM, seed).tolist() == expected


def test_tuples_with_the_same_letters_differ() -> None:
    columns = [["ab", "a", "abc", "", "c"], ["c", "bc", "", "abc", "ab"]]
    assert len(set(indices_of(columns, HASHED_DIM, SEED).tolist())) == 5


def test_the_number_of_columns_counts() -> None:
    column = ["x"]
    indices = [indices_of([column] * count, HASHED_DIM, SEED).item() for count in (1, 2, 3, 8)]
    assert len(set(indices)) == 4


def test_integer_parts_of_every_width_agree() -> None:
    names, numbers = ["a", "b"], [1, 100]
    expected = indices_of([names, numbers], HASHED_DIM, SEED).tolist()
    for kind in ("i1", "u2", "i4", "u8"):
        assert indices_of([names, np.array(numbers, dtype=kind)], HASHED_DIM, SEED).tolist() == expected


# --- bad keys -----------------------------------------------------------------------------------------------

PRIVATE_NAME = "Rosalind"
PRIVATE_NUMBER = 987654321


def shown(error: pytest.ExceptionInfo[BaseException]) -> str:
    """Return all that a user would see of an exception and of those chained to it."""
    return "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize(
    "column",
    [
        [PRIVATE_NUMBER, None],
        [PRIVATE_NAME, None],
        [None],
        [PRIVATE_NUMBER, PRIVATE_NAME],
        [PRIVATE_NAME, PRIVATE_NUMBER],
        [PRIVATE_NUMBER, True],
        [True, False],
        [float(PRIVATE_NUMBER)],
        [PRIVATE_NUMBER, 0.5],
        [float("nan")],
        [Decimal(PRIVATE_NUMBER)],
        [2**64 + PRIVATE_NUMBER],
        [-(2**63) - 1],
        [PRIVATE_NAME + "\ud800"],
        [dt.time(1)],
        [dt.timedelta(1)],
        [object()],
        PRIVATE_NUMBER,
        None,
        np.array([True]),
        np.array([float(PRIVATE_NUMBER)]),
        np.array([1j]),
        np.array([[1, 2]]),
        np.array(3),
        np.array([2**63 + PRIVATE_NUMBER], dtype=np.uint64),
        np.array(["NaT"], dtype="datetime64[s]"),
        pa.array([2**63 + PRIVATE_NUMBER], pa.uint64()),
        pa.array([PRIVATE_NUMBER, None]),
        pa.array([PRIVATE_NAME, None]).dictionary_encode(),
        pa.chunked_array([[1], [None]]),
        pa.DictionaryArray.from_arrays([0, 1], pa.array([PRIVATE_NAME, None])),
        pd.Series([PRIVATE_NAME, None]),
        pd.Series([1, None]),
        pd.Series([1, None], dtype="Int64"),
    ],
)
def test_bad_columns_of_keys_are_refused_without_telling_a_key(column: Any) -> None:
    with pytest.raises(InvalidInputError) as error:
        indices_of([column], HASHED_DIM, SEED)
    assert PRIVATE_NAME not in shown(error)
    assert str(PRIVATE_NUMBER) not in shown(error)


MISREAD_KEYS: dict[str, Any] = {
    "text and bytes": ["a", b"a"],
    "bytes and text": [b"a", "a"],
    "a date and a time": [dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5)],  # noqa: DTZ001
    "one text": "abc",
    "one mutable bytes": bytearray(b"abc"),
    "a set": {1, 2},
    "a mapping": {1: 2},
    "masked integers": np.ma.masked_array([1, 2], mask=[False, True]),
}


@pytest.mark.parametrize("column", MISREAD_KEYS.values(), ids=MISREAD_KEYS.keys())
def test_columns_that_would_be_misread_are_refused(column: Any) -> None:
    with pytest.raises(InvalidInputError):
        indices_of([column], HASHED_DIM, SEED)


UNHASHABLE_KEYS: dict[str, Any] = {
    "lists": [["a", "b"]],
    "tuples": [("a", "b")],
    "structs": [{"a": 1}],
    "run-end encoded": pa.RunEndEncodedArray.from_arrays([2], ["a"]),
    "extension type": pa.array([b"0" * 16], pa.uuid()),
    "text that is not UTF-8": pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], dtype=np.int32)), pa.py_buffer(b"\xff\xfe")]
    ),
    "a data frame": pd.DataFrame({"a": [1, 2]}),
}


@pytest.mark.parametrize("column", UNHASHABLE_KEYS.values(), ids=UNHASHABLE_KEYS.keys())
def test_columns_that_cannot_be_hashed_are_refused(column: Any) -> None:
    with pytest.raises(InvalidInputError):
        indices_of([column], HASHED_DIM, SEED)


def test_text_that_is_not_unicode_has_no_fingerprint() -> None:
    with pytest.raises(InvalidInputError):
        fingerprint("\ud800", SEED)


@pytest.mark.parametrize("index", [-1, 100, 2**60])
def test_indices_outside_the_domain_are_refused(index: int) -> None:
    with pytest.raises(InvalidInputError):
        indices_of([[5, index]], 100, SEED)


@pytest.mark.parametrize("dim", [1, 1000, HASHED_DIM - 1])
@pytest.mark.parametrize("columns", [[["a"]], [[b"a"]], [[dt.date(2000, 1, 1)]], [[1], [2]]], ids=str)
def test_hashed_keys_need_the_whole_domain(columns: list[Any], dim: int) -> None:
    with pytest.raises(InvalidInputError, match=rf"dim=2\*\*60, but this one has dim={dim}\."):
        indices_of(columns, dim, SEED)


def test_columns_of_different_lengths_are_refused_with_both_lengths() -> None:
    with pytest.raises(InvalidInputError, match="got 2, 3"):
        indices_of([["a", "b"], [1, 2, 3]], HASHED_DIM, SEED)


def test_an_index_needs_a_column() -> None:
    with pytest.raises(InvalidInputError, match="at least one column"):
        indices_of([], HASHED_DIM, SEED)


# --- the grid -----------------------------------------------------------------------------------------------

grids = st.sampled_from(
    [Fraction(1), Fraction(1, 100), Fraction(1, 8), Fraction(3), Fraction(10**18), Fraction(1, 10**18)]
)
resolutions = grids | st.builds(Fraction, st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1))
floats = st.floats(allow_nan=False, allow_infinity=False)


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


@settings(max_examples=300)
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


@settings(max_examples=300)
@given(near_the_grid())
def test_floats_beside_a_grid_point_are_truncated_exactly(pair: tuple[float, Fraction]) -> None:
    value, resolution = pair
    check_quantised([value], [Fraction(value)], resolution)
    check_one(value, resolution)


@settings(max_examples=200)
@given(st.lists(st.integers(1 - 2**63, LARGEST), max_size=6), resolutions)
def test_any_integers_are_truncated_exactly(values: list[int], resolution: Fraction) -> None:
    check_quantised(np.array(values, dtype=np.int64), [Fraction(value) for value in values], resolution)
    for value in values:
        check_one(value, resolution)


@settings(max_examples=100)
@given(st.lists(st.decimals(-(10**20), 10**20, places=9), min_size=1, max_size=6), resolutions)
def test_any_decimals_are_truncated_exactly(values: list[Decimal], resolution: Fraction) -> None:
    check_quantised(values, [Fraction(value) for value in values], resolution)
    for value in values:
        check_one(value, resolution)


@settings(max_examples=100)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=6), resolutions)
def test_single_precision_is_exact_too(values: list[float], resolution: Fraction) -> None:
    check_quantised(np.array(values, dtype=np.float32), [Fraction(value) for value in values], resolution)


@settings(max_examples=100)
@given(st.fractions(), resolutions)
def test_one_fraction_is_truncated_exactly(value: Fraction, resolution: Fraction) -> None:
    check_one(value, resolution)


@settings(max_examples=100)
@given(st.lists(floats, min_size=1, max_size=20), resolutions)
def test_the_steps_of_any_updates_sum_to_no_more_than_their_values(values: list[float], resolution: Fraction) -> None:
    total = sum(abs(Fraction(value)) for value in values)
    assume(total / resolution <= LARGEST)
    steps = quantise(values, resolution)
    assert sum(abs(int(step)) for step in steps) <= total / resolution


@settings(max_examples=100)
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


# --- public numbers -----------------------------------------------------------------------------------------


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


def test_decimals_of_any_exponent_are_decided_at_once() -> None:
    assert quantise_one(Decimal("1e-999999999"), Fraction(1)) == 0
    with pytest.raises(InvalidInputError, match="more than 2\\*\\*63 grid steps"):
        quantise_one(Decimal("-1e999999999"), Fraction(1))


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
    with pytest.raises(InvalidInputError, match=r"holds tuples; give each part as a column to projection.indices_of"):
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
