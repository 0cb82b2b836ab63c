"""Limits on the random matrices of projections from untrusted bytes, checked before any enumeration."""

from streamsketch.core import current_limits
from streamsketch.errors import InvalidInputError
from streamsketch.projections.base import MatrixNumber, Projection


def check_entries(projection: Projection, number: MatrixNumber, *, raw: bool = False) -> None:
    """Raise `InvalidInputError` if a number takes more of a matrix than the limits for untrusted bytes allow.

    Parameters
    ----------
    projection
        The projection that the bytes describe.
    number
        The number that is to be computed.
    raw
        Whether the bytes are a party's own: ``max_raw_entries`` then applies instead of ``max_entries``.
    """
    limits = current_limits()
    name, most = ("max_raw_entries", limits.max_raw_entries) if raw else ("max_entries", limits.max_entries)
    entries, kept = projection.enumerated_entries(number), projection.kept_bytes(number)
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
