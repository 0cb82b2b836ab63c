"""Tiles of hashes: the words of the plain kernels, bit by bit, and batches of every length around a tile's."""

import numpy as np
import pytest
from numba.core.errors import TypingError

from streamsketch import SJLT
from streamsketch._jit import kernel
from streamsketch.hashing import MAX_KEY, PRIME, Words, horner_narrow, horner_wide, polynomials
from streamsketch.projections.hash_tiles import TILE, hash_tile_narrow, hash_tile_wide


@kernel
def tile_narrow(keys: Words, place: int, coefficients: Words, out: Words) -> None:
    hash_tile_narrow(keys, place, coefficients, out)


@kernel
def tile_wide(keys: Words, place: int, coefficients: Words, out: Words) -> None:
    hash_tile_wide(keys, place, coefficients, out)


def extreme(largest: int) -> Words:
    """Return random keys up to ``largest`` with the extreme ones among them, and five more in front."""
    keys = np.random.default_rng(1).integers(0, largest, TILE + 5, endpoint=True).astype(np.uint64)
    keys[5:9] = 0, 1, largest, largest - 1
    return keys


@pytest.mark.parametrize("independence", [1, 4, 8, 9, 256])
@pytest.mark.parametrize("coefficients", ["random", "largest", "zero"])
def test_a_tile_has_the_words_of_horner(independence: int, coefficients: str) -> None:
    row = polynomials(7, "tile", 1, independence)[0]
    if coefficients != "random":
        row[:] = PRIME - 1 if coefficients == "largest" else 0
    for largest, tile, plain in (((1 << 32) - 1, tile_narrow, horner_narrow), (MAX_KEY, tile_wide, horner_wide)):
        keys = extreme(largest)
        found, expected = np.empty(TILE, dtype=np.uint64), np.empty(TILE, dtype=np.uint64)
        tile(keys, 5, row, found)
        plain(keys[5:], row, expected)
        assert np.array_equal(found, expected)


def test_a_strided_array_is_refused() -> None:
    words = np.empty(2 * TILE, dtype=np.uint64)
    with pytest.raises(TypingError, match="C-contiguous"):
        tile_wide(words[::2], 0, words[:4], words)


@pytest.mark.parametrize("n", [1, TILE - 1, TILE, TILE + 1, 255, 256, 257, 320, 1000])
@pytest.mark.parametrize(("sparsity", "bits"), [(1, 60), (4, 32), (9, 60)])
def test_batches_of_every_length_are_sums_of_single_items(n: int, sparsity: int, bits: int) -> None:
    projection = SJLT(dim=1 << bits, sketch_dim=4 * sparsity, sparsity=sparsity, seed=3)  # small: n items use tiles
    rng = np.random.default_rng(n)
    indices, values = rng.integers(0, 1 << bits, n), rng.integers(-9, 10, n)
    indices[n // 2 :] >>= bits - 3  # blocks that are narrow beside wide ones
    batch, single = projection.sketch(), projection.sketch()
    batch.update(indices, values)
    table = np.zeros((1, projection.sketch_dim), dtype=np.int64)
    mass = projection.add_to_rows(table, np.zeros(n, dtype=np.int64), indices, values, 0)
    for index, value in zip(indices.tolist(), values.tolist(), strict=True):
        single.update(index, value)
    assert batch == single
    assert np.array_equal(batch.state, table[0])
    assert batch.mass == mass
