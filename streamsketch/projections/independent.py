"""Maps with independent entries: very sparse signs, uniform and Gaussian numbers on a grid."""

import dataclasses
import functools
from abc import abstractmethod
from fractions import Fraction
from itertools import pairwise

import numpy as np

from streamsketch.core import WORD_BITS, Ints, Words, evaluate, kernel, polynomials
from streamsketch.projections.base import MAX_SKETCH_DIM, register
from streamsketch.projections.explicit import RandomNorms
from streamsketch.projections.kernels.lattice_gaussian import LatticeGaussian, gaussian_entries, lattice_gaussian
from streamsketch.projections.variance import MapVariance, independent_entries

MIN_FRACTION_BITS, MAX_FRACTION_BITS = 2, 12

_WORDS = 1 << WORD_BITS
_LOW_32, _32 = np.uint64((1 << 32) - 1), np.uint64(32)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class IndependentEntries(RandomNorms):
    """Maps whose entry (i, j) is a function of row i's own polynomial at j, a word uniform on [0, 2^64).

    So rows are independent, and within a row any ``independence`` columns are. The law of an entry is exact for that
    word, and so are its moments, which give the scale.
    """

    @abstractmethod
    def entries(self, words: Words) -> Ints:
        """Return the entries that hash words mean: int64, of the words' shape."""

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
        """V_S = (1/k)(2‖z‖₂⁴ + (κ-3)‖z‖₄⁴), κ the entries' kurtosis (THEORY.md 4)."""
        second, fourth = self.moments
        return independent_entries(self.sketch_dim, float(fourth / second**2))

    def block(self, keys: Words) -> Ints:
        """Return columns; see `ExplicitColumns.block`."""
        words = np.empty((self.sketch_dim, keys.size), dtype=np.uint64)
        _evaluate(keys, self._coefficients, words)
        return self.entries(words)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class VerySparse(IndependentEntries):
    """Very sparse random projections: entries ±1 with probability 1/(2s) each, else 0 (Li and Li 2023, eq. 8).

    At scale √(s/k). Its columns have random norms, so its sensitivities are found by enumeration; an `SJLT` of the same
    density has a fixed, smaller one, and less variance. Made for comparison, and for data already projected with it.
    Its error bars rest on a fourth moment estimated from the cells, and are too narrow for a vector of one or two
    nonzeros that meets few of them: of 95 % intervals for the squared norm of one nonzero, 92 % cover at
    sketch_dim / s = 8, 77 % at 4, 87 % at 2, 63 % at 1 and 39 % at 1/2, where most such vectors meet no cell and look
    empty. It rises and falls in between: from a ratio of 10 on at least 85 % cover, from 20 on 89 %. Keep to those.

    Parameters
    ----------
    dim, seed, resolution, independence
        As in `SJLT`.
    sketch_dim
        1 to 2^16.
    sparsity
        s, the inverse of the density: an int from 1. The probability used is the nearest multiple of 2^-63.

    Raises
    ------
    InvalidInputError
        For a field out of range; of the sensitivities, for dim · sketch_dim above 2^35.

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
        """How many of the 2^64 words mean +1; as many mean -1."""
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
    """Achlioptas' map: a third of the entries are ±1 (Kenthapadi et al. 2013 use it; `VerySparse` with s = 3).

    Parameters
    ----------
    dim, sketch_dim, seed, resolution, independence
        As in `VerySparse`.

    Raises
    ------
    InvalidInputError
        As `VerySparse`.

    Examples
    --------
    >>> projection = Achlioptas(dim=1000, sketch_dim=60, seed=1)
    >>> 20 < projection.l1_sensitivity <= 40
    True
    """

    sparsity: int = dataclasses.field(default=3, init=False)

    kind = "achlioptas"


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Uniform(IndependentEntries):
    """Entries uniform on [-1, 1], in steps of 2^-fraction_bits (Li and Li 2023, Appendix B).

    At scale √(3/k), but for the grid's exact second moment. Its sensitivities are found by enumeration.

    Parameters
    ----------
    dim, seed, resolution, independence
        As in `SJLT`.
    sketch_dim
        1 to 2^16.
    fraction_bits
        Of the entries' grid, 2 to 12.

    Raises
    ------
    InvalidInputError
        For a field out of range; of the sensitivities, for dim · sketch_dim above 2^35.

    Examples
    --------
    >>> Uniform(dim=1000, sketch_dim=64, seed=1).max_entry
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
        """Of -n … n, n = 2^fraction_bits, all equally likely to 2^-50: n(n+1)/3 and n(n+1)(3n²+3n-1)/15, nearly."""
        return _uniform_moments(self.max_entry)

    def entries(self, words: Words) -> Ints:
        """Return ⌊w · (2n + 1) / 2^64⌋ - n for each word w."""
        count = np.uint64(2 * self.max_entry + 1)  # below 2^14, so that no product passes 2^46
        scaled = ((words >> _32) * count + (((words & _LOW_32) * count) >> _32)) >> _32
        return scaled.astype(np.int64) - self.max_entry


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Gaussian(IndependentEntries):
    """Gaussian random projection, its entries discrete Gaussian in steps of 2^-fraction_bits.

    The map of Kenthapadi et al. 2013 and of Li and Li 2023's DP-RP. The discrete law has the moments of the continuous
    one, and its table is made by integer arithmetic, so that every machine has the same matrix. Sensitivities are
    found by enumeration, and grow with dim: Δ2 is some 1 + √(2 ln(dim) / k) in data units.

    Parameters
    ----------
    dim, seed, resolution
        As in `SJLT`.
    independence
        t, 4 to 4096. From ``dim`` on, all entries are independent, as DP-SignRP-RR needs them (THEORY.md 6.2).
    sketch_dim
        1 to 2^16.
    fraction_bits
        Of the entries' grid, 2 to 12.

    Raises
    ------
    InvalidInputError
        For a field out of range; of the sensitivities, for dim · sketch_dim above 2^35.

    Examples
    --------
    >>> projection = Gaussian(dim=1000, sketch_dim=64, seed=1)
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
    def _law(self) -> LatticeGaussian:
        return lattice_gaussian(self.fraction_bits)

    @property
    def max_entry(self) -> int:
        """The end of the table: some 9.2 standard deviations."""
        return self._law.largest

    @property
    def moments(self) -> tuple[Fraction, Fraction]:
        """4^fraction_bits and 3·16^fraction_bits, to 1e-15."""
        return self._law.second_moment, self._law.fourth_moment

    def entries(self, words: Words) -> Ints:
        """Return the discrete Gaussian by inversion."""
        out = np.empty(words.shape, dtype=np.int64)
        gaussian_entries(words.reshape(-1), self._law.thresholds, self._law.guide, self._law.reach, out.reshape(-1))
        return out


@functools.lru_cache(maxsize=16)
def _uniform_moments(largest: int) -> tuple[Fraction, Fraction]:
    """Return E n² and E n⁴ of `Uniform`'s entries, exactly: value n has the words from ⌈(n + largest) 2^64 / m⌉ on."""
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
register(Uniform, "uniform")
register(Gaussian, "gaussian")
