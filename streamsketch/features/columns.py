"""Kinds of columns that become features: numbers on a public range, categories, embeddings."""

import dataclasses
import math
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

from streamsketch.core.documents import Json
from streamsketch.core.numbers import check_int, short
from streamsketch.core.text import check_text
from streamsketch.errors import InvalidInputError

MOST_MOMENTS = 16
MOST_CELLS = 1 << 14
MOST_COORDINATES = 1 << 16
_LARGEST = sys.float_info.max  # of integers, too
_LEAST_WIDTH = 1 / 64
_MOST_WEIGHT = 1 << 16


@dataclasses.dataclass(frozen=True)
class Number:
    """A column of numbers on a public range.

    Its features are the Chebyshev polynomials T_1 to T_m of the number, with the range scaled to [-1, 1]: the mean of
    the column follows from the first, its variance from the first two, and higher ones tell more of its distribution.
    Numbers beyond the range count as its nearer end, and so do infinities. Booleans are 1 and 0, also as text. Null,
    NaN and text that is not a number are missing.

    Parameters
    ----------
    low, high
        The finite range. It is public: take it from knowledge of the field or from public data, not from the data to be
        protected.
    moments
        The number m of moments, up to 16. With 0 the column has no separate features, and no weight: only joint
        features depend on it, with a missing number taken as the middle of the range.
    weight
        Weight of the column. Divided by the sum of all weights, it is the column's share of the squared length of a
        row.

    Examples
    --------
    >>> Number(0, 110).cells  # two polynomials, and whether the number is missing
    3
    """

    low: float
    high: float
    moments: int = 2
    weight: int = 1

    kind = "number"

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
                raise InvalidInputError(
                    f"{name} must be a finite number, the end of the column's public range, got {short(value)}"
                )
            object.__setattr__(self, name, float(value))
        if not self.low < self.high or math.isinf(self.high - self.low):
            raise InvalidInputError(f"low must be below high, got {self.low!r} and {self.high!r}")
        check_int(self.moments, "moments", 0, MOST_MOMENTS)
        check_int(self.weight, "weight", 1, _MOST_WEIGHT)

    @property
    def cells(self) -> int:
        """The number of separate features of the column."""
        return self.moments + 1 if self.moments else 0


@dataclasses.dataclass(frozen=True)
class Category:
    """A column of categories: text, integers, booleans or dates, each as its text.

    Parameters
    ----------
    values
        The categories, if they are few and known: each has a separate feature, so that its share can be estimated, and
        others share one.
    hashed
        For any number of categories: into how many features they are hashed, with a sign. Give one of the two.
    weight
        As in `Number`.

    Examples
    --------
    >>> Category(["yes", "no"]).cells, Category(hashed=64).cells  # others and missing; missing
    (4, 65)
    """

    values: Sequence[str] | None = None
    hashed: int | None = None
    weight: int = 1

    kind = "category"

    def __post_init__(self) -> None:
        if (self.values is None) == (self.hashed is None):
            raise InvalidInputError(
                "a Category needs either values, with one feature each, or hashed=…, the number of features for any "
                "values"
            )
        if self.hashed is not None:
            check_int(self.hashed, "hashed", 1, MOST_CELLS)
        if self.values is not None:
            of_texts = isinstance(self.values, Sequence) and not isinstance(self.values, str | bytes)
            if not of_texts or not 1 <= len(self.values) <= MOST_CELLS:
                raise InvalidInputError(f"values must be a list of 1 to {MOST_CELLS} texts, got {short(self.values)}")
            for value in self.values:
                check_text("a value of a category", value)
            object.__setattr__(self, "values", tuple(self.values))
            if len(set(self.values)) < len(self.values):
                raise InvalidInputError(f"values names a category twice: {short(list(self.values))}")
        check_int(self.weight, "weight", 1, _MOST_WEIGHT)

    @property
    def cells(self) -> int:
        """How many features it has."""
        return len(self.values) + 2 if self.values is not None else int(self.hashed or 0) + 1


@dataclasses.dataclass(frozen=True)
class Embedding:
    """A column of embeddings: lists of d numbers each, of which only the direction counts.

    Its features are random Fourier features of the Gaussian kernel exp(-‖u - v‖²/(2 width²)) of embeddings scaled to
    length 1 (Rahimi and Recht 2007). A list that is null, zero, of another length, or has an entry that is not finite
    is missing.

    Parameters
    ----------
    size
        d, 1 to 65,536.
    waves
        How many random frequencies, with a cosine and a sine each.
    width
        Of the kernel, from 1/64.
    weight
        As in `Number`.

    Examples
    --------
    >>> Embedding(768, waves=32).cells
    65
    """

    size: int
    waves: int = 16
    width: float = 0.5
    weight: int = 1

    kind = "embedding"

    def __post_init__(self) -> None:
        check_int(self.size, "size", 1, MOST_COORDINATES)
        check_int(self.waves, "waves", 1, MOST_CELLS // 2)
        object.__setattr__(self, "width", check_width(self.width))
        check_int(self.weight, "weight", 1, _MOST_WEIGHT)

    @property
    def cells(self) -> int:
        """How many features it has."""
        return 2 * self.waves + 1


FeatureColumn: TypeAlias = Number | Category | Embedding
KINDS: dict[str, type[FeatureColumn]] = {column.kind: column for column in (Number, Category, Embedding)}


def check_width(width: object) -> float:
    """Return the width of a kernel; raise `InvalidInputError` unless it is a finite number from 1/64."""
    if isinstance(width, bool) or not isinstance(width, int | float) or not _LEAST_WIDTH <= width <= _LARGEST:
        raise InvalidInputError(f"width must be a finite number of at least 1/64, got {short(width)}")
    return float(width)


def column_fields(column: FeatureColumn) -> Json:
    """Return a column as what JSON can hold."""
    fields = {field.name: getattr(column, field.name) for field in dataclasses.fields(column)}
    shown = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    return {"kind": column.kind, **shown}


def column_of(name: str, fields: Any) -> FeatureColumn:
    """Return the column that `column_fields` wrote.

    Raises
    ------
    InvalidInputError
        For other fields or values.
    """
    named = fields.get("kind") if isinstance(fields, dict) else None
    kind = KINDS.get(named) if isinstance(named, str) else None
    if kind is None:
        raise InvalidInputError(
            f"the features of {name} must be an object whose kind is one of {', '.join(KINDS)}, got {short(fields)}"
        )
    wanted = {field.name for field in dataclasses.fields(kind)}
    if fields.keys() != wanted | {"kind"}:
        raise InvalidInputError(
            f"the features of {name}, a {kind.kind}, have the fields {', '.join(sorted(wanted))}, got "
            f"{short(sorted(fields))}"
        )
    return kind(**{field: fields[field] for field in wanted})
