"""Columns of keys as indices."""

import functools
from collections.abc import Sequence

import numpy as np

from streamsketch.core.libraries import pa, pc
from streamsketch.core.numbers import Ints, as_int64
from streamsketch.data.canonical import HASHED_DIM, OUT_OF_RANGE, PERSON, check_indices, fingerprint, seed_bytes
from streamsketch.data.columns import is_text_type, joined_bytes, key_column, value_type
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.blake2b import digest_column, keyed_state
from streamsketch.kernels.hashing import MAX_KEY, Words, add_product, field_elements

_FEW, _MOST_SAMPLED, _DIFFERENT = 512, 1 << 14, 0.75  # rows, rows, and the share from which keys rarely repeat


def index_of(key: object, dim: int, seed: int) -> int:
    """Return the index in [0, dim) of one key: an integer itself, anything else its fingerprint.

    Raises
    ------
    InvalidInputError
        For an integer outside [0, dim), a type without canonical bytes, or a fingerprint where ``dim`` is not 2^60.

    Examples
    --------
    >>> index_of(17, dim=100, seed=0), index_of("17", dim=1 << 60, seed=0) == index_of(b"17", dim=1 << 60, seed=0)
    (17, False)
    """
    if isinstance(key, np.datetime64):
        return int(indices_of([np.array([key])], dim, seed)[0])
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        if not 0 <= key < dim:
            raise InvalidInputError(OUT_OF_RANGE.format(which="out of range", dim=dim))
        return int(key)
    hashed = fingerprint(key, seed)
    check_hashed_dim(dim, f"keys of type {type(key).__name__}")
    return hashed


def indices_of(columns: Sequence[object], dim: int, seed: int) -> Ints:
    """Return the indices in [0, dim) of one column of keys, or of several columns read as tuples: int64, (n,).

    One column of integers is returned as it is. One column of another type becomes fingerprints. Several columns
    become one index for each row: the fingerprints f_i of the parts, combined as the low 60 bits of
    ``a_0 + Σ a_i f_i`` in GF(2^64) with public coefficients ``a_i = field_elements(seed, "tuple/n", n + 1)[i]`` for
    n columns (a universal hash).

    Parameters
    ----------
    columns
        One or more columns of equal length: lists, NumPy arrays, Series, Arrow arrays.

    Raises
    ------
    InvalidInputError
        For nulls, floats, booleans, mixed types, an index outside [0, dim), columns of different lengths, or
        fingerprints where ``dim`` is not 2^60.

    Examples
    --------
    >>> indices_of([[17, 18]], dim=100, seed=0)
    array([17, 18])
    >>> pairs = indices_of([["tea", "tea", "jam"], [1, 2, 1]], dim=1 << 60, seed=0)
    >>> len(set(pairs.tolist()))
    3
    """
    indices = encode_columns(columns, dim, seed)
    if indices.size:
        check_indices(int(indices.view(np.uint64).max()), dim)
    return indices


def encode_columns(columns: Sequence[object], dim: int, seed: int) -> Ints:
    """Return what `indices_of` returns, without checking the range of integers, which kernels do."""
    if len(columns) == 1:
        return _one_column(columns[0], dim, seed)
    if not columns:
        raise InvalidInputError("an index needs at least one column, got none")
    parts = [_fingerprints(key_column(column, "index"), seed) for column in columns]
    lengths = [part.size for part in parts]
    if len(set(lengths)) > 1:
        raise InvalidInputError(
            f"the columns of an index must have the same length, got {', '.join(map(str, lengths))}"
        )
    check_hashed_dim(dim, "tuples of columns")
    constant, *factors = field_elements(seed, f"tuple/{len(parts)}", len(parts) + 1)
    total = np.full(lengths[0], constant, dtype=np.uint64)
    for factor, part in zip(factors, parts, strict=True):
        add_product(total, np.uint64(factor), part.view(np.uint64))
    combined: Ints = (total & np.uint64(MAX_KEY)).view(np.int64)
    return combined


def _one_column(column: object, dim: int, seed: int) -> Ints:
    if type(column) is np.ndarray and column.ndim == 1 and column.dtype.kind in "iu":
        return as_int64(column, "index")
    array = key_column(column, "index")
    if pa.types.is_integer(value_type(array)):
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        return as_int64(array.to_numpy(zero_copy_only=False), "index")
    prints = _fingerprints(array, seed)
    check_hashed_dim(dim, f"keys of type {value_type(array)}")
    return prints


def check_hashed_dim(dim: int, what: str) -> None:
    """Raise `InvalidInputError` unless a projection of this dim hashes indices."""
    if dim != HASHED_DIM:
        raise InvalidInputError(
            f"{what} are hashed to 60 bits, which needs a projection with dim=2**60, but this one has dim={dim}. "
            f"Use dim=2**60, the default, or map the keys to integers in [0, {dim}) yourself"
        )


def _fingerprints(array: "pa.Array", seed: int) -> Ints:
    """Return the fingerprint of each key of an Arrow column without nulls."""
    if pa.types.is_dictionary(array.type):
        prints: Ints = _hashed(array.dictionary, seed)[array.indices.to_numpy(zero_copy_only=False)]
        return prints
    if repeats(array):
        return _fingerprints(array.dictionary_encode(), seed)
    return _hashed(array, seed)


def repeats(array: "pa.Array") -> bool:
    """Return whether a column seems to have few different keys: hashing one costs less than finding it among many."""
    if len(array) < _FEW:
        return False
    head = array[: min(len(array) // 16, _MOST_SAMPLED)]
    return len(head.dictionary_encode().dictionary) < _DIFFERENT * len(head)


def _hashed(array: "pa.Array", seed: int) -> Ints:
    tag, texts = _canonical(array)
    data, ends = joined_bytes(texts)
    words = digest_column(_state(seed), ord(tag), data, ends)
    words &= np.uint64(MAX_KEY)
    return words.view(np.int64)


def canonical_column(array: "pa.Array") -> "pa.Array":
    """Return the tag byte and canonical bytes of each key of an Arrow column without nulls, as in `fingerprint`."""
    tag, texts = _canonical(array)
    kind = pa.large_binary()
    return pc.binary_join_element_wise(pa.scalar(tag.encode(), kind), texts.cast(kind), pa.scalar(b"", kind))


def _canonical(array: "pa.Array") -> "tuple[str, pa.Array]":
    """Return the tag of a column and, as text or bytes, what follows it."""
    kind = array.type
    if pa.types.is_integer(kind):
        return "i", array.cast(pa.string())
    if pa.types.is_date(kind):
        return "d", array.cast(pa.int32()).cast(pa.string())
    if pa.types.is_timestamp(kind):
        counts, unit = array.cast(pa.int64()), {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
        try:
            return "t", pc.multiply_checked(counts, unit).cast(pa.string())
        except pa.ArrowInvalid:  # beyond 64 bits
            return "t", pa.array([str(count * unit) for count in counts.to_pylist()])
    return ("s" if is_text_type(kind) else "b"), array


@functools.lru_cache(maxsize=64)
def _state(seed: int) -> Words:
    return keyed_state(seed_bytes(seed), PERSON)
