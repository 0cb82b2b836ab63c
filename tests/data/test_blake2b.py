"""Digests of whole columns are those of hashlib, and nothing outside the texts is read."""

import ctypes
import hashlib
import mmap
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamsketch.core.jit import kernel
from streamsketch.data.canonical import HASHED_DIM, fingerprint
from streamsketch.data.keys import indices_of
from streamsketch.kernels.blake2b import digest_column, digest_under_keys, keyed_state
from streamsketch.kernels.words import bytes_at, put_word

Guarded = Callable[[bytes], Iterator[NDArray[np.uint8]]]

KEY, PERSON = b"k", b"p"


def expected(texts: Sequence[bytes], tag: bytes = b"s", key: bytes = KEY, person: bytes = PERSON) -> list[int]:
    digests = (hashlib.blake2b(tag + text, digest_size=8, key=key, person=person).digest() for text in texts)
    return [int.from_bytes(digest, "little") for digest in digests]


def joined(texts: Sequence[bytes], before: bytes = b"") -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    data = np.frombuffer(before + b"".join(texts), dtype=np.uint8)
    return data, np.cumsum([len(before), *map(len, texts)], dtype=np.int64)


def digests(texts: Sequence[bytes]) -> list[int]:
    found: list[int] = digest_column(keyed_state(KEY, PERSON), ord("s"), *joined(texts)).tolist()
    return found


@given(
    st.lists(st.binary(max_size=300), max_size=20),
    st.binary(min_size=1, max_size=1),
    st.binary(min_size=1, max_size=64),
    st.binary(max_size=16),
    st.binary(max_size=20),
)
@example([bytes(size) for size in (0, 126, 127, 128, 254, 255, 256, 1000)], b"s", b"k", b"p", b"")
def test_digests_are_those_of_hashlib(texts: list[bytes], tag: bytes, key: bytes, person: bytes, before: bytes) -> None:
    found = digest_column(keyed_state(key, person), ord(tag), *joined(texts, before))
    assert found.tolist() == expected(texts, tag, key, person)


@given(
    st.lists(st.binary(min_size=16, max_size=16), max_size=20),
    st.binary(max_size=16),
    st.lists(st.binary(max_size=8), max_size=20),
)
@example([bytes([place] * 16) for place in range(17)], b"p", [b"", b"1", b"12345678", b""])
def test_digests_under_many_keys_are_those_of_hashlib(keys: list[bytes], person: bytes, messages: list[bytes]) -> None:
    words = np.frombuffer(b"".join(keys), dtype="<u8").reshape(-1, 2).astype(np.uint64)
    found = digest_under_keys(words, person, messages)
    wanted = [
        [hashlib.blake2b(message, digest_size=8, key=key, person=person).digest() for message in messages]
        for key in keys
    ]
    assert found.shape == (len(keys), len(messages))
    assert [[int(digest).to_bytes(8, "little") for digest in row] for row in found] == wanted


def test_texts_of_every_length_are_hashed_beside_each_other() -> None:
    rng = np.random.default_rng(1)
    ascending = [rng.bytes(size) for size in range(401)]
    for texts in (ascending, ascending[::-1], [ascending[place] for place in rng.permutation(401)]):
        assert digests(texts) == expected(texts)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 17])
@pytest.mark.parametrize("sizes", [(14,), (0,), (3, 1000), (127, 128, 0, 300), (5000, 1, 2, 3, 4)])
def test_any_number_of_texts_fills_the_lanes(count: int, sizes: tuple[int, ...]) -> None:
    texts = [bytes([1 + place]) * sizes[place % len(sizes)] for place in range(count)]
    assert digests(texts) == expected(texts)


@given(
    st.lists(st.integers(0, 25), max_size=40), st.lists(st.tuples(st.integers(0, 39), st.integers(24, 300)), max_size=3)
)
@example([23] * 17, [])
@example([0] * 16, [(3, 300)])
@example([15] * 24, [(9, 24), (20, 129)])
def test_groups_of_short_texts_are_hashed_as_others(sizes: list[int], long: list[tuple[int, int]]) -> None:
    """Eight short texts take another path, also while other lanes are within a long one."""
    for place, size in long:
        sizes[place : place + 1] = [size]
    texts = [bytes((37 * row + column) % 256 for column in range(size)) for row, size in enumerate(sizes)]
    assert digests(texts) == expected(texts)


@kernel
def slices(
    data: NDArray[np.uint8], places: NDArray[np.int64], stops: NDArray[np.int64], out: NDArray[np.uint64]
) -> None:
    for row in range(places.size):
        out[row] = bytes_at(data, places[row], stops[row])


@pytest.fixture
def guarded() -> Guarded:
    """Return a function that puts bytes behind, and before, a page that cannot be read."""
    if sys.platform == "win32":
        pytest.skip("no mprotect")
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    whole = np.frombuffer(memory, dtype=np.uint8)
    for guard in (0, 2):
        start = ctypes.c_void_p(whole.ctypes.data + guard * page)
        assert ctypes.CDLL(None).mprotect(start, ctypes.c_size_t(page), 0) == 0

    def put(content: bytes) -> Iterator[NDArray[np.uint8]]:
        places = [whole[page : page + len(content)], whole[2 * page - len(content) : 2 * page]]
        for place in places:
            place[:] = np.frombuffer(content, dtype=np.uint8)
            yield place

    return put


def test_words_are_slices_and_nothing_else_is_read(guarded: Guarded) -> None:
    for size in (0, 1, 2, 7, 8, 9, 15, 16, 17, 24):
        content = bytes(range(1, size + 1))
        pairs = [(place, stop) for stop in range(size + 1) for place in range(stop + 1)]
        places, stops = np.array(pairs, dtype=np.int64).T.copy()
        for data in guarded(content):
            out = np.zeros(len(pairs), dtype=np.uint64)
            slices(data, places, stops, out)
            assert out.tolist() == [
                int.from_bytes(content[place : min(stop, place + 8)], "little") for place, stop in pairs
            ]


@kernel
def put(data: NDArray[np.uint8], place: int, word: np.uint64) -> None:
    put_word(data, place, word)


def test_a_word_is_eight_bytes_at_any_place(guarded: Guarded) -> None:
    for size in (8, 9, 17):
        for data in guarded(bytes(size)):
            for place in range(size - 7):
                data[:] = 255
                put(data, place, np.uint64(0x0102_0304_0506_0708))
                assert data.tolist() == [255] * place + [8, 7, 6, 5, 4, 3, 2, 1] + [255] * (size - 8 - place)


def test_hashing_reads_the_texts_only(guarded: Guarded) -> None:
    for sizes in (
        (0,),
        (1,),
        (3, 2, 1),
        (7,),
        (8,),
        (127,),
        (128,),
        (14, 14, 14),
        (300, 5),
        (0, 0, 9, 0),
        *([one] * 8 for one in (0, 7, 22, 23)),
        [15] * 10,
    ):
        texts = [bytes([65 + place]) * size for place, size in enumerate(sizes)]
        _, ends = joined(texts)
        for data in guarded(b"".join(texts)):
            found = digest_column(keyed_state(KEY, PERSON), ord("s"), data, ends)
            assert found.tolist() == expected(texts)


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
    assert indices_of([column], HASHED_DIM, 7).tolist() == [fingerprint(key, 7) for key in keys]


@pytest.mark.parametrize("different", [1, 40, 2000])
@pytest.mark.parametrize("kind", [pa.string(), pa.string_view(), pa.binary(), pa.binary(4), pa.date32()], ids=str)
def test_long_columns_have_the_fingerprints_of_their_keys(kind: pa.DataType, different: int) -> None:
    """Keys that repeat are hashed once, others as they come."""
    numbers = np.random.default_rng(3).integers(0, different, 2000).astype(np.int32)
    column = pa.array([f"{number:04}" for number in numbers])
    column = pa.array(numbers).cast(kind) if pa.types.is_date(kind) else column.cast(pa.binary()).cast(kind)
    keys = column.to_pylist()
    for array, those in ((column, keys), (column[3:1995], keys[3:1995])):
        assert indices_of([array], HASHED_DIM, 7).tolist() == [fingerprint(key, 7) for key in those]
