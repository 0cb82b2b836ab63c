"""Exact sums are one vector: merge laws, and what coders, files, copies and layouts make of it."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.core.numbers import Ints
from streamsketch.data import data_ids
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.counting import Counting
from streamsketch.privacy.layout import CELLS, Layout
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.schedules.tree import Tree
from streamsketch.sketching.exact import ExactSums
from streamsketch.sketching.partials import decode_partial, encode_partial
from streamsketch.storage.raw_files import load_raw, save_raw

DIM = 4
PROJECTION = ss.CountSketch(sketch_dim=DIM, seed=7)
NEAR = ss.L1(40, unit="customer", max_keys=3)
BOUNDED = Bounds(NEAR, "scale", counted=True)
MOST = (1 << 63) - 1
NUMBERS = st.integers(-(1 << 63), MOST)


def vectors(keys: int, dim: int = DIM) -> st.SearchStrategy[Ints]:
    size = keys * (dim + 2)
    return st.lists(NUMBERS, min_size=size, max_size=size).map(lambda numbers: np.array(numbers, dtype=np.int64))


def sums_of(keys: int, dim: int = DIM) -> st.SearchStrategy[ExactSums]:
    return vectors(keys, dim).map(lambda vector: ExactSums(keys, dim, vector))


def total(*parts: ExactSums) -> ExactSums:
    found = parts[0].copy()
    for part in parts[1:]:
        found.add(part)
    return found


@given(st.data(), st.integers(0, 4))
def test_a_sum_does_not_depend_on_order_or_grouping(data: Any, keys: int) -> None:
    x, y, z = (data.draw(sums_of(keys)) for _ in range(3))
    assert total(x, y) == total(y, x)
    assert total(total(x, y), z) == total(x, total(y, z))
    assert total(x, ExactSums(keys, DIM)) == x
    expected = [
        (a + b + (1 << 63)) % (1 << 64) - (1 << 63) for a, b in zip(x.vector.tolist(), y.vector.tolist(), strict=True)
    ]
    assert total(x, y).vector.tolist() == expected, "modulo 2^64, cells and counts alike"
    back = total(x, y)
    back.add(y, sign=-1)
    assert back == x


@given(st.data(), st.integers(1, 5))
def test_keys_are_added_up_where_they_are(data: Any, keys: int) -> None:
    added = data.draw(st.integers(0, keys))
    places = np.array(data.draw(st.permutations(range(keys)))[:added], dtype=np.int64)
    x, y = data.draw(sums_of(keys)), data.draw(sums_of(added + 1))  # with a spare key
    found, expected = x.copy(), x.rows()
    found.add(y, places)
    expected[places] += y.rows()[:added]
    assert found.rows().tolist() == expected.tolist()


@given(st.data(), st.integers(0, 4))
def test_cells_and_counts_are_views_of_one_vector(data: Any, keys: int) -> None:
    sums = data.draw(sums_of(keys))
    assert sums.cells.base is not None
    assert np.shares_memory(sums.cells, sums.vector) == np.shares_memory(sums.counts, sums.vector) == bool(keys)
    assert [sums.cells.shape, sums.counts.shape] == [(keys, DIM), (keys, 2)]
    assert ExactSums.of(sums.cells, sums.counts) == ExactSums.of_rows(sums.rows()) == sums
    assert [sums.row(place).tolist() for place in range(keys)] == sums.rows().tolist()
    assert sums.of_keys(range(keys)) == sums
    assert sums.of_keys(range(keys)[::-1]).rows().tolist() == sums.rows()[::-1].tolist()
    with pytest.raises(IndexError):
        sums.of_keys([keys])
    for more in range(keys + 3):
        resized = sums.copy(more)
        kept = min(more, keys)
        assert resized.rows()[:kept].tolist() == sums.rows()[:kept].tolist()
        assert not resized.rows()[kept:].any()


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),  # noqa: S301
    "facts": lambda one: one.with_facts(ids=one.data_ids, agreement=one.agreement, bounds=one.bounds),
    "state": lambda one: (
        ss.Sketch.from_state(PROJECTION, one.sums(), one.mass, bounds=one.bounds)
        if isinstance(one, ss.Sketch)
        else ss.SketchTable.from_state(PROJECTION, list(one), one.sums(), one.masses, bounds=one.bounds)
    ),
}


@pytest.mark.parametrize("way", COPIES)
@settings(max_examples=20)
@given(data=st.data(), keys=st.sampled_from([None, 0, 1, 3]))
def test_copies_have_all_numbers_and_memory_of_their_own(way: str, data: Any, keys: int | None) -> None:
    one = data_with(data.draw(sums_of(1 if keys is None else keys)), keys)
    before, found = one.sums(), COPIES[way](one)
    assert found.sums() == before
    assert found.bounds == one.bounds
    found.sums().vector[:] = 9  # a copy as well
    assert found.sums() == before
    found.merge(data_with(ExactSums(1, DIM, np.ones(DIM + 2, dtype=np.int64)), None if keys is None else 1))
    assert one.sums() == before


def data_with(sums: ExactSums, keys: int | None) -> Any:
    if keys is None:
        return ss.Sketch.from_state(PROJECTION, sums, MOST, bounds=BOUNDED)
    names, masses = [f"key {place}" for place in range(keys)], np.full(keys, MOST)
    return ss.SketchTable.from_state(PROJECTION, names, sums, masses, bounds=BOUNDED)


@given(sums_of(1))
def test_bytes_between_workers_have_all_numbers(sums: ExactSums) -> None:
    found = decode_partial(encode_partial(ss.Sketch.from_state(PROJECTION, sums, MOST)))
    assert found.sums() == sums
    assert found.mass == MOST


@settings(max_examples=15)
@given(data=st.data(), keys=st.sampled_from([None, 0, 1, 3]), counted=st.booleans())
def test_files_have_counts_where_bounds_say_so(
    tmp_path_factory: pytest.TempPathFactory, data: Any, keys: int | None, *, counted: bool
) -> None:
    one, path = data_with(data.draw(sums_of(1 if keys is None else keys)), keys), tmp_path_factory.mktemp("raw") / "a"
    bounds = BOUNDED if counted else BOUNDED.without_counts()
    one = one.with_facts(ids=data_ids.new(), agreement=None, bounds=bounds)
    save_raw(one, path)
    found: Any = load_raw(path).state
    if counted:
        assert found.sums() == one.sums()
    else:
        assert found.sums() == ExactSums.of(one.sums().cells)
        assert found.counts is None


# --- layouts ------------------------------------------------------------------------------------------------------

LAYOUTS = [
    CELLS,
    Layout(Counting(9)),
    Layout(Counting(9, slack=1)),
    Layout(schedule=Tree(horizon=4)),
    Layout(Counting(7, slack=1), Tree(horizon=4)),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@given(data=st.data(), keys=st.integers(0, 3))
def test_what_is_published_is_linear_in_exact_sums_and_splits_where_it_was_joined(
    layout: Layout, data: Any, keys: int
) -> None:
    x, y = (data.draw(sums_of(keys)) for _ in range(2))
    seen = [layout.weighted(one.rows(), NEAR, Fraction(1)) for one in (x, y, total(x, y))]
    assert (seen[0] + seen[1]).tolist() == seen[2].tolist(), "so sums of releases are releases of sums"
    assert all(one.shape == (keys, layout.width(DIM)) for one in seen)
    for vector, cells, (units, added) in zip(seen[0], x.cells, x.counts.tolist(), strict=True):
        found, counts = layout.split(vector, DIM)
        assert found.tolist() == cells.tolist()
        assert (counts is None) == (layout.counting is None) == (not layout.is_counted)
        if layout.counting is not None:
            expected = [layout.counting.units * units, layout.counting.slack * (40 * units - added)]
            wrapped = [(one + (1 << 63)) % (1 << 64) - (1 << 63) for one in expected]
            assert counts is not None
            assert counts.tolist() == wrapped[: layout.counting.numbers]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_layout_is_read_as_it_was_written(layout: Layout) -> None:
    assert Layout.from_dict({"noise": "laplace"} | layout.to_dict()) == layout
    assert layout.of_one_window == Layout(layout.counting)
    assert layout.of_cells == Layout(schedule=layout.schedule)
    assert layout.of_one_window.of_cells == CELLS


def test_vectors_of_another_layout_name_both_sides_and_the_remedy() -> None:
    two, one = Layout(Counting(9, slack=1)), Layout(Counting(9))
    with pytest.raises(InvalidInputError, match=r"64 cells has 66 numbers of int64, and these are 65 .* pass numbers"):
        two.split(np.zeros(65, np.int64), 64)
    with pytest.raises(InvalidInputError, match=r"cells alone, a key of 64 cells has 64 numbers .* these are 65"):
        CELLS.check_width(np.zeros((3, 65), np.int64), 64)
    with pytest.raises(InvalidInputError, match="of float64"):
        one.check_width(np.zeros(65), 64)
    with pytest.raises(InvalidInputError, match=r"the sums of 1 key with 6 cells .* to the sums of 1 key with 5 cells"):
        ExactSums(1, 5).add(ExactSums(1, 6))
    with pytest.raises(InvalidInputError, match=r"of 2 keys .* cannot be added to the sums of 3 keys .* as many keys"):
        ExactSums(3, 5).add(ExactSums(2, 5))
    with pytest.raises(InvalidInputError, match=r"int64 of shape \(14,\), got int64 of shape \(13,\): pass"):
        ExactSums(2, 5, np.zeros(13, np.int64))
    with pytest.raises(InvalidInputError, match="sums of one key, got those of 2"):
        ss.Sketch.from_state(PROJECTION, ExactSums(2, DIM), 0)
    with pytest.raises(InvalidInputError, match="cells must be"):
        ss.SketchTable.from_state(PROJECTION, ["a"], ExactSums(1, DIM + 1), np.zeros(1, np.int64))


@pytest.mark.parametrize("counting", [None, Counting(2), Counting(2, slack=1)], ids=str)
def test_a_release_draws_noise_for_the_whole_vector_at_once(counting: Counting | None) -> None:
    publisher = ss.AdditiveNoise(epsilon=1.0, neighbours=NEAR, counting=counting).calibrated(PROJECTION)
    data = data_with(ExactSums.of(np.arange(DIM), np.array([3, 70])), None)
    released = publisher.for_data(data).draw(KeyedBits(bytes(32), b"one"))
    noise = publisher.noise.sample(publisher.width, KeyedBits(bytes(32), b"one"))
    assert released.numbers.tolist() == (publisher.numbers(data) + noise).tolist()
    assert released.layout == Layout(counting)
    with pytest.raises(InvalidInputError, match=r"cells has .* numbers"):
        publisher.published(released.numbers[:-1], KeyedBits(bytes(32), b"one"))


def test_a_publisher_counts_as_the_agreement_says_where_units_were_counted() -> None:
    agreement = ss.Agreement(
        PROJECTION, index={"item": "integer"}, unit="customer", neighbours=NEAR, counting=Counting(9)
    )
    plain = ss.AdditiveNoise(epsilon=1.0, neighbours=NEAR)
    counted = data_with(ExactSums(1, DIM), None).with_facts(ids=data_ids.new(), agreement=agreement, bounds=BOUNDED)
    assert plain.counted_as(counted.bounds, counted.agreement).layout == agreement.layout
    own = dataclasses.replace(plain, counting=Counting(4))
    assert own.counted_as(counted.bounds, counted.agreement) == own
    for bounds, agreed in ((BOUNDED.without_counts(), agreement), (BOUNDED, None)):
        other = counted.with_facts(ids=data_ids.new(), agreement=agreed, bounds=bounds)
        assert plain.counted_as(other.bounds, other.agreement) == plain
