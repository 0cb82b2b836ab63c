"""Convert keys to indices.

Integer keys are used as indices directly. Text, bytes, dates and times, and tuples of columns become 60-bit
*fingerprints*, keyed by the projection's public seed. n distinct keys collide with probability at most
n²/2^61; a collision costs accuracy, never privacy.
"""

import datetime as dt
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamsketch.core import INT64_MAX, MAX_KEY, Ints, add_product, as_int64, field_elements
from streamsketch.data.blake2b import digest_column, keyed_state
from streamsketch.data.columns import is_bytes_type, is_text_type, joined_bytes, key_column, value_type
from streamsketch.errors import InvalidInputError

HASHED_DIM = MAX_KEY + 1
"""The size of the fingerprint domain, 2^60: the `dim` that keys other than integers need."""

_PERSON = b"streamsketch.key"
_OUT_OF_RANGE = (
    "index {which}: indices must lie in [0, {dim}). "
    "Give the projection a larger dim (up to 2**60), or pass keys as text to have them hashed"
)


def fingerprint(key: object, seed: int) -> int:
    """Return the 60-bit fingerprint of one key.

    It is the low 60 bits, little-endian, of an 8-byte BLAKE2b with key = ``seed`` (8 bytes, little-endian),
    person = ``streamsketch.key`` and, as message, one tag byte and the key's canonical bytes: ``s`` and UTF-8
    for text, ``b`` and the bytes themselves, ``i`` and ASCII decimal for integers, ``d`` and ASCII decimal
    days since 1970-01-01 for dates, ``t`` and ASCII decimal nanoseconds since 1970-01-01T00:00Z for times
    (times without a zone count as UTC). So 1, "1" and b"1" differ.

    Raises
    ------
    InvalidInputError
        For any other type.

    Examples
    --------
    >>> len({fingerprint(key, seed=0) for key in (1, "1", b"1")})
    3
    """
    return int.from_bytes(_digester(_keyed(seed))(key), "little") & MAX_KEY


def index_of(key: object, dim: int, seed: int) -> int:
    """Return the index in [0, dim) of one key: an integer itself, anything else its fingerprint.

    Raises
    ------
    InvalidInputError
        For an integer outside [0, dim), a type without canonical bytes, or a fingerprint where ``dim`` is not 2^60.
    """
    if isinstance(key, np.datetime64):
        return int(indices_of([np.array([key])], dim, seed)[0])
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        if not 0 <= key < dim:
            raise InvalidInputError(_OUT_OF_RANGE.format(which="out of range", dim=dim))
        return int(key)
    hashed = fingerprint(key, seed)
    _require_hashed_dim(dim, f"keys of type {type(key).__name__}")
    return hashed


def indices_of(columns: Sequence[Any], dim: int, seed: int) -> Ints:
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
    """
    indices = encode_columns(columns, dim, seed)
    if indices.size:
        check_indices(int(indices.view(np.uint64).max()), dim)
    return indices


def encode_columns(columns: Sequence[Any], dim: int, seed: int) -> Ints:
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
    _require_hashed_dim(dim, "tuples of columns")
    constant, *factors = field_elements(seed, f"tuple/{len(parts)}", len(parts) + 1)
    total = np.full(lengths[0], constant, dtype=np.uint64)
    for factor, part in zip(factors, parts, strict=True):
        add_product(total, np.uint64(factor), part.view(np.uint64))
    combined: Ints = (total & np.uint64(MAX_KEY)).view(np.int64)
    return combined


def check_indices(largest: int, dim: int) -> None:
    """Raise `InvalidInputError` unless the largest index, as an unsigned 64-bit integer, lies in [0, dim)."""
    if largest >= dim:
        signed = largest - (1 << 64) if largest > INT64_MAX else largest
        raise InvalidInputError(_OUT_OF_RANGE.format(which="negative" if signed < 0 else "too large", dim=dim))


def _one_column(column: Any, dim: int, seed: int) -> Ints:
    if type(column) is np.ndarray and column.ndim == 1 and column.dtype.kind in "iu":
        return as_int64(column, "index")
    array = key_column(column, "index")
    if pa.types.is_integer(value_type(array)):
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        return as_int64(array.to_numpy(zero_copy_only=False), "index")
    prints = _fingerprints(array, seed)
    _require_hashed_dim(dim, f"keys of type {value_type(array)}")
    return prints


def _require_hashed_dim(dim: int, what: str) -> None:
    if dim != HASHED_DIM:
        raise InvalidInputError(
            f"{what} are hashed to 60 bits, which needs a projection with dim=2**60, but this one has dim={dim}. "
            f"Use dim=streamsketch.HASHED_DIM, or map the keys to integers in [0, {dim}) yourself"
        )


def _fingerprints(array: pa.Array, seed: int) -> Ints:
    """Return the fingerprint of each key of an Arrow column without nulls; each distinct key is hashed once."""
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    distinct = encoded.dictionary
    if not len(distinct):
        return np.empty(0, dtype=np.int64)
    is_text = is_text_type(distinct.type)
    if (is_text or is_bytes_type(distinct.type)) and not distinct.null_count:
        data, stops = joined_bytes(distinct)
        words = np.empty((len(distinct), 1), dtype=np.uint64)
        digest_column(keyed_state(8, _seed_bytes(seed), _PERSON), ord("s" if is_text else "b"), data, stops, words)
    else:
        digest = _digester(_keyed(seed))
        words = np.frombuffer(b"".join(map(digest, _distinct_keys(distinct))), dtype="<u8").reshape(-1, 1)
    prints: Ints = (words[:, 0] & np.uint64(MAX_KEY)).astype(np.int64)
    codes: Ints = encoded.indices.to_numpy(zero_copy_only=False)
    return prints[codes]


def canonical_column(array: pa.Array) -> list[bytes]:
    """Return the canonical bytes of each key of an Arrow column without nulls."""
    return list(map(canonical_bytes, _distinct_keys(array)))


def _distinct_keys(distinct: pa.Array) -> Iterable[Any]:
    if pa.types.is_timestamp(distinct.type):
        unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[distinct.type.unit]
        return (_Nanoseconds(count * unit) for count in distinct.cast(pa.int64()).to_pylist())
    if pa.types.is_date(distinct.type):  # Python's dates end with the year 9999
        return map(_Days, distinct.cast(pa.int32()).to_pylist())
    try:
        keys: Iterable[Any] = distinct.to_pylist()
    except UnicodeDecodeError:
        raise InvalidInputError("a text key is not valid UTF-8; fix it, or pass it as bytes") from None
    return keys


class _Nanoseconds(int):
    """Nanoseconds since 1970-01-01T00:00Z, as a type distinct from plain integers."""


class _Days(int):
    """Days since 1970-01-01, as a type distinct from plain integers."""


def _keyed(seed: int) -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=8, key=_seed_bytes(seed), person=_PERSON)


def _seed_bytes(seed: int) -> bytes:
    return seed.to_bytes(8, "little")


def _digester(keyed: "hashlib.blake2b") -> Callable[[object], bytes]:
    def digest(key: object) -> bytes:
        state = keyed.copy()
        state.update(canonical_bytes(key))
        return state.digest()

    return digest


def canonical_bytes(key: object) -> bytes:  # noqa: PLR0911 - one return for each type of key
    """Return the tag byte and the canonical bytes of a key, as described in `fingerprint`."""
    if isinstance(key, str):
        try:
            return b"s" + key.encode()
        except UnicodeEncodeError:
            raise InvalidInputError("a text key contains lone surrogates, which UTF-8 cannot encode") from None
    if isinstance(key, bytes):
        return b"b" + key
    if isinstance(key, _Nanoseconds):
        return b"t%d" % key
    if isinstance(key, _Days):
        return b"d%d" % key
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return b"i%d" % int(key)
    if isinstance(key, dt.datetime) and key == key:  # noqa: PLR0124 - pandas' NaT is no time
        zoned = key if key.tzinfo else key.replace(tzinfo=dt.UTC)
        elapsed = zoned - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        nanoseconds = elapsed // dt.timedelta(microseconds=1) * 1000 + getattr(key, "nanosecond", 0)  # of pandas
        return b"t%d" % nanoseconds
    if isinstance(key, dt.date) and not isinstance(key, dt.datetime):
        return b"d%d" % (key - dt.date(1970, 1, 1)).days
    raise InvalidInputError(
        f"keys of type {type(key).__name__} have no canonical bytes. Use integers, text, bytes, dates or times "
        f"(cast floats and booleans to one of them first)"
    )
