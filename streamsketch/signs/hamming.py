"""Hamming distances between published signs, by popcount, and the nearest members of a collection."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.agreement.same import check_same
from streamsketch.core.libraries import is_installed
from streamsketch.core.numbers import check_int
from streamsketch.errors import DependentNoiseError, InvalidInputError
from streamsketch.estimation.blocks import block_of
from streamsketch.estimation.blocks import check_comparable as check_sketches
from streamsketch.estimation.distances import distances_between as squared_distances_between
from streamsketch.kernels.hashing import Words
from streamsketch.kernels.popcount import (
    COLUMNS,
    NO_COLUMN,
    PLACE_BITS,
    Counts,
    count_pairs,
    in_blocks,
    nearest_columns,
)
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.signs.sketch import Signs

_MANY = 1 << 22  # distances, some milliseconds: worth a thread for each core
_GROUP = 32  # rows of a thread, or a multiple
_PARTS = 8  # for each core: later rows of a mirrored matrix have fewer pairs
Places: TypeAlias = NDArray[np.int64]

_BLOCK_ROWS = 256


def hamming_distance(x: Signs, y: Signs) -> int:
    """Return the number of cells in which two releases publish different signs, flips included.

    Parameters
    ----------
    x, y
        Releases of one projection.

    Raises
    ------
    TypeError
        If an argument is not a release of signs.
    IncompatibleProjectionsError
        If the projections differ.
    DependentNoiseError
        If both are the same release.

    Examples
    --------
    >>> import streamsketch as ss
    >>> x, y = (ss.projections.Rademacher(dim=9, sketch_dim=64, seed=1).sketch() for _ in range(2))
    >>> publish = ss.signs.DPSignLogistic(epsilon=1, neighbours=ss.L1(1))
    >>> 0 <= hamming_distance(publish.release(x), publish.release(y)) <= 64
    True
    """
    check_comparable([x, y])
    return int(hamming_distances([x], [y])[0, 0])


def hamming_distances(rows: Sequence[Signs], columns: Sequence[Signs] | None = None) -> Counts:
    """Return all Hamming distances between published signs, int16 of shape (n, m).

    For more than 32,704 cells they are int32. Cast them before you square them.

    Parameters
    ----------
    rows
        n releases of one projection.
    columns
        m others; by default ``rows`` themselves, with zeros on the diagonal.

    Raises
    ------
    TypeError, IncompatibleProjectionsError
        As in `hamming_distance`.
    InvalidInputError
        If there are no releases.

    Examples
    --------
    >>> import streamsketch as ss
    >>> sketch = ss.projections.Rademacher(dim=9, sketch_dim=64, seed=1).sketch()
    >>> publish = ss.signs.DPSignLogistic(epsilon=1, neighbours=ss.L1(1))
    >>> found = hamming_distances([publish.release(sketch) for _ in range(3)])
    >>> found.shape, found.diagonal()
    ((3, 3), array([0, 0, 0], dtype=int16))
    """
    across = words_of(rows)
    if columns is None:
        return distances_between(across, across)
    down = words_of(columns)
    check_same(rows[0], columns[0])
    return distances_between(across, down)


def words_of(releases: Sequence[Signs]) -> Words:
    """Return the packed signs of releases of one projection: uint64, (n, ⌈k / 64⌉)."""
    if not len(releases):
        raise InvalidInputError("there are no published signs to compare; pass at least one release")
    for release in releases:
        if not isinstance(release, Signs):
            raise TypeError(f"Hamming distances need published signs, got a {type(release).__name__}; release first")
    check_same(*releases)
    return np.stack([release.words for release in releases])


def distances_between(rows: Words, columns: Words, many: int = _MANY) -> Counts:
    """Return the Hamming distances of packed rows, (n, w) and (m, w): int16, (n, m), or int32 if they may exceed it.

    From ``many`` pairs on, threads share them.
    """
    mirrored = columns is rows
    rows, columns = np.ascontiguousarray(rows), np.ascontiguousarray(columns)
    fits = rows.shape[1] * 64 <= np.iinfo(np.int16).max  # half the memory to touch, most of the time of many pairs
    out = np.empty((rows.shape[0], columns.shape[0]), dtype=np.int16 if fits else np.int32)
    if not is_installed("numba"):
        for place, row in enumerate(rows):
            out[place] = np.bitwise_count(row ^ columns).sum(axis=1)
        return out
    cores = (os.cpu_count() or 1) if out.size >= many else 1
    blocks = in_blocks(columns)
    if cores == 1:
        count_pairs(rows, 0, len(rows), blocks, out, mirrored)
        return out
    step = -(-len(rows) // (_PARTS * cores * _GROUP)) * _GROUP
    with ThreadPoolExecutor(cores) as pool:  # made anew: no thread survives into a fork
        starts = range(0, len(rows), step)
        ends = [min(start + step, len(rows)) for start in starts]
        for done in [
            pool.submit(count_pairs, rows, start, end, blocks, out, mirrored)
            for start, end in zip(starts, ends, strict=True)
        ]:
            done.result()
    return out


def check_comparable(releases: Sequence[Signs]) -> None:
    """Raise unless all are published signs of one projection, and of different releases; see `hamming_distance`."""
    words_of(releases)
    if len({release.release_id for release in releases}) < len(releases):
        raise DependentNoiseError(
            "two of these are the same release with the same flips, so no estimate between them holds; pass each "
            "release once"
        )


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
    angles. For comparison, `PrivateSketch` objects of any projection are ranked by estimated squared distance
    (`Identity` for raw data with noise). If members tie, the first one wins. The smallest of many estimates is biased
    downwards.

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
        If ``top`` is out of range, there is nothing to compare, or kinds are mixed.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        As in `hamming_distance` and `streamsketch.squared_distance`.

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
        check_sketches(both)
        across = block_of(both[len(queries) :])
        batches = [
            _rank(
                squared_distances_between(
                    block_of(both[at : min(at + _BLOCK_ROWS, len(queries))]), across, same=False
                ).value,
                top,
            )
            for at in range(0, len(queries), _BLOCK_ROWS)
        ]
    else:
        check_comparable(both)
        words = words_of(both)
        return nearest_in(words[: len(queries)], in_blocks(words[len(queries) :]), len(collection), top)
    return Nearest(*(np.concatenate(parts) for parts in zip(*batches, strict=True)))


def nearest_in(
    rows: Words, blocks: Words, count: int, top: int, *, many: int = _MANY, block_rows: int = _BLOCK_ROWS
) -> Nearest:
    """Return the nearest of ``count`` columns for each row, by threads where there are many pairs.

    Parameters
    ----------
    rows
        uint64, (n, w).
    blocks
        `in_blocks` of the columns.
    count, top
        How many columns there are, at most 2^32, and how many to return for each row, 1 to ``count``.
    many
        How many pairs are worth threads.
    block_rows
        How many rows are compared at a time.
    """
    rows, blocks = np.ascontiguousarray(rows), blocks.view()
    blocks.flags.writeable = False  # as mapped files are: one kernel serves both
    cores = (os.cpu_count() or 1) if len(rows) * count >= many else 1
    step = -(-count // (cores * COLUMNS)) * COLUMNS
    sorted_keys = []
    with ThreadPoolExecutor(cores) as pool:  # made anew: no thread survives into a fork
        for at in range(0, len(rows), block_rows):
            some = rows[at : at + block_rows]
            parts = [
                pool.submit(_nearest_part, some, blocks, start, min(start + step, count), top)
                for start in range(0, count, step)
            ]
            keys = np.concatenate([part.result() for part in parts], axis=1)
            if top < keys.shape[1]:
                keys = np.partition(keys, top - 1, axis=1)[:, :top]
            sorted_keys.append(np.sort(keys, axis=1))
    keys = np.concatenate(sorted_keys)
    return Nearest(keys & ((1 << PLACE_BITS) - 1), (keys >> PLACE_BITS).astype(np.float64))


def _nearest_part(rows: Words, blocks: Words, start: int, end: int, top: int) -> Places:
    """Return the keys of the nearest columns from ``start`` to ``end``, at most ``top``; see `nearest_columns`."""
    best = np.full((len(rows), min(top, end - start)), NO_COLUMN, dtype=np.int64)
    nearest_columns(rows, blocks, start, end, best)
    return best


def _rank(distances: NDArray[np.float64], top: int) -> Nearest:
    places = np.argsort(distances, axis=1, kind="stable")[:, :top]
    return Nearest(places.astype(np.int64), np.take_along_axis(distances, places, axis=1).astype(np.float64))
