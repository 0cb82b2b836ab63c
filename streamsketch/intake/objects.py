"""Lists of Python objects as columns: a list has no type, so a field of one row must not decide the type of others."""

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from streamsketch.core.libraries import pa
from streamsketch.data.columns import arrow_column
from streamsketch.errors import InvalidInputError

Row: TypeAlias = tuple[Any, Any, Any, Any]
"""(unit, key, index, value)."""

KEYS: tuple[type, ...] = (str, bytes, int, np.integer)
INDICES: tuple[type, ...] = (*KEYS, dt.date, dt.datetime)
VALUES: tuple[type, ...] = (int, float, Decimal, Fraction)


def is_malformed(row: Row) -> bool:
    """Return whether a field of a row is missing (None, NaN, NaT), or its value is infinite."""
    value = row[3]
    if isinstance(value, Decimal):
        return not value.is_finite() or is_malformed((*row[:3], 0))
    try:
        missing = any(field is None or bool(field != field) for field in row)  # noqa: PLR0124 - NaN and NaT
    except (TypeError, ValueError, ArithmeticError):  # pandas.NA, an array, a signalling NaN
        return True
    return missing or (isinstance(value, float) and math.isinf(value))


def is_list(column: object) -> bool:
    """Return whether a column holds Python objects."""
    if isinstance(column, np.ndarray):
        return column.ndim == 1 and column.dtype.kind in "OUS"
    return isinstance(column, list | tuple) or (
        len(getattr(column, "shape", ())) == 1 and str(getattr(column, "dtype", "")) == "object"
    )


class Lists:
    """Columns of equal length, some of them lists, whose rows are read in groups of equal types.

    Parameters
    ----------
    names
        Names of the columns: unit, key, index and value.
    columns
        Lists, or what `arrow_column` reads.

    Raises
    ------
    InvalidInputError
        For columns of different lengths, a typed one that cannot be read, or a list in which no field has a type that
        the column takes: then the column is wrong, not a row.
    """

    def __init__(self, names: Sequence[str], columns: Sequence[Any]) -> None:
        self._columns = [
            list(column) if is_list(column) else arrow_column(column, name)
            for name, column in zip(names, columns, strict=True)
        ]
        lengths = {len(column) for column in self._columns}
        if len(lengths) > 1:
            raise InvalidInputError(f"the columns must have one length, got {', '.join(map(str, sorted(lengths)))}")
        types: list[list[type | None]] = []
        self.rows = lengths.pop()
        """How many rows there are; ``blank`` of them have a null in a list."""
        nulls = [False] * self.rows
        for name, column in zip(names, self._columns, strict=True):
            if isinstance(column, list):
                if name == "value":
                    column[:] = [field.item() if isinstance(field, np.generic) else field for field in column]
                types.append(_types(name, column))
                nulls = [null or field is None for null, field in zip(nulls, column, strict=True)]
        self.blank = sum(nulls)
        self._groups: dict[tuple[type | None, ...], list[int]] = defaultdict(list)
        for place, kinds in enumerate(zip(*types, strict=True)):
            if None not in kinds:
                self._groups[kinds].append(place)

    def groups(self) -> Iterator[list[Any]]:
        """Yield the columns of each group: rows with fields of the same types. Rows with a wrong type are left out."""
        for places in self._groups.values():
            taken = pa.array(places, pa.int64())
            yield [
                [column[place] for place in places] if isinstance(column, list) else column.take(taken)
                for column in self._columns
            ]


def _types(name: str, column: list[Any]) -> list[type | None]:
    """Return the type of each field; None for one of a type that the column does not take."""
    kinds = {"key": KEYS, "value": VALUES}.get(name, INDICES)
    types = [type(field) if _is_of(field, kinds) else None for field in column]
    if column and not any(types):
        wrong = {type(field).__name__ for field in column if not is_malformed((field,) * 4)}
        if wrong:
            raise InvalidInputError(
                f"the {name} column must hold {'numbers' if name == 'value' else 'text, bytes or integers'}, got "
                f"{', '.join(sorted(wrong)):.60}; cast it first"
            )
    return types


def _is_of(field: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(field, kinds) and not isinstance(field, bool) and not is_malformed((field,) * 4)
