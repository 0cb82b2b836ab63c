"""Digests of whole columns are those of hashlib."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.data.blake2b import digest_column, keyed_state
from streamsketch.data.keys import fingerprint, indices_of


@given(
    st.lists(st.binary(max_size=300), max_size=5),
    st.integers(1, 8),
    st.binary(min_size=1, max_size=64),
    st.binary(max_size=16),
)
@example([bytes(size) for size in (0, 126, 127, 128, 254, 255, 256, 1000)], 8, b"k", b"p")
def test_digests_are_those_of_hashlib(texts: list[bytes], words: int, key: bytes, person: bytes) -> None:
    out = np.empty((len(texts), words), dtype=np.uint64)
    data = np.frombuffer(b"".join(texts), dtype=np.uint8)
    stops = np.cumsum([len(text) for text in texts], dtype=np.int64)
    digest_column(keyed_state(8 * words, key, person), ord("s"), data, stops, out)
    for text, found in zip(texts, out, strict=True):
        plain = hashlib.blake2b(b"s" + text, digest_size=8 * words, key=key, person=person).digest()
        assert found.astype("<u8").tobytes() == plain


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]
)
@pytest.mark.parametrize("coded", [False, True])
def test_columns_of_any_layout_have_the_fingerprints_of_their_keys(kind: pa.DataType, *, coded: bool) -> None:
    texts = ["", "a", "ü" * 70, "a", "x" * 127, "y" * 128, "z" * 1000]
    keys = texts if pa.types.is_string(kind) or "string" in str(kind) else [text.encode() for text in texts]
    column = pa.array([keys[-1], *keys], kind)[1:]
    if coded:
        column = pa.DictionaryArray.from_arrays(pa.array([*range(len(keys))][::-1], pa.int8()), column)[1:]
        keys = keys[::-1][1:]
    assert indices_of([column], ss.HASHED_DIM, 7).tolist() == [fingerprint(key, 7) for key in keys]
