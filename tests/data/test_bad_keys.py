"""Keys that are refused, without telling one."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from streamsketch import InvalidInputError
from streamsketch.data.canonical import HASHED_DIM, fingerprint
from streamsketch.data.keys import indices_of
from tests.data.shared import PRIVATE_NAME, PRIVATE_NUMBER, SEED, shown


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


def binary(ends: list[int], data: bytes) -> pa.Array:
    buffers = [None, pa.py_buffer(np.array(ends, dtype=np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)


UNHASHABLE_KEYS: dict[str, Any] = {
    "lists": [["a", "b"]],
    "tuples": [("a", "b")],
    "structs": [{"a": 1}],
    "run-end encoded": pa.RunEndEncodedArray.from_arrays([2], ["a"]),
    "extension type": pa.array([b"0" * 16], pa.uuid()),
    "text that is not UTF-8": pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], dtype=np.int32)), pa.py_buffer(b"\xff\xfe")]
    ),
    "text split within a character": binary([0, 1, 2], "ü".encode()).view(pa.string()),
    "bytes with ends that descend": binary([0, 1 << 20, 2], b"ab"),
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
