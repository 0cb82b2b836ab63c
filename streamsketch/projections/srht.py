"""The subsampled randomised Hadamard transform."""

import dataclasses
import functools
from fractions import Fraction

import numpy as np

from streamsketch.core.jit import kernel, read_only
from streamsketch.core.numbers import Ints, Numbers
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.hashing import Words, evaluate, polynomials
from streamsketch.kernels.permutation import Permutation
from streamsketch.projections.base import MatrixNumber, register
from streamsketch.projections.explicit import ExplicitColumns
from streamsketch.projections.hadamard import hadamard_transform
from streamsketch.projections.variance import MapVariance

_PADDED_CELLS = 1 << 21
_63 = np.uint64(63)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Hadamard(ExplicitColumns):
    """Maps that begin with random signs and a Walsh-Hadamard transform, H·D, on a padded power of two."""

    @property
    def padded_dim(self) -> int:
        """The least power of two that is at least dim."""
        return 1 << (self.dim - 1).bit_length()

    @functools.cached_property
    def _signs(self) -> Words:
        return polynomials(self.seed, self.kind, 1, self.independence).reshape(-1)

    def signs(self, keys: Words) -> Ints:
        """Return the entries of D's diagonal at ``keys``: ±1, int64, (n,)."""
        out = np.empty(keys.size, dtype=np.int64)
        _signs(read_only(keys), self._signs, out)
        return out

    def rotated(self, matrix: Numbers) -> Numbers:
        """Return H·D x of each row x of (n, dim), with entries ±1 of H: (n, padded_dim), of the same dtype."""
        out = np.zeros((matrix.shape[0], self.padded_dim), dtype=matrix.dtype)
        signs = self.signs(np.arange(self.dim, dtype=np.uint64)).astype(matrix.dtype)
        np.multiply(matrix, signs, out=out[:, : self.dim])
        hadamard_transform(out)
        return out

    def row_blocks(self, rows: int) -> list[slice]:
        """Return slices that split ``rows`` rows into parts small enough to pad in memory."""
        step = max(1, _PADDED_CELLS // self.padded_dim)
        return [slice(start, start + step) for start in range(0, rows, step)]


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class SRHT(Hadamard):
    """Random signs, a Walsh-Hadamard transform, and ``sketch_dim`` of its rows without replacement.

    Source: Asi et al. 2023, eq. 2. This map is meant for dense vectors: a whole one costs O(dim log dim) by
    `Projection.transform`, one event O(sketch_dim). All entries of A are ±1, so Δ2 is 1 in data units. A dim that is
    not a power of two is padded with zeros to the next one, N, and rows are drawn from all N.

    Parameters
    ----------
    dim, seed, resolution
        As in `Projection`.
    independence
        The independence of the signs (t), 4 to 256.
    sketch_dim
        1 to 2^16, at most N.

    Raises
    ------
    InvalidInputError
        For a field out of range.

    Examples
    --------
    >>> SRHT(dim=1000, sketch_dim=100, seed=1).padded_dim
    1024
    """

    kind = "srht"
    max_entry = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sketch_dim > self.padded_dim:
            raise InvalidInputError(
                f"SRHT draws sketch_dim distinct rows of a Hadamard matrix, so sketch_dim must be at most the power of "
                f"two above dim; got sketch_dim={self.sketch_dim}, dim={self.dim} (padded to {self.padded_dim})"
            )

    @property
    def scale_squared(self) -> Fraction:
        """c² = 1/k."""
        return Fraction(1, self.sketch_dim)

    @property
    def l1_sensitivity(self) -> int:
        """Δ1(A) = k, because all entries are ±1."""
        return self.sketch_dim

    @property
    def l2_sensitivity_squared(self) -> int:
        """Δ2(A)² = k."""
        return self.sketch_dim

    @property
    def spectral_bound(self) -> int:
        """‖A‖₂² ≤ N: the rows are distinct ones of a Hadamard matrix, orthogonal and of squared length N."""
        return self.padded_dim

    def enumerated_entries(self, _: MatrixNumber, /) -> int:
        """Return 0: all is known by formulas."""
        return 0

    def kept_bytes(self, _: MatrixNumber, /) -> int:
        """Return 0: nothing of A is kept."""
        return 0

    @property
    def variance(self) -> MapVariance:
        """V_S = (2/k)(‖z‖₂⁴ - ‖z‖₄⁴)(N-k)/(N-1) with N the padded dim (Theory 4)."""
        share = (self.padded_dim - self.sketch_dim) / (self.sketch_dim * max(1, self.padded_dim - 1))
        return MapVariance(share, share, -2 * share)

    @functools.cached_property
    def rows(self) -> Ints:
        """The sampled rows of the Hadamard matrix, int64 of shape (sketch_dim,), read-only."""
        permutation = Permutation(self.padded_dim, self.seed, f"{self.kind}/rows")
        rows = permutation.of(np.arange(self.sketch_dim, dtype=np.int64))
        rows.setflags(write=False)
        return rows

    def block(self, keys: Words) -> Ints:
        """Return columns; see `ExplicitColumns.block`."""
        out = np.empty((self.sketch_dim, keys.size), dtype=np.int64)
        _entries(self.rows, keys, self.signs(keys), out)
        return out

    def project_dense(self, matrix: Numbers, out: Numbers) -> None:
        """Write A x of each row by fast transforms, O(N log N) a row; see `Projection.project_dense`."""
        for part in self.row_blocks(matrix.shape[0]):
            np.take(self.rotated(matrix[part]), self.rows, axis=1, out=out[part])


@kernel
def _signs(keys: Words, coefficients: Words, out: Ints) -> None:
    words = np.empty(keys.size, dtype=np.uint64)
    evaluate(keys, coefficients, words)
    for i in range(keys.size):
        out[i] = -1 if words[i] >> _63 else 1


@kernel
def _entries(rows: Ints, keys: Words, signs: Ints, out: Ints) -> None:
    for row in range(rows.size):
        for i in range(keys.size):
            out[row, i] = signs[i] * hadamard_sign(np.uint64(rows[row]) & keys[i])


@kernel
def hadamard_sign(common: np.uint64) -> np.int64:
    """Return (-1)^popcount of a word."""
    common ^= common >> np.uint64(32)
    common ^= common >> np.uint64(16)
    common ^= common >> np.uint64(8)
    common ^= common >> np.uint64(4)
    common ^= common >> np.uint64(2)
    common ^= common >> np.uint64(1)
    return np.int64(1) - np.int64(2) * np.int64(common & np.uint64(1))


register(SRHT, "srht")
