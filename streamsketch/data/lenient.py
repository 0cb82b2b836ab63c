"""Fields that may hold anything, such as those of features: what does not fit is missing, and never an error."""

import datetime as dt
import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from streamsketch.core.libraries import pa

_PLACES = 40  # a number of more is left as it is written, for whoever reads it to refuse
_BEYOND = "1e999"  # of every range, as infinities are
_LISTS = (list, tuple, np.ndarray)
_NUMBERS = (int, float, Decimal, np.number)


def lenient_json(line: bytes | str) -> Any:
    """Return JSON with its decimals exact, and with what Python's parser refuses of numbers: NaN, and long integers."""
    return _LENIENT.decode(line if isinstance(line, str) else text_of_json(line))


def text_of_json(line: bytes) -> str:
    """Return the text of JSON in bytes, as `json.loads` decodes them."""
    return line.decode(json.detect_encoding(line), "surrogatepass")


def _integer(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:  # more digits than Python reads, so an infinity
        return float(text)


_LENIENT = json.JSONDecoder(parse_float=Decimal, parse_int=_integer, parse_constant=float)


def decimal_text(value: Decimal) -> str:
    """Return a finite decimal as text, without an exponent unless it has very many places."""
    return format(value, "f") if abs(value.adjusted()) <= _PLACES else str(value)


def lenient_text(value: object) -> str | None:
    """Return a value of any type as text that features are read from, or None where it is missing.

    Numbers, booleans and dates become text as in Arrow and JSON, and lists of numbers JSON. What is none of them, NaN,
    and text that is not UTF-8 are missing.
    """
    if isinstance(value, np.number | np.bool_):
        value = value.item()
    if isinstance(value, _LISTS):
        texts = list(map(lenient_text, _entries(value)))
        return f"[{','.join(map(str, texts))}]" if texts and None not in texts else None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, _NUMBERS):
        return _number_text(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value.isoformat()
    try:
        text = value.decode() if isinstance(value, bytes) else value
        return text if isinstance(text, str) and text.encode() else None  # a lone surrogate has no UTF-8
    except UnicodeError:
        return None


def lenient_column(values: Sequence[object], *, lists: bool = False) -> "pa.Array":
    """Return values of any types as a column that features are read from: of text, as `lenient_text`.

    With ``lists`` it is one of lists of float64 where all values are lists, or missing: those are many times as fast.
    """
    if lists and all(value is None or isinstance(value, _LISTS) for value in values):
        return pa.array([None if value is None else _floats(value) for value in values], pa.list_(pa.float64()))
    return pa.array(map(lenient_text, values), pa.string())


def _entries(value: Any) -> Sequence[Any]:
    """Return the entries of a list of numbers; one entry that is missing for other lists."""
    entries = value.tolist() if isinstance(value, np.ndarray) else value
    plain = isinstance(entries, list | tuple) and all(
        isinstance(entry, _NUMBERS) and not isinstance(entry, bool) for entry in entries
    )
    return entries if plain else [None]


def _floats(value: object) -> list[float] | None:
    try:
        numbers = list(map(float, _entries(value)))
    except (TypeError, ValueError, OverflowError):  # None, a signalling NaN, an integer beyond every float
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def _number_text(value: Any) -> str | None:
    if isinstance(value, Decimal) and value.is_finite():
        return decimal_text(value)
    if isinstance(value, Decimal):
        value = float("nan" if value.is_nan() else value)  # a signalling NaN is no float
    if isinstance(value, float) and math.isnan(value):
        return None
    try:
        finite = isinstance(value, int) or math.isfinite(value)
        return repr(value) if finite else _BEYOND if value > 0 else f"-{_BEYOND}"
    except ValueError:  # an integer of more digits than Python writes
        return _BEYOND if value > 0 else f"-{_BEYOND}"
