"""Proven bounds on spectral norms, in exact integers: the same on every machine and in every run (Theory 2.1)."""

import functools
import math

import numpy as np

from streamsketch.core.numbers import Floats, Ints
from streamsketch.projections.base import Projection

_MOST_ROWS = 2048  # for a bound by powers, which takes a few seconds then, and grows as the cube
_MOST_DENSE = 1 << 34  # products of entries, where columns have many nonzeros
_SQUARINGS = 6  # the 128th powers of all eigenvalues: at most 6 % above the largest of 2048, if all were equal
_EXACT_BITS = 50  # of sums of products; doubles have 53, which leaves room for a product by Strassen's method
_FINE = 32  # bits behind the point of a bound
_CELLS = 1 << 20  # of columns rebuilt at once
_SPARSE = 16  # with a nonzero in so many entries or fewer, products are faster as those of a sparse matrix
_SQUARES = 4  # matrices like AAᵀ at a time: a power, its square, and that divided and rounded
_COLUMN_STEPS, _PRODUCT_STEPS = 8, 128  # cells rebuilt, and cubes of rows, in the time of an entry of a random matrix


@functools.lru_cache(maxsize=64)
def block_bound(projection: Projection, sparsity: int) -> int:
    """Return a bound on ‖A‖₂² of a map with ``sparsity`` entries ±1 in each column, of all its columns.

    The lesser of ‖A‖₁·‖A‖∞ and, if there are not too many rows, `eigenvalue_bound` of AAᵀ.
    """
    k = projection.sketch_dim
    met, gram = np.zeros(k, dtype=np.int64), np.zeros((k, k) if _is_squared(projection, sparsity) else 0)
    step = max(1, _CELLS // k)
    for start in range(0, projection.dim, step):
        columns = projection.columns(np.arange(start, min(start + step, projection.dim)))
        met += np.abs(columns).sum(axis=1)
        if gram.size:
            gram += _products(columns, sparse=_is_sparse(projection, sparsity))
    counted = sparsity * int(met.max())
    return min(counted, eigenvalue_bound(gram)) if gram.size else counted


def expected_bound(projection: Projection, sparsity: int) -> int | None:
    """Return an approximation of `block_bound` for any seed, s(1 + √(dim/k))²; None where it is not found by powers."""
    if not _is_squared(projection, sparsity):
        return None
    return math.ceil(sparsity * (1 + math.sqrt(projection.dim / projection.sketch_dim)) ** 2)


def work_of(projection: Projection, sparsity: int) -> int:
    """Return the work for `block_bound`, in entries of a random matrix that are enumerated in the same time."""
    squared = projection.sketch_dim**3 if _is_squared(projection, sparsity) else 0
    return projection.dim * projection.sketch_dim // _COLUMN_STEPS + squared // _PRODUCT_STEPS


def memory_of(projection: Projection, sparsity: int) -> int:
    """Return the bytes of AAᵀ and its powers, 0 if `block_bound` needs none."""
    return _SQUARES * 8 * projection.sketch_dim**2 if _is_squared(projection, sparsity) else 0


def eigenvalue_bound(gram: Floats, exact_bits: int = _EXACT_BITS) -> int:
    """Return an integer that no eigenvalue of a symmetric matrix of integers exceeds in absolute value.

    With M_0 the matrix, M_{i+1} is M_i² divided by a power of two 2^{s_i} and rounded to integers: n² errors of 1/2 at
    most, so ‖M_i‖² = ‖M_i²‖ ≤ 2^{s_i}(‖M_{i+1}‖ + n/2). The last norm is at most the root of the sum of squares.
    Entries are so small integers that all sums in a product are below 2^50: doubles hold them exactly, in any
    order of addition.

    Parameters
    ----------
    gram
        (n, n), symmetric; integers below 2^50.
    exact_bits
        Bits that sums of products may have.

    Examples
    --------
    >>> eigenvalue_bound(np.array([[2000.0, 1000.0], [1000.0, 2000.0]]))
    3001
    """
    size = len(gram)
    bits = (exact_bits - (size - 1).bit_length()) // 2
    powers, shift = scaled_to_integers(gram, bits)
    shifts = [shift]
    for _ in range(_SQUARINGS):
        powers, shift = scaled_to_integers(powers @ powers.T, bits)
        shifts.append(shift)
    squares = sum(map(int, (powers * powers).sum(axis=1)))  # each row's sum is below 2^50
    bound = math.isqrt(squares << (2 * _FINE)) + 1  # of the last norm, in steps of 2^-32
    for place in range(_SQUARINGS, -1, -1):
        if shifts[place]:
            bound = (bound + (size << (_FINE - 1))) << shifts[place]
        if place:
            bound = math.isqrt(bound << _FINE) + 1
    return -(-bound >> _FINE)


def scaled_to_integers(matrix: Floats, bits: int) -> tuple[Floats, int]:
    """Return integers of at most ``bits`` bits, and the power of two by which the matrix was divided and rounded."""
    shift = max(0, math.frexp(float(np.abs(matrix).max()))[1] - bits)
    return (np.rint(matrix * 2.0**-shift), shift) if shift else (matrix, 0)


def _is_squared(projection: Projection, sparsity: int) -> bool:
    k = projection.sketch_dim
    cheap = _is_sparse(projection, sparsity) or projection.dim * k**2 <= _MOST_DENSE
    return sparsity > 1 and k <= _MOST_ROWS and cheap


def _is_sparse(projection: Projection, sparsity: int) -> bool:
    return sparsity * _SPARSE <= projection.sketch_dim


def _products(columns: Ints, *, sparse: bool) -> Floats:
    """Return the products of all pairs of rows, sums of 0 and ±1: (k, k)."""
    if sparse:
        from scipy.sparse import csr_array  # noqa: PLC0415 - only norms need it

        matrix = csr_array(columns)
        products: Floats = (matrix @ matrix.T).toarray().astype(np.float64)
        return products
    exact = columns.astype(np.float64)
    return exact @ exact.T
