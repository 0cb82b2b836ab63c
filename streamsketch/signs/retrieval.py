"""Nearest neighbours of queries in a collection: signs by Hamming distance, private sketches by estimated distance."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import check_int
from streamsketch.errors import InvalidInputError
from streamsketch.estimation import block_of, check_comparable, distances_between
from streamsketch.kernels import Counts
from streamsketch.release import PrivateSketch
from streamsketch.signs import hamming
from streamsketch.signs.sketch import Signs

Places: TypeAlias = NDArray[np.int64]

_BLOCK_ROWS = 256


class Nearest(NamedTuple):
    """The nearest members of a collection for each query, nearest first."""

    places: Places
    """Positions in the collection: int64, (n, top)."""
    distances: NDArray[np.float64]
    """Hamming distances in bits, or estimated squared distances in data units: float64, (n, top)."""


def nearest(
    queries: Sequence[Signs] | Sequence[PrivateSketch], collection: Sequence[Signs] | Sequence[PrivateSketch], top: int
) -> Nearest:
    """Find the nearest members of a collection for each query.

    Published signs are ranked by Hamming distance, which for one mechanism and norm is the order of the estimated
    angles; `PrivateSketch` objects (of any projection, `Identity` for raw data with noise) by estimated squared
    distance, for comparison. Ties go to the member that comes first. The smallest of many estimates is biased down.

    Parameters
    ----------
    queries
        n releases of one projection.
    collection
        m releases of the same kind and projection, none of them a query.
    top
        1 to m.

    Raises
    ------
    InvalidInputError
        For top out of range, nothing to compare, or a mixture of kinds.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As `hamming_distance` and `streamsketch.squared_distance`.

    Examples
    --------
    >>> import streamsketch as ss
    >>> publish = ss.signs.DPSignLogistic(epsilon=9, neighbours=ss.L1(1))
    >>> people = np.eye(5, 64, dtype=int) * 1000
    >>> projection = ss.projections.Rademacher(dim=64, sketch_dim=256, seed=1)
    >>> rows = publish.release_rows(projection, np.concatenate([people, people]))
    >>> nearest(rows[:5], rows[5:], 1).places.ravel()
    array([0, 1, 2, 3, 4])
    """
    if not len(queries) or not len(collection):
        raise InvalidInputError(
            f"nearest needs queries and a collection, got {len(queries)} and {len(collection)} releases"
        )
    check_int(top, "top", 1, len(collection))
    kinds = {isinstance(release, PrivateSketch) for release in (*queries, *collection)}
    if len(kinds) > 1:
        raise InvalidInputError("queries and collection must be of one kind: all published signs, or all PrivateSketch")
    both: list[Any] = [*queries, *collection]
    if kinds == {True}:
        check_comparable(both)
        across = block_of(both[len(queries) :])
        found = [
            _rank(
                distances_between(block_of(both[at : min(at + _BLOCK_ROWS, len(queries))]), across, same=False).value,
                top,
            )
            for at in range(0, len(queries), _BLOCK_ROWS)
        ]
    else:
        hamming.check_comparable(both)
        words = hamming.words_of(both)
        rows, columns = words[: len(queries)], words[len(queries) :]
        found = [
            _rank(hamming.distances_between(rows[at : at + _BLOCK_ROWS], columns), top)
            for at in range(0, len(queries), _BLOCK_ROWS)
        ]
    return Nearest(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _rank(distances: NDArray[np.float64] | Counts, top: int) -> Nearest:
    places = np.argsort(distances, axis=1, kind="stable")[:, :top]
    return Nearest(places.astype(np.int64), np.take_along_axis(distances, places, axis=1).astype(np.float64))
