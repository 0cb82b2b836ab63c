"""Random rotations: orthonormal rows, uniformly distributed."""

import dataclasses
import functools
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.numbers import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.hashing import Words
from streamsketch.projections.base import MatrixNumber, register
from streamsketch.projections.explicit import RandomNorms
from streamsketch.projections.independent import MAX_FRACTION_BITS, MIN_FRACTION_BITS, GaussianProjection
from streamsketch.projections.variance import MapVariance

_MAX_ENTRIES = 1 << 30
_MAX_SKETCH_DIM = 1 << 12
_GAUSSIAN_BITS = 8
_FLATTEST = 2.0**-40  # least share of a row outside the span of those before it: below, digits are lost
_TRIANGLE_BYTES = 32  # for each entry of the triangle, copies while building included
_STEPS_AN_ENTRY = 64  # of the elimination, in the time of one entry
_CHECKED_ENTRIES = 64  # in larger maps dependent rows do not occur by chance
_EXACT = 52  # sums of integers below 2^53 are exact in float64, in any order


class _Triangle(NamedTuple):
    factor: NDArray[np.float64]  # integers, (sketch_dim, sketch_dim)
    shift: int  # its fractional bits beyond the map's own grid


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Rotation(RandomNorms):
    """Haar rotation: ``sketch_dim`` orthonormal rows at scale √(dim / sketch_dim), in multiples of 2^-fraction_bits.

    The rows result from Gram-Schmidt on the rows of a Gaussian matrix G: W = L⁻¹G with G·Gᵀ = L·Lᵀ and a positive
    diagonal of L (the sign-fixed QR of Asi et al. 2023). Only the sketch_dim² triangle is kept; columns are rebuilt
    from it. The Gram matrix is an exact sum of integers, and the triangle takes sums, products, divisions and square
    roots of single numbers in a fixed order, so every machine has the same matrix. If sketch_dim is close to dim, the
    error is smaller than that of any other map, and at sketch_dim = dim only the error of the entries' grid is left. An
    event costs O(sketch_dim²).

    Parameters
    ----------
    dim, seed, resolution
        As in `Projection`; dim · sketch_dim is at most 2^30.
    independence
        The hash functions' independence (t), 4 to 256.
    sketch_dim
        1 to 2^12, at most ``dim``.
    fraction_bits
        Fractional bits of the entries, for rows of length √dim; 2 to 12. Rounding gives an estimate of ‖x‖² a relative
        standard error of 2^-fraction_bits / √(3 sketch_dim), which `variance` includes.

    Raises
    ------
    InvalidInputError
        For a field out of range, and for a seed with linearly dependent Gaussian rows: one in 640 at dim = 1, one in
        10^5 at dim = 2. If dim · sketch_dim is above 64, this is checked at the first use of the matrix.

    Examples
    --------
    >>> projection = Rotation(dim=100, sketch_dim=100, seed=1)
    >>> x = projection.sketch()
    >>> x.update([5, 50], [3, 4])
    >>> from streamsketch import squared_norm
    >>> round(squared_norm(x).value, 1)
    25.0
    """

    fraction_bits: int = 8

    kind = "rotation"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_int("fraction_bits", MIN_FRACTION_BITS, MAX_FRACTION_BITS)
        self._set_int("sketch_dim", 1, _MAX_SKETCH_DIM)
        if self.sketch_dim > self.dim or self.dim * self.sketch_dim > _MAX_ENTRIES:
            raise InvalidInputError(
                f"a Rotation has at most dim orthonormal rows, and dim · sketch_dim at most {_MAX_ENTRIES}; got "
                f"dim={self.dim} and sketch_dim={self.sketch_dim}. Use a smaller sketch_dim, or SRHT"
            )
        if self.dim * self.sketch_dim <= _CHECKED_ENTRIES:
            self._triangle  # noqa: B018 - raises if the rows are dependent

    @property
    def scale_squared(self) -> Fraction:
        """c² = 1 / (k (4^fraction_bits + 1/12)), where 1/12 is the second moment of rounding."""
        return Fraction(12, self.sketch_dim * ((12 << (2 * self.fraction_bits)) + 1))

    @property
    def max_entry(self) -> int:
        """√dim in grid steps, with a margin for rounding."""
        return (math.isqrt(self.dim << (2 * self.fraction_bits)) + 1) * 65 // 64 + 1

    def enumerated_entries(self, number: MatrixNumber, /) -> int:
        """Return dim · sketch_dim or, if more, the elimination for the triangle; 0 for the largest entry, a formula."""
        if number == "largest entry":
            return 0
        return max(self.dim * self.sketch_dim, self.sketch_dim**3 // _STEPS_AN_ENTRY)

    def kept_bytes(self, number: MatrixNumber, /) -> int:
        """Return the bytes of the triangle and its elimination."""
        return 0 if number == "largest entry" else _TRIANGLE_BYTES * self.sketch_dim**2

    @property
    def variance(self) -> MapVariance:
        """V_S of a Haar rotation, 2(d-k) / (k(d+2)) ‖z‖₂⁴, and of the rounding of its entries (Theory 4).

        The first holds since ‖Sz‖² is d/k ‖z‖² times a Beta(k/2, (d-k)/2) variable; then (1+r)² V_S is that plus
        ((4r + 2r²)‖z‖₂⁴ - (6/5)r²‖z‖₄⁴)/k with r = 1 / (12 · 4^fraction_bits).
        """
        d, k, r = self.dim, self.sketch_dim, 1 / (12 << (2 * self.fraction_bits))
        haar = (d - k) / (k * (d + 2) * max(1, d - 1))
        rounding = (2 * r + r**2) / k
        return MapVariance(
            (d * haar + rounding) / (1 + r) ** 2,
            ((d - 2) * haar + rounding) / (1 + r) ** 2,
            -1.2 * r**2 / (k * (1 + r) ** 2),
        )

    @functools.cached_property
    def _gaussian(self) -> GaussianProjection:
        return GaussianProjection(
            dim=self.dim,
            sketch_dim=self.sketch_dim,
            seed=self.seed,
            independence=self.independence,
            fraction_bits=_GAUSSIAN_BITS,
        )

    @functools.cached_property
    def _triangle(self) -> _Triangle:
        """√dim · 2^fraction_bits · L⁻¹ on a finer grid, as integers."""
        return _kept_triangle(self if self.resolution == 1 else self.replace(resolution=Fraction(1)))

    def build_triangle(self) -> _Triangle:
        """Build the triangle from the whole Gaussian matrix; `block` caches the result for all equal projections."""
        k = self.sketch_dim
        gram = np.zeros((k, k))
        step = max(1, (1 << 22) // k)
        for start in self.progress(range(0, self.dim, step), "Gram matrix"):
            keys = np.arange(start, min(start + step, self.dim), dtype=np.uint64)
            block = self._gaussian.block(keys).astype(np.float64)
            gram += block @ block.T  # below 2^30 · 2^23: exact, whatever the order
        inverse = _inverse_factor(gram)
        if inverse is None:
            raise InvalidInputError(
                f"the {k} Gaussian rows of seed={self.seed} at dim={self.dim} are linearly dependent to the precision "
                f"used, so they give no rotation. Use another seed"
            )
        inverse *= math.sqrt(self.dim) * 2.0**self.fraction_bits
        largest = float(np.abs(inverse).max()) * k * self._gaussian.max_entry
        shift = min(24, _EXACT - math.frexp(largest)[1])
        return _Triangle(np.rint(inverse * 2.0**shift), shift)

    def block(self, keys: Words) -> Ints:
        """Return columns; see `ExplicitColumns.block`."""
        factor, shift = self._triangle
        products = factor @ self._gaussian.block(keys).astype(np.float64)  # integers below 2^52: exact
        return np.floor(products * 2.0**-shift + 0.5).astype(np.int64)


@functools.lru_cache(maxsize=8)
def _kept_triangle(projection: Rotation) -> _Triangle:
    """Cache the triangle for equal projections, which sketches bring along; the grid does not change it."""
    return projection.build_triangle()


def _inverse_factor(gram: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return L⁻¹ for the Cholesky factor L of ``gram``, by the same operations on every machine.

    Return None if a pivot is nearly zero.
    """
    rest, inverse = gram.copy(), np.eye(gram.shape[0])
    for i in range(gram.shape[0]):
        if not rest[i, i] > gram[i, i] * _FLATTEST:
            return None
        column = rest[i:, i] / math.sqrt(rest[i, i])
        below = column[1:]
        rest[i + 1 :, i + 1 :] -= np.multiply.outer(below, below)
        inverse[i] /= column[0]
        inverse[i + 1 :, : i + 1] -= np.multiply.outer(below, inverse[i, : i + 1])
    return inverse


register(Rotation, "rotation")
