"""Maps whose columns have one sign in each of several row blocks: the base of SJLT, CountSketch and Rademacher."""

import dataclasses
import functools
from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import read_only
from streamsketch.core.libraries import is_installed
from streamsketch.core.numbers import Ints, Numbers
from streamsketch.data.canonical import HASHED_DIM, check_indices
from streamsketch.errors import InvalidInputError
from streamsketch.kernels import slots as slot_kernels
from streamsketch.kernels.hashing import BitSlices, Words, field_elements, polynomial_at, polynomials
from streamsketch.kernels.pipeline import layout_of
from streamsketch.kernels.tiles import Adders, Bounds, adders, scratch_size
from streamsketch.projections.base import MAX_INDEPENDENCE, MAX_MASS, Entries, MatrixNumber, Projection
from streamsketch.projections.spectral import block_bound, expected_bound, memory_of, work_of
from streamsketch.projections.variance import MapVariance, independent_entries

_WORTH_A_SCRATCH = 3  # cells for each entry of a batch, at most: a scratch of twice as many is cleared and folded
_CELLS_WORTH_ORDER = 4  # cells of a table for each entry, up to which its rows are taken in order
_ITEMS_WORTH_ORDER = 10  # for each row of a table, at least: those of a row are padded to tiles of 16
_MOST_SPARSE = 2  # a column with more than one entry in so many cells is dense
_MOST_COUNTED = 1 << 26  # cells of columns rebuilt for the spectral bound
_MATRIX_PRODUCT = 8  # with more than one nonzero in so many entries, a dense matrix product is faster


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class BlockHashed(Projection):
    """Maps whose columns have one ±1 in each of s row blocks, with buckets and signs from polynomial hashing."""

    dim: int = HASHED_DIM
    independence: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_int("independence", 4, MAX_INDEPENDENCE)
        self._check_blocks()

    def _check_blocks(self) -> None:
        blocks = self.blocks
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
    def blocks(self) -> int:
        """The number of row blocks, s."""

    @property
    def nonzeros(self) -> int:
        """The number of row blocks. An update touches one cell of each."""
        return self.blocks

    @property
    def collisions(self) -> tuple[int, float]:
        """s, and s / k; see `Projection.collisions`."""
        return self.blocks, self.blocks / self.sketch_dim

    def _bucket_power(self, *, round_up: bool) -> int:
        """Return the nearest power of two below or above sketch_dim / sparsity."""
        below = 1 << max(0, (self.sketch_dim // max(1, self.blocks)).bit_length() - 1)
        return 2 * below if round_up and below * self.blocks < self.sketch_dim else below

    @functools.cached_property
    def _hash_arguments(self) -> tuple[Words, Words, int, int, int]:
        """Arguments of the kernels: coefficients, layout, rows, width and rows per word."""
        slices = BitSlices(rows=self.blocks, width=(self.sketch_dim // self.blocks).bit_length())
        coefficients = polynomials(self.seed, self.kind, slices.words, self.independence)
        return coefficients, layout_of(slices), slices.rows, slices.width, slices.rows_per_word

    @functools.cached_property
    def _adders(self) -> Adders:
        coefficients, layout, rows, _, rows_per_word = self._hash_arguments
        return adders(coefficients, layout, rows, rows_per_word)

    @functools.cached_property
    def _scratch_size(self) -> int:
        _, layout, rows, width, _ = self._hash_arguments
        return scratch_size(layout, rows, width)

    @functools.cached_property
    def _batches(self) -> tuple[Callable[..., Bounds], int, tuple[Any, ...]]:
        """The kernel that adds batches, the size of its scratch, and its arguments."""
        return self._adders.add_batch, self._scratch_size, (*self._hash_arguments, self.dim - 1)

    @functools.cached_property
    def _least_batch(self) -> float:
        """The number of items from which on a batch is worth a scratch; infinite if no kernel takes batches."""
        return self.sketch_dim // (_WORTH_A_SCRATCH * self.blocks)

    @functools.cached_property
    def _slots(self) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """The kernel that adds items to rows of a table one by one, and its arguments."""
        coefficients, _, *rest = self._hash_arguments
        return slot_kernels.add_to_slots, (coefficients, *rest)

    @property
    def scale_squared(self) -> Fraction:
        """c² = 1/s."""
        return Fraction(1, self.blocks)

    @property
    def l1_sensitivity(self) -> int:
        """Δ1(A) = s, because each column has exactly s entries ±1."""
        return self.blocks

    @property
    def l2_sensitivity_squared(self) -> int:
        """Δ2(A)² = s, because the s entries lie in distinct rows."""
        return self.blocks

    @property
    def max_entry(self) -> int:
        """1, because entries are -1, 0 and 1."""
        return 1

    @functools.cached_property
    def spectral_bound(self) -> int | None:
        """The least bound on ‖A‖₂² proven here, for this very seed, where dim · k is at most 2^26 (Theory 2.1).

        ‖A‖₁·‖A‖∞ = s · (the most columns that meet one row), which CountSketch attains; and for k up to 2048 a bound on
        the eigenvalues of AAᵀ, a third of that or less where there are many more columns than rows.
        """
        if self.dim * self.sketch_dim > _MOST_COUNTED or self.blocks == self.sketch_dim:
            return None
        return block_bound(self.replace(resolution=Fraction(1)), self.blocks)  # the grid does not change A

    @property
    def expected_spectral_bound(self) -> int | None:
        """About what `spectral_bound` is for any seed, for plans; None where it is not found by powers of AAᵀ."""
        return expected_bound(self, self.blocks) if self.dim * self.sketch_dim <= _MOST_COUNTED else None

    def enumerated_entries(self, number: MatrixNumber, /) -> int:
        """Return the work for `spectral_bound`, in entries of a random matrix that take as long; else 0."""
        return work_of(self, self.blocks) if number == "spectral bound" else 0

    def kept_bytes(self, number: MatrixNumber, /) -> int:
        """Return the size of AAᵀ and of its squares for `spectral_bound`; else 0."""
        return memory_of(self, self.blocks) if number == "spectral bound" else 0

    @property
    def variance(self) -> MapVariance:
        """V_S = (2/k)(‖z‖₂⁴ - ‖z‖₄⁴) for independence ≥ 4 (Theory 4; Stausholm 2021, Lemma 10)."""
        return independent_entries(self.sketch_dim, kurtosis=1.0)  # that of iid signs, whatever the sparsity

    def add_to(self, state: Ints, indices: Ints, values: Ints) -> tuple[int, int]:
        """Add A x̃ of one batch to a sketch's cells in O(s) an item; see `Projection.add_to`."""
        if indices.size < self._least_batch:
            return self._add_to_slots(state.reshape(1, -1), np.zeros_like(indices), indices, values)
        add_batch, size, arguments = self._batches
        scratch = np.empty(size, dtype=np.int64)
        last, largest, upper, lower = add_batch(read_only(indices), read_only(values), *arguments, scratch, state)
        check_indices(last, self.dim)
        return (upper << 32) + lower, largest

    def add_to_rows(self, table: Ints, slots: Ints, indices: Ints, values: Ints) -> tuple[int, int]:
        """Add each item's column to its row of a table in O(s); see `Projection.add_to_rows`."""
        if len(table) == 1:
            return self.add_to(table[0], indices, values)
        if not self._worth_order(len(table), indices.size):
            return self._add_to_slots(table, slots, indices, values)
        bounds = self.check_bounds(indices, values)
        self._add_in_order(table, np.arange(len(table)), slots, indices, values)
        return bounds

    def add_to_keys(
        self, table: Ints, masses: Ints, rows: Ints, codes: slot_kernels.Codes, indices: Ints, values: Ints
    ) -> int:
        """Add each item's column to its key's row of a table in O(s); see `Projection.add_to_keys`."""
        if len(rows) == 1 and indices.size:
            total, largest = self.add_to(table[rows[0]], indices, values)
            masses[rows[0]] += min(total, MAX_MASS - int(masses[rows[0]]))
            return largest
        total, largest = self.check_bounds(indices, values)
        if not self._worth_order(len(rows), indices.size) or total > MAX_MASS - int(masses.max(initial=0)):
            slots = slot_kernels.looked_up(rows, codes)
            self._add_to_slots(table, slots, indices, values)
            slot_kernels.add_masses(masses, slots, read_only(values))
            return largest
        np.add.at(masses, rows, self._add_in_order(table, rows, codes, indices, values))
        return largest

    def _worth_order(self, rows: int, items: int) -> bool:
        """Return whether the rows of a table are best taken in order."""
        least = max(rows * self.sketch_dim, self._least_batch)  # infinite where no kernel takes items in order
        return items >= _ITEMS_WORTH_ORDER * rows and items * self.blocks * _CELLS_WORTH_ORDER >= least

    def _add_in_order(self, table: Ints, rows: Ints, codes: NDArray[Any], indices: Ints, values: Ints) -> Ints:
        columns = read_only(rows), read_only(codes), read_only(indices), read_only(values)
        more = (*self._hash_arguments, np.empty(self._scratch_size, dtype=np.int64))
        return slot_kernels.add_in_order(table, *columns, self._adders.add_runs, *more)

    def sparse_entries(self, indices: Ints) -> Entries | None:
        """Return the s cells of each column and their signs, if they are few of k; see `Projection.sparse_entries`."""
        if self.blocks * _MOST_SPARSE > self.sketch_dim:
            return None
        if not is_installed("numba"):  # as where releases are only read
            return self._plain_entries(indices)
        self.check_bounds(indices, indices)
        cells, signs = np.empty((indices.size, self.blocks), np.int32), np.empty((indices.size, self.blocks), np.int8)
        coefficients, _, rows, width, rows_per_word = self._hash_arguments
        keys = read_only(indices).view(np.uint64)
        slot_kernels.block_entries(keys, coefficients, rows, width, rows_per_word, cells, signs)
        return cells, signs

    def _plain_entries(self, indices: Ints) -> Entries:
        """Return what `sparse_entries` does, in Python's integers: some items a millisecond."""
        if indices.size:
            check_indices(int(indices.view(np.uint64).max()), self.dim)
        slices = BitSlices(rows=self.blocks, width=(self.sketch_dim // self.blocks).bit_length())
        elements = field_elements(self.seed, self.kind, slices.words * self.independence)
        polynomials = [elements[i : i + self.independence] for i in range(0, len(elements), self.independence)]
        cells, signs = np.empty((indices.size, self.blocks), np.int32), np.empty((indices.size, self.blocks), np.int8)
        buckets = 1 << (slices.width - 1)
        for place, index in enumerate(indices.tolist()):
            words = [polynomial_at(index, polynomial) for polynomial in polynomials]
            for row in range(self.blocks):
                word, field = divmod(row, slices.rows_per_word)
                bits = words[word] >> field * slices.width
                cells[place, row] = row * buckets + bits % buckets
                signs[place, row] = -1 if bits & buckets else 1
        return cells, signs

    def _add_to_slots(self, table: Ints, slots: Ints, indices: Ints, values: Ints) -> tuple[int, int]:
        slots, indices, values = read_only(slots), read_only(indices), read_only(values)
        bounds = self.check_bounds(indices, values)
        add_to_slots, arguments = self._slots
        add_to_slots(table, slots, indices.view(np.uint64), values, *arguments)
        return bounds

    def project_dense(self, matrix: Numbers, out: Numbers) -> None:
        """Write A x of each row in O(s) a cell; see `Projection.project_dense`."""
        if self.blocks * _MATRIX_PRODUCT > self.sketch_dim:
            super().project_dense(matrix, out)
            return
        from streamsketch.kernels import matrices  # noqa: PLC0415 - no update needs it

        coefficients, _, rows, width, rows_per_word = self._hash_arguments
        matrices.block_dense(read_only(matrix), coefficients, rows, width, rows_per_word, out)

    def project_csr(self, matrix: Any, out: Numbers) -> None:
        """Write A x of each row in O(s) a nonzero; see `Projection.project_csr`."""
        from streamsketch.kernels import matrices  # noqa: PLC0415 - as above

        starts, keys = matrix.indptr.astype(np.int64), matrix.indices.astype(np.uint64)
        coefficients, _, rows, width, rows_per_word = self._hash_arguments
        matrices.block_csr(starts, keys, matrix.data, coefficients, rows, width, rows_per_word, out)
