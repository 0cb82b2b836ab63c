"""Maps with dense columns, rebuilt from the seed one block at a time."""

import dataclasses
import functools
from abc import abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from streamsketch.core.jit import kernel, read_only
from streamsketch.core.numbers import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.hashing import Words
from streamsketch.projections.base import MAX_INDEPENDENCE, MatrixNumber, Projection

MAX_DENSE_SKETCH_DIM = 1 << 16
MAX_ENUMERATED = 1 << 35
"""Largest number of entries of A to enumerate for an exact sensitivity: minutes, not hours."""

_BLOCK_CELLS = 1 << 18
_SHOW_PROGRESS = 1 << 29


class ColumnNorms(NamedTuple):
    """The largest ℓ1 norm and the largest squared ℓ2 norm of a column of A."""

    l1: int
    l2_squared: int


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class ExplicitColumns(Projection):
    """Maps that compute whole columns, in O(sketch_dim) memory for any dim."""

    independence: int = 8

    max_independence: ClassVar[int] = MAX_INDEPENDENCE

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_int("independence", 4, self.max_independence)
        self._set_int("sketch_dim", 1, MAX_DENSE_SKETCH_DIM)

    @abstractmethod
    def block(self, keys: Words) -> Ints:
        """Return the columns of keys in [0, dim): int64, (sketch_dim, n), C-contiguous."""

    def add_to(self, state: Ints, indices: Ints, values: Ints) -> tuple[int, int]:
        """Add A x̃ of one batch to a sketch's cells in O(k) an item; see `Projection.add_to`."""
        indices, values = read_only(indices), read_only(values)
        keys = indices.view(np.uint64)
        bounds = self.check_bounds(indices, values)
        for part in self._parts(keys.size):
            _add_block(self.block(keys[part]), values[part], state)
        return bounds

    def add_to_rows(self, table: Ints, slots: Ints, indices: Ints, values: Ints) -> tuple[int, int]:
        """Add each item's column to its row of a table in O(k); see `Projection.add_to_rows`."""
        slots, indices, values = read_only(slots), read_only(indices), read_only(values)
        keys = indices.view(np.uint64)
        bounds = self.check_bounds(indices, values)
        for part in self._parts(keys.size):
            _add_block_to_rows(self.block(keys[part]), slots[part], values[part], table)
        return bounds

    def _parts(self, size: int) -> Iterator[slice]:
        step = max(1, _BLOCK_CELLS // self.sketch_dim)
        return (slice(start, start + step) for start in range(0, size, step))


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class RandomNorms(ExplicitColumns):
    """Maps with random column norms: sensitivities are those of the matrix in use, found by enumerating its columns.

    An expectation, or a bound that holds with high probability, would not support a privacy guarantee (Kenthapadi et
    al. 2013, Section 3; Theory 2). The enumeration takes O(dim · sketch_dim), once for each matrix in a process.
    """

    @property
    def l1_sensitivity(self) -> int:
        """Δ1(A) = max_j ‖A_j‖₁ of this matrix, exactly; the first call enumerates the columns."""
        return largest_norms(self).l1

    @property
    def l2_sensitivity_squared(self) -> int:
        """Δ2(A)² = max_j ‖A_j‖₂² of this matrix, exactly; the first call enumerates the columns."""
        return largest_norms(self).l2_squared

    def column_norms(self) -> ColumnNorms:
        """Enumerate the columns of A for the largest norms; `largest_norms` caches the result."""
        l1 = l2_squared = 0
        step = max(1, _BLOCK_CELLS // self.sketch_dim)
        for start in self.progress(range(0, self.dim, step), "columns"):
            keys = np.arange(start, min(start + step, self.dim), dtype=np.uint64)
            block_l1, block_l2_squared = _largest_norms(self.block(keys))
            l1, l2_squared = max(l1, int(block_l1)), max(l2_squared, int(block_l2_squared))
        return ColumnNorms(l1, l2_squared)

    def enumerated_entries(self, number: MatrixNumber, /) -> int:
        """Return dim · sketch_dim, but 0 for the largest entry, a formula, and for those of rows where that is 1."""
        formula = number == "largest entry" or (number == "row maxima" and self.max_entry == 1)
        return 0 if formula else self.dim * self.sketch_dim

    def kept_bytes(self, _: MatrixNumber, /) -> int:
        """Return 0: columns are rebuilt one block at a time."""
        return 0

    def row_maxima(self) -> Ints:
        """Enumerate the columns of A for each row's largest absolute entry, unless all are 1 at most."""
        if self.max_entry == 1:
            return super().row_maxima()
        largest = np.zeros(self.sketch_dim, dtype=np.int64)
        step = max(1, _BLOCK_CELLS // self.sketch_dim)
        for start in self.progress(range(0, self.dim, step), "largest entries"):
            keys = np.arange(start, min(start + step, self.dim), dtype=np.uint64)
            np.maximum(largest, np.abs(self.block(keys)).max(axis=1), out=largest)
        return largest

    def progress(self, steps: range, what: str) -> Any:
        """Return ``steps`` with a progress bar on standard error, if the matrix is large."""
        if self.dim * self.sketch_dim < _SHOW_PROGRESS:
            return steps
        from rich.console import Console  # noqa: PLC0415 - large matrices are rare, and it is slow to load
        from rich.progress import track  # noqa: PLC0415 - as above

        title = f"sensitivity of {type(self).__name__}, {what}"
        return track(steps, title, console=Console(stderr=True), transient=True)


def largest_norms(projection: RandomNorms) -> ColumnNorms:
    """Return the largest column norms of A, exactly.

    Raises
    ------
    InvalidInputError
        If dim · sketch_dim is above 2^35.
    """
    return _kept_norms(projection.replace(resolution=Fraction(1)))  # the grid does not change A


@functools.lru_cache(maxsize=256)
def _kept_norms(projection: RandomNorms) -> ColumnNorms:
    if projection.dim * projection.sketch_dim > MAX_ENUMERATED:
        raise InvalidInputError(
            f"the sensitivity of {type(projection).__name__} is found by enumerating its columns, and "
            f"dim={projection.dim} times sketch_dim={projection.sketch_dim} is more than {MAX_ENUMERATED} entries to "
            "enumerate. Use a map with a sensitivity in closed form (SJLT, OPORP, Rademacher, SRHT), or a smaller dim"
        )
    return projection.column_norms()


@kernel
def _add_block(block: Ints, values: Ints, state: Ints) -> None:
    for row in range(block.shape[0]):
        total = np.int64(0)
        for i in range(values.size):
            total += block[row, i] * values[i]
        state[row] += total


@kernel
def _add_block_to_rows(block: Ints, slots: Ints, values: Ints, table: Ints) -> None:
    for i in range(values.size):
        cells, value = table[slots[i]], values[i]
        for row in range(block.shape[0]):
            cells[row] += block[row, i] * value


@kernel
def _largest_norms(block: Ints) -> tuple[np.int64, np.int64]:
    """Return the largest ℓ1 and squared ℓ2 norm.

    Both stay below 2^62: k ≤ 2^16 entries are below 2^17, and a rotation's columns are shorter than √dim · 2^12 ≤ 2^27.
    """
    absolute = np.zeros(block.shape[1], dtype=np.int64)
    squares = np.zeros(block.shape[1], dtype=np.int64)
    for row in range(block.shape[0]):
        for i in range(block.shape[1]):
            entry = block[row, i]
            absolute[i] += abs(entry)
            squares[i] += entry * entry
    return absolute.max(), squares.max()
