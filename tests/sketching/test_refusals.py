"""What a sketch refuses leaves it as it was, and tells nothing of the stream."""

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from streamsketch import L1, SJLT, InvalidInputError, Sketch
from streamsketch.errors import IncompatibleProjectionsError
from streamsketch.projections import Projection
from tests.data.shared import shown
from tests.sketching.shared import CENTS, LARGEST, NARROW, WIDE, Event, check, sketch_of, twin

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
def test_no_sum_is_refused_and_cells_wrap_around(arguments: tuple[Any, ...]) -> None:
    """One event would decide whether there is a release (Theory 4.2)."""
    indices, values = arguments
    places = [indices] if isinstance(indices, int) else list(indices)
    amounts = [int(value) for value in values] if isinstance(values, list) else [values] * len(places)
    for event in ((5, 2**62), (5, -(2**62))):
        sketch = sketch_of(NARROW, [event])
        sketch.update(6, 1)
        sketch.update(indices, values)
        stream = [event, (6, 1), *zip(places, amounts, strict=True)]
        exact = twin(NARROW).sketch(stream)
        assert sketch.state().tolist() == [(cell + 2**63) % 2**64 - 2**63 for cell in exact]
        assert sketch.mass == min(sum(abs(value) for _, value in stream), LARGEST)
        sketch.release(epsilon=1.0, neighbours=L1(1))


@pytest.mark.parametrize("projection", [WIDE, CENTS], ids=["counts", "cents"])
def test_the_mass_stays_at_its_largest_however_many_events_wait(projection: Projection) -> None:
    room, step = 3000 * 2**31, int(2**31 / projection.grid.denominator)
    sketch = Sketch.from_state(projection, np.zeros(64, dtype=np.int64), LARGEST - room)
    added = room // (step * projection.grid.denominator) + 2
    for _ in range(added):
        sketch.update(3, -step)
    assert sketch.mass == LARGEST
    assert sketch.state().tolist() == twin(projection).sketch([(3, -step * added)])


@pytest.mark.parametrize("combine", [Sketch.merge, Sketch.__add__, Sketch.__sub__, Sketch.__iadd__, Sketch.__isub__])
def test_merges_wrap_around_too(combine: Callable[[Sketch, Sketch], Any]) -> None:
    sign = -1 if combine in (Sketch.__sub__, Sketch.__isub__) else 1
    one, other = sketch_of(WIDE, [(1, 2**62)]), sketch_of(WIDE, [(1, sign * 2**62)])
    other.update(2, 1)
    total = combine(one, other) or one
    exact = twin(WIDE).sketch([(1, 2**63), (2, sign)])
    assert total.state().tolist() == [(cell + 2**63) % 2**64 - 2**63 for cell in exact]
    assert total.mass == LARGEST
    check(other, [(1, sign * 2**62), (2, 1)])


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
    with pytest.raises(TypeError, match=f"got (a {type(other).__name__}|None)"):
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


@pytest.mark.parametrize(("cell", "mass"), [(5, 4), (-5, 4), (-(2**63), LARGEST - 1), (0, -1)])
def test_a_given_mass_must_bound_the_cells(cell: int, mass: int) -> None:
    with pytest.raises(InvalidInputError, match="mass is smaller than a cell"):
        Sketch.from_state(WIDE, np.array([cell] + [0] * 63), mass)


def test_the_largest_mass_stands_for_any_larger_one() -> None:
    cells = np.full(64, -(2**63), dtype=np.int64)  # no sum of fewer than 2^63 steps, but cells may have wrapped
    for mass in (LARGEST, LARGEST + 1, 2**100):
        assert Sketch.from_state(WIDE, cells, mass).mass == LARGEST


@pytest.mark.parametrize("mass", [float("nan"), 5.5, 2.0**62, True])
def test_a_given_mass_must_be_an_integer(mass: Any) -> None:
    with pytest.raises((InvalidInputError, TypeError)):
        Sketch.from_state(WIDE, np.zeros(64, dtype=np.int64), mass)


def test_a_given_numpy_mass_does_not_wrap() -> None:
    sketch = Sketch.from_state(WIDE, np.zeros(64, dtype=np.int64), np.int64(2**62))
    sketch += sketch.copy()
    assert sketch.mass == LARGEST
