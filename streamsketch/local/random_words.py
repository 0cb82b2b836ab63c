"""Public randomness derived from a report's seed: words, signs and rows by counter.

A report's seed, mixed with a salt for its use, starts a stream. Word i of the stream is SplitMix64's finaliser of
start + (i + 1) · γ (Steele, Lea and Flood 2014), so any word can be computed without the previous ones.
"""

import numpy as np

from streamsketch.core import Ints, kernel
from streamsketch.kernels import Words, aligned_zeros, field_elements, mix
from streamsketch.local.normal import Floats, standard_normals
from streamsketch.privacy import Bytes
from streamsketch.projections import transform_cells

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_1, _24, _40, _63 = np.uint64(1), np.uint64(24), np.uint64(40), np.uint64(63)


def salt(seed: int, label: str) -> np.uint64:
    """Return the salt for one use of reports' seeds: the field element of (seed, label)."""
    return np.uint64(field_elements(seed, label, 1)[0])


@kernel
def stream_of(seed: np.uint64, salted: np.uint64) -> np.uint64:
    """Return the start of a seed's stream."""
    return mix(seed ^ mix(salted))


@kernel
def word(start: np.uint64, index: int) -> np.uint64:
    """Return word ``index`` of a stream."""
    return mix(start + (np.uint64(index) + _1) * _GAMMA)


@kernel
def gaussian_vector(seed: np.uint64, salted: np.uint64, words: Words, out: Floats) -> None:
    """Write the standard Gaussians of a seed; ``words`` is scratch of the same size.

    Words are mixed once more with a key of their stream. All streams are parts of one cycle of 2^64 words, so without
    this, vectors would overlap, and caps would be covered less evenly than `compressed.shares` assumes.
    """
    start = stream_of(seed, salted)
    key = mix(start)
    for i in range(out.size):
        words[i] = mix(word(start, i) ^ key)
    standard_normals(words, out)


@kernel
def gaussian_vectors(seeds: Words, salted: np.uint64, size: int) -> Floats:
    """Return `gaussian_vector` of each seed: float64, (n, size)."""
    out, words = np.empty((seeds.size, size)), np.empty(size, dtype=np.uint64)
    for i in range(seeds.size):
        gaussian_vector(seeds[i], salted, words, out[i])
    return out


@kernel
def sample_rows(start: np.uint64, size: int, taken: Bytes, rows: Ints) -> None:
    """Write distinct rows of [0, size), every set of them equally likely up to 2^-16, in O(rows) (Floyd's algorithm).

    ``taken`` has ``size`` zeros before and after the call. size ≤ 2^24, so the products stay below 2^64.
    """
    first = size - rows.size
    for i in range(rows.size):
        last = first + i
        row = np.int64(((word(start, i) >> _24) * (np.uint64(last) + _1)) >> _40)
        if taken[row]:
            row = np.int64(last)
        taken[row] = 1
        rows[i] = row
    for i in range(rows.size):
        taken[rows[i]] = 0


@kernel
def rows_of(starts: Words, size: int, count: int) -> Ints:
    """Return ``count`` distinct rows of [0, size) for each stream: int64, (n, count); see `sample_rows`."""
    rows = np.empty((starts.size, count), dtype=np.int64)
    taken = np.zeros(size, dtype=np.uint8)
    for i in range(starts.size):
        sample_rows(starts[i], size, taken, rows[i])
    return rows


@kernel
def copy_signed(start: np.uint64, cells: Floats, out: Floats) -> None:
    """Write ``cells`` times the signs of a stream: cell j is negated if bit j mod 64 of word j // 64 is 1."""
    given, signed = cells.view(np.uint64), out.view(np.uint64)  # a negation flips bit 63
    for block in range(0, cells.size, 64):
        signs = word(start, block >> 6)
        source, target = given[block : block + 64], signed[block : block + 64]
        for j in range(source.size):
            target[j] = source[j] ^ ((signs >> np.uint64(j)) << _63)


@kernel
def sign_vectors(seeds: Words, salted: np.uint64, size: int) -> Floats:
    """Return ±1 by the signs of each seed's stream: float64, (n, size)."""
    ones, out = np.ones(size), np.empty((seeds.size, size))
    for i in range(seeds.size):
        copy_signed(stream_of(seeds[i], salted), ones, out[i])
    return out


@kernel
def project(vectors: Floats, sign_starts: Words, row_starts: Words, size: int, out: Floats) -> None:
    """Write S_i H± D_i v_i for each row of ``vectors``, where H± has entries ±1 and order ``size``: (n, k)."""
    cells = aligned_zeros(size, vectors)
    taken = np.zeros(size, dtype=np.uint8)
    rows = np.empty(out.shape[1], dtype=np.int64)
    for i in range(vectors.shape[0]):
        copy_signed(sign_starts[i], vectors[i], cells)
        cells[vectors.shape[1] :] = 0.0
        transform_cells(cells, size)
        sample_rows(row_starts[i], size, taken, rows)
        for j in range(rows.size):
            out[i, j] = cells[rows[j]]


@kernel
def lift(values: Floats, sign_starts: Words, row_starts: Words, size: int, out: Floats) -> None:
    """Write the first coordinates of D_i H± S_iᵀ times each row of ``values``: (n, d)."""
    cells = aligned_zeros(size, values)
    taken = np.zeros(size, dtype=np.uint8)
    rows = np.empty(values.shape[1], dtype=np.int64)
    for i in range(values.shape[0]):
        cells[:] = 0.0
        sample_rows(row_starts[i], size, taken, rows)
        for j in range(rows.size):
            cells[rows[j]] = values[i, j]
        transform_cells(cells, size)
        copy_signed(sign_starts[i], cells[: out.shape[1]], out[i])


@kernel
def add_rows(values: Floats, matrix: Floats, out: Floats) -> None:
    """Add Wᵀ û to ``out``, row by row: the order of sums in BLAS, and so the last bit, differs between machines."""
    for row in range(values.size):
        for j in range(out.size):
            out[j] += values[row] * matrix[row, j]


@kernel
def scatter(steps: Ints, row_starts: Words, taken: Bytes, total: Ints) -> None:
    """Add S_iᵀ times each row of ``steps`` to ``total``, in O(k) each; ``taken`` as in `sample_rows`."""
    rows = np.empty(steps.shape[1], dtype=np.int64)
    for i in range(steps.shape[0]):
        sample_rows(row_starts[i], total.size, taken, rows)
        for j in range(rows.size):
            total[rows[j]] += steps[i, j]


@kernel
def streams_of(seeds: Words, salted: np.uint64) -> Words:
    """Return the start of each seed's stream: uint64, (n,)."""
    starts = np.empty_like(seeds)
    for i in range(seeds.size):
        starts[i] = stream_of(seeds[i], salted)
    return starts
