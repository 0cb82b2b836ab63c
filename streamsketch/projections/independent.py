"""Maps with independent entries: very sparse signs, uniform and Gaussian numbers on a grid."""

import dataclasses
import functools
from abc import abstractmethod
from fractions import Fraction
from itertools import pairwise

import numpy as np

from streamsketch.core.jit import kernel, read_only
from streamsketch.core.numbers import Ints
from streamsketch.kernels.hashing import WORD_BITS, Words, evaluate, polynomials
from streamsketch.kernels.lattice import LatticeGaussian, gaussian_entries, lattice_gaussian
from streamsketch.projections.base import MAX_SKETCH_DIM, register
from streamsketch.projections.explicit import RandomNorms
from streamsketch.projections.variance import MapVariance, independent_entries

MIN_FRACTION_BITS, MAX_FRACTION_BITS = 2, 12

_WORDS = 1 << WORD_BITS
_LOW_32, _32 = np.uint64((1 << 32) - 1), np.uint64(32)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class IndependentEntries(RandomNorms):
    """Maps whose entry (i, j) is a function of row i's own polynomial at j, a word uniform on [0, 2^64).

    So rows are independent, and within a row any ``independence`` columns are. The distribution of an entry is exact
    for such a word, and so are its moments, which give the scale.
    """

    @abstractmethod
    def entries(self, words: Words) -> Ints:
        """Return the entries for hash words: int64, of the same shape."""

    @property
    @abstractmethod
    def moments(self) -> tuple[Fraction, Fraction]:
        """E w² and E w⁴ of an entry of A, exactly."""

    @functools.cached_property
    def _coefficients(self) -> Words:
        return polynomials(self.seed, self.kind, self.sketch_dim, self.independence)

    @property
    def scale_squared(self) -> Fraction:
        """c² = 1 / (k E w²)."""
        return 1 / (self.sketch_dim * self.moments[0])

    @property
    def variance(self) -> MapVariance:
        """V_S = (1/k)(2‖z‖₂⁴ + (κ-3)‖z‖₄⁴) with κ the kurtosis of the entries (Theory 4)."""
        second, fourth = self.moments
        return independent_entries(self.sketch_dim, float(fourth / second**2))

    def block(self, keys: Words) -> Ints:
        """Return columns; see `ExplicitColumns.block`."""
        words = np.empty((self.sketch_dim, keys.size), dtype=np.uint64)
        _evaluate(read_only(keys), self._coefficients, words)
        return self.entries(words)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class VerySparse(IndependentEntries):
    """Very sparse random projections: entries ±1 with probability 1/(2s) each, else 0 (Li and Li 2023, eq. 8).

    The scale is √(s/k). Columns have random norms, so sensitivities are found by enumeration; an `SJLT` of the same
    density has a fixed, smaller sensitivity and less variance. This map is meant for comparison, and for data already
    projected with it. Its standard errors rest on a fourth moment estimated from the cells, and are too small for a
    vector of one or two nonzeros that falls into few cells: 95 % intervals for the squared norm of one nonzero cover in
    89 % of cases at sketch_dim / s = 8, 76 % at 4, 86 % at 2, 63 % at 1 and 39 % at 1/2, where most such vectors touch
    no cell and look empty (1024 cells). The coverage is not monotonic: it is at least 86 % from a ratio of 10 on, and
    89 % from 20 on. Use such ratios.

    Parameters
    ----------
    dim, seed, resolution
        As in `Projection`.
    independence
        The hash functions' independence (t), 4 to 256.
    sketch_dim
        1 to 2^16.
    sparsity
        s, the inverse of the density: an int from 1. The probability used is the nearest multiple of 2^-63.

    Raises
    ------
    InvalidInputError
        For a field out of range. The sensitivities raise it if dim · sketch_dim is above 2^35.

    Examples
    --------
    >>> VerySparse(dim=1000, sketch_dim=64, sparsity=10, seed=1).l1_sensitivity  # a column has 6.4 on average
    14
    """

    sparsity: int

    kind = "very-sparse"
    max_entry = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_int("sparsity", 1, MAX_SKETCH_DIM)

    @property
    def _half(self) -> int:
        """How many of the 2^64 words give +1; as many give -1."""
        return (_WORDS + self.sparsity) // (2 * self.sparsity)

    @property
    def moments(self) -> tuple[Fraction, Fraction]:
        """E w² = E w⁴ = the density, 1/s to 2^-64."""
        density = Fraction(2 * self._half, _WORDS)
        return density, density

    def entries(self, words: Words) -> Ints:
        """Return +1 for the lowest words, -1 for the highest, else 0."""
        half = np.uint64(self._half)
        return (words < half).astype(np.int64) - (words >= np.uint64(_WORDS - self._half))


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Achlioptas(VerySparse):
    """Achlioptas' map, `VerySparse` with s = 3: a third of the entries are ±1 (used by Kenthapadi et al. 2013).

    Parameters
    ----------
    dim, sketch_dim, seed, resolution, independence
        As in `VerySparse`.

    Raises
    ------
    InvalidInputError
        For a field out of range. The sensitivities raise it if dim · sketch_dim is above 2^35.

    Examples
    --------
    >>> projection = Achlioptas(dim=1000, sketch_dim=60, seed=1)
    >>> 20 < projection.l1_sensitivity <= 40
    True
    """

    sparsity: int = dataclasses.field(default=3, init=False)

    kind = "achlioptas"


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class UniformProjection(IndependentEntries):
    """Entries uniform on [-1, 1], in multiples of 2^-fraction_bits (Li and Li 2023, Appendix B).

    The scale is √(3/k), corrected for the exact second moment on the grid. Sensitivities are found by enumeration.

    Parameters
    ----------
    dim, seed, resolution
        As in `Projection`.
    independence
        The hash functions' independence (t), 4 to 256.
    sketch_dim
        1 to 2^16.
    fraction_bits
        Fractional bits of the entries, 2 to 12.

    Raises
    ------
    InvalidInputError
        For a field out of range. The sensitivities raise it if dim · sketch_dim is above 2^35.

    Examples
    --------
    >>> UniformProjection(dim=1000, sketch_dim=64, seed=1).max_entry
    256
    """

    fraction_bits: int = 8

    kind = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_int("fraction_bits", MIN_FRACTION_BITS, MAX_FRACTION_BITS)

    @property
    def max_entry(self) -> int:
        """1.0 in grid steps."""
        return 1 << self.fraction_bits

    @property
    def moments(self) -> tuple[Fraction, Fraction]:
        """Nearly n(n+1)/3 and n(n+1)(3n²+3n-1)/15 with n = 2^fraction_bits: -n … n are equally likely to 2^-50."""
        return _uniform_moments(self.max_entry)

    def entries(self, words: Words) -> Ints:
        """Return ⌊w · (2n + 1) / 2^64⌋ - n for each word w."""
        count = np.uint64(2 * self.max_entry + 1)  # below 2^14, so products stay below 2^46
        scaled = ((words >> _32) * count + (((words & _LOW_32) * count) >> _32)) >> _32
        return scaled.astype(np.int64) - self.max_entry


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class GaussianProjection(IndependentEntries):
    """Gaussian random projection, with discrete Gaussian entries in multiples of 2^-fraction_bits.

    This is the map of Kenthapadi et al. 2013 and of DP-RP in Li and Li 2023. The discrete distribution has the moments
    of the continuous one, and its table is computed in integer arithmetic, so every machine has the same matrix.
    Sensitivities are found by enumeration, and grow with dim: Δ2 is about 1 + √(2 ln(dim) / k) in data units.

    Parameters
    ----------
    dim, seed, resolution
        As in `Projection`.
    independence
        The hash functions' independence (t), 4 to 4096. From ``dim`` on, all entries are independent, as DP-SignRP-RR
        requires (Theory 6.2).
    sketch_dim
        1 to 2^16.
    fraction_bits
        Fractional bits of the entries, 2 to 12.

    Raises
    ------
    InvalidInputError
        For a field out of range. The sensitivities raise it if dim · sketch_dim is above 2^35.

    Examples
    --------
    >>> projection = GaussianProjection(dim=1000, sketch_dim=64, seed=1)
    >>> round(projection.scale * projection.l2_sensitivity_squared**0.5, 2)
    1.35
    """

    fraction_bits: int = 8

    kind = "gaussian"
    max_independence = 1 << 12

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_int("fraction_bits", MIN_FRACTION_BITS, MAX_FRACTION_BITS)

    @property
    def _table(self) -> LatticeGaussian:
        return lattice_gaussian(self.fraction_bits)

    @property
    def max_entry(self) -> int:
        """The end of the table, about 9.2 standard deviations."""
        return self._table.largest

    @property
    def moments(self) -> tuple[Fraction, Fraction]:
        """4^fraction_bits and 3·16^fraction_bits, to 1e-15."""
        return self._table.second_moment, self._table.fourth_moment

    def entries(self, words: Words) -> Ints:
        """Return discrete Gaussians by inversion; see `IndependentEntries.entries`."""
        out = np.empty(words.shape, dtype=np.int64)
        table = self._table
        gaussian_entries(words.reshape(-1), table.thresholds, table.guide, table.last, out.reshape(-1))
        return out


@functools.lru_cache(maxsize=16)
def _uniform_moments(largest: int) -> tuple[Fraction, Fraction]:
    """Return E n² and E n⁴ of uniform entries, exactly: the words of n begin at ⌈(n + largest) 2^64 / m⌉."""
    values = 2 * largest + 1
    starts = [-(-place * _WORDS // values) for place in range(values + 1)]
    counts = [stop - start for start, stop in pairwise(starts)]
    second, fourth = (
        Fraction(sum(n**power * count for n, count in enumerate(counts, -largest)), _WORDS) for power in (2, 4)
    )
    return second, fourth


@kernel
def _evaluate(keys: Words, coefficients: Words, words: Words) -> None:
    """Write row i's polynomial at every key into ``words[i]``."""
    for row in range(coefficients.shape[0]):
        evaluate(keys, coefficients[row], words[row])


register(VerySparse, "very-sparse")
register(Achlioptas, "achlioptas")
register(UniformProjection, "uniform")
register(GaussianProjection, "gaussian")
