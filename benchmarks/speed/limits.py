"""The parts of an update: its additions alone, with their cells given, which no update can beat; and hashing alone."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from streamsketch import SJLT
from streamsketch.core.jit import kernel
from streamsketch.core.numbers import Ints
from streamsketch.kernels.carryless import TILE, hash_tile
from streamsketch.kernels.hashing import BitSlices, Words, evaluate, polynomials
from streamsketch.kernels.tiles import prefetch

_AHEAD = 256  # items
_MOST_CELLS = 1 << 16


def given_cells(projection: SJLT, indices: Ints) -> tuple[NDArray[np.uint16], int]:
    """Return the place in a signed scratch of each index's entries, uint16, (n, sparsity), and the scratch's size."""
    slices = BitSlices(rows=projection.sparsity, width=(projection.sketch_dim // projection.sparsity).bit_length())
    coefficients = polynomials(projection.seed, projection.kind, slices.words, projection.independence)
    size = slices.rows << slices.width
    if size > _MOST_CELLS:
        raise ValueError(f"a scratch of {size} cells is too large for places of 16 bits")
    cells, words = np.empty((indices.size, slices.rows), dtype=np.uint16), np.empty(indices.size, dtype=np.uint64)
    for row in range(slices.rows):
        word, place = divmod(row, slices.rows_per_word)
        if place == 0:
            evaluate(indices.view(np.uint64), coefficients[word], words)
        fields = words >> np.uint64(place * slices.width) & np.uint64((1 << slices.width) - 1)
        cells[:, row] = fields + np.uint64(row << slices.width)
    return cells, size


@kernel
def hash_only(keys: Words, coefficients: Words) -> Words:
    """Compute every word of every key in whole tiles, as an update does, and return those of the last tile."""
    words = np.empty(TILE, dtype=np.uint64)
    for start in range(0, keys.size - keys.size % TILE, TILE):
        for word in range(coefficients.shape[0]):
            hash_tile(keys, start, coefficients[word], words, 0)
    return words


def additions_only(cells: NDArray[np.uint16], values: Ints, size: int) -> Ints:
    """Return the signed scratch, (size,), of a batch whose cells are known."""
    scratch = np.zeros(size, dtype=np.int64)
    quads, rest = divmod(cells.shape[1], _QUAD)
    {(2, 0): _eight, (1, 0): _four}.get((quads, rest), _any)(cells.ravel(), values, scratch)
    return scratch


_QUAD = 4


def _additions(rows: int) -> Callable[[NDArray[np.uint16], Ints, Ints], None]:
    """Return straight code for 4 or 8 rows, a loop for any other number."""

    def add(cells: NDArray[np.uint16], values: Ints, scratch: Ints) -> None:
        count = cells.size // max(1, values.size)
        for i in range(values.size):
            value, place = values[i], i * count
            if i % _QUAD == 0:
                prefetch(cells, (i + _AHEAD) * count)
                prefetch(values, i + _AHEAD)
            if rows:
                scratch[cells[place]] += value
                scratch[cells[place + 1]] += value
                scratch[cells[place + 2]] += value
                scratch[cells[place + 3]] += value
                if rows == 2 * _QUAD:
                    scratch[cells[place + 4]] += value
                    scratch[cells[place + 5]] += value
                    scratch[cells[place + 6]] += value
                    scratch[cells[place + 7]] += value
            else:
                for row in range(count):
                    scratch[cells[place + row]] += value

    return kernel(add)


_eight, _four, _any = (_additions(rows) for rows in (2 * _QUAD, _QUAD, 0))
