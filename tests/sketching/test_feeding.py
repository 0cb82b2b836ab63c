"""Any way of feeding the same stream gives the bits of one loop."""

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsketch import SJLT
from streamsketch.projections import Projection
from tests.oracles import naive
from tests.sketching.shared import CENTS, WIDE, Event, check, events, sketch_of, twin


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
    assert sketch.state().tolist() == twin(WIDE).sketch(totals.items())
    assert sketch.mass == 6000


def test_single_events_share_kernel_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, add_to = [], SJLT.add_to

    def counted(self: SJLT, state: Any, indices: Any, values: Any) -> tuple[int, int]:
        sizes.append(indices.size)
        return add_to(self, state, indices, values)

    monkeypatch.setattr(SJLT, "add_to", counted)
    sketch = WIDE.sketch()
    for index in range(3000):
        sketch.update(index, -1)
    assert (sketch.mass, sketch.largest, sum(sizes)) == (3000, 1, 3000)
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
            assert sketch.state().tolist() == expected


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
    before = sketch.state()
    indices[:] = values[:] = 9
    assert (sketch.state() == before).all()


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
    assert not sketch.state().any()
    assert sketch.mass == 250
