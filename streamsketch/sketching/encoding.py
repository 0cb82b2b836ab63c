"""Input of sketches: events as integers (encoded indices, values in grid steps), and checks of given cells."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from streamsketch.core.numbers import Ints
from streamsketch.core.wrong import PROJECTION, wrong_type
from streamsketch.data.data_ids import DataIds
from streamsketch.data.grid import quantise_and_tell, warn_of_truncation
from streamsketch.data.keys import encode_columns, index_of
from streamsketch.data.tables import batches_of, names_of
from streamsketch.errors import InvalidInputError
from streamsketch.projections.base import MAX_MASS, Projection
from streamsketch.sketching.exact import ExactSums

if TYPE_CHECKING:
    from streamsketch.agreement.agreement import Agreement
    from streamsketch.intake.events import Events

_INT64, _CONTIGUOUS = np.dtype(np.int64), (8,)


def encode_batch(projection: Projection, indices: Any, values: Any, *, warn: bool = True) -> tuple[Ints, Ints]:
    """Return encoded indices and quantised values as int64 arrays of equal length, (n,); warn of truncation.

    Raises
    ------
    InvalidInputError
        For wrong types, NaN, nulls or lengths that differ. The kernel checks the range of integer indices.
    """
    if type(indices) is np.ndarray and indices.dtype is _INT64 and indices.strides == _CONTIGUOUS:
        whole = projection.has_unit_grid  # the common case, in little time
        if whole and type(values) is int and -(1 << 63) < values < 1 << 63:
            repeated = np.empty(indices.size, dtype=np.int64)
            repeated.fill(values)
            return indices, repeated
        is_quantised = whole and type(values) is np.ndarray and values.dtype is _INT64 and values.strides == _CONTIGUOUS
        if is_quantised and values.size == indices.size:
            return indices, values
    if isinstance(indices, str | bytes) or not hasattr(indices, "__len__"):
        encoded = np.array([index_of(indices, projection.dim, projection.seed)], dtype=np.int64)
    else:
        encoded = encode_columns([indices], projection.dim, projection.seed)
    quantised, loses = quantise_and_tell(values, projection.grid)
    if not hasattr(values, "__len__"):
        quantised = np.repeat(quantised, encoded.size)
    elif quantised.size != encoded.size:
        raise InvalidInputError(
            f"indices and values must have the same length, got {encoded.size} and {quantised.size}"
        )
    if loses and warn:
        warn_of_truncation(projection.grid)
    return encoded, quantised


def check_disjoint(own: DataIds, other: DataIds, *, disjoint_units: bool) -> None:
    """Raise `InvalidInputError` if ``disjoint_units`` is asserted of two data sets that share data."""
    if disjoint_units and not own.parts.isdisjoint(other.parts):
        raise InvalidInputError(
            "disjoint_units asserts that no unit is in both, but their ids show that they share data: one is a copy "
            "of the other, or a sum that contains it. Merge each part once. Without disjoint_units their bounds add "
            "up"
        )


def events_of(
    rows: object,
    projection: Projection,
    agreement: "Agreement | None",
    *,
    index: str | Sequence[str] | None,
    value: str | None,
    key: str | None = None,
    keyed: bool = False,
) -> Iterator["Events"]:
    """Yield the rows of a table, cast by an agreement or, without one, uncast from the named columns.

    Without an agreement, integers are used as indices, whatever the name of their column.

    Raises
    ------
    TypeError, InvalidInputError
        As in `Sketch.update_rows`, and if a column is named although the agreement names the columns.
    """
    from streamsketch.intake.events import Events  # noqa: PLC0415 - loads Arrow, which few sketches need
    from streamsketch.intake.rows import Intake  # noqa: PLC0415 - loads Arrow, which few sketches need

    if agreement is not None:
        arguments = {"key": key, "index": index, "value": value}
        if named := [name for name, column in arguments.items() if column is not None]:
            raise InvalidInputError(f"the agreement names the columns to sketch; leave out {', '.join(named)}")
        check_keyed(agreement, keyed=keyed)
        yield from Intake(agreement).batches(rows)
        return
    names = names_of(index)
    if keyed and key is None:
        raise InvalidInputError("name the column of keys, such as key='country'")
    for batch in batches_of(rows, [name for name in (key, *names, value) if name is not None]):
        columns = [batch.column(name) for name in names]
        indices = columns[0] if len(columns) == 1 else projection.indices_of(*columns)
        encoded, steps = encode_batch(projection, indices, 1 if value is None else batch.column(value))
        yield Events(None if key is None else batch.column(key), None, encoded, steps, rows=batch.num_rows)


def check_keyed(agreement: "Agreement", *, keyed: bool) -> None:
    """Raise `InvalidInputError` unless an agreement has a key column for a table, and none for a single sketch."""
    if keyed and agreement.key is None:
        raise InvalidInputError("the agreement has no key column, so there is no table; sketch its rows in a Sketch")
    if not keyed and agreement.key is not None:
        raise InvalidInputError(f"the agreement has the key {agreement.key}; sketch its rows in a SketchTable")


def parts_of(source: "Projection | Agreement", what: str) -> tuple[Projection, "Agreement | None"]:
    """Return the projection of a sketch, and the agreement if one was given; raise `TypeError` for anything else."""
    if isinstance(source, Projection):
        return source, None
    from streamsketch.agreement.agreement import Agreement  # noqa: PLC0415 - loads scipy, which few sketches need

    if not isinstance(source, Agreement):
        raise wrong_type(f"a {what} needs a Projection or an Agreement", source, PROJECTION)
    return source.projection, source


def agreed_by(first: "Agreement | None", second: "Agreement | None") -> "Agreement | None":
    """Return the agreement of two sketches, or None if one of them has none.

    Raises
    ------
    IncompatibleAgreementsError
        If they have different agreements.
    """
    if first is None or second is None:
        return None
    from streamsketch.agreement.same import check_agreed  # noqa: PLC0415 - loaded already, where there is an agreement

    return check_agreed(first, second)


def check_array(array: object, what: str) -> None:
    """Raise `TypeError` unless this is a NumPy array."""
    if not isinstance(array, np.ndarray):
        raise wrong_type(f"{what} must be a NumPy array", array, {"else": "pass numpy.array(…, dtype='int64')"})


def check_state(projection: Projection, state: Ints | ExactSums, mass: int) -> int:
    """Return the l1 bound of given cells as a sketch keeps it; errors as `Sketch.from_state`."""
    if not isinstance(projection, Projection):
        raise wrong_type("a sketch is made by a Projection", projection, PROJECTION)
    if isinstance(state, ExactSums):
        if state.keys != 1:
            raise InvalidInputError(f"a sketch has the sums of one key, got those of {state.keys}: pass of_keys([…])")
        state = cast("Ints", state.cells[0])
    check_array(state, "a state")
    if state.dtype != np.int64 or state.shape != (projection.sketch_dim,):
        raise InvalidInputError(
            f"a state must be int64 of shape ({projection.sketch_dim},), got {state.dtype} of shape {state.shape}"
        )
    if isinstance(mass, bool) or not isinstance(mass, int | np.integer):
        raise InvalidInputError(f"a mass must be an int, got a {type(mass).__name__}")
    mass = int(mass)
    cell = max(-int(np.minimum.reduce(state)), int(np.maximum.reduce(state)))  # in less time than by the methods
    if cell > mass * projection.max_entry and mass < MAX_MASS:
        raise InvalidInputError("the mass is smaller than a cell of the state, so they cannot belong together")
    return min(mass, MAX_MASS)
