"""Columns of tables as what features are made of. What does not fit is missing, and never an error of one row."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamsketch.core.libraries import pa, pc
from streamsketch.core.numbers import Floats, Ints
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.data.columns import is_text_type, value_type
from streamsketch.data.keys import indices_of
from streamsketch.errors import InvalidInputError

_SPACE = " \t\n\f\r"
"""White space of features (WIRE.md): by other lists, as of Unicode or of C, readers would disagree about a row."""
_AROUND = f"[{_SPACE}]*"
_DIGITS = rf"{_AROUND}[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{{1,5}})?{_AROUND}"
_NUMBER = rf"^{_DIGITS}$"
_ENTRY = rf"({_DIGITS}|{_AROUND}null{_AROUND})"
_LIST = rf"^{_AROUND}\[{_ENTRY}(,{_ENTRY})*\]{_AROUND}$"
_MISSING = -1


def numbers_in(array: "pa.Array", name: str) -> Floats:
    """Return numbers as float64, (n,), NaN where there is none; text is read as numbers, true as 1 and false as 0.

    Raises
    ------
    InvalidInputError
        For a type that never holds numbers.
    """
    kind = value_type(array)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_decimal(kind):
        array, kind = array.cast(pa.string()), pa.string()  # as its text is read: Arrow's cast may round otherwise
    if is_text_type(kind):
        text = _valid(array.cast(pa.large_string()))
        numbers = pc.if_else(pc.match_substring_regex(text, _NUMBER), pc.utf8_trim(text, characters=_SPACE), None)
        array = numbers.cast(pa.float64())
        if array.null_count:
            array = pc.coalesce(array, _booleans_of(text))
    elif pa.types.is_boolean(kind) or pa.types.is_null(kind):
        array = array.cast(pa.int8()).cast(pa.float64())
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        array = array.cast(pa.float64(), safe=False)
    else:
        raise InvalidInputError(
            f"the column {name} holds {kind}, which is not a number; cast it, or make it a category"
        )
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)


def _booleans_of(texts: "pa.Array") -> "pa.Array":
    """Return 1 for true and 0 for false, as CSV and JSON have booleans, and null for other texts."""
    words = pc.ascii_lower(pc.utf8_trim(texts, characters=_SPACE))
    return pc.index_in(words, pa.array(["false", "true"], words.type), skip_nulls=True).cast(pa.float64())


def texts_in(array: "pa.Array", name: str) -> "pa.Array":
    """Return categories as text, plain or as a dictionary, null where there is none: blank text is also missing.

    Raises
    ------
    InvalidInputError
        For a type without one text for equal values, such as floats and lists.
    """
    kind = value_type(array)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kinds = pa.types.is_integer, pa.types.is_date, pa.types.is_boolean, pa.types.is_null, is_text_type
    if not any(is_kind(kind) for is_kind in kinds):
        raise InvalidInputError(
            f"the column {name} holds {kind}, and categories are text, integers, dates or booleans; cast it"
        )
    text = _valid(array.cast(pa.large_string()))
    return pc.if_else(pc.equal(pc.binary_length(text), 0), None, text).dictionary_encode()


def _valid(texts: "pa.Array") -> "pa.Array":
    """Return texts, null where one is not UTF-8."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raw = texts.cast(pa.large_binary()).to_pylist()
        return pa.array([None if text is None else _decoded(text) for text in raw], pa.large_string())
    return texts


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def text_hashes(texts: "pa.Array", seed: int) -> Ints:
    """Return the fingerprint of each text in a dictionary of texts, in [0, 2^60), or -1 where it is null."""
    hashes = np.append(indices_of([texts.dictionary], HASHED_DIM, seed), _MISSING)
    return np.ascontiguousarray(hashes[_codes(texts)])


def listed_places(texts: "pa.Array", values: Sequence[str]) -> Ints:
    """Return the place of each text in a dictionary of texts; len(values) for others, and one more where it is null."""
    places = {value: place for place, value in enumerate(values)}
    entry_places = [places.get(text, len(values)) for text in texts.dictionary.to_pylist()]
    return np.ascontiguousarray(np.array([*entry_places, len(values) + 1], dtype=np.int64)[_codes(texts)])


def _codes(texts: "pa.Array") -> Any:
    """Return where each text is in the dictionary, or -1, which is the last place."""
    return pc.fill_null(texts.indices, -1).to_numpy(zero_copy_only=False)


def vectors_in(array: "pa.Array", size: int, name: str) -> Floats:
    """Return lists of numbers as a matrix, float64, (n, size): zeros for those of another length, NaN for nulls.

    Text is read as a list of JSON, and is zeros if it is none of numbers and nulls.

    Raises
    ------
    InvalidInputError
        For a type that never holds lists of numbers.
    """
    if is_text_type(value_type(array)):
        array = _lists_of(array)
    if pa.types.is_null(array.type):  # of rows without any
        return np.zeros((len(array), size))
    kind = array.type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    kinds = pa.types.is_integer, pa.types.is_floating, pa.types.is_large_string, pa.types.is_null
    if not lists or not any(is_kind(kind.value_type) for is_kind in kinds):
        raise InvalidInputError(f"the column {name} holds {kind}, and embeddings are lists of numbers")
    lengths = pc.fill_null(pc.list_value_length(array), -1).to_numpy(zero_copy_only=False)
    fits = lengths == size
    out = np.zeros((len(array), size))
    if fits.any():
        kept = array if fits.all() else array.filter(pa.array(fits))
        out[fits] = numbers_in(kept.flatten(), name).reshape(-1, size)  # nulls become NaN, so the row is missing
    return out


def _lists_of(array: "pa.Array") -> "pa.Array":
    """Return text as lists of the texts of their entries, null where it is no list of numbers and nulls."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    text = _valid(array.cast(pa.large_string()))
    text = pc.if_else(pc.match_substring_regex(text, _LIST), text, None)
    return pc.split_pattern(pc.utf8_trim(text, characters=f"[]{_SPACE}"), ",")
