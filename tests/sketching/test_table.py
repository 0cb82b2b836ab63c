"""SketchTable: exactly the sketches of its keys, in one array."""

import copy
import datetime as dt
import pickle
import traceback
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsketch import SJLT, CountSketch, InvalidInputError, Sketch, SketchTable
from streamsketch.errors import IncompatibleProjectionsError
from streamsketch.projections import Projection
from tests.oracles import naive

WIDE = SJLT(dim=2**60, sketch_dim=64, sparsity=4, seed=7)
NARROW = SJLT(dim=1000, sketch_dim=1024, sparsity=8, seed=8)
CENTS = SJLT(dim=2**60, sketch_dim=64, sparsity=4, seed=7, resolution="1/100")
COUNT = CountSketch(dim=1000, sketch_dim=16, seed=9)

LARGEST = 2**63 - 1
KeyedEvent = tuple[Any, int, Any]
keyed_events = st.lists(
    st.tuples(
        st.sampled_from(["AA", "B6", "", "Zürich"]),
        st.sampled_from([0, 2**32 - 1, 2**32, 2**60 - 1]) | st.integers(0, 2**60 - 1),
        st.integers(-(2**50), 2**50),
    ),
    max_size=40,
)


def table_of(projection: Projection, stream: list[KeyedEvent]) -> SketchTable:
    table = projection.table()
    feed(table, stream)
    return table


def feed(table: SketchTable, stream: list[KeyedEvent]) -> None:
    table.update(*([event[column] for event in stream] for column in range(3)))


def check(table: SketchTable, stream: list[KeyedEvent], extra_keys: tuple[Any, ...] = ()) -> None:
    """Assert that the table holds, for each key, the cells and the mass of one loop over its events."""
    twin = naive.Map.from_json(table.projection.to_json())
    expected: dict[Any, list[tuple[int, Any]]] = {key: [] for key in extra_keys}
    for key, index, value in stream:
        expected.setdefault(key, []).append((index, value))
    assert len(table) == len(expected)
    assert set(table) == set(expected)
    for key, events in expected.items():
        assert table[key].state().tolist() == twin.sketch(events)
        assert table[key].mass == twin.mass(value for _, value in events)


# --- a table is its sketches --------------------------------------------------------------------------------


@given(keyed_events, st.data())
def test_batches_of_any_sizes_equal_one_loop_for_each_key(stream: list[KeyedEvent], data: st.DataObject) -> None:
    table, rest = WIDE.table(), stream
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        feed(table, rest[:size])
        rest = rest[size:]
    check(table, stream)


def test_a_table_equals_sketches_that_take_their_events_one_by_one() -> None:
    random = np.random.default_rng(3)
    keys, indices = random.integers(0, 9, 3000), random.integers(0, 1000, 3000)
    values = random.integers(-100, 100, 3000)
    for projection in (NARROW, COUNT):
        table = projection.table()
        table.update(keys, indices, values)
        sketches = {key: projection.sketch() for key in range(9)}
        for key, index, value in zip(keys.tolist(), indices.tolist(), values.tolist(), strict=True):
            sketches[key].update(index, value)
        assert dict(table) == sketches
        assert {key: table[key].mass for key in table} == {key: sketch.mass for key, sketch in sketches.items()}


def test_an_event_counts_one_unless_told_otherwise() -> None:
    table = WIDE.table()
    table.update(["a", "b", "a"], [1, 2, 3])
    table.update(["b"], [1], 5)
    table.update(["b"], 4, 0.5)
    check(table, [("a", 1, 1), ("b", 2, 1), ("a", 3, 1), ("b", 1, 5), ("b", 4, 0)])


def test_real_values_are_truncated_exactly() -> None:
    stream: list[KeyedEvent] = [("a", 1, -0.29), ("b", 2, 2.999), ("a", 2**59, 1e6)]
    check(table_of(CENTS, stream), stream)


def test_hashed_indices_are_those_of_a_sketch() -> None:
    table, sketch = WIDE.table(), WIDE.sketch()
    table.update([1, 1], ["JFK", "LGA"], [2, 3])
    sketch.update(["JFK", "LGA"], [2, 3])
    assert table[1] == sketch


def test_tables_grow_by_one_key_at_a_time_without_losing_a_cell() -> None:
    table, stream = COUNT.table(), []
    for key in range(70):
        stream += [(f"key {key}", key, key + 1), (f"key {key // 2}", key, -1)]
        feed(table, stream[-2:])
        if key in (0, 1, 2, 3, 31, 32, 33):
            check(table, stream)
    check(table, stream)
    assert list(table) == sorted(f"key {key}" for key in range(70))


@pytest.mark.parametrize(
    "keys",
    [
        ["a", "b", "a"],
        [b"a", b"\xff", b"a"],
        [3, -(2**40), 3],
        [dt.date(2013, 1, 1), dt.date(1950, 1, 1), dt.date(2013, 1, 1)],
    ],
    ids=["text", "bytes", "integers", "dates"],
)
def test_every_layout_of_a_key_column_is_read_alike(keys: list[Any]) -> None:
    plain = pa.array(keys)
    stream: list[KeyedEvent] = list(zip(keys, [1, 2, 3], [4, 5, 6], strict=True))
    layouts = [
        keys,
        tuple(keys),
        pd.Series(keys, index=[7, 8, 9]),
        plain,
        plain.dictionary_encode(),
        pa.concat_arrays([plain[1:2], plain]).dictionary_encode()[1:],  # keys in another order
        pa.DictionaryArray.from_arrays([0, 1, 2], pa.array(keys)),  # a key listed twice
        pa.chunked_array([plain[:1], plain[1:]]),
        pa.chunked_array([plain[:1].dictionary_encode(), plain[1:].dictionary_encode()]),
    ]
    for layout in layouts:
        table = WIDE.table()
        table.update(layout, [1, 2, 3], [4, 5, 6])
        check(table, stream)


def test_numpy_keys_become_python_keys() -> None:
    table = WIDE.table()
    table.update(np.array([5, 6], dtype=np.uint8), [1, 2])
    table.update(np.array([5], dtype=np.int64), [3])
    table.update(np.array([2**64 - 1], dtype=np.uint64), [4])
    assert [(type(key), key) for key in table] == [(int, 5), (int, 6), (int, 2**64 - 1)]


def test_keys_that_no_row_has_are_not_added() -> None:
    column = pa.array(["unused", "a", "also unused", "a"]).dictionary_encode()
    table = WIDE.table()
    table.update(column.take([1, 3]), [1, 2])
    table.update(column[:0], [])
    check(table, [("a", 1, 1), ("a", 2, 1)])


def test_a_number_its_text_and_its_bytes_are_three_keys() -> None:
    table = WIDE.table()
    for key in (1, "1", b"1"):
        table.update([key], [5])
    check(table, [(1, 5, 1), ("1", 5, 1), (b"1", 5, 1)])


def test_a_value_that_rounds_to_nothing_still_names_its_key() -> None:
    check(table_of(CENTS, [("a", 1, 0.001)]), [("a", 1, 0)])


def test_an_empty_batch_changes_nothing() -> None:
    table = table_of(WIDE, [("a", 1, 2)])
    for empty in ([], np.array([], dtype=np.int64), pa.array([], pa.string()).dictionary_encode()):
        table.update(empty, [])
    check(table, [("a", 1, 2)])


# --- keys from the start ------------------------------------------------------------------------------------


def test_keys_given_at_the_start_hold_empty_sketches() -> None:
    table = WIDE.table(["a", "b", "a"])
    assert list(table) == ["a", "b"]
    assert table["a"] == WIDE.sketch()
    table.update(["c", "b"], [1, 2])
    check(table, [("c", 1, 1), ("b", 2, 1)], extra_keys=("a",))


@pytest.mark.parametrize("column", [pa.array(["a", "b"]), pa.chunked_array([["a"], ["b"]])], ids=["array", "chunked"])
def test_keys_given_at_the_start_may_be_a_column(column: Any) -> None:
    table = WIDE.table(column)
    feed(table, [("a", 1, 2)])
    check(table, [("a", 1, 2)], extra_keys=("b",))


def test_a_table_is_a_mapping() -> None:
    table = table_of(WIDE, [("a", 1, 2), ("b", 3, 4)])
    assert ("a" in table, "z" in table, len(table)) == (True, False, 2)
    assert table.get("z") is None
    assert list(table.keys()) == list(table) == ["a", "b"]
    assert all(isinstance(sketch, Sketch) for sketch in table.values())
    with pytest.raises(KeyError):
        table["z"]


def test_the_sketch_of_a_key_is_a_copy() -> None:
    table = table_of(WIDE, [("a", 1, 2)])
    sketch = table["a"]
    sketch.update(5, 6)
    check(table, [("a", 1, 2)])
    feed(table, [("a", 7, 8)])
    assert sketch == WIDE.table(["a"])["a"] + _sketch([(1, 2), (5, 6)])


def _sketch(events: list[tuple[int, int]]) -> Sketch:
    sketch = WIDE.sketch()
    sketch.update([index for index, _ in events], [value for _, value in events])
    return sketch


def test_the_sketches_of_a_table_go_on_like_any_other() -> None:
    table = table_of(WIDE, [("a", 1, 2), ("b", 1, LARGEST - 10)])
    assert table["a"].mass == 2  # not the whole table's
    total = table["a"] + table["a"]
    assert total.mass == 4


def test_memory_is_that_of_the_cells() -> None:
    assert WIDE.table().nbytes == 0
    assert WIDE.table(["a", "b"]).nbytes == 2 * 64 * 8


# --- merging ------------------------------------------------------------------------------------------------


@given(keyed_events, st.integers(1, 5), st.randoms(use_true_random=False))
def test_any_split_merged_in_any_order_equals_one_loop(stream: list[KeyedEvent], workers: int, random: Any) -> None:
    shares: list[list[KeyedEvent]] = [[] for _ in range(workers)]
    for event in stream:
        random.choice(shares).append(event)
    tables = [table_of(WIDE, share) for share in shares]
    while len(tables) > 1:
        one = tables.pop(random.randrange(len(tables)))
        tables[random.randrange(len(tables))].merge(one)
    check(tables[0], stream)
    assert tables[0] == table_of(WIDE, stream)


def test_a_merge_leaves_the_other_side_and_both_go_on() -> None:
    one, other = table_of(WIDE, [("a", 1, 2), ("b", 3, 4)]), table_of(WIDE, [("c", 5, 6), ("b", 7, 8)])
    one.merge(other)
    feed(one, [("d", 9, 1), ("c", 9, 1)])
    feed(other, [("b", 9, 1)])
    check(one, [("a", 1, 2), ("b", 3, 4), ("c", 5, 6), ("b", 7, 8), ("d", 9, 1), ("c", 9, 1)])
    check(other, [("c", 5, 6), ("b", 7, 8), ("b", 9, 1)])


def test_a_table_merged_into_itself_doubles() -> None:
    table = table_of(WIDE, [("a", 1, 2), ("b", 3, -4)])
    table.merge(table)
    check(table, [("a", 1, 2), ("b", 3, -4)] * 2)


def test_keys_without_events_survive_a_merge() -> None:
    one, other = WIDE.table(["a"]), WIDE.table(["b"])
    one.merge(other)
    check(one, [], extra_keys=("a", "b"))


# --- copies, pickles, equality ------------------------------------------------------------------------------

DUPLICATES: list[Callable[[SketchTable], SketchTable]] = [
    SketchTable.copy,
    copy.copy,
    copy.deepcopy,
    lambda table: pickle.loads(pickle.dumps(table)),  # noqa: S301
]


@pytest.mark.parametrize("duplicate", DUPLICATES, ids=["copy", "copy.copy", "deepcopy", "pickle"])
def test_a_copy_is_equal_and_independent(duplicate: Callable[[SketchTable], SketchTable]) -> None:
    stream: list[KeyedEvent] = [("a", 1, 2), ("b", 3, 4), ("c", 5, 6)]
    table = WIDE.table()
    for event in stream:  # grown beyond its keys
        feed(table, [event])
    again = duplicate(table)
    assert again == table
    feed(again, [("d", 7, 8), ("a", 7, 8)])
    check(table, stream)
    feed(table, [("e", 9, 1), ("b", 9, 1)])
    check(again, [*stream, ("d", 7, 8), ("a", 7, 8)])
    check(table, [*stream, ("e", 9, 1), ("b", 9, 1)])


@pytest.mark.parametrize("carry", [bytes, memoryview], ids=["read-only", "shared"])
def test_a_pickle_with_buffers_apart_is_equal_and_independent(carry: Callable[[Any], Any]) -> None:
    table, buffers = table_of(WIDE, [("a", 1, 2)]), []
    pickled = pickle.dumps(table, protocol=5, buffer_callback=buffers.append)
    again = pickle.loads(pickled, buffers=[carry(buffer) for buffer in buffers])  # noqa: S301
    assert again == table
    feed(again, [("a", 5, 6)])
    check(again, [("a", 1, 2), ("a", 5, 6)])
    check(table, [("a", 1, 2)])


def test_equality_ignores_the_order_of_keys_and_events() -> None:
    stream: list[KeyedEvent] = [("a", 1, 2), ("b", 3, 4), ("a", 5, 6)]
    assert table_of(WIDE, stream) == table_of(WIDE, stream[::-1])


def test_equality_asks_for_projection_keys_and_cells() -> None:
    table = table_of(WIDE, [("a", 1, 2), ("b", 3, 4)])
    assert table != table_of(WIDE, [("a", 1, 2)])
    assert table != table_of(WIDE, [("a", 1, 2), ("c", 3, 4)])
    assert table != table_of(WIDE, [("a", 1, 2), ("b", 3, 5)])
    assert table != table_of(WIDE, [("b", 1, 2), ("a", 3, 4)])
    assert table != table_of(CENTS, [("a", 1, 0.02), ("b", 3, 0.04)])
    assert table != {"a": table["a"], "b": table["b"]}
    assert table == table_of(WIDE, [("a", 1, 2), ("b", 3, 4), ("b", 3, 1), ("b", 3, -1)])


def test_a_mutable_table_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(WIDE.table())


def test_printing_a_table_shows_how_many_keys_but_none_of_them() -> None:
    one, other = table_of(WIDE, [("Rosalind", 1, 2)]), table_of(WIDE, [("Celia", 12345, 678901)])
    assert repr(one) == repr(other) == str(one)
    assert "secret, of 1 keys" in repr(one)
    assert repr(WIDE) in repr(one)


# --- what is refused ----------------------------------------------------------------------------------------

PRIVATE_NAME = "Rosalind"
PRIVATE_NUMBER = 987654321

BAD_UPDATES: dict[str, tuple[Any, ...]] = {
    "null key": ([PRIVATE_NAME, None], [1, 2]),
    "Arrow null key": (pa.array([PRIVATE_NAME, None]).dictionary_encode(), [1, 2]),
    "null in the dictionary": (pa.DictionaryArray.from_arrays([0, 1], pa.array([PRIVATE_NAME, None])), [1, 2]),
    "pandas null key": (pd.Series([PRIVATE_NAME, None]), [1, 2]),
    "text and integer keys": ([PRIVATE_NAME, PRIVATE_NUMBER], [1, 2]),
    "integer and text keys": ([PRIVATE_NUMBER, PRIVATE_NAME], [1, 2]),
    "two-dimensional keys": (np.array([[1, 2]]), [1, 2]),
    "a key that is no column": (PRIVATE_NUMBER, [1]),
    "no key": (None, [1]),
    "objects for keys": ([object()], [1]),
    "fewer keys": ([PRIVATE_NAME], [1, 2]),
    "more keys": ([PRIVATE_NAME, "new"], [1]),
    "keys but no indices": ([PRIVATE_NAME], []),
    "indices but no keys": ([], [1]),
    "negative index": (["new", "a"], [1, -PRIVATE_NUMBER]),
    "index too large": (["new", "a"], [1, 1000 + PRIVATE_NUMBER]),
    "float index": (["new"], [1.5]),
    "boolean index": (["new"], np.array([True])),
    "text index": (["new"], [PRIVATE_NAME]),
    "null index": (["new"], [None]),
    "NaN": (["new"], [1], [float("nan")]),
    "infinity": (["new"], [1], float("inf")),
    "null value": (["new"], [1], [None]),
    "text value": (["new"], [1], PRIVATE_NAME),
    "decimal NaN": (["new"], [1], Decimal("NaN")),
    "value past 63 bits": (["new"], [1], PRIVATE_NUMBER + 2**70),
    "fewer values": (["new", "a"], [1, 2], [1]),
    "more values": (["new"], [1], [1, 2]),
}


AMBIGUOUS_KEYS: dict[str, Any] = {
    "booleans, which are equal to 1 and 0": [True],
    "floats, which are equal to integers": [1.0],
    "NaN, which is not equal to itself": [float("nan")],
    "decimals, which are equal to integers": [Decimal("1.00")],
    "text and bytes": ["a", b"a"],
    "one text for a column": "a",
}


@pytest.mark.parametrize("keys", AMBIGUOUS_KEYS.values(), ids=AMBIGUOUS_KEYS.keys())
def test_ambiguous_keys_are_refused(keys: Any) -> None:
    table = table_of(NARROW, [(1, 1, 2)])
    with pytest.raises(InvalidInputError):
        table.update(keys, [5] * len(keys))
    check(table, [(1, 1, 2)])


@pytest.mark.parametrize("keys", [[["a"]], [("a", "b")], [{"a": 1}]], ids=["lists", "tuples", "structs"])
def test_keys_that_cannot_be_hashed_are_refused(keys: Any) -> None:
    with pytest.raises(InvalidInputError):
        WIDE.table().update(keys, [1])


def full_tables() -> Iterator[tuple[SketchTable, list[KeyedEvent]]]:
    """Yield tables with no key, with no room for another, and with room."""
    yield NARROW.table(), []
    full = [("a", 1, 2), ("b", 3, -4)]
    yield table_of(NARROW, full), full
    roomy = table_of(NARROW, full)
    feed(roomy, [("c", 5, 6)])
    yield roomy, [*full, ("c", 5, 6)]


@pytest.mark.parametrize("arguments", BAD_UPDATES.values(), ids=BAD_UPDATES.keys())
def test_bad_input_is_refused_untold_and_changes_nothing(arguments: tuple[Any, ...]) -> None:
    for table, stream in full_tables():
        with pytest.raises(InvalidInputError) as error:
            table.update(*arguments)
        check(table, stream)
        shown = "".join(traceback.format_exception(error.value))
        assert PRIVATE_NAME not in shown
        assert "9876543" not in shown
        feed(table, [("new", 1, 1), ("newer", 2, 2)])  # whose rows must not have been touched
        check(table, [*stream, ("new", 1, 1), ("newer", 2, 2)])


@pytest.mark.parametrize("values", [[2**62, 2**62], [-(2**62), 2**62], [-(2**63), 0], [LARGEST, -LARGEST]], ids=str)
@pytest.mark.parametrize("keys", [["a", "a"], ["a", "new"], ["new", "newer"]], ids=str)
def test_no_sum_is_refused_and_cells_wrap_around(keys: list[str], values: list[int]) -> None:
    for table, stream in full_tables():
        table.update(keys, [1, 2], values)
        check_wrapped(table, [*stream, *zip(keys, [1, 2], values, strict=True)])


def test_merges_wrap_around_too() -> None:
    one, other = table_of(WIDE, [("a", 1, 2**62)]), table_of(WIDE, [("a", 1, 2**62), ("b", 1, 1)])
    one.merge(other)
    check_wrapped(one, [("a", 1, 2**63), ("b", 1, 1)])
    check(other, [("a", 1, 2**62), ("b", 1, 1)])


def check_wrapped(table: SketchTable, stream: list[KeyedEvent]) -> None:
    """Assert that the table holds the cells of one loop modulo 2^64, and masses of at most 2^63 - 1."""
    twin = naive.Map.from_json(table.projection.to_json())
    assert list(table) == sorted({key for key, _, _ in stream})
    for key in table:
        events = [(index, value) for other, index, value in stream if other == key]
        assert table[key].state().tolist() == [(cell + 2**63) % 2**64 - 2**63 for cell in twin.sketch(events)]
        assert table[key].mass == min(sum(abs(value) for _, value in events), LARGEST)


def test_tables_of_different_projections_do_not_mix() -> None:
    one, other = table_of(WIDE, [("a", 1, 2)]), table_of(CENTS, [("b", 1, 2)])
    with pytest.raises(IncompatibleProjectionsError, match=r"resolution \(1 here, 1/100 there\)"):
        one.merge(other)
    check(one, [("a", 1, 2)])


@pytest.mark.parametrize("other", [None, {}, WIDE.sketch(), WIDE], ids=lambda other: type(other).__name__)
def test_only_tables_merge_into_tables(other: Any) -> None:
    one = table_of(WIDE, [("a", 1, 2)])
    with pytest.raises(TypeError, match=f"got (a {type(other).__name__}|None)"):
        one.merge(other)
    check(one, [("a", 1, 2)])


@pytest.mark.parametrize("projection", [None, WIDE.to_json(), SJLT])
def test_a_table_needs_a_projection(projection: Any) -> None:
    with pytest.raises(TypeError, match="needs a Projection"):
        SketchTable(projection)


def test_a_table_starts_from_any_collection_of_keys() -> None:
    projection = SJLT(dim=100, sketch_dim=8, sparsity=2, seed=1)
    for keys in (["a", "b"], {"a", "b"}, {"a": 1, "b": 2}.keys(), (key for key in "ab"), projection.table(["a", "b"])):
        assert sorted(projection.table(keys)) == ["a", "b"]


@pytest.mark.parametrize("code", [-1, 2, 2**31 - 1])
def test_a_place_outside_the_list_of_keys_is_refused(code: int) -> None:
    """Kernels do not check places: one of a broken dictionary would reach memory that is not the table's."""
    table = SJLT(dim=100, sketch_dim=64, sparsity=4, seed=1).table()
    for dtype in (np.int32, np.int64):
        with pytest.raises(IndexError, match="outside the list of keys"):
            table.add_steps(["a", "b"], np.array([0, code], dtype=dtype), np.array([5, 6]), np.array([1, 1]))
    assert len(table) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["AA", "B6", "UA"],  # the same ones
        ["UA", "AA", "B6"],
        ["AA", "B6", "B6"],  # one key twice
        ["AA", "B6", "UA", "DL"],
        [7, 8, 9],
    ],
)
def test_each_dictionary_of_keys_has_its_own_codes(words: list[Any]) -> None:
    stream, codes = [], [0, 1, 0, 1, 2]
    table, other = WIDE.table(), pa.array(words)
    for dictionary in (pa.array(["AA", "B6", "UA"]), other, pa.array(["AA", "B6", "UA"]), other, other):
        column = pa.DictionaryArray.from_arrays(pa.array(codes), dictionary)
        table.update(column, range(5), 3)
        stream += [(key, place, 3) for place, key in enumerate(column.to_pylist())]
        for held in (table, table.copy(), pickle.loads(pickle.dumps(table))):  # noqa: S301
            check(held, stream)
