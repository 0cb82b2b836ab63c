"""Columns from users as Arrow arrays of one exact type.

Arrow guesses types: it reads bytes as integers, a mix of dates and times as dates, and ends NumPy text at the first
NUL. A key silently read as another one would corrupt a sketch unnoticed, so ambiguous columns are refused.
"""

import contextlib
import datetime as dt
import importlib
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.documents import TableKey
from streamsketch.core.libraries import pa, pc
from streamsketch.core.numbers import Ints, short
from streamsketch.core.wrong import COLUMN, wrong_type
from streamsketch.errors import InvalidInputError

LARGEST_ASCII = 0x7F
"""The largest byte of ASCII, which is UTF-8 as it stands."""

_FAMILIES: tuple[type, ...] = (bool, int, float, Decimal, str, bytes, dt.datetime, dt.date)


def key_column(column: object, name: str) -> "pa.Array":
    """Return a column of keys as one Arrow array: integers, text, bytes, dates or times, without nulls.

    Parameters
    ----------
    column
        List, tuple, range, NumPy array, pandas Series, or Arrow array, plain or dictionary-encoded.
    name
        Name of the column in messages.

    Raises
    ------
    InvalidInputError
        For other containers, other or mixed types, more than one dimension, or nulls.
    """
    array = arrow_column(column, name)
    if len(array) == 0:
        return pa.array([], pa.int64())
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
        array = array.dictionary_decode()  # no row may use its nulls
    kind = value_type(array)
    if not is_key_type(kind):
        raise InvalidInputError(
            f"keys of type {kind} cannot be hashed. The {name} column must hold integers, text, bytes, dates or "
            "times; cast it to one of them first"
        )
    _refuse_nulls(array, name)
    if pa.types.is_date64(kind):
        try:
            array = array.cast(pa.date32())
        except pa.ArrowInvalid:
            raise InvalidInputError(f"the {name} column has date64 values within a day; cast it to times") from None
    return array


def plain_key(key: object, name: str) -> Any:
    """Return a key without NumPy's types; raise `InvalidInputError` with a name for what it is if it is of others."""
    plain = key.item() if isinstance(key, np.generic) else key
    if type(plain) not in (str, bytes, int):
        raise InvalidInputError(f"{name} must be text, bytes or integers, got {type(plain).__name__}; cast them")
    return plain


NOT_SHOWN = "the names of its other columns are not shown, because of a pivoted table they are data"
"""What an error says instead of the names of columns that data have."""


def keys_named(keys: Any, what: str) -> Any:
    """Return keys in any collection as a column for `key_column` or `arrow_column`.

    Parameters
    ----------
    keys
        A list, a set, any other iterable, or a column as of `key_column`.
    what
        What the keys are called in messages, such as ``"public_keys"``.

    Raises
    ------
    InvalidInputError
        For text or bytes, whose characters would be read as keys, and for objects that are not collections.
    """
    is_one = isinstance(keys, str | bytes | bytearray | memoryview) or not isinstance(keys, Iterable)
    if is_one or len(getattr(keys, "shape", "1")) != 1:
        raise InvalidInputError(
            f"{what} must be a collection of keys, got one {type(keys).__name__}; put a single key in a list: "
            f"{what}=[key]"
        )
    is_column = isinstance(keys, pa.Array | pa.ChunkedArray) or hasattr(keys, "shape")
    return keys if is_column else list(keys)


def value_column(column: object) -> NDArray[Any]:
    """Return a column of values as NumPy integers, float64, or Decimal or Fraction objects, (n,), without nulls.

    Raises what `number_column` raises.
    """
    numbers = number_column(column)
    if isinstance(numbers, pa.Array):
        objects: NDArray[Any] = numbers.to_numpy(zero_copy_only=False)
        return objects
    values: NDArray[Any] = numbers
    return values


def number_column(column: object) -> Any:
    """Return a column of values as NumPy integers, float64 or Fraction objects, (n,), or decimals of Arrow, no nulls.

    Raises
    ------
    InvalidInputError
        For other containers or types, more than one dimension, or nulls.
    """
    if isinstance(column, np.ndarray) and column.ndim == 1 and type(column) is np.ndarray:
        if column.dtype.kind in "iu":
            return column
        if column.dtype.kind == "f" and column.dtype.itemsize <= np.dtype(np.float64).itemsize:
            return column.astype(np.float64)
    if isinstance(column, list | tuple) and column and all(isinstance(value, Fraction) for value in column):
        return np.array(column, dtype=object)  # Arrow has no fractions
    array = arrow_column(column, "value")
    if len(array) == 0:
        return np.empty(0, dtype=np.int64)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise InvalidInputError(f"values must be integers, floats or decimals, got {kind}; cast them first")
    _refuse_nulls(array, "value")
    if pa.types.is_decimal(kind):
        return array
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values.astype(np.float64) if values.dtype.kind == "f" else values


def value_type(array: "pa.Array") -> "pa.DataType":
    """Return the type of a plain or dictionary-encoded array's elements."""
    return array.type.value_type if pa.types.is_dictionary(array.type) else array.type


def arrow_column(column: Any, name: str) -> "pa.Array":
    """Return any supported column as one Arrow array, nulls included.

    Raises
    ------
    InvalidInputError
        For other containers, mixed types or more than one dimension.
    """
    try:
        if isinstance(column, pa.Array | pa.ChunkedArray):
            return _combined(column, name)
        if isinstance(column, list | tuple | range):
            return _from_list(list(column), name)
        if isinstance(column, np.ndarray):
            return _from_numpy(column, name)
        if len(getattr(column, "shape", ())) == 1:  # a Series of pandas or polars, not a frame
            if str(getattr(column, "dtype", "")) == "object":
                return _from_list(column.tolist(), name)
            if hasattr(column, "__arrow_c_stream__"):
                return _combined(pa.chunked_array(column), name)
            if hasattr(column, "to_numpy"):  # pandas before version 3
                return _combined(pa.array(column, from_pandas=True), name)
    except InvalidInputError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the {name} column could not be read as one column of integers, numbers, text, bytes, dates or times "
            f"({type(error).__name__})"
        ) from None
    needed = (
        f"the {name} column must be a list, a tuple, a range, a one-dimensional NumPy array, a Series or an Arrow array"
    )
    raise InvalidInputError(str(wrong_type(needed, column, COLUMN)))


def check_codes(array: "pa.Array", name: str) -> None:
    """Raise `InvalidInputError` if a dictionary-encoded column has a code without a word: kernels would trust it."""
    if pa.types.is_dictionary(array.type):
        ends = pc.min_max(array.indices).as_py()
        if ends["min"] is not None and not 0 <= ends["min"] <= ends["max"] < len(array.dictionary):
            raise InvalidInputError(
                f"the {name} column is not a valid Arrow array: it has codes from {ends['min']} to {ends['max']}, and "
                f"a dictionary of {len(array.dictionary)}; write its file again, or see its validate(full=True)"
            )


def _combined(array: "pa.Array | pa.ChunkedArray", name: str) -> "pa.Array":
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        check_codes(chunk, name)
    if isinstance(array, pa.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # older versions of Arrow return a chunked array if there are no chunks
        array = pa.array([], array.type)
    return array


def _from_list(column: list[Any], name: str) -> "pa.Array":
    families = {_family(kind) for kind in set(map(type, column))}
    if families == {int, float} and name == "value":
        families = {float}
    if len(families) > 1:
        names = ", ".join(sorted(family.__name__ for family in families))
        raise InvalidInputError(f"the {name} column must hold one type, got {names}; cast them to one")
    if families == {dt.datetime}:
        return _from_times(column, name)
    if families & {tuple, list}:
        raise InvalidInputError(
            f"the {name} column holds tuples; pass each part as a column to projection.indices_of(…)"
        )
    return pa.array(column)


def _from_times(column: list[Any], name: str) -> "pa.Array":
    if any(time != time for time in column):  # noqa: PLR0124 - pandas' NaT
        raise InvalidInputError(f"the {name} column has nulls; drop or fill those rows first")
    if len({time.tzinfo is None for time in column}) > 1:
        raise InvalidInputError(f"the {name} column mixes times with and without a zone; add a zone to those without")
    if len({hasattr(time, "nanosecond") for time in column}) > 1:
        raise InvalidInputError(f"the {name} column mixes datetime and pandas.Timestamp; cast them to one")
    if not hasattr(column[0], "nanosecond"):
        return pa.array(column)
    zone = column[0].tzinfo
    kind = pa.timestamp("ns", None if zone is None else pa.lib.tzinfo_to_string(zone))
    return pa.array([time.value for time in column], pa.int64()).cast(kind)  # Arrow would stop at microseconds


def _family(kind: type) -> type:
    if issubclass(kind, np.integer):
        return int
    if issubclass(kind, np.floating) and np.dtype(kind).itemsize <= np.dtype(np.float64).itemsize:
        return float
    return next((family for family in _FAMILIES if issubclass(kind, family)), kind)


def _from_numpy(column: NDArray[Any], name: str) -> "pa.Array":
    if column.ndim != 1:
        raise InvalidInputError(f"the {name} column must be one-dimensional, got shape {column.shape}")
    if isinstance(column, np.ma.MaskedArray):
        raise InvalidInputError(f"the {name} column is a masked array; drop or fill the masked rows first")
    if column.dtype.kind == "f" and column.dtype.itemsize > np.dtype(np.float64).itemsize:
        raise InvalidInputError(f"the {name} column is {column.dtype}, wider than float64; cast it first")
    if column.dtype.kind == "M" and np.datetime_data(column.dtype)[0] in ("h", "m"):
        column = column.astype("datetime64[s]")  # Arrow knows days and seconds, not hours and minutes
    if column.dtype.kind in "OUS":
        return _from_list(column.tolist(), name)
    return pa.array(column.astype(column.dtype.newbyteorder("="), copy=False))


def is_key_type(kind: "pa.DataType") -> bool:
    """Return whether keys of this type have canonical bytes."""
    types = pa.types
    return any(
        is_kind(kind)
        for is_kind in (
            types.is_integer,
            types.is_string,
            types.is_large_string,
            types.is_string_view,
            types.is_binary,
            types.is_large_binary,
            types.is_binary_view,
            types.is_fixed_size_binary,
            types.is_date,
            types.is_timestamp,
        )
    )


def is_text_type(kind: "pa.DataType") -> bool:
    """Return whether Arrow values of a type are text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes_type(kind: "pa.DataType") -> bool:
    """Return whether Arrow values of a type are bytes."""
    types = pa.types
    is_variable = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(is_variable or types.is_fixed_size_binary(kind))


def bytes_of_texts(array: "pa.Array") -> tuple[NDArray[np.uint8], NDArray[Any]] | None:
    """Return all bytes of a column of text, and where each text ends behind a 0: uint8, (m,), and integers, (n + 1,).

    Nothing is copied or read as UTF-8, and bytes of nulls may be anything. None for views, no texts or invalid offsets.
    """
    if not len(array) or not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        return None
    _, numbers, texts = array.buffers()
    kind = np.dtype(np.int64 if pa.types.is_large_string(array.type) else np.int32)
    ends = np.frombuffer(numbers, kind, len(array) + 1, array.offset * kind.itemsize)
    data = np.frombuffer(texts or b"", np.uint8)
    if not (ends[0] >= 0 and ends[-1] <= data.size and (ends[1:] >= ends[:-1]).all()):
        return None
    return data[ends[0] : ends[-1]], ends - ends[0]


def is_ascii(array: "pa.Array") -> bool:
    """Return whether all bytes of a column of text are ASCII, which is UTF-8 as it stands; False for views."""
    joined = bytes_of_texts(array)
    return joined is not None and int(joined[0].max(initial=0)) <= LARGEST_ASCII


def joined_bytes(array: "pa.Array") -> tuple[NDArray[np.uint8], Ints]:
    """Return the values of a column of text or bytes as one, where the first begins, and the end of each.

    Returns
    -------
    tuple
        uint8, (m,), and int64, (n + 1,): ascending, in [0, m]. The first may begin after 0.

    Raises
    ------
    InvalidInputError
        For text that is not UTF-8.
    """
    is_text = is_text_type(array.type)
    if pa.types.is_string_view(array.type):
        _validate(array, is_text)
    joined = array.cast(pa.large_binary())
    ends = np.frombuffer(joined.buffers()[1], dtype=np.int64, count=len(joined) + 1, offset=8 * joined.offset)
    data = np.frombuffer(joined.buffers()[2] or b"", dtype=np.uint8)
    is_sound = ends[0] >= 0 and ends[-1] <= data.size and bool(np.all(ends[1:] >= ends[:-1]))
    if not is_sound or (is_text and data[ends[0] : ends[-1]].max(initial=0) > LARGEST_ASCII):
        _validate(array, is_text)
    data.flags.writeable = ends.flags.writeable = False  # kernels are compiled for each mix of such arrays and others
    return data, ends


def _validate(array: "pa.Array", is_text: bool) -> None:  # noqa: FBT001
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raise InvalidInputError(
            "a text key is not valid UTF-8; fix it, or pass it as bytes"
            if is_text
            else "a column of bytes is not a valid Arrow array; see its validate(full=True)"
        ) from None


def times_of(array: "pa.Array") -> list[Any]:
    """Return an Arrow column of times, without nulls, as a list of Python objects, exactly.

    Nanoseconds become `pandas.Timestamp` where pandas is installed; without it, whole microseconds become
    `datetime.datetime`, as all coarser times do.

    Raises
    ------
    InvalidInputError
        For a time zone unknown to this system, years outside 1 to 9999, or nanoseconds without pandas.
    """
    unit, zone = array.type.unit, _zone(array.type.tz)
    counts = array.cast(pa.int64()).to_pylist()
    if unit == "ns":
        with contextlib.suppress(ImportError):
            time = importlib.import_module("pandas").Timestamp  # optional, and slow to load
            if zone is None:
                return [time(count, unit="ns") for count in counts]
            return [time(count, unit="ns", tz="UTC").tz_convert(zone) for count in counts]
        if any(count % 1000 for count in counts):
            raise InvalidInputError("times finer than microseconds need pandas, which is not installed")
        counts, unit = [count // 1000 for count in counts], "us"
    step = dt.timedelta(microseconds={"s": 10**6, "ms": 1000, "us": 1}[unit])
    epoch = dt.datetime(1970, 1, 1, tzinfo=None if zone is None else dt.UTC)
    try:
        times = [epoch + count * step for count in counts]
        return times if zone is None else [time.astimezone(zone) for time in times]
    except OverflowError:
        raise InvalidInputError("times must lie in the years 1 to 9999") from None


def key_values(keys: "pa.Array") -> list[TableKey]:
    """Return an Arrow column of keys, without nulls, as a list of Python objects; times as `times_of` does.

    Raises
    ------
    InvalidInputError
        For keys that Python does not have: as in `times_of`, dates outside the years 1 to 9999, and text that is not
        UTF-8.
    """
    try:
        values: list[Any] = times_of(keys) if pa.types.is_timestamp(keys.type) else keys.to_pylist()
    except OverflowError:
        raise InvalidInputError("dates must lie in the years 1 to 9999") from None
    except UnicodeDecodeError:
        raise InvalidInputError("text must be UTF-8") from None
    return values


def check_keys(keys: "pa.Array") -> None:
    """Raise `InvalidInputError` unless all keys of a plain column, as `key_column` returns, are `key_values`."""
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"keys are damaged: {short(str(error))}") from None
    if pa.types.is_timestamp(keys.type) or pa.types.is_date(keys.type):  # of others Arrow and Python have the same
        key_values(keys)


def _zone(name: str | None) -> Any:
    try:
        return None if name is None else pa.lib.string_to_tzinfo(name)
    except Exception:  # noqa: BLE001 - of pytz, zoneinfo, the file system or Arrow, by the name and what is installed
        raise InvalidInputError(f"the time zone {name!a:.60} is not known on this system") from None


def _refuse_nulls(array: "pa.Array", name: str) -> None:
    if array.null_count:
        raise InvalidInputError(
            f"the {name} column has nulls ({array.null_count} of {len(array)} rows); drop or fill those rows first"
        )
