"""The Sparser Johnson-Lindenstrauss transform, CountSketch, and the map of dense random signs."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np

from streamsketch.core.jit import read_only
from streamsketch.core.numbers import Ints, Numbers, short
from streamsketch.errors import InvalidInputError
from streamsketch.kernels import slots as slot_kernels
from streamsketch.kernels.hashing import Words, polynomials
from streamsketch.projections.base import MAX_SKETCH_DIM, Entries, Projection, register
from streamsketch.projections.block_hashed import BlockHashed

Construction: TypeAlias = Literal["block", "graph"]

MAX_GRAPH_SPARSITY = 4096  # each row is compared with all rows drawn before


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class SJLT(BlockHashed):
    """The Sparser Johnson-Lindenstrauss transform (Kane and Nelson 2014, Fig. 1b and 1c).

    Each column has ``sparsity`` entries ±1 in distinct hashed rows; the scale is 1/√sparsity (Stausholm 2021,
    Section 6.1). The block construction has one entry in each of ``sparsity`` blocks of ``sketch_dim / sparsity`` rows;
    an update costs O(sparsity), and several entries share a hash word. The graph construction draws any rows; it allows
    every ``sketch_dim`` and takes one hash word for each entry. Both have the same variance and sensitivities. A larger
    sparsity gives lighter tails but needs more noise; it does not change the variance of the map.

    Parameters
    ----------
    dim, sketch_dim, seed, resolution
        As in `Projection`.
    sparsity
        Nonzeros in each column (s). For blocks it divides ``sketch_dim`` and leaves a power of two.
    independence
        The hash functions' independence (t), 4 to 256. The variances require 4; tail bounds at β require O(log 1/β).
    construction
        ``"block"`` or ``"graph"``.

    Raises
    ------
    InvalidInputError
        For a field out of range, or if sketch_dim / sparsity is not a power of two.

    Examples
    --------
    >>> projection = SJLT(dim=1 << 40, sketch_dim=1024, sparsity=8, seed=2024)
    >>> projection.l1_sensitivity, projection.l2_sensitivity_squared
    (8, 8)
    >>> basket = projection.sketch()
    >>> basket.update([17, 18], [3, -1])
    """

    sparsity: int
    construction: Construction = "block"

    def __post_init__(self) -> None:
        self._set_int("sparsity", 1, MAX_SKETCH_DIM)
        if self.construction not in get_args(Construction):
            raise InvalidInputError(f"construction must be 'block' or 'graph', got {short(self.construction)}")
        super().__post_init__()

    @property
    def kind(self) -> str:
        """``"sjlt-block"`` or ``"sjlt-graph"``."""
        return f"sjlt-{self.construction}"

    @property
    def blocks(self) -> int:
        """The sparsity s."""
        return self.sparsity

    def _check_blocks(self) -> None:
        if self.construction == "block":
            super()._check_blocks()
        elif not self.sparsity <= min(self.sketch_dim, MAX_GRAPH_SPARSITY):
            raise InvalidInputError(
                f"sparsity must be at most sketch_dim, and at most {MAX_GRAPH_SPARSITY} in the graph construction; got "
                f"sparsity={self.sparsity} and sketch_dim={self.sketch_dim}. Lower it, or use construction='block'"
            )

    @functools.cached_property
    def _graph_coefficients(self) -> Words:
        return polynomials(self.seed, self.kind, self.sparsity, self.independence)

    @functools.cached_property
    def _least_batch(self) -> float:
        return super()._least_batch if self.construction == "block" else math.inf

    @functools.cached_property
    def _slots(self) -> tuple[Callable[..., None], tuple[Any, ...]]:
        if self.construction == "block":
            return super()._slots
        return slot_kernels.graph_scatter, (self._graph_coefficients,)

    def sparse_entries(self, indices: Ints) -> Entries | None:
        """Return the s cells of each column and their signs; see `Projection.sparse_entries`."""
        if self.construction == "block":
            return super().sparse_entries(indices)
        self.check_bounds(indices, indices)
        cells, signs = (
            np.empty((indices.size, self.sparsity), np.int32),
            np.empty((indices.size, self.sparsity), np.int8),
        )
        keys = read_only(indices).view(np.uint64)
        slot_kernels.graph_entries(keys, self._graph_coefficients, self.sketch_dim, cells, signs)
        return cells, signs

    def project_dense(self, matrix: Numbers, out: Numbers) -> None:
        """Write A x of each row; see `Projection.project_dense`."""
        if self.construction == "block":
            super().project_dense(matrix, out)
        else:
            Projection.project_dense(self, matrix, out)

    def project_csr(self, matrix: object, out: Numbers) -> None:
        """Write A x of each row; see `Projection.project_csr`."""
        if self.construction == "block":
            super().project_csr(matrix, out)
        else:
            Projection.project_csr(self, matrix, out)

    @classmethod
    def for_accuracy(cls, alpha: float, beta: float, *, dim: int, seed: int, resolution: Any = 1) -> Self:
        """Return an SJLT that preserves a squared distance within a factor 1 ± alpha with probability 1 - beta.

        The orders are those of Kane and Nelson 2014 and Stausholm 2021, Theorem 3: k = Θ(α⁻² ln 1/β),
        s = Θ(α⁻¹ ln 1/β), t = Θ(ln 1/β). The papers leave the constants open. Here k follows from the χ² tail of a
        Gaussian map, ln(2/β) / (α²/4 - α³/6), with s = ln(1/β)/α and t = 2 ln(1/β), each rounded up to what the block
        construction allows. Noise is not considered: the best private sketch is smaller (Theory 4.1).

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
        SJLT(dim=2**40, sketch_dim=2272, seed=1, resolution=1, independence=10, sparsity=71, construction='block')
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


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class CountSketch(BlockHashed):
    """CountSketch: an SJLT of sparsity 1, with the cheapest updates and the least noise for δ = 0.

    Each index is added to one cell with a sign, so Δ1 = Δ2 = 1 and Laplace noise is the better choice for every
    δ < 1/e. The tails are heavier than those of an SJLT with more nonzeros; the variance is the same.

    Parameters
    ----------
    dim, seed, resolution
        As in `Projection`.
    sketch_dim
        The number of cells (k), a power of two.
    independence
        The hash functions' independence (t), 4 to 256.

    Raises
    ------
    InvalidInputError
        For a field out of range, or if sketch_dim is not a power of two.

    Examples
    --------
    >>> CountSketch(dim=1000, sketch_dim=256, seed=1).l1_sensitivity
    1
    """

    kind = "count-sketch"
    blocks = 1


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Rademacher(BlockHashed):
    """Independent random signs: every entry is ±1, at scale 1/√sketch_dim (Li and Li 2023, Appendix B).

    This is the dense map with the least sensitivity: Δ2 of the scaled map is 1 for every dim, as for an SJLT, and no
    other dense map with that Δ2 has lighter tails. An update costs O(sketch_dim).

    Parameters
    ----------
    dim, sketch_dim, seed, resolution
        As in `Projection`.
    independence
        The hash functions' independence (t), 4 to 256.

    Raises
    ------
    InvalidInputError
        For a field out of range.

    Examples
    --------
    >>> Rademacher(dim=1000, sketch_dim=100, seed=1).l2_sensitivity_squared
    100
    """

    kind = "rademacher"

    @property
    def blocks(self) -> int:
        """sketch_dim, as each block is one row."""
        return self.sketch_dim


register(SJLT, "sjlt-block", construction="block")
register(SJLT, "sjlt-graph", construction="graph")
register(CountSketch, "count-sketch")
register(Rademacher, "rademacher")
