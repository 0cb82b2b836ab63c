"""Exact counts of units and totals: what bounding sets, in any order, and how far one unit moves them."""

import random
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.bounding import bound_units
from streamsketch.privacy import Neighbours
from streamsketch.privacy.neighbours import Clip
from streamsketch.sketching.table import SketchTable

COARSE = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
FINE = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution="1/8192")


class Row(NamedTuple):
    key: str
    item: int
    value: int
    unit: str


ROWS = st.lists(
    st.builds(Row, st.sampled_from("abc"), st.integers(0, 3), st.integers(-3, 3), st.sampled_from("uvw")), max_size=30
)
WAYS: list[Any] = [
    (COARSE, ss.L1(4, max_keys=3), "scale"),
    (COARSE, ss.L1(4, max_keys=3), "cut"),
    (FINE, ss.SketchL2(2, max_keys=3), "scale"),
    (FINE, ss.SketchL2(2, max_keys=3), "equal"),
]


def table_of(
    rows: Iterable[Row], projection: ss.projections.Projection, neighbours: Neighbours, clip: Clip
) -> SketchTable:
    columns = list(zip(*rows, strict=True)) or [()] * 4
    batch: Any = [list(column) for column in columns]
    return bound_units([tuple(batch)] if batch[0] else [], projection, neighbours=neighbours, clip=clip)


def counts_of(table: SketchTable) -> dict[str, list[int]]:
    counts = table.counts
    assert counts is not None
    return {key: row for key, row in zip(table, counts.tolist(), strict=True) if any(row)}


def expected(rows: Iterable[Row], neighbours: Neighbours) -> dict[str, list[int]]:
    """Return units and totals by key, one unit after the other."""
    sums: dict[tuple[str, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        sums[row.unit, row.key][row.item] += row.value
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for (_, key), items in sums.items():
        size = sum(map(abs, items.values()))
        found[key][0] += size > 0
        found[key][1] += min(size, int(neighbours.bound)) if isinstance(neighbours, ss.L1) else 0
    return {key: row for key, row in found.items() if any(row)}


@given(rows=ROWS, way=st.sampled_from(WAYS), order=st.randoms())
def test_counts_are_those_of_a_loop_in_any_order(rows: list[Row], way: Any, order: random.Random) -> None:
    """The vectors of items 0 to 3 have no collision that would leave a unit without cells."""
    assert counts_of(table_of(rows, *way)) == expected(rows, way[1])
    order.shuffle(rows)
    assert counts_of(table_of(rows, *way)) == expected(rows, way[1])


@given(rows=ROWS, way=st.sampled_from(WAYS), keys=st.integers(1, 2))
def test_removing_a_unit_moves_counts_by_one_in_as_many_keys_as_it_may_be(rows: list[Row], way: Any, keys: int) -> None:
    projection, neighbours, clip = way
    few = type(neighbours)(neighbours.bound, max_keys=keys)
    with_it = counts_of(table_of([row for row in rows if row.unit == "u"], projection, few, clip))
    assert len(with_it) <= keys
    assert all(units == 1 and total <= neighbours.bound for units, total in with_it.values())


@given(rows=ROWS, way=st.sampled_from(WAYS))
def test_counts_of_disjoint_parts_add_up(rows: list[Row], way: Any) -> None:
    parts = [table_of([row for row in rows if row.unit == unit], *way) for unit in "uvw"]
    whole = parts[0]
    for part in parts[1:]:
        whole.merge(part, disjoint_units=True)
    assert counts_of(whole) == expected(rows, way[1])


@pytest.mark.parametrize("way", WAYS)
def test_a_table_of_no_rows_has_counts(way: Any) -> None:
    table = table_of([], *way)
    assert table.counts is not None
    assert table.counts.shape == (0, 2)
    counts = table.sketch_of("a").counts
    assert counts is not None
    assert counts.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("neighbours", "max_keys"), [(ss.L2(3), None), (ss.L1(3), 2)], ids=["L2", "keys bounded together"]
)
def test_other_bounds_do_not_count(neighbours: Neighbours, max_keys: int | None) -> None:
    batch = (["a", "b"], [1, 2], [1, 1], ["u", "u"])
    table = bound_units([batch], COARSE, neighbours=neighbours, max_keys=max_keys)
    assert table.counts is None


def test_a_unit_whose_cells_round_to_nothing_in_a_key_does_not_count_there() -> None:
    """Its item in key b is one part in 2^20 of its sketch: nothing is left there, and no key."""
    rows = [Row("a", 1, 1 << 20, "u"), Row("b", 2, 1, "u")]
    assert list(table_of(rows, FINE, ss.SketchL2(1, max_keys=2), "equal")) == ["a"]
    wide = table_of([*rows, Row("b", 2, 1, "v")], FINE, ss.SketchL2(1, max_keys=2), "equal")
    assert counts_of(wide) == {"a": [1, 0], "b": [1, 0]}


def test_an_agreement_says_what_is_counted_and_a_release_follows() -> None:
    neighbours = ss.SketchL2(1, unit="customer", max_keys=2)
    agreement = ss.Agreement(
        FINE,
        index="item",
        key="key",
        unit="customer",
        neighbours=neighbours,
        clip="equal",
        counting=ss.privacy.Counting.of(FINE, neighbours, delta=1e-6),
    )
    rows = pa.table({"key": ["a", "b", "a"], "item": ["tea", "tea", "jam"], "customer": ["Ann", "Ann", "Bob"]})
    budget: Any = {"epsilon": 100, "delta": 1e-6, "neighbours": neighbours, "public_keys": ["a", "b", "none"]}
    for given_rows, counts in ((rows, [2, 1, 0]), (rows.slice(0, 0), [0, 0, 0])):
        table = ss.bound(given_rows, agreement)
        assert isinstance(table, SketchTable)
        released = table.release(**budget)
        assert [released[key].clip for key in released] == ["equal"] * 3
        units = [released[key].units for key in released]
        for found, count in zip(units, counts, strict=True):
            assert abs(found.value - count) < 20 * found.standard_error
            assert found.standard_error < 1
        plain = ss.sketch(given_rows, agreement)
        assert isinstance(plain, SketchTable)
        asserted = plain.release(**budget)
        assert [asserted[key].counts for key in asserted] == [None] * 3
        assert [asserted[key].clip for key in asserted] == [None] * 3


def test_totals_count_modulo_a_word() -> None:
    """2^60 steps of each of 17 units are one of 2^60 more than 2^64."""
    big = 1 << 60
    batch = (["a"] * 17, [1] * 17, [big] * 17, [f"u{i}" for i in range(17)])
    table = bound_units([batch], COARSE, neighbours=ss.L1(big))
    counts = table.counts
    assert counts is not None
    assert counts.tolist() == [[17, big]]
    assert counts.dtype == np.int64
