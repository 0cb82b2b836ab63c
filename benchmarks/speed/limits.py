"""The parts of an update: its scatter alone, with hash words given, which no update can beat; and hashing alone."""

import numpy as np

from streamsketch import SJLT
from streamsketch._jit import kernel
from streamsketch.encoding import Ints
from streamsketch.hashing import BitSlices, Words, horner_wide, polynomials
from streamsketch.projections.hash_tiles import TILE, hash_tile_narrow, hash_tile_wide

_BLOCK = 256


def hash_words(projection: SJLT, indices: Ints) -> tuple[Words, BitSlices]:
    """Return the words, (words, n), whose bit fields place each index, and how rows share them."""
    slices = BitSlices(rows=projection.sparsity, width=(projection.sketch_dim // projection.sparsity).bit_length())
    coefficients = polynomials(projection.seed, projection.kind, slices.words, projection.independence)
    words = np.empty((slices.words, indices.size), dtype=np.uint64)
    for word in range(slices.words):
        horner_wide(indices.view(np.uint64), coefficients[word], words[word])
    return words, slices


@kernel
def hash_only(keys: Words, coefficients: Words, *, narrow: bool) -> Words:
    """Compute every word of every key in whole tiles, as an update does, and return those of the last tile."""
    words = np.empty(TILE, dtype=np.uint64)
    for start in range(0, keys.size - keys.size % TILE, TILE):
        for word in range(coefficients.shape[0]):
            if narrow:
                hash_tile_narrow(keys, start, coefficients[word], words)
            else:
                hash_tile_wide(keys, start, coefficients[word], words)
    return words


@kernel
def scatter_only(words: Words, values: Ints, rows: int, width: int) -> Ints:
    """Return the signed scratch, (rows, 2^width), of a batch whose words are known."""
    scratch = np.zeros((rows, 1 << width), dtype=np.int64)
    rows_per_word = -(-rows // words.shape[0])
    for start in range(0, values.size, _BLOCK):
        value_block = values[start : start + _BLOCK]
        for word in range(words.shape[0]):
            first_row = word * rows_per_word
            last_row = min(first_row + rows_per_word, rows)
            _scatter_block(words[word, start : start + _BLOCK], value_block, scratch[first_row:last_row], width)
    return scratch


@kernel
def _scatter_block(words: Words, values: Ints, scratch: Ints, width: int) -> None:
    field, step = np.uint64((1 << width) - 1), np.uint64(width)
    row = 0
    while row + 4 <= scratch.shape[0]:
        row_0, row_1, row_2, row_3 = scratch[row], scratch[row + 1], scratch[row + 2], scratch[row + 3]
        offset = np.uint64(row * width)
        for i in range(values.size):
            word, value = words[i] >> offset, values[i]
            row_0[word & field] += value
            word >>= step
            row_1[word & field] += value
            word >>= step
            row_2[word & field] += value
            word >>= step
            row_3[word & field] += value
        row += 4
    while row < scratch.shape[0]:
        cells, offset = scratch[row], np.uint64(row * width)
        for i in range(values.size):
            cells[(words[i] >> offset) & field] += values[i]
        row += 1
