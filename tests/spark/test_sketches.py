"""Spark's sketches are those of one process, whatever partitions the rows are in and what is run again."""

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.privacy import L2
from streamsketch.spark import sketch_per_key
from streamsketch.spark.sketches import Work
from tests.spark.conftest import FrameOf
from tests.spark.frames import LocalFrame
from tests.spark.rows import KEYS, SECRET, agreed, bounded, sales

UNIT: dict[str, Any] = {"unit": "customer", "max_keys": 2}
FINE = {"resolution": Fraction(1, 1 << 16)}
PLAIN = [
    ("text", None, 1),
    ("text", ["N", "E", "none"], 5),
    ("integer", None, 3),
    ("integer", [5], 3),
    ("bytes", None, 3),
    ("date", KEYS["date"][1:], 3),
]
BOUNDED = [
    # keys, units, neighbours, options, of the agreement, public keys, partitions
    ("text", "text", ss.L1(10**6, **UNIT), {}, {}, None, 1),
    ("text", "text", ss.L1(20, **UNIT), {}, {}, None, 5),
    ("integer", "integer", ss.L1(20, **UNIT), {"clip": "cut"}, {}, None, 3),
    ("bytes", "text", ss.L1(20, **UNIT), {"clip": "cut"}, {}, [b"s"], 3),
    ("text", "integer", ss.L1(20, unit="customer"), {"max_keys": 2}, {}, None, 3),
    ("text", "integer", L2(20, **UNIT), {}, FINE, ["N", "S"], 3),
    ("text", "text", ss.SketchL2(20, **UNIT), {}, FINE, None, 3),
    ("integer", "text", ss.SketchL2(20, **UNIT), {"clip": "equal"}, FINE, [5, -7], 5),
]


@pytest.mark.parametrize(("keys", "public", "partitions"), PLAIN)
def test_rows_without_units_are_sketched_as_in_one_process(
    frame_of: FrameOf, keys: str, public: list[Any] | None, partitions: int
) -> None:
    rows, agreement = sales(keys=keys), agreed(keys=keys)
    found = sketch_per_key(frame_of(rows, partitions), agreement, public_keys=public).table()
    expected = ss.sketch(rows, agreement)
    assert isinstance(expected, ss.SketchTable)
    kept = [key for key in expected if public is None or key in public]
    assert {key: found[key] for key in found} == {key: expected[key] for key in kept}
    assert found.masses.tolist() == [expected[key].mass for key in kept]
    assert (found.agreement, found.bounds, found.counts) == (agreement, expected.bounds, None)
    assert public is not None or found.largest == expected.largest


@pytest.mark.parametrize(("keys", "units", "neighbours", "options", "of_agreement", "public", "partitions"), BOUNDED)
def test_units_are_bounded_as_in_one_process_under_the_same_secret(
    frame_of: FrameOf,
    keys: str,
    units: str,
    neighbours: Any,
    options: dict[str, Any],
    of_agreement: dict[str, Any],
    public: list[Any] | None,
    partitions: int,
) -> None:
    rows, agreement = sales(keys=keys, units=units), agreed(neighbours, keys=keys, units=units, **of_agreement)
    work = Work(agreement, public_keys=public, shards=4, **options)
    found = work.sketches(frame_of(rows, partitions), SECRET).table()
    expected = bounded(rows, agreement, public_keys=public, **options)
    assert found == expected
    assert found.masses.tolist() == expected.masses.tolist()
    assert (found.bounds, found.agreement) == (expected.bounds, expected.agreement)
    assert np.array_equal(np.array(found.counts), np.array(expected.counts))


def test_units_within_their_bounds_are_as_ss_bound_has_them() -> None:
    rows, agreement = sales(), agreed(ss.L1(10**6, unit="customer", max_keys=3))
    assert sketch_per_key(LocalFrame.of(rows, 3), agreement).table() == ss.bound(rows, agreement)


def test_another_secret_is_drawn_for_each_data_frame() -> None:
    rows, agreement = sales(), agreed(ss.L1(20, **UNIT))
    frame: Any = LocalFrame.of(rows, 3)
    sketches = sketch_per_key(frame, agreement)
    assert sketches.table() == sketches.table()
    assert sketches.table() != sketch_per_key(frame, agreement).table()
    assert sketches.table().data_ids == sketches.table().data_ids


def test_a_table_is_brought_once() -> None:
    rows, agreement, runs = sales(), agreed(), []
    frame = LocalFrame(lambda: runs.append(1) or [rows], rows.column_names)  # type: ignore[func-returns-value]
    sketches = sketch_per_key(frame, agreement)
    assert not runs
    table = sketches.table()
    table.update(["N"], ["item 1"])
    assert sketches.table() != table
    assert sketches.table() == ss.sketch(rows, agreement)
    assert runs == [1]


def test_no_rows_are_an_empty_table_with_its_bounds() -> None:
    rows, agreement = sales(0), agreed(ss.L1(20, **UNIT))
    found = sketch_per_key(LocalFrame.of(rows, 2), agreement).table()
    assert (len(found), found.bounds.neighbours) == (0, agreement.neighbours)


def test_malformed_rows_end_the_job_unless_units_are_bounded(frame_of: FrameOf) -> None:
    rows = sales(20).set_column(2, "sold", pa.array(["1"] * 19 + ["many"]))
    with pytest.raises(ss.InvalidInputError, match="the column sold") as error:
        sketch_per_key(frame_of(rows, 1), agreed()).table()
    assert "many" not in str(error.value)
    agreement = agreed(ss.L1(10**6, unit="customer", max_keys=3))
    assert sketch_per_key(frame_of(rows, 1), agreement).table() == ss.bound(rows[:19], agreement)


@pytest.mark.parametrize(
    ("agreement", "options", "message"),
    [
        (ss.Agreement(ss.SJLT(sketch_dim=64, sparsity=4, seed=7), index="item"), {}, "the agreement has no key"),
        (agreed(), {"neighbours": ss.L1(5)}, "has no unit column"),
        (agreed(), {"clip": "cut"}, "has no unit column"),
        (
            ss.Agreement(ss.SJLT(sketch_dim=64, sparsity=4, seed=7), index="item", key="shop", unit="customer"),
            {},
            "pass neighbours",
        ),
        (agreed(ss.L1(20, **UNIT)), {"shards": 0}, "shards"),
        (agreed(ss.L1(20, **UNIT)), {"clip": "equal"}, "clip"),
        (ss.Agreement(ss.SJLT(sketch_dim=64, sparsity=4, seed=7), index="other", key="shop"), {}, "the column other"),
    ],
)
def test_what_cannot_be_sketched_is_refused_before_a_job_runs(
    agreement: ss.Agreement, options: dict[str, Any], message: str
) -> None:
    frame: Any = LocalFrame(lambda: pytest.fail("a job ran"), sales(1).column_names)
    with pytest.raises(ss.InvalidInputError, match=message):
        sketch_per_key(frame, agreement, **options)


def test_a_stream_is_for_foreach_batch() -> None:
    frame: Any = LocalFrame(lambda: pytest.fail("a job ran"), sales(1).column_names, isStreaming=True)
    with pytest.raises(ss.InvalidInputError, match="ReleaseBatches"):
        sketch_per_key(frame, agreed())


def test_columns_of_any_name_are_read() -> None:
    rows = sales(50).rename_columns(["shop", "it`em.x", "sold", "customer"])
    agreement = ss.Agreement(ss.SJLT(sketch_dim=64, sparsity=4, seed=7), index="it`em.x", key="shop", missing="drop")
    assert sketch_per_key(LocalFrame.of(rows, 2), agreement).table() == ss.sketch(rows, agreement)


def test_secrets_are_not_shown() -> None:
    frame: Any = LocalFrame.of(sales(5), 1)
    assert repr(sketch_per_key(frame, agreed())).startswith("<KeyedSketches, secret, of a data frame, SJLT(")
