"""Sketch: exact, mergeable, private; and unchanged by whatever it refuses."""

import copy
import datetime as dt
import pickle
import traceback
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsketch import (
    SJLT,
    CountSketch,
    IncompatibleProjectionsError,
    InvalidInputError,
    Projection,
    Sketch,
    SketchOverflowError,
)
from tests import naive

WIDE = SJLT(dim=2**60, sketch_dim=64, sparsity=4, seed=7)
NARROW = SJLT(dim=1000, sketch_dim=1024, sparsity=8, seed=8)
CENTS = SJLT(dim=2**60, sketch_dim=64, sparsity=4, seed=7, resolution="1/100")
COUNT = CountSketch(dim=2**33, sketch_dim=32, seed=9)

LARGEST = 2**63 - 1
Event = tuple[int, int]
events = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**60 - 1]) | st.integers(0, 2**60 - 1),
        st.integers(-5, 5) | st.integers(-(2**31) - 1, 2**31 + 1) | st.integers(-(2**50), 2**50),
    ),
    max_size=60,
)


def twin(projection: Projection) -> naive.Map:
    return naive.Map.from_json(projection.to_json())


def sketch_of(projection: Projection, stream: list[Event]) -> Sketch:
    sketch = projection.sketch()
    sketch.update([index for index, _ in stream], [value for _, value in stream])
    return sketch


def check(sketch: Sketch, stream: list[Any]) -> None:
    """Assert that the cells and the mass are those of one loop over the stream."""
    expected = twin(sketch.projection)
    assert sketch.state.tolist() == expected.sketch(stream)
    assert sketch.mass == expected.mass(value for _, value in stream)


# --- any way of feeding the same stream ---------------------------------------------------------------------


@given(events)
def test_a_batch_equals_one_loop(stream: list[Event]) -> None:
    check(sketch_of(WIDE, stream), stream)


@given(events)
def test_single_events_equal_one_loop(stream: list[Event]) -> None:
    sketch = WIDE.sketch()
    for index, value in stream:
        sketch.update(index, value)
    check(sketch, stream)


@given(events, st.data())
def test_events_and_batches_in_any_mixture_equal_one_loop(stream: list[Event], data: st.DataObject) -> None:
    sketch, rest = WIDE.sketch(), stream
    while rest:
        size = data.draw(st.integers(0, len(rest)))
        batch, rest = (rest[:size], rest[size:]) if size else (rest[:1], rest[1:])
        if size:
            sketch.update([index for index, _ in batch], [value for _, value in batch])
        else:
            sketch.update(*batch[0])
        if data.draw(st.booleans()):
            assert sketch.mass >= 0  # reading in between changes nothing
    check(sketch, stream)


def test_more_events_than_any_buffer_holds_are_all_counted() -> None:
    sketch = WIDE.sketch()
    for event in range(5000):
        sketch.update(event % 7, event % 5 - 2)
    totals: dict[int, int] = {}
    for event in range(5000):
        totals[event % 7] = totals.get(event % 7, 0) + event % 5 - 2
    assert sketch.state.tolist() == twin(WIDE).sketch(totals.items())
    assert sketch.mass == 6000


def test_single_events_share_kernel_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, add_to = [], SJLT.add_to

    def counted(self: SJLT, state: Any, indices: Any, values: Any, mass: int) -> int:
        sizes.append(indices.size)
        return add_to(self, state, indices, values, mass)

    monkeypatch.setattr(SJLT, "add_to", counted)
    sketch = WIDE.sketch()
    for index in range(3000):
        sketch.update(index, -1)
    assert sketch.mass == sum(sizes) == 3000
    assert len(sizes) < 30


def test_an_event_counts_one_unless_told_otherwise() -> None:
    sketch = WIDE.sketch()
    sketch.update(17)
    sketch.update([17, 2**40])
    check(sketch, [(17, 1), (17, 1), (2**40, 1)])


def test_one_value_serves_all_indices() -> None:
    sketch = CENTS.sketch()
    sketch.update([17, 2**40], -0.29)
    check(sketch, [(17, -0.29), (2**40, -0.29)])
    assert sketch.mass == 56  # -0.29 is a little less than 29 cents in binary


@pytest.mark.parametrize("projection", [WIDE, CENTS], ids=["counts", "cents"])
def test_every_container_gives_the_same_bits(projection: Projection) -> None:
    indices, values = [5, 2**40, 0, 5], [3, -1, 7, 100]
    arrow_indices, arrow_values = pa.array(indices), pa.array(values)
    index_columns: list[Any] = [
        indices,
        tuple(indices),
        np.array(indices),
        np.array(indices, dtype=np.uint64),
        np.array(indices, dtype=">i8"),
        np.repeat(indices, 2)[::2],
        pd.Series(indices, index=[9, 8, 7, 6]),
        pd.Series(indices, dtype="category"),
        arrow_indices,
        arrow_indices.dictionary_encode(),
        pa.chunked_array([indices[:1], [], indices[1:]]),
    ]
    value_columns: list[Any] = [
        values,
        tuple(values),
        np.array(values, dtype=np.int8),
        np.array(values, dtype=np.float32),
        np.repeat(values, 2)[::2],
        [Decimal(value) for value in values],
        pd.Series(values, index=[1, 2, 3, 4]),
        arrow_values,
        arrow_values.cast(pa.float64()),
        arrow_values.cast(pa.decimal128(20, 1)),
        pa.chunked_array([values[:3], values[3:]]),
    ]
    expected = twin(projection).sketch(zip(indices, values, strict=True))
    for index_column in index_columns:
        for value_column in value_columns:
            sketch = projection.sketch()
            sketch.update(index_column, value_column)
            assert sketch.state.tolist() == expected


@pytest.mark.parametrize("index", [5, np.int8(5), np.uint64(5), np.int64(5)])
@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), 3.0, np.float32(3), Decimal(3), Fraction(3)])
@pytest.mark.parametrize("projection", [WIDE, CENTS], ids=["counts", "cents"])
def test_every_number_type_is_an_event(projection: Projection, index: Any, value: Any) -> None:
    sketch = projection.sketch()
    sketch.update(0)
    sketch.update(index, value)
    check(sketch, [(0, 1), (5, 3)])


def test_a_column_is_not_changed_by_being_read() -> None:
    indices, values = np.array([1, 2, 3]), np.array([4, 5, 6])
    sketch = WIDE.sketch()
    sketch.update(indices, values)
    sketch.update(indices, values)
    assert (indices.tolist(), values.tolist()) == ([1, 2, 3], [4, 5, 6])


def test_a_sketch_does_not_follow_a_column_that_changes_later() -> None:
    indices, values = np.array([1, 2, 3]), np.array([4, 5, 6])
    sketch = WIDE.sketch()
    sketch.update(indices, values)
    before = sketch.state
    indices[:] = values[:] = 9
    assert (sketch.state == before).all()


# --- keys that are hashed -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column",
    [
        ["JFK", "LGA", "JFK", ""],
        [b"JFK", b"\xff", b"JFK"],
        [dt.date(2013, 1, 1), dt.date(1950, 5, 5)],
        [dt.datetime(2013, 1, 1, 5), dt.datetime(1950, 5, 5, 0, 0, 0, 1)],  # noqa: DTZ001
    ],
    ids=["text", "bytes", "dates", "times"],
)
def test_hashed_keys_one_by_one_or_in_columns_equal_one_loop(column: list[Any]) -> None:
    values = range(1, len(column) + 1)
    stream = [(naive.fingerprint(key, 7), value) for key, value in zip(column, values, strict=True)]
    one_by_one = WIDE.sketch()
    for key, value in zip(column, values, strict=True):
        one_by_one.update(key, value)
    check(one_by_one, stream)
    plain = pa.array(column)
    for layout in (
        column,
        plain,
        plain.dictionary_encode(),
        pa.chunked_array([plain[:1], plain[1:]]),
        pd.Series(column),
    ):
        sketch = WIDE.sketch()
        sketch.update(layout, list(values))
        check(sketch, stream)


def test_tuples_of_columns_equal_one_loop() -> None:
    origins, days = ["JFK", "LGA", "JFK"], [1, 1, 2]
    sketch = WIDE.sketch()
    sketch.update(WIDE.indices_of(origins, days), [1, 2, 3])
    prints = [[naive.fingerprint(part, 7) for part in pair] for pair in zip(origins, days, strict=True)]
    check(sketch, [(naive.tuple_index(pair, 7), value) for pair, value in zip(prints, (1, 2, 3), strict=True)])


def test_a_number_its_text_and_its_bytes_are_three_events() -> None:
    sketches = []
    for key in (1, "1", b"1"):
        sketch = WIDE.sketch()
        sketch.update(key)
        sketches.append(sketch)
    assert sketches[0] != sketches[1] != sketches[2] != sketches[0]


# --- values on the grid -------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**60 - 1),
            st.floats(-1e15, 1e15) | st.integers(-(10**6), 10**6).map(lambda cents: cents / 100),
        ),
        max_size=40,
    )
)
def test_real_values_are_truncated_exactly_before_they_add_up(stream: list[tuple[int, float]]) -> None:
    batch, single = CENTS.sketch(), CENTS.sketch()
    batch.update([index for index, _ in stream], [value for _, value in stream])
    for index, value in stream:
        single.update(index, value)
    check(batch, stream)
    check(single, stream)
    assert batch.mass <= sum(abs(Fraction(value)) for _, value in stream) * 100


def test_a_fraction_of_a_count_is_no_count() -> None:
    sketch = WIDE.sketch()
    sketch.update(5, 0.999)
    sketch.update([5, 6], [-0.999, 1.999])
    check(sketch, [(6, 1)])


def test_values_that_cancel_leave_no_cell_but_keep_their_mass() -> None:
    sketch = CENTS.sketch()
    sketch.update(5, 1.25)
    sketch.update(5, -1.25)
    assert not sketch.state.any()
    assert sketch.mass == 250


# --- any split over any workers -----------------------------------------------------------------------------


@given(events, st.integers(1, 6), st.randoms(use_true_random=False))
def test_any_split_merged_in_any_order_gives_the_bits_of_one_loop(
    stream: list[Event], workers: int, random: Any
) -> None:
    shares: list[list[Event]] = [[] for _ in range(workers)]
    for event in stream:
        random.choice(shares).append(event)
    sketches = [sketch_of(WIDE, share) for share in shares]
    while len(sketches) > 1:  # any tree of merges
        one = sketches.pop(random.randrange(len(sketches)))
        sketches[random.randrange(len(sketches))].merge(one)
    check(sketches[0], stream)


@given(events, events, events)
def test_sums_commute_and_associate_and_differences_undo_them(a: list[Event], b: list[Event], c: list[Event]) -> None:
    x, y, z = (sketch_of(WIDE, stream) for stream in (a, b, c))
    assert x + y == y + x
    assert (x + y) + z == x + (y + z) == reduce(Sketch.__add__, [x, y, z])
    assert (x + y) - y == x
    assert x - x == WIDE.sketch()
    assert x + WIDE.sketch() == x
    check(x - y, [*a, *((index, -value) for index, value in b)])
    check(x, a)  # operands are as they were
    check(y, b)


def test_in_place_sums_change_the_left_side_only() -> None:
    one, other = sketch_of(WIDE, [(1, 2)]), sketch_of(WIDE, [(3, 4)])
    alias = one
    one += other
    assert alias is one
    check(one, [(1, 2), (3, 4)])
    one -= other
    check(one, [(1, 2), (3, 4), (3, -4)])
    check(other, [(3, 4)])


def test_a_merge_counts_events_that_still_wait_in_either_buffer() -> None:
    one, other = WIDE.sketch(), WIDE.sketch()
    one.update(1, 2)
    other.update(3, 4)
    one.merge(other)
    one.update(5, 6)
    other.update(7, 8)
    check(one, [(1, 2), (3, 4), (5, 6)])
    check(other, [(3, 4), (7, 8)])


def test_a_sketch_merged_into_itself_doubles() -> None:
    sketch = sketch_of(WIDE, [(1, 2), (3, -4)])
    sketch.merge(sketch)
    check(sketch, [(1, 2), (3, -4)] * 2)
    sketch -= sketch
    assert sketch == WIDE.sketch()


def test_workers_of_many_batch_sizes_agree_on_a_long_stream() -> None:
    random = np.random.default_rng(12)
    indices = random.integers(0, 2**33, 20_000)
    values = random.integers(-1000, 1000, 20_000)
    whole = COUNT.sketch()
    whole.update(indices, values)
    for size in (31, 33, 511, 512, 513, 6000):  # below 32 events a batch is scattered directly
        total = COUNT.sketch()
        for start in range(0, 20_000, size):
            worker = COUNT.sketch()
            worker.update(indices[start : start + size], values[start : start + size])
            total += worker
        assert total == whole
        assert total.mass == whole.mass


# --- copies, pickles, equality ------------------------------------------------------------------------------

DUPLICATES: list[Callable[[Sketch], Sketch]] = [
    Sketch.copy,
    copy.copy,
    copy.deepcopy,
    lambda sketch: pickle.loads(pickle.dumps(sketch)),  # noqa: S301
    lambda sketch: Sketch.from_state(sketch.projection, sketch.state, sketch.mass),
]


@pytest.mark.parametrize("duplicate", DUPLICATES, ids=["copy", "copy.copy", "deepcopy", "pickle", "from_state"])
def test_a_copy_is_equal_and_independent(duplicate: Callable[[Sketch], Sketch]) -> None:
    sketch = WIDE.sketch()
    sketch.update([1, 2], [3, 4])
    sketch.update(5, 6)  # waiting in the buffer
    twin_sketch = duplicate(sketch)
    assert twin_sketch == sketch
    assert twin_sketch.mass == sketch.mass
    twin_sketch.update(7, 8)
    check(sketch, [(1, 3), (2, 4), (5, 6)])
    sketch.update(9, 1)
    check(twin_sketch, [(1, 3), (2, 4), (5, 6), (7, 8)])
    check(sketch, [(1, 3), (2, 4), (5, 6), (9, 1)])


@pytest.mark.parametrize("carry", [bytes, memoryview], ids=["read-only", "shared"])
def test_a_pickle_with_buffers_apart_is_equal_and_independent(carry: Callable[[Any], Any]) -> None:
    sketch, buffers = sketch_of(WIDE, [(1, 2)]), []
    pickled = pickle.dumps(sketch, protocol=5, buffer_callback=buffers.append)
    again = pickle.loads(pickled, buffers=[carry(buffer) for buffer in buffers])  # noqa: S301
    assert again == sketch
    again.update([5] * 100)
    check(again, [(1, 2), (5, 100)])
    check(sketch, [(1, 2)])


def test_the_state_that_is_read_is_a_copy() -> None:
    sketch = sketch_of(WIDE, [(1, 2)])
    sketch.state[:] = 99
    check(sketch, [(1, 2)])


def test_the_state_that_is_given_is_copied() -> None:
    cells = np.zeros(64, dtype=np.int64)
    sketch = Sketch.from_state(WIDE, cells, 5)
    cells[:] = 4
    assert not sketch.state.any()


def test_equality_asks_for_projection_and_cells_not_for_the_path() -> None:
    assert sketch_of(WIDE, [(1, 2), (1, -2)]) == WIDE.sketch()
    assert sketch_of(WIDE, [(1, 2)]) != sketch_of(WIDE, [(1, 3)])
    assert WIDE.sketch() != NARROW.sketch()
    assert WIDE.sketch() != CENTS.sketch()
    assert WIDE.sketch() != "sketch"
    pending = WIDE.sketch()
    pending.update(1, 2)
    assert pending == sketch_of(WIDE, [(1, 2)])


def test_a_mutable_sketch_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(WIDE.sketch())


# --- privacy of what is shown -------------------------------------------------------------------------------


def test_printing_a_sketch_shows_the_projection_and_nothing_of_the_stream() -> None:
    empty, full = WIDE.sketch(), sketch_of(WIDE, [(12345, 678901), (23456, 789012)])
    assert repr(full) == str(full) == f"{full}" == repr(empty)
    assert repr(WIDE) in repr(full)
    assert "secret" in repr(full)


# --- what is refused ----------------------------------------------------------------------------------------

PRIVATE_NAME = "Rosalind"
PRIVATE_NUMBER = 987654321

BAD_UPDATES: dict[str, tuple[Any, ...]] = {
    "negative index": (-PRIVATE_NUMBER,),
    "index too large": (1000 + PRIVATE_NUMBER,),
    "index beyond 64 bits": (2**64 + PRIVATE_NUMBER,),
    "least index beyond": (1000,),
    "negative numpy index": (np.int64(-1),),
    "numpy index too large": (np.uint64(2**63 + PRIVATE_NUMBER),),
    "float index": (5.0,),
    "numpy float index": (np.float64(PRIVATE_NUMBER),),
    "single-precision index": (np.float32(5),),
    "NaN index": (float("nan"),),
    "null index": (None,),
    "decimal index": (Decimal(5),),
    "fraction index": (Fraction(5),),
    "complex index": (5j,),
    "boolean index": (True,),
    "numpy boolean index": (np.True_,),
    "zero-dimensional index": (np.array(5),),
    "text where indices are not hashed": (PRIVATE_NAME,),
    "bytes where indices are not hashed": (PRIVATE_NAME.encode(),),
    "date where indices are not hashed": (dt.date(2000, 1, 1),),
    "object index": (object(),),
    "generator of indices": ((index for index in (1, 2)),),
    "negative index in a batch": ([1, -PRIVATE_NUMBER],),
    "index too large in a batch": ([1, 1000 + PRIVATE_NUMBER],),
    "index beyond 63 bits in a batch": ([1, 2**63],),
    "index beyond 64 bits in a batch": ([1, 2**64],),
    "unsigned index in a batch": (np.array([2**64 - 1], dtype=np.uint64),),
    "index too large in a large batch": (np.r_[np.arange(999).repeat(3), 1000],),
    "float indices": (np.array([1.0, 2.0]),),
    "float index among integers": ([1, 2.0],),
    "boolean indices": (np.array([True, False]),),
    "boolean among integers": ([1, True],),
    "text among integers": ([1, PRIVATE_NAME],),
    "integer among texts": ([PRIVATE_NAME, 1],),
    "texts where indices are not hashed": ([PRIVATE_NAME, "b"],),
    "null among indices": ([PRIVATE_NUMBER % 1000, None],),
    "Arrow null among indices": (pa.array([1, None]),),
    "pandas null among indices": (pd.Series([1, None], dtype="Int64"),),
    "two-dimensional indices": (np.array([[1, 2]]),),
    "zero-dimensional float index": (np.array(1.5),),
    "NaN": (1, float("nan")),
    "infinity": (1, float("inf")),
    "minus infinity": (1, -np.inf),
    "decimal NaN": (1, Decimal("NaN")),
    "null value": (1, None),
    "text value": (1, PRIVATE_NAME),
    "boolean value": (1, True),
    "numpy boolean value": (1, np.True_),
    "zero-dimensional value": (1, np.array(5)),
    "complex value": (1, 1j),
    "date value": (1, dt.date(2000, 1, 1)),
    "value past 63 bits": (1, 2**70 + PRIVATE_NUMBER),
    "float past 63 bits": (1, 1e300),
    "NaN in a batch": ([1, 2], [1.0, float("nan")]),
    "infinity in a batch": ([1, 2], np.array([np.inf, 1])),
    "null in a batch of values": ([1, 2], [PRIVATE_NUMBER, None]),
    "pandas null in a batch of values": ([1, 2], pd.Series([1.0, None])),
    "text among values": ([1, 2], [PRIVATE_NUMBER, PRIVATE_NAME]),
    "booleans for values": ([1, 2], np.array([True, False])),
    "boolean among values": ([1, 2], [1, True]),
    "two-dimensional values": ([1, 2], np.array([[1, 2]])),
    "unsigned values past 63 bits": ([1], np.array([2**63], dtype=np.uint64)),
    "fewer values": ([1, 2, 3], [1, 2]),
    "more values": ([1, 2], [1, 2, 3]),
    "no values": ([1, 2], []),
    "two values for one index": (1, [1, 2]),
    "no indices": ([], [1]),
}


def full_sketches() -> Iterator[tuple[Sketch, list[Event]]]:
    """Yield sketches with events behind them: none, in the cells, in the buffer, in both."""
    yield NARROW.sketch(), []
    yield sketch_of(NARROW, [(1, 2), (3, -4)]), [(1, 2), (3, -4)]
    waiting = NARROW.sketch()
    waiting.update(5, 6)
    yield waiting, [(5, 6)]
    both = sketch_of(NARROW, [(1, 2)])
    both.update(5, 6)
    both.update(7, -8)
    yield both, [(1, 2), (5, 6), (7, -8)]


def shown(error: pytest.ExceptionInfo[BaseException]) -> str:
    """Return all that a user would see of an exception and of those chained to it."""
    return "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize("arguments", BAD_UPDATES.values(), ids=BAD_UPDATES.keys())
def test_bad_input_is_refused_untold_and_changes_nothing(arguments: tuple[Any, ...]) -> None:
    for sketch, stream in full_sketches():
        with pytest.raises(InvalidInputError) as error:
            sketch.update(*arguments)
        check(sketch, stream)
        assert PRIVATE_NAME not in shown(error)
        assert "9876543" not in shown(error)
        sketch.update(9, 10)  # and it goes on working
        check(sketch, [*stream, (9, 10)])


@pytest.mark.parametrize(
    "key", [pd.NaT, PRIVATE_NAME + "\ud800", bytearray(b"a")], ids=["NaT", "surrogate", "bytearray"]
)
def test_single_keys_without_canonical_bytes_are_refused(key: Any) -> None:
    sketch = WIDE.sketch()
    with pytest.raises(InvalidInputError):
        sketch.update(key)
    check(sketch, [])


@pytest.mark.parametrize(
    "arguments",
    [
        (1, LARGEST),
        (1, -LARGEST),
        ([1, 2], [2**62, -(2**62)]),
        ([1], [-(2**63)]),
        (range(1000), 2**54),
        ([1], [2.0**62 * 1.5]),
    ],
    ids=str,
)
def test_an_overflow_is_found_before_it_happens(arguments: tuple[Any, ...]) -> None:
    for event in ((5, 2**62), (5, -(2**62))):
        sketch = sketch_of(NARROW, [event])
        sketch.update(6, 1)
        with pytest.raises(SketchOverflowError, match="nothing was added"):
            sketch.update(*arguments)
        check(sketch, [event, (6, 1)])


@pytest.mark.parametrize("projection", [WIDE, CENTS], ids=["counts", "cents"])
def test_single_events_never_pass_63_bits_however_many_wait(projection: Projection) -> None:
    room, step = 3000 * 2**31, int(2**31 / projection.grid.denominator)
    sketch = Sketch.from_state(projection, np.zeros(64, dtype=np.int64), LARGEST - room)
    added = room // (step * projection.grid.denominator)
    for _ in range(added):
        sketch.update(3, -step)
    with pytest.raises(SketchOverflowError):
        sketch.update(3, -step)
    assert sketch.state.tolist() == twin(projection).sketch([(3, -step * added)])


def test_the_last_step_that_fits_is_taken() -> None:
    sketch = sketch_of(WIDE, [(1, LARGEST - 1)])
    sketch.update(1, 1)
    check(sketch, [(1, LARGEST)])
    with pytest.raises(SketchOverflowError):
        sketch.update(1, 1)
    check(sketch, [(1, LARGEST)])


@pytest.mark.parametrize("combine", [Sketch.merge, Sketch.__add__, Sketch.__sub__, Sketch.__iadd__, Sketch.__isub__])
def test_a_merge_that_could_overflow_changes_neither_side(combine: Callable[[Sketch, Sketch], Any]) -> None:
    one, other = sketch_of(WIDE, [(1, 2**62)]), sketch_of(WIDE, [(1, -(2**62))])
    other.update(2, 1)
    with pytest.raises(SketchOverflowError):
        combine(one, other)
    check(one, [(1, 2**62)])
    check(other, [(1, -(2**62)), (2, 1)])


@pytest.mark.parametrize("combine", [Sketch.merge, Sketch.__add__, Sketch.__sub__, Sketch.__iadd__, Sketch.__isub__])
def test_sketches_of_different_projections_do_not_mix(combine: Callable[[Sketch, Sketch], Any]) -> None:
    one, other = sketch_of(WIDE, [(1, 2)]), sketch_of(CENTS, [(1, 2)])
    with pytest.raises(IncompatibleProjectionsError, match=r"resolution \(1 here, 1/100 there\)"):
        combine(one, other)
    check(one, [(1, 2)])
    check(other, [(1, 2)])


@pytest.mark.parametrize("combine", [Sketch.merge, Sketch.__add__, Sketch.__sub__, Sketch.__iadd__, Sketch.__isub__])
@pytest.mark.parametrize("other", [None, 0, "sketch", np.zeros(64, dtype=np.int64), WIDE], ids=repr)
def test_only_sketches_merge_into_sketches(combine: Callable[[Sketch, Any], Any], other: Any) -> None:
    one = sketch_of(WIDE, [(1, 2)])
    with pytest.raises(TypeError, match=f"got a {type(other).__name__}"):
        combine(one, other)
    check(one, [(1, 2)])


@pytest.mark.parametrize("projection", [None, WIDE.to_json(), SJLT])
def test_a_sketch_needs_a_projection(projection: Any) -> None:
    with pytest.raises(TypeError, match="needs a Projection"):
        Sketch(projection)


@pytest.mark.parametrize(
    "cells",
    [
        np.zeros(63, dtype=np.int64),
        np.zeros((1, 64), dtype=np.int64),
        np.zeros(64),
        np.zeros(64, dtype=np.int32),
        np.zeros(64, dtype=np.uint64),
        np.zeros(64, dtype=">i8"),
    ],
    ids=lambda cells: f"{cells.dtype.str} {cells.shape}",
)
def test_a_given_state_must_be_int64_of_the_right_shape(cells: np.ndarray) -> None:
    with pytest.raises(InvalidInputError, match=r"must be int64 of shape \(64,\)"):
        Sketch.from_state(WIDE, cells, 100)


@pytest.mark.parametrize(("cell", "mass"), [(5, 4), (-5, 4), (-(2**63), LARGEST), (0, -1)])
def test_a_given_mass_must_bound_the_cells(cell: int, mass: int) -> None:
    with pytest.raises(InvalidInputError, match="mass is smaller than a cell"):
        Sketch.from_state(WIDE, np.array([cell] + [0] * 63), mass)


def test_a_given_mass_must_fit_63_bits() -> None:
    assert Sketch.from_state(WIDE, np.zeros(64, dtype=np.int64), LARGEST).mass == LARGEST
    with pytest.raises(SketchOverflowError):
        Sketch.from_state(WIDE, np.zeros(64, dtype=np.int64), LARGEST + 1)


@pytest.mark.parametrize("mass", [float("nan"), 5.5, 2.0**62, True])
def test_a_given_mass_must_be_an_integer(mass: Any) -> None:
    with pytest.raises((InvalidInputError, TypeError)):
        Sketch.from_state(WIDE, np.zeros(64, dtype=np.int64), mass)


def test_a_given_numpy_mass_does_not_wrap() -> None:
    sketch = Sketch.from_state(WIDE, np.zeros(64, dtype=np.int64), np.int64(2**62))
    with pytest.raises(SketchOverflowError):
        sketch += sketch.copy()
