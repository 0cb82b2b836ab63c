"""What goes into sketches: events as integers, that is encoded indices and values in grid steps, and given cells."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamsketch import data
from streamsketch.core import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.projections import MAX_MASS, Projection

if TYPE_CHECKING:
    from streamsketch.agreement import Agreement

_INT64, _CONTIGUOUS = np.dtype(np.int64), (8,)


def index_column(projection: Projection, columns: Sequence[Any]) -> Any:
    """Return a single column of an index as it is, and several columns as the indices of tuples."""
    return columns[0] if len(columns) == 1 else projection.indices_of(*columns)


def encode_batch(projection: Projection, indices: Any, values: Any, *, warn: bool = True) -> tuple[Ints, Ints]:
    """Return encoded indices and quantised values as int64 arrays of equal length, (n,); warn of what truncation loses.

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
        given = whole and type(values) is np.ndarray and values.dtype is _INT64 and values.strides == _CONTIGUOUS
        if given and values.size == indices.size:
            return indices, values
    if isinstance(indices, str | bytes) or not hasattr(indices, "__len__"):
        encoded = np.array([data.index_of(indices, projection.dim, projection.seed)], dtype=np.int64)
    else:
        encoded = data.encode_columns([indices], projection.dim, projection.seed)
    quantised, loses = data.quantise_and_tell(values, projection.grid)
    if not hasattr(values, "__len__"):
        quantised = np.repeat(quantised, encoded.size)
    elif quantised.size != encoded.size:
        raise InvalidInputError(
            f"indices and values must have the same length, got {encoded.size} and {quantised.size}"
        )
    if loses and warn:
        data.warn_of_truncation(projection.grid)
    return encoded, quantised


def check_disjoint(one: data.DataIds, other: data.DataIds, *, disjoint_units: bool) -> None:
    """Raise `InvalidInputError` if no unit is said to be in two data sets, and they share data."""
    if disjoint_units and not one.parts.isdisjoint(other.parts):
        raise InvalidInputError(
            "disjoint_units says that no unit is in both, and they hold some of the same data, by their ids: one is a "
            "copy of the other, or a sum with it inside. Merge each part once; without disjoint_units their bounds "
            "add up"
        )


def check_agreed_rows(agreement: "Agreement", given: Mapping[str, Any], *, keyed: bool) -> None:
    """Raise `InvalidInputError` for columns that an agreement says already, or of a key where there should be none."""
    if named := [name for name, value in given.items() if value is not None]:
        raise InvalidInputError(f"the agreement says which columns are sketched; leave out {', '.join(named)}")
    if keyed != (agreement.key is not None):
        if keyed:
            raise InvalidInputError("the agreement has no key, and so no table; sketch its rows in a Sketch")
        raise InvalidInputError(f"the agreement has the key {agreement.key}; sketch its rows in a SketchTable")


def parts_of(given: "Projection | Agreement", what: str) -> tuple[Projection, "Agreement | None"]:
    """Return the projection of a sketch, and the agreement if one was given; raise `TypeError` for anything else."""
    if isinstance(given, Projection):
        return given, None
    from streamsketch.agreement import Agreement  # noqa: PLC0415 - loads scipy, which few sketches need

    if not isinstance(given, Agreement):
        raise TypeError(f"a {what} needs a Projection or an Agreement, got a {type(given).__name__}")
    return given.projection, given


def agreed_by(first: "Agreement | None", second: "Agreement | None") -> "Agreement | None":
    """Return what two sketches have both agreed on: None where one of them has no agreement.

    Raises
    ------
    IncompatibleAgreementsError
        If both have one, and not the same.
    """
    if first is None or second is None:
        return None
    from streamsketch.agreement import check_agreed  # noqa: PLC0415 - loaded already, where there is an agreement

    return check_agreed(first, second)


def check_state(projection: Projection, state: Ints, mass: int) -> int:
    """Return the l1 bound of given cells as a sketch keeps it; errors as `Sketch.from_state`."""
    if not isinstance(state, np.ndarray):
        raise TypeError(f"a state must be a NumPy array, got a {type(state).__name__}")
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
