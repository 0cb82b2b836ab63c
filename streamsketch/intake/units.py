"""Rows whose privacy units will be clipped: a malformed row raises no error, which would reveal its unit's data.

A fault in a *row* drops that row: a null, NaN, an infinity, an index out of range, text that is not UTF-8, or empty
text as the unit. A value that is too large is clipped. A fault in a *column* (its type or length) is the caller's
mistake and raises an error.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from streamsketch.core.libraries import pa, pc
from streamsketch.core.numbers import Ints
from streamsketch.data.columns import arrow_column, is_bytes_type, is_key_type, is_text_type, value_type
from streamsketch.data.grid import quantise, quantise_one
from streamsketch.data.keys import check_hashed_dim, indices_of
from streamsketch.errors import InvalidInputError
from streamsketch.intake.columns import Mask, check_text, null, plain, salvage
from streamsketch.intake.events import BLANK, KEPT, MALFORMED, Events
from streamsketch.intake.objects import Lists, is_list
from streamsketch.projections.base import Projection

_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1
_MOST_STEPS = (1 << 62) - 1  # of one value; larger ones are clipped to it instead of raising an error
_DAY = 86_400_000  # in ms
_MAX_EXPONENT = 40  # of decimals: larger values exceed every limit, smaller ones are below every grid step


def unit_events(
    projection: Projection,
    units: "pa.Array",
    keys: "pa.Array | None",
    index: "Sequence[pa.Array]",
    values: Any,
    *,
    window: Ints | None = None,
    on_bad: Callable[[int, str], Any] | None = None,
) -> Events:
    """Return the valid rows of columns whose units will be clipped.

    Parameters
    ----------
    projection
        The public map, for its grid and its indices.
    units, keys, index
        Arrow arrays of one length, (n,), nulls included; ``keys`` may be None.
    values
        An Arrow array, a list of finite numbers, or None if each row counts 1.
    window
        Number of each row's window: int64, (n,).
    on_bad
        Called with the position of each malformed row, and why it is dropped.

    Raises
    ------
    InvalidInputError
        For columns of different lengths, or of a type that is not valid for units, keys, indices or values.
    """
    names = ["unit", *([] if keys is None else ["key"]), *("index" for _ in index)]
    first, rows = len(names) - len(index), len(units)
    arrays = [whole_days(plain(array)) for array in [units, *([] if keys is None else [keys]), *index]]
    if isinstance(values, pa.Array) and pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    typed = values if isinstance(values, pa.Array) else None
    _check_types(projection, arrays, names, typed)
    present = _present([*arrays, *([] if typed is None else [typed])])
    blank = rows - int(present.sum())

    def read(arrays: "list[pa.Array]", valid: Mask) -> Events:
        *kept, its_values, its_window = [*arrays, values, window]
        if not valid.all():
            *kept, its_values, its_window = (_filtered(column, valid) for column in (*arrays, values, window))
        for array, name in zip(kept[:first], names, strict=False):
            check_text(array, name)
        amounts = None if its_values is None else _within_reach(its_values, projection)
        steps = _steps(amounts, len(kept[0]), projection.grid)
        indices = indices_of(kept[first:], projection.dim, projection.seed)
        key = kept[1] if first == 2 else None
        fates = None if valid.all() else np.where(valid, KEPT, np.where(present, MALFORMED, BLANK)).astype(np.uint8)
        return Events(key, kept[0], indices, steps, its_window, amounts, rows=rows, blank=blank, fates=fates)

    valid = present & _countable(projection, arrays[first:], typed)
    try:
        events = read(arrays, valid)
    except InvalidInputError:
        # a dictionary may hold a bad text of another row; decoded, each row is judged by its own text
        arrays = [array.dictionary_decode() if pa.types.is_dictionary(array.type) else array for array in arrays]
        valid = functools.reduce(np.logical_and, map(_valid_text, arrays), valid)
        events = read(arrays, valid)
    if on_bad is not None:
        why = f"text is not UTF-8, a value is not finite, or an index is outside [0, {projection.dim})"
        for place in np.flatnonzero(present & ~valid).tolist():
            on_bad(place, why)
    return events


def column_events(
    projection: Projection, units: object, keys: object, index: Sequence[object], values: object
) -> list[Events]:
    """Return the valid rows of columns of any kind, as `unit_events`, in parts whose columns have one type each.

    Columns are Arrow or NumPy arrays, lists or Series. Fields of a list may differ in type. One of a type that the
    column does not take makes only its own row malformed.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> projection = SJLT(dim=100, sketch_dim=64, sparsity=4, seed=7)
    >>> (events,) = column_events(projection, ["Ann", "", "Bob"], None, [[17, 18, 19]], [3.0, 1.0, float("nan")])
    >>> events.indices, events.steps, events.blank, events.malformed
    (array([17]), array([3]), 1, 1)
    """
    columns = [units, *([] if keys is None else [keys]), *index]
    names = ["unit", *([] if keys is None else ["key"]), *("index" for _ in index)]

    def arrays_of(columns: list[Any]) -> "list[pa.Array]":
        return [arrow_column(column, name) for column, name in zip(columns, names, strict=True)]

    def read(arrays: "list[pa.Array]", values: Any) -> Events:
        unit, *rest = arrays
        return unit_events(projection, unit, None if keys is None else rest.pop(0), rest, values)

    try:
        arrays, amounts = arrays_of(columns), None if values is None else arrow_column(values, "value")
    except InvalidInputError:
        if not any(map(is_list, [*columns, values])):
            raise
    else:
        return [read(arrays, amounts)]
    lists = Lists([*names, *([] if values is None else ["value"])], [*columns, *([] if values is None else [values])])
    parts: list[Events] = []
    for group in lists.groups():

        def part(start: int, stop: int, group: list[Any] = group) -> Events:
            some = [column[start:stop] for column in group]
            return read(arrays_of(some[: len(names)]), None if values is None else some[-1])

        parts += salvage(part, len(group[0]), lambda *_: None)
    none, dropped = np.empty(0, dtype=np.int64), lists.rows - sum(part.rows for part in parts)
    return [*parts, Events(None, None, none, none, rows=dropped, blank=lists.blank)]


def whole_days(array: "pa.Array") -> "pa.Array":
    """Return a column of date64 as date32, null where a date is out of range, and others as they are."""
    if not pa.types.is_date64(value_type(array)):
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    days = array.cast(pa.int64()).fill_null(0).to_numpy() // _DAY
    missing = array.is_null().to_numpy(zero_copy_only=False) | (np.abs(days) > _INT32_MAX)
    return pa.array(days.astype(np.int32), mask=missing).cast(pa.date32())


def _check_types(projection: Projection, arrays: "list[pa.Array]", names: list[str], values: "pa.Array | None") -> None:
    lengths = {len(array) for array in [*arrays, *([] if values is None else [values])]}
    if len(lengths) > 1:
        raise InvalidInputError(f"the columns must have one length, got {', '.join(map(str, sorted(lengths)))}")
    for array, name in zip(arrays, names, strict=True):
        kind = value_type(array)
        if pa.types.is_null(kind):
            continue  # a batch of nulls alone: every row is dropped
        fits = is_key_type(kind) and not (name == "key" and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)))
        if not fits:
            raise InvalidInputError(
                f"the {name} column must hold text, bytes or integers"
                f"{'' if name == 'key' else ', dates or times'}, got {kind}; "
                f"{'declare it as text in the agreement' if pa.types.is_date(kind) else 'cast it first'}"
            )
    kinds = [value_type(array) for array in arrays[names.index("index") :]]
    if len(kinds) > 1:
        check_hashed_dim(projection.dim, "tuples of columns")
    elif not (pa.types.is_integer(kinds[0]) or pa.types.is_null(kinds[0])):
        check_hashed_dim(projection.dim, f"keys of type {kinds[0]}")
    if values is not None:
        kind = value_type(values)
        checks = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
        if not any(is_kind(kind) for is_kind in checks):
            raise InvalidInputError(f"the value column must hold integers, floats or decimals, got {kind}; cast it")


def _present(arrays: "Sequence[pa.Array]") -> Mask:
    """Return which rows have no nulls, and a unit, the first array, that is not empty text: bool, (n,)."""
    present = ~functools.reduce(np.logical_or, map(null, arrays))
    unit = arrays[0]
    texts = unit.dictionary if pa.types.is_dictionary(unit.type) else unit
    if is_text_type(texts.type) or is_bytes_type(texts.type):
        named = pc.greater(pc.binary_length(texts), 0)
        named = pc.fill_null(named.take(unit.indices) if texts is not unit else named, fill_value=False)
        present &= named.to_numpy(zero_copy_only=False)
    return present


def _countable(projection: Projection, index: "list[pa.Array]", values: "pa.Array | None") -> Any:
    """Return which rows have a finite value and an index in range: bool, (n,), or True for all."""
    countable: Any = True
    if len(index) == 1 and pa.types.is_integer(value_type(index[0])):
        array = index[0].dictionary_decode() if pa.types.is_dictionary(index[0].type) else index[0]
        indices = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
        countable = (indices >= 0) & (indices < projection.dim)
    if values is not None and pa.types.is_floating(values.type):
        countable &= np.isfinite(values.fill_null(0).to_numpy(zero_copy_only=False))
    return countable


def _valid_text(array: "pa.Array") -> Mask:
    """Return which rows hold no text that is not UTF-8: bool, (n,)."""
    valid = np.ones(len(array), dtype=np.bool_)

    def bad(place: int, _: Exception) -> None:
        valid[place] = False

    for _ in salvage(lambda start, stop: check_text(array[start:stop], ""), len(array), bad):
        pass
    return valid


def _filtered(column: Any, valid: Mask) -> Any:
    """Return some rows of an Arrow or NumPy array or a list."""
    if isinstance(column, pa.Array):
        return column.filter(pa.array(valid))
    if isinstance(column, list):
        return list(itertools.compress(column, valid))
    return None if column is None else column[valid]


def _steps(values: object, length: int, grid: Fraction) -> Ints:
    if values is None:
        return np.full(length, min(quantise_one(1, grid), _MOST_STEPS), dtype=np.int64)
    return np.clip(quantise(values, grid), -_MOST_STEPS, _MOST_STEPS)


def _within_reach(values: Any, projection: Projection) -> Any:
    """Clip values, so that their grid steps fit int64; one at the reach still has more steps than `_MOST_STEPS`."""
    reach = math.ceil((_MOST_STEPS + 1) * projection.grid)
    if not isinstance(values, pa.Array):
        return [_cut(value, reach) for value in values]
    if pa.types.is_decimal(values.type) or len(values) == 0:
        return values if _are_short(values, reach) else [_cut(value, reach) for value in values.to_pylist()]
    array = values.to_numpy(zero_copy_only=False)
    if array.dtype.kind == "f":
        return np.clip(array.astype(np.float64), -float(reach), float(reach))
    if array.dtype == np.uint64 and reach > _INT64_MAX:  # which quantise would refuse
        return [_cut(value, reach) for value in array.tolist()]
    held = np.iinfo(array.dtype)  # the type's limits may be within the reach, and are not symmetric
    return np.clip(array, max(-reach, int(held.min)), min(reach, int(held.max)))


def _cut(value: Any, reach: int) -> Fraction:
    """Return a finite number clipped to the reach; a Decimal with a huge exponent, expanded, could fill memory."""
    if isinstance(value, Decimal) and value and abs(value.adjusted()) > _MAX_EXPONENT:
        far = -reach if value.is_signed() else reach
        return Fraction(0 if value.adjusted() < 0 else far)
    if not value:
        return Fraction(0)
    return max(min(Fraction(value), Fraction(reach)), Fraction(-reach))


def _are_short(values: "pa.Array", reach: int) -> bool:
    """Return whether decimals are short, and all within the reach."""
    if not len(values) or not pa.types.is_decimal128(values.type) or abs(values.type.scale) > _MAX_EXPONENT:
        return False
    ends = pc.min_max(values)
    return bool(-reach <= ends["min"].as_py() and ends["max"].as_py() <= reach)
