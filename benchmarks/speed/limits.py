"""The parts of an update: its additions alone, with their cells given, which no update can beat; and hashing alone."""

import numpy as np
from numpy.typing import NDArray

from streamsketch import SJLT
from streamsketch.core.jit import kernel
from streamsketch.core.numbers import Ints
from streamsketch.kernels.carryless import TILE, hash_tile
from streamsketch.kernels.hashing import BitSlices, Words, evaluate, polynomials

_MOST_CELLS = 1 << 16
_BLOCK = 1024  # items whose rows are added in turn, four at a time: their values stay in the L1 cache
_ABREAST = 4


def given_cells(projection: SJLT, indices: Ints) -> tuple[NDArray[np.uint16], int]:
    """Return the place in a signed scratch of each index's entries, uint16, (sparsity, n), and the scratch's size."""
    slices = BitSlices(rows=projection.sparsity, width=(projection.sketch_dim // projection.sparsity).bit_length())
    coefficients = polynomials(projection.seed, projection.kind, slices.words, projection.independence)
    size = slices.rows << slices.width
    if size > _MOST_CELLS:
        raise ValueError(f"a scratch of {size} cells is too large for places of 16 bits")
    cells, words = np.empty((slices.rows, indices.size), dtype=np.uint16), np.empty(indices.size, dtype=np.uint64)
    for row in range(slices.rows):
        word, place = divmod(row, slices.rows_per_word)
        if place == 0:
            evaluate(indices.view(np.uint64), coefficients[word], words)
        fields = words >> np.uint64(place * slices.width) & np.uint64((1 << slices.width) - 1)
        cells[row] = fields + np.uint64(row << slices.width)
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
    """Return the signed scratch, (size,), of a batch whose cells are known, by the fastest loop that was measured."""
    scratch = np.zeros(size, dtype=np.int64)
    _add(cells, values, scratch)
    return scratch


@kernel
def _add(cells: NDArray[np.uint16], values: Ints, scratch: Ints) -> None:
    for start in range(0, values.size, _BLOCK):
        count = min(_BLOCK, values.size - start)
        block = values[start : start + count]
        whole = cells.shape[0] - cells.shape[0] % _ABREAST
        for row in range(0, whole, _ABREAST):
            first, second = cells[row, start : start + count], cells[row + 1, start : start + count]
            third, fourth = cells[row + 2, start : start + count], cells[row + 3, start : start + count]
            for i in range(count):
                value = block[i]
                scratch[first[i]] += value
                scratch[second[i]] += value
                scratch[third[i]] += value
                scratch[fourth[i]] += value
        for row in range(whole, cells.shape[0]):
            for i in range(count):
                scratch[cells[row, start + i]] += block[i]
