"""The exact sums of one key or of many: cells, and counts of units beside them, in one vector. **Secret**."""

from typing import Self

import numpy as np

from streamsketch.core.numbers import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.layout import COUNTS


class ExactSums:
    """Exact sums of n keys in one int64 vector, modulo 2^64: sums of parts are the sums of the whole. **Secret**.

    The cells of all keys come first, key by key, and the counts of all keys behind them. Sketches, partial sums, coders
    and files hand on this one value. Whether its counts are complete is in the bounds of the data (`Bounds.counted`).

    Parameters
    ----------
    keys
        The number of keys, n.
    dim
        The number of cells of a key, k.
    vector
        The numbers: int64, (n·(k + 2),), which is not copied. By default they are zeros.

    Attributes
    ----------
    cells
        The cells, int64 of shape (n, k): a view of the vector.
    counts
        The counts, int64 of shape (n, 2): a view. The number of units that contribute to a key, and the sum of their
        absolute values in grid steps.

    Raises
    ------
    InvalidInputError
        If the vector has another length or type.

    Examples
    --------
    >>> sums = ExactSums.of(np.array([[1, 2, 3], [4, 5, 6]]), np.array([[1, 6], [2, 15]]))
    >>> sums.vector.tolist()
    [1, 2, 3, 4, 5, 6, 1, 6, 2, 15]
    >>> sums.rows().tolist()
    [[1, 2, 3, 1, 6], [4, 5, 6, 2, 15]]
    >>> sums.add(sums.of_keys([1, 0]))
    >>> sums.counts.tolist()
    [[3, 21], [3, 21]]
    """

    __slots__ = ("cells", "counts", "vector")

    def __init__(self, keys: int, dim: int, vector: Ints | None = None) -> None:
        vector = np.zeros(keys * (dim + COUNTS), dtype=np.int64) if vector is None else vector
        if vector.dtype != np.int64 or vector.shape != (keys * (dim + COUNTS),):
            raise InvalidInputError(
                f"{_text(keys, dim)} are int64 of shape ({keys * (dim + COUNTS)},), got {vector.dtype} of shape "
                f"{vector.shape}: pass the vector of as many keys of the same map"
            )
        self.vector = vector
        self.cells: Ints = vector[: keys * dim].reshape(keys, dim)
        self.counts: Ints = vector[keys * dim :].reshape(keys, COUNTS)

    @classmethod
    def of(cls, cells: Ints, counts: Ints | None = None) -> Self:
        """Return sums with copies of cells, int64 of shape (n, k) or (k,), and of counts, (n, 2) or (2,), if any.

        Raises
        ------
        InvalidInputError
            For arrays of other types or shapes.
        """
        if not isinstance(cells, np.ndarray) or cells.dtype != np.int64 or cells.ndim not in (1, 2):
            raise InvalidInputError("cells must be a NumPy array of int64 of shape (k,), or (n, k) of n keys")
        shape = (*cells.shape[:-1], COUNTS)
        if counts is not None and (
            not isinstance(counts, np.ndarray) or counts.dtype != np.int64 or counts.shape != shape
        ):
            raise InvalidInputError(f"counts must be a NumPy array of int64 of shape {shape}")
        sums = cls(1 if cells.ndim == 1 else len(cells), cells.shape[-1])
        sums.cells[:] = cells
        if counts is not None:
            sums.counts[:] = counts
        return sums

    @classmethod
    def of_rows(cls, rows: Ints) -> Self:
        """Return sums with copies of `rows`: int64, (n, k + 2)."""
        return cls.of(rows[:, :-COUNTS], rows[:, -COUNTS:])

    @property
    def keys(self) -> int:
        """The number of keys."""
        return len(self.cells)

    @property
    def dim(self) -> int:
        """The number of cells of a key."""
        return int(self.cells.shape[1])

    def rows(self) -> Ints:
        """Return a copy with the numbers of each key together: int64, (n, k + 2)."""
        return np.concatenate([self.cells, self.counts], axis=1)

    def copy_of(self, place: int) -> Self:
        """Return a copy of the sums of one key."""
        return type(self)(1, self.dim, self.row(place))

    def row(self, place: int) -> Ints:
        """Return a copy of the numbers of one key, cells and then counts: int64, (k + 2,)."""
        return np.concatenate([self.cells[place], self.counts[place]])

    def copy(self, keys: int | None = None) -> Self:
        """Return a copy of these sums, or of the first ``keys``; with zeros for more keys than there are."""
        if keys is None or keys == self.keys:
            return type(self)(self.keys, self.dim, self.vector.copy())
        copied, kept = type(self)(keys, self.dim), min(keys, self.keys)
        copied.cells[:kept], copied.counts[:kept] = self.cells[:kept], self.counts[:kept]
        return copied

    def of_keys(self, places: object) -> Self:
        """Return copies of the sums of keys at these places, in this order; `IndexError` for places out of range."""
        places = np.asarray(places, dtype=np.int64)
        if places.size and not 0 <= places.min() <= places.max() < self.keys:
            raise IndexError(f"there are {self.keys} keys")
        taken = type(self)(places.size, self.dim)
        for source, out in ((self.cells, taken.cells), (self.counts, taken.counts)):
            source.take(places, axis=0, out=out, mode="clip")  # other modes make one more copy
        return taken

    def add(self, other: "ExactSums", places: Ints | None = None, *, sign: int = 1) -> None:
        """Add other sums, or subtract them with ``sign=-1``, modulo 2^64.

        Parameters
        ----------
        other
            Sums with as many cells of a key.
        places
            Where the first n keys of ``other`` are here, each once: int64, (n,). By default, both have the same keys.
        sign
            1, or -1 to subtract.

        Raises
        ------
        InvalidInputError
            If a key has another number of cells, or there is another number of keys.
        """
        if other.dim != self.dim or (other.keys != self.keys if places is None else other.keys < places.size):
            raise InvalidInputError(
                f"{_text(other.keys, other.dim)} cannot be added to "
                f"{_text(self.keys if places is None else places.size, self.dim)}: add sums of the same map, for as "
                "many keys"
            )
        if places is None:
            self.vector += sign * other.vector
        else:
            self.cells[places] += sign * other.cells[: places.size]
            self.counts[places] += sign * other.counts[: places.size]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactSums):
            return NotImplemented
        return self.dim == other.dim and np.array_equal(self.vector, other.vector)

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> tuple[int, int, Ints]:
        return self.keys, self.dim, self.vector

    def __setstate__(self, saved: tuple[int, int, Ints]) -> None:
        keys, dim, vector = saved
        type(self).__init__(self, keys, dim, vector.copy())  # what a pickle brings may be shared or read-only

    def __repr__(self) -> str:
        return f"<ExactSums, secret, of {_text(self.keys, self.dim)}>"


def _text(keys: int, dim: int) -> str:
    return f"the sums of {keys:,} {'key' if keys == 1 else 'keys'} with {dim:,} cells and {COUNTS} counts each"
