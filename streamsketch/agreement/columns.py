"""Columns of an agreement: a name, and one of a few logical types that say how a value is hashed."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from streamsketch.core.libraries import pa
from streamsketch.core.numbers import short
from streamsketch.core.text import check_text
from streamsketch.data.columns import is_bytes_type, is_text_type
from streamsketch.errors import InvalidInputError

TYPES = ("integer", "text", "bytes", "date", "timestamp", "boolean", "decimal(PLACES)")
KEY_TYPES = ("text", "integer", "bytes", "date")
MAX_COLUMNS = 64
MAX_PLACES = 18
_DECIMAL = re.compile(r"decimal\((0|[1-9][0-9]?)\)")


class Column(NamedTuple):
    """A column: its name, and the logical type to which its values are cast before they are hashed.

    The types are ``"integer"`` of 63 bits; ``"text"``, to which integers and dates are cast as ``"7"`` and
    ``"2026-01-31"``; ``"bytes"``; ``"date"``; ``"timestamp"``, an instant (a time without a zone is in UTC);
    ``"boolean"``, hashed as the integers 1 and 0; and ``"decimal(2)"``, hashed as the integer number of hundredths. A
    column of another type is cast if that changes no value, and refused otherwise.

    Examples
    --------
    >>> week, price = Column("week", "integer"), Column("price", "decimal(2)")
    >>> str(week), price.places
    ('week:integer', 2)
    """

    name: str
    type: str

    @property
    def places(self) -> int | None:
        """The number of decimal places of a decimal type."""
        match = _DECIMAL.fullmatch(self.type)
        return None if match is None else int(match[1])

    @property
    def is_whole(self) -> bool:
        """Whether its values are hashed as integers, so that they can also be indices without hashing."""
        return self.type in ("integer", "boolean") or self.places is not None

    def __str__(self) -> str:
        return f"{self.name}:{self.type}"


def columns_of(value: Any, what: str, default: str) -> tuple[Column, ...]:
    """Return columns from a name, a pair, a mapping of names to types, or a sequence of names and pairs.

    Raises
    ------
    InvalidInputError
        For none or too many, names that repeat, and unknown types.
    """
    if isinstance(value, Mapping):
        value = list(value.items())
    elif isinstance(value, str | Column) or (_is_pair(value) and value[1] in _type_names(value[1])):
        value = [value]
    if not isinstance(value, Sequence) or not 1 <= len(value) <= MAX_COLUMNS:
        raise InvalidInputError(
            f"{what} must be 1 to {MAX_COLUMNS} columns, as names or as a dict of names to types, got {short(value)}"
        )
    columns = tuple(_column(column, what, default) for column in value)
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise InvalidInputError(f"{what} names a column twice: {short(names)}")
    return columns


def column_of(value: object, role: str) -> Column:
    """Return the one column of a role, ``"key"`` or ``"unit"``; errors as `columns_of`, also for several."""
    columns = columns_of(value, f"the {role} column", "text")
    if len(columns) > 1:
        raise InvalidInputError(
            f"an agreement has one {role} column, got {', '.join(map(str, columns))}; join them in one column, as text"
        )
    return columns[0]


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, str) for part in value)


def _type_names(kind: str) -> tuple[str, ...]:
    match = _DECIMAL.fullmatch(kind)
    return (kind,) if match is not None and int(match[1]) <= MAX_PLACES else TYPES[:-1]


def is_type(text: str) -> bool:
    """Return whether text is a logical type."""
    return text in _type_names(text)


def _column(value: Any, what: str, default: str) -> Column:
    if isinstance(value, str):
        value = (value, default)
    if not _is_pair(tuple(value) if isinstance(value, list) else value):
        raise InvalidInputError(f"{what} must be a name, or a name and a type, got {short(value)}")
    column = Column(*value)
    check_text(f"the name of {what}", column.name)
    if column.type != default and column.type not in _type_names(column.type):
        raise InvalidInputError(
            f"the type of {column.name} must be one of {', '.join(TYPES)} with PLACES from 0 to {MAX_PLACES}, got "
            f"{short(column.type)}"
        )
    return column


def logical_type(name: str, kind: "pa.DataType") -> str:
    """Return the logical type that values of an Arrow type have by themselves; refuse those that are ambiguous."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    for is_kind, logical in (
        (types.is_boolean, "boolean"),
        (types.is_integer, "integer"),
        (is_text_type, "text"),
        (is_bytes_type, "bytes"),
        (types.is_date, "date"),
        (types.is_timestamp, "timestamp"),
    ):
        if is_kind(kind):
            return logical
    if types.is_decimal(kind) and 0 <= kind.scale <= MAX_PLACES:
        return f"decimal({kind.scale})"
    raise InvalidInputError(
        f"the column {name} holds {kind}, which is not a type of an agreement; pass one of {', '.join(TYPES)}, such "
        f"as {{{name!r}: 'integer'}} for whole numbers that a data frame holds as floats"
    )
