"""The maps of ProjUnit to k dimensions and back: W_i = √(N/k) S_i U_i, or a Gaussian matrix."""

import contextlib
import functools
import math
from abc import ABC, abstractmethod

import numpy as np

from streamsketch.core.jit import read_only
from streamsketch.core.numbers import Floats, Ints
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.hashing import Words
from streamsketch.local import random_words
from streamsketch.local.mechanism import add_in_chunks, whole_steps
from streamsketch.local.portable_floats import gamma_ratio
from streamsketch.local.random_words import dot_rows
from streamsketch.projections.hadamard import transform_cells
from streamsketch.projections.independent import GaussianProjection
from streamsketch.projections.rotation import Rotation

_FRACTION_BITS = 12  # of the matrices' entries
_TINY = 1e-12  # a projection this short is a rounding error
_SEEDS_TRIED = 8
_WORST, _MARGIN = 0.1193, 32.0  # of the bias under independent Hadamard maps


class RandomMap(ABC):
    """A public random map W from unit vectors in R^dim to R^k for every report's seed, with E WᵀW = I.

    Parameters
    ----------
    dim
        Length of the vectors.
    size
        k.
    seed
        Public seed of the mechanism.
    """

    def __init__(self, dim: int, size: int, seed: int) -> None:
        self.dim = dim
        self.size = size
        self.seed = seed

    @property
    def padded_dim(self) -> int:
        """N, the number of rows to sample from."""
        return self.dim

    @property
    def state_dim(self) -> int:
        """Number of cells that the server keeps."""
        return self.dim

    @property
    def mean_length(self) -> float:
        """E‖Wv‖ of a unit vector."""
        return mean_length(self.padded_dim, self.size)

    @property
    def mean_back(self) -> float:
        """E‖Wᵀu‖² with u = Wv/‖Wv‖: 1 along v, and of the remaining N/k - 1 the share on unpadded coordinates."""
        kept = (self.dim - 1) / max(1, self.padded_dim - 1)
        return 1 + kept * (self.padded_dim / self.size - 1)

    @functools.cached_property
    def _no_direction(self) -> np.uint64:
        return random_words.salt(self.seed, "proj-unit/no-direction")

    @property
    @abstractmethod
    def stretch(self) -> float:
        """The largest ratio of the length of û's contribution to the server's state to that of û."""

    @property
    def squared_bias(self) -> float:
        """‖E WᵀWv/‖Wv‖ - v‖² over the reports' seeds: exact for every v, as the bias is along v."""
        return (1 - self.mean_length) ** 2

    @abstractmethod
    def project(self, units: Floats, seeds: Words) -> Floats:
        """Return W_i v_i of each row: (n, k)."""

    @abstractmethod
    def lift(self, values: Floats, seeds: Words) -> Floats:
        """Return W_iᵀ of each row of ``values``, (n, k): (n, dim)."""

    def add_steps(self, values: Floats, seeds: Words, total: Ints, step: float, limit: float) -> None:
        """Add the contributions of the rows of ``values`` to the server's state; see `Mechanism.add_steps`."""
        add_in_chunks(lambda seeds, values: self.lift(values, seeds), seeds, values, total, step, limit)

    def mean_of(self, total: Floats) -> Floats:
        """Return the mean of W_iᵀû_i from the mean of the contributions: (dim,)."""
        return total

    def directions(self, units: Floats, seeds: Words) -> tuple[Floats, Floats]:
        """Return u_i = W_i v_i/‖W_i v_i‖, (n, k), and the lengths ‖W_i v_i‖, (n,).

        If W_i v_i is 0, u_i is 1/√k times public signs of the seed, which adds no bias, as they have mean 0 over seeds.
        They are computed for every report, since whether they are needed reveals something about the vector.
        """
        projected = self.project(units, seeds)
        lengths = np.sqrt(dot_rows(projected, projected))
        instead = random_words.sign_vectors(read_only(seeds), self._no_direction, self.size)
        nothing = lengths < _TINY
        projected = np.where(nothing[:, np.newaxis], instead, projected)
        projected /= np.where(nothing, math.sqrt(self.size), lengths)[:, np.newaxis]
        return projected, np.where(nothing, 0.0, lengths)


class HadamardMap(RandomMap):
    """W_i = √(N/k) S_i H D_i / √N, the SRHT: signs, a Hadamard transform, k of N rows (Asi et al. 2023, eq. 2).

    N is the least power of two ≥ dim. Vectors are padded with zeros, and rows are drawn from all N.
    """

    @property
    def padded_dim(self) -> int:
        """N."""
        return 1 << (self.dim - 1).bit_length()

    @property
    def stretch(self) -> float:
        """√(N/k)."""
        return math.sqrt(self.padded_dim / self.size)

    @property
    def squared_bias(self) -> float:
        """See `scattered_squared_bias`."""
        return scattered_squared_bias(self.padded_dim, self.size)

    @functools.cached_property
    def _salts(self) -> tuple[np.uint64, np.uint64]:
        return random_words.salt(self.seed, "proj-unit/signs"), random_words.salt(self.seed, "proj-unit/rows")

    def _row_starts(self, seeds: Words) -> Words:
        return random_words.streams_of(read_only(seeds), self._salts[1])

    def _sign_starts(self, seeds: Words) -> Words:
        return random_words.streams_of(read_only(seeds), self._salts[0])

    def project(self, units: Floats, seeds: Words) -> Floats:
        """Return W_i v_i; see `RandomMap.project`. O(N log N) for each row."""
        out = np.empty((seeds.size, self.size))
        random_words.project(units, self._sign_starts(seeds), self._row_starts(seeds), self.padded_dim, out)
        out /= math.sqrt(self.size)
        return out

    def lift(self, values: Floats, seeds: Words) -> Floats:
        """Return W_iᵀ û_i; see `RandomMap.lift`. O(N log N) for each row."""
        out = np.empty((seeds.size, self.dim))
        random_words.lift(values, self._sign_starts(seeds), self._row_starts(seeds), self.padded_dim, out)
        out /= math.sqrt(self.size)
        return out


class SharedHadamardMap(HadamardMap):
    """The SRHT with one D for all reports (Asi et al. 2023, eq. 3): the server adds S_iᵀû_i, and transforms once."""

    @property
    def state_dim(self) -> int:
        """N cells, in the rotated coordinates."""
        return self.padded_dim

    @property
    def stretch(self) -> float:
        """1: û goes to k of the cells."""
        return 1.0

    @property
    def squared_bias(self) -> float:
        """See `shared_squared_bias`."""
        return shared_squared_bias(self.dim, self.padded_dim, self.size, self.mean_back)

    def _sign_starts(self, seeds: Words) -> Words:
        return random_words.streams_of(read_only(np.zeros_like(seeds)), self._salts[0])

    def add_steps(self, values: Floats, seeds: Words, total: Ints, step: float, limit: float) -> None:
        """Add S_iᵀû_i of each row; see `RandomMap.add_steps`."""
        steps = whole_steps(values, step, limit)
        random_words.scatter(steps, self._row_starts(seeds), np.zeros(self.padded_dim, dtype=np.uint8), total)

    def mean_of(self, total: Floats) -> Floats:
        """Return √(N/k) (HD/√N)ᵀ of the mean of S_iᵀû_i."""
        out = np.empty(self.padded_dim)
        cells = total.copy()
        transform_cells(cells, self.padded_dim)
        random_words.copy_signed(self._sign_starts(np.zeros(1, dtype=np.uint64))[0], cells, out)
        return out[: self.dim] / math.sqrt(self.size)


class MatrixMap(RandomMap):
    """A matrix rebuilt from each seed, in O(k²·dim) for a Haar rotation and O(k·dim) for a Gaussian matrix."""

    def __init__(self, dim: int, size: int, seed: int, family: type[Rotation | GaussianProjection]) -> None:
        super().__init__(dim, size, seed)
        self.family = family
        integer_map(family, dim, size, seed)  # raises if the sizes are out of range

    @property
    def mean_length(self) -> float:
        """E‖Wv‖; for a Gaussian matrix, the mean of a χ variable over √k."""
        return mean_length(None if self.family is GaussianProjection else self.dim, self.size)

    @property
    def mean_back(self) -> float:
        """E‖Wᵀu‖²: d/k for a rotation, 1 + (d-1)/k for a Gaussian matrix, whose other columns are independent of u."""
        return 1 + (self.dim - 1) / self.size if self.family is GaussianProjection else self.dim / self.size

    @property
    def stretch(self) -> float:
        """√(d/k) for a rotation, with a margin for the rounding of its entries; infinite for a Gaussian matrix."""
        if self.family is GaussianProjection:
            return math.inf
        return math.sqrt(self.dim / self.size) * (1 + 0.5 * math.sqrt(self.size) * 0.5**_FRACTION_BITS)

    def _matrix(self, seed: np.uint64) -> Floats:
        return scaled_matrix(integer_map(self.family, self.dim, self.size, int(seed)))

    def project(self, units: Floats, seeds: Words) -> Floats:
        """Return W_i v_i; see `RandomMap.project`."""
        rows = [self._matrix(seed) @ unit for seed, unit in zip(seeds, units, strict=True)]
        return np.array(rows).reshape(seeds.size, self.size)

    def lift(self, values: Floats, seeds: Words) -> Floats:
        """Return W_iᵀ û_i; see `RandomMap.lift`."""
        out = np.zeros((seeds.size, self.dim))
        for seed, value, row in zip(seeds, values, out, strict=True):
            random_words.add_rows(value, self._matrix(seed), row)
        return out


class SharedHaarMap(RandomMap):
    """W_i = √(d/k) S_i U with one Haar rotation U for all reports: the server adds S_iᵀû_i, and rotates back once."""

    def __init__(self, dim: int, size: int, seed: int) -> None:
        super().__init__(dim, size, seed)
        integer_map(Rotation, dim, dim, seed)  # raises if the sizes are out of range

    @property
    def stretch(self) -> float:
        """1: û goes to k of the cells."""
        return 1.0

    @functools.cached_property
    def _rotation(self) -> Floats:
        return scaled_matrix(integer_map(Rotation, self.dim, self.dim, self.seed))

    @functools.cached_property
    def _salt(self) -> np.uint64:
        return random_words.salt(self.seed, "proj-unit/rows")

    @property
    def squared_bias(self) -> float:
        """See `shared_squared_bias`."""
        return shared_squared_bias(self.dim, self.dim, self.size, self.mean_back)

    def _rows(self, seeds: Words) -> Ints:
        return random_words.rows_of(random_words.streams_of(read_only(seeds), self._salt), self.dim, self.size)

    def project(self, units: Floats, seeds: Words) -> Floats:
        """Return W_i v_i; see `RandomMap.project`. O(d²) for each row."""
        rotated = units @ self._rotation.T
        return np.take_along_axis(rotated, self._rows(seeds), axis=1) * math.sqrt(self.dim / self.size)

    def lift(self, values: Floats, seeds: Words) -> Floats:
        """Return W_iᵀ û_i; see `RandomMap.lift`."""
        spread = np.zeros((seeds.size, self.dim))
        np.put_along_axis(spread, self._rows(seeds), values, axis=1)
        return spread @ self._rotation * math.sqrt(self.dim / self.size)

    def add_steps(self, values: Floats, seeds: Words, total: Ints, step: float, limit: float) -> None:
        """Add S_iᵀû_i of each row; see `RandomMap.add_steps`."""
        steps = whole_steps(values, step, limit)
        starts = random_words.streams_of(read_only(seeds), self._salt)
        random_words.scatter(steps, starts, np.zeros(self.dim, dtype=np.uint8), total)

    def mean_of(self, total: Floats) -> Floats:
        """Return √(d/k) Uᵀ of the mean of S_iᵀû_i."""
        out = np.zeros(self.dim)
        random_words.add_rows(total, self._rotation, out)
        return out * math.sqrt(self.dim / self.size)


def mean_length(dim: int | None, size: int) -> float:
    """Return E‖Wv‖ for k = ``size`` rows of a Haar rotation of R^dim at scale √(dim/k), or of a Gaussian matrix (None).

    They are √(d/k) Γ((k+1)/2)Γ(d/2) / (Γ((d+1)/2)Γ(k/2)) (Asi et al. 2023, Lemma F.1) and √(2/k) Γ((k+1)/2)/Γ(k/2).
    """
    if dim is None:
        return math.sqrt(2 / size) * gamma_ratio(size / 2)
    return math.sqrt(dim / size) * gamma_ratio(size / 2) / gamma_ratio(dim / 2)


def scattered_squared_bias(padded_dim: int, size: int) -> float:
    """Return a bound on the squared bias under independent Hadamard maps, for any vector.

    To leading order the bias is (c/k)²((1 - s₄)²/16 + s₆ - s₄²) with s_m = Σ|v_i|^m and c = (N-k)/(N-1). It is
    (c/k)²/16 for a vector without structure, and below 0.1193 (c/k)² for every v; it is largest with 0.7 of the squared
    length in one coordinate. At small k vectors whose Wv nearly vanishes have more: a factor 1 + 32/k covers all that a
    search has found. It is never above min(k, N/k) + 1 - 2 E‖Wv‖ at the least E‖Wv‖, 1/√2 or 1/√(1 + 2c/k). See
    Theory 7.2.
    """
    share = (padded_dim - size) / max(1, padded_dim - 1)
    shortest = max(math.sqrt(0.5), 1 / math.sqrt(1 + 2 * share / size))
    most = min(float(size), padded_dim / size) + 1 - 2 * shortest
    return max(0.0, min(_WORST * (share / size) ** 2 * (1 + _MARGIN / size), most))


def shared_squared_bias(dim: int, padded_dim: int, size: int, mean_back: float) -> float:
    """Return the squared bias under one rotation for all reports: c²(1/16 + 3/2 · d/N)/k² with c = (N-k)/(N-1).

    This holds to second order in 1/√k for a vector whose rotated coordinates look Gaussian; no vector has more on
    average over the seeds. For a vector constructed from the seed the bias may be nearly its length. The value is at
    most min(k, E‖Wᵀu‖²) + 1 - 2 E‖Wv‖, the largest possible for that E‖Wv‖; it is smaller at k = 1. See Theory 7.2.
    """
    share = (padded_dim - size) / max(1, padded_dim - 1)
    most = min(float(size), mean_back) + 1 - 2 * mean_length(padded_dim, size)
    return max(0.0, min(share**2 * (1 / 16 + 1.5 * dim / padded_dim) / size**2, most))


def integer_map(
    family: type[Rotation | GaussianProjection], dim: int, size: int, seed: int
) -> Rotation | GaussianProjection:
    """Return the integer map whose matrix times its scale is W.

    In few dimensions the Gaussian rows of about one seed in 10^5 are dependent; then the next seed is used.
    """

    def build(shift: int) -> Rotation | GaussianProjection:
        return family(dim=dim, sketch_dim=size, seed=(seed + shift) % (1 << 64), fraction_bits=_FRACTION_BITS)

    for shift in range(_SEEDS_TRIED - 1):
        with contextlib.suppress(InvalidInputError):
            return build(shift)
    return build(_SEEDS_TRIED - 1)  # if this raises too, the seed is not the cause


def scaled_matrix(projection: Rotation | GaussianProjection) -> Floats:
    """Return the map's matrix times its scale: float64, (k, dim)."""
    return np.asarray(projection.block(np.arange(projection.dim, dtype=np.uint64)) * projection.scale)
