"""Forms of results: objects, rows for table sinks, or Arrow columns."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamsketch.core.documents import TableKey
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.estimate_arrays import Estimates
from streamsketch.estimation.measures import MEASURES, By, check_by

Form: TypeAlias = Literal["estimates", "rows", "columns"]
Places: TypeAlias = NDArray[np.intp]

_ARROW = {str: pa.string(), bytes: pa.binary(), int: pa.int64()}


def check_form(form: str) -> None:
    """Raise `InvalidInputError` unless a form is known."""
    if form not in ("estimates", "rows", "columns"):
        raise InvalidInputError(f"results must be 'estimates', 'rows' or 'columns', got {form!r}")


def comparison_schema(keys: pa.DataType, *, ranked: bool = False, by: By = "distance") -> pa.Schema:
    """Return the schema of comparisons with ``results="columns"``, for sinks that need it in advance.

    Parameters
    ----------
    keys
        Arrow type of the keys: ``pa.string()``, ``pa.binary()`` or ``pa.int64()``.
    ranked
        Whether the results come from `NearestNeighbours`, which adds a column ``rank``.
    by
        The measure, as in `PairwiseDistances`, after which the estimates' column is named, as ``squared_distance`` is.

    Raises
    ------
    InvalidInputError
        If ``by`` is unknown.

    Examples
    --------
    >>> comparison_schema(pa.string()).names
    ['first', 'second', 'squared_distance', 'standard_error', 'low_95', 'high_95']
    """
    check_by(by)
    fields = [("first", keys), ("second", keys), *([("rank", pa.int64())] if ranked else [])]
    numbers = (MEASURES[by].column, "standard_error", "low_95", "high_95")
    return pa.schema(fields + [(name, pa.float64()) for name in numbers])


def table_of(
    first: pa.Array,
    second: pa.Array,
    estimates: Estimates,
    by: By,
    *,
    ranks: NDArray[np.int64] | None = None,
    candidates: int | None = None,
) -> pa.Table:
    """Return comparisons as Arrow columns: keys, estimates of shape (n,), and 95 % intervals; null where undefined.

    The intervals allow for a selection from ``candidates``, if given.
    """
    interval = estimates.interval(0.95) if candidates is None else estimates.selected_interval(candidates)
    columns: Mapping[str, Any] = {
        "first": first,
        "second": second,
        **({} if ranks is None else {"rank": ranks}),
        MEASURES[by].column: pa.array(estimates.value, from_pandas=True),
        "standard_error": pa.array(estimates.standard_error, from_pandas=True),
        "low_95": pa.array(interval.low, from_pandas=True),
        "high_95": pa.array(interval.high, from_pandas=True),
    }
    return pa.table(dict(columns))


def taken(estimates: Estimates, rows: Places, columns: Places) -> Estimates:
    """Return some cells of (n, m) estimates as estimates of shape (len(rows),)."""
    return estimates.with_parts(*(part[rows, columns] for part in estimates.parts()))


def in_form(
    keys: tuple[list[Any], list[Any]], first: Places, second: Places, estimates: Estimates, form: Form, by: By
) -> Iterator[Any]:
    """Yield comparisons of ``keys[0][first]`` with ``keys[1][second]`` in a form; estimates have shape (n,)."""
    if form == "estimates":
        for place, (row, column) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            yield (keys[0][row], keys[1][column]), estimates[place]
        return
    names = key_column(keys[0]).take(pa.array(first))
    others = key_column(keys[1]).take(pa.array(second))
    table = table_of(names, others, estimates, by)
    if form == "rows":
        yield from table.to_pylist()
    elif table.num_rows:
        yield table


def key_column(keys: list[TableKey]) -> pa.Array:
    """Return keys as an Arrow array; raise `InvalidInputError` if they are not of one type, or do not fit in it."""
    check_kinds(kinds_of(keys))
    try:
        return pa.array(keys, _ARROW[type(keys[0])] if keys else pa.null())
    except (OverflowError, ValueError):
        raise InvalidInputError(
            "keys in a column must be integers of at most 64 bits or valid Unicode text; pass results='estimates' "
            "for other keys"
        ) from None


def kinds_of(keys: Iterable[TableKey]) -> set[str]:
    """Return the names of the types of keys."""
    return {type(key).__name__ for key in keys}


def check_kinds(kinds: Iterable[str]) -> None:
    """Raise `InvalidInputError` if the keys of a column are of several types."""
    names = sorted(set(kinds))
    if len(names) > 1:
        raise InvalidInputError(
            f"keys in one column must be of one type, got {' and '.join(names)}; pass results='estimates' for keys of "
            "several types"
        )
