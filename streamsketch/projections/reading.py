"""Limits on the random matrices of projections from untrusted bytes, checked before any enumeration."""

from streamsketch.core import current_limits
from streamsketch.errors import InvalidInputError
from streamsketch.projections.base import Projection
from streamsketch.projections.explicit import RandomNorms
from streamsketch.projections.fjlt import FJLT
from streamsketch.projections.rotation import Rotation

_COLUMN_BYTES = 48  # for each padded column of an FJLT, in the row at hand
_NONZERO_BYTES = 64  # for each nonzero, copies while building included
_TRIANGLE_BYTES = 32  # for each entry of a rotation's triangle
_STEPS_AN_ENTRY = 64  # of the elimination for a rotation's triangle, in the time of one entry


def entries_of(projection: Projection, *, spectral: bool = False) -> int:
    """Return how many entries are enumerated for norms of a random matrix, or equivalent work; 0 for other maps.

    With ``spectral`` the bound on the spectral norm is among them, which takes that of some other maps as well.
    """
    if spectral and projection.spectral_entries:
        return projection.spectral_entries
    if isinstance(projection, FJLT):
        return projection.padded_dim * projection.sketch_dim
    if isinstance(projection, Rotation):
        return max(projection.dim * projection.sketch_dim, projection.sketch_dim**3 // _STEPS_AN_ENTRY)
    return projection.dim * projection.sketch_dim if isinstance(projection, RandomNorms) else 0


def check_row_maxima(projection: Projection) -> None:
    """Call `check_entries` if the largest entries of the rows take an enumeration."""
    if isinstance(projection, FJLT) or (isinstance(projection, RandomNorms) and projection.max_entry != 1):
        check_entries(projection)


def check_largest_entry(projection: Projection) -> None:
    """Call `check_entries` if ``max_entry``, which raw sketches need, takes an enumeration."""
    if isinstance(projection, FJLT):
        check_entries(projection, raw=True)


def check_entries(projection: Projection, *, raw: bool = False, spectral: bool = False) -> None:
    """Raise `InvalidInputError` if a random matrix is larger than the limits for untrusted bytes allow.

    Parameters
    ----------
    projection
        The projection that the bytes describe.
    raw
        Whether the bytes are a party's own: ``max_raw_entries`` then applies instead of ``max_entries``.
    spectral
        As in `entries_of`.
    """
    limits = current_limits()
    name, most = ("max_raw_entries", limits.max_raw_entries) if raw else ("max_entries", limits.max_entries)
    entries, kept = entries_of(projection, spectral=spectral), _kept_bytes(projection)
    what = f"the matrix of this {type(projection).__name__} with dim={projection.dim} and sketch_dim="
    if entries > most:
        raise InvalidInputError(
            f"{what}{projection.sketch_dim} takes an enumeration of {entries:,} entries, over the limit of {most:,}; "
            f"raise {name} by reading_limits if you trust the source"
        )
    if kept > limits.max_matrix_bytes:
        raise InvalidInputError(
            f"{what}{projection.sketch_dim} takes {kept:,} bytes of memory, over the limit of "
            f"{limits.max_matrix_bytes:,}; raise max_matrix_bytes by reading_limits if you trust the source"
        )


def _kept_bytes(projection: Projection) -> int:
    if isinstance(projection, FJLT):
        nonzeros = projection.padded_dim * projection.sketch_dim * (projection.density or 0)
        return _COLUMN_BYTES * projection.padded_dim + _NONZERO_BYTES * int(nonzeros)
    return _TRIANGLE_BYTES * projection.sketch_dim**2 if isinstance(projection, Rotation) else 0
