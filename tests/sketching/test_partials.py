"""Partial sketches of many keys: the sums of one table, whatever room there is."""

from collections import defaultdict
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.sketching.partials import PartialSketches

PROJECTION = ss.SJLT(dim=1000, sketch_dim=32, sparsity=4, seed=11)

batches = st.lists(
    st.lists(st.tuples(st.sampled_from("abcdefg"), st.integers(0, 999), st.integers(-9, 9)), max_size=12), max_size=6
)


def add(partials: PartialSketches, events: list[tuple[str, int, int]]) -> None:
    distinct = [*dict.fromkeys(key for key, _, _ in events), "nobody's"]
    partials.add(
        distinct,
        np.array([distinct.index(key) for key, _, _ in events], dtype=np.int32),
        np.array([index for _, index, _ in events], dtype=np.int64),
        np.array([step for *_, step in events], dtype=np.int64),
    )


def sums(partials: PartialSketches) -> dict[Any, ss.Sketch]:
    total: dict[Any, ss.Sketch] = defaultdict(PROJECTION.sketch)
    for key, sketch in partials.take():
        total[key].merge(sketch)
    return dict(total)


@given(batches, st.integers(1, 9))
def test_any_room_gives_the_sums_of_one_loop(stream: list[list[tuple[str, int, int]]], most_keys: int) -> None:
    partials = PartialSketches(PROJECTION, most_keys)
    expected: dict[Any, ss.Sketch] = defaultdict(PROJECTION.sketch)
    for events in stream:
        add(partials, events)
        for key, index, step in events:
            expected[key].update(index, step)
    assert sums(partials) == expected
    assert partials.nbytes == 0
    assert sums(partials) == {}


def test_memory_is_that_of_the_table_or_of_the_events() -> None:
    partials = PartialSketches(PROJECTION, 2)
    add(partials, [("a", 1, 1), ("b", 1, 1)])
    assert partials.nbytes == 2 * 32 * 8
    add(partials, [("a", 1, 1), ("c", 1, 1), ("d", 1, 1), ("d", 2, 1)])
    assert partials.nbytes == 2 * 32 * 8 + 3 * 24


def test_keys_whose_events_wait_come_as_one_sketch_each() -> None:
    partials = PartialSketches(PROJECTION, 1)
    for _ in range(5):
        add(partials, [("a", 1, 1), ("b", 2, 1), ("c", 3, 1)])
    assert sorted(key for key, _ in partials.take()) == ["a", "b", "c"]
