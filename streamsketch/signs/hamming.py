"""Hamming distances between published signs, by popcount."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from streamsketch.agreement import check_same
from streamsketch.core import Words, kernel
from streamsketch.errors import DependentNoiseError, InvalidInputError
from streamsketch.signs.sketch import Signs

Counts: TypeAlias = NDArray[np.int32]

_MANY = 1 << 22  # distances, some milliseconds: worth a thread for each core
_CHUNK = 1024  # columns: of 1024 bits each, 128 KiB stay in the second cache


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
    >>> x, y = (ss.Rademacher(dim=9, sketch_dim=64, seed=1).sketch() for _ in range(2))
    >>> publish = ss.signs.DPSignLogistic(epsilon=1, neighbours=ss.L1(1))
    >>> 0 <= hamming_distance(publish.release(x), publish.release(y)) <= 64
    True
    """
    check_comparable([x, y])
    return int(hamming_distances([x], [y])[0, 0])


def hamming_distances(rows: Sequence[Signs], columns: Sequence[Signs] | None = None) -> Counts:
    """Return all Hamming distances between published signs: int32, (n, m).

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
    """Return the Hamming distances of packed rows, (n, w) and (m, w): int32, (n, m)."""
    rows, down = np.ascontiguousarray(rows), np.ascontiguousarray(columns.T)
    out = np.empty((rows.shape[0], columns.shape[0]), dtype=np.int32)
    cores = (os.cpu_count() or 1) if out.size >= _MANY else 1
    if cores == 1:
        _distances(rows, down, out)
        return out
    with ThreadPoolExecutor(cores) as pool:  # made anew: no thread survives into a fork
        parts = zip(np.array_split(rows, cores), np.array_split(out, cores), strict=True)
        for done in [pool.submit(_distances, part, down, target) for part, target in parts]:
            done.result()
    return out


def check_comparable(releases: Sequence[Signs]) -> None:
    """Raise unless all are published signs of one projection, and of different releases; see `hamming_distance`."""
    words_of(releases)
    if len({release.release_id for release in releases}) < len(releases):
        raise DependentNoiseError(
            "two of these are one release, whose flips are the same: no estimate holds between a release and itself"
        )


@intrinsic  # type: ignore[untyped-decorator]
def popcount(_: Any, word: Any) -> Any:
    """Return how many bits of a uint64 are 1: one instruction, or a vector of them."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(word), generate


@kernel
def _distances(rows: Words, columns: Words, out: Counts) -> None:
    """Write popcount(rows[i] XOR columns[:, j]) into ``out[i, j]``; with columns as (w, m) the inner loops vectorise.

    Two rows and four words a pass, so that what is loaded serves twice and sums stay in registers; an odd last row is
    its own partner.
    """
    width, count = columns.shape
    fours = width - width % 4
    one, two = np.empty(_CHUNK, dtype=np.uint64), np.empty(_CHUNK, dtype=np.uint64)
    for first in range(0, count, _CHUNK):
        size = min(_CHUNK, count - first)
        for i in range(0, rows.shape[0], 2):
            row, partner = rows[i], rows[min(i + 1, rows.shape[0] - 1)]
            for j in range(size):
                one[j] = 0
                two[j] = 0
            for w in range(0, fours, 4):
                a, b, c, d = row[w], row[w + 1], row[w + 2], row[w + 3]
                e, f, g, h = partner[w], partner[w + 1], partner[w + 2], partner[w + 3]
                line_p, line_q = columns[w, first : first + size], columns[w + 1, first : first + size]
                line_r, line_s = columns[w + 2, first : first + size], columns[w + 3, first : first + size]
                for j in range(size):
                    p, q, r, s = line_p[j], line_q[j], line_r[j], line_s[j]
                    one[j] += popcount(a ^ p) + popcount(b ^ q) + popcount(c ^ r) + popcount(d ^ s)
                    two[j] += popcount(e ^ p) + popcount(f ^ q) + popcount(g ^ r) + popcount(h ^ s)
            for w in range(fours, width):
                a, e, line_p = row[w], partner[w], columns[w, first : first + size]
                for j in range(size):
                    one[j] += popcount(a ^ line_p[j])
                    two[j] += popcount(e ^ line_p[j])
            target, other = out[i, first : first + size], out[min(i + 1, rows.shape[0] - 1), first : first + size]
            for j in range(size):
                target[j] = np.int32(one[j])
                other[j] = np.int32(two[j])
