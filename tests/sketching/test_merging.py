"""Any split of a stream over any workers, merged in any order, gives the bits of one loop."""

from functools import reduce
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamsketch import Sketch
from tests.sketching.shared import COUNT, WIDE, Event, check, events, sketch_of


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
