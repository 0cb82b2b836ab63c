"""Sparse maps: the Sparser Johnson-Lindenstrauss transform and CountSketch."""

import dataclasses
import functools
import math
from abc import abstractmethod
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamsketch.encoding import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.hashing import BitSlices, polynomials
from streamsketch.projections import kernels
from streamsketch.projections.base import Projection, Real, register

_MAX_INDEPENDENCE = 256


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class _BlockHashed(Projection):
    """Maps whose column holds one ±1 in each of s row blocks, at buckets and signs from polynomial hashing."""

    independence: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_int("independence", 4, _MAX_INDEPENDENCE)
        blocks = self._blocks
        if not 1 <= blocks <= self.sketch_dim or self.sketch_dim % blocks:
            raise InvalidInputError(
                f"sparsity must divide sketch_dim, got sparsity={blocks} and sketch_dim={self.sketch_dim}. "
                f"Try sketch_dim={blocks * self._bucket_power(round_up=True)}"
            )
        buckets = self.sketch_dim // blocks
        if buckets & (buckets - 1):
            smaller, larger = self._bucket_power(round_up=False), self._bucket_power(round_up=True)
            if "sparsity" not in {field.name for field in self._fields()}:
                raise InvalidInputError(
                    f"sketch_dim must be a power of two, got {self.sketch_dim}. Try {smaller} or {larger}"
                )
            raise InvalidInputError(
                f"sketch_dim / sparsity must be a power of two, got {self.sketch_dim} / {blocks} = {buckets}. "
                f"Try sketch_dim={blocks * smaller} or sketch_dim={blocks * larger}"
            )

    @property
    @abstractmethod
    def _blocks(self) -> int:
        """The number of row blocks, s."""

    def _bucket_power(self, *, round_up: bool) -> int:
        """Return the power of two next to sketch_dim / sparsity."""
        below = 1 << max(0, (self.sketch_dim // max(1, self._blocks)).bit_length() - 1)
        return 2 * below if round_up and below * self._blocks < self.sketch_dim else below

    @functools.cached_property
    def _slices(self) -> BitSlices:
        return BitSlices(rows=self._blocks, width=(self.sketch_dim // self._blocks).bit_length())

    @functools.cached_property
    def _coefficients(self) -> NDArray[np.uint64]:
        return polynomials(self.seed, self.kind, self._slices.words, self.independence)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in self._fields()}  # no cached arrays

    @property
    def scale_squared(self) -> Fraction:
        """c² = 1/s."""
        return Fraction(1, self._blocks)

    @property
    def l1_sensitivity(self) -> int:
        """Δ1(A) = s: exactly s entries ±1 in each column."""
        return self._blocks

    @property
    def l2_sensitivity_squared(self) -> int:
        """Δ2(A)² = s: the s entries lie in distinct rows."""
        return self._blocks

    @property
    def max_entry(self) -> int:
        """Entries are -1, 0 and 1."""
        return 1

    def squared_norm_variance(self, squared_norm: Real, fourth_power_sum: float = 0.0) -> Real:
        """V_S = (2/k)(‖z‖₂⁴ - ‖z‖₄⁴) for independence ≥ 4 (THEORY.md 4; Stausholm 2021, Lemma 10)."""
        return 2 / self.sketch_dim * (squared_norm**2 - fourth_power_sum)

    def inner_product_variance(
        self,
        squared_norm_x: float,
        squared_norm_y: float,
        inner_product: float,
        product_square_sum: float = 0.0,
    ) -> float:
        """W_S = (1/k)(‖x‖²‖y‖² + ⟨x,y⟩² - 2Σx²y²) for independence ≥ 4 (THEORY.md 4)."""
        return (squared_norm_x * squared_norm_y + inner_product**2 - 2 * product_square_sum) / self.sketch_dim

    def columns(self, indices: Any) -> NDArray[np.int64]:
        """Return columns of A, rebuilt from the seed: int64, (sketch_dim, n); see `Projection.columns`."""
        encoded = self.indices_of(indices)
        rows = np.zeros((encoded.size, self.sketch_dim), dtype=np.int64)
        slots = np.arange(encoded.size)
        self.add_to_rows(rows, slots, encoded, np.ones_like(encoded), 0)
        return rows.T

    def add_to(self, state: Ints, indices: Ints, values: Ints, mass: int) -> int:
        """Add A x̃ of one batch to a sketch's cells in O(s) an item; see `Projection.add_to`."""
        if indices.size * self._blocks < 8 * self.sketch_dim:  # a scratch of 2k cells, and its kernel, would not pay
            slots = np.zeros(indices.size, dtype=np.int64)
            return self.add_to_rows(state.reshape(1, -1), slots, indices, values, mass)
        slices = self._slices
        scratch, largest, upper, lower = kernels.sjlt_scratch(
            indices.view(np.uint64), values, self._coefficients, slices.rows, slices.width, slices.rows_per_word
        )
        mass = self.check_batch(int(largest), (int(upper) << 32) + int(lower), mass)
        kernels.fold_scratch(scratch, state)
        return mass

    def add_to_rows(self, table: Ints, slots: Ints, indices: Ints, values: Ints, mass: int) -> int:
        """Add each item's column to its row of a table in O(s); see `Projection.add_to_rows`."""
        keys = indices.view(np.uint64)
        largest, upper, lower = kernels.batch_bounds(keys, values)
        mass = self.check_batch(int(largest), (int(upper) << 32) + int(lower), mass)
        slices = self._slices
        kernels.sjlt_scatter(
            table, slots, keys, values, self._coefficients, slices.rows, slices.width, slices.rows_per_word
        )
        return mass


@register
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class SJLT(_BlockHashed):
    """The Sparser Johnson-Lindenstrauss transform, block construction (Kane and Nelson 2014, Fig. 1c).

    Column j holds, in each of ``sparsity`` blocks of ``sketch_dim / sparsity`` rows, one entry ±1 at a hashed row;
    the scale is 1/√sparsity (Stausholm 2021, Section 6.1). An update costs O(sparsity), whatever dim and
    sketch_dim are. Sparsity buys lighter tails and costs noise; it does not change the variance of the map.

    Parameters
    ----------
    dim, sketch_dim, seed, resolution
        As in `Projection`.
    sparsity
        Nonzeros in each column (s). It divides ``sketch_dim`` and leaves a power of two.
    independence
        The hash functions' independence (t), 4 to 256. The variances need 4; tails β want O(log 1/β).

    Raises
    ------
    InvalidInputError
        For a field out of range, or a sketch_dim / sparsity that is no power of two.

    Examples
    --------
    >>> projection = SJLT(dim=1 << 40, sketch_dim=1024, sparsity=8, seed=2024)
    >>> projection.l1_sensitivity, projection.l2_sensitivity_squared
    (8, 8)
    >>> basket = projection.sketch()
    >>> basket.update([17, 18], [3, -1])
    """

    sparsity: int

    kind: ClassVar[str] = "sjlt-block"

    def __post_init__(self) -> None:
        self._set_int("sparsity", 1, 1 << 24)
        super().__post_init__()

    @property
    def _blocks(self) -> int:
        return self.sparsity

    @classmethod
    def for_accuracy(cls, alpha: float, beta: float, *, dim: int, seed: int, resolution: Any = 1) -> Self:
        """Return an SJLT that keeps a squared distance within a factor 1 ± alpha with probability 1 - beta.

        The orders are those of Kane and Nelson 2014 and Stausholm 2021, Theorem 3: k = Θ(α⁻² ln 1/β),
        s = Θ(α⁻¹ ln 1/β), t = Θ(ln 1/β). Those papers leave the constants open; used here are k from the
        χ² tail of a Gaussian map, ln(2/β) / (α²/4 - α³/6), s = ln(1/β)/α and t = 2 ln(1/β), each rounded
        up to what the block construction allows. Noise is not part of this: a private sketch is best smaller
        (THEORY.md 4.1).

        Parameters
        ----------
        alpha
            Relative error, in [1e-4, 1/2).
        beta
            Failure probability, in [1e-300, 1/2).
        dim, seed, resolution
            As in `Projection`.

        Raises
        ------
        InvalidInputError
            For alpha or beta out of range, or a sketch_dim above 2^24.

        Examples
        --------
        >>> SJLT.for_accuracy(0.1, 0.01, dim=1 << 40, seed=1)
        SJLT(dim=2**40, sketch_dim=2272, seed=1, resolution=1, independence=10, sparsity=71)
        """
        for name, value, least in (("alpha", alpha, 1e-4), ("beta", beta, 1e-300)):
            if not least <= value < 0.5:
                raise InvalidInputError(f"{name} must lie in [{least:g}, 0.5), got {value}")
        rows = math.ceil(math.log(2 / beta) / (alpha**2 / 4 - alpha**3 / 6))
        blocks = math.ceil(math.log(1 / beta) / alpha)
        buckets = 1 << ((rows // blocks).bit_length() - 1)
        sparsity = -(-rows // buckets)
        return cls(
            dim=dim,
            sketch_dim=sparsity * buckets,
            sparsity=sparsity,
            seed=seed,
            independence=max(4, math.ceil(2 * math.log(1 / beta))),
            resolution=resolution,
        )


@register
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class CountSketch(_BlockHashed):
    """CountSketch: an SJLT of sparsity 1, the cheapest update and the least noise for δ = 0.

    Each index meets one cell with a sign, so Δ1 = Δ2 = 1 and Laplace noise is the better choice for every
    δ < 1/e. Its tails are heavier than those of an SJLT with more nonzeros; its variance is the same.

    Parameters
    ----------
    dim, sketch_dim, seed, resolution, independence
        As in `SJLT`; ``sketch_dim`` is a power of two.

    Raises
    ------
    InvalidInputError
        For a field out of range, or a sketch_dim that is no power of two.

    Examples
    --------
    >>> CountSketch(dim=1000, sketch_dim=256, seed=1).l1_sensitivity
    1
    """

    kind: ClassVar[str] = "count-sketch"

    @property
    def _blocks(self) -> int:
        return 1
