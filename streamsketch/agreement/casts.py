"""Columns of any source as the types of an agreement, so that equal tables have equal bytes before they are hashed.

A cast changes no value. What does not fit is an error that names the column, the row and both types, never the value.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.agreement.columns import Column
from streamsketch.agreement.text import TextRule
from streamsketch.core.documents import TableKey
from streamsketch.core.libraries import pa, pc
from streamsketch.data.columns import arrow_column, bytes_of_texts, is_bytes_type, is_text_type, keys_named
from streamsketch.data.decimals import DIGITS, decimals_of
from streamsketch.data.formats import ZONED
from streamsketch.errors import InvalidInputError

_VALUE_PLACES = 12
_WHOLE_DIGITS = 18  # of integers within 64 bits
_WHOLE = r"^[+-]?[0-9]+(\.0*)?$"
_DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$"
_COMMA = re.compile(r"\s*[-+]?[0-9.]*[0-9],[0-9]+\s*")
_GROUPED = re.compile(r"\s*[-+]?[0-9]{1,3}([,.;'\u2019_\s][0-9]{3})+([.,][0-9]*)?\s*")
_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_EXACT_FLOAT = 1 << 53
_TYPES = {"text": "string", "bytes": "binary", "date": "date32", "timestamp": "timestamp[us]"}
"""Arrow's names of the types of columns that are not int64."""

Mask: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = Sequence[int] | NDArray[np.int64]
_Cast: TypeAlias = Callable[["pa.Array"], "pa.Array"]


def cast(
    array: "pa.Array", column: Column, rows: Rows, *, keep_times: bool = False, alone: bool = False, hint: str = ""
) -> "pa.Array":
    """Return a column without missing values as Arrow's type for its logical one; ``rows`` are their numbers.

    Integers, booleans and decimals become int64, dates date32, times timestamps without a zone; text stays a dictionary
    if it is one, and with ``keep_times`` times in its place stay times. With ``alone`` whether a row can be cast does
    not depend on others: no type holds both nanoseconds and all years, so times in text are limited to 1678 to 2261.

    Raises
    ------
    InvalidInputError
        For a type that is not cast, or a value that does not fit; the ``hint`` ends its text.
    """
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if pa.types.is_null(kind) and not len(array):  # no row had a value, of which a type could be known
        return pa.array([], pa.type_for_alias(_TYPES.get(column.type, "int64")))
    if column.type == "text" and (is_text_type(kind) or (keep_times and pa.types.is_timestamp(kind))):
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if is_text_type(kind):
        array = array.cast(pa.string())
    step = _step(kind, column, alone=alone)
    if step is None:
        raise InvalidInputError(
            f"the column {column.name} holds {kind}, but the agreement has {column.type}: cast it to {column.type} "
            f"before it is sketched, or agree on another type{hint}"
        )
    try:
        return step(array)
    except (pa.ArrowException, _DoesNotFitError):
        row = rows[_first_failing(array, step)]
        raise InvalidInputError(
            f"the column {column.name} holds {kind}, and in row {row:,} a value that is not of the agreed type "
            f"{column.type}: correct the row or leave it out, or agree on another type{hint}"
        ) from None


def numbers(array: "pa.Array", name: str, resolution: Fraction | None, rows: Rows) -> "pa.Array":
    """Return values without missing ones as integers, decimals or floats; ``rows`` are their numbers.

    A float represents the multiple of the resolution that rounds to it, if there is one: 0.29 is 29 steps of 1/100, as
    the text and the decimal are, though its binary value is a little less. Such floats are moved by one unit in the
    last place, so that truncation toward zero finds that multiple. Without a resolution numbers stay as they are, and
    text is refused, because no row is at fault.
    """
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if is_text_type(kind) and resolution is not None:
        return _parsed(array.cast(pa.string()), name, rows)
    if pa.types.is_floating(kind):
        array = array.cast(pa.float32()) if pa.types.is_float16(kind) else array
        return array if resolution is None else _moved(array, resolution)
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return array
    if pa.types.is_null(kind) and not len(array):
        return array.cast(pa.int64())
    raise _no_numbers(kind, name)


def misfits(array: "pa.Array", column: Column | None) -> Mask:
    """Return which texts certainly are not of a column's type, or without a column no numbers: bool, (n,).

    All that it marks, `cast` or `numbers` refuse; they may refuse more. One look at a column finds these rows, however
    many they are.
    """
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    form = _DECIMAL
    if column is not None and column.places is None:
        form = {"integer": _WHOLE, "boolean": r"^(?i:true|false|0|1)$"}.get(column.type, "")
    if not form or not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return np.zeros(len(array), dtype=np.bool_)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    fits = pc.fill_null(pc.match_substring_regex(array, form), fill_value=True)
    marked: Mask = ~fits.to_numpy(zero_copy_only=False)
    return marked


def misfit(name: str, kind: "pa.DataType", row: int, column: Column | None) -> str:
    """Return what is wrong with a row that `misfits` marks, without its value."""
    wanted = "a plain decimal number of up to 12 places" if column is None else f"of the agreed type {column.type}"
    return (
        f"the column {name} holds {kind}, and in row {row:,} a text that is not {wanted}: correct the row or leave it "
        "out"
    )


def check_numeric(kind: "pa.DataType", name: str) -> None:
    """Raise `InvalidInputError` for a type of which no value is a number; text may hold numbers."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (numeric or is_text_type(kind) or pa.types.is_null(kind)):
        raise _no_numbers(kind, name)


def _no_numbers(kind: "pa.DataType", name: str) -> InvalidInputError:
    return InvalidInputError(f"the column {name} holds {kind}, but the agreement needs numbers; cast it first")


class _DoesNotFitError(Exception):
    """A value is not one of the agreed type."""


def _step(kind: "pa.DataType", column: Column, *, alone: bool) -> _Cast | None:  # noqa: PLR0911 - one return for each logical type
    """Return how Arrow's type is cast to a logical one, or None if it is not."""
    types = pa.types
    numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    match column.type:
        case "text" if types.is_integer(kind) or types.is_date(kind):
            return lambda array: array.cast(pa.string())
        case "bytes" if is_bytes_type(kind):
            return lambda array: array.cast(pa.binary())
        case "integer" if numbers or is_text_type(kind):
            return lambda array: _whole(array, 0, _WHOLE)
        case "boolean" if types.is_boolean(kind):
            return lambda array: array.cast(pa.int64())
        case "boolean" if types.is_integer(kind) or is_text_type(kind):
            return lambda array: _truth(array, kind)
        case "date" if types.is_date(kind) or is_text_type(kind) or (types.is_timestamp(kind) and kind.tz is None):
            return lambda array: _days(array, kind)
        case "timestamp" if types.is_date(kind) or types.is_timestamp(kind) or is_text_type(kind):
            return lambda array: _times(array, kind, ["ns"] if alone else ["ns", "us"])
    places = column.places
    if places is not None and (numbers or is_text_type(kind)):
        return lambda array: _whole(array, places, _DECIMAL)
    return None


def _whole(array: "pa.Array", places: int, form: str) -> "pa.Array":
    """Return numbers times 10^places, which must be whole, as int64."""
    if is_text_type(array.type):
        if not places:
            _require(pc.all(pc.match_substring_regex(array, form), min_count=0))
            array = pc.replace_substring_regex(array, r"^\+", "")
            return pc.replace_substring_regex(array, r"\.0*$", "").cast(pa.int64())
        array = decimals_of(array, places)
    if pa.types.is_floating(array.type):
        values = array.to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore"):
            scaled = np.rint(values.astype(np.float64) * 10.0**places)
        _require(np.all((np.abs(scaled) <= _EXACT_FLOAT) & ((scaled / 10.0**places).astype(values.dtype) == values)))
        return pa.array(scaled.astype(np.int64))
    if pa.types.is_decimal(array.type):
        # of 76 digits, as there are more than 38 on the way; refuses places that are not 0
        exact = array.cast(pa.decimal256(76, max(places, array.type.scale))).cast(pa.decimal256(76, places))
        counts = pa.Array.from_buffers(pa.decimal256(76, 0), len(exact), exact.buffers(), offset=exact.offset)
        return counts.cast(pa.int64())
    whole = array.cast(pa.int64())
    return pc.multiply_checked(whole, 10**places) if places else whole


def _truth(array: "pa.Array", kind: "pa.DataType") -> "pa.Array":
    if is_text_type(kind):
        array = pc.utf8_lower(array)
        true, false = (pc.is_in(array, pa.array(words)) for words in (["true", "1"], ["false", "0"]))
    else:
        true, false = pc.equal(array, 1), pc.equal(array, 0)
    _require(pc.all(pc.or_(true, false), min_count=0))
    return true.cast(pa.int64())


def _days(array: "pa.Array", kind: "pa.DataType") -> "pa.Array":
    if pa.types.is_timestamp(kind):
        counts = array.cast(pa.int64()).to_numpy()
        _require(not (counts % _DAY[kind.unit]).any())
        return pa.array(counts // _DAY[kind.unit], pa.int32()).cast(pa.date32())
    return array.cast(pa.date32())


def _times(array: "pa.Array", kind: "pa.DataType", units: Sequence[str]) -> "pa.Array":
    if pa.types.is_date(kind):
        return array.cast(pa.timestamp("s"))
    if pa.types.is_timestamp(kind):  # an instant, of which the zone says only how it is written
        return array.cast(pa.int64()).cast(pa.timestamp(kind.unit))
    zoned = pc.match_substring_regex(array, ZONED)
    for unit in units:  # of nanoseconds, years 1678 to 2261
        try:
            plain = pc.if_else(zoned, None, array).cast(pa.timestamp(unit))
            instants = pc.if_else(zoned, array, None).cast(pa.timestamp(unit, "UTC"))
            return pc.coalesce(plain, instants.cast(pa.int64()).cast(pa.timestamp(unit)))
        except pa.ArrowException:
            if unit == units[-1]:
                raise
    raise AssertionError


def _are_whole(array: "pa.Array") -> bool:
    """Return whether texts have up to 18 bytes, digits and minus: of them Arrow refuses those not of `_DECIMAL`."""
    joined = None if array.null_count else bytes_of_texts(array)
    if joined is None:
        return False
    used, ends = joined
    is_digit = used - np.uint8(ord("0")) <= 9
    return bool(np.diff(ends).max() <= _WHOLE_DIGITS and (is_digit | (used == ord("-"))).all())


def text_numbers() -> "pa.DataType":
    """Return the type that holds every number in text which `numbers` reads."""
    return pa.decimal128(DIGITS, _VALUE_PLACES)


def _parsed(array: "pa.Array", name: str, rows: Rows) -> "pa.Array":
    def parsed(part: "pa.Array") -> "pa.Array":
        if _are_whole(part):
            return part.cast(pa.int64())
        return decimals_of(part, _VALUE_PLACES)

    try:
        return parsed(array)
    except (pa.ArrowException, _DoesNotFitError):
        place = _first_failing(array, parsed)
        comma = "; it has a decimal comma: read CSV with decimal=',', on the command line --set decimal=,"
        grouped = "; if it groups thousands, read CSV with thousands, such as '.', in a shell --set thousands=."
        text = (array[place].cast(pa.binary()).as_py() or b"").decode(errors="replace")  # which may not be UTF-8
        hint = comma if _COMMA.fullmatch(text) else grouped if _GROUPED.fullmatch(text) else ""
        raise InvalidInputError(
            f"the column {name} holds text, and in row {rows[place]:,} a text that is not a plain decimal number of up "
            f"to 12 places: correct the row or leave it out{hint}"
        ) from None


def _moved(array: "pa.Array", resolution: Fraction) -> "pa.Array":
    values = array.to_numpy(zero_copy_only=False)
    if resolution == 1 or resolution.denominator > _EXACT_FLOAT or not len(values):
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        products = np.rint(values.astype(np.float64) / float(resolution)) * float(resolution.numerator)
        multiples = products / float(resolution.denominator)  # of exact integers, so correctly rounded
        meant = (np.abs(products) <= _EXACT_FLOAT) & (multiples.astype(values.dtype) == values)
    return pa.array(np.where(meant & (values != 0), np.nextafter(values, np.copysign(np.inf, values)), values))


def _require(holds: object) -> None:
    if not (holds.as_py() if isinstance(holds, pa.Scalar) else holds):
        raise _DoesNotFitError


def _first_failing(array: "pa.Array", step: _Cast) -> int:
    """Return the first row that does not pass a cast, by halving."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            step(array.slice(low, middle - low))
            low = middle
        except (pa.ArrowException, _DoesNotFitError):
            high = middle
    return low


def cast_keys(names: Iterable[Any], what: str, column: Column, rule: TextRule | None) -> list[TableKey]:
    """Return keys, which messages call ``what``, as values of the type of a column, spelt by its rule."""
    array = arrow_column(keys_named(names, what), "key")
    array = array if rule is None else rule.apply_to(array)
    keys: list[TableKey] = cast(array, column, range(1, len(array) + 1)).to_pylist() if len(array) else []
    return keys
