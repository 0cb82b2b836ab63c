"""Hamming distances between published signs, by popcount."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from streamsketch.agreement import check_same
from streamsketch.errors import DependentNoiseError, InvalidInputError
from streamsketch.kernels import Counts, Words, count_pairs, in_blocks
from streamsketch.signs.sketch import Signs

_MANY = 1 << 22  # distances, some milliseconds: worth a thread for each core
_GROUP = 32  # rows of a thread, or a multiple
_PARTS = 8  # for each core: later rows of a mirrored matrix have fewer pairs


def hamming_distance(x: Signs, y: Signs) -> int:
    """Return in how many cells two releases publish different signs, flips included.

    Parameters
    ----------
    x, y
        Releases of one projection.

    Raises
    ------
    TypeError
        If an argument holds no published signs.
    IncompatibleProjectionsError
        If the projections differ.
    DependentNoiseError
        If both are one release.

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
    """Return all Hamming distances between published signs: int16, (n, m).

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
        As `hamming_distance`.
    InvalidInputError
        If there are none.
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
        raise InvalidInputError("there are no published signs to compare; give at least one")
    for release in releases:
        if not isinstance(release, Signs):
            raise TypeError(f"Hamming distances need published signs, got a {type(release).__name__}; release first")
    check_same(*releases)
    return np.stack([release.words for release in releases])


def distances_between(rows: Words, columns: Words) -> Counts:
    """Return the Hamming distances of packed rows, (n, w) and (m, w): int16, (n, m), or int32 if they may exceed it."""
    mirrored = columns is rows
    rows, blocks = np.ascontiguousarray(rows), in_blocks(np.ascontiguousarray(columns))
    fits = rows.shape[1] * 64 <= np.iinfo(np.int16).max  # half the memory to touch, most of the time of many pairs
    out = np.empty((rows.shape[0], columns.shape[0]), dtype=np.int16 if fits else np.int32)
    cores = (os.cpu_count() or 1) if out.size >= _MANY else 1
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
            "two of these are one release, whose flips are the same: no estimate holds between a release and itself"
        )
