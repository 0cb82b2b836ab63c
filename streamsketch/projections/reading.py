"""Projections that untrusted bytes name: random matrices are bounded before they are looked at."""

from streamsketch.core import current_limits
from streamsketch.errors import InvalidInputError
from streamsketch.projections.base import Projection
from streamsketch.projections.explicit import RandomNorms
from streamsketch.projections.fjlt import FJLT
from streamsketch.projections.rotation import Rotation

_COLUMN_BYTES = 48  # of an FJLT's padded columns, looked at a row at a time
_NONZERO_BYTES = 64  # kept, and copied while they are found
_TRIANGLE_BYTES = 32  # of a rotation
_STEPS_AN_ENTRY = 64  # of the elimination that finds a rotation's triangle


def entries_of(projection: Projection) -> int:
    """Return how many entries of a random matrix, or as much work, its norms or largest entries take; else 0."""
    if isinstance(projection, FJLT):
        return projection.padded_dim * projection.sketch_dim
    if isinstance(projection, Rotation):
        return max(projection.dim * projection.sketch_dim, projection.sketch_dim**3 // _STEPS_AN_ENTRY)
    return projection.dim * projection.sketch_dim if isinstance(projection, RandomNorms) else 0


def check_row_maxima(projection: Projection) -> None:
    """Raise `InvalidInputError` as `check_entries` where the largest entries of the rows take a look at them."""
    if isinstance(projection, FJLT) or (isinstance(projection, RandomNorms) and projection.max_entry != 1):
        check_entries(projection)


def check_largest_entry(projection: Projection) -> None:
    """Raise `InvalidInputError` as `check_entries` where ``max_entry``, which raw sketches need, takes a look."""
    if isinstance(projection, FJLT):
        check_entries(projection, raw=True)


def check_entries(projection: Projection, *, raw: bool = False) -> None:
    """Raise `InvalidInputError` if a random matrix is larger than the limits for untrusted bytes allow.

    Parameters
    ----------
    projection
        What the bytes name.
    raw
        Whether they are one party's own: ``max_raw_entries`` then holds, not ``max_entries``.
    """
    limits = current_limits()
    name, most = ("max_raw_entries", limits.max_raw_entries) if raw else ("max_entries", limits.max_entries)
    entries, kept = entries_of(projection), _kept_bytes(projection)
    what = f"the matrix of this {type(projection).__name__} with dim={projection.dim} and sketch_dim="
    if entries > most:
        raise InvalidInputError(
            f"{what}{projection.sketch_dim} takes a look at {entries:,} entries, over the limit of {most:,}; raise "
            f"{name} by reading_limits if you trust where it comes from"
        )
    if kept > limits.max_matrix_bytes:
        raise InvalidInputError(
            f"{what}{projection.sketch_dim} takes {kept:,} bytes of memory, over the limit of "
            f"{limits.max_matrix_bytes:,}; raise max_matrix_bytes by reading_limits if you trust where it comes from"
        )


def _kept_bytes(projection: Projection) -> int:
    if isinstance(projection, FJLT):
        nonzeros = projection.padded_dim * projection.sketch_dim * (projection.density or 0)
        return _COLUMN_BYTES * projection.padded_dim + _NONZERO_BYTES * int(nonzeros)
    return _TRIANGLE_BYTES * projection.sketch_dim**2 if isinstance(projection, Rotation) else 0
