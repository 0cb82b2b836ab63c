"""Tiles that are hashed while others are added: the sums of single items, for every number of rows and of keys."""

from typing import Any

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from streamsketch import SJLT, CountSketch, InvalidInputError
from streamsketch.core.jit import kernel, read_only
from streamsketch.kernels import slots as kernels
from streamsketch.kernels.carryless import TILE, hash_tile
from streamsketch.kernels.hashing import BitSlices, Words
from streamsketch.kernels.pipeline import layout_of
from streamsketch.kernels.tiles import adders, scratch_size
from streamsketch.projections import Projection, Rademacher
from streamsketch.projections.base import MAX_MASS
from tests.oracles import naive_maps

BITS = 60


@kernel
def tile_of(keys: Words, coefficients: Words, out: Words) -> None:
    hash_tile(keys, 0, coefficients, out, 0)


def test_a_strided_array_is_refused() -> None:
    words = np.empty(2 * TILE, dtype=np.uint64)
    with pytest.raises(TypingError, match="C-contiguous"):
        tile_of(words[::2], words[:4], words)


def test_additions_stand_between_the_steps_of_the_polynomials() -> None:
    """In the machine code: LLVM moves what is computed to where it is used, behind all additions."""
    projection = SJLT(dim=1 << BITS, sketch_dim=8 << 7, sparsity=8, seed=1)
    add_batch = numba.njit(projection._adders.add_batch.__wrapped__)  # type: ignore[attr-defined]
    indices, state = np.arange(200), np.zeros(projection.sketch_dim, dtype=np.int64)
    scratch = np.zeros(projection._scratch_size, dtype=np.int64)
    add_batch(indices, indices, *projection._hash_arguments, 199, scratch, state)
    (code,) = add_batch.inspect_asm().values()
    products = ("clmul", "pmull")
    marks = "".join("h" if any(name in line for name in products) else "a" for line in code.splitlines())
    hashed = marks.strip("a")
    if not hashed:
        pytest.skip("this processor has no carry-less products")
    gaps = [len(gap) for gap in hashed.split("h") if len(gap) > TILE]
    # of the steps but the last; on some processors LLVM brings two of them together
    assert len(gaps) >= projection.independence // 2


PROJECTIONS: list[Projection] = [
    *(SJLT(dim=1 << BITS, sketch_dim=4 * s, sparsity=s, seed=s) for s in (1, 2, 3, 4, 5, 7, 8, 9, 16, 23, 64)),
    *(SJLT(dim=1 << BITS, sketch_dim=4 * s, sparsity=s, seed=s, independence=t) for s, t in ((8, 4), (4, 9), (3, 33))),
    SJLT(dim=1 << BITS, sketch_dim=8 << 7, sparsity=8, seed=1),  # one word of eight rows of eight bits
    SJLT(dim=1 << BITS, sketch_dim=4 << 13, sparsity=4, seed=2),  # four rows of 2^14 cells: all that 16 bits hold
    SJLT(dim=1 << BITS, sketch_dim=4 << 14, sparsity=4, seed=3),  # more
    CountSketch(dim=1 << BITS, sketch_dim=1 << 15, seed=4),
    CountSketch(dim=1 << BITS, sketch_dim=1 << 16, seed=5),  # more
    Rademacher(dim=1 << BITS, sketch_dim=130, seed=6),
]


def short(projection: Projection) -> str:
    independence = projection.agreed_fields()["independence"]
    return f"{projection.kind}-{projection.sketch_dim}-{projection.l1_sensitivity}-{independence}"


@pytest.mark.parametrize("projection", PROJECTIONS, ids=short)
def test_batches_of_every_length_are_sums_of_single_items(projection: Projection) -> None:
    for n in (1, TILE - 1, TILE, TILE + 1, 257, 600):
        rng = np.random.default_rng(n)
        indices, values = rng.integers(0, 1 << BITS, n), rng.integers(-9, 10, n)
        indices[:: TILE - 1] >>= 30
        indices, values = read_only(indices), read_only(values)  # for which updates have compiled the same kernels
        coefficients, layout, rows, width, per_word = projection._hash_arguments  # type: ignore[attr-defined]
        state = np.zeros(projection.sketch_dim, dtype=np.int64)
        keys, last = indices.view(np.uint64), (1 << BITS) - 1
        scratch = np.full(scratch_size(layout, rows, width), -1)
        adding = adders(coefficients, layout, rows, per_word)
        bounds = adding.add_batch(indices, values, coefficients, layout, rows, width, per_word, last, scratch, state)
        assert list(map(int, bounds)) == [indices.max(), np.abs(values).max(), 0, np.abs(values).sum()]
        single = np.zeros((1, projection.sketch_dim), dtype=np.int64)
        slots = np.zeros(n, dtype=np.int64)
        kernels.add_to_slots(single, read_only(slots), keys, values, coefficients, rows, width, per_word)
        assert np.array_equal(state, single[0]), n
    ordered = np.zeros((3, projection.sketch_dim), dtype=np.int64)
    slots[1::2] = 2
    arguments = adding.add_runs, coefficients, layout, rows, width, per_word, scratch
    masses = kernels.add_in_order(ordered, read_only(np.arange(3)), read_only(slots), indices, values, *arguments)
    assert masses.tolist() == [np.abs(values)[slots == slot].sum() for slot in range(3)]
    assert np.array_equal(ordered.sum(axis=0), state)
    assert not ordered[1].any()
    for i in {0, n // 2, n - 1}:
        column = projection.columns([int(indices[i])])[:, 0]
        assert column.tolist() == naive_maps.column(projection.to_json(), int(indices[i]))


@pytest.mark.parametrize("items", [1 << 16, (1 << 16) + 5])
def test_tables_are_put_into_order_a_chunk_at_a_time(items: int) -> None:
    projection = SJLT(dim=1 << BITS, sketch_dim=32, sparsity=4, seed=3)
    rng = np.random.default_rng(1)
    indices, values, slots = rng.integers(0, 50, items), rng.integers(-9, 10, items), rng.integers(0, 7, items)
    table = np.zeros((7, 32), dtype=np.int64)
    projection.add_to_rows(table, slots, indices, values)
    weights = np.zeros((7, 50), dtype=np.int64)
    np.add.at(weights, (slots, indices), values)
    assert np.array_equal(table, weights @ projection.columns(range(50)).T)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("keys", [1, 2, 256, 257, 600])
def test_keys_of_a_table_are_added_with_their_masses(keys: int, kind: type[np.signedinteger[Any]]) -> None:
    projection = SJLT(dim=1 << BITS, sketch_dim=32, sparsity=4, seed=3)
    rng, items = np.random.default_rng(keys), 24_000
    indices, values, codes = rng.integers(0, 50, items), rng.integers(-9, 10, items), rng.integers(0, keys, items)
    codes[codes == keys // 2] = 0  # a key without items, unless there is one key
    rows, weights = rng.permutation(700)[:keys], np.zeros((700, 50), dtype=np.int64)
    np.add.at(weights, (rows[codes], indices), values)
    table, masses, heavy = np.zeros((700, 32), dtype=np.int64), np.full(700, 5), np.full(700, MAX_MASS - 5)
    known, expected = codes.astype(kind), 5 + np.bincount(rows[codes], np.abs(values), 700).astype(np.int64)
    assert projection.add_to_keys(table, masses, rows, known, indices, values) == 9
    assert np.array_equal(table, weights @ projection.columns(range(50)).T)
    assert np.array_equal(masses, expected)
    projection.add_to_keys(table, heavy, rows, known, indices, values)
    assert np.array_equal(heavy, np.where(expected >= 10, MAX_MASS, MAX_MASS - 10 + expected))
    before = table.copy(), masses.copy()
    indices[-1] = 1 << BITS
    with pytest.raises(InvalidInputError, match="too large"):
        projection.add_to_keys(table, masses, rows, known, indices, values)
    assert np.array_equal(table, before[0])
    assert np.array_equal(masses, before[1])


def test_a_batch_out_of_bounds_changes_nothing() -> None:
    projection = SJLT(dim=1 << BITS, sketch_dim=32, sparsity=4, seed=3)
    indices, values = np.arange(200), np.full(200, -3)
    state, scratch = np.arange(32), np.full(projection._scratch_size, -1)
    arguments, add_batch = projection._hash_arguments, projection._adders.add_batch
    for last in (98, 198):
        last_met, largest, upper, lower = add_batch(indices, values, *arguments, last, scratch, state)
        assert (int(last_met), int(largest), int(upper), int(lower)) == (199, 3, 0, 600)
        assert np.array_equal(state, np.arange(32))
    add_batch(indices, values, *arguments, 199, scratch, state)
    assert not np.array_equal(state, np.arange(32))


def test_layouts_end_where_sixteen_bits_do() -> None:
    assert layout_of(BitSlices(rows=8, width=13)).shape == (1, 3)  # four rows a word
    assert layout_of(BitSlices(rows=4, width=14)).shape == (1, 3)
    assert layout_of(BitSlices(rows=4, width=15)).shape == (0, 3)
    assert layout_of(BitSlices(rows=64, width=1)).shape == (16, 3)
    assert layout_of(BitSlices(rows=1, width=16)).shape == (1, 3)
    assert layout_of(BitSlices(rows=1, width=17)).shape == (0, 3)
