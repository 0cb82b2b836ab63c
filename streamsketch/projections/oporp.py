"""OPORP: one permutation, one random projection."""

import dataclasses
import functools
from fractions import Fraction
from typing import Any

import numpy as np

from streamsketch.core.jit import kernel, read_only
from streamsketch.core.numbers import Ints, Numbers
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.hashing import Words, evaluate, polynomials
from streamsketch.kernels.permutation import Permutation
from streamsketch.projections.base import MAX_INDEPENDENCE, Entries, MatrixNumber, Projection, register
from streamsketch.projections.variance import MapVariance

_BLOCK = 512
_63 = np.uint64(63)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class OPORP(Projection):
    """One Permutation + One Random Projection, with bins of fixed length (Li and Li 2023, Algorithm 2).

    A public pseudo-random permutation assigns the ``dim`` coordinates to ``sketch_dim`` bins of equal size; each
    coordinate is added to its bin with a random sign. As for `CountSketch`, an update costs one operation and
    Δ1 = Δ2 = 1, but the variance is smaller by the factor (dim - sketch_dim) / (dim - 1), since equal bins have fewer
    collisions. If ``sketch_dim`` does not divide ``dim``, the first ``dim mod sketch_dim`` bins have one coordinate
    more. Since each coordinate has one bin, `OneCoordinate` neighbours change one cell only.

    Parameters
    ----------
    dim, seed, resolution
        As in `Projection`.
    sketch_dim
        The number of bins (k), at most ``dim``.
    independence
        The independence of the signs (t), 4 to 256.

    Raises
    ------
    InvalidInputError
        For a field out of range.

    Examples
    --------
    >>> OPORP(dim=1000, sketch_dim=100, seed=1).l2_sensitivity_squared
    1
    """

    independence: int = 8

    kind = "oporp"
    scale_squared = Fraction(1)
    l1_sensitivity = 1
    l2_sensitivity_squared = 1
    max_entry = 1
    nonzeros = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_int("independence", 4, MAX_INDEPENDENCE)
        if self.sketch_dim > self.dim:
            raise InvalidInputError(
                f"OPORP assigns dim coordinates to sketch_dim bins, so sketch_dim must be at most dim; got "
                f"sketch_dim={self.sketch_dim} and dim={self.dim}. Use fewer bins, or CountSketch"
            )

    @property
    def spectral_bound(self) -> int:
        """‖A‖₂² = ⌈dim / k⌉, the size of the largest bin: A·Aᵀ is diagonal and holds the sizes of the bins."""
        return -(-self.dim // self.sketch_dim)

    @property
    def collisions(self) -> tuple[int, float]:
        """1, and the share of the other coordinates that are in a coordinate's bin."""
        return 1, self.variance.norms

    def enumerated_entries(self, _: MatrixNumber, /) -> int:
        """Return 0: all is known by formulas."""
        return 0

    def kept_bytes(self, _: MatrixNumber, /) -> int:
        """Return 0: nothing of A is kept."""
        return 0

    @property
    def variance(self) -> MapVariance:
        """V_S = 2p(‖z‖₂⁴ - ‖z‖₄⁴) with p the probability that two coordinates share a bin (Theory 4).

        With equal bins p = (dim - k) / (k (dim - 1)) (Li and Li 2023, Theorem C.3).
        """
        if self.dim == 1:
            return MapVariance(0.0, 0.0, 0.0)
        size, larger = divmod(self.dim, self.sketch_dim)
        pairs = larger * (size + 1) * size + (self.sketch_dim - larger) * size * (size - 1)
        shared = float(Fraction(pairs, self.dim * (self.dim - 1)))
        return MapVariance(shared, shared, -2 * shared)

    @functools.cached_property
    def permutation(self) -> Permutation:
        """The permutation of the coordinates."""
        return Permutation(self.dim, self.seed, f"{self.kind}/permutation")

    @functools.cached_property
    def _coefficients(self) -> Words:
        return polynomials(self.seed, self.kind, 1, self.independence).reshape(-1)

    def bins_and_signs(self, indices: Ints) -> tuple[Ints, Ints]:
        """Return the bin in [0, sketch_dim) and the sign ±1 of each index in [0, dim): int64, (n,) each."""
        bins, signs = self.permutation.of(indices), np.empty_like(indices)
        _bins_and_signs(read_only(indices).view(np.uint64), self._coefficients, self.dim, self.sketch_dim, bins, signs)
        return bins, signs

    def add_to_rows(self, table: Ints, slots: Ints, indices: Ints, values: Ints) -> tuple[int, int]:
        """Add each item's column to its row of a table in O(1); see `Projection.add_to_rows`."""
        slots, indices, values = read_only(slots), read_only(indices), read_only(values)
        bounds = self.check_bounds(indices, values)
        bins, signs = self.bins_and_signs(indices)
        _add(table, slots, bins, signs, values)
        return bounds

    def sparse_entries(self, indices: Ints) -> Entries:
        """Return the bin and the sign of each index; see `Projection.sparse_entries`."""
        self.check_bounds(indices, indices)
        bins, signs = self.bins_and_signs(indices)
        return bins.astype(np.int32).reshape(-1, 1), signs.astype(np.int8).reshape(-1, 1)

    def project_dense(self, matrix: Numbers, out: Numbers) -> None:
        """Write A x of each row in O(1) a cell; see `Projection.project_dense`."""
        bins, signs = self.bins_and_signs(np.arange(self.dim))
        _add_matrix(matrix, bins, signs.astype(matrix.dtype), out)

    def project_csr(self, matrix: Any, out: Numbers) -> None:
        """Write A x of each row in O(1) a nonzero; see `Projection.project_csr`."""
        bins, signs = self.bins_and_signs(matrix.indices.astype(np.int64))
        lines = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        _add(out, read_only(lines), bins, signs.astype(out.dtype), read_only(matrix.data))


@kernel
def _bins_and_signs(keys: Words, coefficients: Words, dim: int, bins: int, places: Ints, signs: Ints) -> None:
    """Replace places in [0, dim) by bins, and write the signs: the top bit of each key's word, 1 for minus."""
    words = np.empty(_BLOCK, dtype=np.uint64)
    size, larger = dim // bins, dim % bins
    in_larger = larger * (size + 1)
    for start in range(0, keys.size, _BLOCK):
        key_block = keys[start : start + _BLOCK]
        evaluate(key_block, coefficients, words[: key_block.size])
        for i in range(key_block.size):
            place = places[start + i]
            if place < in_larger:
                places[start + i] = place // (size + 1)
            else:
                places[start + i] = larger + (place - in_larger) // size
            signs[start + i] = -1 if words[i] >> _63 else 1


@kernel
def _add_matrix(matrix: Numbers, bins: Ints, signs: Numbers, out: Numbers) -> None:
    for line in range(matrix.shape[0]):
        cells, values = out[line], matrix[line]
        for j in range(bins.size):
            cells[bins[j]] += signs[j] * values[j]


@kernel
def _add(table: Numbers, slots: Ints, bins: Ints, signs: Numbers, values: Numbers) -> None:
    for i in range(bins.size):
        table[slots[i], bins[i]] += signs[i] * values[i]


register(OPORP, "oporp")
