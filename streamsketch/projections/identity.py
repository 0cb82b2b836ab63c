"""The identity map: the baseline of noise on raw data."""

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np

from streamsketch.core.jit import kernel, read_only
from streamsketch.core.numbers import Ints, Numbers
from streamsketch.errors import InvalidInputError
from streamsketch.projections.base import MAX_SKETCH_DIM, Entries, MatrixNumber, Projection, register
from streamsketch.projections.variance import MapVariance


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Identity(Projection):
    """No projection: one cell for each index.

    Its release is the raw-data baseline of Li and Li 2023, Theorem C.1: noise on every coordinate, and no projection
    error. It is the better choice if the domain is known and not much larger than a sketch (Theory 4.1).

    Parameters
    ----------
    dim
        1 to 2^24.
    resolution
        As in `Projection`.
    sketch_dim, seed
        Always ``dim`` and 0; may be omitted.

    Raises
    ------
    InvalidInputError
        For a field out of range.

    Examples
    --------
    >>> x = Identity(dim=4).sketch()
    >>> x.update([0, 2, 2], [5, 1, 1])
    >>> x.state()
    array([5, 0, 2, 0])
    """

    sketch_dim: int = 0
    seed: int = 0

    kind = "identity"
    scale_squared = Fraction(1)
    l1_sensitivity = 1
    l2_sensitivity_squared = 1
    max_entry = 1
    nonzeros = 1
    spectral_bound = 1
    variance = MapVariance(0.0, 0.0, 0.0)

    def enumerated_entries(self, _: MatrixNumber, /) -> int:
        """Return 0: all is known."""
        return 0

    def kept_bytes(self, _: MatrixNumber, /) -> int:
        """Return 0: nothing of A is kept."""
        return 0

    def __post_init__(self) -> None:
        self._set_int("dim", 1, MAX_SKETCH_DIM)
        if self.sketch_dim == 0:
            object.__setattr__(self, "sketch_dim", self.dim)
        super().__post_init__()
        if self.sketch_dim != self.dim or self.seed != 0:
            raise InvalidInputError(
                f"Identity has sketch_dim = dim and seed = 0, got sketch_dim={self.sketch_dim}, dim={self.dim} and "
                f"seed={self.seed}. Omit both"
            )

    def add_to_rows(self, table: Ints, slots: Ints, indices: Ints, values: Ints) -> tuple[int, int]:
        """Add each value to its row's cell; see `Projection.add_to_rows`."""
        slots, indices, values = read_only(slots), read_only(indices), read_only(values)
        bounds = self.check_bounds(indices, values)
        _add(table, slots, indices, values)
        return bounds

    def sparse_entries(self, indices: Ints) -> Entries:
        """Return each index as its cell, with a 1; see `Projection.sparse_entries`."""
        self.check_bounds(indices, indices)
        return indices.astype(np.int32).reshape(-1, 1), np.ones((indices.size, 1), dtype=np.int8)

    def project_dense(self, matrix: Numbers, out: Numbers) -> None:
        """Copy each row; see `Projection.project_dense`."""
        out[:] = matrix

    def project_csr(self, matrix: Any, out: Numbers) -> None:
        """Copy each row; see `Projection.project_csr`."""
        matrix.toarray(out=out)


@kernel
def _add(table: Ints, slots: Ints, indices: Ints, values: Ints) -> None:
    for i in range(indices.size):
        table[slots[i], indices[i]] += values[i]


register(Identity, "identity")
