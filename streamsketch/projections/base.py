"""Projection: the public agreement between parties."""

import dataclasses
import functools
import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.documents import Json, TableKey
from streamsketch.core.jit import read_only
from streamsketch.core.limits import json_fields
from streamsketch.core.numbers import Exact, Ints, Numbers, check_int, check_resolution, exact_fraction
from streamsketch.data.canonical import HASHED_DIM, check_indices
from streamsketch.data.keys import indices_of
from streamsketch.errors import IncompatibleProjectionsError
from streamsketch.kernels.slots import Codes, add_masses, looked_up
from streamsketch.kernels.tiles import batch_bounds
from streamsketch.projections.variance import MapVariance

if TYPE_CHECKING:
    from streamsketch.sketching.sketch import Sketch
    from streamsketch.sketching.table import SketchTable
from streamsketch.core.limits import current_limits
from streamsketch.errors import InvalidInputError

MatrixNumber: TypeAlias = Literal["sensitivities", "spectral bound", "row maxima", "largest entry"]
"""A number that follows from A: Δ1(A) and Δ2(A)², `spectral_bound`, `row_maxima` or `max_entry`."""

Entries: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int8]]
"""Cells and what is added to them, (n, s) each; see `Projection.sparse_entries`."""

MAX_SKETCH_DIM = 1 << 24
MAX_MASS = (1 << 63) - 1
MAX_INDEPENDENCE = 256
_MAX_SEED = (1 << 64) - 1
_LONG_DIM = 1 << 20
_BLOCK_CELLS = 1 << 20  # of columns rebuilt at a time
_EXACT_FLOAT = 1 << 53
_SAFE_SUM = 2.0**62


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Projection(ABC):
    """A public random linear map ``S = scale · A`` with an integer matrix A of shape (sketch_dim, dim).

    Equal fields give the same matrix on every machine and in every version, so parties that agree on a Projection can
    compare what they publish. Every map is normalised, E‖Sx‖² = ‖x‖² (Stausholm 2021, Definition 4), so in data units
    ``Sx ≈ scale · resolution · (A x̃)`` with x̃ = trunc(x / resolution).

    Parameters
    ----------
    dim
        Number of possible indices, 1 to 2^60. Keys are hashed if it is 2^60, the default of `SJLT`, `CountSketch` and
        `Rademacher`.
    sketch_dim
        Number of cells of a sketch (k), 1 to 2^24.
    seed
        Public seed, 0 to 2^64 - 1. Choose it independently of the data.
    resolution
        Grid step (g) of the values, in their units: an int, a Fraction, a Decimal, a string such as ``"1/100"``, or a
        float, which is read as the decimal it prints as.

    Examples
    --------
    >>> from streamsketch import CountSketch
    >>> from streamsketch.projections import Projection
    >>> projection = CountSketch(sketch_dim=256, seed=7)
    >>> isinstance(projection, Projection), Projection.from_json(projection.to_json()) == projection
    (True, True)
    """

    dim: int
    sketch_dim: int
    seed: int
    resolution: Exact = Fraction(1)

    def __post_init__(self) -> None:
        self._set_int("dim", 1, HASHED_DIM)
        self._set_int("sketch_dim", 1, MAX_SKETCH_DIM)
        self._set_int("seed", 0, _MAX_SEED)
        resolution = exact_fraction(self.resolution, "resolution")
        check_resolution(resolution)
        object.__setattr__(self, "resolution", resolution)

    def _set_int(self, name: str, low: int, high: int) -> None:
        object.__setattr__(self, name, check_int(getattr(self, name), name, low, high))

    # --- what the map is -----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def kind(self) -> str:
        """The map's name in JSON and on the wire."""

    @property
    @abstractmethod
    def scale_squared(self) -> Fraction:
        """The square of the public scale c, exactly."""

    @property
    @abstractmethod
    def l1_sensitivity(self) -> int:
        """Δ1(A), the largest ℓ1 norm of a column of A (Stausholm 2021, Definition 3), in grid steps."""

    @property
    @abstractmethod
    def l2_sensitivity_squared(self) -> int:
        """Δ2(A)², the largest squared ℓ2 norm of a column of A, in grid steps squared."""

    @property
    @abstractmethod
    def max_entry(self) -> int:
        """A bound on the absolute entries of A. No cell exceeds ``max_entry`` · Σ|q|."""

    @property
    def scale(self) -> float:
        """The public scale c that makes the map norm-preserving in expectation."""
        return math.sqrt(self.scale_squared)

    @functools.cached_property
    def cell_unit(self) -> float:
        """One grid step of a cell in data units, which is scale times resolution."""
        return self.scale * float(self.grid)

    @property
    def grid(self) -> Fraction:
        """The resolution as an exact `Fraction`."""
        kept = self.resolution
        return kept if isinstance(kept, Fraction) else Fraction(kept)

    @functools.cached_property
    def has_unit_grid(self) -> bool:
        """Whether the resolution is 1, so that integers are on the grid."""
        return self.resolution == 1

    @property
    @abstractmethod
    def variance(self) -> MapVariance:
        """Var‖Sz‖² and Var⟨Sx, Sy⟩ over the draw of S; Theory 4, V_S and W_S."""

    @property
    def spectral_bound(self) -> int | None:
        """A proven bound on ‖A‖₂², the largest ‖A x‖₂² for ‖x‖₂ ≤ 1; None if none better than dim·Δ2(A)² is known."""
        return None

    @abstractmethod
    def enumerated_entries(self, number: MatrixNumber, /) -> int:
        """Return how many entries of A are enumerated for a number, or work that takes as long; 0 if it is a formula.

        Files of strangers name projections: `Limits.max_entries` is compared with this before the number is computed,
        so it must be quick and count all work that grows with the fields.
        """

    @abstractmethod
    def kept_bytes(self, number: MatrixNumber, /) -> int:
        """Return how many bytes of memory a number takes that grow with A; 0 if it is a formula, or found by blocks.

        `Limits.max_matrix_bytes` is compared with this, as in `enumerated_entries`.
        """

    def row_maxima(self) -> Ints:
        """Return the largest absolute entry of each row of A, or a bound on it: int64, (sketch_dim,)."""
        return np.full(self.sketch_dim, self.max_entry, dtype=np.int64)

    @property
    def nonzeros(self) -> int:
        """How many cells one update touches, at most."""
        return self.sketch_dim

    @property
    def collisions(self) -> tuple[int, float]:
        """The number of cells of a coordinate, and the probability that another collides with it in a given one.

        (0, 0.0) for maps whose errors are taken as normal, as are those of dense ones.
        """
        return 0, 0.0

    @property
    def after_hadamard(self) -> tuple[int, MapVariance] | None:
        """For a map P·H·D, the number of coordinates of H·D x and the variance of P alone; else None."""
        return None

    def columns(self, indices: Any) -> Ints:
        """Return columns of A, rebuilt from the seed: int64, (sketch_dim, n).

        Meant for study and tests, as it takes O(n · sketch_dim) memory.

        Raises
        ------
        InvalidInputError
            If an index is outside [0, dim).
        """
        encoded = self.indices_of(indices)
        rows = np.zeros((encoded.size, self.sketch_dim), dtype=np.int64)
        self.add_to_rows(rows, np.arange(encoded.size), encoded, np.ones_like(encoded))
        return rows.T

    # --- adding to state -----------------------------------------------------------------------------------

    def add_to(self, state: Ints, indices: Ints, values: Ints) -> tuple[int, int]:
        """Add A x̃ of one batch to a sketch's cells; return Σ|q| and the largest |q| of its values.

        Parameters
        ----------
        state
            int64, (sketch_dim,), changed in place.
        indices, values
            int64, (n,), C-contiguous: indices in [0, dim) and values in grid steps.

        Raises
        ------
        InvalidInputError
            If an index is outside [0, dim); ``state`` is unchanged.

        Notes
        -----
        Cells are sums modulo 2^64.
        """
        return self.add_to_rows(state.reshape(1, -1), np.zeros_like(indices), indices, values)

    @abstractmethod
    def add_to_rows(self, table: Ints, slots: Ints, indices: Ints, values: Ints) -> tuple[int, int]:
        """Add each item's column to ``table[slots[i]]``, table (n_rows, sketch_dim); otherwise like `add_to`."""

    def add_to_keys(self, table: Ints, masses: Ints, rows: Ints, codes: Codes, indices: Ints, values: Ints) -> int:
        """Add each item's column to ``table[rows[codes[i]]]`` and |value| to ``masses`` there; return the largest.

        Parameters
        ----------
        table, indices, values
            As in `add_to_rows`.
        masses
            int64, (n_rows,), ≥ 0. They saturate at 2^63 - 1.
        rows
            The row of each key, int64, (n_keys,). Rows of keys that occur differ.
        codes
            The key of each item, as its place in ``rows``: int32 or int64, (n,), C-contiguous.

        Returns
        -------
        int
            The largest |value|.

        Raises
        ------
        InvalidInputError
            As in `add_to`; table and masses are unchanged.
        """
        slots = looked_up(rows, codes)
        _, largest = self.add_to_rows(table, slots, indices, values)
        add_masses(masses, slots, read_only(values))
        return largest

    def sparse_entries(self, indices: Ints) -> Entries | None:
        """Return where columns of A are not zero and what is there; None for a map whose columns have many entries.

        Parameters
        ----------
        indices
            int64, (n,), C-contiguous, in [0, dim).

        Returns
        -------
        tuple of ndarray, or None
            Cells in [0, sketch_dim), int32, and entries, int8, both of shape (n, `nonzeros`) and C-contiguous; the
            cells of one column differ.

        Raises
        ------
        InvalidInputError
            If an index is outside [0, dim).

        Examples
        --------
        >>> from streamsketch.projections import Identity
        >>> Identity(dim=4).sparse_entries(np.array([2]))
        (array([[2]], dtype=int32), array([[1]], dtype=int8))
        """
        del indices
        return None

    # --- whole matrices --------------------------------------------------------------------------------------

    @overload
    def transform(self, matrix: Any, *, exact: Literal[True]) -> Ints: ...
    @overload
    def transform(self, matrix: Any, *, exact: bool = ...) -> Numbers: ...
    def transform(self, matrix: Any, *, exact: bool = False) -> Numbers:
        """Project every row of a matrix.

        Parameters
        ----------
        matrix
            (n, dim): a NumPy array; a scipy.sparse matrix or array; an Arrow table, record batch or data frame with
            a column for each index; or an Arrow array of fixed-size lists.
        exact
            True: quantise to the grid and return the cells of a sketch updated with the row, in grid steps. False:
            return ``S x`` in floating point and in data units, without a grid; the last digits may differ between
            machines.

        Returns
        -------
        ndarray
            (n, sketch_dim), C-contiguous: int64 if exact, else float32 for a float32 matrix and float64 for others.
            It is as secret as the matrix.

        Raises
        ------
        InvalidInputError
            For another number of columns, nulls, NaN, infinities or entries that are not numbers.
        SketchOverflowError
            If the numbers of a row exceed the range of floats. Exact cells are sums modulo 2^64, like those of a
            sketch.

        Examples
        --------
        >>> from streamsketch import CountSketch
        >>> projection = CountSketch(dim=3, sketch_dim=2, seed=1)
        >>> projection.transform(np.eye(3, dtype=int), exact=True).T.tolist() == projection.columns([0, 1, 2]).tolist()
        True
        """
        from streamsketch.projections.transform import transform  # noqa: PLC0415 - loads Arrow and scipy

        return transform(self, matrix, exact=exact)

    def project_dense(self, matrix: NDArray[Any], out: NDArray[Any]) -> None:
        """Write A x of each row of (n, dim), C-contiguous, into zeroed ``out``, (n, sketch_dim), of the same dtype."""
        exact = out.dtype == np.int64
        bound = _largest_mass(matrix) * self.max_entry if exact else 0
        step = max(1, _BLOCK_CELLS // self.sketch_dim)
        for start in range(0, self.dim, step):
            part = matrix[:, start : start + step]
            block = self.columns(np.arange(start, start + part.shape[1])).T
            out += _exact_product(part, block, bound) if exact else part @ block.astype(out.dtype)

    def project_csr(self, matrix: Any, out: Numbers) -> None:
        """Write A x of each row of a CSR array (n, dim) into zeroed ``out``, (n, sketch_dim), of the same dtype."""
        used, places = np.unique(matrix.indices, return_inverse=True)  # an array of dim columns may not fit in memory
        narrow = (matrix.data, places.astype(np.int64), matrix.indptr)
        by_column = type(matrix)(narrow, shape=(matrix.shape[0], used.size)).tocsc()
        step = max(1, _BLOCK_CELLS // self.sketch_dim)
        for start in range(0, used.size, step):
            columns = self.columns(used[start : start + step].astype(np.int64))
            out += by_column[:, start : start + step] @ columns.T.astype(out.dtype)

    def check_bounds(self, indices: Ints, values: Ints) -> tuple[int, int]:
        """Return what `add_to` returns; raise `InvalidInputError` for an index outside [0, dim)."""
        last, largest, upper, lower = batch_bounds(read_only(indices), read_only(values), 0, indices.size)
        check_indices(last, self.dim)
        return (upper << 32) + lower, largest

    # --- making sketches -----------------------------------------------------------------------------------

    def sketch(self) -> "Sketch":
        """Return an empty `Sketch` of this projection."""
        empty: Sketch = _sketches().Sketch(self)
        return empty

    def table(self, keys: Iterable[TableKey] = ()) -> "SketchTable":
        """Return a `SketchTable` of this projection, with an empty sketch for each of ``keys``."""
        empty: SketchTable = _sketches().SketchTable(self, keys)
        return empty

    def indices_of(self, *columns: Any) -> Ints:
        """Return the index of each row of one or several key columns: int64, (n,).

        Integers are returned as they are; text, bytes, dates, times and tuples of columns are hashed to 60 bits, in the
        same way by every party with this seed.

        Raises
        ------
        InvalidInputError
            For nulls, floats, columns of different lengths, an index outside [0, dim), or keys that need hashing if
            ``dim`` is not 2^60.

        Examples
        --------
        >>> from streamsketch import SJLT
        >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=1)
        >>> projection.indices_of(["JFK-MIA", "JFK-BOS"], [5, 6])
        array([369749199678776834, 235296967002708192])
        """
        return indices_of(columns, self.dim, self.seed)

    # --- agreement -----------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the projection as canonical JSON: sorted keys, no spaces, the resolution as ``"n/d"``.

        Examples
        --------
        >>> from streamsketch import CountSketch
        >>> CountSketch(dim=100, sketch_dim=8, seed=1).to_json()
        '{"dim":100,"independence":8,"kind":"count-sketch","resolution":"1/1","seed":1,"sketch_dim":8}'
        """
        return self._json

    @functools.cached_property
    def _json(self) -> str:
        fields = {
            name: f"{value.numerator}/{value.denominator}" if isinstance(value, Fraction) else value
            for name, value in self.agreed_fields().items()
        }
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    def agreed_fields(self) -> Json:
        """Return the kind and every field that parties must agree on, as a dict by name."""
        _, fixed = KINDS[self.kind]
        names = (field.name for field in self._fields() if field.name not in fixed)
        return {"kind": self.kind} | {name: getattr(self, name) for name in names}

    @staticmethod
    def from_json(text: str | bytes) -> "Projection":
        """Return the projection that `to_json` wrote.

        Raises
        ------
        InvalidInputError
            If the text is not JSON, is longer than `Limits.max_json_bytes`, names an unknown kind, or lacks, repeats or
            adds a field.
        """
        from streamsketch.projections.from_fields import projection_from_fields  # noqa: PLC0415 - families know this class

        return projection_from_fields(json_fields(text, "a projection"))

    @functools.cached_property
    def fingerprint(self) -> str:
        """128 bits of BLAKE2b of `to_json` in hexadecimal, for comparing projections by eye."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=16).hexdigest()

    def check_same(self, other: "Projection") -> None:
        """Raise `IncompatibleProjectionsError`, listing the fields that differ, unless ``other`` is equal."""
        if self is other or self == other:
            return
        mine, theirs = self.agreed_fields(), other.agreed_fields()
        differing = [
            f"{name} ({mine.get(name, 'absent')} here, {theirs.get(name, 'absent')} there)"
            for name in sorted(mine.keys() | theirs.keys())
            if mine.get(name) != theirs.get(name)
        ]
        raise IncompatibleProjectionsError(
            f"the sketches were made with different projections: {', '.join(differing)}. "
            f"Sketch both streams with the same Projection: share its to_json() text, or on the command line one file, "
            f"--agreement FILE"
        )

    @classmethod
    @functools.cache
    def _fields(cls) -> tuple[dataclasses.Field[Any], ...]:
        return tuple(field for field in dataclasses.fields(cls) if field.init)

    def __repr__(self) -> str:
        fields = {field.name: getattr(self, field.name) for field in self._fields()}
        fields = {name: _argument(value) for name, value in fields.items()}
        if self.dim > _LONG_DIM and self.dim & (self.dim - 1) == 0:
            fields["dim"] = f"2**{self.dim.bit_length() - 1}"
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in fields.items())})"

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in self._fields()}  # no cached arrays

    def replace(self, **changes: Any) -> Self:
        """Return a projection with some fields changed (`dataclasses.replace`)."""
        return dataclasses.replace(self, **changes)


KINDS: dict[str, tuple[type[Projection], dict[str, Any]]] = {}
"""Each projection class imported so far by its name on the wire, with the fields that this name fixes."""


def register(projection: type[Projection], kind: str, **fixed: Any) -> None:
    """Make a projection known to `Projection.from_json` and to the wire format."""
    KINDS[kind] = projection, fixed


def _exact_product(values: Ints, block: Ints, largest: int) -> Ints:
    """Return ``values @ block``, where ``largest`` bounds Σ|terms| of every cell.

    Below 2^53 every partial sum is exact in floating point, in any order, and BLAS is about ten times as fast.
    """
    if largest < _EXACT_FLOAT:
        return (values.astype(np.float64) @ block.astype(np.float64)).astype(np.int64)
    return values @ block


def _largest_mass(matrix: Ints) -> int:
    """Return the largest Σ|q| of a row, exactly."""
    if not matrix.shape[0]:
        return 0
    rough = np.abs(matrix.astype(np.float64)).sum(axis=1)
    if rough.max() < _SAFE_SUM:
        return int(np.abs(matrix).sum(axis=1).max())
    heavy = matrix[rough >= _SAFE_SUM]  # int64 sums could wrap; Python's cannot
    masses: list[int] = [sum(map(abs, row)) for row in heavy.tolist()]
    return max(masses)


def _argument(value: Any) -> str:
    """Return a field as source code; a fraction n/d in quotes, since Python would round the division."""
    if isinstance(value, Fraction):
        return str(value) if value.denominator == 1 else repr(str(value))
    return repr(value)


def check_entries(projection: Projection, number: MatrixNumber, *, raw: bool = False) -> None:
    """Raise `InvalidInputError` if a number takes more of a matrix than the limits for untrusted bytes allow.

    Parameters
    ----------
    projection
        The projection that the bytes describe.
    number
        The number that is to be computed.
    raw
        Whether the bytes are a party's own: ``max_raw_entries`` then applies instead of ``max_entries``.
    """
    limits = current_limits()
    name, most = ("max_raw_entries", limits.max_raw_entries) if raw else ("max_entries", limits.max_entries)
    entries, kept = projection.enumerated_entries(number), projection.kept_bytes(number)
    what = f"the matrix of this {type(projection).__name__} with dim={projection.dim} and sketch_dim="
    if entries > most:
        raise InvalidInputError(
            f"{what}{projection.sketch_dim} takes an enumeration of {entries:,} entries, over the limit of {most:,}; "
            f"raise {name} by reading_limits if you trust the source"
        )
    if kept > limits.max_matrix_bytes:
        raise InvalidInputError(
            f"{what}{projection.sketch_dim} takes {kept:,} bytes of memory, over the limit of "
            f"{limits.max_matrix_bytes:,}; raise max_matrix_bytes by reading_limits if you trust the source"
        )


@functools.cache
def _sketches() -> ModuleType:
    from streamsketch.sketching import table  # noqa: PLC0415 - sketches know projections, not the reverse

    return table
