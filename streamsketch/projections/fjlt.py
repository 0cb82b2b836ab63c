"""The fast Johnson-Lindenstrauss transform."""

import dataclasses
import functools
import math
from collections.abc import Iterator
from fractions import Fraction
from numbers import Real

import numpy as np

from streamsketch.core.jit import kernel
from streamsketch.core.libraries import sparse
from streamsketch.core.numbers import Exact, Ints, Numbers, check_int, exact_fraction, short
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.hashing import WORD_BITS, Words, evaluate, polynomials
from streamsketch.kernels.lattice import LatticeGaussian, gaussian_entries, lattice_gaussian
from streamsketch.projections.base import MAX_MASS, MatrixNumber, register
from streamsketch.projections.explicit import MAX_ENUMERATED, ColumnNorms, RandomNorms
from streamsketch.projections.hadamard import hadamard_transform
from streamsketch.projections.independent import MAX_FRACTION_BITS, MIN_FRACTION_BITS
from streamsketch.projections.srht import Hadamard, hadamard_sign
from streamsketch.projections.variance import MapVariance, independent_entries

_DENSITY_STEPS = 1 << 30
_COLUMN_BYTES = 48  # for each padded column, in the row at hand
_NONZERO_BYTES = 64  # for each nonzero, copies while building included
_MAX_NONZEROS = 1 << 26  # of P, 16 bytes each: 1 GB


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class FJLT(Hadamard, RandomNorms):
    """The fast Johnson-Lindenstrauss transform P·H·D of Ailon and Chazelle (Stausholm 2021, Section 5.1).

    D holds random signs, H is the Walsh-Hadamard matrix, and P is sparse: each entry is Gaussian with probability
    ``density``, else 0. Entries of P lie on a grid and those of H are ±1, so A = P·H·D is an exact integer matrix. A
    whole vector costs O(dim log dim + nonzeros of P) by `Projection.transform`; one event costs the nonzeros of P,
    about sketch_dim · ln²(1/β). Sensitivities are those of the matrix in use, found by sketch_dim fast transforms.
    A dim that is not a power of two is padded with zeros to the next one, N.

    To release privately, `Sketch.release` adds noise to the output; `streamsketch.release.release_vector` adds it to
    the input, or after the Hadamard step.

    Parameters
    ----------
    dim, seed, resolution
        As in `Projection`; N · sketch_dim is at most 2^35.
    independence
        The hash functions' independence (t), 4 to 256.
    sketch_dim
        1 to 2^16.
    fraction_bits
        Fractional bits of P's entries, 2 to 12.
    density
        The probability q that an entry of P is not 0, in (0, 1], rounded up to a multiple of 2^-30; by default
        ``FJLT.density_for(0.01, dim)``. P is kept at 16 bytes for each nonzero: q · N · sketch_dim is at most 2^26.

    Raises
    ------
    InvalidInputError
        For a field out of range.

    Examples
    --------
    >>> projection = FJLT(dim=1000, sketch_dim=64, seed=1)
    >>> round(float(projection.density), 4)  # ln² 100 / 1024
    0.0207
    """

    fraction_bits: int = 8
    density: Exact | None = None

    kind = "fjlt"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_int("fraction_bits", MIN_FRACTION_BITS, MAX_FRACTION_BITS)
        if self.padded_dim * self.sketch_dim > MAX_ENUMERATED:
            raise InvalidInputError(
                f"the sparse matrix of an FJLT is built by visiting sketch_dim · dim places, at most "
                f"{MAX_ENUMERATED}; got sketch_dim={self.sketch_dim} and "
                f"dim={self.dim} (padded to {self.padded_dim}). Use SRHT or SJLT"
            )
        value = self.density_for(0.01, self.dim) if self.density is None else self.density
        density = exact_fraction(value, "density")
        if isinstance(value, float) and (Fraction(value) * _DENSITY_STEPS).denominator == 1:
            density = Fraction(value)  # an exact multiple, whose decimal digits may be rounded up
        if not 0 < density <= 1:
            raise InvalidInputError(f"density must be a probability in (0, 1], got {short(str(density))}")
        density = Fraction(math.ceil(density * _DENSITY_STEPS), _DENSITY_STEPS)
        object.__setattr__(self, "density", density)
        if density * self.padded_dim * self.sketch_dim > _MAX_NONZEROS:
            raise InvalidInputError(
                f"the sparse matrix of an FJLT is kept in memory, with density · sketch_dim · dim nonzeros, at most "
                f"{_MAX_NONZEROS}; got density={float(density):.6g}, sketch_dim={self.sketch_dim} and dim={self.dim} "
                f"(padded to {self.padded_dim}). Omit density, which is then about ln² 100 / dim, or use SRHT"
            )

    @staticmethod
    def density_for(beta: float, dim: int) -> Fraction:
        """Return q = min(ln²(1/β) / N, 1) with N the padded dim: the Θ of Stausholm 2021 with constant 1.

        For β ≤ 0.049 it is large enough for Var ≤ (3/k)‖z‖⁴ (Lemma 7).

        Parameters
        ----------
        beta
            Failure probability, in (0, 1).
        dim
            The projection's dim.

        Raises
        ------
        InvalidInputError
            If beta is outside (0, 1), or dim is not an integer from 1 to 2^60.

        Examples
        --------
        >>> float(FJLT.density_for(0.01, 16))
        1.0
        """
        if isinstance(beta, bool) or not (isinstance(beta, Real) and 0 < beta < 1):
            raise InvalidInputError(f"beta must be a probability in (0, 1), got {beta!r:.40}")
        dim = check_int(dim, "dim", 1, HASHED_DIM)
        wanted = Fraction(math.log(beta) ** 2) / (1 << (dim - 1).bit_length())
        return min(Fraction(math.ceil(wanted * _DENSITY_STEPS), _DENSITY_STEPS), Fraction(1))

    # --- the sparse matrix ------------------------------------------------------------------------------------

    @property
    def _table(self) -> LatticeGaussian:
        return lattice_gaussian(self.fraction_bits)

    @property
    def _nonzero_words(self) -> int:
        """How many of the 2^64 hash words give a nonzero entry of P."""
        return int(Fraction(self.density or 0) * (1 << WORD_BITS))

    @functools.cached_property
    def _moments(self) -> tuple[Fraction, Fraction]:
        """E w² and E w⁴ of an entry of P, in grid steps, exactly."""
        drawn = Fraction(self._nonzero_words, 1 << WORD_BITS)
        return drawn * self._table.second_moment, drawn * self._table.fourth_moment

    @functools.cached_property
    def sparse_matrix(self) -> "sparse.csr_array":
        """The matrix P in grid steps, int64 of shape (sketch_dim, padded_dim), read-only."""
        return _kept_sparse_matrix(self.replace(resolution=Fraction(1)))

    def build_sparse_matrix(self) -> "sparse.csr_array":
        """Build P by visiting every place; `sparse_matrix` caches the result for all equal projections."""
        places = polynomials(self.seed, f"{self.kind}/places", self.sketch_dim, self.independence)
        entries = polynomials(self.seed, f"{self.kind}/entries", self.sketch_dim, self.independence)
        keys = np.arange(self.padded_dim, dtype=np.uint64)
        words = np.empty_like(keys)
        columns, values = [], []
        for row in self.progress(range(self.sketch_dim), "rows of P"):
            evaluate(keys, places[row], words)
            drawn = keys[words <= np.uint64(self._nonzero_words - 1)]
            chosen, value = np.empty_like(drawn), np.empty(drawn.size, dtype=np.int64)
            evaluate(drawn, entries[row], chosen)
            gaussian_entries(chosen, self._table.thresholds, self._table.guide, self._table.last, value)
            columns.append(drawn.view(np.int64))
            values.append(value)
        ends = np.cumsum([0] + [column.size for column in columns])
        shape = (self.sketch_dim, self.padded_dim)
        matrix = sparse.csr_array((np.concatenate(values), np.concatenate(columns), ends), shape=shape)
        for array in (matrix.data, matrix.indices, matrix.indptr):  # equal projections share them
            array.setflags(write=False)
        return matrix

    # --- the map ----------------------------------------------------------------------------------------------

    @property
    def scale_squared(self) -> Fraction:
        """c² = 1 / (k N E w²) with w an entry of P."""
        return 1 / (self.sketch_dim * self.padded_dim * self._moments[0])

    @functools.cached_property
    def max_entry(self) -> int:
        """max_i ‖P_i‖₁, which bounds the entries of P·H·D."""
        return int(abs(self.sparse_matrix).sum(axis=1).max(initial=1))

    def enumerated_entries(self, _: MatrixNumber, /) -> int:
        """Return the number of places of P, which is built for any of these numbers."""
        return self.padded_dim * self.sketch_dim

    def kept_bytes(self, _: MatrixNumber, /) -> int:
        """Return the size of P, while it is built, and of a padded row."""
        nonzeros = self.padded_dim * self.sketch_dim * (self.density or 0)
        return _COLUMN_BYTES * self.padded_dim + _NONZERO_BYTES * int(nonzeros)

    @property
    def _kurtosis(self) -> float:
        second, fourth = self._moments
        return float(fourth / second**2)

    @property
    def variance(self) -> MapVariance:
        """V_S = ((2 + 3e)‖z‖₂⁴ - 2e‖z‖₄⁴)/k with e = (κ - 3)/N and κ = 3/q the kurtosis of P's entries.

        Stausholm 2021, Lemma 11, with e = 3a in the notation of Theory 4.
        """
        excess, k = (self._kurtosis - 3) / self.padded_dim, self.sketch_dim
        return MapVariance((1 + excess) / k, (1 + 2 * excess) / k, -2 * excess / k)

    @property
    def after_hadamard(self) -> tuple[int, MapVariance]:
        """N, and the variance of P alone, a map with independent entries."""
        return self.padded_dim, independent_entries(self.sketch_dim, self._kurtosis)

    def block(self, keys: Words) -> Ints:
        """Return columns; see `ExplicitColumns.block`."""
        out = np.zeros((self.sketch_dim, keys.size), dtype=np.int64)
        matrix = self.sparse_matrix
        _entries(matrix.indptr, matrix.indices, matrix.data, keys, self.signs(keys), out)
        return out

    def column_norms(self) -> ColumnNorms:
        """Return the largest norms of A's columns, by a fast transform of each row of P."""
        l1 = np.zeros(self.padded_dim, dtype=np.int64)
        l2_squared = np.zeros(self.padded_dim, dtype=np.int64)
        if self.max_entry**2 * self.sketch_dim > MAX_MASS:
            raise InvalidInputError(
                f"the squared column norms of this FJLT may exceed 63 bits: its entries reach {self.max_entry}. Use "
                f"fewer fraction_bits than {self.fraction_bits}, or a density below {float(self.density or 0):g}"
            )
        for cells in self._transformed_rows():
            l1 += np.abs(cells)
            l2_squared += cells**2
        return ColumnNorms(int(l1[: self.dim].max()), int(l2_squared[: self.dim].max()))

    def row_maxima(self) -> Ints:
        """Return each row's largest absolute entry, by a fast transform of each row of P."""
        return np.array([np.abs(cells[: self.dim]).max() for cells in self._transformed_rows()])

    def _transformed_rows(self) -> Iterator[Ints]:
        """Yield the rows of P·H, which are those of A except for D's signs."""
        for row in self.progress(range(self.sketch_dim), "rows"):
            cells = self.sparse_matrix[[row]].toarray().reshape(-1)
            hadamard_transform(cells)
            yield cells

    def project_dense(self, matrix: Numbers, out: Numbers) -> None:
        """Write A x of each row by fast transforms and one sparse product; see `Projection.project_dense`."""
        transposed = self.sparse_matrix.T.astype(matrix.dtype)
        for part in self.row_blocks(matrix.shape[0]):
            out[part] = self.rotated(matrix[part]) @ transposed


@functools.lru_cache(maxsize=8)
def _kept_sparse_matrix(projection: FJLT) -> "sparse.csr_array":
    """Cache P for equal projections, which sketches bring along; the grid does not change it."""
    return projection.build_sparse_matrix()


@kernel
def _entries(starts: Ints, columns: Ints, data: Ints, keys: Words, signs: Ints, out: Ints) -> None:
    for row in range(starts.size - 1):
        for place in range(starts[row], starts[row + 1]):
            for i in range(keys.size):
                out[row, i] += signs[i] * data[place] * hadamard_sign(np.uint64(columns[place]) & keys[i])


register(FJLT, "fjlt")
