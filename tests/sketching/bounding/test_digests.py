"""Units' digests: equal for equal units however they come, apart for others, and those of the twin."""

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.sketching.bounding.digests import UnitDigests
from tests.oracles import naive
from tests.sketching.bounding.reading import read_columns

SECRET = bytes(range(32))
DIGESTS = UnitDigests(SECRET)


def digests(units: Any, kind: pa.DataType | None = None) -> list[list[int]]:
    return DIGESTS.of(units if isinstance(units, pa.Array) else pa.array(units, kind)).tolist()


@given(st.lists(st.binary(max_size=40), max_size=9))
def test_bytes_are_digested_as_by_the_twin(names: list[bytes]) -> None:
    assert digests(names, pa.binary()) == [naive.unit_digest("b", name, SECRET) for name in names]


@given(st.lists(st.text(max_size=20), max_size=9))
def test_text_is_digested_as_by_the_twin(names: list[str]) -> None:
    assert digests(names, pa.string()) == [naive.unit_digest("s", name.encode(), SECRET) for name in names]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=9))
def test_integers_are_digested_as_by_the_twin(numbers: list[int]) -> None:
    names = [number.to_bytes(8, "little", signed=True) + bytes([number < 0]) for number in numbers]
    assert digests(numbers, pa.int64()) == [naive.unit_digest("i", name, SECRET) for name in names]


@pytest.mark.parametrize(
    "column",
    [pa.array([7, 3, 7], kind) for kind in (pa.int8(), pa.int32(), pa.uint8(), pa.uint64())]
    + [pa.array([7, 3, 7], pa.int32()).dictionary_encode()],
    ids=lambda column: str(column.type),
)
def test_integers_of_any_width_are_one_unit(column: pa.Array) -> None:
    assert digests(column) == digests([7, 3, 7], pa.int64())


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_text_in_any_layout_is_one_unit(kind: pa.DataType) -> None:
    names = ["", "ß", "a name of more than seven bytes", "ß"]
    assert digests(pa.array(names).cast(kind)) == digests(names, pa.string())


@pytest.mark.parametrize(
    "kind", [pa.large_binary(), pa.binary_view(), pa.binary(3), pa.dictionary(pa.int8(), pa.binary())], ids=str
)
def test_bytes_in_any_layout_are_one_unit(kind: pa.DataType) -> None:
    projection = ss.SJLT(dim=9, sketch_dim=4, sparsity=1, seed=1)
    names = pa.array([b"Ann", b"Bob", b"Ann"], pa.binary())
    column = names.dictionary_encode() if pa.types.is_dictionary(kind) else names.cast(kind)
    expected = read_columns(projection, names, [1, 1, 1], [pa.array([0, 0, 0])], None, secret=SECRET)
    for slot_of in (column, column.slice(0, 3)):
        found = read_columns(projection, slot_of, [1, 1, 1], [pa.array([0, 0, 0])], None, secret=SECRET)
        assert found.units.tolist() == expected.units.tolist() == digests(names)


def test_slices_are_what_they_show() -> None:
    names = pa.array(["one", "two", "three", "four"])
    for array in (names, names.dictionary_encode(), names.cast(pa.binary_view()).cast(pa.string())):
        assert digests(array.slice(1, 2)) == digests(["two", "three"])
    assert digests(pa.array([1, 2, 3]).slice(1, 1)) == digests([2])
    assert digests(names.slice(2, 0)) == []


def test_other_types_are_other_units() -> None:
    day = dt.date(1970, 1, 8)
    midnight = dt.datetime(1970, 1, 8, tzinfo=dt.UTC)
    names: list[Any] = [
        "7",
        b"7",
        7,
        -7,
        7 - (1 << 63),
        day,
        midnight,
        "7 ",
        "",
        b"",
        *("\0" * n for n in (1, 2, 7, 8)),
    ]
    alike = [digests([name]) for name in names] + [digests([7 + (1 << 63)], pa.uint64())]
    assert len({str(digest) for digest in alike}) == len(alike)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_of_any_unit_are_one_unit(unit: str) -> None:
    moments = pa.array([1_704_067_200], pa.timestamp("s"))
    assert digests(moments.cast(pa.timestamp(unit))) == digests(moments)


def test_the_secret_decides() -> None:
    assert UnitDigests(bytes(32)).of(pa.array(["a"])).tolist() != digests(["a"])


def test_many_units_have_as_many_digests_and_fill_the_shards_evenly() -> None:
    found = DIGESTS.of(pa.array(np.arange(200_000)))
    assert len(np.unique(found[:, 0])) == len(np.unique(found[:, 1])) == 200_000
    shards = np.bincount((found[:, 0] % 64).astype(int), minlength=64)
    assert 0.8 < shards.min() / shards.mean() <= shards.max() / shards.mean() < 1.2


def test_text_that_is_none_is_refused() -> None:
    broken = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff"))
    with pytest.raises(ss.InvalidInputError, match="not valid UTF-8"):
        DIGESTS.of(broken)
