"""Keys and their fingerprints, whatever they come in."""

import contextlib
import datetime as dt
import hashlib
import time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsketch import InvalidInputError
from streamsketch.data.canonical import HASHED_DIM, fingerprint
from streamsketch.data.keys import indices_of
from tests.data.shared import LARGEST, SEED, hashed
from tests.oracles import naive

NEW_YORK = dt.timezone(dt.timedelta(hours=-5))

texts = st.text(st.characters(exclude_categories=["Cs"]))
moments = st.datetimes(timezones=st.none() | st.timezones())
keys = texts | st.binary() | st.integers(-(2**63), 2**63 - 1) | st.dates() | moments


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
    with pytest.raises(InvalidInputError, match=f"type {type(key).__name__} cannot be hashed"):
        fingerprint(key, SEED)


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
