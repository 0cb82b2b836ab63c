"""The sparse maps: the matrix that the documentation defines, whichever way a batch takes into the state."""

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from streamsketch import SJLT, CountSketch, InvalidInputError
from streamsketch.kernels.tiles import batch_bounds
from streamsketch.projections import Projection
from tests.oracles import naive

FALSE_REJECT = 1e-6  # of each statistical test; seeds are fixed, so none of them is ever flaky
DIM = 2**60
EXTREMES = [0, 1, 2, 511, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**53, 2**59, DIM - 2, DIM - 1]

PROJECTIONS: list[Projection] = [
    CountSketch(dim=DIM, sketch_dim=1, seed=1),
    CountSketch(dim=DIM, sketch_dim=2, seed=2, independence=4),
    CountSketch(dim=DIM, sketch_dim=1024, seed=3, independence=5),
    CountSketch(dim=DIM, sketch_dim=2**20, seed=2**64 - 1, independence=13),
    SJLT(dim=DIM, sketch_dim=8, sparsity=1, seed=4),  # the sparsity of a CountSketch, but another kind
    SJLT(dim=DIM, sketch_dim=64, sparsity=4, seed=0, independence=4),  # one word
    SJLT(dim=DIM, sketch_dim=65, sparsity=65, seed=5, independence=7),  # fields of one bit, two words
    SJLT(dim=DIM, sketch_dim=64, sparsity=64, seed=6, independence=6),  # fields of one bit, one word
    SJLT(dim=DIM, sketch_dim=1024, sparsity=8, seed=7),  # one word of eight rows
    SJLT(dim=DIM, sketch_dim=1024 * 9, sparsity=9, seed=8, independence=9),  # two words, of five rows and of four
    SJLT(dim=DIM, sketch_dim=256 * 22, sparsity=22, seed=9, independence=16),  # four words, the last one not full
    SJLT(dim=DIM, sketch_dim=2**16 * 3, sparsity=3, seed=10, independence=4),  # 17 bits a field
]


def short(projection: Projection) -> str:
    return f"{projection.kind}-{projection.sketch_dim}-{projection.l1_sensitivity}"


each_projection = pytest.mark.parametrize("projection", PROJECTIONS, ids=short)


def twin(projection: Projection) -> naive.Map:
    return naive.Map.from_json(projection.to_json())


def int64(values: Any) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def random_events(size: int, seed: int, highest: int = DIM) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.integers(0, highest, size), random.integers(-(2**40), 2**40, size)


# --- the matrix ---------------------------------------------------------------------------------------------


@each_projection
def test_columns_equal_their_twin(projection: Projection) -> None:
    dense = projection.columns(EXTREMES)
    assert dense.shape == (projection.sketch_dim, len(EXTREMES))
    assert dense.dtype == np.int64
    for index, column in zip(EXTREMES, dense.T, strict=True):
        nonzeros = [(int(row), int(column[row])) for row in np.flatnonzero(column)]
        assert nonzeros == twin(projection).column(index)


def some_columns(projection: Projection) -> np.ndarray:
    """Return 40 columns, or as many as 32 MiB hold."""
    return projection.columns(np.arange(min(40, (1 << 22) // projection.sketch_dim)))


@each_projection
def test_a_column_has_one_sign_in_each_block(projection: Projection) -> None:
    blocks, columns = projection.l1_sensitivity, some_columns(projection)
    by_block = columns.reshape(blocks, -1, columns.shape[1])
    assert (np.abs(by_block).sum(axis=1) == 1).all()


@each_projection
def test_sensitivities_and_scale_are_the_norms_of_the_columns(projection: Projection) -> None:
    columns = some_columns(projection)
    assert np.abs(columns).sum(axis=0).max() == projection.l1_sensitivity
    assert (columns**2).sum(axis=0).max() == projection.l2_sensitivity_squared
    assert np.abs(columns).max() == projection.max_entry == 1
    assert projection.scale_squared * projection.l2_sensitivity_squared == 1  # columns of S are unit vectors
    assert projection.scale == pytest.approx(1 / math.sqrt(projection.l1_sensitivity))


def test_the_resolution_scales_the_unit_and_leaves_the_matrix() -> None:
    plain = SJLT(dim=100, sketch_dim=64, sparsity=4, seed=1)
    coarse = plain.replace(resolution=Fraction(1, 100))
    assert (plain.columns(range(100)) == coarse.columns(range(100))).all()
    assert (plain.cell_unit, coarse.cell_unit) == (0.5, 0.005)


@pytest.mark.parametrize("change", [{"seed": 12}, {"independence": 9}, {"sparsity": 8}])
def test_each_field_of_the_matrix_changes_it(change: dict[str, int]) -> None:
    projection = SJLT(dim=DIM, sketch_dim=64, sparsity=4, seed=11)
    assert (projection.columns(range(50)) != projection.replace(**change).columns(range(50))).any()


def test_dim_only_bounds_the_indices() -> None:
    small, large = (SJLT(dim=dim, sketch_dim=64, sparsity=4, seed=11) for dim in (50, DIM))
    assert (small.columns(range(50)) == large.columns(range(50))).all()


@pytest.mark.parametrize("bad", [-1, 50, 2**59, -(2**63)])
def test_columns_outside_the_domain_are_refused(bad: int) -> None:
    projection = SJLT(dim=50, sketch_dim=64, sparsity=4, seed=11)
    with pytest.raises(InvalidInputError, match=r"indices must lie in \[0, 50\)"):
        projection.columns([0, bad])


def test_columns_of_hashed_keys_are_those_of_their_indices() -> None:
    projection = SJLT(dim=DIM, sketch_dim=64, sparsity=4, seed=11)
    fingerprints = [naive.fingerprint(key, 11) for key in ("JFK", "LGA")]
    assert (projection.columns(["JFK", "LGA"]) == projection.columns(fingerprints)).all()


# --- every way into the state -------------------------------------------------------------------------------


@each_projection
@pytest.mark.parametrize("size", [0, 1, pytest.param(3, marks=pytest.mark.long), 511, 512, 513, 1100])
def test_one_row_and_many_rows_and_columns_give_the_same_cells(projection: Projection, size: int) -> None:
    # batches of fewer than 2 · sketch_dim entries are added one by one, larger ones go through a scratch
    indices, values = random_events(size, seed=size)
    indices[::3] >>= 28  # blocks of both widths within one batch
    indices[: min(size, 512)] >>= 28
    state, table = int64([7] * projection.sketch_dim), np.full((2, projection.sketch_dim), 7)
    bounds = projection.add_to(state, indices, values)
    slots = np.ones(size, dtype=np.int64)
    magnitudes = [abs(value) for value in values.tolist()]
    assert projection.add_to_rows(table, slots, indices, values) == bounds == (sum(magnitudes), max([0, *magnitudes]))
    assert (table[0] == 7).all()
    assert (table[1] == state).all()
    few = np.unique(np.arange(size) % 37)  # 37 columns of the twin are enough for a slow loop
    expected = int64(twin(projection).sketch(zip(indices[few].tolist(), values[few].tolist(), strict=True)))
    state = int64([0] * projection.sketch_dim)
    projection.add_to(state, indices[few], values[few])
    assert (state == expected).all()


@each_projection
@pytest.mark.parametrize("shift", [0, 28], ids=["wide", "narrow"])
def test_a_large_batch_equals_its_twin(projection: Projection, shift: int) -> None:
    indices, values = random_events(1300, seed=99)
    indices = (indices[:13] >> shift).repeat(100)  # few distinct columns, three blocks
    random = np.random.default_rng(5)
    indices = indices[random.permutation(1300)]
    totals: dict[int, int] = {}
    for index, value in zip(indices.tolist(), values.tolist(), strict=True):
        totals[index] = totals.get(index, 0) + value
    state = int64([0] * projection.sketch_dim)
    projection.add_to(state, indices, values)
    assert state.tolist() == twin(projection).sketch(totals.items())


@pytest.mark.parametrize("largest", [2**32 - 1, 2**32, 2**32 + 1])
@pytest.mark.parametrize("size", [1, 600])
def test_indices_on_both_sides_of_32_bits_have_their_own_columns(largest: int, size: int) -> None:
    projection = SJLT(dim=DIM, sketch_dim=64, sparsity=4, seed=11)
    state = int64([0] * 64)
    projection.add_to(state, int64([largest] * size), int64([3] * size))
    assert state.tolist() == twin(projection).sketch([(largest, 3 * size)])


@given(
    st.sampled_from([projection for projection in PROJECTIONS if projection.sketch_dim <= 1024]),
    st.lists(st.tuples(st.sampled_from(EXTREMES) | st.integers(0, DIM - 1), st.integers(-(2**55), 2**55)), max_size=40),
    st.randoms(use_true_random=False),
)
def test_rows_of_a_table_equal_their_twins(projection: Projection, events: list[tuple[int, int]], random: Any) -> None:
    slots = [random.randrange(3) for _ in events]
    table = np.zeros((3, projection.sketch_dim), dtype=np.int64)
    indices, values = int64([index for index, _ in events]), int64([value for _, value in events])
    projection.add_to_rows(table, int64(slots), indices, values)
    for row in range(3):
        mine = [event for event, slot in zip(events, slots, strict=True) if slot == row]
        assert table[row].tolist() == twin(projection).sketch(mine)


@pytest.mark.parametrize("size", [1, 511, 512, 513, 1025])
def test_read_only_input_is_taken(size: int) -> None:
    projection = SJLT(dim=DIM, sketch_dim=64, sparsity=4, seed=11)
    indices, values = random_events(size, seed=size)
    expected, state = int64([0] * 64), int64([0] * 64)
    projection.add_to(expected, indices, values)
    indices.setflags(write=False)
    values.setflags(write=False)
    projection.add_to(state, indices, values)
    assert (state == expected).all()


# --- bounds found before the state changes ------------------------------------------------------------------

BOUNDED = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)


@pytest.mark.parametrize("size", [1, 127, 128, 600, 1500])
@pytest.mark.parametrize("bad", [-1, 1000, 2**32, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("place", [0, -1])
def test_an_index_out_of_range_leaves_the_state_unchanged(size: int, bad: int, place: int) -> None:
    indices, values = random_events(size, seed=size, highest=1000)
    indices[place] = bad
    state = np.arange(64)
    with pytest.raises(InvalidInputError, match=r"indices must lie in \[0, 1000\)") as error:
        BOUNDED.add_to(state, indices, values)
    assert ("negative" in str(error.value)) == (bad < 0)
    assert (state == np.arange(64)).all()
    table = np.arange(128).reshape(2, 64)
    with pytest.raises(InvalidInputError):
        BOUNDED.add_to_rows(table, np.zeros(size, dtype=np.int64), indices, values)
    assert (table.ravel() == np.arange(128)).all()


@pytest.mark.parametrize("size", [1, 127, 128, 600, 1500])
@pytest.mark.parametrize("heavy", [2**63 - 1, -(2**63 - 1), -(2**63), 2**62, -(2**62)])
def test_a_mass_that_leaves_63_bits_is_added_modulo_two_to_the_64(size: int, heavy: int) -> None:
    indices = np.arange(size) % 1000
    values = np.ones(size, dtype=np.int64)
    values[-1] = heavy
    added = BOUNDED.columns(indices) @ values  # wraps around as int64 does
    state = np.arange(64)
    assert BOUNDED.add_to(state, indices, values) == (size - 1 + abs(heavy), abs(heavy))
    assert (state == np.arange(64) + added).all()
    table = np.arange(128).reshape(2, 64)
    bounds = BOUNDED.add_to_rows(table, np.zeros(size, dtype=np.int64), indices, values)
    assert bounds == (size - 1 + abs(heavy), abs(heavy))
    assert (table[0] == np.arange(64) + added).all()
    assert (table[1] == np.arange(64, 128)).all()


def test_a_mass_that_wraps_64_bits_many_times_is_found() -> None:
    values = np.full(4096, -(2**63), dtype=np.int64)  # Σ|q| = 2^75
    for size in (1, 2, 511, 512, 513, 4096):
        bounds = BOUNDED.add_to(int64([0] * 64), np.zeros(size, dtype=np.int64), values[:size])
        assert bounds == (size << 63, 1 << 63)


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(2**54 - 2, 2**54 + 2) | st.just(-(2**63)), max_size=30),
    st.sampled_from([1, 100]),
)
def test_bounds_equal_their_twin(values: list[int], repeats: int) -> None:
    items = int64(values).repeat(repeats)
    last, largest, upper, lower = batch_bounds(items, items, 0, items.size)
    assert int(last) == max((value % 2**64 for value in values), default=0)
    assert int(largest) == max(map(abs, values), default=0)
    assert (int(upper) << 32) + int(lower) == repeats * sum(map(abs, values))


@pytest.mark.parametrize("power", range(50, 64))
@pytest.mark.parametrize("offset", [-1, 0])
def test_full_blocks_of_one_magnitude_are_summed_exactly(power: int, offset: int) -> None:
    magnitude = 2**power + offset
    values = int64([-magnitude] * 512 + [magnitude - 1] * 512)
    _, largest, upper, lower = batch_bounds(values, values, 0, values.size)
    assert int(largest) == magnitude
    assert (int(upper) << 32) + int(lower) == 512 * (2 * magnitude - 1)


# --- the hash is as random as the theory wants it -----------------------------------------------------------


def test_signs_of_up_to_four_items_are_uncorrelated_over_the_seeds() -> None:
    seeds, items = 4096, [0, 1, 2, 3]  # an arithmetic progression, where weak hashing fails first
    signs = np.array([CountSketch(dim=4, sketch_dim=1, seed=s, independence=4).columns(items)[0] for s in range(seeds)])
    subsets = [[item for item in items if mask >> item & 1] for mask in range(1, 16)]
    bound = stats.norm.isf(FALSE_REJECT / 2 / len(subsets)) * math.sqrt(seeds)
    for subset in subsets:
        assert abs(signs[:, subset].prod(axis=1).sum()) < bound


def test_blocks_signs_and_items_are_jointly_uniform_over_the_seeds() -> None:
    # row and sign of two items in two blocks that share a word: 4^4 equally likely outcomes
    counts = np.zeros(256, dtype=int)
    for seed in range(4096):
        columns = SJLT(dim=DIM, sketch_dim=4, sparsity=2, seed=seed, independence=4).columns([17, 2**40])
        code = 0
        for cells in columns.T.reshape(4, 2):
            row = int(np.flatnonzero(cells)[0])
            code = 4 * code + 2 * row + (int(cells[row]) < 0)
        counts[code] += 1
    assert stats.chisquare(counts).pvalue > FALSE_REJECT


@pytest.mark.parametrize("step", [1, 2**16, 2**35 + 1])
def test_buckets_are_uniform_over_the_items(step: int) -> None:
    projection = SJLT(dim=DIM, sketch_dim=64 * 12, sparsity=12, seed=31)  # two words
    columns = projection.columns(np.arange(12_800) * step)
    signed = np.concatenate([(columns == 1).sum(axis=1), (columns == -1).sum(axis=1)]).reshape(2, 12, 64)
    for block in range(12):
        assert stats.chisquare(signed[:, block].ravel()).pvalue > FALSE_REJECT / 12


def test_blocks_of_different_words_are_independent() -> None:
    projection = SJLT(dim=DIM, sketch_dim=8 * 16, sparsity=16, seed=32)  # two words of eight rows
    columns = projection.columns(np.arange(20_000))
    rows = np.abs(columns).reshape(16, 8, -1).argmax(axis=1)
    pairs = [(first, second) for first in range(16) for second in range(first)]
    for first, second in pairs:
        table = np.bincount(8 * rows[first] + rows[second], minlength=64)
        assert stats.chisquare(table).pvalue > FALSE_REJECT / len(pairs)


def test_the_kinds_do_not_share_their_hash_functions() -> None:
    count, sparse = (CountSketch(dim=DIM, sketch_dim=64, seed=4), SJLT(dim=DIM, sketch_dim=64, sparsity=1, seed=4))
    same = (count.columns(range(1000)) == sparse.columns(range(1000))).all(axis=0).sum()
    assert same < 50  # Binomial(1000, 1/128): 50 has probability 1e-23


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sketch_dim", "sparsity"), [(100, 7), (4, 8), (24, 8), (1023, 1), (96, 1), (12, 4), (10, 3), (7, 5)]
)
def test_what_the_error_suggests_works(sketch_dim: int, sparsity: int) -> None:
    with pytest.raises(InvalidInputError, match=f"{sketch_dim}.*Try") as error:
        SJLT(dim=10, sketch_dim=sketch_dim, sparsity=sparsity, seed=1)
    suggestions = [int(number) for number in re.findall(r"sketch_dim=(\d+)", str(error.value).split("Try")[1])]
    assert suggestions
    for suggestion in suggestions:
        assert SJLT(dim=10, sketch_dim=suggestion, sparsity=sparsity, seed=1).sketch_dim == suggestion


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("sparsity", 0),
        ("sparsity", -4),
        ("sparsity", 4.0),
        ("sparsity", True),
        ("sparsity", 2**24 + 1),
        ("independence", 3),
        ("independence", 257),
        ("independence", "8"),
        ("independence", None),
    ],
)
def test_fields_out_of_range_are_named_with_their_value(field: str, bad: Any) -> None:
    fields: dict[str, Any] = {"dim": 10, "sketch_dim": 64, "sparsity": 4, "seed": 1, field: bad}
    with pytest.raises(InvalidInputError, match=f"{field} must be an integer from .* got {re.escape(repr(bad))}"):
        SJLT(**fields)


def test_a_count_sketch_takes_no_sparsity() -> None:
    with pytest.raises(TypeError, match="sparsity"):
        CountSketch(dim=10, sketch_dim=64, sparsity=1, seed=1)  # type: ignore[call-arg]


# --- planning by accuracy -----------------------------------------------------------------------------------


@given(st.floats(0.01, 0.49), st.floats(1e-12, 0.49))
def test_for_accuracy_keeps_every_promised_order(alpha: float, beta: float) -> None:
    projection = SJLT.for_accuracy(alpha, beta, dim=1000, seed=3, resolution="1/10")
    assert projection.sketch_dim >= math.log(2 / beta) / (alpha**2 / 4 - alpha**3 / 6)
    assert projection.sketch_dim <= 2 * math.log(2 / beta) / (alpha**2 / 4 - alpha**3 / 6)
    assert projection.sparsity >= math.log(1 / beta) / alpha
    assert projection.independence >= max(4, 2 * math.log(1 / beta))
    assert (projection.dim, projection.seed, projection.resolution) == (1000, 3, Fraction(1, 10))


@pytest.mark.parametrize(
    "alpha_beta", [(0, 0.1), (0.5, 0.1), (0.1, 0), (0.1, 0.5), (-1, 0.1), (math.nan, 0.1), (0.1, math.nan)]
)
def test_for_accuracy_refuses_what_it_cannot_promise(alpha_beta: tuple[float, float]) -> None:
    with pytest.raises(
        InvalidInputError, match=r"must lie in \[1e-300, 0\.5\), got|must lie in \[0\.0001, 0\.5\), got"
    ):
        SJLT.for_accuracy(*alpha_beta, dim=10, seed=1)


@pytest.mark.parametrize("alpha_beta", [(1e-200, 0.1), (0.1, 5e-324)])
def test_for_accuracy_refuses_the_tiniest_numbers(alpha_beta: tuple[float, float]) -> None:
    with pytest.raises(InvalidInputError):
        SJLT.for_accuracy(*alpha_beta, dim=10, seed=1)


def test_for_accuracy_refuses_more_cells_than_a_sketch_may_have() -> None:
    with pytest.raises(InvalidInputError, match="sketch_dim must be an integer from"):
        SJLT.for_accuracy(1e-4, 0.01, dim=10, seed=1)


@pytest.mark.parametrize("vector", [[1] * 4, [8, 4, 2, 1], [1] * 200], ids=["four", "uneven", "flat"])
def test_for_accuracy_fails_no_more_often_than_promised(vector: list[int]) -> None:
    alpha, beta, seeds = 0.4, 0.1, 1500
    failures = 0
    for seed in range(seeds):
        projection = SJLT.for_accuracy(alpha, beta, dim=len(vector), seed=seed)
        state = int64([0] * projection.sketch_dim)
        projection.add_to(state, np.arange(len(vector)), int64(vector))
        ratio = projection.scale**2 * float((state**2).sum()) / sum(entry**2 for entry in vector)
        failures += not 1 - alpha <= ratio <= 1 + alpha
    assert failures <= stats.binom.isf(FALSE_REJECT, seeds, beta)
