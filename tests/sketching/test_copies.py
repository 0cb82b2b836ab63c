"""Copies, pickles, equality, and what a sketch shows of itself."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamsketch import Sketch
from tests.sketching.shared import CENTS, NARROW, WIDE, check, sketch_of

DUPLICATES: list[Callable[[Sketch], Sketch]] = [
    Sketch.copy,
    copy.copy,
    copy.deepcopy,
    lambda sketch: pickle.loads(pickle.dumps(sketch)),  # noqa: S301
    lambda sketch: Sketch.from_state(sketch.projection, sketch.state(), sketch.mass),
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
    sketch.state()[:] = 99
    check(sketch, [(1, 2)])


def test_the_state_that_is_given_is_copied() -> None:
    cells = np.zeros(64, dtype=np.int64)
    sketch = Sketch.from_state(WIDE, cells, 5)
    cells[:] = 4
    assert not sketch.state().any()


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


def test_printing_a_sketch_shows_the_projection_and_nothing_of_the_stream() -> None:
    empty, full = WIDE.sketch(), sketch_of(WIDE, [(12345, 678901), (23456, 789012)])
    assert repr(full) == str(full) == f"{full}" == repr(empty)
    assert repr(WIDE) in repr(full)
    assert "secret" in repr(full)
